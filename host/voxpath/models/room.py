"""A decoder's memory with a fixed number of places, written in place: what networks for GPUs share."""

from voxpath.models.graph import Graph

_MASKED = -1e4  # an attention score that leaves nothing, and a float16


class Room:
    """Adds the inputs start [1] and offsets [n] to a graph: the n new tokens are at start + offsets of `size` places.

    `positions` [n] are those places, `mask` [n, size] is what is added to attention scores: none looks at later ones.
    """

    def __init__(self, graph: Graph, size: int, number: str):
        g = self._graph = graph
        self._size, self._number = size, number
        start, offsets = g.input("start", "int64", [1]), g.input("offsets", "int64", ["n"])
        self.positions = g.op("Add", start, offsets)
        later = g.op("Greater", g.ints(*range(size)), g.op("Unsqueeze", self.positions, g.ints(-1)))
        self.mask = g.op("Where", later, g.constant(_MASKED, number), g.constant(0, number))
        self._places: str | None = None  # of the new keys and values, in their shape: the same for all layers

    def remember(self, name: str, new: str, heads: int, head_size: int) -> str:
        """The input past_`name` with `new` [1, heads, n, head size] in its places, which is an output as well."""
        g, shape = self._graph, [1, heads, self._size, head_size]
        past = g.input(f"past_{name}", self._number, shape)
        if self._places is None:
            self._places = g.op("Expand", g.reshape(self.positions, 1, 1, -1, 1), g.op("Shape", new))
        present = g.op("ScatterElements", past, self._places, new, out=f"present_{name}", axis=2)
        g.output(present, self._number, shape)
        return present
