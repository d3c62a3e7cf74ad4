"""CTranslate2 Whisper files to ONNX against a forward pass in numpy from the paper's formulas."""

import json
import math
import struct

import numpy as np
import onnxruntime
import pytest

from voxpath.errors import ModelError
from voxpath.models import ctranslate2, whisper

WIDTH, HEADS, BINS, INNER, VOCABULARY = 64, 2, 10, 96, 71
POSITIONS, MAX_TOKENS = 40, 16
ENCODER_LAYERS, DECODER_LAYERS = 2, 3
erf = np.vectorize(math.erf)


def variables(seed=0):
    """Random float32 variables by CTranslate2's names."""
    rng = np.random.default_rng(seed)
    made = {}

    def add(name, *shape, scale=0.15):
        made[name] = (rng.standard_normal(shape) * scale).astype(np.float32)

    def linear(name, outputs, inputs):
        add(f"{name}/weight", outputs, inputs)
        add(f"{name}/bias", outputs)

    def norm(name):
        add(f"{name}/gamma", WIDTH)
        made[f"{name}/gamma"] += 1
        add(f"{name}/beta", WIDTH)

    for name, inputs in (("conv1", BINS), ("conv2", WIDTH)):
        add(f"encoder/{name}/weight", WIDTH, inputs, 3)
        add(f"encoder/{name}/bias", WIDTH)
    add("encoder/position_encodings/encodings", POSITIONS, WIDTH)
    add("decoder/position_encodings/encodings", MAX_TOKENS, WIDTH)
    add("decoder/embeddings/weight", VOCABULARY, WIDTH, scale=0.5)
    norm("encoder/layer_norm")
    norm("decoder/layer_norm")
    for side, layers in (("encoder", ENCODER_LAYERS), ("decoder", DECODER_LAYERS)):
        for layer in range(layers):
            block = f"{side}/layer_{layer}"
            norm(f"{block}/self_attention/layer_norm")
            linear(f"{block}/self_attention/linear_0", 3 * WIDTH, WIDTH)
            linear(f"{block}/self_attention/linear_1", WIDTH, WIDTH)
            norm(f"{block}/ffn/layer_norm")
            linear(f"{block}/ffn/linear_0", INNER, WIDTH)
            linear(f"{block}/ffn/linear_1", WIDTH, INNER)
            if side == "decoder":
                norm(f"{block}/attention/layer_norm")
                linear(f"{block}/attention/linear_0", WIDTH, WIDTH)
                linear(f"{block}/attention/linear_1", 2 * WIDTH, WIDTH)
                linear(f"{block}/attention/linear_2", WIDTH, WIDTH)
    return made


def write(folder, values, version=6, specification="WhisperSpec", dtype="<f2"):
    """A CTranslate2 folder with `values` stored as `dtype`. Returns the values as they were stored."""
    text = lambda string: struct.pack("<H", len(string) + 1) + string.encode() + b"\0"  # noqa: E731
    number = {"<f4": 0, "<f2": 4}[dtype]
    out = struct.pack("<I", version) + text(specification) + struct.pack("<II", 3, len(values) + 2)
    for side in ("encoder", "decoder"):
        out += text(f"{side}/num_heads") + struct.pack("<BBI", 0, 2, 2) + struct.pack("<h", HEADS)
    for name, value in values.items():
        data = value.astype(dtype).tobytes()
        out += text(name) + struct.pack("<B", value.ndim) + struct.pack(f"<{value.ndim}I", *value.shape)
        out += struct.pack("<BI", number, len(data)) + data
    out += struct.pack("<I", 1) + text("decoder/projection/weight") + text("decoder/embeddings/weight")
    (folder / "model.bin").write_bytes(out)
    special = ["<|endoftext|>", "<|startoftranscript|>", "<|en|>", "<|transcribe|>", "<|startofprev|>"]
    special += ["<|nospeech|>", "<|notimestamps|>"]
    added = [{"id": 60 + i, "content": content} for i, content in enumerate(special)]
    (folder / "tokenizer.json").write_text(json.dumps({"added_tokens": added}))
    (folder / "config.json").write_text(json.dumps({"suppress_ids": [3, 4], "suppress_ids_begin": [7]}))
    return {name: value.astype(dtype).astype(np.float64) for name, value in values.items()}


