import threading
import time

import numpy as np
import pytest

from voxpath.engines.cancel import Cancelled
from voxpath.speech.draft import Draft


def samples(count):
    return np.ones(count, np.int16)


@pytest.mark.parametrize(
    ("heard", "words"),
    [
        (0, ""),
        (100, ""),
        (500, "One two"),  # letters of "One two three," tell where in it 500 of 900 samples are
        (900, "One two three,"),
        (1000, "One two three,"),
        (1900, "One two three, four five six."),
        (5000, "One two three, four five six."),
    ],
)
def test_the_words_heard_are_those_whose_sound_was_played(heard, words):
    draft = Draft("count")
    draft.sounds(samples(400), "One two three,", first=True)
    draft.sounds(samples(500), "One two three,", last=True)
    draft.sounds(samples(1000), "four five six.", first=True, last=True)
    assert draft.heard(heard) == words


def test_a_draft_waits_until_it_is_wanted():
    draft = Draft("what")
    threading.Timer(0.05, draft.go.set).start()
    begun = time.monotonic()
    draft.wait()
    assert time.monotonic() - begun >= 0.04


def test_a_draft_that_waits_is_called_off_at_once():
    draft = Draft("what")
    threading.Timer(0.02, draft.cancel.set).start()
    with pytest.raises(Cancelled):
        draft.wait()


def test_what_made_a_draft_fail_is_raised_after_what_was_made():
    draft = Draft("what")
    draft.sounds(samples(5), "Well,", first=True)
    draft.error = RuntimeError("out of memory")
    draft.sound.put(None)
    assert len(draft.next(draft.sound).pcm) == 5
    with pytest.raises(RuntimeError, match="out of memory"):
        draft.next(draft.sound)


def test_whoever_waits_for_the_next_piece_is_called_off_too():
    draft = Draft("what")
    threading.Timer(0.02, draft.cancel.set).start()
    with pytest.raises(Cancelled):
        draft.next(draft.sound)
