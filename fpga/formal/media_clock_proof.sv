// Proof: the media time goes back at a step only, which the epoch counts; the free time never does; a rate correction
// moves the one against the other by half a nanosecond an advance at most.
//
// Times are compared modulo 2^64: "no earlier" is a difference under 2^63.

module media_clock_proof #(
    parameter int CLK_HZ    = 100_000_000,
    parameter int TICK_TIME = 0
) (
    input logic        clk,
    input logic        rst,
    input logic        tick,
    input logic [31:0] rate_adjust,
    input logic        step_valid,
    input logic [63:0] step_ns
);

  localparam bit ByTick = TICK_TIME == 1;

  logic [63:0] now_ns, free_ns, tick_ns;
  logic [31:0] epoch;
  logic        busy;

  media_clock #(
      .CLK_HZ   (CLK_HZ),
      .TICK_TIME(TICK_TIME)
  ) dut (
      .clk,
      .rst,
      .tick,
      .rate_adjust,
      .step_valid,
      .step_ns,
      .now_ns,
      .free_ns,
      .epoch,
      .tick_ns,
      .busy
  );

  logic started_q;
  initial started_q = 1'b0;
  always_ff @(posedge clk) started_q <= 1'b1;
  always_comb if (!started_q) assume (rst);

  // ---- what an advance should add ------------------------------------------------------------------------------------

  // In 2^-32 ns from the fraction of before: whole nanoseconds and the new fraction.
  logic [63:0] longer, media_sum, free_sum;
  logic [31:0] media_add, free_add;
  assign longer    = dut.carry ? 64'd1 << 32 : '0;  // one tick in three is 1 ns longer
  assign media_sum = 64'(dut.media_fraction_q) + dut.Advance + longer + 64'($signed(rate_adjust));
  assign free_sum  = 64'(dut.free_fraction_q) + dut.Advance + longer;
  assign media_add = dut.advance ? media_sum[63:32] : '0;
  assign free_add  = dut.advance ? free_sum[63:32] : '0;

  // The cycle before.
  logic compare_q, step_q;
  logic [63:0] now_q, free_q, stamp_q, step_ns_q;
  logic [31:0] epoch_q, media_add_q, free_add_q, media_fraction_q;
  initial compare_q = 1'b0;

  always_ff @(posedge clk) begin
    compare_q        <= !rst;
    now_q            <= now_ns;
    free_q           <= free_ns;
    stamp_q          <= tick_ns;
    epoch_q          <= epoch;
    step_q           <= step_valid;
    step_ns_q        <= step_valid ? step_ns : '0;
    media_add_q      <= media_add;
    free_add_q       <= free_add;
    media_fraction_q <= dut.advance ? media_sum[31:0] : dut.media_fraction_q;
  end

  // A tick's time shows in its own cycle, that of a clock in the next one.
  logic [31:0] media_moved, free_moved, drift;
  assign media_moved = ByTick ? media_add : media_add_q;
  assign free_moved  = ByTick ? free_add : free_add_q;
  assign drift       = media_moved - free_moved;

  // ---- claims ------------------------------------------------------------------------------------------------------

  always_comb
    if (compare_q && !rst) begin
      // Time moves on by 0 to the advance and 2 ns, and by a step; so without a step it never goes back.
      assert (now_ns == now_q + 64'(media_moved) + step_ns_q);
      assert (free_ns == free_q + 64'(free_moved));
      assert (dut.media_fraction_q == media_fraction_q);
      assert (media_moved <= dut.AdvanceNs + 32'd2);
      assert (free_moved <= dut.AdvanceNs + 32'd1);
      assert (epoch == epoch_q + 32'(step_q));
      // Both count whole nanoseconds, so half a nanosecond may show as one.
      assert (drift == '0 || drift == 32'd1 || drift == '1);
      assert (tick_ns == (tick ? now_ns : stamp_q));
      if (ByTick) begin
        assert (dut.media_q == now_q + step_ns_q);
        assert (dut.free_q == free_q);
        assert (dut.free_fraction_q == '0);
      end
    end

  // The n-th tick is at floor(n x 62500 / 3) ns: 3 x free + n mod 3 = 62500 x n.
  logic [65:0] product_q;  // 62500 x n
  logic [65:0] three_free;
  assign three_free = {2'b00, dut.free_q} + {1'b0, dut.free_q, 1'b0};

  always_ff @(posedge clk) begin
    if (rst) product_q <= '0;
    else if (tick && dut.started_q) product_q <= product_q + 66'd62500;
  end

  always_comb
    if (started_q && !rst && ByTick) begin
      assert (64'(three_free) + 64'(dut.third_q) == 64'(product_q));
      assert (dut.third_q != 2'd3);
    end

  // ---- what can happen ---------------------------------------------------------------------------------------------

  always_comb
    if (compare_q && !rst) begin
      cover (drift == 32'd1);
      cover (drift == '1);
      cover (step_q && now_ns < now_q && epoch == 32'd2);
    end

endmodule
