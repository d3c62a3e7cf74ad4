"""The Verilated board: the RTL itself, cycle by cycle, inside this process.

It runs in a thread of its own against the wall clock, so that what is measured on it holds for hardware. Its microphone
hears what `play_source` is given, and its room or silence otherwise; its loudspeaker is `dac_pcm`, which the microphone
hears too if there is an echo.
"""

import atexit
import contextlib
import functools
import math
import weakref
from collections.abc import Callable, Iterator

import numpy as np

from ..errors import BoardError
from ..link.frame import Frame
from ..link.tracker import SequenceTracker
from . import Event, sim_build
from .access import Registers
from .reply import RingReply
from .service import Service
from .sim_model import CAPTURE_ADDRESS, PLAY_ADDRESS, Model

TICK_RATE = 48_000
TICKS_PER_HOP = 192
# Board time stands still while a millisecond of samples is being run.
_STEP_NS = 1_000_000


def ns_of(tick: int) -> int:
    """Media time of a 48 kHz tick; the first after reset is tick 0."""
    return tick * 62_500 // 3


def tick_of(ns: int) -> int:
    """The latest tick at or before a media time."""
    return (3 * ns + 2) // 62_500


def _close(reference: weakref.ref):
    board = reference()
    if board is not None:
        board.close()


