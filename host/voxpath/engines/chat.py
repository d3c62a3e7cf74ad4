"""What language models have in common wherever they run: text to tokens, the turns of a chat, what limits a reply."""

import threading
from collections.abc import Iterable

import numpy as np
from tokenizers import Tokenizer

from voxpath.errors import ModelError
from voxpath.models.llama import Description

# A reply may not say the same few tokens in a row twice: small models loop otherwise.
REPEATED_TOKENS = 6


class ChatTokenizer:
    """Text to tokens, and the turns of a chat in the model's own format."""

    def __init__(self, tokenizer: Tokenizer, description: Description):
        self._tokenizer = tokenizer
        self._description = description
        self._lock = threading.Lock()
        self.stop = tuple(description.stop)

    def encode(self, text: str, special: bool = False) -> list[int]:
        """Tokens of a text. Control tokens written in it count as such only with `special`: never in a user's words."""
        with self._lock:
            self._tokenizer.encode_special_tokens = not special
            return self._tokenizer.encode(text, add_special_tokens=False).ids

    def decode(self, tokens: Iterable[int]) -> str:
        """Text without control tokens."""
        return self._tokenizer.decode(list(tokens), skip_special_tokens=True)

    def start(self) -> list[int]:
        """What every context begins with: for most models nothing."""
        return [] if self._description.bos is None else [self._description.bos]

    def open_turn(self, role: str) -> list[int]:
        """The tokens that announce that "system", "user" or "assistant" speaks."""
        return self.encode(self._description.turn_start.format(role=role), special=True)

    def close_turn(self) -> list[int]:
        """The tokens that end a turn."""
        return self.encode(self._description.turn_end, special=True)

    def turn(self, role: str, text: str) -> list[int]:
        """A whole turn."""
        return [*self.open_turn(role), *self.encode(text.strip()), *self.close_turn()]


def repeats(reply: list[int]) -> set[int]:
    """The tokens that would make a reply say REPEATED_TOKENS in a row for the second time."""
    recent = reply[-REPEATED_TOKENS + 1 :]
    if len(recent) < REPEATED_TOKENS - 1:
        return set()
    spans = range(len(reply) - REPEATED_TOKENS + 1)
    return {reply[i + len(recent)] for i in spans if reply[i : i + len(recent)] == recent}


def check_length(tokens: list[int], most: int) -> None:
    """Raises ModelError for a conversation of more than `most` tokens."""
    if len(tokens) > most:
        raise ModelError(
            f"The conversation has {len(tokens)} tokens, more than the {most} "
            "that the language model can look back over."
        )


def probability(logits: np.ndarray, token: int) -> float:
    """How probable `token` is, 0 to 1, by the logits [vocabulary] of all."""
    logits = logits - logits.max()
    return float(np.exp(logits[token]) / np.exp(logits).sum())
