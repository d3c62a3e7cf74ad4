// Voice activity: decides every 16 samples (1 ms) whether someone speaks, and says when speech began and ended.
//
// Each block has a score, 0 to 255. It starts speech from `onset_score` on, `min_onset` blocks in a row, and continues it
// from `offset_score` on. The score is what the denoiser's spectrum of the last whole hop says (vad_evidence); and because
// that comes 4 to 8 ms late, it is no less than the loudness of the block's own 16 samples for the first 12 ms after at
// least 32 ms of quiet. By then the spectrum must agree: a rumble is loud too.
//
// The level is the energy of the last 64 samples, high-passed at 160 Hz, as log2 in Q6.10 (1024 is 3.01 dB). A block that
// is not `offset_margin` over the floor is silence whatever its score; so is one 28.6 dB under the recent peak, so that
// reverberation and breath after a loud word do not count.
//
// With `plain` the score decides nothing. Then a block starts speech when the level is `onset_margin` over the floor and
// the window has few zero crossings (or the block's own samples are `loud_margin` over the floor).
//
// The floor is the least energy of any 32 ms segment in the last three to four seconds, four buckets of which are kept
// (after Martin's minimum statistics, IEEE Trans. Speech Audio Proc. 9(5), 2001). Speech leaves no segment of that
// length as quiet as the room in seconds only if it never pauses. Digital silence is not a room and is passed over.
//
//   sample ─► [difference] ─► [square] ─► [block energy] ─► [window] ─► log2 ─► decide      (clock 0 .. 7)
//   bins ─► vad_evidence ────────────────────────────────┼───────────────────────┘
//                                                        └► [segment] ─► log2 ─► floor      (clock 8 .. 10)

