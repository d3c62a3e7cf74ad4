"""Model of fpga/rtl/i2s_rx.sv and i2s_tx.sv: what a frame looks like on the bus, and what is read out of one.

A slot is one rising edge of SCLK: (level of LRCK, level of SD). A frame is 32 slots with LRCK low, left, and 32 with it
high, right; the MSB is in each half's second slot (Philips, I2S bus specification, 1996).
"""

from itertools import groupby

import numpy as np

BITS = 24
SLOTS = 32  # a channel

Slot = tuple[int, int]


def frame_slots(left: int, right: int, padding=None) -> list[Slot]:
    """The 64 slots of a frame of two signed words; `padding` is a function that gives SD where no bit is (zero)."""
    slots = []
    for lrck, word in enumerate((left, right)):
        bits = [word >> (BITS - 1 - bit) & 1 for bit in range(BITS)]
        free = [padding() if padding else 0 for _ in range(SLOTS - BITS)]
        slots += [(lrck, bit) for bit in [free[0], *bits, *free[1:]]]
    return slots


def receive(slots: list[Slot]) -> tuple[list[tuple[int, int]], int]:
    """The frames of a run of slots as [(left, right)], signed, and the number of those that were dropped.

    A frame ends when the next one begins, so the last one is not in it. The first one is only known to be whole when
    LRCK was seen to fall before it, and does not count as dropped if it is not.
    """
    halves = [(lrck, [sd for _, sd in run]) for lrck, run in groupby(slots, key=lambda slot: slot[0])]
    # What comes before the first falling edge of LRCK, and after the last one, is no frame.
    first = next((at for at in range(1, len(halves)) if halves[at][0] == 0), len(halves))
    frames, dropped = [], 0
    for at in range(first, len(halves) - 2, 2):
        left, right = halves[at][1], halves[at + 1][1]
        if len(left) == len(right) == SLOTS:
            frames.append((_word(left), _word(right)))
        else:
            dropped += 1
    return frames, dropped


def _word(half: list[int]) -> int:
    value = int("".join(map(str, half[1 : 1 + BITS])), 2)
    return value - (value >> (BITS - 1) << BITS)


def pack(left: int, right: int) -> int:
    """The 48 bits {right, left} of the stream."""
    return (right & 0xFFFFFF) << 24 | (left & 0xFFFFFF)


def unpack(word: int) -> tuple[int, int]:
    """(left, right), signed, of the stream's 48 bits."""
    values = np.array([word & 0xFFFFFF, word >> 24])
    left, right = (int(value) for value in np.where(values >> 23, values - (1 << 24), values))
    return left, right


def transmit(written: list[list[int]]) -> tuple[list[int], list[bool]]:
    """What each frame carries when `written[n]` are the words that came during frame n, and whether it under-ran.

    Frame n + 1 sends the last word of frame n, or what it sent before; the first frame here sends zero.
    """
    sent, underruns, started = [0], [False], False
    for words in written[:-1]:
        sent.append(words[-1] if words else sent[-1])
        underruns.append(started and not words)
        started |= bool(words)
    return sent, underruns
