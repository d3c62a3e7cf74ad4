"""Mouth to ear: human utterances in real time through the simulated board; prints the distributions.

    python tests/bench/response.py [--turns 40] [--runs 1] [--background clean|noise] [--endpoint POLICY ...]
                                   [--no-speculation] [--report DIR] [--json FILE] [--seed 0]

`prompts.py` says what is played: set A has no pause in it, set B one of 300 to 600 ms. The headline is `--turns 200
--runs 3`: each percentile is then the median of the runs', and its interval (95 %) is a bootstrap over the utterances.
Each --endpoint is played the same utterances; without one it is the program's own. A reply is cut off after its first
0.8 s, which saves time and changes nothing before. Plots go to build/bench/.

Exit code 1 when the first policy misses a target.
"""

import argparse
import json
import math
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import jiwer
import matplotlib
import mixtures
import numpy as np
import prompts
import soxr
from background import Room
from intervals import interval, over_runs
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from voxpath import cli
from voxpath.errors import VoxpathError
from voxpath.sources import BOARD_RATE, Clip
from voxpath.speech.endpoint import parse_endpoint
from voxpath.speech.think import DEFAULT_SYSTEM
from voxpath.talk import Talk
from voxpath.timing.records import OUTCOMES, Record
from voxpath.timing.report import Report, summary

matplotlib.use("Agg")
from matplotlib import pyplot

FOLDER = Path(__file__).resolve().parents[2] / "build" / "bench"
SNR_DB = 10.0  # of --background noise
SETTLE_S = 2.0  # for the front end to know the background before anybody speaks
MEASURES = ("response_ms", "wall_ms", "endpoint_ms", "chain_ms")
PARTS = {"p50": 0.5, "p95": 0.95}
# Most that a figure of the first policy may be: (set, figure) -> ms, or % of the utterances.
TARGETS = {
    ("A", "p50"): 250,
    ("A", "p95"): 320,
    ("A", "cut_in"): 4,
    ("B", "p95"): 900,
    ("B", "cut_in"): 10,
    ("A+B", "p50"): 270,
    ("A+B", "invalid"): 2,
}
# Set B is also shown by where its pause lies: nothing in the words tells that more will follow a whole sentence.
SETS = ("A", "B", "A+B")
PARTS_OF_B = ("B, pause inside a sentence", "B, pause between sentences")


@dataclass(slots=True)
class Row:
    """An utterance and what became of it in one run. `record` is None where no turn heard it."""

    set: str
    clip: Clip
    outcome: str
    record: Record | None
    first_phrase: tuple[str, float] | None  # its words, and how many seconds they take to say

    @property
    def invalid(self) -> bool:
        return self.record is not None and not self.record.valid

    def value(self, measure: str) -> float:
        """ms; infinite for what got no reply of its own, NaN for a cut-in."""
        if self.outcome == "cut_in":
            return math.nan
        value = getattr(self.record, measure) if self.outcome == "answered" else None
        return math.inf if value is None else value

    def belongs_to(self, name: str) -> bool:
        kind, _, where = name.partition(", pause ")
        return self.set in kind and (not where or prompts.between_sentences(self.clip) == where.startswith("between"))

    def as_json(self) -> dict:
        values = {measure: getattr(self.record, measure, None) for measure in MEASURES}
        return {
            "set": self.set,
            "clip": self.clip.name,
            "text": self.clip.labels[0].text,
            "outcome": self.outcome,
            "invalid_because": self.record.invalid_because if self.record else [],
            "error": self.record.error if self.record else None,
            "transcript": self.record.transcript if self.record else "",
            "reply": self.record.reply if self.record else "",
            "first_phrase": self.first_phrase,
        } | {name: value if value is None else round(value, 3) for name, value in values.items()}


@dataclass(slots=True)
class Results:
    """Everything one policy did: the rows of each run, in the order of the utterances."""

    policy: str
    runs: list[list[Row]] = field(default_factory=list)
    cpu_s: list[float] = field(default_factory=list)  # of the process a turn, each run

    def rows(self, name: str) -> list[Row]:
        return [row for run in self.runs for row in run if row.belongs_to(name)]

    def values(self, name: str, measure: str) -> np.ndarray:
        """float64[runs, utterances of the set]."""
        return np.array([[row.value(measure) for row in run if row.belongs_to(name)] for run in self.runs])

    def share(self, name: str, outcome: str) -> float:
        """% of the set's utterances, over all runs, that came out so ("invalid" is one more way)."""
        rows = self.rows(name)
        count = sum(row.invalid if outcome == "invalid" else row.outcome == outcome for row in rows)
        return 100 * count / len(rows) if rows else math.nan

    def figure(self, name: str, what: str) -> float:
        """What TARGETS speaks of."""
        if what in PARTS:
            return over_runs(self.values(name, "response_ms"), PARTS[what])
        return self.share(name, what)


