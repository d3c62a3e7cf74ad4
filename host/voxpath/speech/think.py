"""Words to an answer: the conversation, held in the language model's context."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from itertools import accumulate

from voxpath.engines.cancel import Cancel
from voxpath.speech.phrases import ABBREVIATIONS, MARKS, STOPS

DEFAULT_SYSTEM = "You are a friendly voice assistant. Answer in plain English, in one short sentence."
REPLY_TOKENS = 60
REPLY_SENTENCES = 2
# A longer conversation is cut to its newest half at once: what follows a cut must be read again by the model.
HISTORY_TURNS = 12
HISTORY_TOKENS = 1200  # with the system prompt; a longer context answers later
TITLES = ABBREVIATIONS - {"etc", "No"} | {"Jr", "Sr"}  # whose mark ends no sentence; that of "No." may
UNASKED = "Hello."  # stands for the user where something was said unasked: models expect them to speak first


class Memory:
    """What was said and answered, oldest first, as it was heard: the last `HISTORY_TURNS` exchanges or fewer. Either
    part of one may be empty: what was said unasked, and what has no answer."""

    def __init__(self) -> None:
        self.exchanges: list[tuple[str, str]] = []

    def remember(self, text: str, reply: str, too_long: Callable[[], bool]) -> None:
        """Keep an exchange; the older half goes when there are too many."""
        if not text and not reply:
            return
        self.exchanges.append((text, reply))
        while self.exchanges and (len(self.exchanges) > HISTORY_TURNS or too_long()):
            del self.exchanges[: (len(self.exchanges) + 1) // 2]

    def has(self, reply: str) -> bool:
        """Whether it has been given before."""
        return any(reply == given for _, given in self.exchanges)

    def turns(self) -> Iterator[tuple[str, str]]:
        """(role, content) of all that was said, in order."""
        for said, reply in self.exchanges:
            yield "user", said or UNASKED
            if reply:
                yield "assistant", reply


class Thinker:
    """Answers the next thing said with a language model of our own, whose context holds the conversation.

    The context already holds everything up to the place where the user's words go (`prepare`), and while they are
    spoken those that will stay (`foresee`), so that an answer waits only for the last of them. With the system prompt
    the history has at most `HISTORY_TOKENS` tokens.
    """

    def __init__(self, language, system: str = DEFAULT_SYSTEM) -> None:
        self._language = language
        self._system = system
        self._memory = Memory()
        self._start = self._prefix()  # kept: encoding a long history takes a millisecond, and a turn needs it often
        self._context = language.open()

    def prepare(self, cancel: Cancel | None = None) -> None:
        """Read the system prompt and the history into the context: called while nothing waits for an answer."""
        self._hold(self._start, cancel)

    def foresee(self, text: str, cancel: Cancel | None = None) -> None:
        """Read the first of the user's words while the rest is spoken."""
        self._hold([*self._start, *self._language.tokenizer.encode(text)], cancel)

    def over(self, text: str, cancel: Cancel) -> float | None:
        """The model's probability that `text` is all that the user says, 0 to 1. May raise Cancelled."""
        chat = self._language.tokenizer
        self._hold([*self._start, *chat.encode(text)], cancel)
        return self._context.probability(chat.close_turn()[0], cancel)

    def answer(self, text: str, cancel: Cancel) -> Iterator[str]:
        """Write the reply to `text`: pieces of text as they come, at most two sentences. May raise Cancelled."""
        chat = self._language.tokenizer
        self._hold(
            [*self._start, *chat.encode(text), *chat.close_turn(), *chat.open_turn("assistant")],
            cancel,
        )
        yield from brief(self._written(cancel))

    def remember(self, text: str, reply: str) -> None:
        """Keep an exchange; `text` is empty for what was said unasked, `reply` where hardly any of it was heard.

        A reply that has been given before is kept once: a small model that reads it twice gives no other from then on.
        """
        if self._memory.has(reply):
            reply = ""
        self._memory.remember(text, reply, lambda: len(self._prefix()) > HISTORY_TOKENS)
        self._start = self._prefix()

    def renew(self) -> None:
        """Start over with a fresh context, history kept: after a run that hangs."""
        self._context = self._language.open()

    def _written(self, cancel: Cancel) -> Iterator[str]:
        """The text so far, each time that there is more of it."""
        chat = self._language.tokenizer
        written: list[int] = []
        for block in self._context.generate(chat.stop, REPLY_TOKENS, cancel):
            written += block
            so_far = chat.decode(written)
            if not so_far.endswith("\ufffd"):  # half a character
                yield so_far

    def _prefix(self) -> list[int]:
        """What the prompt begins with, whatever the user says next: the conversation, and that the user speaks now."""
        chat = self._language.tokenizer
        tokens = [*chat.start(), *(chat.turn("system", self._system) if self._system else [])]
        for role, content in self._memory.turns():
            tokens += chat.turn(role, content)
        return [*tokens, *chat.open_turn("user")]

    def _hold(self, tokens: list[int], cancel: Cancel | None = None) -> None:
        """Make the context hold exactly `tokens`, keeping what it holds of them already."""
        same = common(self._context.tokens, tokens)
        self._context.truncate(same)
        if same < len(tokens):
            self._context.extend(tokens[same:], cancel)


