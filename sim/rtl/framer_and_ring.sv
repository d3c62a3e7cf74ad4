// framer and ring_writer as frontend.sv joins them, for their joint bench. AXI IDs are there for bus models that want them.

module framer_and_ring #(
    parameter int SLOTS          = 4,
    parameter int ADDR_W         = 40,
    parameter int TIMEOUT_CYCLES = 200
) (
    input  logic              clk,
    input  logic              rst,
    input  logic [      15:0] s_axis_tdata,
    input  logic [      63:0] s_axis_tuser,
    input  logic              s_axis_tvalid,
    input  logic              hop_valid,
    input  logic              hop_onset,
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

  logic [127:0] frame_tdata;
  logic frame_tvalid, frame_tready, frame_tlast, frame_tuser;
  logic free, frame_lost, framer_busy, ring_busy, unused_tready;
  logic unused_bid, unused_bad_tail, unused_window_fault, unused_write_error, unused_timeout;

  assign busy       = framer_busy || ring_busy;
  assign m_axi_awid = '0;
  assign unused_bid = |m_axi_bid;

  framer framer (
      .clk,
      .rst,
      .s_axis_tdata,
      .s_axis_tuser,
      .s_axis_tvalid,
      .s_axis_tready  (unused_tready),
      .delay_ns       (32'd0),
      .hop_valid,
      .hop_speech     (hop_onset),
      .hop_onset,
      .hop_offset     (1'b0),
      .hop_energy     (16'd1),
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
