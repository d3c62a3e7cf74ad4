// The portable top of the front end: 48 kHz samples in and out, frames and replies through memory, control by registers.
//
//   s_axis_adc ─► input_mixer ─► resampler ─┬─► denoiser ─► test_pattern ─► stream_gate ─► framer ─► ring_writer ─► m_axi
//                   ▲                       └──►  vad  ◄─┘ (spectrum)           ▲ onset       ▲ hop             (write)
//                   : loop                         └────────────────────────────┴─────────────┘
//   m_axis_dac ◄────┴─ playback ◄─ m_axi (read)                                media_clock stamps both ends
//
// One pulse of s_axis_adc_tvalid is one 48 kHz tick: it drives the clock's stamps, the playback and every timer, so that
// what the front end does depends on samples alone and not on how fast `clk` runs between them.

module frontend #(
    // Frequency of clk in Hz: paces media_clock and the 100 us memory watchdog
    parameter int CLK_HZ        = 100_000_000,
    // 1: media_clock advances by exactly 62500/3 ns at a tick (simulation); 0: with every clk
    parameter int TICK_TIME     = 0,
    // Slots of the capture ring; a power of two
    parameter int CAPTURE_SLOTS = 256,
    // Slots of the playback ring; a power of two
    parameter int PLAY_SLOTS    = 256,
    // 1: stop the clocks of modules that have nothing to do while free_run is low (simulation only)
    parameter int CLOCK_GATES   = 0,
    // Width of memory addresses
    parameter int ADDR_W        = 40,
    // Folder of the coefficient tables, with a closing slash
    parameter     FILTERS       = "fpga/filters/"
) (
    input  logic              clk,
    input  logic              rst,
    // clock every module in every cycle; tie high on hardware (see CLOCK_GATES)
    input  logic              free_run,
    // samples: {right, left}, 24 bit, as i2s_rx gives them; 16-bit mono out
    input  logic [      47:0] s_axis_adc_tdata,
    input  logic              s_axis_adc_tvalid,
    output logic [      15:0] m_axis_dac_tdata,
    output logic              m_axis_dac_tvalid,
    // pulses: the converter's side dropped a damaged sample, or repeated one; low where there is no converter
    input  logic              adc_error,
    input  logic              dac_underrun,
    // registers
    input  logic [       8:0] s_axil_awaddr,
    input  logic [       2:0] s_axil_awprot,
    input  logic              s_axil_awvalid,
    output logic              s_axil_awready,
    input  logic [      31:0] s_axil_wdata,
    input  logic [       3:0] s_axil_wstrb,
    input  logic              s_axil_wvalid,
    output logic              s_axil_wready,
    output logic [       1:0] s_axil_bresp,
    output logic              s_axil_bvalid,
    input  logic              s_axil_bready,
    input  logic [       8:0] s_axil_araddr,
    input  logic [       2:0] s_axil_arprot,
    input  logic              s_axil_arvalid,
    output logic              s_axil_arready,
    output logic [      31:0] s_axil_rdata,
    output logic [       1:0] s_axil_rresp,
    output logic              s_axil_rvalid,
    input  logic              s_axil_rready,
    // memory: capture is written, playback is read
    output logic [ADDR_W-1:0] m_axi_awaddr,
    output logic [       7:0] m_axi_awlen,
    output logic [       2:0] m_axi_awsize,
    output logic [       1:0] m_axi_awburst,
    output logic [       3:0] m_axi_awcache,
    output logic [       2:0] m_axi_awprot,
    output logic              m_axi_awvalid,
    input  logic              m_axi_awready,
    output logic [     127:0] m_axi_wdata,
    output logic [      15:0] m_axi_wstrb,
    output logic              m_axi_wlast,
    output logic              m_axi_wvalid,
    input  logic              m_axi_wready,
    input  logic [       1:0] m_axi_bresp,
    input  logic              m_axi_bvalid,
    output logic              m_axi_bready,
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
    output logic              m_axi_rready,
    // status
    output logic              irq,
    // clocks are needed before the next sample; while low, nothing changes however long clk runs
    output logic              busy
);

  localparam int TimeoutCycles = CLK_HZ / 10_000;  // 100 us
  localparam logic [31:0] DelayMixer = 32'd0;
  localparam logic [31:0] DelayFilter = 32'd583_333;  // 28 samples of 48 kHz: the centre of 57 taps
  localparam int DenoiserDelay = 30;  // samples of 16 kHz: the centre of 61 taps
  localparam logic [31:0] DelayDenoise = 32'd1_875_000;  // the same in ns
  localparam logic [7:0] StreamAudio = 8'h00;

  // ---- inputs ------------------------------------------------------------------------------------------------------

  // Registered before anything hangs on them: short paths in the fabric, little to recompute in a simulator.
  logic rst_q, tick;
  logic [47:0] adc_q;

  always_ff @(posedge clk) begin
    rst_q <= rst;
    tick  <= s_axis_adc_tvalid && !rst;
    adc_q <= s_axis_adc_tdata;
  end

  // ---- clocks ------------------------------------------------------------------------------------------------------

  logic regs_busy, mixer_busy, resampler_busy, denoiser_busy, vad_busy, gate_busy, framer_busy, ring_busy, play_busy;
  logic clk_regs, clk_mixer, clk_resampler, clk_denoiser, clk_vad, clk_framer, clk_ring, clk_play;
  logic head_write_q, play_stop, event_pop;
  logic run_all;
  assign run_all = free_run || rst_q;

  clock_gate #(
      .GATED(CLOCK_GATES)
  ) gate_regs (
      .clk,
      .enable(run_all || regs_busy),
      .gated (clk_regs)
  );

  clock_gate #(
      .GATED(CLOCK_GATES)
  ) gate_mixer (
      .clk,
      .enable(run_all || mixer_busy),
      .gated (clk_mixer)
  );

  clock_gate #(
      .GATED(CLOCK_GATES)
  ) gate_resampler (
      .clk,
      .enable(run_all || resampler_busy),
      .gated (clk_resampler)
  );

  clock_gate #(
      .GATED(CLOCK_GATES)
  ) gate_denoiser (
      .clk,
      .enable(run_all || denoiser_busy),
      .gated (clk_denoiser)
  );

  clock_gate #(
      .GATED(CLOCK_GATES)
  ) gate_vad (
      .clk,
      .enable(run_all || vad_busy),
      .gated (clk_vad)
  );

  clock_gate #(
      .GATED(CLOCK_GATES)
  ) gate_framer (
      .clk,
      .enable(run_all || gate_busy || framer_busy),
      .gated (clk_framer)
  );

  clock_gate #(
      .GATED(CLOCK_GATES)
  ) gate_ring (
      .clk,
      .enable(run_all || ring_busy),
      .gated (clk_ring)
  );

  clock_gate #(
      .GATED(CLOCK_GATES)
  ) gate_play (
      .clk,
      .enable(run_all || play_busy || tick || head_write_q || play_stop || event_pop),
      .gated (clk_play)
  );

  // ---- registers ---------------------------------------------------------------------------------------------------

  // Registers are a third of the logic and idle nearly always. Their inputs are sampled and their requests queued on the
  // same clock, so that a simulator pays for all of it only around an access.
  frontend_regs_pkg::frontend__in_t  to_regs_q;
  frontend_regs_pkg::frontend__out_t from_regs;

  logic [11:0] aw_tdata, ar_tdata;
  logic [35:0] w_tdata;
  logic aw_tvalid, aw_tready, w_tvalid, w_tready, ar_tvalid, ar_tready;
  logic [1:0] aw_level, w_level, ar_level;

  sync_fifo #(
      .WIDTH(12),
      .DEPTH(2)
  ) aw_queue (
      .clk          (clk_regs),
      .rst          (rst_q),
      .clear        (1'b0),
      .s_axis_tdata ({s_axil_awprot, s_axil_awaddr}),
      .s_axis_tvalid(s_axil_awvalid),
      .s_axis_tready(s_axil_awready),
      .m_axis_tdata (aw_tdata),
      .m_axis_tvalid(aw_tvalid),
      .m_axis_tready(aw_tready),
      .level        (aw_level)
  );

  sync_fifo #(
      .WIDTH(36),
      .DEPTH(2)
  ) w_queue (
      .clk          (clk_regs),
      .rst          (rst_q),
      .clear        (1'b0),
      .s_axis_tdata ({s_axil_wstrb, s_axil_wdata}),
      .s_axis_tvalid(s_axil_wvalid),
      .s_axis_tready(s_axil_wready),
      .m_axis_tdata (w_tdata),
      .m_axis_tvalid(w_tvalid),
      .m_axis_tready(w_tready),
      .level        (w_level)
  );

  sync_fifo #(
      .WIDTH(12),
      .DEPTH(2)
  ) ar_queue (
      .clk          (clk_regs),
      .rst          (rst_q),
      .clear        (1'b0),
      .s_axis_tdata ({s_axil_arprot, s_axil_araddr}),
      .s_axis_tvalid(s_axil_arvalid),
      .s_axis_tready(s_axil_arready),
      .m_axis_tdata (ar_tdata),
      .m_axis_tvalid(ar_tvalid),
      .m_axis_tready(ar_tready),
      .level        (ar_level)
  );

  frontend_regs regs (
      .clk           (clk_regs),
      .rst           (rst_q),
      .s_axil_awready(aw_tready),
      .s_axil_awvalid(aw_tvalid),
      .s_axil_awaddr (aw_tdata[8:0]),
      .s_axil_awprot (aw_tdata[11:9]),
      .s_axil_wready (w_tready),
      .s_axil_wvalid (w_tvalid),
      .s_axil_wdata  (w_tdata[31:0]),
      .s_axil_wstrb  (w_tdata[35:32]),
      .s_axil_bready,
      .s_axil_bvalid,
      .s_axil_bresp,
      .s_axil_arready(ar_tready),
      .s_axil_arvalid(ar_tvalid),
      .s_axil_araddr (ar_tdata[8:0]),
      .s_axil_arprot (ar_tdata[11:9]),
      .s_axil_rready,
      .s_axil_rvalid,
      .s_axil_rdata,
      .s_axil_rresp,
      .hwif_in       (to_regs_q),
      .hwif_out      (from_regs)
  );

  assign play_stop = from_regs.PLAY_STOP.stop.value;
  assign event_pop = from_regs.EVENT_POP.pop.value;

  // A software write shows in the register one cycle after its strobe; what became of it goes back after that.
  logic tail_write_q, step_write_q, tail_fix_q, head_fix_q;

  always_ff @(posedge clk) begin
    if (rst_q) begin
      {tail_write_q, head_write_q, step_write_q, tail_fix_q, head_fix_q} <= '0;
    end else begin
      tail_write_q <= from_regs.RING_TAIL.count.swmod;
      head_write_q <= from_regs.PLAY_HEAD.count.swmod;
      step_write_q <= from_regs.CLOCK_STEP.ns.swmod;
      tail_fix_q   <= tail_write_q;
      head_fix_q   <= head_write_q;
    end
  end

  // The registers need clocks from the first sign of an access, strobe or fault until some cycles after the last one.
  localparam logic [2:0] HoldCycles = 3'd5;
  logic [11:0] faults, faults_q;
  logic [2:0] hold_q;
  logic regs_called;

  assign regs_called = s_axil_awvalid || s_axil_wvalid || s_axil_arvalid || s_axil_bvalid || s_axil_rvalid ||
      aw_level != '0 || w_level != '0 || ar_level != '0 || |(faults & ~faults_q) ||
      from_regs.RING_TAIL.count.swmod || from_regs.PLAY_HEAD.count.swmod || from_regs.CLOCK_STEP.ns.swmod ||
      from_regs.HEARTBEAT.beat.swmod || play_stop || event_pop ||
      from_regs.IRQ_ACK.frames.value || tail_write_q || head_write_q || step_write_q || tail_fix_q || head_fix_q;
  assign regs_busy = rst_q || regs_called || hold_q != '0;

  always_ff @(posedge clk) begin
    if (rst_q) begin
      faults_q <= '0;
      hold_q   <= '0;
    end else begin
      faults_q <= faults;
      if (regs_called) hold_q <= HoldCycles;
      else if (hold_q != '0) hold_q <= hold_q - 1'b1;
    end
  end

  logic enable_capture, enable_playback, quiesce;
  assign enable_capture  = from_regs.CONTROL.capture_enable.value;
  assign enable_playback = from_regs.CONTROL.playback_enable.value;
  assign quiesce         = from_regs.CONTROL.quiesce.value;

  // ---- time --------------------------------------------------------------------------------------------------------

  logic [63:0] now_ns, free_ns, tick_ns;
  logic [31:0] epoch;
  logic        clock_busy;

  media_clock #(
      .CLK_HZ(CLK_HZ),
      .TICK_TIME(TICK_TIME)
  ) media_clock (
      .clk,
      .rst        (rst_q),
      .tick,
      .rate_adjust(from_regs.CLOCK_RATE.adjust.value),
      .step_valid (step_write_q),
      .step_ns    (from_regs.CLOCK_STEP.ns.value),
      .now_ns,
      .free_ns,
      .epoch,
      .tick_ns,
      .busy       (clock_busy)
  );

  logic alive, heartbeat_lost;

  heartbeat heartbeat (
      .clk,
      .rst (rst_q),
      .tick,
      .beat(from_regs.HEARTBEAT.beat.swmod),
      .alive,
      .lost(heartbeat_lost)
  );

  // ---- capture: 48 kHz -> 16 kHz -> frames -> memory -----------------------------------------------------------------

  // The digital loop: what the DAC side gave last is heard at the next tick.
  logic [15:0] dac_q;
  always_ff @(posedge clk) begin
    if (rst_q) dac_q <= '0;
    else if (m_axis_dac_tvalid) dac_q <= m_axis_dac_tdata;
  end

  logic [15:0] voice_tdata;
  logic voice_tvalid, clipped;

  input_mixer input_mixer (
      .clk          (clk_mixer),
      .rst          (rst_q),
      .s_axis_tdata (from_regs.INPUT.loop.value ? {2{dac_q, 8'd0}} : adc_q),
      .s_axis_tvalid(tick),
      .channel      (from_regs.INPUT.channel.value),
      .gain         (from_regs.INPUT_GAIN.gain.value),
      .remove_dc    (from_regs.INPUT.remove_dc.value),
      .m_axis_tdata (voice_tdata),
      .m_axis_tvalid(voice_tvalid),
      .clipped,
      .busy         (mixer_busy)
  );

  logic [15:0] pcm_tdata, clean_tdata;
  logic [63:0] pcm_tuser, clean_tuser;
  logic pcm_tvalid, pcm_tready, denoiser_tready, vad_tready, clean_tvalid, clean_tready;
  logic voice_tready;

  resampler #(
      .L(1),
      .M(3),
      .TAPS(57),
      .COEF_FILE({FILTERS, "decimate_48k_16k.hex"})
  ) resampler (
      .clk          (clk_resampler),
      .rst          (rst_q),
      .clear        (1'b0),
      .s_axis_tdata (voice_tdata),
      .s_axis_tuser (tick_ns),
      .s_axis_tvalid(voice_tvalid),
      .s_axis_tready(voice_tready),
      .m_axis_tdata (pcm_tdata),
      .m_axis_tuser (pcm_tuser),
      .m_axis_tvalid(pcm_tvalid),
      .m_axis_tready(pcm_tready),
      .busy         (resampler_busy)
  );

  // One sample goes to both, when both take it.
  assign pcm_tready = denoiser_tready && vad_tready;

  logic bin_valid, fade_overrun;
  logic [6:0] bin_index;
  logic [15:0] bin_level, bin_noise;

  denoiser #(
      .FILTERS(FILTERS)
  ) denoiser (
      .clk            (clk_denoiser),
      .rst            (rst_q),
      .s_axis_tdata   (pcm_tdata),
      .s_axis_tuser   (pcm_tuser),
      .s_axis_tvalid  (pcm_tvalid && vad_tready),
      .s_axis_tready  (denoiser_tready),
      .m_axis_tdata   (clean_tdata),
      .m_axis_tuser   (clean_tuser),
      .m_axis_tvalid  (clean_tvalid),
      .m_axis_tready  (clean_tready),
      .bypass         (from_regs.DENOISE.bypass.value),
      .floor          (from_regs.DENOISE_FLOOR.gain.value),
      .oversubtraction(from_regs.DENOISE_OVERSUBTRACTION.log2.value),
      .smoothing      (from_regs.DENOISE_SMOOTHING.alpha.value),
      .bin_valid,
      .bin_index,
      .bin_level,
      .bin_noise,
      .hop_overrun    (fade_overrun),
      .busy           (denoiser_busy)
  );

  logic [15:0] sent_tdata;
  logic [63:0] sent_tuser;
  logic sent_tvalid, sent_tready, ramp, pattern_busy;

  test_pattern test_pattern (
      .clk,
      .rst          (rst_q),
      .enable       (from_regs.INPUT.test_pattern.value),
      .s_axis_tdata (clean_tdata),
      .s_axis_tuser (clean_tuser),
      .s_axis_tvalid(clean_tvalid),
      .s_axis_tready(clean_tready),
      .m_axis_tdata (sent_tdata),
      .m_axis_tuser (sent_tuser),
      .m_axis_tvalid(sent_tvalid),
      .m_axis_tready(sent_tready),
      .active       (ramp),
      .busy         (pattern_busy)
  );

  logic [31:0] delay_to_pcm;
  assign delay_to_pcm = from_regs.DELAY_ADC.ns.value + DelayMixer + DelayFilter;

  logic playing, vad_active;
  logic hop_valid, hop_speech, hop_onset, hop_offset;
  logic [15:0] hop_energy, hop_floor;
  logic [7:0] hop_zc, hop_score;
  logic [63:0] onset_ns, offset_ns;
  logic onset_pulse, offset_pulse;
  logic [6:0] onset_blocks;

  vad vad (
      .clk            (clk_vad),
      .rst            (rst_q),
      .s_axis_tdata   (pcm_tdata),
      .s_axis_tuser   (pcm_tuser),
      .s_axis_tvalid  (pcm_tvalid && denoiser_tready),
      .s_axis_tready  (vad_tready),
      .delay_ns       (delay_to_pcm),
      .plain          (from_regs.VAD_RULE.plain.value),
      .onset_score    (from_regs.VAD_ONSET_SCORE.score.value),
      .offset_score   (from_regs.VAD_OFFSET_SCORE.score.value),
      .onset_margin   (from_regs.VAD_ONSET_MARGIN.log2.value),
      .offset_margin  (from_regs.VAD_OFFSET_MARGIN.log2.value),
      .loud_margin    (from_regs.VAD_LOUD_MARGIN.log2.value),
      .floor_min      (from_regs.VAD_FLOOR_MIN.log2.value),
      .zc_max         (from_regs.VAD_ZC_MAX.count.value),
      .hangover       (from_regs.VAD_HANGOVER.blocks.value),
      .min_onset      (from_regs.VAD_MIN_ONSET.blocks.value),
      .playback_margin(from_regs.VAD_PLAYBACK_MARGIN.log2.value),
      .playback_active(playing),
      .bin_valid,
      .bin_index,
      .bin_level,
      .bin_noise,
      .hop_valid,
      .hop_speech,
      .hop_onset,
      .hop_offset,
      .hop_energy,
      .hop_floor,
      .hop_zc,
      .hop_score,
      .active         (vad_active),
      .onset_pulse,
      .onset_blocks,
      .offset_pulse,
      .onset_ns,
      .offset_ns,
      .busy           (vad_busy)
  );

  logic [127:0] frame_tdata;
  logic frame_tvalid, frame_tready, frame_tlast, frame_tuser;
  logic ring_free, ring_idle, frame_lost, hop_overrun;
  logic [31:0] frames_captured, frames_lost;

  logic [15:0] gated_tdata;
  logic [63:0] gated_tuser;
  logic gated_tvalid, gated_tready, gated_tkeep, gated_tlast;
  logic frame_gated, frame_onset, frame_offset, frame_speech, frame_quiet, patient;
  logic [7:0] hops_due;

  stream_gate #(
      .DELAY(DenoiserDelay)
  ) stream_gate (
      .clk          (clk_framer),
      .rst          (rst_q),
      .s_axis_tdata (sent_tdata),
      .s_axis_tuser (sent_tuser),
      .s_axis_tvalid(sent_tvalid),
      .s_axis_tready(sent_tready),
      .gated        (from_regs.STREAM_MODE.gated.value),
      .preroll      (from_regs.PREROLL.samples.value),
      .min_onset    (from_regs.VAD_MIN_ONSET.blocks.value),
      .onset_pulse,
      .onset_blocks,
      .offset_pulse,
      .hop_valid,
      .m_axis_tdata (gated_tdata),
      .m_axis_tuser (gated_tuser),
      .m_axis_tvalid(gated_tvalid),
      .m_axis_tready(gated_tready),
      .m_axis_tkeep (gated_tkeep),
      .m_axis_tlast (gated_tlast),
      .frame_gated,
      .frame_onset,
      .frame_offset,
      .frame_speech,
      .frame_quiet,
      .patient,
      .hops_due,
      .busy         (gate_busy)
  );

  framer framer (
      .clk            (clk_framer),
      .rst            (rst_q),
      .s_axis_tdata   (gated_tdata),
      .s_axis_tuser   (gated_tuser),
      .s_axis_tvalid  (gated_tvalid),
      .s_axis_tready  (gated_tready),
      .s_axis_tkeep   (gated_tkeep),
      .s_axis_tlast   (gated_tlast),
      .frame_gated,
      .frame_onset,
      .frame_offset,
      .frame_speech,
      .frame_quiet,
      .patient,
      .hops_due,
      .delay_ns       (delay_to_pcm + DelayDenoise),
      .hop_valid,
      .hop_speech,
      .hop_onset,
      .hop_offset,
      .hop_energy,
      .hop_floor,
      .hop_zc,
      .hop_score,
      .clipped,
      .time_locked    (from_regs.CONTROL.time_locked.value),
      .playback_active(playing),
      .test_pattern   (ramp),
      .stage_mask     ({6'd0, !from_regs.DENOISE.bypass.value, 1'b1}),  // denoised, resampled
      .stream         (StreamAudio),
      .ring_free,
      .ring_idle,
      .frame_lost,
      .hop_overrun,
      .m_axis_tdata   (frame_tdata),
      .m_axis_tvalid  (frame_tvalid),
      .m_axis_tready  (frame_tready),
      .m_axis_tlast   (frame_tlast),
      .m_axis_tuser   (frame_tuser),
      .frames_captured,
      .frames_lost,
      .busy           (framer_busy)
  );

  logic [31:0] ring_head, ring_tail;
  logic published, published_urgent, bad_tail, ring_window_fault, write_error, write_timeout;

  ring_writer #(
      .SLOTS(CAPTURE_SLOTS),
      .ADDR_W(ADDR_W),
      .TIMEOUT_CYCLES(TimeoutCycles)
  ) ring_writer (
      .clk          (clk_ring),
      .rst          (rst_q),
      .s_axis_tdata (frame_tdata),
      .s_axis_tvalid(frame_tvalid),
      .s_axis_tready(frame_tready),
      .s_axis_tlast (frame_tlast),
      .s_axis_tuser (frame_tuser),
      .enable       (enable_capture),
      .quiesce,
      .alive,
      .base         (from_regs.RING_BASE.address.value),
      .size         (from_regs.RING_SIZE.bytes.value),
      .boot_id      (from_regs.BOOT_ID.id.value),
      .tail_write   (tail_write_q),
      .tail_value   (from_regs.RING_TAIL.count.value),
      .free         (ring_free),
      .frame_lost,
      .head         (ring_head),
      .tail         (ring_tail),
      .published,
      .published_urgent,
      .bad_tail,
      .window_fault (ring_window_fault),
      .write_error,
      .timeout      (write_timeout),
      .idle         (ring_idle),
      .busy         (ring_busy),
      .m_axi_awaddr,
      .m_axi_awlen,
      .m_axi_awsize,
      .m_axi_awburst,
      .m_axi_awcache,
      .m_axi_awprot,
      .m_axi_awvalid,
      .m_axi_awready,
      .m_axi_wdata,
      .m_axi_wstrb,
      .m_axi_wlast,
      .m_axi_wvalid,
      .m_axi_wready,
      .m_axi_bresp,
      .m_axi_bvalid,
      .m_axi_bready
  );

  logic frames_pending, coalescer_busy;

  irq_coalescer irq_coalescer (
      .clk,
      .rst     (rst_q),
      .tick,
      .tick_ns,
      .published,
      .published_urgent,
      .frames  (from_regs.COALESCE_FRAMES.frames.value),
      .us      (from_regs.COALESCE_US.us.value),
      .adaptive(from_regs.CONTROL.adaptive.value),
      .hot     (vad_active || from_regs.CONTROL.turn_open.value),
      .ack     (from_regs.IRQ_ACK.frames.value),
      .pending (frames_pending),
      .busy    (coalescer_busy)
  );

  // ---- playback: memory -> 48 kHz ----------------------------------------------------------------------------------

  logic [31:0] play_head, play_tail, play_level, event_ticket, event_position;
  logic [63:0] event_ns;
  logic [7:0] event_kind, event_count;
  logic event_valid, event_overflow, bad_head, bad_slot, play_window_fault, read_error, read_timeout;
  logic play_idle;

  playback #(
      .SLOTS(PLAY_SLOTS),
      .ADDR_W(ADDR_W),
      .TIMEOUT_CYCLES(TimeoutCycles),
      .COEF_16K({FILTERS, "interpolate_16k_48k.hex"}),
      .COEF_24K({FILTERS, "interpolate_24k_48k.hex"})
  ) playback (
      .clk         (clk_play),
      .rst         (rst_q),
      .tick,
      .tick_ns,
      .enable      (enable_playback),
      .quiesce,
      .base        (from_regs.PLAY_BASE.address.value),
      .size        (from_regs.PLAY_SIZE.bytes.value),
      .head_write  (head_write_q),
      .head_value  (from_regs.PLAY_HEAD.count.value),
      .head        (play_head),
      .tail        (play_tail),
      .stop        (play_stop),
      .gain        (from_regs.PLAY_GAIN.gain.value),
      .low_water   (from_regs.PLAY_LOW_WATER.samples.value),
      .delay_ns    (DelayFilter + from_regs.DELAY_DAC.ns.value),
      .m_axis_dac_tdata,
      .m_axis_dac_tvalid,
      .playing,
      .level       (play_level),
      .event_valid,
      .event_ns,
      .event_ticket,
      .event_position,
      .event_kind,
      .event_count,
      .event_pop   (event_pop),
      .event_overflow,
      .bad_head,
      .bad_slot,
      .window_fault(play_window_fault),
      .read_error,
      .timeout     (read_timeout),
      .idle        (play_idle),
      .busy        (play_busy),
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

  // ---- what the host reads -----------------------------------------------------------------------------------------

  assign faults = {
    dac_underrun,
    adc_error,
    bad_slot,
    event_overflow,
    hop_overrun || fade_overrun || (voice_tvalid && !voice_tready),
    heartbeat_lost,
    write_timeout || read_timeout,
    read_error,
    write_error,
    ring_window_fault || play_window_fault,
    bad_head,
    bad_tail
  };

  assign irq = (frames_pending && from_regs.IRQ_ENABLE.frames.value) ||
      (event_valid && from_regs.IRQ_ENABLE.events.value);

  always_ff @(posedge clk_regs) begin
    to_regs_q <= '{default: '0};
    // Idle is a promise: nothing is outstanding and nothing may start.
    to_regs_q.STATUS.idle.next <= ring_idle && play_idle && (quiesce || (!enable_capture && !enable_playback));
    to_regs_q.STATUS.speech.next <= vad_active;
    to_regs_q.STATUS.playing.next <= playing;
    to_regs_q.STATUS.alive.next <= alive;
    to_regs_q.FAULTS.bad_tail.hwset <= faults[0];
    to_regs_q.FAULTS.bad_head.hwset <= faults[1];
    to_regs_q.FAULTS.window.hwset <= faults[2];
    to_regs_q.FAULTS.write_error.hwset <= faults[3];
    to_regs_q.FAULTS.read_error.hwset <= faults[4];
    to_regs_q.FAULTS.memory_timeout.hwset <= faults[5];
    to_regs_q.FAULTS.heartbeat_lost.hwset <= faults[6];
    to_regs_q.FAULTS.hop_overrun.hwset <= faults[7];
    to_regs_q.FAULTS.event_overflow.hwset <= faults[8];
    to_regs_q.FAULTS.bad_slot.hwset <= faults[9];
    to_regs_q.FAULTS.adc_error.hwset <= faults[10];
    to_regs_q.FAULTS.dac_underrun.hwset <= faults[11];
    to_regs_q.TIME_NS.ns.next <= now_ns;
    to_regs_q.FREE_NS.ns.next <= free_ns;
    to_regs_q.CLOCK_EPOCH.count.next <= epoch;
    to_regs_q.DELAY_MIXER.ns.next <= DelayMixer;
    to_regs_q.DELAY_RESAMPLE.ns.next <= DelayFilter;
    to_regs_q.DELAY_DENOISE.ns.next <= DelayDenoise;
    to_regs_q.DELAY_INTERP.ns.next <= DelayFilter;
    to_regs_q.ONSET_NS.ns.next <= onset_ns;
    to_regs_q.OFFSET_NS.ns.next <= offset_ns;
    to_regs_q.RING_SLOTS.count.next <= CAPTURE_SLOTS;
    to_regs_q.RING_HEAD.count.next <= ring_head;
    // An impossible count does not stay in the register.
    to_regs_q.RING_TAIL.count.we <= tail_fix_q;
    to_regs_q.RING_TAIL.count.next <= ring_tail;
    to_regs_q.FRAMES_CAPTURED.count.next <= frames_captured;
    to_regs_q.RING_LOST.count.next <= frames_lost;
    to_regs_q.IRQ_STATUS.frames.next <= frames_pending;
    to_regs_q.IRQ_STATUS.events.next <= event_valid;
    to_regs_q.PLAY_SLOTS.count.next <= PLAY_SLOTS;
    to_regs_q.PLAY_HEAD.count.we <= head_fix_q;
    to_regs_q.PLAY_HEAD.count.next <= play_head;
    to_regs_q.PLAY_TAIL.count.next <= play_tail;
    to_regs_q.PLAY_LEVEL.samples.next <= play_level;
    to_regs_q.EVENT_NS.ns.next <= event_ns;
    to_regs_q.EVENT_TICKET.ticket.next <= event_ticket;
    to_regs_q.EVENT_POSITION.samples.next <= event_position;
    to_regs_q.EVENT_KIND.kind.next <= event_kind;
    to_regs_q.EVENT_KIND.count.next <= event_count;
  end

  assign busy = regs_busy | tick | clock_busy | mixer_busy | resampler_busy | denoiser_busy | pattern_busy | vad_busy |
      gate_busy | framer_busy | ring_busy | coalescer_busy | play_busy;

endmodule
