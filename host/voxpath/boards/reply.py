"""Replies on a board with a playback ring: what is written waits here and moves into the ring as slots become free."""

import threading
import time
from collections import deque

import numpy as np

from ..errors import BoardError
from ..link.ring import PLAY_SAMPLES, RATES, PlaybackRing
from . import registers
from .access import Registers

UNITY_GAIN = 0x8000

_WRAP = 1 << 32
_HALF = 1 << 31
# A stop takes 2 ms of board time; a board that has not reported it by then (s) is not asked again.
_STOP_PATIENCE = 1.0


class Player:
    """The playback side of one board: at most one reply is open."""

    def __init__(self, ring: PlaybackRing, access: Registers):
        self.ring = ring
        self.access = access
        self.changed = threading.Condition(threading.RLock())
        self.closed = False
        self._ticket = 0
        self._reply: RingReply | None = None
        self._stopping: deque[RingReply] = deque()  # whose stops the board has not answered yet, oldest first

    def start(self, rate: int) -> "RingReply":
        """A new reply at `rate` Hz. Raises BoardError if another is open or the board is closed."""
        if rate not in RATES:
            raise BoardError(f"A board plays {' or '.join(map(str, RATES))} samples a second, not {rate}.")
        with self.changed:
            if self.closed:
                raise BoardError("The board is closed; open it before starting a reply.")
            if self._reply and not self._reply.over:
                raise BoardError("A reply is still open: wait until it has been heard to its end, or stop it.")
            self._ticket = self._ticket % (_WRAP - 1) + 1
            self._reply = RingReply(self, rate, self._ticket)
            self.access.write(registers.PLAY_GAIN, UNITY_GAIN)
            return self._reply

    def feed(self):
        """Move what is written into free slots of the ring; called whenever the board gives a sign of life."""
        with self.changed:
            if self._reply and not self._reply.over:
                self._reply._feed()

    def notice(self, kind: str, ns: int, ticket: int, position: int):
        """Take note of a playback event."""
        with self.changed:
            if kind == "stopped":
                # Every stop is answered, in order, and the answer names the ticket that was playing: one that comes
                # after its reply had ended by itself is not for the reply that is open by now.
                if self._stopping:
                    self._stopping.popleft()._notice_stop(ns, ticket, position)
            elif self._reply:
                self._reply._notice(kind, ns, ticket, position)
            self.changed.notify_all()

    def stop(self, reply: "RingReply"):
        """Tell the board to be silent; what it answers is for `reply`."""
        self._stopping.append(reply)
        self.access.write(registers.PLAY_STOP, 1)

    def close(self):
        """No reply is open any more, and nobody waits for one."""
        with self.changed:
            self.closed = True
            if self._reply and not self._reply.over:
                self._reply._end(None)
            self.changed.notify_all()


