"""`run.py selftest`: a click goes out of the DAC side, straight back in at the ADC side, and must arrive on time.

The board says when the click's sample leaves the DAC, and when the samples of a frame reached the ADC, both on its own
clock and with its own delays taken off. With the digital loop closed the way between them is one 48 kHz tick.
"""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Iterable

import numpy as np

from voxpath.boards import registers
from voxpath.errors import BoardError

TICK_NS = 1e9 / 48_000
RATE = 16_000
CLICK_AT = 1600  # samples into the reply: clear of its start
CLICK_SIGMA = 2.0  # samples: a Gaussian this wide has nothing above 5 kHz
UNITY = 0x1000  # of INPUT_GAIN
PATIENCE_S = 20.0


def click(length: int = 2 * CLICK_AT) -> np.ndarray:
    """int16 at 16 kHz: silence with one Gaussian pulse, -6 dBFS, centred on sample CLICK_AT."""
    offset = np.arange(length) - CLICK_AT
    return np.rint(16384 * np.exp(-0.5 * (offset / CLICK_SIGMA) ** 2)).astype(np.int16)


def pulse_time_ns(frames: Iterable) -> float:
    """When the pulse reached the ADC: the centroid of the samples around the loudest, on the frames' own stamps."""
    frames = list(frames)
    pcm = np.concatenate([frame.pcm[: frame.samples] for frame in frames]).astype(np.float64)
    stamps = np.concatenate([frame.capture_ns + 62_500.0 * np.arange(frame.samples) for frame in frames])
    if len(pcm) == 0 or np.abs(pcm).max() < 1000:
        raise BoardError("The click did not come back: the loop from the DAC side to the ADC side is not closed.")
    peak = int(np.argmax(np.abs(pcm)))
    near = slice(max(0, peak - 12), peak + 13)
    base = stamps[near][0]
    weight = pcm[near]
    return base + float(np.sum(weight * (stamps[near] - base)) / np.sum(weight))


def run(board, console) -> int:
    """Send the click through an open board, its digital loop closed; print three figures; 0 if they agree, else 1."""
    settings = {
        registers.INPUT: registers.INPUT__LOOP,
        registers.INPUT_GAIN: UNITY,
        registers.DENOISE: 1,  # bypass: it could take a click for noise
    }
    before = {register: board.registers.read(register) for register in settings}
    for register, value in settings.items():
        board.registers.write(register, value)
    try:
        return _run(board, console)
    finally:
        with contextlib.suppress(BoardError):  # of a dead board; what killed it is on its way already
            for register, value in before.items():
                board.registers.write(register, value)


def _run(board, console) -> int:
    heard: list = []
    done = threading.Event()

    def capture() -> None:
        for frame in board.frames():
            if done.is_set():
                return
            heard.append(frame)

    threading.Thread(target=capture, name="selftest", daemon=True).start()
    reply = board.start_reply(RATE)
    reply.write(click())
    reply.finish()
    deadline = time.monotonic() + PATIENCE_S
    while "last" not in reply.times or not heard or heard[-1].capture_ns < reply.times["last"] + 20_000_000:
        if time.monotonic() > deadline:
            raise BoardError(f"The board did not play the click within {PATIENCE_S:.0f} s.")
        time.sleep(0.01)
    done.set()
    # The event's time and the ADC's stamps allow for the converters, which the digital loop does not pass.
    converters = board.registers.read(registers.DELAY_DAC) + board.registers.read(registers.DELAY_ADC)
    left_ns = reply.times["first"] + CLICK_AT * 1e9 / RATE
    predicted = TICK_NS - converters
    measured = pulse_time_ns(frame for frame in heard if frame.end_ns > reply.times["first"]) - left_ns
    apart = measured - predicted
    good = abs(apart) <= TICK_NS
    console.print(f"predicted delay of the loop: {predicted / 1e3:9.3f} us")
    console.print(f"measured:                    {measured / 1e3:9.3f} us")
    console.print(f"difference:                  {apart / 1e3:+9.3f} us ({apart / TICK_NS:+.2f} samples of 48 kHz)")
    console.print("The board keeps time." if good else "The board's time is off by more than one sample.")
    return 0 if good else 1
