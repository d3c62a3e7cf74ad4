"""Two hours of conversation in virtual time: is memory flat, does every turn end?

    python tests/bench/hours.py [--hours 2] [--speed 20] [--seed 0]

The chain with a scripted board and engines that answer at once (`tests/doubles.py`), time running 20 times faster than
the wall's: people ask, pause, speak over replies, cough, say nothing for a while; a recogniser or language model fails
now and then. Twelve times on the way what the process holds is written down: memory, threads, and Python objects.

Exit code 1 if memory grew by more than 5 % after the first sixth, a thread was left over, or a turn did not end.
"""

import argparse
import gc
import sys
import threading
import time
from collections import deque
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
from doubles import DetectorGate, FakeBoard, FakeLanguage, FakeRecogniser, FakeVoice
from voxpath.speech.chain import Chain, Watcher
from voxpath.speech.endpoint import DEFAULT, parse_endpoint

SAMPLES = 12
GROWTH = 1.05
STUCK_S = 60.0  # of board time in which nothing is said and a turn does not end
FAILS = 0.02  # of the turns


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--hours", type=float, default=2.0)
    options.add_argument("--speed", type=float, default=20.0)
    options.add_argument("--seed", type=int, default=0)
    args = options.parse_args()
    rng = np.random.default_rng(args.seed)
    console = Console()
    board = ForgetfulBoard(script(args.hours * 3600, rng), speed=args.speed)
    language = FakeLanguage("It is a small dog, I think. It barks.")
    language.prompts, language.extended = deque(maxlen=1), deque(maxlen=1)
    voice = FakeVoice(seconds=1.0)
    voice.said = deque(maxlen=1)
    recogniser = Moody(rng)
    closed, failed = [0, 0], Failures()  # turns, and those spoken over
    chain = Chain(
        board,
        recogniser,
        language,
        voice,
        endpoint=parse_endpoint(DEFAULT),
        watcher=failed,
        on_turn=lambda turn: _count(closed, turn),
    )
    chain._gate = DetectorGate()  # this microphone hears no loudspeaker
    chain._gate.told = deque(maxlen=1)
    threads = threading.active_count()
    held = []
    stuck = None
    chain.start()
    try:
        quiet_ns = 0
        for sample in range(1, SAMPLES + 1):
            while board.ns < sample * args.hours * 3600e9 / SAMPLES:
                chain.check()
                if chain.idle or board.speaking():
                    quiet_ns = board.ns
                if board.ns - quiet_ns > STUCK_S * 1e9:
                    stuck = board.ns / 1e9
                    break
                time.sleep(0.01)
            gc.collect()
            held.append((board.ns / 60e9, closed[0], _megabytes(), threading.active_count(), len(gc.get_objects())))
            console.print("{:6.1f} min {:6d} turns {:7.1f} MB {:3d} threads {:8d} objects".format(*held[-1]))
            if stuck is not None:
                break
    finally:
        chain.stop()
        board.close()
    time.sleep(1.0)
    left = threading.active_count() - threads
    table = Table("hours", "turns", "barged in", "failed", "memory after a sixth / at the end", "threads left")
    early, late = held[SAMPLES // 6 - 1][2], held[-1][2]
    table.add_row(
        f"{held[-1][0] / 60:.1f}",
        str(closed[0]),
        str(closed[1]),
        str(failed.count),
        f"{early:.1f} / {late:.1f} MB",
        str(left),
    )
    console.print(table)
    wrong = []
    if stuck is not None:
        wrong.append(f"a turn had not ended at {stuck:.0f} s")
    if late > GROWTH * early:
        wrong.append(f"memory grew from {early:.1f} to {late:.1f} MB")
    if left > 0:
        wrong.append(f"{left} threads were left over")
    console.print(f"NOT GOOD ENOUGH: {'; '.join(wrong)}" if wrong else "good")
    return 1 if wrong else 0


def script(seconds: float, rng: np.random.Generator) -> list[tuple[float, float]]:
    """Speech: utterances with or without a pause, some over the reply of the one before, coughs, long silences."""
    spans, at = [], 1.0
    while at < seconds - 20:
        length = rng.uniform(0.8, 4.0)
        if rng.random() < 0.3:
            pause = rng.uniform(0.3, 0.6)
            spans += [(at, at + length / 2), (at + length / 2 + pause, at + length + pause)]
        else:
            spans.append((at, at + length))
        at = spans[-1][1]
        kind = rng.random()
        if kind < 0.2:  # speaks over the reply
            at += rng.uniform(0.6, 2.0)
        elif kind < 0.4:  # coughs in it
            cough = at + rng.uniform(0.6, 1.5)
            spans.append((cough, cough + 0.15))
            at = cough + rng.uniform(3.0, 6.0)
        else:
            at += rng.choice([rng.uniform(3.0, 6.0), rng.uniform(10.0, 40.0)], p=[0.85, 0.15])
    return spans


class ForgetfulBoard(FakeBoard):
    """Does not keep what is over."""

    def start_reply(self, rate):
        del self.replies[:-1]
        return super().start_reply(rate)

    def speaking(self) -> bool:
        self.speech = [(first, last) for first, last in self.speech if last > self.ns - 5_000_000_000]
        return bool(self.speech) and self.speech[0][0] < self.ns < self.speech[0][1] + 2_000_000_000


class Moody(FakeRecogniser):
    """Hears a new question in each sound, and now and then fails."""

    def __init__(self, rng):
        super().__init__("what is it")
        self._rng, self._lock = rng, threading.Lock()
        self.heard = deque(maxlen=1)

    def transcribe(self, pcm, prompt=None, cancel=None, guess=()):
        with self._lock:
            if self._rng.random() < FAILS / 10:  # an utterance is recognised some ten times
                raise RuntimeError("the recogniser failed")
        return super().transcribe(pcm, prompt, cancel, guess)


class Failures(Watcher):
    def __init__(self):
        self.count = 0

    def failed(self, turn, sentence):
        self.count += 1


def _count(closed: list[int], turn) -> None:
    closed[0] += 1
    closed[1] += turn.barged_in


def _megabytes() -> float:
    pages = int(Path("/proc/self/statm").read_text().split()[1])
    return pages * 4096 / 1e6


if __name__ == "__main__":
    sys.exit(main())
