"""uart_link between a serial line and registers and memory in Python, which answer late and at odd times.

What the joint bench (test_frontend_uart.py) shows with the real front end is shown here of the link alone, on both
simulators, with registers that stall; the line is as fast for the clock as the link allows.
"""

import random
import struct

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, Timer

from bench import simulate
from serial_host import SerialHost
from voxpath.boards import registers
from voxpath.link import frame, uart

CLK_HZ, BAUD = 32_000_000, 2_000_000
CLOCK_NS = 20
BIT_NS = 16 * CLOCK_NS
CAPTURE_SLOTS, PLAY_SLOTS = 4, 4
EVENT_FIELDS = (registers.EVENT_NS, registers.EVENT_NS + 4, registers.EVENT_TICKET, registers.EVENT_POSITION)
SOURCES = [
    *("sync_bits.sv", "sync_fifo.sv", "crc32.sv", "uart_rx.sv", "uart_tx.sv", "cobs_encode.sv", "cobs_decode.sv"),
    *(
        "uart_packet_rx.sv",
        "uart_packet_tx.sv",
        "axil_master.sv",
        "uart_commands.sv",
        "uart_reports.sv",
        "uart_link.sv",
    ),
]


class Board:
    """The front end's registers and both rings. Every write is noted; each channel of AXI4-Lite stalls with `stall`."""

    def __init__(self, dut, seed):
        self.dut, self.rng = dut, random.Random(seed)
        self.stall = 0.5
        self.words = {registers.ID: 0x56585046}
        self.writes = []
        self.events = []
        self.capture, self.play = bytearray(CAPTURE_SLOTS * 256), bytearray(PLAY_SLOTS * 256)
        self.head = self.tail = 0  # of the capture ring; the tail is what the link wrote
        self.play_head = self.play_tail = 0

    async def begin(self):
        dut = self.dut
        Clock(dut.clk, CLOCK_NS, unit="ns").start()
        for name in ("awready", "wready", "bvalid", "arready", "rvalid", "rdata"):
            getattr(dut, f"m_axil_{name}").value = 0
        dut.capture_data.value = 0
        dut.rst.value = 1
        for _ in range(3):
            await FallingEdge(dut.clk)
        dut.rst.value = 0
        cocotb.start_soon(self._serve())

    def frame(self, number):
        """A frame in the ring, as the front end publishes it; False if there is no room."""
        if self.head - self.tail == CAPTURE_SLOTS:
            return None
        data = frame.build([self.rng.choice([0, self.rng.randint(-99, 99)]) for _ in range(64)], sequence=number)
        at = 256 * (self.head % CAPTURE_SLOTS)
        self.capture[at : at + 160] = data
        self.head += 1
        return data

    def _read(self, address):
        if address in EVENT_FIELDS:
            return self.events[0][EVENT_FIELDS.index(address)] if self.events else 0
        return {
            registers.RING_HEAD: self.head,
            registers.PLAY_TAIL: self.play_tail,
            registers.EVENT_KIND: self.events[0][4] | len(self.events) << 8 if self.events else 0,
        }.get(address, self.words.get(address, 0))

    def _write(self, address, value):
        self.writes.append((address, value))
        self.words[address] = value
        if address == registers.RING_TAIL:
            assert value == self.tail + 1 <= self.head
            self.tail = value
        if address == registers.PLAY_HEAD:
            assert value == self.play_head + 1 and value - self.play_tail <= PLAY_SLOTS
            self.play_head = value
        if address == registers.EVENT_POP:
            assert value == 1
            self.events.pop(0)

    async def _serve(self):
        """A clock at a time, in the falling edge; what the rising edge before has taken is acted upon."""
        dut, rng = self.dut, self.rng
        written, data, asked = None, None, None
        answers = {"b": False, "r": None}
        capture_before = 0  # a byte comes two clocks after its address
        while True:
            going = lambda: rng.random() >= self.stall  # noqa: E731
            dut.m_axil_awready.value = int(written is None and going())
            dut.m_axil_wready.value = int(data is None and going())
            dut.m_axil_arready.value = int(asked is None and answers["r"] is None and going())
            if not int(dut.m_axil_bvalid.value) and answers["b"] and going():
                dut.m_axil_bvalid.value = 1
            if not int(dut.m_axil_rvalid.value) and answers["r"] is not None and going():
                dut.m_axil_rvalid.value, dut.m_axil_rdata.value = 1, answers["r"]
            await ReadOnly()
            port = lambda name: int(getattr(dut, f"m_axil_{name}").value)  # noqa: E731
            if port("awvalid") and port("awready"):
                written = port("awaddr")
            if port("wvalid") and port("wready"):
                assert port("wstrb") == 15
                data = port("wdata")
            if port("arvalid") and port("arready"):
                asked = port("araddr")
            ended = {"b": port("bvalid") and port("bready"), "r": port("rvalid") and port("rready")}
            capture_address = int(dut.capture_address.value)
            if int(dut.play_write.value):
                self.play[int(dut.play_address.value)] = int(dut.play_data.value)
            await FallingEdge(dut.clk)
            dut.capture_data.value = self.capture[capture_before]
            capture_before = capture_address
            if ended["b"]:
                dut.m_axil_bvalid.value, answers["b"] = 0, False
            if ended["r"]:
                dut.m_axil_rvalid.value, answers["r"] = 0, None
            # An answer is given at the earliest in the clock after this, with what holds then.
            if written is not None and data is not None:
                self._write(written, data)
                written, data, answers["b"] = None, None, True
            if asked is not None:
                answers["r"], asked = self._read(asked), None


