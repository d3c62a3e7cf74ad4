"""When a turn is over: the `--endpoint` option."""

from __future__ import annotations

from dataclasses import dataclass

from voxpath.errors import VoxpathError

SHORTEST_MS, LONGEST_MS = 50, 5000


@dataclass(frozen=True, slots=True)
class FixedSilence:
    """The turn is over after `silence_ms` with no speech."""

    silence_ms: int

    def __str__(self) -> str:
        return f"fixed:{self.silence_ms}"


def parse_endpoint(text: str) -> FixedSilence:
    """`fixed:MS` -> FixedSilence. Raises VoxpathError for anything else."""
    kind, _, value = text.partition(":")
    if kind == "adaptive":
        raise VoxpathError("This version has only the fixed endpoint; use --endpoint fixed:MS, for example fixed:200.")
    if kind != "fixed" or not value.isascii() or not value.isdigit() or len(value) > 6:
        raise VoxpathError(f"--endpoint {text} is not known; use fixed:MS, for example fixed:200.")
    silence_ms = int(value)
    if not SHORTEST_MS <= silence_ms <= LONGEST_MS:
        raise VoxpathError(f"--endpoint fixed:MS takes {SHORTEST_MS} to {LONGEST_MS} ms of silence, not {silence_ms}.")
    return FixedSilence(silence_ms)
