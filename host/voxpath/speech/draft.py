"""A reply in the making: begun for words that may not be all that is said, kept or called off."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, field

import numpy as np

from voxpath.engines.cancel import Cancel


@dataclass(frozen=True, slots=True)
class Sound:
    """A piece of a spoken phrase, int16 at the voice's rate; `last` ends the phrase."""

    pcm: np.ndarray
    last: bool


@dataclass(eq=False, slots=True)
class Draft:
    """What is answered to `words`, as far as it is known: text, phrases for the voice, sound for the board.

    Until `go` is set only the first phrase is made: what may be for nothing takes no more of the machine than that.
    `over` is the language model's probability that `words` are a whole turn. Both queues end with None; `times` are
    board ns (docs/timing.md).
    """

    words: str
    cancel: Cancel = field(default_factory=Cancel)
    go: threading.Event = field(default_factory=threading.Event)
    reply: str = ""
    over: float | None = None
    step: str = "think"
    progress: float = field(default_factory=time.monotonic)
    phrases: queue.SimpleQueue = field(default_factory=queue.SimpleQueue)
    sound: queue.SimpleQueue = field(default_factory=queue.SimpleQueue)
    spans: list[tuple[str, int]] = field(default_factory=list)  # phrases, and the sample where the sound of each ends
    times: dict[str, int] = field(default_factory=dict)
    error: Exception | None = None
    mute: bool = False  # it was the voice that failed
    cpu_s: float = 0.0

    def at(self, step: str) -> None:
        self.step = step
        self.progress = time.monotonic()

    def sounds(self, pcm: np.ndarray, phrase: str, *, first: bool = False, last: bool = False) -> None:
        """Add sound of a phrase for the board to play."""
        made = self.spans[-1][1] if self.spans else 0
        if not first and self.spans:
            self.spans.pop()
        self.spans.append((phrase, made + len(pcm)))
        self.sound.put(Sound(pcm, last))

    def heard(self, samples: int) -> str:
        """The words that the first `samples` of the sound hold; within a phrase by their letters."""
        text, start = [], 0
        for phrase, end in self.spans:
            if end <= samples:
                text.append(phrase)
            elif start < samples:
                part, letters, told = (samples - start) / (end - start), len(phrase), 0
                for word in phrase.split():
                    if told + len(word) > part * letters:
                        break
                    text.append(word)
                    told += len(word) + 1
            start = end
        return " ".join(text)

    def wait(self) -> None:
        """Return once the reply is wanted. Raises Cancelled."""
        with self.cancel.interrupting(self.go.set):
            self.go.wait()
        self.cancel.check()

    def next(self, source: queue.SimpleQueue):
        """The next item of one of the queues, once it is there. Raises Cancelled, and what made the draft fail."""
        while True:
            self.cancel.check()
            try:
                item = source.get(timeout=0.02)
            except queue.Empty:
                continue
            if item is None and self.error is not None:
                raise self.error
            return item
