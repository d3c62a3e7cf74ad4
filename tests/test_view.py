import io
import re
import time
from types import SimpleNamespace

import pytest
from rich.console import Console

from voxpath.timing.records import Record
from voxpath.view import View, level_db, meter


def test_the_level_of_a_full_scale_square_wave_is_0_dbfs_and_silence_is_the_bottom():
    # 64 samples of 32768^2 are 2^36; Q6.10.
    assert level_db(36 * 1024) == 0
    assert level_db(0) == -72
    assert level_db(26 * 1024) == pytest.approx(-30.1, abs=0.01)


def test_the_meter_is_full_at_0_dbfs_and_always_as_wide():
    assert meter(0.0, 10) == "\u2588" * 10 and meter(-72.0, 10) == "\u00b7" * 10
    assert meter(5.0, 10) == "\u2588" * 10 and len(meter(-40.0, 10)) == 10


def frame(energy=20 * 1024, playback=False):
    return SimpleNamespace(energy=energy, playback=playback)


def test_without_a_terminal_a_turn_becomes_plain_lines_as_it_goes():
    console = Console(file=io.StringIO(), force_terminal=False, width=80)
    with View(console) as view:
        view.level(frame(), "listening")
        view.heard(SimpleNamespace(transcript="What is it?"))
        view.speaking(None)
        deadline = time.monotonic() + 5
        while "speaking" not in console.file.getvalue():
            assert time.monotonic() < deadline, "what is heard is not shown before the turn is over"
            time.sleep(0.01)
        view.finished(Record(0, "answered", transcript="What is it?", reply="A [dog].", response_ms=432.1))
        view.failed(None, "Turn 1 ended: out of memory.")
    text = console.file.getvalue()
    assert text.splitlines() == [
        "heard   What is it?",
        "        speaking ...",
        "reply   A [dog].",
        "        the reply was heard 432 ms after the end of speech",
        "Turn 1 ended: out of memory.",
    ]


def test_a_cut_in_is_called_one_and_long_lines_break_between_words_on_a_terminal():
    console = Console(file=io.StringIO(), force_terminal=True, width=40, color_system=None)
    with View(console) as view:
        reply = "The capital of the United States is New York City."
        view.finished(Record(0, "cut_in", transcript="What is", reply=reply, overlap_ms=897.0))
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", console.file.getvalue())
    assert "reply   The capital of the United States\n        is New York City.\n" in text
    assert "cut in: the reply began 897 ms" in text


def test_on_a_terminal_level_state_words_and_time_are_drawn_about_ten_times_a_second():
    console = Console(file=io.StringIO(), force_terminal=True, width=80)
    with View(console) as view:
        view.level(frame(), "listening")
        view.partial("what is")
        view.finished(Record(0, "answered", transcript="what is it", reply="A dog.", response_ms=432.1))
        time.sleep(0.55)
        view.partial("and now")
        view.level(frame(playback=True), "idle")
        time.sleep(0.25)
    text = console.file.getvalue()
    for part in ("level", "dBFS", "listening", "speaking", "and now", "432 ms"):
        assert part in text
    assert 5 <= text.count("dBFS") <= 14


def test_telling_the_view_never_waits_for_the_terminal():
    class Slow(io.StringIO):
        def write(self, text):
            time.sleep(0.2)
            return super().write(text)

    view = View(Console(file=Slow(), force_terminal=False))
    with view:
        began = time.monotonic()
        for _ in range(50):
            view.level(frame(), "listening")
            view.say("a line")
        assert time.monotonic() - began < 0.1
        view._lines = type(view._lines)()  # the rest need not be printed
