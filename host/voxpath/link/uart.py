"""The packets that travel over a serial line between host and board. docs/uart.md describes the protocol.

    0x00, COBS(u8 type, body, u32 CRC-32 of type and body), 0x00

Each message is a dataclass with `pack()`, the bytes for the line. `Decoder` takes whatever arrives, in pieces of any
size, and gives the messages back; what is not one is dropped and counted. Types 5 and 6 have one body on the way to the
board and another on the way back, so a decoder has to know its side.
"""

import struct
import zlib
from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from .frame import FRAME_BYTES
from .ring import FIRST, LAST, PLAY_SAMPLES, RATES

BAUD = 2_000_000
LINK_SPACE = 0x8000  # addresses from here on are the link's own registers

# The link's own registers, 32 bit, read only; the counts are 16 bits wide and wrap.
LINK_ID = 0x8000
LINK_VERSION = 0x8004
LINK_CLK_HZ = 0x8008
LINK_CYCLES_PER_BIT = 0x800C
LINK_PACKETS = 0x8010
LINK_BAD_COBS = 0x8014
LINK_BAD_LENGTH = 0x8018
LINK_BAD_CRC = 0x801C
LINK_UNKNOWN = 0x8020
LINK_NO_CREDIT = 0x8024
LINK_OUT_OF_TURN = 0x8028
LINK_BUSY = 0x802C
LINK_FRAMING = 0x8030
LINK_FRAMES = 0x8034
LINK_EVENTS = 0x8038
LINK_CYCLES = 0x803C
LINK_ID_VALUE = 0x56585541  # the letters VXUA

READ_WORDS = 8  # at most, in one read
WRITE_WORDS = 2
DONE = 0
REFUSED = 1

_WRAP = 1 << 32
_CRC_BYTES = 4
_CODE_MAX = 0xFF
_LITERALS_MAX = _CODE_MAX - 1
_COMMAND = struct.Struct("<BBH")
_SLOT = struct.Struct("<IIBBHI")
_CREDIT = struct.Struct("<II")
_COOKIE = struct.Struct("<Q")
_TIME = struct.Struct("<QQQIIIII")
_EVENT = struct.Struct("<QIIBBH")


class PacketError(ValueError):
    """These bytes are not what they should be; the sentence says why."""


# ---- the envelope --------------------------------------------------------------------------------------------------


def cobs_encode(data: bytes) -> bytes:
    """`data` without zero bytes (Cheshire and Baker, Consistent Overhead Byte Stuffing, 1999): 1 byte longer in 254."""
    out = bytearray()
    pieces = bytes(data).split(b"\0")
    for index, piece in enumerate(pieces):
        while len(piece) >= _LITERALS_MAX:
            out.append(_CODE_MAX)
            out += piece[:_LITERALS_MAX]
            piece = piece[_LITERALS_MAX:]
            if not piece and index == len(pieces) - 1:
                return bytes(out)
        out.append(len(piece) + 1)
        out += piece
    return bytes(out)


def cobs_decode(data: bytes) -> bytes:
    """The inverse of `cobs_encode`; raises PacketError."""
    out = bytearray()
    at = 0
    while at < len(data):
        code = data[at]
        block = data[at + 1 : at + code]
        if code == 0 or 0 in block:
            raise PacketError("a zero byte inside a packet")
        if len(block) != code - 1:
            raise PacketError(f"the last block has {len(block)} of {code - 1} bytes")
        out += block
        at += code
        if code != _CODE_MAX and at < len(data):
            out.append(0)
    return bytes(out)


def packet(kind: int, body: bytes) -> bytes:
    """The bytes for the line, delimiters included."""
    content = bytes([kind]) + body
    return b"\0" + cobs_encode(content + zlib.crc32(content).to_bytes(_CRC_BYTES, "little")) + b"\0"


# ---- to the board --------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Read:
    """Asks for `count` registers (1 to 8) of 32 bits from `address` on; a `Reply` with the same `tag` answers."""

    tag: int
    address: int
    count: int = 1

    KIND = 2

    def pack(self) -> bytes:
        return packet(self.KIND, _COMMAND.pack(self.tag, self.count, self.address))

    @classmethod
    def unpack(cls, body: bytes) -> "Read":
        tag, count, address = _take(_COMMAND, body)
        if not 1 <= count <= READ_WORDS:
            raise PacketError(f"a read of {count} words")
        return cls(tag, address, count)


