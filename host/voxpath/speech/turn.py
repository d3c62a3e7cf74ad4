"""One thing said and what comes of it, from the recogniser's first run over it to the last sample of the reply."""

from __future__ import annotations

import queue
import threading
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from voxpath.engines.cancel import Cancel
from voxpath.speech.listen import Utterance


@dataclass(eq=False, slots=True)
class Turn:
    """One thing said and what came of it. `times` are board ns; see docs/timing.md for each."""

    number: int
    utterance: Utterance
    cancel: Cancel = field(default_factory=Cancel)
    times: dict[str, int] = field(default_factory=dict)
    transcript: str = ""
    reply: str = ""
    speculated: bool = False
    barged_in: bool = False
    error: str | None = None
    step: str = "recognise"
    progress: float = field(default_factory=time.monotonic)
    committed: float = field(default_factory=time.monotonic)
    phrases: queue.SimpleQueue = field(default_factory=queue.SimpleQueue)
    rate: int = 0
    pcm: list[np.ndarray] = field(default_factory=list)
    first_phrase_samples: int | None = None
    begun: bool = False
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

    def at(self, step: str) -> None:
        self.step = step
        self.progress = time.monotonic()

    def begin(self) -> bool:
        """The reply is about to be heard; False when the turn has been called off."""
        with self._lock:
            self.begun = not self.cancel.is_set
            return self.begun

    def withdraw(self) -> bool:
        """Call the turn off as if it had not been committed; False when its reply has begun."""
        with self._lock:
            if self.begun or self.closed:
                return False
            self.withdrawn = True
            self.cancel.set()
            return True

    def close(self) -> bool:
        """True for the first caller only."""
        with self._lock:
            first, self.closed = not self.closed, True
            return first


@dataclass(eq=False, slots=True)
class Recognition:
    """One run of the recogniser: over the sound so far (a speculation), or over a finished utterance.

    `turn` is set once the turn that this recognition belongs to is committed.
    """

    pcm: np.ndarray
    audio_ready_ns: int
    cancel: Cancel = field(default_factory=Cancel)
    turn: Turn | None = None
    text: str | None = None
    final_ns: int = 0
    error: Exception | None = None
