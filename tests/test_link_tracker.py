"""The arithmetic of losses: captured = received + ring_lost + link_lost, whatever order frames come in."""

import random

import pytest

from voxpath.link.frame import build, parse
from voxpath.link.tracker import SequenceTracker, missing_samples


def made(sequence, lost=0, at=0, samples=64):
    """A frame whose first sample is sample `at` of the stream's time."""
    pcm = [0] * samples
    return next(iter(parse(build(pcm, sequence=sequence % 2**32, lost=lost, capture_ns=62_500 * at))))


def counts(tracker):
    return tracker.received, tracker.ring_lost, tracker.link_lost, tracker.reordered, tracker.duplicated


def follow(frames):
    tracker = SequenceTracker()
    accepted = [tracker.accept(frame) for frame in frames]
    return tracker, accepted


def test_an_unbroken_stream_loses_nothing():
    tracker, accepted = follow(made(n) for n in range(100, 200))
    assert counts(tracker) == (100, 0, 0, 0, 0) and all(accepted) and tracker.captured == 100


def test_what_the_board_reports_as_dropped_is_the_rings_loss_and_the_rest_the_links():
    tracker, _ = follow([made(10), made(16, lost=3)])  # 11..15 are missing, 13..15 by the ring
    assert counts(tracker) == (2, 3, 2, 0, 0)
    assert tracker.captured == 7


def test_drops_before_the_first_frame_seen_are_not_counted():
    tracker, _ = follow([made(500, lost=500), made(501)])
    assert counts(tracker) == (2, 0, 0, 0, 0)


def test_numbers_wrap_at_two_to_the_thirty_second():
    tracker, accepted = follow(made(2**32 - 3 + n) for n in (0, 1, 2, 3, 5))
    assert counts(tracker) == (5, 0, 1, 0, 0) and all(accepted)


def test_a_repeat_is_counted_and_refused():
    tracker, accepted = follow([made(1), made(2), made(2), made(1), made(3)])
    assert accepted == [True, True, False, False, True]
    assert counts(tracker) == (3, 0, 0, 0, 2)


def test_a_late_frame_is_taken_off_the_losses():
    tracker, accepted = follow([made(1), made(3), made(2), made(4)])
    assert all(accepted)
    assert counts(tracker) == (4, 0, 0, 1, 0)


def test_a_late_frame_brings_its_own_report_of_drops():
    tracker, _ = follow([made(1), made(5), made(4, lost=2)])  # 2 and 3 were the ring's
    assert counts(tracker) == (3, 2, 0, 1, 0)
    assert tracker.captured == 5


def test_a_late_frame_comes_late_only_once():
    tracker, accepted = follow([made(1), made(3), made(2), made(2)])
    assert accepted == [True, True, True, False]
    assert counts(tracker) == (3, 0, 0, 1, 1)


def test_reordering_across_the_wrap():
    tracker, accepted = follow([made(2**32 - 2), made(0), made(2**32 - 1), made(1)])
    assert all(accepted) and counts(tracker) == (4, 0, 0, 1, 0)


def test_a_saturated_count_of_drops_covers_the_whole_gap():
    tracker, _ = follow([made(0), made(100_001, lost=0xFFFF)])
    assert counts(tracker) == (2, 100_000, 0, 0, 0)


def test_a_huge_jump_is_counted_without_a_list_of_every_number():
    tracker, _ = follow([made(0), made(2**31 - 1)])
    assert tracker.link_lost == 2**31 - 2


def test_a_corrupted_frame_is_a_loss_of_the_link():
    tracker = SequenceTracker()
    tracker.accept(made(1))
    tracker.corrupted(1)
    tracker.accept(made(3))
    assert tracker.crc_errors == 1 and tracker.link_lost == 1 and tracker.captured == 3


def test_after_a_restart_lower_numbers_are_new_frames():
    tracker, _ = follow([made(1000)])
    tracker.restart()
    assert tracker.accept(made(0)) and tracker.duplicated == 0