class Reference:
    """Whisper by the formulas: pre-norm blocks, scaled dot products, exact GELU, the embedding as output matrix."""

    def __init__(self, values):
        self.v = values

    def linear(self, x, name):
        return x @ self.v[f"{name}/weight"].T + self.v[f"{name}/bias"]

    def norm(self, x, name):
        centred = x - x.mean(-1, keepdims=True)
        scaled = centred / np.sqrt((centred**2).mean(-1, keepdims=True) + 1e-5)
        return scaled * self.v[f"{name}/gamma"] + self.v[f"{name}/beta"]

    @staticmethod
    def gelu(x):
        return x * (1 + erf(x / np.sqrt(2))) / 2

    @staticmethod
    def attend(q, k, v, causal=False):
        out = np.zeros_like(q)
        size = WIDTH // HEADS
        for head in range(HEADS):
            part = slice(head * size, (head + 1) * size)
            scores = q[:, part] @ k[:, part].T / np.sqrt(size)
            if causal:
                scores[np.triu_indices(len(q), 1)] = -np.inf
            weights = np.exp(scores)
            out[:, part] = weights / weights.sum(-1, keepdims=True) @ v[:, part]
        return out

    def block(self, x, name, causal):
        q, k, v = np.split(
            self.linear(self.norm(x, f"{name}/self_attention/layer_norm"), f"{name}/self_attention/linear_0"), 3, -1
        )
        return x + self.linear(self.attend(q, k, v, causal), f"{name}/self_attention/linear_1")

    def feed_forward(self, x, name):
        inner = self.gelu(self.linear(self.norm(x, f"{name}/ffn/layer_norm"), f"{name}/ffn/linear_0"))
        return x + self.linear(inner, f"{name}/ffn/linear_1")

    def conv(self, x, name, stride):
        padded = np.pad(x, ((1, 1), (0, 0)))
        kernel = self.v[f"{name}/weight"]
        frames = range(0, len(x), stride)
        return self.gelu(
            np.array([np.einsum("oik,ki->o", kernel, padded[i : i + 3]) for i in frames]) + self.v[f"{name}/bias"]
        )

    def hear(self, mel):
        x = self.conv(self.conv(mel.T, "encoder/conv1", 1), "encoder/conv2", 2)
        x = x + self.v["encoder/position_encodings/encodings"][: len(x)]
        for layer in range(ENCODER_LAYERS):
            x = self.feed_forward(self.block(x, f"encoder/layer_{layer}", False), f"encoder/layer_{layer}")
        return self.norm(x, "encoder/layer_norm")

    def write(self, audio, tokens):
        x = self.v["decoder/embeddings/weight"][tokens] + self.v["decoder/position_encodings/encodings"][: len(tokens)]
        for layer in range(DECODER_LAYERS):
            name = f"decoder/layer_{layer}"
            x = self.block(x, name, True)
            q = self.linear(self.norm(x, f"{name}/attention/layer_norm"), f"{name}/attention/linear_0")
            k, v = np.split(self.linear(audio, f"{name}/attention/linear_1"), 2, -1)
            x = self.feed_forward(x + self.linear(self.attend(q, k, v), f"{name}/attention/linear_2"), name)
        return self.norm(x, "decoder/layer_norm") @ self.v["decoder/embeddings/weight"].T


