// Stuffs the bytes of a packet so that none is zero (COBS, see cobs_decode.sv).
//
//   s_axis ─► [ block, up to 254 literals ] ─► code, literals ─► m_axis
//
// A block's code is its length, so a block is collected before it leaves: while it leaves, nothing is taken. On a serial
// line, where a byte lasts hundreds of clocks, that is no gap worth a second buffer.

module cobs_encode (
    input  logic       clk,
    input  logic       rst,
    // packets of at least one byte
    input  logic [7:0] s_axis_tdata,
    input  logic       s_axis_tvalid,
    output logic       s_axis_tready,
    input  logic       s_axis_tlast,
    // the same, stuffed, without delimiters
    output logic [7:0] m_axis_tdata,
    output logic       m_axis_tvalid,
    input  logic       m_axis_tready,
    output logic       m_axis_tlast
);

  localparam logic [7:0] LongestBlock = 8'd254;

  // States: a block is collected, its code is offered, its literals are
  localparam logic [1:0] Collect = 2'd0;
  localparam logic [1:0] Code = 2'd1;
  localparam logic [1:0] Literals = 2'd2;

  // A literal is never offered in the clock that writes it, so no tool need decide between old and new.
  (* no_rw_check *) logic [7:0] block[256];
  logic [1:0] state_q;
  logic [7:0] length_q;  // literals of the block
  logic [7:0] index_q, index_d;  // literal that is offered
  logic [7:0] literal_q;
  logic final_q;  // no block follows
  logic empty_q;  // one follows that is empty and the last: the packet ends with a zero

  logic accept, give, zero, last_literal;
  assign accept = s_axis_tvalid && s_axis_tready;
  assign give = m_axis_tvalid && m_axis_tready;
  assign zero = s_axis_tdata == '0;
  assign last_literal = index_q == length_q - 1'b1;

  always_comb begin
    index_d = index_q;
    if (state_q != Literals) index_d = '0;
    else if (give) index_d = index_q + 1'b1;
  end

  always_ff @(posedge clk) begin
    if (accept) block[length_q] <= s_axis_tdata;
    literal_q <= block[index_d];
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      state_q  <= Collect;
      length_q <= '0;
      index_q  <= '0;
      final_q  <= 1'b0;
      empty_q  <= 1'b0;
    end else begin
      index_q <= index_d;
      case (state_q)
        Collect:
        if (accept) begin
          if (!zero) length_q <= length_q + 1'b1;
          final_q <= s_axis_tlast && !zero;
          empty_q <= s_axis_tlast && zero;
          if (zero || s_axis_tlast || length_q == LongestBlock - 1'b1) state_q <= Code;
        end
        default:
        if (give) begin
          if (state_q == Code && length_q != '0) begin
            state_q <= Literals;
          end else if (state_q == Code || last_literal) begin
            state_q  <= empty_q ? Code : Collect;
            length_q <= '0;
            final_q  <= empty_q;
            empty_q  <= 1'b0;
          end
        end
      endcase
    end
  end

  assign s_axis_tready = state_q == Collect && !rst;
  assign m_axis_tvalid = state_q != Collect;
  assign m_axis_tdata  = state_q == Code ? length_q + 1'b1 : literal_q;
  assign m_axis_tlast  = final_q && (length_q == '0 || (state_q == Literals && last_literal));

endmodule
