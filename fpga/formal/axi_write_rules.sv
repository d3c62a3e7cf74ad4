// The rules of AXI4 (IHI 0022, A3) for a master that writes one burst at a time: claims about the master, assumptions
// about the memory. Also counts what is outstanding.

module axi_write_rules #(
    parameter int ADDR_W = 40
) (
    input  logic              clk,
    input  logic              rst,
    input  logic [ADDR_W-1:0] awaddr,
    input  logic [       7:0] awlen,
    input  logic [       2:0] awsize,
    input  logic [       1:0] awburst,
    input  logic [       3:0] awcache,
    input  logic [       2:0] awprot,
    input  logic              awvalid,
    input  logic              awready,
    input  logic [     127:0] wdata,
    input  logic [      15:0] wstrb,
    input  logic              wlast,
    input  logic              wvalid,
    input  logic              wready,
    input  logic [       1:0] bresp,
    input  logic              bvalid,
    input  logic              bready,
    // the burst under way: its address was taken, its last beat was, beats of it that were
    output logic              address_taken,
    output logic              data_taken,
    output logic [       8:0] beats
);

  logic started_q, reset_q;
  initial started_q = 1'b0;
  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    reset_q   <= rst;
  end

  // ---- the burst under way -----------------------------------------------------------------------------------------

  logic [7:0] len_q, len;
  assign len = address_taken ? len_q : awlen;

  always_ff @(posedge clk) begin
    if (rst || (bvalid && bready)) begin
      address_taken <= 1'b0;
      data_taken    <= 1'b0;
      beats         <= '0;
    end else begin
      if (awvalid && awready) begin
        address_taken <= 1'b1;
        len_q         <= awlen;
      end
      if (wvalid && wready) begin
        beats <= beats + 1'b1;
        if (wlast) data_taken <= 1'b1;
      end
    end
  end

  // ---- the memory ---------------------------------------------------------------------------------------------------

  always_comb if (bvalid) assume (address_taken && data_taken);
  always_ff @(posedge clk)
    if (started_q && !rst && !$past(rst) && $past(bvalid) && !$past(bready))
      assume (bvalid && bresp == $past(bresp));

  // ---- the master ---------------------------------------------------------------------------------------------------

  always_ff @(posedge clk)
    if (started_q && !rst && !$past(rst)) begin
      if ($past(awvalid) && !$past(awready)) begin
        assert (awvalid && awaddr == $past(awaddr) && awlen == $past(awlen) && awsize == $past(awsize));
        assert (awburst == $past(awburst) && awcache == $past(awcache) && awprot == $past(awprot));
      end
      if ($past(wvalid) && !$past(wready)) begin
        assert (wvalid && wdata == $past(wdata) && wstrb == $past(wstrb) && wlast == $past(wlast));
      end
    end

  always_comb if (started_q && reset_q) assert (!awvalid && !wvalid);

  always_comb
    if (started_q && !rst) begin
      // One at a time: nothing of the next burst before this one is answered.
      if (awvalid) assert (!address_taken);
      if (wvalid) assert (!data_taken && (awvalid || address_taken));
      if (wvalid) assert (wlast == (beats == 9'(len)));
      if (awvalid) begin
        assert (awsize == 3'd4 && awburst == 2'b01);
        assert (awaddr[3:0] == '0);
        assert ({1'b0, awaddr[11:4]} + 9'(awlen) < 9'd256);  // within 4 KiB
      end
    end

endmodule
