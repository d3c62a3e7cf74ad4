"""Boards: where sound comes in and replies go out. One module a board, all with the same interface.

A board knows nothing of what is said. Times are nanoseconds of the board's own media clock.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Protocol

import numpy as np

from ..errors import BoardError
from ..link.frame import Frame

KINDS = (
    "onset",  # someone began to speak: ns is when the first sample of speech reached the ADC
    "offset",  # and stopped: ns is when the last sample of speech reached the ADC, hangover removed
    "reply_started",  # the first sample of a ticket left the DAC
    "low_water",  # little of the ticket is left in the board
    "underrun",  # the ticket is open and there was nothing to play
    "reply_ended",  # the last sample of a finished ticket left the DAC
    "stopped",  # the ticket was stopped; position is how much of it was heard
    "link_lost",  # the board does not answer any more
    "time_step",  # the media clock was set; ns is its new time
)


@dataclass(frozen=True, slots=True)
class Event:
    """Something that the board noticed, at its own time.

    `ticket` is that of the reply concerned, `position` the samples of it (at its rate) that had left the DAC; both are
    0 for what does not concern a reply.
    """

    kind: str
    ns: int
    ticket: int = 0
    position: int = 0


class Reply(Protocol):
    """One stretch of sound being played. `times` holds board ns of "first", "last" and "stopped" as they happen."""

    rate: int
    ticket: int
    times: dict[str, int]

    def write(self, pcm: np.ndarray) -> None:
        """Queue int16 samples; never waits."""

    def finish(self) -> None:
        """Nothing more will be written: the reply ends with what is queued."""

    def duck(self, db: float) -> None:
        """Play at `db` <= 0 decibels, reached within 2 ms; 0 is the normal level."""

    def stop(self) -> int:
        """Silence within 2 ms, discard the rest, and say how many samples were heard."""

    def played(self) -> int:
        """Samples that have left the DAC."""

    def buffered(self) -> int:
        """Samples written and not yet played."""


class Board(Protocol):
    """The interface that every board has. Also a context manager: `with board:` opens and closes."""

    registers: object

    def open(self) -> None:
        """Make the board run. Raises BoardError with what to check if it is not there."""

    def close(self) -> None:
        """End everything; every iterator ends. May be called again."""

    def frames(self) -> Iterator[Frame]:
        """Frames from now on, as they arrive. Ends when the board is closed; raises BoardError when it dies."""

    def events(self) -> Iterator[Event]:
        """Events from now on, likewise."""

    def start_reply(self, rate: int) -> Reply:
        """Begin to speak at 16,000 or 24,000 Hz. One reply is open at a time: until heard to its end, or stopped."""

    def time(self) -> tuple[int, int, bool]:
        """(ns of the media clock, uncertainty in ns, whether the clock is locked)."""


def open_board(name: str, **options) -> Board:
    """The board called `name`, opened. `options` are those of its class. Raises BoardError."""
    if name == "sim":
        from .sim import SimBoard as kind
    else:
        raise BoardError(f"There is no board called {name!r}; choose sim.")
    board = kind(**options)
    board.open()
    return board
