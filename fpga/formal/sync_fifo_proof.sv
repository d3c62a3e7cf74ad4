// Proof: a word that enters sync_fifo leaves it once, unchanged and in its turn; `level` counts the words inside.
//
// The solver picks one word by `follow`. From then on `ahead_q` counts the words before it, so what leaves when that is
// zero must be it. Any other word could have been picked, so the claim holds for all.

module sync_fifo_proof #(
    parameter int WIDTH = 8,
    parameter int DEPTH = 3
) (
    input logic             clk,
    input logic             rst,
    input logic             clear,
    input logic [WIDTH-1:0] s_axis_tdata,
    input logic             s_axis_tvalid,
    input logic             m_axis_tready,
    // follow the word that enters now
    input logic             follow
);

  localparam int LevelW = $clog2(DEPTH + 1);

  logic s_axis_tready, m_axis_tvalid;
  logic [ WIDTH-1:0] m_axis_tdata;
  logic [LevelW-1:0] level;

  sync_fifo #(
      .WIDTH(WIDTH),
      .DEPTH(DEPTH)
  ) dut (
      .clk,
      .rst,
      .clear,
      .s_axis_tdata,
      .s_axis_tvalid,
      .s_axis_tready,
      .m_axis_tdata,
      .m_axis_tvalid,
      .m_axis_tready,
      .level
  );

  // ---- what should be inside ---------------------------------------------------------------------------------------

  logic started_q;
  initial started_q = 1'b0;
  always_ff @(posedge clk) started_q <= 1'b1;
  always_comb if (!started_q) assume (rst);

  logic accept, deliver;
  assign accept  = s_axis_tvalid && s_axis_tready;
  assign deliver = m_axis_tvalid && m_axis_tready;

  int held_q;  // words accepted and not delivered
  int ahead_q;  // of them, before the one that is followed
  logic followed_q;
  logic [WIDTH-1:0] word_q;

  always_ff @(posedge clk) begin
    if (rst || clear) begin
      held_q     <= 0;
      followed_q <= 1'b0;
    end else begin
      held_q <= held_q + int'(accept) - int'(deliver);
      if (accept && follow && !followed_q) begin
        followed_q <= 1'b1;
        word_q     <= s_axis_tdata;
        ahead_q    <= held_q - int'(deliver);
      end else if (followed_q && deliver) begin
        if (ahead_q == 0) followed_q <= 1'b0;
        ahead_q <= ahead_q - 1;
      end
    end
  end

  // ---- claims ------------------------------------------------------------------------------------------------------

  always_comb
    if (started_q && !rst) begin
      assert (int'(level) == held_q);
      assert (held_q >= 0 && held_q <= DEPTH);
      // It takes a word whenever it has room, and never promises one that it has not.
      assert (s_axis_tready == (held_q != DEPTH && !clear));
      if (m_axis_tvalid) assert (held_q != 0);
      if (followed_q) assert (ahead_q >= 0 && ahead_q < held_q);
      if (followed_q && ahead_q == 0 && m_axis_tvalid) assert (m_axis_tdata == word_q);
    end

  always_ff @(posedge clk)
    if (started_q && !rst && !$past(rst) && !$past(clear)) begin
      if ($past(m_axis_tvalid) && !$past(m_axis_tready)) assert (m_axis_tvalid && m_axis_tdata == $past(m_axis_tdata));
      // A word is at the output two clocks after it was accepted.
      if ($past(held_q) != 0 && !$past(m_axis_tvalid)) assert (m_axis_tvalid);
    end

  // ---- what holds inside, for the induction ------------------------------------------------------------------------

  int place;  // of the followed word in the memory
  always_comb begin
    place = int'(dut.read_q) + ahead_q - int'(m_axis_tvalid);
    if (place >= DEPTH) place -= DEPTH;
  end

  always_comb
    if (started_q && !rst) begin
      assert (int'(dut.read_q) < DEPTH && int'(dut.write_q) < DEPTH);
      assert ((int'(dut.read_q) + held_q - int'(m_axis_tvalid)) % DEPTH == int'(dut.write_q));
      if (followed_q && !(m_axis_tvalid && ahead_q == 0)) assert (dut.memory[place] == word_q);
    end

  // ---- what can happen ---------------------------------------------------------------------------------------------

  always_comb
    if (started_q && !rst) begin
      cover (followed_q && ahead_q == DEPTH - 1 && held_q == DEPTH);  // the followed word is the last in a full FIFO
      cover (followed_q && ahead_q == 0 && deliver && accept && dut.read_q == '0 && dut.write_q != '0);
    end

endmodule
