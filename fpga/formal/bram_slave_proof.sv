// Proof: bram_slave keeps the rules of AXI4 (IHI 0022, A3), stores what is written inside its capture ring and nothing
// else, and reads what the link wrote.
//
// The solver picks one byte of each ring; the proof remembers what was last written to it.

module bram_slave_proof #(
    parameter int CAPTURE_SLOTS = 2,
    parameter int PLAY_SLOTS    = 2,
    parameter int ADDR_W        = 20
) (
    input logic              clk,
    input logic              rst,
    input logic [ADDR_W-1:0] s_axi_awaddr,
    input logic [       7:0] s_axi_awlen,
    input logic [       2:0] s_axi_awsize,
    input logic [       1:0] s_axi_awburst,
    input logic              s_axi_awvalid,
    input logic [     127:0] s_axi_wdata,
    input logic [      15:0] s_axi_wstrb,
    input logic              s_axi_wlast,
    input logic              s_axi_wvalid,
    input logic              s_axi_bready,
    input logic [ADDR_W-1:0] s_axi_araddr,
    input logic [       7:0] s_axi_arlen,
    input logic [       2:0] s_axi_arsize,
    input logic [       1:0] s_axi_arburst,
    input logic              s_axi_arvalid,
    input logic              s_axi_rready,
    input logic [      15:0] capture_address,
    input logic              play_write,
    input logic [      15:0] play_address,
    input logic [       7:0] play_data,
    // the byte that is followed in each ring
    input logic [      15:0] chosen
);

  localparam int CaptureBytes = CAPTURE_SLOTS * 256 + 16;
  localparam int PlayBytes = PLAY_SLOTS * 256;

  logic s_axi_awready, s_axi_wready, s_axi_bvalid, s_axi_arready, s_axi_rlast, s_axi_rvalid;
  logic [1:0] s_axi_bresp, s_axi_rresp;
  logic [127:0] s_axi_rdata;
  logic [  7:0] capture_data;

  bram_slave #(
      .CAPTURE_SLOTS(CAPTURE_SLOTS),
      .PLAY_SLOTS(PLAY_SLOTS),
      .ADDR_W(ADDR_W)
  ) dut (
      .*
  );

  logic started_q, running, running_q;
  initial started_q = 1'b0;
  initial running_q = 1'b0;
  always_ff @(posedge clk) begin
    started_q <= 1'b1;
    running_q <= !rst;
  end
  assign running = started_q && !rst;
  always_comb if (!started_q) assume (rst);
  always_ff @(posedge clk) if (started_q) assume (chosen == $past(chosen));

  // ---- writes -------------------------------------------------------------------------------------------------------

  logic address_q, data_q;  // of the burst under way: its address was taken; so was its last beat
  logic [8:0] beat_q;
  logic [7:0] awlen_q;
  logic [ADDR_W-1:0] awaddr_q;
  logic inside_q;

  always_ff @(posedge clk) begin
    if (rst || (s_axi_bvalid && s_axi_bready)) begin
      address_q <= 1'b0;
      data_q    <= 1'b0;
      beat_q    <= '0;
    end else begin
      if (s_axi_awvalid && s_axi_awready) begin
        address_q <= 1'b1;
        awlen_q   <= s_axi_awlen;
        awaddr_q  <= {s_axi_awaddr[ADDR_W-1:4], 4'd0};
        inside_q  <= int'({s_axi_awaddr[ADDR_W-1:4], 4'd0}) + 16 * int'(s_axi_awlen) + 16 <= CaptureBytes;
      end
      if (s_axi_wvalid && s_axi_wready) begin
        beat_q <= beat_q + 9'd1;
        if (s_axi_wlast) data_q <= 1'b1;
      end
    end
  end

  logic sane_q;  // 16 bytes a beat, incrementing
  always_ff @(posedge clk) if (s_axi_awvalid && s_axi_awready) sane_q <= s_axi_awsize == 3'd4 && s_axi_awburst == 2'b01;

  // The master: what it offers stays, and the last beat of a burst is the one that it announced.
  always_ff @(posedge clk)
    if (running && running_q) begin
      if ($past(s_axi_awvalid) && !$past(s_axi_awready)) assume (s_axi_awvalid && s_axi_awaddr == $past(s_axi_awaddr));
      if ($past(s_axi_wvalid) && !$past(s_axi_wready)) assume (s_axi_wvalid && s_axi_wlast == $past(s_axi_wlast));
    end
  always_comb if (s_axi_wvalid && address_q) assume (s_axi_wlast == (beat_q == 9'(awlen_q)));

  always_ff @(posedge clk)
    if (running && running_q && $past(s_axi_bvalid) && !$past(s_axi_bready)) begin
      assert (s_axi_bvalid && s_axi_bresp == $past(s_axi_bresp));
    end

  always_comb
    if (running) begin
      if (!running_q) assert (!s_axi_bvalid && !s_axi_rvalid);
      if (s_axi_bvalid) assert (address_q && data_q);
      if (s_axi_bvalid) assert (s_axi_bresp == (!inside_q ? 2'b11 : !sane_q ? 2'b10 : 2'b00));
      // One burst at a time; data only after its address.
      if (s_axi_awready) assert (!address_q);
      if (s_axi_wready) assert (address_q && !data_q);
      if (data_q) assert (s_axi_bvalid);
    end

  // ---- the byte of the capture ring ----------------------------------------------------------------------------------

  logic [7:0] stored_q, stored_before_q;
  logic known_q, known_before_q, asked_q;
  logic [7:0] answer_q;  // asked a clock ago, the memory has answered; it comes out now
  logic answered_q;
  int place;
  assign place = int'(chosen) - int'(awaddr_q) - 16 * int'(beat_q);  // in this beat

  always_ff @(posedge clk) begin
    if (rst) known_q <= 1'b0;
    else if (s_axi_wvalid && s_axi_wready && inside_q && sane_q && place >= 0 && place < 16 &&
             s_axi_wstrb[place[3:0]]) begin
      known_q  <= 1'b1;
      stored_q <= s_axi_wdata[8*place[3:0]+:8];
    end
    // The memory answers with what it held before this clock.
    stored_before_q <= stored_q;
    known_before_q  <= known_q && !rst;
    // Not for a row that is written in the same clock: what the memory answers then is nobody's to say.
    asked_q         <= capture_address == chosen && !(dut.write_ok && int'(dut.write_row_q) == int'(chosen[15:4]));
    answer_q        <= stored_before_q;
    answered_q      <= asked_q && known_before_q && !rst;
  end

  always_comb if (running && running_q && answered_q) assert (capture_data == answer_q);

  // ---- reads --------------------------------------------------------------------------------------------------------

  logic [8:0] owed_q;  // beats
  logic [ADDR_W-1:0] row_q;  // address of the beat that is offered
  logic readable_q;
  always_ff @(posedge clk) begin
    if (rst) owed_q <= '0;
    else if (s_axi_arvalid && s_axi_arready) begin
      owed_q <= 9'(s_axi_arlen) + 9'd1;
      row_q <= {s_axi_araddr[ADDR_W-1:4], 4'd0};
      readable_q <= s_axi_araddr >= ADDR_W'(65536) && s_axi_arsize == 3'd4 && s_axi_arburst == 2'b01 &&
          int'({s_axi_araddr[ADDR_W-1:4], 4'd0}) + 16 * int'(s_axi_arlen) + 16 <= 65536 + PlayBytes;
    end else if (s_axi_rvalid && s_axi_rready) begin
      owed_q <= owed_q - 9'd1;
      row_q  <= row_q + ADDR_W'(16);
    end
  end

  // The link does not write what is being read: such a slot is the front end's, by the rules of the ring.
  int link_row, first_row, rows;
  assign link_row  = int'(play_address[15:4]);
  assign first_row = owed_q != '0 ? int'(row_q[15:4]) : int'(s_axi_araddr[15:4]);
  assign rows      = owed_q != '0 ? int'(owed_q) : int'(s_axi_arlen) + 1;
  always_comb
    if (play_write && (owed_q != '0 || s_axi_arvalid)) assume (link_row < first_row || link_row >= first_row + rows);

  always_ff @(posedge clk)
    if (running && running_q && $past(s_axi_rvalid) && !$past(s_axi_rready)) begin
      assert (s_axi_rvalid && s_axi_rdata == $past(s_axi_rdata));
      assert (s_axi_rresp == $past(s_axi_rresp) && s_axi_rlast == $past(s_axi_rlast));
    end

  always_comb
    if (running) begin
      assert (s_axi_rvalid == (owed_q != '0));
      assert (s_axi_arready == (owed_q == '0));
      if (s_axi_rvalid) assert (s_axi_rlast == (owed_q == 9'd1) && (s_axi_rresp == 2'b00) == readable_q);
    end

  // ---- the byte of the playback ring ---------------------------------------------------------------------------------

  logic [7:0] played_q, played_before_q;
  logic written_q, written_before_q;
  always_ff @(posedge clk) begin
    if (rst) written_q <= 1'b0;
    else if (play_write && play_address == chosen && int'(chosen) < PlayBytes) begin
      written_q <= 1'b1;
      played_q  <= play_data;
    end
    written_before_q <= written_q && !rst;
    played_before_q  <= played_q;
  end

  // Addresses of the link that lie behind the ring are the ring's, taken again from its start; it gives none such.
  always_comb if (play_write) assume (int'(play_address) < PlayBytes);

  always_comb
    if (running && running_q && s_axi_rvalid && readable_q && row_q[15:4] == chosen[15:4] && written_before_q) begin
      assert (s_axi_rdata[8*chosen[3:0]+:8] == played_before_q);
    end

  // ---- what holds inside, for the induction ------------------------------------------------------------------------

  always_comb
    if (running) begin
      assert (dut.writing_q == (address_q && !data_q));
      assert (beat_q <= 9'(awlen_q) + 9'(data_q) || !address_q);
      if (!address_q) assert (beat_q == '0 && !data_q);
      if (address_q) assert (s_axi_bresp == (!inside_q ? 2'b11 : !sane_q ? 2'b10 : 2'b00));
      if (address_q && inside_q) begin
        assert (int'(awaddr_q) + 16 * int'(awlen_q) + 16 <= CaptureBytes);
        if (!data_q) assert (int'(dut.write_row_q) == int'(awaddr_q[ADDR_W-1:4]) + int'(beat_q));
      end
      if (asked_q && known_before_q && running_q) begin
        assert (dut.capture_byte_q == chosen[3:0] && dut.capture_row_q[8*chosen[3:0]+:8] == stored_before_q);
      end
      if (known_q) assert (int'(chosen) < CaptureBytes && dut.capture[chosen[15:4]][8*chosen[3:0]+:8] == stored_q);
      if (written_q) assert (int'(chosen) < PlayBytes && dut.play[chosen[15:4]][8*chosen[3:0]+:8] == played_q);
      if (owed_q != '0 && readable_q) begin
        assert (int'(row_q) >= 65536 && int'(row_q) + 16 * int'(owed_q) <= 65536 + PlayBytes);
        assert (int'(dut.read_row_q) == int'(row_q[15:4]));
        assert (dut.play_row_q == dut.play[dut.read_row_q]);
      end
      if (owed_q != '0) assert (9'(dut.read_left_q) + 9'd1 == owed_q);
    end

  always_comb
    if (running) begin
      cover (answered_q && capture_data == 8'h5A && s_axi_bvalid && s_axi_bresp == 2'b00);
      cover (s_axi_bvalid && !inside_q && int'(awaddr_q) < CaptureBytes);
      cover (s_axi_rvalid && s_axi_rlast && s_axi_rdata[7:0] == 8'h5A && written_before_q && row_q[7:4] == 4'd3);
    end

endmodule
