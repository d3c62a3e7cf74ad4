"""The compiled front end as Python sees it: `sim/board/board.cpp` through ctypes.

Every call releases the GIL. The board's own thread holds a lock for the fraction of a millisecond that it takes to run
a millisecond of samples; register accesses wait for that.
"""

import ctypes
import weakref
from pathlib import Path

import numpy as np

from ..errors import BoardError

CAPTURE_ADDRESS = 0x10000
PLAY_ADDRESS = 0x30000
SPEEDS = {"cycle": 0, "slow": 1, "skip": 2}
ANSWERS = {"okay": 0, "error": 1, "silence": 2}

_CLOSING, _STUCK = -1, -2


class Counters(ctypes.Structure):
    """Measurements, as in board.cpp."""

    _fields_ = [
        *((name, ctypes.c_uint64) for name in ("ticks", "cycles", "hop_cycles_max", "queued", "dac_begin")),
        ("dac_missing", ctypes.c_uint64),
        *((name, ctypes.c_int64) for name in ("cpu_ns", "wall_ns", "lag_ns", "lag_max_ns")),
        ("stuck", ctypes.c_uint64),
    ]


_SIGNATURES = {
    "vb_create": (ctypes.c_void_p, []),
    "vb_destroy": (None, [ctypes.c_void_p]),
    "vb_memory": (ctypes.c_void_p, [ctypes.c_void_p]),
    "vb_memory_bytes": (ctypes.c_uint32, []),
    "vb_configure": (None, [ctypes.c_void_p, ctypes.c_uint32]),
    "vb_room": (None, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]),
    "vb_echo": (None, [ctypes.c_void_p, ctypes.c_double, ctypes.c_uint64]),
    "vb_misbehave": (None, [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32]),
    "vb_write": (None, [ctypes.c_void_p, ctypes.c_uint32, ctypes.c_uint32]),
    "vb_read": (ctypes.c_uint32, [ctypes.c_void_p, ctypes.c_uint32]),
    "vb_play": (ctypes.c_uint64, [ctypes.c_void_p, ctypes.c_void_p, ctypes.c_size_t]),
    "vb_run": (None, [ctypes.c_void_p, ctypes.c_uint64]),
    "vb_start": (None, [ctypes.c_void_p, ctypes.c_double, ctypes.c_double]),
    "vb_stop": (None, [ctypes.c_void_p]),
    "vb_wake": (None, [ctypes.c_void_p]),
    "vb_wait_irq": (ctypes.c_int, [ctypes.c_void_p, ctypes.c_int]),
    "vb_counters": (None, [ctypes.c_void_p, ctypes.POINTER(Counters)]),
    "vb_ticks": (ctypes.c_uint64, [ctypes.c_void_p]),
    "vb_dac": (ctypes.c_size_t, [ctypes.c_void_p, ctypes.c_uint64, ctypes.c_void_p, ctypes.c_size_t]),
    "vb_wall_ns": (ctypes.c_int64, [ctypes.c_void_p, ctypes.c_uint64]),
}


def _load(path: Path) -> ctypes.CDLL:
    try:
        library = ctypes.CDLL(str(path))
    except OSError as error:
        raise BoardError(f"The simulated board's library does not load ({error}); delete {path.parent}.") from error
    for name, (result, arguments) in _SIGNATURES.items():
        function = getattr(library, name)
        function.restype, function.argtypes = result, arguments
    return library