class OverheardVoice:
    """A voice that remembers what it was asked to say since it was last asked about it."""

    def __init__(self, voice) -> None:
        self._voice = voice
        self._said: list[tuple[str, float]] = []

    def __getattr__(self, name: str):
        return getattr(self._voice, name)

    def speak(self, text: str, cancel=None):
        samples = 0
        for chunk in self._voice.speak(text, cancel=cancel):
            samples += len(chunk)
            yield chunk
        self._said.append((text, samples / self._voice.rate))

    def first_phrase(self, reply: str) -> tuple[str, float] | None:
        """The last phrase said that `reply` begins with, and its seconds; a draft may have been given up before."""
        said, self._said = self._said, []
        return next((one for one in reversed(said) if reply.startswith(one[0])), None)


def main() -> int:
    args = _options()
    sys.setswitchinterval(cli.SWITCH_S)
    console = Console()
    policies = [str(parse_endpoint(text)) for text in args.endpoint or [cli.parser().parse_args([]).endpoint]]
    if args.json:
        _write(Path(args.json), "")  # know now whether it can be, not in an hour
    turns = prompts.turns(args.turns, args.seed, missing=console.print)
    noise = _noise() if args.background == "noise" else None
    with cli.Progress(console) as progress:
        engines, models = cli.load_engines(cli.parser().parse_args([]), progress)
        room = Room(cli.open_sim(progress), noise)
    voice = OverheardVoice(engines[2])
    results = {policy: Results(policy) for policy in policies}
    bars = Progress(
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
        console=console,
        disable=not console.is_terminal,
    )
    try:
        time.sleep(SETTLE_S)
        with bars:
            bar = bars.add_task("", total=args.runs * len(results) * len(turns))
            for run in range(args.runs):
                for one in results.values():
                    bars.update(bar, description=f"{one.policy}, run {run + 1} of {args.runs}")
                    console.print(f"{one.policy}, run {run + 1} of {args.runs}, {args.background}", highlight=False)
                    folder = _folder(args, one.policy, run, args.runs * len(results) > 1)
                    _play(one, room, (*engines[:2], voice), models, turns, args, folder, bars, bar)
    finally:
        room.close()
    for one in results.values():
        _show(one, args, console, judged=one.policy == policies[0])
    console.print(f"board: {room.realtime_factor:.1f} x real time, {100 * room.core_share:.0f} % of a core")
    plot = _plot(list(results.values()), args)
    console.print(f"plot: {plot}", highlight=False, soft_wrap=True)
    if args.json:
        _write_json(Path(args.json), list(results.values()), args, models)
    missed = _missed(results[policies[0]])
    verdict = f"NOT GOOD ENOUGH: {'; '.join(missed)}" if missed else "good"
    console.print(f"{policies[0]}: {verdict}", highlight=False, soft_wrap=True)
    return 1 if missed else 0


def _options() -> argparse.Namespace:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--turns", type=_positive, default=40, help="utterances a run; 200 for the headline")
    options.add_argument("--runs", type=_positive, default=1, help="3 for the headline")
    options.add_argument("--background", choices=("clean", "noise"), default="clean", help=f"noise: {SNR_DB:g} dB SNR")
    options.add_argument("--endpoint", action="append", help="as run.py takes it; may be given again")
    options.add_argument("--no-speculation", dest="speculate", action="store_false")
    options.add_argument("--report", metavar="DIR", help="turns, sound and summary of each run")
    options.add_argument("--json", metavar="FILE", help="every utterance and every figure")
    options.add_argument("--seed", type=int, default=0, help="of the order and the pauses")
    return options.parse_args()


def _positive(text: str) -> int:
    if not text.isascii() or not text.isdigit() or int(text) == 0:
        raise argparse.ArgumentTypeError(f"it takes a number from 1 on, not {text}")
    return int(text)