async def begin(dut, seed):
    board, host = Board(dut, seed), SerialHost(dut.rx, dut.tx, BIT_NS)
    await board.begin()
    await Timer(20 * BIT_NS, "ns")
    host.start()
    return board, host


async def until(condition):
    """Waits, but not for ever."""
    for _ in range(2000):
        if condition():
            return
        await Timer(100 * BIT_NS, "ns")
    raise AssertionError("it does not come")


async def credited(host, credit):
    """Until the last credit is this one."""
    await until(lambda: host.received[uart.Credit][-1:] == [credit])


@cocotb.test()
async def rings_are_laid_before_all_else(dut):
    board, host = await begin(dut, 1)
    await Timer(400 * CLOCK_NS, "ns")
    assert board.writes == [
        (registers.RING_BASE, 0),
        (registers.RING_BASE + 4, 0),
        (registers.RING_SIZE, CAPTURE_SLOTS * 256 + 16),
        (registers.PLAY_BASE, 0x1_0000),
        (registers.PLAY_BASE + 4, 0),
        (registers.PLAY_SIZE, PLAY_SLOTS * 256),
    ]
    assert host.log == [], "nothing is sent before there is something to say"


@cocotb.test()
async def commands_with_registers_that_stall(dut):
    board, host = await begin(dut, 2)
    rng = board.rng
    values = {}
    for board.stall in (0.0, 0.3, 0.9):
        for _ in range(4):
            address, pair = 8 * rng.randint(8, 11), (rng.getrandbits(32), rng.getrandbits(32))
            await host.write(address, *pair)
            values[address], values[address + 4] = pair
            assert await host.read(address, 2) == pair
        assert await host.read(0x40, 8) == tuple(values.get(0x40 + 4 * n, 0) for n in range(8))
    assert [write for write in board.writes if write[0] in values][:2] == [
        (address, value) for address, value in board.writes[6:8]
    ], "in order, the low half first"
    refused = await host.request(uart.Write(7, registers.RING_TAIL, (1,)))
    assert refused == uart.Reply(7, uart.REFUSED, registers.RING_TAIL) and board.tail == 0


@cocotb.test()
async def frames_events_and_credits_share_the_line(dut):
    board, host = await begin(dut, 3)
    board.stall = 0.7
    rng = board.rng
    frames, events = [], []
    for number in range(14):
        data = board.frame(number)
        if data is not None:
            frames.append(data)
        if rng.random() < 0.4:
            event = tuple(rng.getrandbits(32) for _ in range(4)) + (rng.randint(0, 4),)
            board.events.append(event)
            events.append(event)
        await Timer(rng.randint(20_000, 40_000) * CLOCK_NS, "ns")
    await until(lambda: board.tail == board.head and not board.events)
    await Timer(3000 * BIT_NS, "ns")
    assert [message.data for message in host.received[uart.Captured]] == frames
    got = [(e.ns & 0xFFFFFFFF, e.ns >> 32, e.ticket, e.position, e.kind) for e in host.received[uart.Event]]
    assert got == events and len(events) > 2
    assert [event.number for event in host.received[uart.Event]] == [*range(len(events))]
    assert host.decoder.dropped == 0


