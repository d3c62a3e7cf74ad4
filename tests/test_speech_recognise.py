import numpy as np
import pytest

from voxpath.speech.recognise import Recognition, stable, words


@pytest.mark.parametrize(
    ("earlier", "later", "stays"),
    [
        ("tell me a", "tell me a joke", "tell me a"),
        ("Tell me.", "tell me a joke", "tell me"),  # marks and capitals come and go
        ("tell me a jo", "tell me a joke", "tell me a"),  # a word cut in its middle
        ("tell me a joke", "tell me a joke", "tell me a"),  # the last word may yet go on
        ("tell him", "tell me a joke", "tell"),
        ("", "tell me", ""),
        ("tell me", "", ""),
        ("tell me a joke please", "tell me", "tell"),
    ],
)
def test_the_words_that_stay_are_those_that_two_runs_agree_on_and_more_words_follow(earlier, later, stays):
    assert stable(earlier, later) == stays


@pytest.mark.parametrize("text", ["[BLANK_AUDIO]", " (music) ", "*coughs*", "...", "<|nospeech|>", ""])
def test_asides_are_no_words(text):
    assert words(text) == ""


def run(text=None, **options):
    recognition = Recognition(np.zeros(10, np.int16), 0, **options)
    recognition.text = text
    return recognition


def test_a_run_takes_over_what_the_one_before_found():
    earlier, later = run("tell me"), run()
    earlier.tokens = (1, 2)
    later.follow(earlier)
    assert later.guess == (1, 2) and later.earlier == "tell me"


def test_a_run_after_one_that_found_nothing_takes_over_what_that_had_from_before():
    first, cancelled, third = run("tell me"), run(), run()
    first.tokens = (1, 2)
    cancelled.follow(first)
    third.follow(cancelled)
    assert third.guess == (1, 2) and third.earlier == "tell me"


def test_the_pieces_cut_off_before_are_part_of_what_was_said():
    assert run("and two", before=(run("one"), run(""))).said() == "one and two"
    assert run("and two", before=(run("one"),)).said("and") == "one and"
    assert run("and two").said() == "and two"
