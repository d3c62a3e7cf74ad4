"""Mouth to ear: labelled utterances in real time through the simulated board; prints the distribution.

    python tests/bench/response.py [--turns 12] [--endpoint fixed:200] [--no-speculation] [--report DIR]

Exit code 1 when the median is above the limit, or more than 2 % of the turns are not valid.
"""

import argparse
import sys

import jiwer
from rich.console import Console
from sentences import evaluation, plain, reading_phrases

from voxpath import cli
from voxpath.speech.endpoint import parse_endpoint
from voxpath.speech.think import DEFAULT_SYSTEM
from voxpath.talk import Talk
from voxpath.timing.report import Report, line, summary


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--turns", type=int, default=12)
    options.add_argument("--endpoint", default="fixed:200")
    options.add_argument("--no-speculation", dest="speculate", action="store_false")
    options.add_argument("--report")
    options.add_argument("--limit-ms", type=float, default=700.0)
    args = options.parse_args()
    sys.setswitchinterval(cli.SWITCH_S)
    console = Console()
    clips = evaluation() + reading_phrases()
    clips = [clips[index % len(clips)] for index in range(args.turns)]
    with cli.Progress(console) as progress:
        engines, models = cli.load_engines(cli.parser().parse_args([]), progress)
        board = cli.open_sim(progress)
    report = Report(args.report) if args.report else None
    talk = Talk(
        board,
        engines,
        endpoint=parse_endpoint(args.endpoint),
        speculate=args.speculate,
        report=report,
        finished=lambda record: console.print(_row(record), highlight=False, markup=False, soft_wrap=True),
    )
    with talk:
        talk.play(clips)
    board.close()
    settings = {"endpoint": args.endpoint, "speculation": args.speculate, "system": DEFAULT_SYSTEM}
    figures = summary(talk.records, board, board_name="sim", engine="cpu", settings=settings, models=models)
    if report is not None:
        report.close(figures)
    console.print(line(talk.records), highlight=False)
    for name in ("response_ms", "endpoint_ms", "chain_ms"):
        console.print(f"{name:<12} {_figures(figures[name])}", highlight=False)
    console.print(f"board        {figures['board']}", highlight=False)
    _words(talk.records, console)
    p50, counts = figures["response_ms"]["p50"], figures["counts"]
    good = p50 is not None and p50 <= args.limit_ms and counts["invalid"] <= 0.02 * len(figures["turns"])
    verdict = "good" if good else "NOT GOOD ENOUGH"
    console.print(f"p50 {p50} ms (limit {args.limit_ms:.0f}), {counts['invalid']} invalid: {verdict}", highlight=False)
    return 0 if good else 1


def _row(record) -> str:
    values = (record.response_ms, record.wall_ms, record.endpoint_ms, record.chain_ms, record.lag_ms)
    names = ("response", "wall", "endpoint", "chain", "lag")
    times = " ".join(
        f"{name} {'-' if value is None else format(value, '.1f')}" for name, value in zip(names, values, strict=True)
    )
    why = "" if record.valid else f" INVALID ({'; '.join(record.invalid_because)})"
    return f"{record.turn:3} {record.outcome:<9} {times}{why}  {record.transcript!r} -> {record.reply!r}"


def _figures(figures: dict) -> str:
    return "  ".join(f"{name} {'inf' if value is None else round(value, 1)}" for name, value in figures.items())


def _words(records, console) -> None:
    """Word error rate over the utterances whose texts are known."""
    by_turn = {record.turn: record.transcript for record in records.turns}
    known = [(one.text, by_turn.get(one.turn, "")) for one in records.spoken if one.text]
    if known:
        truth, heard = ([plain(text) for text in texts] for texts in zip(*known, strict=True))
        console.print(f"word error rate {100 * jiwer.wer(truth, heard):.1f} % over {len(known)} sentences")


if __name__ == "__main__":
    sys.exit(main())
