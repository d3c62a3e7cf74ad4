"""What the command line refuses, and how: one sentence, an exit code, no traceback, before anything slow begins."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
import soundfile

from voxpath import cli
from voxpath.errors import VoxpathError

RUN = Path(__file__).parents[1] / "host" / "run.py"


def refused(capsys, *arguments):
    code = cli.main(arguments)
    said = capsys.readouterr()
    assert said.out == "" and said.err.count("\n") == 1 and said.err.rstrip().endswith(".")
    return code, said.err


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["--board", "kv260"], "only the simulated board"),
        (["--board", "serial"], "only the simulated board"),
        (["--board", "toaster"], "no board called toaster"),
        (["selftest", "--board", "pcie"], "only the simulated board"),
        (["--address", "10.0.0.1"], "has no address"),
        (["--engine", "cuda"], "runs on the CPU alone: use --engine cpu"),
        (["--engine", "abacus"], "no engine called abacus"),
        (["--endpoint", "adaptive:600,100"], "longer than the longest"),
        (["--endpoint", "soon"], "fixed:MS"),
        (["--source", "mic"], "no microphone"),
        (["--sink", "speaker"], "no loudspeaker"),
        (["--sink", "/no/such/folder/out.wav"], "no folder"),
        (["--source", "a.wav", "--ask", "Why?"], "give one of them"),
        (["--labels", "a.json"], "belongs to a --source"),
        (["--source", "/no/such/file.wav"], "no file /no/such/file.wav"),
        (["--system", "@/no/such/prompt"], "cannot be read"),
        (["--ask", "Why?", "--ask", " ... "], "has no words"),
        (["selftest", "--report", "out"], "selftest does not take --report"),
        (["doctor", "--no-speculation"], "doctor does not take --no-speculation"),
        (["--endpoint", "fixed:" + "9" * 5000], "fixed:MS"),
        (["--sink", "/"], "is a folder"),
        (["--source", ""], "--source is empty"),
        (["--report", ""], "--report is empty"),
        (["--system", "hi \udcff"], "not text in UTF-8"),
        (["--system", "@"], "cannot be read"),
        (["--system", "@/dev/zero"], "not a file"),
        (["--source", "/dev/zero"], "a pipe or a device"),
        (["--loud"], "--loud"),
        (["--source"], "expected one argument"),
        (["sing"], "no command sing"),
    ],
)
def test_what_is_not_possible_is_refused_with_one_sentence_and_exit_code_2(capsys, arguments, says):
    code, sentence = refused(capsys, *arguments)
    assert code == 2 and says in sentence


def test_a_silent_file_is_refused_before_models_are_loaded(capsys, tmp_path):
    path = tmp_path / "silent.wav"
    soundfile.write(path, np.zeros(8000), 16_000)
    code, sentence = refused(capsys, "--source", str(path))
    assert code == 2 and "is silent" in sentence


def test_a_pipe_is_refused_and_not_waited_for(capsys, tmp_path):
    os.mkfifo(tmp_path / "pipe")
    for arguments in (["--source", str(tmp_path / "pipe")], ["--system", f"@{tmp_path / 'pipe'}"]):
        assert refused(capsys, *arguments)[0] == 2


def test_the_program_itself_prints_no_traceback():
    done = subprocess.run(
        [sys.executable, RUN, "--source", "/no/such/file.wav"], capture_output=True, text=True, timeout=60
    )
    assert done.returncode == 2 and done.stdout == ""
    assert done.stderr == "There is no file /no/such/file.wav.\n"


def test_help_names_every_command_and_option(capsys):
    with pytest.raises(SystemExit) as ended:
        cli.main(["--help"])
    text = capsys.readouterr().out
    assert ended.value.code == 0
    options = "board address source ask sink engine asr llm tts system endpoint no-speculation report labels"
    assert all(f"--{name}" in text for name in options.split())
    assert all(command in text for command in ("talk", "doctor", "selftest"))


def test_a_system_prompt_is_text_or_the_content_of_a_file(tmp_path):
    (tmp_path / "prompt").write_text("Be brief.\n")
    assert cli.read_system("Be kind.") == "Be kind."
    assert cli.read_system(f"@{tmp_path / 'prompt'}") == "Be brief."
    with pytest.raises(VoxpathError):
        cli.read_system(f"@{tmp_path}")


def test_doctor_says_what_is_there_and_what_is_missing(capsys, monkeypatch, tmp_path):
    monkeypatch.setenv("VOXPATH_CACHE", str(tmp_path / "none"))
    assert cli.main(["doctor"]) == 0
    text = capsys.readouterr().out
    assert "g++" in text and "onnxruntime" in text and "is empty" in text and "Everything that a run needs" in text
    monkeypatch.setattr("shutil.which", lambda program: None if program == "perl" else f"/usr/bin/{program}")
    assert cli.main(["doctor"]) == 1
    text = capsys.readouterr().out
    assert "sudo apt-get install perl" in text and "Missing: perl." in text
