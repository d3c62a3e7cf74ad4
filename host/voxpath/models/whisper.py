"""Whisper models in CTranslate2's format as two ONNX graphs, with the decoder's memory as inputs and outputs.

`export` writes into a folder
    encoder.onnx     mel [1, bins, frames] -> for each decoder layer its keys and values of the audio
    decoder.onnx     (ids [1, n], positions [n], mask [1, 1, n, total], rows [r], audio and past keys and values)
                     -> logits [1, r, vocabulary] and the keys and values of all `total` tokens so far
    tokenizer.json   as it came
    model.json       Description, as JSON

The audio's context may have any even number of frames up to the 3,000 (30 s) that the model was trained on.
"""

import json
import shutil
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from voxpath.errors import ModelError
from voxpath.models import ctranslate2, description
from voxpath.models.blocks import look_up, multiply, round_to_eight_bits
from voxpath.models.graph import MICROSOFT, Graph

_EPSILON = 1e-5  # of the layer norms
_GELU = 3  # CTranslate2's number for it


@dataclass(frozen=True)
class Description:
    """What a runner must know about an exported Whisper."""

    name: str
    layers: int  # of the decoder
    heads: int
    head_size: int
    mel_bins: int
    max_frames: int
    max_tokens: int
    vocabulary: int
    prompt: list[int]  # tokens that ask for a transcript without time stamps
    previous: int  # begins the text that came before
    end: int
    no_speech: int
    suppress: list[int]  # never written
    suppress_first: list[int]  # never written first


def export(source: Path, folder: Path, *, encoder: str = "float32", decoder: str = "int8") -> Description:
    """Convert the CTranslate2 folder `source` into `folder`.

    A graph is "float32", as stored, or "int8". The encoder's int8 rounds each weight column and each whole activation
    (fast where the processor has 8-bit dot products, see `cpu`); the decoder's rounds blocks of 32, which is nearly
    exact. Raises ModelError if `source` is not such a model.
    """
    weights = Weights(source / "model.bin")
    described = describe(source, weights)
    _encoder(weights, encoder).save(folder / "encoder.onnx")
    _decoder(weights, decoder).save(folder / "decoder.onnx")
    shutil.copyfile(source / "tokenizer.json", folder / "tokenizer.json")
    description.write(described, folder)
    return described


def read_description(folder: Path) -> Description:
    """What `export` wrote about the model in `folder`. Raises ModelError."""
    return description.read(Description, folder)


class Weights:
    """The variables of the file as float32, and the dimensions that follow from them."""

    def __init__(self, path: Path):
        specification, self._variables = ctranslate2.read(path)
        if specification != "WhisperSpec":
            raise ModelError(f"{path} holds a {specification} model, not a Whisper.")
        if int(self._variables.get("decoder/activation", _GELU)) != _GELU:
            raise ModelError(f"{path} uses an activation other than GELU.")
        self.width = self["encoder/conv1/bias"].size
        self.heads = int(self._variables["encoder/num_heads"])
        self.head_size = self.width // self.heads
        self.mel_bins = self["encoder/conv1/weight"].shape[1]
        self.positions = len(self["encoder/position_encodings/encodings"])
        self.max_tokens = len(self["decoder/position_encodings/encodings"])
        self.vocabulary = len(self["decoder/embeddings/weight"])

    def __getitem__(self, name: str) -> np.ndarray:
        try:
            value = self._variables[name]
        except KeyError:
            raise ModelError(f"The model file lacks the variable {name}.") from None
        if value.dtype == np.int8:  # quantised by rows when it was converted
            return value.astype(np.float32) / self._variables[f"{name}_scale"].astype(np.float32)[:, None]
        return value.astype(np.float32)

    def layers(self, side: str) -> int:
        """How many layers the encoder or the decoder has."""
        return len(
            {name.split("/")[1] for name in self._variables if name.startswith(f"{side}/layer_")} - {"layer_norm"}
        )


