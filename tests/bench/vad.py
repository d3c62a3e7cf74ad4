"""Voice activity against WebRTC's detector and silero, on the same mixtures: ROC, delays, false onsets.

    python tests/bench/vad.py [--quick]

Voxpath is the golden model, which the RTL matches bit for bit, with the spectrum that the denoiser's golden model gives
it; "plain" is its energy rule alone. Truth is the clean speech: 10 ms frames within 30 dB of the loudest, or labels
where people made some; compared in hops of 4 ms. Delays run from the first and the last frame of each utterance that
are within 30 dB of its own loudest, at the default thresholds, before the hangover. Plots go to build/bench/vad_*.png.
Exit code 1 when a target is missed. --quick takes the Harvard sentences alone, dry.
"""

import argparse
import json
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import matplotlib
import numpy as np
import onnxruntime
import webrtcvad
from mixtures import (
    FRAME,
    LEAD_S,
    MISSING,
    RATE,
    SNRS_DB,
    TAIL_S,
    Mixture,
    activity,
    background,
    clips,
    have_recordings,
    impulse_responses,
    mix,
)
from rich.console import Console
from rich.table import Table
from sentences import SPEECH

from voxpath import cli, sources
from voxpath.errors import ModelError
from voxpath.models.fetch import Wheel, extract

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sim"))
from golden import denoiser, vad  # noqa: E402

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

FOLDER = ROOT / "build" / "bench"
HOP = vad.HOP
HOP_MS = 1e3 * HOP / RATE
BLOCK_MS = 1e3 * vad.BLOCK / RATE
EARLY_S, LATE_S = 0.02, 0.5  # around an utterance, where its edges are looked for
NEAR_MS = 100  # what is decided so near to speech is no false onset
SETTLE_S = 1.0  # before false onsets count
NOISE_S = 60.0  # of each noise alone

SILERO = Wheel(
    "silero-vad",
    "6.2.3",
    sha256="7b7f5436cfcb02fae583a05b512ea96467fd449fe54cb49a5e4f06c51a1e43b8",
    size=11_300_000,
)
SILERO_MEMBER = "silero_vad/data/silero_vad_16k_op15.onnx"
SILERO_WINDOW, SILERO_CONTEXT = 512, 64

# Targets. Delays are those at the default thresholds in a quiet room, and at 20 dB with the recorded noises.
DELAY_SNRS_DB = (20.0, np.inf) if have_recordings() else (np.inf,)
ONSET_MEDIAN_MS, ONSET_P95_MS, OFFSET_P95_MS = 16, 40, 40
AUC_ABOVE = {0: 0.0, 5: 0.0, 10: 0.0, 20: -0.06}  # over WebRTC's best mode
AUC_ABOVE_MEAN = 0.06


@dataclass(frozen=True)
class Heard:
    """What a detector made of a stream: a score a hop, float[h]; by block of 1 ms whether it says speech (hangover
    included) and whether that is before the hangover, bool[4 h] each."""

    score: np.ndarray
    active: np.ndarray
    speech: np.ndarray


@dataclass
class Pool:
    """The streams of one ratio, one after another; onsets and offsets of their utterances."""

    truth: list = field(default_factory=list)  # bool[h] each
    heard: dict = field(default_factory=dict)  # detector -> Heard each
    onsets: dict = field(default_factory=dict)  # detector -> ms each; infinite where speech was missed
    offsets: dict = field(default_factory=dict)  # detector -> ms each; negative before the end
    begun: dict = field(default_factory=dict)  # detector -> utterances at whose beginning it said speech already


# ---- the detectors ---------------------------------------------------------------------------------------------------


def voxpath(pcm: np.ndarray, bins, **settings) -> Heard:
    hops = vad.detect(pcm, replace(vad.Settings(), **settings), bins=bins)
    return Heard(np.array(hops.score, float), np.array(hops.active), np.repeat(hops.speech, 4))


