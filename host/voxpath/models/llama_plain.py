"""A Llama in ONNX's standard operators, as TensorRT's importer wants it.

Its inputs are those of voxpath.models.whisper_gpu's decoder: ids [1, n], start [1], offsets [n], rows [r], and the
past keys and values, which have a fixed number of places. Three things are spelt out that ONNX Runtime has operators
for: the root-mean-square norm (Zhang and Sennrich, 2019), rotary positions (Su et al., 2021) and grouped-query
attention (Ainslie et al., 2023).
"""

import numpy as np

from voxpath.errors import ModelError
from voxpath.models.llama import Network, floats
from voxpath.models.room import Room


class PlainNetwork(Network):
    """As voxpath.models.llama.Network; `room` is needed."""

    def norm(self, name: str, x: str, addend: str | None, tag: str) -> tuple[str, str]:
        g = self.graph
        total = x if addend is None else g.op("Add", x, addend)
        wide = total if self.form.number == "float32" else g.cast(total, "float32")  # squares leave float16's range
        power = g.op("ReduceMean", g.op("Mul", wide, wide), g.ints(-1), keepdims=1)
        size = g.op("Sqrt", g.op("Add", power, g.constant(self.shape.epsilon)))
        scaled = g.op("Mul", g.op("Div", wide, size), g.weight(name, floats(self.tensors[name])))
        return scaled if self.form.number == "float32" else g.cast(scaled, self.form.number), total

    def silu(self, x: str) -> str:
        return self.graph.op("Mul", x, self.graph.op("Sigmoid", x))

    def places(self) -> None:
        if not self.room or self.shape.rotary != self.shape.head_size:
            raise ModelError("Only models whose heads are turned as a whole can be written in standard operators.")
        self._memory = Room(self.graph, self.room, self.form.number)
        self._turn: list[str] | None = None  # cosines and sines of the new tokens' places

    def choose(self) -> None:
        self.graph.choose("logits", "start", "int64")

    def attention(self, x: str, layer: int, tables: tuple[str, str]) -> str:
        g, s, block = self.graph, self.shape, f"blk.{layer}"
        if self._turn is None:  # the same for all layers
            rows = (g.op("Gather", table, self._memory.positions) for table in tables)
            self._turn = [g.reshape(row, 1, -1, 1, s.head_size // 2) for row in rows]
        query, key, value = (self.linear(x, f"{block}.attn_{kind}.weight") for kind in "qkv")
        query = self._rotate(g.reshape(query, 0, -1, s.heads, s.head_size))
        key = self._rotate(g.reshape(key, 0, -1, s.kv_heads, s.head_size))
        kept = [
            self._memory.remember(f"{kind}{layer}", g.op("Transpose", part, perm=[0, 2, 1, 3]), s.kv_heads, s.head_size)
            for kind, part in (("k", key), ("v", g.reshape(value, 0, -1, s.kv_heads, s.head_size)))
        ]
        keys, values = (g.op("Unsqueeze", part, g.ints(2)) for part in kept)  # [1, kv heads, 1, room, head size]
        query = g.reshape(query, 0, -1, s.kv_heads, s.heads // s.kv_heads, s.head_size)
        query = g.op("Transpose", query, perm=[0, 2, 3, 1, 4])  # [1, kv heads, group, n, head size]
        scores = g.op("MatMul", query, g.op("Transpose", keys, perm=[0, 1, 2, 4, 3]))
        scores = g.op("Mul", scores, g.constant(s.head_size**-0.5, self.form.number))
        mixed = g.op("MatMul", g.op("Softmax", g.op("Add", scores, self._memory.mask), axis=-1), values)
        return g.reshape(g.op("Transpose", mixed, perm=[0, 3, 1, 2, 4]), 0, -1, s.heads * s.head_size)

    def _rotate(self, x: str) -> str:
        """[1, n, heads, head size], each pair of neighbours turned by its place."""
        g, (cosine, sine) = self.graph, self._turn
        size = self.shape.head_size // 2
        pairs = g.reshape(x, 0, 0, 0, size, 2)
        first, second = (g.op("Gather", pairs, g.constant(part, np.int64), axis=4) for part in (0, 1))
        turned = (
            g.op("Sub", g.op("Mul", first, cosine), g.op("Mul", second, sine)),
            g.op("Add", g.op("Mul", first, sine), g.op("Mul", second, cosine)),
        )
        joined = g.op("Concat", *(g.op("Unsqueeze", part, g.ints(4)) for part in turned), axis=4)
        return g.reshape(joined, 0, 0, 0, 2 * size)
