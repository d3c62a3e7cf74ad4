"""Word error rate through the RTL, against the same recogniser on the same sound resampled by soxr.

    python tests/bench/wer.py

Virtual time, as fast as the board runs. Exit code 1 when the RTL costs more than one word.
"""

import argparse
import sys

import jiwer
import numpy as np
import soxr
from rich.console import Console
from sentences import evaluation, plain, reading

from voxpath import cli, sources
from voxpath.boards import open_board
from voxpath.models import recordings
from voxpath.sources import BOARD_RATE, Clip, Label, with_room

RATE = 16_000
HOP = 64


def through_rtl(board, clip: Clip) -> np.ndarray:
    """What the host receives of a clip: int16 at 16 kHz, from the clip's first sample to its last."""
    frames = board.frames()
    start_ns = board.play_source(clip.pcm)
    end_ns = start_ns + round(len(clip.pcm) * 1e9 / BOARD_RATE)
    pieces = []
    for frame in frames:
        if frame.end_ns <= start_ns:
            continue
        pieces.append(frame.pcm[: frame.samples])
        if frame.end_ns >= end_ns:
            return np.concatenate(pieces)
    raise SystemExit("The board ended before the clip did.")


def cuts(clip: Clip) -> list[tuple[int, int]]:
    """Spans of samples at 48 kHz from the middle of one pause to that of the next: what the chain takes for turns."""
    middles = [int((start + end) / 2 * BOARD_RATE) for start, end in sources.pauses(clip.pcm, BOARD_RATE)]
    edges = [0, *middles, len(clip.pcm)]
    return list(zip(edges, edges[1:], strict=False))


def main() -> int:
    argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter).parse_args()
    console = Console()
    with cli.Progress(console) as progress:
        recogniser = cli.load_engines(cli.parser().parse_args([]), progress)[0][0]
        board = open_board("sim", pace=0, progress=progress.say)
    whole = reading()
    clips = [with_room(clip) for clip in evaluation()]
    clips.append(
        with_room(Clip(whole, (Label(0.0, len(whole) / BOARD_RATE, recordings.TWO_CITIES_TEXT),), "two_cities"))
    )
    totals = np.zeros(3, int)
    for clip in clips:
        captured = through_rtl(board, clip)
        resampled = soxr.resample(clip.pcm.astype(np.float32) / 32768, BOARD_RATE, RATE, quality="HQ")
        texts = ["", ""]
        for first, last in cuts(clip):
            span = slice(first * RATE // BOARD_RATE, last * RATE // BOARD_RATE)
            for index, sound in enumerate((captured, resampled)):
                texts[index] += " " + recogniser.transcribe(sound[span]).text
        truth = plain(clip.labels[0].text)
        errors = [_errors(truth, plain(text)) for text in texts]
        totals += [*errors, len(truth.split())]
        console.print(f"{clip.name:<14} {len(truth.split()):3} words, errors: RTL {errors[0]}, soxr {errors[1]}")
        for name, text, wrong in zip(("RTL", "soxr"), texts, errors, strict=True):
            if wrong:
                console.print(f"    {name}: {plain(text)}", highlight=False, soft_wrap=True)
    board.close()
    rtl, reference, words = (int(total) for total in totals)
    for name, wrong in (("RTL", rtl), ("soxr", reference)):
        console.print(f"word error rate, {name}: {100 * wrong / words:.1f} % ({wrong} of {words})", highlight=False)
    return 0 if rtl <= reference + 1 else 1


def _errors(truth: str, heard: str) -> int:
    words = jiwer.process_words(truth, heard)
    return words.substitutions + words.deletions + words.insertions


if __name__ == "__main__":
    sys.exit(main())