class RingReply:
    """The `Reply` of boards with a playback ring; made by `Player.start`."""

    def __init__(self, player: Player, rate: int, ticket: int):
        self.rate = rate
        self.ticket = ticket
        self.times: dict[str, int] = {}
        self.underruns = 0
        self.over = False
        self._player = player
        self._pending: deque[np.ndarray] = deque()
        self._written = 0  # samples handed to write()
        self._sent = 0  # samples in slots
        self._slots: deque[tuple[int, int]] = deque()  # (ring count after a slot, samples up to its end)
        self._read = 0  # samples in slots that the board has read
        self._finishing = False
        self._last_sent = False
        self._heard: int | None = None

    def write(self, pcm: np.ndarray):
        """Queue int16 samples, one dimension; never waits for the board to play. Ignored once stopped."""
        pcm = np.asarray(pcm)
        if pcm.dtype != np.int16 or pcm.ndim != 1:
            raise ValueError(f"a reply is int16 in one dimension, not {pcm.dtype} in {pcm.ndim}")
        with self._player.changed:
            if self.over:
                return
            if self._finishing:
                raise BoardError("This reply was finished; nothing can be added to it.")
            if len(pcm):
                self._pending.append(pcm.copy())
                self._written += len(pcm)
                self._feed()

    def finish(self):
        """The reply ends with what has been written. A reply without a sample is over at once."""
        with self._player.changed:
            if self.over or self._finishing:
                return
            self._finishing = True
            if self._written == 0:
                self._end(0)
            else:
                self._feed()

    def duck(self, db: float):
        """Play `db` <= 0 decibels lower, within 2 ms; 0 is the normal level, -inf silence."""
        if not db <= 0:
            raise ValueError(f"ducking is 0 dB or less, not {db}")
        with self._player.changed:
            if not self.over:
                self._player.access.write(registers.PLAY_GAIN, round(UNITY_GAIN * 10 ** (db / 20)))

    def stop(self) -> int:
        """Silence within 2 ms and discard the rest. Returns the samples heard, as the board reports them."""
        with self._player.changed:
            if self.over:
                return self.played()
            self._pending.clear()
            self._finishing = True
            if self._sent == 0:
                self._end(0)
                return 0
            self._last_sent = True  # whatever slot would come now is void
            self._player.stop(self)
            patience = time.monotonic() + _STOP_PATIENCE
            while not self.over and time.monotonic() < patience:
                self._player.changed.wait(0.05)
            if not self.over:
                self._end(None)
            return self.played()

    def played(self) -> int:
        """Samples handed to the DAC so far."""
        with self._player.changed:
            return self._position() if self._heard is None else self._heard

    def buffered(self) -> int:
        """Samples written and not yet handed to the DAC; 0 once the reply is over."""
        with self._player.changed:
            return 0 if self.over else self._written - self.played()

    def _feed(self):
        if self._last_sent or not (self._pending or self._finishing):
            return
        ring = self._player.ring
        free = ring.free()
        before = ring.head
        while free and not self._last_sent and (self._pending or self._finishing):
            pcm = self._take(PLAY_SAMPLES)
            self._last_sent = self._finishing and not self._pending
            ring.put(self.ticket, self._sent, self.rate, pcm, first=self._sent == 0, last=self._last_sent)
            self._sent += len(pcm)
            self._slots.append((ring.head, self._sent))
            free -= 1
        if ring.head != before:
            ring.publish()

    def _take(self, most: int) -> np.ndarray:
        """Up to `most` pending samples, joined across writes."""
        parts, count = [], 0
        while self._pending and count < most:
            part = self._pending.popleft()
            room = most - count
            if len(part) > room:
                self._pending.appendleft(part[room:])
                part = part[:room]
            parts.append(part)
            count += len(part)
        return np.concatenate(parts) if parts else np.zeros(0, np.int16)

    def _position(self) -> int:
        """What the board has read less what it still holds; read again when it went on between the two registers."""
        access = self._player.access
        while True:
            tail, level = access.read(registers.PLAY_TAIL), access.read(registers.PLAY_LEVEL)
            if access.read(registers.PLAY_TAIL) == tail:
                break
        while self._slots and (tail - self._slots[0][0]) % _WRAP < _HALF:
            self._read = self._slots.popleft()[1]
        return max(0, self._read - level)

    def _notice(self, kind: str, ns: int, ticket: int, position: int):
        if ticket != self.ticket:
            return
        if kind == "reply_started":
            self.times["first"] = ns
        elif kind == "underrun":
            self.underruns += 1
        elif kind == "reply_ended":
            self.times["last"] = ns
            self._end(position)

    def _notice_stop(self, ns: int, ticket: int, position: int):
        if not self.over:
            self.times["stopped"] = ns
            self._end(position if ticket == self.ticket else 0)

    def _end(self, heard: int | None):
        if heard is None:
            try:
                heard = self._position()
            except BoardError:
                heard = 0
        self._heard = heard
        self._pending.clear()
        self.over = True
