// The noise reduction's memory: follows the noise under each of 65 bins, and says how far each level lies over it.
//
// The noise is the least smoothed level of the last four to five buckets of hops (minimum statistics, Martin, IEEE Trans.
// Speech Audio Proc. 9(5), 2001). The smoothing rises fast and falls slowly. Noise far under the peak of the speech is
// hidden by it and counts for less. The lowest bins may be rumble, which comes and goes faster than the minimum sees: what
// is heard in bin 0, under every voice, is followed slowly, where it is louder than bin 1; and the peak over it says how
// much `cap` leaves of bins 0 to 3. Levels are log2 of a power in Q6.10.
//
// A bin's state is five words of one memory: {smoothed, least of this bucket}, and the least of four buckets before, a
// ring in which the oldest is replaced. The sixth keeps what the vad is told when all bins are done.
//
//   clock  0         1        2          3              4       5    6    7       8                   9          10
//   level, words ─► read ─► smoothed ─► least, past 0, past 1, 2, 3 ─► noise ─► hidden, difference ─► their sum ─► ratio

module denoise_noise #(
    // Hops in a bucket; 2 to 127
    parameter int BUCKET = 96
) (
    input  logic               clk,
    input  logic               rst,
    // log2 in Q6.10, added to the noise in what `ratio` says
    input  logic        [15:0] oversubtraction,
    // levels, in the order of the bins 0, 64, 1, 63, .. 31, 33, 32
    input  logic               level_valid,
    output logic               level_ready,
    input  logic        [ 6:0] level_index,
    input  logic        [15:0] level,
    // how far they are over the noise, Q6.10, from -10 to under 9, in the same order
    output logic               ratio_valid,
    input  logic               ratio_ready,
    output logic        [ 6:0] ratio_index,
    output logic signed [14:0] ratio,
    // the most that the speech in them may be over the noise, log2 in Q6.10, of a ratio in Q9.8
    output logic        [14:0] cap,
    // when all are done: level and noise of the bins 0 to 64
    output logic               bin_valid,
    output logic        [ 6:0] bin_index,
    output logic        [15:0] bin_level,
    output logic        [15:0] bin_noise,
    // the next clock changes something
    output logic               busy
);

