"""Read the weights of a model in CTranslate2's binary format (version 6), with numpy alone."""

import struct
from pathlib import Path

import numpy as np

from voxpath.errors import ModelError

_DTYPES = ["<f4", "i1", "<i2", "<i4", "<f2"]  # by CTranslate2's type number


def read(path: Path) -> tuple[str, dict[str, np.ndarray]]:
    """The name of the model's specification, and its variables by name, aliases included.

    The file, little-endian: u32 version, name, u32 revision, u32 count; for each variable its name, u8 rank, u32 a
    dimension, u8 type, u32 bytes, the bytes; u32 count; for each alias its name and its variable's. A name is a u16
    length, and that many bytes, the last of which is zero. Raises ModelError if it is anything else.
    """
    try:
        data = memoryview(path.read_bytes())
        return _parse(data)
    except (struct.error, IndexError, ValueError, OSError) as error:
        raise ModelError(f"{path} is not a CTranslate2 model of version 6 that can be read ({error}).") from error


def _parse(data: memoryview) -> tuple[str, dict[str, np.ndarray]]:
    at = 0

    def number(code: str) -> int:
        nonlocal at
        (value,) = struct.unpack_from("<" + code, data, at)
        at += struct.calcsize(code)
        return value

    def text() -> str:
        nonlocal at
        length = number("H")
        at += length
        return bytes(data[at - length : at - 1]).decode()

    if (version := number("I")) != 6:
        raise ValueError(f"its version is {version}")
    specification = text()
    number("I")  # the specification's revision
    variables = {}
    for _ in range(number("I")):
        name = text()
        shape = [number("I") for _ in range(number("B"))]
        dtype = np.dtype(_DTYPES[number("B")])
        size = number("I")
        variables[name] = np.frombuffer(data, dtype, size // dtype.itemsize, at).reshape(shape)
        at += size
    for _ in range(number("I")):
        alias, name = text(), text()
        variables[alias] = variables[name]
    return specification, variables