@dataclass(frozen=True, slots=True)
class Write:
    """Writes one register of 32 bits, or two in a row: the halves of a wide one, together or not at all."""

    tag: int
    address: int
    values: tuple[int, ...]

    KIND = 3

    def pack(self) -> bytes:
        if not 1 <= len(self.values) <= WRITE_WORDS:
            raise ValueError(f"a write has 1 or 2 values, not {len(self.values)}")
        body = _COMMAND.pack(self.tag, 0, self.address)
        return packet(self.KIND, body + b"".join((value % _WRAP).to_bytes(4, "little") for value in self.values))

    @classmethod
    def unpack(cls, body: bytes) -> "Write":
        values = _words(body[_COMMAND.size :])
        if not 1 <= len(values) <= WRITE_WORDS:
            raise PacketError(f"a write of {len(values)} words")
        tag, _, address = _COMMAND.unpack_from(body)
        return cls(tag, address, values)


@dataclass(frozen=True, slots=True)
class Slot:
    """A slot of the playback ring, the `number`-th since the board's reset.

    `pcm` is the payload, up to 120 int16 little-endian; `rate` is the slot header's code, 0 for 16 kHz, 1 for 24.
    """

    number: int
    ticket: int
    position: int
    rate: int
    flags: int
    pcm: bytes

    KIND = 5

    def pack(self) -> bytes:
        samples = len(self.pcm) // 2
        header = _SLOT.pack(self.ticket, self.position % _WRAP, self.rate, self.flags, samples, self.number % _WRAP)
        return packet(self.KIND, header + self.pcm)

    @classmethod
    def unpack(cls, body: bytes) -> "Slot":
        if len(body) < _SLOT.size:
            raise PacketError(f"a slot of {len(body)} bytes")
        ticket, position, rate, flags, samples, number = _SLOT.unpack_from(body)
        pcm = bytes(body[_SLOT.size :])
        if samples > PLAY_SAMPLES or len(pcm) != 2 * samples:
            raise PacketError(f"a slot with {len(pcm)} bytes for {samples} samples")
        return cls(number, ticket, position, rate, flags, pcm)


@dataclass(frozen=True, slots=True)
class TimeRequest:
    """Asks for the board's time; `cookie` (u64) comes back with the `Time`."""

    cookie: int

    KIND = 6

    def pack(self) -> bytes:
        return packet(self.KIND, _COOKIE.pack(self.cookie))

    @classmethod
    def unpack(cls, body: bytes) -> "TimeRequest":
        return cls(*_take(_COOKIE, body))


# ---- from the board ------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Captured:
    """A frame of the capture ring, 160 bytes as `frame.parse` takes them; its own CRC is not looked at here."""

    data: bytes

    KIND = 1

    def pack(self) -> bytes:
        return packet(self.KIND, self.data)

    @classmethod
    def unpack(cls, body: bytes) -> "Captured":
        if len(body) != FRAME_BYTES:
            raise PacketError(f"a frame of {len(body)} bytes")
        return cls(bytes(body))


@dataclass(frozen=True, slots=True)
class Reply:
    """Answers a read or a write. `status` is DONE or REFUSED; `values` are the words read."""

    tag: int
    status: int
    address: int
    values: tuple[int, ...] = ()

    KIND = 4

    def pack(self) -> bytes:
        body = _COMMAND.pack(self.tag, self.status, self.address)
        return packet(self.KIND, body + b"".join(value.to_bytes(4, "little") for value in self.values))

    @classmethod
    def unpack(cls, body: bytes) -> "Reply":
        values = _words(body[_COMMAND.size :])
        if len(values) > READ_WORDS or len(body) < _COMMAND.size:
            raise PacketError(f"a reply of {len(body)} bytes")
        return cls(*_COMMAND.unpack_from(body), values)


@dataclass(frozen=True, slots=True)
class Credit:
    """Counts of playback slots since the board's reset: `head` taken over from the host, `tail` of them read.

    Slots up to number `tail` + PLAY_SLOTS - 1 may be sent.
    """

    head: int
    tail: int

    KIND = 5

    def pack(self) -> bytes:
        return packet(self.KIND, _CREDIT.pack(self.head, self.tail))

    @classmethod
    def unpack(cls, body: bytes) -> "Credit":
        return cls(*_take(_CREDIT, body))


