// The noise reduction's rule: from how far a bin's level is over its noise to the gain of the bin.
//
//   posterior = 2^ratio, with 2^m ~ 1 + m - 11/32 m (1 - m) for a fraction m                           Q9.8
//   excess    = max(posterior - 1, 0)
//   prior     = excess + smoothing (kept - excess)         the decision-directed ratio of speech to noise, Q9.8
//   w         = prior / (1 + prior)                        Wiener's gain: a table over log2(1 + 256 prior), as of log2.sv,
//                                                          which counts at most up to `cap`
//   kept      = w^2 posterior                              for the next hop; a word a bin
//   gain      = max(w, floor)                              in bins 0 to 3 max(w, min(floor, 1/8))
//
// (Ephraim and Malah, IEEE Trans. Acoust., Speech, Signal Proc. 32(6), 1984.) The five products share a multiplier.
//
//   clock  1     3      4          5        6           8      9     10    12     13     14 15   17        18          20
//          2^m ─► bend, posterior, excess ─► smoothing ─► prior, log2 ─► bend, address, w ─► square ─► posterior ─► kept

module denoise_gain #(
    // Folder of the tables, with a closing slash
    parameter FILTERS = "fpga/filters/"
) (
    input  logic               clk,
    input  logic               rst,
    // settings, which hold for the whole of a hop
    input  logic               bypass,
    input  logic        [15:0] floor,
    input  logic        [15:0] smoothing,
    // how far the levels are over their noise, Q6.10, -10 to under 9, in the order of the bins 0, 64, 1, 63, .. 31, 33, 32;
    // and the most that the speech in them may be over it, log2 in Q6.10, of a ratio in Q9.8
    input  logic               ratio_valid,
    output logic               ratio_ready,
    input  logic        [ 6:0] ratio_index,
    input  logic signed [14:0] ratio,
    input  logic        [14:0] cap,
    // a multiplier, free until the last gain is out; its product comes two clocks after the factors
    output logic               factors_valid,
    output logic        [17:0] factor_x,
    output logic        [17:0] factor_y,
    input  logic        [35:0] product,
    // gains, Q1.15, in the same order
    output logic               gain_valid,
    output logic        [ 6:0] gain_index,
    output logic        [15:0] gain,
    // the next clock changes something
    output logic               busy
);

  localparam int GainWords = 272;
  localparam logic [15:0] Unity = 16'd32768;
  localparam logic [16:0] One = 17'd256;  // in Q9.8
  localparam logic [6:0] LastBin = 7'd32;  // in the order of the bins
  localparam logic [4:0] LastStep = 5'd20;
  localparam logic [6:0] FloorFrom = 7'd4;  // the first bin that may not be rumble
  localparam logic [15:0] LowFloor = 16'd4096;  // of those that may

  (* rom_style = "block" *)
  logic [15:0] wiener[512];
  logic [16:0] kept  [128];

  initial $readmemh({FILTERS, "denoise_gain.hex"}, wiener, 0, GainWords - 1);

  logic take;
  logic [4:0] step_q;  // 0: nothing to do
  logic [6:0] index_q;
  logic fresh_q;  // no hop since reset: the memory holds nothing

  assign ratio_ready = step_q == '0 || step_q == LastStep;
  assign take        = ratio_valid && ratio_ready;

  always_ff @(posedge clk) begin
    if (rst) begin
      step_q  <= '0;
      fresh_q <= 1'b1;
    end else begin
      if (take) step_q <= 5'd1;
      else if (step_q == LastStep) step_q <= '0;
      else if (step_q != '0) step_q <= step_q + 1'b1;
      if (gain_valid && index_q == LastBin) fresh_q <= 1'b0;
    end
    if (take) index_q <= ratio_index;
  end

  // ---- steps ---------------------------------------------------------------------------------------------------------

  logic [14:0] ratio_q, cap_q;
  logic [16:0] posterior_q, excess_q, kept_q, raised_q;  // raised: 1 more than 256 times the prior ratio
  logic signed [17:0] climb_q;
  logic [15:0] wiener_q, square_q, least_q;
  logic floored_q;
  logic [4:0] exponent_q;
  logic [9:0] mantissa_q;
  logic [8:0] address_q;

  // 11/32 m (1 - m)
  logic [24:0] bend_sum;
  logic [6:0] bend_q;
  assign bend_sum = 25'({product[18:0], 3'd0}) + 25'({product[18:0], 1'd0}) + 25'(product[18:0]);

  // 2^ratio: from an exponent of 8 down.
  logic [ 9:0] ratio_m;
  logic [10:0] curve;
  logic [ 4:0] shift;
  assign ratio_m = ratio_q[9:0];
  assign curve   = 11'd1024 + 11'(ratio_m) - 11'(bend_q);
  assign shift   = 5'd8 - ratio_q[14:10];

  logic [16:0] excess;
  assign excess = posterior_q > One ? posterior_q - One : '0;

  logic [16:0] smoothed, rounded;
  assign smoothed = 17'(($signed(product) + 36'sd32768) >>> 16);
  assign rounded  = 17'(($signed(product) + 36'sd16384) >>> 15);

  logic [ 4:0] exponent;
  logic [14:0] logarithm;
  always_comb begin
    exponent = '0;
    for (int i = 0; i < 17; i++) if (raised_q[i]) exponent = 5'(i);
  end
  assign logarithm = {exponent_q, mantissa_q} + 15'(bend_q);

  always_ff @(posedge clk) begin
    if (take) begin
      ratio_q <= ratio;
      cap_q   <= cap;
      kept_q  <= kept[ratio_index];
    end
    case (step_q)
      5'd3, 5'd12: bend_q <= 7'(bend_sum >> 15);
      5'd4: posterior_q <= 17'({1'b0, curve, 6'd0} >> shift);
      5'd5: begin
        excess_q <= excess;
        climb_q  <= 18'(fresh_q ? '0 : kept_q) - 18'(excess);
      end
      5'd8: raised_q <= excess_q + smoothed + 17'd1;
      5'd9: begin
        exponent_q <= exponent;
        mantissa_q <= 10'({raised_q, 10'd0} >> exponent);
      end
      5'd13: address_q <= 9'((logarithm < cap_q ? logarithm : cap_q) >> 6);
      5'd14: begin
        wiener_q <= wiener[address_q];
        least_q  <= index_q < FloorFrom && floor > LowFloor ? LowFloor : floor;
      end
      5'd15: floored_q <= wiener_q < least_q;
      5'd16: gain <= bypass ? Unity : floored_q ? least_q : wiener_q;
      5'd17: square_q <= 16'(rounded);
      5'd20: kept[index_q] <= rounded;
      default: ;
    endcase
  end

  always_comb begin
    factors_valid = 1'b1;
    factor_x      = {8'd0, ratio_m};
    factor_y      = 18'd1024 - {8'd0, ratio_m};
    case (step_q)
      5'd1: ;
      5'd6: begin
        factor_x = climb_q;
        factor_y = {2'd0, smoothing};
      end
      5'd10: begin
        factor_x = {8'd0, mantissa_q};
        factor_y = 18'd1024 - {8'd0, mantissa_q};
      end
      5'd15: begin
        factor_x = {2'd0, wiener_q};
        factor_y = {2'd0, wiener_q};
      end
      5'd18: begin
        factor_x = {2'd0, square_q};
        factor_y = {1'b0, posterior_q};
      end
      default: factors_valid = 1'b0;
    endcase
  end

  assign gain_valid = step_q == LastStep;
  assign gain_index = index_q;
  assign busy       = ratio_valid || step_q != '0;

endmodule
