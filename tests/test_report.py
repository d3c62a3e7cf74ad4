import io
import json

import numpy as np
import pytest
import soundfile
from rich.console import Console

from test_timing_records import Board, label, turn
from voxpath.errors import VoxpathError
from voxpath.timing import report
from voxpath.timing.records import Record, Records
from voxpath.timing.report import Report

TURN_KEYS = ["turn", "outcome", "valid", "transcript", "reply", "speculated", "barged_in", "times_ns"]
TURN_KEYS += ["uncertainty_ns", "response_ms", "wall_ms", "endpoint_ms", "chain_ms", "hold_ms"]


def strict(text):
    """JSON without NaN or Infinity, which Python would let through."""

    def refuse(name):
        raise AssertionError(f"{name} is not JSON")

    return json.loads(text, parse_constant=refuse)


def run(folder, turns, labels, board=None):
    written = Report(folder)
    records = Records(board or Board())
    records.expect(labels)
    for one in turns:
        written.turn(records.add(one))
    figures = report.summary(
        records, board, board_name="sim", engine="cpu", settings={"endpoint": "fixed:200"}, models={"asr": "a"}
    )
    written.close(figures)
    return records


def test_the_summary_has_every_field_of_schema_1_and_what_is_absent_is_null(tmp_path):
    run(tmp_path, [turn(0), turn(1, speech=(5000, 6000), reply=None)], [label(1000, 2000), label(5000, 6000)])
    summary = strict((tmp_path / "summary.json").read_text())
    assert summary["schema"] == 1 and summary["engine"] == "cpu" and summary["machine"]
    assert summary["board"] == {"name": "sim", "lag_ms_max": None, "realtime_factor": None, "core_share": None}
    assert summary["counts"] == {"labelled": 2, "answered": 1, "missed": 1, "cut_in": 0, "merged": 0, "invalid": 0}
    answered, missed = summary["turns"]
    assert set(TURN_KEYS) <= set(answered)
    assert answered["response_ms"] == 400 and answered["wall_ms"] == 400
    assert missed["response_ms"] is None and missed["chain_ms"] is None
    assert summary["response_ms"] == {"n": 2, "p50": None, "p95": None, "p99": None, "max": None}
    assert set(summary["endpoint_ms"]) == set(summary["chain_ms"]) == {"n", "p50", "p95", "p99", "max"}
    assert set(summary["frames"]) == {*("received", "ring_lost", "link_lost", "crc_errors", "reordered", "duplicated")}
    assert summary["playback"] == {"underruns": 0, "concealed_ms": 0}
    assert not list(tmp_path.glob("*.part"))


def test_turns_are_written_as_they_come(tmp_path):
    written = Report(tmp_path)
    records = Records()
    for number in range(3):
        written.turn(records.add(turn(number)))
        lines = (tmp_path / "turns.jsonl").read_text().splitlines()
        assert [strict(line)["turn"] for line in lines] == list(range(number + 1))
    assert not (tmp_path / "summary.json").exists()


def test_the_sound_of_a_turn_is_kept(tmp_path):
    written = Report(tmp_path)
    question, reply = np.arange(1600, dtype=np.int16), np.arange(2400, dtype=np.int16)
    written.turn(Records().add(turn(7)), question=question, reply=reply, rate=24_000)
    for name, pcm, rate in (("question", question, 16_000), ("reply", reply, 24_000)):
        read, read_rate = soundfile.read(tmp_path / f"turn007-{name}.wav", dtype="int16")
        assert read_rate == rate and np.array_equal(read, pcm)


def test_a_folder_that_cannot_be_made_is_one_sentence(tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(VoxpathError, match="report cannot be written"):
        Report(tmp_path / "file" / "report")


def shown(records):
    console = Console(file=io.StringIO(), width=120)
    report.show(records, console)
    return console.file.getvalue()


def test_a_turn_that_cannot_be_written_is_told_in_a_sentence(tmp_path):
    report = Report(tmp_path)
    (tmp_path / "turn000-question.wav").mkdir()
    with pytest.raises(VoxpathError, match="report cannot be written"):
        report.turn(Record(0, "answered"), question=np.ones(160, np.int16))


def test_what_is_not_text_becomes_a_json_escape(tmp_path):
    report = Report(tmp_path)
    report.turn(Record(0, "answered", transcript="\ud800"))
    path = report.close({"text": "\ud800"})
    assert json.loads(path.read_text())["text"] == "\ud800"
    assert json.loads((tmp_path / "turns.jsonl").read_text())["transcript"] == "\ud800"


def test_a_run_that_has_not_begun_leaves_an_earlier_report_alone(tmp_path):
    (tmp_path / "turns.jsonl").write_text("{}")
    Report(tmp_path)
    assert [path.name for path in tmp_path.iterdir()] == ["turns.jsonl"]
    assert (tmp_path / "turns.jsonl").read_text() == "{}"


def test_the_table_says_where_each_millisecond_went(tmp_path):
    records = run(tmp_path, [turn(0)], [label(1000, 2000)])
    text = shown(records)
    assert "silence until the endpoint" in text and "205.0" in text
    assert "mouth to ear" in text and "400.0" in text and "by the wall clock" in text
    assert "1 utterance: 1 answered, 0 missed" in text and "p50 400" in text


def test_an_invalid_turn_says_why_in_the_table(tmp_path):
    records = run(tmp_path, [turn(0)], [label(1000, 2000)], Board(late_ms=30))
    assert "differ by 30.0 ms" in shown(records)


def test_a_run_without_an_answer_says_none(tmp_path):
    text = shown(run(tmp_path, [], [label(1000, 2000)]))
    assert "1 missed" in text and "p50 none" in text


def test_the_summary_of_what_a_board_measures_is_passed_on(tmp_path):
    board = Board()
    board.lag_ms_max, board.realtime_factor, board.core_share = 3.21, 1.0, 0.4567891
    run(tmp_path, [turn(0)], [], board)
    summary = strict((tmp_path / "summary.json").read_text())
    assert summary["board"] == {"name": "sim", "lag_ms_max": 3.21, "realtime_factor": 1.0, "core_share": 0.457}
    assert summary["counts"]["labelled"] == 0 and summary["counts"]["answered"] == 1
    assert summary["response_ms"]["p50"] == 400
