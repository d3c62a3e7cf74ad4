"""The host's ends of the rings over plain memory, the board's ends played by the tests."""

import struct

import numpy as np
import pytest

from voxpath.errors import BoardError
from voxpath.link.frame import build
from voxpath.link.ring import CaptureRing, PlaybackRing

SLOTS = 8


class Capture:
    """A board that writes frames into memory as the RTL does."""

    def __init__(self, start=0):
        self.memory = bytearray(CaptureRing.bytes_for(SLOTS))
        self.head = start
        self.tails = []
        self.ring = CaptureRing(self.memory, SLOTS, self.tails.append, tail=start)

    def write(self, sequence):
        at = self.head % SLOTS * 256
        self.memory[at : at + 160] = build([sequence] * 64, sequence=sequence)
        self.head = (self.head + 1) % 2**32
        self.memory[SLOTS * 256 : SLOTS * 256 + 8] = struct.pack("<II", self.head, 0xB007)


@pytest.mark.parametrize("start", [0, 5, 2**32 - 3])
def test_frames_come_out_in_order_around_the_ring_and_around_the_counter(start):
    board = Capture(start)
    for turn in range(5):
        for n in range(5):
            board.write(turn * 5 + n)
        assert [f.sequence for f in board.ring.read()] == [turn * 5 + n for n in range(5)]
        assert board.tails[-1] == board.head == board.ring.tail
    assert board.ring.published() == (board.head, 0xB007)


def test_an_empty_ring_gives_no_frames_and_writes_no_tail():
    board = Capture()
    assert len(board.ring.read()) == 0 and board.tails == []


def test_a_full_ring_is_read_whole():
    board = Capture()
    for n in range(SLOTS):
        board.write(n)
    assert len(board.ring.read()) == SLOTS


def test_a_limit_leaves_the_rest_in_the_ring():
    board = Capture()
    for n in range(6):
        board.write(n)
    assert [f.sequence for f in board.ring.read(limit=4)] == [0, 1, 2, 3]
    assert board.tails == [4]
    assert [f.sequence for f in board.ring.read()] == [4, 5]


def test_a_corrupted_slot_is_counted_and_freed():
    board = Capture()
    for n in range(3):
        board.write(n)
    board.memory[256 + 80] ^= 1
    frames = board.ring.read()
    assert [f.sequence for f in frames] == [0, 2] and frames.bad == 1 and board.tails == [3]


def test_an_impossible_head_is_an_error_and_frees_nothing():
    board = Capture()
    with pytest.raises(BoardError, match="Open it again"):
        board.ring.read(head=SLOTS + 1)
    assert board.tails == []


def test_memory_too_small_is_refused():
    with pytest.raises(ValueError):
        CaptureRing(bytearray(SLOTS * 256), SLOTS, print)
    with pytest.raises(ValueError):
        PlaybackRing(bytearray(SLOTS * 256 - 1), SLOTS, int, print)


class Playback:
    def __init__(self, start=0):
        self.memory = bytearray(PlaybackRing.bytes_for(SLOTS))
        self.tail = start
        self.heads = []
        self.ring = PlaybackRing(self.memory, SLOTS, lambda: self.tail, self.heads.append, head=start)

    def slot(self, count):
        at = count % SLOTS * 256
        return struct.unpack_from("<IIBBHI", self.memory, at), self.memory[at + 16 : at + 256]


@pytest.mark.parametrize("rate, code", [(16_000, 0), (24_000, 1)])
def test_a_slot_holds_what_the_board_expects(rate, code):
    board = Playback()
    pcm = np.arange(-60, 60, dtype=np.int16)
    board.ring.put(9, 240, rate, pcm, first=True)
    board.ring.put(9, 360, rate, pcm[:7], last=True)
    header, payload = board.slot(0)
    assert header == (9, 240, code, 1, 120, 0)
    assert struct.unpack("<120h", payload) == tuple(range(-60, 60))
    header, payload = board.slot(1)
    assert header == (9, 360, code, 2, 7, 0)
    assert struct.unpack_from("<7h", payload) == tuple(range(-60, -53))


@pytest.mark.parametrize("start", [0, 2**32 - 2])
def test_the_board_sees_slots_only_when_they_are_published(start):
    board = Playback(start)
    for _ in range(3):
        board.ring.put(1, 0, 16_000, np.zeros(120, np.int16))
    assert board.heads == []
    board.ring.publish()
    assert board.heads == [(start + 3) % 2**32]


def test_free_slots_follow_the_boards_tail():
    board = Playback(2**32 - 4)
    assert board.ring.free() == SLOTS
    for _ in range(SLOTS):
        board.ring.put(1, 0, 16_000, np.zeros(1, np.int16))
    assert board.ring.free() == 0
    board.tail = (board.tail + 5) % 2**32
    assert board.ring.free() == 5


def test_a_tail_ahead_of_the_head_is_an_error():
    board = Playback()
    board.tail = 1
    with pytest.raises(BoardError, match="Open it again"):
        board.ring.free()


@pytest.mark.parametrize("count", [0, 121])
def test_a_slot_takes_one_to_120_samples(count):
    with pytest.raises(ValueError):
        Playback().ring.put(1, 0, 16_000, np.zeros(count, np.int16))


def test_a_last_slot_may_be_empty():
    board = Playback()
    board.ring.put(1, 480, 24_000, np.zeros(0, np.int16), last=True)
    header, _ = board.slot(0)
    assert header == (1, 480, 1, 2, 0, 0)
