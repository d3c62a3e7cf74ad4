// For busy.sby: every register of a module under test becomes a `held`, which claims that it does not change in a clock
// that a simulator would leave out.

(* techmap_celltype = "$dff" *)
module map_register #(
    parameter WIDTH = 1,
    parameter CLK_POLARITY = 1
) (
    input CLK,
    input [WIDTH-1:0] D,
    output [WIDTH-1:0] Q
);
  held #(.WIDTH(WIDTH)) _TECHMAP_REPLACE_ (.CLK(CLK), .D(D), .Q(Q));
endmodule
