// Rational L/M polyphase FIR with one multiplier: 16-bit samples in, 16-bit samples out, 18-bit coefficients.
//
// For each input sample x[k], with `phase` 0 at the start:
//   push x[k]; while phase < L: y = sat16((sum_j h[phase + j*L] * x[k-j] + half) >> COEF_FRAC), phase += M; phase -= L
//
// The multiplier takes one tap a clock. With L = 1 the table must be symmetric, and two samples that share a
// coefficient are added before they are multiplied, which halves the work.
//
//   issue a tap ─► [ coefficient, samples ] ─► [ pair ] ─► [ product ] ─► [ sum ] ─► [ output ]

module resampler #(
    // Interpolation: output samples for every M input samples
    parameter int L         = 1,
    // Decimation
    parameter int M         = 3,
    // Coefficients in the table; at least L
    parameter int TAPS      = 57,
    // Fraction bits of the coefficients, which are scaled by L
    parameter int COEF_FRAC = 16,
    // Table of 18-bit two's complement in hexadecimal, one a line; required
    parameter     COEF_FILE = "",
    // Width of tuser
    parameter int USER_W    = 64
) (
    input  logic              clk,
    input  logic              rst,
    // start again from silence: forgets history, phase and an output that was not taken
    input  logic              clear,
    // input samples
    input  logic [      15:0] s_axis_tdata,
    input  logic [USER_W-1:0] s_axis_tuser,
    input  logic              s_axis_tvalid,
    output logic              s_axis_tready,
    // output samples; tuser is that of the newest input sample in the sum
    output logic [      15:0] m_axis_tdata,
    output logic [USER_W-1:0] m_axis_tuser,
    output logic              m_axis_tvalid,
    input  logic              m_axis_tready,
    // the next clock changes something
    output logic              busy
);

  localparam bit Fold = L == 1;
  localparam int Span = (TAPS + L - 1) / L;  // input samples under the filter
  localparam int Steps = Fold ? (TAPS + 1) / 2 : TAPS;  // coefficients that are read
  localparam int HistW = $clog2(Span + 1);
  localparam int CoefW = $clog2(TAPS + L);
  localparam int PhaseW = $clog2(L + M + 1);
  localparam int SumW = 35 + $clog2(Span + 1);
  localparam logic [SumW-1:0] Half = SumW'(1) << (COEF_FRAC - 1);

  logic signed [17:0] coefficients[TAPS];
  logic signed [15:0] history[2**HistW];

  initial begin
    $readmemh(COEF_FILE, coefficients);
