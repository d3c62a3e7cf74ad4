"""How fast the simulated board runs on one core, listening and playing, at each of its speeds.

    python tests/bench/board.py [--seconds 8]

Every speed hears the same reading, the slower ones less of it (they run every module's clock); what all have heard must
give the same frames to the last bit. Exit code 1 when it does not, or when idle skip is less than twice as fast as real
time.
"""

import argparse
import platform
import sys
import time

import numpy as np
from rich.console import Console
from rich.table import Table
from sentences import reading

from voxpath.boards import open_board, registers, sim_build
from voxpath.boards.sim_model import CAPTURE_ADDRESS, PLAY_ADDRESS, Model

TICK_RATE = 48_000
TICKS_PER_HOP = 192
REPLY_RATE = 24_000
CYCLES_A_HOP = 20_000  # the budget, playback included
# Speed, what is done, part of the sound that is heard, whether a reply is played.
RUNS = (
    ("skip", "listens", 1.0, False),
    ("skip", "and plays", 1.0, True),
    ("slow", "listens", 0.1, False),
    ("cycle", "listens", 0.025, False),
)
COMPARED = 9600  # samples that are heard at every speed for the comparison
SKIPPED_S = 1.0  # the reading begins with silence


def run(speed: str, pcm: np.ndarray, tone: np.ndarray | None) -> tuple[float, ...]:
    """Hear `pcm` (int16, 48 kHz) and play `tone` (int16, 24 kHz) as fast as the board can; the table's figures."""
    with open_board("sim", pace=0, speed=speed) as board:
        frames = board.frames()
        if tone is not None:
            reply = board.start_reply(REPLY_RATE)
            reply.write(tone)
            reply.finish()
        board.play_source(pcm)
        began = time.perf_counter()
        for _ in range(len(pcm) // TICKS_PER_HOP):
            next(frames)
        wall = len(pcm) / TICK_RATE / (time.perf_counter() - began)
        return board.realtime_factor, wall, board.cycles_per_hop, board.cycles_per_hop_max


def written(speed: str, pcm: np.ndarray) -> bytes:
    """The capture ring's memory after a fresh board has heard `pcm`, at most a second of it."""
    model = Model(sim_build.library(), speed)
    for register, value in (
        (registers.RING_BASE, CAPTURE_ADDRESS),
        (registers.RING_BASE + 4, 0),
        (registers.RING_SIZE, PLAY_ADDRESS - CAPTURE_ADDRESS),
        (registers.HEARTBEAT, 1),
        (registers.CONTROL, registers.CONTROL__CAPTURE_ENABLE),
    ):
        model.write(register, value)
    model.play(pcm)
    model.run(len(pcm))
    assert model.read(registers.RING_HEAD) == len(pcm) // TICKS_PER_HOP
    return model.memory[CAPTURE_ADDRESS:PLAY_ADDRESS].tobytes()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--seconds", type=float, default=8.0)
    seconds = options.parse_args().seconds
    console = Console()
    pcm = reading()[int(SKIPPED_S * TICK_RATE) :][: int(seconds * TICK_RATE)]
    at = np.arange(int(0.9 * seconds * REPLY_RATE)) / REPLY_RATE
    tone = (8000 * np.sin(2 * np.pi * 440 * at)).astype(np.int16)
    table = Table(title=f"Simulated board, {processor()}")
    for heading in ("speed", "does", "heard", "x real time, core", "wall", "cycles a hop", "most"):
        table.add_column(heading, justify="left" if heading in ("speed", "does") else "right")
    good = True
    with console.status("Running the board"):
        for speed, does, part, sound in RUNS:
            heard = pcm[: int(part * len(pcm))]
            core, wall, cycles, most = run(speed, heard, tone if sound else None)
            if speed == "skip":
                good &= core >= 2 and most <= CYCLES_A_HOP
            length = f"{part * seconds:g} s"
            table.add_row(speed, does, length, f"{core:.2f}", f"{wall:.2f}", f"{cycles:,.0f}", f"{most:,}")
        same = len({written(speed, pcm[:COMPARED]) for speed in ("skip", "slow", "cycle")}) == 1
    console.print(table)
    console.print(f"Budget: {CYCLES_A_HOP:,} cycles a hop.", highlight=False)
    frames = COMPARED // TICKS_PER_HOP
    console.print(f"{frames} frames at the three speeds: {'identical' if same else 'DIFFERENT'}.", highlight=False)
    if not good:
        console.print("Too slow: idle skip should reach 2 x real time on one core. Is the machine busy?")
    return 0 if good and same else 1


def processor() -> str:
    """The processor's name."""
    try:
        with open("/proc/cpuinfo") as info:
            return next(line.split(":", 1)[1].strip() for line in info if line.startswith("model name"))
    except (OSError, StopIteration):
        return platform.processor() or platform.machine()


if __name__ == "__main__":
    sys.exit(main())
