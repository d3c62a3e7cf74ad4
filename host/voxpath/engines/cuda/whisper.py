"""Whisper's two networks on a GPU: from samples to tokens without coming back in between."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import numpy as np

from voxpath.engines.cancel import Cancel
from voxpath.engines.cuda.device import Gpu
from voxpath.engines.mel import WINDOW
from voxpath.engines.ort import session
from voxpath.engines.whisper import Recogniser
from voxpath.models import whisper_gpu
from voxpath.models.whisper import Description, read_description

PIECES = (4, 16, 64)  # tokens that are read at once: as many as there are and some more, which are forgotten
ROWS = 65  # for that many of them it is told what would follow


def recogniser_on(gpu: Gpu, model: Path) -> Recogniser:
    """The Whisper in a folder that voxpath.models.whisper_gpu wrote."""
    description = read_description(model)
    tokenizer = session.load_tokenizer(model / "tokenizer.json")
    return Recogniser(description, tokenizer, _Networks(gpu, model, description))


class _Networks:
    """Encoder and decoder with their buffers. For one sound at a time; others wait."""

    def __init__(self, gpu: Gpu, model: Path, description: Description):
        self._gpu, self._description = gpu, description
        self._lock = threading.Lock()
        gpu.run(self._load, model)

    @contextlib.contextmanager
    def listen(self, samples: np.ndarray, cancel: Cancel | None) -> Iterator[_Networks]:
        """Encode a sound."""
        with self._lock:
            self._cancel = cancel
            self._gpu.run(self._hear, samples)
            yield self

    def begin(self, tokens: list[int], rows: list[int]) -> tuple[list[tuple[int, float]], float]:
        """As voxpath.engines.whisper says."""
        return self._gpu.run(self._begin, tokens, rows)

    def follow(self, token: int, place: int) -> tuple[int, float]:
        """As voxpath.engines.whisper says."""
        return self._gpu.run(self._follow, token, place)

    def _load(self, model: Path) -> None:
        d, gpu = self._description, self._gpu
        encoder, decoder = (gpu.load(model / f"{name}.onnx") for name in ("encoder", "decoder"))
        names = [f"{kind}{layer}" for layer in range(d.layers) for kind in "kv"]
        number = np.float16 if "float16" in encoder.get_outputs()[0].type else np.float32
        audio = {f"audio_{name}": gpu.zeros(1, d.heads, d.max_frames // 2, d.head_size, dtype=number) for name in names}
        memory = {name: gpu.zeros(1, d.heads, d.max_tokens, d.head_size, dtype=number) for name in names}
        past = {f"past_{name}": buffer for name, buffer in memory.items()}
        present = {f"present_{name}": buffer for name, buffer in memory.items()}
        self._pcm = gpu.zeros(1, whisper_gpu.samples(d))
        self._heard = 0  # samples that are not zero
        self._encode = gpu.step(encoder, {"pcm": self._pcm}, audio)

        never = np.zeros((ROWS, d.vocabulary), np.float32)
        never[:, d.suppress] = -np.inf
        never[1, d.suppress_first] = -np.inf  # row 0 is looked at for silence alone
        self._ids, self._rows, self._token, self._logprob, self._no_speech = {}, {}, {}, {}, {}
        self._read: dict[int, Callable[[], None]] = {}
        self._start, nowhere = gpu.zeros(1, dtype=np.int64), gpu.zeros(1, dtype=np.int64)
        for n in (1, *PIECES, d.max_tokens):
            count = 1 if n == 1 else min(n + 1, ROWS)
            forbidden = gpu.zeros(count, d.vocabulary)
            forbidden.write(never[-1:] if n == 1 else never[:count])
            self._ids[n], self._rows[n] = gpu.zeros(1, n, dtype=np.int64), gpu.zeros(count, dtype=np.int64)
            self._token[n] = self._ids[1] if n == 1 else gpu.zeros(1, count, dtype=np.int64)
            self._logprob[n], self._no_speech[n] = gpu.zeros(1, count), gpu.zeros(1, count)
            offsets = gpu.zeros(n, dtype=np.int64)
            offsets.write(np.arange(n))
            inputs = {
                "ids": self._ids[n],
                "start": self._start,
                "offsets": offsets,
                "rows": self._rows[n],
                "never": forbidden,
            }
            outputs = {
                "token": self._token[n],
                "logprob": self._logprob[n],
                "no_speech": self._no_speech[n],
                "next": self._start if n == 1 else nowhere,
            }
            self._start.write([0])
            self._read[n] = gpu.step(decoder, {**inputs, **audio, **past}, {**outputs, **present})

    def _hear(self, samples: np.ndarray) -> None:
        half = WINDOW // 2
        front = np.zeros(half, np.float32)
        head = samples[half:0:-1]
        front[half - len(head) :] = head
        pcm = np.concatenate([front, samples])
        if self._heard > len(pcm):
            pcm = np.pad(pcm, (0, self._heard - len(pcm)))
        self._heard = half + len(samples)
        self._pcm.write(pcm)
        self._encode()

    def _begin(self, tokens: list[int], rows: list[int]) -> tuple[list[tuple[int, float]], float]:
        self._check()
        n = next(size for size in self._read if size > 1 and len(tokens) <= size)
        rows = rows[: min(n + 1, ROWS)]
        self._ids[n].write(tokens)
        self._rows[n].write(rows)
        self._start.write([0])
        self._read[n]()
        chosen, logprobs, silence = (part[n].read(len(rows)) for part in (self._token, self._logprob, self._no_speech))
        self._gpu.wait()
        self._told = None  # the token that the network has chosen itself, and its place
        return list(zip(chosen[1:].tolist(), logprobs[1:].tolist(), strict=True)), float(silence[0])

    def _follow(self, token: int, place: int) -> tuple[int, float]:
        self._check()
        if self._told != (token, place):  # else the GPU goes on from its own token
            self._ids[1].write([token])
            self._start.write([place])
        self._read[1]()
        chosen, logprob = self._token[1].read(), self._logprob[1].read()
        self._gpu.wait()
        self._told = int(chosen[0]), place + 1
        return self._told[0], float(logprob[0])

    def _check(self) -> None:
        if self._cancel is not None:
            self._cancel.check()
