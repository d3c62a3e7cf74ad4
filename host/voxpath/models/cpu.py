"""What the processor can do, as far as the choice of a network's number format depends on it."""

import functools
from pathlib import Path


@functools.cache
def has_int8_dot_products() -> bool:
    """Whether 8-bit matrix products are both fast and exact here (VNNI or AMX).

    Without them ONNX Runtime multiplies u8 by s8 with an instruction that saturates at 16 bits, which costs accuracy.
    """
    try:
        flags = Path("/proc/cpuinfo").read_text()
    except OSError:
        return False
    return any(flag in flags for flag in ("avx512_vnni", "avx_vnni", "amx_int8"))
