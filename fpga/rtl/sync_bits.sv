// Brings slow bits into the domain of `clk`: two registers in a row, so that a first one that went metastable has a
// clock to settle before anything looks at it.
//
//   d ─► [ meta_q ] ─► [ q ]
//
// Each bit comes 1 to 2 clocks after it changed, on its own: bits that change together may come a clock apart. A board's
// constraints cut the paths that end in `meta_q`.

module sync_bits #(
    // Bits
    parameter int WIDTH = 1
) (
    input  logic             clk,
    input  logic             rst,
    input  logic [WIDTH-1:0] d,
    output logic [WIDTH-1:0] q
);

  // The attributes keep the two registers side by side, and out of a shift-register primitive.
  (* ASYNC_REG = "TRUE", SHREG_EXTRACT = "NO" *)logic [WIDTH-1:0] meta_q;
  (* ASYNC_REG = "TRUE", SHREG_EXTRACT = "NO" *)logic [WIDTH-1:0] settled_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      meta_q    <= '0;
      settled_q <= '0;
    end else begin
      meta_q    <= d;
      settled_q <= meta_q;
    end
  end

  assign q = settled_q;

endmodule
