// The place of the noise reduction in the path: for now it passes samples on, DELAY samples late.
//
// Keeping the delay of the linear-phase filter that belongs here makes frames of today and of tomorrow line up. The
// first DELAY outputs are silence. tuser is not delayed: it is that of the input sample that pushed the output out.

module denoiser #(
    // Samples of delay
    parameter int DELAY  = 30,
    // Width of tuser
    parameter int USER_W = 64
) (
    input  logic              clk,
    input  logic              rst,
    // input samples
    input  logic [      15:0] s_axis_tdata,
    input  logic [USER_W-1:0] s_axis_tuser,
    input  logic              s_axis_tvalid,
    output logic              s_axis_tready,
    // output samples
    output logic [      15:0] m_axis_tdata,
    output logic [USER_W-1:0] m_axis_tuser,
    output logic              m_axis_tvalid,
    input  logic              m_axis_tready,
    // the next clock changes something
    output logic              busy
);

`ifndef SYNTHESIS
  initial if (DELAY < 1) $fatal(1, "denoiser: DELAY must be at least 1");
`endif

  localparam int AddressW = $clog2(DELAY + 1);
  localparam logic [AddressW-1:0] Last = AddressW'(DELAY - 1);

  logic [15:0] line[DELAY];
  logic [AddressW-1:0] address_q;  // the oldest sample's place, which the newest takes
  logic full_q;  // DELAY samples have come since reset
  logic accept;

  assign s_axis_tready = !rst && (!m_axis_tvalid || m_axis_tready);
  assign accept        = s_axis_tvalid && s_axis_tready;
  assign busy          = accept || (m_axis_tvalid && m_axis_tready);

  always_ff @(posedge clk) begin
    if (accept) line[address_q] <= s_axis_tdata;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      address_q     <= '0;
      full_q        <= 1'b0;
      m_axis_tvalid <= 1'b0;
      m_axis_tdata  <= '0;
      m_axis_tuser  <= '0;
    end else if (!m_axis_tvalid || m_axis_tready) begin
      m_axis_tvalid <= s_axis_tvalid;
      if (accept) begin
        m_axis_tdata <= full_q ? line[address_q] : '0;
        m_axis_tuser <= s_axis_tuser;
        address_q    <= address_q == Last ? '0 : address_q + 1'b1;
        full_q       <= full_q || address_q == Last;
      end
    end
  end

endmodule
