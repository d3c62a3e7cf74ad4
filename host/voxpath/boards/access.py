"""Registers of a front end by their byte offsets, 32 or 64 bits wide."""

import threading
from collections.abc import Callable

from . import registers

_LOW = 0xFFFFFFFF


class Registers:
    """Reads and writes through two callables, `read32(offset)` and `write32(offset, value)`.

    The registers in `registers.WIDE` take two accesses, the low half first: that freezes, or completes, the other.
    Any thread may use this.
    """

    def __init__(self, read32: Callable[[int], int], write32: Callable[[int, int], None]):
        self._read32 = read32
        self._write32 = write32
        self._wide = threading.Lock()

    def read(self, offset: int) -> int:
        """The register's value, unsigned."""
        if offset not in registers.WIDE:
            return self._read32(offset)
        with self._wide:
            low = self._read32(offset)
            return low | self._read32(offset + 4) << 32

    def write(self, offset: int, value: int):
        """Set the register; a negative value is written in two's complement."""
        if offset not in registers.WIDE:
            self._write32(offset, value & _LOW)
            return
        with self._wide:
            self._write32(offset, value & _LOW)
            self._write32(offset + 4, value >> 32 & _LOW)
