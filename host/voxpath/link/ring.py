"""The host's ends of the two rings in memory that board and host share.

Counts are free-running u32; slot = count mod slots; full = head - tail == slots. The board writes the capture ring and
reads the playback ring. The memory is anything with the buffer protocol; registers are reached through callables, so
that the same code serves a DMA buffer, a PCIe window and a simulated board.
"""

import struct
from collections.abc import Callable

import numpy as np

from ..errors import BoardError
from . import frame

SLOT_BYTES = 256
PLAY_SAMPLES = 120
RATES = {16_000: 0, 24_000: 1}
FIRST = 0x01
LAST = 0x02

_WRAP = 1 << 32
_SLOT_HEADER = struct.Struct("<IIBBHI")
_PUBLISHED = struct.Struct("<II")


class CaptureRing:
    """Reads the frames that the board writes.

    `memory` holds `slots` slots and, after them, the board's copy of its head and boot id; it is made to say that the
    ring is empty at `tail`. `set_tail(count)` tells the board what has been read.
    """

    def __init__(self, memory, slots: int, set_tail: Callable[[int], None], tail: int = 0):
        self._memory = np.frombuffer(memory, np.uint8)
        if slots < 1 or slots & (slots - 1) or len(self._memory) < self.bytes_for(slots):
            raise ValueError(f"{len(self._memory)} bytes do not hold a capture ring of {slots} slots")
        self._slots = self._memory[: slots * SLOT_BYTES].reshape(slots, SLOT_BYTES)
        self._published = self._memory[slots * SLOT_BYTES : slots * SLOT_BYTES + _PUBLISHED.size]
        self._published[:] = np.frombuffer(_PUBLISHED.pack(tail, 0), np.uint8)
        self._set_tail = set_tail
        self.tail = tail

    @staticmethod
    def bytes_for(slots: int) -> int:
        """Size of the window that the board must be given."""
        return slots * SLOT_BYTES + 16

    def published(self) -> tuple[int, int]:
        """Head and boot id as the board last wrote them to memory."""
        return _PUBLISHED.unpack(self._published.tobytes())

    def read(self, head: int | None = None, limit: int | None = None) -> frame.Frames:
        """Take the frames up to `head` (by default what memory says), at most `limit`, and free their slots.

        Raises BoardError when the head is impossible: then the memory is not what this reader thinks it is.
        """
        if head is None:
            head = self.published()[0]
        waiting = (head - self.tail) % _WRAP
        slots = len(self._slots)
        if waiting > slots:
            raise BoardError(
                f"The capture ring's head is {waiting} frames ahead of its tail, but the ring holds {slots}; "
                "the board was reset or its memory is in other hands. Open it again."
            )
        count = waiting if limit is None else min(waiting, limit)
        frames = frame.parse(self._slots[(self.tail + np.arange(count)) % slots].reshape(-1), SLOT_BYTES)
        if count:
            self.tail = (self.tail + count) % _WRAP
            self._set_tail(self.tail)
        return frames


class PlaybackRing:
    """Writes the samples that the board plays.

    `tail()` gives the board's count of slots read, `set_head(count)` tells it what has been written.
    """

    def __init__(self, memory, slots: int, tail: Callable[[], int], set_head: Callable[[int], None], head: int = 0):
        self._memory = np.frombuffer(memory, np.uint8)
        if slots < 1 or slots & (slots - 1) or len(self._memory) < self.bytes_for(slots):
            raise ValueError(f"{len(self._memory)} bytes do not hold a playback ring of {slots} slots")
        self._slots = self._memory[: slots * SLOT_BYTES].reshape(slots, SLOT_BYTES)
        self._tail = tail
        self._set_head = set_head
        self.head = head

    @staticmethod
    def bytes_for(slots: int) -> int:
        """Size of the window that the board must be given."""
        return slots * SLOT_BYTES

    def free(self) -> int:
        """Slots that may be written before the next `publish`."""
        used = (self.head - self._tail()) % _WRAP
        if used > len(self._slots):
            raise BoardError("The playback ring's tail is ahead of its head; the board was reset. Open it again.")
        return len(self._slots) - used

    def put(self, ticket: int, position: int, rate: int, pcm: np.ndarray, *, first: bool = False, last: bool = False):
        """Fill the next slot with up to 120 int16 samples at `rate` Hz; the caller has asked `free`.

        Only a ticket's last slot may be empty. `position` is the number of samples of this ticket before these. The
        board sees the slot at `publish`.
        """
        pcm = np.asarray(pcm)
        if pcm.dtype != np.int16 or pcm.ndim != 1 or rate not in RATES:
            raise ValueError(f"a slot holds int16 in one dimension at 16 or 24 kHz, not {pcm.dtype} at {rate} Hz")
        if len(pcm) > PLAY_SAMPLES or (len(pcm) == 0 and not last):
            raise ValueError(f"a slot holds 1 to {PLAY_SAMPLES} samples, not {len(pcm)}; only a last one may be empty")
        flags = FIRST * first | LAST * last
        header = _SLOT_HEADER.pack(ticket, position % _WRAP, RATES[rate], flags, len(pcm), 0)
        content = header + np.asarray(pcm, "<i2").tobytes()
        self._slots[self.head % len(self._slots), : len(content)] = np.frombuffer(content, np.uint8)
        self.head = (self.head + 1) % _WRAP

    def publish(self):
        """Let the board read what was put."""
        self._set_head(self.head)
