// Proof: play_reader keeps the rules of AXI, reads nothing outside its window, and hands on whole slots, unchanged and in
// order, none of which had an error.
//
// The solver picks one burst by `follow` and one of its beats by `which`; the proof remembers that beat and looks for it
// in the buffer. Everything that software sets may change in any cycle.

module play_reader_proof #(
    parameter int SLOTS          = 4,
    parameter int ADDR_W         = 40,
    parameter int TIMEOUT_CYCLES = 8,
    parameter int BUFFERED       = 2
) (
    input logic         clk,
    input logic         rst,
    input logic         enable,
    input logic         quiesce,
    input logic [ 63:0] base,
    input logic [ 31:0] size,
    input logic [ 31:0] limit,
    input logic         flush,
    input logic [ 31:0] flush_to,
    input logic [  3:0] slot_beat,
    input logic         slot_pop,
    input logic         m_axi_arready,
    input logic [127:0] m_axi_rdata,
    input logic [  1:0] m_axi_rresp,
    input logic         m_axi_rlast,
    input logic         m_axi_rvalid,
    // follow the burst that begins now; the beat to remember
    input logic         follow,
    input logic [  3:0] which
);

  localparam int BufferW = $clog2(BUFFERED);

  logic [31:0] tail;
  logic [15:0] samples;
  logic slot_valid, bad_slot, read_error, window_fault, timeout, idle, busy;
  logic [127:0] slot_data;
  logic [ADDR_W-1:0] m_axi_araddr;
  logic [7:0] m_axi_arlen;
  logic [2:0] m_axi_arsize, m_axi_arprot;
  logic [1:0] m_axi_arburst;
  logic [3:0] m_axi_arcache;
  logic m_axi_arvalid, m_axi_rready;

  play_reader #(
      .SLOTS(SLOTS),
      .ADDR_W(ADDR_W),
      .TIMEOUT_CYCLES(TIMEOUT_CYCLES),
      .BUFFERED(BUFFERED)
  ) dut (
      .*
  );

  logic started_q, running, running_q;  // running: out of reset
  initial started_q = 1'b0;
  initial running_q = 1'b0;
  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    running_q <= !rst;
  end
  assign running = started_q && !rst;
  always_comb if (!started_q) assume (rst);

  // What play_output promises: see play_output_proof.
  always_comb if (slot_pop) assume (slot_valid && !flush);

  logic [8:0] owed, beats;
  axi_read_rules #(
      .ADDR_W(ADDR_W)
  ) rules (
      .clk,
      .rst,
      .araddr (m_axi_araddr),
      .arlen  (m_axi_arlen),
      .arsize (m_axi_arsize),
      .arburst(m_axi_arburst),
      .arcache(m_axi_arcache),
      .arprot (m_axi_arprot),
      .arvalid(m_axi_arvalid),
      .arready(m_axi_arready),
      .rvalid (m_axi_rvalid),
      .rready (m_axi_rready),
      .owed,
      .beats
  );

  // ---- window and permission ----------------------------------------------------------------------------------------

  // What held in the cycle in which the burst was begun: the one before its address shows.
  logic [63:0] base_q;
  logic [31:0] size_q, tail_q, flush_to_q;
  logic arvalid_q, allowed_q, idle_q, flush_q, begun;
  always_ff @(posedge clk) begin
    arvalid_q  <= m_axi_arvalid && !rst;
    base_q     <= base;
    size_q     <= size;
    tail_q     <= tail;
    flush_q    <= flush;
    flush_to_q <= flush_to;
    allowed_q  <= enable && !quiesce && !timeout && tail != limit;
    idle_q     <= idle;
  end
  assign begun = m_axi_arvalid && !arvalid_q;

  always_comb
    if (running && running_q) begin
      if (begun) begin
        assert (65'(m_axi_araddr) == 65'(base_q) + 65'(256 * (tail_q % SLOTS)));
        assert (65'(m_axi_araddr) + 65'd256 <= 65'(base_q) + 65'(size_q));
        assert (allowed_q);
      end
      if (idle_q && !allowed_q) assert (idle && !m_axi_arvalid);
    end

  always_comb if (running && idle) assert (!m_axi_arvalid && owed == '0);

  // ---- the burst under way ------------------------------------------------------------------------------------------

  logic beat, last_beat, spoilt, spoilt_q, flushed_q, sensible, sensible_q;
  logic [6:0] n, n_q;
  assign beat = m_axi_rvalid && m_axi_rready;
  assign last_beat = beat && beats == 9'd15;
  assign spoilt = (beats != '0 && spoilt_q) || m_axi_rresp[1] || m_axi_rlast != (beats == 9'd15);
  // docs/frame.md, playback slot: u8 rate at 8, u8 flags at 9 (bit 1: last), u16 n at 10.
  assign sensible = beats != '0 ? sensible_q : m_axi_rdata[71:64] <= 8'd1 && m_axi_rdata[95:80] <= 16'd120 &&
      (m_axi_rdata[95:80] != '0 || m_axi_rdata[73]);
  assign n = beats != '0 ? n_q : m_axi_rdata[86:80];

  always_ff @(posedge clk) begin
    if (beat) begin
      spoilt_q   <= spoilt;
      sensible_q <= sensible;
      n_q        <= n;
    end
    if (rst || last_beat || idle) flushed_q <= 1'b0;
    else if (flush) flushed_q <= 1'b1;
  end

  // A slot is good when all of its beats came without error, its header makes sense and no one asked to forget it.
  logic wanted, good, gone;
  assign wanted = !flushed_q && !flush && !timeout;
  assign good   = last_beat && wanted && !spoilt && sensible;
  assign gone   = slot_pop;

  int held_q;  // good slots that were not taken
  int samples_q;
  always_ff @(posedge clk) begin
    if (rst || flush) begin
      held_q    <= 0;
      samples_q <= 0;
    end else begin
      held_q    <= held_q + int'(good) - int'(gone);
      samples_q <= samples_q + (good ? int'(n) : 0) - (gone ? int'(dut.slot_samples_q[dut.front_q]) : 0);
    end
  end

  always_comb
    if (running) begin
      assert (held_q >= 0 && held_q <= BUFFERED);
      assert (slot_valid == (held_q != 0));
      assert (read_error == (last_beat && spoilt));
      assert (bad_slot == (last_beat && !flushed_q && !timeout && !spoilt && !sensible));
      assert (int'(samples) == samples_q);
    end

  always_comb
    if (running && running_q) begin
      // The tail follows the bursts, good or not, and a flush.
      if (flush_q)
        assert (tail == flush_to_q);
        else assert (tail == tail_q || tail == tail_q + 32'd1);
    end

  // ---- the slot that is followed -------------------------------------------------------------------------------------

  logic reading_q;  // the followed burst is under way
  logic stored_q;  // it is in the buffer
  int ahead_q;  // slots before it
  logic [3:0] which_q;
  logic [127:0] word_q;
  logic [31:0] number_q;
  logic [6:0] followed_n_q;

  always_ff @(posedge clk) begin
    if (rst || flush) begin
      reading_q <= 1'b0;
      stored_q  <= 1'b0;
    end else begin
      if (begun && follow && !reading_q && !stored_q) begin
        reading_q <= 1'b1;
        which_q   <= which;
        number_q  <= tail;
      end
      if (reading_q && beat && beats == 9'(which_q)) begin
        word_q <= which_q == '0 ? {number_q, m_axi_rdata[95:0]} : m_axi_rdata;
      end
      if (reading_q && last_beat) begin
        reading_q    <= 1'b0;
        stored_q     <= good;
        ahead_q      <= held_q - int'(gone);
        followed_n_q <= n;
      end else if (stored_q && gone) begin
        if (ahead_q == 0) stored_q <= 1'b0;
        ahead_q <= ahead_q - 1;
      end
    end
  end

  // slot_data answers the question of the cycle before.
  logic asked_q;
  always_ff @(posedge clk) asked_q <= stored_q && ahead_q == 0 && slot_beat == which_q && !gone && !rst;

  always_comb
    if (running) begin
      if (stored_q) assert (ahead_q >= 0 && ahead_q < held_q);
      if (asked_q && stored_q) assert (slot_data == word_q);
    end

  // ---- a memory that does not answer ----------------------------------------------------------------------------------

  logic timeout_q;
  always_ff @(posedge clk) timeout_q <= timeout && !rst;
  always_comb if (running && timeout_q) assert (timeout && !begun && !good);

  // ---- what holds inside, for the induction ------------------------------------------------------------------------

  logic [BufferW-1:0] followed_at;  // the followed slot's place in the buffer
  assign followed_at = BufferW'(int'(dut.front_q) + ahead_q);

  always_comb
    if (running) begin
      assert (dut.state_q != 2'd3);
      assert (idle == (dut.state_q == 2'd0) && m_axi_arvalid == (dut.state_q == 2'd1));
      assert ((owed != '0) == (dut.state_q == 2'd2));
      if (owed != '0) assert (owed + beats == 9'd16);
      assert (dut.beat_q == (owed != '0 ? beats[3:0] : 4'd0));
      if (!idle) assert (dut.drop_q == flushed_q);
      if (idle) assert (!dut.drop_q && !flushed_q && !reading_q);
      if (owed != '0 && beats != '0) begin
        assert (dut.error_q == spoilt_q && dut.malformed_q == !sensible_q && dut.fill_n_q == n_q);
      end
      assert (int'(dut.count_q) == held_q);
      assert (dut.fill_q == BufferW'(int'(dut.front_q) + held_q));
      assert (!(reading_q && stored_q));
      // A burst is begun only when there is room for it.
      if (!idle) assert (held_q < BUFFERED);
      if (flushed_q) assert (held_q == 0);
      if (reading_q) assert (tail == number_q && !flushed_q);
      if (reading_q && owed != '0 && beats > 9'(which_q)) assert (dut.buffer[{dut.fill_q, which_q}] == word_q);
      if (stored_q) assert (dut.buffer[{followed_at, which_q}] == word_q);
    end

  int sum;  // of the samples of the slots in the buffer
  always_comb begin
    sum = 0;
    for (int i = 0; i < BUFFERED; i++) begin
      if (i < held_q) sum += int'(dut.slot_samples_q[BufferW'(int'(dut.front_q)+i)]);
    end
  end
  always_comb if (running) assert (samples_q == sum);

  // ---- what can happen ----------------------------------------------------------------------------------------------

  always_comb
    if (running) begin
      cover (stored_q && ahead_q == 1 && held_q == 2);  // the followed slot is the second of a full buffer
      cover (asked_q && stored_q && which_q == 4'd15);
      cover (bad_slot);
      cover (read_error && held_q == 1);
      cover (flushed_q && last_beat);
      cover (timeout && idle);
    end

endmodule
