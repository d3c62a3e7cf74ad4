"""i2s_rx: the converter's words, whatever the phase of the bus; a frame with too many or too few edges is dropped."""

import os
import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from cocotb.utils import get_sim_time

from bench import simulate
from golden.i2s import frame_slots, receive, unpack
from i2s_bus import SCLK_HZ, Bus

BUDGET = 4  # clocks from the edge of SCLK that shows a frame to be whole to the clock that takes it
SCLK_NS = 1e9 / SCLK_HZ
CLK_PS = {"50 MHz": 20_000, "100 MHz": 10_000, "8 x SCLK": 40_690}


def random_word(rng):
    return rng.choice([rng.randint(-(1 << 23), (1 << 23) - 1), -(1 << 23), (1 << 23) - 1, 0, -1, 1])


class Bench:
    """A receiver, its clock and a bus; `got` are the frames, `taken_ns` the clock edges at which they are taken."""

    def __init__(self, dut, seed, **options):
        self.dut = dut
        self.rng = random.Random(seed)
        self.bus = Bus(dut, self.rng, **options)
        self.got, self.taken_ns = [], []
        self.errors = 0

    async def start(self):
        period = int(os.environ["CLK_PS"])
        Clock(self.dut.clk, period, unit="ps").start()
        await self.reset()
        cocotb.start_soon(self._watch())
        cocotb.start_soon(self._count_errors())

    async def join(self):
        """Start in the right half of a frame that is under way, so that the next one is seen to begin."""
        await self.start()
        await self.bus.send([(1, 0)] * 9)

    async def reset(self):
        self.dut.rst.value = 1
        for _ in range(3):
            await RisingEdge(self.dut.clk)
        self.dut.rst.value = 0
        await RisingEdge(self.dut.clk)

    async def _watch(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.m_axis_tvalid)
            await ReadOnly()
            self.got.append(unpack(int(dut.m_axis_tdata.value)))
            await RisingEdge(dut.clk)
            self.taken_ns.append(get_sim_time("ns"))
            await ReadOnly()
            assert not dut.m_axis_tvalid.value, "tvalid is a pulse of one clock"

    async def _count_errors(self):
        while True:
            await RisingEdge(self.dut.frame_error)
            self.errors += 1
            await RisingEdge(self.dut.clk)
            await ReadOnly()
            assert not self.dut.frame_error.value, "frame_error is a pulse of one clock"

    def frame(self):
        """A random frame: (its words, its slots with noise where no bit is)."""
        words = random_word(self.rng), random_word(self.rng)
        return words, frame_slots(*words, padding=lambda: self.rng.getrandbits(1))

    async def good(self, count):
        """Send random frames; their words."""
        sent = []
        for _ in range(count):
            words, slots = self.frame()
            await self.bus.send(slots)
            sent.append(words)
        return sent

    async def finish(self):
        """Begin a frame that is not ended, which brings out the one before it; then compare with the golden model."""
        await self.bus.send([(0, 0), (0, 0)])
        expected, dropped = receive(self.bus.seen)
        assert self.got == expected
        assert self.errors == dropped


@cocotb.test()
async def random_words_arrive_in_every_phase_of_the_clocks(dut):
    bench = Bench(dut, seed=0, jitter_ns=12)
    await bench.join()
    sent = []
    for ppm in (-100, 0, 37, 100):
        bench.bus.half_ns = 0.5 * SCLK_NS / (1 + ppm * 1e-6)
        sent += await bench.good(12)
    await bench.finish()
    assert bench.got == sent and bench.errors == 0


@cocotb.test()
async def a_frame_comes_out_one_sample_and_half_an_sclk_after_its_lrck_edge(dut):
    bench = Bench(dut, seed=1, jitter_ns=0)
    await bench.join()
    clk_ns = int(os.environ["CLK_PS"]) / 1000
    cycles = []
    began = None
    for _ in range(10):
        _, slots = bench.frame()
        await bench.bus.send(slots)
        if began is not None:
            # A frame is known to be whole at its 65th rising edge.
            late = bench.taken_ns[-1] - began - 64.5 * SCLK_NS
            cycles.append(late / clk_ns)
            assert 0 < late <= BUDGET * clk_ns
        began = bench.bus.left_began_ns
    print(f"i2s_rx: {max(cycles):.1f} cycles after the last edge to the clock that takes the frame (budget {BUDGET})")


@cocotb.test()
async def a_lost_or_an_extra_edge_costs_one_frame_and_shifts_none(dut):
    bench = Bench(dut, seed=2)
    await bench.join()
    await bench.good(2)
    for _ in range(12):
        before, errors = len(bench.got), bench.errors
        _, slots = bench.frame()
        at = bench.rng.randrange(64)
        kind = bench.rng.choice(["lost", "high", "low"])
        for index, (lrck, sd) in enumerate(slots):
            hit = index == at
            # An extra pulse long enough for the clock to see it, in either half of the period.
            glitch = (kind, 45) if hit and kind != "lost" else None
            if glitch:
                bench.bus.seen.append((lrck, sd))
            await bench.bus.slot(lrck, sd, glitch=glitch, lost=hit and kind == "lost")
        sent = await bench.good(2)
        await bench.bus.send([(0, 0)] * 2)
        # What was sent before the damaged frame, and the two after it.
        assert bench.got[before + 1 :] == sent and bench.errors == errors + 1
        await bench.bus.send([(0, 0)] * 30 + [(1, 0)] * 32)
    await bench.finish()


