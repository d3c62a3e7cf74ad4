// Brings samples of either reply rate to 48 kHz: three outputs for each input at 16 kHz, two at 24 kHz.

module play_interpolator #(
    // Coefficient tables, see fpga/filters
    parameter COEF_16K = "",
    parameter COEF_24K = ""
) (
    input  logic        clk,
    input  logic        rst,
    // start again from silence
    input  logic        clear,
    // 0: 16 kHz, 1: 24 kHz; changes only with clear
    input  logic        rate,
    input  logic [15:0] s_axis_tdata,
    input  logic        s_axis_tvalid,
    output logic        s_axis_tready,
    output logic [15:0] m_axis_tdata,
    output logic        m_axis_tvalid,
    input  logic        m_axis_tready,
    output logic        busy
);

  localparam int Taps = 57;

  logic [15:0] data_16k, data_24k;
  logic valid_16k, valid_24k, ready_16k, ready_24k, busy_16k, busy_24k;
  logic unused_16k, unused_24k;

  resampler #(
      .L(3),
      .M(1),
      .TAPS(Taps),
      .COEF_FILE(COEF_16K),
      .USER_W(1)
  ) from_16k (
      .clk,
      .rst,
      .clear,
      .s_axis_tdata,
      .s_axis_tuser (1'b0),
      .s_axis_tvalid(s_axis_tvalid && !rate),
      .s_axis_tready(ready_16k),
      .m_axis_tdata (data_16k),
      .m_axis_tuser (unused_16k),
      .m_axis_tvalid(valid_16k),
      .m_axis_tready(m_axis_tready && !rate),
      .busy         (busy_16k)
  );

  resampler #(
      .L(2),
      .M(1),
      .TAPS(Taps),
      .COEF_FILE(COEF_24K),
      .USER_W(1)
  ) from_24k (
      .clk,
      .rst,
      .clear,
      .s_axis_tdata,
      .s_axis_tuser (1'b0),
      .s_axis_tvalid(s_axis_tvalid && rate),
      .s_axis_tready(ready_24k),
      .m_axis_tdata (data_24k),
      .m_axis_tuser (unused_24k),
      .m_axis_tvalid(valid_24k),
      .m_axis_tready(m_axis_tready && rate),
      .busy         (busy_24k)
  );

  assign s_axis_tready = rate ? ready_24k : ready_16k;
  assign m_axis_tdata  = rate ? data_24k : data_16k;
  assign m_axis_tvalid = rate ? valid_24k : valid_16k;
  assign busy          = busy_16k || busy_24k;

  // The tick says when an output is due, so no sample carries a tag.
  logic unused;
  assign unused = unused_16k ^ unused_24k;

endmodule
