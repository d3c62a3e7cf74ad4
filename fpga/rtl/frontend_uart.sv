// The front end with its memory and its host link, for boards that have no processor and one serial line.
//
//   s_axis_adc ─► ┌──────────┐ ─m_axi─► bram_slave ◄─ bytes ─┐
//   m_axis_dac ◄─ │ frontend │                           uart_link ◄─ rx
//                 └──────────┘ ◄─────── m_axil ──────────────┘ └────► tx

module frontend_uart #(
    // Frequency of clk in Hz
    parameter int CLK_HZ        = 50_000_000,
    // Bits a second on the line; at most CLK_HZ / 16
    parameter int BAUD          = 2_000_000,
    // Slots of the rings; powers of two from 2 to 256
    parameter int CAPTURE_SLOTS = 16,
    parameter int PLAY_SLOTS    = 32,
    // Folder of the coefficient tables, with a closing slash
    parameter     FILTERS       = "fpga/filters/"
) (
    input  logic        clk,
    input  logic        rst,
    // samples, as frontend.sv takes and gives them
    input  logic [47:0] s_axis_adc_tdata,
    input  logic        s_axis_adc_tvalid,
    output logic [15:0] m_axis_dac_tdata,
    output logic        m_axis_dac_tvalid,
    input  logic        adc_error,
    input  logic        dac_underrun,
    // the line to the host; rx is not in the domain of clk
    input  logic        rx,
    output logic        tx,
    // lamps: the host is alive, speech is heard, a reply is heard, a bit of FAULTS is set
    output logic        alive,
    output logic        speech,
    output logic        playing,
    output logic        fault
);

  localparam int AddrW = 32;
  localparam int AxilAddrW = 9;

  logic [AxilAddrW-1:0] axil_awaddr, axil_araddr;
  logic [31:0] axil_wdata, axil_rdata;
  logic [3:0] axil_wstrb;
  logic [2:0] axil_awprot, axil_arprot;
  logic [1:0] unused_bresp, unused_rresp;
  logic axil_awvalid, axil_awready, axil_wvalid, axil_wready, axil_bvalid, axil_bready;
  logic axil_arvalid, axil_arready, axil_rvalid, axil_rready;

  logic [AddrW-1:0] axi_awaddr, axi_araddr;
  logic [127:0] axi_wdata, axi_rdata;
  logic [15:0] axi_wstrb;
  logic [7:0] axi_awlen, axi_arlen;
  logic [3:0] unused_awcache, unused_arcache;
  logic [2:0] axi_awsize, axi_arsize, unused_awprot, unused_arprot;
  logic [1:0] axi_awburst, axi_bresp, axi_arburst, axi_rresp;
  logic axi_awvalid, axi_awready, axi_wlast, axi_wvalid, axi_wready, axi_bvalid, axi_bready;
  logic axi_arvalid, axi_arready, axi_rlast, axi_rvalid, axi_rready;

  logic [15:0] capture_address, play_address;
  logic [7:0] capture_data, play_data;
  logic play_write, unused_irq, unused_busy;

  frontend #(
      .CLK_HZ(CLK_HZ),
      .TICK_TIME(0),
      .CAPTURE_SLOTS(CAPTURE_SLOTS),
      .PLAY_SLOTS(PLAY_SLOTS),
      .ADDR_W(AddrW),
      .FILTERS(FILTERS)
  ) frontend (
      .clk,
      .rst,
      .free_run      (1'b1),
      .s_axis_adc_tdata,
      .s_axis_adc_tvalid,
      .m_axis_dac_tdata,
      .m_axis_dac_tvalid,
      .adc_error,
      .dac_underrun,
      .s_axil_awaddr (axil_awaddr),
      .s_axil_awprot (axil_awprot),
      .s_axil_awvalid(axil_awvalid),
      .s_axil_awready(axil_awready),
      .s_axil_wdata  (axil_wdata),
      .s_axil_wstrb  (axil_wstrb),
      .s_axil_wvalid (axil_wvalid),
      .s_axil_wready (axil_wready),
      .s_axil_bresp  (unused_bresp),
      .s_axil_bvalid (axil_bvalid),
      .s_axil_bready (axil_bready),
      .s_axil_araddr (axil_araddr),
      .s_axil_arprot (axil_arprot),
      .s_axil_arvalid(axil_arvalid),
      .s_axil_arready(axil_arready),
      .s_axil_rdata  (axil_rdata),
      .s_axil_rresp  (unused_rresp),
      .s_axil_rvalid (axil_rvalid),
      .s_axil_rready (axil_rready),
      .m_axi_awaddr  (axi_awaddr),
      .m_axi_awlen   (axi_awlen),
      .m_axi_awsize  (axi_awsize),
      .m_axi_awburst (axi_awburst),
      .m_axi_awcache (unused_awcache),
      .m_axi_awprot  (unused_awprot),
      .m_axi_awvalid (axi_awvalid),
      .m_axi_awready (axi_awready),
      .m_axi_wdata   (axi_wdata),
      .m_axi_wstrb   (axi_wstrb),
      .m_axi_wlast   (axi_wlast),
      .m_axi_wvalid  (axi_wvalid),
      .m_axi_wready  (axi_wready),
      .m_axi_bresp   (axi_bresp),
      .m_axi_bvalid  (axi_bvalid),
      .m_axi_bready  (axi_bready),
      .m_axi_araddr  (axi_araddr),
      .m_axi_arlen   (axi_arlen),
      .m_axi_arsize  (axi_arsize),
      .m_axi_arburst (axi_arburst),
      .m_axi_arcache (unused_arcache),
      .m_axi_arprot  (unused_arprot),
      .m_axi_arvalid (axi_arvalid),
      .m_axi_arready (axi_arready),
      .m_axi_rdata   (axi_rdata),
      .m_axi_rresp   (axi_rresp),
      .m_axi_rlast   (axi_rlast),
      .m_axi_rvalid  (axi_rvalid),
      .m_axi_rready  (axi_rready),
      .irq           (unused_irq),
      .busy          (unused_busy)
  );

  bram_slave #(
      .CAPTURE_SLOTS(CAPTURE_SLOTS),
      .PLAY_SLOTS(PLAY_SLOTS),
      .ADDR_W(AddrW)
  ) memory (
      .clk,
      .rst,
      .s_axi_awaddr (axi_awaddr),
      .s_axi_awlen  (axi_awlen),
      .s_axi_awsize (axi_awsize),
      .s_axi_awburst(axi_awburst),
      .s_axi_awvalid(axi_awvalid),
      .s_axi_awready(axi_awready),
      .s_axi_wdata  (axi_wdata),
      .s_axi_wstrb  (axi_wstrb),
      .s_axi_wlast  (axi_wlast),
      .s_axi_wvalid (axi_wvalid),
      .s_axi_wready (axi_wready),
      .s_axi_bresp  (axi_bresp),
      .s_axi_bvalid (axi_bvalid),
      .s_axi_bready (axi_bready),
      .s_axi_araddr (axi_araddr),
      .s_axi_arlen  (axi_arlen),
      .s_axi_arsize (axi_arsize),
      .s_axi_arburst(axi_arburst),
      .s_axi_arvalid(axi_arvalid),
      .s_axi_arready(axi_arready),
      .s_axi_rdata  (axi_rdata),
      .s_axi_rresp  (axi_rresp),
      .s_axi_rlast  (axi_rlast),
      .s_axi_rvalid (axi_rvalid),
      .s_axi_rready (axi_rready),
      .capture_address,
      .capture_data,
      .play_write,
      .play_address,
      .play_data
  );

  uart_link #(
      .CLK_HZ(CLK_HZ),
      .BAUD(BAUD),
      .CAPTURE_SLOTS(CAPTURE_SLOTS),
      .PLAY_SLOTS(PLAY_SLOTS),
      .AXIL_ADDR_W(AxilAddrW)
  ) link (
      .clk,
      .rst,
      .rx,
      .tx,
      .m_axil_awaddr (axil_awaddr),
      .m_axil_awprot (axil_awprot),
      .m_axil_awvalid(axil_awvalid),
      .m_axil_awready(axil_awready),
      .m_axil_wdata  (axil_wdata),
      .m_axil_wstrb  (axil_wstrb),
      .m_axil_wvalid (axil_wvalid),
      .m_axil_wready (axil_wready),
      .m_axil_bvalid (axil_bvalid),
      .m_axil_bready (axil_bready),
      .m_axil_araddr (axil_araddr),
      .m_axil_arprot (axil_arprot),
      .m_axil_arvalid(axil_arvalid),
      .m_axil_arready(axil_arready),
      .m_axil_rdata  (axil_rdata),
      .m_axil_rvalid (axil_rvalid),
      .m_axil_rready (axil_rready),
      .capture_address,
      .capture_data,
      .play_write,
      .play_address,
      .play_data,
      .alive,
      .speech,
      .playing,
      .fault
  );

endmodule
