// Proof: play_output takes a slot only where there is one, and flushes only what a stop asked for.
//
// Its filter and its gain are left out: they may answer anything.

module play_output_proof (
    input logic         clk,
    input logic         rst,
    input logic         tick,
    input logic [ 31:0] released,
    input logic         stop_pending,
    input logic [ 31:0] stop_to,
    input logic [ 15:0] low_water,
    input logic         slot_valid,
    input logic [127:0] slot_data
);

  logic flush, slot_pop, playing;

  play_output dut (
      .clk,
      .rst,
      .tick,
      .tick_ns          ('0),
      .delay_ns         ('0),
      .released,
      .stop_pending,
      .stop_to,
      .flush,
      .gain             ('0),
      .low_water,
      .slot_valid,
      .slot_beat        (),
      .slot_data,
      .slot_pop,
      .bad_slot         (),
      .used             (),
      .playing,
      .m_axis_dac_tdata (),
      .m_axis_dac_tvalid(),
      .event_push       (),
      .event_kind       (),
      .event_ns         (),
      .event_ticket     (),
      .event_position   (),
      .busy             ()
  );

  logic started_q, kept_q, stop_q;
  initial started_q = 1'b0;
  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    kept_q    <= slot_valid && !slot_pop && !flush && !rst;
    stop_q    <= stop_pending && !flush && !rst;
  end
  always_comb if (!started_q) assume (rst);

  // Until it is popped or flushed a slot stays; until it is carried out so does a stop.
  always_comb
    if (started_q) begin
      if (kept_q) assume (slot_valid);
      if (stop_q) assume (stop_pending || rst);
    end

  always_comb
    if (started_q && !rst) begin
      if (flush) assert (stop_pending);
      if (slot_pop) assert (slot_valid && !flush);
    end

  // ---- what holds inside, for the induction ------------------------------------------------------------------------

  always_comb
    if (started_q && !rst) begin
      // States: 1 look, 2 decide, 3 push.
      if (dut.in_slot_q) assert (slot_valid);
      if (dut.state_q == 3'd1 || dut.state_q == 3'd2) begin
        if (dut.stopping_q) assert (stop_pending);
        if (dut.head_valid_q) assert (slot_valid);
      end
      if (dut.state_q == 3'd2 && dut.playable_q) assert (dut.head_valid_q);
      if (dut.state_q == 3'd3 && !dut.zero_q) assert (dut.in_slot_q);
    end

  always_comb
    if (started_q && !rst) begin
      cover (flush && slot_valid);
      cover (slot_pop && playing && dut.state_q == 3'd3);
    end

endmodule
