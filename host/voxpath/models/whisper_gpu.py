"""Whisper for a GPU: from samples to tokens with fixed shapes, so that each step can be replayed as one CUDA Graph.

`export` writes into a folder
    encoder.onnx     pcm [1, samples] of the whole context (30 s), features included
                     -> for each decoder layer its keys and values of the audio
    decoder.onnx     (ids [1, n], start [1], offsets [n], rows [r], never [r, vocabulary], the audio, past keys and
                     values) -> token [1, r], logprob [1, r], no_speech [1, r], next [1], past with the new ones
    tokenizer.json   as it came
    model.json       whisper.Description, as JSON

The decoder's memory has room for all the tokens that the model can write, and is written in place. It chooses the
likeliest token itself and says where the next one goes: bound to its own inputs, a step needs nothing from the host.
Only standard operators are used.
"""

import shutil
from pathlib import Path

import numpy as np

from voxpath.engines.mel import HOP, WINDOW, mel_filters
from voxpath.models import description
from voxpath.models.graph import Graph
from voxpath.models.room import Room
from voxpath.models.whisper import Builder, Description, Weights, describe, listen, write


def samples(described: Description) -> int:
    """How long the encoder's `pcm` is: half a window, reflected, stands before the sound."""
    return (described.max_frames - 1) * HOP + WINDOW


def export(source: Path, folder: Path, *, encoder: str = "float16", decoder: str = "float16") -> Description:
    """Convert the CTranslate2 folder `source` into `folder`. Raises ModelError if it is not such a model.

    Each network is "float16" or "float32"; the decoder's weights can also be "blocks" of 8 bits, multiplied as floats.
    """
    weights = Weights(source / "model.bin")
    described = describe(source, weights)
    nets = Builder("encoder", weights, encoder), Builder("decoder", weights, decoder)
    for net in nets:
        net.audio = weights.positions
    _encoder(nets[0], described, nets[1].number).save(folder / "encoder.onnx")
    _decoder(nets[1], described).save(folder / "decoder.onnx")
    shutil.copyfile(source / "tokenizer.json", folder / "tokenizer.json")
    description.write(described, folder)
    return described


def _encoder(net: Builder, described: Description, number: str) -> Graph:
    pcm = net.graph.input("pcm", "float32", [1, samples(described)])
    listen(net, net.graph.cast(_log_mel(net.graph, pcm, described), net.number), number)
    return net.graph


def _log_mel(g: Graph, pcm: str, described: Description) -> str:
    """Features [1, bins, frames] as voxpath.engines.mel makes them; the Fourier transform is a convolution."""
    angle = 2 * np.pi * np.arange(WINDOW // 2 + 1)[:, None] * np.arange(WINDOW) / WINDOW
    hann = 0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)
    waves = np.concatenate([np.cos(angle), -np.sin(angle)])[:, None] * hann
    x = g.op("Unsqueeze", pcm, g.ints(1))
    x = g.op("Conv", x, g.weight("fourier", waves.astype(np.float32)), kernel_shape=[WINDOW], strides=[HOP])
    real, imaginary = (f"{x}.real", f"{x}.imaginary")
    g.op("Split", x, out=[real, imaginary], axis=1, num_outputs=2)
    power = g.op("Add", g.op("Mul", real, real), g.op("Mul", imaginary, imaginary))
    x = g.op("MatMul", g.weight("mel", mel_filters(described.mel_bins)), power)
    x = g.op("Log", g.op("Max", x, g.constant(1e-10)))
    x = g.op("Mul", x, g.constant(1 / np.log(10)))
    loudest = g.op("ReduceMax", x, g.ints(0, 1, 2), keepdims=1)
    x = g.op("Max", x, g.op("Sub", loudest, g.constant(8.0)))
    return g.op("Mul", g.op("Add", x, g.constant(4.0)), g.constant(0.25))


def _decoder(net: Builder, described: Description) -> Graph:
    g, weights = net.graph, net.weights
    ids, rows = g.input("ids", "int64", [1, "n"]), g.input("rows", "int64", ["rows"])
    never = g.input("never", "float32", ["rows", described.vocabulary])
    room = Room(g, described.max_tokens, net.number)

    def remember(name: str, new: str) -> str:
        return room.remember(name, new, weights.heads, weights.head_size)

    logits = g.cast(write(net, ids, room.positions, room.mask, rows, remember), "float32")
    silence = g.op("Gather", g.op("LogSoftmax", logits, axis=-1), g.constant(described.no_speech, np.int64), axis=-1)
    g.op("Exp", silence, out="no_speech")
    allowed = g.op("LogSoftmax", g.op("Add", logits, never), axis=-1)
    g.choose(allowed, "start", "int64")
    # Not ReduceMax, which takes ONNX Runtime's GPU provider milliseconds for more than one row.
    best = g.op("GatherElements", allowed, g.op("Unsqueeze", "token", g.ints(-1)), axis=-1)
    g.op("Squeeze", best, g.ints(-1), out="logprob")
    for name in ("logprob", "no_speech"):
        g.output(name, "float32", [1, "rows"])
    return g
