"""One thing said and what came of it, from the first word to the last sample of the reply."""

from __future__ import annotations

import threading
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from voxpath.engines.cancel import Cancel
from voxpath.speech.draft import Draft
from voxpath.speech.listen import Utterance
from voxpath.speech.recognise import Recognition


@dataclass(eq=False, slots=True)
class Turn:
    """One thing said and what came of it. `times` are board ns; see docs/timing.md for each.

    A turn without an utterance is something that Voxpath says by itself.
    """

    number: int
    utterance: Utterance | None
    cancel: Cancel = field(default_factory=Cancel)
    recognition: Recognition | None = None
    draft: Draft | None = None
    times: dict[str, int] = field(default_factory=dict)
    transcript: str = ""
    heard: str = ""  # of the reply, by the time the turn is over
    speculated: bool = False
    barged_in: bool = False
    error: str | None = None
    progress: float = field(default_factory=time.monotonic)
    committed: float = field(default_factory=time.monotonic)
    rate: int = 0
    pcm: list[np.ndarray] = field(default_factory=list)
    first_phrase_samples: int | None = None
    begun: bool = False
    playing: bool = False  # everything has been handed to the board
    closed: bool = False
    withdrawn: bool = False
    silenced: bool = False
    board_reply: Any = None
    underruns: list[tuple[int, int]] = field(default_factory=list)
    uncertainty_ns: int = 0
    _lock: threading.Lock = field(default_factory=threading.Lock)

    @property
    def samples(self) -> int:
        return sum(len(piece) for piece in self.pcm)

    @property
    def reply(self) -> str:
        return self.draft.reply if self.draft is not None else ""

    @property
    def step(self) -> str:
        """What is being waited for: "recognise", "think", "speak" or "play"."""
        if self.playing:
            return "play"
        return self.draft.step if self.draft is not None else "recognise"

    @property
    def moved(self) -> float:
        """When something last went on, `time.monotonic`."""
        return max(self.progress, self.committed, self.draft.progress if self.draft is not None else 0.0)

    def begin(self) -> bool:
        """The reply is about to be heard; False when the turn has been called off."""
        with self._lock:
            self.begun = not self.cancel.is_set
            return self.begun

    def call_off(self) -> None:
        """Stop everything that is being made or played for this turn."""
        self.cancel.set()
        for work in (self.recognition, self.draft):
            if work is not None:
                work.cancel.set()

    def withdraw(self) -> bool:
        """Call the turn off as if it had not been committed; False when its reply has begun."""
        with self._lock:
            if self.begun or self.closed:
                return False
            self.withdrawn = True
        self.call_off()
        return True

    def close(self) -> bool:
        """True for the first caller only."""
        with self._lock:
            first, self.closed = not self.closed, True
            return first