@dataclass(frozen=True, slots=True)
class Time:
    """The board's two times, and when it took them, received the request and sent this.

    `time_ns` is the media time, `free_ns` the free-running one. The last four are counts of the board's clock modulo
    2^32: the middle of the stop bit of the request's last byte, the instants of `time_ns` and `free_ns`, and the
    beginning of the start bit of this packet's first byte.
    """

    cookie: int
    time_ns: int
    free_ns: int
    epoch: int
    received: int
    time_at: int
    free_at: int
    sent: int

    KIND = 6

    def pack(self) -> bytes:
        values = (self.cookie, self.time_ns, self.free_ns, self.epoch, self.received, self.time_at, self.free_at)
        return packet(self.KIND, _TIME.pack(*values, self.sent))

    @classmethod
    def unpack(cls, body: bytes) -> "Time":
        return cls(*_take(_TIME, body))

    def received_ns(self, clk_hz: int) -> int:
        """`free_ns` when the request had been received: the second of the four stamps of an exchange."""
        return self.free_ns + _apart(self.received, self.free_at) * 10**9 // clk_hz

    def sent_ns(self, clk_hz: int) -> int:
        """`free_ns` when this packet began to leave: the third stamp."""
        return self.free_ns + _apart(self.sent, self.free_at) * 10**9 // clk_hz

    def offset_ns(self, clk_hz: int) -> int:
        """Media time less free-running time, both at the same instant."""
        return self.time_ns - self.free_ns + _apart(self.free_at, self.time_at) * 10**9 // clk_hz


@dataclass(frozen=True, slots=True)
class Event:
    """A playback event (docs/playback.md). `waiting` are those in the board's FIFO, this one included; `number` counts
    the events sent, modulo 2^16, so that a gap tells of one that was lost on the line."""

    ns: int
    ticket: int
    position: int
    kind: int
    waiting: int
    number: int

    KIND = 7

    def pack(self) -> bytes:
        values = (self.ns, self.ticket, self.position, self.kind, self.waiting, self.number)
        return packet(self.KIND, _EVENT.pack(*values))

    @classmethod
    def unpack(cls, body: bytes) -> "Event":
        return cls(*_take(_EVENT, body))


TO_BOARD = {message.KIND: message for message in (Read, Write, Slot, TimeRequest)}
TO_HOST = {message.KIND: message for message in (Captured, Reply, Credit, Time, Event)}
# The longest packets are a full slot and, on the way back, a frame: type, body, CRC.
_LONGEST = 1 + _SLOT.size + 2 * PLAY_SAMPLES + _CRC_BYTES


def _take(layout: struct.Struct, body: bytes) -> tuple:
    if len(body) != layout.size:
        raise PacketError(f"a body of {len(body)} bytes, not {layout.size}")
    return layout.unpack(body)


def _words(data: bytes) -> tuple[int, ...]:
    if len(data) % 4:
        raise PacketError(f"{len(data)} bytes are not words of four")
    return struct.unpack(f"<{len(data) // 4}I", data)


