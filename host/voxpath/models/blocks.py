"""Weight matrices as blocks of small integers, the form that ONNX Runtime's MatMulNBits multiplies.

A row of a matrix is cut into blocks of 32 values that share a scale and a zero point: w = scale * (q - zero).
"""

from typing import NamedTuple

import numpy as np

from voxpath.models.graph import MICROSOFT, Graph

BLOCK = 32  # also the block of the GGUF formats
# MatMulNBits' accuracy level 4: activations as 8-bit blocks too, products summed as integers. A block's largest
# activation becomes 127.
_INT8_ACTIVATIONS = 4
_LARGEST = 127
_TINY = 1e-30  # keeps a block of zeros from being divided by zero


class Blocks(NamedTuple):
    """An 8-bit matrix: uint8 [outputs, blocks, 32], float32 [outputs, blocks], uint8 [outputs, blocks]."""

    values: np.ndarray
    scales: np.ndarray
    zeros: np.ndarray


def round_to_eight_bits(matrix: np.ndarray) -> Blocks:
    """A float matrix [outputs, inputs] with the range of each block, zero included, in 255 steps."""
    blocks = matrix.reshape(len(matrix), -1, BLOCK)
    low, high = np.minimum(blocks.min(-1), 0), np.maximum(blocks.max(-1), 0)
    scales = np.where(high > low, (high - low) / 255, 1).astype(np.float32)
    zeros = np.rint(-low / scales)
    values = np.clip(np.rint(blocks / scales[..., None]) + zeros[..., None], 0, 255)
    return Blocks(values.astype(np.uint8), scales, zeros.astype(np.uint8))


def multiply(graph: Graph, x: str, name: str, bits: int, values: np.ndarray, *scales_and_zeros: np.ndarray) -> str:
    """x [1, n, inputs] times the transposed matrix, stored as `name`. Without zero points they are half the range."""
    outputs, blocks = scales_and_zeros[0].shape
    names = (f"{name}.q", f"{name}.scale", f"{name}.zero")
    stored = [graph.weight(*pair) for pair in zip(names, (values, *scales_and_zeros), strict=False)]
    sizes = {"K": blocks * BLOCK, "N": outputs, "bits": bits, "block_size": BLOCK}
    return graph.op("MatMulNBits", x, *stored, domain=MICROSOFT, accuracy_level=_INT8_ACTIVATIONS, **sizes)


def in_two_parts(graph: Graph, x: str, inputs: int) -> str:
    """x [1, n, inputs] as [1, 2 n, inputs]: its values as 8-bit blocks, then what these leave of them.

    MatMulNBits rounds activations to 8 bits: those beside an outlier in their block keep little. Of the first half it
    rounds nothing away, since that lies on its grid already, and of the second next to nothing: the sum of both
    products has 16-bit activations, for twice the arithmetic but no more memory traffic.
    """
    blocks = graph.reshape(x, 0, 0, inputs // BLOCK, BLOCK)
    largest = graph.op("ReduceMax", graph.op("Abs", blocks), graph.ints(-1), keepdims=1)
    step = graph.op("Max", graph.op("Mul", largest, graph.constant(1 / _LARGEST)), graph.constant(_TINY))
    coarse = graph.op("Mul", graph.op("Round", graph.op("Div", blocks, step)), step)
    both = graph.op("Concat", coarse, graph.op("Sub", blocks, coarse), axis=1)
    return graph.reshape(both, 0, 0, inputs)


def look_up(graph: Graph, ids: str, name: str, matrix: Blocks) -> str:
    """Rows of an 8-bit matrix, [1, n] -> [1, n, inputs], as floats; stored once if it is multiplied by as well."""

    def rows(part: str, array: np.ndarray) -> str:
        return graph.op("Gather", graph.weight(f"{name}.{part}", array), ids)

    zeros = graph.op("Unsqueeze", graph.cast(rows("zero", matrix.zeros), "float32"), graph.ints(-1))
    scales = graph.op("Unsqueeze", rows("scale", matrix.scales), graph.ints(-1))
    centred = graph.op("Sub", graph.cast(rows("q", matrix.values), "float32"), zeros)
    return graph.reshape(graph.op("Mul", centred, scales), 0, 0, -1)
