// stream_gate, framer and ring_writer as frontend.sv joins them, for their joint bench. AXI IDs are there for bus models
// that want them.

module framer_and_ring #(
    parameter int          SLOTS          = 4,
    parameter int          ADDR_W         = 40,
    parameter int          TIMEOUT_CYCLES = 200,
    parameter logic [31:0] SEQUENCE_RESET = 32'd0
) (
    input  logic              clk,
    input  logic              rst,
    input  logic [      15:0] s_axis_tdata,
    input  logic [      63:0] s_axis_tuser,
    input  logic              s_axis_tvalid,
    input  logic              gated,
    input  logic [       8:0] preroll,
    input  logic [       5:0] min_onset,
    input  logic              onset_pulse,
    input  logic [       6:0] onset_blocks,
    input  logic              offset_pulse,
    input  logic              hop_valid,
    input  logic              hop_speech,
    input  logic              hop_onset,
    input  logic              hop_offset,
    input  logic [      15:0] hop_energy,
    input  logic              enable,
    input  logic [      63:0] base,
    input  logic [      31:0] size,
    input  logic              tail_write,
    input  logic [      31:0] tail_value,
    output logic [      31:0] head,
    output logic [      31:0] tail,
    output logic              published,
    output logic              published_urgent,
    output logic [      31:0] frames_captured,
    output logic [      31:0] frames_lost,
    output logic              hop_overrun,
    output logic              idle,
    output logic              busy,
    output logic [       7:0] m_axi_awid,
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
    input  logic [       7:0] m_axi_bid,
    input  logic [       1:0] m_axi_bresp,
    input  logic              m_axi_bvalid,
    output logic              m_axi_bready
);

  logic [15:0] gated_tdata;
  logic [63:0] gated_tuser;
  logic gated_tvalid, gated_tready, gated_tkeep, gated_tlast;
  logic frame_gated, frame_onset, frame_offset, frame_speech, frame_quiet, patient;
  logic [  7:0] hops_due;
  logic [127:0] frame_tdata;
  logic frame_tvalid, frame_tready, frame_tlast, frame_tuser;
  logic free, frame_lost, gate_busy, framer_busy, ring_busy, unused_tready;
  logic unused_bid, unused_bad_tail, unused_window_fault, unused_write_error, unused_timeout;

  assign busy       = gate_busy || framer_busy || ring_busy;
  assign m_axi_awid = '0;
  assign unused_bid = |m_axi_bid;

  stream_gate stream_gate (
      .clk,
      .rst,
      .s_axis_tdata,
      .s_axis_tuser,
      .s_axis_tvalid,
      .s_axis_tready(unused_tready),
      .gated,
      .preroll,
      .min_onset,
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

  framer #(
      .SEQUENCE_RESET(SEQUENCE_RESET)
  ) framer (
      .clk,
      .rst,
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
      .delay_ns       (32'd0),
      .hop_valid,
      .hop_speech,
      .hop_onset,
      .hop_offset,
      .hop_energy,
      .hop_floor      (16'd2),
      .hop_zc         (8'd3),
      .hop_score      (8'd4),
      .clipped        (1'b0),
      .time_locked    (1'b0),
      .playback_active(1'b0),
      .test_pattern   (1'b0),
      .stage_mask     (8'd1),
      .stream         (8'd0),
      .ring_free      (free),
      .ring_idle      (idle),
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

  ring_writer #(
      .SLOTS         (SLOTS),
      .ADDR_W        (ADDR_W),
      .TIMEOUT_CYCLES(TIMEOUT_CYCLES)
  ) ring_writer (
      .clk,
      .rst,
      .s_axis_tdata (frame_tdata),
      .s_axis_tvalid(frame_tvalid),
      .s_axis_tready(frame_tready),
      .s_axis_tlast (frame_tlast),
      .s_axis_tuser (frame_tuser),
      .enable,
      .quiesce      (1'b0),
      .alive        (1'b1),
      .base,
      .size,
      .boot_id      (32'd7),
      .tail_write,
      .tail_value,
      .free,
      .frame_lost,
      .head,
      .tail,
      .published,
      .published_urgent,
      .bad_tail     (unused_bad_tail),
      .window_fault (unused_window_fault),
      .write_error  (unused_write_error),
      .timeout      (unused_timeout),
      .idle,
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

endmodule
