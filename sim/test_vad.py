"""vad: bit-exact against its golden model, and the golden model against what the front end promises."""

import math
import random
import re
from dataclasses import replace

import cocotb
import numpy as np
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from cocotb.utils import get_sim_time
from scipy.signal import fftconvolve

from bench import ROOT, record_cycles, simulate
from golden import denoiser
from golden.resampler import resample
from golden.vad import Settings, detect, evidence, log2

BUDGET = 8  # cycles from a block's last sample to the decision
RATE = 16_000
PERIOD_NS = 10


def noise(kind, seconds, dbfs, seed=0):
    """White or pink noise (from 20 Hz) of an RMS level, float in full scale of 1."""
    count = int(seconds * RATE)
    spectrum = np.fft.rfft(np.random.default_rng(seed).standard_normal(count))
    if kind == "pink":
        spectrum /= np.sqrt(np.maximum(np.fft.rfftfreq(count, 1 / RATE), 20))
    signal = np.fft.irfft(spectrum, count)
    return signal / np.sqrt(np.mean(signal**2)) * 10 ** (dbfs / 20)


def voice(seconds, dbfs, pitch=120):
    """Vowel-like: a pulse train through two resonances, in syllables of 200 ms with dips of 20 dB in between.

    As in speech, something is closed now and then: 80 ms of nothing in every 800.
    """
    time = np.arange(int(seconds * RATE)) / RATE
    harmonics = pitch * np.arange(1, 40)
    gains = 1 / (1 + ((harmonics - 600) / 150) ** 2) + 0.5 / (1 + ((harmonics - 1700) / 200) ** 2)
    signal = sum(gain * np.sin(2 * np.pi * f * time) for f, gain in zip(harmonics, gains, strict=True))
    signal = signal * 10 ** (-(np.abs(np.sin(np.pi * time / 0.2 + 0.8)) ** 8))
    signal[(time % 0.8 >= 0.28) & (time % 0.8 < 0.36)] = 0
    return signal / np.sqrt(np.mean(signal**2)) * 10 ** (dbfs / 20)


def pcm(signal):
    return np.clip(np.rint(signal * 32768), -32768, 32767).astype(np.int16)


# ---- what runs in the simulator ------------------------------------------------------------------------------------


