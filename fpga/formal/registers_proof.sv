// Proof: the registers, behind the queues that frontend.sv puts in front of them, keep the rules of AXI4-Lite and answer
// every access, whatever they hold and whatever the front end shows them.

module registers_proof
  import frontend_regs_pkg::*;
#(
    parameter int ADDR_W = FRONTEND_REGS_MIN_ADDR_WIDTH
) (
    input logic                       clk,
    input logic                       rst,
    input logic          [ADDR_W-1:0] s_axil_awaddr,
    input logic          [       2:0] s_axil_awprot,
    input logic                       s_axil_awvalid,
    input logic          [      31:0] s_axil_wdata,
    input logic          [       3:0] s_axil_wstrb,
    input logic                       s_axil_wvalid,
    input logic                       s_axil_bready,
    input logic          [ADDR_W-1:0] s_axil_araddr,
    input logic          [       2:0] s_axil_arprot,
    input logic                       s_axil_arvalid,
    input logic                       s_axil_rready,
    input frontend__in_t              to_regs
);

  logic s_axil_awready, s_axil_wready, s_axil_bvalid, s_axil_arready, s_axil_rvalid;
  logic [1:0] s_axil_bresp, s_axil_rresp;
  logic [31:0] s_axil_rdata;

  // ---- as in frontend.sv --------------------------------------------------------------------------------------------

  logic [ADDR_W+2:0] aw_tdata, ar_tdata;
  logic [35:0] w_tdata;
  logic aw_tvalid, aw_tready, w_tvalid, w_tready, ar_tvalid, ar_tready;
  logic [1:0] aw_level, w_level, ar_level;

  sync_fifo #(
      .WIDTH(ADDR_W + 3),
      .DEPTH(2)
  ) aw_queue (
      .clk,
      .rst,
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
      .clk,
      .rst,
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
      .WIDTH(ADDR_W + 3),
      .DEPTH(2)
  ) ar_queue (
      .clk,
      .rst,
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
      .clk,
      .rst,
      .s_axil_awready(aw_tready),
      .s_axil_awvalid(aw_tvalid),
      .s_axil_awaddr (aw_tdata[ADDR_W-1:0]),
      .s_axil_awprot (aw_tdata[ADDR_W+2:ADDR_W]),
      .s_axil_wready (w_tready),
      .s_axil_wvalid (w_tvalid),
      .s_axil_wdata  (w_tdata[31:0]),
      .s_axil_wstrb  (w_tdata[35:32]),
      .s_axil_bready,
      .s_axil_bvalid,
      .s_axil_bresp,
      .s_axil_arready(ar_tready),
      .s_axil_arvalid(ar_tvalid),
      .s_axil_araddr (ar_tdata[ADDR_W-1:0]),
      .s_axil_arprot (ar_tdata[ADDR_W+2:ADDR_W]),
      .s_axil_rready,
      .s_axil_rvalid,
      .s_axil_rdata,
      .s_axil_rresp,
      .hwif_in       (to_regs),
      .hwif_out      ()
  );

  logic started_q;
  initial started_q = 1'b0;
  always_ff @(posedge clk) started_q <= 1'b1;
  always_comb if (!started_q) assume (rst);

  logic [3:0] addresses, words, reads;
  axil_slave_rules #(
      .ADDR_W(ADDR_W)
  ) rules (
      .clk,
      .rst,
      .awaddr (s_axil_awaddr),
      .awprot (s_axil_awprot),
      .awvalid(s_axil_awvalid),
      .awready(s_axil_awready),
      .wdata  (s_axil_wdata),
      .wstrb  (s_axil_wstrb),
      .wvalid (s_axil_wvalid),
      .wready (s_axil_wready),
      .bresp  (s_axil_bresp),
      .bvalid (s_axil_bvalid),
      .bready (s_axil_bready),
      .araddr (s_axil_araddr),
      .arprot (s_axil_arprot),
      .arvalid(s_axil_arvalid),
      .arready(s_axil_arready),
      .rdata  (s_axil_rdata),
      .rresp  (s_axil_rresp),
      .rvalid (s_axil_rvalid),
      .rready (s_axil_rready),
      .addresses,
      .words,
      .reads
  );

  // ---- what holds inside, for the induction ------------------------------------------------------------------------

  // Answers that wait, of three at most, and how many of them are of writes; and a read whose answer is a clock away.
  logic [1:0] waiting, writes, oldest, second, third;
  logic reading;
  assign oldest = regs.axil_resp_rptr[1:0];
  assign second = oldest == 2'd2 ? 2'd0 : oldest + 2'd1;
  assign third = second == 2'd2 ? 2'd0 : second + 2'd1;
  assign waiting = regs.axil_resp_wptr[1:0] - oldest + (regs.axil_resp_wptr[2] != regs.axil_resp_rptr[2] ? 2'd3 : 2'd0);
  assign reading = regs.readback_done_rt;
  assign writes  = 2'(waiting > 2'd0 && regs.axil_resp_buffer_is_wr[oldest]) +
      2'(waiting > 2'd1 && regs.axil_resp_buffer_is_wr[second]) +
      2'(waiting > 2'd2 && regs.axil_resp_buffer_is_wr[third]);

  always_comb
    if (started_q && !rst) begin
      assert (oldest <= 2'd2 && regs.axil_resp_wptr[1:0] <= 2'd2);
      // The pointers are never more than three apart.
      if (regs.axil_resp_wptr[2] == regs.axil_resp_rptr[2])
        assert (oldest <= regs.axil_resp_wptr[1:0]);
        else assert (regs.axil_resp_wptr[1:0] <= oldest);
      assert (3'(waiting) + 3'(reading) == 3'(regs.axil_n_in_flight));
      assert (reading == regs.cpuif_req_stall_sr[0]);
      assert (addresses == 4'(aw_level) + 4'(regs.axil_awvalid) + 4'(writes));
      assert (words == 4'(w_level) + 4'(regs.axil_wvalid) + 4'(writes));
      assert (reads == 4'(ar_level) + 4'(regs.axil_arvalid) + 4'(reading) + 4'(waiting - writes));
      assert (aw_level <= 2'd2 && w_level <= 2'd2 && ar_level <= 2'd2);
      assert (aw_level != 2'd0 || !aw_tvalid);
      assert (w_level != 2'd0 || !w_tvalid);
      assert (ar_level != 2'd0 || !ar_tvalid);
    end

  // ---- what can happen ---------------------------------------------------------------------------------------------

  logic [31:0] given_q;
  logic written_q;
  always_ff @(posedge clk) begin
    if (rst) written_q <= 1'b0;
    else if (s_axil_bvalid && s_axil_bready) written_q <= 1'b1;
    if (s_axil_wvalid && s_axil_wready) given_q <= s_axil_wdata;
  end

  always_comb
    if (started_q && !rst) begin
      // What was written is read back.
      cover (written_q && s_axil_rvalid && s_axil_rdata == given_q && s_axil_rdata == 32'hB007_1D00);
      cover (addresses == 4'd6 && words == 4'd6);  // all queues full, three answers waiting
      cover (addresses == 4'd1 && words == 4'd1 && reads == 4'd1 && s_axil_rvalid);
    end

endmodule
