// A clock that a simulator may stop. On hardware (GATED = 0) it is a wire: the fabric's clock tree runs freely.
//
// A module that is given `enable` in every cycle in which a clock would change something behaves the same either way;
// a simulator then spends no time on modules that have nothing to do.

module clock_gate #(
    // 1: stop `gated` while `enable` is low (simulation only)
    parameter int GATED = 0
) (
    input  logic clk,
    input  logic enable,
    output logic gated
);

  generate
    if (GATED != 0) begin : g_gated
      // Transparent while clk is low, so that `enable` may change after the edge without a glitch.
      logic open;
      always_latch if (!clk) open = enable;
      assign gated = clk && open;
    end else begin : g_wire
      logic unused;
      assign unused = enable;
      assign gated  = clk;
    end
  endgenerate

endmodule
