// Proof: axil_master, which is uart_link's way to the registers, keeps the rules of AXI4-Lite (IHI 0022, B1) and makes
// each access that a client asks for once, as it was asked for.

module axil_master_proof #(
    parameter int ADDR_W = 9
) (
    input logic              clk,
    input logic              rst,
    input logic              a_valid,
    input logic              a_write,
    input logic [ADDR_W-1:0] a_addr,
    input logic [      31:0] a_wdata,
    input logic              b_valid,
    input logic              b_write,
    input logic [ADDR_W-1:0] b_addr,
    input logic [      31:0] b_wdata,
    input logic              m_axil_awready,
    input logic              m_axil_wready,
    input logic              m_axil_bvalid,
    input logic              m_axil_arready,
    input logic [      31:0] m_axil_rdata,
    input logic              m_axil_rvalid
);

  logic a_ready, b_ready, read_taken;
  logic [31:0] rdata, m_axil_wdata;
  logic [ADDR_W-1:0] m_axil_awaddr, m_axil_araddr;
  logic [2:0] m_axil_awprot, m_axil_arprot;
  logic [3:0] m_axil_wstrb;
  logic m_axil_awvalid, m_axil_wvalid, m_axil_bready, m_axil_arvalid, m_axil_rready;

  axil_master #(.ADDR_W(ADDR_W)) dut (.*);

  logic started_q, running, running_q;
  initial started_q = 1'b0;
  initial running_q = 1'b0;
  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    running_q <= !rst;
  end
  assign running = started_q && !rst;
  always_comb if (!started_q) assume (rst);

  // ---- clients: an access stays as it is until it is over ------------------------------------------------------------

  always_ff @(posedge clk)
    if (running && running_q) begin
      if ($past(a_valid) && !$past(a_ready)) begin
        assume (a_valid && a_write == $past(a_write) && a_addr == $past(a_addr) && a_wdata == $past(a_wdata));
      end
      if ($past(b_valid) && !$past(b_ready)) begin
        assume (b_valid && b_write == $past(b_write) && b_addr == $past(b_addr) && b_wdata == $past(b_wdata));
      end
    end

  // ---- the slave answers what it was asked, once ---------------------------------------------------------------------

  logic address_q, word_q, read_q;  // taken and not answered
  always_ff @(posedge clk) begin
    if (rst) begin
      address_q <= 1'b0;
      word_q    <= 1'b0;
      read_q    <= 1'b0;
    end else begin
      if (m_axil_awvalid && m_axil_awready) address_q <= 1'b1;
      if (m_axil_wvalid && m_axil_wready) word_q <= 1'b1;
      if (m_axil_arvalid && m_axil_arready) read_q <= 1'b1;
      if (m_axil_bvalid && m_axil_bready) begin
        address_q <= 1'b0;
        word_q    <= 1'b0;
      end
      if (m_axil_rvalid && m_axil_rready) read_q <= 1'b0;
    end
  end
  always_comb begin
    if (m_axil_bvalid) assume (address_q && word_q);
    if (m_axil_rvalid) assume (read_q);
  end

  // ---- claims ------------------------------------------------------------------------------------------------------

  always_ff @(posedge clk)
    if (running && running_q) begin
      if ($past(m_axil_awvalid) && !$past(m_axil_awready)) begin
        assert (m_axil_awvalid && m_axil_awaddr == $past(m_axil_awaddr) && m_axil_awprot == $past(m_axil_awprot));
      end
      if ($past(m_axil_wvalid) && !$past(m_axil_wready)) begin
        assert (m_axil_wvalid && m_axil_wdata == $past(m_axil_wdata) && m_axil_wstrb == $past(m_axil_wstrb));
      end
      if ($past(m_axil_arvalid) && !$past(m_axil_arready)) begin
        assert (m_axil_arvalid && m_axil_araddr == $past(m_axil_araddr) && m_axil_arprot == $past(m_axil_arprot));
      end
    end

  logic write, valid;  // the access under way, as its client shows it
  logic [ADDR_W-1:0] addr;
  logic [31:0] wdata;
  assign valid = dut.b_q ? b_valid : a_valid;
  assign write = dut.b_q ? b_write : a_write;
  assign addr  = dut.b_q ? b_addr : a_addr;
  assign wdata = dut.b_q ? b_wdata : a_wdata;

  always_comb
    if (running) begin
      if (!running_q) assert (!m_axil_awvalid && !m_axil_wvalid && !m_axil_arvalid);
      // What is asked for is what a client wants, and one access at a time.
      if (m_axil_awvalid) assert (valid && write && m_axil_awaddr == addr && !address_q && !read_q);
      if (m_axil_wvalid) assert (valid && write && m_axil_wdata == wdata && m_axil_wstrb == '1 && !word_q);
      if (m_axil_arvalid) assert (valid && !write && m_axil_araddr == addr && !read_q && !address_q && !word_q);
      // A client is told when its access was answered, and the other is not.
      if (a_ready || b_ready) begin
        assert (valid && a_ready == !dut.b_q && b_ready == dut.b_q);
        assert (write ? m_axil_bvalid && m_axil_bready : m_axil_rvalid && m_axil_rready && rdata == m_axil_rdata);
      end
      if (m_axil_bvalid || m_axil_rvalid) assert (a_ready || b_ready);
      assert (read_taken == (m_axil_arvalid && m_axil_arready));
    end

  // ---- what holds inside, for the induction ------------------------------------------------------------------------

  always_comb
    if (running) begin
      if (dut.open_q) begin
        assert (valid);
        // Each part of the access is being asked for or was taken.
        assert ((m_axil_awvalid || address_q) == write && (m_axil_wvalid || word_q) == write);
        assert ((m_axil_arvalid || read_q) == !write);
      end else begin
        assert (!m_axil_awvalid && !m_axil_wvalid && !m_axil_arvalid && !address_q && !word_q && !read_q);
      end
    end

  always_comb
    if (running) begin
      cover (b_ready && b_write && a_valid);
      cover (a_ready && !a_write && b_valid);
    end

endmodule
