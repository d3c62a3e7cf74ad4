// Playback: slots of the memory ring become 48 kHz samples for the DAC, and events say when each reply was heard.
//
//   head, stop ─► [ release ] ──────────┐
//   memory ring ─► play_reader ─► play_output ─► DAC
//                                       └──► play_events ─► host
//
// A slot may be played from the ReleaseTicks-th tick after the head write that published it, and by then it has been
// read. So what is heard depends on ticks alone, not on how fast memory or `clk` is.

module playback #(
    // Slots of the ring; a power of two
    parameter int SLOTS          = 256,
    // Width of memory addresses
    parameter int ADDR_W         = 40,
    // Cycles without an answer from memory after which no new burst starts until reset
    parameter int TIMEOUT_CYCLES = 10_000,
    // Coefficient tables, see fpga/filters
    parameter     COEF_16K       = "",
    parameter     COEF_24K       = ""
) (
    input  logic              clk,
    input  logic              rst,
    // 48 kHz and its media time, ns
    input  logic              tick,
    input  logic [      63:0] tick_ns,
    // permission
    input  logic              enable,
    input  logic              quiesce,
    // ring: the window, the host's count of slots written, the count of slots read
    input  logic [      63:0] base,
    input  logic [      31:0] size,
    input  logic              head_write,
    input  logic [      31:0] head_value,
    output logic [      31:0] head,
    output logic [      31:0] tail,
    // control
    input  logic              stop,
    input  logic [      15:0] gain,
    input  logic [      15:0] low_water,
    // filter and DAC, ns: added to the times of events
    input  logic [      31:0] delay_ns,
    // one sample a tick, zero when nothing plays
    output logic [      15:0] m_axis_dac_tdata,
    output logic              m_axis_dac_tvalid,
    // from the first sample of a ticket until the filter's tail has left
    output logic              playing,
    // samples read and not yet handed to the filter
    output logic [      31:0] level,
    // oldest event
    output logic              event_valid,
    output logic [      63:0] event_ns,
    output logic [      31:0] event_ticket,
    output logic [      31:0] event_position,
    output logic [       7:0] event_kind,
    output logic [       7:0] event_count,
    input  logic              event_pop,
    // faults
    output logic              event_overflow,
    output logic              bad_head,
    output logic              bad_slot,
    output logic              window_fault,
    output logic              read_error,
    output logic              timeout,
    // no memory transaction is outstanding
    output logic              idle,
    // clocks are needed before the next tick
    output logic              busy,
    // memory
    output logic [ADDR_W-1:0] m_axi_araddr,
    output logic [       7:0] m_axi_arlen,
    output logic [       2:0] m_axi_arsize,
    output logic [       1:0] m_axi_arburst,
    output logic [       3:0] m_axi_arcache,
    output logic [       2:0] m_axi_arprot,
    output logic              m_axi_arvalid,
    input  logic              m_axi_arready,
    input  logic [     127:0] m_axi_rdata,
    input  logic [       1:0] m_axi_rresp,
    input  logic              m_axi_rlast,
    input  logic              m_axi_rvalid,
    output logic              m_axi_rready
);

  // At the lowest clock, 256 cycles a tick, three whole ticks read two slots from a memory that answers within 200
  // cycles: the one under way and the one just published.
  localparam int ReleaseTicks = 4;

  // ---- head -------------------------------------------------------------------------------------------------------

  localparam int CountW = $clog2(SLOTS) + 1;

  logic head_possible;
  logic [31:0] head_q;
  logic [31:0] ahead;  // slots that would wait
  logic [CountW-1:0] waiting;  // slots that do

  assign ahead         = head_value - tail;
  assign waiting       = head_q[CountW-1:0] - tail[CountW-1:0];
  assign head_possible = ahead <= 32'(SLOTS) && ahead[CountW-1:0] >= waiting;
  assign bad_head      = head_write && !head_possible;
  assign head          = head_q;

  always_ff @(posedge clk) begin
    if (rst) head_q <= '0;
    else if (head_write && head_possible) head_q <= head_value;
  end

  // ---- stop: what had been published by then is not played --------------------------------------------------------

  logic stop_pending_q, flush;
  logic [31:0] stop_to_q, limit;

  assign limit = stop_pending_q ? stop_to_q : head_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      stop_pending_q <= 1'b0;
      stop_to_q      <= '0;
    end else if (stop) begin
      stop_pending_q <= 1'b1;
      stop_to_q      <= head_q;
    end else if (flush) begin
      stop_pending_q <= 1'b0;
    end
  end

  // ---- release ----------------------------------------------------------------------------------------------------

  logic [31:0] release_q[ReleaseTicks];

  always_ff @(posedge clk) begin
    if (rst) begin
      for (int i = 0; i < ReleaseTicks; i++) release_q[i] <= '0;
    end else if (tick) begin
      if (enable && !quiesce) release_q[0] <= limit;
      for (int i = 1; i < ReleaseTicks; i++) release_q[i] <= release_q[i-1];
    end
  end

  // ---- reading, playing, reporting --------------------------------------------------------------------------------

  logic slot_valid, slot_pop, reader_bad_slot, output_bad_slot, reader_busy, output_busy;
  logic [  3:0] slot_beat;
  logic [127:0] slot_data;
  logic [ 15:0] buffered;
  logic [  6:0] used;

  play_reader #(
      .SLOTS         (SLOTS),
      .ADDR_W        (ADDR_W),
      .TIMEOUT_CYCLES(TIMEOUT_CYCLES)
  ) play_reader (
      .clk,
      .rst,
      .enable,
      .quiesce,
      .base,
      .size,
      .limit,
      .flush,
      .flush_to(stop_to_q),
      .tail,
      .samples (buffered),
      .slot_valid,
      .slot_beat,
      .slot_data,
      .slot_pop,
      .bad_slot(reader_bad_slot),
      .read_error,
      .window_fault,
      .timeout,
      .idle,
      .busy    (reader_busy),
      .m_axi_araddr,
      .m_axi_arlen,
      .m_axi_arsize,
      .m_axi_arburst,
      .m_axi_arcache,
      .m_axi_arprot,
      .m_axi_arvalid,
      .m_axi_arready,
      .m_axi_rdata,
      .m_axi_rresp,
      .m_axi_rlast,
      .m_axi_rvalid,
      .m_axi_rready
  );

  logic push;
  logic [7:0] push_kind;
  logic [63:0] push_ns;
  logic [31:0] push_ticket, push_position;

  play_output #(
      .COEF_16K(COEF_16K),
      .COEF_24K(COEF_24K)
  ) play_output (
      .clk,
      .rst,
      .tick,
      .tick_ns,
      .delay_ns,
      .released      (release_q[ReleaseTicks-1]),
      .stop_pending  (stop_pending_q),
      .stop_to       (stop_to_q),
      .flush,
      .gain,
      .low_water,
      .slot_valid,
      .slot_beat,
      .slot_data,
      .slot_pop,
      .bad_slot      (output_bad_slot),
      .used,
      .playing,
      .m_axis_dac_tdata,
      .m_axis_dac_tvalid,
      .event_push    (push),
      .event_kind    (push_kind),
      .event_ns      (push_ns),
      .event_ticket  (push_ticket),
      .event_position(push_position),
      .busy          (output_busy)
  );

  play_events play_events (
      .clk,
      .rst,
      .push,
      .push_kind,
      .push_ns,
      .push_ticket,
      .push_position,
      .valid   (event_valid),
      .kind    (event_kind),
      .ns      (event_ns),
      .ticket  (event_ticket),
      .position(event_position),
      .count   (event_count),
      .pop     (event_pop),
      .overflow(event_overflow)
  );

  assign level    = 32'(buffered) - 32'(used);
  assign bad_slot = reader_bad_slot || output_bad_slot;
  assign busy     = reader_busy || output_busy;

endmodule
