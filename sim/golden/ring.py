"""Golden model of the capture ring: where each frame goes, when it is refused, and what the memory must hold."""

import struct
from dataclasses import dataclass, field

SLOT_BYTES = 256
FRAME_BYTES = 160
COUNT = 1 << 32


@dataclass
class Ring:
    """The ring's counts and the bytes that it writes. All addresses are physical."""

    slots: int
    base: int
    boot_id: int
    head: int = 0
    tail: int = 0
    lost: int = 0
    memory: dict[int, bytes] = field(default_factory=dict)  # address -> what was written there

    @property
    def used(self) -> int:
        """Frames that the host has not read."""
        return (self.head - self.tail) % COUNT

    def slot_address(self) -> int:
        """Where the next frame goes."""
        return self.base + self.head % self.slots * SLOT_BYTES

    def store(self, frame: bytes) -> bool:
        """Store and publish a frame of 160 bytes; False, and a loss, if the ring is full."""
        if self.used == self.slots:
            self.lost += 1
            return False
        self.memory[self.slot_address()] = frame
        self.head = (self.head + 1) % COUNT
        self.memory[self.base + self.slots * SLOT_BYTES] = struct.pack("<II", self.head, self.boot_id)
        return True

    def read_up_to(self, tail: int) -> bool:
        """The host writes its tail; False if that is impossible, and then nothing changes."""
        if tail not in {(self.tail + read) % COUNT for read in range(self.used + 1)}:
            return False
        self.tail = tail
        return True
