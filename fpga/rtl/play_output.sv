// Plays the buffered slots: one DAC sample a tick, tickets, and what is reported about them.
//
// A tick walks once through the states; an input sample is needed at every third tick (16 kHz) or second (24 kHz):
//
//   wait ─tick─► look ─► fetch ─► push ─► close ─► level ─► take ─► wait
//                  └── zeros: a gap, or the filter's tail ──┘
//
// look   decides what this tick hands to the filter: a sample, a zero, or nothing
// push   hands it over; the first sample of a ticket is an event
// close  the last sample of a ticket is an event
// level  running low is an event
// take   the filter's output goes to the DAC
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
  localparam logic [31:0] SlotSamples = 32'd120;

  typedef enum logic [2:0] {
    StWait,
    StLook,
    StFetch,
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

  // ---- what the front slot is -------------------------------------------------------------------------------------

  logic [31:0] head_ticket, head_position, head_number, head_age;
  logic [6:0] head_n;
  logic head_rate, head_first, head_last, playable, other_ticket;

  assign head_ticket   = slot_data[31:0];
  assign head_position = slot_data[63:32];
  assign head_rate     = slot_data[64];
  assign head_first    = slot_data[72];
  assign head_last     = slot_data[73];
  assign head_n        = slot_data[86:80];
  assign head_number   = slot_data[127:96];

  assign head_age      = released - head_number;
  assign playable      = slot_valid && head_age != '0 && !head_age[31];
  assign other_ticket  = head_first || head_ticket != ticket_q;

  assign slot_beat     = in_slot_q ? 4'd1 + index_q[6:3] : 4'd0;
  assign used          = in_slot_q ? index_q : 7'd0;

  // ---- decisions of a tick ----------------------------------------------------------------------------------------

  logic stop_now, new_input, tail_zero, from_slot, from_head, starve;
  logic end_by_other, hold, orphan, wrong_rate, end_empty, enter, opens, closes;

  always_comb begin
    stop_now     = stopping_q && (!playing_q || fade_q > FadeTicks);
    new_input    = state_q == StLook && !stop_now && phase_q == '0;
    tail_zero    = new_input && !open_q && tail_q != '0;
    from_slot    = new_input && in_slot_q;
    from_head    = new_input && !tail_zero && !in_slot_q && playable;
    // The front slot, in the order in which its faults are looked for.
    end_by_other = from_head && open_q && other_ticket;
    hold         = from_head && !open_q && stopping_q;
    orphan       = from_head && !open_q && !stopping_q && !head_first;
    wrong_rate   = from_head && open_q && !other_ticket && head_rate != rate_q;
    end_empty    = from_head && !end_by_other && !hold && !orphan && !wrong_rate && head_n == '0;
    enter        = from_head && !end_by_other && !hold && !orphan && !wrong_rate && head_n != '0;
    opens        = (enter || end_empty) && !open_q;
    closes       = end_by_other || end_empty;
    // A ticket that is open and has no sample now: a gap.
    starve       = (new_input && !tail_zero && !in_slot_q && !playable && open_q) || wrong_rate;
  end

  assign flush = state_q == StLook && stop_now;
  assign bad_slot = wrong_rate || (orphan && !stopped_q);

  // ---- filter and gain --------------------------------------------------------------------------------------------

  logic push_valid, push_ready, pushed, take, filter_busy, gain_busy;
  logic filtered_valid, filtered_ready;
  logic [15:0] push_data, filtered;

  assign push_valid     = state_q == StPush;
  assign push_data      = zero_q ? 16'd0 : slot_data[{index_q[2:0], 4'd0}+:16];
  assign pushed         = push_valid && push_ready;
  assign take           = state_q == StTake && (silent_q || filtered_valid);
  assign filtered_ready = state_q == StTake && !silent_q;

  play_interpolator #(
      .COEF_16K(COEF_16K),
      .COEF_24K(COEF_24K)
  ) interpolator (
      .clk,
      .rst,
      .clear        (opens || flush),
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
  logic [31:0] waiting;

  assign slot_ends = index_q + 1'b1 == n_q;
  assign heard     = fade_q <= FadeHeard;
  assign slot_pop  = (pushed && !zero_q && slot_ends) || orphan || wrong_rate || end_empty;

  // Samples not yet handed over, as far as slots have been released; a slot that was not begun counts in full.
  assign waiting   = (in_slot_q ? 32'(n_q - index_q) : 32'd0) + SlotSamples * (released - next_q);
  assign low       = waiting < 32'(low_water_q);

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
    end else begin
      case (state_q)
        StWait:
        if (tick) begin
          state_q    <= StLook;
          stopping_q <= stop_pending;
          low_water_q <= low_water;
          dac_ns_q   <= tick_ns + 64'(delay_ns);
          if (stop_pending && playing_q) fade_q <= fade_q + 1'b1;
        end

        StLook: begin
          state_q  <= StClose;
          silent_q <= 1'b1;
          zero_q   <= 1'b0;
          close_q  <= closes;
          if (stop_now) begin
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
            state_q  <= enter ? StFetch : StPush;
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
          if (slot_pop || enter) next_q <= head_number + 1'b1;
          if (enter) begin
            in_slot_q       <= 1'b1;
            index_q         <= '0;
            n_q             <= head_n;
            last_q          <= head_last;
            slot_position_q <= head_position;
          end
          if (opens) begin
            stopped_q  <= 1'b0;
            ticket_q   <= head_ticket;
            position_q <= head_position;
            heard_ns_q <= dac_ns_q;
          end
          if (enter && !open_q) begin
            open_q    <= 1'b1;
            playing_q <= 1'b1;
            rate_q    <= head_rate;
            first_q   <= 1'b1;
            gap_q     <= 1'b0;
            armed_q   <= 1'b0;
          end
        end

        StFetch: state_q <= StPush;

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
        end

        StLevel: begin
          state_q <= StTake;
          if (open_q) armed_q <= !low;
        end

        default: if (take) state_q <= StWait;
      endcase
    end
  end

  // ---- events -----------------------------------------------------------------------------------------------------

  logic now;
  assign event_ticket = ticket_q;
  assign event_ns     = now ? dac_ns_q : heard_ns_q;

  always_comb begin
    event_push     = 1'b0;
    event_kind     = KindFirst;
    event_position = position_q;
    now            = 1'b1;
    case (state_q)
      StLook:
      if (flush) begin
        event_push = 1'b1;
        event_kind = KindStopped;
        now        = 1'b0;
      end else begin
        event_push = starve && !gap_q && !stopping_q;
        event_kind = KindUnderrun;
      end
      StPush: begin
        event_push     = pushed && !zero_q && first_q;
        event_position = slot_position_q;
      end
      StClose: begin
        event_push = close_q && heard;
        event_kind = KindLast;
        now        = 1'b0;
      end
      StLevel: begin
        event_push = open_q && armed_q && low && !(in_slot_q && last_q);
        event_kind = KindLowWater;
      end
      default: ;
    endcase
  end

  assign playing = playing_q;
  assign busy    = state_q != StWait || filter_busy || gain_busy;

endmodule
