import numpy as np
import pytest

from voxpath.speech.speak import Joiner, LeadTrimmer, audible_from

RATE = 24_000


def tone(seconds, level=8000):
    return (level * np.sin(2 * np.pi * 300 / RATE * np.arange(round(seconds * RATE)))).astype(np.int16)


def silence(seconds):
    return np.zeros(round(seconds * RATE), np.int16)


def joined(*phrases):
    """Each phrase is (text, its chunks)."""
    joiner, sound = Joiner(RATE), []
    for text, chunks in phrases:
        sound += [joiner(chunk) for chunk in chunks]
        sound.append(joiner.end(text))
    return np.concatenate(sound)


def gaps(pcm):
    """Lengths in seconds of the stretches of 10 ms and more without sound inside."""
    loud = np.flatnonzero(np.abs(pcm) > 50)
    steps = np.diff(loud)
    return [step / RATE for step in steps if step > RATE // 100]


@pytest.mark.parametrize(("mark", "pause_s"), [(",", 0.15), (".", 0.30), ("", 0.03), ('."', 0.30)])
def test_between_phrases_is_the_pause_of_a_reader_whatever_silence_the_voice_leaves(mark, pause_s):
    phrase = [silence(0.3), tone(0.5), silence(0.4)]
    pcm = joined(("one two" + mark, phrase), ("three.", phrase))
    (gap,) = gaps(pcm)
    assert pause_s <= gap <= pause_s + 0.03
    assert len(pcm) / RATE == pytest.approx(1.0 + pause_s, abs=0.05)


def test_a_pause_inside_a_phrase_stays():
    pcm = joined(("well, yes", [tone(0.3), silence(0.2), tone(0.3)]))
    assert gaps(pcm) == pytest.approx([0.2], abs=0.005)


def test_a_reply_begins_with_its_first_sound():
    pcm = joined(("yes", [silence(0.25), np.concatenate([silence(0.1), tone(0.5)])]))
    assert np.abs(pcm[: RATE // 100]).max() > 100


def test_no_phrase_begins_or_ends_with_a_jump():
    loud = np.full(RATE // 2, 8000, np.int16)  # the worst that can be cut into
    pcm = joined(("one,", [loud, silence(0.4)]), ("two", [loud]))
    edges = np.flatnonzero(np.abs(np.diff(pcm.astype(int))) > 400)
    assert pcm[0] < 200
    # The end of sound that the voice itself breaks off is the voice's; the beginnings rise.
    starts = [edge for edge in edges if abs(int(pcm[edge])) < abs(int(pcm[edge + 1]))]
    assert starts == []


def test_levels_are_left_as_they_are():
    pcm = joined(("one,", [tone(0.5, 8000)]), ("two", [tone(0.5, 2000)]))
    assert np.abs(pcm[: RATE // 2]).max() == pytest.approx(8000, abs=10)
    assert np.abs(pcm[-RATE // 4 :]).max() == pytest.approx(2000, abs=10)


def test_a_phrase_without_sound_adds_none():
    assert len(joined(("one", [silence(0.5)]))) == 0


def test_lead_silence_is_taken_off_once_and_no_more():
    trim = LeadTrimmer(RATE)
    assert len(trim(silence(0.2))) == 0
    assert len(trim(np.concatenate([silence(0.1), tone(0.2)]))) == len(tone(0.2))
    assert len(trim(silence(0.2))) == len(silence(0.2))


def test_sound_is_audible_from_its_first_ten_milliseconds_within_38_db_of_the_loudest():
    quiet, loud = tone(0.1, 60), tone(0.1, 8000)  # 42 dB apart
    assert audible_from(np.concatenate([quiet, loud]), RATE) == len(quiet)
    assert audible_from(np.concatenate([tone(0.1, 200), loud]), RATE) == 0  # 32 dB
    assert audible_from(silence(0.2), RATE) is None
