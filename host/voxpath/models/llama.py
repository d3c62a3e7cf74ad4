"""Llama-family GGUF files with a byte-level tokenizer (SmolLM, Llama 3 and their fine-tunes) as ONNX for the CPU.

`export` writes into a folder
    model.onnx       (ids [1, n], rows [r], lengths, cache) -> logits [1, r, vocabulary], the cache grown by n tokens
    tokenizer.json   the file's byte-pair encoding in the format of the `tokenizers` package
    model.json       Description, as JSON

Linear layers become MatMulNBits, which multiplies blocks of small integers by 8-bit activations. Weights stored as
Q4_0, Q4_1 or Q8_0 keep exactly their bits; every other type is rounded to 8 bits a value, with a scale for each 32.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
from gguf import GGMLQuantizationType, GGUFReader, dequantize
from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, pre_tokenizers

from voxpath.errors import ModelError
from voxpath.models import description
from voxpath.models.blocks import BLOCK, Blocks, look_up, multiply, round_to_eight_bits
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
class _Shape:
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

_GPT2_WORDS = r"'s|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+"
_LLAMA3_WORDS = (
    r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}"
    r"| ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+"
)


def export(gguf: Path, folder: Path, *, exact: bool = False) -> Description:
    """Convert the file `gguf` into `folder`. `exact` keeps every weight and product as float32: large and slow, the
    reference to judge the other form by. Raises ModelError if the file is not a Llama-family GGUF."""
    try:
        reader = GGUFReader(gguf)
    except (ValueError, OSError, IndexError) as error:
        raise ModelError(f"{gguf} is not a GGUF file that can be read ({error}).") from error
    fields = {name: field.contents() for name, field in reader.fields.items()}
    architecture = fields.get("general.architecture")
    if architecture != "llama":
        raise ModelError(f"{gguf} holds a {architecture!r} model; only Llama-family GGUF files can be converted.")
    shape = _shape(fields, gguf)
    tensors = {tensor.name: tensor for tensor in reader.tensors}
    vocabulary = _network(shape, tensors, exact).save_as(folder / "model.onnx")
    tokenizer = _tokenizer(fields, gguf)
    tokenizer.save(str(folder / "tokenizer.json"))
    described = _describe(fields, shape, vocabulary, tokenizer, gguf)
    description.write(described, folder)
    return described


def _shape(fields: dict, gguf: Path) -> _Shape:
    def get(key, default=None):
        value = fields.get(f"llama.{key}", default)
        if value is None:
            raise ModelError(f"{gguf} lacks the field llama.{key}.")
        return value

    if get("rope.scaling.type", "none") != "none":
        raise ModelError(f"{gguf} stretches its positions ({get('rope.scaling.type')}), which is not supported.")
    width, heads = get("embedding_length"), get("attention.head_count")
    head_size = get("attention.key_length", width // heads)
    return _Shape(
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


class _Network:
    """The graph while it is built."""

    def __init__(self, shape: _Shape, tensors: dict, exact: bool):
        self.shape = shape
        self.tensors = tensors
        self.exact = exact
        self.graph = Graph("llama")
        self._block_sums: dict[str, str] = {}

    def save_as(self, path: Path) -> int:
        """Write the graph; returns the size of the vocabulary."""
        self.graph.save(path)
        return len(self.tensors["token_embd.weight"].data)

    def floats(self, name: str) -> np.ndarray:
        """A tensor [outputs, inputs] (or [n]) as float32, whatever it is stored as."""
        tensor = self.tensors[name]
        return dequantize(tensor.data, tensor.tensor_type).astype(np.float32)

    def embed(self, ids: str) -> str:
        """Rows of the token embedding: kept as 8-bit blocks, since only a few rows are ever made floats."""
        g, name = self.graph, "token_embd.weight"
        if self.exact:
            return g.op("Gather", g.weight(name, self.floats(name)), ids)
        return look_up(g, ids, name, self._eight_bits(name))

    def linear(self, x: str, name: str) -> str:
        """x [1, n, inputs] times a tensor [outputs, inputs], transposed."""
        g = self.graph
        if self.exact:
            return g.op("MatMul", x, g.weight(f"{name}.T", self.floats(name).T))
        kind = self.tensors[name].tensor_type
        if kind in (GGMLQuantizationType.Q4_0, GGMLQuantizationType.Q4_1):
            return self._four_bits(x, name)
        return multiply(g, x, name, 8, *self._eight_bits(name))

    def _four_bits(self, x: str, name: str) -> str:
        """Q4_0 or Q4_1: w = scale * (q - 8) + offset, exactly, with q the stored 4 bits.

        MatMulNBits does the first term. The second is the same for a whole block, so it needs only the sums of the
        inputs over each block: a product a thirty-second of the size.
        """
        g = self.graph
        nibbles, scales, offsets = unpack_four_bits(self.tensors[name])
        y = multiply(g, x, name, 4, nibbles[..., 0::2] | nibbles[..., 1::2] << 4, scales)
        if not offsets.any():
            return y
        if x not in self._block_sums:
            in_blocks = g.reshape(x, 0, 0, scales.shape[1], BLOCK)
            self._block_sums[x] = g.op("ReduceSum", in_blocks, g.ints(-1), keepdims=0)
        return g.op("Add", y, g.op("MatMul", self._block_sums[x], g.weight(f"{name}.offset", offsets.T)))

    def _eight_bits(self, name: str) -> Blocks:
        tensor = self.tensors[name]
        if tensor.shape[0] % BLOCK:
            raise ModelError(f"The tensor {name} has {tensor.shape[0]} inputs, which is not a multiple of {BLOCK}.")
        if tensor.tensor_type == GGMLQuantizationType.Q8_0:
            return unpack_eight_bits(tensor)
        return round_to_eight_bits(self.floats(name))

    def norm(self, name: str, x: str, addend: str | None, tag: str) -> tuple[str, str]:
        """Root-mean-square norm of x + addend. Returns it and the sum."""
        g, weight, epsilon = self.graph, self.graph.weight(name, self.floats(name)), self.shape.epsilon
        if addend is None:
            return g.op("SimplifiedLayerNormalization", x, weight, axis=-1, epsilon=epsilon), x
        normed, total = f"{tag}.norm", f"{tag}.sum"
        outputs = [normed, "", "", total]
        g.op("SkipSimplifiedLayerNormalization", x, addend, weight, out=outputs, domain=MICROSOFT, epsilon=epsilon)
        return normed, total

    def attention(self, x: str, layer: int, tables: tuple[str, str]) -> str:
        """Grouped-query attention with its rotary embedding and its part of the cache."""
        g, s, block = self.graph, self.shape, f"blk.{layer}"
        past, present = [f"past_{kind}{layer}" for kind in "kv"], [f"present_{kind}{layer}" for kind in "kv"]
        for before, after in zip(past, present, strict=True):
            g.input(before, "float32", [1, s.kv_heads, "past", s.head_size])
            g.output(after, "float32", [1, s.kv_heads, "present", s.head_size])
        qkv = [self.linear(x, f"{block}.attn_{kind}.weight") for kind in "qkv"]
        mixed = f"{block}.mixed"
        # llama.cpp stores queries and keys for the interleaved form of the rotary embedding.
        g.op(
            "GroupQueryAttention",
            *qkv, *past, "last_index", "total", *tables,
            out=[mixed, *present], domain=MICROSOFT,
            num_heads=s.heads, kv_num_heads=s.kv_heads, do_rotary=1, rotary_interleaved=1,
        )  # fmt: skip
        return self.linear(mixed, f"{block}.attn_output.weight")

    def feed_forward(self, x: str, layer: int) -> str:
        """down(silu(gate(x)) * up(x))."""
        g, block = self.graph, f"blk.{layer}"
        gate, up = (self.linear(x, f"{block}.ffn_{kind}.weight") for kind in ("gate", "up"))
        silu = g.op("QuickGelu", gate, domain=MICROSOFT, alpha=1.0)  # x * sigmoid(1.0 * x)
        return self.linear(g.op("Mul", silu, up), f"{block}.ffn_down.weight")

    def rotary_tables(self) -> tuple[str, str]:
        """Cosines and sines [context, rotary / 2] of position times frequency."""
        frequency = self.shape.base ** -(np.arange(0, self.shape.rotary, 2) / self.shape.rotary)
        if "rope_freqs.weight" in self.tensors:  # Llama 3.1: long waves are stretched further
            frequency = frequency / self.floats("rope_freqs.weight")
        angle = np.arange(self.shape.context)[:, None] * frequency
        g = self.graph
        return g.weight("cosines", np.cos(angle, dtype=np.float32)), g.weight("sines", np.sin(angle, dtype=np.float32))


def _network(shape: _Shape, tensors: dict, exact: bool) -> _Network:
    net = _Network(shape, tensors, exact)
    g = net.graph
    ids = g.input("ids", "int64", [1, "n"])
    rows = g.input("rows", "int64", ["rows"])  # which of the n places logits are wanted for
    g.input("last_index", "int32", [1])  # index of the newest token in the whole context
    g.input("total", "int32", [])  # tokens in the context, the n new ones included
    tables = net.rotary_tables()
    x, addend = net.embed(ids), None
    for layer in range(shape.layers):
        normed, x = net.norm(f"blk.{layer}.attn_norm.weight", x, addend, f"blk.{layer}.attn")
        addend = net.attention(normed, layer, tables)
        normed, x = net.norm(f"blk.{layer}.ffn_norm.weight", x, addend, f"blk.{layer}.ffn")
        addend = net.feed_forward(normed, layer)
    normed, _ = net.norm("output_norm.weight", x, addend, "output")
    head = "output.weight" if "output.weight" in tensors else "token_embd.weight"
    logits = net.linear(g.op("Gather", normed, rows, axis=1), head)
    g.op("Identity", logits, out="logits")
    g.output("logits", "float32", [1, "rows", len(tensors[head].data)])
    return net


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
    if fields.get("tokenizer.ggml.model") != "gpt2":
        kind = fields.get("tokenizer.ggml.model")
        raise ModelError(f"{gguf} has a {kind!r} tokenizer; only byte-level pair encodings can be used.")
    tokens, kinds = fields["tokenizer.ggml.tokens"], fields["tokenizer.ggml.token_type"]
    merges = [tuple(pair.split(" ")) for pair in fields["tokenizer.ggml.merges"]]
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


def _describe(fields: dict, shape: _Shape, vocabulary: int, tokenizer: Tokenizer, gguf: Path) -> Description:
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
