"""A language model of Llama 3 8B's dimensions with random weights: what it says means nothing, how fast does.

Part of tests/bench/gpu.py. Dimensions: Grattafiori et al., "The Llama 3 Herd of Models" (2024), table 3.
"""

import tempfile
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
from gguf import GGMLQuantizationType
from rich.console import Console

from voxpath.engines.cuda.device import Gpu
from voxpath.engines.cuda.llama import Context
from voxpath.models.blocks import BLOCK, multiply
from voxpath.models.llama import Form, Network, Shape

SHAPE = Shape(
    layers=32, width=4096, heads=32, kv_heads=8, head_size=128, rotary=128, base=500000.0, epsilon=1e-5, context=8192
)
INNER, VOCABULARY = 14336, 128256
ROOM = 2048
PHRASE = 12  # tokens
PROMPT, WORDS = 200, 12  # tokens known before, and those that are only known at the end
_BLOCK = np.random.default_rng(0).standard_normal(1 << 20).astype(np.float16) * np.float16(0.02)


class _Matrix(SimpleNamespace):
    """A tensor as far as voxpath.models.llama looks at it: inputs and outputs, no values."""


def measure(engines, sounds, console: Console) -> dict:
    """For each precision: ms a token, bytes of weights read a second, and the chain with it in the model's place."""
    found = {}
    for precision in ("float16", "4 bits"):
        with console.status(f"making the model in {precision}"), tempfile.TemporaryDirectory() as folder:
            path = Path(folder) / "model.onnx"
            size = _make(path, precision)
            gpu = Gpu("large")
            session = gpu.run(gpu.load, path)
        description = SimpleNamespace(
            layers=SHAPE.layers, kv_heads=SHAPE.kv_heads, head_size=SHAPE.head_size, vocabulary=VOCABULARY
        )
        language = SimpleNamespace(
            gpu=gpu, session=session, description=description, number=np.float16, room=ROOM, tokenizer=None
        )
        context = Context(language)
        tokens = [int(t) for t in np.random.default_rng(1).integers(1, VOCABULARY, PROMPT + WORDS)]
        context.extend(tokens[:PROMPT])
        began = time.perf_counter()
        count = sum(1 for _ in context.generate(stop=[], limit=200))
        per_token = (time.perf_counter() - began) / count
        taken = [_turn(engines, sound, context, tokens) for sound in sounds]
        found[precision] = {
            "token ms": 1e3 * per_token,
            "weights": size,
            "bytes a second": size / per_token,
            "chain_ms": {"p50": 1e3 * float(np.median(taken)), "p95": 1e3 * float(np.percentile(taken, 95))},
            "n": len(taken),
        }
        chain = found[precision]["chain_ms"]
        console.print(
            f"8B in {precision}: {1e3 * per_token:.2f} ms a token, {size / per_token / 1e12:.2f} TB/s; "
            f"chain with a phrase of {PHRASE} tokens {chain['p50']:.1f} ms, P95 {chain['p95']:.1f}",
            highlight=False,
        )
        del context, session, language
    return found


def _turn(engines, sound, context: Context, tokens: list[int]) -> float:
    """Seconds from all of a sound to the first of the reply's."""
    recogniser, _, voice = engines
    context.truncate(PROMPT)
    context.probability(0)
    earlier = recogniser.transcribe(sound[: max(8000, len(sound) - 8000)])
    began = time.perf_counter()
    recogniser.transcribe(sound, guess=earlier.tokens)
    context.extend(tokens[PROMPT:])
    for _ in context.generate(stop=[], limit=PHRASE):
        pass
    next(voice.speak("Sure, I can help with that."))
    return time.perf_counter() - began


def _make(path: Path, precision: str) -> int:
    """Write the model; returns how many bytes of weights a token reads."""
    sizes = {"attn_q": (4096, 4096), "attn_k": (1024, 4096), "attn_v": (1024, 4096), "attn_output": (4096, 4096)}
    sizes |= {"ffn_gate": (INNER, 4096), "ffn_up": (INNER, 4096), "ffn_down": (4096, INNER)}
    ones = SimpleNamespace(data=np.ones(SHAPE.width, np.float32), tensor_type=GGMLQuantizationType.F32)
    tensors = {"output_norm.weight": ones}
    for name in ("token_embd.weight", "output.weight"):
        tensors[name] = _matrix(name, VOCABULARY, SHAPE.width)
    for layer in range(SHAPE.layers):
        for name in ("attn_norm", "ffn_norm"):
            tensors[f"blk.{layer}.{name}.weight"] = ones
        for name, (outputs, inputs) in sizes.items():
            full = f"blk.{layer}.{name}.weight"
            tensors[full] = _matrix(full, outputs, inputs)
    form = Form(_look_up, _multiply_halfs if precision == "float16" else _multiply_four_bits, "float16")
    Network(SHAPE, tensors, form, ROOM).build().save(path)
    read = sum(np.prod(tensor.shape) for name, tensor in tensors.items() if "embd" not in name and tensor is not ones)
    return int(read * (2 if precision == "float16" else 0.5 + 2 / BLOCK))


def _matrix(name: str, outputs: int, inputs: int) -> _Matrix:
    return _Matrix(name=name, shape=(inputs, outputs), data=range(outputs))


def _random(outputs: int, inputs: int) -> np.ndarray:
    return np.resize(_BLOCK, outputs * inputs).reshape(outputs, inputs)


def _look_up(graph, ids, tensor):
    inputs, outputs = tensor.shape
    return graph.op("Gather", graph.weight(tensor.name, _random(outputs, inputs)), ids)


def _multiply_halfs(graph, x, tensors):
    inputs, outputs = tensors[0].shape[0], sum(tensor.shape[1] for tensor in tensors)
    return graph.op("MatMul", x, graph.weight(f"{tensors[0].name}.T", _random(inputs, outputs)))


def _multiply_four_bits(graph, x, tensors):
    inputs, outputs = tensors[0].shape[0], sum(tensor.shape[1] for tensor in tensors)
    values = _random(outputs, inputs // 4).view(np.uint8).reshape(outputs, inputs // BLOCK, BLOCK // 2)
    scales = np.full((outputs, inputs // BLOCK), 0.002, np.float16)
    return multiply(graph, x, f"{tensors[0].name}.4bit", 4, values, scales)
