// Scales the 48 kHz samples. The gain moves a little each tick, so that neither ducking nor a stop clicks.

module play_gain (
    input  logic        clk,
    input  logic        rst,
    // 48 kHz: the gain moves
    input  logic        tick,
    // something plays; otherwise the gain follows its target at once
    input  logic        active,
    // fall to zero in 96 ticks, whatever the gain; fade_first marks the first of them
    input  logic        fade,
    input  logic        fade_first,
    // target, Q1.15; above unity counts as unity
    input  logic [15:0] gain,
    input  logic [15:0] s_axis_tdata,
    input  logic        s_axis_tvalid,
    // two cycles after s_axis
    output logic [15:0] m_axis_tdata,
    output logic        m_axis_tvalid,
    output logic        busy
);

  localparam logic [15:0] Unity = 16'h8000;
  // ceil(65536 / 96): a step of gain * 683 in 2^-16 of a gain count reaches zero in 96 ticks.
  localparam logic [9:0] Slope = 10'd683;

  // ---- gain -------------------------------------------------------------------------------------------------------

  logic [31:0] level_q, level_d, target, fade_step_q, step;
  logic [15:0] step_gain;

  assign target    = {gain > Unity ? Unity : gain, 16'd0};
  assign step_gain = fade ? level_q[31:16] : Unity;
  assign step      = fade && !fade_first ? fade_step_q : 32'(step_gain * 26'(Slope));

  always_comb begin
    if (!active) level_d = target;
    else if (fade) level_d = level_q > step ? level_q - step : '0;
    else if (level_q > target) level_d = level_q - target > step ? level_q - step : target;
    else level_d = target - level_q > step ? level_q + step : target;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      level_q     <= '0;
      fade_step_q <= '0;
    end else if (tick) begin
      level_q     <= level_d;
      fade_step_q <= step;
    end
  end

  // ---- samples ----------------------------------------------------------------------------------------------------

  localparam logic signed [32:0] Half = 33'sd1 << 14;

  logic signed [32:0] product_q, rounded;
  logic product_valid_q;

  assign rounded = (product_q + Half) >>> 15;

  always_ff @(posedge clk) begin
    if (rst) begin
      product_q       <= '0;
      product_valid_q <= 1'b0;
      m_axis_tdata    <= '0;
      m_axis_tvalid   <= 1'b0;
    end else begin
      if (s_axis_tvalid) product_q <= $signed(s_axis_tdata) * $signed({1'b0, level_q[31:16]});
      product_valid_q <= s_axis_tvalid;
      m_axis_tvalid   <= product_valid_q;
      if (product_valid_q) m_axis_tdata <= rounded[15:0];
    end
  end

  assign busy = product_valid_q || m_axis_tvalid;

  // A gain of at most one keeps the product within 16 bits.
  logic unused;
  assign unused = ^rounded[32:16];

endmodule