def webrtc(pcm: np.ndarray, mode: int) -> Heard:
    """Frames of 10 ms; it has its own hangover, and no score."""
    detector = webrtcvad.Vad(mode)
    frames = [
        detector.is_speech(pcm[at : at + FRAME].tobytes(), RATE) for at in range(0, len(pcm) // FRAME * FRAME, FRAME)
    ]
    return _spread(np.array(frames, float), FRAME, len(pcm))


class Silero:
    """The network in ONNX: 512 samples with the 64 before them, and a state; a probability of speech."""

    def __init__(self, path: Path) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = 1
        options.log_severity_level = 3
        self._session = onnxruntime.InferenceSession(path, options, providers=["CPUExecutionProvider"])

    def __call__(self, pcm: np.ndarray) -> Heard:
        sound = np.concatenate([np.zeros(SILERO_CONTEXT), pcm / 32768]).astype(np.float32)
        state, probabilities = np.zeros((2, 1, 128), np.float32), []
        for at in range(0, len(pcm) - SILERO_WINDOW + 1, SILERO_WINDOW):
            window = sound[None, at : at + SILERO_CONTEXT + SILERO_WINDOW]
            inputs = {"input": window, "state": state, "sr": np.array(RATE)}
            probability, state = self._session.run(None, inputs)
            probabilities.append(probability[0, 0])
        return _spread(np.array(probabilities), SILERO_WINDOW, len(pcm))


def _spread(values: np.ndarray, step: int, samples: int) -> Heard:
    """Values a frame of `step` samples as hops and blocks: each takes the frame that its middle is in."""
    score, blocks = (
        values[np.minimum((np.arange(samples // HOP * HOP // size) * size + size // 2) // step, len(values) - 1)]
        for size in (HOP, vad.BLOCK)
    )
    return Heard(score, blocks >= 0.5, blocks >= 0.5)


def detectors(progress, console: Console) -> dict[str, Callable[[np.ndarray, tuple], Heard]]:
    found = {
        "Voxpath": voxpath,
        "plain": lambda pcm, bins: voxpath(pcm, None, plain=True),
        **{f"WebRTC {mode}": lambda pcm, bins, mode=mode: webrtc(pcm, mode) for mode in range(4)},
    }
    try:
        silero = Silero(extract(SILERO, [SILERO_MEMBER], progress) / Path(SILERO_MEMBER).name)
        found["silero"] = lambda pcm, bins: silero(pcm)
    except ModelError as error:
        console.print(f"Without silero: {error}", highlight=False)
    return found


# ---- the material ----------------------------------------------------------------------------------------------------


def streams(quick: bool) -> Iterator[tuple[Mixture, np.ndarray, list[tuple[int, int]]]]:
    """(mixture, truth a hop, utterances in hops): every clip, noise, ratio and room."""
    material = [(name, *clip, None) for name, clip in clips().items()]
    material += [] if quick else list(labelled())
    rooms = {"dry": None} if quick else {"dry": None, **impulse_responses()}
    for at, (name, speech, utterances, labels) in enumerate(material[:1] if quick else material):
        for snr in (*SNRS_DB, np.inf):
            for noise_at, (noise_name, noise) in enumerate(background().items()):
                if np.isinf(snr) and noise_at > 0:
                    continue
                for room, response in rooms.items():
                    mixture = mix(speech, utterances, noise, snr, response, name, noise_name, room, seed=at + noise_at)
                    middles = np.arange(len(mixture.pcm) // HOP) * HOP + HOP // 2
                    if labels is None:
                        frames = np.minimum(middles // FRAME, len(mixture.speech) - 1)
                        yield mixture, mixture.speech[frames], spans(mixture)
                    else:
                        truth = np.any([(middles >= a) & (middles < b) for a, b in labels], axis=0)
                        # People labelled the dry recording; in a room it goes on sounding.
                        yield mixture, truth, [(a // HOP, b // HOP) for a, b in labels] if response is None else []


def labelled() -> Iterator[tuple[str, np.ndarray, tuple, list]]:
    """Recordings whose speech people labelled: (name, stream, no utterances, [(first, last) samples])."""
    if not have_recordings():
        return
    for name, facts in json.loads((SPEECH / "manifest.json").read_text()).items():
        if "speech_seconds" in facts:
            sound = sources.read_sound(SPEECH / name)[0][: int(facts["labelled_seconds"] * RATE)]
            quiet = (np.zeros(int(seconds * RATE)) for seconds in (LEAD_S, TAIL_S))
            stream = np.concatenate([next(quiet), sound, next(quiet)])
            yield name, stream, (), [[int((LEAD_S + at) * RATE) for at in span] for span in facts["speech_seconds"]]


def spectra(pcms: list[np.ndarray]) -> list[tuple[np.ndarray, np.ndarray]]:
    """Levels and noise levels, int64[h, 65] each, of streams of one length, all taken through the estimator at once."""
    levels = np.stack([denoiser.analyse(pcm) for pcm in pcms])
    gain = denoiser.Gain(shape=(len(pcms), denoiser.BINS))
    noises = np.stack([gain.hop(levels[:, hop])[0] for hop in range(levels.shape[1])], axis=1)
    return list(zip(levels, noises, strict=True))


# ---- measures --------------------------------------------------------------------------------------------------------


def roc(score: np.ndarray, truth: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """False and true positive rates from (0, 0) to (1, 1), one point a value of the score."""
    order = np.argsort(-score, kind="stable")
    steps = np.flatnonzero(np.diff(score[order], append=-np.inf))
    hits = np.cumsum(truth[order])[steps]
    false = steps + 1 - hits
    return np.append(0, false / false[-1]), np.append(0, hits / hits[-1])


def area(score: np.ndarray, truth: np.ndarray) -> float:
    """Area under the ROC; for a yes or no the triangle through its one point."""
    false, true = roc(score, truth)
    return float((np.diff(false) * (true[1:] + true[:-1])).sum() / 2)


def f1(said: np.ndarray, truth: np.ndarray) -> float:
    return float(2 * (said & truth).sum() / (said.sum() + truth.sum()))


def spans(mixture: Mixture) -> list[tuple[int, int]]:
    """(first, last) hops of each utterance, half open: its frames within ACTIVE_DB of its own loudest, in its room.

    Looked for around where it lies in the dry recording, so that a breath before it is not its beginning.
    """
    found = []
    starts = [one.first for one in mixture.utterances[1:]]
    for one, next_first in zip(mixture.utterances, [*starts, len(mixture.clean)], strict=True):
        first = max(0, one.first - int(EARLY_S * RATE))
        last = min(one.last + int(LATE_S * RATE), (one.last + next_first) // 2)
        frames = np.flatnonzero(activity(mixture.clean[first:last]))
        edges = first + frames[0] * FRAME, first + (frames[-1] + 1) * FRAME
        found.append((round(edges[0] / HOP), round(edges[1] / HOP)))
    return found


def onset_delay(heard: Heard, first: int, last: int) -> float | None:
    """ms from the first block of speech to the end of the one that is said to be; None if speech was on before."""
    if first and heard.active[4 * first - 1]:
        return None
    said = np.flatnonzero(heard.active[4 * first : 4 * last])
    return (said[0] + 1) * BLOCK_MS if len(said) else np.inf


def offset_delay(heard: Heard, first: int, last: int) -> float:
    """ms from the end of speech to that of what is taken for it, before the hangover; negative if that is sooner."""
    end = 4 * last
    if heard.active[end - 1] or (end < len(heard.active) and heard.active[end]):
        silent = np.flatnonzero(~heard.active[end:])
        until = end + (silent[0] if len(silent) else len(heard.active) - end)
    else:
        until = end
    said = np.flatnonzero(heard.speech[4 * first : until])
    return (4 * first + said[-1] + 1 - end) * BLOCK_MS if len(said) else -np.inf


def false_onsets(heard: Heard, truth: np.ndarray | None = None) -> tuple[int, float]:
    """(onsets away from speech, minutes in which they could be)."""
    away = np.ones(len(heard.active), bool)
    away[: int(SETTLE_S * 1e3 / BLOCK_MS)] = False
    if truth is not None:
        reach = 2 * int(NEAR_MS / HOP_MS) + 1
        away &= ~np.repeat(np.convolve(truth, np.ones(reach), "same") > 0.5, 4)
    rises = heard.active & ~np.append(False, heard.active[:-1])
    return int((rises & away).sum()), away.sum() * BLOCK_MS / 60e3


# ---- the run ---------------------------------------------------------------------------------------------------------


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="one clip, dry")
    args = options.parse_args()
    console = Console()
    if not have_recordings():
        console.print(MISSING, highlight=False)
    pools: dict[float, Pool] = {}
    shown = {}
    with cli.Progress(console) as progress:
        found = detectors(progress, console)
        everything = list(streams(args.quick))
        by_length: dict[int, list] = {}
        for one in everything:
            by_length.setdefault(len(one[0].pcm), []).append(one)
        done = 0
        for group in by_length.values():
            for (mixture, truth, utterances), bins in zip(group, spectra([one[0].pcm for one in group]), strict=True):
                progress("listening", done / len(everything))
                done += 1
                heard = {name: detector(mixture.pcm, bins) for name, detector in found.items()}
                _add(pools.setdefault(mixture.snr_db, Pool()), heard, truth, utterances)
                if mixture.room == "dry" and mixture.snr_db == 5:
                    shown.setdefault(mixture.noise_name, (mixture, truth, heard))
        noises = {name: noise_alone(noise, found) for name, noise in alone().items()}
        progress("listening", 1.0)
    console.print(_areas(pools))
    console.print(_delays(pools, found))
    console.print(_noises(noises, found))
    FOLDER.mkdir(parents=True, exist_ok=True)
    plot_roc(FOLDER / "vad_roc.png", pools)
    plot_delays(FOLDER / "vad_delays.png", pools)
    plot_scores(FOLDER / "vad_scores.png", list(shown.values()))
    console.print(f"Plots: {FOLDER}/vad_*.png", highlight=False, soft_wrap=True)
    missed = list(shortfalls(pools))
    for line in missed:
        console.print(f"MISSED: {line}", highlight=False)
    if not missed:
        console.print("Every target is met.")
    return 1 if missed else 0


def _add(pool: Pool, heard: dict[str, Heard], truth: np.ndarray, utterances: list[tuple[int, int]]) -> None:
    pool.truth.append(truth)
    for name, one in heard.items():
        pool.heard.setdefault(name, []).append(one)
        onsets, offsets = pool.onsets.setdefault(name, []), pool.offsets.setdefault(name, [])
        for first, last in utterances:
            delay = onset_delay(one, first, last)
            if delay is None:
                pool.begun[name] = pool.begun.get(name, 0) + 1
            else:
                onsets.append(delay)
            offsets.append(offset_delay(one, first, last))


def alone() -> dict[str, np.ndarray]:
    """Noises without speech, NOISE_S each, as int16: what the mixtures have, room tone, and a white one as loud."""
    count = int(NOISE_S * RATE)
    silence = np.zeros(count)
    silence[0] = 1e-9  # something to relate the noise's level to
    noises = {"room tone": (np.ones(1), np.inf), **{name: (noise, 10) for name, noise in background().items()}}
    noises["white"] = (np.random.default_rng(2).standard_normal(count), 10)
    return {name: mix(silence, (), noise, snr, None, "", name, "dry").noise for name, (noise, snr) in noises.items()}


def noise_alone(noise: np.ndarray, found: dict) -> dict[str, float]:
    """False onsets a minute of each detector."""
    pcm = np.rint(noise).astype(np.int16)
    bins = spectra([pcm])[0]
    rates = {}
    for name, detector in found.items():
        onsets, minutes = false_onsets(detector(pcm, bins))
        rates[name] = onsets / minutes
    return rates


def scores(pool: Pool, name: str) -> np.ndarray:
    return np.concatenate([one.score for one in pool.heard[name]])


def best_webrtc(pool: Pool) -> tuple[str, float]:
    """The mode with the largest area, and that."""
    truth = np.concatenate(pool.truth)
    areas = {name: area(scores(pool, name), truth) for name in pool.heard if name.startswith("WebRTC")}
    return max(areas.items(), key=lambda item: item[1])


def shortfalls(pools: dict[float, Pool]) -> Iterator[str]:
    """A line for each target that Voxpath misses."""
    above = []
    for snr in SNRS_DB:
        pool = pools[snr]
        ours, (mode, theirs) = area(scores(pool, "Voxpath"), np.concatenate(pool.truth)), best_webrtc(pool)
        above.append(ours - theirs)
        if ours - theirs < AUC_ABOVE[snr]:
            yield f"{snr} dB: area {ours:.3f}, {mode} has {theirs:.3f}"
    if np.mean(above) < AUC_ABOVE_MEAN:
        yield f"area {np.mean(above):+.3f} over WebRTC's best mode on average, not {AUC_ABOVE_MEAN:+.2f}"
    for snr in DELAY_SNRS_DB:
        onsets, offsets = (getattr(pools[snr], kind)["Voxpath"] for kind in ("onsets", "offsets"))
        for kind, delays, percent, most in (
            ("onset", onsets, 50, ONSET_MEDIAN_MS),
            ("onset", onsets, 95, ONSET_P95_MS),
            ("offset", offsets, 95, OFFSET_P95_MS),
        ):
            delay = np.percentile(delays, percent, method="lower")
            if delay > most:
                yield f"{_ratio(snr)}: P{percent} of the {kind} delay {delay:.0f} ms, not {most}"


# ---- tables and plots ------------------------------------------------------------------------------------------------


def _ratio(snr: float) -> str:
    return "clean" if np.isinf(snr) else f"{snr:g} dB"


def _areas(pools: dict[float, Pool]) -> Table:
    table = Table(title="Area under the ROC, and at WebRTC's own false positive rate", title_justify="left")
    for heading in ("SNR", "detector", "area", "F1", "TPR", "FPR", "Voxpath's TPR there"):
        table.add_column(heading, justify="left" if heading == "detector" else "right", no_wrap=heading == "detector")
    for snr in sorted(pools):
        truth = np.concatenate(pools[snr].truth)
        false, true = roc(scores(pools[snr], "Voxpath"), truth)
        for index, name in enumerate(pools[snr].heard):
            score = scores(pools[snr], name)
            said = np.concatenate([one.speech.reshape(-1, 4).any(axis=1) for one in pools[snr].heard[name]])
            hits, alarms = float(said[truth].mean()), float(said[~truth].mean())
            webrtc_point = f"{np.interp(alarms, false, true):.3f}" if name.startswith("WebRTC") else ""
            table.add_row(
                _ratio(snr) if index == 0 else "",
                *(name, f"{area(score, truth):.3f}", f"{f1(said, truth):.3f}", f"{hits:.3f}", f"{alarms:.3f}"),
                webrtc_point,
                style="bold" if name == "Voxpath" else None,
                end_section=index == len(pools[snr].heard) - 1,
            )
    return table


def _delays(pools: dict[float, Pool], found: dict) -> Table:
    table = Table(title="Delays at the default thresholds, ms; false onsets beside speech", title_justify="left")
    headings = ("onset P50", "P95", "on before", "offset P5", "P50", "P95", "false a minute")
    for heading in ("SNR", "detector", *headings):
        table.add_column(heading, justify="left" if heading == "detector" else "right", no_wrap=heading == "detector")
    for snr in sorted(pools):
        for index, name in enumerate(found):
            pool = pools[snr]
            onsets = [np.percentile(pool.onsets[name], p, method="lower") for p in (50, 95)]
            offsets = [np.percentile(pool.offsets[name], p, method="lower") for p in (5, 50, 95)]
            counts = [false_onsets(*pair) for pair in zip(pool.heard[name], pool.truth, strict=True)]
            rate = sum(count for count, _ in counts) / sum(minutes for _, minutes in counts)
            table.add_row(
                _ratio(snr) if index == 0 else "",
                name,
                *(f"{delay:.0f}" for delay in onsets),
                str(pool.begun.get(name, 0)),
                *(f"{delay:.0f}" for delay in offsets),
                f"{rate:.0f}",
                style="bold" if name == "Voxpath" else None,
                end_section=index == len(found) - 1,
            )
    return table


def _noises(noises: dict[str, dict[str, float]], found: dict) -> Table:
    table = Table(title="False onsets a minute in noise alone", title_justify="left")
    table.add_column("noise")
    for name in found:
        table.add_column(name, justify="right")
    for noise, rates in noises.items():
        table.add_row(noise, *(f"{rates[name]:.0f}" for name in found))
    return table


COLOURS = {"Voxpath": "C0", "plain": "C2", "silero": "C1", "WebRTC": "0.4"}


def plot_roc(path: Path, pools: dict[float, Pool]) -> None:
    figure, axes = pyplot.subplots(1, len(SNRS_DB), figsize=(17, 4.6), layout="constrained", sharey=True)
    for axis, snr in zip(axes, SNRS_DB, strict=True):
        pool = pools[snr]
        truth = np.concatenate(pool.truth)
        for name in pool.heard:
            false, true = roc(scores(pool, name), truth)
            if name.startswith("WebRTC"):
                axis.plot(false[1], true[1], "o", color=COLOURS["WebRTC"])
                axis.annotate(name, (false[1], true[1]), xytext=(5, -11), textcoords="offset points", fontsize=8)
            else:
                axis.plot(false, true, color=COLOURS[name], label=f"{name}, {area(scores(pool, name), truth):.3f}")
        said = np.concatenate([one.speech.reshape(-1, 4).any(axis=1) for one in pool.heard["Voxpath"]])
        axis.plot(said[~truth].mean(), said[truth].mean(), "D", color=COLOURS["Voxpath"], label="default thresholds")
        axis.set_title(_ratio(snr))
        axis.set_xlabel("false positive rate of 4 ms hops")
        axis.grid(alpha=0.3)
        axis.legend(loc="lower right", fontsize=8)
    axes[0].set_ylabel("true positive rate")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def plot_delays(path: Path, pools: dict[float, Pool]) -> None:
    """Distributions of onset and offset delays, one line a ratio."""
    figure, axes = pyplot.subplots(2, 2, figsize=(13, 8), layout="constrained", sharex="row", sharey=True)
    for row, kind, limits in zip(axes, ("onsets", "offsets"), ((0, 150), (-250, 250)), strict=True):
        for axis, name in zip(row, ("Voxpath", "plain"), strict=True):
            for index, snr in enumerate(sorted(pools)):
                delays = np.sort(getattr(pools[snr], kind)[name])
                axis.step(delays, (np.arange(len(delays)) + 1) / len(delays), color=f"C{index}", label=_ratio(snr))
            axis.axvline(ONSET_P95_MS if kind == "onsets" else OFFSET_P95_MS, color="0.5", linestyle=":")
            axis.set_xlim(limits)
            axis.set_title(f"{name}: {kind[:-1]} delay", loc="left", fontsize=10)
            axis.set_xlabel("ms")
            axis.grid(alpha=0.3)
    axes[0, 0].set_ylabel("share of utterances")
    axes[1, 0].set_ylabel("share of utterances")
    axes[0, 0].legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def plot_scores(path: Path, shown: list) -> None:
    """The score over a few seconds of each noise at 5 dB, over what is truly speech."""
    figure, axes = pyplot.subplots(len(shown), 1, figsize=(14, 2.8 * len(shown)), squeeze=False, layout="constrained")
    for axis, (mixture, truth, heard) in zip(axes[:, 0], shown, strict=True):
        hops = min(len(truth), int(14e3 / HOP_MS))
        time = np.arange(hops) * HOP_MS / 1e3
        axis.fill_between(time, 0, 255 * truth[:hops], step="post", color="C2", alpha=0.2, label="speech")
        axis.plot(time, heard["Voxpath"].score[:hops], color="C0", linewidth=0.8, label="score")
        said = heard["Voxpath"].active.reshape(-1, 4).any(axis=1)[:hops]
        axis.fill_between(time, -14, -4, where=said, step="post", color="C0", label="active")
        for threshold in (vad.Settings().onset_score, vad.Settings().offset_score):
            axis.axhline(threshold, color="0.5", linestyle=":")
        axis.set_title(mixture.name, loc="left", fontsize=10)
        axis.set_xlim(0, time[-1])
    axes[0, 0].legend(loc="upper right", fontsize=8)
    axes[-1, 0].set_xlabel("s")
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
