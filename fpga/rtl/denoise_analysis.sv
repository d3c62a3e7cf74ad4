// The noise reduction's ear: the power of 65 bins over the last 128 samples, once a hop, as log2 in Q6.10.
//
//   v[m] = (u[m] w[m] + 2^14) >> 15                                        the window, oldest sample first
//   e[n] = v[n] + v[128-n], o[n] = v[n] - v[128-n]                         n = 1..63; e[0] = v[0], e[64] = v[64]
//   Re[k] = sum_n e[n] cos(2 pi k n / 128), Im[k] = sum_n o[n] sin(2 pi k n / 128)
//
// Two multipliers make Re and Im side by side, one pass over n = 0..32 for each k = 0..32. That is a quarter of the work
// that the formulas ask for: the factors of n and 64 - n are the same but for the sign, so these are folded before the
// passes (once for even k and once for odd k); and so are those of k and 64 - k, so the sums over even n and over odd n
// are kept apart: bin k is their sum, and bin 64 - k their difference. (Im[64-k] comes with the other sign; only its size
// matters, and its rounding allows for it.)
//
//   samples ─► [sample, weight ] ─► [operands] ─► [products] ─► v ──► folded memory
//   folded ──► [e, o, cosines  ] ─► [operands] ─► [products] ─► [even and odd sums]
//   bin ───────────────────────────► [operands] ─► [products] ─► level              (a guest, when a bin asks)
//
// While a pass runs, the two bins of the pass before become levels: scaled to 17 bits, squared, and the logarithm taken
// as log2.sv does it. Both multiplications are guests in the pass, which waits a clock for each.

module denoise_analysis #(
    // Folder of the tables, with a closing slash
    parameter FILTERS = "fpga/filters/"
) (
    input  logic        clk,
    input  logic        rst,
    // 16 kHz samples; at least 8 clocks apart
    input  logic [15:0] sample,
    input  logic        sample_valid,
    // with the last sample of a hop: analyse the 128 that end with it; not while the levels of a hop before are due
    input  logic        start,
    // levels, in the order of the bins 0, 64, 1, 63, .. 31, 33, 32
    output logic        level_valid,
    input  logic        level_ready,
    output logic [ 6:0] level_index,
    output logic [15:0] level,
    // the next clock changes something
    output logic        busy
);

  localparam logic [5:0] LastPlace = 6'd32;
  localparam logic [5:0] LastBin = 6'd32;
  localparam logic signed [39:0] Half = 40'sd32768;

  // What a slot of the multipliers is used for.
  localparam logic [1:0] Nothing = 2'd0;
  localparam logic [1:0] Weigh = 2'd1;
  localparam logic [1:0] Term = 2'd2;
  localparam logic [1:0] Guest = 2'd3;

  (* rom_style = "block" *)
  logic [17:0] tables[256];  // a period of a cosine, then the window
  logic signed [15:0] samples[128];
  logic [35:0] folded[128];  // {o, e} for even k, then for odd k

  initial begin
    $readmemh({FILTERS, "cosine_128.hex"}, tables, 0, 127);
    $readmemh({FILTERS, "denoise_window.hex"}, tables, 128, 255);
