// Decides which samples become frames and where a frame ends: all of them on the grid, or, gated, those of speech.
// docs/frame.md, "Gated", says what the host sees.
//
//   s_axis ─► [ history: HISTORY samples, and a stamp each 16 ] ─► [ read ] ─► [ output ] ─► m_axis
//                  ▲ count_q                  ▲ next_q
//                  └────────── lag_q ─────────┘
//
//   samples ── silence ────┬─ preroll ─┬─ speech, hangover ─────────────┬─ silence ──
//                          ▲ the first frame begins                     ▲ the last one ends
//   voice activity                     ▲ first block    ▲ onset_pulse   ▲ the block that offset_pulse ended
//
// Samples never wait. What is sent follows behind them: at once, or, after an onset, from as far back as the pre-roll
// reaches, as fast as m_axis takes it. In silence next_q is what an onset may still reach back to: no sample is sent
// twice, and none is older than a frame before it said.
//
// Voice activity hears the samples DELAY earlier. A pulse belongs to the block that ended 8 samples before or after it,
// so that a few cycles more or less on either way change nothing.

module stream_gate #(
    // Samples by which s_axis is later than what the voice activity heard
    parameter int DELAY   = 30,
    // Samples that are remembered; a power of two, 512 to 2048. An onset reaches back HISTORY - 64 at most.
    parameter int HISTORY = 1024
) (
    input  logic        clk,
    input  logic        rst,
    // samples; tuser is the media time at which the newest 48 kHz sample in it arrived. Always ready.
    input  logic [15:0] s_axis_tdata,
    input  logic [63:0] s_axis_tuser,
    input  logic        s_axis_tvalid,
    output logic        s_axis_tready,
    // settings; `gated` is looked at between frames, min_onset is that of the voice activity
    input  logic        gated,
    input  logic [ 8:0] preroll,
    input  logic [ 5:0] min_onset,
    // voice activity: blocks from the onset's first to the deciding one, both included; a hop's result is there
    input  logic        onset_pulse,
    input  logic [ 6:0] onset_blocks,
    input  logic        offset_pulse,
    input  logic        hop_valid,
    // to the framer; tuser counts for a frame's first sample, the frame_* for its last. tkeep low, which comes with tlast
    // only: there is no sample, the frame is empty.
    output logic [15:0] m_axis_tdata,
    output logic [63:0] m_axis_tuser,
    output logic        m_axis_tvalid,
    input  logic        m_axis_tready,
    output logic        m_axis_tkeep,
    output logic        m_axis_tlast,
    // the frame is none of the grid, so that its flags are not those of its hop: an onset lies in it, an offset ends it,
    // it is speech or it is none, whatever the hop says
    output logic        frame_gated,
    output logic        frame_onset,
    output logic        frame_offset,
    output logic        frame_speech,
    output logic        frame_quiet,
    // the frame's last sample may wait for the ring
    output logic        patient,
    // hops that have ended, modulo 256
    output logic [ 7:0] hops_due,
    // the next clock changes something
    output logic        busy
);

  localparam int AddrW = $clog2(HISTORY);
  localparam int PlaceW = 13;  // of a sample, modulo 8,192, and of the signed distance between two
  localparam logic signed [PlaceW-1:0] Delay = PlaceW'(DELAY);
  localparam logic signed [PlaceW-1:0] Reach = PlaceW'(HISTORY - 64);
  localparam logic signed [PlaceW-1:0] Forgotten = PlaceW'(HISTORY - 48);  // an onset reaches no further
  localparam logic signed [PlaceW-1:0] Patience = PlaceW'(HISTORY - 32);
  localparam logic signed [PlaceW-1:0] KeepAliveReach = PlaceW'(16);  // at least: to a sample that is there
  localparam logic [11:0] KeepAlive = 12'd7;  // of each 4,096 samples; not near a block's end, where the pulses come
  localparam logic signed [PlaceW-1:0] Rejoin = PlaceW'(8);  // of each 64: by then the last hop's pulses have come

