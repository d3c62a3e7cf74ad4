// What the spectrum of a hop says for speech, 0 to 255: the octaves of power by which its bins exceed their noise, added
// up and averaged with the hops before by a weight of 1/2. Steady noise seldom exceeds its estimate by `BinMargin`.
//
//   bin_level - bin_noise ─► [over the margin, at most 24 dB] ─► [sum of bins 3 to 57] ─► [average] ─► evidence
//
// A bin counts twice under 1 kHz and half from 4 kHz on, so that each octave of the spectrum says about as much as the next.

module vad_evidence (
    input  logic        clk,
    input  logic        rst,
    // added to the margin: makes everything count less while a reply is audible
    input  logic [15:0] margin,
    // the denoiser's spectrum, bins 0 to 64 of a hop in order; log2 of power, Q6.10
    input  logic        bin_valid,
    input  logic [ 6:0] bin_index,
    input  logic [15:0] bin_level,
    input  logic [15:0] bin_noise,
    // changes three clocks after bin 64
    output logic [ 7:0] evidence,
    // the next clock changes something
    output logic        busy
);

  localparam logic [16:0] BinMargin = 17'd1024;
  localparam logic [6:0] BinFirst = 7'd3;  // 375 Hz, over most rumble
  localparam logic [6:0] BinSingle = 7'd8;
  localparam logic [6:0] BinHalf = 7'd32;
  localparam logic [6:0] BinLast = 7'd57;  // 7.1 kHz

  // Stage 1: the level over the noise.
  logic valid1_q, first1_q, counted1_q, double1_q, half1_q, last1_q;
  logic signed [16:0] over_noise_q;

  // Stage 2: over the margin too.
  logic valid2_q, first2_q, last2_q;
  logic signed [18:0] over_margin;
  logic [12:0] excess;
  logic [13:0] weighted, weighted_q;

  assign over_margin = 19'(over_noise_q) - $signed(19'(17'(margin) + BinMargin));

  always_comb begin
    if (over_margin[18] || !counted1_q) excess = '0;
    else if (over_margin[17:13] != '0) excess = '1;
    else excess = over_margin[12:0];
    if (double1_q) weighted = {excess, 1'b0};
    else if (half1_q) weighted = {2'b0, excess[12:1]};
    else weighted = {1'b0, excess};
  end

  // Stage 3: the sum, and the average after the last bin.
  logic [18:0] sum_q;
  logic [ 9:0] total;
  logic [ 9:0] average_q;  // in quarters

  assign total = sum_q[18] ? '1 : sum_q[17:8];
  assign evidence = average_q[9:2];

  always_ff @(posedge clk) begin
    if (rst) begin
      {valid1_q, first1_q, counted1_q, double1_q, half1_q, last1_q} <= '0;
      {valid2_q, first2_q, last2_q}                                 <= '0;
      over_noise_q                                                  <= '0;
      weighted_q                                                    <= '0;
      sum_q                                                         <= '0;
      average_q                                                     <= '0;
    end else begin
      valid1_q <= bin_valid;
      valid2_q <= valid1_q;
      if (bin_valid) begin
        over_noise_q <= 17'(bin_level) - 17'(bin_noise);
        first1_q     <= bin_index == 7'd0;
        counted1_q   <= bin_index >= BinFirst && bin_index <= BinLast;
        double1_q    <= bin_index < BinSingle;
        half1_q      <= bin_index >= BinHalf;
        last1_q      <= bin_index == 7'd64;
      end
      if (valid1_q) begin
        weighted_q <= weighted;
        first2_q <= first1_q;
        last2_q <= last1_q;
      end
      if (valid2_q) begin
        sum_q <= first2_q ? '0 : sum_q + 19'(weighted_q);
        if (last2_q) average_q <= 10'((11'(average_q) + 11'(total)) >> 1);
      end
    end
  end

  assign busy = bin_valid || valid1_q || valid2_q;

endmodule
