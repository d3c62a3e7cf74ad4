"""uart_rx and uart_tx against a line drawn by hand: rates that differ, glitches, missing stop bits, breaks."""

import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge

from bench import simulate

CYCLES_PER_BIT = 25
# From the middle of the stop bit on the line to the byte: synchroniser, glitch filter and the registers behind them.
RX_BUDGET = 8


async def clocked(dut, **inputs):
    Clock(dut.clk, 10, unit="ns").start()
    dut.rst.value = 1
    for name, value in inputs.items():
        getattr(dut, name).value = value
    for _ in range(4):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


def line_of(data, cycles_per_bit, *, stop=1, gap=0.0):
    """The levels of the line, one a clock, for `data`; a bit may last a fraction of a clock more or less."""
    bits = []
    for byte in data:
        bits += [0, *(byte >> i & 1 for i in range(8)), stop]
    levels, position = [], 0.0
    for index, bit in enumerate(bits):
        position += cycles_per_bit
        levels += [bit] * (round(position) - len(levels))
        if index % 10 == 9:
            position += gap
            levels += [1] * (round(position) - len(levels))
    return levels


# ---- uart_rx ---------------------------------------------------------------------------------------------------------


class Listener:
    """Drives the line a clock at a time; `bytes` and `errors` are what came out, with their clocks in `at`."""

    def __init__(self, dut):
        self.dut, self.bytes, self.at, self.errors, self.clock = dut, [], [], 0, 0

    async def follow(self, levels):
        for level in levels:
            self.dut.rx.value = level
            await FallingEdge(self.dut.clk)
            self.clock += 1
            if int(self.dut.m_axis_tvalid.value):
                self.bytes.append(int(self.dut.m_axis_tdata.value))
                self.at.append(self.clock)
            self.errors += int(self.dut.framing_error.value)


@cocotb.test()
async def rx_every_byte_at_rates_that_differ_by_four_percent(dut):
    await clocked(dut, rx=1)
    line = Listener(dut)
    await line.follow([1] * 30)
    rng = random.Random(1)
    sent = [*range(256)]
    for rate in (0.96, 0.995, 1.0, 1.005, 1.04):
        rng.shuffle(sent)
        line.bytes = []
        await line.follow(line_of(sent, CYCLES_PER_BIT * rate))
        await line.follow([1] * 40)
        assert line.bytes == sent and line.errors == 0, f"bits {rate} times as long"


@cocotb.test()
async def rx_latency(dut):
    await clocked(dut, rx=1)
    line = Listener(dut)
    await line.follow([1] * 30)
    begin = line.clock
    await line.follow(line_of([0xA5], CYCLES_PER_BIT))
    latency = line.at[0] - begin - round(9.5 * CYCLES_PER_BIT)
    print(f"uart_rx: {latency} cycles from the middle of the stop bit to the byte (budget {RX_BUDGET})")
    assert 0 < latency <= RX_BUDGET


@cocotb.test()
async def rx_glitches_shorter_than_three_clocks_are_not_there(dut):
    await clocked(dut, rx=1)
    line, rng = Listener(dut), random.Random(2)
    await line.follow([1] * 30)
    sent = [rng.getrandbits(8) for _ in range(200)]
    levels = line_of(sent, CYCLES_PER_BIT, gap=7)
    at = 0
    while at < len(levels) - 3:
        # One or two clocks wrong, then at least as many right ones that the filter needs to recover; not at an edge,
        # which a glitch beside it would move.
        at += rng.randint(4, 30)
        width = rng.randint(1, 2)
        window = levels[max(0, at - 4) : at + width + 4]
        if len(set(window)) == 1:
            levels[at : at + width] = [1 - levels[at]] * width
            at += width + 4
    await line.follow(levels + [1] * 40)
    assert line.bytes == sent and line.errors == 0


