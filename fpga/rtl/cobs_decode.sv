// Finds packets in a stream of bytes and undoes their byte stuffing (COBS): zero bytes delimit them.
//
//   0x00  code  literals ...  code  literals ...  0x00        code n: n - 1 literals and then, but for n = 255 and for the
//                                                             last block, a zero
//
// Bytes of a packet come out as they are decoded, so they are of any worth only once `done` has come without `bad`. Two
// delimiters in a row are nothing, which lets every packet have its own on both sides.

module cobs_decode (
    input  logic       clk,
    input  logic       rst,
    // the line's bytes; taken in every clock
    input  logic [7:0] s_axis_tdata,
    input  logic       s_axis_tvalid,
    // a byte was lost
    input  logic       damaged,
    // decoded bytes, a clock after theirs
    output logic [7:0] m_axis_tdata,
    output logic       m_axis_tvalid,
    // a pulse: the packet that these bytes belong to is over, or what there was of one; `bad` that it is none
    output logic       done,
    output logic       bad
);

  localparam logic [7:0] Delimiter = 8'h00;
  localparam logic [7:0] LongBlock = 8'hFF;

  logic [7:0] left_q;  // literals that the block still has
  logic zero_q;  // a zero follows the block, if another one does
  logic open_q;  // a block has begun since the delimiter
  logic damaged_q;
  logic delimiter, literal, code;

  assign delimiter = s_axis_tvalid && s_axis_tdata == Delimiter;
  assign literal   = s_axis_tvalid && !delimiter && left_q != '0;
  assign code      = s_axis_tvalid && !delimiter && left_q == '0;

  always_ff @(posedge clk) begin
    if (rst) begin
      left_q        <= '0;
      zero_q        <= 1'b0;
      open_q        <= 1'b0;
      damaged_q     <= 1'b0;
      m_axis_tdata  <= '0;
      m_axis_tvalid <= 1'b0;
      done          <= 1'b0;
      bad           <= 1'b0;
    end else begin
      m_axis_tvalid <= literal || (code && open_q && zero_q);
      m_axis_tdata  <= literal ? s_axis_tdata : 8'd0;
      done          <= delimiter && (open_q || damaged_q);
      bad           <= left_q != '0 || damaged_q;
      if (delimiter) damaged_q <= 1'b0;
      else if (damaged) damaged_q <= 1'b1;
      if (delimiter) begin
        left_q <= '0;
        open_q <= 1'b0;
      end else if (literal) begin
        left_q <= left_q - 1'b1;
      end else if (code) begin
        left_q <= s_axis_tdata - 1'b1;
        zero_q <= s_axis_tdata != LongBlock;
        open_q <= 1'b1;
      end
    end
  end

endmodule
