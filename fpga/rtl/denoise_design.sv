// The noise reduction's filter design: 65 gains -> 31 taps of a symmetric filter, once a hop.
//
//   A[k] = G[k] + G[64-k], B[k] = G[k] - G[64-k]; S = A for even n, B for odd n
//   r[n] = (S[0] + 2 sum_{k=1..31} S[k] cos(2 pi k n / 128) + 2 G[32] cos(pi n / 2)) / 128       inverse transform, Q1.16
//   h[n] = r[n] q[n]                                                                          tapered, Q2.14; n = 0..30
//
// A pass over k = 0..32 makes each r, and in the slot after its last term the r of the pass before is tapered. G[32] lies
// in A[32] and needs no exception: its cosine is 0 for odd n.
//
//   gains ─► {B, A} memory ─► [S, cosine] ─► multiplier, two clocks ─► [sum] ─► [r]
//                             [r, taper ] ─► multiplier, two clocks ─► tap

module denoise_design #(
    // Folder of the tables, with a closing slash
    parameter FILTERS = "fpga/filters/"
) (
    input  logic        clk,
    input  logic        rst,
    // gains, Q1.15, in the order of the bins 0, 64, 1, 63, .. 31, 33, 32; the last one starts the work
    input  logic        gain_valid,
    input  logic [ 6:0] gain_index,
    input  logic [15:0] gain,
    // a multiplier that is free from then until the last tap; its product comes two clocks after the factors
    output logic        factors_valid,
    output logic [17:0] factor_x,
    output logic [17:0] factor_y,
    input  logic [35:0] product,
    // taps, Q2.14, the centre first
    output logic        tap_valid,
    output logic [ 4:0] tap_index,
    output logic [15:0] tap,
    // with the last tap
    output logic        done,
    // the next clock changes something
    output logic        busy
);

  localparam logic [5:0] LastTerm = 6'd32;
  localparam logic [5:0] TaperSlot = 6'd33;
  localparam logic [5:0] LateTerm = 6'd28;  // a last pass from here on only tapers the last r, when it is ready
  localparam logic [4:0] LastTap = 5'd30;
  localparam logic signed [39:0] Half = 40'sd2097152;

  logic [17:0] cosines[128];
  logic [16:0] taper  [ 32];
  logic [33:0] folded [ 64];

  initial begin
    $readmemh({FILTERS, "cosine_128.hex"}, cosines);
    $readmemh({FILTERS, "denoise_taper.hex"}, taper, 0, 30);
  end

  // ---- gains ---------------------------------------------------------------------------------------------------------

  logic [15:0] first_q;  // G[k] waits for G[64-k]
  logic [ 5:0] fold_index;
  logic [16:0] fold_sum, fold_difference;
  assign fold_index      = 6'(7'd64 - gain_index);
  assign fold_sum        = 17'(gain_index == 7'd32 ? '0 : first_q) + 17'(gain);
  assign fold_difference = 17'(first_q) - 17'(gain);

  always_ff @(posedge clk) begin
    if (gain_valid && gain_index < 7'd32) first_q <= gain;
    if (gain_valid && gain_index >= 7'd32) folded[fold_index] <= {fold_difference, fold_sum};
  end

  // ---- which term ----------------------------------------------------------------------------------------------------

  logic run_q;
  logic [4:0] tap_q;  // n; one more than the last for the pass that only tapers
  logic [5:0] term_q;  // k
  logic [6:0] angle_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      run_q   <= 1'b0;
      tap_q   <= '0;
      term_q  <= '0;
      angle_q <= '0;
    end else if (run_q) begin
      term_q  <= term_q + 1'b1;
      angle_q <= angle_q + 7'(tap_q);
      if (term_q == TaperSlot) begin
        term_q  <= tap_q == LastTap ? LateTerm : '0;
        angle_q <= '0;
        tap_q   <= tap_q + 1'b1;  // wraps after the last pass
        run_q   <= tap_q != '1;
        if (tap_q == '1) term_q <= '0;
      end
    end else begin
      run_q <= gain_valid && gain_index == 7'd32;
    end
  end

  // ---- read ----------------------------------------------------------------------------------------------------------

  logic [33:0] folded_q;
  logic [17:0] cosine_q;
  logic [16:0] taper_q;
  logic signed [17:0] rounded_q;  // r of the pass before, Q1.16
  logic odd_q;
  logic read_valid_q, read_first_q, read_last_q, read_taper_q;

  logic [4:0] taper_index;
  assign taper_index = tap_q - 1'b1;

  always_ff @(posedge clk) begin
    if (run_q) begin
      folded_q     <= folded[term_q];
      cosine_q     <= cosines[angle_q];
      odd_q        <= tap_q[0];
      read_first_q <= term_q == '0;
      read_last_q  <= term_q == LastTerm;
      read_taper_q <= term_q == TaperSlot;
      if (term_q == TaperSlot) taper_q <= taper[taper_index];
    end
    if (rst) read_valid_q <= 1'b0;
    else read_valid_q <= run_q;
  end

  assign factors_valid = read_valid_q;

  logic signed [17:0] even_factor, odd_factor;
  assign even_factor = {1'b0, folded_q[16:0]};
  assign odd_factor  = {folded_q[33], folded_q[33:17]};
  assign factor_x    = read_taper_q ? rounded_q : odd_q ? odd_factor : even_factor;
  assign factor_y    = read_taper_q ? {1'b0, taper_q} : cosine_q;

  // ---- add -----------------------------------------------------------------------------------------------------------

  logic [1:0] valid_q, first_term_q, last_term_q, taper_slot_q;  // of the factors, of the product
  logic sum_valid_q;
  logic signed [39:0] sum_q, sum_base, sum_term;
  logic signed [35:0] tapered;

  assign sum_base = first_term_q[1] ? Half : sum_q;
  assign sum_term = first_term_q[1] ? 40'($signed(product)) : 40'($signed({product, 1'b0}));

  always_ff @(posedge clk) begin
    if (read_valid_q || valid_q != '0) begin
      first_term_q <= {first_term_q[0], read_first_q};
      last_term_q  <= {last_term_q[0], read_last_q};
      taper_slot_q <= {taper_slot_q[0], read_taper_q};
    end
    if (valid_q[1] && !taper_slot_q[1]) sum_q <= sum_base + sum_term;
    if (sum_valid_q) rounded_q <= 18'(sum_q >>> 22);
    if (rst) begin
      valid_q     <= '0;
      sum_valid_q <= 1'b0;
    end else begin
      valid_q     <= {valid_q[0], read_valid_q};
      sum_valid_q <= valid_q[1] && last_term_q[1];
    end
  end

  // ---- taps ----------------------------------------------------------------------------------------------------------

  // The first pass tapers what was there before.
  logic first_pass_q;

  assign tapered   = $signed(product) + 36'sd131072;
  assign tap       = 16'(tapered >>> 18);
  assign tap_valid = valid_q[1] && taper_slot_q[1] && !first_pass_q;
  assign done      = tap_valid && tap_index == LastTap;
  assign busy      = gain_valid || run_q || read_valid_q || valid_q != '0 || sum_valid_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      tap_index    <= '0;
      first_pass_q <= 1'b1;
    end else if (valid_q[1] && taper_slot_q[1]) begin
      first_pass_q <= done;
      if (tap_valid) tap_index <= done ? '0 : tap_index + 1'b1;
    end
  end

endmodule
