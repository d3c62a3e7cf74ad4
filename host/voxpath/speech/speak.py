"""Words to sound: what is cut off the start of a reply, and where a reply is first heard."""

from __future__ import annotations

import numpy as np

AUDIBLE_DB = 38.0  # a reply is heard from its first 10 ms within this of its loudest 10 ms
SILENCE_DBFS = -60.0  # in a chunk that is all quieter than this, nothing has begun


def _powers(pcm: np.ndarray, rate: int) -> np.ndarray:
    """Mean square of each whole 10 ms, full scale 1.0; a last part under 10 ms counts as one."""
    step = rate // 100
    padded = np.zeros(-(-len(pcm) // step) * step)
    padded[: len(pcm)] = pcm
    return ((padded / 32768.0).reshape(-1, step) ** 2).mean(axis=1)


def audible_from(pcm: np.ndarray, rate: int) -> int | None:
    """Index of the first sample of the first 10 ms within 38 dB of the loudest; None for silence."""
    power = _powers(pcm, rate)
    if len(power) == 0 or power.max() <= 0:
        return None
    return int(np.argmax(power >= power.max() * 10 ** (-AUDIBLE_DB / 10))) * (rate // 100)


class LeadTrimmer:
    """Takes the silence off the start of a reply, chunk by chunk."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._begun = False

    def __call__(self, chunk: np.ndarray) -> np.ndarray:
        if self._begun:
            return chunk
        power = _powers(chunk, self._rate)
        if len(power) == 0 or power.max() < 10 ** (SILENCE_DBFS / 10):
            return chunk[:0]
        self._begun = True
        return chunk[audible_from(chunk, self._rate) :]
