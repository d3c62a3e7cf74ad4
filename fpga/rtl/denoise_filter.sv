// The noise reduction's filter in the path: 61 symmetric taps, 30 samples of delay, one multiplier, coefficients that move.
//
//   y[n] = sat16((c[0] x[n-30] + sum_{i=1..30} c[i] (x[n-30-i] + x[n-30+i]) + 2^15) >> 16)
//
// All of a sum that does not need the newest sample is made while that sample is awaited: a pass over the 31 taps begins
// with each sample, in the clock that takes it, and leaves c[30] at the multiplier for the next one.
//
//   history ─► [near, far] ─► [ pair        ] ─► [product] ─► [sum] ─► [output]
//   state ───► [c20, move] ─► [ coefficient ]
//                  newest ─► [ pair ]
//
// The state is 16 times a tap in Q2.14. A step adds `move`, the difference between the taps that were written and those
// before, so that 16 steps are a linear cross-fade which ends exactly on the new taps. The first step finds the
// difference (before it the state is 16 times the old taps) and puts it in the place of the new tap.

module denoise_filter #(
    // Width of tuser
    parameter int USER_W = 64
) (
    input  logic              clk,
    input  logic              rst,
    // input samples
    input  logic [      15:0] s_axis_tdata,
    input  logic [USER_W-1:0] s_axis_tuser,
    input  logic              s_axis_tvalid,
    output logic              s_axis_tready,
    // output samples; tuser is that of the input sample that pushed the output out
    output logic [      15:0] m_axis_tdata,
    output logic [USER_W-1:0] m_axis_tuser,
    output logic              m_axis_tvalid,
    input  logic              m_axis_tready,
    // new taps, Q2.14, the centre first; not while a fade's first step may be running
    input  logic              tap_valid,
    input  logic [       4:0] tap_index,
    input  logic [      15:0] tap,
    // taken with a sample: move the coefficients before the next one is filtered; that is the first of 16 steps
    input  logic              step,
    input  logic              step_first,
    // the next clock changes something
    output logic              busy
);

  localparam logic [4:0] Last = 5'd30;  // also the delay, and the number of samples on either side of the centre
  localparam int SumW = 39;  // 61 times the largest product
  localparam logic signed [SumW-1:0] Half = SumW'(1) << 15;
  localparam logic signed [19:0] Unity = 20'sd262144;  // 1 as state, Q2.18

  logic signed [15:0] history[64];
  logic signed [19:0] state  [32];
  logic signed [16:0] moves  [32];  // or taps that wait for their fade

  // ---- which tap -----------------------------------------------------------------------------------------------------

  logic accept, run;
  logic [4:0] tap_q;  // 0: none, unless a sample comes
  logic [5:0] centre_q;  // where the next output's centre lies
  logic [5:0] filled_q;  // samples before the newest, since reset; at most 59
  logic [USER_W-1:0] user_q;
  logic read_valid_q;

  assign s_axis_tready = !rst && tap_q == '0 && !read_valid_q && !m_axis_tvalid;
  assign accept        = s_axis_tvalid && s_axis_tready;
  assign run           = accept || tap_q != '0;

  always_ff @(posedge clk) begin
    if (rst) begin
      tap_q    <= '0;
      centre_q <= '0;
      filled_q <= '0;
      user_q   <= '0;
    end else if (run) begin
      tap_q <= tap_q == Last ? '0 : tap_q + 1'b1;
      if (accept) user_q <= s_axis_tuser;
      if (tap_q == Last) begin
        centre_q <= centre_q + 1'b1;
        if (filled_q != 6'd59) filled_q <= filled_q + 1'b1;
      end
    end
  end

  // (Icarus does not wrap a sum inside of the brackets.)
  logic [5:0] write_address, near_address, far_address;
  assign write_address = centre_q + 6'd29;
  assign near_address  = centre_q + 6'(tap_q);
  assign far_address   = centre_q - 6'(tap_q);

  always_ff @(posedge clk) if (accept) history[write_address] <= s_axis_tdata;

  // ---- read ----------------------------------------------------------------------------------------------------------

  logic [4:0] read_tap_q;
  logic signed [15:0] near_q, far_q;
  logic near_real_q, far_real_q;
  logic signed [19:0] state_q;
  logic signed [16:0] move_q;
  logic step_q, step_first_q;

  always_ff @(posedge clk) begin
    if (run) begin
      near_q      <= history[near_address];
      far_q       <= history[far_address];
      // Samples older than the reset are silence, whatever the memory holds. The centre is one sample, and the newest
      // of the last pair has not come.
      near_real_q <= tap_q != Last && 7'(filled_q) + 7'(tap_q) >= 7'd29;
      far_real_q  <= tap_q != '0 && filled_q >= 6'd29 + 6'(tap_q);
      state_q     <= state[tap_q];
      move_q      <= moves[tap_q];
      read_tap_q  <= tap_q;
    end
    if (rst) read_valid_q <= 1'b0;
    else read_valid_q <= run;
  end

  // ---- move the coefficient ------------------------------------------------------------------------------------------

  logic identity_q;  // no fade since reset: the memory of the state holds nothing
  logic signed [19:0] held, moved;
  logic signed [16:0] move;

  always_comb begin
    held = state_q;
    if (identity_q) held = read_tap_q == '0 ? Unity : '0;
    move  = step_first_q ? move_q - 17'(held >>> 4) : move_q;
    moved = step_q ? held + 20'(move) : held;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      step_q       <= 1'b0;
      step_first_q <= 1'b0;
      identity_q   <= 1'b1;
    end else if (accept) begin
      step_q       <= step;
      step_first_q <= step && step_first;
      if (step_first_q) identity_q <= 1'b0;
    end
  end

  always_ff @(posedge clk) if (read_valid_q && step_q) state[read_tap_q] <= moved;

  always_ff @(posedge clk) begin
    if (tap_valid) moves[tap_index] <= 17'($signed(tap));
    else if (read_valid_q && step_first_q) moves[read_tap_q] <= move;
  end

  // ---- multiply and add ----------------------------------------------------------------------------------------------

  logic signed [16:0] pair_q;
  logic signed [17:0] coefficient_q;
  logic signed [34:0] product_q;
  logic signed [SumW-1:0] sum_q;
  logic pair_valid_q, pair_first_q, pair_newest_q;
  logic product_valid_q, product_first_q, product_newest_q, sum_valid_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      {pair_valid_q, product_valid_q, sum_valid_q} <= '0;
      coefficient_q                                <= '0;
      sum_q                                        <= Half;
    end else begin
      pair_valid_q    <= read_valid_q || accept;
      product_valid_q <= pair_valid_q;
      sum_valid_q     <= product_valid_q && product_newest_q;
      if (read_valid_q) coefficient_q <= moved[19:2];
      if (product_valid_q) sum_q <= (product_first_q ? Half : sum_q) + SumW'(product_q);
    end
    if (accept) begin
      pair_q        <= 17'($signed(s_axis_tdata));
      pair_first_q  <= 1'b0;
      pair_newest_q <= 1'b1;
    end else if (read_valid_q) begin
      pair_q        <= 17'(near_real_q ? near_q : 16'sd0) + 17'(far_real_q ? far_q : 16'sd0);
      pair_first_q  <= read_tap_q == '0;
      pair_newest_q <= 1'b0;
    end
    if (pair_valid_q) begin
      product_q        <= pair_q * coefficient_q;
      product_first_q  <= pair_first_q;
      product_newest_q <= pair_newest_q;
    end
  end

  // ---- output --------------------------------------------------------------------------------------------------------

  logic signed [SumW-17:0] rounded;
  logic fits;
  assign rounded = sum_q[SumW-1:16];
  assign fits = rounded[SumW-17:15] == '0 || rounded[SumW-17:15] == '1;
  assign busy    = run || read_valid_q || pair_valid_q || product_valid_q || sum_valid_q || tap_valid ||
      (m_axis_tvalid && m_axis_tready);

  // The register is free: no sample is taken while it is not.
  always_ff @(posedge clk) begin
    if (rst) begin
      m_axis_tvalid <= 1'b0;
      m_axis_tdata  <= '0;
      m_axis_tuser  <= '0;
    end else if (sum_valid_q) begin
      m_axis_tvalid <= 1'b1;
      m_axis_tdata  <= fits ? rounded[15:0] : {rounded[SumW-17], {15{!rounded[SumW-17]}}};
      m_axis_tuser  <= user_q;
    end else if (m_axis_tready) begin
      m_axis_tvalid <= 1'b0;
    end
  end

endmodule
