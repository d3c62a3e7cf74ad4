// The clock that stamps everything: nanoseconds in 64 bits, with a rate and a step correction, beside a free-running copy.
//
// With TICK_TIME = 1 time stands still between ticks of the 48 kHz samples: tick n since reset has the free time
// floor(n * 62500 / 3), so stamps do not depend on how many clocks a simulator spends. With TICK_TIME = 0 time advances
// by 1e9 / CLK_HZ ns with every clk, rounded to 2^-32 ns.

module media_clock #(
    // Frequency of clk in Hz, 1 MHz to 1 GHz; used with TICK_TIME = 0
    parameter int CLK_HZ    = 100_000_000,
    // What advances time: 1 the tick (simulation), 0 every clk
    parameter int TICK_TIME = 0
) (
    input  logic        clk,
    input  logic        rst,
    // one pulse a 48 kHz sample
    input  logic        tick,
    // signed, 2^-32 ns, added at each advance
    input  logic [31:0] rate_adjust,
    // add step_ns, signed, to the media time
    input  logic        step_valid,
    input  logic [63:0] step_ns,
    // time in this cycle, with and without corrections
    output logic [63:0] now_ns,
    output logic [63:0] free_ns,
    // steps since reset
    output logic [31:0] epoch,
    // media time of the latest tick; in a tick's own cycle already that tick's
    output logic [63:0] tick_ns,
    // the next clock changes something
    output logic        busy
);

  localparam bit ByTick = TICK_TIME == 1;
  // 62500 / 3 is 20833 and one third: the third advance in three is one longer.
  localparam logic [63:0] Advance = ByTick ? 64'd20833 << 32 :
      ((64'd1_000_000_000 << 32) + 64'(CLK_HZ) / 2) / 64'(CLK_HZ);
  localparam logic [31:0] AdvanceNs = Advance[63:32];
  localparam logic [31:0] AdvanceFraction = Advance[31:0];

`ifndef SYNTHESIS
  initial begin
    if (TICK_TIME != 0 && TICK_TIME != 1) $fatal(1, "media_clock: TICK_TIME must be 0 or 1");
    if (CLK_HZ < 1_000_000 || CLK_HZ > 1_000_000_000) $fatal(1, "media_clock: CLK_HZ must be 1 MHz to 1 GHz");
  end
`endif

  logic started_q;  // the first tick, which is time 0, has been
  logic [1:0] third_q;
  logic [63:0] media_q, free_q, tick_q;
  logic [31:0] media_fraction_q, free_fraction_q;

  logic advance, carry;
  assign advance = ByTick ? tick && started_q : 1'b1;
  assign carry   = ByTick && third_q == 2'd2;

  logic [63:0] media_next, free_next;
  logic [33:0] media_fraction_sum;
  logic [32:0] free_fraction_sum;
  assign media_fraction_sum = 34'(media_fraction_q) + 34'(AdvanceFraction) + 34'(rate_adjust);
  assign free_fraction_sum = 33'(free_fraction_q) + 33'(AdvanceFraction);
  // The sign of the correction, taken as unsigned in the fraction, counts -1 in the nanoseconds.
  assign media_next = media_q + 64'(AdvanceNs) + 64'(carry) + 64'(media_fraction_sum[33:32]) - 64'(rate_adjust[31]);
  assign free_next = free_q + 64'(AdvanceNs) + 64'(carry) + 64'(free_fraction_sum[32]);

  assign now_ns = ByTick && advance ? media_next : media_q;
  assign free_ns = ByTick && advance ? free_next : free_q;
  assign tick_ns = tick ? now_ns : tick_q;
  assign busy = !ByTick || tick || step_valid;

  always_ff @(posedge clk) begin
    if (rst) begin
      started_q        <= 1'b0;
      third_q          <= '0;
      media_q          <= '0;
      free_q           <= '0;
      tick_q           <= '0;
      media_fraction_q <= '0;
      free_fraction_q  <= '0;
      epoch            <= '0;
    end else begin
      if (tick) started_q <= 1'b1;
      if (advance) begin
        third_q          <= third_q == 2'd2 ? '0 : third_q + 1'b1;
        media_fraction_q <= media_fraction_sum[31:0];
        free_fraction_q  <= free_fraction_sum[31:0];
        free_q           <= free_next;
      end
      media_q <= (advance ? media_next : media_q) + (step_valid ? step_ns : 64'd0);
      epoch   <= epoch + 32'(step_valid);
      tick_q  <= tick_ns;
    end
  end

endmodule
