// Proof: ring_writer keeps the rules of AXI, writes nothing outside its window, publishes whole frames in the order in
// which they came and each frame once or not at all, and never lets the ring hold more than it has room for.
//
// Everything that software sets may change in any cycle.

module ring_writer_proof #(
    parameter int          SLOTS          = 4,
    parameter int          ADDR_W         = 40,
    parameter int          TIMEOUT_CYCLES = 32,
    parameter logic [31:0] HEAD_RESET     = 32'hFFFFFFFE
) (
    input logic         clk,
    input logic         rst,
    input logic [127:0] s_axis_tdata,
    input logic         s_axis_tvalid,
    input logic         s_axis_tlast,
    input logic         s_axis_tuser,
    input logic         enable,
    input logic         quiesce,
    input logic         alive,
    input logic [ 63:0] base,
    input logic [ 31:0] size,
    input logic [ 31:0] boot_id,
    input logic         tail_write,
    input logic [ 31:0] tail_value,
    input logic         m_axi_awready,
    input logic         m_axi_wready,
    input logic [  1:0] m_axi_bresp,
    input logic         m_axi_bvalid
);

  logic s_axis_tready, free, frame_lost, published, published_urgent, bad_tail, window_fault, write_error, timeout;
  logic idle, busy;
  logic [31:0] head, tail;
  logic [ADDR_W-1:0] m_axi_awaddr;
  logic [7:0] m_axi_awlen;
  logic [2:0] m_axi_awsize, m_axi_awprot;
  logic [1:0] m_axi_awburst;
  logic [3:0] m_axi_awcache;
  logic m_axi_awvalid, m_axi_wlast, m_axi_wvalid, m_axi_bready;
  logic [127:0] m_axi_wdata;
  logic [ 15:0] m_axi_wstrb;

  ring_writer #(
      .SLOTS(SLOTS),
      .ADDR_W(ADDR_W),
      .TIMEOUT_CYCLES(TIMEOUT_CYCLES),
      .HEAD_RESET(HEAD_RESET)
  ) dut (
      .*
  );

  logic started_q;
  initial started_q = 1'b0;
  always_ff @(posedge clk) started_q <= 1'b1;
  always_comb if (!started_q) assume (rst);

  logic running, running_q;  // out of reset now, and in the cycle before too
  initial running_q = 1'b0;
  always_ff @(posedge clk) running_q <= !rst;
  assign running = started_q && !rst;

  // ---- the frames that come: see frame_stream_rules -----------------------------------------------------------------

  logic [3:0] beat;  // of the frame that comes
  frame_stream_rules #(
      .ASSUME(1)
  ) frames (
      .clk,
      .rst,
      .tdata (s_axis_tdata),
      .tvalid(s_axis_tvalid),
      .tready(s_axis_tready),
      .tlast (s_axis_tlast),
      .tuser (s_axis_tuser),
      .beat
  );

  // ---- the memory ---------------------------------------------------------------------------------------------------

  logic address_taken, data_taken;
  logic [8:0] beats;
  axi_write_rules #(
      .ADDR_W(ADDR_W)
  ) rules (
      .clk,
      .rst,
      .awaddr (m_axi_awaddr),
      .awlen  (m_axi_awlen),
      .awsize (m_axi_awsize),
      .awburst(m_axi_awburst),
      .awcache(m_axi_awcache),
      .awprot (m_axi_awprot),
      .awvalid(m_axi_awvalid),
      .awready(m_axi_awready),
      .wdata  (m_axi_wdata),
      .wstrb  (m_axi_wstrb),
      .wlast  (m_axi_wlast),
      .wvalid (m_axi_wvalid),
      .wready (m_axi_wready),
      .bresp  (m_axi_bresp),
      .bvalid (m_axi_bvalid),
      .bready (m_axi_bready),
      .address_taken,
      .data_taken,
      .beats
  );

  logic outstanding;
  assign outstanding = m_axi_awvalid || m_axi_wvalid || address_taken || data_taken || beats != '0;

  // ---- window and permission ----------------------------------------------------------------------------------------

  // What held in the cycle in which the burst was begun: the one before its address shows.
  logic [63:0] base_q, set_base_q;  // as a burst that begins now sees them; as written a clock ago
  logic [31:0] size_q, set_size_q, head_q;
  logic begun, allowed_q, full_q, alive_q, was_alive_q;
  logic m_axi_awvalid_q;
  always_ff @(posedge clk) begin
    m_axi_awvalid_q <= m_axi_awvalid && !rst;
    base_q          <= set_base_q;
    size_q          <= set_size_q;
    set_base_q      <= base;
    set_size_q      <= size;
    head_q          <= head;
    allowed_q       <= enable && !quiesce && !timeout;
    alive_q         <= alive;
    was_alive_q     <= alive_q;  // it may stop a clock late
    full_q          <= head - tail == 32'(SLOTS);
  end
  assign begun = m_axi_awvalid && !m_axi_awvalid_q;

  logic copy;  // of the head; else a frame
  logic [64:0] first, last;
  assign copy  = m_axi_awlen == 8'd0;
  assign first = 65'(m_axi_awaddr);
  assign last  = first + {53'd0, m_axi_awlen, 4'd15};

  always_comb
    if (running && running_q && begun) begin
      assert (first >= 65'(base_q) && last < 65'(base_q) + 65'(size_q));
      if (copy)
        assert (first == 65'(base_q) + 65'(SLOTS * 256));
        else assert (first == 65'(base_q) + 65'(256 * (head_q % SLOTS)) && m_axi_awlen == 8'd9);
      if (!copy) assert (allowed_q && was_alive_q && !full_q);
    end

  // Of the burst under way. That its address stays is a rule of AXI, that its kind does is shown here.
  logic copy_q;
  always_ff @(posedge clk) if (m_axi_awvalid) copy_q <= copy;

  // ---- idle -----------------------------------------------------------------------------------------------------------

  logic idle_q, stopped_q;
  always_ff @(posedge clk) begin
    idle_q    <= idle;
    stopped_q <= !enable || quiesce;
  end

  always_comb
    if (running) begin
      if (idle) assert (!outstanding);
      if (running_q && idle_q && stopped_q) assert (idle && !m_axi_awvalid && !m_axi_wvalid);
    end

  // ---- frames -------------------------------------------------------------------------------------------------------

  // A frame's fate is told once: it is published, or it is lost. One that is lost may be told before its end.
  logic ended, told;
  logic signed [1:0] owed_q;  // frames that ended less fates told
  assign ended = s_axis_tvalid && s_axis_tready && s_axis_tlast;
  assign told  = published || frame_lost;
  always_ff @(posedge clk) begin
    if (rst) owed_q <= '0;
    else owed_q <= owed_q + 2'($signed({1'b0, ended})) - 2'($signed({1'b0, told}));
  end

  logic [31:0] tail_q, tail_value_q;
  logic published_q, tail_write_q, bad_tail_q;
  always_ff @(posedge clk) begin
    tail_q       <= tail;
    tail_value_q <= tail_value;
    tail_write_q <= tail_write;
    published_q  <= published;
    bad_tail_q   <= bad_tail;
  end

  always_comb
    if (running) begin
      assert (!(published && frame_lost));
      // Fate and frame take turns, but for a loss that is told at once.
      assert (owed_q != -2'sd2);
      if (ended) assert (owed_q != 2'sd1);
      if (told) assert (owed_q != -2'sd1);
      // What is published was written as one burst of ten beats, all bytes of each, was answered, and had ended.
      if (published) assert (!copy_q && address_taken && data_taken && beats == 9'd10 && owed_q == 2'sd1);
      if (published) assert (m_axi_bvalid && m_axi_bready && m_axi_bresp == 2'b00);
      // Beat n of the burst is beat n of the frame.
      if (m_axi_wvalid && !m_axi_wready && m_axi_wlast) assert (!ended);
      if (m_axi_wvalid && (m_axi_awvalid ? !copy : !copy_q)) begin
        assert (s_axis_tvalid && s_axis_tready == m_axi_wready);
        assert (beats == 9'(beat) && m_axi_wdata == s_axis_tdata && m_axi_wlast == s_axis_tlast && m_axi_wstrb == '1);
      end
      // A frame that is begun while `free` finds no other one's fate open.
      if (free) assert (owed_q == 2'sd0 && !told);
    end

  // The copy of the head is what was published, and the boot identity of when it was begun.
  logic [31:0] boot_id_q;
  always_ff @(posedge clk) boot_id_q <= boot_id;
  always_comb
    if (running && running_q) begin
      if (m_axi_awvalid && copy) assert (m_axi_wvalid == !data_taken);
      if (m_axi_wvalid && (m_axi_awvalid ? copy : copy_q)) begin
        assert (m_axi_wdata[31:0] == head && m_axi_wdata[127:64] == '0 && m_axi_wstrb == 16'h00FF);
      end
      if (begun && copy) assert (m_axi_wdata[63:32] == boot_id_q);
    end

  // ---- the ring -----------------------------------------------------------------------------------------------------

  always_comb
    if (running) begin
      assert (head - tail <= 32'(SLOTS));
      // The slot that is being written is one that the host has given back.
      if (outstanding && (m_axi_awvalid ? !copy : !copy_q)) assert (head - tail < 32'(SLOTS));
    end

  always_comb
    if (running && running_q) begin
      assert (head == head_q + 32'(published_q));
      // The tail is moved by the host alone, forwards, over frames that were published.
      if (!tail_write_q || bad_tail_q)
        assert (tail == tail_q);
        else assert (tail == tail_value_q && tail - tail_q <= head_q - tail_q);
      if (tail_write_q) assert (bad_tail_q == (tail_value_q - tail_q > head_q - tail_q));
    end

  // ---- a memory that does not answer ----------------------------------------------------------------------------------

  int   silent_q;  // clocks that the burst under way has lasted
  logic timeout_q;
  always_ff @(posedge clk) begin
    timeout_q <= timeout && !rst;
    if (rst || idle || (m_axi_bvalid && m_axi_bready)) silent_q <= 0;
    else if (!timeout && outstanding) silent_q <= silent_q + 1;
  end

  always_comb
    if (running) begin
      if (!timeout) assert (silent_q < TIMEOUT_CYCLES && silent_q == (outstanding ? int'(dut.waited_q) : 0));
      if (timeout_q) assert (timeout && !begun && !published);
    end

  // ---- what holds inside, for the induction ------------------------------------------------------------------------

  always_comb
    if (running) begin
      if (dut.outstanding_q) begin
        assert (dut.address_q == !address_taken && dut.data_q == !data_taken);
        assert (!dut.copy_due_q && !dut.discard_q);
        if (address_taken) assert (dut.copy_q == copy_q && rules.len_q == (copy_q ? 8'd0 : 8'd9));
      end else begin
        assert (!dut.address_q && !dut.data_q && !address_taken && !data_taken && beats == '0);
        assert (owed_q == 2'sd0);
        if (!dut.discard_q) assert (beat == '0);
      end
      if (dut.outstanding_q && dut.copy_q) begin
        assert (beats == 9'(data_taken) && beat == '0 && owed_q == 2'sd0);
      end
      if (dut.outstanding_q && !dut.copy_q) begin
        assert (beats == (data_taken ? 9'd10 : 9'(beat)));
        if (data_taken) assert (beat == '0);
        assert (owed_q == 2'($signed({1'b0, data_taken})) - 2'($signed({1'b0, timeout})));
      end
    end

  // ---- what can happen ----------------------------------------------------------------------------------------------

  always_comb
    if (running) begin
      cover (head == HEAD_RESET + 32'd2 && head - tail == 32'd2);  // two frames; the count has wrapped
      cover (head == HEAD_RESET + 32'd1 && tail == head && idle && !idle_q);  // the copy is done
      cover (timeout && ended);
      cover (write_error && frame_lost);
      cover (bad_tail && head != tail);
    end

endmodule
