"""Reports: `turns.jsonl` and `summary.json` (schema 1), the sound of each turn, and the table at the end of a run."""

from __future__ import annotations

import json
import os
import platform
import tempfile
from pathlib import Path

import numpy as np

from voxpath.errors import VoxpathError
from voxpath.link.frame import SAMPLE_RATE
from voxpath.timing.records import Record, Records, as_json

SCHEMA = 1
# What is not text (a lone surrogate from a foreign label file) becomes a JSON escape.
ESCAPED = "backslashreplace"


class Report:
    """A folder that fills while a run goes on: a line a turn at once, the summary at the end."""

    def __init__(self, folder: str | Path) -> None:
        self.folder = Path(folder)
        self._lines = None
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(
                dir=self.folder
            ):  # know now, and leave an earlier run's alone until there is news
                pass
        except OSError as error:
            raise self._unwritable(error) from error

    def _open(self) -> None:
        if self._lines is None:
            for old in self.folder.glob("turn[0-9]*-*.wav"):  # of an earlier run
                old.unlink()
            self._lines = (self.folder / "turns.jsonl").open("w", encoding="utf-8", errors=ESCAPED)

    def turn(self, record: Record, *, question: np.ndarray | None = None, reply: np.ndarray | None = None, rate=24_000):
        """Append one turn; `question` is 16 kHz int16, `reply` int16 at `rate`. Raises VoxpathError."""
        try:
            self._open()
            self._lines.write(json.dumps(as_json(record), ensure_ascii=False, allow_nan=False) + "\n")
            self._lines.flush()
            if question is not None and len(question):
                write_wav(self.folder / f"turn{record.turn:03d}-question.wav", question, SAMPLE_RATE)
            if reply is not None and len(reply):
                write_wav(self.folder / f"turn{record.turn:03d}-reply.wav", reply, rate)
        except (OSError, RuntimeError) as error:  # soundfile's errors are RuntimeErrors
            raise self._unwritable(error) from error

    def close(self, summary: dict) -> Path:
        """Write the summary under a temporary name and put it in place: there is never half a summary."""
        path = self.folder / "summary.json"
        part = path.with_suffix(".part")
        text = json.dumps(summary, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        try:
            self._open()
            self._lines.close()
            part.write_text(text, encoding="utf-8", errors=ESCAPED)
            os.replace(part, path)
        except OSError as error:
            part.unlink(missing_ok=True)
            raise self._unwritable(error) from error
        return path

    def _unwritable(self, error: Exception) -> VoxpathError:
        why = str(getattr(error, "strerror", None) or error).rstrip(".")
        return VoxpathError(f"The report cannot be written to {self.folder}: {why}.")


def write_wav(path: str | Path, pcm: np.ndarray, rate: int) -> None:
    """int16 mono as a WAV file."""
    import soundfile

    soundfile.write(path, pcm, rate, subtype="PCM_16", format="WAV")


def summary(records: Records, board, *, board_name: str, engine: str, settings: dict, models: dict) -> dict:
    """Everything that `summary.json` holds; what the board does not know is null."""
    tracker = getattr(board, "tracker", None)
    losses = ("received", "ring_lost", "link_lost", "crc_errors", "reordered", "duplicated")
    return {
        "schema": SCHEMA,
        "board": {"name": board_name}
        | {name: _number(getattr(board, name, None)) for name in ("lag_ms_max", "realtime_factor", "core_share")},
        "engine": engine,
        "machine": machine(),
        "settings": settings,
        "models": models,
        "counts": records.counts(),
        "turns": [as_json(record) for record in records.turns],
        "utterances": [
            {"start_ns": one.start_ns, "end_ns": one.end_ns, "text": one.text, "outcome": one.outcome, "turn": one.turn}
            for one in records.spoken
        ],
        "response_ms": _rounded(records.distribution("response_ms")),
        "endpoint_ms": _rounded(records.distribution("endpoint_ms")),
        "chain_ms": _rounded(records.distribution("chain_ms")),
        "frames": {name: getattr(tracker, name, None) for name in losses},
        "playback": {
            "underruns": sum(record.underruns for record in records.turns),
            "concealed_ms": round(sum(record.concealed_ms for record in records.turns), 3),
        },
    }


def _number(value) -> float | None:
    return round(float(value), 3) if value is not None else None


def _rounded(figures: dict) -> dict:
    return {name: round(value, 3) if isinstance(value, float) else value for name, value in figures.items()}


def machine() -> str:
    """The processor, how many of it, and the system, in one line."""
    processor = platform.processor() or platform.machine()
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                processor = line.partition(":")[2].strip()
                break
    except OSError:
        pass
    system = f"{platform.system()} {platform.release()}, Python {platform.python_version()}"
    return f"{processor}, {os.cpu_count()} CPUs, {system}"


def show(records: Records, console) -> None:
    """Print where each millisecond went: a table for each answered turn, and the distribution."""
    from rich.table import Table

    for record in records.turns:
        steps = record.way()
        if not steps:
            continue
        ended = "the label's end" if record.speech_end_from == "label" else "the detector's last speech sample"
        table = Table(title=f"Turn {record.turn}: where each millisecond went, from {ended}", title_justify="left")
        table.add_column("waiting for")
        table.add_column("ms", justify="right")
        table.add_column("at ms", justify="right")
        table.add_column("")
        at = 0.0
        for name, took in steps:
            at += took
            table.add_row(name, f"{took:.1f}", f"{at:.1f}", "\u2588" * round(40 * took / max(record.response_ms, 1e-9)))
        table.add_section()
        wall = "" if record.wall_ms is None else f"{record.wall_ms:.1f} by the wall clock"
        table.add_row("mouth to ear (response_ms)", f"{record.response_ms:.1f}", "", wall)
        console.print(table)
        if not record.valid:
            console.print(f"  This turn's times are not valid: {'; '.join(record.invalid_because)}.")
    console.print(line(records), highlight=False)


def line(records: Records) -> str:
    """Counts and response times in one line."""
    counts, response = records.counts(), records.distribution("response_ms")
    parts = [
        f"{counts[name]} {name.replace('_', ' ')}" for name in ("answered", "missed", "cut_in", "merged", "invalid")
    ]
    number, noun = (counts["labelled"], "utterance") if counts["labelled"] else (len(records.turns), "turn")
    of = f"{number} {noun}{'s' * (number != 1)}"
    times = ", ".join(
        f"{name} {'none' if response[name] is None else format(response[name], '.0f')}"
        for name in ("p50", "p95", "max")
    )
    return f"{of}: {', '.join(parts)}. Response in ms: {times}."
