"""Text to text with a Llama-family model on a GPU, and the memory of one conversation there."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from concurrent.futures import Future
from pathlib import Path

import numpy as np

from voxpath.engines.cancel import Cancel
from voxpath.engines.chat import ChatTokenizer, check_length, probability, repeats
from voxpath.engines.cuda.device import Gpu
from voxpath.engines.ort import session
from voxpath.errors import ModelError
from voxpath.models.llama import read_description

PIECES = (16, 64, 128)  # tokens that are read at once: as many as there are and some more, which are forgotten


class Language:
    """A language model on the GPU; contexts share its weights, and take turns."""

    def __init__(self, gpu: Gpu, model: Path):
        self.gpu = gpu
        self.description = read_description(model)
        self.tokenizer = ChatTokenizer(session.load_tokenizer(model / "tokenizer.json"), self.description)
        self.session = gpu.run(gpu.load, model / "model.onnx")
        cache = next(tensor for tensor in self.session.get_inputs() if tensor.name == "past_k0")
        self.number = np.float16 if "float16" in cache.type else np.float32
        self.room = cache.shape[2]
        if self.room <= max(PIECES):
            raise ModelError(f"{model} looks back over {self.room} tokens; on a GPU it takes more than {max(PIECES)}.")

    def open(self) -> Context:
        """An empty context. Raises ModelError if the GPU has no room for it."""
        return Context(self)


class Context:
    """Tokens that the model has in mind, as voxpath.engines.ort's. For one thread at a time."""

    def __init__(self, language: Language):
        self._language, self._gpu = language, language.gpu
        self.tokens: list[int] = []
        self._computed = 0  # how many of the tokens the GPU remembers
        self._chosen = 0  # the place of the token that it has chosen, or 0
        self._told = -1  # that token, once it has been looked at
        self._ahead: Future | None = None  # the choice of another token, before anybody has asked for it
        self._gpu.run(self._reserve)

    def __len__(self) -> int:
        return len(self.tokens)

    def extend(self, tokens: Iterable[int], cancel: Cancel | None = None) -> None:
        """As voxpath.engines.ort.Context.extend."""
        self._settle()
        before = len(self.tokens)
        self.tokens.extend(tokens)
        if len(self.tokens) > before:
            self._chosen = 0
        try:
            check_length(self.tokens, self._longest)
            self._gpu.run(self._compute, cancel)
        except BaseException:
            self.truncate(before)
            raise

    def truncate(self, length: int) -> None:
        """Forget all tokens after the first `length`."""
        self._settle()
        if length < len(self.tokens):
            del self.tokens[length:]
            self._computed = min(self._computed, length)
            self._chosen = 0

    def generate(
        self, stop: Iterable[int] | None = None, limit: int = 256, cancel: Cancel | None = None
    ) -> Iterator[list[int]]:
        """As voxpath.engines.ort.Context.generate."""
        stop = set(self._language.tokenizer.stop if stop is None else stop)
        start = len(self.tokens)
        while len(self.tokens) < min(start + limit, self._longest):
            token = self._gpu.run(self._next, self.tokens[start:], cancel)
            if token in stop:
                return
            self._settle()
            self.tokens.append(token)
            if len(self.tokens) < self._longest:
                self._ahead = self._gpu.start(self._compute, None)
            yield [token]

    def probability(self, token: int, cancel: Cancel | None = None) -> float:
        """How probable `token` is to come next, 0 to 1. Raises Cancelled."""
        self._settle()
        return probability(self._gpu.run(self._look, cancel), token)

    def _settle(self) -> None:
        """The stream's thread looks at `tokens` no more."""
        ahead, self._ahead = self._ahead, None
        if ahead is not None and ahead.exception() is not None:
            self._chosen = self._computed = 0  # whoever wants the token will meet what is wrong, if it still is

    @property
    def _longest(self) -> int:
        return self._language.room - max(PIECES)

    def _reserve(self) -> None:
        d, gpu, room = self._language.description, self._gpu, self._language.room
        memory = {
            f"{kind}{layer}": gpu.zeros(1, d.kv_heads, room, d.head_size, dtype=self._language.number)
            for layer in range(d.layers)
            for kind in "kv"
        }
        past = {f"past_{name}": buffer for name, buffer in memory.items()}
        present = {f"present_{name}": buffer for name, buffer in memory.items()}
        self._logits = gpu.zeros(1, 1, d.vocabulary)
        self._token = gpu.zeros(1, 1, dtype=np.int64)
        self._place, nowhere = gpu.zeros(1, dtype=np.int32), gpu.zeros(1, dtype=np.int32)  # of the token to be read
        self._ids, self._last, self._row, self._read = {}, {}, {}, {}
        for n in (1, *PIECES):
            self._ids[n] = self._token if n == 1 else gpu.zeros(1, n, dtype=np.int64)
            self._last[n] = self._place if n == 1 else gpu.zeros(1, dtype=np.int32)
            self._row[n] = gpu.zeros(1, dtype=np.int64)
            inputs = {
                "ids": self._ids[n],
                "rows": self._row[n],
                "last_index": self._last[n],
                # The cache's size: how much of it counts is last_index's to say, which may change under a capture.
                "total": np.array(room, np.int32),
            }
            outputs = {"logits": self._logits, "token": self._token, "next": self._place if n == 1 else nowhere}
            self._last[n].write([n - 1])
            self._read[n] = gpu.step(self._language.session, {**inputs, **past}, {**outputs, **present})

    def _compute(self, cancel: Cancel | None) -> None:
        """Have the GPU choose the token at place len(tokens), which takes reading those that it does not know."""
        if not self.tokens:
            raise ValueError("an empty context has no next token")
        if cancel is not None:
            cancel.check()
        if self._chosen == len(self.tokens):
            return
        own = self._chosen == len(self.tokens) - 1 and self.tokens[-1] == self._told
        self._chosen, self._told = 0, -1
        if own:  # the GPU goes on from the token that it has chosen
            self._read[1]()
            self._computed = self._chosen = len(self.tokens)
            return
        self._computed = min(self._computed, len(self.tokens) - 1)  # the last one again, for what follows it
        while self._computed < len(self.tokens):
            if cancel is not None:
                cancel.check()
            new = self.tokens[self._computed : self._computed + max(PIECES)]
            n = next(size for size in PIECES if len(new) <= size)
            self._ids[n].write(new)
            self._last[n].write([self._computed + n - 1])
            self._row[n].write([len(new) - 1])
            self._read[n]()
            self._computed += len(new)
        self._chosen = len(self.tokens)
        self._place.write([self._chosen])

    def _next(self, reply: list[int], cancel: Cancel | None) -> int:
        """The likeliest token at place len(tokens) that does not make the reply go round."""
        self._compute(cancel)
        chosen = self._token.read()
        self._gpu.wait()
        self._told = int(chosen[0])
        banned = repeats(reply)
        if self._told not in banned:
            return self._told
        logits = self._look(cancel)
        logits[list(banned)] = -np.inf
        return int(logits.argmax())

    def _look(self, cancel: Cancel | None) -> np.ndarray:
        """Logits [vocabulary] of the token at place len(tokens)."""
        self._compute(cancel)
        logits = self._logits.read()
        self._gpu.wait()
        return logits.copy()