def _noise() -> np.ndarray:
    """The noises of `mixtures`, each SNR_DB under the level of speech, one after another: float64 at 48 kHz."""
    level = 32768 * 10 ** ((mixtures.LEVEL_DBFS - SNR_DB) / 20)
    sounds = [soxr.resample(sound, mixtures.RATE, BOARD_RATE) for sound in mixtures.background().values()]
    return np.concatenate([sound * (level / np.sqrt((sound**2).mean())) for sound in sounds])


def _folder(args, policy: str, run: int, several: bool) -> Path | None:
    if not args.report:
        return None
    name = f"{policy.replace(':', '-').replace(',', '-')}-run{run + 1}"
    return Path(args.report, name) if several else Path(args.report)


def _play(results: Results, room, engines, models, turns, args, folder, bars, bar) -> None:
    """One run of one policy."""
    report = Report(folder) if folder else None
    first_phrases = {}

    def finished(record: Record) -> None:
        first_phrases[record.turn] = engines[2].first_phrase(record.reply)
        bars.console.print(_line(record), highlight=False, markup=False, soft_wrap=True)

    started_s = time.process_time()
    endpoint = parse_endpoint(results.policy)
    talk = Talk(room, engines, endpoint=endpoint, speculate=args.speculate, report=report, finished=finished)
    with talk:
        for _, clip in turns:
            talk.play([clip])
            bars.advance(bar)
    results.cpu_s.append((time.process_time() - started_s) / len(turns))
    by_turn = {record.turn: record for record in talk.records.turns}
    rows = []
    for (name, clip), spoken in zip(turns, talk.records.spoken, strict=True):
        record = by_turn.get(spoken.turn)
        rows.append(Row(name, clip, spoken.outcome, record, first_phrases.get(spoken.turn)))
    results.runs.append(rows)
    if report is not None:
        settings = {
            "endpoint": results.policy,
            "speculation": args.speculate,
            "system": DEFAULT_SYSTEM,
            "background": args.background,
            "seed": args.seed,
        }
        report.close(summary(talk.records, room, board_name="sim", engine="cpu", settings=settings, models=models))


def _line(record: Record) -> str:
    values = (record.response_ms, record.wall_ms, record.endpoint_ms, record.chain_ms, record.lag_ms)
    names = ("response", "wall", "endpoint", "chain", "lag")
    times = " ".join(
        f"{name} {'-' if value is None else format(value, '.1f')}" for name, value in zip(names, values, strict=True)
    )
    why = "" if record.valid else f" INVALID ({'; '.join(record.invalid_because)})"
    why += f" ERROR ({record.error})" if record.error else ""
    return f"{record.turn:3} {record.outcome:<9} {times}{why}  {record.transcript!r} -> {record.reply!r}"


# ---- what it amounts to ----------------------------------------------------------------------------------------------


def _show(results: Results, args, console: Console, judged: bool) -> None:
    def say(text: str) -> None:
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    say(f"\n{results.policy}, {args.background}, {args.turns} utterances x {args.runs}")
    for name in ("A", "B", *PARTS_OF_B, "A+B"):
        rows = results.rows(name)
        if not rows:
            continue
        shares = [
            f"{outcome.replace('_', ' ')} {results.share(name, outcome):.1f} %{_target(name, outcome, judged)}"
            for outcome in (*OUTCOMES, "invalid")
        ]
        say(f"{name}: {len(rows) // args.runs} utterances: {', '.join(shares)}")
        for measure in MEASURES if name in SETS else ():
            values = results.values(name, measure)
            figures = []
            for part, place in PARTS.items():
                low, high = interval(values, place, args.seed)
                target = _target(name, part, judged) if measure == "response_ms" else ""
                figures.append(f"{part} {_ms(over_runs(values, place)):>6} [{_ms(low)}, {_ms(high)}]{target}")
            say(f"  {measure:<12} {'   '.join(figures)}")
    rows = [row for row in results.rows("A+B") if row.outcome != "cut_in" and row.clip.labels[0].text]
    if rows:
        truth = [" ".join(prompts.words(row.clip.labels[0].text)) for row in rows]
        heard = [" ".join(prompts.words(row.record.transcript)) if row.record else "" for row in rows]
        say(f"word error rate {100 * jiwer.wer(truth, heard):.1f} % over {len(rows)} utterances that were not cut into")
    said = [row.first_phrase for row in results.rows("A+B") if row.first_phrase]
    if said:
        words = np.median([len(text.split()) for text, _ in said])
        say(f"first phrase {words:g} words, {np.median([seconds for _, seconds in said]):.2f} s (medians)")
    say(f"processor {np.median(results.cpu_s):.2f} s a turn")


