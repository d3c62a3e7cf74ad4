"""Bit-exact model of fpga/rtl/input_mixer.sv."""

import numpy as np

UNITY = 0x1000  # Q4.12
LEFT, RIGHT, MEAN = 0, 1, 2
MEAN_SHIFT = 11  # the running mean's time constant: 2^11 samples
HALF, SHIFT = 1 << 20, 21  # from 2 x 24 bits x Q4.12 to 16 bits


class InputMixer:
    """Remembers the running mean from call to call."""

    def __init__(self):
        self._total = 0

    def mix(self, samples, *, channel=LEFT, gain=UNITY, remove_dc=False) -> tuple[np.ndarray, np.ndarray]:
        """int32[n, 2] of 24 bits, left and right, to int16[n] and bool[n]: the voice, and whether it is clipped."""
        samples = np.asarray(samples, dtype=np.int64).reshape(-1, 2)
        chosen = {LEFT: [0, 0], RIGHT: [1, 1]}.get(channel, [0, 1])
        mixed = samples[:, chosen].sum(axis=1)
        centred = np.array([self._centre(x) for x in mixed.tolist()], dtype=np.int64)
        scaled = ((centred if remove_dc else mixed) * gain + HALF) >> SHIFT
        voice = np.clip(scaled, -32768, 32767)
        top = samples[:, chosen] >> 8
        full = ((top == 32767) | (top == -32768)).any(axis=1)
        return voice.astype(np.int16), full | (voice != scaled)

    def _centre(self, x: int) -> int:
        y = x - (self._total >> MEAN_SHIFT)
        self._total += y
        return y
