// Noise reduction: a filter in the path, and beside it the estimate that designs the filter anew each hop.
//
//   sample ──┬─► filter ──────────────────────────────► sample, 30 samples late
//            │     ▲ taps
//            └─► analysis ─► noise ─► gain ─► design       (after each hop of 64 samples)
//                 levels   ratios   gains
//                            └─► bins, for the vad
//
// Hop k is the samples 64k to 64k+63 since reset. Its design fades in at the samples 32 to 47 of the next hop. A hop whose
// design is not there when its fade must begin keeps the filter before it (`hop_overrun`), and a hop that ends while the
// adaptation still works on an earlier one is not analysed. Neither happens at 256 clocks or more a sample.
//
// With `bypass` the gains are 1, which designs an exact delay, and the estimate goes on: switching fades like any other
// change of the filter.

module denoiser #(
    // Width of tuser
    parameter int USER_W  = 64,
    // Folder of the tables, with a closing slash
    parameter     FILTERS = "fpga/filters/"
) (
    input  logic              clk,
    input  logic              rst,
    // input samples
    input  logic [      15:0] s_axis_tdata,
    input  logic [USER_W-1:0] s_axis_tuser,
    input  logic              s_axis_tvalid,
    output logic              s_axis_tready,
    // output samples; tuser is that of the input sample that pushed the output out
    output logic [      15:0] m_axis_tdata,
    output logic [USER_W-1:0] m_axis_tuser,
    output logic              m_axis_tvalid,
    input  logic              m_axis_tready,
    // settings, taken at the end of a hop: see the registers DENOISE_* in frontend.rdl
    input  logic              bypass,
    input  logic [      15:0] floor,
    input  logic [      15:0] oversubtraction,
    input  logic [      15:0] smoothing,
    // the bins 0 to 64 of a hop that was analysed: power, and the noise in it, log2 in Q6.10
    output logic              bin_valid,
    output logic [       6:0] bin_index,
    output logic [      15:0] bin_level,
    output logic [      15:0] bin_noise,
    // a hop's design was not there in time
    output logic              hop_overrun,
    // the next clock changes something
    output logic              busy
);

  localparam logic [5:0] LastSample = 6'd63;
  localparam logic [5:0] FadeFrom = 6'd31;  // the sample before the first that a new design filters
  localparam logic [5:0] FadeTo = 6'd46;

  // ---- the grid ------------------------------------------------------------------------------------------------------

  logic accept, hop_end, start, design_done;
  logic [5:0] index_q;  // of the next sample in its hop
  logic heard_q;  // a hop has ended
  logic working_q;  // from the end of a hop until its design is there
  logic late_q;  // another hop has ended since
  logic ready_q;  // the last hop's design is there
  logic fading_q, fade, fade_first;

  assign accept     = s_axis_tvalid && s_axis_tready;
  assign hop_end    = accept && index_q == LastSample;
  assign start      = hop_end && !working_q;
  assign fade_first = index_q == FadeFrom && ready_q;
  assign fade       = fade_first || fading_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      index_q     <= '0;
      heard_q     <= 1'b0;
      working_q   <= 1'b0;
      late_q      <= 1'b0;
      ready_q     <= 1'b0;
      fading_q    <= 1'b0;
      hop_overrun <= 1'b0;
    end else begin
      working_q   <= start || (working_q && !design_done);
      late_q      <= !start && (late_q || hop_end);
      ready_q     <= !hop_end && (ready_q || (design_done && !late_q));
      hop_overrun <= accept && index_q == FadeFrom && heard_q && !ready_q;
      if (accept) begin
        index_q  <= index_q + 1'b1;
        heard_q  <= heard_q || hop_end;
        fading_q <= fade && index_q != FadeTo;
      end
    end
  end

  // ---- settings ------------------------------------------------------------------------------------------------------

  logic bypass_q;
  logic [15:0] floor_q, oversubtraction_q, smoothing_q;

  always_ff @(posedge clk) begin
    if (start) begin
      bypass_q          <= bypass;
      floor_q           <= floor;
      oversubtraction_q <= oversubtraction;
      smoothing_q       <= smoothing;
    end
  end

  // ---- the path ------------------------------------------------------------------------------------------------------

  logic tap_valid, filter_busy;
  logic [ 4:0] tap_index;
  logic [15:0] tap;

  denoise_filter #(
      .USER_W(USER_W)
  ) filter (
      .clk,
      .rst,
      .s_axis_tdata,
      .s_axis_tuser,
      .s_axis_tvalid,
      .s_axis_tready,
      .m_axis_tdata,
      .m_axis_tuser,
      .m_axis_tvalid,
      .m_axis_tready,
      .tap_valid,
      .tap_index,
      .tap,
      .step      (fade),
      .step_first(fade_first),
      .busy      (filter_busy)
  );

  // ---- the adaptation ------------------------------------------------------------------------------------------------

  logic level_valid, level_ready, ratio_valid, ratio_ready, gain_valid;
  logic gain_factors_valid, design_factors_valid;
  logic [6:0] level_index, ratio_index, gain_index;
  logic [15:0] level, gain;
  logic signed [14:0] ratio;
  logic [14:0] cap;
  logic [17:0] gain_x, gain_y, design_x, design_y;
  logic [35:0] product;
  logic analysis_busy, noise_busy, gain_busy, design_busy, multiplier_busy;

  denoise_analysis #(
      .FILTERS(FILTERS)
  ) ear (
      .clk,
      .rst,
      .sample      (s_axis_tdata),
      .sample_valid(accept),
      .start,
      .level_valid,
      .level_ready,
      .level_index,
      .level,
      .busy        (analysis_busy)
  );

  denoise_noise noise (
      .clk,
      .rst,
      .oversubtraction(oversubtraction_q),
      .level_valid,
      .level_ready,
      .level_index,
      .level,
      .ratio_valid,
      .ratio_ready,
      .ratio_index,
      .ratio,
      .cap,
      .bin_valid,
      .bin_index,
      .bin_level,
      .bin_noise,
      .busy           (noise_busy)
  );

  denoise_gain #(
      .FILTERS(FILTERS)
  ) gain_rule (
      .clk,
      .rst,
      .bypass       (bypass_q),
      .floor        (floor_q),
      .smoothing    (smoothing_q),
      .ratio_valid,
      .ratio_ready,
      .ratio_index,
      .ratio,
      .cap,
      .factors_valid(gain_factors_valid),
      .factor_x     (gain_x),
      .factor_y     (gain_y),
      .product,
      .gain_valid,
      .gain_index,
      .gain,
      .busy         (gain_busy)
  );

  denoise_design #(
      .FILTERS(FILTERS)
  ) designer (
      .clk,
      .rst,
      .gain_valid,
      .gain_index,
      .gain,
      .factors_valid(design_factors_valid),
      .factor_x     (design_x),
      .factor_y     (design_y),
      .product,
      .tap_valid,
      .tap_index,
      .tap,
      .done         (design_done),
      .busy         (design_busy)
  );

  denoise_multiplier multiplier (
      .clk,
      .a_valid(gain_factors_valid),
      .a_x    (gain_x),
      .a_y    (gain_y),
      .b_valid(design_factors_valid),
      .b_x    (design_x),
      .b_y    (design_y),
      .product,
      .busy   (multiplier_busy)
  );

  assign busy = filter_busy || analysis_busy || noise_busy || gain_busy || design_busy || multiplier_busy ||
      hop_overrun;

endmodule