class Builder:
    """The blocks of a transformer with CTranslate2's names for the weights."""

    def __init__(self, name: str, weights: Weights, precision: str):
        self.graph = Graph(name)
        self.weights = weights
        self.precision = precision  # "float32", "float16", "columns" or "blocks"
        self.number = "float16" if precision == "float16" else "float32"  # of activations
        self.audio: str | int = "audio"  # places of the encoded sound: a number, or a name where it varies

    def stored(self, name: str) -> str:
        """A variable as it is, in the number type of activations."""
        return self.graph.weight(name, self.weights[name].astype(self.number))

    def linear(self, x: str, name: str) -> str:
        """x times the transposed matrix `name`/weight [outputs, inputs], plus the bias if there is one."""
        g, matrix = self.graph, self.weights[f"{name}/weight"]
        if self.precision == self.number:
            y = g.op("MatMul", x, g.weight(f"{name}/weight.T", matrix.T.astype(self.number)))
        elif self.precision == "columns":
            scales = np.maximum(np.abs(matrix).max(1), 1e-12) / 127
            values = g.weight(f"{name}/weight.q", np.rint(matrix / scales[:, None]).astype(np.int8).T)
            y = g.op("DynamicQuantizeMatMul", x, values, g.weight(f"{name}/weight.scale", scales), domain=MICROSOFT)
        else:
            y = multiply(g, x, f"{name}/weight", 8, *round_to_eight_bits(matrix))
        if name == "decoder/embeddings":
            return y
        return g.op("Add", y, self.stored(f"{name}/bias"))

    def norm(self, x: str, name: str) -> str:
        gamma, beta = (self.stored(f"{name}/{part}") for part in ("gamma", "beta"))
        return self.graph.op("LayerNormalization", x, gamma, beta, axis=-1, epsilon=_EPSILON)

    def heads(self, x: str) -> str:
        """[1, n, width] -> [1, heads, n, head size]."""
        split = self.graph.reshape(x, 0, -1, self.weights.heads, self.weights.head_size)
        return self.graph.op("Transpose", split, perm=[0, 2, 1, 3])

    def attention(self, query: str, key: str, value: str, mask: str | None = None) -> str:
        """softmax(query key' / sqrt(head size) + mask) value, heads joined again."""
        g = self.graph
        scores = g.op("MatMul", query, g.op("Transpose", key, perm=[0, 1, 3, 2]))
        scores = g.op("Mul", scores, g.constant(self.weights.head_size**-0.5, self.number))
        if mask:
            scores = g.op("Add", scores, mask)
        mixed = g.op("MatMul", g.op("Softmax", scores, axis=-1), value)
        return g.reshape(g.op("Transpose", mixed, perm=[0, 2, 1, 3]), 0, -1, self.weights.width)

    def feed_forward(self, x: str, name: str) -> str:
        g = self.graph
        inner = g.op("Gelu", self.linear(self.norm(x, f"{name}/layer_norm"), f"{name}/linear_0"))
        return g.op("Add", x, self.linear(inner, f"{name}/linear_1"))


def _encoder(weights: Weights, precision: str) -> Graph:
    net = Builder("encoder", weights, "columns" if precision == "int8" else "float32")
    listen(net, net.graph.input("mel", "float32", [1, weights.mel_bins, "frames"]), "float32")
    return net.graph


def listen(net: Builder, x: str, number: str) -> None:
    """The encoder, from features [1, bins, frames] to the outputs that a decoder in that number type looks at."""
    g, weights = net.graph, net.weights
    for name, stride in (("encoder/conv1", 1), ("encoder/conv2", 2)):
        kernel, bias = (net.stored(f"{name}/{part}") for part in ("weight", "bias"))
        x = g.op("Gelu", g.op("Conv", x, kernel, bias, kernel_shape=[3], strides=[stride], pads=[1, 1]))
    x = g.op("Transpose", x, perm=[0, 2, 1])
    positions = net.stored("encoder/position_encodings/encodings")
    used = g.op("Slice", positions, g.ints(0), g.op("Shape", x, start=1, end=2), g.ints(0))
    x = g.op("Add", x, used)
    for layer in range(weights.layers("encoder")):
        name = f"encoder/layer_{layer}"
        fused = net.linear(net.norm(x, f"{name}/self_attention/layer_norm"), f"{name}/self_attention/linear_0")
        mixed = net.attention(*(net.heads(part) for part in g.split(fused, 3)))
        x = g.op("Add", x, net.linear(mixed, f"{name}/self_attention/linear_1"))
        x = net.feed_forward(x, f"{name}/ffn")
    x = net.norm(x, "encoder/layer_norm")
    for layer in range(weights.layers("decoder")):
        key, value = g.split(net.linear(x, f"decoder/layer_{layer}/attention/linear_1"), 2)
        for name, part in ((f"audio_k{layer}", key), (f"audio_v{layer}", value)):
            heads = net.heads(part)
            g.op("Identity", heads if number == net.number else g.cast(heads, number), out=name)
            g.output(name, number, [1, weights.heads, net.audio, weights.head_size])


