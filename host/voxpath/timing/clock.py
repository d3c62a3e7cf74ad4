"""The board's time, for moments that happen on the host."""

from __future__ import annotations

import time

# A live board works in bursts: between two of them its time stands still for at most about this long.
LONGEST_BURST_NS = 20_000_000


class BoardClock:
    """Says what time it is on the board: ns, as in the frames' stamps.

    A simulated board tells when each of its ticks was carried out (`wall_ns`); since then its time went on with the
    wall's, so the time that passed on the host is added. `live=False` (a board in virtual time) leaves that out.
    """

    def __init__(self, board, *, live: bool = True) -> None:
        self._board = board
        self._wall_ns = getattr(board, "wall_ns", None) if live else None
        self.uncertainty_ns = 0

    def now(self) -> int:
        ns, self.uncertainty_ns, _ = self._board.time()
        if self._wall_ns is None:
            return ns
        executed = self._wall_ns(ns)
        if executed is None:
            return ns
        return ns + min(max(time.monotonic_ns() - executed, 0), LONGEST_BURST_NS)
