"""Text to speech with a Piper voice, where the package `piper-tts` is installed: it is GPL-3, so nothing needs it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import soxr

from voxpath.engines.cancel import Cancel
from voxpath.engines.vocoder import RATE
from voxpath.errors import ModelError


class Voice:
    """A Piper voice as the chain uses one.

    >>> for pcm in Voice(Path("en_US-joe-medium.onnx")).speak("Good morning."): ...   # int16 [n], 24 kHz
    """

    rate = RATE  # the board plays 16 or 24 kHz, and Piper's voices have 16 or 22.05

    def __init__(self, path: Path):
        """Load the ONNX file `path` and the `path`.json beside it. Raises ModelError."""
        try:
            from piper import PiperVoice
        except ImportError as error:
            raise ModelError("A Piper voice needs the package piper-tts: pip install piper-tts.") from error
        try:
            self._voice = PiperVoice.load(path)
            for _ in self.speak("Ready to go."):  # so that the first real call is as fast as the others
                pass
        except Exception as error:  # the package's and the runtime's own errors have no common base but this
            reason = (str(error).splitlines() or ["no reason given"])[0]
            raise ModelError(f"{path} is not a Piper voice with its {path.name}.json beside it ({reason}).") from error

    def speak(self, text: str, cancel: Cancel | None = None) -> Iterator[np.ndarray]:
        """The sound of a text, a sentence at a time (int16, 24 kHz); nothing if no word is in it. Raises Cancelled."""
        if not any(char.isalnum() for char in text):
            return
        for chunk in self._voice.synthesize(text):
            if cancel is not None:
                cancel.check()
            sound = soxr.resample(chunk.audio_float_array, chunk.sample_rate, self.rate)
            yield np.rint(np.clip(sound, -1, 1) * 32767).astype(np.int16)
