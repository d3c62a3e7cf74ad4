// The rules of AXI4 (IHI 0022, A3) for a master that reads one burst at a time: claims about the master, assumptions
// about the memory, which may answer late, with errors and with a wrong RLAST, but not more beats than it was asked for.

module axi_read_rules #(
    parameter int ADDR_W = 40
) (
    input  logic              clk,
    input  logic              rst,
    input  logic [ADDR_W-1:0] araddr,
    input  logic [       7:0] arlen,
    input  logic [       2:0] arsize,
    input  logic [       1:0] arburst,
    input  logic [       3:0] arcache,
    input  logic [       2:0] arprot,
    input  logic              arvalid,
    input  logic              arready,
    input  logic              rvalid,
    input  logic              rready,
    // beats that memory owes, and those of the burst under way that came
    output logic [       8:0] owed,
    output logic [       8:0] beats
);

  logic started_q, reset_q;
  initial started_q = 1'b0;
  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    reset_q   <= rst;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      owed  <= '0;
      beats <= '0;
    end else if (arvalid && arready) begin
      owed  <= 9'(arlen) + 9'd1;
      beats <= '0;
    end else if (rvalid && rready) begin
      owed  <= owed - 9'd1;
      beats <= beats + 9'd1;
    end
  end

  // ---- the memory ---------------------------------------------------------------------------------------------------

  always_comb if (rvalid) assume (owed != '0);
  always_ff @(posedge clk) if (started_q && !rst && !$past(rst) && $past(rvalid) && !$past(rready)) assume (rvalid);

  // ---- the master ---------------------------------------------------------------------------------------------------

  always_ff @(posedge clk)
    if (started_q && !rst && !$past(rst) && $past(arvalid) && !$past(arready)) begin
      assert (arvalid && araddr == $past(araddr) && arlen == $past(arlen) && arsize == $past(arsize));
      assert (arburst == $past(arburst) && arcache == $past(arcache) && arprot == $past(arprot));
    end

  always_comb if (started_q && reset_q) assert (!arvalid);

  always_comb
    if (started_q && !rst) begin
      assert (owed <= 9'(arlen) + 9'd1);
      if (arvalid) begin
        assert (owed == '0);  // one at a time
        assert (arlen == 8'd15 && arsize == 3'd4 && arburst == 2'b01);
        assert (araddr[3:0] == '0);
        assert ({1'b0, araddr[11:4]} + 9'(arlen) < 9'd256);  // within 4 KiB
      end
    end

endmodule
