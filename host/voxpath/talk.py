"""One run: clips are played into the board's microphone, each is waited for, every turn is recorded."""

from __future__ import annotations

import time
from collections.abc import Iterable

import numpy as np

from voxpath.errors import VoxpathError
from voxpath.sources import BOARD_RATE, Clip, with_room
from voxpath.speech.chain import Chain, Watcher
from voxpath.speech.think import DEFAULT_SYSTEM
from voxpath.speech.turn import Turn
from voxpath.timing.records import Record, Records, Spoken
from voxpath.timing.report import Report

CHECK_S = 0.05


class Talk:
    """A conversation on an open board: use as a context manager, then `play` clips.

    `engines` is (recogniser, language, voice). `records` holds the turns; a `report` gets each as it comes, and
    `finished(record)` is called for each.
    """

    def __init__(
        self,
        board,
        engines: tuple,
        *,
        endpoint,
        speculate: bool = True,
        system: str = DEFAULT_SYSTEM,
        watcher: Watcher | None = None,
        report: Report | None = None,
        finished=lambda record: None,
    ) -> None:
        self._board = board
        self._report = report
        self._finished = finished
        self._trouble: VoxpathError | None = None
        self.records = Records(board)
        self.chain = Chain(
            board,
            *engines,
            endpoint=endpoint,
            speculate=speculate,
            system=system,
            watcher=watcher,
            on_turn=self._turn_closed,
        )

    def __enter__(self) -> Talk:
        self.chain.start()
        return self

    def __exit__(self, *_) -> None:
        self.chain.stop()

    def play(self, clips: Iterable[Clip]) -> None:
        """Play each clip and wait until it is over and answered. Raises BoardError when the board dies."""
        for clip in clips:
            sound = with_room(clip)
            start_ns = self._board.play_source(sound.pcm)
            self.records.expect(
                Spoken(start_ns + round(one.start_s * 1e9), start_ns + round(one.end_s * 1e9), one.text)
                for one in sound.labels
            )
            self._wait(start_ns + round(len(sound.pcm) * 1e9 / BOARD_RATE))

    def _wait(self, until_ns: int) -> None:
        while self._board.time()[0] < until_ns or not self.chain.idle:
            self.chain.check()
            if self._trouble is not None:
                raise self._trouble
            time.sleep(CHECK_S)

    @property
    def broken_report(self) -> bool:
        """A turn could not be written to the report."""
        return self._trouble is not None

    def _turn_closed(self, turn: Turn) -> Record:
        record = self.records.add(turn)
        if self._report is not None:
            reply = np.concatenate(turn.pcm) if turn.pcm else None
            try:
                self._report.turn(record, question=turn.utterance.pcm(), reply=reply, rate=turn.rate)
            except VoxpathError as error:  # this is a thread of the chain: `play` raises it
                self._trouble = error
        self._finished(record)
        return record
