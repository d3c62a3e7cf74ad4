// CRC-32 of IEEE 802.3 (zlib.crc32), BYTES bytes a clock, the byte in data[7:0] first.
//
// `state` is the reflected shift register: a fresh CRC starts from all ones, and the CRC that is stored is ~state.

module crc32 #(
    // Bytes taken at a time
    parameter int BYTES = 2
) (
    input  logic               clk,
    input  logic               rst,
    // take `data`, continuing from `seed` where `first`, else from `state`
    input  logic               enable,
    input  logic               first,
    input  logic [       31:0] seed,
    input  logic [8*BYTES-1:0] data,
    output logic [       31:0] state
);

  localparam logic [31:0] Polynomial = 32'hEDB88320;  // 0x04C11DB7 with its bits reversed

`ifndef SYNTHESIS
  initial if (BYTES < 1) $fatal(1, "crc32: BYTES must be at least 1");
`endif

  function automatic logic [31:0] step(input logic [31:0] from, input logic [8*BYTES-1:0] bits);
    step = from;
    for (int i = 0; i < 8 * BYTES; i++) step = (step >> 1) ^ (step[0] ^ bits[i] ? Polynomial : 32'd0);
  endfunction

  always_ff @(posedge clk) begin
    if (rst) state <= '1;
    else if (enable) state <= step(first ? seed : state, data);
  end

endmodule
