// Stores frames in the capture ring in memory and publishes them. docs/frame.md gives the ring's layout.
//
//   s_axis ─► burst of 10 beats at base + 256 x (head mod SLOTS) ─► OK ─► head + 1
//                                                                  └─► burst of 1 beat: a copy of head after the last slot
//
// One burst is outstanding at a time, so a frame's bytes are in memory before its head is. Nothing is written outside
// the window, when it is disabled or quiet, when the host is not alive, or ever again once the memory did not answer;
// frames that come then are taken and dropped. A frame and the copy of its head are one piece of work: what stops the
// writer stops it before the frame, and `idle` is low until the copy is done.

module ring_writer #(
    // Slots of 256 bytes; a power of two
    parameter int          SLOTS          = 256,
    // Width of memory addresses
    parameter int          ADDR_W         = 40,
    // Clocks without an answer after which the memory is given up
    parameter int          TIMEOUT_CYCLES = 10_000,
    // Head and tail after reset; not 0 only in tests of their wrap
    parameter logic [31:0] HEAD_RESET     = 32'd0
) (
    input  logic              clk,
    input  logic              rst,
    // frames of exactly ten beats; tuser: urgent
    input  logic [     127:0] s_axis_tdata,
    input  logic              s_axis_tvalid,
    output logic              s_axis_tready,
    input  logic              s_axis_tlast,
    input  logic              s_axis_tuser,
    // control
    input  logic              enable,
    input  logic              quiesce,
    input  logic              alive,
    input  logic [      63:0] base,
    input  logic [      31:0] size,
    input  logic [      31:0] boot_id,
    input  logic              tail_write,
    input  logic [      31:0] tail_value,
    // to the framer: a frame that ends now will be stored; the last frame was not
    output logic              free,
    output logic              frame_lost,
    // frames written and frames read, free running
    output logic [      31:0] head,
    output logic [      31:0] tail,
    // the head advances with this clock
    output logic              published,
    output logic              published_urgent,
    // faults: pulses, but for the window's and the time-out's, which last as long as the fault
    output logic              bad_tail,
    output logic              window_fault,
    output logic              write_error,
    output logic              timeout,
    // no transaction is outstanding, and none will start while `enable` is low or `quiesce` is high
    output logic              idle,
    // the next clock changes something
    output logic              busy,
    // memory
    output logic [ADDR_W-1:0] m_axi_awaddr,
    output logic [       7:0] m_axi_awlen,
    output logic [       2:0] m_axi_awsize,
    output logic [       1:0] m_axi_awburst,
    output logic [       3:0] m_axi_awcache,
    output logic [       2:0] m_axi_awprot,
    output logic              m_axi_awvalid,
    input  logic              m_axi_awready,
    output logic [     127:0] m_axi_wdata,
    output logic [      15:0] m_axi_wstrb,
    output logic              m_axi_wlast,
    output logic              m_axi_wvalid,
    input  logic              m_axi_wready,
    input  logic [       1:0] m_axi_bresp,
    input  logic              m_axi_bvalid,
    output logic              m_axi_bready
);

  localparam int SlotBytes = 256;
  localparam int SlotW = $clog2(SLOTS);
  localparam int CountW = $clog2(TIMEOUT_CYCLES + 1);
  localparam logic [31:0] CopyOffset = 32'(SLOTS) * SlotBytes;
  localparam logic [31:0] Window = CopyOffset + 32'd16;
  localparam logic [7:0] FrameLen = 8'd9;  // AXI: beats - 1

