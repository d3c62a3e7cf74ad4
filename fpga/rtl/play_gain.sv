// Scales the 48 kHz samples. The gain moves a little each tick, so that neither ducking nor a stop clicks.
//
//   tick ─► [ goal ] ─► [ step, distance ] ─► [ level ]     the tick's sample comes later

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
    // at least three cycles after the tick
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

  logic goal_valid_q, step_valid_q;
  logic [15:0] goal_q;  // Q1.15; the gain counts 2^-16 of that
  logic jump_q, fade_q, fade_first_q;
  logic [31:0] level_q, step_q;
  logic signed [32:0] distance_q;  // to the goal
  logic near;

  assign near = distance_q <= $signed({1'b0, step_q}) && -distance_q <= $signed({1'b0, step_q});

  always_ff @(posedge clk) begin
    if (rst) begin
      goal_valid_q <= 1'b0;
      step_valid_q <= 1'b0;
      goal_q       <= '0;
      jump_q       <= 1'b0;
      fade_q       <= 1'b0;
      fade_first_q <= 1'b0;
      distance_q   <= '0;
      step_q       <= '0;
      level_q      <= '0;
    end else begin
      goal_valid_q <= tick;
      step_valid_q <= goal_valid_q;
      if (tick) begin
        goal_q       <= active && fade ? '0 : gain > Unity ? Unity : gain;
        jump_q       <= !active;
        fade_q       <= fade;
        fade_first_q <= fade_first;
      end
      if (goal_valid_q) begin
        distance_q <= $signed({1'b0, goal_q, 16'd0}) - $signed({1'b0, level_q});
        // A fade keeps the step of its first tick.
        if (!fade_q) step_q <= 32'(Unity * 26'(Slope));
        else if (fade_first_q) step_q <= 32'(level_q[31:16] * 26'(Slope));
      end
      if (step_valid_q) begin
        if (jump_q || near) level_q <= {goal_q, 16'd0};
        else level_q <= distance_q < 0 ? level_q - step_q : level_q + step_q;
      end
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

  assign busy = goal_valid_q || step_valid_q || product_valid_q || m_axis_tvalid;

  // A gain of at most one keeps the product within 16 bits.
  logic unused;
  assign unused = ^rounded[32:16];

endmodule
