"""i2s_clocks, i2s_tx and i2s_rx together: every bit arrives, exactly two samples later a hop, whatever the clocks."""

import os
import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge, Timer
from cocotb.utils import get_sim_time

from bench import ROOT, simulate

FRAMES = 25
CLK_PS = {"50 MHz": 20_000, "100 MHz": 10_000}
# Converters' master clock: KV260 makes 12.288 MHz, ULX3S 12.28814; crystals stray by 100 ppm.
MCLK_HZ = {"12.288 MHz": 12_288_000, "+100 ppm": 12_289_229, "-100 ppm": 12_286_771, "25 x 29 / 59": 12_288_136}


def mclk_ps():
    return 2 * round(0.5e12 / int(os.environ["MCLK_HZ"]))


async def start(dut, phase_ns=0.0):
    dut.s_axis_tvalid.value = 0
    dut.s_axis_tdata.value = 0
    dut.rst.value = dut.mclk_rst.value = 1
    Clock(dut.clk, int(os.environ["CLK_PS"]), unit="ps").start()
    await Timer(1 + round(phase_ns * 1000), "ps")
    Clock(dut.mclk, mclk_ps(), unit="ps").start()
    for _ in range(4):
        await RisingEdge(dut.mclk)
    dut.mclk_rst.value = 0
    await RisingEdge(dut.clk)
    dut.rst.value = 0


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def bus_clocks_divide_the_master_clock_by_4_and_256_and_turn_on_a_falling_edge(dut):
    await start(dut)
    mclk_ns = mclk_ps() / 1000
    for _ in range(2):
        await FallingEdge(dut.lrck)
    began = get_sim_time("ns")
    for level in (0, 1):
        for edge in range(32):
            await RisingEdge(dut.sclk)
            at = get_sim_time("ns") - began
            await ReadOnly()
            assert int(dut.lrck.value) == level
            # The first rising edge is half an SCLK, two MCLK, after LRCK's.
            assert abs(at - (2 + 4 * (32 * level + edge)) * mclk_ns) < 0.1
    await FallingEdge(dut.lrck)
    assert abs(get_sim_time("ns") - began - 256 * mclk_ns) < 0.1
    await ReadOnly()
    assert int(dut.sclk.value) == 0


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def random_words_come_through_both_hops_each_exactly_two_samples_late(dut):
    rng = random.Random(1)
    await start(dut, phase_ns=rng.uniform(0, 80))
    # Words, and how many times LRCK had fallen when they were written or first came out.
    sent, middle, end = [], {}, {}
    errors, underruns = [], []
    frame = 0

    async def count_frames():
        nonlocal frame
        while True:
            await FallingEdge(dut.lrck)
            frame += 1

    async def count(signal, pulses):
        while True:
            await RisingEdge(signal)
            pulses.append(frame)

    async def collect(valid, data, into):
        while True:
            await RisingEdge(valid)
            await ReadOnly()
            into.setdefault(int(data.value), frame)

    cocotb.start_soon(count_frames())
    cocotb.start_soon(count(dut.frame_error, errors))
    cocotb.start_soon(count(dut.underrun, underruns))
    cocotb.start_soon(collect(dut.middle_tvalid, dut.middle_tdata, middle))
    cocotb.start_soon(collect(dut.m_axis_tvalid, dut.m_axis_tdata, end))
    for _ in range(FRAMES):
        # In step with the receiver, as the front end is: some clocks after its pulse.
        await RisingEdge(dut.middle_tvalid)
        for _ in range(rng.randint(1, 100)):
            await RisingEdge(dut.clk)
        word = rng.getrandbits(48)
        dut.s_axis_tdata.value, dut.s_axis_tvalid.value = word, 1
        await RisingEdge(dut.clk)
        dut.s_axis_tvalid.value = 0
        sent.append((word, frame))
    for _ in range(5):
        await RisingEdge(dut.m_axis_tvalid)
    assert not errors and not underruns
    # Written in frame n, on the bus in n + 1, received as n + 2 begins; on the bus again in n + 3, received as n + 4
    # begins.
    assert len(sent) == FRAMES
    assert [(middle[word], end[word]) for word, _ in sent] == [(at + 2, at + 4) for _, at in sent]


@cocotb.test(timeout_time=5, timeout_unit="ms")
async def a_bus_that_starts_anew_in_the_middle_of_a_frame_is_followed_within_two_frames(dut):
    """A reset of the master clock's domain alone: LRCK and SCLK jump."""
    rng = random.Random(2)
    await start(dut)
    for _ in range(4):
        await RisingEdge(dut.m_axis_tvalid)
    words = [0, 0]
    for _ in range(8):
        await Timer(rng.randint(1, 21_000), "ns")
        await RisingEdge(dut.mclk)
        dut.mclk_rst.value = 1
        await RisingEdge(dut.mclk)
        dut.mclk_rst.value = 0
        for index in range(6):
            await RisingEdge(dut.middle_tvalid)
            await ReadOnly()
            got = int(dut.middle_tdata.value)
            assert got in words, "parts of two frames"
            # What was written two pulses ago, once both ends know the new frames.
            if index >= 3:
                assert got == words[-2]
            await RisingEdge(dut.clk)
            words.append(rng.getrandbits(48))
            dut.s_axis_tdata.value, dut.s_axis_tvalid.value = words[-1], 1
            await RisingEdge(dut.clk)
            dut.s_axis_tvalid.value = 0


@pytest.mark.parametrize(
    ("clock", "mclk"),
    [("50 MHz", "25 x 29 / 59"), ("50 MHz", "-100 ppm"), ("100 MHz", "12.288 MHz"), ("100 MHz", "+100 ppm")],
)
def test_i2s_chain(simulator, clock, mclk):
    simulate(
        simulator,
        "i2s_chain",
        ["sync_bits.sv", "i2s_clocks.sv", "i2s_rx.sv", "i2s_tx.sv", ROOT / "sim" / "rtl" / "i2s_chain.sv"],
        __name__,
        parameters={"CLK_HZ": 10**12 // CLK_PS[clock]},
        env={"CLK_PS": str(CLK_PS[clock]), "MCLK_HZ": str(MCLK_HZ[mclk])},
    )
