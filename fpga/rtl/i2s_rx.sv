// Receives Philips I2S: 24 bits a channel in a frame of 64 SCLK, sampled on SCLK's rising edge.
//
//   LRCK  ‾‾\_____________________________________________/‾‾‾‾‾‾‾
//   SCLK  _/‾\_/‾\_/‾\_/‾\_ ... _/‾\_/‾\_/‾\_ ... _/‾\_/‾\_/‾\_/‾\
//   slot   31   0   1   2        23   24  25        30  31  0   1       (slot 1 is the MSB: one SCLK after LRCK's edge)
//   SD         ---[23][22]      [ 1 ][ 0 ]-------------------[23]
//
// A frame is left, then right, each with exactly 32 rising edges. One that has more or fewer is dropped, never given
// with its bits shifted, and the next edge of LRCK starts anew. A frame is whole only when the next one begins, so it
// comes out 64.5 SCLK (and 3 to 4 clocks, for the crossing) after its own LRCK edge: one sample and 0.16 us.

module i2s_rx #(
    // Frequency of clk in Hz; at least 8 x SCLK_HZ
    parameter int CLK_HZ  = 100_000_000,
    // Frequency of sclk in Hz
    parameter int SCLK_HZ = 3_072_000
) (
    input  logic        clk,
    input  logic        rst,
    // the bus; not in the domain of clk
    input  logic        sclk,
    input  logic        lrck,
    input  logic        sd,
    // {right, left}, one pulse of tvalid a frame; a converter cannot wait, so there is no tready
    output logic [47:0] m_axis_tdata,
    output logic        m_axis_tvalid,
    // a pulse: a frame was dropped
    output logic        frame_error
);

`ifndef SYNTHESIS
  initial if (CLK_HZ / 8 < SCLK_HZ) $fatal(1, "i2s_rx: CLK_HZ must be at least 8 x SCLK_HZ");
`endif

  localparam logic [5:0] LastSlot = 6'd31;
  localparam logic [5:0] LostSlot = 6'd32;  // more edges than slots, or none counted from their LRCK edge
  localparam logic [5:0] LastBit = 6'd24;

  logic sclk_s, lrck_s, sd_s;

  sync_bits sync_sclk (
      .clk,
      .rst,
      .d(sclk),
      .q(sclk_s)
  );

  sync_bits sync_lrck (
      .clk,
      .rst,
      .d(lrck),
      .q(lrck_s)
  );

  sync_bits sync_sd (
      .clk,
      .rst,
      .d(sd),
      .q(sd_s)
  );

  logic sclk_q, lrck_q;  // before; at the rising edge before
  logic rising, turned, whole;
  logic [5:0] slot_q, slot;  // of the rising edge before; of this one
  logic [23:0] shift_q, left_q;
  logic left_whole_q;
  logic synced_q;  // a frame has begun since reset
  logic sd_bit;

  // LRCK and SD change on the falling edge: half an SCLK, four clocks at least, before they are looked at.
  assign rising = sclk_s && !sclk_q;
  assign turned = lrck_s != lrck_q;
  assign whole  = slot_q == LastSlot;

  always_comb begin
    slot = slot_q + 1'b1;
    if (slot_q == LostSlot) slot = LostSlot;
    if (turned) slot = '0;
  end

  // An `if` takes an undriven input for a zero, so that a simulated sample is never unknown.
  always_comb begin
    sd_bit = 1'b0;
    if (sd_s) sd_bit = 1'b1;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      sclk_q        <= 1'b0;
      lrck_q        <= 1'b0;
      slot_q        <= LostSlot;
      shift_q       <= '0;
      left_q        <= '0;
      left_whole_q  <= 1'b0;
      synced_q      <= 1'b0;
      m_axis_tdata  <= '0;
      m_axis_tvalid <= 1'b0;
      frame_error   <= 1'b0;
    end else begin
      sclk_q        <= sclk_s;
      m_axis_tvalid <= 1'b0;
      frame_error   <= 1'b0;
      if (rising) begin
        lrck_q <= lrck_s;
        slot_q <= slot;
        if (slot != '0 && slot <= LastBit) shift_q <= {shift_q[22:0], sd_bit};
        if (turned && lrck_s) begin
          left_q       <= shift_q;
          left_whole_q <= whole;
        end
        if (turned && !lrck_s) begin
          synced_q      <= 1'b1;
          m_axis_tvalid <= left_whole_q && whole;
          frame_error   <= synced_q && !(left_whole_q && whole);
          if (left_whole_q && whole) m_axis_tdata <= {shift_q, left_q};
        end
      end
    end
  end

endmodule
