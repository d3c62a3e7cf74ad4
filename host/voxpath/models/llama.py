"""Llama-family GGUF files with a byte-level tokenizer (SmolLM, Llama 3 and their fine-tunes) as ONNX.

`export` writes into a folder
    model.onnx       (ids [1, n], rows [r], lengths, cache) -> logits [1, r, vocabulary], the cache grown by n tokens
    tokenizer.json   the file's byte-pair encoding in the format of the `tokenizers` package
    model.json       Description, as JSON

With `room`, for a GPU, the cache has that many places and is written in place, and the network chooses the likeliest
token itself, as voxpath.models.whisper_gpu's decoder does: a step needs nothing from the host.

On the CPU linear layers become MatMulNBits, which multiplies blocks of small integers. Weights stored as Q4_0, Q4_1
or Q8_0 keep exactly their bits; every other type is rounded to 8 bits a value, with a scale for each 32. What still
differs from float32 is the rounding of activations, to 8 bits or, where that changes most of what is said, to 16
(`tests/bench/weights.py`, docs/models.md).
"""

from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, ReaderTensor, dequantize
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from voxpath.errors import ModelError
from voxpath.models import description
from voxpath.models.blocks import BLOCK, Blocks, in_two_parts, look_up, multiply, round_to_eight_bits
from voxpath.models.graph import MICROSOFT, Graph


@dataclass(frozen=True)
class Description:
    """What a runner must know about an exported language model."""

    name: str
    layers: int
    kv_heads: int
    head_size: int
    vocabulary: int
    context: int  # tokens the model was trained to look back over
    bos: int | None  # a token to begin every context with, if the model wants one
    stop: list[int]  # tokens that end a turn
    turn_start: str  # a chat turn is turn_start (with {role} filled in), the text, turn_end
    turn_end: str


@dataclass(frozen=True)
class Shape:
    """Dimensions, all read from the file's metadata."""

    layers: int
    width: int
    heads: int
    kv_heads: int
    head_size: int
    rotary: int
    base: float
    epsilon: float
    context: int


# Chat templates by the token that gives them away in the file's Jinja template: turn start, turn end, the stop token.
_TEMPLATES = {
    "<|im_start|>": ("<|im_start|>{role}\n", "<|im_end|>\n", "<|im_end|>"),
    "<|start_header_id|>": ("<|start_header_id|>{role}<|end_header_id|>\n\n", "<|eot_id|>", "<|eot_id|>"),
}

_EMBEDDING = "token_embd.weight"
_PARTS = ("attn_norm", "attn_q", "attn_k", "attn_v", "attn_output", "ffn_norm", "ffn_gate", "ffn_up", "ffn_down")
_OPTIONAL = {"output.weight", "rope_freqs.weight"}
_FOUR_BITS = (GGMLQuantizationType.Q4_0, GGMLQuantizationType.Q4_1)
_TOO_LARGE = 1 << 31  # values: a byte for each must stay under the 2 GiB of a tensor in ONNX

_GPT2_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def export(
    gguf: Path,
    folder: Path,
    *,
    form: "Form | None" = None,
    room: int | None = None,
    kind: "type[Network] | None" = None,
) -> Description:
    """Convert the file `gguf` into `folder`, its matrices in the given form: IN_BLOCKS unless another is named.

    With `room` the network chooses tokens itself, within a cache of so many (or of the model's context). `kind` is
    llama_plain.PlainNetwork for a network of standard operators alone.

    Raises ModelError if the file is not a complete chat model of the Llama family with a byte-level tokenizer.
    """
    reader = _open(gguf)
    fields = {name: field.contents() for name, field in reader.fields.items()}
    architecture = fields.get("general.architecture")
    if architecture != "llama":
        raise ModelError(f"{gguf} holds a {architecture!r} model; only Llama-family GGUF files can be converted.")
    if fields.get("split.count", 1) > 1:
        raise ModelError(f"{gguf} is one of {fields['split.count']} parts: join them with `llama-gguf-split --merge`.")
    shape = _shape(fields, gguf)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    _check_tensors(tensors, shape, gguf)
    tokenizer = _tokenizer(fields, gguf)
    described = _describe(fields, shape, len(tensors[_head(tensors)].data), tokenizer, gguf)
    made = (kind or Network)(shape, tensors, form or IN_BLOCKS, room and min(room, shape.context)).build()
    made.save(folder / "model.onnx")
    tokenizer.save(str(folder / "tokenizer.json"))
    description.write(described, folder)
    return described


