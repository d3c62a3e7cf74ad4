"""denoise_analysis against its golden model, level for level, and its golden model against a Fourier transform."""

import random

import cocotb
import numpy as np
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

from bench import ROOT, record_cycles, simulate
from golden.denoiser import BINS, HOP, SPAN, WINDOW, analyse

FILTERS = f"{ROOT}/fpga/filters/"
BUDGET = 1700  # cycles from a hop's last sample to its last level
ORDER = [bin for k in range(32) for bin in (k, 64 - k)] + [32]


def stimulus(rng, hops):
    """Hops of full-scale noise and square waves, quiet and loud noise, tones, DC, one click, silence."""
    parts = []
    for hop in range(hops):
        time = np.arange(hop * HOP, (hop + 1) * HOP)
        kind = rng.integers(8)
        if kind == 0:
            part = rng.integers(-32768, 32768, HOP)
        elif kind == 1:
            part = np.where(time // rng.integers(1, 9) % 2, -32768, 32767)
        elif kind == 2:
            part = rng.integers(-3, 4, HOP)
        elif kind == 3:
            part = rng.choice([20, 1000, 32767]) * np.sin(2 * np.pi * rng.integers(1, 1000) / 2000 * time)
        elif kind == 4:
            part = np.full(HOP, rng.choice([-32768, -1, 1, 32767]))
        elif kind == 5:
            part = np.where(time % HOP == 17, 32767, 0)
        elif kind == 6:
            part = np.zeros(HOP)
        else:
            part = rng.standard_normal(HOP) * 300
        parts.append(np.clip(np.rint(part), -32768, 32767).astype(np.int16))
    return np.concatenate(parts)


class Bench:
    """Drives one clock at a time; `levels` are those of the hops analysed so far, each a list of (bin, level)."""

    def __init__(self, dut):
        self.dut = dut
        self.cycle, self.quiet = 0, None
        self.levels, self.hop_ended = [], 0
        self.worst = 0

    async def start(self):
        dut = self.dut
        for port in ("sample", "sample_valid", "start", "level_ready"):
            getattr(dut, port).value = 0
        dut.rst.value = 1
        if self.cycle == 0:
            Clock(dut.clk, 10, unit="ns").start()
        for _ in range(3):
            await RisingEdge(dut.clk)
            self.cycle += 1
        dut.rst.value = 0
        self.quiet, self.levels, self.working = None, [], False

    async def step(self, sample=None, *, start=False, ready=True):
        """One clock; true if the analysis was still at work in the last one without a sample."""
        dut = self.dut
        dut.sample_valid.value = int(sample is not None)
        if sample is not None:
            dut.sample.value = int(sample) & 0xFFFF
        dut.start.value = int(start)
        dut.level_ready.value = int(ready)
        await ReadOnly()
        valid = int(dut.level_valid.value)
        state = (valid, valid and int(dut.level_index.value), valid and int(dut.level.value))
        assert self.quiet in (None, state), "something changed while busy was low"
        self.quiet = None if int(dut.busy.value) or start else state
        if start:
            self.levels.append([])
            self.hop_ended = self.cycle
        if valid and ready:
            self.levels[-1].append(state[1:])
            self.worst = max(self.worst, self.cycle - self.hop_ended)
        await RisingEdge(dut.clk)
        self.cycle += 1
        if sample is None:
            self.working = self.quiet is None
        return self.working


def check(levels, expected):
    for hop, (found, wanted) in enumerate(zip(levels, expected, strict=True)):
        assert found == [(bin, int(wanted[bin])) for bin in ORDER], f"hop {hop}"


@cocotb.test()
async def levels_of_every_hop_match_the_golden_model(dut):
    bench = Bench(dut)
    for seed, stall in enumerate([0.0, 0.9]):
        await bench.start()
        rng, draw = random.Random(seed), np.random.default_rng(seed)
        pcm = stimulus(draw, 30 if stall else 60)
        for index, sample in enumerate(pcm):
            await bench.step(sample, start=index % HOP == HOP - 1, ready=rng.random() >= stall)
            for _ in range(rng.randrange(60, 90)):
                await bench.step(ready=rng.random() >= stall)
            assert index % HOP != HOP - 2 or not bench.working
        while await bench.step():
            pass
        check(bench.levels, analyse(pcm))
        if not stall:
            record_cycles("denoise_analysis", bench.worst, BUDGET)
            assert bench.worst <= BUDGET


@cocotb.test()
async def samples_that_come_as_fast_as_the_path_takes_them_do_not_disturb_an_analysis(dut):
    """One each 32 clocks; levels are taken so slowly that an analysis may run into the next hop, which is left out."""
    bench, rng = Bench(dut), random.Random(5)
    await bench.start()
    pcm = stimulus(np.random.default_rng(5), 24)
    analysed, slow = [], False
    for index, sample in enumerate(pcm):
        start = index % HOP == HOP - 1 and not bench.working
        if start:
            analysed.append(index // HOP)
            slow = rng.random() < 0.5
        for wait in range(32):
            await bench.step(None if wait else sample, start=start and not wait, ready=rng.random() >= slow * 0.97)
    while await bench.step():
        pass
    assert 8 < len(analysed) < 20
    check(bench.levels, analyse(pcm)[analysed])


def test_denoise_analysis(simulator):
    parameters = {"FILTERS": f'"{FILTERS}"'}
    simulate(simulator, "denoise_analysis", ["denoise_analysis.sv"], __name__, parameters=parameters)


@pytest.mark.parametrize("rms", [200, 1000, 9000])
def test_levels_are_the_power_of_the_windowed_fourier_transform(rms):
    """Within 0.1 dB wherever the bin is well over the rounding of the samples."""
    pcm = np.rint(np.random.default_rng(rms).standard_normal(20 * HOP) * rms).clip(-32768, 32767).astype(np.int16)
    levels = analyse(pcm)
    for hop in range(1, 20):
        span = pcm[(hop - 1) * HOP : (hop + 1) * HOP] * WINDOW / (1 << 15)
        power = np.abs(np.fft.rfft(span)) ** 2
        assert len(span) == SPAN and len(power) == BINS
        loud = power > 1e6
        difference_db = (levels[hop] / 1024 - np.log2(power)) * 10 * np.log10(2)
        assert np.abs(difference_db[loud]).max() < 0.1
