"""Compute the denoiser's tables; write them as .hex beside this script, one word a line, the format of $readmemh.

    denoise_window.hex   128 x u16, Q1.15: weights of the analysis, oldest sample first
    cosine_128.hex       128 x s18, Q2.16: one period of a cosine
    denoise_taper.hex    31 x u17, Q1.16: weights of the designed taps, the centre first
    denoise_gain.hex    272 x u16, Q1.15: Wiener gain of a signal-to-noise ratio r, of log2(1 + 256 r) in steps of 1/16

`python fpga/filters/denoise.py` rewrites the committed files.
"""

from pathlib import Path

import numpy as np

FOLDER = Path(__file__).resolve().parent
SPAN = 128  # samples of an analysis
TAPS = 31  # of a symmetric filter of 61

GAIN_STEPS = 272  # up to a ratio of 512

# The window rises over seven eighths of the span and falls over the last, so that it leans to the newest samples.
WINDOW_RISE = 112
TAPER_BETA = 4.5


def window() -> np.ndarray:
    """The analysis window, int64[128]: two halves of a raised cosine of different lengths."""
    rise = np.sin(np.pi / 2 * (np.arange(WINDOW_RISE) + 0.5) / WINDOW_RISE) ** 2
    fall = np.cos(np.pi / 2 * (np.arange(SPAN - WINDOW_RISE) + 0.5) / (SPAN - WINDOW_RISE)) ** 2
    return np.rint(np.concatenate([rise, fall]) * (1 << 15)).astype(np.int64)


def cosine() -> np.ndarray:
    """One period of a cosine, int64[128]."""
    return np.rint(np.cos(2 * np.pi * np.arange(SPAN) / SPAN) * (1 << 16)).astype(np.int64)


def taper() -> np.ndarray:
    """The centre and one side of a Kaiser window over the taps, int64[31]."""
    return np.rint(np.kaiser(2 * TAPS - 1, TAPER_BETA)[TAPS - 1 :] * (1 << 16)).astype(np.int64)


def gain() -> np.ndarray:
    """The Wiener gain r / (1 + r) in the middle of each step of log2(1 + 256 r), int64[272]; 0 and 1 at the ends."""
    ratio = (2 ** ((np.arange(GAIN_STEPS) + 0.5) / 16) - 1) / 256
    words = np.rint(ratio / (1 + ratio) * (1 << 15)).astype(np.int64)
    words[0], words[-1] = 0, 1 << 15
    return words


# Name, bits of a word, words.
TABLES = (
    ("denoise_window", 16, window),
    ("cosine_128", 18, cosine),
    ("denoise_taper", 17, taper),
    ("denoise_gain", 16, gain),
)


def write_hex(path: Path, bits: int, words: np.ndarray) -> None:
    """Words of `bits` bits in two's complement, one a line."""
    digits = -(-bits // 4)
    path.write_text("".join(f"{int(word) & ((1 << bits) - 1):0{digits}x}\n" for word in words))


def main() -> None:
    for name, bits, make in TABLES:
        words = make()
        write_hex(FOLDER / f"{name}.hex", bits, words)
        print(f"{name}.hex: {len(words)} words of {bits} bits")


if __name__ == "__main__":
    main()
