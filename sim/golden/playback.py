"""Bit-exact model of fpga/rtl/playback.sv, one 48 kHz tick at a time.

The model knows no clock cycles and no memory latency: what is heard may depend on ticks alone.
"""

import struct
from collections import deque
from dataclasses import dataclass

import numpy as np

SLOT_BYTES = 256
SLOT_SAMPLES = 120
RATES = (16_000, 24_000)
KINDS = ("first", "last", "underrun", "stopped", "low_water")

RELEASE_TICKS = 4
FADE_TICKS = 96
FILTER_DELAY_TICKS = 28
COEF_FRAC = 16
TAPS = 57
UNITY = 0x8000
SLOPE = -(-65536 // FADE_TICKS)


@dataclass(frozen=True)
class Slot:
    """One slot of the playback ring: up to 120 samples of a ticket, `position` being the first one's index."""

    ticket: int
    position: int
    pcm: np.ndarray
    rate: int = 0
    first: bool = False
    last: bool = False
    count: int | None = None  # n of the header where it is to differ from len(pcm)

    @property
    def n(self) -> int:
        return len(self.pcm) if self.count is None else self.count

    @property
    def well_formed(self) -> bool:
        return self.n <= SLOT_SAMPLES and self.rate in (0, 1) and (self.n > 0 or self.last)

    def pack(self) -> bytes:
        """The slot's 256 bytes."""
        header = struct.pack(
            "<IIBBHI", self.ticket, self.position, self.rate, self.first | self.last << 1, self.n, 0xDEADBEEF
        )
        return (header + np.asarray(self.pcm, dtype="<i2").tobytes()).ljust(SLOT_BYTES, b"\xa5")


@dataclass(frozen=True)
class Event:
    kind: str
    ns: int
    ticket: int
    position: int


class Playback:
    """Plays what `publish` gave; `tick` returns the DAC sample of a tick and appends to `events`.

    `tables` holds the integer coefficients for 16 and 24 kHz. `gain` (Q1.15) and `low_water` (samples) may change
    between ticks. `playing` and `bad_slots` are as the registers show them.
    """

    def __init__(self, tables, *, delay_ns=0, low_water=0):
        self.delay_ns = delay_ns
        self.low_water = low_water
        self.gain = UNITY
        self.events = []
        self.playing = False
        self.bad_slots = 0
        self.enabled = True
        self._filters = [_Interpolator(np.asarray(table), up) for table, up in zip(tables, (3, 2), strict=True)]
        self._ring = []  # every slot ever published
        self._next = 0  # number of the first slot that was not begun
        self._release = deque([0] * RELEASE_TICKS, maxlen=RELEASE_TICKS)
        self._stop_to = None
        self._fade = 0
        self._level = 0  # gain, 2^-31
        self._step = 0
        self._open = False
        self._ticket = 0
        self._stopped = False
        self._rate = 0
        self._slot = None
        self._index = 0
        self._tail = 0
        self._fresh = self._gap = self._armed = False
        self._heard = (0, 0)  # samples heard and the time of the newest of them

    # ---- the host's side -------------------------------------------------------------------------------------------

    def publish(self, slots) -> None:
        self._ring.extend(slots)

    def stop(self) -> None:
        self._stop_to = len(self._ring)

    # ---- one tick ----------------------------------------------------------------------------------------------------

    def tick(self, ns: int) -> int:
        """The int16 sample of the tick at media time `ns`."""
        now = ns + self.delay_ns
        limit = len(self._ring) if self._stop_to is None else self._stop_to
        self._release.appendleft(limit if self.enabled else self._release[0])
        released = self._release[-1]
        stopping = self._stop_to is not None
        self._move_gain(fade=stopping and self.playing)
        if stopping and (not self.playing or self._fade > FADE_TICKS):
            self._finish_stop()
            return 0
        closing = False
        if self._filter.spent:
            closing = self._feed(released, now, stopping)
        if closing:
            self._open = False
            if self._audible:
                self._report("last", self._heard[1], self._heard[0])
        if self._open:
            self._watch_level(released, now)
        if not self.playing:
            return 0
        return (self._filter.output() * (self._level >> 16) + (1 << 14)) >> 15

    @property
    def _filter(self):
        return self._filters[self._rate]

    @property
    def _audible(self) -> bool:
        """Whether the centre of what is handed over now comes out before the ramp of a stop has ended."""
        return self._fade <= FADE_TICKS - FILTER_DELAY_TICKS

    def _report(self, kind, ns, position):
        self.events.append(Event(kind, ns, self._ticket, position))

    def _move_gain(self, fade):
        target = min(self.gain, UNITY) << 16
        if not self.playing:
            self._level = target
        elif fade:
            if self._fade == 0:
                self._step = (self._level >> 16) * SLOPE
            self._fade += 1
            self._level = max(0, self._level - self._step)
        else:
            step = UNITY * SLOPE
            self._level += max(-step, min(step, target - self._level))

    def _finish_stop(self):
        self._next, self._stop_to, self._fade = self._stop_to, None, 0
        self._open = self.playing = False
        self._slot, self._tail, self._stopped = None, 0, True
        self._filter.clear()
        self._report("stopped", self._heard[1], self._heard[0])

    def _feed(self, released, now, stopping) -> bool:
        """Give the filter its next input, if something plays; returns whether the ticket ends with it."""
        if not self._open and self._tail:
            self._tail -= 1
            self._filter.push(0)
            return False
        if self._slot is None:
            was_open = self._open
            closing = self._take_slot(released, now, stopping)
            if self._slot is None:
                if was_open:
                    if closing:
                        self._tail = self._filter.tail - 1
                    self._filter.push(0)
                else:
                    self.playing = False
                return closing
        slot, index = self._slot, self._index
        self._filter.push(int(slot.pcm[index]))
        if self._audible:
            self._heard = (slot.position + index + 1, now)
        if self._fresh:
            self._report("first", now, slot.position)
        self._fresh = self._gap = False
        self._index += 1
        if self._index < slot.n:
            return False
        self._slot = None
        if slot.last:
            self._tail = self._filter.tail
        return slot.last

    def _take_slot(self, released, now, stopping) -> bool:
        """Look at the front slot and begin it if it can be played; returns whether it ends the open ticket."""
        number = self._next
        while number < released and not self._ring[number].well_formed:
            number += 1
        if number >= released:
            self._starve(now, stopping)
            return False
        slot = self._ring[number]
        if self._open and (slot.first or slot.ticket != self._ticket):
            return True  # another ticket ends this one; the slot is looked at again later
        if not self._open and stopping:
            return False
        self._next = number + 1
        if not self._open and not slot.first:
            self.bad_slots += not self._stopped
            return False
        if self._open and slot.rate != self._rate:
            self.bad_slots += 1
            self._starve(now, stopping)
            return False
        if not self._open:
            self._ticket = slot.ticket
            self._stopped = False
            self._heard = (slot.position, now)
        if slot.n == 0:
            return True
        if not self._open:
            self._open = self.playing = self._fresh = True
            self._gap = self._armed = False
            self._rate = slot.rate
            self._filter.clear()
        self._slot, self._index = slot, 0
        return False

    def _starve(self, now, stopping):
        if self._open and not self._gap:
            self._gap = True
            if not stopping:
                self._report("underrun", now, self._heard[0])

    def _watch_level(self, released, now):
        left = self._slot.n - self._index if self._slot else 0
        low = left + SLOT_SAMPLES * (released - self._next) < self.low_water
        if low and self._armed and not (self._slot and self._slot.last):
            self._report("low_water", now, self._heard[0])
        self._armed = not low


class _Interpolator:
    """L outputs for each input: y = sat16((sum_j h[phase + j * L] * x[k - j] + half) >> COEF_FRAC)."""

    def __init__(self, table, up):
        span = -(-len(table) // up)
        self._branches = np.zeros((up, span), dtype=np.int64)
        for phase in range(up):
            taps = table[phase::up]
            self._branches[phase, : len(taps)] = taps
        self._up = up
        self.tail = (len(table) - 1) // up  # zeros that bring out the rest of the response
        self.clear()

    def clear(self):
        self._history = np.zeros(self._branches.shape[1], dtype=np.int64)
        self._outputs = []

    @property
    def spent(self) -> bool:
        return not self._outputs

    def push(self, sample):
        self._history = np.concatenate([[sample], self._history[:-1]])
        sums = self._branches @ self._history
        self._outputs = np.clip((sums + (1 << (COEF_FRAC - 1))) >> COEF_FRAC, -32768, 32767).tolist()

    def output(self) -> int:
        return self._outputs.pop(0)