`ifndef SYNTHESIS
    if (L < 1 || M < 1) $fatal(1, "resampler: L and M must be at least 1");
    if (TAPS < L || TAPS < 2) $fatal(1, "resampler: TAPS must be at least 2 and at least L");
    if (COEF_FRAC < 1 || COEF_FRAC > 17) $fatal(1, "resampler: COEF_FRAC must be 1 to 17");
    for (int i = 0; i < TAPS; i++) begin
      if (^coefficients[i] === 1'bx) $fatal(1, "resampler: COEF_FILE holds fewer than TAPS coefficients");
      if (Fold && coefficients[i] != coefficients[TAPS-1-i]) $fatal(1, "resampler: L = 1 needs a symmetric table");
    end
`endif
  end

  // ---- control: which tap of which output ----------------------------------------------------------------------------

  logic run_q;  // taps are being issued
  logic [PhaseW-1:0] phase_q;
  logic [CoefW-1:0] coef_q;  // address of the coefficient to issue
  logic [HistW-1:0] tap_q;  // how many samples before the newest
  logic [HistW-1:0] newest_q;  // where the newest sample lies
  logic [HistW-1:0] filled_q;  // samples since the start, at most Span
  logic [USER_W-1:0] user_q;

  logic accept, advance, last_tap;
  logic [PhaseW-1:0] phase_next;
  logic [ HistW-1:0] write_address;

  assign accept = s_axis_tvalid && s_axis_tready;
  assign last_tap = int'(coef_q) + L >= Steps;
  assign phase_next = phase_q + PhaseW'(M);
  assign write_address = newest_q + 1'b1;

  always_ff @(posedge clk) begin
    if (rst || clear) begin
      run_q    <= 1'b0;
      phase_q  <= '0;
      coef_q   <= '0;
      tap_q    <= '0;
      newest_q <= '0;
      filled_q <= '0;
      user_q   <= '0;
    end else if (accept) begin
      newest_q <= write_address;
      user_q   <= s_axis_tuser;
      coef_q   <= CoefW'(phase_q);
      tap_q    <= '0;
      if (int'(filled_q) < Span) filled_q <= filled_q + 1'b1;
      if (int'(phase_q) < L) run_q <= 1'b1;
      else phase_q <= phase_q - PhaseW'(L);
    end else if (run_q && advance) begin
      coef_q <= coef_q + CoefW'(L);
      tap_q  <= tap_q + 1'b1;
      if (last_tap) begin
        coef_q  <= CoefW'(phase_next);
        tap_q   <= '0;
        run_q   <= int'(phase_next) < L;
        phase_q <= int'(phase_next) < L ? phase_next : phase_next - PhaseW'(L);
      end
    end
  end

  always_ff @(posedge clk) if (accept) history[write_address] <= s_axis_tdata;

  // ---- datapath ------------------------------------------------------------------------------------------------------

  // Samples older than the start are silence, whatever the memory holds.
  logic [HistW-1:0] mirror_tap, near_address, far_address;
  logic near_real, far_real;
  assign mirror_tap = HistW'(TAPS - 1) - tap_q;
  assign near_address = newest_q - tap_q;
  assign far_address = newest_q - mirror_tap;
  assign near_real = tap_q < filled_q;
  assign far_real = Fold && mirror_tap != tap_q && mirror_tap < filled_q;

  logic signed [15:0] near_q, far_q;
  logic near_real_q, far_real_q;
  logic signed [17:0] coefficient_q, pair_coefficient_q;
  logic signed [16:0] pair_q;
  logic signed [34:0] product_q;
  logic signed [SumW-1:0] sum_q;
  logic tap_valid_q, tap_first_q, tap_last_q, pair_valid_q, pair_first_q, pair_last_q;
  logic product_valid_q, product_first_q, product_last_q, sum_valid_q;

  always_ff @(posedge clk) begin
    if (advance) begin
      coefficient_q      <= coefficients[coef_q];
      near_q             <= history[near_address];
      far_q              <= history[far_address];
      near_real_q        <= near_real;
      far_real_q         <= far_real;
      tap_first_q        <= tap_q == '0;
      tap_last_q         <= last_tap;
      pair_q             <= 17'(near_real_q ? near_q : 16'sd0) + 17'(far_real_q ? far_q : 16'sd0);
      pair_coefficient_q <= coefficient_q;
      pair_first_q       <= tap_first_q;
      pair_last_q        <= tap_last_q;
      product_q          <= pair_q * pair_coefficient_q;
      product_first_q    <= pair_first_q;
      product_last_q     <= pair_last_q;
      if (product_valid_q) sum_q <= SumW'(product_q) + (product_first_q ? $signed(Half) : sum_q);
    end
    if (rst || clear) begin
      {tap_valid_q, pair_valid_q, product_valid_q, sum_valid_q} <= '0;
    end else if (advance) begin
      tap_valid_q     <= run_q;
      pair_valid_q    <= tap_valid_q;
      product_valid_q <= pair_valid_q;
      sum_valid_q     <= product_valid_q && product_last_q;
    end
  end

  // ---- output --------------------------------------------------------------------------------------------------------

  logic signed [SumW-1:0] rounded;
  logic fits;
  assign rounded = sum_q >>> COEF_FRAC;
  assign fits = rounded[SumW-1:15] == '0 || rounded[SumW-1:15] == '1;

  // A finished sum waits for the output register, and everything behind it waits too.
  logic output_free;
  assign output_free = !m_axis_tvalid || m_axis_tready;
  assign advance     = !sum_valid_q || output_free;

  // The stream's tuser and history are held until the last output that needs them has left the datapath.
  logic working;
  assign working       = run_q || tap_valid_q || pair_valid_q || product_valid_q || sum_valid_q;
  assign s_axis_tready = !working && !clear;
  assign busy          = (working && advance) || (m_axis_tvalid && m_axis_tready) || accept;

  always_ff @(posedge clk) begin
    if (rst || clear) begin
      m_axis_tvalid <= 1'b0;
      m_axis_tdata  <= '0;
      m_axis_tuser  <= '0;
    end else if (output_free) begin
      m_axis_tvalid <= sum_valid_q;
      if (sum_valid_q) begin
        m_axis_tdata <= fits ? rounded[15:0] : {rounded[SumW-1], {15{!rounded[SumW-1]}}};
        m_axis_tuser <= user_q;
      end
    end
  end

endmodule
