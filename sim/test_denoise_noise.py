"""denoise_noise against its golden model: ratios and bins of every hop, through many buckets of the minimum."""

import os
import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

from bench import record_cycles, simulate
from golden import denoiser as golden
from golden.denoiser import BINS, Settings

BUDGET = 12  # cycles a bin
ORDER = [bin for k in range(32) for bin in (k, 64 - k)] + [32]


def random_levels(rng, hops):
    """int64[hops, 65]: noise that wanders in steps, bursts over it, digital silence, rumble, single extremes."""
    floor = rng.integers(5000, 30_000, BINS) + np.cumsum(rng.integers(-200, 201, (hops, BINS)), axis=0)
    levels = floor + rng.integers(-2000, 2001, (hops, BINS))
    levels += rng.integers(0, 14_000, (hops, BINS)) * (rng.random((hops, BINS)) < 0.4)
    levels[:, 0] += np.where(np.arange(hops) % 40 < 20, 15_000, -5000)
    levels[rng.random((hops, BINS)) < 0.02] = 0
    levels[rng.random((hops, BINS)) < 0.02] = 44_000
    levels[rng.random(hops) < 0.1] = rng.integers(0, 4200)
    levels[:3] = levels[0]
    levels[0, 5:20] = 0  # bins that hear nothing in the first hop
    return np.clip(levels, 0, 44_000)


def golden_hop(state, level):
    """One hop of the golden model, and what lies between its halves: (noise, ratios, caps, gains), int64[65] each."""
    peak, rumble = state.peak, state.rumble
    noise, gain = state.hop(level)
    hidden = np.clip(peak - golden.MASK - noise, 0, golden.MASK_MOST)
    over = level - (noise - hidden) - state.settings.oversubtraction
    cap = np.full(BINS, 0x7FFF)
    low = golden.RATIO_OF_1 + peak - rumble - golden.RUMBLE_SKIRT
    cap[: golden.LOW] = np.clip(low, 0, 0x7FFF)
    return noise, np.clip(over, golden.EXP2_LEAST, golden.EXP2_MOST), cap, gain


class Bench:
    def __init__(self, dut):
        self.dut = dut
        self.cycle, self.quiet = 0, None

    async def start(self):
        dut = self.dut
        for port in ("oversubtraction", "level_valid", "level_index", "level", "ratio_ready"):
            getattr(dut, port).value = 0
        dut.rst.value = 1
        if self.cycle == 0:
            Clock(dut.clk, 10, unit="ns").start()
        for _ in range(3):
            await RisingEdge(dut.clk)
            self.cycle += 1
        dut.rst.value = 0
        self.quiet, self.ratios, self.bins = None, [], []

    async def step(self, bin=None, level=0, *, ready=True):
        """One clock; true if the level that is offered was taken."""
        dut = self.dut
        dut.level_valid.value = int(bin is not None)
        if bin is not None:
            dut.level_index.value, dut.level.value = bin, int(level)
        dut.ratio_ready.value = int(ready)
        await ReadOnly()
        valid, told = int(dut.ratio_valid.value), int(dut.bin_valid.value)
        ratio = valid and (int(dut.ratio_index.value), dut.ratio.value.to_signed(), int(dut.cap.value))
        state = (valid, ratio, told)
        assert self.quiet in (None, state), "something changed while busy was low"
        self.quiet = None if int(dut.busy.value) else state
        if valid and ready:
            self.ratios.append(state[1])
        if told:
            self.bins.append(tuple(int(getattr(dut, f"bin_{name}").value) for name in ("index", "level", "noise")))
        taken = bin is not None and bool(int(dut.level_ready.value))
        await RisingEdge(dut.clk)
        self.cycle += 1
        return taken

    async def hop(self, levels, rng, idle, stall):
        for bin in ORDER:
            while idle and rng.random() < idle:
                await self.step(ready=rng.random() >= stall)
            while not await self.step(bin, levels[bin], ready=rng.random() >= stall):
                pass
        while self.quiet is None:
            await self.step(ready=rng.random() >= stall)


@cocotb.test()
async def ratios_and_bins_match_the_golden_model(dut):
    golden.BUCKET = int(os.environ["BUCKET"])
    bench, hops, caps = Bench(dut), int(os.environ["HOPS"]), []
    for seed, (idle, stall) in enumerate([(0.0, 0.0), (0.5, 0.8), (0.9, 0.0)]):
        await bench.start()
        rng, draw = random.Random(seed), np.random.default_rng(seed)
        state, levels = golden.Gain(), random_levels(draw, hops if not seed else hops // 3)
        for level in levels:
            over = rng.choice([0, 0, 1500, 65535])
            dut.oversubtraction.value = over
            begin = bench.cycle
            await bench.hop(level, rng, idle, stall)
            if not seed:
                worst = -(-(bench.cycle - begin - BINS) // BINS)  # less the bins that are told
            state.settings = Settings(oversubtraction=over)
            noise, ratio, cap, _ = golden_hop(state, level)
            assert bench.ratios == [(bin, ratio[bin], cap[bin]) for bin in ORDER]
            caps += cap[: golden.LOW].tolist()
            assert bench.bins == [(bin, level[bin], noise[bin]) for bin in range(BINS)]
            bench.ratios, bench.bins = [], []
    assert min(caps) == 0 and max(caps) > 8192, "the rumble counts for nothing"
    record_cycles("denoise_noise: a bin", worst, BUDGET)
    assert worst <= BUDGET


def test_denoise_noise(simulator):
    env = {"BUCKET": "5", "HOPS": "90" if simulator == "verilator" else "45"}
    simulate(simulator, "denoise_noise", ["denoise_noise.sv"], __name__, parameters={"BUCKET": 5}, env=env)