@cocotb.test()
async def lrck_that_moves_or_sticks_gives_no_frame_until_it_is_regular(dut):
    bench = Bench(dut, seed=3)
    await bench.join()
    await bench.good(1)
    for lengths in (
        [31, 33],
        [33, 31],
        [32, 31],
        [1, 1],
        [64, 64],
        [300, 32],
        [96, 32],
        [32, 96],
        [32, 95],
        [32, 0, 32, 32],
    ):
        before = len(bench.got)
        for half, length in enumerate(lengths):
            await bench.bus.send([(half % 2, bench.rng.getrandbits(1)) for _ in range(length)])
        sent = await bench.good(2)
        await bench.bus.send([(0, 0)] * 32 + [(1, 0)] * 32)
        assert bench.got[-2:] == sent
        assert len(bench.got) - before <= 3  # the two, and the frame that ended before the irregular one
    await bench.finish()


@cocotb.test()
async def glitches_too_short_to_be_surely_seen_lose_frames_but_never_shift_one(dut):
    bench = Bench(dut, seed=4)
    await bench.join()
    sent = await bench.good(1)
    for _ in range(25):
        words, slots = bench.frame()
        at = bench.rng.randrange(64)
        for index, (lrck, sd) in enumerate(slots):
            glitch = (bench.rng.choice(["high", "low"]), bench.rng.uniform(1, 25)) if index == at else None
            await bench.bus.slot(lrck, sd, glitch=glitch)
        sent.append(words)
        sent += await bench.good(1)
    await bench.bus.send([(0, 0)] * 2)
    # Everything that came is something that was sent, in its order; every second frame was not touched at all.
    left = iter(sent)
    assert all(frame in left for frame in bench.got)
    assert len(bench.got) >= 26 and len(bench.got) + bench.errors == len(sent)


@cocotb.test()
async def a_bus_that_stops_gives_nothing_and_goes_on_in_the_middle_of_a_frame(dut):
    bench = Bench(dut, seed=5)
    await bench.join()
    await bench.good(1)
    words, slots = bench.frame()
    await bench.bus.send(slots[:20])
    for _ in range(400):
        await RisingEdge(dut.clk)
    assert len(bench.got) == 1
    bench.bus._due_ns = None
    await bench.bus.send(slots[20:])
    await bench.finish()
    assert bench.got[-1] == words


@cocotb.test()
async def after_a_reset_within_a_frame_the_first_whole_one_comes(dut):
    bench = Bench(dut, seed=6)
    await bench.join()
    for cut in (1, 20, 32, 33, 50, 63):
        await bench.bus.send(bench.frame()[1][:cut])
        await bench.reset()
        bench.got.clear()
        bench.bus.seen.clear()
        bench.errors = 0
        bench.bus._due_ns = None
        await bench.bus.send(bench.frame()[1][cut:])
        sent = await bench.good(2)
        await bench.finish()
        assert bench.got == sent and bench.errors == 0
        await bench.bus.send([(0, 0)] * 30 + [(1, 0)] * 32)


@cocotb.test()
async def nothing_unknown_comes_out_while_the_pins_are_undriven(dut):
    if cocotb.SIM_NAME != "Icarus Verilog":
        return  # Verilator has no unknown values
    bench = Bench(dut, seed=7)
    for pin in (dut.sclk, dut.lrck, dut.sd):
        pin.value = "X"
    await bench.start()

    def known():
        return all(port.value.is_resolvable for port in (dut.m_axis_tdata, dut.m_axis_tvalid, dut.frame_error))

    for _ in range(50):  # before the bus begins
        await RisingEdge(dut.clk)
        await ReadOnly()
        assert known()
    await RisingEdge(dut.clk)
    dut.sclk.value = dut.lrck.value = 1
    for sd in ("X", "X", "Z"):
        for lrck, _ in frame_slots(0, 0):
            await bench.bus.slot(lrck, 0)
            dut.sd.value = sd
            assert known()
    # What an undriven pin gives is zeros, and the words after it are right.
    sent = await bench.good(2)
    await bench.bus.send([(0, 0), (0, 0)])
    assert bench.got[-2:] == sent
    assert len(bench.got) >= 4


@pytest.mark.parametrize("clock", CLK_PS)
def test_i2s_rx(simulator, clock):
    simulate(
        simulator,
        "i2s_rx",
        ["sync_bits.sv", "i2s_rx.sv"],
        __name__,
        parameters={"CLK_HZ": 10**12 // CLK_PS[clock], "SCLK_HZ": 3_072_000},
        env={"CLK_PS": str(CLK_PS[clock])},
    )


def test_golden_frame_is_the_one_of_the_specification():
    slots = frame_slots(0x400001, -2)
    assert len(slots) == 64 and [lrck for lrck, _ in slots] == [0] * 32 + [1] * 32
    data = [sd for _, sd in slots]
    # The MSB of 0x400001 is 0, then a one: slots 1 and 2. Its LSB is in slot 24.
    assert [at for at in range(32) if data[at]] == [2, 24]
    # -2: 23 ones and a zero.
    assert data[32:] == [0] + [1] * 23 + [0] * 8
    assert receive([(0, 0)] * 5 + [(1, 0)] * 32 + slots + [(0, 0)]) == ([(0x400001, -2)], 0)