`ifndef SYNTHESIS
  initial begin
    if (HISTORY < 512 || HISTORY > 2048 || 2 ** AddrW != HISTORY) begin
      $fatal(1, "stream_gate: HISTORY must be a power of two from 512 to 2048");
    end
    if (DELAY < 16 || DELAY > 63) $fatal(1, "stream_gate: DELAY must be 16 to 63");
  end
`endif

  // ---- history -------------------------------------------------------------------------------------------------------

  logic [15:0] history[HISTORY];
  logic [63:0] stamps[HISTORY/16];  // of each block's first sample
  logic [13:0] count_q;  // samples since reset; 14 bits tell hops modulo 256
  logic [PlaceW-1:0] next_q;  // to be sent
  logic fetch, emit;

  assign s_axis_tready = 1'b1;
  assign hops_due      = count_q[13:6];

  always_ff @(posedge clk) begin
    if (s_axis_tvalid) history[count_q[AddrW-1:0]] <= s_axis_tdata;
  end

  always_ff @(posedge clk) begin
    if (s_axis_tvalid && count_q[3:0] == '0) stamps[count_q[AddrW-1:4]] <= s_axis_tuser;
  end

  always_ff @(posedge clk) begin
    if (rst) count_q <= '0;
    else count_q <= count_q + 14'(s_axis_tvalid);
  end

  // ---- voice activity ------------------------------------------------------------------------------------------------

  // Four steps from a pulse to the place it means. A keep-alive frame takes three of them, as if the block to come decided
  // an onset, of a block more than that needs: no onset will reach further back.
  logic step1_q, step2_q, step3_q, step4_q;  // of an onset
  logic due_q, due1_q, due2_q, due3_q, aimed_q;  // of a keep-alive frame; it may go
  logic offset_q;
  logic [PlaceW-1:0] block_end_q;  // the sample after the block's last one
  logic signed [PlaceW-1:0] since_q, depth_q;  // to the block's end, from the onset's first block and from the pre-roll
  logic [PlaceW-1:0] onset_at_q, from_q, stop_q;  // the onset's first sample, the pre-roll's, the offset's last one
  logic signed [PlaceW-1:0] depth;
  logic [6:0] blocks;
  logic open_q;  // samples are sent
  logic speech_q;  // an onset was decided, and no offset since
  logic ask, aim;

  assign ask    = due_q && gated && !open_q && !speech_q && !onset_pulse;
  assign aim    = due3_q && !speech_q;
  assign blocks = onset_pulse ? onset_blocks : 7'(min_onset) + 7'd1;
  assign depth  = since_q + PlaceW'(preroll);

  always_ff @(posedge clk) begin
    if (rst) begin
      {step1_q, step2_q, step3_q, step4_q, offset_q} <= '0;
      {due_q, due1_q, due2_q, due3_q, aimed_q}       <= '0;
      block_end_q                                    <= '0;
      since_q                                        <= '0;
      depth_q                                        <= '0;
      onset_at_q                                     <= '0;
      from_q                                         <= '0;
      stop_q                                         <= '0;
    end else begin
      step1_q  <= onset_pulse;
      step2_q  <= step1_q;
      step3_q  <= step2_q;
      step4_q  <= step3_q;
      offset_q <= offset_pulse;
      due_q    <= s_axis_tvalid && count_q[11:0] == KeepAlive;
      due1_q   <= ask;
      due2_q   <= due1_q && !onset_pulse;
      due3_q   <= due2_q && !onset_pulse;
      aimed_q  <= (aim || (aimed_q && !emit)) && !speech_q && !open_q;
      if (onset_pulse || offset_pulse || ask) begin
        block_end_q <= {count_q[PlaceW-1:4] + (PlaceW - 4)'(count_q[3]), 4'd0};
        since_q     <= PlaceW'({blocks, 4'd0}) - Delay;
      end
      if (step1_q || due1_q) begin
        onset_at_q <= block_end_q - since_q;
        if (depth > Reach) depth_q <= Reach;
        else if (due1_q && depth < KeepAliveReach) depth_q <= KeepAliveReach;
        else depth_q <= depth;
      end
      if (step2_q || due2_q) from_q <= block_end_q - depth_q;
      if (offset_q) stop_q <= block_end_q + Delay - PlaceW'(1);
    end
  end

  // ---- where to go on ------------------------------------------------------------------------------------------------

  logic signed [PlaceW-1:0] lag_q;  // samples not sent; below 0, the next to be sent has not come yet
  logic signed [PlaceW-1:0] skipped;
  logic move, rejoin, forget;

  assign skipped = from_q - next_q;
  assign move    = ((step3_q && !open_q) || aim) && skipped > 0;
  assign rejoin  = !open_q && !gated && !speech_q && count_q[5:0] == Rejoin[5:0] && lag_q >= Rejoin;
  assign forget  = !open_q && s_axis_tvalid && lag_q >= Forgotten;

  always_ff @(posedge clk) begin
    if (rst) begin
      next_q <= '0;
      lag_q  <= '0;
    end else if (move) begin
      next_q <= from_q;
      lag_q  <= count_q[PlaceW-1:0] - from_q + PlaceW'(s_axis_tvalid);
    end else if (rejoin) begin
      next_q <= {count_q[PlaceW-1:6], 6'd0};
      lag_q  <= Rejoin + PlaceW'(s_axis_tvalid);
    end else begin
      next_q <= next_q + PlaceW'(fetch || forget);
      lag_q  <= lag_q + PlaceW'(s_axis_tvalid) - PlaceW'(fetch || forget);
    end
  end

  // ---- what is sent --------------------------------------------------------------------------------------------------

  logic [5:0] position_q;  // of the next sample in its frame
  logic gated_q;  // the frame in hand is none of the grid
  logic ending_q;  // stop_q is to come
  logic onset_q;  // no frame has told of the onset yet
  logic decided_q;  // there was an onset since the last hop's result
  logic quiet_q, quiet;  // the next sample comes before the onset's first
  logic read_q, slot, start, gated_frame, sleep, last, at_stop, at_grid;

  assign slot = !read_q || !m_axis_tvalid || m_axis_tready;
  assign start = position_q == '0;
  // Gated frames give way to those of the grid where one begins: what is left to tell is told before.
  assign gated_frame = start ? gated || next_q[5:0] != '0 || (gated_q && (ending_q || onset_q)) : gated_q;
  assign quiet = quiet_q && next_q != onset_at_q;
  assign at_stop = ending_q && next_q == stop_q;
  assign at_grid = !gated && next_q[5:0] == '1 && !ending_q && !quiet;
  assign last = position_q == '1 || (gated_frame && (at_stop || at_grid));
  // The grid gives way to silence when its next frame would begin: by then the pulses of the last one have come.
  assign sleep = open_q && lag_q > 0 && start && gated && !speech_q && !onset_pulse && !ending_q;
  assign fetch = open_q && lag_q > 0 && slot && !sleep;
  assign emit = aimed_q && !open_q && slot;

  always_ff @(posedge clk) begin
    if (rst) begin
      open_q     <= 1'b1;
      gated_q    <= 1'b0;
      position_q <= '0;
      speech_q   <= 1'b0;
      ending_q   <= 1'b0;
      onset_q    <= 1'b0;
      decided_q  <= 1'b0;
      quiet_q    <= 1'b0;
    end else begin
      if (step4_q || rejoin) open_q <= 1'b1;
      else if (sleep || (fetch && gated_frame && at_stop && !speech_q && !onset_pulse)) open_q <= 1'b0;
      if (sleep) gated_q <= 1'b1;
      else if (fetch) gated_q <= gated_frame;
      if (fetch) position_q <= last ? '0 : position_q + 1'b1;

      speech_q  <= onset_pulse || (speech_q && !offset_q);
      ending_q  <= (offset_q && gated_q && open_q) || (ending_q && !(fetch && at_stop));
      decided_q <= (step4_q || decided_q) && !hop_valid;
      if (step4_q && gated_q) begin
        onset_q <= 1'b1;
        quiet_q <= $signed(onset_at_q - next_q) > 0;
      end else if (fetch) begin
        onset_q <= onset_q && !(last && !quiet);
        quiet_q <= quiet;
      end
    end
  end

  // ---- read and output -----------------------------------------------------------------------------------------------

  logic [15:0] sample_q;
  logic [63:0] stamp_q;  // of its block
  logic [3:0] in_block_q;
  logic [6:0] frame_q;  // what goes with the sample
  logic advance;

  assign advance = read_q && (!m_axis_tvalid || m_axis_tready);
  assign patient = frame_gated && lag_q < Patience;

  always_ff @(posedge clk) begin
    if (fetch) sample_q <= history[next_q[AddrW-1:0]];
  end

  always_ff @(posedge clk) begin
    if (fetch || emit) stamp_q <= stamps[next_q[AddrW-1:4]];
  end

  // Samples are 62,500 ns apart.
  function automatic logic [63:0] after_first(input logic [3:0] samples);
    after_first = '0;
    for (int i = 1; i < 16; i++) if (samples == 4'(i)) after_first = 64'(62_500 * i);
  endfunction

  always_ff @(posedge clk) begin
    if (rst) begin
      read_q                                                                                          <= 1'b0;
      in_block_q                                                                                      <= '0;
      frame_q                                                                                         <= '0;
      m_axis_tvalid                                                                                   <= 1'b0;
      m_axis_tdata                                                                                    <= '0;
      m_axis_tuser                                                                                    <= '0;
      {m_axis_tkeep, m_axis_tlast, frame_gated, frame_onset, frame_offset, frame_speech, frame_quiet} <= '0;
    end else begin
      if (fetch || emit) begin
        read_q <= 1'b1;
        in_block_q <= next_q[3:0];
        frame_q <= {
          fetch,
          emit || last,
          emit || gated_frame,
          fetch && onset_q && !quiet,
          fetch && at_stop,
          fetch && decided_q,
          emit || quiet
        };
      end else if (advance) begin
        read_q <= 1'b0;
      end
      if (advance) begin
        m_axis_tvalid <= 1'b1;
        m_axis_tdata <= sample_q;
        m_axis_tuser <= stamp_q + after_first(in_block_q);
        {m_axis_tkeep, m_axis_tlast, frame_gated, frame_onset, frame_offset, frame_speech, frame_quiet} <= frame_q;
      end else if (m_axis_tready) begin
        m_axis_tvalid <= 1'b0;
      end
    end
  end

  assign busy = s_axis_tvalid || onset_pulse || step1_q || step2_q || step3_q || step4_q || offset_pulse || offset_q ||
      (hop_valid && decided_q) || (aimed_q && (speech_q || open_q)) || due_q || due1_q || due2_q || due3_q || rejoin ||
      sleep || fetch || emit || advance || (m_axis_tvalid && m_axis_tready);

endmodule
