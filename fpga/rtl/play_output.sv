// Plays the buffered slots: one DAC sample a tick, tickets, and what is reported about them.
//
// A tick walks once through the states; an input sample is needed at every third tick (16 kHz) or second (24 kHz):
//
//   wait ─tick─► look ─► decide ─► push ─► close ─► level ─► take ─► wait
//                          └─ no new input ─┘
//
// look    compares the front slot with what is open
// decide  what this tick hands to the filter: a sample, a zero, or nothing
// push    hands it over; the first sample of a ticket is an event
// close   the last sample of a ticket is an event
// level   counts what is left
// take    the filter's output goes to the DAC; running low is an event
//
// All decisions are made at ticks, on slots whose release time has come, never on when memory happened to answer.

module play_output #(
    // Coefficient tables, see fpga/filters
    parameter COEF_16K = "",
    parameter COEF_24K = ""
) (
    input  logic         clk,
    input  logic         rst,
    // 48 kHz and its media time, ns
    input  logic         tick,
    input  logic [ 63:0] tick_ns,
    // from the tick at which a sample is handed to the filter to the air, ns
    input  logic [ 31:0] delay_ns,
    // slots before this count may be played
    input  logic [ 31:0] released,
    // a stop waits to be carried out; it discards the slots before stop_to
    input  logic         stop_pending,
    input  logic [ 31:0] stop_to,
    output logic         flush,
    input  logic [ 15:0] gain,
    input  logic [ 15:0] low_water,
    // front slot of the buffer
    input  logic         slot_valid,
    output logic [  3:0] slot_beat,
    input  logic [127:0] slot_data,
    output logic         slot_pop,
    output logic         bad_slot,
    // samples of the front slot that are gone
    output logic [  6:0] used,
    output logic         playing,
    output logic [ 15:0] m_axis_dac_tdata,
    output logic         m_axis_dac_tvalid,
    // events
    output logic         event_push,
    output logic [  7:0] event_kind,
    output logic [ 63:0] event_ns,
    output logic [ 31:0] event_ticket,
    output logic [ 31:0] event_position,
    output logic         busy
);

  localparam logic [7:0] KindFirst = 8'd0;
  localparam logic [7:0] KindLast = 8'd1;
  localparam logic [7:0] KindUnderrun = 8'd2;
  localparam logic [7:0] KindStopped = 8'd3;
  localparam logic [7:0] KindLowWater = 8'd4;

  // Zeros after the last sample that bring out the rest of a 57-tap response: floor(56 / L).
  localparam logic [4:0] Tail16k = 5'd18;
  localparam logic [4:0] Tail24k = 5'd28;
  // Ticks of the ramp of a stop. A sample that enters the filter less than the filter's delay (28 ticks) before the
  // end of the ramp is not heard.
  localparam logic [6:0] FadeTicks = 7'd96;
  localparam logic [6:0] FadeHeard = 7'd68;

  typedef enum logic [2:0] {
    StWait,
    StLook,
    StDecide,
    StPush,
    StClose,
    StLevel,
    StTake
  } state_e;

  state_e state_q;
  logic stopping_q;  // stop_pending at the tick
  logic [15:0] low_water_q;  // low_water at the tick
  logic [63:0] dac_ns_q;  // when a sample handed over at this tick is heard
  logic [6:0] fade_q;  // ticks of the ramp so far

  // ticket
  logic open_q;  // its last sample has not been handed over
  logic playing_q;  // and neither has its tail been
  logic rate_q;
  logic [31:0] ticket_q;
  logic [31:0] position_q;  // samples handed over and heard
  logic [63:0] heard_ns_q;  // when the newest of them is heard
  logic first_q;  // none has been
  logic gap_q;
  logic armed_q;  // was not low
  logic stopped_q;  // a stop ended it: slots that still come for it are no fault
  logic [4:0] tail_q;
  logic [1:0] phase_q;  // ticks that the newest input still serves

  // slot
  logic in_slot_q;
  logic [6:0] index_q, n_q;
  logic last_q;
  logic [31:0] slot_position_q;
  logic [31:0] next_q;  // number of the slot after it

  // this tick
  logic silent_q;  // nothing plays
  logic zero_q;  // a zero is handed over
  logic close_q;  // the ticket ends
  logic [15:0] sample_q;  // what is handed over otherwise
  logic clear_q;  // the filter starts from silence
  logic [31:0] ahead_q;  // slots that were released and not begun
  logic [6:0] left_q;  // samples of the slot that was
  logic [17:0] waiting_q;  // samples of both
  logic plenty_q;  // they are more than any low_water

  // ---- what the front slot is -------------------------------------------------------------------------------------

  // Its header at the tick.
  logic head_valid_q;
  logic [31:0] head_ticket_q, head_position_q, head_number_q;
  logic [6:0] head_n_q;
  logic head_rate_q, head_first_q, head_last_q;
  // Seen by look: it may be played; it is not of the open ticket.
  logic playable_q, other_ticket_q;
  logic stop_now_q, input_due_q;  // and what this tick is for
  logic [31:0] head_early;  // how many slots it is ahead of those released; negative when it is one of them
  logic stop_now;

  assign head_early = head_number_q - released;
  assign stop_now   = stopping_q && (!playing_q || fade_q > FadeTicks);

  always_ff @(posedge clk) begin
    if (rst) begin
      head_valid_q    <= 1'b0;
      head_ticket_q   <= '0;
      head_position_q <= '0;
      head_number_q   <= '0;
      head_n_q        <= '0;
      head_rate_q     <= 1'b0;
      head_first_q    <= 1'b0;
      head_last_q     <= 1'b0;
      playable_q      <= 1'b0;
      other_ticket_q  <= 1'b0;
      stop_now_q      <= 1'b0;
      input_due_q     <= 1'b0;
    end else if (state_q == StWait && tick) begin
      head_valid_q    <= slot_valid;
      head_ticket_q   <= slot_data[31:0];
      head_position_q <= slot_data[63:32];
      head_rate_q     <= slot_data[64];
      head_first_q    <= slot_data[72];
      head_last_q     <= slot_data[73];
      head_n_q        <= slot_data[86:80];
      head_number_q   <= slot_data[127:96];
    end else if (state_q == StLook) begin
      playable_q     <= head_valid_q && head_early[31];
      other_ticket_q <= head_first_q || head_ticket_q != ticket_q;
      stop_now_q     <= stop_now;
      input_due_q    <= !stop_now && phase_q == '0;
    end
  end

  // A slot that is not begun shows its header, and its first samples to decide.
  always_comb begin
    if (in_slot_q) slot_beat = 4'd1 + index_q[6:3];
    else slot_beat = state_q == StLook ? 4'd1 : 4'd0;
  end

  assign used = in_slot_q ? index_q : 7'd0;

  // Only the sign tells.
  logic unused;
  assign unused = ^head_early[30:0];

  // ---- decisions of a tick ----------------------------------------------------------------------------------------

  logic new_input, tail_zero, from_slot, from_head, starve;
  logic end_by_other, hold, orphan, wrong_rate, end_empty, enter, opens, closes;

  always_comb begin
    new_input    = state_q == StDecide && input_due_q;
    tail_zero    = new_input && !open_q && tail_q != '0;
    from_slot    = new_input && in_slot_q;
    from_head    = new_input && !tail_zero && !in_slot_q && playable_q;
    // The front slot, in the order in which its faults are looked for.
    end_by_other = from_head && open_q && other_ticket_q;
    hold         = from_head && !open_q && stopping_q;
    orphan       = from_head && !open_q && !stopping_q && !head_first_q;
    wrong_rate   = from_head && open_q && !other_ticket_q && head_rate_q != rate_q;
    end_empty    = from_head && !end_by_other && !hold && !orphan && !wrong_rate && head_n_q == '0;
    enter        = from_head && !end_by_other && !hold && !orphan && !wrong_rate && head_n_q != '0;
    opens        = (enter || end_empty) && !open_q;
    closes       = end_by_other || end_empty;
    // A ticket that is open and has no sample now: a gap.
    starve       = (new_input && !tail_zero && !in_slot_q && !playable_q && open_q) || wrong_rate;
  end

  assign flush = state_q == StDecide && stop_now_q;
  assign bad_slot = wrong_rate || (orphan && !stopped_q);

  // ---- filter and gain --------------------------------------------------------------------------------------------

  logic push_valid, push_ready, pushed, take, filter_busy, gain_busy;
  logic filtered_valid, filtered_ready;
  logic [15:0] push_data, filtered;

  assign push_valid     = state_q == StPush;
  assign push_data      = zero_q ? 16'd0 : sample_q;
  assign pushed         = push_valid && push_ready;
  assign take           = state_q == StTake && (silent_q || filtered_valid);
  assign filtered_ready = state_q == StTake && !silent_q;

  play_interpolator #(
      .COEF_16K(COEF_16K),
      .COEF_24K(COEF_24K)
  ) interpolator (
      .clk,
      .rst,
      .clear        (clear_q),
      .rate         (rate_q),
      .s_axis_tdata (push_data),
      .s_axis_tvalid(push_valid),
      .s_axis_tready(push_ready),
      .m_axis_tdata (filtered),
      .m_axis_tvalid(filtered_valid),
      .m_axis_tready(filtered_ready),
      .busy         (filter_busy)
  );

  play_gain play_gain (
      .clk,
      .rst,
      .tick,
      .active       (playing_q),
      .fade         (stop_pending && playing_q),
      .fade_first   (fade_q == '0),
      .gain,
      .s_axis_tdata (silent_q ? 16'd0 : filtered),
      .s_axis_tvalid(take),
      .m_axis_tdata (m_axis_dac_tdata),
      .m_axis_tvalid(m_axis_dac_tvalid),
      .busy         (gain_busy)
  );

  // ---- state ------------------------------------------------------------------------------------------------------

  logic slot_ends, heard, low;

  assign slot_ends = index_q + 1'b1 == n_q;
  assign heard     = fade_q <= FadeHeard;
  assign slot_pop  = (pushed && !zero_q && slot_ends) || orphan || wrong_rate || end_empty;

  // Samples not yet handed over, as far as slots have been released; a slot that was not begun counts in full, as 120.
  assign low       = !plenty_q && waiting_q < 18'(low_water_q);

  always_ff @(posedge clk) begin
    if (rst) begin
      state_q         <= StWait;
      stopping_q      <= 1'b0;
      low_water_q     <= '0;
      dac_ns_q        <= '0;
      fade_q          <= '0;
      open_q          <= 1'b0;
      playing_q       <= 1'b0;
      rate_q          <= 1'b0;
      ticket_q        <= '0;
      position_q      <= '0;
      heard_ns_q      <= '0;
      first_q         <= 1'b0;
      gap_q           <= 1'b0;
      armed_q         <= 1'b0;
      stopped_q       <= 1'b0;
      tail_q          <= '0;
      phase_q         <= '0;
      in_slot_q       <= 1'b0;
      index_q         <= '0;
      n_q             <= '0;
      last_q          <= 1'b0;
      slot_position_q <= '0;
      next_q          <= '0;
      silent_q        <= 1'b1;
      zero_q          <= 1'b0;
      close_q         <= 1'b0;
      sample_q        <= '0;
      clear_q         <= 1'b0;
      ahead_q         <= '0;
      left_q          <= '0;
      waiting_q       <= '0;
      plenty_q        <= 1'b0;
    end else begin
      clear_q <= 1'b0;
      case (state_q)
        StWait:
        if (tick) begin
          state_q    <= StLook;
          stopping_q <= stop_pending;
          low_water_q <= low_water;
          dac_ns_q   <= tick_ns + 64'(delay_ns);
          if (stop_pending && playing_q) fade_q <= fade_q + 1'b1;
        end

        StLook: state_q <= StDecide;

        StDecide: begin
          state_q  <= StClose;
          silent_q <= 1'b1;
          zero_q   <= 1'b0;
          close_q  <= closes;
          clear_q  <= opens || flush;
          sample_q <= slot_data[{in_slot_q?index_q[2:0] : 3'd0, 4'd0}+:16];
          if (stop_now_q) begin
            open_q    <= 1'b0;
            playing_q <= 1'b0;
            in_slot_q <= 1'b0;
            tail_q    <= '0;
            phase_q   <= '0;
            fade_q    <= '0;
            stopped_q <= 1'b1;
            next_q    <= stop_to;
          end else if (phase_q != '0) begin
            phase_q  <= phase_q - 1'b1;
            silent_q <= 1'b0;
          end else if (from_slot || enter) begin
            state_q  <= StPush;
            silent_q <= 1'b0;
          end else if (tail_zero || starve || (closes && open_q)) begin
            state_q  <= StPush;
            silent_q <= 1'b0;
            zero_q   <= 1'b1;
          end else begin
            playing_q <= 1'b0;
          end

          if (tail_zero) tail_q <= tail_q - 1'b1;
          else if (closes && open_q) tail_q <= (rate_q ? Tail24k : Tail16k) - 1'b1;

          if (starve) gap_q <= 1'b1;
          if (slot_pop || enter) next_q <= head_number_q + 1'b1;
          if (enter) begin
            in_slot_q       <= 1'b1;
            index_q         <= '0;
            n_q             <= head_n_q;
            last_q          <= head_last_q;
            slot_position_q <= head_position_q;
          end
          if (opens) begin
            stopped_q  <= 1'b0;
            ticket_q   <= head_ticket_q;
            position_q <= head_position_q;
            heard_ns_q <= dac_ns_q;
          end
          if (enter && !open_q) begin
            open_q    <= 1'b1;
            playing_q <= 1'b1;
            rate_q    <= head_rate_q;
            first_q   <= 1'b1;
            gap_q     <= 1'b0;
            armed_q   <= 1'b0;
          end
        end

        StPush:
        if (pushed) begin
          state_q <= StClose;
          phase_q <= rate_q ? 2'd1 : 2'd2;
          if (!zero_q) begin
            first_q <= 1'b0;
            gap_q   <= 1'b0;
            index_q <= index_q + 1'b1;
            if (slot_ends) begin
              in_slot_q <= 1'b0;
              if (last_q) begin
                close_q <= 1'b1;
                tail_q  <= rate_q ? Tail24k : Tail16k;
              end
            end
            if (heard) begin
              position_q <= slot_position_q + 32'(index_q) + 32'd1;
              heard_ns_q <= dac_ns_q;
            end
          end
        end

        StClose: begin
          state_q <= StLevel;
          if (close_q) open_q <= 1'b0;
          ahead_q <= released - next_q;
          left_q  <= in_slot_q ? n_q - index_q : 7'd0;
        end

        StLevel: begin
          state_q   <= StTake;
          waiting_q <= {1'b0, ahead_q[9:0], 7'd0} - {5'd0, ahead_q[9:0], 3'd0} + 18'(left_q);
          plenty_q  <= ahead_q[31:10] != '0;
        end

        default: begin
          if (open_q) armed_q <= !low;
          if (take) state_q <= StWait;
        end
      endcase
    end
  end

  // ---- events -----------------------------------------------------------------------------------------------------

  // What happens is told one clock later. What it happened to stands still until then: registers give its time, ticket
  // and position.
  logic happens, happens_q, now, now_q;
  logic [7:0] kind, kind_q;

  always_comb begin
    happens = 1'b0;
    kind    = KindFirst;
    now     = 1'b1;
    case (state_q)
      StDecide:
      if (flush) begin
        happens = 1'b1;
        kind    = KindStopped;
        now     = 1'b0;
      end else begin
        happens = starve && !gap_q && !stopping_q;
        kind    = KindUnderrun;
      end
      StPush:  happens = pushed && !zero_q && first_q;
      StClose: begin
        happens = close_q && heard;
        kind    = KindLast;
        now     = 1'b0;
      end
      StTake: begin
        happens = open_q && armed_q && low && !(in_slot_q && last_q);
        kind    = KindLowWater;
      end
      default: ;
    endcase
  end

  always_ff @(posedge clk) begin
    if (rst) begin
      happens_q <= 1'b0;
      now_q     <= 1'b0;
      kind_q    <= '0;
    end else begin
      happens_q <= happens;
      if (happens) begin
        now_q  <= now;
        kind_q <= kind;
      end
    end
  end

  assign event_push     = happens_q;
  assign event_kind     = kind_q;
  assign event_ticket   = ticket_q;
  assign event_ns       = now_q ? dac_ns_q : heard_ns_q;
  assign event_position = kind_q == KindFirst ? slot_position_q : position_q;

  assign playing        = playing_q;
  assign busy           = state_q != StWait || happens_q || filter_busy || gain_busy;

endmodule
