// One 16-bit voice from two 24-bit channels: choice of channel, removal of the offset, gain. No sample of delay.
//
//   s_axis ─► [ left, right or mean ] ─► [ less its running mean ] ─► [ x gain ] ─► [ round, saturate ] ─► m_axis
//       clock 0                   clock 1                     clock 2, 3           clock 4, 5
//
// The sums are exact until the one rounding at the end. The running mean follows with a time constant of 2048 samples
// (43 ms; the corner is 48000 / (2 pi 2048) = 3.7 Hz) whether it is taken off or not, so that switching it on does not
// click. In integers: y = x - (total >> 11), total += y, which takes a constant off to the last bit.
//
// Left, unity and no removal give a sample of 16 bits, moved up by 8, back as it was.

module input_mixer (
    input  logic        clk,
    input  logic        rst,
    // {right, left} at 48 kHz, at least 6 clocks apart; a converter cannot wait, so there is no tready
    input  logic [47:0] s_axis_tdata,
    input  logic        s_axis_tvalid,
    // settings, taken with each sample: 0 left, 1 right, 2 and 3 the mean of both; Q4.12; take the offset off
    input  logic [ 1:0] channel,
    input  logic [15:0] gain,
    input  logic        remove_dc,
    // 16-bit mono
    output logic [15:0] m_axis_tdata,
    output logic        m_axis_tvalid,
    // with the sample: a chosen channel was at full scale in its upper 16 bits, or the result did not fit
    output logic        clipped,
    // the next clock changes something
    output logic        busy
);

  localparam int MeanShift = 11;
  localparam logic signed [43:0] Half = 44'sd1 << 20;

  logic [15:0] left_top, right_top;
  logic signed [23:0] left, right;
  logic left_full, right_full;

  assign {right, left} = s_axis_tdata;
  assign left_top      = left[23:8];
  assign right_top     = right[23:8];
  assign left_full     = left_top == 16'h7FFF || left_top == 16'h8000;
  assign right_full    = right_top == 16'h7FFF || right_top == 16'h8000;

  logic step1_q, step2_q, step3_q, step4_q, step5_q;
  logic remove_q, full_q;
  logic [15:0] gain_q;
  logic signed [24:0] mixed_q;  // twice the sample: the sum of both channels, or one of them doubled
  logic signed [24+MeanShift:0] total_q;
  logic signed [25:0] centred, voice_q;

  assign centred = 26'(mixed_q) - 26'(total_q >>> MeanShift);

  // ---- gain: one multiplier, first the upper 17 bits of the voice, then the lower 9 ----------------------------------

  logic signed [16:0] factor;
  logic signed [34:0] product_q;
  logic signed [43:0] sum_q, rounded;
  logic fits;

  assign factor  = step2_q ? voice_q[25:9] : {8'd0, voice_q[8:0]};
  assign rounded = sum_q >>> 21;
  assign fits    = rounded[43:15] == '0 || rounded[43:15] == '1;

  always_ff @(posedge clk) begin
    if (rst) begin
      {step1_q, step2_q, step3_q, step4_q, step5_q} <= '0;
      remove_q                                      <= 1'b0;
      full_q                                        <= 1'b0;
      gain_q                                        <= '0;
      mixed_q                                       <= '0;
      total_q                                       <= '0;
      voice_q                                       <= '0;
      product_q                                     <= '0;
      sum_q                                         <= '0;
      m_axis_tdata                                  <= '0;
      m_axis_tvalid                                 <= 1'b0;
      clipped                                       <= 1'b0;
    end else begin
      step1_q       <= s_axis_tvalid;
      step2_q       <= step1_q;
      step3_q       <= step2_q;
      step4_q       <= step3_q;
      step5_q       <= step4_q;
      m_axis_tvalid <= step5_q;
      clipped       <= step5_q && (full_q || !fits);
      if (s_axis_tvalid) begin
        remove_q <= remove_dc;
        gain_q   <= gain;
        full_q   <= (left_full && channel != 2'd1) || (right_full && channel != 2'd0);
        mixed_q  <= 25'(channel == 2'd1 ? right : left) + 25'(channel == 2'd0 ? left : right);
      end
      if (step1_q) begin
        total_q <= total_q + (25 + MeanShift)'(centred);
        voice_q <= remove_q ? centred : 26'(mixed_q);
      end
      if (step2_q || step3_q) product_q <= factor * $signed({1'b0, gain_q});
      if (step3_q) sum_q <= (44'(product_q) <<< 9) + Half;
      if (step4_q) sum_q <= sum_q + 44'(product_q);
      if (step5_q) m_axis_tdata <= fits ? rounded[15:0] : {rounded[43], {15{!rounded[43]}}};
    end
  end

  assign busy = s_axis_tvalid || step1_q || step2_q || step3_q || step4_q || step5_q || m_axis_tvalid;

endmodule
