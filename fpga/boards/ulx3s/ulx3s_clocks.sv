// The ULX3S's clocks from its 25 MHz oscillator: 50 MHz for the fabric and 12.28814 MHz for the converters.
//
//   25 MHz ─┬─► PLL, 600 MHz ─► / 12 = 50 MHz                    ─► clk,  rst
//           └─► PLL, 725 MHz ─► / 59 = 25 x 29 / 59 = 12.28814 MHz ─► mclk, mclk_rst
//
// The converters then run at 48,000.53 Hz, 11 ppm off, which is within what the oscillator itself may be off.

module ulx3s_clocks (
    input  logic clk_25mhz,
    // asynchronous
    input  logic reset_button,
    // synchronous to their clocks, until both PLLs have locked and for some clocks more
    output logic clk,
    output logic rst,
    output logic mclk,
    output logic mclk_rst
);

  logic locked, mclk_locked, unused_25mhz, unused_clkos;

  (* FREQUENCY_PIN_CLKI="25", FREQUENCY_PIN_CLKOP="50", ICP_CURRENT="12", LPF_RESISTOR="8" *)
      (* MFG_ENABLE_FILTEROPAMP="1", MFG_GMCREF_SEL="2" *)
  EHXPLLL #(
      .CLKI_DIV    (1),
      .CLKFB_DIV   (2),
      .CLKOP_ENABLE("ENABLED"),
      .CLKOP_DIV   (12),
      .CLKOP_CPHASE(5),
      .CLKOS_ENABLE("DISABLED"),
      .CLKOS_DIV   (1),
      .CLKOS_CPHASE(0),
      .FEEDBK_PATH ("CLKOP")
  ) fabric_pll (
      .CLKI        (clk_25mhz),
      .CLKFB       (clk),
      .RST         (1'b0),
      .STDBY       (1'b0),
      .PHASESEL0   (1'b0),
      .PHASESEL1   (1'b0),
      .PHASEDIR    (1'b1),
      .PHASESTEP   (1'b1),
      .PHASELOADREG(1'b1),
      .PLLWAKESYNC (1'b0),
      .ENCLKOP     (1'b0),
      .ENCLKOS     (1'b0),
      .CLKOP       (clk),
      .CLKOS       (unused_clkos),
      .LOCK        (locked)
  );

  // CLKOP only closes the loop: 725 MHz / 29 is the 25 MHz that it is compared with.
  (* FREQUENCY_PIN_CLKI="25", FREQUENCY_PIN_CLKOP="25", FREQUENCY_PIN_CLKOS="12.28814" *)
  (* ICP_CURRENT="12", LPF_RESISTOR="8", MFG_ENABLE_FILTEROPAMP="1", MFG_GMCREF_SEL="2" *)
  EHXPLLL #(
      .CLKI_DIV    (1),
      .CLKFB_DIV   (1),
      .CLKOP_ENABLE("ENABLED"),
      .CLKOP_DIV   (29),
      .CLKOP_CPHASE(14),
      .CLKOS_ENABLE("ENABLED"),
      .CLKOS_DIV   (59),
      .CLKOS_CPHASE(14),
      .FEEDBK_PATH ("CLKOP")
  ) audio_pll (
      .CLKI        (clk_25mhz),
      .CLKFB       (unused_25mhz),
      .RST         (1'b0),
      .STDBY       (1'b0),
      .PHASESEL0   (1'b0),
      .PHASESEL1   (1'b0),
      .PHASEDIR    (1'b1),
      .PHASESTEP   (1'b1),
      .PHASELOADREG(1'b1),
      .PLLWAKESYNC (1'b0),
      .ENCLKOP     (1'b0),
      .ENCLKOS     (1'b0),
      .CLKOP       (unused_25mhz),
      .CLKOS       (mclk),
      .LOCK        (mclk_locked)
  );

  // Reset begins at once, whatever the clocks do, and ends in step with each of them.
  logic ask;
  logic [7:0] clk_q, mclk_q;
  assign ask = reset_button || !locked || !mclk_locked;

  always_ff @(posedge clk or posedge ask) begin
    if (ask) clk_q <= '1;
    else clk_q <= clk_q << 1;
  end

  always_ff @(posedge mclk or posedge ask) begin
    if (ask) mclk_q <= '1;
    else mclk_q <= mclk_q << 1;
  end

  assign rst      = clk_q[7];
  assign mclk_rst = mclk_q[7];

endmodule
