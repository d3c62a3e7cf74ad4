// Sends the host what it has to know: replies, playback events, playback credits and frames. docs/uart.md
//
//   replies ───────────────────────────────────────────────┐
//   EVENT_KIND says that one waits ─► EVENT_* ─► EVENT_POP ─┤   one packet at a time, each kind in its turn
//   PLAY_TAIL moved, or a slot came ────────────────────────┼─► m_axis
//   RING_HEAD is ahead ─► capture_data ─► RING_TAIL ────────┘
//
// Between packets it looks at the front end's registers in turn, STATUS and FAULTS for the lamps included. Of each kind one
// packet is sent a turn, so that none keeps another from the line for long. A frame's slot is given back when all of the
// frame has been taken, so no frame is torn; that the ring then overflows while the line is too slow is the ring's affair,
// which counts it. After reset the two rings are laid into the memory (bram_slave.sv), before all else.

module uart_reports #(
    // Slots of the rings; powers of two from 2 to 256
    parameter int CAPTURE_SLOTS = 16,
    parameter int PLAY_SLOTS    = 32,
    // Width of the register addresses
    parameter int AXIL_ADDR_W   = 9
) (
    input  logic                   clk,
    input  logic                   rst,
    // clocks since reset
    input  logic [           31:0] cycles,
    // type and body of replies; `stamp` stands for byte tdata[1:0] of `cycles` at the packet's departure
    input  logic [            7:0] s_axis_tdata,
    input  logic                   s_axis_tlast,
    input  logic                   s_axis_stamp,
    input  logic                   s_axis_tvalid,
    output logic                   s_axis_tready,
    // playback: slots taken over, a pulse when the host is to be told; slots that the front end has read
    input  logic [           31:0] play_head,
    input  logic                   credit_due,
    output logic [           31:0] play_tail,
    // registers
    output logic                   axil_valid,
    output logic                   axil_write,
    output logic [AXIL_ADDR_W-1:0] axil_addr,
    output logic [           31:0] axil_wdata,
    input  logic                   axil_ready,
    input  logic [           31:0] axil_rdata,
    // bytes of the capture ring, whose base is address 0; two clocks after their address
    output logic [           15:0] capture_address,
    input  logic [            7:0] capture_data,
    // type and body of packets, for uart_packet_tx
    output logic [            7:0] m_axis_tdata,
    output logic                   m_axis_tlast,
    output logic                   m_axis_tvalid,
    input  logic                   m_axis_tready,
    input  logic                   started,
    input  logic                   idle,
    // the front end's STATUS and FAULTS, for lamps
    output logic                   alive,
    output logic                   speech,
    output logic                   playing,
    output logic                   fault,
    // packets sent
    output logic [           15:0] frames_sent,
    output logic [           15:0] events_sent
);

  // Types of packets
  localparam logic [7:0] TypeFrame = 8'd1;
  localparam logic [7:0] TypeCredit = 8'd5;
  localparam logic [7:0] TypeEvent = 8'd7;
  localparam logic [7:0] LastFrameByte = 8'd159;
  localparam logic [2:0] EventWords = 3'd5;
  localparam logic [2:0] CreditWords = 3'd2;

  // Registers of the front end, frontend.rdl
  localparam logic [AXIL_ADDR_W-1:0] AddrStatus = AXIL_ADDR_W'('h010);
  localparam logic [AXIL_ADDR_W-1:0] AddrFaults = AXIL_ADDR_W'('h014);
  localparam logic [AXIL_ADDR_W-1:0] AddrRingBase = AXIL_ADDR_W'('h0A0);
  localparam logic [AXIL_ADDR_W-1:0] AddrRingSize = AXIL_ADDR_W'('h0A8);
  localparam logic [AXIL_ADDR_W-1:0] AddrRingHead = AXIL_ADDR_W'('h0B0);
  localparam logic [AXIL_ADDR_W-1:0] AddrRingTail = AXIL_ADDR_W'('h0B4);
  localparam logic [AXIL_ADDR_W-1:0] AddrPlayBase = AXIL_ADDR_W'('h0E0);
  localparam logic [AXIL_ADDR_W-1:0] AddrPlaySize = AXIL_ADDR_W'('h0E8);
  localparam logic [AXIL_ADDR_W-1:0] AddrPlayTail = AXIL_ADDR_W'('h0F4);
  localparam logic [AXIL_ADDR_W-1:0] AddrEventNs = AXIL_ADDR_W'('h108);
  localparam logic [AXIL_ADDR_W-1:0] AddrEventKind = AXIL_ADDR_W'('h118);
  localparam logic [AXIL_ADDR_W-1:0] AddrEventPop = AXIL_ADDR_W'('h11C);

  // What bram_slave holds and where
  localparam logic [31:0] RingBase = 32'h0000_0000;
  localparam logic [31:0] RingSize = 32'(CAPTURE_SLOTS * 256 + 16);
  localparam logic [31:0] PlayBase = 32'h0001_0000;
  localparam logic [31:0] PlaySize = 32'(PLAY_SLOTS * 256);

  // Turns
  localparam logic [2:0] Replies = 3'd0;
  localparam logic [2:0] Events = 3'd1;
  localparam logic [2:0] Credits = 3'd2;
  localparam logic [2:0] Frames = 3'd3;
  localparam logic [2:0] Status = 3'd4;
  localparam logic [2:0] Faults = 3'd5;

  // States: lay a ring; wait for the line; look at a register; pass a reply on; send the type; get a word of the packet;
  // send its four bytes; wait for a byte of a frame, two clocks; send it; write that the packet has been sent
  localparam logic [3:0] Lay = 4'd0;
  localparam logic [3:0] Wait = 4'd1;
  localparam logic [3:0] Look = 4'd2;
  localparam logic [3:0] Pass = 4'd3;
  localparam logic [3:0] Type = 4'd4;
  localparam logic [3:0] Get = 4'd5;
  localparam logic [3:0] Word = 4'd6;
  localparam logic [3:0] Fetch = 4'd7;
  localparam logic [3:0] Settle = 4'd8;
  localparam logic [3:0] Byte = 4'd9;
  localparam logic [3:0] Finish = 4'd10;

