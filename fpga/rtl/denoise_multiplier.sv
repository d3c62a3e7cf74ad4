// One multiplier for two that never work at the same time. A product comes two clocks after its factors.

module denoise_multiplier (
    input  logic        clk,
    // the first user's factors, two's complement; they win
    input  logic        a_valid,
    input  logic [17:0] a_x,
    input  logic [17:0] a_y,
    // the second user's
    input  logic        b_valid,
    input  logic [17:0] b_x,
    input  logic [17:0] b_y,
    // for both
    output logic [35:0] product,
    // the next clock changes something
    output logic        busy
);

  logic valid_q;
  logic signed [17:0] x_q, y_q;

  always_ff @(posedge clk) begin
    valid_q <= a_valid || b_valid;
    if (a_valid || b_valid) begin
      x_q <= a_valid ? a_x : b_x;
      y_q <= a_valid ? a_y : b_y;
    end
    if (valid_q) product <= x_q * y_q;
  end

  assign busy = a_valid || b_valid || valid_q;

endmodule