`ifndef SYNTHESIS
  initial begin
    if (SLOTS < 2 || SLOTS > 65536 || 2 ** SlotW != SLOTS) begin
      $fatal(1, "ring_writer: SLOTS must be a power of two from 2 to 65536");
    end
    if (ADDR_W < 32 || ADDR_W > 64) $fatal(1, "ring_writer: ADDR_W must be 32 to 64");
    if (TIMEOUT_CYCLES < 32) $fatal(1, "ring_writer: TIMEOUT_CYCLES must be at least 32");
  end
`endif

  // ---- may a frame be written ----------------------------------------------------------------------------------------

  // The window is looked at as it was set a clock ago, which takes a wide sum out of the longest path. Its address is
  // used from the same register, so that what was looked at is what is written to.
  logic [63:0] base_q;
  logic [31:0] size_q;
  logic [64:0] window_end;
  logic window_fits, fits_q, full, open, open_q;
  assign window_end  = {1'b0, base} + 65'(Window);
  assign window_fits = base[15:0] == '0 && size >= Window && window_end <= 65'd1 << ADDR_W;

  always_ff @(posedge clk) begin
    if (rst) begin
      base_q <= '0;
      size_q <= '0;
      fits_q <= 1'b0;
    end else begin
      base_q <= base;
      size_q <= size;
      fits_q <= window_fits;
    end
  end

  assign window_fault = enable && !fits_q;
  assign full         = head - tail == 32'(SLOTS);
  assign open         = enable && !quiesce && alive && fits_q && !full && !timeout;

  // Known a clock late, which keeps the comparison of the counts out of what hangs on `free`. That is soon enough: the
  // head moves only after a frame, and a copy follows; the tail only makes room.
  always_ff @(posedge clk) begin
    if (rst) open_q <= 1'b0;
    else open_q <= open;
  end

  // ---- one burst at a time -------------------------------------------------------------------------------------------

  logic outstanding_q;  // from a burst's start to its response
  logic copy_q;  // the burst is the copy of the head
  logic copy_due_q;  // the head advanced, its copy has not begun
  logic address_q;  // the address has not been taken
  logic data_q;  // the last beat has not been taken
  logic discard_q;  // the rest of a frame is dropped
  logic urgent_q;
  logic [ADDR_W-1:0] awaddr_q;
  logic [31:0] boot_id_q;  // in the copy: a beat that is offered must not change, whatever software writes meanwhile
  logic [CountW-1:0] waited_q;

  logic ready, may_start, start_frame, start_copy, drop, response, answered_ok, give_up;
  logic [ADDR_W-1:0] slot_address, copy_address;
  assign may_start    = open_q && enable && !quiesce && fits_q;
  assign ready        = !outstanding_q && !copy_due_q && !discard_q;
  assign start_frame  = ready && s_axis_tvalid && may_start;
  assign drop         = ready && s_axis_tvalid && !may_start;
  assign start_copy   = copy_due_q && fits_q;
  assign response     = m_axi_bvalid && m_axi_bready;
  assign answered_ok  = response && m_axi_bresp == 2'b00;
  assign give_up      = outstanding_q && !timeout && waited_q == CountW'(TIMEOUT_CYCLES - 1) && !response;
  assign slot_address = base_q[ADDR_W-1:0] + ADDR_W'({head[SlotW-1:0], 8'd0});
  assign copy_address = base_q[ADDR_W-1:0] + ADDR_W'(CopyOffset);

  always_ff @(posedge clk) begin
    if (rst) begin
      outstanding_q <= 1'b0;
      copy_q        <= 1'b0;
      copy_due_q    <= 1'b0;
      address_q     <= 1'b0;
      data_q        <= 1'b0;
      discard_q     <= 1'b0;
      urgent_q      <= 1'b0;
      awaddr_q      <= '0;
      boot_id_q     <= '0;
      waited_q      <= '0;
      timeout       <= 1'b0;
    end else begin
      if (start_frame || start_copy) begin
        outstanding_q <= 1'b1;
        address_q     <= 1'b1;
        data_q        <= 1'b1;
        copy_q        <= start_copy;
        urgent_q      <= s_axis_tuser;
        awaddr_q      <= start_copy ? copy_address : slot_address;
        boot_id_q     <= boot_id;
        waited_q      <= '0;
      end else begin
        if (m_axi_awready) address_q <= 1'b0;
        if (m_axi_wvalid && m_axi_wready && m_axi_wlast) data_q <= 1'b0;
        if (response) outstanding_q <= 1'b0;
        if (outstanding_q && !timeout) waited_q <= waited_q + 1'b1;
      end
      copy_due_q <= published;
      if (give_up) timeout <= 1'b1;
      if (drop) discard_q <= 1'b1;
      else if (s_axis_tvalid && s_axis_tlast) discard_q <= 1'b0;
    end
  end

  // ---- publishing ----------------------------------------------------------------------------------------------------

  logic tail_possible;
  assign tail_possible = head - tail_value <= head - tail;
  assign bad_tail = tail_write && !tail_possible;
  // After a time-out the frame has been given up, so a late answer changes nothing.
  assign published = answered_ok && !copy_q && !timeout;
  assign published_urgent = published && urgent_q;
  assign write_error = response && m_axi_bresp != 2'b00;
  assign frame_lost       = (write_error && !copy_q && !timeout) || (give_up && !copy_q) ||
      (discard_q && s_axis_tvalid && s_axis_tlast);

  always_ff @(posedge clk) begin
    if (rst) begin
      head <= HEAD_RESET;
      tail <= HEAD_RESET;
    end else begin
      if (published) head <= head + 32'd1;
      if (tail_write && tail_possible) tail <= tail_value;
    end
  end

  // ---- ports ---------------------------------------------------------------------------------------------------------

  assign free = open_q && ready;
  assign idle = !outstanding_q && !copy_due_q;
  assign s_axis_tready = discard_q || (data_q && !copy_q && m_axi_wready);

  assign m_axi_awaddr = awaddr_q;
  assign m_axi_awlen = copy_q ? 8'd0 : FrameLen;
  assign m_axi_awsize = 3'd4;  // 16 bytes a beat
  assign m_axi_awburst = 2'b01;  // incrementing
  // Not bufferable: the response must come from where the bytes end up, or it would prove nothing. Not secure: the
  // ring is memory of an ordinary operating system.
  assign m_axi_awcache = 4'b0010;
  assign m_axi_awprot = 3'b010;
  assign m_axi_awvalid = address_q;
  assign m_axi_wdata = copy_q ? {64'd0, boot_id_q, head} : s_axis_tdata;
  assign m_axi_wstrb = copy_q ? 16'h00FF : 16'hFFFF;
  assign m_axi_wlast = copy_q || s_axis_tlast;
  assign m_axi_wvalid = data_q && (copy_q || s_axis_tvalid);
  assign m_axi_bready = outstanding_q && !address_q && !data_q;

  // Once the memory is given up, only its own handshakes change anything.
  logic window_set;
  assign window_set = base != base_q || size != size_q;
  assign busy = (outstanding_q && !timeout) || copy_due_q || tail_write || (s_axis_tvalid && (ready || discard_q)) ||
      (m_axi_awvalid && m_axi_awready) || (m_axi_wvalid && m_axi_wready) || response || window_set || open != open_q;

endmodule