`ifndef SYNTHESIS
  initial begin
    if (CAPTURE_SLOTS < 2 || CAPTURE_SLOTS > 256 || 2 ** $clog2(CAPTURE_SLOTS) != CAPTURE_SLOTS) begin
      $fatal(1, "uart_reports: CAPTURE_SLOTS must be a power of two from 2 to 256");
    end
    if (AXIL_ADDR_W < 9) $fatal(1, "uart_reports: AXIL_ADDR_W must be at least 9");
  end
`endif

  logic [3:0] state_q;
  logic [2:0] turn_q;
  logic [2:0] step_q;  // words sent, or written by Lay
  logic [1:0] byte_q;  // of the word
  logic [7:0] index_q;  // of the frame
  logic [31:0] word_q;
  logic [31:0] ring_tail_q;
  logic [31:0] departure_q;
  logic credit_due_q;
  logic take, last_word;

  assign take      = m_axis_tvalid && m_axis_tready;
  assign last_word = step_q == (turn_q == Events ? EventWords : CreditWords) - 1'b1;

  // ---- register accesses ---------------------------------------------------------------------------------------------

  always_comb begin
    axil_addr  = AddrRingTail;
    axil_wdata = ring_tail_q + 1'b1;
    case (state_q)
      Lay:
      case (step_q)
        3'd0:    {axil_addr, axil_wdata} = {AddrRingBase, RingBase};
        3'd1:    {axil_addr, axil_wdata} = {AddrRingBase + AXIL_ADDR_W'(4), 32'd0};
        3'd2:    {axil_addr, axil_wdata} = {AddrRingSize, RingSize};
        3'd3:    {axil_addr, axil_wdata} = {AddrPlayBase, PlayBase};
        3'd4:    {axil_addr, axil_wdata} = {AddrPlayBase + AXIL_ADDR_W'(4), 32'd0};
        default: {axil_addr, axil_wdata} = {AddrPlaySize, PlaySize};
      endcase
      Look:
      case (turn_q)
        Events:  axil_addr = AddrEventKind;
        Credits: axil_addr = AddrPlayTail;
        Frames:  axil_addr = AddrRingHead;
        Status:  axil_addr = AddrStatus;
        default: axil_addr = AddrFaults;
      endcase
      Get: axil_addr = AddrEventNs + AXIL_ADDR_W'({step_q, 2'b00});
      default: if (turn_q == Events) {axil_addr, axil_wdata} = {AddrEventPop, 32'd1};
    endcase
  end

  assign axil_valid = state_q == Lay || state_q == Look || (state_q == Get && turn_q == Events) || state_q == Finish;
  assign axil_write = state_q == Lay || state_q == Finish;

  // ---- one packet after the other ------------------------------------------------------------------------------------

  always_ff @(posedge clk) begin
    if (rst) begin
      state_q      <= Lay;
      turn_q       <= Replies;
      step_q       <= '0;
      byte_q       <= '0;
      index_q      <= '0;
      word_q       <= '0;
      ring_tail_q  <= '0;
      departure_q  <= '0;
      credit_due_q <= 1'b0;
      play_tail    <= '0;
      alive        <= 1'b0;
      speech       <= 1'b0;
      playing      <= 1'b0;
      fault        <= 1'b0;
      frames_sent  <= '0;
      events_sent  <= '0;
    end else begin
      if (started) departure_q <= cycles + 1'b1;  // the start bit is on the line in the clock that follows
      if (credit_due) credit_due_q <= 1'b1;
      case (state_q)
        Lay:
        if (axil_ready) begin
          step_q <= step_q + 1'b1;
          if (step_q == 3'd5) state_q <= Wait;
        end
        Wait: begin
          step_q  <= '0;
          index_q <= '0;
          if (turn_q == Replies) begin
            if (s_axis_tvalid && idle) state_q <= Pass;
            else if (idle) turn_q <= Events;
          end else if (idle) begin
            state_q <= Look;
          end
        end
        Look:
        if (axil_ready) begin
          state_q <= Wait;
          turn_q  <= turn_q == Faults ? Replies : turn_q + 1'b1;
          case (turn_q)
            Events:
            if (axil_rdata[15:8] != '0) begin
              state_q <= Type;
              turn_q  <= turn_q;
            end
            Credits: begin
              play_tail <= axil_rdata;
              if (credit_due_q || axil_rdata != play_tail) begin
                state_q      <= Type;
                turn_q       <= turn_q;
                credit_due_q <= credit_due;
              end
            end
            Frames:
            if (axil_rdata != ring_tail_q) begin
              state_q <= Type;
              turn_q  <= turn_q;
            end
            Status:  {alive, playing, speech} <= axil_rdata[3:1];
            default: fault <= axil_rdata != '0;
          endcase
        end
        Pass:
        if (take && m_axis_tlast) begin
          state_q <= Wait;
          turn_q  <= Events;
        end
        Type:   if (take) state_q <= turn_q == Frames ? Fetch : Get;
        Get: begin
          byte_q <= '0;
          if (turn_q == Credits) begin
            word_q  <= step_q == '0 ? play_head : play_tail;
            state_q <= Word;
          end else if (axil_ready) begin
            // The kind leaves 16 bits for the event's number.
            word_q  <= last_word ? {events_sent, axil_rdata[15:0]} : axil_rdata;
            state_q <= Word;
          end
        end
        Word:
        if (take) begin
          word_q <= word_q >> 8;
          byte_q <= byte_q + 1'b1;
          if (byte_q == '1) begin
            step_q <= step_q + 1'b1;
            if (!last_word) state_q <= Get;
            else if (turn_q == Events) state_q <= Finish;
            else begin
              state_q <= Wait;
              turn_q  <= Frames;
            end
          end
        end
        Fetch:  state_q <= Settle;
        Settle: state_q <= Byte;
        Byte:
        if (take) begin
          index_q <= index_q + 1'b1;
          state_q <= m_axis_tlast ? Finish : Fetch;
        end
        default:
        if (axil_ready) begin
          state_q <= Wait;
          turn_q  <= turn_q + 1'b1;
          if (turn_q == Events) begin
            events_sent <= events_sent + 1'b1;
          end else begin
            frames_sent <= frames_sent + 1'b1;
            ring_tail_q <= ring_tail_q + 1'b1;
          end
        end
      endcase
    end
  end

  // ---- bytes ---------------------------------------------------------------------------------------------------------

  logic [7:0] type_byte;
  assign type_byte = turn_q == Events ? TypeEvent : turn_q == Credits ? TypeCredit : TypeFrame;

  always_comb begin
    m_axis_tvalid = state_q == Type || state_q == Word || state_q == Byte;
    m_axis_tdata  = type_byte;
    m_axis_tlast  = 1'b0;
    case (state_q)
      Pass: begin
        m_axis_tvalid = s_axis_tvalid;
        m_axis_tdata  = s_axis_stamp ? 8'(departure_q >> {s_axis_tdata[1:0], 3'd0}) : s_axis_tdata;
        m_axis_tlast  = s_axis_tlast;
      end
      Word: begin
        m_axis_tdata = word_q[7:0];
        m_axis_tlast = last_word && byte_q == '1;
      end
      Byte: begin
        m_axis_tdata = capture_data;
        m_axis_tlast = index_q == LastFrameByte;
      end
      default: ;
    endcase
  end

  assign s_axis_tready   = state_q == Pass && m_axis_tready;
  assign capture_address = 16'({ring_tail_q[$clog2(CAPTURE_SLOTS)-1:0], index_q});

endmodule