@pytest.mark.parametrize("seed", range(20))
def test_a_random_channel_balances(seed):
    """Drop in the ring, lose, repeat and reorder (by less than 5) on the link: every count must come out exact."""
    rng = random.Random(seed)
    start = rng.choice([0, 2**32 - 100, 2**31 - 50])
    sent, dropped, ring_lost = [], 0, 0
    for n in range(300):
        if n and rng.random() < 0.1 and n < 299:
            dropped += 1
            continue
        sent.append((n, dropped))
        ring_lost += dropped
        dropped = 0
    kept = [sent[0]] + [s for s in sent[1:-1] if rng.random() > 0.1] + [sent[-1]]
    # A loss hides the drops that the lost frame would have reported: those count as the link's.
    numbers = {n for n, _ in kept}
    reported = sum(lost for n, lost in kept)
    arrivals = [kept[0]] + sorted(kept[1:-1], key=lambda s: s[0] + rng.uniform(0, 5)) + [kept[-1]]
    repeats = rng.sample(arrivals, 10)
    tracker, _ = follow(made(start + n, lost) for n, lost in arrivals + repeats)
    assert tracker.received == len(numbers)
    assert tracker.duplicated == 10
    assert tracker.ring_lost == reported
    assert tracker.captured == 300


# ---- gated streams -------------------------------------------------------------------------------------------------


def gated_stream(rng, first_sequence, utterances):
    """Frames as a gated board makes them."""
    frames, at, sequence = [], 1000, first_sequence
    for _ in range(utterances):
        for _ in range(rng.randrange(4)):  # keep-alive frames
            at += 4096
            frames.append(made(sequence, at=at - 160, samples=0))
            sequence += 1
        at += rng.randrange(4000)
        samples = rng.randrange(1, 3000)
        for first in range(0, samples, 64):
            frames.append(made(sequence, at=at + first, samples=min(64, samples - first)))
            sequence += 1
        at += samples
    return frames


@pytest.mark.parametrize("seed", range(5))
def test_a_gated_streams_jumps_of_time_are_silence_and_no_loss(seed):
    frames = gated_stream(random.Random(seed), 2**32 - 20, 12)
    tracker, accepted = follow(frames)
    assert all(accepted) and counts(tracker) == (len(frames), 0, 0, 0, 0)
    assert [missing_samples(a, b) for a, b in zip(frames, frames[1:], strict=False)] == [0] * (len(frames) - 1)


@pytest.mark.parametrize("seed", range(10))
def test_a_gated_streams_losses_balance_and_conceal_no_more_than_time_has_room_for(seed):
    rng = random.Random(seed)
    frames = gated_stream(rng, 2**32 - 20, 12)
    kept = [frames[0]] + [frame for frame in frames[1:-1] if rng.random() > 0.1] + [frames[-1]]
    tracker, _ = follow(kept)
    assert tracker.link_lost == len(frames) - len(kept) and tracker.captured == len(frames)
    position = {frame.sequence: index for index, frame in enumerate(frames)}
    for before, after in zip(kept, kept[1:], strict=False):
        lost = frames[position[before.sequence] + 1 : position[after.sequence]]
        missing = missing_samples(before, after)
        assert sum(frame.samples for frame in lost) <= missing <= 64 * len(lost)
        assert before.end_ns + missing * 62_500 <= after.capture_ns


def test_a_lost_frame_within_speech_is_as_long_as_the_time_that_is_missing():
    assert missing_samples(made(1, at=0), made(3, at=128)) == 64
    assert missing_samples(made(1, at=0), made(3, at=64 + 20)) == 20  # the one before an offset was short


def test_a_lost_keep_alive_frame_is_not_taken_for_a_long_silence_in_speech():
    assert missing_samples(made(1, at=0), made(3, at=9000)) == 64
    assert missing_samples(made(1, at=0, samples=0), made(3, at=4096, samples=0)) == 64


def test_a_late_frame_or_a_step_of_the_clock_conceals_nothing():
    assert missing_samples(made(3, at=128), made(2, at=64)) == 0
    assert missing_samples(made(3, at=5000), made(5, at=20)) == 0
