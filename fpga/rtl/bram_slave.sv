// The front end's memory where there is no processor: block RAM that holds both rings, with a port of bytes for a link.
//
//   s_axi write ─► [ capture ring  0x0_0000: CAPTURE_SLOTS x 256 bytes, then 16 for the copy of the head ] ─► capture_data
//   s_axi read  ◄─ [ playback ring 0x1_0000: PLAY_SLOTS x 256 bytes                                      ] ◄─ play_data
//
// Each ring is one memory with one port to write and one to read, so nothing is ever arbitrated: the capture ring can only
// be written from s_axi and the playback ring only read. Any other address is answered with DECERR, and so is a burst that
// leaves its ring; of such a burst nothing is stored. Bursts that are not INCR, or whose beats are not 16 bytes, get
// SLVERR. One burst each way at a time.

module bram_slave #(
    // Slots of the capture ring; a power of two from 2 to 256
    parameter int CAPTURE_SLOTS = 16,
    // Slots of the playback ring; a power of two from 2 to 256
    parameter int PLAY_SLOTS    = 32,
    // Width of addresses on s_axi
    parameter int ADDR_W        = 32
) (
    input  logic              clk,
    input  logic              rst,
    // the front end
    input  logic [ADDR_W-1:0] s_axi_awaddr,
    input  logic [       7:0] s_axi_awlen,
    input  logic [       2:0] s_axi_awsize,
    input  logic [       1:0] s_axi_awburst,
    input  logic              s_axi_awvalid,
    output logic              s_axi_awready,
    input  logic [     127:0] s_axi_wdata,
    input  logic [      15:0] s_axi_wstrb,
    input  logic              s_axi_wlast,
    input  logic              s_axi_wvalid,
    output logic              s_axi_wready,
    output logic [       1:0] s_axi_bresp,
    output logic              s_axi_bvalid,
    input  logic              s_axi_bready,
    input  logic [ADDR_W-1:0] s_axi_araddr,
    input  logic [       7:0] s_axi_arlen,
    input  logic [       2:0] s_axi_arsize,
    input  logic [       1:0] s_axi_arburst,
    input  logic              s_axi_arvalid,
    output logic              s_axi_arready,
    output logic [     127:0] s_axi_rdata,
    output logic [       1:0] s_axi_rresp,
    output logic              s_axi_rlast,
    output logic              s_axi_rvalid,
    input  logic              s_axi_rready,
    // the link: bytes of the capture ring, two clocks after their address, and bytes into the playback ring
    input  logic [      15:0] capture_address,
    output logic [       7:0] capture_data,
    input  logic              play_write,
    input  logic [      15:0] play_address,
    input  logic [       7:0] play_data
);

  // A row is 16 bytes, a slot 16 rows, a window 64 KiB; the copy of the head is the row behind the capture ring.
  localparam int CaptureRows = CAPTURE_SLOTS * 16 + 1;
  localparam int PlayRows = PLAY_SLOTS * 16;
  localparam int CaptureW = $clog2(CaptureRows);
  localparam int PlayW = $clog2(PlayRows);
  localparam int WindowW = ADDR_W - 16;
  localparam logic [WindowW-1:0] CaptureWindow = WindowW'(0);
  localparam logic [WindowW-1:0] PlayWindow = WindowW'(1);
  localparam logic [2:0] SixteenBytes = 3'd4;
  localparam logic [1:0] Incrementing = 2'b01;
  localparam logic [1:0] Okay = 2'b00;
  localparam logic [1:0] SlaveError = 2'b10;
  localparam logic [1:0] DecodeError = 2'b11;

