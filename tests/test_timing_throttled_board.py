"""A simulated board that does not keep the wall's pace must not give a figure that counts."""

import numpy as np

from doubles import FakeLanguage, FakeRecogniser, FakeVoice
from voxpath.boards import open_board
from voxpath.sources import BOARD_RATE, labelled
from voxpath.speech.endpoint import FixedSilence
from voxpath.talk import Talk
from voxpath.timing import report


def hum(seconds=0.6):
    """Something that the detector takes for a voice: a buzz of 120 Hz with its harmonics, and a label."""
    times = np.arange(round(seconds * BOARD_RATE)) / BOARD_RATE
    buzz = sum(np.sin(2 * np.pi * 120 * k * times) / k for k in range(1, 20))
    return labelled((6000 * buzz).astype(np.int16), "hm", "hum")


def test_a_board_at_half_speed_gives_an_invalid_turn():
    engines = FakeRecogniser("what is it"), FakeLanguage("It is a dog."), FakeVoice(seconds=0.3)
    with open_board("sim", throttle=0.5) as board:
        with Talk(board, engines, endpoint=FixedSilence(200)) as talk:
            talk.play([hum()])
        (record,) = talk.records.turns
        figures = report.summary(talk.records, board, board_name="sim", engine="cpu", settings={}, models={})
    assert record.outcome == "answered" and not record.valid
    # Twice as long on the wall as the board believes.
    assert 1.7 < record.wall_ms / record.response_ms < 2.5
    assert record.lag_ms > 8
    assert figures["counts"]["invalid"] == 1 and figures["board"]["lag_ms_max"] > 100
