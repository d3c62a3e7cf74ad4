"""Build an ONNX graph from numpy arrays, one operator a call: what the exporters of this package share."""

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

OPSET = 20
IR_VERSION = 10
MICROSOFT = "com.microsoft"  # ONNX Runtime's own operators

_TYPES = {
    "float32": TensorProto.FLOAT,
    "float16": TensorProto.FLOAT16,
    "int64": TensorProto.INT64,
    "int32": TensorProto.INT32,
}


class Graph:
    """Nodes, weights and ports in the order in which they are added; tensors are known by their names (str)."""

    def __init__(self, name: str):
        self.name = name
        self._nodes: list[onnx.NodeProto] = []
        self._weights: dict[str, onnx.TensorProto] = {}
        self._small: dict[tuple, str] = {}
        self._inputs: list[onnx.ValueInfoProto] = []
        self._outputs: list[onnx.ValueInfoProto] = []

    def input(self, name: str, dtype: str, shape: list) -> str:
        """A port of the graph; a dimension is a number, or a name where it varies."""
        self._inputs.append(helper.make_tensor_value_info(name, _TYPES[dtype], shape))
        return name

    def output(self, name: str, dtype: str, shape: list) -> None:
        """Declare a tensor that some node makes under this name as an output."""
        self._outputs.append(helper.make_tensor_value_info(name, _TYPES[dtype], shape))

    def weight(self, name: str, value: np.ndarray) -> str:
        """Store an array under a name; the same name twice is the same array."""
        if name not in self._weights:
            self._weights[name] = numpy_helper.from_array(np.ascontiguousarray(value).reshape(np.shape(value)), name)
        return name

    def constant(self, value, dtype=np.float32) -> str:
        """A small constant (a scalar, a shape, a list of axes); equal ones are stored once."""
        array = np.asarray(value, dtype)
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._small:
            self._small[key] = self.weight(f"constant_{len(self._small)}", array)
        return self._small[key]

    def ints(self, *values: int) -> str:
        """A vector of int64, as shapes and axes want it."""
        return self.constant(values, np.int64)

    def op(self, kind: str, *inputs: str, out: str | list[str] | None = None, domain: str = "", **attributes):
        """Add a node; `out` names its outputs (automatic if left out). Returns the name, or the list of names."""
        outputs = out if isinstance(out, list) else [out or f"t{len(self._nodes)}"]
        self._nodes.append(helper.make_node(kind, list(inputs), outputs, domain=domain, **attributes))
        return outputs if isinstance(out, list) else outputs[0]

    def cast(self, x: str, dtype: str) -> str:
        """x as another number type."""
        return self.op("Cast", x, to=_TYPES[dtype])

    def split(self, x: str, parts: int) -> list[str]:
        """x in equal parts along its last axis."""
        return self.op("Split", x, out=[f"{x}.{i}" for i in range(parts)], axis=-1, num_outputs=parts)

    def reshape(self, x: str, *shape: int) -> str:
        """0 keeps a dimension, -1 takes what is left."""
        return self.op("Reshape", x, self.ints(*shape))

    def choose(self, logits: str, position: str, dtype: str) -> None:
        """Outputs: the likeliest `token` [1, r] of `logits` [1, r, n], and `next` = `position` + 1 ([1], of `dtype`).

        Both may be the same buffers as what they follow from: nothing reads the position after it has moved, since
        `next` waits for the token.
        """
        self.op("ArgMax", logits, out="token", axis=-1, keepdims=0)
        self.output("token", "int64", [1, "rows"])
        axis = self.ints(1)
        chosen = self.op("GreaterOrEqual", self.reshape(self.op("Slice", "token", self.ints(0), axis, axis), 1), axis)
        moved = self.op("Add", position, self.constant([1], np.dtype(dtype)))
        self.op("Where", chosen, moved, moved, out="next")
        self.output("next", dtype, [1])

    def model(self) -> onnx.ModelProto:
        """All of it as ONNX's own object."""
        graph = helper.make_graph(self._nodes, self.name, self._inputs, self._outputs, list(self._weights.values()))
        opsets = [helper.make_opsetid("", OPSET), helper.make_opsetid(MICROSOFT, 1)]
        return helper.make_model(graph, opset_imports=opsets, ir_version=IR_VERSION, producer_name="voxpath")

    def save(self, path) -> None:
        """Write the model to `path`, its weights beside it in `<path>.data` (mapped, not parsed, when it is loaded)."""
        model = self.model()
        data = path.with_name(f"{path.name}.data")
        data.unlink(missing_ok=True)  # it would be appended to
        onnx.save_model(model, str(path), save_as_external_data=True, location=data.name, size_threshold=4096)
        if data.exists():
            data.chmod(path.stat().st_mode)  # onnx makes it its owner's alone