`ifndef SYNTHESIS
  initial begin
    if (CAPTURE_SLOTS < 2 || CAPTURE_SLOTS > 256 || 2 ** $clog2(CAPTURE_SLOTS) != CAPTURE_SLOTS) begin
      $fatal(1, "bram_slave: CAPTURE_SLOTS must be a power of two from 2 to 256");
    end
    if (PLAY_SLOTS < 2 || PLAY_SLOTS > 256 || 2 ** $clog2(PLAY_SLOTS) != PLAY_SLOTS) begin
      $fatal(1, "bram_slave: PLAY_SLOTS must be a power of two from 2 to 256");
    end
    if (ADDR_W < 18 || ADDR_W > 64) $fatal(1, "bram_slave: ADDR_W must be 18 to 64");
  end
`endif

  // A row is never written in the clock that reads it: heads and tails keep the two sides on different slots. (What lies
  // behind a slot's samples may be, and is never looked at.) So the tools need not build what would decide between both.
  (* no_rw_check *) logic [127:0] capture[CaptureRows];
  (* no_rw_check *) logic [127:0] play[PlayRows];

  // What a burst from `row` on is answered with, if its ring is the first `rows` rows of `window`
  function automatic logic [1:0] verdict(input logic [ADDR_W-5:0] row, input logic [7:0] len, input logic [2:0] size,
                                         input logic [1:0] burst, input logic [WindowW-1:0] window,
                                         input logic [13:0] rows);
    logic [13:0] last_row;
    last_row = 14'(row[11:0]) + 14'(len);
    if (row[ADDR_W-5:12] != window || last_row >= rows) verdict = DecodeError;
    else if (size != SixteenBytes || burst != Incrementing) verdict = SlaveError;
    else verdict = Okay;
  endfunction

  // ---- capture: s_axi writes -----------------------------------------------------------------------------------------

  logic [CaptureW-1:0] write_row_q;
  logic writing_q, write_ok;
  logic [15:0] write_strobes;

  assign s_axi_awready = !writing_q && !s_axi_bvalid;
  assign s_axi_wready  = writing_q;
  assign write_ok      = writing_q && s_axi_bresp == Okay && s_axi_wvalid;
  assign write_strobes = s_axi_wstrb & {16{write_ok}};

  always_ff @(posedge clk) begin
    if (rst) begin
      writing_q    <= 1'b0;
      write_row_q  <= '0;
      s_axi_bvalid <= 1'b0;
      s_axi_bresp  <= Okay;
    end else begin
      if (s_axi_awvalid && s_axi_awready) begin
        writing_q <= 1'b1;
        write_row_q <= CaptureW'(s_axi_awaddr >> 4);
        s_axi_bresp <= verdict(
            s_axi_awaddr[ADDR_W-1:4], s_axi_awlen, s_axi_awsize, s_axi_awburst, CaptureWindow, 14'(CaptureRows)
        );
      end
      if (s_axi_wvalid && s_axi_wready) begin
        write_row_q <= write_row_q + 1'b1;
        if (s_axi_wlast) begin
          writing_q    <= 1'b0;
          s_axi_bvalid <= 1'b1;
        end
      end
      if (s_axi_bvalid && s_axi_bready) s_axi_bvalid <= 1'b0;
    end
  end

  logic [127:0] capture_row_q;
  logic [  3:0] capture_byte_q;

  always_ff @(posedge clk) begin
    for (int i = 0; i < 16; i++) begin
      if (write_strobes[i]) capture[write_row_q][8*i+:8] <= s_axi_wdata[8*i+:8];
    end
    capture_row_q  <= capture[CaptureW'(capture_address>>4)];
    capture_byte_q <= capture_address[3:0];
    capture_data   <= capture_row_q[8*capture_byte_q+:8];
  end

  // ---- playback: s_axi reads -----------------------------------------------------------------------------------------

  // The memory answers a clock after its address, so it is given the next row while one is offered.
  logic [PlayW-1:0] read_row_q, read_row_d;
  logic [7:0] read_left_q;  // beats after the one that is offered
  logic read_start, read_give;
  logic [127:0] play_row_q;

  assign s_axi_arready = !s_axi_rvalid;
  assign read_start    = s_axi_arvalid && s_axi_arready;
  assign read_give     = s_axi_rvalid && s_axi_rready;
  assign s_axi_rlast   = read_left_q == '0;
  assign s_axi_rdata   = s_axi_rresp == Okay ? play_row_q : '0;

  always_comb begin
    read_row_d = read_row_q;
    if (read_start) read_row_d = PlayW'(s_axi_araddr >> 4);
    else if (read_give) read_row_d = read_row_q + 1'b1;
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      read_row_q   <= '0;
      read_left_q  <= '0;
      s_axi_rvalid <= 1'b0;
      s_axi_rresp  <= Okay;
    end else begin
      read_row_q <= read_row_d;
      if (read_start) begin
        read_left_q <= s_axi_arlen;
        s_axi_rvalid <= 1'b1;
        s_axi_rresp <= verdict(
            s_axi_araddr[ADDR_W-1:4], s_axi_arlen, s_axi_arsize, s_axi_arburst, PlayWindow, 14'(PlayRows)
        );
      end else if (read_give) begin
        read_left_q <= read_left_q - 1'b1;
        if (s_axi_rlast) s_axi_rvalid <= 1'b0;
      end
    end
  end

  logic [15:0] play_strobes;
  assign play_strobes = play_write ? 16'd1 << play_address[3:0] : '0;

  always_ff @(posedge clk) begin
    for (int i = 0; i < 16; i++) begin
      if (play_strobes[i]) play[PlayW'(play_address>>4)][8*i+:8] <= play_data;
    end
    play_row_q <= play[read_row_d];
  end

endmodule
