"""hibari's network cut in two: joined again it is the whole, and its second half may run in pieces."""

import json
from pathlib import Path

import hibari as package
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import TensorProto, helper

from voxpath.engines.hibari import HALO
from voxpath.errors import ModelError
from voxpath.models import hibari

ASSETS = Path(package.__file__).parent / "assets"
VOCABULARY = json.loads((ASSETS / "vocab.json").read_text(encoding="utf-8"))
PHONEMES = "ðə mˈiTɪŋ ɪz skˈɛʤuld fɔɹ θɹˈi əklˈɑk təmˈɑɹO ˌæftəɹnˈun ɪn ðə mˈAn ˈɔfəs."


@pytest.fixture(scope="module")
def halves(tmp_path_factory):
    folder = tmp_path_factory.mktemp("hibari")
    description = hibari.export(ASSETS / "hibari.onnx", VOCABULARY, folder)
    assert description == hibari.read_description(folder)
    return description, *(onnxruntime.InferenceSession(folder / name) for name in ("text.onnx", "spectra.onnx"))


def through(halves, ids, speed=1.0):
    """Repeated features, and the function that turns a part of them into spectra."""
    d, text, spectra = halves
    *features, durations = text.run([*d.features, d.durations], {"ids": [ids], "speed": np.float32([speed])})
    owner = np.repeat(np.arange(len(ids)), durations.ravel().astype(int))
    repeated = [feature[:, :, owner] for feature in features]

    def run(part):
        inputs = {name: feature[:, :, part] for name, feature in zip(d.repeated, repeated, strict=True)}
        return spectra.run(None, inputs)

    return len(owner), run


@pytest.mark.parametrize("speed", [1.0, 0.7, 1.6])
def test_the_halves_joined_are_the_whole(halves, speed):
    ids = [0, *(VOCABULARY[c] for c in PHONEMES), 0]
    whole = onnxruntime.InferenceSession(ASSETS / "hibari.onnx")
    expected = whole.run(None, {"ids": [ids], "speed": np.float32([speed])})
    _, run = through(halves, ids, speed)
    for part, reference in zip(run(slice(None)), expected, strict=True):
        np.testing.assert_allclose(part, reference, atol=1e-4)


def test_a_piece_with_its_halo_is_that_piece_of_the_whole(halves):
    ids = [0, *(VOCABULARY[c] for c in PHONEMES * 2), 0]
    frames, run = through(halves, ids)
    assert frames > 2 * HALO + 40
    start, end = frames // 2 - 20, frames // 2 + 20
    piece = [part[0][..., 2 * HALO : 2 * HALO + 80] for part in run(slice(start - HALO, end + HALO))]
    whole = [part[0][..., 2 * start : 2 * end] for part in run(slice(None))]
    # The 8-bit products scale by the loudest value of what they are given, so pieces differ by that rounding alone.
    for mine, reference in zip(piece, whole, strict=True):
        assert np.corrcoef(mine.ravel(), reference.ravel())[0, 1] > 0.995


def test_another_network_is_refused(tmp_path):
    x = helper.make_tensor_value_info("ids", TensorProto.FLOAT, [1])
    graph = helper.make_graph([helper.make_node("Relu", ["ids"], ["y"])], "g", [x], [])
    onnx.save(helper.make_model(graph), tmp_path / "a.onnx")
    with pytest.raises(ModelError, match="is no voice: it is not built as hibari 0.2 is"):
        hibari.export(tmp_path / "a.onnx", VOCABULARY, tmp_path)
    (tmp_path / "b.onnx").write_bytes(b"\xff" * 64)
    with pytest.raises(ModelError, match="not an ONNX file"):
        hibari.export(tmp_path / "b.onnx", VOCABULARY, tmp_path)
