// What framer promises and ring_writer relies on: frames of ten beats, each of which stays as it is until it is taken.
// One module for both sides, so that what is assumed of the one is what was shown of the other.

module frame_stream_rules #(
    // 1: rules to assume; 0: to show
    parameter bit ASSUME = 0
) (
    input  logic         clk,
    input  logic         rst,
    input  logic [127:0] tdata,
    input  logic         tvalid,
    input  logic         tready,
    input  logic         tlast,
    input  logic         tuser,
    // beats of this frame that were taken
    output logic [  3:0] beat
);

  logic waiting_q;  // a beat was offered in the cycle before and was not taken
  logic [127:0] tdata_q;
  logic tlast_q, tuser_q;
  initial waiting_q = 1'b0;

  always_ff @(posedge clk) begin
    waiting_q <= tvalid && !tready && !rst;
    tdata_q   <= tdata;
    tlast_q   <= tlast;
    tuser_q   <= tuser;
    if (rst) beat <= '0;
    else if (tvalid && tready) beat <= tlast ? '0 : beat + 1'b1;
  end

  logic last_ok, stays_ok;
  assign last_ok  = !tvalid || tlast == (beat == 4'd9);
  assign stays_ok = !waiting_q || (tvalid && tdata == tdata_q && tlast == tlast_q && tuser == tuser_q);

  always_comb
    if (!rst) begin
      assert (beat <= 4'd9);
      if (ASSUME) begin
        assume (last_ok);
        assume (stays_ok);
      end else begin
        assert (last_ok);
        assert (stays_ok);
      end
    end

endmodule