module vad (
    input  logic        clk,
    input  logic        rst,
    // 16 kHz samples; tuser is the media time, ns, at which the newest sample in them arrived
    input  logic [15:0] s_axis_tdata,
    input  logic [63:0] s_axis_tuser,
    input  logic        s_axis_tvalid,
    output logic        s_axis_tready,
    // settings: see the registers VAD_* in frontend.rdl
    input  logic [31:0] delay_ns,
    input  logic        plain,
    input  logic [ 7:0] onset_score,
    input  logic [ 7:0] offset_score,
    input  logic [15:0] onset_margin,
    input  logic [15:0] offset_margin,
    input  logic [15:0] loud_margin,
    input  logic [15:0] floor_min,
    input  logic [ 4:0] zc_max,
    input  logic [11:0] hangover,
    input  logic [ 5:0] min_onset,
    input  logic [15:0] playback_margin,
    // a reply is audible; taken at the last sample of a block
    input  logic        playback_active,
    // the denoiser's spectrum: bins 0 to 64 of a hop, after its last sample and before the 16th of the next hop
    input  logic        bin_valid,
    input  logic [ 6:0] bin_index,
    input  logic [15:0] bin_level,
    input  logic [15:0] bin_noise,
    // the hop of 64 samples that has just ended; stable from one hop_valid to the next
    output logic        hop_valid,
    output logic        hop_speech,       // any speech block, hangover not counted
    output logic        hop_onset,        // an onset was decided
    output logic        hop_offset,       // an offset was decided, after the hangover
    output logic [15:0] hop_energy,       // high-passed
    output logic [15:0] hop_floor,
    output logic [ 7:0] hop_zc,
    output logic [ 7:0] hop_score,        // of its last block; plain: level over the floor, 255 is 24 dB
    // now, hangover included
    output logic        active,
    // pulses as `active` rises and falls; the blocks of the onset, from its first to the deciding one
    output logic        onset_pulse,
    output logic [ 6:0] onset_blocks,
    output logic        offset_pulse,
    // media time at the ADC of the first sample of the last onset, and of the last sample of speech before the last offset
    output logic [63:0] onset_ns,
    output logic [63:0] offset_ns,
    // the next clock changes something
    output logic        busy
);

  localparam logic [15:0] LevelOf4 = 16'd2048;  // from 16-sample to 64-sample units
  localparam logic [15:0] LevelOf8 = 16'd3072;  // from 512-sample to 64-sample units
  localparam logic [15:0] FloorBias = 16'd256;  // the least of many noise segments lies 0.75 dB under their mean
  localparam logic [15:0] FloorStart = 16'd18432;  // -54 dBFS: the highest floor until the first memory is full
  localparam logic [35:0] DigitalSilence = 36'd16;  // 1 LSB RMS in a block
  localparam logic [17:0] Range = 18'd9728;
  localparam logic [4:0] BucketLast = 5'd23;  // segments in a bucket, less one
  localparam logic [8:0] LoudnessLeast = 9'd8;  // of a block at the floor; 48 is 15 dB over it
  localparam logic [5:0] CalmMost = 6'd43;  // 32 quiet blocks, and the 12 in which loudness counts after them

  assign s_axis_tready = 1'b1;

  // ---- samples -> block energy and zero crossings --------------------------------------------------------------------

  logic [3:0] sample_q;  // of the block
  logic [63:0] first_ns_q, block_first_ns_q, block_last_ns_q;
  logic signed [19:0] total_q;  // 16 times the running mean
  logic signed [16:0] difference, difference_q;
  logic [31:0] square_q;
  logic [35:0] sum_q, energy_q;
  logic [4:0] crossings_q, zc_q;
  logic negative_q, crossing_q, playback_q;
  logic valid1_q, last1_q, valid2_q, last2_q;

  assign difference = 17'($signed(s_axis_tdata)) - 17'(total_q >>> 4);

  always_ff @(posedge clk) begin
    if (rst) begin
      sample_q                               <= '0;
      first_ns_q                             <= '0;
      block_first_ns_q                       <= '0;
      block_last_ns_q                        <= '0;
      playback_q                             <= 1'b0;
      total_q                                <= '0;
      difference_q                           <= '0;
      square_q                               <= '0;
      sum_q                                  <= '0;
      energy_q                               <= '0;
      crossings_q                            <= '0;
      zc_q                                   <= '0;
      negative_q                             <= 1'b0;
      crossing_q                             <= 1'b0;
      {valid1_q, last1_q, valid2_q, last2_q} <= '0;
    end else begin
      valid1_q <= s_axis_tvalid;
      last1_q  <= s_axis_tvalid && sample_q == 4'd15;
      valid2_q <= valid1_q;
      last2_q  <= last1_q;
      if (s_axis_tvalid) begin
        sample_q     <= sample_q + 1'b1;
        difference_q <= difference;
        total_q      <= total_q + 20'(difference);
        if (sample_q == 4'd0) first_ns_q <= s_axis_tuser;
        if (sample_q == 4'd15) begin
          block_first_ns_q <= first_ns_q;
          block_last_ns_q  <= s_axis_tuser;
          playback_q       <= playback_active;
        end
      end
      if (valid1_q) begin
        square_q   <= 32'(difference_q * difference_q);
        negative_q <= difference_q[16];
        crossing_q <= difference_q[16] != negative_q;
      end
      if (valid2_q) begin
        sum_q       <= last2_q ? '0 : sum_q + 36'(square_q);
        crossings_q <= last2_q ? '0 : crossings_q + 5'(crossing_q);
        if (last2_q) begin
          energy_q <= sum_q + 36'(square_q);
          zc_q     <= crossings_q + 5'(crossing_q);
        end
      end
    end
  end

  // ---- a block's eight steps -----------------------------------------------------------------------------------------

  logic step3_q, step4_q, step5_q, step6_q, step7_q, step8_q, step9_q, step10_q;
  logic [1:0] block_q;  // of the hop
  logic [4:0] segment_block_q;
  logic hop_end_q, segment_end_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      {step3_q, step4_q, step5_q, step6_q, step7_q, step8_q, step9_q, step10_q} <= '0;
      block_q                                                                   <= '0;
      segment_block_q                                                           <= '0;
      hop_end_q                                                                 <= 1'b0;
      segment_end_q                                                             <= 1'b0;
    end else begin
      step3_q  <= last2_q;
      step4_q  <= step3_q;
      step5_q  <= step4_q;
      step6_q  <= step5_q;
      step7_q  <= step6_q;
      step8_q  <= step7_q && segment_end_q;
      step9_q  <= step8_q;
      step10_q <= step9_q;
      if (step3_q) begin
        block_q         <= block_q + 1'b1;
        segment_block_q <= segment_block_q + 1'b1;
        hop_end_q       <= block_q == 2'd3;
        segment_end_q   <= segment_block_q == 5'd31;
      end
    end
  end

  // Step 3: the window of four blocks and the segment of 32.
  logic [35:0] energy1_q, energy2_q, energy3_q;
  logic [37:0] window_q;
  logic [4:0] zc1_q, zc2_q, zc3_q;
  logic [6:0] window_zc_q;
  logic [40:0] segment_q;
  logic heard_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      energy1_q   <= '0;
      energy2_q   <= '0;
      energy3_q   <= '0;
      window_q    <= '0;
      zc1_q       <= '0;
      zc2_q       <= '0;
      zc3_q       <= '0;
      window_zc_q <= '0;
      segment_q   <= '0;
      heard_q     <= 1'b0;
    end else if (step3_q) begin
      energy1_q   <= energy_q;
      energy2_q   <= energy1_q;
      energy3_q   <= energy2_q;
      window_q    <= 38'(energy_q) + 38'(energy1_q) + 38'(energy2_q) + 38'(energy3_q);
      zc1_q       <= zc_q;
      zc2_q       <= zc1_q;
      zc3_q       <= zc2_q;
      window_zc_q <= 7'(zc_q) + 7'(zc1_q) + 7'(zc2_q) + 7'(zc3_q);
      segment_q   <= (segment_block_q == '0 ? '0 : segment_q) + 41'(energy_q);
      heard_q     <= (segment_block_q == '0 || heard_q) && energy_q >= DigitalSilence;
    end
  end

  // Steps 3 to 5 give log2 the block, the window and the segment; it answers in steps 6 to 8.
  logic [41:0] log2_value;
  logic [15:0] level;

  always_comb begin
    if (step3_q) log2_value = 42'(energy_q);
    else if (step4_q) log2_value = 42'(window_q);
    else log2_value = 42'(segment_q);
  end

  log2 #(
      .WIDTH(42)
  ) log2 (
      .clk,
      .enable(step3_q || step4_q || step5_q || step6_q || step7_q),
      .value (log2_value),
      .level
  );

  // What the spectrum says. The last block of a hop says whether a reply was audible in it.
  logic [15:0] raised_by;
  logic [ 7:0] evidence;
  logic        evidence_busy;

  assign raised_by = playback_q ? playback_margin : '0;

  vad_evidence vad_evidence (
      .clk,
      .rst,
      .margin(raised_by),
      .bin_valid,
      .bin_index,
      .bin_level,
      .bin_noise,
      .evidence,
      .busy  (evidence_busy)
  );

  // Step 4: the floor as it counts for this block.
  logic [15:0] floor_q, peak_q;
  logic [16:0] raised_q;

  always_ff @(posedge clk) begin
    if (rst) raised_q <= '0;
    else if (step4_q) raised_q <= 17'(floor_q) + 17'(raised_by);
  end

  // Step 6: how loud is the block itself, and what must the window reach?
  logic [17:0] starts_at_q, goes_on_at_q, audible_at_q;
  logic signed [17:0] block_over;
  logic [8:0] loudness;
  logic [7:0] loudest, loudest_q, evidence_q;
  logic [7:0] score;  // the greater of both
  logic [5:0] calm_q;  // quiet blocks in a row; from 32 on loudness counts
  logic loud_q;

  assign block_over = $signed(18'(level) + 18'(LevelOf4)) - $signed(18'(raised_q));

  always_comb begin
    loudness = 9'(block_over[14:7]) + LoudnessLeast;
    if (block_over[17] || !calm_q[5]) loudest = '0;
    else if (block_over[16:15] != '0 || loudness[8]) loudest = '1;
    else loudest = loudness[7:0];
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      loud_q       <= 1'b0;
      loudest_q    <= '0;
      evidence_q   <= '0;
      starts_at_q  <= '0;
      goes_on_at_q <= '0;
      audible_at_q <= '0;
    end else if (step6_q) begin
      loud_q       <= block_over >= $signed(18'(loud_margin));
      loudest_q    <= loudest;
      evidence_q   <= evidence;
      starts_at_q  <= 18'(raised_q) + 18'(onset_margin);
      goes_on_at_q <= 18'(raised_q) + 18'(offset_margin);
      audible_at_q <= 18'(peak_q) > Range ? 18'(peak_q) - Range : '0;
    end
  end

  // Step 7: decide.
  logic audible, above, starts, goes_on, decide_onset, decide_offset, is_speech;
  logic [ 5:0] run_q;  // blocks that could start speech, in a row
  logic [11:0] silence_q;  // silent blocks since the last of speech
  logic [63:0] run_first_ns_q, speech_last_ns_q;

  assign score   = evidence_q > loudest_q ? evidence_q : loudest_q;
  assign audible = 18'(level) >= audible_at_q;
  assign above   = 18'(level) >= goes_on_at_q;

  always_comb begin
    if (plain) begin
      starts  = audible && 18'(level) >= starts_at_q && (window_zc_q <= 7'({zc_max, 2'b00}) || loud_q);
      goes_on = audible && above;
    end else begin
      starts  = audible && above && (loudest_q >= onset_score || evidence_q >= onset_score);
      goes_on = audible && above && (loudest_q >= offset_score || evidence_q >= offset_score);
    end
  end

  assign decide_onset = step7_q && !active && starts && 7'(run_q) + 7'd1 >= 7'(min_onset);
  assign decide_offset = step7_q && active && !goes_on && 13'(silence_q) + 13'd1 >= 13'(hangover);
  assign is_speech = decide_onset || (active && goes_on);

  always_ff @(posedge clk) begin
    if (rst) begin
      active           <= 1'b0;
      onset_pulse      <= 1'b0;
      onset_blocks     <= '0;
      offset_pulse     <= 1'b0;
      calm_q           <= CalmMost;
      run_q            <= '0;
      silence_q        <= '0;
      run_first_ns_q   <= '0;
      speech_last_ns_q <= '0;
      onset_ns         <= '0;
      offset_ns        <= '0;
      peak_q           <= '0;
    end else begin
      onset_pulse  <= decide_onset;
      offset_pulse <= decide_offset;
      if (step7_q) begin
        active    <= decide_onset || (active && !decide_offset);
        run_q     <= !active && starts && !decide_onset ? run_q + 1'b1 : '0;
        silence_q <= active && !goes_on ? silence_q + 1'b1 : '0;
        if (above) calm_q <= calm_q[5] ? calm_q - 1'b1 : '0;
        else if (calm_q != CalmMost) calm_q <= calm_q + 1'b1;
        if (run_q == '0) run_first_ns_q <= block_first_ns_q;
        if (is_speech) speech_last_ns_q <= block_last_ns_q;
        if (decide_onset) begin
          onset_ns     <= (run_q == '0 ? block_first_ns_q : run_first_ns_q) - 64'(delay_ns);
          onset_blocks <= 7'(run_q) + 7'd1;
        end
        if (decide_offset) offset_ns <= speech_last_ns_q - 64'(delay_ns);
        // The peak follows a rise within 8 ms, so a click hardly moves it, and falls by 3 dB/s.
        if (level > peak_q) peak_q <= peak_q + ((level - peak_q) >> 3);
        else if (peak_q != '0) peak_q <= peak_q - 1'b1;
      end
    end
  end

  // Step 7 of a hop's last block: report.
  logic speech_q, onset_q, offset_q;  // earlier in this hop
  logic [15:0] steps_over;
  assign steps_over = level > floor_q ? (level - floor_q) >> 5 : '0;

  always_ff @(posedge clk) begin
    if (rst) begin
      {speech_q, onset_q, offset_q} <= '0;
      hop_valid                     <= 1'b0;
      hop_speech                    <= 1'b0;
      hop_onset                     <= 1'b0;
      hop_offset                    <= 1'b0;
      hop_energy                    <= '0;
      hop_floor                     <= '0;
      hop_zc                        <= '0;
      hop_score                     <= '0;
    end else begin
      hop_valid <= step7_q && hop_end_q;
      if (step7_q && hop_end_q) begin
        {speech_q, onset_q, offset_q} <= '0;
        hop_speech                    <= speech_q || is_speech;
        hop_onset                     <= onset_q || decide_onset;
        hop_offset                    <= offset_q || decide_offset;
        hop_energy                    <= level;
        hop_floor                     <= floor_q;
        hop_zc                        <= 8'(window_zc_q);
        if (!plain) hop_score <= score;
        else hop_score <= steps_over > 16'd255 ? 8'd255 : steps_over[7:0];
      end else if (step7_q) begin
        speech_q <= speech_q || is_speech;
        onset_q  <= onset_q || decide_onset;
        offset_q <= offset_q || decide_offset;
      end
    end
  end

  // ---- steps 8 to 10 of a segment's last block: the floor -------------------------------------------------------------

  logic [15:0] least_q, quietest_q;  // segment of this bucket; of all buckets
  logic [15:0] past0_q, past1_q, past2_q, past3_q;  // least of the buckets before, newest first
  logic [4:0] bucket_q;  // segments in this bucket
  logic [15:0] segment_level, newer, older, past, floor_next;

  assign segment_level = level - LevelOf8;
  assign newer = past0_q < past1_q ? past0_q : past1_q;
  assign older = past2_q < past3_q ? past2_q : past3_q;
  assign past = newer < older ? newer : older;
  assign floor_next = quietest_q + FloorBias;

  always_ff @(posedge clk) begin
    if (rst) begin
      least_q    <= '1;
      quietest_q <= '0;
      past0_q    <= FloorStart;
      past1_q    <= FloorStart;
      past2_q    <= FloorStart;
      past3_q    <= FloorStart;
      bucket_q   <= '0;
      floor_q    <= FloorStart;
    end else if (heard_q) begin
      if (step8_q && segment_level < least_q) least_q <= segment_level;
      if (step9_q) quietest_q <= least_q < past ? least_q : past;
      if (step10_q) begin
        floor_q  <= floor_next > floor_min ? floor_next : floor_min;
        bucket_q <= bucket_q + 1'b1;
        if (bucket_q == BucketLast) begin
          bucket_q <= '0;
          least_q  <= '1;
          past0_q  <= least_q;
          past1_q  <= past0_q;
          past2_q  <= past1_q;
          past3_q  <= past2_q;
        end
      end
    end
  end

  assign busy = s_axis_tvalid || valid1_q || valid2_q || step3_q || step4_q || step5_q || step6_q || step7_q ||
      step8_q || step9_q || step10_q || hop_valid || onset_pulse || offset_pulse || evidence_busy;

endmodule
