// Says whether the host is alive: it has to give a beat every TICKS samples. Counts ticks, not clocks, so that a
// simulator may skip clocks.

module heartbeat #(
    // 48 kHz ticks for which a beat is fresh; 24000 are 500 ms
    parameter int TICKS = 24_000
) (
    input  logic clk,
    input  logic rst,
    // one pulse a 48 kHz sample
    input  logic tick,
    // one pulse a sign of life
    input  logic beat,
    // a beat came within the last TICKS ticks; low from reset to the first beat
    output logic alive,
    // pulse: this clock ends it
    output logic lost
);

  localparam int LeftW = $clog2(TICKS + 1);

`ifndef SYNTHESIS
  initial if (TICKS < 1) $fatal(1, "heartbeat: TICKS must be at least 1");
`endif

  logic [LeftW-1:0] left_q;  // ticks for which the last beat is still fresh
  assign alive = left_q != '0;
  assign lost  = tick && !beat && left_q == LeftW'(1);

  always_ff @(posedge clk) begin
    if (rst) left_q <= '0;
    else if (beat) left_q <= LeftW'(TICKS);
    else if (tick && alive) left_q <= left_q - 1'b1;
  end

endmodule
