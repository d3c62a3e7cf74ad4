"""When a turn is over: the `--endpoint` option."""

from __future__ import annotations

from dataclasses import dataclass

from voxpath.errors import VoxpathError
from voxpath.speech.complete import completeness

SHORTEST_MS, LONGEST_MS = 50, 5000
DEFAULT = "adaptive:180,800"
# With noise 10 dB under a voice, whose loudest frame is then some 23 dB over the floor, the detector lets go of it
# 100 ms before its end (median of 24 prompts, 155 ms at the quartile); in a quiet room, 40 dB over the floor, 3 ms.
NOISE_MS, NOISY_DB, QUIET_DB = 150, 23, 34
EXAMPLES = f"fixed:MS or adaptive:MIN,MAX, for example fixed:200 or {DEFAULT}"


@dataclass(frozen=True, slots=True)
class Evidence:
    """What is known in a pause: the words before it (None while they are being recognised), the language model's
    probability that they are all (None where it does not tell, or not yet), and how far the loudest of the voice is
    over the noise (None where the board does not tell)."""

    text: str | None = None
    over: float | None = None
    snr_db: float | None = None


@dataclass(frozen=True, slots=True)
class FixedSilence:
    """The turn is over after `longest_ms` with no speech."""

    longest_ms: int
    wants_evidence = False

    def __str__(self) -> str:
        return f"fixed:{self.longest_ms}"

    def silence_ms(self, evidence: Evidence) -> float:
        return self.longest_ms


@dataclass(frozen=True, slots=True)
class Adaptive:
    """The turn is over after `shortest_ms` where the words sound complete, later where they do not or where it is
    noisy, and after `longest_ms` in any case."""

    shortest_ms: int
    longest_ms: int
    wants_evidence = True

    def __str__(self) -> str:
        return f"adaptive:{self.shortest_ms},{self.longest_ms}"

    def silence_ms(self, evidence: Evidence) -> float:
        """How much silence this pause must have, ms."""
        if evidence.text is None:
            return self.longest_ms
        open_end = 1.0 - completeness(evidence.text, evidence.over)
        silence = self.shortest_ms + (self.longest_ms - self.shortest_ms) * open_end
        return min(silence + _lost_ms(evidence.snr_db), self.longest_ms)


def _lost_ms(snr_db: float | None) -> float:
    """How much of a voice's end the detector may have lost in noise."""
    if snr_db is None:
        return 0.0
    return NOISE_MS * min(max((QUIET_DB - snr_db) / (QUIET_DB - NOISY_DB), 0.0), 1.0)


def parse_endpoint(text: str) -> FixedSilence | Adaptive:
    """`fixed:MS` or `adaptive:MIN,MAX`, in ms. Raises VoxpathError for anything else."""
    kind, _, rest = text.partition(":")
    values = rest.split(",")
    wanted = {"fixed": 1, "adaptive": 2}.get(kind)
    if len(values) != wanted or not all(one.isascii() and one.isdigit() and len(one) <= 6 for one in values):
        raise VoxpathError(f"--endpoint {text} is not known; use {EXAMPLES}.")
    numbers = [int(one) for one in values]
    for number in numbers:
        if not SHORTEST_MS <= number <= LONGEST_MS:
            raise VoxpathError(f"--endpoint takes {SHORTEST_MS} to {LONGEST_MS} ms of silence, not {number}.")
    if kind == "fixed":
        return FixedSilence(*numbers)
    if numbers[0] > numbers[1]:
        raise VoxpathError(f"--endpoint {text}: the shortest silence is longer than the longest.")
    return Adaptive(*numbers)
