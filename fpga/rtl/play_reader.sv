// Reads the slots of the playback ring ahead of time, one 256-byte burst each, into a buffer of whole slots.
//
//   ring in memory ──AXI4──► [ slot | slot | slot | slot ] ──► play_output
//    tail .. limit                buffer, front first
//
// A slot enters the buffer only when all of its beats came without error and its header makes sense; otherwise it is
// skipped and flagged. The slot's number in the ring takes the place of the reserved word of its header.

module play_reader #(
    // Slots of the ring; a power of two
    parameter int SLOTS          = 256,
    // Width of memory addresses
    parameter int ADDR_W         = 40,
    // Cycles without an answer from memory after which no new burst starts until reset
    parameter int TIMEOUT_CYCLES = 10_000,
    // Whole slots that are read ahead; a power of two
    parameter int BUFFERED       = 4
) (
    input  logic              clk,
    input  logic              rst,
    // permission
    input  logic              enable,
    input  logic              quiesce,
    // window that may be read
    input  logic [      63:0] base,
    input  logic [      31:0] size,
    // slots before this count may be read
    input  logic [      31:0] limit,
    // forget what was read or is being read; go on at slot flush_to
    input  logic              flush,
    input  logic [      31:0] flush_to,
    // slots read, free running: the host may reuse them
    output logic [      31:0] tail,
    // samples in the buffer
    output logic [      15:0] samples,
    // front slot: slot_data is the beat that slot_beat asked for one cycle before
    output logic              slot_valid,
    input  logic [       3:0] slot_beat,
    output logic [     127:0] slot_data,
    input  logic              slot_pop,
    // faults: pulses, except the last two
    output logic              bad_slot,
    output logic              read_error,
    output logic              window_fault,
    output logic              timeout,
    // no burst is outstanding
    output logic              idle,
    output logic              busy,
    // memory
    output logic [ADDR_W-1:0] m_axi_araddr,
    output logic [       7:0] m_axi_arlen,
    output logic [       2:0] m_axi_arsize,
    output logic [       1:0] m_axi_arburst,
    output logic [       3:0] m_axi_arcache,
    output logic [       2:0] m_axi_arprot,
    output logic              m_axi_arvalid,
    input  logic              m_axi_arready,
    input  logic [     127:0] m_axi_rdata,
    input  logic [       1:0] m_axi_rresp,
    input  logic              m_axi_rlast,
    input  logic              m_axi_rvalid,
    output logic              m_axi_rready
);

  localparam int SlotW = $clog2(SLOTS);
  localparam int BufferW = $clog2(BUFFERED);
  localparam int TimeoutW = $clog2(TIMEOUT_CYCLES + 1);
  localparam logic [3:0] LastBeat = 4'd15;
  localparam logic [15:0] MaxSamples = 16'd120;

  initial begin
    if (SLOTS < 2 || 2 ** SlotW != SLOTS) $fatal(1, "play_reader: SLOTS must be a power of two, at least 2");
    if (BUFFERED < 2 || 2 ** BufferW != BUFFERED) $fatal(1, "play_reader: BUFFERED must be a power of two, at least 2");
    if (ADDR_W < 17 || ADDR_W > 64) $fatal(1, "play_reader: ADDR_W must be 17 to 64");
    if (TIMEOUT_CYCLES < 1) $fatal(1, "play_reader: TIMEOUT_CYCLES must be at least 1");
  end

  typedef enum logic [1:0] {
    StIdle,
    StAddress,
    StData
  } state_e;

  state_e state_q;
  logic [31:0] tail_q;
  logic [ADDR_W-1:0] address_q;
  logic [3:0] beat_q;
  logic [BufferW-1:0] fill_q, front_q;
  logic [BufferW:0] count_q;
  logic [6:0] slot_samples_q[BUFFERED];
  logic [15:0] samples_q;
  logic [TimeoutW-1:0] silence_q;
  logic dead_q;  // memory did not answer in time
  logic drop_q;  // the burst under way will not be kept
  logic error_q, malformed_q;

  // ---- window -----------------------------------------------------------------------------------------------------

  // The base is a multiple of 64 KiB, so the low bits of the last address are those of the last offset: no carry has to
  // come up through them.
  localparam logic [48:0] LastOffset = 49'((SLOTS * 256 - 1) >> 16);

  logic [48:0] window_last;  // its last address, in 64 KiB
  logic window_ok, wanted, start;

  assign window_last = 49'(base[63:16]) + LastOffset;
  assign window_ok = base[15:0] == '0 && size >= 32'(SLOTS * 256) && window_last >> (ADDR_W - 16) == '0;
  assign wanted = tail_q != limit && enable && !quiesce;
  assign start = state_q == StIdle && wanted && window_ok && !dead_q && !flush && !count_q[BufferW];
  assign window_fault = wanted && !window_ok;

  // ---- one burst at a time ----------------------------------------------------------------------------------------

  logic beat, last_beat, keep, malformed_d, error_d;
  logic [15:0] header_n;
  logic [7:0] header_rate;
  logic header_last;

  assign header_rate = m_axi_rdata[71:64];
  assign header_last = m_axi_rdata[73];
  assign header_n = m_axi_rdata[95:80];

  assign beat = state_q == StData && m_axi_rvalid;
  assign last_beat = beat && beat_q == LastBeat;
  assign malformed_d = beat_q != 4'd0 ? malformed_q :
      header_n > MaxSamples || header_rate > 8'd1 || (header_n == '0 && !header_last);
  assign error_d = (beat_q != 4'd0 && error_q) || m_axi_rresp[1] || m_axi_rlast != (beat_q == LastBeat);
  assign keep = last_beat && !drop_q && !flush && !dead_q && !error_d && !malformed_q;
  assign bad_slot = last_beat && !drop_q && !dead_q && !error_d && malformed_q;
  assign read_error = last_beat && error_d;

  always_ff @(posedge clk) begin
    if (rst) begin
      state_q     <= StIdle;
      tail_q      <= '0;
      address_q   <= '0;
      beat_q      <= '0;
      silence_q   <= '0;
      dead_q      <= 1'b0;
      drop_q      <= 1'b0;
      error_q     <= 1'b0;
      malformed_q <= 1'b0;
    end else begin
      case (state_q)
        StIdle:
        if (start) begin
          state_q   <= StAddress;
          address_q <= ADDR_W'(base) + ADDR_W'({tail_q[SlotW-1:0], 8'd0});
        end
        StAddress: if (m_axi_arready) state_q <= StData;
        default:   if (last_beat) state_q <= StIdle;
      endcase

      if (beat) begin
        beat_q      <= beat_q + 1'b1;
        error_q     <= error_d;
        malformed_q <= malformed_d;
      end

      if (flush) begin
        tail_q <= flush_to;
        drop_q <= state_q != StIdle && !last_beat;
      end else if (last_beat) begin
        if (!drop_q && !dead_q) tail_q <= tail_q + 1'b1;
        drop_q <= 1'b0;
      end

      if (state_q == StIdle || beat || (state_q == StAddress && m_axi_arready)) silence_q <= '0;
      else if (!dead_q) silence_q <= silence_q + 1'b1;
      if (silence_q == TimeoutW'(TIMEOUT_CYCLES)) dead_q <= 1'b1;
    end
  end

  // ---- buffer of whole slots --------------------------------------------------------------------------------------

  logic [127:0] buffer[BUFFERED*16];
  logic [6:0] fill_n_q;
  logic [6:0] front_n;

  assign front_n = slot_samples_q[front_q];

  always_ff @(posedge clk) begin
    if (beat) begin
      buffer[{fill_q, beat_q}] <= beat_q == 4'd0 ? {tail_q, m_axi_rdata[95:0]} : m_axi_rdata;
      if (beat_q == 4'd0) fill_n_q <= header_n[6:0];
    end
    slot_data <= buffer[{front_q, slot_beat}];
  end

  always_ff @(posedge clk) begin
    if (rst || flush) begin
      fill_q    <= '0;
      front_q   <= '0;
      count_q   <= '0;
      samples_q <= '0;
    end else begin
      if (keep) begin
        fill_q                 <= fill_q + 1'b1;
        slot_samples_q[fill_q] <= fill_n_q;
      end
      if (slot_pop) front_q <= front_q + 1'b1;
      if (keep != slot_pop) count_q <= slot_pop ? count_q - 1'b1 : count_q + 1'b1;
      // Each sum for itself: that a slot is taken is known late in a cycle.
      case ({
        keep, slot_pop
      })
        2'b01:   samples_q <= samples_q - 16'(front_n);
        2'b10:   samples_q <= samples_q + 16'(fill_n_q);
        2'b11:   samples_q <= samples_q + 16'(fill_n_q) - 16'(front_n);
        default: ;
      endcase
    end
  end

  assign slot_valid    = count_q != '0;
  assign samples       = samples_q;
  assign tail          = tail_q;
  assign timeout       = dead_q;
  assign idle          = state_q == StIdle;
  // Once the memory is given up, only its own handshakes change anything.
  assign busy          = start || (state_q != StIdle && !dead_q) || (m_axi_arvalid && m_axi_arready) || beat;

  assign m_axi_araddr  = address_q;
  assign m_axi_arlen   = 8'(LastBeat);
  assign m_axi_arsize  = 3'd4;
  assign m_axi_arburst = 2'b01;
  // Cacheable, read and write allocate, non-secure: what a coherent port needs to see the processor's caches.
  assign m_axi_arcache = 4'b1111;
  assign m_axi_arprot  = 3'b010;
  assign m_axi_arvalid = state_q == StAddress;
  assign m_axi_rready  = 1'b1;

  // The low bit only tells two kinds of success apart.
  logic unused;
  assign unused = m_axi_rresp[0];

endmodule
