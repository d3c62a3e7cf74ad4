// Gathers published frames into interrupts: one after `frames` frames or `us` microseconds, whichever is first; one a
// frame while it matters (`adaptive` and `hot`); at once for an urgent frame.
//
// An interrupt stays pending until it is acknowledged. That says that every frame published before has been seen, so a
// host acknowledges first and then reads the head: it misses none.

module irq_coalescer (
    input  logic        clk,
    input  logic        rst,
    // 48 kHz: waiting ends at a tick
    input  logic        tick,
    input  logic [63:0] tick_ns,
    // a frame is in the ring
    input  logic        published,
    input  logic        published_urgent,
    // frames an interrupt, 0 as 1; longest wait of a frame, as set when it begins
    input  logic [ 7:0] frames,
    input  logic [15:0] us,
    input  logic        adaptive,
    input  logic        hot,
    // from the host
    input  logic        ack,
    // to the host
    output logic        pending,
    // the next clock changes something
    output logic        busy
);

  logic [7:0] count_q;  // frames since the last interrupt
  // The wait of the first of them, modulo 2^32 ns, which no wait comes near.
  logic [31:0] since_ns_q, until_ns_q;

  // A step of the clock can only make an interrupt early: time before the wait ends it too.
  logic [31:0] after_since_ns, after_until_ns;
  logic [25:0] longest_ns;
  logic one_by_one, enough, overdue, fire;
  assign after_since_ns = tick_ns[31:0] - since_ns_q;
  assign after_until_ns = tick_ns[31:0] - until_ns_q;
  // 1000 = 1024 - 16 - 8
  assign longest_ns     = {us, 10'd0} - 26'({us, 4'd0}) - 26'({us, 3'd0});
  assign one_by_one     = (adaptive && hot) || frames == '0;
  assign enough         = one_by_one || count_q >= frames;
  assign overdue        = tick && (after_since_ns[31] || !after_until_ns[31]);
  assign fire           = count_q != '0 && !pending && !ack && (enough || overdue);
  assign busy           = published || ack || fire;

  always_ff @(posedge clk) begin
    if (rst) begin
      pending    <= 1'b0;
      count_q    <= '0;
      since_ns_q <= '0;
      until_ns_q <= '0;
    end else if (published && (!pending || ack)) begin
      pending <= published_urgent || fire;
      count_q <= published_urgent || fire ? '0 : ack ? 8'd1 : count_q + 8'd1;
      if (ack || count_q == '0) begin
        since_ns_q <= tick_ns[31:0];
        until_ns_q <= tick_ns[31:0] + 32'(longest_ns);
      end
    end else if (ack) begin
      pending <= 1'b0;
      count_q <= '0;
    end else if (fire) begin
      pending <= 1'b1;
      count_q <= '0;
    end
  end

  logic unused;
  assign unused = ^{tick_ns[63:32], after_since_ns[30:0], after_until_ns[30:0]};

endmodule
