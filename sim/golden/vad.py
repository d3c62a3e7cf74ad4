"""Bit-exact model of fpga/rtl/vad.sv. All levels are log2 of a sum of squares in Q6.10: 1024 is 3.01 dB."""

from dataclasses import dataclass, field

import numpy as np

BLOCK = 16  # samples: 1 ms, the step of every decision
HOP = 64  # samples: the grid of frames
SEGMENT = 32  # blocks: the step of the noise floor
BUCKET = 24  # segments: how far the floor's memory moves at once
BUCKETS = 4  # buckets remembered beside the one being filled: 3.1 to 3.8 s

LEVEL_OF_4 = 2048  # from 16-sample to 64-sample units
LEVEL_OF_8 = 3072  # from 512-sample to 64-sample units
FLOOR_BIAS = 256  # the least of many noise segments lies about 0.75 dB under their mean
FLOOR_START = 18 * 1024  # -54 dBFS: the highest floor until the first memory is full
DIGITAL_SILENCE = 16  # a block of less (1 LSB RMS) is no microphone: its segment says nothing about the room
RANGE = 9728  # what is 28.6 dB under the recent peak is not speech
PLAIN_SHIFT = 5  # a plain score of 255 is 24 dB over the floor

# Sub-band evidence: octaves of power by which the bins of a hop exceed their noise, added up.
BINS = 65
FIRST_BIN, LAST_BIN = 3, 57  # 375 Hz, over most rumble, to 7.1 kHz
SINGLE_BIN, HALF_BIN = (
    8,
    32,
)  # weight 2 under 1 kHz, 1, and 1/2 from 4 kHz on: octaves count about the same
BIN_MARGIN = 1024  # over the noise estimate, Q6.10: what a bin of steady noise seldom exceeds
EXCESS_MOST = 8191  # 24 dB
EVIDENCE_SHIFT = 8  # from the sum of excesses to quarters of a score
EVIDENCE_MOST = 1023

# Loudness alone counts when it is quiet before, for as long as the spectrum needs to have its say.
LOUDNESS_SHIFT = 7
LOUDNESS_LEAST = 8  # of a block at the floor; 48 is 15 dB over it
CALM = 32  # quiet blocks in a row from which on loudness counts
CALM_MOST = 43  # then it counts for 12 blocks more


@dataclass(frozen=True)
class Settings:
    """The registers VAD_*, with their reset values; `delay_ns` is subtracted from the stamps."""

    plain: bool = False  # decide by energy and zero crossings alone
    onset_score: int = 48
    offset_score: int = 24
    onset_margin: int = 3072
    offset_margin: int = 1536
    loud_margin: int = 5120
    floor_min: int = 13312
    zc_max: int = 8
    hangover: int = 32
    min_onset: int = 2
    playback_margin: int = 2048
    delay_ns: int = 0


@dataclass
class Hops:
    """What the detector says at the end of each hop (lists of one entry a hop), and in each block.

    By block: `active`, and `onset_blocks`, which has the blocks of an onset where one is decided and 0 elsewhere.
    """

    speech: list = field(default_factory=list)
    onset: list = field(default_factory=list)
    offset: list = field(default_factory=list)
    energy: list = field(default_factory=list)
    floor: list = field(default_factory=list)
    zero_crossings: list = field(default_factory=list)
    score: list = field(default_factory=list)
    onset_ns: list = field(default_factory=list)
    offset_ns: list = field(default_factory=list)
    active: list = field(default_factory=list)
    onset_blocks: list = field(default_factory=list)


def log2(value: int) -> int:
    """log2(1 + value) in Q6.10: the leading one, and the mantissa m by log2(1 + m) ~ m + 11/32 m (1 - m).

    Off by at most 0.011 (0.033 dB).
    """
    value = int(value) + 1
    exponent = value.bit_length() - 1
    mantissa = ((value << 10) >> exponent) & 1023
    return (exponent << 10) + mantissa + ((mantissa * (1024 - mantissa) * 11) >> 15)


def high_pass(pcm: np.ndarray) -> np.ndarray:
    """First-order high-pass at 160 Hz: the sample less a running mean of time constant 16 samples. int64[n]."""
    out = np.empty(len(pcm), dtype=np.int64)
    total = 0
    for i, sample in enumerate(np.asarray(pcm).tolist()):
        out[i] = difference = sample - (total >> 4)
        total += difference
    return out


def evidence(bins, settings: Settings, playback=None) -> list[int]:
    """What the spectrum of each hop says for speech, 0 to 255, from (levels, noises), each int[h, 65] in Q6.10.

    `playback` is one bool a block.
    """
    level, noise = (np.asarray(part, dtype=np.int64) for part in bins)
    over = level - noise - BIN_MARGIN
    if playback is not None:
        playing = np.asarray(playback[3 : 4 * len(level) : 4], dtype=np.int64)
        over = over - settings.playback_margin * playing[:, None]
    excess = np.clip(over, 0, EXCESS_MOST)
    excess[:, :SINGLE_BIN] <<= 1
    excess[:, HALF_BIN:] >>= 1
    totals = np.minimum(excess[:, FIRST_BIN : LAST_BIN + 1].sum(axis=1) >> EVIDENCE_SHIFT, EVIDENCE_MOST)
    smooth, out = 0, []
    for total in totals.tolist():
        smooth = (smooth + total) >> 1
        out.append(smooth >> 2)
    return out


