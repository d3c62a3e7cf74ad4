// The ECP5's PLL for benches: its outputs are drawn by the bench, with the frequencies that the parameters ask for.

module EHXPLLL #(
    parameter int CLKI_DIV     = 1,
    parameter int CLKFB_DIV    = 1,
    parameter     CLKOP_ENABLE = "ENABLED",
    parameter int CLKOP_DIV    = 8,
    parameter int CLKOP_CPHASE = 0,
    parameter     CLKOS_ENABLE = "DISABLED",
    parameter int CLKOS_DIV    = 8,
    parameter int CLKOS_CPHASE = 0,
    parameter     FEEDBK_PATH  = "CLKOP"
) (
    input  logic CLKI,
    input  logic CLKFB,
    input  logic RST,
    input  logic STDBY,
    input  logic PHASESEL0,
    input  logic PHASESEL1,
    input  logic PHASEDIR,
    input  logic PHASESTEP,
    input  logic PHASELOADREG,
    input  logic PLLWAKESYNC,
    input  logic ENCLKOP,
    input  logic ENCLKOS,
    output logic CLKOP,
    output logic CLKOS,
    output logic LOCK
);

  logic drawn_op, drawn_os, drawn_lock;
  assign CLKOP = drawn_op;
  assign CLKOS = drawn_os;
  assign LOCK  = drawn_lock;

endmodule