@cocotb.test()
async def rx_a_start_bit_that_ends_before_its_middle_is_none(dut):
    await clocked(dut, rx=1)
    line = Listener(dut)
    await line.follow([1] * 30 + [0] * (CYCLES_PER_BIT // 2 - 2) + [1] * 300)
    assert line.bytes == [] and line.errors == 0
    await line.follow(line_of([0x5A], CYCLES_PER_BIT) + [1] * 40)
    assert line.bytes == [0x5A]


@cocotb.test()
async def rx_a_missing_stop_bit_drops_the_byte_and_a_break_is_one_error(dut):
    await clocked(dut, rx=1)
    line = Listener(dut)
    await line.follow([1] * 30)
    await line.follow(line_of([0xFF], CYCLES_PER_BIT, stop=0) + [1] * 60)
    assert (line.bytes, line.errors) == ([], 1)
    await line.follow([0] * 2000 + [1] * 60)
    assert (line.bytes, line.errors) == ([], 2)
    await line.follow(line_of([1, 2], CYCLES_PER_BIT) + [1] * 40)
    assert (line.bytes, line.errors) == ([1, 2], 2)


@cocotb.test()
async def rx_a_line_that_is_low_at_reset_is_no_byte(dut):
    await clocked(dut, rx=0)
    line = Listener(dut)
    await line.follow([0] * 1000 + [1] * 60)
    assert (line.bytes, line.errors) == ([], 0)
    await line.follow(line_of([0xC3], CYCLES_PER_BIT) + [1] * 40)
    assert line.bytes == [0xC3]


# ---- uart_tx ---------------------------------------------------------------------------------------------------------


async def send(dut, data, rng, idle):
    """Offers `data`, with pauses; returns the line's level in every clock up to some after the last byte."""
    levels, left, offered = [], list(data), False
    rest = 12 * CYCLES_PER_BIT
    while rest:
        await FallingEdge(dut.clk)
        if not offered and left and rng.random() >= idle:
            offered = True
            dut.s_axis_tvalid.value, dut.s_axis_tdata.value = 1, left[0]
        await ReadOnly()
        taken = offered and int(dut.s_axis_tready.value)
        levels.append(int(dut.tx.value))
        await RisingEdge(dut.clk)
        if taken:
            offered = False
            left.pop(0)
            dut.s_axis_tvalid.value = 0
        rest -= not left and not offered
    return levels


def decode(levels):
    """Bytes of a line by their edges, and the idle clocks between them."""
    data, gaps, at = [], [], 0
    end = None
    while 0 in levels[at:]:
        at = levels.index(0, at)
        gaps.append(None if end is None else at - end)
        assert levels[at : at + CYCLES_PER_BIT] == [0] * CYCLES_PER_BIT, "a whole start bit"
        bits = [levels[at + n * CYCLES_PER_BIT : at + (n + 1) * CYCLES_PER_BIT] for n in range(1, 10)]
        assert all(len(set(bit)) == 1 and len(bit) == CYCLES_PER_BIT for bit in bits), "bits of one length"
        assert bits[8][0] == 1, "a stop bit"
        data.append(sum(bit[0] << n for n, bit in enumerate(bits[:8])))
        at = end = at + 10 * CYCLES_PER_BIT
    return data, gaps[1:]


@cocotb.test()
async def tx_bytes_leave_in_order_and_without_gaps_when_offered_in_time(dut):
    await clocked(dut, s_axis_tvalid=0, s_axis_tdata=0)
    rng = random.Random(3)
    sent = [0x00, 0xFF, 0x55, 0xAA, *(rng.getrandbits(8) for _ in range(60))]
    data, gaps = decode(await send(dut, sent, rng, idle=0.0))
    assert data == sent and set(gaps) == {0}
    data, gaps = decode(await send(dut, sent, rng, idle=0.999))
    assert data == sent and max(gaps) > 0
    assert int(dut.tx.value) == 1


@pytest.mark.parametrize("cell", ["rx", "tx"])
def test_the_serial_line(simulator, cell):
    simulate(
        simulator,
        f"uart_{cell}",
        ["sync_bits.sv", f"uart_{cell}.sv"],
        __name__,
        parameters={"CYCLES_PER_BIT": CYCLES_PER_BIT},
        env={"COCOTB_TEST_FILTER": f"^(.*\\.)?{cell}_"},
    )


@pytest.mark.parametrize("cell", ["rx", "tx"])
def test_a_line_faster_than_the_clock_allows_is_refused_with_a_sentence(simulator, cell, capfd):
    with pytest.raises((RuntimeError, SystemExit)):
        simulate(
            simulator, f"uart_{cell}", ["sync_bits.sv", f"uart_{cell}.sv"], __name__, parameters={"CYCLES_PER_BIT": 4}
        )
    output = capfd.readouterr()
    assert "CYCLES_PER_BIT must be at least 8" in output.out + output.err