def _open(gguf: Path) -> GGUFReader:
    try:
        with open(gguf, "rb") as file:
            magic = file.read(4)
    except OSError as error:
        raise ModelError(f"{gguf} cannot be read ({error.strerror}): name a GGUF file.") from error
    if magic != b"GGUF":
        raise ModelError(f"{gguf} is not a GGUF file.")
    try:
        return GGUFReader(gguf)
    except Exception as error:  # the reader's errors have no common base but this
        raise ModelError(f"{gguf} is cut short or damaged ({error}): fetch it again.") from error


def _shape(fields: dict, gguf: Path) -> Shape:
    def get(key, default=None):
        value = fields.get(f"llama.{key}", default)
        if value is None:
            raise ModelError(f"{gguf} lacks the field llama.{key}.")
        return value

    if get("rope.scaling.type", "none") != "none":
        raise ModelError(f"{gguf} stretches its positions ({get('rope.scaling.type')}), which is not supported.")
    width, heads = get("embedding_length"), get("attention.head_count")
    head_size = get("attention.key_length", width // heads)
    return Shape(
        layers=get("block_count"),
        width=width,
        heads=heads,
        kv_heads=get("attention.head_count_kv", heads),
        head_size=head_size,
        rotary=get("rope.dimension_count", head_size),
        base=get("rope.freq_base", 10000.0),
        epsilon=get("attention.layer_norm_rms_epsilon"),
        context=get("context_length"),
    )


def _head(tensors: dict) -> str:
    """The matrix that makes logits; small models use the embedding again."""
    return "output.weight" if "output.weight" in tensors else _EMBEDDING


def _check_tensors(tensors: dict, shape: Shape, gguf: Path) -> None:
    """All that a Llama has must be there, and nothing else: a bias or an expert left out would change what it says."""
    wanted = {_EMBEDDING, "output_norm.weight"}
    wanted |= {f"blk.{layer}.{part}.weight" for layer in range(shape.layers) for part in _PARTS}
    missing, unknown = wanted - tensors.keys(), tensors.keys() - wanted - _OPTIONAL
    if missing:
        raise ModelError(f"{gguf} lacks {len(missing)} of a Llama's tensors, among them {min(missing)}.")
    if unknown:
        raise ModelError(f"{gguf} has {len(unknown)} tensors that a plain Llama has not, among them {min(unknown)}.")
    for name, tensor in tensors.items():
        if tensor.n_elements >= _TOO_LARGE:
            raise ModelError(
                f"{gguf} is too large: ONNX holds no tensor of 2 GiB, and {name} has {tensor.n_elements} values."
            )
        if len(tensor.shape) > 1 and tensor.shape[0] % BLOCK:
            raise ModelError(f"{gguf} has in {name} {tensor.shape[0]} inputs, which is not a multiple of {BLOCK}.")


# ---- the forms of a matrix -------------------------------------------------------------------------------------------


class Form(NamedTuple):
    """How matrices are stored and multiplied by; a tensor holds [outputs, inputs]."""

    # (graph, ids [1, n], tensor) -> its rows [1, n, inputs]
    look_up: Callable[[Graph, str, ReaderTensor], str]
    # (graph, x [1, n, inputs], tensors) -> x times each of them transposed, one behind the other [1, n, all outputs]
    multiply: Callable[[Graph, str, list[ReaderTensor]], str]
    number: str = "float32"  # of activations and cache


def floats(tensor: ReaderTensor) -> np.ndarray:
    """A tensor [outputs, inputs] (or [n]) as float32, whatever it is stored as. Raises ModelError if it cannot be."""
    try:
        return dequantize(tensor.data, tensor.tensor_type).astype(np.float32)
    except NotImplementedError:
        raise ModelError(
            f"The tensor {tensor.name} is stored as {tensor.tensor_type.name}, which is unknown."
        ) from None


def unrounded(number: str) -> Form:
    """Matrices as numbers of a type, "float32" or "float16", and so the activations."""

    def look_up_numbers(graph: Graph, ids: str, tensor: ReaderTensor) -> str:
        return graph.op("Gather", graph.weight(tensor.name, floats(tensor).astype(number)), ids)

    def multiply_numbers(graph: Graph, x: str, tensors: list[ReaderTensor]) -> str:
        matrix = np.concatenate([floats(tensor) for tensor in tensors]).astype(number)
        return graph.op("MatMul", x, graph.weight(f"{tensors[0].name}.T", matrix.T))

    return Form(look_up_numbers, multiply_numbers, number)


def _look_up_blocks(graph: Graph, ids: str, tensor: ReaderTensor) -> str:
    """Kept as 8 bits whatever it was, since only a few rows are ever made floats."""
    return look_up(graph, ids, tensor.name, eight_bits(tensor))


def in_blocks(fine: Callable[[str], bool]) -> Form:
    """Q4_0 and Q4_1 as 4 bits, the others as 8; activations of 16 bits into the tensors for which `fine(name)`, else 8.

    A 4-bit weight is scale * (q - 8) + offset, exactly, with q the stored bits. MatMulNBits does the first term. The
    second is the same for a whole block, so it needs only the sums of the inputs over each block: a product a
    thirty-second of the size.
    """

    def multiply_blocks(graph: Graph, x: str, tensors: list[ReaderTensor]) -> str:
        four_bits = [tensor.tensor_type in _FOUR_BITS for tensor in tensors]
        if any(four_bits) and not all(four_bits):
            return graph.op("Concat", *(multiply_blocks(graph, x, [tensor]) for tensor in tensors), axis=-1)
        name, inputs = tensors[0].name, int(tensors[0].shape[0])
        activations, offset = in_two_parts(graph, x, inputs) if fine(name) else x, []
        if all(four_bits):
            nibbles, scales, offsets = _joined([unpack_four_bits(tensor) for tensor in tensors])
            # Under a name of its own: where the embedding is the head as well, it has been stored as 8 bits.
            packed = nibbles[..., 0::2] | nibbles[..., 1::2] << 4
            products = multiply(graph, activations, f"{name}.4bit", 4, packed, scales)
            if offsets.any():
                blocks = graph.reshape(x, 0, 0, inputs // BLOCK, BLOCK)
                sums = graph.op("ReduceSum", blocks, graph.ints(-1), keepdims=0)
                offset = [graph.op("MatMul", sums, graph.weight(f"{name}.offset", offsets.T))]
        else:
            products = multiply(graph, activations, name, 8, *_joined([eight_bits(tensor) for tensor in tensors]))
        terms = [products]
        if fine(name):
            terms = [f"{products}.coarse", f"{products}.rest"]
            graph.op("Split", products, out=terms, axis=1, num_outputs=2)
        terms += offset
        return graph.op("Sum", *terms) if len(terms) > 1 else products

    return Form(_look_up_blocks, multiply_blocks)


def is_sensitive(name: str) -> bool:
    """Whether rounding what goes into a tensor changes a reply most, for the time that finer rounding costs."""
    return name in ("output.weight", _EMBEDDING) or name.endswith(("attn_q.weight", "attn_k.weight", "attn_v.weight"))


def _joined(matrices: list[tuple]) -> list[np.ndarray]:
    """The arrays of several matrices, each kind one behind the other."""
    return [np.concatenate(arrays) for arrays in zip(*matrices, strict=True)]


def eight_bits(tensor: ReaderTensor) -> Blocks:
    """A tensor as blocks of 8 bits: exactly its own if it is stored as Q8_0, else rounded."""
    if tensor.tensor_type == GGMLQuantizationType.Q8_0:
        return unpack_eight_bits(tensor)
    return round_to_eight_bits(floats(tensor))


EXACT = unrounded("float32")  # large and slow: what other forms are judged by
HALF = unrounded("float16")  # for GPUs
IN_BLOCKS = in_blocks(is_sensitive)


# ---- the network -----------------------------------------------------------------------------------------------------


class Network:
    """The graph of tensors by their GGUF names, [outputs, inputs] each, in operators of ONNX Runtime's own."""

    def __init__(self, shape: Shape, tensors: dict, form: Form, room: int | None):
        self.shape = shape
        self.room = room
        self.tensors = tensors
        self.form = form
        self.graph = Graph("llama")

    def linear(self, x: str, *names: str) -> str:
        """x [1, n, inputs] times tensors [outputs, inputs], transposed; the outputs one behind the other."""
        return self.form.multiply(self.graph, x, [self.tensors[name] for name in names])

    def norm(self, name: str, x: str, addend: str | None, tag: str) -> tuple[str, str]:
        """Root-mean-square norm of x + addend. Returns it and the sum."""
        g, epsilon = self.graph, self.shape.epsilon
        weight = g.weight(name, floats(self.tensors[name]).astype(self.form.number))
        if addend is None:
            return g.op("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=epsilon), x
        normed, total = f"{tag}.norm", f"{tag}.sum"
        outputs = [normed, "", "", total]
        g.op("SkipSimplifiedLayerNormalization", x, addend, weight, out=outputs, domain=MICROSOFT, epsilon=epsilon)
        return normed, total

    def attention(self, x: str, layer: int, tables: tuple[str, str]) -> str:
        """Grouped-query attention with its rotary embedding and its part of the cache, all heads side by side."""
        g, s, block = self.graph, self.shape, f"blk.{layer}"
        past, present = [f"past_{kind}{layer}" for kind in "kv"], [f"present_{kind}{layer}" for kind in "kv"]
        for before, after in zip(past, present, strict=True):
            g.input(before, self.form.number, [1, s.kv_heads, self.room or "past", s.head_size])
            g.output(after, self.form.number, [1, s.kv_heads, self.room or "present", s.head_size])
        qkv = self.linear(x, *(f"{block}.attn_{kind}.weight" for kind in "qkv"))
        mixed = f"{block}.mixed"
        # llama.cpp stores queries and keys for the interleaved form of the rotary embedding.
        g.op(
            "GroupQueryAttention",
            qkv, "", "", *past, "last_index", "total", *tables,
            out=[mixed, *present], domain=MICROSOFT,
            num_heads=s.heads, kv_num_heads=s.kv_heads, do_rotary=1, rotary_interleaved=1,
        )  # fmt: skip
        return mixed

    def feed_forward(self, x: str, layer: int) -> str:
        """down(silu(gate(x)) * up(x))."""
        g, block = self.graph, f"blk.{layer}"
        gate, up = g.split(self.linear(x, f"{block}.ffn_gate.weight", f"{block}.ffn_up.weight"), 2)
        return self.linear(g.op("Mul", self.silu(gate), up), f"{block}.ffn_down.weight")

    def silu(self, x: str) -> str:
        """x * sigmoid(x)."""
        return self.graph.op("QuickGelu", x, domain=MICROSOFT, alpha=1.0)

    def rotary_tables(self) -> tuple[str, str]:
        """Cosines and sines [context, rotary / 2] of position times frequency."""
        frequency = self.shape.base ** -(np.arange(0, self.shape.rotary, 2) / self.shape.rotary)
        if "rope_freqs.weight" in self.tensors:  # Llama 3.1: long waves are stretched further
            frequency = frequency / floats(self.tensors["rope_freqs.weight"])
        angle = np.arange(self.shape.context)[:, None] * frequency
        g, number = self.graph, self.form.number
        return g.weight("cosines", np.cos(angle).astype(number)), g.weight("sines", np.sin(angle).astype(number))

    def places(self) -> None:
        """The inputs that say where the new tokens are in the context."""
        self.graph.input("last_index", "int32", [1])  # index of the newest token in the whole context
        self.graph.input("total", "int32", [])  # tokens in the context, the n new ones included

    def choose(self) -> None:
        """The outputs of a network that chooses tokens."""
        self.graph.choose("logits", "last_index", "int32")

    def build(self) -> Graph:
        """All of it."""
        g = self.graph
        ids = g.input("ids", "int64", [1, "n"])
        rows = g.input("rows", "int64", ["rows"])  # which of the n places logits are wanted for
        self.places()
        tables = self.rotary_tables()
        x, addend = self.form.look_up(g, ids, self.tensors[_EMBEDDING]), None
        for layer in range(self.shape.layers):
            normed, x = self.norm(f"blk.{layer}.attn_norm.weight", x, addend, f"blk.{layer}.attn")
            mixed = self.attention(normed, layer, tables)
            if layer == self.shape.layers - 1:  # nothing after it looks at the other places
                mixed, x = (g.op("Gather", part, rows, axis=1) for part in (mixed, x))
            addend = self.linear(mixed, f"blk.{layer}.attn_output.weight")
            normed, x = self.norm(f"blk.{layer}.ffn_norm.weight", x, addend, f"blk.{layer}.ffn")
            addend = self.feed_forward(normed, layer)
        normed, _ = self.norm("output_norm.weight", x, addend, "output")
        head = _head(self.tensors)
        logits = self.linear(normed, head)
        g.op("Identity", logits if self.form.number == "float32" else g.cast(logits, "float32"), out="logits")
        g.output("logits", "float32", [1, "rows", len(self.tensors[head].data)])
        if self.room:
            self.choose()
        return g


def unpack_four_bits(tensor) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Q4_0 and Q4_1 blocks taken apart, without rounding: w = scale * (nibble - 8) + offset.

    A block of 32 is an fp16 scale, for Q4_1 an fp16 minimum, and 16 bytes: value i in the low half of byte i, value
    i + 16 in its high half. Returns nibbles uint8 [outputs, blocks, 32], scales and offsets float32 [outputs, blocks].
    """
    has_minimum = tensor.tensor_type == GGMLQuantizationType.Q4_1
    header = 4 if has_minimum else 2
    blocks = tensor.data.reshape(tensor.data.shape[0], -1, header + BLOCK // 2)
    floats = np.ascontiguousarray(blocks[..., :header]).view(np.float16).astype(np.float32)
    packed = blocks[..., header:]
    scales = floats[..., 0]
    offsets = floats[..., 1] + 8 * scales if has_minimum else np.zeros_like(scales)
    return np.concatenate([packed & 15, packed >> 4], axis=-1), scales, offsets


def unpack_eight_bits(tensor) -> Blocks:
    """Q8_0 blocks taken apart, without rounding: a block of 32 is an fp16 scale and 32 signed bytes."""
    blocks = tensor.data.reshape(tensor.data.shape[0], -1, 2 + BLOCK)
    scales = np.ascontiguousarray(blocks[..., :2]).view(np.float16).astype(np.float32)[..., 0]
    return Blocks(blocks[..., 2:] ^ 128, scales, np.full(scales.shape, 128, np.uint8))  # flipping the sign bit adds 128


def _tokenizer(fields: dict, gguf: Path) -> Tokenizer:
    """The file's byte-level byte-pair encoding; its control tokens are recognised in text."""
    kind = fields.get("tokenizer.ggml.model")
    if kind is None:
        raise ModelError(f"{gguf} has no tokenizer: a complete GGUF file is needed, not one of weights alone.")
    if kind != "gpt2":
        raise ModelError(f"{gguf} has a {kind!r} tokenizer; only byte-level pair encodings can be used.")
    try:
        tokens, kinds, pairs = (fields[f"tokenizer.ggml.{part}"] for part in ("tokens", "token_type", "merges"))
    except KeyError as error:
        raise ModelError(f"{gguf} has an incomplete tokenizer: it lacks the field {error.args[0]}.") from None
    merges = [tuple(pair.split(" ")) for pair in pairs]
    tokenizer = Tokenizer(models.BPE(vocab={text: i for i, text in enumerate(tokens)}, merges=merges))
    family = fields.get("tokenizer.ggml.pre", "gpt-2")
    words = _LLAMA3_WORDS if family in ("llama-bpe", "llama3", "llama-v3") else _GPT2_WORDS
    steps = [pre_tokenizers.Split(Regex(words), "isolated"), pre_tokenizers.ByteLevel(False, use_regex=False)]
    if family == "smollm":
        steps.insert(0, pre_tokenizers.Digits(individual_digits=True))
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence(steps)
    tokenizer.decoder = decoders.ByteLevel()
    control = [text for text, kind in zip(tokens, kinds, strict=True) if kind == 3]
    tokenizer.add_special_tokens([AddedToken(text, special=True, normalized=False) for text in control])
    return tokenizer


def _describe(fields: dict, shape: Shape, vocabulary: int, tokenizer: Tokenizer, gguf: Path) -> Description:
    template = fields.get("tokenizer.chat_template", "")
    form = next((form for mark, form in _TEMPLATES.items() if mark in template), None)
    if form is None:
        raise ModelError(f"{gguf} has no chat template of a known kind (ChatML, Llama 3): an instruct model is needed.")
    turn_start, turn_end, stop = form
    ends = {fields.get("tokenizer.ggml.eos_token_id"), tokenizer.token_to_id(stop)} - {None}
    wants_bos = fields.get("tokenizer.ggml.add_bos_token", False)
    return Description(
        name=str(fields.get("general.name", gguf.stem)),
        layers=shape.layers,
        kv_heads=shape.kv_heads,
        head_size=shape.head_size,
        vocabulary=vocabulary,
        context=shape.context,
        bos=fields.get("tokenizer.ggml.bos_token_id") if wants_bos else None,
        stop=sorted(int(token) for token in ends),
        turn_start=turn_start,
        turn_end=turn_end,
    )


def read_description(folder: Path) -> Description:
    """What `export` wrote about the model in `folder`. Raises ModelError."""
    return description.read(Description, folder)
