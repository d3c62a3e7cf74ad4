"""denoise_gain against its golden model: the gains of every hop, with settings that change from hop to hop."""

import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

from bench import ROOT, record_cycles, simulate
from golden import denoiser as golden
from golden.denoiser import BINS, UNITY, Settings
from test_denoise_noise import ORDER, golden_hop, random_levels

FILTERS = f"{ROOT}/fpga/filters/"
BUDGET = 22  # cycles a bin


class Bench:
    """Drives one clock at a time and is the multiplier."""

    def __init__(self, dut):
        self.dut = dut
        self.cycle, self.quiet = 0, None
        self.factors = [None, None]

    async def start(self):
        dut = self.dut
        for port in ("bypass", "floor", "smoothing", "ratio_valid", "ratio_index", "ratio", "cap", "product"):
            getattr(dut, port).value = 0
        dut.rst.value = 1
        if self.cycle == 0:
            Clock(dut.clk, 10, unit="ns").start()
        for _ in range(3):
            await RisingEdge(dut.clk)
            self.cycle += 1
        dut.rst.value = 0
        self.quiet, self.gains = None, []

    async def step(self, bin=None, ratio=0, cap=0):
        """One clock; true if the ratio that is offered was taken."""
        dut = self.dut
        dut.ratio_valid.value = int(bin is not None)
        if bin is not None:
            dut.ratio_index.value, dut.ratio.value, dut.cap.value = bin, int(ratio) & 0x7FFF, int(cap)
        dut.product.value = (self.factors[1] or 0) & ((1 << 36) - 1)
        await ReadOnly()
        valid = int(dut.gain_valid.value)
        assert self.quiet in (None, valid), "something changed while busy was low"
        self.quiet = None if int(dut.busy.value) else valid
        if valid:
            self.gains.append((int(dut.gain_index.value), int(dut.gain.value)))
        factors = None
        if int(dut.factors_valid.value):
            factors = dut.factor_x.value.to_signed() * dut.factor_y.value.to_signed()
        taken = bin is not None and bool(int(dut.ratio_ready.value))
        await RisingEdge(dut.clk)
        self.cycle += 1
        self.factors = [factors, self.factors[0]]
        return taken

    async def hop(self, ratios, caps, rng, idle):
        for bin in ORDER:
            while idle and rng.random() < idle:
                await self.step()
            while not await self.step(bin, ratios[bin], caps[bin]):
                pass
        while self.quiet is None:
            await self.step()


@cocotb.test()
async def gains_match_the_golden_model(dut):
    bench, seen = Bench(dut), []
    for seed, idle in enumerate([0.0, 0.9]):
        await bench.start()
        rng, state = random.Random(seed), golden.Gain()
        for hop, level in enumerate(random_levels(np.random.default_rng(seed), 30 if not seed else 10)):
            # In the first hop all that counts is that what the memory holds does not.
            settings = Settings(floor=0, smoothing=65535)
            if hop:
                settings = Settings(
                    bypass=rng.random() < 0.2,
                    floor=rng.choice([0, 6554, 32768]),
                    oversubtraction=rng.choice([0, 1000]),
                    smoothing=rng.choice([0, 30000, 55706, 65535]),
                )
            state.settings = settings
            dut.bypass.value, dut.floor.value, dut.smoothing.value = settings.bypass, settings.floor, settings.smoothing
            _, ratio, cap, gain = golden_hop(state, level)
            begin = bench.cycle
            await bench.hop(ratio, cap, rng, idle)
            if not seed:
                cycles = -(-(bench.cycle - begin) // BINS)
            assert bench.gains == [(bin, gain[bin]) for bin in ORDER]
            seen += gain.tolist()
            bench.gains = []
    assert len(np.unique(seen)) > 150 and np.min(seen) == 0 and np.max(seen) == UNITY
    record_cycles("denoise_gain: a bin", cycles, BUDGET)
    assert cycles <= BUDGET


def test_denoise_gain(simulator):
    parameters = {"FILTERS": f'"{FILTERS}"'}
    simulate(simulator, "denoise_gain", ["denoise_gain.sv"], __name__, parameters=parameters)