def detect(pcm, settings: Settings = Settings(), stamps=None, playback=None, bins=None) -> Hops:
    """Voice activity of int16[n] at 16 kHz from reset; the last n % 64 samples give no hop.

    `stamps` are the media times of the samples, ns (62,500 apart by default); `playback`, one bool a block, says when
    a reply is audible (never by default). `bins` is the denoiser's spectrum: levels and noise levels of its hops,
    int[h, 65] each; without them energy alone decides.
    """
    signal = high_pass(pcm)
    blocks = len(signal) // HOP * (HOP // BLOCK)
    stamps = range(0, 62_500 * len(signal), 62_500) if stamps is None else stamps
    energy = (signal**2)[: blocks * BLOCK].reshape(blocks, BLOCK).sum(axis=1).tolist()
    negative = np.concatenate([[False], signal < 0])
    crossings = (negative[1:] != negative[:-1])[: blocks * BLOCK].reshape(blocks, BLOCK).sum(axis=1).tolist()
    # A hop's spectrum is known when the next hop's first block ends.
    spectral = [0] * (blocks // 4 + 1) if bins is None else [0, *evidence(bins, settings, playback)]

    out = Hops()
    past = [FLOOR_START] * BUCKETS  # the least segment of each bucket, oldest first
    least, segments, segment_sum, heard = 0xFFFF, 0, 0, True
    floor, peak, calm = FLOOR_START, 0, CALM_MOST
    active, run, silence = False, 0, 0
    run_start, last_speech, onset_ns, offset_ns = 0, 0, 0, 0
    speech, onset, offset = False, False, False

    for b in range(blocks):
        raised = floor + (settings.playback_margin if playback is not None and playback[b] else 0)
        level = log2(sum(energy[max(0, b - 3) : b + 1]))
        block_level = log2(energy[b]) + LEVEL_OF_4
        audible = level >= peak - RANGE
        above = level >= raised + settings.offset_margin
        if settings.plain:
            score = min(255, max(0, level - floor) >> PLAIN_SHIFT)
            voiced = sum(crossings[max(0, b - 3) : b + 1]) <= 4 * settings.zc_max
            loud = block_level >= raised + settings.loud_margin
            starts = audible and level >= raised + settings.onset_margin and (voiced or loud)
            goes_on = audible and above
        else:
            score = spectral[b // 4]
            if calm >= CALM and block_level >= raised:
                score = min(255, max(score, ((block_level - raised) >> LOUDNESS_SHIFT) + LOUDNESS_LEAST))
            starts = audible and above and score >= settings.onset_score
            goes_on = audible and above and score >= settings.offset_score
        used_up = calm - 1 if calm >= CALM else 0
        calm = used_up if above else min(calm + 1, CALM_MOST)

        first, last = stamps[b * BLOCK], stamps[b * BLOCK + BLOCK - 1]
        counted = 0
        if active:
            if goes_on:
                silence, last_speech, speech = 0, last, True
            else:
                silence += 1
                if silence >= settings.hangover:
                    active, offset, offset_ns = False, True, last_speech - settings.delay_ns
        elif starts:
            if run == 0:
                run_start = first
            run += 1
            if run >= settings.min_onset:
                active, onset, speech, onset_ns = True, True, True, run_start - settings.delay_ns
                counted, run, silence, last_speech = run, 0, 0, last
        else:
            run = 0
        out.active.append(active)
        out.onset_blocks.append(counted)

        if b % (HOP // BLOCK) == HOP // BLOCK - 1:
            out.speech.append(speech)
            out.onset.append(onset)
            out.offset.append(offset)
            out.energy.append(level)
            out.floor.append(floor)
            out.zero_crossings.append(sum(crossings[b - 3 : b + 1]))
            out.score.append(score)
            out.onset_ns.append(onset_ns)
            out.offset_ns.append(offset_ns)
            speech, onset, offset = False, False, False

        # The peak follows a rise within 8 ms, so a click hardly moves it, and falls by 3 dB/s.
        peak = peak + ((level - peak) >> 3) if level > peak else max(peak - 1, 0)

        segment_sum += energy[b]
        heard = heard and energy[b] >= DIGITAL_SILENCE
        if b % SEGMENT == SEGMENT - 1:
            if heard:
                least = min(least, log2(segment_sum) - LEVEL_OF_8)
                floor = max(min(least, *past) + FLOOR_BIAS, settings.floor_min)
                segments += 1
                if segments == BUCKET:
                    past = [*past[1:], least]
                    least, segments = 0xFFFF, 0
            segment_sum, heard = 0, True
    return out
