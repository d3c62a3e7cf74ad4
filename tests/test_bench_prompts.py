import shutil
import subprocess
import sys
import time
from pathlib import Path

import numpy as np
import pytest

sys.path.append(str(Path(__file__).parent / "bench"))

import background
import prompts

from doubles import FakeReply
from voxpath import sources
from voxpath.errors import VoxpathError
from voxpath.sources import BOARD_RATE, room_tone


def clip(*lengths_ms, text="what is the time now", quiet=3):
    """Speech and silence in turns, in ms, speech first; tenth of a second of quiet around them."""
    rng = np.random.default_rng(1)
    pieces = [rng.integers(-quiet, quiet + 1, 4800)]
    for index, ms in enumerate(lengths_ms):
        pieces.append(rng.integers(*((-3000, 3001) if index % 2 == 0 else (-quiet, quiet + 1)), ms * 48))
    pieces.append(rng.integers(-quiet, quiet + 1, 4800))
    return sources.labelled(np.concatenate(pieces).astype(np.int16), text, "synthetic")


def inner_ms(one):
    return [round(1000 * (end - start)) for start, end in prompts.silences(one, 0.0)]


@pytest.fixture
def material(monkeypatch):
    """Ten clips without a pause and four with one, instead of what is fetched."""
    pauseless = [clip(1000 + 10 * index) for index in range(10)]
    pausing = [clip(1000, 200 + 20 * index, 800) for index in range(4)]
    monkeypatch.setattr(prompts, "_sorted", lambda: (pauseless, pausing, ["Something is missing."]))
    return pauseless, pausing


@pytest.mark.parametrize(
    ("lengths", "name"),
    [
        ((1000,), "A"),
        ((600, 150, 600), "A"),
        ((600, 160, 600), "B"),
        ((600, 600, 600), "B"),
        ((600, 610, 600), None),
        ((600, 400, 600, 160, 300), None),
        ((600, 400, 600, 150, 300), "B"),
        ((790,), None),
        ((8000,), "A"),
        ((8010,), None),
    ],
)
def test_a_clip_belongs_to_a_set_by_its_length_and_its_silences(lengths, name):
    assert prompts.which_set(clip(*lengths)) == name


def test_an_utterance_has_three_words_at_least():
    assert prompts.which_set(clip(1000, text="Please try again.")) == "A"
    assert prompts.which_set(clip(1000, text="Thank you.")) is None


def test_silence_before_and_after_the_speech_is_no_pause():
    assert inner_ms(clip(600, 200, 600)) == [200]


@pytest.mark.parametrize("silence_ms", [160, 200, 250, 290])
def test_a_shorter_silence_becomes_a_pause_of_300_to_600_ms_and_nothing_else_changes(silence_ms):
    before = clip(700, silence_ms, 500, 150, 300)
    for seed in range(20):
        after = prompts.with_pause(before, np.random.default_rng(seed))
        pause, other = inner_ms(after)
        assert 300 <= pause <= 600 and other == 150
        more = len(after.pcm) - len(before.pcm)
        assert more == 48 * (pause - silence_ms)
        assert after.labels[0].end_s == pytest.approx(before.labels[0].end_s + more / BOARD_RATE)
        assert np.array_equal(after.pcm[: 48 * 800], before.pcm[: 48 * 800])
        assert np.array_equal(after.pcm[-48 * 1050 :], before.pcm[-48 * 1050 :])


def test_what_lengthens_a_silence_is_its_own_quiet_without_a_jump():
    before = clip(700, 200, 500)
    slope = np.linspace(20, -20, 48 * 200).astype(np.int16)  # of the silence: a jump would stand out
    before.pcm[48 * 800 : 48 * 1000] = slope
    after = prompts.with_pause(before, np.random.default_rng(0)).pcm
    inside = after[48 * 800 : len(after) - 48 * 600].astype(int)
    assert np.abs(np.diff(inside)).max() <= 1
    assert set(inside) <= set(slope)


def test_a_pause_that_is_long_enough_stays_as_it_was_said():
    before = clip(700, 300, 500)
    assert prompts.with_pause(before, np.random.default_rng(0)) is before


def test_every_third_turn_has_a_pause_and_all_clips_come_before_one_comes_again(material):
    turns = prompts.turns(30, seed=4, missing=lambda sentence: None)
    assert [name for name, _ in turns] == ["B", "A", "A"] * 10
    for name, one in turns:
        pauses = [ms for ms in inner_ms(one) if ms > 150]
        assert pauses == [] if name == "A" else len(pauses) == 1 and 300 <= pauses[0] <= 600
    seconds = [one.seconds for name, one in turns if name == "A"]
    assert len(set(seconds[:10])) == 10 and sorted(seconds[:10]) == sorted(seconds[10:])