class SimBoard:
    """A board that needs no hardware; see `Board` for the common interface.

    `pace` is board seconds a wall second; 0 runs as fast as frames are taken, for work in which time does not matter.
    `speed` chooses which clock cycles are run ("cycle", "slow", "skip"); what comes out is the same. `throttle` < 1
    makes the board too slow on purpose. `capture_slots` is the size of its
    capture ring, a power of two up to 256. `progress` gets the lines of a build.

    `echo_db` is the level of the loudspeaker in the microphone, -100 to 20 dB, after `echo_delay_ms` in the air, from a
    tick (1/48 ms) to a second: that sample of the DAC is added to that of the source, and the sum saturates.

    `room` is what the microphone hears while no source plays, int16 at 48 kHz, over and over. Without it that is
    digital silence, which no microphone hears: the background of a source that then begins is taken for a voice.
    """

    name = "sim"

    def __init__(
        self,
        *,
        pace: float = 1.0,
        speed: str = "skip",
        throttle: float = 1.0,
        capture_slots: int = 256,
        echo_db: float | None = None,
        echo_delay_ms: float = 5.0,
        room: np.ndarray | None = None,
        progress: Callable[[str], None] | None = None,
    ):
        if not 0 <= pace < math.inf or not 0 < throttle <= 1:
            raise BoardError("The simulated board's pace is 0 or more, its throttle above 0 and up to 1.")
        if echo_db is not None and not -100 <= echo_db <= 20:
            raise BoardError(f"The simulated board's echo is -100 to 20 dB, not {echo_db}.")
        if not 1000 / TICK_RATE <= echo_delay_ms <= 1000:
            raise BoardError(f"The simulated board's echo comes after 1/48 (a tick) to 1000 ms, not {echo_delay_ms}.")
        self._pace = pace
        self._speed = speed
        self._throttle = throttle
        self._capture_slots = capture_slots
        self._echo = None if echo_db is None else (10 ** (echo_db / 20), round(echo_delay_ms * TICK_RATE / 1000))
        self._room = room
        self._progress = progress
        self._model: Model | None = None
        self._service: Service | None = None
        self._closed = False

    # ---- the interface of every board ------------------------------------------------------------------------------

    def open(self):
        """Build the library if need be, and run a fresh front end. Raises BoardError."""
        if self._model and not self._closed:
            raise BoardError("The simulated board is open already.")
        model = Model(sim_build.library(self._progress, self._capture_slots), self._speed)
        if self._echo:
            model.echo(*self._echo)
        if self._room is not None:
            model.room(self._room)
        memory = memoryview(model.memory)
        self.registers = Registers(model.read, model.write)
        service = Service(
            self.registers,
            (memory[CAPTURE_ADDRESS:PLAY_ADDRESS], CAPTURE_ADDRESS),
            (memory[PLAY_ADDRESS:], PLAY_ADDRESS),
            model.wait_irq,
            model.wake,
            time_locked=self._pace == 1.0,
            heartbeat_s=0.1 / self._pace if self._pace else 0.0,
        )
        service.start()
        model.start(self._pace, self._throttle)
        self._model, self._service, self._closed = model, service, False
        # A board that is open when the interpreter ends is closed while its threads can still be joined.
        self._at_exit = functools.partial(_close, weakref.ref(self))
        atexit.register(self._at_exit)

    def close(self):
        """Stop the board; what was measured and played can still be read."""
        if self._closed or not self._model:
            return
        self._closed = True
        atexit.unregister(self._at_exit)
        try:
            self._service.stop()
            with contextlib.suppress(BoardError):  # a board that hangs cannot be brought to rest, only ended
                self._service.quiesce()
        finally:
            self._model.stop()

    def __enter__(self) -> "SimBoard":
        if not self._model or self._closed:
            self.open()
        return self

    def __exit__(self, *_):
        self.close()

    def frames(self) -> Iterator[Frame]:
        """Frames from now on. A listener that is 256 frames behind leaves the next ones to the ring, which drops and
        counts what it cannot hold."""
        return self._served().frames()

    def events(self) -> Iterator[Event]:
        """Events from now on."""
        return self._served().events()

    def start_reply(self, rate: int) -> RingReply:
        """Begin to speak at 16,000 or 24,000 Hz."""
        return self._served().player.start(rate)

    def time(self) -> tuple[int, int, bool]:
        """Media time of the newest tick that was run: whatever is done next happens after it, whatever was received
        happened before. Never waits."""
        return ns_of(max(0, self._run().ticks() - 1)), _STEP_NS, self._pace == 1.0

    def turn_open(self, is_open: bool):
        """While a turn is open every frame interrupts at once."""
        self._served().turn_open(is_open)

    @property
    def tracker(self) -> SequenceTracker:
        """Counts of frames received and lost."""
        return self._served().tracker

    # ---- microphone and loudspeaker --------------------------------------------------------------------------------

    def play_source(self, pcm: np.ndarray) -> int:
        """Let the microphone hear int16 samples at 48 kHz, behind those it was given before. Returns the board time
        (ns) of the first one; the room, or silence, follows the last one."""
        return ns_of(self._run().play(pcm))

    @property
    def source_done(self) -> bool:
        """Whether the microphone has heard everything it was given."""
        return self._run().counters().queued == 0

    def dac_pcm(self, since_ns: int = 0) -> tuple[np.ndarray, int]:
        """(int16 samples at 48 kHz that left the DAC, board time in ns of the first one), from `since_ns` on; the last
        quarter of an hour can be had."""
        counters = self._run().counters()
        first = max(counters.dac_begin, -(-3 * since_ns // 62_500))
        return self._run().dac(first, counters.ticks - first), ns_of(first)

    # ---- measurement -----------------------------------------------------------------------------------------------

    def wall_ns(self, board_ns: int) -> int | None:
        """CLOCK_MONOTONIC ns (`time.monotonic_ns`) at which the tick with that board time was run. For a time to come:
        when it will be if the board loses no more; None before the board was opened."""
        return self._run().wall_ns(tick_of(board_ns))

    @property
    def lag_ms_max(self) -> float:
        """Most that the board was behind the wall clock."""
        return self._run().counters().lag_max_ns / 1e6

    @property
    def realtime_factor(self) -> float:
        """Seconds of sound a second of the board's own processor time."""
        counters = self._run().counters()
        return counters.ticks / TICK_RATE / (counters.cpu_ns / 1e9) if counters.cpu_ns else 0.0

    @property
    def core_share(self) -> float:
        """Part of one core that the board takes."""
        counters = self._run().counters()
        return counters.cpu_ns / counters.wall_ns if counters.wall_ns else 0.0

    @property
    def cycles_per_hop(self) -> float:
        """Clock cycles that 4 ms of samples took on average, register accesses not counted."""
        counters = self._run().counters()
        return counters.cycles * TICKS_PER_HOP / counters.ticks if counters.ticks else 0.0

    @property
    def cycles_per_hop_max(self) -> int:
        """The same for the 4 ms that took most."""
        return self._run().counters().hop_cycles_max

    def _run(self) -> Model:
        if not self._model:
            raise BoardError("The simulated board has not been opened.")
        return self._model

    def _served(self) -> Service:
        self._run()
        return self._service
