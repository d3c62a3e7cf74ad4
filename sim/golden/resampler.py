"""Bit-exact model of fpga/rtl/resampler.sv."""

import numpy as np
from numpy.lib.stride_tricks import sliding_window_view

COEF_FRAC = 16
PIPELINE = 5  # clocks from the issue of the last tap to the output


def resample(pcm: np.ndarray, coefficients: np.ndarray, up: int, down: int) -> tuple[np.ndarray, np.ndarray]:
    """Filter int16[n] by a table of integers with COEF_FRAC fraction bits, from silence.

    Returns the outputs, int16[m], and for each the index of the newest input in its sum, int64[m]. Output i lies at
    position i * down of the stream interpolated by `up`: at input i * down // up, with branch i * down % up of the
    polyphase filter (Crochiere and Rabiner, Multirate Digital Signal Processing, 1983, section 3.3).
    """
    pcm = np.asarray(pcm, dtype=np.int64)
    coefficients = np.asarray(coefficients, dtype=np.int64)
    span = -(-len(coefficients) // up)
    branches = np.zeros(span * up, dtype=np.int64)
    branches[: len(coefficients)] = coefficients
    branches = branches.reshape(span, up).T  # [phase, age]
    position = np.arange(-(-len(pcm) * up // down), dtype=np.int64) * down
    newest = position // up
    windows = sliding_window_view(np.concatenate([np.zeros(span - 1, dtype=np.int64), pcm]), span)[:, ::-1]
    sums = np.einsum("ij,ij->i", branches[position % up], windows[newest])
    rounded = (sums + (1 << (COEF_FRAC - 1))) >> COEF_FRAC
    return np.clip(rounded, -32768, 32767).astype(np.int16), newest


def cycles(taps: int, up: int, down: int) -> int:
    """Clocks from an input to the last output that it completes, at most; for up = 1, down = 1 or up < down.

    One tap a clock: half the taps where they are folded (up = 1), all of them where an input brings out every branch
    (down = 1), else those of the longest branch.
    """
    if up == 1:
        return (taps + 1) // 2 + PIPELINE
    return (taps if down == 1 else -(-taps // up)) + PIPELINE
