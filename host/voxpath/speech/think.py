"""Words to an answer: the conversation, held in the language model's context."""

from __future__ import annotations

from collections.abc import Iterator

from voxpath.engines.cancel import Cancel

DEFAULT_SYSTEM = "You are a helpful voice assistant. Answer in one or two short sentences."
REPLY_TOKENS = 60
REPLY_SENTENCES = 2
HISTORY_TURNS = 6


class Thinker:
    """Keeps the conversation and answers the next thing said.

    The context already holds everything up to the place where the user's words go, so that an answer waits only for
    those words (`prepare`). History is the last `HISTORY_TURNS` exchanges.
    """

    def __init__(self, language, system: str = DEFAULT_SYSTEM) -> None:
        self._language = language
        self._system = system
        self._history: list[tuple[str, str]] = []
        self._context = language.open()
        self._held: list[int] = []  # the tokens in the context

    def prepare(self) -> None:
        """Read the system prompt and the history into the context: called while nothing waits for an answer."""
        self._hold(self._prefix())

    def answer(self, text: str, cancel: Cancel) -> Iterator[str]:
        """Write the reply to `text`: pieces of text as they come, at most two sentences. May raise Cancelled."""
        tokenizer = self._language.tokenizer
        self._hold(self._prompt(text), cancel)
        written: list[int] = []
        told = ""
        for block in self._context.generate(tokenizer.stop, REPLY_TOKENS, cancel):
            written += [token for token in block if token not in tokenizer.stop]
            self._held += block
            so_far = tokenizer.decode(written)
            if so_far.endswith("\ufffd"):
                continue  # half a character
            end = sentences_end(so_far, REPLY_SENTENCES)
            so_far = so_far if end is None else so_far[:end]
            yield so_far[len(told) :]
            told = so_far
            if end is not None:
                break

    def remember(self, text: str, reply: str) -> None:
        """Keep an exchange; the oldest goes when there are too many."""
        self._history = [*self._history, (text, reply)][-HISTORY_TURNS:]

    def renew(self) -> None:
        """Start over with a fresh context, history kept: after a run that failed or hangs."""
        self._context = self._language.open()
        self._held = []

    def _prompt(self, text: str) -> list[int]:
        """The whole conversation, up to where the assistant's answer to `text` begins."""
        messages = [{"role": "system", "content": self._system}] if self._system else []
        for said, reply in self._history:
            messages += [{"role": "user", "content": said}, {"role": "assistant", "content": reply}]
        return self._language.tokenizer.template([*messages, {"role": "user", "content": text}])

    def _prefix(self) -> list[int]:
        """What every prompt begins with, whatever the user says next."""
        one, other = self._prompt("a"), self._prompt("1")
        return one[: common(one, other)]

    def _hold(self, tokens: list[int], cancel: Cancel | None = None) -> None:
        """Make the context hold exactly `tokens`, keeping what it holds of them already."""
        self._held = self._held[: len(self._context)]  # a cancelled run may have left less
        same = common(self._held, tokens)
        if same < len(self._context):
            self._context.truncate(same)
        if same < len(tokens):
            self._context.extend(tokens[same:])
        self._held = list(tokens)


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
