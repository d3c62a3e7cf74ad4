"""The user speaks while a reply is heard: lower it at once, give it up if they mean it, bring it back if not.

    full --two user frames--> ducked --speech has lasted--> flushed
      ^                         |
      +-- silent for 200 ms ----+

A cough is short. "Mm" may be longer, but it is a hum throughout, where words soon open the mouth: speech without one
bright sound must last longer before the reply is given up.
"""

from __future__ import annotations

import numpy as np

from voxpath.link.frame import FRAME_SAMPLES, SAMPLE_RATE

DUCK_FRAMES = 2  # user frames in a row
RESTORE_MS = 200.0
GAP_MS = 60.0  # a longer pause begins anew: stops between sounds are shorter, those between coughs longer
DENSE = 0.6  # of the time since speech began must be user frames
BRIGHT_MS = 60.0  # of bright frames make words
HUM_MS = 420.0  # speech without them must last so long

HUM_BELOW_HZ, BRIGHT_TO_HZ = 600, 4000
BRIGHT_DB = -12.0  # of what is above that limit over what is below
_WINDOW = np.hanning(FRAME_SAMPLES + 1)[:FRAME_SAMPLES]
_STEP_HZ = SAMPLE_RATE // FRAME_SAMPLES
_LOW = slice(1, HUM_BELOW_HZ // _STEP_HZ + 1)
_HIGH = slice(HUM_BELOW_HZ // _STEP_HZ + 1, BRIGHT_TO_HZ // _STEP_HZ + 1)


def bright(pcm: np.ndarray) -> bool:
    """Whether a frame (16 kHz, up to 64 samples) is more than a hum."""
    power = np.abs(np.fft.rfft(pcm * _WINDOW[: len(pcm)], FRAME_SAMPLES)) ** 2
    return bool(power[_HIGH].sum() >= 10 ** (BRIGHT_DB / 10) * power[_LOW].sum())


class BargeIn:
    """What becomes of one reply; feed it every frame while the reply is heard.

    `duck_db` is by how much to lower the reply. Speech that has lasted `flush_after_ms`, short gaps included, ends it.
    The default is just above a cough of 250 ms and the 20 ms by which `EchoGate.user` outlasts a sound.
    """

    def __init__(self, duck_db: float = -26.0, flush_after_ms: float = 276.0) -> None:
        self.duck_db = duck_db
        self.flush_after_ms = flush_after_ms
        self.state = "full"
        self._row = 0  # user frames in a row
        self._lasted_ms = 0.0  # since speech began
        self._speech_ms = 0.0  # of it, user frames
        self._bright_ms = 0.0
        self._silence_ms = 0.0

    def hear(self, user: bool, frame_ms: float, is_bright: bool = True) -> str | None:
        """What to do after a frame of that length: "duck", "restore", "flush" (the last thing to happen) or None.

        `user` is `EchoGate.user` of the frame, `is_bright` what `bright` says of `EchoGate.rest`.
        """
        if self.state == "flushed":
            return None
        if user or self._lasted_ms:
            self._lasted_ms += frame_ms
        if user:
            self._row += 1
            self._silence_ms = 0.0
            self._speech_ms += frame_ms
            self._bright_ms += frame_ms if is_bright else 0.0
        else:
            self._row = 0
            self._silence_ms += frame_ms
            if self._silence_ms > GAP_MS:
                self._lasted_ms = self._speech_ms = self._bright_ms = 0.0
        if self.state == "full":
            if self._row < DUCK_FRAMES:
                return None
            self.state = "ducked"
            return "duck"
        needed_ms = self.flush_after_ms if self._bright_ms >= BRIGHT_MS else max(HUM_MS, self.flush_after_ms)
        if user and self._lasted_ms >= needed_ms and self._speech_ms >= DENSE * self._lasted_ms:
            self.state = "flushed"
            return "flush"
        if self._silence_ms >= RESTORE_MS:
            self.state = "full"
            return "restore"
        return None
