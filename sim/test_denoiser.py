"""denoiser: bit-exact against its golden model at any pace, whatever the settings do, and honest when too fast."""

import os
import random
from dataclasses import replace

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, ReadOnly, RisingEdge, Timer

from bench import ROOT, record_cycles, simulate
from golden import denoiser as golden
from golden.denoiser import BINS, DELAY, FADE_FROM, HOP, UNITY, Settings, denoise

SOURCES = [
    *("denoise_analysis.sv", "denoise_noise.sv", "denoise_gain.sv", "denoise_design.sv", "denoise_multiplier.sv"),
    *("denoise_filter.sv", "denoiser.sv"),
]
FILTERS = f"{ROOT}/fpga/filters/"
PATH_BUDGET = 32  # cycles last input -> output, and cycles a sample
BINS_BUDGET = 6000  # cycles from a hop's last sample to its last bin
ADAPTATION_BUDGET = 8000  # cycles that a hop's adaptation needs
RATE = 16_000


def speech_over_noise(seed, hops, noise_rms=120, speech_rms=3000):
    """Vowel-like bursts over a steady noise, int16[64 hops]; a second of noise alone where there is room for it."""
    count = hops * HOP
    rng = np.random.default_rng(seed)
    time = np.arange(count) / RATE
    pitch = 110 * (1 + 0.05 * np.sin(2 * np.pi * 3 * time))
    harmonics = np.arange(1, 30)[:, None]
    gain = 1 / (1 + ((harmonics * 110 - 600) / 150) ** 2) + 0.5 / (1 + ((harmonics * 110 - 1700) / 200) ** 2)
    voice = (gain * np.sin(harmonics * 2 * np.pi * np.cumsum(pitch) / RATE)).sum(axis=0)
    voice *= (time % 0.35 < 0.2) * (time >= min(1.0, count / RATE / 4))
    voice *= speech_rms / np.sqrt(np.mean(voice**2) + 1e-9)
    return np.clip(np.rint(voice + noise_rms * rng.standard_normal(count)), -32768, 32767).astype(np.int16)


