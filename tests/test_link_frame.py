"""Frames against bytes packed by hand, and against whatever a hostile sender may put on the wire."""

import random
import struct
import zlib

import numpy as np
import pytest

from voxpath.link import frame


def packed(sequence=7, ns=123_456_789_012, samples=64, flags=0x43, lost=2, version=1, magic=b"VX", pcm=None):
    """The frame of ARCHITECTURE.md by struct and zlib alone."""
    pcm = list(range(-32, 32)) if pcm is None else pcm
    payload = struct.pack("<64h", *pcm)
    head = magic + struct.pack("<BBIQHHHBBHBB", version, flags, sequence, ns, lost, 9000, 4000, 21, 200, samples, 3, 0)
    return head + struct.pack("<I", zlib.crc32(head, zlib.crc32(payload))) + payload


def test_a_frame_packed_by_hand_reads_back_field_by_field():
    (got,) = frame.parse(packed())
    assert (got.sequence, got.capture_ns, got.flags, got.lost) == (7, 123_456_789_012, 0x43, 2)
    assert (got.energy, got.floor, got.zero_crossings, got.score) == (9000, 4000, 21, 200)
    assert (got.samples, got.stage_mask, got.stream) == (64, 3, 0)
    assert got.pcm.dtype == np.int16 and got.pcm.tolist() == list(range(-32, 32))
    assert got.end_ns == 123_456_789_012 + 4_000_000


@pytest.mark.parametrize(
    "bit, name",
    list(enumerate(["speech", "onset", "offset", "dropped", "clipped", "time_locked", "playback", "test_pattern"])),
)
def test_each_flag_has_its_own_bit(bit, name):
    (got,) = frame.parse(packed(flags=1 << bit))
    names = ["speech", "onset", "offset", "dropped", "clipped", "time_locked", "playback", "test_pattern"]
    assert [n for n in names if getattr(got, n)] == [name]


def test_build_makes_the_same_bytes_as_packing_by_hand():
    built = frame.build(
        np.arange(-32, 32),
        sequence=7,
        capture_ns=123_456_789_012,
        flags=0x43,
        lost=2,
        energy=9000,
        floor=4000,
        zero_crossings=21,
        score=200,
        stage_mask=3,
    )
    assert built == packed()


def test_a_short_frame_gives_only_its_own_samples():
    (got,) = frame.parse(packed(samples=10))
    assert got.pcm.tolist() == list(range(-32, -22))
    assert got.end_ns - got.capture_ns == 10 * 62_500


def test_a_keep_alive_frame_has_no_sample_and_takes_no_time():
    (got,) = frame.parse(packed(samples=0, flags=0, pcm=[0] * 64))
    assert got.keep_alive and got.pcm.tolist() == [] and got.end_ns == got.capture_ns
    assert not next(iter(frame.parse(packed(samples=1)))).keep_alive


@pytest.mark.parametrize("samples", range(65))
def test_build_fills_a_short_frame_up_with_silence(samples):
    pcm = list(range(1, samples + 1))
    built = frame.build(pcm, sequence=7, capture_ns=5, flags=0x04)
    assert built[32:] == struct.pack("<64h", *pcm, *[0] * (64 - samples))
    (got,) = frame.parse(built)
    assert (got.samples, got.pcm.tolist(), got.offset) == (samples, pcm, True)


def test_many_frames_keep_their_order_and_own_their_data():
    buffer = bytearray(b"".join(packed(sequence=n) for n in range(50)))
    frames = list(frame.parse(buffer))
    buffer[:] = bytes(len(buffer))
    assert [f.sequence for f in frames] == list(range(50))
    assert all(f.pcm.tolist() == list(range(-32, 32)) for f in frames)


def test_frames_in_slots_are_found_and_what_lies_between_is_ignored():
    slots = b"".join(packed(sequence=n) + b"\xee" * 96 for n in range(5))
    assert [f.sequence for f in frame.parse(slots, 256)] == list(range(5))
    # the last slot's padding need not be there
    assert [f.sequence for f in frame.parse(slots[:-96], 256)] == list(range(5))


def test_every_single_flipped_bit_is_noticed():
    good = packed()
    for bit in range(8 * len(good)):
        bad = bytearray(good)
        bad[bit // 8] ^= 1 << bit % 8
        frames = frame.parse(bytes(bad))
        assert len(frames) == 0 and frames.bad == 1, f"bit {bit}"


def test_a_bad_frame_does_not_take_its_neighbours_along():
    bad = bytearray(packed(sequence=1))
    bad[100] ^= 0x10
    frames = frame.parse(packed(sequence=0) + bytes(bad) + packed(sequence=2))
    assert [f.sequence for f in frames] == [0, 2]
    assert frames.bad == 1


@pytest.mark.parametrize("change", [{"version": 2}, {"magic": b"XV"}, {"samples": 65}, {"samples": 0xFFFF}])
def test_a_foreign_header_is_refused_even_with_a_right_crc(change):
    frames = frame.parse(packed(**change))
    assert len(frames) == 0 and frames.bad == 1


@pytest.mark.parametrize("length", [0, 1, 31, 32, 159])
def test_a_truncated_end_counts_as_one_bad_frame(length):
    frames = frame.parse(packed() + packed()[:length])
    assert len(frames) == 1
    assert frames.bad == (length > 0)


def test_garbage_of_any_length_raises_nothing_and_yields_nothing():
    rng = random.Random(3)
    for _ in range(300):
        frames = frame.parse(rng.randbytes(rng.randrange(700)))
        assert len(frames) == 0 and list(frames) == []
    assert frame.parse(b"").bad == 0
