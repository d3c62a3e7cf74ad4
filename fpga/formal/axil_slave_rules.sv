// The rules of AXI4-Lite (IHI 0022, B1) for a slave: claims about the slave, assumptions about the master. Also counts
// what was accepted and not answered.

module axil_slave_rules #(
    parameter int ADDR_W   = 9,
    // Clocks within which a request is answered by a slave whose answers are taken at once
    parameter int PATIENCE = 8
) (
    input  logic              clk,
    input  logic              rst,
    input  logic [ADDR_W-1:0] awaddr,
    input  logic [       2:0] awprot,
    input  logic              awvalid,
    input  logic              awready,
    input  logic [      31:0] wdata,
    input  logic [       3:0] wstrb,
    input  logic              wvalid,
    input  logic              wready,
    input  logic [       1:0] bresp,
    input  logic              bvalid,
    input  logic              bready,
    input  logic [ADDR_W-1:0] araddr,
    input  logic [       2:0] arprot,
    input  logic              arvalid,
    input  logic              arready,
    input  logic [      31:0] rdata,
    input  logic [       1:0] rresp,
    input  logic              rvalid,
    input  logic              rready,
    // accepted and not answered: write addresses, write data, reads
    output logic [       3:0] addresses,
    output logic [       3:0] words,
    output logic [       3:0] reads
);

  logic started_q, reset_q;
  initial started_q = 1'b0;
  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    reset_q   <= rst;
  end

  logic write_answered, read_answered;
  assign write_answered = bvalid && bready;
  assign read_answered  = rvalid && rready;

  always_ff @(posedge clk) begin
    if (rst) begin
      addresses <= '0;
      words     <= '0;
      reads     <= '0;
    end else begin
      addresses <= addresses + 4'(awvalid && awready) - 4'(write_answered);
      words     <= words + 4'(wvalid && wready) - 4'(write_answered);
      reads     <= reads + 4'(arvalid && arready) - 4'(read_answered);
    end
  end

  // ---- the master ---------------------------------------------------------------------------------------------------

  always_ff @(posedge clk)
    if (started_q && !rst && !$past(rst)) begin
      if ($past(awvalid) && !$past(awready)) assume (awvalid && awaddr == $past(awaddr) && awprot == $past(awprot));
      if ($past(wvalid) && !$past(wready)) assume (wvalid && wdata == $past(wdata) && wstrb == $past(wstrb));
      if ($past(arvalid) && !$past(arready)) assume (arvalid && araddr == $past(araddr) && arprot == $past(arprot));
    end

  // ---- the slave ----------------------------------------------------------------------------------------------------

  always_ff @(posedge clk)
    if (started_q && !rst && !$past(rst)) begin
      if ($past(bvalid) && !$past(bready)) assert (bvalid && bresp == $past(bresp));
      if ($past(rvalid) && !$past(rready)) assert (rvalid && rresp == $past(rresp) && rdata == $past(rdata));
    end

  always_comb
    if (started_q && !rst) begin
      if (reset_q) assert (!bvalid && !rvalid);
      // No answer without its request.
      if (bvalid) assert (addresses != '0 && words != '0);
      if (rvalid) assert (reads != '0);
      assert (addresses <= 4'd8 && words <= 4'd8 && reads <= 4'd8);
    end

  // Every request is answered: where answers are taken at once, within PATIENCE clocks of the request or the last answer.
  int   waited_q;
  logic owes;
  assign owes = (addresses != '0 && words != '0) || reads != '0;
  always_ff @(posedge clk) begin
    if (rst || !owes || write_answered || read_answered || !bready || !rready) waited_q <= 0;
    else waited_q <= waited_q + 1;
  end
  always_comb if (started_q && !rst) assert (waited_q >= 0 && waited_q < PATIENCE);

endmodule
