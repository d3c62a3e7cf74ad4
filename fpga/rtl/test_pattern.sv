// Puts a known ramp in the place of the 16 kHz samples: sample n since reset is n mod 65536, whatever the tuser.
//
// It changes over at the edge of a frame of 64 samples alone, and frames are counted from reset too. So where every
// sample is in a frame, sample j of frame s is (64 s + j) mod 65536, and a host can check any frame by itself.

module test_pattern #(
    // Width of tuser
    parameter int USER_W = 64
) (
    input  logic              clk,
    input  logic              rst,
    // from the next frame on
    input  logic              enable,
    // samples
    input  logic [      15:0] s_axis_tdata,
    input  logic [USER_W-1:0] s_axis_tuser,
    input  logic              s_axis_tvalid,
    output logic              s_axis_tready,
    // the same or the ramp, in the same cycle
    output logic [      15:0] m_axis_tdata,
    output logic [USER_W-1:0] m_axis_tuser,
    output logic              m_axis_tvalid,
    input  logic              m_axis_tready,
    // the frame of the newest sample is the ramp; holds until the cycle of the next frame's first sample, inclusive
    output logic              active,
    // the next clock changes something
    output logic              busy
);

  logic [15:0] count_q;  // samples since reset
  logic accept, ramp;

  assign accept        = s_axis_tvalid && m_axis_tready;
  assign ramp          = count_q[5:0] == '0 ? enable : active;

  assign s_axis_tready = m_axis_tready;
  assign m_axis_tvalid = s_axis_tvalid;
  assign m_axis_tuser  = s_axis_tuser;
  assign m_axis_tdata  = ramp ? count_q : s_axis_tdata;
  assign busy          = accept;

  always_ff @(posedge clk) begin
    if (rst) begin
      count_q <= '0;
      active  <= 1'b0;
    end else if (accept) begin
      count_q <= count_q + 1'b1;
      active  <= ramp;
    end
  end

endmodule
