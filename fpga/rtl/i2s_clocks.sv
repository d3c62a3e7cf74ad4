// The bus clocks of I2S from the converters' master clock: SCLK = MCLK / 4 and LRCK = SCLK / 64.
//
//   MCLK   12.288 MHz  ‾_‾_‾_‾_‾_‾_‾_‾_
//   SCLK    3.072 MHz  ‾‾‾‾____‾‾‾‾____    count[1]
//   LRCK   48 kHz      ________‾‾‾‾‾‾‾‾    count[7]; low is the left channel
//
// LRCK changes with a falling edge of SCLK. Both come straight out of registers, so they have no glitches. This module
// alone lives in the domain of MCLK.

module i2s_clocks (
    input  logic mclk,
    // synchronous to mclk
    input  logic rst,
    output logic sclk,
    output logic lrck
);

  logic [7:0] count_q;

  always_ff @(posedge mclk) begin
    if (rst) count_q <= '0;
    else count_q <= count_q + 1'b1;
  end

  assign sclk = count_q[1];
  assign lrck = count_q[7];

endmodule
