// First-word fall-through FIFO on one clock: a memory with a registered read in front of the output.
//
//   s_axis ─► [ memory, DEPTH words ] ─► [ output register ] ─► m_axis
//
// A word is at the output two clocks after it was accepted; one word a clock passes through (DEPTH 2: two in three).

module sync_fifo #(
    // Bits of a word
    parameter int WIDTH = 16,
    // Words that are held, the one at the output included; at least 2, need not be a power of two
    parameter int DEPTH = 16
) (
    input  logic                       clk,
    input  logic                       rst,
    // forgets every word; nothing is accepted in that cycle
    input  logic                       clear,
    // words in
    input  logic [          WIDTH-1:0] s_axis_tdata,
    input  logic                       s_axis_tvalid,
    output logic                       s_axis_tready,
    // words out
    output logic [          WIDTH-1:0] m_axis_tdata,
    output logic                       m_axis_tvalid,
    input  logic                       m_axis_tready,
    // words held
    output logic [$clog2(DEPTH+1)-1:0] level
);

  localparam int AddrW = DEPTH > 2 ? $clog2(DEPTH) : 1;
  localparam int LevelW = $clog2(DEPTH + 1);
  localparam logic [AddrW-1:0] Last = AddrW'(DEPTH - 1);

`ifndef SYNTHESIS
  initial begin
    if (WIDTH < 1) $fatal(1, "sync_fifo: WIDTH must be at least 1");
    if (DEPTH < 2) $fatal(1, "sync_fifo: DEPTH must be at least 2");
  end
`endif

  logic [WIDTH-1:0] memory[DEPTH];
  logic [AddrW-1:0] write_q, read_q;

  logic accept, deliver, stored, fetch;
  assign s_axis_tready = level != LevelW'(DEPTH) && !rst && !clear;
  assign accept        = s_axis_tvalid && s_axis_tready;
  assign deliver       = m_axis_tvalid && m_axis_tready;
  assign stored        = level != LevelW'(m_axis_tvalid);  // words behind the output register
  assign fetch         = stored && (!m_axis_tvalid || m_axis_tready);

  always_ff @(posedge clk) if (accept) memory[write_q] <= s_axis_tdata;

  always_ff @(posedge clk) begin
    if (rst) m_axis_tdata <= '0;
    else if (fetch) m_axis_tdata <= memory[read_q];
  end

  always_ff @(posedge clk) begin
    if (rst || clear) begin
      write_q       <= '0;
      read_q        <= '0;
      level         <= '0;
      m_axis_tvalid <= 1'b0;
    end else begin
      if (accept) write_q <= write_q == Last ? '0 : write_q + 1'b1;
      if (fetch) read_q <= read_q == Last ? '0 : read_q + 1'b1;
      if (fetch) m_axis_tvalid <= 1'b1;
      else if (deliver) m_axis_tvalid <= 1'b0;
      level <= level + LevelW'(accept) - LevelW'(deliver);
    end
  end

endmodule
