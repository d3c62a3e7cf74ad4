// The front end's surroundings on the simulated board: memory, a register master, and registers at every input.
//
// All inputs but the clock end in a register, so that the simulator has nothing to do when they change; that and the
// memory's being here make the board several times as fast as driving the front end's own ports.

module board #(
    // Folder of the coefficient tables, with a closing slash
    parameter     FILTERS       = "",
    // Slots of the capture ring; a power of two up to 256
    parameter int CAPTURE_SLOTS = 256
) (
    input  logic        clk,
    input  logic        rst,
    // 1: clock every module in every cycle; 0: only those that have something to do
    input  logic        free_run,
    // one pulse, one 48 kHz sample
    input  logic        sample_valid,
    input  logic [15:0] sample,
    output logic        dac_valid,
    output logic [15:0] dac,
    // a pulse accesses one register; `answered` is a pulse
    input  logic        request,
    input  logic        request_write,
    input  logic [ 8:0] request_address,
    input  logic [31:0] request_data,
    output logic        answered,
    output logic [31:0] answer,
    // what memory does with a burst: 0 what it ought to, 1 answer with an error, 2 not answer at all
    input  logic [ 1:0] on_write,
    input  logic [ 1:0] on_read,
    output logic        irq,
    // clocks are needed before the next sample
    output logic        busy
);

  localparam int AddrW = 40;
  localparam int MemoryBytes = 32'h40000;
  localparam int IndexW = $clog2(MemoryBytes / 16);
  // Cycles from the end of a request to its answer
  localparam logic [3:0] Latency = 4'd8;
  localparam logic [1:0] Okay = 2'd0, Silence = 2'd2;
  localparam logic [1:0] SlaveError = 2'b10, DecodeError = 2'b11;
  localparam logic [2:0] SixteenBytes = 3'd4;
  localparam logic [1:0] Incrementing = 2'b01;

  // ---- how the board behaves -----------------------------------------------------------------------------------------

  logic free_run_q;
  logic [1:0] on_write_q, on_read_q;

  always_ff @(posedge clk) begin
    free_run_q <= free_run;
    on_write_q <= on_write;
    on_read_q  <= on_read;
  end

  // ---- registers -----------------------------------------------------------------------------------------------------

  logic awvalid_q, wvalid_q, arvalid_q;
  logic [ 8:0] address_q;
  logic [31:0] data_q;
  logic awready, wready, arready, bvalid, rvalid;
  logic [31:0] rdata;
  logic [1:0] bresp, rresp;  // registers always answer OKAY

  always_ff @(posedge clk) begin
    answered <= 1'b0;
    if (rst) begin
      {awvalid_q, wvalid_q, arvalid_q} <= '0;
    end else begin
      if (awready) awvalid_q <= 1'b0;
      if (wready) wvalid_q <= 1'b0;
      if (arready) arvalid_q <= 1'b0;
      if (request) begin
        awvalid_q <= request_write;
        wvalid_q  <= request_write;
        arvalid_q <= !request_write;
        address_q <= request_address;
        data_q    <= request_data;
      end
      if (bvalid || rvalid) begin
        answered <= 1'b1;
        answer   <= rdata;
      end
    end
  end

  // ---- memory ----------------------------------------------------------------------------------------------------------

  logic [127:0] memory[MemoryBytes / 16]  /* verilator public_flat_rd */;

  function automatic logic fits(input logic [AddrW-1:0] address, input logic [7:0] len, input logic [2:0] size,
                                input logic [1:0] burst);
    fits = size == SixteenBytes && burst == Incrementing && address[3:0] == '0 &&
        address + AddrW'({len, 4'd0}) < AddrW'(MemoryBytes);
  endfunction

  logic [AddrW-1:0] m_awaddr, m_araddr;
  logic [7:0] m_awlen, m_arlen;
  logic [2:0] m_awsize, m_arsize, m_awprot, m_arprot;
  logic [1:0] m_awburst, m_arburst;
  logic [3:0] m_awcache, m_arcache;
  logic [127:0] m_wdata, m_rdata;
  logic [15:0] m_wstrb;
  logic m_awvalid, m_awready, m_wvalid, m_wready, m_wlast, m_bvalid, m_bready;
  logic m_arvalid, m_arready, m_rvalid, m_rready, m_rlast;
  logic [1:0] m_bresp, m_rresp;

  typedef enum logic [1:0] {
    StFree,
    StData,
    StWait,
    StAnswer
  } state_e;

  // Write: the address, then the data, then the answer.
  state_e write_q;
  logic write_inside_q;
  logic [IndexW-1:0] write_index_q;
  logic [3:0] write_wait_q;
  logic [127:0] write_mask;

  assign m_awready = write_q == StFree;
  assign m_wready  = write_q == StData;
  assign m_bvalid  = write_q == StAnswer;
  assign m_bresp   = !write_inside_q ? DecodeError : on_write_q == Okay ? 2'b00 : SlaveError;

  always_comb begin
    for (int lane = 0; lane < 16; lane++) write_mask[8*lane+:8] = {8{m_wstrb[lane]}};
  end

  always_ff @(posedge clk) begin
    if (rst) write_q <= StFree;
    else begin
      case (write_q)
        StFree:
        if (m_awvalid) begin
          write_q        <= StData;
          write_inside_q <= fits(m_awaddr, m_awlen, m_awsize, m_awburst);
          write_index_q  <= m_awaddr[IndexW+3:4];
        end
        StData:
        if (m_wvalid) begin
          if (write_inside_q && on_write_q == Okay) begin
            memory[write_index_q] <= (memory[write_index_q] & ~write_mask) | (m_wdata & write_mask);
          end
          write_index_q <= write_index_q + 1'b1;
          write_wait_q  <= Latency;
          if (m_wlast) write_q <= StWait;
        end
        StWait: begin
          write_wait_q <= write_wait_q - 1'b1;
          if (on_write_q == Silence) write_wait_q <= Latency;
          else if (write_wait_q == '0) write_q <= StAnswer;
        end
        default: if (m_bready) write_q <= StFree;
      endcase
    end
  end

  // Read: the address, then the data.
  state_e read_q;
  logic read_inside_q;
  logic [IndexW-1:0] read_index_q;
  logic [7:0] read_left_q;
  logic [3:0] read_wait_q;

  assign m_arready = read_q == StFree;
  assign m_rvalid  = read_q == StAnswer;
  assign m_rlast   = read_left_q == '0;
  assign m_rresp   = !read_inside_q ? DecodeError : on_read_q == Okay ? 2'b00 : SlaveError;

  always_ff @(posedge clk) begin
    if (rst) read_q <= StFree;
    else begin
      case (read_q)
        StFree:
        if (m_arvalid) begin
          read_q        <= StWait;
          read_inside_q <= fits(m_araddr, m_arlen, m_arsize, m_arburst);
          read_index_q  <= m_araddr[IndexW+3:4];
          read_left_q   <= m_arlen;
          read_wait_q   <= Latency;
        end
        StWait: begin
          read_wait_q <= read_wait_q - 1'b1;
          if (on_read_q == Silence) read_wait_q <= Latency;
          else if (read_wait_q == '0) begin
            read_q  <= StAnswer;
            m_rdata <= memory[read_index_q];
          end
        end
        default:
        if (m_rready) begin
          read_index_q <= read_index_q + 1'b1;
          read_left_q  <= read_left_q - 1'b1;
          m_rdata      <= memory[read_index_q+1'b1];
          if (m_rlast) read_q <= StFree;
        end
      endcase
    end
  end

  logic memory_busy;
  assign memory_busy = (write_q != StFree && on_write_q != Silence) || (read_q != StFree && on_read_q != Silence);

  // ---- the front end -----------------------------------------------------------------------------------------------

  logic frontend_busy;
  assign busy = frontend_busy || memory_busy || awvalid_q || wvalid_q || arvalid_q;

  frontend #(
      .TICK_TIME    (1),
      .CAPTURE_SLOTS(CAPTURE_SLOTS),
      .CLOCK_GATES  (1),
      .ADDR_W       (AddrW),
      .FILTERS      (FILTERS)
  ) frontend (
      .clk,
      .rst,
      .free_run         (free_run_q),
      .s_axis_adc_tdata ({24'd0, sample, 8'd0}),
      .s_axis_adc_tvalid(sample_valid),
      .m_axis_dac_tdata (dac),
      .m_axis_dac_tvalid(dac_valid),
      .adc_error        (1'b0),
      .dac_underrun     (1'b0),
      .s_axil_awaddr    (address_q),
      .s_axil_awprot    (3'd0),
      .s_axil_awvalid   (awvalid_q),
      .s_axil_awready   (awready),
      .s_axil_wdata     (data_q),
      .s_axil_wstrb     (4'hF),
      .s_axil_wvalid    (wvalid_q),
      .s_axil_wready    (wready),
      .s_axil_bresp     (bresp),
      .s_axil_bvalid    (bvalid),
      .s_axil_bready    (1'b1),
      .s_axil_araddr    (address_q),
      .s_axil_arprot    (3'd0),
      .s_axil_arvalid   (arvalid_q),
      .s_axil_arready   (arready),
      .s_axil_rdata     (rdata),
      .s_axil_rresp     (rresp),
      .s_axil_rvalid    (rvalid),
      .s_axil_rready    (1'b1),
      .m_axi_awaddr     (m_awaddr),
      .m_axi_awlen      (m_awlen),
      .m_axi_awsize     (m_awsize),
      .m_axi_awburst    (m_awburst),
      .m_axi_awcache    (m_awcache),
      .m_axi_awprot     (m_awprot),
      .m_axi_awvalid    (m_awvalid),
      .m_axi_awready    (m_awready),
      .m_axi_wdata      (m_wdata),
      .m_axi_wstrb      (m_wstrb),
      .m_axi_wlast      (m_wlast),
      .m_axi_wvalid     (m_wvalid),
      .m_axi_wready     (m_wready),
      .m_axi_bresp      (m_bresp),
      .m_axi_bvalid     (m_bvalid),
      .m_axi_bready     (m_bready),
      .m_axi_araddr     (m_araddr),
      .m_axi_arlen      (m_arlen),
      .m_axi_arsize     (m_arsize),
      .m_axi_arburst    (m_arburst),
      .m_axi_arcache    (m_arcache),
      .m_axi_arprot     (m_arprot),
      .m_axi_arvalid    (m_arvalid),
      .m_axi_arready    (m_arready),
      .m_axi_rdata      (m_rdata),
      .m_axi_rresp      (m_rresp),
      .m_axi_rlast      (m_rlast),
      .m_axi_rvalid     (m_rvalid),
      .m_axi_rready     (m_rready),
      .irq,
      .busy             (frontend_busy)
  );

endmodule
