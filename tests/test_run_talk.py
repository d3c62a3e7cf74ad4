"""Whole runs of the command line on a board and engines that are stand-ins, at twenty times real time."""

import json
import time

import numpy as np
import pytest
import soundfile

from doubles import DetectorGate, FakeBoard, FakeLanguage, FakeRecogniser, FakeVoice
from voxpath import cli
from voxpath.errors import BoardError
from voxpath.speech import chain


@pytest.fixture
def stage(monkeypatch):
    """Replaces board and engines; the test changes what it likes before the run."""

    class Stage:
        board = FakeBoard()
        recogniser = FakeRecogniser("what is it")
        language = FakeLanguage("It is a small dog, I think.")
        voice = FakeVoice()

    stage = Stage()
    stage.board = FakeBoard()
    models = {"asr": "a", "llm": "l", "tts": "t"}
    monkeypatch.setattr(chain, "EchoGate", DetectorGate)
    monkeypatch.setattr(cli, "open_sim", lambda progress, **options: stage.board)
    monkeypatch.setattr(
        cli, "load_engines", lambda args, progress: ((stage.recogniser, stage.language, stage.voice), models)
    )
    return stage


def recording(path, *spans, seconds=3.0):
    """A WAV with a loud tone in each (start_s, end_s)."""
    pcm = np.zeros(round(16_000 * seconds), np.int16)
    tone = (12_000 * np.sin(2 * np.pi * 440 * np.arange(len(pcm)) / 16_000)).astype(np.int16)
    for start, end in spans:
        pcm[round(16_000 * start) : round(16_000 * end)] = tone[round(16_000 * start) : round(16_000 * end)]
    soundfile.write(path, pcm, 16_000)
    return str(path)


def test_a_recording_is_answered_and_reported(stage, capsys, tmp_path):
    source = recording(tmp_path / "q.wav", (0.3, 1.3))
    (tmp_path / "labels.json").write_text('[{"start_s": 0.3, "end_s": 1.3, "text": "what is it"}]')
    arguments = ["--source", source, "--labels", str(tmp_path / "labels.json")]
    code = cli.main([*arguments, "--report", str(tmp_path / "report"), "--sink", str(tmp_path / "out.wav")])
    said = capsys.readouterr().out
    assert code == 0
    assert "heard   what is it" in said and "reply   It is a small dog, I think." in said
    assert "silence until the endpoint" in said and "1 answered" in said
    summary = json.loads((tmp_path / "report" / "summary.json").read_text())
    assert summary["counts"] | {"invalid": 0} == {
        **{"labelled": 1, "answered": 1, "missed": 0, "cut_in": 0, "merged": 0},
        "invalid": 0,
    }
    (turn,) = summary["turns"]
    label_end_ns = stage.board.sources[0][0] + 1_800_000_000  # half a second of lead-in
    assert turn["times_ns"]["speech_end"] == label_end_ns and turn["speech_end_from"] == "label"
    assert turn["response_ms"] == pytest.approx((turn["times_ns"]["reply_start"] - label_end_ns) / 1e6, abs=0.001)
    assert summary["settings"]["endpoint"] == "adaptive:180,800"
    assert summary["models"] == {"asr": "a", "llm": "l", "tts": "t"}
    assert (tmp_path / "report" / "turns.jsonl").read_text().count("\n") == 1
    assert soundfile.info(tmp_path / "out.wav").samplerate == 48_000


def test_several_questions_are_asked_one_after_the_other(stage, capsys, tmp_path):
    stage.recogniser = FakeRecogniser("one", "two")
    code = cli.main(["--ask", "First?", "--ask", "Second?", "--report", str(tmp_path)])
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert code == 0 and stage.voice.said[:2] == ["First?", "Second?"]
    assert [turn["transcript"] for turn in summary["turns"]] == ["one", "two"]
    assert [one["text"] for one in summary["utterances"]] == ["First?", "Second?"]
    # The second question begins after the first reply has ended.
    assert stage.board.sources[1][0] > summary["turns"][0]["times_ns"]["reply_end"]


def test_without_labels_the_detector_says_when_speech_ended(stage, tmp_path):
    source = recording(tmp_path / "q.wav", (0.3, 1.3))
    assert cli.main(["--source", source, "--report", str(tmp_path)]) == 0
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["turns"][0]["speech_end_from"] == "vad" and summary["counts"]["labelled"] == 0


def test_ctrl_c_ends_cleanly_with_the_report_written(stage, monkeypatch, capsys, tmp_path):
    def sleep_until_spoken(self, until_ns):
        while not any(reply.heard for reply in stage.board.replies):
            time.sleep(0.005)
        raise KeyboardInterrupt

    stage.voice = FakeVoice(seconds=20.0)
    monkeypatch.setattr("voxpath.talk.Talk._wait", sleep_until_spoken)
    code = cli.main(["--source", recording(tmp_path / "q.wav", (0.3, 1.3)), "--report", str(tmp_path / "r")])
    assert code == 130 and "Stopped." in capsys.readouterr().out
    summary = json.loads((tmp_path / "r" / "summary.json").read_text())
    assert len(summary["turns"]) == 1 and summary["turns"][0]["transcript"] == "what is it"


def test_a_board_that_dies_ends_the_run_with_its_sentence_and_the_report_written(stage, capsys, tmp_path):
    stage.board = FakeBoard(ends_after_s=1.0, raises=BoardError("The board was unplugged."))
    code = cli.main(["--source", recording(tmp_path / "q.wav", (0.3, 1.3)), "--report", str(tmp_path / "r")])
    said = capsys.readouterr()
    assert code == 2 and said.err == "The board was unplugged.\n"
    assert json.loads((tmp_path / "r" / "summary.json").read_text())["turns"] == []


def test_a_run_in_which_nothing_was_understood_says_so_and_fails(stage, capsys, tmp_path):
    stage.recogniser = FakeRecogniser("[BLANK_AUDIO]")
    code = cli.main(["--source", recording(tmp_path / "q.wav", (0.3, 1.3))])
    said = capsys.readouterr().out
    assert code == 1 and "no words were recognised" in said and "Nothing was answered" in said


def test_speech_longer_than_the_recognisers_window_is_one_turn_recognised_in_pieces(stage, tmp_path):
    stage.recogniser = FakeRecogniser("one", "two")
    source = recording(tmp_path / "q.wav", (0.3, 40.0), seconds=41.0)
    code = cli.main(["--source", source, "--report", str(tmp_path)])
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert code == 0 and [turn["transcript"] for turn in summary["turns"]] == ["one two"]
    assert max(len(pcm) for pcm in stage.recogniser.heard) <= 28 * 16_000