def everything(seed, hops):
    """Hops of anything at all: full-scale noise and squares, DC, silence, quiet and loud noise. int16[64 hops]"""
    rng = np.random.default_rng(seed)
    parts = []
    while len(parts) < hops:
        kind, time = rng.integers(6), np.arange(HOP)
        for _ in range(rng.integers(1, 9)):
            if kind == 0:
                part = rng.integers(-32768, 32768, HOP)
            elif kind == 1:
                part = np.where(time // rng.integers(1, 9) % 2, -32768, 32767)
            elif kind == 2:
                part = np.full(HOP, rng.choice([-32768, 0, 0, 0, 32767]))
            else:
                part = rng.standard_normal(HOP) * (2, 100, 6000)[kind - 3]
            parts.append(np.clip(np.rint(part), -32768, 32767).astype(np.int16))
    return np.concatenate(parts[:hops])


AUDIBLE = Settings(floor=6554)  # the reset value leaves all but rumble as it is, which would show little


def random_settings(rng):
    return Settings(
        bypass=rng.random() < 0.3,
        floor=rng.choice([0, 1000, 6554, 32768]),
        oversubtraction=rng.choice([0, 1024, 3000]),
        smoothing=rng.choice([0, 40000, 60293, 65535]),
    )


# ---- what runs in the simulator ------------------------------------------------------------------------------------


class Bench:
    """Drives and watches one denoiser and models its grid.

    `analysed` are the hops that were, and `faded[k]` says whether hop k's design came in time: both follow from the
    cycles in which `design_done` was seen. With `skip` the design gets no clock while its `busy` is low.
    """

    def __init__(self, dut, *, skip=False):
        self.dut, self.skip = dut, skip
        self.cycle = self.skipped = 0

    async def start(self):
        dut = self.dut
        for port in ("s_axis_tdata", "s_axis_tuser", "s_axis_tvalid", "m_axis_tready"):
            getattr(dut, port).value = 0
        self.set(AUDIBLE)
        dut.rst.value = 1
        if self.cycle == 0 and not self.skip:
            Clock(dut.clk, 10, unit="ns").start()
        for _ in range(3):
            await self._clock()
        dut.rst.value = 0
        self.out, self.taken_at, self.bins = [], [], []
        self.sent, self.offered, self.quiet = 0, False, None
        self.working = None  # hop in adaptation
        self.ready = None  # newest hop whose design is there
        self.analysed, self.faded, self.late = [], [], 0
        self.overruns, self.overrun_due = 0, False
        self.hop_ended = {}
        self.bins_took, self.adaptation_took = 0, 0

    async def _clock(self):
        if self.skip:
            await Timer(5, "ns")
            self.dut.clk.value = 1
            await Timer(5, "ns")
            self.dut.clk.value = 0
        else:
            await RisingEdge(self.dut.clk)
        self.cycle += 1

    def set(self, settings):
        self.current = settings
        for name, value in vars(settings).items():
            getattr(self.dut, name).value = int(value)

    async def step(self, pcm, *, offer=True, ready=True):
        """One clock; offers the next sample of `pcm` if `offer`, which then stands until it is taken."""
        dut = self.dut
        if offer and not self.offered and self.sent < len(pcm):
            self.offered = True
            dut.s_axis_tdata.value = int(pcm[self.sent]) & 0xFFFF
            dut.s_axis_tuser.value = 7000 + self.sent
        dut.s_axis_tvalid.value = int(self.offered)
        dut.m_axis_tready.value = int(ready)
        await ReadOnly()
        valid, bin_valid = int(dut.m_axis_tvalid.value), int(dut.bin_valid.value)
        user = int(dut.m_axis_tuser.value) if valid else None
        state = (valid, valid and int(dut.m_axis_tdata.value), user, bin_valid, int(dut.s_axis_tready.value))
        assert self.quiet in (None, state), "something changed while busy was low"
        self.quiet = None if int(dut.busy.value) else state
        if valid and ready:
            self.out.append((dut.m_axis_tdata.value.to_signed(), user, self.cycle - self.taken_at[user - 7000]))
        if bin_valid:
            self.bins.append(tuple(int(getattr(dut, f"bin_{name}").value) for name in ("index", "level", "noise")))
            self.bins_took = max(self.bins_took, self.cycle - self.hop_ended[self.analysed[-1]])
        assert int(dut.hop_overrun.value) == self.overrun_due, "hop_overrun"
        self.overruns += self.overrun_due
        self.overrun_due = False
        done = int(dut.design_done.value)
        if self.offered and state[-1]:
            self._take()
        if done:
            self.adaptation_took = max(self.adaptation_took, self.cycle - self.hop_ended[self.working])
            self.ready, self.working = self.working, None
        if self.skip and self.quiet is not None:
            self.skipped += 1
            await Timer(1, "ns")
        else:
            await self._clock()

    def _take(self):
        hop, index = divmod(self.sent, HOP)
        if index == FADE_FROM - 1 and hop > 0:
            self.faded.append(self.ready == hop - 1)
            self.overrun_due = not self.faded[-1]
        if index == HOP - 1:
            self.hop_ended[hop] = self.cycle
            if self.working is None:
                self.analysed.append(hop)
                self.working = hop
        self.taken_at.append(self.cycle)
        self.sent += 1
        self.offered = False

    async def settle(self, pcm):
        """Take what is still to come, until nothing moves."""
        while len(self.out) < len(pcm) or int(self.dut.busy.value):
            await self.step(pcm)

    def check(self, pcm, settings):
        """Every output sample and every bin; `settings` are those of the analysed hops, one each."""
        levels = golden.analyse(pcm)[self.analysed]
        noise, gain = golden.gains(levels, settings)
        found = np.array(self.bins).reshape(-1, BINS, 3)
        assert (found[:, :, 0] == np.arange(BINS)).all()
        assert (found[:, :, 1] == levels).all(), "levels"
        assert (found[:, :, 2] == noise).all(), "noise"
        taps = dict(zip(self.analysed, golden.design(gain), strict=True))
        coefficients, newest = [], golden.IDENTITY
        for hop in range(len(pcm) // HOP):
            newest = taps[hop] if hop < len(self.faded) and self.faded[hop] else newest
            coefficients.append(newest)
        clean = golden.filter_path(pcm, np.array(coefficients))
        assert [sample for sample, _, _ in self.out] == clean.tolist()
        assert [user for _, user, _ in self.out] == list(range(7000, 7000 + len(pcm)))
        return gain


@cocotb.test()
async def matches_the_golden_model_with_pauses_on_both_sides_and_settings_that_change(dut):
    bench = Bench(dut)
    hops = int(os.environ["HOPS"])
    for seed, (idle, stall) in enumerate([(0.993, 0.1), (0.994, 0.9)]):
        await bench.start()  # the second time in the middle of an adaptation
        rng, settings = random.Random(seed), []
        pcm = speech_over_noise(seed, hops) if seed else everything(seed, hops)
        while len(bench.out) < len(pcm):
            hop = bench.sent // HOP
            if len(settings) == hop and rng.random() < 0.01:  # any time in the hop
                bench.set(random_settings(rng) if rng.random() < 0.4 else bench.current)
                settings.append(bench.current)
            # A hop's settings are known before its last sample may come.
            offer = rng.random() >= idle and (bench.sent % HOP != HOP - 1 or len(settings) > hop)
            await bench.step(pcm, offer=offer, ready=rng.random() >= stall)
        assert len(bench.faded) == hops - 1 and sum(bench.faded) > hops // 2
        for _ in range(700 if not seed else ADAPTATION_BUDGET):
            await bench.step(pcm)
        if not seed:
            bench.analysed.pop()  # its bins have not come
        bench.check(pcm, [settings[hop] for hop in bench.analysed])


@cocotb.test()
async def clocks_matter_only_while_it_is_busy(dut):
    bench = Bench(dut, skip=True)
    await bench.start()
    pcm, rng = everything(6, 8), random.Random(6)
    while len(bench.out) < len(pcm):
        await bench.step(pcm, offer=rng.random() < 0.008, ready=rng.random() < 0.5)
    await bench.settle(pcm)
    bench.check(pcm, [AUDIBLE] * len(bench.analysed))
    assert bench.skipped > bench.cycle // 10


@cocotb.test()
async def budgets_of_the_path_and_of_the_adaptation_hold(dut):
    """At 768 clocks a sample, the slowest board's pace."""
    bench = Bench(dut)
    await bench.start()
    pcm = everything(11, 2)
    for _ in range(len(pcm)):
        for wait in range(768):
            await bench.step(pcm, offer=wait == 0)
    await bench.settle(pcm)
    bench.check(pcm, [AUDIBLE] * len(bench.analysed))
    path = max(cycles for _, _, cycles in bench.out)
    record_cycles("denoiser: last input to output", path, PATH_BUDGET)
    record_cycles("denoiser: bins", bench.bins_took, BINS_BUDGET)
    record_cycles("denoiser: adaptation", bench.adaptation_took, ADAPTATION_BUDGET)
    assert path <= PATH_BUDGET
    assert bench.bins_took <= BINS_BUDGET and bench.adaptation_took <= ADAPTATION_BUDGET
    assert bench.overruns == 0


@cocotb.test()
async def samples_that_come_too_fast_keep_the_old_filter_and_are_reported(dut):
    """Hops at a random pace, down to a sample in 32 clocks: designs in time, too late, hops that are not analysed."""
    bench = Bench(dut)
    await bench.start()
    rng, hops = random.Random(4), int(os.environ["HOPS"])
    pcm = speech_over_noise(4, hops)
    pace = 0
    while len(bench.out) < len(pcm):
        if bench.sent % HOP == 0 and not bench.offered:
            pace = rng.choice([0, 0, 60, 90, 130, 200])
        await bench.step(pcm)
        for _ in range(pace):
            await bench.step(pcm, offer=False)
    await bench.settle(pcm)
    bench.check(pcm, [AUDIBLE] * len(bench.analysed))
    period = int(min(np.diff(bench.taken_at)))
    record_cycles("denoiser", period, PATH_BUDGET)
    assert period <= PATH_BUDGET
    assert len(bench.analysed) < hops, "every hop was analysed"
    assert 0 < bench.overruns < hops - 1
    late = [hop for hop in bench.analysed if hop < hops - 1 and not bench.faded[hop]]
    assert late, "no design was late"


@cocotb.test()
async def seconds_of_speech_match_the_golden_model_with_bypass_on_and_off(dut):
    """A long run, watched at its outputs alone; a sample in 130 clocks."""
    hops = int(os.environ["LONG_HOPS"])
    if not hops:
        return
    bench = Bench(dut)
    await bench.start()
    dut.m_axis_tready.value = 1
    pcm, out, bins = speech_over_noise(8, hops), [], []

    async def watch_samples():
        while True:
            await RisingEdge(dut.m_axis_tvalid)
            await ReadOnly()
            out.append(dut.m_axis_tdata.value.to_signed())

    async def watch_bins():
        while True:
            await RisingEdge(dut.bin_valid)
            for _ in range(BINS):
                await ReadOnly()
                assert int(dut.bin_valid.value)
                bins.append((int(dut.bin_level.value), int(dut.bin_noise.value)))
                await RisingEdge(dut.clk)

    cocotb.start_soon(watch_samples())
    cocotb.start_soon(watch_bins())
    settings = []
    for index, sample in enumerate(pcm.tolist()):
        if index % HOP == 0:
            settings.append(Settings(bypass=200 < index // HOP % 300 < 260))
            bench.set(settings[-1])
        dut.s_axis_tdata.value = sample & 0xFFFF
        dut.s_axis_tvalid.value = 1
        await RisingEdge(dut.clk)
        dut.s_axis_tvalid.value = 0
        await ClockCycles(dut.clk, 129)
    await ClockCycles(dut.clk, ADAPTATION_BUDGET)
    levels = golden.analyse(pcm)
    noise, gain = golden.gains(levels, settings)
    assert out == golden.filter_path(pcm, golden.design(gain)).tolist()
    found = np.array(bins).reshape(-1, BINS, 2)
    assert (found[:, :, 0] == levels).all() and (found[:, :, 1] == noise).all()
    assert gain[:200].min() < UNITY // 2 < np.median(gain[:200].max(axis=1)), "the gains hardly move"


def test_denoiser(simulator):
    lengths = {"HOPS": "24", "LONG_HOPS": "420"} if simulator == "verilator" else {"HOPS": "8", "LONG_HOPS": "0"}
    parameters = {"FILTERS": f'"{FILTERS}"'}
    simulate(simulator, "denoiser", SOURCES, __name__, parameters=parameters, env=lengths)


# ---- what the golden model promises ----------------------------------------------------------------------------------


def test_delay_is_under_1_9_ms_and_the_same_in_bypass():
    impulse = np.zeros(1000, dtype=np.int16)
    impulse[403] = 9000
    for bypass in (False, True):
        clean, _ = denoise(impulse, Settings(bypass=bypass))
        assert np.abs(clean.astype(int)).argmax() == 403 + DELAY
    assert DELAY / RATE <= 1.9e-3


def test_bypass_is_an_exact_delay():
    pcm = everything(2, 40)
    clean, _ = denoise(pcm, Settings(bypass=True))
    assert clean[DELAY:].tolist() == pcm[:-DELAY].tolist() and not clean[:DELAY].any()


def test_switching_the_bypass_in_mid_speech_fades_in_16_samples():
    """From sample 32 of the next hop the output is a mixture of both filters, a sixteenth further at each sample."""
    pcm, hops, switch = speech_over_noise(5, 600), 600, 470
    for before in (False, True):
        settings = [replace(AUDIBLE, bypass=before != (hop >= switch)) for hop in range(hops)]
        clean, found = denoise(pcm, settings)
        at = (switch + 1) * HOP + FADE_FROM
        taps = [np.concatenate([h[:0:-1], h]) / (1 << 14) for h in found.coefficients[switch - 1 : switch + 1]]
        assert np.abs(taps[0] - taps[1]).max() > 0.02, "both are the same"
        for sample in range(at - 16, at + 32):
            old, new = (pcm[sample - 2 * DELAY : sample + 1] @ tap for tap in taps)
            share = np.clip((sample - at + 1) / 16, 0, 1)
            assert abs((1 - share) * old + share * new - clean[sample]) < 3
