"""media_clock against exact arithmetic, driven by ticks and by clk, with rate and step corrections."""

import random
from fractions import Fraction

import cocotb
import pytest
from cocotb.triggers import ReadOnly, Timer

from bench import simulate
from golden.media_clock import MediaClock


class Harness:
    """Drives one clock at a time; `by_tick` as the build's TICK_TIME."""

    def __init__(self, dut):
        self.dut = dut
        self.by_tick = int(dut.TICK_TIME.value) == 1
        self.golden = MediaClock(None if self.by_tick else int(dut.CLK_HZ.value))
        self.tick_ns = 0
        self.rate = 0

    async def start(self):
        dut = self.dut
        for port in ("clk", "tick", "rate_adjust", "step_valid", "step_ns"):
            getattr(dut, port).value = 0
        dut.rst.value = 1
        for _ in range(3):
            await self.clock()
        dut.rst.value = 0

    async def clock(self):
        await Timer(5, "ns")
        self.dut.clk.value = 1
        await Timer(5, "ns")
        self.dut.clk.value = 0

    async def step(self, *, tick=False, rate=None, step_ns=None):
        """One clock: drives, checks every output against the golden model, and advances both."""
        dut, golden = self.dut, self.golden
        if rate is not None:
            self.rate = rate
            dut.rate_adjust.value = rate & 0xFFFFFFFF
        dut.tick.value = int(tick)
        dut.step_valid.value = int(step_ns is not None)
        dut.step_ns.value = (step_ns or 0) & (2**64 - 1)
        if self.by_tick and tick:  # a tick's own cycle already has its time
            golden.advance(self.rate)
        await ReadOnly()
        if tick:
            self.tick_ns = golden.now_ns
        assert int(dut.now_ns.value) == golden.now_ns
        assert int(dut.free_ns.value) == golden.free_ns
        assert int(dut.tick_ns.value) == self.tick_ns
        assert int(dut.epoch.value) == golden.epoch
        assert int(dut.busy.value) == (not self.by_tick or tick or step_ns is not None)
        await self.clock()
        if not self.by_tick:
            golden.advance(self.rate)
        if step_ns is not None:
            golden.step(step_ns)


@cocotb.test()
async def corrections_at_random(dut):
    bench, rng = Harness(dut), random.Random(1)
    await bench.start()
    for _ in range(4000):
        await bench.step(
            tick=rng.random() < 0.4,
            rate=rng.choice([0, rng.randint(-(2**31), 2**31 - 1), rng.randint(-5, 5)]) if rng.random() < 0.02 else None,
            step_ns=rng.choice([rng.randint(-(2**40), 2**40), -1, 1]) if rng.random() < 0.02 else None,
        )
    assert bench.golden.epoch > 20


@cocotb.test()
async def free_time_is_exact_over_a_long_run(dut):
    bench = Harness(dut)
    await bench.start()
    ticks = 3001
    for _ in range(ticks):
        await bench.step(tick=True)
    await bench.step()
    if bench.by_tick:
        assert bench.tick_ns == int(dut.free_ns.value) == (ticks - 1) * 62_500 // 3
    else:
        exact = Fraction(10**9, int(dut.CLK_HZ.value)) * (ticks + 1)
        assert abs(int(dut.free_ns.value) - exact) < 2


@cocotb.test()
async def a_hundred_ppm_is_a_hundred_ppm(dut):
    bench = Harness(dut)
    await bench.start()
    advance_ns = Fraction(62_500, 3) if bench.by_tick else Fraction(10**9, int(dut.CLK_HZ.value))
    await bench.step()
    for sign in (1, -1):
        before = int(dut.now_ns.value) - int(dut.free_ns.value)
        # The correction reaches half a ns an advance, which is 24 ppm of a tick: by ticks that is the fastest slew.
        rate = sign * min(2**31 - 1, round(advance_ns / 10_000 * 2**32))
        for _ in range(2000):
            await bench.step(tick=True, rate=rate)
        await bench.step()
        gained = int(dut.now_ns.value) - int(dut.free_ns.value) - before
        assert abs(gained - Fraction(rate, 2**32) * (2000 + (not bench.by_tick))) <= 1


@pytest.mark.parametrize(
    "parameters",
    [{"TICK_TIME": 1}, {"CLK_HZ": 100_000_000}, {"CLK_HZ": 50_000_000}, {"CLK_HZ": 12_288_135}],
    ids=["by ticks", "100 MHz", "50 MHz", "12.288135 MHz"],
)
def test_media_time_follows_ticks_or_clk_with_its_corrections(simulator, parameters):
    simulate(simulator, "media_clock", ["media_clock.sv"], __name__, parameters=parameters)
