"""Text to speech with hibari: text to phonemes, its two networks in pieces, and the sound of their spectra.

A voice is made of networks that run somewhere (voxpath.engines.ort on the CPU, voxpath.engines.cuda on a GPU):

    networks.text(ids, cancel) -> {name: float32[1, channels, n]}      features of n phonemes, and their durations
    networks.spectra({name: float32[1, channels, frames]}, cancel) -> five float32[1, 601, 2 frames] and the pitch
"""

import re
from collections.abc import Iterator

import numpy as np
from hibari import Hibari
from hibari.g2p import G2P

from voxpath.engines import vocoder
from voxpath.engines.cancel import Cancel
from voxpath.models.hibari import Description

# The spectra of a frame depend on this many frames (of 25 ms) on either side of it, and on no others.
HALO = 68
# Frames a chunk: the first is soon there, later ones waste less on their halos.
CHUNKS = (32, 64, 128)
# Spectra of the first chunk that are sounded at once, a quarter of a second: the first of them may be silent.
FIRST_SPECTRA = 24
LONGEST = 400  # phonemes at once; longer sentences are cut at a clause
_CLAUSE = re.compile(r"(?<=[,;:—]) ")


class Voice:
    """A speech synthesiser in memory.

    >>> for pcm in ort.voice(model).speak("The capital of France is Paris."): ...   # int16 [n], 24 kHz
    """

    rate = vocoder.RATE

    def __init__(self, description: Description, networks):
        self.description = description
        self._networks = networks
        self._g2p = G2P()
        for _ in self.speak("Ready to go."):
            pass

    def speak(self, text: str, cancel: Cancel | None = None) -> Iterator[np.ndarray]:
        """The sound of a text, in chunks (int16, 24 kHz), each as soon as it is made; nothing if no word is in it.

        Leading and trailing silence is kept. Raises Cancelled.
        """
        for phonemes in self._phonemes(text):
            if cancel is not None:
                cancel.check()
            yield from self._sentence(phonemes, cancel)

    def _phonemes(self, text: str) -> Iterator[str]:
        """Phonemes in the network's alphabet, a sentence (or a clause of a very long one) at a time."""
        for sentence in Hibari.split_sentences(text):
            phonemes = self._g2p(sentence)
            while len(phonemes) > LONGEST:
                clauses = [match.start() for match in _CLAUSE.finditer(phonemes, 0, LONGEST)]
                cut = clauses[-1] if clauses else LONGEST
                yield phonemes[:cut]
                phonemes = phonemes[cut:].lstrip()
            if any(character.isalpha() for character in phonemes):
                yield phonemes

    def _sentence(self, phonemes: str, cancel: Cancel | None) -> Iterator[np.ndarray]:
        d = self.description
        ids = [0, *(d.vocabulary[character] for character in phonemes if character in d.vocabulary), 0]
        made = self._networks.text(ids, cancel)
        owner = np.repeat(np.arange(len(ids)), made[d.durations].ravel().astype(np.int64))  # the phoneme of each frame
        sound = vocoder.Vocoder()
        done = 0
        for size in _sizes(len(owner)):
            first, end = max(0, done - HALO), min(len(owner), done + size + HALO)
            inputs = {
                name: np.take(made[feature], owner[first:end], axis=2)
                for name, feature in zip(d.repeated, d.features, strict=True)
            }
            outputs = self._networks.spectra(inputs, cancel)
            inner = slice(2 * (done - first), 2 * (done - first + size))  # two spectra a frame
            parts = [part[0][..., inner] for part in outputs]
            done += size
            at_once = FIRST_SPECTRA if done == size else 2 * size
            for start in range(0, 2 * size, at_once):
                piece = slice(start, start + at_once)
                last = done == len(owner) and piece.stop >= 2 * size
                pcm = sound.push(vocoder.Frames(*(part[..., piece] for part in parts)), last)
                if len(pcm):
                    yield np.rint(np.clip(pcm, -1, 1) * 32767).astype(np.int16)
                if cancel is not None:
                    cancel.check()


def _sizes(frames: int) -> Iterator[int]:
    """How many frames to make at a time: all at once where the halo would eat the gain."""
    for size in (*CHUNKS, *([CHUNKS[-1]] * (frames // CHUNKS[-1]))):
        if frames <= size + HALO:
            break
        yield size
        frames -= size
    yield frames
