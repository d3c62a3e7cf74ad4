"""The 160-byte audio frame: a 32-byte header, 64 samples, a CRC over both. Little-endian on every transport.

The CRC runs over the payload first and the header's first 28 bytes after it, so that a board can accumulate it while
samples arrive: `crc32(header[0:28], crc32(payload))`.
"""

import zlib
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

HEADER_BYTES = 32
FRAME_SAMPLES = 64
FRAME_BYTES = HEADER_BYTES + 2 * FRAME_SAMPLES
SAMPLE_RATE = 16_000
SAMPLE_NS = 62_500
MAGIC = b"VX"
VERSION = 1

SPEECH = 0x01
ONSET = 0x02
OFFSET = 0x04
DROPPED = 0x08
CLIPPED = 0x10
TIME_LOCKED = 0x20
PLAYBACK = 0x40
TEST_PATTERN = 0x80

HEADER = np.dtype(
    [
        ("magic", "S2"),
        ("version", "u1"),
        ("flags", "u1"),
        ("sequence", "<u4"),
        ("capture_ns", "<u8"),
        ("lost", "<u2"),
        ("energy", "<u2"),
        ("floor", "<u2"),
        ("zero_crossings", "u1"),
        ("score", "u1"),
        ("samples", "<u2"),
        ("stage_mask", "u1"),
        ("stream", "u1"),
        ("crc", "<u4"),
    ]
)
_FRAME = np.dtype([("header", HEADER), ("pcm", "<i2", (FRAME_SAMPLES,))])
assert HEADER.itemsize == HEADER_BYTES and _FRAME.itemsize == FRAME_BYTES


@dataclass(slots=True)
class Frame:
    """One frame as the board captured it.

    `capture_ns` is the media time at which the first sample reached the ADC. `energy` and `floor` are log2 in Q6.10.
    `pcm` is int16, 16 kHz, `samples` long: 64, but in a gated stream fewer in an utterance's last frame and none in a
    keep-alive frame. There, a frame that follows by its number may begin later than the one before ended: nothing was
    lost, it was silent in between. Before the time of a keep-alive frame nothing more will come.
    """

    sequence: int
    capture_ns: int
    flags: int
    lost: int
    energy: int
    floor: int
    zero_crossings: int
    score: int
    samples: int
    stage_mask: int
    stream: int
    pcm: np.ndarray

    @property
    def speech(self) -> bool:
        """Speech was heard in this frame, hangover not counted."""
        return bool(self.flags & SPEECH)

    @property
    def onset(self) -> bool:
        """The start of an utterance was decided in this frame."""
        return bool(self.flags & ONSET)

    @property
    def offset(self) -> bool:
        """The end of an utterance was decided in this frame, after the hangover."""
        return bool(self.flags & OFFSET)

    @property
    def dropped(self) -> bool:
        """The ring dropped frames just before this one; `lost` says how many."""
        return bool(self.flags & DROPPED)

    @property
    def clipped(self) -> bool:
        """A sample of this frame reached the converter's limit."""
        return bool(self.flags & CLIPPED)

    @property
    def time_locked(self) -> bool:
        """The board's clock was disciplined."""
        return bool(self.flags & TIME_LOCKED)

    @property
    def playback(self) -> bool:
        """A reply was audible."""
        return bool(self.flags & PLAYBACK)

    @property
    def test_pattern(self) -> bool:
        """The samples are a test pattern, not sound."""
        return bool(self.flags & TEST_PATTERN)

    @property
    def keep_alive(self) -> bool:
        """No sound: a gated stream says that it was silent until `capture_ns`."""
        return self.samples == 0

    @property
    def end_ns(self) -> int:
        """Media time just after the last sample."""
        return self.capture_ns + self.samples * SAMPLE_NS


@dataclass(slots=True)
class Frames:
    """Frames of one buffer, in its order.

    `header` is (n,) of HEADER, `pcm` (n, 64) int16, `valid` (n,) bool. `bad` counts what was not a frame: a wrong
    magic, version, length or CRC, and a truncated end. Iteration gives the valid ones as `Frame`.
    """

    header: np.ndarray
    pcm: np.ndarray
    valid: np.ndarray
    bad: int

    def __len__(self) -> int:
        return int(self.valid.sum())

    def __iter__(self) -> Iterator[Frame]:
        for index in np.flatnonzero(self.valid):
            _, _, flags, sequence, ns, lost, energy, floor, crossings, score, samples, stage, stream, _ = self.header[
                index
            ].item()
            pcm = self.pcm[index, :samples]
            yield Frame(sequence, ns, flags, lost, energy, floor, crossings, score, samples, stage, stream, pcm)


def parse(buffer, stride: int = FRAME_BYTES) -> Frames:
    """Take frames that start every `stride` bytes of `buffer` (bytes-like or uint8 ndarray) apart and check them.

    The result owns its data: the buffer may be overwritten afterwards. Nothing in a buffer raises; what is not a frame
    is counted in `Frames.bad`. Bytes that are too few for a whole frame at the end count as one bad frame.
    """
    if stride < FRAME_BYTES:
        raise ValueError(f"frames of {FRAME_BYTES} bytes cannot start every {stride} bytes")
    data = np.frombuffer(buffer, np.uint8)
    count = len(data) // stride
    whole = data[: count * stride].reshape(count, stride)[:, :FRAME_BYTES]
    rest = data[count * stride :]
    truncated = 0
    if len(rest) >= FRAME_BYTES:  # the last frame may come without the padding of its slot
        whole = np.concatenate([whole, rest[None, :FRAME_BYTES]])
    elif len(rest):
        truncated = 1
    frames = np.ascontiguousarray(whole).copy().view(_FRAME).reshape(-1)
    header, pcm = frames["header"], frames["pcm"]
    valid = (header["magic"] == MAGIC) & (header["version"] == VERSION) & (header["samples"] <= FRAME_SAMPLES)
    for index in np.flatnonzero(valid):
        valid[index] = checksum(frames[index : index + 1].view(np.uint8)) == header["crc"][index]
    return Frames(header, pcm, valid, int((~valid).sum()) + truncated)


def checksum(frame) -> int:
    """CRC-32 of one frame's 160 bytes, its own CRC field left out."""
    view = memoryview(frame)
    return zlib.crc32(view[:28], zlib.crc32(view[HEADER_BYTES:FRAME_BYTES]))


def build(
    pcm,
    *,
    sequence: int = 0,
    capture_ns: int = 0,
    flags: int = 0,
    lost: int = 0,
    energy: int = 0,
    floor: int = 0,
    zero_crossings: int = 0,
    score: int = 0,
    stage_mask: int = 1,
    stream: int = 0,
) -> bytes:
    """The 160 bytes of a frame with up to 64 int16 samples; the rest of the payload is zero."""
    frame = np.zeros(1, _FRAME)
    samples = np.asarray(pcm, np.int16)
    frame["pcm"][0, : len(samples)] = samples
    frame["header"] = np.array(
        (
            *(MAGIC, VERSION, flags, sequence, capture_ns, lost, energy, floor),
            *(zero_crossings, score, len(samples), stage_mask, stream, 0),
        ),
        HEADER,
    )
    frame["header"]["crc"] = checksum(frame.view(np.uint8))
    return frame.tobytes()
