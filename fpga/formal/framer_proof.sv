// Proof: framer sends each frame that it keeps once, whole, with its own number, time and samples; and every frame is
// counted as sent or as lost.
//
// The solver picks one frame by `follow` and one of its samples by `which`; the proof remembers that sample, or that it is
// one of those that fill a short frame up, and looks for it in its place of the frame. That the CRC and the fields of the hop are right is for the simulation to say.

module framer_proof (
    input logic        clk,
    input logic        rst,
    input logic [15:0] s_axis_tdata,
    input logic [63:0] s_axis_tuser,
    input logic        s_axis_tvalid,
    input logic        s_axis_tkeep,
    input logic        s_axis_tlast,
    input logic        frame_gated,
    input logic        frame_onset,
    input logic        frame_offset,
    input logic        frame_speech,
    input logic        frame_quiet,
    input logic        patient,
    input logic [ 7:0] hops_due,
    input logic [31:0] delay_ns,
    input logic        hop_valid,
    input logic        hop_speech,
    input logic        hop_onset,
    input logic        hop_offset,
    input logic [15:0] hop_energy,
    input logic [15:0] hop_floor,
    input logic [ 7:0] hop_zc,
    input logic [ 7:0] hop_score,
    input logic        clipped,
    input logic        time_locked,
    input logic        playback_active,
    input logic        test_pattern,
    input logic [ 7:0] stage_mask,
    input logic [ 7:0] stream,
    input logic        ring_free,
    input logic        ring_idle,
    input logic        frame_lost,
    input logic        m_axis_tready,
    // follow the frame that begins now; the sample to remember; the ring published the frame
    input logic        follow,
    input logic [ 5:0] which,
    input logic        published
);

  logic s_axis_tready, hop_overrun, m_axis_tvalid, m_axis_tlast, m_axis_tuser, busy;
  logic [127:0] m_axis_tdata;
  logic [31:0] frames_captured, frames_lost;

  framer dut (.*);

  logic started_q, running;
  initial started_q = 1'b0;
  always_ff @(posedge clk) started_q <= 1'b1;
  always_comb if (!started_q) assume (rst);
  assign running = started_q && !rst;

  logic [3:0] beat;  // of the frame that leaves
  frame_stream_rules rules (
      .clk,
      .rst,
      .tdata (m_axis_tdata),
      .tvalid(m_axis_tvalid),
      .tready(m_axis_tready),
      .tlast (m_axis_tlast),
      .tuser (m_axis_tuser),
      .beat
  );

  // ---- the ring: see ring_writer_proof --------------------------------------------------------------------------------

  // The fate of a frame that was sent is told once, and until then no other may be begun.
  logic open_q;
  always_ff @(posedge clk) begin
    if (rst) open_q <= 1'b0;
    else if (dut.keep) open_q <= 1'b1;
    else if (frame_lost || published) open_q <= 1'b0;
  end
  always_comb begin
    if (frame_lost || published) assume (open_q && !(frame_lost && published));
    if (ring_free) assume (!open_q);
  end

  // ---- the frame that is filled ---------------------------------------------------------------------------------------

  // It has 64 samples, or ends before with tlast and is filled up with silence.
  logic take, put;
  logic [15:0] sample;
  logic fill_q;  // it is being filled up
  logic [5:0] index_q;  // of its next sample
  logic [6:0] samples_q;  // that came for it
  logic [31:0] number_q;
  logic closed_q;  // a frame ended in the clock before
  assign take   = s_axis_tvalid && s_axis_tready;
  assign put    = fill_q || (take && s_axis_tkeep);
  assign sample = fill_q ? '0 : s_axis_tdata;

  always_ff @(posedge clk) begin
    if (rst) begin
      index_q  <= '0;
      fill_q   <= 1'b0;
      number_q <= '0;
      closed_q <= 1'b0;
    end else begin
      closed_q <= put && index_q == '1;
      if (put) index_q <= index_q + 1'b1;
      if (put && index_q == '1) number_q <= number_q + 1'b1;
      if (take && s_axis_tlast && !(s_axis_tkeep && index_q == '1)) fill_q <= 1'b1;
      else if (put && index_q == '1) fill_q <= 1'b0;
      if (take) samples_q <= 7'(index_q) + 7'(s_axis_tkeep);
    end
  end

  // stream_gate promises that only the end of a frame may come without a sample.
  always_comb if (s_axis_tvalid && !s_axis_tkeep) assume (s_axis_tlast);

  // ---- what is kept -------------------------------------------------------------------------------------------------

  logic leaving_q;  // a frame was kept and its last beat is still here
  logic left;
  logic told_q;  // a loss that is counted a clock after it was told
  logic [31:0] kept_number_q, kept_q, lost_later_q;
  assign left = m_axis_tvalid && m_axis_tready && m_axis_tlast;
  always_ff @(posedge clk) begin
    if (rst) begin
      leaving_q    <= 1'b0;
      told_q       <= 1'b0;
      kept_q       <= '0;
      lost_later_q <= '0;
    end else begin
      if (dut.keep) leaving_q <= 1'b1;
      else if (left) leaving_q <= 1'b0;
      if (dut.keep) kept_number_q <= number_q - 32'd1;
      kept_q       <= kept_q + 32'(dut.keep);
      told_q       <= frame_lost;
      lost_later_q <= lost_later_q + 32'(told_q);
    end
  end

  always_comb
    if (running) begin
      assert (s_axis_tready || fill_q || patient);
      // Only at its end a frame is kept, when the one before has left; it leaves as one frame.
      if (dut.keep) assert (closed_q && ring_free && !leaving_q);
      if (m_axis_tvalid) assert (leaving_q);
      // Every frame was lost, or was kept and not lost later.
      assert (frames_captured == number_q - 32'(closed_q));
      assert (frames_captured == frames_lost + kept_q - lost_later_q);
      // First the header: "VX", version 1, and the frame's own number.
      if (m_axis_tvalid && beat == 4'd0) begin
        assert (m_axis_tdata[23:0] == 24'h01_5856 && m_axis_tdata[63:32] == kept_number_q);
      end
    end

  // ---- the frame that is followed -------------------------------------------------------------------------------------

  logic filling_q;  // from its first sample to its close
  logic sending_q;  // from its close, if it was kept, to its last beat
  logic [5:0] which_q;
  logic [15:0] sample_q;
  logic [6:0] count_q;
  logic [63:0] time_q;
  logic [31:0] followed_q;

  logic [5:0] which_now;  // also in the clock of the first sample
  logic first;
  assign first     = take && index_q == '0 && follow && !sending_q && !fill_q && (!filling_q || closed_q) && !dut.keep;
  assign which_now = first ? which : which_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      filling_q <= 1'b0;
      sending_q <= 1'b0;
    end else begin
      if (first) begin
        filling_q  <= 1'b1;
        which_q    <= which;
        followed_q <= number_q;
        time_q     <= s_axis_tuser < 64'(delay_ns) ? 64'd0 : s_axis_tuser - 64'(delay_ns);
      end else if (closed_q) begin
        filling_q <= 1'b0;
      end
      if (put && index_q == which_now && (first || (filling_q && !closed_q))) sample_q <= sample;
      if (closed_q && filling_q) count_q <= samples_q;
      if (closed_q && filling_q && dut.keep) sending_q <= 1'b1;
      else if (left) sending_q <= 1'b0;
    end
  end

  logic [3:0] sample_beat;
  assign sample_beat = 4'd2 + 4'(which_q[5:3]);

  always_comb
    if (running && sending_q) begin
      assert (kept_number_q == followed_q);
      if (m_axis_tvalid && beat == 4'd0) assert (m_axis_tdata[127:64] == time_q);
      if (m_axis_tvalid && beat == 4'd1) assert (m_axis_tdata[79:64] == 16'(count_q));
      if (m_axis_tvalid && beat == sample_beat) assert (m_axis_tdata[16*which_q[2:0]+:16] == sample_q);
    end

  // ---- what holds inside, for the induction ------------------------------------------------------------------------

  // States: 0 empty, 1 waiting, 2 summing, 3 sending. While it is summed the header turns by 32 bits a clock.
  logic [255:0] header;  // as it will be sent
  logic [511:0] twice;
  assign twice  = {dut.header_q, dut.header_q};
  assign header = dut.state_q == 2'd2 ? 256'(twice >> (256 - 32 * int'(dut.turn_q))) : dut.header_q;

  int age;  // samples since the one that is remembered
  assign age = int'(index_q) - 1 - int'(which_q);

  always_comb
    if (running) begin
      assert (dut.index_q == index_q && dut.close_q == closed_q && dut.fill_q == fill_q);
      if (index_q != '0 || fill_q || closed_q) assert (dut.samples_q == samples_q);
      if (closed_q) assert (!fill_q);
      if (closed_q) assert (index_q == '0);
      assert (leaving_q == (dut.state_q != 2'd0 || m_axis_tvalid));
      assert (dut.state_q == 2'd2 || dut.turn_q == '0);
      assert (dut.beat_q <= 4'd9 && (dut.state_q == 2'd3 || dut.beat_q == '0));
      if (dut.state_q == 2'd3) assert (dut.beat_q == beat + 4'(m_axis_tvalid));
      if (dut.state_q == 2'd0) assert (beat == (m_axis_tvalid ? 4'd9 : 4'd0));
      if (dut.state_q == 2'd1 || dut.state_q == 2'd2) assert (beat == '0 && !m_axis_tvalid);
      if (dut.state_q != 2'd0) assert (header[23:0] == 24'h01_5856 && header[63:32] == kept_number_q);
      if (filling_q && !closed_q) assert ((index_q != '0 || fill_q) && followed_q == number_q);
      if (filling_q && closed_q) assert (followed_q == number_q - 32'd1);
      if (filling_q) assert (dut.capture_ns_q == time_q);
      if (sending_q) assert (leaving_q && !filling_q);
      if (sending_q && dut.state_q != 2'd0) assert (header[127:64] == time_q && header[207:192] == 16'(count_q));
      // Where the remembered sample is: among the last seven, in the bank that is filled, or in the one that is sent.
      if (filling_q && !closed_q && age >= 0 && index_q[5:3] == which_q[5:3]) begin
        assert (dut.pack_q[16*(6-age)+:16] == sample_q);
      end
      if (filling_q && (closed_q || index_q[5:3] > which_q[5:3])) begin
        assert (dut.payload[{dut.bank_q, which_q[5:3]}][16*which_q[2:0]+:16] == sample_q);
      end
      if (sending_q && dut.state_q != 2'd0) begin
        assert (dut.payload[{!dut.bank_q, which_q[5:3]}][16*which_q[2:0]+:16] == sample_q);
      end
    end

  // ---- what can happen ---------------------------------------------------------------------------------------------

  always_comb
    if (running) begin
      cover (sending_q && m_axis_tvalid && beat == sample_beat && which_q == 6'd45);
      cover (left && frames_lost != '0);
      cover (sending_q && left && count_q == 7'd5);
    end

endmodule
