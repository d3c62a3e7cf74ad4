"""A spoken question through the RTL, the real networks, and back out of the board's DAC."""

import json

import numpy as np
import pytest
import soundfile

from voxpath import cli
from voxpath.speech import chain as chains


@pytest.fixture(scope="module")
def run(tmp_path_factory):
    """One run; (exit code, summary, lines of turns.jsonl, what the DAC played at 48 kHz)."""
    folder = tmp_path_factory.mktemp("run")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(chains, "STUCK_S", 30.0)  # this test is not about speed: the machine may be busy with others
        arguments = [
            "--ask",
            "What is the capital of France?",
            "--report",
            str(folder),
            "--sink",
            str(folder / "out.wav"),
        ]
        code = cli.main(arguments)
    summary = json.loads((folder / "summary.json").read_text())
    lines = [json.loads(line) for line in (folder / "turns.jsonl").read_text().splitlines()]
    played, rate = soundfile.read(folder / "out.wav", dtype="int16")
    assert rate == 48_000
    return code, summary, lines, played


def test_the_question_is_understood_and_answered(run):
    code, summary, _, _ = run
    assert code == 0
    assert summary["counts"]["labelled"] == summary["counts"]["answered"] == 1
    answered = [turn for turn in summary["turns"] if turn["outcome"] == "answered"]
    transcript = answered[0]["transcript"].lower()
    assert "capital" in transcript and "france" in transcript
    assert len(answered[0]["reply"].split()) >= 3


def test_every_frame_arrived(run):
    frames = run[1]["frames"]
    assert frames["received"] > 500
    assert frames["ring_lost"] == frames["link_lost"] == frames["crc_errors"] == frames["duplicated"] == 0


def test_the_stamps_are_in_order_and_the_response_is_what_they_say(run):
    turn = next(turn for turn in run[1]["turns"] if turn["outcome"] == "answered")
    times = turn["times_ns"]
    order = ("speech_start", "speech_end", "audio_ready", "asr_final", "llm_first_token", "phrase", "tts_first_audio")
    order += ("reply_ready", "handed_to_board", "reply_start", "reply_end")
    stamps = [times[name] for name in order]
    assert stamps == sorted(stamps)
    assert turn["response_ms"] == pytest.approx((times["reply_start"] - times["speech_end"]) / 1e6, abs=0.001)
    assert turn["endpoint_ms"] >= 200 - 25  # the detector may hear the end of a word a little sooner than its label


def test_the_reply_is_heard_from_the_dac_exactly_when_the_board_says(run):
    _, summary, _, played = run
    turn = next(turn for turn in summary["turns"] if turn["outcome"] == "answered")
    start, end = (round(turn["times_ns"][name] * 48_000 / 1e9) for name in ("reply_start", "reply_end"))
    assert not played[: start - 48].any()
    assert np.abs(played[start : start + 9600].astype(int)).max() > 500
    assert not played[end + 480 :].any()


def test_the_lines_of_the_report_are_the_turns_of_the_summary(run):
    assert run[2] == run[1]["turns"]
