"""The hibari speech synthesiser's network as two ONNX graphs, cut where its length becomes known.

The network in the `hibari-tts` package works out a duration for each phoneme, repeats each phoneme's features that
many times, and predicts spectra. `export` cuts it at the repetition, so that the second half can run on a part of a
sentence:
    text.onnx        (ids [1, n], speed [1]) -> features [1, channels, n] (two of them) and durations [n], whole numbers
    spectra.onnx     repeated features -> five spectral parts [1, 601, 2 * frames] and the pitch [1, 2 * frames]
    model.json       Description, as JSON

Both keep the package's own 8-bit products, twice as fast on a CPU as the same weights made floats. For a GPU they are
made floats, since it has no such operators, and take one more input, THERE [1, 1, n]: 1 for each phoneme or frame and 0
for padding behind them, which then changes nothing before it. So a few lengths are enough.
"""

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import onnx
from onnx import helper, numpy_helper
from onnx.utils import Extractor

from voxpath.errors import ModelError
from voxpath.models import description

THERE = "there"
LENGTH = "n"  # the name of the only dimension that varies then
_MASKED = -1e9  # an attention score that leaves nothing


@dataclass(frozen=True)
class Description:
    """The names of the tensors at the cut, in the order in which the runner joins them."""

    name: str
    features: list[str]  # outputs of text.onnx
    durations: str
    repeated: list[str]  # inputs of spectra.onnx, each one of `features` repeated along its last axis
    vocabulary: dict[str, int]  # phoneme characters to ids


def export(network: Path, vocabulary: dict[str, int], folder: Path, *, for_gpu: bool = False) -> Description:
    """Cut the file `network` in two. Raises ModelError if it is not built as hibari 0.2 is."""
    try:
        model = onnx.load(str(network))
    except Exception as error:  # protobuf's parse errors have no common base
        raise ModelError(f"{network} is not an ONNX file that can be read ({error}).") from error
    if for_gpu:
        _make_floats(model.graph)
    maker = {output: node for node in model.graph.node for output in node.output}
    # Features are repeated by looking up, for each frame, the phoneme it belongs to: the number of phonemes that have
    # ended by then, which is a sum of comparisons with the running sum of the durations.
    lookups = [
        node
        for node in model.graph.node
        if node.op_type == "Gather" and node.input[1] in maker and maker[node.input[1]].op_type == "ReduceSum"
    ]
    running = [node for node in model.graph.node if node.op_type == "CumSum"]
    if len(lookups) != 2 or len(running) != 1 or maker[running[0].input[0]].op_type != "Cast":
        raise ModelError(f"{network} is no voice: it is not built as hibari 0.2 is (package hibari-tts 0.2.1).")
    durations = maker[running[0].input[0]].input[0]
    features, repeated = [node.input[0] for node in lookups], [node.output[0] for node in lookups]
    extractor = Extractor(onnx.shape_inference.infer_shapes(model))
    spectra = [output.name for output in model.graph.output]
    text = extractor.extract_model(["ids", "speed"], [*features, durations])
    halves = {"text": text, "spectra": extractor.extract_model(repeated, spectra)}
    for name, half in halves.items():
        if for_gpu:
            _allow_padding(half.graph)
        onnx.save(half, str(folder / f"{name}.onnx"))
    described = Description(network.stem, features, durations, repeated, vocabulary)
    description.write(described, folder)
    return described


def read_description(folder: Path) -> Description:
    """What `export` wrote about the model in `folder`. Raises ModelError."""
    return description.read(Description, folder)


def _make_floats(graph: onnx.GraphProto) -> None:
    """Replace x rounded to 8 bits, times 8-bit weights, times both scales, by x times the weights in float32."""
    stored = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    stored |= {
        node.output[0]: numpy_helper.to_array(node.attribute[0].t) for node in graph.node if node.op_type == "Constant"
    }
    maker = {output: node for node in graph.node for output in node.output}
    users: dict[str, list[onnx.NodeProto]] = {}
    for node in graph.node:
        for name in node.input:
            users.setdefault(name, []).append(node)
    floating: dict[str, onnx.NodeProto] = {}  # by the name of the product
    for node in graph.node:
        if node.op_type != "MatMulInteger":
            continue
        scaled = users[users[node.output[0]][0].output[0]][0]  # the sums become floats, and are scaled
        scales = next(maker[name] for name in scaled.input if maker[name].op_type == "Mul")
        scale = next(stored[name] for name in scales.input if name in stored)
        zero = stored[node.input[3]].astype(np.float32) if len(node.input) > 3 else 0
        matrix = f"{node.input[1]}.float"
        weights = (stored[node.input[1]].astype(np.float32) - zero) * scale
        graph.initializer.append(numpy_helper.from_array(weights.astype(np.float32), matrix))
        product = scaled.output[0]
        floating[product] = helper.make_node("MatMul", [maker[node.input[0]].input[0], matrix], [product])
    nodes = [floating.get(node.output[0], node) for node in graph.node]
    wanted = {output.name for output in graph.output}
    kept = []
    for node in reversed(nodes):  # what only the 8-bit products needed goes
        if wanted & set(node.output):
            kept.append(node)
            wanted |= set(node.input)
    del graph.node[:]
    graph.node.extend(reversed(kept))
    weights = [tensor for tensor in graph.initializer if tensor.name in wanted]
    del graph.initializer[:]
    graph.initializer.extend(weights)


def _allow_padding(graph: onnx.GraphProto) -> None:
    """Add the input THERE: convolutions see zeros where nothing is, as behind the end, and attention looks at none."""
    for tensor in graph.input:
        if tensor.name != "speed":
            tensor.type.tensor_type.shape.dim[0].dim_value = 1
            tensor.type.tensor_type.shape.dim[-1].dim_param = LENGTH
    graph.input.append(helper.make_tensor_value_info(THERE, onnx.TensorProto.FLOAT, [1, 1, LENGTH]))
    constants = {
        "there_axis": np.array([3]),
        "there_shape": np.array([1, 1, -1]),
        "there_one": np.float32(1),
        "there_masked": np.float32(-_MASKED),
    }
    graph.initializer.extend(numpy_helper.from_array(np.asarray(value), name) for name, value in constants.items())
    nodes = [
        helper.make_node("Unsqueeze", [THERE, "there_axis"], ["there_column"]),
        helper.make_node("Concat", ["there_column", "there_column"], ["there_pairs"], axis=3),
        helper.make_node("Reshape", ["there_pairs", "there_shape"], ["there_twice"]),
        helper.make_node("Sub", [THERE, "there_one"], ["there_not"]),
        helper.make_node("Mul", ["there_not", "there_masked"], ["there_bias"]),
    ]
    sizes = {tensor.name: list(tensor.dims) for tensor in graph.initializer}
    doubled: set[str] = set()  # tensors that have two places for each frame
    for node in graph.node:
        if node.op_type == "Tile" or doubled & set(node.input):
            doubled |= set(node.output)
        if node.op_type == "Conv" and sizes[node.input[1]][-1] > 1:
            masked = f"{node.output[0]}.there"
            mask = "there_twice" if node.input[0] in doubled else THERE
            nodes.append(helper.make_node("Mul", [node.input[0], mask], [masked]))
            node.input[0] = masked
        elif node.op_type == "Softmax":
            masked = f"{node.output[0]}.there"
            nodes.append(helper.make_node("Add", [node.input[0], "there_bias"], [masked]))
            node.input[0] = masked
        nodes.append(node)
    copies = [onnx.NodeProto.FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
