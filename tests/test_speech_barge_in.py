"""When a reply is lowered, brought back, or given up."""

import numpy as np
import pytest

from voxpath.speech.barge_in import BargeIn, bright

MS = 4.0


def actions(*parts, machine=None):
    """{ms at the end of a frame: action} for parts (ms, user) or (ms, user, bright)."""
    machine = machine or BargeIn()
    done, at = {}, 0.0
    for ms, *said in parts:
        for _ in range(round(ms / MS)):
            at += MS
            action = machine.hear(said[0], MS, *said[1:])
            if action:
                done[at] = action
    return done


def test_the_reply_is_lowered_at_the_second_user_frame_in_a_row():
    assert actions((40, False), (4, True), (4, False), (4, True), (4, False), (8, True)) == {64: "duck"}


def test_speech_that_lasts_ends_the_reply_once():
    assert actions((20, False), (1000, True)) == {28: "duck", 20 + 276: "flush"}


def test_gaps_of_a_stop_consonant_do_not_begin_anew():
    assert actions((120, True), (60, False), (200, True)) == {8: "duck", 276: "flush"}


def test_clicks_in_a_row_are_no_speech():
    assert "flush" not in actions(*[(16, True), (40, False)] * 20).values()


def test_a_cough_of_a_quarter_of_a_second_does_not_end_a_reply():
    assert "flush" not in actions((272, True), (400, False)).values()


def test_a_longer_gap_begins_anew():
    assert actions((200, True), (64, False), (200, True)) == {8: "duck"}


def test_a_reply_is_brought_back_after_200_ms_of_silence_and_can_be_lowered_again():
    assert actions((152, True), (400, False), (20, True)) == {8: "duck", 152 + 200: "restore", 560: "duck"}


def test_three_coughs_do_not_end_a_reply():
    assert "flush" not in actions(*[(200, True), (120, False)] * 3, (300, False)).values()


def test_a_hum_must_last_longer_than_words():
    assert "flush" not in actions((400, True, False), (300, False)).values()
    assert actions((600, True, False)) == {8: "duck", 420: "flush"}
    assert actions((100, True, False), (500, True, True)) == {8: "duck", 276: "flush"}


def test_a_click_in_a_hum_does_not_make_words_of_it():
    assert "flush" not in actions((200, True, False), (20, True, True), (160, True, False), (300, False)).values()


@pytest.mark.parametrize("after", [100, 600])
def test_how_long_speech_must_last_can_be_chosen(after):
    assert actions((1000, True), machine=BargeIn(flush_after_ms=after)) == {8: "duck", after: "flush"}


def test_frames_may_have_any_length():
    machine = BargeIn()
    assert [machine.hear(True, 50) for _ in range(7)] == [None, "duck", None, None, None, "flush", None]


def test_a_hum_is_not_bright_and_an_open_vowel_or_a_hiss_is():
    at = np.arange(64) / 16_000
    hum = 3000 * np.sin(2 * np.pi * 140 * at) + 1500 * np.sin(2 * np.pi * 280 * at)
    vowel = hum + 1500 * np.sin(2 * np.pi * 980 * at)
    hiss = np.random.default_rng(0).normal(0, 1000, 64)
    assert [bright(np.rint(sound).astype(np.int16)) for sound in (hum, vowel, hiss)] == [False, True, True]


def test_a_short_frame_can_be_judged():
    assert bright(np.random.default_rng(0).normal(0, 1000, 20).astype(np.int16))
