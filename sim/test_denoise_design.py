"""denoise_design against its golden model, tap for tap, and its golden model against an inverse Fourier transform."""

import random

import cocotb
import numpy as np
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

from bench import ROOT, record_cycles, simulate
from golden.denoiser import BINS, IDENTITY, TAPER, TAPS, UNITY, design

FILTERS = f"{ROOT}/fpga/filters/"
BUDGET = 1100  # cycles from the last gain to the last tap
ORDER = [bin for k in range(32) for bin in (k, 64 - k)] + [32]


def random_gains(rng, hops):
    """int64[hops, 65]: anything, steps between nothing and 1, smooth curves, all 1, all 0."""
    gains = rng.integers(0, UNITY + 1, (hops, BINS))
    gains[0], gains[1] = UNITY, 0
    gains[2::4] = rng.choice([0, UNITY], gains[2::4].shape)
    gains[3::4] = UNITY // 2 + UNITY // 2 * np.cos(np.arange(BINS) * rng.random((len(gains[3::4]), 1)))
    return gains


class Bench:
    """Drives one clock at a time and is the multiplier."""

    def __init__(self, dut):
        self.dut = dut
        self.cycle, self.quiet = 0, None
        self.factors = [None, None]

    async def start(self):
        for port in ("gain_valid", "gain_index", "gain", "product"):
            getattr(self.dut, port).value = 0
        self.dut.rst.value = 1
        if self.cycle == 0:
            Clock(self.dut.clk, 10, unit="ns").start()
        for _ in range(3):
            await RisingEdge(self.dut.clk)
            self.cycle += 1
        self.dut.rst.value = 0
        self.quiet = None

    async def step(self, bin=None, gain=0):
        """One clock, with a gain or without; gives (tap_index, tap, done) where a tap comes."""
        dut = self.dut
        dut.gain_valid.value = int(bin is not None)
        if bin is not None:
            dut.gain_index.value, dut.gain.value = bin, int(gain)
        dut.product.value = (self.factors[1] or 0) & ((1 << 36) - 1)
        await ReadOnly()
        valid = int(dut.tap_valid.value)
        assert valid or not int(dut.done.value)
        state = (valid, int(dut.tap_index.value))
        assert self.quiet in (None, state), "something changed while busy was low"
        self.quiet = None if int(dut.busy.value) else state
        factors = None
        # (The first pass has nothing to taper, and Icarus knows it.)
        if int(dut.factors_valid.value) and dut.factor_x.value.is_resolvable and dut.factor_y.value.is_resolvable:
            factors = dut.factor_x.value.to_signed() * dut.factor_y.value.to_signed()
        tap = (state[1], dut.tap.value.to_signed(), int(dut.done.value)) if valid else None
        await RisingEdge(dut.clk)
        self.cycle += 1
        self.factors = [factors, self.factors[0]]
        return tap

    async def design(self, gains, pause):
        """Send 65 gains with `pause()` idle clocks between them; gives the 31 taps and the cycles that they took."""
        taps = []
        for bin in ORDER:
            assert await self.step(bin, gains[bin]) is None
            for _ in range(pause() if bin != 32 else 0):
                assert await self.step() is None
        begin = self.cycle - 1
        while not taps or not taps[-1][2]:
            tap = await self.step()
            taps += [tap] if tap else []
            assert self.cycle - begin < 2000, "the design hangs"
        assert [index for index, _, _ in taps] == list(range(TAPS))
        cycles = self.cycle - 1 - begin
        for _ in range(4):
            assert await self.step() is None
        assert not int(self.dut.busy.value)
        return [value for _, value, _ in taps], cycles


@cocotb.test()
async def taps_of_every_hop_match_the_golden_model(dut):
    bench = Bench(dut)
    rng, worst = random.Random(0), 0
    gains = random_gains(np.random.default_rng(0), 24)
    expected = design(gains)
    for hop, wanted in enumerate(expected):
        if hop in (0, 9):
            await bench.start()
        if hop == 9:  # a reset in the middle of the work leaves nothing behind
            for bin in ORDER:
                await bench.step(bin, 12345)
            for _ in range(rng.randrange(50, 900)):
                await bench.step()
            await bench.start()
        taps, cycles = await bench.design(gains[hop], lambda: rng.choice([0, 0, 1, 7]))
        assert taps == wanted.tolist(), f"hop {hop}"
        worst = max(worst, cycles)
    record_cycles("denoise_design", worst, BUDGET)
    assert worst <= BUDGET


def test_denoise_design(simulator):
    parameters = {"FILTERS": f'"{FILTERS}"'}
    simulate(simulator, "denoise_design", ["denoise_design.sv"], __name__, parameters=parameters)


def test_gains_of_1_are_the_exact_identity():
    assert design(np.full((1, BINS), UNITY))[0].tolist() == IDENTITY.tolist()


@pytest.mark.parametrize("seed", range(4))
def test_taps_are_the_tapered_inverse_fourier_transform_of_the_gains(seed):
    gains = random_gains(np.random.default_rng(seed), 12)
    exact = np.fft.irfft(gains / UNITY)[:, :TAPS] * TAPER / (1 << 16) * (1 << 14)
    assert np.abs(design(gains) - exact).max() < 1.0
