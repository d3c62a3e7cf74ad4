"""Golden model of framer: the 160 bytes of each frame and what is counted as lost."""

import struct
import zlib
from dataclasses import dataclass

import numpy as np

FRAME_SAMPLES = 64
FRAME_BYTES = 160


@dataclass
class Hop:
    """The voice activity of one hop; levels are log2 in Q6.10."""

    speech: bool = False
    onset: bool = False
    offset: bool = False
    energy: int = 0
    floor: int = 0
    zero_crossings: int = 0
    score: int = 0


@dataclass(frozen=True)
class Voice:
    """What a frame that is none of the grid says of its own voice activity; `speech` None: as the hop says."""

    onset: bool = False
    offset: bool = False
    speech: bool | None = None


@dataclass
class Levels:
    """The side inputs as they are when the frame is closed; `clipped` is true if a sample clipped during the frame."""

    clipped: bool = False
    time_locked: bool = False
    playback_active: bool = False
    test_pattern: bool = False
    stage_mask: int = 1
    stream: int = 0


class Framer:
    """Numbers frames, and remembers what was dropped until a frame can tell it."""

    def __init__(self, first_sequence: int = 0):
        self.captured = first_sequence
        self.frames_lost = 0
        self._untold = 0
        self._told = 0

    def frame(
        self, pcm, first_ns: int, delay_ns: int, hop: Hop, levels: Levels, *, kept: bool, voice: Voice | None = None
    ) -> bytes | None:
        """Close a frame of up to 64 int16 samples whose first came at `first_ns`; its bytes, or None if it is dropped.

        `hop` is the newest one that had ended; a frame with a `voice` has its flags from there.
        """
        sequence = self.captured
        self.captured = (self.captured + 1) % 2**32
        if not kept:
            self.frames_lost += 1
            self._untold += 1
            return None
        self._told, self._untold = self._untold, 0
        if voice is None:
            voice = Voice(hop.onset, hop.offset, hop.speech)
        flags = (
            hop.speech if voice.speech is None else voice.speech,
            voice.onset,
            voice.offset,
            self._told > 0,
            levels.clipped,
            levels.time_locked,
            levels.playback_active,
            levels.test_pattern,
        )
        payload = np.asarray(pcm, "<i2").tobytes().ljust(2 * FRAME_SAMPLES, b"\0")
        header = struct.pack(
            "<2sBBIQHHHBBHBB",
            b"VX",
            1,
            sum(1 << bit for bit, flag in enumerate(flags) if flag),
            sequence,
            max(0, first_ns - delay_ns),
            min(self._told, 0xFFFF),
            hop.energy,
            hop.floor,
            hop.zero_crossings,
            hop.score,
            len(pcm),
            levels.stage_mask,
            levels.stream,
        )
        return header + struct.pack("<I", zlib.crc32(header, zlib.crc32(payload))) + payload

    def lost_in_the_ring(self):
        """The last frame that was kept did not reach the ring: it, and what it had to tell, is lost now."""
        self.frames_lost += 1
        self._untold += self._told + 1
        self._told = 0
