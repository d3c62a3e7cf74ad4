// Does what the host's packets ask for: reads and writes registers, takes playback slots, tells the time. docs/uart.md
//
//   packet ─► [ 16 bytes of it ] ─► done, whole ─► [ one word after the other ] ─► replies
//          └─► play_* (a slot's bytes, as they come)         └─► axil_*
//
// A slot's bytes go straight into the playback ring's next free slot, where they are nothing to the front end before
// PLAY_HEAD says so; a packet that turns out to be bad is overwritten by the next. A command is carried out when its
// packet is over, in some hundred clocks; what comes sooner than that, or finds no room for its reply, is dropped. What
// is dropped is counted, by its reason, in the link's own registers.

module uart_commands #(
    // Frequency of clk in Hz and clocks a bit; only shown to the host
    parameter int CLK_HZ         = 50_000_000,
    parameter int CYCLES_PER_BIT = 25,
    // Slots of the playback ring; a power of two from 2 to 256
    parameter int PLAY_SLOTS     = 32,
    // Width of the register addresses
    parameter int AXIL_ADDR_W    = 9
) (
    input  logic                   clk,
    input  logic                   rst,
    // clocks since reset
    input  logic [           31:0] cycles,
    // the host's packets, from uart_packet_rx
    input  logic [            7:0] s_axis_tdata,
    input  logic                   s_axis_tvalid,
    input  logic [            8:0] position,
    input  logic                   done,
    input  logic                   good,
    input  logic                   bad_cobs,
    input  logic                   bad_length,
    input  logic                   bad_crc,
    input  logic                   framing_error,
    // registers
    output logic                   axil_valid,
    output logic                   axil_write,
    output logic [AXIL_ADDR_W-1:0] axil_addr,
    output logic [           31:0] axil_wdata,
    input  logic                   axil_ready,
    input  logic [           31:0] axil_rdata,
    input  logic                   axil_read_taken,
    // bytes into the playback ring, whose base is address 0 here
    output logic                   play_write,
    output logic [           15:0] play_address,
    output logic [            7:0] play_data,
    // slots taken over; slots that the front end has read
    output logic [           31:0] play_head,
    input  logic [           31:0] play_tail,
    // a pulse: the host is to be told both
    output logic                   credit_due,
    // type and body of replies, in order; `stamp` stands for byte tdata[1:0] of the count at the packet's departure
    output logic [            7:0] m_axis_tdata,
    output logic                   m_axis_tlast,
    output logic                   m_axis_stamp,
    output logic                   m_axis_tvalid,
    // the longest reply fits
    input  logic                   reply_room,
    // for the link's own registers
    input  logic [           15:0] frames_sent,
    input  logic [           15:0] events_sent
);

  // Types of packets
  localparam logic [7:0] TypeRead = 8'd2;
  localparam logic [7:0] TypeWrite = 8'd3;
  localparam logic [7:0] TypeReply = 8'd4;
  localparam logic [7:0] TypeSlot = 8'd5;
  localparam logic [7:0] TypeTime = 8'd6;
  // Bytes of a packet, its type and CRC included
  localparam logic [8:0] ReadBytes = 9'd9;
  localparam logic [8:0] WriteBytes = 9'd13;
  localparam logic [8:0] WriteTwoBytes = 9'd17;
  localparam logic [8:0] TimeBytes = 9'd13;
  localparam logic [8:0] EmptySlotBytes = 9'd21;
  localparam logic [15:0] MaxSamples = 16'd120;
  localparam logic [7:0] MaxWords = 8'd8;
  localparam logic [7:0] StatusDone = 8'd0;
  localparam logic [7:0] StatusRefused = 8'd1;

  // Registers of the front end, frontend.rdl
  localparam logic [15:0] AddrTimeNs = 16'h0020;
  localparam logic [15:0] AddrClockEpoch = 16'h0038;
  localparam logic [15:0] AddrRingBase = 16'h00A0;
  localparam logic [15:0] AddrRingSize = 16'h00A8;
  localparam logic [15:0] AddrRingTail = 16'h00B4;
  localparam logic [15:0] AddrPlayBase = 16'h00E0;
  localparam logic [15:0] AddrPlaySize = 16'h00E8;
  localparam logic [15:0] AddrPlayHead = 16'h00F0;
  localparam logic [15:0] AddrEventPop = 16'h011C;
  // From an address's being taken to the instant of the value that is read: the queue in front of the registers, their
  // decoder, less the register that the time comes through
  localparam logic [31:0] SampleCycles = 32'd2;

  // The link's own registers
  localparam logic [15:0] AddrLink = 16'h8000;
  localparam int LinkWords = 16;
  localparam logic [31:0] LinkId = 32'h56585541;  // the letters VXUA
  localparam logic [31:0] LinkVersion = 32'd1;

  // The words of a time: five registers, then three counts and the stamp
  localparam logic [3:0] StepTimeNs = 4'd0;
  localparam logic [3:0] StepFreeNs = 4'd2;
  localparam logic [3:0] StepEpoch = 4'd4;
  localparam logic [3:0] StepReceived = 4'd5;
  localparam logic [3:0] StepTimeAt = 4'd6;
  localparam logic [3:0] StepFreeAt = 4'd7;
  localparam logic [3:0] StepSent = 4'd8;

