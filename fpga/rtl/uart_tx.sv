// Sends bytes on a serial line, 8N1 (see uart_rx.sv); bytes that are offered in time follow each other without a gap.

module uart_tx #(
    // Clocks a bit, at least 8
    parameter int CYCLES_PER_BIT = 25
) (
    input  logic       clk,
    input  logic       rst,
    // bytes; the start bit begins with the clock that takes one
    input  logic [7:0] s_axis_tdata,
    input  logic       s_axis_tvalid,
    output logic       s_axis_tready,
    // the line, from a register
    output logic       tx
);

  localparam int CountW = $clog2(CYCLES_PER_BIT);
  localparam logic [CountW-1:0] Whole = CountW'(CYCLES_PER_BIT - 1);
  localparam logic [3:0] BitsAfterStart = 4'd9;

`ifndef SYNTHESIS
  initial if (CYCLES_PER_BIT < 8) $fatal(1, "uart_tx: CYCLES_PER_BIT must be at least 8");
`endif

  logic [7:0] shift_q;  // what follows on the line, ones behind the last data bit
  logic [3:0] left_q;  // bits that have not begun
  logic [CountW-1:0] count_q;  // clocks that the bit on the line still has, less one
  logic due;

  assign due = count_q == '0;
  assign s_axis_tready = due && left_q == '0 && !rst;

  always_ff @(posedge clk) begin
    if (rst) begin
      tx      <= 1'b1;
      shift_q <= '1;
      left_q  <= '0;
      count_q <= '0;
    end else if (s_axis_tvalid && s_axis_tready) begin
      tx      <= 1'b0;
      shift_q <= s_axis_tdata;
      left_q  <= BitsAfterStart;
      count_q <= Whole;
    end else if (!due) begin
      count_q <= count_q - 1'b1;
    end else if (left_q != '0) begin
      {shift_q, tx} <= {1'b1, shift_q};
      left_q        <= left_q - 1'b1;
      count_q       <= Whole;
    end
  end

endmodule
