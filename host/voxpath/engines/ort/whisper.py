"""Whisper's two networks on the CPU."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np

from voxpath.engines.cancel import Cancel
from voxpath.engines.mel import FRAMES_PER_SECOND, RATE, log_mel
from voxpath.engines.ort import session
from voxpath.engines.whisper import SILENCE_AFTER_S, Recogniser
from voxpath.models.whisper import Description, read_description

# Whisper was trained on 30 s; its encoder's time grows with the context. Below about 6 s the decoder misses its end.
SHORTEST_CONTEXT_S = 8.0


def recogniser(model: Path) -> Recogniser:
    """The exported Whisper in a folder."""
    description = read_description(model)
    tokenizer = session.load_tokenizer(model / "tokenizer.json")
    return Recogniser(description, tokenizer, _Networks(model, description))


class _Networks:
    """Encoder and decoder. For any number of threads."""

    def __init__(self, model: Path, description: Description):
        self.description = description
        self._encoder = session.load(model / "encoder.onnx")
        self.decoder = session.load(model / "decoder.onnx")
        self.never = np.zeros(description.vocabulary, np.float32)
        self.never[description.suppress] = -np.inf
        self.never_first = self.never.copy()
        self.never_first[description.suppress_first] = -np.inf

    @contextlib.contextmanager
    def listen(self, samples: np.ndarray, cancel: Cancel | None) -> Iterator["_Writing"]:
        """Encode a sound."""
        d = self.description
        seconds = max(SHORTEST_CONTEXT_S, len(samples) / RATE + SILENCE_AFTER_S)
        frames = min(d.max_frames, 2 * int(np.ceil(seconds * FRAMES_PER_SECOND / 2)))
        yield _Writing(self, session.run(self._encoder, {"mel": log_mel(samples, frames, d.mel_bins)}, cancel), cancel)


class _Writing:
    """The decoder's memory while one sound is written down."""

    def __init__(self, networks: _Networks, audio: dict[str, np.ndarray], cancel: Cancel | None):
        d = networks.description
        self._networks, self._audio, self._cancel = networks, audio, cancel
        empty = np.zeros((1, d.heads, 0, d.head_size), np.float32)
        self._past = {f"past_{kind}{layer}": empty for layer in range(d.layers) for kind in "kv"}

    def begin(self, tokens: list[int], rows: list[int]) -> tuple[list[tuple[int, float]], float]:
        """As voxpath.engines.whisper says."""
        silence, first, *others = self._step(tokens, 0, rows)
        no_speech = float(np.exp(_log_softmax(silence)[self._networks.description.no_speech]))
        return [self._choose(first, self._networks.never_first), *map(self._choose, others)], no_speech

    def follow(self, token: int, place: int) -> tuple[int, float]:
        """As voxpath.engines.whisper says."""
        self._past = {name: value[:, :, :place] for name, value in self._past.items()}
        return self._choose(self._step([token], place, [0])[0])

    def _choose(self, logits: np.ndarray, never: np.ndarray | None = None) -> tuple[int, float]:
        scores = _log_softmax(logits + (self._networks.never if never is None else never))
        token = int(scores.argmax())
        return token, float(scores[token])

    def _step(self, ids: list[int], done: int, rows: list[int]) -> np.ndarray:
        """Run the decoder on tokens that follow `done` others. Returns logits [rows, vocabulary]."""
        positions = np.arange(done, done + len(ids))
        inputs = {
            "ids": np.array([ids], np.int64),
            "positions": positions,
            "mask": np.where(np.arange(done + len(ids)) > positions[:, None], -1e9, 0).astype(np.float32)[None, None],
            "rows": np.array(rows, np.int64),
        }
        out = session.run(self._networks.decoder, {**inputs, **self._audio, **self._past}, self._cancel)
        logits = out.pop("logits")[0]
        self._past = {name.replace("present", "past"): value for name, value in out.items()}
        return logits


def _log_softmax(logits: np.ndarray) -> np.ndarray:
    shifted = logits - logits.max()
    return shifted - np.log(np.exp(shifted).sum())