class Model:
    """One front end, fresh out of reset. A tick is one 48 kHz sample."""

    def __init__(self, library: Path, speed: str = "skip"):
        """`speed` is "cycle" (every cycle at 100 MHz), "slow" (256 cycles a tick) or "skip" (only while busy)."""
        if speed not in SPEEDS:
            raise BoardError(f"The simulated board has the speeds {', '.join(SPEEDS)}, not {speed!r}.")
        self._library = _load(library)
        self._board = self._library.vb_create()
        self._library.vb_configure(self._board, SPEEDS[speed])
        # At the interpreter's end only the thread is ended: someone may still be waiting inside a call.
        self._at_exit = weakref.finalize(self, self._library.vb_stop, self._board)

    def __del__(self):
        if hasattr(self, "_at_exit"):
            self._at_exit.detach()
            self._library.vb_destroy(self._board)

    @property
    def memory(self) -> np.ndarray:
        """All memory that the front end can reach, uint8, from address 0."""
        size = self._library.vb_memory_bytes()
        memory = (ctypes.c_uint8 * size).from_address(self._library.vb_memory(self._board))
        memory.owner = self  # who looks at the memory keeps the board
        return np.frombuffer(memory, np.uint8)

    def read(self, offset: int) -> int:
        """A 32-bit register, by AXI4-Lite."""
        return self._library.vb_read(self._board, offset)

    def write(self, offset: int, value: int):
        """Likewise."""
        self._library.vb_write(self._board, offset, value)

    def echo(self, gain: float, ticks: int):
        """From now on the ADC also hears what left the DAC `ticks` >= 1 ago, times `gain`, rounded; sums saturate."""
        self._library.vb_echo(self._board, gain, ticks)

    def misbehave(self, on_write: str = "okay", on_read: str = "okay"):
        """From now on memory answers with an "error", with "silence", or "okay" again."""
        self._library.vb_misbehave(self._board, ANSWERS[on_write], ANSWERS[on_read])

    def play(self, pcm: np.ndarray) -> int:
        """Queue int16 samples for the ADC; the tick at which the first one is heard."""
        pcm = _samples(pcm)
        return self._library.vb_play(self._board, pcm.ctypes.data, len(pcm))

    def room(self, pcm: np.ndarray):
        """What the ADC hears, over and over, while nothing is queued; silence if there are no samples."""
        pcm = _samples(pcm)
        self._library.vb_room(self._board, pcm.ctypes.data, len(pcm))

    def run(self, ticks: int):
        """Run in this thread; not together with `start`."""
        self._library.vb_run(self._board, ticks)

    def start(self, pace: float = 1.0, throttle: float = 1.0):
        """Run in a thread of its own, `pace` times real time. 0: as fast as possible, but never past an interrupt
        that is not served. `throttle` < 1 is the fraction of that pace which the board reaches."""
        self._library.vb_start(self._board, pace, throttle)

    def stop(self):
        """End the thread and everybody's waiting. May be called again; there is no new start."""
        self._library.vb_stop(self._board)

    def wake(self):
        """Whoever waits for an interrupt returns, from now on."""
        self._library.vb_wake(self._board)

    def wait_irq(self, timeout_ms: int) -> bool:
        """Whether the interrupt line came up within the time. Raises BoardError if the front end hangs."""
        result = self._library.vb_wait_irq(self._board, timeout_ms)
        if result == _STUCK:
            raise BoardError("The simulated front end hangs: it stays busy for ever. This is a fault of its RTL.")
        return result > 0

    def counters(self) -> Counters:
        """All measurements at one instant."""
        counters = Counters()
        self._library.vb_counters(self._board, ctypes.byref(counters))
        return counters

    def ticks(self) -> int:
        """Ticks run so far; never waits."""
        return self._library.vb_ticks(self._board)

    def dac(self, first: int, count: int) -> np.ndarray:
        """Up to `count` samples that left the DAC from tick `first` on, int16; fewer where they are not there yet."""
        pcm = np.empty(max(0, count), np.int16)
        return pcm[: self._library.vb_dac(self._board, first, pcm.ctypes.data, len(pcm))]

    def wall_ns(self, tick: int) -> int | None:
        """CLOCK_MONOTONIC ns at which a tick was, or is going to be, run; None before `start`."""
        ns = self._library.vb_wall_ns(self._board, tick)
        return None if ns < 0 else ns


def _samples(pcm: np.ndarray) -> np.ndarray:
    pcm = np.ascontiguousarray(pcm)
    if pcm.dtype != np.int16 or pcm.ndim != 1:
        raise ValueError(f"the ADC takes int16 in one dimension, not {pcm.dtype} in {pcm.ndim}")
    return pcm
