// The host's part of the rings in hardware, for boards that reach their host through a serial line only. docs/uart.md
//
//   rx ─► uart_rx ─► uart_packet_rx ─► uart_commands ──────► play_* (bram_slave)
//                                        │      └─ replies ─┐
//                            axil_master ◄─┐                ▼
//                                m_axil    └──────── uart_reports ◄── capture_* (bram_slave)
//   tx ◄─ uart_tx ◄─ uart_packet_tx ◄──────────────────────┘
//
// Frames go out and RING_TAIL follows; playback slots come in and PLAY_HEAD follows. All else, the heartbeat included, is
// up to the host's own register writes: when it dies, the front end stops by its own rule.

module uart_link #(
    // Frequency of clk in Hz
    parameter int CLK_HZ        = 50_000_000,
    // Bits a second; at most CLK_HZ / 16
    parameter int BAUD          = 2_000_000,
    // Slots of the rings in bram_slave; powers of two from 2 to 256
    parameter int CAPTURE_SLOTS = 16,
    parameter int PLAY_SLOTS    = 32,
    // Width of the register addresses
    parameter int AXIL_ADDR_W   = 9
) (
    input  logic                   clk,
    input  logic                   rst,
    // the line; rx is not in the domain of clk
    input  logic                   rx,
    output logic                   tx,
    // registers of the front end; they always answer OKAY
    output logic [AXIL_ADDR_W-1:0] m_axil_awaddr,
    output logic [            2:0] m_axil_awprot,
    output logic                   m_axil_awvalid,
    input  logic                   m_axil_awready,
    output logic [           31:0] m_axil_wdata,
    output logic [            3:0] m_axil_wstrb,
    output logic                   m_axil_wvalid,
    input  logic                   m_axil_wready,
    input  logic                   m_axil_bvalid,
    output logic                   m_axil_bready,
    output logic [AXIL_ADDR_W-1:0] m_axil_araddr,
    output logic [            2:0] m_axil_arprot,
    output logic                   m_axil_arvalid,
    input  logic                   m_axil_arready,
    input  logic [           31:0] m_axil_rdata,
    input  logic                   m_axil_rvalid,
    output logic                   m_axil_rready,
    // bytes of the rings
    output logic [           15:0] capture_address,
    input  logic [            7:0] capture_data,
    output logic                   play_write,
    output logic [           15:0] play_address,
    output logic [            7:0] play_data,
    // lamps
    output logic                   alive,
    output logic                   speech,
    output logic                   playing,
    output logic                   fault
);

  // No fraction: the nearest whole number of clocks. 50 MHz: 25 at 2 Mbaud exactly, 54 at 921,600, 0.5 % fast.
  localparam int CyclesPerBit = (CLK_HZ + BAUD / 2) / BAUD;
  localparam int ReplyBytes = 512;
  localparam int LongestReply = 45;
  localparam int ReplyW = $clog2(ReplyBytes + 1);