def _decoder(weights: Weights, precision: str) -> Graph:
    net = Builder("decoder", weights, "blocks" if precision == "int8" else "float32")
    g = net.graph
    ids, positions = g.input("ids", "int64", [1, "n"]), g.input("positions", "int64", ["n"])
    mask, rows = g.input("mask", "float32", [1, 1, "n", "total"]), g.input("rows", "int64", ["rows"])

    def remember(name: str, new: str) -> str:
        """Past tokens' keys or values, and the new ones behind them."""
        past = g.input(f"past_{name}", "float32", [1, weights.heads, "past", weights.head_size])
        present = g.op("Concat", past, new, out=f"present_{name}", axis=2)
        g.output(present, "float32", [1, weights.heads, "total", weights.head_size])
        return present

    g.op("Identity", write(net, ids, positions, mask, rows, remember), out="logits")
    g.output("logits", "float32", [1, "rows", weights.vocabulary])
    return g


def write(net: Builder, ids: str, positions: str, mask: str, rows: str, remember: Callable[[str, str], str]) -> str:
    """The decoder: logits [1, rows, vocabulary]. `remember(name, new)` keeps keys or values, and gives all so far."""
    g, weights = net.graph, net.weights
    table = "decoder/embeddings/weight"
    if net.precision == "blocks":
        embedded = look_up(g, ids, table, round_to_eight_bits(weights[table]))
    else:
        embedded = g.op("Gather", net.stored(table), ids)
    places = net.stored("decoder/position_encodings/encodings")
    x = g.op("Add", embedded, g.op("Gather", places, positions))
    for layer in range(weights.layers("decoder")):
        name = f"decoder/layer_{layer}"
        fused = net.linear(net.norm(x, f"{name}/self_attention/layer_norm"), f"{name}/self_attention/linear_0")
        query, *new = (net.heads(part) for part in g.split(fused, 3))
        kept = [remember(f"{kind}{layer}", part) for kind, part in zip("kv", new, strict=True)]
        x = g.op("Add", x, net.linear(net.attention(query, *kept, mask), f"{name}/self_attention/linear_1"))
        query = net.heads(net.linear(net.norm(x, f"{name}/attention/layer_norm"), f"{name}/attention/linear_0"))
        audio = [
            g.input(f"audio_{kind}{layer}", net.number, [1, weights.heads, net.audio, weights.head_size])
            for kind in "kv"
        ]
        x = g.op("Add", x, net.linear(net.attention(query, *audio), f"{name}/attention/linear_2"))
        x = net.feed_forward(x, f"{name}/ffn")
    x = net.norm(g.op("Gather", x, rows, axis=1), "decoder/layer_norm")
    return net.linear(x, "decoder/embeddings")


def describe(source: Path, weights: Weights) -> Description:
    """What the folder `source` says about its model. Raises ModelError."""
    try:
        config = json.loads((source / "config.json").read_text())
        listed = json.loads((source / "tokenizer.json").read_text(encoding="utf-8"))["added_tokens"]
        tokens = {token["content"]: token["id"] for token in listed}
        start, end = tokens["<|startoftranscript|>"], tokens["<|endoftext|>"]
        previous, no_timestamps = tokens["<|startofprev|>"], tokens["<|notimestamps|>"]
        no_speech = tokens["<|nospeech|>" if "<|nospeech|>" in tokens else "<|nocaptions|>"]
    except (OSError, ValueError, KeyError) as error:
        raise ModelError(f"{source} lacks a readable config.json or a Whisper's tokenizer.json ({error}).") from error
    # Models of several languages are told which one and what to do with it; the English ones are not.
    english_only = end == 50256
    task = [] if english_only else [tokens["<|en|>"], tokens["<|transcribe|>"]]
    suppress = {*config.get("suppress_ids", []), *range(end + 1, weights.vocabulary)}
    return Description(
        name="Whisper " + ("English" if english_only else "multilingual") + f" {weights.width}",
        layers=weights.layers("decoder"),
        heads=weights.heads,
        head_size=weights.head_size,
        mel_bins=weights.mel_bins,
        max_frames=2 * weights.positions,
        max_tokens=weights.max_tokens,
        vocabulary=weights.vocabulary,
        prompt=[start, *task, no_timestamps],
        previous=previous,
        end=end,
        no_speech=no_speech,
        suppress=sorted(suppress - {end}),
        suppress_first=sorted(set(config.get("suppress_ids_begin", [])) | {end}),
    )
