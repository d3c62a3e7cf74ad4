"""Bit-exact model of fpga/rtl/test_pattern.sv."""

import numpy as np

FRAME_SAMPLES = 64


def pattern(pcm, enable, first: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """int16[n] and the `enable` at each to int16[n] and bool[n]: the samples, and which of them are the ramp's.

    `first` is the number of pcm[0] since reset, a multiple of FRAME_SAMPLES.
    """
    pcm = np.asarray(pcm, dtype=np.int16)
    ramp = (first + np.arange(len(pcm))).astype(np.uint16).view(np.int16)
    starts = np.arange(len(pcm)) // FRAME_SAMPLES * FRAME_SAMPLES
    active = np.asarray(enable, dtype=bool)[starts]
    return np.where(active, ramp, pcm), active