`ifndef SYNTHESIS
    // Four weighed samples are folded into 18 bits.
    for (int i = 128; i < 256; i++) if (!(tables[i] <= 18'd32768)) $fatal(1, "denoise_analysis: a weight is over 1");
`endif
  end

  // ---- samples -------------------------------------------------------------------------------------------------------

  logic [6:0] newest_q;  // where the next sample goes

  always_ff @(posedge clk) if (sample_valid) samples[newest_q] <= sample;

  always_ff @(posedge clk) begin
    if (rst) newest_q <= '0;
    else if (sample_valid) newest_q <= newest_q + 1'b1;
  end

  // ---- which slot ----------------------------------------------------------------------------------------------------

  logic weigh_q, transform_q;
  logic [5:0] place_q;  // n; one more than the last is a slot that the sums need to themselves
  logic [1:0] corner_q;  // weighing: n, 128 - n, 64 - n, 64 + n
  logic [5:0] bin_q;
  logic [6:0] angle_q;
  logic oldest_q;  // half of the sample memory that holds the oldest samples
  logic heard_q, silence_q;  // a hop has ended; the first half of this analysis lies before the reset
  logic guest, bins_taken, wait_bins, issue_term;

  // A pass does not end before the bins of the one before are on their way.
  assign wait_bins  = place_q == LastPlace && !bins_taken;
  assign issue_term = transform_q && !guest && place_q <= LastPlace && !wait_bins;

  always_ff @(posedge clk) begin
    if (rst) begin
      weigh_q     <= 1'b0;
      transform_q <= 1'b0;
      place_q     <= '0;
      corner_q    <= '0;
      bin_q       <= '0;
      angle_q     <= '0;
      oldest_q    <= 1'b0;
      heard_q     <= 1'b0;
      silence_q   <= 1'b0;
    end else if (start) begin
      weigh_q   <= 1'b1;
      oldest_q  <= !newest_q[6];
      heard_q   <= 1'b1;
      silence_q <= !heard_q;
    end else if (weigh_q) begin
      corner_q <= corner_q + 1'b1;
      if (corner_q == '1) place_q <= place_q == LastPlace ? '0 : place_q + 1'b1;
      if (corner_q == '1 && place_q == LastPlace) begin
        weigh_q     <= 1'b0;
        transform_q <= 1'b1;
      end
    end else if (transform_q && !guest && !wait_bins) begin
      angle_q <= angle_q + 7'(bin_q);
      place_q <= place_q + 1'b1;
      if (place_q > LastPlace) begin
        angle_q     <= '0;
        place_q     <= '0;
        bin_q       <= bin_q == LastBin ? '0 : bin_q + 1'b1;
        transform_q <= bin_q != LastBin;
      end
    end
  end

  // ---- read ----------------------------------------------------------------------------------------------------------

  logic [6:0] span_place, sample_address, sine_angle;
  logic [7:0] table_address;
  logic [1:0] read_kind_q, read_corner_q;
  logic [5:0] read_place_q;
  logic silent_q;
  logic signed [15:0] sample_q;
  logic [35:0] folded_q;
  logic [17:0] table_q, sine_q;

  assign span_place     = {corner_q[1], 6'd0} + (^corner_q ? 7'd0 - 7'(place_q) : 7'(place_q));
  assign sample_address = span_place ^ {oldest_q, 6'd0};
  assign sine_angle     = angle_q - 7'd32;
  assign table_address  = weigh_q ? {1'b1, span_place} : {1'b0, angle_q};

  always_ff @(posedge clk) begin
    if (weigh_q) begin
      sample_q <= samples[sample_address];
      read_corner_q <= corner_q;
      // v[128] does not exist, v[64] has no pair, and v[32] and v[96] are their own partners.
      silent_q      <= (place_q == '0 && corner_q[0]) || (place_q == LastPlace && corner_q[1]) ||
          (silence_q && !span_place[6]);
    end
    if (issue_term) begin
      folded_q <= folded[{bin_q[0], place_q}];
      sine_q   <= tables[{1'b0, sine_angle}];
    end
    if (weigh_q || issue_term) begin
      table_q      <= tables[table_address];
      read_place_q <= place_q;
    end
    if (rst) read_kind_q <= Nothing;
    else if (weigh_q) read_kind_q <= Weigh;
    else if (issue_term) read_kind_q <= Term;
    else read_kind_q <= guest ? Guest : Nothing;
  end

  // ---- multiply ------------------------------------------------------------------------------------------------------

  logic signed [17:0] guest_x, guest_y, guest_z;
  logic signed [17:0] real_x_q, real_y_q, imaginary_x_q, imaginary_y_q;
  logic signed [35:0] real_product_q, imaginary_product_q;
  logic [1:0] operand_kind_q, product_kind_q, operand_corner_q, product_corner_q;
  logic [5:0] operand_place_q, product_place_q;

  always_ff @(posedge clk) begin
    if (rst) begin
      operand_kind_q <= Nothing;
      product_kind_q <= Nothing;
    end else begin
      operand_kind_q <= read_kind_q;
      product_kind_q <= operand_kind_q;
    end
    case (read_kind_q)
      Weigh: begin
        real_x_q <= silent_q ? '0 : 18'(sample_q);
        real_y_q <= $signed(table_q);
      end
      Term: begin
        real_x_q      <= $signed(folded_q[17:0]);
        real_y_q      <= $signed(table_q);
        imaginary_x_q <= $signed(folded_q[35:18]);
        imaginary_y_q <= $signed(sine_q);
      end
      Guest: begin
        real_x_q      <= guest_x;
        real_y_q      <= guest_y;
        imaginary_x_q <= guest_z;
        imaginary_y_q <= guest_z;
      end
      default: ;
    endcase
    if (read_kind_q != Nothing) begin
      operand_place_q  <= read_place_q;
      operand_corner_q <= read_corner_q;
    end
    if (operand_kind_q != Nothing) begin
      real_product_q      <= real_x_q * real_y_q;
      imaginary_product_q <= imaginary_x_q * imaginary_y_q;
      product_place_q     <= operand_place_q;
      product_corner_q    <= operand_corner_q;
    end
  end

  // ---- weighed samples -> folded -------------------------------------------------------------------------------------

  logic signed [35:0] weighed_sum;
  logic signed [17:0] weighed, first_q;  // v[n] waits for v[128-n], v[64-n] for v[64+n]
  logic signed [17:0] near_e_q, near_o_q, far_e_q, far_o_q;  // of n, of 64 - n
  logic fold_even_q, fold_odd_q;
  logic [5:0] fold_place_q;
  logic signed [17:0] folded_e, folded_o;

  assign weighed_sum = real_product_q + 36'sd16384;
  assign weighed     = 18'(weighed_sum >>> 15);
  assign folded_e    = near_e_q + (far_e_q ^ {18{fold_odd_q}}) + 18'(fold_odd_q);
  assign folded_o    = near_o_q + (far_o_q ^ {18{fold_even_q}}) + 18'(fold_even_q);

  always_ff @(posedge clk) begin
    if (product_kind_q == Weigh) begin
      case (product_corner_q)
        2'd1: begin
          near_e_q <= first_q + weighed;
          near_o_q <= first_q - weighed;
        end
        2'd3: begin
          far_e_q      <= first_q + weighed;
          far_o_q      <= first_q - weighed;
          fold_place_q <= product_place_q;
        end
        default: first_q <= weighed;
      endcase
    end
    if (fold_even_q || fold_odd_q) folded[{fold_odd_q, fold_place_q}] <= {folded_o, folded_e};
    if (rst) begin
      fold_even_q <= 1'b0;
      fold_odd_q  <= 1'b0;
    end else begin
      fold_even_q <= product_kind_q == Weigh && product_corner_q == 2'd3;
      fold_odd_q  <= fold_even_q;
    end
  end

  // ---- terms -> sums -------------------------------------------------------------------------------------------------

  // Each term goes to the older of two sums, and the two change places: after the last one, `even` is in front.
  logic signed [39:0] even_real_q, odd_real_q, even_imaginary_q, odd_imaginary_q, real_base, imaginary_base;
  logic sums_q, differences_q;  // the sums are complete: bin k; then bin 64 - k

  always_comb begin
    real_base      = odd_real_q;
    imaginary_base = odd_imaginary_q;
    if (product_place_q == 6'd0) begin
      real_base      = Half;
      imaginary_base = Half;
    end else if (product_place_q == 6'd1) begin
      real_base      = '0;
      imaginary_base = '0;
    end
  end

  always_ff @(posedge clk) begin
    if (product_kind_q == Term) begin
      even_real_q      <= real_base + 40'(real_product_q);
      odd_real_q       <= even_real_q;
      even_imaginary_q <= imaginary_base + 40'(imaginary_product_q);
      odd_imaginary_q  <= even_imaginary_q;
    end
    if (rst) begin
      sums_q        <= 1'b0;
      differences_q <= 1'b0;
    end else begin
      sums_q        <= product_kind_q == Term && product_place_q == LastPlace;
      differences_q <= sums_q;
    end
  end

  // With e + 2^15 for e: |(o - e + 2^15) >> 16| = |(e - o + 2^15 - 1) >> 16|, so that of two's complement only the bits
  // are inverted.
  logic signed [40:0] real_sum, imaginary_sum;
  logic signed [24:0] real_part, imaginary_part;
  assign real_sum       = 41'(even_real_q) + (41'(odd_real_q) ^ {41{differences_q}}) + 41'(differences_q);
  assign imaginary_sum  = 41'(even_imaginary_q) + (41'(odd_imaginary_q) ^ {41{differences_q}});
  assign real_part      = 25'(real_sum >>> 16);
  assign imaginary_part = 25'(imaginary_sum >>> 16);

  // ---- a bin's power -------------------------------------------------------------------------------------------------

  localparam logic [1:0] Rest = 2'd0;
  localparam logic [1:0] Size = 2'd1;
  localparam logic [1:0] Scale = 2'd2;
  localparam logic [1:0] Square = 2'd3;

  logic [1:0] power_step_q;
  logic more_q;  // bin 64 - k waits
  logic [5:0] pass_q;  // k
  logic signed [24:0] real_q, imaginary_q, next_real_q, next_imaginary_q;
  logic [2:0] scale_q;
  logic fits, square, square_here, level_rest;

  assign bins_taken  = power_step_q == Rest;
  assign fits        = (real_q[23:17] | imaginary_q[23:17]) == '0;
  assign square      = power_step_q == Scale && fits && level_rest;
  assign square_here = power_step_q == Square && product_kind_q == Guest;

  always_ff @(posedge clk) begin
    if (rst) begin
      power_step_q     <= Rest;
      more_q           <= 1'b0;
      pass_q           <= '0;
      real_q           <= '0;
      imaginary_q      <= '0;
      next_real_q      <= '0;
      next_imaginary_q <= '0;
      scale_q          <= '0;
    end else begin
      if (differences_q) begin
        next_real_q      <= real_part;
        next_imaginary_q <= imaginary_part;
      end
      case (power_step_q)
        Rest:
        if (sums_q) begin
          real_q       <= real_part;
          imaginary_q  <= imaginary_part;
          more_q       <= pass_q != LastBin;
          power_step_q <= Size;
        end
        Size: begin
          real_q       <= (real_q ^ {25{real_q[24]}}) + 25'(real_q[24]);
          imaginary_q  <= (imaginary_q ^ {25{imaginary_q[24]}}) + 25'(imaginary_q[24]);
          scale_q      <= '0;
          power_step_q <= Scale;
        end
        Scale:
        if (!fits) begin
          real_q      <= real_q >>> 1;
          imaginary_q <= imaginary_q >>> 1;
          scale_q     <= scale_q + 1'b1;
        end else if (square) begin
          power_step_q <= Square;
        end
        default:
        if (square_here) begin
          real_q       <= next_real_q;
          imaginary_q  <= next_imaginary_q;
          more_q       <= 1'b0;
          power_step_q <= more_q ? Size : Rest;
          if (!more_q) pass_q <= pass_q == LastBin ? '0 : pass_q + 1'b1;
        end
      endcase
    end
  end

  // ---- power -> level ------------------------------------------------------------------------------------------------

  localparam logic [2:0] Wait = 3'd0;
  localparam logic [2:0] Normalise = 3'd1;
  localparam logic [2:0] Curve = 3'd2;
  localparam logic [2:0] Bend = 3'd3;
  localparam logic [2:0] Give = 3'd4;

  logic [2:0] level_step_q;
  logic [34:0] power_q;  // 1 more than the power, as log2 wants it
  logic [5:0] exponent_q;
  logic [6:0] bend_q;
  logic curve;
  logic [9:0] mantissa;
  logic [24:0] bend;

  assign level_rest = level_step_q == Wait;
  assign curve      = level_step_q == Normalise && power_q[34];
  assign mantissa   = power_q[33:24];
  // 11/32 m (1 - m)
  assign bend       = 25'({real_product_q[18:0], 3'd0}) + 25'({real_product_q[18:0], 1'd0}) + 25'(real_product_q[18:0]);

  // The one needs the level to rest, and the other does not let it.
  assign guest      = square || curve;
  assign guest_x    = level_rest ? real_q[17:0] : 18'(mantissa);
  assign guest_y    = level_rest ? real_q[17:0] : 18'd1024 - 18'(mantissa);
  assign guest_z    = imaginary_q[17:0];

  always_ff @(posedge clk) begin
    if (rst) begin
      level_step_q <= Wait;
      power_q      <= '0;
      exponent_q   <= '0;
      bend_q       <= '0;
      level_index  <= '0;
      level        <= '0;
    end else begin
      case (level_step_q)
        Wait:
        if (square_here) begin
          power_q      <= 35'(real_product_q) + 35'(imaginary_product_q) + 35'd1;
          exponent_q   <= 6'd34 + {2'd0, scale_q, 1'b0};
          level_index  <= more_q || pass_q == LastBin ? 7'(pass_q) : 7'd64 - 7'(pass_q);
          level_step_q <= Normalise;
        end
        Normalise:
        if (power_q[34]) begin
          level_step_q <= Curve;
        end else if (power_q[34:31] == '0) begin
          power_q    <= power_q << 4;
          exponent_q <= exponent_q - 6'd4;
        end else begin
          power_q    <= power_q << 1;
          exponent_q <= exponent_q - 6'd1;
        end
        Curve:
        if (product_kind_q == Guest) begin
          bend_q       <= 7'(bend >> 15);
          level_step_q <= Bend;
        end
        Bend: begin
          level        <= {exponent_q, mantissa} + 16'(bend_q);
          level_step_q <= Give;
        end
        default: if (level_ready) level_step_q <= Wait;
      endcase
    end
  end

  assign level_valid = level_step_q == Give;
  assign busy = sample_valid || weigh_q || transform_q || read_kind_q != Nothing || operand_kind_q != Nothing ||
      product_kind_q != Nothing || fold_even_q || fold_odd_q || sums_q || differences_q || !bins_taken || !level_rest;

endmodule
