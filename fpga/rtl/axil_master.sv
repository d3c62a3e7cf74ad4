// Makes one access at a time to 32-bit registers over AXI4-Lite, for two clients. The first goes before the second.
//
//   a ─┐
//      ├─► [ one access ] ─► m_axil          `ready` in the clock in which the access is over, with `rdata`
//   b ─┘
//
// Registers of this project always answer OKAY, so responses are not looked at.

module axil_master #(
    // Width of byte addresses
    parameter int ADDR_W = 9
) (
    input  logic              clk,
    input  logic              rst,
    // clients: an access stays as it is from `valid` to `ready`
    input  logic              a_valid,
    input  logic              a_write,
    input  logic [ADDR_W-1:0] a_addr,
    input  logic [      31:0] a_wdata,
    output logic              a_ready,
    input  logic              b_valid,
    input  logic              b_write,
    input  logic [ADDR_W-1:0] b_addr,
    input  logic [      31:0] b_wdata,
    output logic              b_ready,
    output logic [      31:0] rdata,
    // a pulse: the registers take a read's address with this clock
    output logic              read_taken,
    // registers
    output logic [ADDR_W-1:0] m_axil_awaddr,
    output logic [       2:0] m_axil_awprot,
    output logic              m_axil_awvalid,
    input  logic              m_axil_awready,
    output logic [      31:0] m_axil_wdata,
    output logic [       3:0] m_axil_wstrb,
    output logic              m_axil_wvalid,
    input  logic              m_axil_wready,
    input  logic              m_axil_bvalid,
    output logic              m_axil_bready,
    output logic [ADDR_W-1:0] m_axil_araddr,
    output logic [       2:0] m_axil_arprot,
    output logic              m_axil_arvalid,
    input  logic              m_axil_arready,
    input  logic [      31:0] m_axil_rdata,
    input  logic              m_axil_rvalid,
    output logic              m_axil_rready
);

  logic open_q;  // an access is under way
  logic b_q;  // it is b's
  logic awvalid_q, wvalid_q, arvalid_q;
  logic [ADDR_W-1:0] addr_q;
  logic [31:0] wdata_q;

  logic start, take_b, write, over;
  assign take_b = !a_valid;
  assign write  = take_b ? b_write : a_write;
  assign start  = (a_valid || b_valid) && !open_q;
  assign over   = open_q && (m_axil_bvalid || m_axil_rvalid);

  always_ff @(posedge clk) begin
    if (rst) begin
      open_q    <= 1'b0;
      b_q       <= 1'b0;
      awvalid_q <= 1'b0;
      wvalid_q  <= 1'b0;
      arvalid_q <= 1'b0;
      addr_q    <= '0;
      wdata_q   <= '0;
    end else if (start) begin
      open_q    <= 1'b1;
      b_q       <= take_b;
      awvalid_q <= write;
      wvalid_q  <= write;
      arvalid_q <= !write;
      addr_q    <= take_b ? b_addr : a_addr;
      wdata_q   <= take_b ? b_wdata : a_wdata;
    end else begin
      if (m_axil_awready) awvalid_q <= 1'b0;
      if (m_axil_wready) wvalid_q <= 1'b0;
      if (m_axil_arready) arvalid_q <= 1'b0;
      if (over) open_q <= 1'b0;
    end
  end

  assign a_ready        = over && !b_q;
  assign b_ready        = over && b_q;
  assign rdata          = m_axil_rdata;
  assign read_taken     = arvalid_q && m_axil_arready;

  assign m_axil_awaddr  = addr_q;
  assign m_axil_awprot  = 3'b000;
  assign m_axil_awvalid = awvalid_q;
  assign m_axil_wdata   = wdata_q;
  assign m_axil_wstrb   = 4'b1111;
  assign m_axil_wvalid  = wvalid_q;
  assign m_axil_bready  = open_q;
  assign m_axil_araddr  = addr_q;
  assign m_axil_arprot  = 3'b000;
  assign m_axil_arvalid = arvalid_q;
  assign m_axil_rready  = open_q;

endmodule