def _apart(later: int, earlier: int) -> int:
    """The signed distance of two counts modulo 2^32."""
    return (later - earlier + _WRAP // 2) % _WRAP - _WRAP // 2


# ---- what arrives --------------------------------------------------------------------------------------------------


class Decoder:
    """Finds the packets in a stream of bytes that may hold anything.

    `messages` maps the types that may come to their classes: TO_HOST on the host, TO_BOARD on a board. `bad_cobs`,
    `bad_crc`, `bad_length` and `unknown` count what was dropped.
    """

    def __init__(self, messages=TO_HOST):
        self._messages = messages
        self._pending = bytearray()  # since the last delimiter
        self._overlong = False
        self.bad_cobs = 0
        self.bad_crc = 0
        self.bad_length = 0
        self.unknown = 0

    @property
    def dropped(self) -> int:
        """All that was dropped."""
        return self.bad_cobs + self.bad_crc + self.bad_length + self.unknown

    def feed(self, data: bytes) -> Iterator:
        """Take `data` as it came from the line; gives the messages that are complete with it."""
        *complete, rest = bytes(data).split(b"\0")
        for piece in complete:
            self._append(piece)
            encoded, overlong = bytes(self._pending), self._overlong
            self._pending.clear()
            self._overlong = False
            if overlong:
                self.bad_length += 1
            elif encoded:
                message = self._message(encoded)
                if message is not None:
                    yield message
        self._append(rest)

    def _append(self, piece: bytes):
        self._pending += piece
        # One code byte in 254, and one for the start: more than this is not worth keeping.
        if len(self._pending) > _LONGEST + 1 + _LONGEST // _LITERALS_MAX:
            self._overlong = True
            self._pending.clear()

    def _message(self, encoded: bytes):
        try:
            content = cobs_decode(encoded)
        except PacketError:
            self.bad_cobs += 1
            return None
        if not 1 + _CRC_BYTES <= len(content) <= _LONGEST:
            self.bad_length += 1
            return None
        if zlib.crc32(content[:-_CRC_BYTES]) != int.from_bytes(content[-_CRC_BYTES:], "little"):
            self.bad_crc += 1
            return None
        kind, body = content[0], content[1:-_CRC_BYTES]
        if kind not in self._messages:
            self.unknown += 1
            return None
        try:
            return self._messages[kind].unpack(body)
        except PacketError:
            self.bad_length += 1
            return None


# ---- playback by credits -------------------------------------------------------------------------------------------


class SlotSender:
    """Sends playback slots no faster than the board has room, and again those that were lost on the line.

    `slots` is the board's PLAY_SLOTS; `head` and `tail` are its PLAY_HEAD and PLAY_TAIL when it was opened. Times
    are seconds of any monotonic clock. A slot that is not confirmed within `patience` seconds is sent again, and all
    after it: the board takes them in their order alone and drops repeats.
    """

    def __init__(self, slots: int, head: int = 0, tail: int = 0, patience: float = 0.02):
        self._slots = slots
        self._patience = patience
        self._tail = tail
        self._first = head  # number of the oldest slot that is not confirmed
        self._waiting: deque[bytes] = deque()  # packets from that one on
        self._sent = 0  # of them, in this turn
        self._reached = 0  # of them, ever
        self._progress: float | None = None  # when the oldest was sent or the last one confirmed

    @property
    def unconfirmed(self) -> int:
        """Slots that were put and of which the board has not said that it has them."""
        return len(self._waiting)

    @property
    def queued(self) -> int:
        """Slots that were put and that the board has not read, as far as its credits say."""
        return (self._first + len(self._waiting) - self._tail) % _WRAP

    def put(self, ticket: int, position: int, rate: int, pcm: np.ndarray, *, first: bool = False, last: bool = False):
        """Queue a slot with up to 120 int16 samples at `rate` Hz; only a ticket's last slot may be empty."""
        pcm = np.asarray(pcm)
        if pcm.dtype != np.int16 or pcm.ndim != 1 or rate not in RATES:
            raise ValueError(f"a slot holds int16 in one dimension at 16 or 24 kHz, not {pcm.dtype} at {rate} Hz")
        if len(pcm) > PLAY_SAMPLES or (len(pcm) == 0 and not last):
            raise ValueError(f"a slot holds 1 to {PLAY_SAMPLES} samples, not {len(pcm)}; only a last one may be empty")
        number = (self._first + len(self._waiting)) % _WRAP
        flags = FIRST * first | LAST * last
        slot = Slot(number, ticket, position, RATES[rate], flags, pcm.astype("<i2").tobytes())
        self._waiting.append(slot.pack())

    def take(self, now: float) -> bytes:
        """What is to be sent at `now`: the next packet, or nothing. Ask again until it is nothing."""
        if self._sent and self._progress is not None and now - self._progress >= self._patience:
            self._sent = 0
        room = self._slots - (self._first - self._tail) % _WRAP
        if self._sent >= min(len(self._waiting), room):
            return b""
        if self._sent == 0:
            self._progress = now
        self._sent += 1
        self._reached = max(self._reached, self._sent)
        return self._waiting[self._sent - 1]

    def discard(self):
        """Forget the slots that were never sent, as after a stop; those that were are still seen through."""
        while len(self._waiting) > self._reached:
            self._waiting.pop()

    def credit(self, credit: Credit, now: float):
        """Note what the board has; a credit that cannot be is ignored."""
        confirmed = (credit.head - self._first) % _WRAP
        if confirmed > len(self._waiting) or (credit.head - credit.tail) % _WRAP > self._slots:
            return
        self._tail = credit.tail
        if confirmed:
            for _ in range(confirmed):
                self._waiting.popleft()
            self._first = credit.head
            self._sent = max(0, self._sent - confirmed)
            self._reached = max(0, self._reached - confirmed)
            self._progress = now