class Bench:
    def __init__(self, dut):
        self.dut = dut
        self.hops = []
        self.decisions = []
        self.worst = 0
        self.last_sample_ns = None

    async def start(self, settings):
        dut = self.dut
        dut.rst.value = 1
        dut.s_axis_tvalid.value = 0
        dut.playback_active.value = 0
        dut.bin_valid.value = 0
        for name, value in vars(settings).items():
            getattr(dut, name).value = int(value)
        if self.last_sample_ns is None:
            Clock(dut.clk, PERIOD_NS, unit="ns").start()
            cocotb.start_soon(self.watch())
            cocotb.start_soon(self.watch_decisions("onset_pulse"))
            cocotb.start_soon(self.watch_decisions("offset_pulse"))
        self.hops, self.decisions = [], []
        for _ in range(3):
            await RisingEdge(dut.clk)
        dut.rst.value = 0

    def took(self):
        """Cycles since the last sample of a block: that is taken in the cycle that ends at last_sample_ns, and what
        follows shows in the cycle that begins now."""
        return round((get_sim_time("ns") - self.last_sample_ns) / PERIOD_NS) + 1

    async def watch(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.hop_valid)
            await ReadOnly()
            self.worst = max(self.worst, self.took())
            self.hops.append(
                tuple(
                    int(getattr(dut, name).value)
                    for name in (
                        *("hop_speech", "hop_onset", "hop_offset", "hop_energy", "hop_floor", "hop_zc", "hop_score"),
                        *("onset_ns", "offset_ns", "active"),
                    )
                )
            )

    async def watch_decisions(self, name):
        """(number of the block, name, blocks of the onset) at every rise of a pulse, which is one clock wide."""
        dut = self.dut
        pulse = getattr(dut, name)
        while True:
            await RisingEdge(pulse)
            await ReadOnly()
            onset = name == "onset_pulse"
            assert int(dut.active.value) == onset and dut.busy.value
            self.worst = max(self.worst, self.took())
            self.decisions.append((self.block, name, int(dut.onset_blocks.value) if onset else None))
            await RisingEdge(dut.clk)
            await ReadOnly()
            assert not pulse.value

    async def send_bins(self, levels, noises, rng):
        """Send the spectrum of a hop some time after its last sample, with pauses between the bins at times."""
        dut = self.dut
        idle = rng.choice([0, 0, 0.3])
        for _ in range(rng.choice([0, 10, 300])):
            await RisingEdge(dut.clk)
        for k in range(65):
            while rng.random() < idle:
                await RisingEdge(dut.clk)
            dut.bin_valid.value = 1
            dut.bin_index.value = k
            dut.bin_level.value = int(levels[k])
            dut.bin_noise.value = int(noises[k])
            await RisingEdge(dut.clk)
            dut.bin_valid.value = 0
            dut.bin_index.value = rng.randrange(128)
            dut.bin_level.value = rng.randrange(1 << 16)

    async def send(self, samples, stamps, playback, rng, idle, bins=None):
        """Send samples with pauses of 1 to 40 clocks at the chance `idle`; wait until the module is still.

        The spectrum of a hop, if there is one, comes as late as just before the 16th sample of the next hop.
        """
        dut = self.dut
        spectrum = None
        for i, sample in enumerate(samples.tolist()):
            if idle and rng.random() < idle:
                dut.s_axis_tvalid.value = 0
                for _ in range(rng.randrange(1, 40)):
                    await RisingEdge(dut.clk)
            if spectrum and i % 64 == 15:
                dut.s_axis_tvalid.value = 0
                await spectrum
            dut.s_axis_tvalid.value = 1
            dut.s_axis_tdata.value = sample
            dut.s_axis_tuser.value = int(stamps[i])
            if i % 16 == 0:
                dut.playback_active.value = int(playback[i // 16])
            await RisingEdge(dut.clk)
            if i % 16 == 15:
                self.last_sample_ns, self.block = get_sim_time("ns"), i // 16
            if bins and i % 64 == 63:
                spectrum = cocotb.start_soon(self.send_bins(bins[0][i // 64], bins[1][i // 64], rng))
        dut.s_axis_tvalid.value = 0
        if spectrum:
            await spectrum
        await ReadOnly()
        clocks = 0
        while dut.busy.value:
            await RisingEdge(dut.clk)
            await ReadOnly()
            clocks += 1
            assert clocks < 20, "busy stays high"
        await RisingEdge(dut.clk)


def expected_hops(hops):
    assert any(hops.onset) and any(hops.offset), "the stimulus exercises nothing"
    return list(
        zip(
            *(hops.speech, hops.onset, hops.offset, hops.energy, hops.floor, hops.zero_crossings, hops.score),
            *(hops.onset_ns, hops.offset_ns, hops.active[3::4]),
            strict=True,
        )
    )


def expected_decisions(hops):
    was, out = False, []
    for block, (active, blocks) in enumerate(zip(hops.active, hops.onset_blocks, strict=True)):
        if active != was:
            out.append((block, "onset_pulse", blocks) if active else (block, "offset_pulse", None))
        was = active
    return out


def spectra(rng, hops):
    """Levels and noises of any size, int[hops, 65] each, in stretches with little, some and much over the noise."""
    generator = np.random.default_rng(rng.randrange(1 << 30))
    noises = generator.integers(0, 40_000, (hops, 65))
    above = generator.choice([-5000, 3000, 5000, 20_000], (hops // 4 + 1, 1)).repeat(4, axis=0)[:hops]
    levels = np.clip(noises + above + generator.normal(0, 2500, (hops, 65)).astype(int), 0, 0xFFFF)
    some = generator.random(hops) < 0.1
    levels[some], noises[some] = generator.integers(0, 0x10000, (2, some.sum(), 65))
    return levels, noises


def bursts(rng, count):
    """Everything at once: noise of changing level, tones, clicks, digital silence, DC and full scale."""
    parts, total = [], 0
    while total < count:
        length = rng.randrange(20, 700)
        kind = rng.randrange(6)
        seed = rng.randrange(1 << 30)
        if kind == 0:
            part = np.zeros(length)
        elif kind == 1:
            frequency = rng.choice([100, 300, 1000, 3000, 7000])
            part = rng.choice([0.001, 0.1, 1]) * np.sin(2 * np.pi * frequency * np.arange(length) / RATE)
        elif kind == 2:
            part = np.where(np.arange(length) % rng.randrange(2, 50) < 1, 1.0, -1.0)
        elif kind == 3:
            part = np.full(length, rng.uniform(-1, 1))
        else:
            part = np.random.default_rng(seed).standard_normal(length) * rng.choice([0.0001, 0.001, 0.01])
        parts.append(part)
        total += length
    return pcm(np.concatenate(parts)[:count])


async def compare(bench, rng, plain):
    settings = Settings(
        plain=plain,
        onset_score=rng.randrange(10, 130),
        offset_score=rng.randrange(100),
        onset_margin=rng.randrange(1000, 4000),
        offset_margin=rng.randrange(500, 3000),
        loud_margin=rng.randrange(3000, 7000),
        floor_min=rng.randrange(4000, 15000),
        zc_max=rng.randrange(2, 17),
        hangover=rng.choice([0, 1, 5, 32]),
        min_onset=rng.choice([0, 1, 2, 4]),
        playback_margin=rng.randrange(4000),
        delay_ns=rng.randrange(1 << 20),
    )
    samples = bursts(rng, 64 * 60)
    start = rng.randrange(1 << 40, 1 << 62)
    stamps = [start + 62_500 * i + rng.randrange(100) for i in range(len(samples))]
    playback = [rng.random() < 0.3 for _ in range(len(samples) // 16)]
    bins = spectra(rng, len(samples) // 64)
    await bench.start(settings)
    await bench.send(samples, stamps, playback, rng, idle=rng.choice([0, 0.02, 0.5]), bins=bins)
    hops = detect(samples, settings, stamps, playback, bins)
    assert bench.hops == expected_hops(hops)
    assert bench.decisions == expected_decisions(hops)
    # `send` returned when `busy` fell: what the last spectrum says is there then, not later.
    assert int(bench.dut.evidence.value) == evidence(bins, settings, playback)[-1]


@cocotb.test()
async def matches_the_golden_model_for_any_signal_spectrum_setting_and_pause(dut):
    bench = Bench(dut)
    for seed in range(8):
        await compare(bench, random.Random(seed), plain=seed % 4 == 3)
    record_cycles("vad", bench.worst, BUDGET)
    assert bench.worst <= BUDGET


@cocotb.test()
async def floor_follows_a_louder_room_as_the_golden_model_does(dut):
    """Long enough to fill and to forget every bucket of the floor's memory."""
    room = np.concatenate([noise("white", 0.8, -62), noise("white", 4.0, -42)])
    room[int(0.3 * RATE) :][: int(0.3 * RATE)] += voice(0.3, -25)
    samples = pcm(room)[: len(room) // 64 * 64]
    stamps = [62_500 * i for i in range(len(samples))]
    playback = [False] * (len(samples) // 16)
    bench = Bench(dut)
    await bench.start(Settings())
    await bench.send(samples, stamps, playback, random.Random(0), idle=0)
    hops = detect(samples, Settings(), stamps, playback)
    assert bench.hops == expected_hops(hops)
    assert bench.decisions == expected_decisions(hops)
    assert len(set(hops.floor)) > 3, "the floor did not move"


@pytest.mark.parametrize("part", ["signals", "floor"])
def test_vad(simulator, part):
    name = {
        "signals": "matches_the_golden_model_for_any_signal_spectrum_setting_and_pause",
        "floor": "floor_follows_a_louder_room_as_the_golden_model_does",
    }[part]
    simulate(simulator, "vad", ["vad.sv", "vad_evidence.sv", "log2.sv"], __name__, env={"COCOTB_TEST_FILTER": name})


# ---- what the golden model promises ----------------------------------------------------------------------------------


RULES = pytest.mark.parametrize("rule", [Settings(), Settings(plain=True)], ids=["spectrum", "plain"])


def listen(samples, settings, playback=None):
    """The detector on int16[n] as the front end runs it, with the spectrum of the denoiser's golden model."""
    levels = denoiser.analyse(samples)
    bins = None if settings.plain else (levels, denoiser.gains(levels)[0])
    return detect(samples, settings, playback=playback, bins=bins)


def hops_of_speech(hops):
    return np.flatnonzero(hops.speech)


def test_log2_is_within_a_thirtieth_of_a_decibel():
    values = [0, 1, 2, 3, 1000, *np.random.default_rng(0).integers(1, 1 << 41, 2000).tolist(), 1 << 41]
    errors = [log2(value) / 1024 - math.log2(1 + value) for value in values]
    assert max(map(abs, errors)) <= 0.011


def test_settings_are_the_reset_values_of_the_registers():
    text = (ROOT / "fpga" / "regs" / "frontend.rdl").read_text()
    for name, value in vars(Settings()).items():
        if name == "delay_ns":
            continue
        place = "VAD_RULE" if name == "plain" else f"VAD_{name.upper()}"
        register = text[: text.index(f"}} {place} @")].rsplit("reg {", 1)[1]
        assert int(re.findall(r"= (?:\d+'d)?(\d+);", register)[-1]) == value, name


def spectrum_of(excess_db, bins, hops=20):
    """A spectrum of which `bins` are so far over their noise, and the others 10 dB under it."""
    noises = np.full((hops, 65), 20_000)
    levels = noises - 3400
    levels[:, bins] = noises[:, bins] + round(excess_db / 3.0103 * 1024)
    return levels, noises


@pytest.mark.parametrize(
    ("first", "last", "octaves"),
    [(0, 3, 0), (3, 4, 2), (3, 8, 10), (8, 32, 24), (32, 58, 13), (58, 65, 0)],
)
def test_evidence_adds_up_octaves_over_a_margin_of_3_db_twice_under_1_khz_and_half_from_4_khz(first, last, octaves):
    """A bin 12.04 dB over its noise is 3 octaves of power over the margin; the average has settled after 20 hops."""
    steady = evidence(spectrum_of(12.05, slice(first, last)), Settings())
    assert abs(steady[-1] - 3 * octaves) <= 1
    assert evidence(spectrum_of(3.0, slice(first, last)), Settings())[-1] == 0
    assert max(evidence(spectrum_of(90, slice(first, last)), Settings())) <= min(255, 8 * octaves)


def test_evidence_of_a_hop_is_half_of_what_it_becomes():
    levels, noises = spectrum_of(12.05, slice(8, 32))
    levels[10:] = noises[10:] - 3400
    out = evidence((levels, noises), Settings())
    assert [round(72 * (1 - 0.5**hop)) for hop in range(1, 5)] == pytest.approx(out[:4], abs=1)
    assert [round(72 * 0.5**hop) for hop in range(1, 5)] == pytest.approx(out[10:14], abs=1)


def test_spectrum_of_a_hop_counts_from_the_first_block_of_the_next_on():
    samples = pcm(noise("white", 0.4, -48))
    levels, noises = spectrum_of(40, slice(0, 65), len(samples) // 64)
    levels[:50] = noises[:50]
    # Over the floor, and never so loud that loudness decides.
    active = detect(samples, Settings(min_onset=1), bins=(levels, noises)).active
    assert active.index(True) == next(b for b in range(len(active)) if b * 16 + 15 == 64 * 51 + 15)


def test_loudness_that_the_spectrum_does_not_confirm_counts_for_12_blocks_and_again_after_32_quiet_ones():
    """20 dB over the room for 0.6 s, with a pause of 20 or 50 ms in it."""
    for pause, onsets in ((20, 1), (50, 2)):
        signal = noise("white", 3.3, -60)
        time = np.arange(int(0.6 * RATE)) / RATE
        tone = 0.01 * math.sqrt(2) * np.sin(2 * np.pi * 3000 * time)
        tone[int(0.3 * RATE) : int((0.3 + pause / 1000) * RATE)] = 0
        signal[int(2.5 * RATE) :][: len(tone)] += tone
        samples = pcm(signal)
        hops = detect(samples, bins=spectrum_of(-10, slice(0, 65), len(samples) // 64))
        assert sum(hops.onset) == onsets
        # 12 ms of speech and 32 ms of hangover, give or take a block at each end.
        assert abs(sum(hops.active) - onsets * (12 + 32)) <= 3 * onsets


@RULES
@pytest.mark.parametrize(("frequency", "budget_ms"), [(300, 3.4), (1000, 3.1), (3000, 3.1), (6000, 3.1)])
def test_tone_burst_20_db_over_the_floor_is_an_onset_within_3_1_ms_of_reaching_the_adc(rule, frequency, budget_ms):
    """Through the resampler from 48 kHz, at 48 alignments to the blocks and phases of the tone.

    300 Hz may begin with a quarter period, 0.8 ms, of hardly anything.
    """
    coefficients = [int(line, 16) for line in (ROOT / "fpga/filters/decimate_48k_16k.hex").read_text().split()]
    coefficients = np.where(np.array(coefficients) >= 1 << 17, np.array(coefficients) - (1 << 18), coefficients)
    worst = 0.0
    for shift in range(48):
        start = 48_000 // 2 + 7 * shift
        background = np.random.default_rng(shift).standard_normal(start + 4800)
        background *= 10 ** (-60 / 20)
        in_band = 10 ** (-60 / 20) * math.sqrt(1 / 3)  # what the decimator leaves of white noise at 48 kHz
        time = np.arange(4800) / 48_000
        background[start:] += in_band * 10 * math.sqrt(2) * np.sin(2 * np.pi * frequency * time + shift)
        samples, newest = resample(pcm(background), coefficients, 1, 3)
        hops = listen(samples, rule)
        decided = hops.active.index(True)
        assert decided * 16 > start / 3 - 16, "fired before the burst"
        arrived = newest[decided * 16 + 15] / 48_000
        worst = max(worst, (arrived - start / 48_000) * 1e3)
    print(f"\nonset {worst:.2f} ms after a burst of {frequency} Hz began (budget {budget_ms})")
    # The decision itself takes 8 cycles, 0.16 us at 50 MHz.
    assert worst + 0.001 <= budget_ms


@RULES
@pytest.mark.parametrize("kind", ["white", "pink"])
@pytest.mark.parametrize("dbfs", [-80, -60, -50])
def test_stationary_noise_is_never_speech(rule, kind, dbfs):
    assert not any(listen(pcm(noise(kind, 20, dbfs)), rule).speech)


@RULES
@pytest.mark.parametrize("kind", ["white", "pink"])
@pytest.mark.parametrize("room_db", [-60, -55, -50])
@pytest.mark.parametrize("seconds", [0.4, 2.0, 6.0])
def test_offset_is_where_speech_ends_and_noise_afterwards_is_silent(rule, kind, room_db, seconds):
    lead, tail = 1.0, 2.0
    signal = noise(kind, lead + seconds + tail, room_db, seed=3)
    begin, end = int(lead * RATE), int((lead + seconds) * RATE)
    signal[begin:end] += voice(seconds, -25)
    hops = listen(pcm(signal), rule)
    speech = hops_of_speech(hops)
    assert abs(hops.onset_ns[speech[0]] / 1e9 - lead) <= 0.010
    assert abs(hops.offset_ns[-1] / 1e9 - (lead + seconds)) <= 0.020
    assert speech[-1] * 64 <= end + 320
    # No gap inside is long enough to be taken for the end of a turn.
    assert np.diff(speech).max() * 0.004 < 0.150


@RULES
def test_stream_that_starts_in_speech_is_speech_at_once(rule):
    signal = noise("pink", 3, -60)
    signal[: 2 * RATE] += voice(2, -25)
    hops = listen(pcm(signal), rule)
    assert hops_of_speech(hops).min() <= 5
    assert abs(hops.offset_ns[-1] / 1e9 - 2.0) <= 0.020


@RULES
@pytest.mark.parametrize("room_db", [-60, -50])
def test_room_tone_that_begins_after_digital_silence_is_not_speech(rule, room_db):
    signal = np.concatenate([np.zeros(2 * RATE), noise("white", 3, room_db), np.zeros(RATE), noise("pink", 3, room_db)])
    assert not any(listen(pcm(signal), rule).speech)


@RULES
def test_speech_over_digital_silence_begins_and_ends_in_place(rule):
    signal = np.concatenate([np.zeros(RATE), voice(1.5, -25), np.zeros(RATE)])
    hops = listen(pcm(signal), rule)
    assert abs(hops.onset_ns[hops_of_speech(hops)[0]] / 1e9 - 1.0) <= 0.010
    assert abs(hops.offset_ns[-1] / 1e9 - 2.5) <= 0.020


@RULES
def test_louder_room_is_learnt_within_four_seconds(rule):
    signal = np.concatenate([noise("white", 4, -65), noise("white", 8, -40)])
    speech = hops_of_speech(listen(pcm(signal), rule))
    assert len(speech), "a step of 25 dB is an event"
    assert speech.max() * 64 / RATE <= 4 + 4


@RULES
def test_offset_in_a_reverberant_room_is_where_the_sound_is_30_db_down(rule):
    """A decay of 60 dB in 0.5 s: 30 dB down is 250 ms after the last word, the room's tone far below."""
    signal = noise("pink", 6, -70)
    dry = np.zeros(6 * RATE)
    dry[RATE : 3 * RATE] = voice(2, -25)
    decay = 10 ** (-3 * np.arange(RATE) / RATE / 0.5) * np.random.default_rng(0).standard_normal(RATE)
    wet = fftconvolve(dry, decay / np.sqrt(np.sum(decay**2)))[: len(signal)]
    signal += wet
    energy = (wet.reshape(-1, 160) ** 2).mean(axis=1)
    label = (np.flatnonzero(energy >= energy.max() * 1e-3).max() + 1) * 0.010
    hops = listen(pcm(signal), rule)
    offsets = [stamp / 1e9 for stamp, decided in zip(hops.offset_ns, hops.offset, strict=True) if decided]
    # The spectrum takes a room that never falls silent for noise, and the end of its decay with it.
    assert (label - 0.020 if rule.plain else 3.0) <= offsets[-1] <= label + 0.100


@RULES
def test_dc_of_the_converter_does_not_hide_speech(rule):
    signal = noise("pink", 4, -60) + 0.02
    signal[RATE : 2 * RATE] += voice(1, -40)
    hops = listen(pcm(signal), rule)
    assert any(hops.speech)
    assert abs(hops.offset_ns[-1] / 1e9 - 2.0) <= 0.030


def test_hiss_with_many_zero_crossings_needs_to_be_loud_for_the_plain_rule():
    """5 kHz at 12 dB over the floor is over the onset margin but not over the loud margin; 1 kHz passes."""
    background = noise("white", 2, -60)
    time = np.arange(RATE // 2) / RATE
    for frequency, expected in ((6000, False), (1000, True)):
        signal = background.copy()
        signal[RATE : RATE + len(time)] += 0.001 * 4 * math.sqrt(2) * np.sin(2 * np.pi * frequency * time)
        assert any(listen(pcm(signal), Settings(plain=True)).speech) is expected


@RULES
def test_playback_margin_raises_both_thresholds(rule):
    signal = noise("white", 2, -60)
    signal[RATE : RATE + 3200] += voice(0.2, -47)
    quiet = [False] * (len(signal) // 16)
    playing = [True] * (len(signal) // 16)
    raised = replace(rule, playback_margin=5000)
    assert any(listen(pcm(signal), raised, playback=quiet).speech)
    assert not any(listen(pcm(signal), raised, playback=playing).speech)
    assert any(listen(pcm(signal), replace(rule, playback_margin=0), playback=playing).speech)
    # Speech that has begun ends earlier when a reply becomes audible.
    begun = [i > 1000 + 100 for i in range(len(signal) // 16)]
    assert listen(pcm(signal), raised, playback=begun).offset_ns[-1] <= 1.101e9


@RULES
def test_hangover_delays_the_decision_and_not_the_stamp(rule):
    signal = noise("white", 3, -60)
    signal[RATE : 2 * RATE] += voice(1, -25)
    short, long = (listen(pcm(signal), replace(rule, hangover=blocks)) for blocks in (32, 200))
    assert short.offset_ns[-1] == long.offset_ns[-1]
    decided_short, decided_long = (np.flatnonzero(hops.offset)[-1] for hops in (short, long))
    assert decided_long - decided_short == (200 - 32) // 4
