"""Words to sound: what is cut off between phrases, and where a reply is first heard."""

from __future__ import annotations

import numpy as np

from voxpath.speech.phrases import QUOTES

AUDIBLE_DB = 38.0  # a reply is heard from its first 10 ms within this of its loudest 10 ms
# Pauses after a mark and between words, by ear; what the voice itself would leave is 0.7 s.
PAUSES_S = ((".?!", 0.30), (",;:", 0.15))
WORD_S = 0.03
FADE_S = 0.005
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
    """Takes the silence off the start of a phrase, chunk by chunk."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self.begun = False

    def __call__(self, chunk: np.ndarray) -> np.ndarray:
        if self.begun:
            return chunk
        power = _powers(chunk, self._rate)
        if len(power) == 0 or power.max() < 10 ** (SILENCE_DBFS / 10):
            return chunk[:0]
        self.begun = True
        return chunk[audible_from(chunk, self._rate) :]


class Joiner:
    """Puts the phrases of a reply together: without the silence that the voice leaves around each, which is several
    times that of a speaker, and without a click. Levels are left as they are."""

    def __init__(self, rate: int) -> None:
        self._rate = rate
        self._pause = np.zeros(0, np.int16)  # in front of the next phrase
        self._begin()

    def _begin(self) -> None:
        self._trim = LeadTrimmer(self._rate)
        self._silence = np.zeros(0, np.int16)  # which the phrase may end with, or go on after
        self._loudest = 0.0

    def __call__(self, chunk: np.ndarray) -> np.ndarray:
        """The next sound of a phrase, as far as it is sure to be heard."""
        began = self._trim.begun
        chunk = self._trim(chunk)
        if not len(chunk):
            return chunk
        if not began:
            rise = min(len(chunk), round(FADE_S * self._rate))
            chunk = chunk.copy()
            chunk[:rise] = (chunk[:rise] * (np.arange(1, rise + 1) / rise)).astype(np.int16)
            self._silence, self._pause = self._pause, self._pause[:0]
        power = _powers(chunk, self._rate)
        self._loudest = max(self._loudest, float(power.max()))
        heard = np.flatnonzero(power >= self._loudest * 10 ** (-AUDIBLE_DB / 10))
        if not len(heard):
            self._silence = np.concatenate([self._silence, chunk])
            return chunk[:0]
        end = (int(heard[-1]) + 1) * (self._rate // 100)
        sound = np.concatenate([self._silence, chunk[:end]])
        self._silence = chunk[end:]
        return sound

    def end(self, phrase: str) -> np.ndarray:
        """The end of a phrase that reads like this: the last of its sound, fading."""
        fade = self._silence[: round(FADE_S * self._rate)]
        fade = (fade * np.linspace(1, 0, len(fade))).astype(np.int16)
        pause_s = next((seconds for marks, seconds in PAUSES_S if phrase.rstrip(QUOTES)[-1:] in marks), WORD_S)
        self._pause = np.zeros(round(pause_s * self._rate), np.int16)
        self._begin()
        return fade
