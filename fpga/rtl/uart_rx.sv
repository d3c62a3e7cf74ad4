// Receives a serial line, 8N1: idle high, a start bit, eight data bits with the lowest first, a stop bit.
//
//   rx ─► [ sync_bits ] ─► [ glitch filter ] ─► [ start, 8 x data, stop ] ─► m_axis
//
//          ‾‾‾\_____/ d0  X d1  X  ...  X d7  /‾‾‾‾‾‾‾‾
//                ^     ^     ^             ^     ^          looked at in the middle of each bit
//
// The filter believes the line when three clocks in a row agree, so pulses shorter than that are not there, and delays
// every edge alike. A start bit that is over before its middle was none. Where the stop bit should be and the line is
// low, the byte is dropped and nothing is a start bit before the line has been high: a break is one error.

module uart_rx #(
    // Clocks a bit, at least 8. The middle of the stop bit may come half a bit early or late, 5 % of a byte: this much
    // the two ends' rates may differ, the rounding of this number included
    parameter int CYCLES_PER_BIT = 25
) (
    input  logic       clk,
    input  logic       rst,
    // the line; not in the domain of clk
    input  logic       rx,
    // one pulse of tvalid a byte, in the middle of its stop bit; a line cannot wait, so there is no tready
    output logic [7:0] m_axis_tdata,
    output logic       m_axis_tvalid,
    // a pulse: a byte had no stop bit and was dropped
    output logic       framing_error
);

  localparam int CountW = $clog2(CYCLES_PER_BIT);
  localparam logic [CountW-1:0] Half = CountW'(CYCLES_PER_BIT / 2 - 1);
  localparam logic [CountW-1:0] Whole = CountW'(CYCLES_PER_BIT - 1);
  localparam logic [3:0] StartBit = 4'd0;
  localparam logic [3:0] StopBit = 4'd9;
  // Two states beside the bits 0 to 9 that are being waited for
  localparam logic [3:0] Idle = 4'd10;
  localparam logic [3:0] Low = 4'd11;  // the line must be high before anything else

`ifndef SYNTHESIS
  initial if (CYCLES_PER_BIT < 8) $fatal(1, "uart_rx: CYCLES_PER_BIT must be at least 8");
`endif

  // ---- the line, clean ---------------------------------------------------------------------------------------------

  logic rx_s, line_q;
  logic [1:0] before_q;

  sync_bits sync (
      .clk,
      .rst,
      .d(rx),
      .q(rx_s)
  );

  always_ff @(posedge clk) begin
    if (rst) begin
      before_q <= '0;
      line_q   <= 1'b0;
    end else begin
      before_q <= {before_q[0], rx_s};
      if (before_q == {2{rx_s}}) line_q <= rx_s;
    end
  end

  // ---- bits ----------------------------------------------------------------------------------------------------------

  logic [3:0] bit_q;
  logic [CountW-1:0] count_q;
  logic due;
  assign due = count_q == '0;

  always_ff @(posedge clk) begin
    if (rst) begin
      bit_q         <= Low;
      count_q       <= '0;
      m_axis_tdata  <= '0;
      m_axis_tvalid <= 1'b0;
      framing_error <= 1'b0;
    end else begin
      m_axis_tvalid <= 1'b0;
      framing_error <= 1'b0;
      count_q       <= due ? Whole : count_q - 1'b1;
      case (bit_q)
        Low: if (line_q) bit_q <= Idle;
        Idle: begin
          count_q <= Half;
          if (!line_q) bit_q <= StartBit;
        end
        StartBit: if (due) bit_q <= line_q ? Idle : bit_q + 1'b1;
        StopBit:
        if (due) begin
          bit_q         <= line_q ? Idle : Low;
          m_axis_tvalid <= line_q;
          framing_error <= !line_q;
        end
        default:
        if (due) begin
          bit_q        <= bit_q + 1'b1;
          m_axis_tdata <= {line_q, m_axis_tdata[7:1]};
        end
      endcase
    end
  end

endmodule
