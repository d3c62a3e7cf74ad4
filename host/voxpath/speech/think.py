"""Words to an answer: the conversation, held in the language model's context."""

from __future__ import annotations

from collections.abc import Iterator

from voxpath.engines.cancel import Cancel

DEFAULT_SYSTEM = "You are a friendly voice assistant. Answer in plain English, in one short sentence."
REPLY_TOKENS = 60
REPLY_SENTENCES = 2
# A longer conversation is cut to its newest half at once: what follows a cut must be read again by the model.
HISTORY_TURNS = 12
HISTORY_TOKENS = 1200  # with the system prompt; a longer context answers later


class Thinker:
    """Keeps the conversation and answers the next thing said.

    The context already holds everything up to the place where the user's words go (`prepare`), and while they are
    spoken those that will stay (`foresee`), so that an answer waits only for the last of them. History is the last
    `HISTORY_TURNS` exchanges or fewer, of at most `HISTORY_TOKENS` tokens.
    """

    def __init__(self, language, system: str = DEFAULT_SYSTEM) -> None:
        self._language = language
        self._system = system
        self._history: list[tuple[str, str]] = []
        self._context = language.open()

    def prepare(self, cancel: Cancel | None = None) -> None:
        """Read the system prompt and the history into the context: called while nothing waits for an answer."""
        self._hold(self._prefix(), cancel)

    def foresee(self, text: str, cancel: Cancel | None = None) -> None:
        """Read the first of the user's words while the rest is spoken."""
        self._hold([*self._prefix(), *self._language.tokenizer.encode(text)], cancel)

    def over(self, text: str, cancel: Cancel) -> float:
        """The model's probability that `text` is all that the user says, 0 to 1. May raise Cancelled."""
        chat = self._language.tokenizer
        self._hold([*self._prefix(), *chat.encode(text)], cancel)
        return self._context.probability(chat.close_turn()[0], cancel)

    def answer(self, text: str, cancel: Cancel) -> Iterator[str]:
        """Write the reply to `text`: pieces of text as they come, at most two sentences. May raise Cancelled."""
        chat = self._language.tokenizer
        self._hold(
            [*self._prefix(), *chat.encode(text), *chat.close_turn(), *chat.open_turn("assistant")],
            cancel,
        )
        written: list[int] = []
        told = ""
        for block in self._context.generate(chat.stop, REPLY_TOKENS, cancel):
            written += block
            so_far = chat.decode(written)
            if so_far.endswith("\ufffd"):
                continue  # half a character
            end = sentences_end(so_far, REPLY_SENTENCES)
            so_far = so_far if end is None else so_far[:end]
            yield so_far[len(told) :]
            told = so_far
            if end is not None:
                break

    def remember(self, text: str, reply: str) -> None:
        """Keep an exchange, as it was heard; the oldest go when there are too many. Without `text`, only the reply."""
        self._history.append((text, reply))
        if len(self._history) > HISTORY_TURNS or len(self._prefix()) > HISTORY_TOKENS:
            del self._history[: (len(self._history) + 1) // 2]

    def renew(self) -> None:
        """Start over with a fresh context, history kept: after a run that hangs."""
        self._context = self._language.open()

    def _prefix(self) -> list[int]:
        """What the prompt begins with, whatever the user says next: the conversation, and that the user speaks now."""
        chat = self._language.tokenizer
        tokens = [*chat.start(), *(chat.turn("system", self._system) if self._system else [])]
        for said, reply in self._history:
            tokens += [*(chat.turn("user", said) if said else []), *chat.turn("assistant", reply)]
        return [*tokens, *chat.open_turn("user")]

    def _hold(self, tokens: list[int], cancel: Cancel | None = None) -> None:
        """Make the context hold exactly `tokens`, keeping what it holds of them already."""
        same = common(self._context.tokens, tokens)
        self._context.truncate(same)
        if same < len(tokens):
            self._context.extend(tokens[same:], cancel)


def common(one: list[int], other: list[int]) -> int:
    """How many tokens two lists have in common from their start."""
    return next(
        (index for index, pair in enumerate(zip(one, other, strict=False)) if pair[0] != pair[1]),
        min(len(one), len(other)),
    )


def sentences_end(text: str, count: int) -> int | None:
    """Index just past sentence number `count`, or None while it is not complete."""
    found = 0
    for index, char in enumerate(text):
        if char in ".!?" and text[index + 1 : index + 2].isspace():
            found += 1
            if found == count:
                return index + 1
    return None
