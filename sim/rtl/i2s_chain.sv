// The whole way of a sample over I2S, twice: what is written to the first transmitter is received, sent on and received
// again. All four share the bus clocks, divided from a master clock of their own domain.
//
//   s_axis ─► i2s_tx ─ sd1 ─► i2s_rx ─► i2s_tx ─ sd2 ─► i2s_rx ─► m_axis
//                 └─────── sclk, lrck ◄── i2s_clocks ◄── mclk

module i2s_chain #(
    // Frequency of clk in Hz
    parameter int CLK_HZ = 100_000_000
) (
    input  logic        clk,
    input  logic        rst,
    input  logic        mclk,
    input  logic        mclk_rst,
    input  logic [47:0] s_axis_tdata,
    input  logic        s_axis_tvalid,
    // after the first receiver
    output logic [47:0] middle_tdata,
    output logic        middle_tvalid,
    output logic [47:0] m_axis_tdata,
    output logic        m_axis_tvalid,
    output logic        sclk,
    output logic        lrck,
    // of the second transmitter and of both receivers
    output logic        underrun,
    output logic        frame_error
);

  logic sd1, sd2, underrun1, frame_error1, frame_error2;

  i2s_clocks clocks (
      .mclk,
      .rst(mclk_rst),
      .sclk,
      .lrck
  );

  i2s_tx #(
      .CLK_HZ(CLK_HZ)
  ) tx1 (
      .clk,
      .rst,
      .s_axis_tdata,
      .s_axis_tvalid,
      .underrun(underrun1),
      .sclk,
      .lrck,
      .sd      (sd1)
  );

  i2s_rx #(
      .CLK_HZ(CLK_HZ)
  ) rx1 (
      .clk,
      .rst,
      .sclk,
      .lrck,
      .sd           (sd1),
      .m_axis_tdata (middle_tdata),
      .m_axis_tvalid(middle_tvalid),
      .frame_error  (frame_error1)
  );

  i2s_tx #(
      .CLK_HZ(CLK_HZ)
  ) tx2 (
      .clk,
      .rst,
      .s_axis_tdata (middle_tdata),
      .s_axis_tvalid(middle_tvalid),
      .underrun,
      .sclk,
      .lrck,
      .sd           (sd2)
  );

  i2s_rx #(
      .CLK_HZ(CLK_HZ)
  ) rx2 (
      .clk,
      .rst,
      .sclk,
      .lrck,
      .sd         (sd2),
      .m_axis_tdata,
      .m_axis_tvalid,
      .frame_error(frame_error2)
  );

  assign frame_error = frame_error1 || frame_error2;

  logic unused;
  assign unused = underrun1;

endmodule
