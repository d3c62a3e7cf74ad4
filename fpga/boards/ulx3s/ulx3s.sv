// The ULX3S (Lattice ECP5 LFE5U-85F): converters on a Pmod I2S2 at the header J1, the host on the USB serial port US1.
//
//   Pmod I2S2 ─I2S─► i2s_rx ─► frontend ─► i2s_tx ─I2S─► Pmod I2S2          wiring, protocol: docs/uart.md
//                               │
//                           uart_link ─► FT231X ─► USB

module ulx3s #(
    // Folder of the coefficient tables, with a closing slash
    parameter FILTERS = "fpga/filters/"
) (
    input  logic       clk_25mhz,
    // 0 while pressed; the board's reset
    input  logic [0:0] btn,
    // UART, named from the side of the FT231X
    output logic       ftdi_rxd,
    input  logic       ftdi_txd,
    // converters
    output logic       dac_mclk,
    output logic       dac_lrck,
    output logic       dac_sclk,
    output logic       dac_sdin,
    output logic       adc_mclk,
    output logic       adc_lrck,
    output logic       adc_sclk,
    input  logic       adc_sdout,
    // 0 the host is alive, 1 speech, 2 a reply is heard, 3 a fault in FAULTS, 7 the clock runs: it blinks; the rest dark
    output logic [7:0] led,
    // high, so that the ESP32 starts as ever and leaves the board alone
    output logic       wifi_gpio0
);

  localparam int ClkHz = 50_000_000;
  localparam int Baud = 2_000_000;

  logic clk, rst, mclk, mclk_rst;

  ulx3s_clocks clocks (
      .clk_25mhz,
      .reset_button(!btn[0]),
      .clk,
      .rst,
      .mclk,
      .mclk_rst
  );

  // ---- converters ----------------------------------------------------------------------------------------------------

  logic sclk, lrck, adc_tvalid, dac_tvalid;
  logic [47:0] adc_tdata;
  logic [15:0] dac_tdata;
  logic adc_error, dac_underrun;

  i2s_clocks i2s_clocks (
      .mclk,
      .rst(mclk_rst),
      .sclk,
      .lrck
  );

  // Both converters run from the same clocks, so that input and output stay in step.
  assign {dac_mclk, dac_sclk, dac_lrck} = {mclk, sclk, lrck};
  assign {adc_mclk, adc_sclk, adc_lrck} = {mclk, sclk, lrck};

  i2s_rx #(
      .CLK_HZ(ClkHz)
  ) i2s_rx (
      .clk,
      .rst,
      .sclk,
      .lrck,
      .sd           (adc_sdout),
      .m_axis_tdata (adc_tdata),
      .m_axis_tvalid(adc_tvalid),
      .frame_error  (adc_error)
  );

  i2s_tx #(
      .CLK_HZ(ClkHz)
  ) i2s_tx (
      .clk,
      .rst,
      .s_axis_tdata ({2{dac_tdata, 8'd0}}),
      .s_axis_tvalid(dac_tvalid),
      .underrun     (dac_underrun),
      .sclk,
      .lrck,
      .sd           (dac_sdin)
  );

  // ---- front end and link --------------------------------------------------------------------------------------------

  logic alive, speech, playing, fault;

  frontend_uart #(
      .CLK_HZ (ClkHz),
      .BAUD   (Baud),
      .FILTERS(FILTERS)
  ) frontend_uart (
      .clk,
      .rst,
      .s_axis_adc_tdata (adc_tdata),
      .s_axis_adc_tvalid(adc_tvalid),
      .m_axis_dac_tdata (dac_tdata),
      .m_axis_dac_tvalid(dac_tvalid),
      .adc_error,
      .dac_underrun,
      .rx               (ftdi_txd),
      .tx               (ftdi_rxd),
      .alive,
      .speech,
      .playing,
      .fault
  );

  // ---- lamps -----------------------------------------------------------------------------------------------------------

  localparam int BlinkW = 26;  // 1.3 s at 50 MHz
  logic [BlinkW-1:0] blink_q;

  always_ff @(posedge clk) begin
    if (rst) blink_q <= '0;
    else blink_q <= blink_q + 1'b1;
  end

  assign led        = {blink_q[BlinkW-1], 3'd0, fault, playing, speech, alive};
  assign wifi_gpio0 = 1'b1;

endmodule
