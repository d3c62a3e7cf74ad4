// A register that claims that it keeps its value in every clock in which the module `works` not: with those clocks left
// out, all is as with them. busy.ys puts it in the place of every register of a module.

module held #(
    parameter int WIDTH = 1
) (
    input  logic             CLK,
    input  logic             rst,
    // any of these: the clock is needed
    input  logic [      7:0] works,
    input  logic [WIDTH-1:0] D,
    output logic [WIDTH-1:0] Q
);

  // A reset lasts eight clocks or more, so that registers without one have settled.
  logic [2:0] reset_q;  // clocks of the reset so far, seven and more as seven
  initial reset_q = '0;
  always_ff @(posedge CLK) begin
    if (!rst) reset_q <= '0;
    else if (reset_q != '1) reset_q <= reset_q + 1'b1;
  end

  logic running_q;
  initial running_q = 1'b0;
  always_ff @(posedge CLK) running_q <= !rst;
  always_comb if (!running_q && !rst) assume (reset_q == '1);

  always_ff @(posedge CLK) Q <= D;
  always_comb if (!rst && works == '0) assert (D == Q);

endmodule
