// Sends Philips I2S: 24 bits a channel in a frame of 64 SCLK, changed on SCLK's falling edge (see i2s_rx.sv).
//
//   s_axis ─► [ next ] ─ at LRCK's falling edge ─► [ right ] ─ at LRCK's rising edge ─┐
//                └────────────────────────────────────────────────────────────────────┴─► [ shift ] ─► sd
//
// A sample goes out in the frame after the one in which it comes; of several that come in one frame the last is sent. A
// frame for which none came repeats the one before, which a single loss hides best, and silence stays silence; `underrun`
// tells it. Samples in step with i2s_rx (one for each of its own, within the frame) never under-run: what i2s_rx
// receives in frame n and gives at the start of n + 1 leaves in frame n + 2, exactly two samples later.
//
// SD changes 2 to 3 clocks after the falling edge, and so a clock at least, 40 ns, before the rising one.

module i2s_tx #(
    // Frequency of clk in Hz; at least 8 x SCLK_HZ
    parameter int CLK_HZ  = 100_000_000,
    // Frequency of sclk in Hz
    parameter int SCLK_HZ = 3_072_000
) (
    input  logic        clk,
    input  logic        rst,
    // {right, left}; a converter cannot wait, so there is no tready. 16-bit mono is {2{sample, 8'd0}}.
    input  logic [47:0] s_axis_tdata,
    input  logic        s_axis_tvalid,
    // a pulse: a frame repeats the one before, as no sample came. Not before the first sample.
    output logic        underrun,
    // the bus; its clocks are not in the domain of clk
    input  logic        sclk,
    input  logic        lrck,
    output logic        sd
);

`ifndef SYNTHESIS
  initial if (CLK_HZ / 8 < SCLK_HZ) $fatal(1, "i2s_tx: CLK_HZ must be at least 8 x SCLK_HZ");
`endif

  logic sclk_s, lrck_s;

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

  logic sclk_q, lrck_q;  // before; at the rising edge before
  logic rising, falling, left_begins, right_begins;
  logic [47:0] next_q;
  logic fresh_q;  // next_q came in this frame
  logic started_q;  // a sample has come since reset
  logic [23:0] right_q, shift_q;

  // LRCK changes with SCLK's falling edge, so it is looked at on the rising one, in the slot before the MSB.
  assign rising       = sclk_s && !sclk_q;
  assign falling      = !sclk_s && sclk_q;
  assign left_begins  = rising && !lrck_s && lrck_q;
  assign right_begins = rising && lrck_s && !lrck_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      next_q    <= '0;
      fresh_q   <= 1'b0;
      started_q <= 1'b0;
      underrun  <= 1'b0;
    end else begin
      underrun <= left_begins && started_q && !fresh_q;
      if (left_begins) fresh_q <= 1'b0;
      if (s_axis_tvalid) begin
        next_q    <= s_axis_tdata;
        fresh_q   <= 1'b1;
        started_q <= 1'b1;
      end
    end
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      sclk_q  <= 1'b0;
      lrck_q  <= 1'b0;
      right_q <= '0;
      shift_q <= '0;
      sd      <= 1'b0;
    end else begin
      sclk_q <= sclk_s;
      if (rising) lrck_q <= lrck_s;
      if (left_begins) begin
        right_q <= next_q[47:24];
        shift_q <= next_q[23:0];
      end else if (right_begins) begin
        shift_q <= right_q;
      end else if (falling) begin
        sd      <= shift_q[23];
        shift_q <= {shift_q[22:0], 1'b0};
      end
    end
  end

endmodule
