"""Count what arrived and what did not: captured = received + ring_lost + link_lost."""

from .frame import FRAME_SAMPLES, SAMPLE_NS, Frame

_WRAP = 1 << 32
_SATURATED = 0xFFFF
# A frame that is further behind than this (4 s of sound) is a repeat; one that is missing for longer stays lost.
_WINDOW = 1024


def missing_samples(before: Frame, after: Frame) -> int:
    """Samples that lost frames may have held between two frames that came one after the other: those to conceal.

    Numbers tell a loss, time does not: a gated stream leaves silence out and its numbers go on. Where numbers are
    missing, time says how much at most they held, since frames of a gated stream may be short or empty. 0 for a frame
    that comes late.
    """
    lost = (after.sequence - before.sequence - 1) % _WRAP
    between = round((after.capture_ns - before.end_ns) / SAMPLE_NS)
    return max(0, min(lost * FRAME_SAMPLES, between))


class SequenceTracker:
    """Follows the frame numbers of one stream, gated or not: time plays no part in it.

    A frame's number counts frames captured, those included that the board's ring had no room for; the frame after such
    a drop says in `lost` how many. What is missing beyond that was lost on the way. A frame that comes late is taken
    off the losses again. Counting begins with the first frame seen; `restart()` after the board was reset.
    """

    def __init__(self):
        self.received = 0
        self.ring_lost = 0
        self.link_lost = 0
        self.crc_errors = 0
        self.reordered = 0
        self.duplicated = 0
        self._next: int | None = None
        self._missing: dict[int, None] = {}  # numbers counted in link_lost that may still come, oldest first

    @property
    def captured(self) -> int:
        """Frames that the board captured from the first to the newest that was received."""
        return self.received + self.ring_lost + self.link_lost

    def restart(self):
        """The numbers begin anew (the board was reset); the counts stay."""
        self._next = None
        self._missing.clear()

    def corrupted(self, count: int):
        """Note `count` frames whose CRC failed. Their numbers are unknown; the gap they leave is a link loss."""
        self.crc_errors += count

    def accept(self, frame: Frame) -> bool:
        """Count a frame whose CRC was right; False if it is a repeat and must not be used again."""
        sequence = frame.sequence
        ahead = 0 if self._next is None else (sequence - self._next) % _WRAP
        if ahead >= _WRAP // 2:
            return self._accept_late(frame)
        if ahead:
            # A saturated count says "at least"; a gap that large is then all the ring's.
            ring = ahead if frame.lost == _SATURATED else min(frame.lost, ahead)
            link = ahead - ring
            self.ring_lost += ring
            self.link_lost += link
            # The ring's drops are those just before this frame, so the link's are the older ones.
            first = self._next + max(0, link - _WINDOW)
            self._missing.update(dict.fromkeys(number % _WRAP for number in range(first, self._next + link)))
            self._forget(sequence)
        self._next = (sequence + 1) % _WRAP
        self.received += 1
        return True

    def _accept_late(self, frame: Frame) -> bool:
        if frame.sequence not in self._missing:
            self.duplicated += 1
            return False
        del self._missing[frame.sequence]
        self.link_lost -= 1
        self.received += 1
        self.reordered += 1
        # What this frame reports as dropped by the ring had been taken for losses of the link.
        for back in range(1, min(frame.lost, _WINDOW) + 1):
            number = (frame.sequence - back) % _WRAP
            if number not in self._missing:
                break
            del self._missing[number]
            self.link_lost -= 1
            self.ring_lost += 1
        return True

    def _forget(self, newest: int):
        for number in list(self._missing):
            if (newest - number) % _WRAP <= _WINDOW:
                break
            del self._missing[number]