`ifndef SYNTHESIS
  initial if (BUCKET < 2 || BUCKET > 127) $fatal(1, "denoise_noise: BUCKET must be 2 to 127");
`endif

  // As in sim/golden/denoiser.py, which says why.
  localparam logic [15:0] NothingHeard = 16'hFFFF;
  localparam logic [15:0] Silence = 16'd4096;
  localparam int Rise = 2;
  localparam int Fall = 4;
  localparam logic [15:0] HeadStart = 16'd2048;
  localparam logic [15:0] Bias = 16'd0;
  localparam logic [15:0] Mask = 16'd12926;
  localparam logic signed [17:0] MaskMost = 18'sd4096;
  localparam int PeakRise = 3;
  localparam logic [15:0] PeakFall = 16'd4;
  localparam int RumbleRise = 5;
  localparam logic [15:0] RumbleFall = 16'd8;
  localparam logic [6:0] Low = 7'd4;  // bins that may be rumble
  localparam logic signed [17:0] RatioOf1 = 18'sd8192;
  localparam logic signed [17:0] RumbleSkirt0 = 18'sd8504;
  localparam logic signed [17:0] RumbleSkirt1 = 18'sd6123;
  localparam logic signed [17:0] RumbleSkirt2 = 18'sd3742;
  localparam logic signed [17:0] RumbleSkirt3 = 18'sd680;
  localparam logic signed [17:0] RatioLeast = -18'sd10240;
  localparam logic signed [17:0] RatioMost = 18'sd9215;
  localparam logic signed [17:0] NoCap = 18'sd32767;

  localparam logic [6:0] LastBin = 7'd32;  // in the order of the levels
  localparam logic [2:0] SmoothWord = 3'd0;
  localparam logic [2:0] ToldWord = 3'd5;
  localparam logic [3:0] Give = 4'd10;

  // ---- memory --------------------------------------------------------------------------------------------------------

  logic [31:0] memory [512];
  logic [31:0] word_q;
  logic read, write;
  logic [2:0] read_word, write_word;
  logic [ 6:0] read_index;
  logic [31:0] write_data;
  logic [8:0] read_address, write_address;

  logic [3:0] step_q;  // 0: no level
  logic [6:0] index_q;
  logic telling_q;
  logic [6:0] tell_q;

  // Bin 64 lies where no other bin has words.
  assign read_address  = read_index[6] ? {6'o70, read_word} : {read_word, read_index[5:0]};
  assign write_address = index_q[6] ? {6'o70, write_word} : {write_word, index_q[5:0]};

  always_ff @(posedge clk) begin
    if (read) word_q <= memory[read_address];
    if (write) memory[write_address] <= write_data;
  end

  // ---- hops ----------------------------------------------------------------------------------------------------------

  logic take, give, hop_done, bucket_ends;
  logic fresh_q;  // no hop since reset: the memory holds nothing
  logic [6:0] hop_q;  // of the bucket
  logic [1:0] oldest_q;  // bucket that this one replaces
  logic [2:0] filled_q;  // buckets since reset, at most 4

  assign take        = level_valid && level_ready;
  assign give        = ratio_valid && ratio_ready;
  assign hop_done    = give && index_q == LastBin;
  assign bucket_ends = hop_q == 7'(BUCKET - 1);

  always_ff @(posedge clk) begin
    if (rst) begin
      fresh_q  <= 1'b1;
      hop_q    <= '0;
      oldest_q <= '0;
      filled_q <= '0;
    end else if (hop_done) begin
      fresh_q <= 1'b0;
      hop_q   <= bucket_ends ? '0 : hop_q + 1'b1;
      if (bucket_ends) begin
        oldest_q <= oldest_q + 1'b1;
        if (!filled_q[2]) filled_q <= filled_q + 1'b1;
      end
    end
  end

  // ---- a bin's steps -------------------------------------------------------------------------------------------------

  logic [15:0] level_q, smoothed_q, least_q, recalled_q, past_q, noise_q;
  logic heard;
  logic [15:0] moved, past_word, quietest;
  logic signed [16:0] climb;
  logic [2:0] past_slot;
  logic [16:0] biased;

  // Digital silence is no room: it moves nothing.
  assign heard = level_q >= Silence;
  assign climb = 17'(level_q) - 17'(smoothed_q);
  assign moved = smoothed_q == '0 ? level_q + HeadStart :
      16'(smoothed_q + 16'(climb > 17'sd0 ? climb >>> Rise : climb >>> Fall));
  assign past_slot = 3'(step_q - 4'd3);
  assign past_word = past_slot < filled_q ? recalled_q : NothingHeard;
  assign quietest = past_q < least_q ? past_q : least_q;
  assign biased = 17'(quietest) + 17'(Bias);

  always_ff @(posedge clk) begin
    if (rst) step_q <= '0;
    else if (take) step_q <= 4'd1;
    else if (give) step_q <= '0;
    else if (step_q != '0 && step_q != Give) step_q <= step_q + 1'b1;
    if (take) begin
      level_q <= level;
      index_q <= level_index;
    end
    if (step_q != '0) recalled_q <= word_q[15:0];
    case (step_q)
      4'd1: begin
        smoothed_q <= fresh_q ? '0 : word_q[31:16];
        least_q    <= fresh_q ? NothingHeard : word_q[15:0];
      end
      4'd2: if (heard) smoothed_q <= moved;
      4'd3: begin
        past_q <= past_word;
        if (heard && smoothed_q < least_q) least_q <= smoothed_q;
      end
      4'd4, 4'd5, 4'd6: if (past_word < past_q) past_q <= past_word;
      4'd7: noise_q <= biased[16] ? NothingHeard : biased[15:0];
      default: ;
    endcase
  end

  // ---- the peak of the speech, and the rumble ------------------------------------------------------------------------

  logic [15:0] peak_q, rumble_q;
  logic [15:0] loudest_q;  // of this hop, for the peak of the next
  logic [15:0] lowest_q;  // bin 0 of this hop, or nothing where bin 1 is as loud

  always_ff @(posedge clk) begin
    if (rst) begin
      peak_q    <= '0;
      rumble_q  <= '0;
      loudest_q <= '0;
      lowest_q  <= '0;
    end else begin
      if (step_q == 4'd2 && index_q == 7'd0) lowest_q <= level_q;
      if (step_q == 4'd2 && index_q == 7'd1 && level_q >= lowest_q) lowest_q <= '0;
      if (step_q == 4'd2 && index_q >= Low && level_q > loudest_q) loudest_q <= level_q;
      if (hop_done) begin
        loudest_q <= '0;
        if (loudest_q > peak_q) peak_q <= peak_q + ((loudest_q - peak_q) >> PeakRise);
        else peak_q <= peak_q > PeakFall ? peak_q - PeakFall : '0;
        if (lowest_q > rumble_q) rumble_q <= rumble_q + ((lowest_q - rumble_q) >> RumbleRise);
        else rumble_q <= rumble_q > RumbleFall ? rumble_q - RumbleFall : '0;
      end
    end
  end

  // ---- the level over the noise --------------------------------------------------------------------------------------

  logic signed [17:0] shadow_q;  // the level that the peak hides
  logic signed [17:0] hidden, hidden_q, difference_q, skirt, cap_q;
  logic [1:0] skirt_index;

  assign hidden      = shadow_q - 18'(noise_q);
  assign skirt_index = index_q[1:0];

  always_comb begin
    case (skirt_index)
      2'd0: skirt = RumbleSkirt0;
      2'd1: skirt = RumbleSkirt1;
      2'd2: skirt = RumbleSkirt2;
      default: skirt = RumbleSkirt3;
    endcase
  end

  always_ff @(posedge clk) begin
    case (step_q)
      4'd7:    shadow_q <= 18'(peak_q) - 18'(Mask);
      4'd8: begin
        hidden_q     <= hidden < 18'sd0 ? '0 : hidden > MaskMost ? MaskMost : hidden;
        difference_q <= 18'(level_q) - 18'(noise_q) - 18'(oversubtraction);
        cap_q        <= 18'(peak_q) - 18'(rumble_q);
      end
      4'd9: begin
        difference_q <= difference_q + hidden_q;
        cap_q        <= cap_q + (RatioOf1 - skirt);
      end
      default: ;
    endcase
  end

  always_comb begin
    ratio = 15'(difference_q);
    if (difference_q < RatioLeast) ratio = 15'(RatioLeast);
    if (difference_q > RatioMost) ratio = 15'(RatioMost);
    cap = 15'(cap_q);
    if (cap_q < 18'sd0) cap = '0;
    if (cap_q > NoCap || index_q >= Low) cap = 15'(NoCap);
  end

  assign level_ready = step_q == '0;
  assign ratio_valid = step_q == Give;
  assign ratio_index = index_q;

  // ---- what is written, and read for the vad -------------------------------------------------------------------------

  // Word 0 goes back in step 4, the end of a bucket in step 5, what is told in step 9.
  assign read = take || (step_q != '0 && step_q < 4'd5) || telling_q;
  assign read_word = telling_q ? ToldWord : step_q[2:0];
  assign read_index = telling_q ? tell_q : take ? level_index : index_q;
  assign write = step_q == 4'd4 || (step_q == 4'd5 && bucket_ends) || step_q == 4'd9;

  assign write_word = step_q == 4'd5 ? {1'b0, oldest_q} + 3'd1 : step_q == 4'd4 ? SmoothWord : ToldWord;
  assign write_data = step_q == 4'd5 ? {16'd0, least_q} :
      step_q == 4'd4 ? {smoothed_q, bucket_ends ? NothingHeard : least_q} : {level_q, noise_q};

  always_ff @(posedge clk) begin
    if (rst) begin
      telling_q <= 1'b0;
      tell_q    <= '0;
      bin_valid <= 1'b0;
      bin_index <= '0;
    end else begin
      bin_valid <= telling_q;
      if (telling_q) begin
        bin_index <= tell_q;
        tell_q    <= tell_q == 7'd64 ? '0 : tell_q + 1'b1;
      end
      telling_q <= hop_done || (telling_q && tell_q != 7'd64);
    end
  end

  assign {bin_level, bin_noise} = word_q;
  assign busy = level_valid || step_q != '0 || telling_q || bin_valid;

endmodule
