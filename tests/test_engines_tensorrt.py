"""TensorRT engines of every stage, built for a GPU that is not there; and what they are built from, on the CPU."""

import numpy as np
import onnxruntime
import pytest
from gguf import GGMLQuantizationType as Kind

from test_models_hibari import ASSETS, VOCABULARY
from test_models_llama import HEAD, KV_HEADS, LAYERS, forward, write
from voxpath import models
from voxpath.engines import tensorrt
from voxpath.errors import ModelError
from voxpath.models import hibari, llama, whisper_gpu
from voxpath.models.graph import Graph
from voxpath.models.llama_plain import PlainNetwork

pytest.importorskip("tensorrt_rtx_bindings")


@pytest.fixture(scope="module")
def whisper(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whisper")
    whisper_gpu.export(models.default_whisper(), folder)
    return folder


@pytest.fixture(scope="module")
def mixed(tmp_path_factory):
    folder = tmp_path_factory.mktemp("mixed")
    whisper_gpu.export(models.default_whisper(), folder, encoder="float16", decoder="float32")
    return folder


@pytest.fixture(scope="module")
def voice(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hibari")
    hibari.export(ASSETS / "hibari.onnx", VOCABULARY, folder, for_gpu=True)
    return folder


@pytest.fixture(scope="module")
def language(tmp_path_factory):
    folder = tmp_path_factory.mktemp("llama")
    llama.export(models.default_gguf(), folder, form=llama.HALF, room=2048, kind=PlainNetwork)
    return folder


def test_whispers_encoder_builds(whisper):
    assert len(tensorrt.build(whisper / "encoder.onnx")) > 15e6  # 8 million weights of 2 bytes


def test_whispers_decoder_builds_for_one_token_and_for_many(whisper):
    assert len(tensorrt.build(whisper / "decoder.onnx", tensorrt.DECODER)) > 50e6


def test_a_decoder_of_other_numbers_than_its_encoder_builds(mixed):
    assert len(tensorrt.build(mixed / "encoder.onnx")) > 15e6
    assert len(tensorrt.build(mixed / "decoder.onnx", tensorrt.DECODER)) > 100e6


def test_the_language_model_builds(language):
    assert len(tensorrt.build(language / "model.onnx", tensorrt.DECODER)) > 260e6


def test_both_halves_of_the_voice_build(voice):
    assert len(tensorrt.build(voice / "text.onnx", tensorrt.PHONEMES)) > 1e6
    assert len(tensorrt.build(voice / "spectra.onnx", tensorrt.FRAMES)) > 1e6


@pytest.fixture
def small(tmp_path):
    graph = Graph("small")
    x = graph.input("x", "float32", [1, "n"])
    graph.op("Mul", x, x, out="y")
    graph.output("y", "float32", [1, "n"])
    graph.save(tmp_path / "small.onnx")
    return tmp_path / "small.onnx"


def test_an_engine_is_built_once_for_the_same_network_and_gpu(small, monkeypatch, tmp_path):
    monkeypatch.setenv("VOXPATH_CACHE", str(tmp_path / "cache"))
    profiles = ({"n": (1, 2, 4)},)
    first = tensorrt.engine(small, profiles)
    assert first.read_bytes() and tensorrt.engine(small, profiles) == first
    assert tensorrt.engine(small, profiles, (8, 6)) != first
    assert tensorrt.engine(small, ({"n": (1, 2, 8)},)) != first


def test_what_cannot_be_built_is_said_in_a_sentence(small, tmp_path):
    with pytest.raises(ModelError, match="x of .*small.onnx needs a size for n"):
        tensorrt.build(small, ({},))
    with pytest.raises(ModelError, match="no engines for compute capability 90"):
        tensorrt.build(small, ({"n": (1, 2, 4)},), (9, 0))
    (tmp_path / "broken.onnx").write_bytes(b"\xff" * 64)
    with pytest.raises(ModelError, match="TensorRT cannot take .*broken.onnx"):
        tensorrt.build(tmp_path / "broken.onnx")


def test_a_llama_in_standard_operators_says_what_the_formulas_say(tmp_path):
    weights = write(tmp_path / "tiny.gguf", Kind.F32)
    llama.export(tmp_path / "tiny.gguf", tmp_path, form=llama.EXACT, room=64, kind=PlainNetwork)
    session = onnxruntime.InferenceSession(tmp_path / "model.onnx")
    tokens = [3, 40, 12, 99, 7, 7, 60, 200, 31]
    past = {
        f"past_{kind}{layer}": np.zeros((1, KV_HEADS, 64, HEAD), np.float32) for layer in range(LAYERS) for kind in "kv"
    }
    rows = []
    for start, end in ((0, 4), (4, 5), (5, 9)):
        names = [output.name for output in session.get_outputs()]
        inputs = {
            "ids": np.array([tokens[start:end]]),
            "start": np.array([start]),
            "offsets": np.arange(end - start),
            "rows": np.arange(end - start),
        }
        out = dict(zip(names, session.run(names, {**inputs, **past}), strict=True))
        past = {name.replace("present", "past"): value for name, value in out.items() if "present" in name}
        rows.append(out["logits"][0])
    expected = forward(weights, tokens)
    np.testing.assert_allclose(np.concatenate(rows), expected, atol=2e-3)
    assert out["token"][0, -1] == expected[-1].argmax()
