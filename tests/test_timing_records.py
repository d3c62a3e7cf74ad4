import math
from types import SimpleNamespace

import numpy as np
import pytest

from voxpath.timing.records import Records, Spoken, distribution

MS = 1_000_000
RATE = 24_000


class Board:
    """Wall time is board time plus a constant, `late_ms` more after 2.0 s, `lag_ms` more from 2.2 to 2.3 s."""

    def __init__(self, late_ms=0.0, lag_ms=0.0):
        self.late_ms, self.lag_ms = late_ms, lag_ms

    def wall_ns(self, ns):
        late = self.late_ms if ns > 2000 * MS else 0
        lag = self.lag_ms if 2200 * MS <= ns < 2300 * MS else 0
        return ns + 77_000_000_000 + round((late + lag) * MS)


def turn(number=0, *, speech=(1000, 2000), reply=2400, quiet_ms=0, **changes):
    """A closed turn; times in ms of the board; `reply` is when its first sample left the DAC, None for no reply."""
    times = {"speech_start": speech[0] * MS, "speech_end": speech[1] * MS}
    times |= {
        "audio_ready": (speech[1] + 70) * MS,
        "asr_final": (speech[1] + 170) * MS,
        "endpoint": (speech[1] + 205) * MS,
    }
    pcm = []
    if reply is not None:
        early = ("llm_first_token", "phrase", "tts_first_audio", "reply_ready", "handed_to_board")
        times |= {name: (reply - 50 + 10 * index) * MS for index, name in enumerate(early)}
        times |= {"first_pcm": reply * MS, "reply_end": (reply + 1000) * MS}
        tone = np.full(RATE, 8000, np.int16)
        tone[: RATE * quiet_ms // 1000] = 0
        pcm = [tone]
    base = dict(
        number=number,
        times=times,
        transcript="so",
        reply="Yes." if pcm else "",
        speculated=True,
        barged_in=False,
        error=None,
        uncertainty_ns=0,
        utterance=SimpleNamespace(concealed_frames=0),
        rate=RATE,
        pcm=pcm,
        first_phrase_samples=len(pcm[0]) if pcm else None,
        underruns=[],
    )
    return SimpleNamespace(**(base | changes))


def label(start, end):
    return Spoken(start * MS, end * MS)


def test_response_runs_from_the_labels_end_to_the_first_audible_10_ms_of_the_reply():
    records = Records(Board())
    records.expect([label(950, 1980)])
    record = records.add(turn(quiet_ms=30))
    assert record.speech_end_from == "label" and record.outcome == "answered"
    assert record.times_ns["reply_start"] == 2430 * MS
    assert record.response_ms == pytest.approx(2430 - 1980) and record.wall_ms == pytest.approx(450)
    assert record.endpoint_ms == pytest.approx(2205 - 1980)
    assert record.chain_ms == pytest.approx(2400 - 20 - 2070)
    assert record.hold_ms == 0
    assert record.valid


def test_without_labels_speech_ends_where_the_board_says():
    record = Records(Board()).add(turn())
    assert record.speech_end_from == "vad" and record.response_ms == pytest.approx(400)


def test_a_reply_that_exists_before_the_endpoint_is_held():
    changed = turn(reply=2400)
    changed.times["reply_ready"] = 2150 * MS
    assert Records().add(changed).hold_ms == pytest.approx(55)


def test_audio_is_not_ready_before_the_end_of_speech_is_in_it():
    records = Records()
    records.expect([label(1000, 2090)])
    assert records.add(turn()).times_ns["audio_ready"] == 2090 * MS


def test_a_frame_38_db_under_the_loudest_starts_a_reply_and_one_below_does_not():
    for level, starts in ((8000 * 10 ** (-37.5 / 20), 2400), (8000 * 10 ** (-38.5 / 20), 2410)):
        pcm = np.full(RATE, 8000, np.int16)
        pcm[:240] = round(level)
        record = Records().add(turn(pcm=[pcm]))
        assert record.times_ns["reply_start"] == starts * MS


@pytest.mark.parametrize("labelled", [True, False])
def test_to_say_that_something_failed_is_no_answer(labelled):
    records = Records(Board())
    if labelled:
        records.expect([label(1000, 1980)])
    record = records.add(turn(error="the server is gone"))
    assert record.outcome == "missed" and record.response_ms is None
    assert records.counts()["answered"] == 0 and records.counts()["missed"] == 1


def test_a_turn_that_heard_no_label_is_unlabelled_whether_it_was_answered_or_not():
    records = Records(Board())
    records.expect([label(5000, 6000)])
    assert [records.add(turn(reply=reply)).outcome for reply in (2400, None)] == ["unlabelled", "unlabelled"]


def test_a_reply_that_begins_before_the_labels_end_is_a_cut_in():
    records = Records(Board())
    records.expect([label(1000, 2600)])
    record = records.add(turn())
    assert record.outcome == "cut_in" and record.response_ms is None and record.wall_ms is None
    assert record.overlap_ms == pytest.approx(200)
    assert records.counts() == {"labelled": 1, "answered": 0, "missed": 0, "cut_in": 1, "merged": 0, "invalid": 0}
    assert records.distribution("response_ms")["n"] == 0


def test_a_cut_in_stays_one_when_a_later_turn_answers_the_rest():
    records = Records()
    records.expect([label(1000, 2600)])
    records.add(turn(0))
    records.add(turn(1, speech=(2450, 2600), reply=3000))
    assert records.counts()["cut_in"] == 1 and records.counts()["answered"] == 0


def test_two_utterances_in_one_turn_are_one_merged_and_one_answered():
    records = Records()
    records.expect([label(1000, 1400), label(1500, 2000)])
    record = records.add(turn())
    assert [one.outcome for one in records.spoken] == ["merged", "answered"]
    assert record.response_ms == pytest.approx(400) and record.times_ns["speech_start"] == 1000 * MS
    figures = records.distribution("response_ms")
    assert figures["n"] == 2 and figures["p50"] is None and figures["max"] is None


def test_an_utterance_with_no_reply_is_missed_and_infinite():
    records = Records()
    records.expect([label(1000, 2000), label(5000, 6000), label(9000, 9900)])
    records.add(turn(0))
    records.add(turn(1, speech=(5000, 6000), reply=None))
    assert [one.outcome for one in records.spoken] == ["answered", "missed", "missed"]
    assert records.distribution("response_ms") == {"n": 3, "p50": None, "p95": None, "p99": None, "max": None}


def test_an_utterance_that_was_not_said_to_its_end_when_the_run_was_stopped_is_not_missed():
    records = Records(Board())
    records.expect([label(1000, 2000), label(5000, 6000)])
    records.add(turn(0))
    records.end_at(5500 * MS)
    assert records.counts() | {"labelled": 1, "answered": 1, "missed": 0} == records.counts()


def test_a_turn_that_heard_no_label_does_not_count_in_a_labelled_run():
    records = Records()
    records.expect([label(1000, 2000)])
    records.add(turn(0))
    assert records.add(turn(1, speech=(5000, 5200), reply=5600)).outcome == "unlabelled"
    assert records.counts()["answered"] == 1 and records.distribution("response_ms")["n"] == 1


@pytest.mark.parametrize(("late_ms", "valid"), [(1.9, True), (-1.9, True), (2.1, False), (-2.1, False)])
def test_a_turn_whose_wall_time_differs_by_more_than_2_ms_is_not_valid(late_ms, valid):
    record = Records(Board(late_ms=late_ms)).add(turn())
    assert record.valid is valid and bool(record.invalid_because) is not valid


@pytest.mark.parametrize(("lag_ms", "valid"), [(7.9, True), (8.1, False)])
def test_a_turn_in_which_the_board_was_more_than_8_ms_late_is_not_valid(lag_ms, valid):
    record = Records(Board(lag_ms=lag_ms)).add(turn())
    assert record.valid is valid and record.lag_ms == pytest.approx(lag_ms)


def test_a_board_that_forgot_when_it_was_where_has_no_wall_time():
    board = Board()
    board.wall_ns = lambda ns: None
    record = Records(board).add(turn())
    assert record.wall_ms is None and record.lag_ms is None and record.response_ms == pytest.approx(400)


@pytest.mark.parametrize(("position", "valid"), [(RATE // 2, False), (RATE, False), (RATE + 1, True)])
def test_an_under_run_before_the_second_phrase_makes_a_turn_invalid(position, valid):
    assert Records().add(turn(underruns=[(2900 * MS, position)])).valid is valid


def test_a_negative_response_is_never_reported():
    record = Records(Board()).add(turn(reply=1990))
    assert record.response_ms is None and record.wall_ms is None and not record.valid


def test_a_reply_that_was_cut_before_it_was_audible_did_not_start():
    cut = turn(quiet_ms=500, barged_in=True)
    cut.times["reply_end"] = 2500 * MS
    record = Records().add(cut)
    assert "reply_start" not in record.times_ns and record.outcome == "missed"


def test_the_steps_of_the_way_add_up_to_the_response():
    record = Records().add(turn(quiet_ms=20))
    steps = dict(record.way())
    assert sum(steps.values()) == pytest.approx(record.response_ms)
    assert min(steps.values()) >= 0
    assert steps["silence until the endpoint"] == pytest.approx(205)
    assert steps["recogniser, after the endpoint"] == 0  # it was final 35 ms before
    assert steps["language model, first token"] == pytest.approx(2350 - 2205)


def test_a_turn_with_no_reply_has_no_way():
    assert Records().add(turn(reply=None)).way() == []


def test_percentiles_are_measured_values_and_never_below_the_interpolated_ones():
    values = [float(value) for value in range(1, 12)]
    figures = distribution(values)
    assert figures == {"n": 11, "p50": 6.0, "p95": 11.0, "p99": 11.0, "max": 11.0}
    for name, part in (("p50", 50), ("p95", 95), ("p99", 99)):
        assert distribution(values[:-1])[name] >= np.percentile(values[:-1], part)


def test_infinite_values_are_null_only_where_they_fall():
    figures = distribution([1.0, 2.0, 3.0, math.inf])
    assert figures == {"n": 4, "p50": 3.0, "p95": None, "p99": None, "max": None}
    assert distribution([]) == {"n": 0, "p50": None, "p95": None, "p99": None, "max": None}
