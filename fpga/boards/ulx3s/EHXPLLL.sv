// The PLL of the ECP5, as far as this board uses it: names alone, for tools that must know them. The device has four.

(* blackbox *)
module EHXPLLL #(
    // Phase detector: CLKI / CLKI_DIV, compared with CLKFB / CLKFB_DIV
    parameter CLKI_DIV     = 1,
    parameter CLKFB_DIV    = 1,
    // Outputs: the oscillator, 400 to 800 MHz, divided; _CPHASE are its periods by which they are late
    parameter CLKOP_ENABLE = "ENABLED",
    parameter CLKOP_DIV    = 8,
    parameter CLKOP_CPHASE = 0,
    parameter CLKOS_ENABLE = "DISABLED",
    parameter CLKOS_DIV    = 8,
    parameter CLKOS_CPHASE = 0,
    // Output that comes back to CLKFB
    parameter FEEDBK_PATH  = "CLKOP"
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
endmodule
