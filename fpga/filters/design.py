"""Design every coefficient table of the front end; write them as .hex beside this script.

Each table is a linear-phase low-pass prototype at L times the input rate, scaled by L, in two's complement of 18 bits
with 16 fraction bits: one coefficient a line, five hex digits, the format of $readmemh. `python fpga/filters/design.py`
rewrites the committed files.

The prototypes are equiripple (Parks and McClellan, 1972; `scipy.signal.remez`). 57 taps leave little room, and rounding
to 16 fraction bits costs up to 1.5 dB of stop band; the gain is therefore trimmed by a few thousandths of a dB to the
value whose rounded coefficients are best. Among thousands of coefficients the rounding averages out, and nothing is
trimmed.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from scipy.signal import freqz, remez, resample

FOLDER = Path(__file__).resolve().parent
COEF_BITS = 18
COEF_FRAC = 16
# A prototype at more times the input rate than this is interpolated from one at this many times.
COARSE = 4


@dataclass(frozen=True)
class Filter:
    """A rational resampler's prototype and the specification that it meets.

    `rate` is the prototype's sample rate in Hz (input rate times `up`). The gain is flat within +-`ripple_db` up to
    `pass_hz` and at least `stop_db` down from `stop_hz`. `weight` is the stop band's share of the equiripple error.
    """

    name: str
    up: int
    down: int
    taps: int
    rate: int
    pass_hz: float
    stop_hz: float
    weight: float
    ripple_db: float = 0.1
    stop_db: float = 70.0

    @property
    def path(self) -> Path:
        return FOLDER / f"{self.name}.hex"

    @property
    def delay_s(self) -> float:
        """Group delay in seconds: the centre tap."""
        return (self.taps - 1) / 2 / self.rate


FILTERS = (
    Filter("decimate_48k_16k", 1, 3, 57, 48_000, 6_400, 9_000, weight=40),
    Filter("interpolate_16k_48k", 3, 1, 57, 48_000, 6_400, 9_000, weight=40),
    Filter("interpolate_24k_48k", 2, 1, 57, 48_000, 9_600, 14_400, weight=40),
    # For boards whose converter runs at 44.1 kHz: L = 160, M = 441.
    Filter("decimate_44k1_16k", 160, 441, 160 * 56 + 1, 44_100 * 160, 6_400, 9_000, weight=40),
)


def prototype(spec: Filter) -> np.ndarray:
    """The float low-pass of `spec.taps` coefficients with a gain of `spec.up` in the pass band.

    A prototype at many times the audio rate has too many taps for the exchange algorithm; it is designed at four times
    the input rate, where the same impulse response has few, and interpolated (band-limited, so the response stays).
    """
    coarse = min(spec.up, COARSE)
    rate = spec.rate * coarse / spec.up
    taps = (spec.taps - 1) * coarse // spec.up + 1
    bands = [0, spec.pass_hz, spec.stop_hz, rate / 2]
    low = remez(taps, bands, [1, 0], weight=[1, spec.weight], fs=rate, maxiter=200)
    if coarse == spec.up:
        return spec.up * low
    # Zeros on both sides keep the periodic interpolation from wrapping one end's ringing into the other.
    factor = spec.up // coarse
    padded = np.concatenate([np.zeros(taps), low, np.zeros(taps)])
    fine = resample(padded, len(padded) * factor)[taps * factor :][: spec.taps]
    return coarse * fine


def table(spec: Filter) -> np.ndarray:
    """The quantised coefficients, int64[taps]: of 41 gains within +-0.01 dB, the one with the best stop band."""
    low = prototype(spec)
    if spec.up > COARSE:
        return quantise(low)
    gains = 10 ** (np.linspace(-0.01, 0.01, 41) / 20)
    return min((quantise(low * gain) for gain in gains), key=lambda words: stop_band_db(spec, words))


def stop_band_db(spec: Filter, words: np.ndarray) -> float:
    """The highest gain of a quantised filter from `spec.stop_hz` up, dB."""
    stop = np.linspace(spec.stop_hz, spec.rate / 2, 4096)
    _, response = freqz(words / (1 << COEF_FRAC) / spec.up, worN=stop, fs=spec.rate)
    return 20 * np.log10(np.abs(response).max())


def quantise(coefficients: np.ndarray) -> np.ndarray:
    """Integers of COEF_BITS bits; raises ValueError when one does not fit."""
    words = np.rint(np.asarray(coefficients) * (1 << COEF_FRAC)).astype(np.int64)
    limit = 1 << (COEF_BITS - 1)
    if words.min() < -limit or words.max() >= limit:
        raise ValueError(f"a coefficient does not fit in {COEF_BITS} bits with {COEF_FRAC} fraction bits")
    return words


def write_hex(path: Path, words: np.ndarray) -> None:
    """One coefficient a line, as $readmemh reads it."""
    mask = (1 << COEF_BITS) - 1
    path.write_text("".join(f"{int(word) & mask:05x}\n" for word in words))


def read_hex(path: Path) -> np.ndarray:
    """The coefficients of a table, int64[taps]."""
    words = np.array([int(line, 16) for line in Path(path).read_text().split()], dtype=np.int64)
    return np.where(words >= 1 << (COEF_BITS - 1), words - (1 << COEF_BITS), words)


def main() -> None:
    for spec in FILTERS:
        write_hex(spec.path, table(spec))
        print(f"{spec.path.name}: {spec.taps} taps, {spec.delay_s * 1e3:.3f} ms")


if __name__ == "__main__":
    main()
