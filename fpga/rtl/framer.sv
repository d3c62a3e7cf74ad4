// Makes frames of samples: a 32-byte header and 128 bytes of PCM, ten beats of 16 bytes. docs/frame.md gives the layout.
//
//   s_axis ─► [ 8 samples ] ─► [ two banks of 8 beats ] ─┐
//        └──► [ CRC ] ─► [ header, turned 8 x 32 bits ] ─┴─► [ output register ] ─► m_axis
//                           ▲ hop_*        └─► [ CRC ]
//
// A frame ends with its 64th sample, or before with tlast: then silence fills it up, a sample a cycle. It is closed the
// cycle after. There it is dropped, whole, unless the ring is free and nothing of the frame before is left here; so one
// bank is filled while the other leaves. A frame that is kept waits for the result of the newest hop that had ended when
// it did, which may come before or after its last sample: both are counted from reset.

module framer #(
    // Number of the first frame after reset; not 0 only in tests of its wrap
    parameter logic [31:0] SEQUENCE_RESET = 32'd0
) (
    input  logic         clk,
    input  logic         rst,
    // samples, as stream_gate gives them; tuser of a frame's first one is the media time at which the newest 48 kHz sample
    // in it arrived. Always ready but while a frame is filled up, and for a `patient` frame's last sample.
    input  logic [ 15:0] s_axis_tdata,
    input  logic [ 63:0] s_axis_tuser,
    input  logic         s_axis_tvalid,
    output logic         s_axis_tready,
    input  logic         s_axis_tkeep,     // low: no sample, the frame that this ends is empty
    input  logic         s_axis_tlast,     // the frame ends here, however short
    // of the frame that ends: its flags are these and not the hop's. It is speech whatever the hop says; it is none
    // whatever the hop and frame_speech say.
    input  logic         frame_gated,
    input  logic         frame_onset,
    input  logic         frame_offset,
    input  logic         frame_speech,
    input  logic         frame_quiet,
    // the frame's last sample waits until the frame can be kept, unless the ring has no room and nothing to do
    input  logic         patient,
    // hops that have ended, modulo 256
    input  logic [  7:0] hops_due,
    // from the air to s_axis, taken off the first sample's time as that sample comes
    input  logic [ 31:0] delay_ns,
    // voice activity of the hop, stable from hop_valid to the next one
    input  logic         hop_valid,
    input  logic         hop_speech,
    input  logic         hop_onset,
    input  logic         hop_offset,
    input  logic [ 15:0] hop_energy,
    input  logic [ 15:0] hop_floor,
    input  logic [  7:0] hop_zc,
    input  logic [  7:0] hop_score,
    // flags: `clipped` counts for the frame in which it comes, the rest as they are when the frame is closed
    input  logic         clipped,
    input  logic         time_locked,
    input  logic         playback_active,
    input  logic         test_pattern,
    input  logic [  7:0] stage_mask,
    input  logic [  7:0] stream,
    // the ring: may a frame be sent; is nothing under way there; was the last one that was sent lost
    input  logic         ring_free,
    input  logic         ring_idle,
    input  logic         frame_lost,
    // a hop's result was so late, or so early, that it missed its frame
    output logic         hop_overrun,
    // frames, first byte in tdata[7:0]; tuser: an onset or an offset was decided in this frame
    output logic [127:0] m_axis_tdata,
    output logic         m_axis_tvalid,
    input  logic         m_axis_tready,
    output logic         m_axis_tlast,
    output logic         m_axis_tuser,
    // frames since reset, and those of them that did not reach the ring
    output logic [ 31:0] frames_captured,
    output logic [ 31:0] frames_lost,
    // the next clock changes something
    output logic         busy
);

  localparam logic [15:0] Magic = 16'h5856;  // "VX", first letter in the low byte
  localparam logic [7:0] Version = 8'd1;
  localparam logic [3:0] LastBeat = 4'd9;

  // (An enum here is miscompiled by Icarus 11.)
  localparam logic [1:0] Empty = 2'd0;  // nothing but, perhaps, a last beat in the output register
  localparam logic [1:0] Waiting = 2'd1;  // for the result of the hop
  localparam logic [1:0] Summing = 2'd2;  // the CRC takes the header
  localparam logic [1:0] Sending = 2'd3;

  logic [1:0] state_q;

  // ---- samples -------------------------------------------------------------------------------------------------------

  logic [5:0] index_q;  // of the next sample in its frame
  logic fill_q;  // silence fills the frame up
  logic take, put, ends;
  logic [15:0] sample;
  logic [6:0] samples_q;  // of the frame, without what fills it up
  logic [4:0] voice_q;  // frame_*
  logic [7:0] owed_q;  // hops that must have come for the frame
  logic bank_q;  // that is filled; the other one is sent
  logic [111:0] pack_q;  // the last seven samples
  logic [127:0] payload[16];
  logic [63:0] capture_ns_q;
  logic close_q;  // the frame ended with the sample before
  logic [31:0] payload_crc;

  // While the ring stores a frame, it will soon be free again; while it is at rest and not free, waiting is for nothing.
  logic settled;
  assign settled = state_q == Empty && !m_axis_tvalid && !close_q && (ring_free || ring_idle);
  assign ends = s_axis_tlast || index_q == '1;
  assign s_axis_tready = !fill_q && (!patient || !ends || settled);
  assign take = s_axis_tvalid && s_axis_tready;
  assign put = (take && s_axis_tkeep) || fill_q;
  assign sample = fill_q ? '0 : s_axis_tdata;

  crc32 #(
      .BYTES(2)
  ) payload_sum (
      .clk,
      .rst,
      .enable(put),
      .first (index_q == '0),
      .seed  (32'hFFFFFFFF),
      .data  (sample),
      .state (payload_crc)
  );

  // The bank changes in the cycle after the last sample, in which the next frame's first sample may come; that one only
  // goes into pack_q, so the write address needs no bypass.
  always_ff @(posedge clk) begin
    if (put && index_q[2:0] == '1) payload[{bank_q, index_q[5:3]}] <= {sample, pack_q};
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      index_q      <= '0;
      pack_q       <= '0;
      capture_ns_q <= '0;
      close_q      <= 1'b0;
      fill_q       <= 1'b0;
      samples_q    <= '0;
      voice_q      <= '0;
      owed_q       <= '0;
    end else begin
      close_q <= put && index_q == '1;
      if (put) begin
        index_q <= index_q + 1'b1;
        pack_q  <= {sample, pack_q[111:16]};
      end
      if (take) begin
        fill_q    <= ends && !(index_q == '1 && s_axis_tkeep);
        samples_q <= 7'(index_q) + 7'(s_axis_tkeep);
        // No sample was at the ADC before the clock began.
        if (index_q == '0) capture_ns_q <= s_axis_tuser < 64'(delay_ns) ? '0 : s_axis_tuser - 64'(delay_ns);
        if (ends) begin
          voice_q <= {frame_gated, frame_onset, frame_offset, frame_speech, frame_quiet};
          owed_q  <= hops_due;
        end
      end else if (index_q == '1) begin
        fill_q <= 1'b0;
      end
    end
  end

  // ---- what is lost --------------------------------------------------------------------------------------------------

  logic keep;
  logic told_q;  // frame_lost a clock ago: it comes late in its clock, and no frame is kept in it
  logic clipped_q;
  logic [15:0] lost_q;  // frames lost since the last one that was sent
  logic [15:0] reported_q;  // `lost` of that one, which is to be told again if it is lost itself
  logic [17:0] lost_sum, lost_more;
  logic [15:0] lost;  // before this frame

  assign keep = close_q && ring_free && state_q == Empty && !m_axis_tvalid;
  assign lost_sum = 18'(lost_q) + (told_q ? 18'(reported_q) + 18'd1 : 18'd0);
  assign lost_more = lost_sum + 18'd1;
  assign lost = |lost_sum[17:16] ? '1 : lost_sum[15:0];

  always_ff @(posedge clk) begin
    if (rst) begin
      told_q          <= 1'b0;
      clipped_q       <= 1'b0;
      lost_q          <= '0;
      reported_q      <= '0;
      frames_captured <= SEQUENCE_RESET;
      frames_lost     <= '0;
      bank_q          <= 1'b0;
    end else begin
      told_q <= frame_lost;
      clipped_q <= (clipped_q || clipped) && !close_q;
      if (keep) lost_q <= '0;
      else if (!close_q) lost_q <= lost;
      else lost_q <= |lost_more[17:16] ? '1 : lost_more[15:0];
      frames_captured <= frames_captured + 32'(close_q);
      if (close_q && !keep) frames_lost <= frames_lost + (told_q ? 32'd2 : 32'd1);
      else if (told_q) frames_lost <= frames_lost + 32'd1;
      if (keep) begin
        bank_q     <= !bank_q;
        reported_q <= lost;
      end else if (told_q) begin
        reported_q <= '0;
      end
    end
  end

  // ---- the hop that belongs to the frame -----------------------------------------------------------------------------

  logic [7:0] hops_q;  // results since reset
  logic [7:0] wanted_q;  // hops that must have come for the waiting frame
  logic hop_here;
  logic [2:0] voice;  // offset, onset, speech
  logic gated, onset, offset, speech, quiet;
  logic [4:0] waiting_q;  // frame_* of the waiting frame

  assign hop_here = $signed(hops_q - wanted_q) >= 8'sd0;
  assign hop_overrun = (close_q && state_q == Waiting) || (hop_valid && hops_q == hops_due + 8'd1);
  assign {gated, onset, offset, speech, quiet} = waiting_q;
  assign voice = gated ? {offset, onset, !quiet && (speech || hop_speech)} : {hop_offset, hop_onset, hop_speech};

  always_ff @(posedge clk) begin
    if (rst) hops_q <= '0;
    else hops_q <= hops_q + 8'(hop_valid);
  end

  // ---- the header ----------------------------------------------------------------------------------------------------

  // Until it is summed, the field of the CRC holds the payload's. Eight turns by 32 bits then feed the header to the CRC
  // word by word, put the sum in its place and leave every word where it was.
  logic [255:0] header_q;
  logic [  2:0] turn_q;
  logic [  7:3] flags;
  logic [ 31:0] header_crc;

  assign flags = {test_pattern, playback_active, time_locked, clipped_q || clipped, lost != '0};

  crc32 #(
      .BYTES(4)
  ) header_sum (
      .clk,
      .rst,
      .enable(state_q == Summing),
      .first (turn_q == '0),
      .seed  (header_q[255:224]),
      .data  (header_q[31:0]),
      .state (header_crc)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      header_q     <= '0;
      wanted_q     <= '0;
      waiting_q    <= '0;
      m_axis_tuser <= 1'b0;
    end else if (keep) begin
      wanted_q <= owed_q;
      waiting_q <= voice_q;
      header_q <= {
        payload_crc,
        {stream, stage_mask, 9'd0, samples_q},
        {16'd0, 16'd0},
        {16'd0, lost},
        capture_ns_q,
        frames_captured,
        {flags, 3'd0, Version, Magic}
      };
    end else if (state_q == Waiting && hop_here) begin
      header_q[26:24]   <= voice;
      header_q[159:144] <= hop_energy;
      header_q[175:160] <= hop_floor;
      header_q[191:176] <= {hop_score, hop_zc};
      m_axis_tuser      <= voice[2] || voice[1];
    end else if (state_q == Summing) begin
      header_q <= {turn_q == '1 ? ~header_crc : header_q[31:0], header_q[255:32]};
    end
  end

  // ---- output --------------------------------------------------------------------------------------------------------

  logic [3:0] beat_q;
  logic [2:0] row;
  logic load;
  assign row  = 3'(beat_q - 4'd2);
  assign load = state_q == Sending && (!m_axis_tvalid || m_axis_tready);

  always_ff @(posedge clk) begin
    if (rst) begin
      state_q <= Empty;
      turn_q  <= '0;
      beat_q  <= '0;
    end else begin
      case (state_q)
        Empty:   if (keep) state_q <= Waiting;
        Waiting: if (hop_here) state_q <= Summing;
        Summing: begin
          turn_q <= turn_q + 1'b1;
          if (turn_q == '1) state_q <= Sending;
        end
        default: begin
          if (load) beat_q <= beat_q == LastBeat ? '0 : beat_q + 1'b1;
          if (load && beat_q == LastBeat) state_q <= Empty;
        end
      endcase
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      m_axis_tvalid <= 1'b0;
      m_axis_tlast  <= 1'b0;
      m_axis_tdata  <= '0;
    end else if (load) begin
      m_axis_tvalid <= 1'b1;
      m_axis_tlast  <= beat_q == LastBeat;
      if (beat_q == 4'd0) m_axis_tdata <= header_q[127:0];
      else if (beat_q == 4'd1) m_axis_tdata <= header_q[255:128];
      else m_axis_tdata <= payload[{!bank_q, row}];
    end else if (m_axis_tready) begin
      m_axis_tvalid <= 1'b0;
    end
  end

  assign busy = take || fill_q || close_q || hop_valid || clipped || frame_lost || told_q ||
      (state_q == Waiting && hop_here) || state_q == Summing || load || (m_axis_tvalid && m_axis_tready);

endmodule
