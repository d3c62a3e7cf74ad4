"""Piper voices, with a stand-in for the package: it is GPL-3 and not installed for tests."""

import sys
from types import ModuleType, SimpleNamespace

import numpy as np
import pytest

from voxpath.engines.cancel import Cancel, Cancelled
from voxpath.engines.piper import Voice
from voxpath.errors import ModelError

TONE = np.sin(2 * np.pi * 440 * np.arange(22050) / 22050).astype(np.float32)


@pytest.fixture
def piper(monkeypatch):
    """A package whose voice says each sentence as a second of 440 Hz at 22.05 kHz."""

    class PiperVoice:
        @staticmethod
        def load(path):
            if not path.with_name(path.name + ".json").exists():
                raise FileNotFoundError(f"No such file: {path}.json")
            return PiperVoice()

        def synthesize(self, text):
            for _ in text.rstrip(".").split("."):
                yield SimpleNamespace(audio_float_array=TONE * np.float32(1.2), sample_rate=22050)

    module = ModuleType("piper")
    module.PiperVoice = PiperVoice
    monkeypatch.setitem(sys.modules, "piper", module)


@pytest.fixture
def path(tmp_path):
    (tmp_path / "joe.onnx.json").write_text("{}")
    return tmp_path / "joe.onnx"


def test_a_sentence_is_a_chunk_at_the_rate_of_the_board(piper, path):
    chunks = list(Voice(path).speak("One. Two."))
    assert [len(chunk) for chunk in chunks] == [24000, 24000] and chunks[0].dtype == np.int16
    spectrum = np.abs(np.fft.rfft(chunks[0]))
    assert spectrum.argmax() == 440
    assert chunks[0].max() == 32767 and chunks[0].min() == -32767  # cut, not wrapped


def test_text_without_words_is_not_spoken(piper, path):
    assert list(Voice(path).speak("...")) == []


def test_speaking_can_be_stopped_between_sentences(piper, path):
    cancel = Cancel()
    said = Voice(path).speak("One. Two.", cancel)
    next(said)
    cancel.set()
    with pytest.raises(Cancelled):
        next(said)


def test_without_the_package_it_says_what_to_install(monkeypatch, path):
    monkeypatch.setitem(sys.modules, "piper", None)
    with pytest.raises(ModelError, match="pip install piper-tts"):
        Voice(path)


def test_what_is_no_voice_is_named(piper, tmp_path):
    with pytest.raises(ModelError, match="nobody.onnx is not a Piper voice with its nobody.onnx.json beside it"):
        Voice(tmp_path / "nobody.onnx")
