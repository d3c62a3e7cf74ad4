"""`python -m voxpath.models`, and the choice of number format."""

from pathlib import Path

import pytest

from voxpath import models
from voxpath.errors import ModelError
from voxpath.models import __main__ as command
from voxpath.models import cpu, recordings

STEPS = [(models, "default_asr"), (models, "default_llm"), (models, "default_tts"), (recordings, "two_cities")]


@pytest.fixture
def steps(monkeypatch, tmp_path):
    """The order in which the defaults are asked for, each with a stand-in that does nothing."""
    monkeypatch.setenv("VOXPATH_CACHE", str(tmp_path))
    called = []
    for module, name in STEPS:
        monkeypatch.setattr(module, name, lambda progress, name=name: called.append(name))
    return called


def test_all_that_the_default_chain_needs_is_prepared_and_little_is_said(steps, capfd, tmp_path):
    assert command.main() == 0
    assert steps == [name for _, name in STEPS]
    out, err = capfd.readouterr()
    assert out == "" and err == f"The models are ready in {tmp_path}\n"


def test_what_takes_time_is_shown(steps, monkeypatch, capfd):
    def convert(progress):
        progress("fetching this", 0.5)
        progress("converting that", 0.0)

    monkeypatch.setattr(models, "default_llm", convert)
    assert command.main() == 0
    shown = capfd.readouterr().err
    assert "fetching this" in shown and "converting that" in shown and "100%" in shown


def test_a_failure_is_one_sentence_and_an_exit_code(steps, monkeypatch, capfd):
    def fail(progress):
        raise ModelError("The package x could not be fetched: check the network.")

    monkeypatch.setattr(models, "default_asr", fail)
    assert command.main() == ModelError.exit_code != 0
    assert capfd.readouterr().err == "The package x could not be fetched: check the network.\n"


@pytest.mark.parametrize(
    ("flags", "expected"), [("fma avx2 avx512f", False), ("avx2 avx_vnni", True), ("avx512_vnni", True), (None, False)]
)
def test_int8_is_chosen_where_it_is_exact(monkeypatch, flags, expected):
    def read(path):
        if flags is None:
            raise FileNotFoundError
        return f"flags\t\t: fpu {flags} erms\n"

    monkeypatch.setattr(Path, "read_text", read)
    assert cpu.has_int8_dot_products.__wrapped__() is expected