`ifndef SYNTHESIS
  initial begin
    if (PLAY_SLOTS < 2 || PLAY_SLOTS > 256 || 2 ** $clog2(PLAY_SLOTS) != PLAY_SLOTS) begin
      $fatal(1, "uart_commands: PLAY_SLOTS must be a power of two from 2 to 256");
    end
    if (AXIL_ADDR_W < 9 || AXIL_ADDR_W > 15) $fatal(1, "uart_commands: AXIL_ADDR_W must be 9 to 15");
  end
`endif

  // States: nothing to do; the next word of a job; a register access; bytes of a reply
  localparam logic [1:0] Idle = 2'd0;
  localparam logic [1:0] Next = 2'd1;
  localparam logic [1:0] Access = 2'd2;
  localparam logic [1:0] Push = 2'd3;

  logic [1:0] state_q;

  // ---- the packet that comes -----------------------------------------------------------------------------------------

  logic [7:0] kind_q;
  logic [127:0] body_q;  // its first 16 bytes
  logic late_q;  // some of it came while the command before was carried out
  logic room_q;  // a slot was free when it began
  logic [8:0] index;  // of a byte in the body
  logic listening;

  assign listening    = state_q == Idle && s_axis_tvalid;
  assign index        = position - 1'b1;
  assign play_write   = listening && !late_q && kind_q == TypeSlot && position != '0 && !index[8] && room_q;
  assign play_address = 16'({play_head[$clog2(PLAY_SLOTS)-1:0], index[7:0]});
  assign play_data    = s_axis_tdata;

  always_ff @(posedge clk) begin
    if (rst) begin
      kind_q <= '0;
      body_q <= '0;
      late_q <= 1'b0;
      room_q <= 1'b0;
    end else begin
      if (done) late_q <= 1'b0;
      else if (s_axis_tvalid && state_q != Idle) late_q <= 1'b1;
      if (listening && position == '0) begin
        kind_q <= s_axis_tdata;
        room_q <= play_head - play_tail < 32'(PLAY_SLOTS);
      end
      if (listening && position != '0 && index[8:4] == '0) body_q[8*index[3:0]+:8] <= s_axis_tdata;
    end
  end

  // ---- what it asks for ----------------------------------------------------------------------------------------------

  logic [ 7:0] tag;
  logic [15:0] address;
  logic [3:0] words, words_q;  // `words` holds while `done`, words_q from then on
  logic [15:0] samples;
  logic [31:0] number;

  assign tag     = body_q[7:0];
  assign address = body_q[31:16];
  assign words   = kind_q == TypeRead ? body_q[11:8] : position == WriteBytes ? 4'd1 : 4'd2;
  assign samples = body_q[95:80];
  assign number  = body_q[127:96];

  // Registers that this link writes itself: a second hand on them would tear its counts.
  function automatic logic owned(input logic [15:0] at);
    owned = at == AddrRingBase || at == AddrRingBase + 16'd4 || at == AddrRingSize || at == AddrRingTail ||
        at == AddrPlayBase || at == AddrPlayBase + 16'd4 || at == AddrPlaySize || at == AddrPlayHead ||
        at == AddrEventPop;
  endfunction

  logic [16:0] last_address;
  logic in_front_end, in_link, refused;
  assign last_address = 17'(address) + 17'({words - 4'd1, 2'b00});
  assign in_front_end = last_address < 17'd1 << AXIL_ADDR_W;
  assign in_link      = address >= AddrLink && last_address < 17'(AddrLink) + 17'(4 * LinkWords);

  always_comb begin
    refused = address[1:0] != '0;
    if (kind_q == TypeRead) refused |= !in_front_end && !in_link;
    else refused |= !in_front_end || owned(address) || (words == 4'd2 && owned(last_address[15:0]));
  end

  logic is_read, is_write, is_time, is_slot, formed, known, replies;
  logic fits, in_turn, command, slot;
  assign is_read  = kind_q == TypeRead;
  assign is_write = kind_q == TypeWrite;
  assign is_time  = kind_q == TypeTime;
  assign is_slot  = kind_q == TypeSlot;
  assign replies  = is_read || is_write || is_time;
  assign known    = replies || is_slot;

  always_comb begin
    formed = 1'b0;
    if (is_read) formed = position == ReadBytes && body_q[15:8] != '0 && body_q[15:8] <= MaxWords;
    if (is_write) formed = position == WriteBytes || position == WriteTwoBytes;
    if (is_time) formed = position == TimeBytes;
    if (is_slot) formed = samples <= MaxSamples && position == EmptySlotBytes + 9'({samples[7:0], 1'b0});
  end

  assign fits    = !late_q && state_q == Idle && (reply_room || !replies);
  assign in_turn = number == play_head;
  assign command = good && replies && formed && fits;
  assign slot    = good && is_slot && formed && fits && in_turn && room_q;

  // ---- doing it ------------------------------------------------------------------------------------------------------

  logic [3:0] step_q;  // words done
  logic [31:0] received_q, time_at_q, free_at_q;
  logic [31:0] count_word, local_word;
  logic local_next;
  logic [71:0] out_q;  // bytes of the reply that are pushed, the lowest first
  logic [3:0] out_left_q;
  logic out_last_q, out_stamp_q;
  logic [71:0] head_bytes;
  logic [15:0] access_address;

  // A reply is begun when its packet is over, but for a write's, which is carried out first.
  assign head_bytes = 72'({address, done && refused ? StatusRefused : StatusDone, tag, TypeReply});

  always_comb begin
    access_address = address;
    if (is_slot) access_address = AddrPlayHead;
    if (is_time) access_address = AddrTimeNs;
    access_address = access_address + 16'({step_q, 2'b00});
    if (is_time && step_q == StepEpoch) access_address = AddrClockEpoch;
  end

  assign local_next = is_time ? step_q > StepEpoch : is_read && in_link;

  always_comb begin
    local_word = count_word;
    if (is_time) begin
      case (step_q)
        StepReceived: local_word = received_q;
        StepTimeAt:   local_word = time_at_q;
        StepFreeAt:   local_word = free_at_q;
        // The stamp's bytes by their numbers
        default:      local_word = 32'h03020100;
      endcase
    end
  end

  assign axil_valid = state_q == Access;
  assign axil_write = is_write || is_slot;
  assign axil_addr  = AXIL_ADDR_W'(access_address);
  assign axil_wdata = is_slot ? play_head + 1'b1 : step_q[0] ? body_q[95:64] : body_q[63:32];

  always_ff @(posedge clk) begin
    if (rst) begin
      state_q     <= Idle;
      step_q      <= '0;
      words_q     <= '0;
      received_q  <= '0;
      time_at_q   <= '0;
      free_at_q   <= '0;
      out_q       <= '0;
      out_left_q  <= '0;
      out_last_q  <= 1'b0;
      out_stamp_q <= 1'b0;
      play_head   <= '0;
    end else begin
      if (axil_read_taken && axil_valid && step_q == StepTimeNs) time_at_q <= cycles + SampleCycles;
      if (axil_read_taken && axil_valid && step_q == StepFreeNs) free_at_q <= cycles + SampleCycles;
      case (state_q)
        Idle: begin
          step_q      <= '0;
          out_last_q  <= 1'b0;
          out_stamp_q <= 1'b0;
          words_q     <= words;
          if (slot || (command && is_write && !refused)) begin
            state_q <= Next;
          end else if (command) begin
            state_q    <= Push;
            out_q      <= is_time ? {body_q[63:0], TypeTime} : head_bytes;
            out_left_q <= is_time ? 4'd9 : 4'd5;
            out_last_q <= refused && !is_time;
            received_q <= cycles - 1'b1;  // the delimiter came in the clock before
          end
        end
        Next: begin
          if (!local_next) begin
            state_q <= Access;
          end else begin
            state_q     <= Push;
            out_q       <= 72'(local_word);
            out_left_q  <= 4'd4;
            out_last_q  <= is_time ? step_q == StepSent : step_q == words_q - 1'b1;
            out_stamp_q <= is_time && step_q == StepSent;
            step_q      <= step_q + 1'b1;
          end
        end
        Access:
        if (axil_ready) begin
          step_q <= step_q + 1'b1;
          if (is_slot) begin
            state_q   <= Idle;
            play_head <= play_head + 1'b1;
          end else if (is_write && step_q != words_q - 1'b1) begin
            state_q <= Next;
          end else begin
            state_q    <= Push;
            out_q      <= is_write ? head_bytes : 72'(axil_rdata);
            out_left_q <= is_write ? 4'd5 : 4'd4;
            out_last_q <= !is_time && step_q == words_q - 1'b1;
          end
        end
        default: begin
          out_q      <= out_q >> 8;
          out_left_q <= out_left_q - 1'b1;
          if (out_left_q == 4'd1) state_q <= out_last_q ? Idle : Next;
        end
      endcase
    end
  end

  assign m_axis_tdata  = out_q[7:0];
  assign m_axis_tvalid = state_q == Push;
  assign m_axis_tlast  = out_last_q && out_left_q == 4'd1;
  assign m_axis_stamp  = out_stamp_q;
  // A slot that is refused is answered too: the host may have missed the credit that would have told it so.
  assign credit_due    = (done && is_slot && good && !slot) || (state_q == Access && is_slot && axil_ready);

  // ---- the link's own registers --------------------------------------------------------------------------------------

  localparam int Reasons = 9;
  localparam int First = 4;  // word of the first of them
  logic [Reasons-1:0] happened;
  logic [15:0] count_q[Reasons];
  logic [3:0] link_word;

  assign happened = {
    framing_error,
    done && good && known && formed && !fits,
    done && good && is_slot && formed && fits && !in_turn,
    done && good && is_slot && formed && fits && in_turn && !room_q,
    done && good && !known,
    bad_crc,
    bad_length || (done && good && known && !formed),
    bad_cobs,
    command || slot
  };

  always_ff @(posedge clk) begin
    for (int i = 0; i < Reasons; i++) begin
      if (rst) count_q[i] <= '0;
      else if (happened[i]) count_q[i] <= count_q[i] + 1'b1;
    end
  end

  assign link_word = address[5:2] + step_q;

  always_comb begin
    case (link_word)
      4'd0:    count_word = LinkId;
      4'd1:    count_word = LinkVersion;
      4'd2:    count_word = 32'(CLK_HZ);
      4'd3:    count_word = 32'(CYCLES_PER_BIT);
      4'd13:   count_word = {16'd0, frames_sent};
      4'd14:   count_word = {16'd0, events_sent};
      4'd15:   count_word = cycles;
      default: count_word = {16'd0, count_q[link_word-4'(First)]};
    endcase
  end

endmodule
