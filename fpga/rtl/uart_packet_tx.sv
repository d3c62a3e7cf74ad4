// Makes packets for the serial line: 0x00, COBS(type, body, CRC-32 of both), 0x00. docs/uart.md
//
//   s_axis ─┬───────────► [ cobs_encode ] ─► 0x00 before and behind ─► m_axis
//           └─► crc32 ────────▲

module uart_packet_tx (
    input  logic       clk,
    input  logic       rst,
    // type and body of a packet; what is offered need not be ready before `started`
    input  logic [7:0] s_axis_tdata,
    input  logic       s_axis_tvalid,
    output logic       s_axis_tready,
    input  logic       s_axis_tlast,
    // a pulse: the packet's first byte leaves with this clock. Nothing of s_axis is taken before it
    output logic       started,
    // no packet is under way
    output logic       idle,
    // bytes for the line
    output logic [7:0] m_axis_tdata,
    output logic       m_axis_tvalid,
    input  logic       m_axis_tready
);

  localparam logic [7:0] Delimiter = 8'h00;

  // States: what goes to the encoder or, at both ends, to the line
  localparam logic [2:0] Idle = 3'd0;
  localparam logic [2:0] Body = 3'd1;
  localparam logic [2:0] Sum = 3'd2;
  localparam logic [2:0] Drain = 3'd3;
  localparam logic [2:0] End = 3'd4;

  logic [2:0] state_q;
  logic [1:0] sum_byte_q;
  logic first_q;
  logic take;
  logic [31:0] crc;

  logic [7:0] plain_tdata, stuffed_tdata;
  logic plain_tvalid, plain_tready, plain_tlast, stuffed_tvalid, stuffed_tready, stuffed_tlast;

  assign take = s_axis_tvalid && s_axis_tready;
  assign plain_tdata = state_q == Sum ? 8'(~crc >> {sum_byte_q, 3'd0}) : s_axis_tdata;
  assign plain_tvalid = state_q == Sum || (state_q == Body && s_axis_tvalid);
  assign plain_tlast = state_q == Sum && sum_byte_q == '1;
  assign s_axis_tready = state_q == Body && plain_tready;

  crc32 #(
      .BYTES(1)
  ) crc32 (
      .clk,
      .rst,
      .enable(take),
      .first (first_q),
      .seed  (32'hFFFF_FFFF),
      .data  (s_axis_tdata),
      .state (crc)
  );

  cobs_encode cobs_encode (
      .clk,
      .rst,
      .s_axis_tdata (plain_tdata),
      .s_axis_tvalid(plain_tvalid),
      .s_axis_tready(plain_tready),
      .s_axis_tlast (plain_tlast),
      .m_axis_tdata (stuffed_tdata),
      .m_axis_tvalid(stuffed_tvalid),
      .m_axis_tready(stuffed_tready),
      .m_axis_tlast (stuffed_tlast)
  );

  logic delimiting;
  assign delimiting     = state_q == End || (state_q == Idle && s_axis_tvalid);
  assign m_axis_tdata   = delimiting ? Delimiter : stuffed_tdata;
  assign m_axis_tvalid  = delimiting || stuffed_tvalid;
  assign stuffed_tready = m_axis_tready && !delimiting;
  assign started        = state_q == Idle && s_axis_tvalid && m_axis_tready;
  assign idle           = state_q == Idle;

  always_ff @(posedge clk) begin
    if (rst) begin
      state_q    <= Idle;
      sum_byte_q <= '0;
      first_q    <= 1'b1;
    end else begin
      case (state_q)
        Idle: begin
          first_q <= 1'b1;
          if (started) state_q <= Body;
        end
        Body:
        if (take) begin
          first_q <= 1'b0;
          if (s_axis_tlast) state_q <= Sum;
        end
        Sum:
        if (plain_tready) begin
          sum_byte_q <= sum_byte_q + 1'b1;
          if (plain_tlast) state_q <= Drain;
        end
        Drain:   if (stuffed_tvalid && stuffed_tready && stuffed_tlast) state_q <= End;
        default: if (m_axis_tready) state_q <= Idle;
      endcase
    end
  end

endmodule