def test_the_same_seed_gives_the_same_turns_and_another_one_others(material):
    def sound(seed):
        return [one.pcm.tobytes() for _, one in prompts.turns(12, seed, missing=lambda sentence: None)]

    assert sound(1) == sound(1) != sound(2)


def test_what_is_missing_is_said_and_the_rest_is_used(material):
    said = []
    assert len(prompts.turns(3, missing=said.append)) == 3
    assert said == ["Something is missing."]


def test_without_any_recordings_one_sentence_says_so(monkeypatch):
    monkeypatch.setattr(prompts, "_sorted", lambda: ([], [], []))
    with pytest.raises(VoxpathError, match="no recordings"):
        prompts.turns(3)


def test_without_apt_or_without_a_network_a_sentence_says_what_is_left_out(monkeypatch, tmp_path):
    monkeypatch.setattr(shutil, "which", lambda command: None)
    with pytest.raises(VoxpathError, match=r"there is no apt-get\.$"):
        prompts._fetch(tmp_path)

    def fail(command, **options):
        raise subprocess.CalledProcessError(100, command, stderr="W: odd\nE: Unable to locate package x.\n")

    monkeypatch.setattr(shutil, "which", lambda command: command)
    monkeypatch.setattr(subprocess, "run", fail)
    with pytest.raises(VoxpathError, match="said: Unable to locate package x; `sudo apt-get update`"):
        prompts._fetch(tmp_path)


def test_level_is_that_of_the_active_speech():
    one = prompts._at_level(clip(500, 400, 500))
    active = one.pcm[48 * 110 : 48 * 590].astype(float)
    assert 20 * np.log10(np.sqrt((active**2).mean()) / 32768) == pytest.approx(-26.0, abs=0.2)


def test_digits_and_their_words_are_the_same_words():
    assert prompts.words("Press 7 to re-record, then 10.") == ["press", "seven", "to", "re", "record", "then", "10"]


def test_a_pause_lies_between_sentences_where_the_text_has_two():
    assert prompts.between_sentences(clip(1000, text="That is wrong. Please try again."))
    assert not prompts.between_sentences(clip(1000, text="I'm sorry, that number is not valid."))


# ---- the room --------------------------------------------------------------------------------------------------------


class Microphone:
    """A board at a standstill which notes what its microphone is given."""

    def __init__(self):
        self.heard = np.zeros(0, np.int16)
        self.ns = 0

    def play_source(self, pcm):
        start_ns = round(len(self.heard) * 1e9 / BOARD_RATE)
        self.heard = np.concatenate([self.heard, pcm])
        return start_ns

    def time(self):
        return self.ns, 0, True

    def close(self):
        pass


def test_the_room_is_heard_between_clips_too_and_noise_goes_on_under_them():
    noise = np.random.default_rng(3).uniform(-1000, 1000, 7001)  # no piece that is played has its length
    board = Microphone()
    room = background.Room(board, noise)
    said = (8 * np.ones(9_600)).astype(np.int16)
    start_ns = room.play_source(said)
    board.ns = round(1e9)
    for _ in range(1000):  # the room's thread tops up to AHEAD_S
        if len(board.heard) >= 1.25 * BOARD_RATE:
            break
        time.sleep(0.01)
    room.close()
    start = round(start_ns * BOARD_RATE / 1e9)
    expected = np.take(noise, np.arange(len(board.heard)), mode="wrap")
    left = board.heard - expected
    assert np.allclose(left[start : start + len(said)], 8, atol=0.51)
    rest = np.concatenate([left[:start], left[start + len(said) :]])
    level = 20 * np.log10(np.sqrt((rest**2).mean()) / 32768)
    assert level == pytest.approx(sources.ROOM_TONE_DBFS, abs=0.5)


def test_the_room_without_noise_adds_nothing_to_a_clip():
    board = Microphone()
    room = background.Room(board)
    said = np.rint(32768 * room_tone(4800)).astype(np.int16)
    start = round(room.play_source(said) * BOARD_RATE / 1e9)
    room.close()
    assert np.array_equal(board.heard[start : start + 4800], said)


def test_a_short_reply_is_finished_with_its_last_sample_and_counts_as_heard_whole():
    inner = FakeReply(Microphone(), 24_000)
    reply = background.ShortReply(inner, 1000)
    for _ in range(3):
        reply.write(np.ones(600, np.int16))
    assert [len(pcm) for pcm in inner.written] == [600, 400] and inner.finished
    inner.heard = 700
    assert reply.played() == 700  # not over yet: a reply that is stopped here was heard so far
    inner.heard, inner.times["last"] = 1000, 1
    assert reply.played() == 1800


def test_a_reply_that_is_short_anyway_is_left_alone():
    inner = FakeReply(Microphone(), 24_000)
    reply = background.ShortReply(inner, 1000)
    reply.write(np.ones(600, np.int16))
    assert not inner.finished
    reply.finish()
    inner.heard, inner.times["last"] = 600, 1
    assert inner.finished and reply.played() == 600
