"""Text to text with a Llama-family model, and the memory of one conversation."""

from collections.abc import Iterable, Iterator
from pathlib import Path

import numpy as np

from voxpath.engines.cancel import Cancel
from voxpath.engines.chat import ChatTokenizer, check_length, probability, repeats
from voxpath.engines.ort import session
from voxpath.models.llama import read_description

# Tokens read at a time: their cost is the same one by one, and no operator then runs for long past a cancel.
PIECE = 64
FIRST_CAPACITY = 512  # tokens that a context has room for before it grows


class Language:
    """A language model in memory; contexts share its weights.

    >>> context = language(model).open()
    >>> context.extend(chat.turn("user", "What is the capital of France?") + chat.open_turn("assistant"))
    >>> for block in context.generate(): ...
    """

    def __init__(self, model: Path):
        self.description = read_description(model)
        self.tokenizer = ChatTokenizer(session.load_tokenizer(model / "tokenizer.json"), self.description)
        self.session = session.load(model / "model.onnx")
        context = self.open()
        context.extend([0, 0])
        context.extend([0])

    def open(self) -> "Context":
        """An empty context."""
        return Context(self)


class Context:
    """Tokens that the model has in mind, with their keys and values. For one thread at a time.

    Keys and values live in buffers that the network reads and adds to in place, so a step copies nothing; they grow by
    doubling.
    """

    def __init__(self, language: Language):
        self._language = language
        self._session = language.session
        self.tokens: list[int] = []
        self._computed = 0  # how many of the tokens the buffers hold; chosen ones wait until they are needed
        self._logits: np.ndarray | None = None  # of the token after the last one computed, if that is the last of all
        self._buffers: dict[str, np.ndarray] = {}
        self._reserve(FIRST_CAPACITY)

    def __len__(self) -> int:
        return len(self.tokens)

    def extend(self, tokens: Iterable[int], cancel: Cancel | None = None) -> None:
        """Read tokens. Raises Cancelled, and ModelError if there are too many; then it holds what it held before."""
        before = len(self.tokens)
        self.tokens.extend(tokens)
        try:
            check_length(self.tokens, self._language.description.context)
            self._compute(cancel)
        except BaseException:
            self.truncate(before)
            raise

    def truncate(self, length: int) -> None:
        """Forget all tokens after the first `length`."""
        if length < len(self.tokens):
            self._logits = None
            del self.tokens[length:]
            self._computed = min(self._computed, length)

    def fork(self) -> "Context":
        """A context that holds the same and goes its own way."""
        other = Context(self._language)
        other._reserve(len(self.tokens))
        for name, buffer in self._buffers.items():
            other._buffers[name][:, :, : self._computed] = buffer[:, :, : self._computed]
        other.tokens, other._computed = list(self.tokens), self._computed
        other._logits = self._logits
        return other

    def generate(
        self, stop: Iterable[int] | None = None, limit: int = 256, cancel: Cancel | None = None
    ) -> Iterator[list[int]]:
        """The likeliest continuation, in blocks of tokens, each as soon as it is known.

        Ends before a token of `stop` (the model's own if left out), after `limit` tokens, or with the model's context.
        Every token that was yielded is in the context afterwards. Raises Cancelled.
        """
        stop = set(self._language.tokenizer.stop if stop is None else stop)
        start = len(self.tokens)
        while len(self.tokens) < min(start + limit, self._language.description.context):
            self._compute(cancel)
            token = self._choose(self.tokens[start:])
            if token in stop:
                return
            self.tokens.append(token)
            self._logits = None
            yield [token]

    def score(self, tokens: Iterable[int], cancel: Cancel | None = None) -> np.ndarray:
        """Natural log of the probability of each of `tokens`, were they to come next. The context stays as it is."""
        tokens = list(tokens)
        self._compute(cancel)
        length, logits = len(self.tokens), self._logits
        following = self._step(tokens, list(range(len(tokens))), cancel)
        self._computed, self._logits = length, logits
        rows = np.concatenate([logits[None], following[:-1]])
        rows = rows - rows.max(1, keepdims=True)
        return (rows - np.log(np.exp(rows).sum(1, keepdims=True)))[np.arange(len(tokens)), tokens]

    def probability(self, token: int, cancel: Cancel | None = None) -> float:
        """How probable `token` is to come next, 0 to 1. Raises Cancelled."""
        self._compute(cancel)
        return probability(self._logits, token)

    def _choose(self, reply: list[int]) -> int:
        """The likeliest token that does not make the reply go round."""
        logits = self._logits
        if banned := repeats(reply):
            logits = logits.copy()
            logits[list(banned)] = -np.inf
        return int(logits.argmax())

    def _compute(self, cancel: Cancel | None) -> None:
        """Bring the buffers up to the last token, with the logits of the next one."""
        if self._logits is not None and self._computed == len(self.tokens):
            return
        if not self.tokens:
            raise ValueError("an empty context has no next token")
        self._computed = min(self._computed, len(self.tokens) - 1)  # the last one again, for its logits
        while self._computed < len(self.tokens):
            new = self.tokens[self._computed : self._computed + PIECE]
            self._logits = self._step(new, [len(new) - 1], cancel)[0]

    def _step(self, tokens: list[int], rows: list[int], cancel: Cancel | None) -> np.ndarray:
        """Run the network on tokens that follow the computed ones. Returns logits [rows, vocabulary]."""
        total = self._computed + len(tokens)
        self._reserve(total)
        logits = np.empty((1, len(rows), self._language.description.vocabulary), np.float32)
        inputs = {
            "ids": np.array([tokens], np.int64),
            "rows": np.array(rows, np.int64),
            "last_index": np.array([total - 1], np.int32),
            "total": np.array(total, np.int32),
        }
        for name, value in inputs.items():
            self._binding.bind_cpu_input(name, value)
        self._binding.bind_output("logits", "cpu", 0, np.float32, logits.shape, logits.ctypes.data)
        with session.interruptible(cancel) as options:
            self._session.run_with_iobinding(self._binding, options)
        self._computed = total
        return logits[0]

    def _reserve(self, length: int) -> None:
        """Make room for `length` tokens, and bind the buffers as both the network's old and its new memory."""
        d = self._language.description
        capacity = next(iter(self._buffers.values())).shape[2] if self._buffers else 0
        if length <= capacity:
            return
        capacity = max(capacity, FIRST_CAPACITY)
        while capacity < length:
            capacity *= 2
        old, self._buffers = self._buffers, {}
        self._binding = self._session.io_binding()
        for name in (f"{kind}{layer}" for layer in range(d.layers) for kind in "kv"):
            buffer = np.zeros((1, d.kv_heads, capacity, d.head_size), np.float32)
            if old:
                buffer[:, :, : self._computed] = old[name][:, :, : self._computed]
            self._buffers[name] = buffer
            place = ("cpu", 0, np.float32, buffer.shape, buffer.ctypes.data)
            self._binding.bind_input(f"past_{name}", *place)
            self._binding.bind_output(f"present_{name}", *place)