def run(folder, mel, pieces):
    """Logits of every token, the tokens given to the decoder in `pieces` with its memory carried over."""
    encoder, decoder = (onnxruntime.InferenceSession(folder / f"{name}.onnx") for name in ("encoder", "decoder"))
    audio = dict(zip([o.name for o in encoder.get_outputs()], encoder.run(None, {"mel": mel[None]}), strict=True))
    empty = np.zeros((1, HEADS, 0, WIDTH // HEADS), np.float32)
    past = {f"past_{kind}{layer}": empty for layer in range(DECODER_LAYERS) for kind in "kv"}
    logits, done = [], 0
    for piece in pieces:
        places = np.arange(done, done + len(piece))
        mask = np.where(np.arange(done + len(piece)) > places[:, None], -1e9, 0).astype(np.float32)[None, None]
        inputs = {"ids": np.array([piece]), "positions": places, "mask": mask, "rows": np.arange(len(piece))}
        out = decoder.run(None, {**inputs, **audio, **past})
        named = dict(zip([o.name for o in decoder.get_outputs()], out, strict=True))
        logits.append(named.pop("logits")[0])
        past = {name.replace("present", "past"): value for name, value in named.items()}
        done += len(piece)
    return np.concatenate(logits)


PIECES = [[61, 66, 5], [9], [70], [33]]
TOKENS = sum(PIECES, [])


@pytest.fixture(scope="module")
def tiny(tmp_path_factory):
    folder = tmp_path_factory.mktemp("whisper")
    return folder, write(folder, variables())


@pytest.mark.parametrize("frames", [2 * POSITIONS, 30])
@pytest.mark.parametrize(("precision", "noise"), [("float32", 2e-5), ("int8", 0.05)])
def test_both_graphs_compute_what_the_formulas_say(tiny, tmp_path, frames, precision, noise):
    source, values = tiny
    whisper.export(source, tmp_path, encoder=precision, decoder=precision)
    mel = np.random.default_rng(frames).standard_normal((BINS, frames)).astype(np.float32)
    reference = Reference(values)
    expected = reference.write(reference.hear(mel.astype(np.float64)), TOKENS)
    error = run(tmp_path, mel, PIECES) - expected
    assert np.sqrt((error**2).mean()) < noise * expected.std()


def test_the_description_follows_from_the_file(tiny, tmp_path):
    written = whisper.export(tiny[0], tmp_path)
    assert written == whisper.read_description(tmp_path)
    assert (written.layers, written.heads, written.head_size) == (DECODER_LAYERS, HEADS, WIDTH // HEADS)
    assert (written.mel_bins, written.max_frames, written.max_tokens) == (BINS, 2 * POSITIONS, MAX_TOKENS)
    assert written.prompt == [61, 62, 63, 66]  # start, English, transcribe, no time stamps
    assert (written.previous, written.end, written.no_speech) == (64, 60, 65)
    assert written.suppress == [3, 4, *range(61, VOCABULARY)]
    assert written.suppress_first == [7, 60]


def test_weights_that_were_stored_as_int8_are_scaled_back(tmp_path):
    text = lambda string: struct.pack("<H", len(string) + 1) + string.encode() + b"\0"  # noqa: E731
    rows = np.array([[10, -20], [127, 4]], np.int8)
    scale = np.array([10, 254], np.float32)
    out = struct.pack("<I", 6) + text("WhisperSpec") + struct.pack("<II", 3, 2)
    out += text("a/weight") + struct.pack("<BIIBI", 2, 2, 2, 1, 4) + rows.tobytes()
    out += text("a/weight_scale") + struct.pack("<BIBI", 1, 2, 0, 8) + scale.tobytes() + struct.pack("<I", 0)
    (tmp_path / "model.bin").write_bytes(out)
    weights = object.__new__(whisper.Weights)
    weights._variables = ctranslate2.read(tmp_path / "model.bin")[1]
    np.testing.assert_allclose(weights["a/weight"], [[1, -2], [0.5, 4 / 254]])


@pytest.mark.parametrize(
    ("damage", "sentence"),
    [
        (lambda data: data[: len(data) // 2], "not a CTranslate2 model of version 6"),
        (lambda data: b"\x05" + data[1:], "its version is 5"),
        (lambda data: data.replace(b"WhisperSpec", b"TransfoSpec"), "a TransfoSpec model, not a Whisper"),
        (
            lambda data: data.replace(b"encoder/conv1/bias", b"encoder/conv1/bios"),
            "lacks the variable encoder/conv1/bias",
        ),
        (lambda data: b"", "not a CTranslate2 model"),
    ],
    ids=["cut", "version", "specification", "variable", "empty"],
)
def test_a_file_that_cannot_be_used_is_refused_with_the_reason(tiny, tmp_path, damage, sentence):
    data = (tiny[0] / "model.bin").read_bytes()
    (tmp_path / "model.bin").write_bytes(damage(data))
    with pytest.raises(ModelError, match=sentence):
        whisper.export(tmp_path, tmp_path)


def test_a_folder_without_a_tokenizer_is_refused(tiny, tmp_path):
    (tmp_path / "model.bin").write_bytes((tiny[0] / "model.bin").read_bytes())
    with pytest.raises(ModelError, match="tokenizer.json"):
        whisper.export(tmp_path, tmp_path)