`ifndef SYNTHESIS
  // A command takes some hundred clocks; three bytes of the next packet pass before it can disturb it.
  initial if (BAUD < 1 || CLK_HZ / BAUD < 16) $fatal(1, "uart_link: CLK_HZ must be at least 16 x BAUD");
`endif

  logic [31:0] cycles_q;
  always_ff @(posedge clk) begin
    if (rst) cycles_q <= '0;
    else cycles_q <= cycles_q + 1'b1;
  end

  // ---- from the host -------------------------------------------------------------------------------------------------

  logic [7:0] line_tdata, packet_tdata;
  logic line_tvalid, framing_error, packet_tvalid, done, good, bad_cobs, bad_length, bad_crc;
  logic [8:0] position;

  uart_rx #(
      .CYCLES_PER_BIT(CyclesPerBit)
  ) uart_rx (
      .clk,
      .rst,
      .rx,
      .m_axis_tdata (line_tdata),
      .m_axis_tvalid(line_tvalid),
      .framing_error
  );

  uart_packet_rx packet_rx (
      .clk,
      .rst,
      .s_axis_tdata (line_tdata),
      .s_axis_tvalid(line_tvalid),
      .framing_error,
      .m_axis_tdata (packet_tdata),
      .m_axis_tvalid(packet_tvalid),
      .position,
      .done,
      .good,
      .bad_cobs,
      .bad_length,
      .bad_crc
  );

  // ---- registers -----------------------------------------------------------------------------------------------------

  logic commands_valid, commands_write, commands_ready, reports_valid, reports_write, reports_ready, read_taken;
  logic [AXIL_ADDR_W-1:0] commands_addr, reports_addr;
  logic [31:0] commands_wdata, reports_wdata, rdata;

  axil_master #(
      .ADDR_W(AXIL_ADDR_W)
  ) axil_master (
      .clk,
      .rst,
      .a_valid(commands_valid),
      .a_write(commands_write),
      .a_addr (commands_addr),
      .a_wdata(commands_wdata),
      .a_ready(commands_ready),
      .b_valid(reports_valid),
      .b_write(reports_write),
      .b_addr (reports_addr),
      .b_wdata(reports_wdata),
      .b_ready(reports_ready),
      .rdata,
      .read_taken,
      .m_axil_awaddr,
      .m_axil_awprot,
      .m_axil_awvalid,
      .m_axil_awready,
      .m_axil_wdata,
      .m_axil_wstrb,
      .m_axil_wvalid,
      .m_axil_wready,
      .m_axil_bvalid,
      .m_axil_bready,
      .m_axil_araddr,
      .m_axil_arprot,
      .m_axil_arvalid,
      .m_axil_arready,
      .m_axil_rdata,
      .m_axil_rvalid,
      .m_axil_rready
  );

  // ---- commands and their replies --------------------------------------------------------------------------------------

  logic [31:0] play_head, play_tail;
  logic credit_due, reply_room;
  logic [7:0] reply_tdata, queued_tdata;
  logic reply_tlast, reply_stamp, reply_tvalid, reply_tready;
  logic queued_tlast, queued_stamp, queued_tvalid, queued_tready;
  logic [ReplyW-1:0] reply_level;
  logic [15:0] frames_sent, events_sent;

  uart_commands #(
      .CLK_HZ(CLK_HZ),
      .CYCLES_PER_BIT(CyclesPerBit),
      .PLAY_SLOTS(PLAY_SLOTS),
      .AXIL_ADDR_W(AXIL_ADDR_W)
  ) commands (
      .clk,
      .rst,
      .cycles         (cycles_q),
      .s_axis_tdata   (packet_tdata),
      .s_axis_tvalid  (packet_tvalid),
      .position,
      .done,
      .good,
      .bad_cobs,
      .bad_length,
      .bad_crc,
      .framing_error,
      .axil_valid     (commands_valid),
      .axil_write     (commands_write),
      .axil_addr      (commands_addr),
      .axil_wdata     (commands_wdata),
      .axil_ready     (commands_ready),
      .axil_rdata     (rdata),
      .axil_read_taken(read_taken),
      .play_write,
      .play_address,
      .play_data,
      .play_head,
      .play_tail,
      .credit_due,
      .m_axis_tdata   (reply_tdata),
      .m_axis_tlast   (reply_tlast),
      .m_axis_stamp   (reply_stamp),
      .m_axis_tvalid  (reply_tvalid),
      .reply_room,
      .frames_sent,
      .events_sent
  );

  // A command is only carried out when its whole reply fits, so the queue's tready need not be looked at.
  assign reply_room = reply_level <= ReplyW'(ReplyBytes - LongestReply);

  sync_fifo #(
      .WIDTH(10),
      .DEPTH(ReplyBytes)
  ) replies (
      .clk,
      .rst,
      .clear        (1'b0),
      .s_axis_tdata ({reply_stamp, reply_tlast, reply_tdata}),
      .s_axis_tvalid(reply_tvalid),
      .s_axis_tready(reply_tready),
      .m_axis_tdata ({queued_stamp, queued_tlast, queued_tdata}),
      .m_axis_tvalid(queued_tvalid),
      .m_axis_tready(queued_tready),
      .level        (reply_level)
  );

  logic unused;
  assign unused = reply_tready;

  // ---- to the host -----------------------------------------------------------------------------------------------------

  logic [7:0] report_tdata, sent_tdata;
  logic report_tlast, report_tvalid, report_tready, sent_tvalid, sent_tready, started, idle;

  uart_reports #(
      .CAPTURE_SLOTS(CAPTURE_SLOTS),
      .PLAY_SLOTS(PLAY_SLOTS),
      .AXIL_ADDR_W(AXIL_ADDR_W)
  ) reports (
      .clk,
      .rst,
      .cycles       (cycles_q),
      .s_axis_tdata (queued_tdata),
      .s_axis_tlast (queued_tlast),
      .s_axis_stamp (queued_stamp),
      .s_axis_tvalid(queued_tvalid),
      .s_axis_tready(queued_tready),
      .play_head,
      .credit_due,
      .play_tail,
      .axil_valid   (reports_valid),
      .axil_write   (reports_write),
      .axil_addr    (reports_addr),
      .axil_wdata   (reports_wdata),
      .axil_ready   (reports_ready),
      .axil_rdata   (rdata),
      .capture_address,
      .capture_data,
      .m_axis_tdata (report_tdata),
      .m_axis_tlast (report_tlast),
      .m_axis_tvalid(report_tvalid),
      .m_axis_tready(report_tready),
      .started,
      .idle,
      .alive,
      .speech,
      .playing,
      .fault,
      .frames_sent,
      .events_sent
  );

  uart_packet_tx packet_tx (
      .clk,
      .rst,
      .s_axis_tdata (report_tdata),
      .s_axis_tvalid(report_tvalid),
      .s_axis_tready(report_tready),
      .s_axis_tlast (report_tlast),
      .started,
      .idle,
      .m_axis_tdata (sent_tdata),
      .m_axis_tvalid(sent_tvalid),
      .m_axis_tready(sent_tready)
  );

  uart_tx #(
      .CYCLES_PER_BIT(CyclesPerBit)
  ) uart_tx (
      .clk,
      .rst,
      .s_axis_tdata (sent_tdata),
      .s_axis_tvalid(sent_tvalid),
      .s_axis_tready(sent_tready),
      .tx
  );

endmodule
