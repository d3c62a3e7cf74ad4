// The last things that happened in playback, oldest first, until the host has read them.

module play_events #(
    // Events that are kept; a power of two, at most 128. What comes when it is full is lost and flagged
    parameter int DEPTH = 16
) (
    input  logic        clk,
    input  logic        rst,
    // an event happens
    input  logic        push,
    input  logic [ 7:0] push_kind,
    input  logic [63:0] push_ns,
    input  logic [31:0] push_ticket,
    input  logic [31:0] push_position,
    // the oldest event; zeros where there is none
    output logic        valid,
    output logic [ 7:0] kind,
    output logic [63:0] ns,
    output logic [31:0] ticket,
    output logic [31:0] position,
    output logic [ 7:0] count,
    input  logic        pop,
    // an event was lost
    output logic        overflow
);

  localparam int PointerW = $clog2(DEPTH);

  initial
    if (DEPTH < 2 || 2 ** PointerW != DEPTH || DEPTH > 128)
      $fatal(1, "play_events: DEPTH must be a power of two from 2 to 128");

  logic [135:0] events[DEPTH];
  logic [PointerW-1:0] write_q, read_q;
  logic [PointerW:0] count_q;
  logic take, store;

  assign take     = pop && valid;
  assign store    = push && !count_q[PointerW];
  assign overflow = push && count_q[PointerW];

  always_ff @(posedge clk) if (store) events[write_q] <= {push_kind, push_ns, push_ticket, push_position};

  always_ff @(posedge clk) begin
    if (rst) begin
      write_q <= '0;
      read_q  <= '0;
      count_q <= '0;
    end else begin
      if (store) write_q <= write_q + 1'b1;
      if (take) read_q <= read_q + 1'b1;
      if (store != take) count_q <= take ? count_q - 1'b1 : count_q + 1'b1;
    end
  end

  assign valid = count_q != '0;
  assign count = 8'(count_q);
  assign {kind, ns, ticket, position} = valid ? events[read_q] : '0;

endmodule
