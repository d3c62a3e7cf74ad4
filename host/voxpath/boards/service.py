"""The host's side of a front end in shared memory: one thread that serves its interrupts.

It takes frames out of the capture ring, events out of the event FIFO, keeps replies fed and tells the board that the
host lives. It needs registers, two stretches of memory and a way to wait for the interrupt, whatever the board is.
"""

import contextlib
import os
import secrets
import threading
import time
from collections.abc import Callable, Iterator

from ..errors import BoardError
from ..link.frame import Frame
from ..link.ring import CaptureRing, PlaybackRing
from ..link.tracker import SequenceTracker
from . import Event, registers
from .access import Registers
from .reply import Player
from .subscription import Channel

IDENTITY = 0x56585046
VERSION_MAJOR = 1
# Frames that a listener may leave untaken before the rest waits in the board's ring, which counts what it must drop.
BACKLOG = 256

_EVENTS = ("reply_started", "reply_ended", "underrun", "stopped", "low_water")
_WAIT_MS = 20
# An onset or offset that its register says was longer ago than this (ns) is not the one that the frame announces.
_PLAUSIBLE_NS = 2_000_000_000


class Service:
    """Serves one front end from `start()` to `stop()`.

    `capture` and `play` are (writable buffer, address that the board knows it by). `wait_irq(timeout_ms)` returns True
    when the interrupt line is up, False after the time; it raises BoardError when the board is dead. `wake()` makes it
    return now and from now on. The board is told every `heartbeat_s` that the host lives; it must hear that within half
    a second of its own time.
    """

    def __init__(
        self,
        access: Registers,
        capture: tuple[memoryview, int],
        play: tuple[memoryview, int],
        wait_irq: Callable[[int], bool],
        wake: Callable[[], None],
        *,
        time_locked: bool,
        heartbeat_s: float = 0.1,
    ):
        self.access = access
        self.tracker = SequenceTracker()
        self.player: Player | None = None
        self._capture_memory, self._capture_address = capture
        self._play_memory, self._play_address = play
        self._wait_irq = wait_irq
        self._wake = wake
        self._time_locked = time_locked
        self._heartbeat_s = heartbeat_s
        self._frames = Channel()
        self._events = Channel()
        self._closing = threading.Event()
        self._thread: threading.Thread | None = None
        self._beat_due = 0.0
        self._beats = 0

    def start(self):
        """Check who is there, silence it, give it its rings and let it run. Raises BoardError."""
        access = self.access
        identity, version = access.read(registers.ID), access.read(registers.VERSION)
        if identity != IDENTITY:
            raise BoardError(
                f"This is no Voxpath front end: its ID register reads 0x{identity:08X}. Check the address."
            )
        if version >> 16 != VERSION_MAJOR:
            raise BoardError(
                f"The board's register map has version {version >> 16}, this host's {VERSION_MAJOR}; update the older."
            )
        self.quiesce()
        access.write(registers.IRQ_ENABLE, 0)
        slots = access.read(registers.RING_SLOTS)
        head = access.read(registers.RING_HEAD)
        access.write(registers.RING_BASE, self._capture_address)
        access.write(registers.RING_SIZE, CaptureRing.bytes_for(slots))
        access.write(registers.RING_TAIL, head)
        self._ring = CaptureRing(
            self._capture_memory, slots, lambda count: access.write(registers.RING_TAIL, count), tail=head
        )
        slots = access.read(registers.PLAY_SLOTS)
        access.write(registers.PLAY_BASE, self._play_address)
        access.write(registers.PLAY_SIZE, PlaybackRing.bytes_for(slots))
        ring = PlaybackRing(
            self._play_memory,
            slots,
            lambda: access.read(registers.PLAY_TAIL),
            lambda count: access.write(registers.PLAY_HEAD, count),
            head=access.read(registers.PLAY_HEAD),
        )
        self.player = Player(ring, access)
        access.write(registers.BOOT_ID, secrets.randbelow(0xFFFFFFFF) + 1)
        access.write(registers.FAULTS, 0xFFFFFFFF)
        self._beat()
        access.write(registers.IRQ_ENABLE, registers.IRQ_ENABLE__FRAMES | registers.IRQ_ENABLE__EVENTS)
        access.write(registers.CONTROL, self._control())
        self._thread = threading.Thread(target=self._serve, name="voxpath-board", daemon=True)
        self._thread.start()

    def stop(self):
        """End every iterator and waiting call, then silence the board. May be called again."""
        self._closing.set()
        self._wake()
        self._frames.close()
        self._events.close()
        if self._thread and self._thread is not threading.current_thread():
            self._thread.join(timeout=5)
        if self.player:
            self.player.close()

    def quiesce(self, patience: float = 0.5):
        """Let the board start no memory transaction and wait until none is under way."""
        self.access.write(registers.CONTROL, registers.CONTROL__QUIESCE)
        until = time.monotonic() + patience
        while not self.access.read(registers.STATUS) & registers.STATUS__IDLE:
            if time.monotonic() > until:
                raise BoardError("The board does not come to rest: its memory does not answer. Reset it.")
            time.sleep(0.001)

    def turn_open(self, is_open: bool):
        """While a turn is open every frame interrupts at once."""
        self.access.write(registers.CONTROL, self._control() | (registers.CONTROL__TURN_OPEN if is_open else 0))

    def frames(self) -> Iterator[Frame]:
        """Frames from now on."""
        return self._frames.subscribe()

    def events(self) -> Iterator[Event]:
        """Events from now on."""
        return self._events.subscribe()

    def _control(self) -> int:
        control = registers.CONTROL__CAPTURE_ENABLE | registers.CONTROL__PLAYBACK_ENABLE | registers.CONTROL__ADAPTIVE
        return control | (registers.CONTROL__TIME_LOCKED if self._time_locked else 0)

    def _serve(self):
        with contextlib.suppress(OSError):  # as prompt as we may be; the chain's threads can wait
            os.setpriority(os.PRIO_PROCESS, threading.get_native_id(), -5)
        error = None
        try:
            while not self._closing.is_set():
                self._wait_irq(_WAIT_MS)
                if self._closing.is_set():
                    break
                if time.monotonic() >= self._beat_due:
                    self._beat()
                self._take_events()
                self._take_frames()
                self.player.feed()
        except BoardError as caught:
            error = caught
        except Exception as caught:  # a fault here must end the run with a message, never leave it waiting
            error = BoardError(f"Serving the board failed: {type(caught).__name__}: {caught}")
        if error and not self._closing.is_set():
            self._events.publish([Event("link_lost", 0)])
            self.player.close()
            self._frames.close(error)
            self._events.close(error)

    def _beat(self):
        self._beats = (self._beats + 1) & 0xFFFFFFFF
        self.access.write(registers.HEARTBEAT, self._beats)
        self._beat_due = time.monotonic() + self._heartbeat_s

    def _take_events(self):
        access = self.access
        while access.read(registers.EVENT_KIND) & registers.EVENT_KIND__COUNT:
            code = access.read(registers.EVENT_KIND) & registers.EVENT_KIND__KIND
            ns = access.read(registers.EVENT_NS)
            ticket, position = access.read(registers.EVENT_TICKET), access.read(registers.EVENT_POSITION)
            access.write(registers.EVENT_POP, 1)
            if code < len(_EVENTS):
                event = Event(_EVENTS[code], ns, ticket, position)
                self.player.notice(event.kind, ns, ticket, position)
                self._events.publish([event])

    def _take_frames(self):
        room = BACKLOG - self._frames.backlog()
        if room < BACKLOG // 4:
            # The interrupt stays up meanwhile: wait for the listener instead.
            self._frames.wait_for_takers(0.005)
            return
        # First acknowledge, then look: what is published in between interrupts again.
        self.access.write(registers.IRQ_ACK, 1)
        frames = self._ring.read(limit=room)
        self.tracker.corrupted(frames.bad)
        accepted = [frame for frame in frames if self.tracker.accept(frame)]
        for frame in accepted:
            for flag, kind, register in (
                (frame.onset, "onset", registers.ONSET_NS),
                (frame.offset, "offset", registers.OFFSET_NS),
            ):
                if flag:
                    self._events.publish([Event(kind, self._decided_at(frame, register))])
        if accepted:
            self._frames.publish(accepted)

    def _decided_at(self, frame: Frame, register: int) -> int:
        """When what this frame announces happened. A late host may find a newer one in the register."""
        ns = self.access.read(register)
        return ns if 0 <= frame.end_ns - ns < _PLAUSIBLE_NS else frame.capture_ns
