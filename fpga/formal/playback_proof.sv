// Proof: the playback ring never holds more than it has room for, its head moves forwards by no more than there is room,
// and only slots between tail and head are read, whatever the host writes.
//
// play_output is left out: what it does with a slot may be anything that play_output_proof allows.

module playback_proof #(
    parameter int SLOTS = 4
) (
    input logic         clk,
    input logic         rst,
    input logic         tick,
    input logic         enable,
    input logic         quiesce,
    input logic [ 63:0] base,
    input logic [ 31:0] size,
    input logic         head_write,
    input logic [ 31:0] head_value,
    input logic         stop,
    input logic         event_pop,
    input logic         m_axi_arready,
    input logic [127:0] m_axi_rdata,
    input logic [  1:0] m_axi_rresp,
    input logic         m_axi_rlast,
    input logic         m_axi_rvalid
);

  logic [31:0] head, tail;
  logic bad_head, idle, m_axi_arvalid, m_axi_rready;

  playback #(
      .SLOTS(SLOTS),
      .TIMEOUT_CYCLES(8)
  ) dut (
      .clk,
      .rst,
      .tick,
      .tick_ns          ('0),
      .enable,
      .quiesce,
      .base,
      .size,
      .head_write,
      .head_value,
      .head,
      .tail,
      .stop,
      .gain             ('0),
      .low_water        ('0),
      .delay_ns         ('0),
      .m_axis_dac_tdata (),
      .m_axis_dac_tvalid(),
      .playing          (),
      .level            (),
      .event_valid      (),
      .event_ns         (),
      .event_ticket     (),
      .event_position   (),
      .event_kind       (),
      .event_count      (),
      .event_pop,
      .event_overflow   (),
      .bad_head,
      .bad_slot         (),
      .window_fault     (),
      .read_error       (),
      .timeout          (),
      .idle,
      .busy             (),
      .m_axi_araddr     (),
      .m_axi_arlen      (),
      .m_axi_arsize     (),
      .m_axi_arburst    (),
      .m_axi_arcache    (),
      .m_axi_arprot     (),
      .m_axi_arvalid,
      .m_axi_arready,
      .m_axi_rdata,
      .m_axi_rresp,
      .m_axi_rlast,
      .m_axi_rvalid,
      .m_axi_rready
  );

  logic started_q, running, running_q;
  initial started_q = 1'b0;
  initial running_q = 1'b0;
  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    running_q <= !rst;
  end
  assign running = started_q && !rst;
  always_comb if (!started_q) assume (rst);

  // What play_output promises, and a memory that gives no more than it was asked for.
  logic [4:0] owed_q;
  always_ff @(posedge clk) begin
    if (rst) owed_q <= '0;
    else if (m_axi_arvalid && m_axi_arready) owed_q <= 5'd16;
    else if (m_axi_rvalid && m_axi_rready) owed_q <= owed_q - 5'd1;
  end
  always_comb begin
    if (dut.flush) assume (dut.stop_pending_q);
    if (dut.slot_pop) assume (dut.slot_valid && !dut.flush);
    if (m_axi_rvalid) assume (owed_q != '0);
  end

  // ---- claims ------------------------------------------------------------------------------------------------------

  logic [31:0] head_q, tail_q, moved;
  logic head_write_q, bad_head_q, arvalid_q, flush_q;
  logic [31:0] head_value_q;
  always_ff @(posedge clk) begin
    head_q       <= head;
    tail_q       <= tail;
    head_write_q <= head_write;
    head_value_q <= head_value;
    bad_head_q   <= bad_head;
    arvalid_q    <= m_axi_arvalid;
    flush_q      <= dut.flush;
  end
  assign moved = head_value_q - head_q;

  always_comb if (running) assert (head - tail <= 32'(SLOTS));

  always_comb
    if (running && running_q) begin
      if (head_write_q) assert (bad_head_q == (moved > 32'(SLOTS) - (head_q - tail_q)));
      assert (head == (head_write_q && !bad_head_q ? head_value_q : head_q));
      // The tail moves forwards, never over the head: by one slot that was read, or to where a stop says.
      assert (tail - tail_q <= head_q - tail_q);
      if (!flush_q) assert (tail - tail_q <= 32'd1);
      // A burst is begun for a slot that the host has published.
      if (m_axi_arvalid && !arvalid_q) assert (head_q != tail_q);
    end

  // ---- what holds inside, for the induction ------------------------------------------------------------------------

  always_comb
    if (running) begin
      if (dut.stop_pending_q) assert (dut.stop_to_q - tail <= head - tail);
      assert (dut.play_reader.state_q != 2'd3);
      assert ((owed_q != '0) == (dut.play_reader.state_q == 2'd2));
      assert (owed_q <= 5'd16);
      assert (dut.play_reader.beat_q == 4'(5'd16 - owed_q) || owed_q == '0);
      if (owed_q == '0) assert (dut.play_reader.beat_q == '0);
      // The slot under way lies before the limit, unless it is dropped.
      if (!idle && !dut.play_reader.drop_q) assert (dut.limit != tail);
      if (idle) assert (!dut.play_reader.drop_q);
    end

  // ---- what can happen ---------------------------------------------------------------------------------------------

  always_comb
    if (running) begin
      cover (head - tail == 32'(SLOTS));
      cover (bad_head && head != tail);
      cover (tail == 32'd1 && tail_q == 32'd0 && !flush_q && head == 32'd3);
      cover (flush_q && tail == 32'd2 && tail_q == '0);
    end

endmodule