@cocotb.test()
async def slots_go_where_the_ring_has_room(dut):
    board, host = await begin(dut, 4)
    rng = board.rng
    sent = 0
    for turn in range(3):
        for number in range(sent, sent + PLAY_SLOTS):
            slot = uart.Slot(number, 5, 120 * number, 1, 0, rng.randbytes(2 * rng.choice([1, 60, 120])))
            header = struct.pack("<IIBBHI", 5, 120 * number, 1, 0, len(slot.pcm) // 2, number)
            if rng.random() < 0.5:
                spoilt = bytearray(slot.pack())
                spoilt[40 % len(spoilt) - 6] ^= 1
                host.say(bytes(spoilt))
            host.say(slot.pack())
            await credited(host, uart.Credit(number + 1, board.play_tail))
            at = 256 * (number % PLAY_SLOTS)
            assert board.play[at : at + 16 + len(slot.pcm)] == header + slot.pcm
        sent += PLAY_SLOTS
        # Full: what comes now has no credit and leaves the ring alone.
        before = bytes(board.play)
        host.say(uart.Slot(sent, 5, 0, 1, 0, bytes(240)).pack())
        assert (await host.link_counts())[uart.LINK_NO_CREDIT] == turn + 1
        assert board.play == before
        board.play_tail = sent - turn
        await credited(host, uart.Credit(sent, sent - turn))
        board.play_tail = sent
        await credited(host, uart.Credit(sent, sent))


@cocotb.test()
async def a_packet_that_comes_before_the_last_one_was_done_is_dropped_and_counted(dut):
    board, host = await begin(dut, 5)
    board.stall = 0.999  # slower than any register is
    first = host.ask(uart.Write(1, registers.DELAY_ADC, (1, 2)))
    second = host.ask(uart.Write(2, registers.DELAY_ADC, (3, 4)))
    await first.get()
    board.stall = 0.0
    counts = await host.link_counts()
    assert not second.here and counts[uart.LINK_BUSY] == 1
    assert await host.read(registers.DELAY_ADC, 2) == (1, 2)


@cocotb.test()
async def times_take_their_five_registers_and_four_counts(dut):
    board, host = await begin(dut, 6)
    for stall, cookie in ((0.0, 1), (0.6, 2**64 - 1)):
        board.stall = stall
        board.words.update({registers.TIME_NS: 1, registers.TIME_NS + 4: 2, registers.FREE_NS: 3})
        board.words.update({registers.FREE_NS + 4: 4, registers.CLOCK_EPOCH: 5})
        host.say(uart.TimeRequest(cookie).pack())
        await until(lambda: host.received[uart.Time])
        time = host.received[uart.Time].pop()
        assert (time.cookie, time.time_ns, time.free_ns, time.epoch) == (cookie, 1 + (2 << 32), 3 + (4 << 32), 5)
        assert time.received < time.time_at < time.free_at
        assert time.received < time.sent < time.received + 200


def test_the_link_serves_rings_and_registers_that_stall(simulator):
    parameters = {"CLK_HZ": CLK_HZ, "BAUD": BAUD, "CAPTURE_SLOTS": CAPTURE_SLOTS, "PLAY_SLOTS": PLAY_SLOTS}
    simulate(simulator, "uart_link", SOURCES, __name__, parameters=parameters)


def test_a_line_faster_than_the_clock_allows_is_refused_with_a_sentence(simulator, capfd):
    with pytest.raises((RuntimeError, SystemExit)):
        simulate(simulator, "uart_link", SOURCES, __name__, parameters={"CLK_HZ": 10_000_000, "BAUD": 1_000_000})
    output = capfd.readouterr()
    assert "CLK_HZ must be at least 16 x BAUD" in output.out + output.err