def _ms(value: float) -> str:
    """Infinite is what got no answer; "-" where every utterance was cut into."""
    return "-" if math.isnan(value) else f"{value:.1f}"


def _target(name: str, what: str, judged: bool) -> str:
    most = TARGETS.get((name, what))
    return "" if most is None or not judged else f" (at most {most})"


def _missed(results: Results) -> list[str]:
    """The targets that are missed, each as what it is and what it should be."""
    found = []
    for (name, what), most in TARGETS.items():
        value = results.figure(name, what)
        if not value <= most and results.rows(name):
            unit = "ms" if what in PARTS else "%"
            found.append(f"{name} {what.replace('_', ' ')} {_ms(value)} {unit} (at most {most})")
    return found


def _plot(results: list[Results], args) -> Path:
    """How many of a set's utterances were answered within a time; cut-ins left out, their share in the legend."""
    FOLDER.mkdir(parents=True, exist_ok=True)
    path = FOLDER / f"response_{args.background}.png"
    figure, axes = pyplot.subplots(1, 3, figsize=(13, 4.6), sharex=True, sharey=True, layout="constrained")
    every = np.concatenate([one.values("A+B", "response_ms").ravel() for one in results])
    longest = max([*every[np.isfinite(every)], *(most for (_, what), most in TARGETS.items() if what in PARTS)]) * 1.05
    for name, axis in zip(SETS, axes, strict=True):
        for colour, one in enumerate(results):
            values = one.values(name, "response_ms").ravel()
            measured = np.sort(values[~np.isnan(values)])
            answered = measured[np.isfinite(measured)]
            share = 100 * np.arange(len(answered) + 1) / max(1, len(measured))
            axis.step(
                np.concatenate([[0.0], answered, [longest]]),
                np.concatenate([share, share[-1:]]),
                where="post",
                color=f"C{colour}",
                label=f"{one.policy}: {one.share(name, 'cut_in'):.0f} % cut in",
            )
        for part, place in PARTS.items():
            if (most := TARGETS.get((name, part))) is not None:
                axis.plot([most], [100 * place], "kx", label=f"target {part} {most} ms", clip_on=False)
        axis.set(title=f"Set {name}", xlabel="response, ms", xlim=(0, longest), ylim=(0, 100))
        axis.grid(alpha=0.3)
        axis.legend(loc="upper center", bbox_to_anchor=(0.5, -0.16), fontsize=8, ncols=2)
    axes[0].set_ylabel("% answered within")
    sound = "room tone" if args.background == "clean" else f"noise at {SNR_DB:g} dB SNR"
    figure.suptitle(f"Mouth to ear, {args.turns} utterances x {args.runs}, {sound}")
    figure.savefig(path, dpi=120)
    return path


def _write_json(path: Path, results: list[Results], args, models: dict) -> None:
    def number(value: float) -> float | None:
        return round(value, 3) if math.isfinite(value) else None

    def figures(one: Results, name: str) -> dict:
        shares = {outcome: number(one.share(name, outcome)) for outcome in (*OUTCOMES, "invalid")}
        times = {}
        for measure in MEASURES:
            values = one.values(name, measure)
            times[measure] = {
                part: [number(over_runs(values, place)), *map(number, interval(values, place, args.seed))]
                for part, place in PARTS.items()
            }
        return {"percent": shares} | times

    content = {
        "settings": {name: getattr(args, name) for name in ("turns", "runs", "background", "speculate", "seed")},
        "models": models,
        "policies": {
            one.policy: {
                "cpu_s": [round(seconds, 3) for seconds in one.cpu_s],
                "sets": {name: figures(one, name) for name in (*SETS, *PARTS_OF_B) if one.rows(name)},
                "runs": [[row.as_json() for row in run] for run in one.runs],
            }
            for one in results
        },
    }
    _write(path, json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def _write(path: Path, text: str) -> None:
    try:
        path.write_text(text, encoding="utf-8")
    except OSError as error:
        raise VoxpathError(f"--json {path} cannot be written: {error.strerror}.") from error


if __name__ == "__main__":
    try:
        sys.exit(main())
    except VoxpathError as error:
        sys.exit(str(error))
    except KeyboardInterrupt:
        sys.exit("Stopped.")