class ServerThinker:
    """Answers with a server (voxpath.engines.openai.Server), which is told the conversation anew each time."""

    def __init__(self, server, system: str = DEFAULT_SYSTEM) -> None:
        self._server = server
        self._system = system
        self._memory = Memory()

    def prepare(self, cancel: Cancel | None = None) -> None:
        """Nothing is held between turns."""

    def foresee(self, text: str, cancel: Cancel | None = None) -> None:
        """A server reads words only to answer them."""

    def over(self, text: str, cancel: Cancel) -> float | None:
        """A server does not tell."""
        return None

    def answer(self, text: str, cancel: Cancel) -> Iterator[str]:
        """As Thinker.answer. May raise Cancelled and ModelError."""
        messages = [{"role": "system", "content": self._system}] if self._system else []
        for role, content in (*self._memory.turns(), ("user", text)):
            if messages and messages[-1]["role"] == role:  # not every server takes two in a row
                messages[-1]["content"] += f"\n{content}"
            else:
                messages.append({"role": role, "content": content})
        yield from brief(accumulate(self._server.chat(messages, REPLY_TOKENS, cancel)))

    def remember(self, text: str, reply: str) -> None:
        """As Thinker.remember, but what is said unasked is kept once."""
        if not text and self._memory.has(reply):
            return
        self._memory.remember(text, reply, lambda: False)

    def renew(self) -> None:
        """Nothing hangs here: a server that is silent for too long raises."""


def thinker(language, system: str = DEFAULT_SYSTEM) -> Thinker | ServerThinker:
    """The one that goes with a language model, or with a server."""
    return Thinker(language, system) if hasattr(language, "open") else ServerThinker(language, system)


def brief(texts: Iterable[str]) -> Iterator[str]:
    """Of a text that grows, what is new each time; it ends with its second sentence."""
    told = ""
    for text in texts:
        end = sentences_end(text, REPLY_SENTENCES)
        text = text if end is None else text[:end]
        yield text[len(told) :]
        told = text
        if end is not None:
            return


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
        if char in STOPS and text[index + 1 : index + 2].isspace() and not _goes_on(text, index):
            found += 1
            if found == count:
                return index + 1
    return None


def _goes_on(text: str, index: int) -> bool:
    """Whether the mark at `index` ends no sentence: of Mr., J. R. R., 1. in a list, or of ... before a small letter."""
    if text[index] != ".":
        return False
    before, _, word = text[:index].rpartition(" ")
    following = text[index + 1 :].lstrip()[:1]
    if word.endswith("."):
        return not following or following.islower()
    if word in TITLES or (len(word) == 1 and word.isupper() and word != "I"):
        return True
    return word.isdigit() and len(word) < 3 and before.rstrip()[-1:] in ("", *MARKS)
