// Finds packets in the bytes of a serial line and says whether they are whole. docs/uart.md
//
//   s_axis ─► [ cobs_decode ] ─┬─► m_axis: type, body, CRC
//                              └─► [ crc32, length ] ─► done, verdict

module uart_packet_rx #(
    // Bytes of the longest packet, type and CRC included; at most 510
    parameter int LONGEST = 261
) (
    input  logic       clk,
    input  logic       rst,
    // the line's bytes
    input  logic [7:0] s_axis_tdata,
    input  logic       s_axis_tvalid,
    // a byte was lost
    input  logic       framing_error,
    // a packet's bytes with their positions; 0 is the type. They may yet turn out to be worth nothing
    output logic [7:0] m_axis_tdata,
    output logic       m_axis_tvalid,
    output logic [8:0] position,
    // a pulse: a packet of `position` bytes is over, and what it is worth
    output logic       done,
    output logic       good,
    output logic       bad_cobs,
    output logic       bad_length,
    output logic       bad_crc
);

  localparam logic [8:0] Longest = 9'(LONGEST);
  localparam logic [8:0] Shortest = 9'd5;  // a type and a CRC
  // What crc32 holds when it has taken a message and the message's own CRC
  localparam logic [31:0] Residue = 32'hDEBB20E3;

`ifndef SYNTHESIS
  initial if (LONGEST < 5 || LONGEST > 510) $fatal(1, "uart_packet_rx: LONGEST must be 5 to 510");
`endif

  logic broken;
  logic [31:0] crc;

  cobs_decode cobs_decode (
      .clk,
      .rst,
      .s_axis_tdata,
      .s_axis_tvalid,
      .damaged(framing_error),
      .m_axis_tdata,
      .m_axis_tvalid,
      .done,
      .bad    (broken)
  );

  crc32 #(
      .BYTES(1)
  ) crc32 (
      .clk,
      .rst,
      .enable(m_axis_tvalid),
      .first (position == '0),
      .seed  (32'hFFFF_FFFF),
      .data  (m_axis_tdata),
      .state (crc)
  );

  always_ff @(posedge clk) begin
    if (rst || done) position <= '0;
    else if (m_axis_tvalid && position <= Longest) position <= position + 1'b1;  // stays at one too many
  end

  assign bad_cobs   = done && broken;
  assign bad_length = done && !broken && (position < Shortest || position > Longest);
  assign bad_crc    = done && !broken && !bad_length && crc != Residue;
  assign good       = done && !broken && !bad_length && !bad_crc;

endmodule
