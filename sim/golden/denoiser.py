"""Bit-exact model of fpga/rtl/denoiser.sv: a filter in the path, and beside it the estimate that designs it each hop.

Hop k is the samples 64k..64k+63 since reset. Its analysis, gains and design are made from samples that have all come;
the filter reaches them at sample 64(k+1)+47, after a cross-fade of 16 samples.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

HOP = 64
SPAN = 128  # samples of an analysis
BINS = 65
TAPS = 31  # the centre and one side of 61 symmetric ones
DELAY = 30
FADE_FROM = 32  # sample of the next hop at which a design begins to replace the one before
FADE = 16  # samples that it takes
UNITY = 1 << 15  # a gain of 1

# Levels are log2 of a power in Q6.10: 1024 is 3.01 dB.
NOTHING = 0xFFFF  # no level heard yet
SILENCE = 4096  # under the level of 1 LSB RMS of white noise (5,500)
RISE = 2  # the smoothed level goes a quarter of the way up
FALL = 4  # and a sixteenth of the way down in a hop
HEAD_START = 2048  # the smoothed level begins so far over the first
BIAS = 0  # from the least smoothed level to the noise
BUCKET = 96  # hops: how far the memory of the least level moves at once
BUCKETS = 4  # buckets remembered beside the one being filled
MASK = 12926  # noise that is further under the peak than this is hidden by speech
MASK_MOST = 4096  # and counts for less, at most by this
PEAK_RISE, PEAK_FALL = 3, 4  # the peak goes an eighth of the way up, and down by 4 (3 dB/s), in a hop
RUMBLE_RISE, RUMBLE_FALL = 5, 8  # the rumble a thirty-second, and 8 (6 dB/s)
RUMBLE_SKIRT = np.array([8504, 6123, 3742, 680])  # bins 0 to 3: how far over the rumble the peak is for a gain of 1/2
LOW = len(RUMBLE_SKIRT)
LOW_FLOOR = UNITY >> 3  # lowest gain of these, unless the other floor is lower
RATIO_OF_1 = 8192  # log2 of a ratio of 1 in Q9.8
EXP2_LEAST, EXP2_MOST = -10 * 1024, 9 * 1024 - 1


def table(name: str, bits: int, signed: bool = False) -> np.ndarray:
    """The words of a table in fpga/filters, int64[n]."""
    path = Path(__file__).resolve().parents[2] / "fpga" / "filters" / f"{name}.hex"
    words = np.array([int(line, 16) for line in path.read_text().split()], dtype=np.int64)
    return np.where(words >= 1 << (bits - 1), words - (1 << bits), words) if signed else words


WINDOW = table("denoise_window", 16)
COSINE = table("cosine_128", 18, signed=True)
TAPER = table("denoise_taper", 17)
GAIN = table("denoise_gain", 16)
IDENTITY = np.concatenate([[1 << 14], np.zeros(TAPS - 1, dtype=np.int64)])


@dataclass(frozen=True)
class Settings:
    """The registers DENOISE_*, with their reset values."""

    bypass: bool = False
    floor: int = 32768  # lowest gain of bins 4 to 64, Q1.15; at most 32768
    oversubtraction: int = 0  # log2 in Q6.10, added to the noise estimate
    smoothing: int = 55706  # decision-directed weight of the hop before, Q0.16


@dataclass
class Hops:
    """What the adaptation makes of each hop."""

    bin_level: np.ndarray  # int64[h, 65], log2 of the power in Q6.10
    bin_noise: np.ndarray  # int64[h, 65], the noise under it, likewise
    gains: np.ndarray  # int64[h, 65], Q1.15
    coefficients: np.ndarray  # int64[h, 31], Q2.14, the centre first


def denoise(pcm: np.ndarray, settings: Settings | Sequence[Settings] = Settings()) -> tuple[np.ndarray, Hops]:
    """Clean int16[n] at 16 kHz, DELAY samples late, and what was found in its n // 64 whole hops; from reset.

    `settings` hold for the whole stream, or are one a hop.
    """
    pcm = np.asarray(pcm, dtype=np.int16)
    levels = analyse(pcm)
    noise, gain = gains(levels, settings)
    coefficients = design(gain)
    return filter_path(pcm, coefficients), Hops(levels, noise, gain, coefficients)


# ---- analysis --------------------------------------------------------------------------------------------------------


def log2(values: np.ndarray) -> np.ndarray:
    """vad.log2 for an array of integers under 2^52."""
    values = np.asarray(values, dtype=np.int64) + 1
    exponent = np.frexp(values.astype(np.float64))[1].astype(np.int64) - 1
    mantissa = ((values << 10) >> exponent) & 1023
    return (exponent << 10) + mantissa + ((mantissa * (1024 - mantissa) * 11) >> 15)


def bit_length(values: np.ndarray) -> np.ndarray:
    return np.frexp(np.asarray(values).astype(np.float64))[1].astype(np.int64)


def analyse(pcm: np.ndarray) -> np.ndarray:
    """Levels of the 65 bins of each hop of int16[n]: int64[n // 64, 65], log2 of the power in Q6.10.

    A real spectrum over 128 samples from sums that pair n with 128 - n. Every sum is exact in float64 (under 2^42).
    """
    hops = len(pcm) // HOP
    padded = np.concatenate([np.zeros(SPAN - HOP, dtype=np.int64), np.asarray(pcm[: hops * HOP], dtype=np.int64)])
    spans = sliding_window_view(padded, SPAN)[::HOP] if hops else np.zeros((0, SPAN), dtype=np.int64)
    shaped = (spans * WINDOW + (1 << 14)) >> 15
    even, odd = shaped[:, :BINS].copy(), shaped[:, :BINS].copy()
    even[:, 1:64] += shaped[:, :64:-1]
    odd[:, 1:64] -= shaped[:, :64:-1]
    bins, places = np.arange(BINS)[:, None], np.arange(BINS)[None, :]
    cosines = COSINE[bins * places % SPAN]
    sines = COSINE[(bins * places - SPAN // 4) % SPAN]
    real = (even.astype(np.float64) @ cosines.T.astype(np.float64)).astype(np.int64)
    imaginary = (odd[:, 1:64].astype(np.float64) @ sines[:, 1:64].T.astype(np.float64)).astype(np.int64)
    real, imaginary = np.abs((real + (1 << 15)) >> 16), np.abs((imaginary + (1 << 15)) >> 16)
    shift = np.maximum(0, bit_length(np.maximum(real, imaginary)) - 17)
    return log2((real >> shift) ** 2 + (imaginary >> shift) ** 2) + 2048 * shift


# ---- gain ------------------------------------------------------------------------------------------------------------


def exp2(values: np.ndarray) -> np.ndarray:
    """2 ** x of x in Q6.10 as Q9.8, 0 to 131,008; 2 ** m ~ 1 + m - 11/32 m (1 - m), log2's curve the other way."""
    values = np.clip(values, EXP2_LEAST, EXP2_MOST)
    mantissa = values & 1023
    curve = 1024 + mantissa - ((mantissa * (1024 - mantissa) * 11) >> 15)
    return (curve << 6) >> (8 - (values >> 10))


class Gain:
    """The estimator's state a bin; `hop` takes it one hop further. Any leading axes are independent streams.

    Noise: the least smoothed level of the last 1.5 to 1.9 s (minimum statistics, Martin, IEEE Trans. Speech Audio
    Proc. 9(5), 2001). The smoothing rises fast and falls slowly: what is remembered is the level of the noise's peaks.
    Noise far under the peaks of the speech counts for less, so that a quiet room is left nearly as it is.
    Gain: Wiener's, of the a-priori ratio by the decision-directed rule of Ephraim and Malah (IEEE Trans. Acoust.,
    Speech, Signal Proc. 32(6), 1984), and not under the floor.
    Rumble (wind, traffic, handling) comes and goes faster than the minimum sees, and a gain that followed it would
    tear the voice. But no voice reaches under 62 Hz: what bin 0 holds, slowly tracked and compared with the peak of the
    speech, says how much bins 0 to 3 are worth, and the gain there has a floor of its own. Only what is louder in bin 0
    than in bin 1 is rumble: the window spreads a low voice into bin 0, but leaves it louder in bin 1.
    """

    def __init__(self, settings: Settings = Settings(), shape: tuple = (BINS,)) -> None:
        self.settings = settings
        self.smooth = np.zeros(shape, dtype=np.int64)  # 0: nothing heard yet
        self.least = np.full(shape, NOTHING, dtype=np.int64)
        self.past = np.full((BUCKETS, *shape), NOTHING, dtype=np.int64)  # least of each bucket, oldest first
        self.kept = np.zeros(shape, dtype=np.int64)  # speech of the hop before, in units of its noise: Q9.8
        self.rumble = np.zeros(shape[:-1], dtype=np.int64)  # level of bin 0, slowly, of the hops before
        self.peak = np.zeros(shape[:-1], dtype=np.int64)  # greatest level of bins LOW to 64, of the hops before
        self.hops = 0

    def hop(self, level: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(noise in Q6.10, gain in Q1.15), int64[..., 65], of levels int64[..., 65]."""
        # Digital silence is no room: it moves nothing.
        heard = level >= SILENCE
        step = level - self.smooth
        moved = np.where(step > 0, self.smooth + (step >> RISE), self.smooth + (step >> FALL))
        moved = np.where(self.smooth == 0, level + HEAD_START, moved)
        self.smooth = np.where(heard, moved, self.smooth)
        self.least = np.where(heard, np.minimum(self.least, self.smooth), self.least)
        noise = np.minimum(np.minimum(self.least, self.past.min(axis=0)) + BIAS, NOTHING)
        self.hops += 1
        if self.hops == BUCKET:
            self.past = np.concatenate([self.past[1:], self.least[None]])
            self.least = np.full_like(self.least, NOTHING)
            self.hops = 0

        hidden = np.clip(self.peak[..., None] - MASK - noise, 0, MASK_MOST)
        posterior = exp2(level - (noise - hidden) - self.settings.oversubtraction)
        excess = np.maximum(posterior - 256, 0)
        prior = excess + ((self.settings.smoothing * (self.kept - excess) + (1 << 15)) >> 16)
        ratio = log2(prior)
        cap = np.maximum(RATIO_OF_1 + (self.peak - self.rumble)[..., None] - RUMBLE_SKIRT, 0)
        ratio[..., :LOW] = np.minimum(ratio[..., :LOW], cap)
        rumble = np.where(level[..., 0] > level[..., 1], level[..., 0], 0)
        self.rumble = follow(self.rumble, rumble, RUMBLE_RISE, RUMBLE_FALL)
        self.peak = follow(self.peak, level[..., LOW:].max(axis=-1), PEAK_RISE, PEAK_FALL)

        wiener = GAIN[ratio >> 6]
        square = (wiener * wiener + (1 << 14)) >> 15
        self.kept = (square * posterior + (1 << 14)) >> 15
        if self.settings.bypass:
            return noise, np.full_like(noise, UNITY)
        gain = np.maximum(wiener, self.settings.floor)
        gain[..., :LOW] = np.maximum(wiener[..., :LOW], min(self.settings.floor, LOW_FLOOR))
        return noise, gain


def follow(state: np.ndarray, level: np.ndarray, rise: int, fall: int) -> np.ndarray:
    """One hop further towards a level: up by a 2 ** -rise of the way, down by `fall`."""
    return np.where(level > state, state + ((level - state) >> rise), np.maximum(state - fall, 0))


def gains(levels: np.ndarray, settings: Settings | Sequence[Settings] = Settings()) -> tuple[np.ndarray, np.ndarray]:
    """Noise levels and gains of each hop, int64[h, 65] each, from its levels; one Settings, or one a hop."""
    state = Gain()
    noise, gain = np.empty_like(levels), np.empty_like(levels)
    for hop, level in enumerate(levels):
        state.settings = settings if isinstance(settings, Settings) else settings[hop]
        noise[hop], gain[hop] = state.hop(level)
    return noise, gain


# ---- design and filter -----------------------------------------------------------------------------------------------


def design(gain: np.ndarray) -> np.ndarray:
    """Taps Q2.14, the centre first, of the linear-phase filters with gains int64[h, 65] in Q1.15: int64[h, 31]."""
    gain = np.asarray(gain, dtype=np.int64)
    folded = gain[:, :32] + gain[:, :32:-1], gain[:, :32] - gain[:, :32:-1]
    taps = np.empty((len(gain), TAPS), dtype=np.int64)
    bins = np.arange(32)
    weights = np.where(bins == 0, 1, 2)
    for n in range(TAPS):
        total = folded[n % 2] @ (weights * COSINE[bins * n % SPAN])
        if n % 2 == 0:
            total += 2 * gain[:, 32] * COSINE[32 * n % SPAN]
        taps[:, n] = (((total + (1 << 21)) >> 22) * TAPER[n] + (1 << 17)) >> 18
    return taps


def filter_path(pcm: np.ndarray, coefficients: np.ndarray) -> np.ndarray:
    """int16[n] through the filters of its hops, int64[h, 31] in Q2.14: int16[n].

    The state holds 16 times a tap, so that each of the 16 samples of a fade adds the difference of two designs to it
    and the fade ends exactly on the new one; what multiplies drops two of its bits. Sums are exact in float64.
    """
    pcm = np.asarray(pcm, dtype=np.int16)
    past = sliding_window_view(np.concatenate([np.zeros(2 * DELAY, dtype=np.int64), pcm]), 2 * DELAY + 1)
    start = HOP + FADE_FROM  # of the first fade
    designs = np.concatenate([IDENTITY[None], coefficients])
    steps = np.minimum(np.arange(HOP) + 1, FADE)
    out = np.empty(len(pcm), dtype=np.int16)
    for first in [0, *range(start, len(pcm), HOP * 256)]:
        last = min(start, len(pcm)) if first == 0 else min(first + HOP * 256, len(pcm))
        sample = np.arange(first, last)
        if first == 0:
            taps = np.broadcast_to(IDENTITY << 2, (last, TAPS))
        else:
            hop = (sample - start) // HOP  # the design that is being faded in, or is there
            old, new = designs[hop], designs[hop + 1]
            taps = (16 * old + steps[(sample - start) % HOP][:, None] * (new - old)) >> 2
        window = past[first:last]
        pairs = window[:, DELAY::-1] + window[:, DELAY:]
        pairs[:, 0] = window[:, DELAY]
        total = np.einsum("ij,ij->i", pairs, taps)
        out[first:last] = np.clip((total + (1 << 15)) >> 16, -32768, 32767)
    return out
