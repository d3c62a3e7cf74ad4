"""The denoiser against no denoising, RNNoise and an oracle, on the same mixtures: quality, words, noise left, delay.

    python tests/bench/denoiser.py [--quick]

Voxpath is the golden model, which the RTL matches bit for bit. The oracle knows speech and noise apart: ideal Wiener
gains through the same analysis, design and filter, so it shows what better estimates could still bring. Plots go to
build/bench/denoiser_*.png. Exit code 1 when a target is missed. --quick takes the Harvard sentences alone.
"""

import argparse
import ctypes
import platform
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import jiwer
import matplotlib
import numpy as np
import soxr
from mixtures import FRAME, MISSING, RATE, Mixture, clips, count, have_recordings, mixtures
from pesq import PesqError, pesq
from pystoi import stoi
from rich.console import Console
from rich.table import Table
from sentences import plain

from voxpath import cli, models
from voxpath.engines import ort
from voxpath.errors import ModelError
from voxpath.models.fetch import Wheel, extract

ROOT = Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "sim"))
from golden import denoiser as golden  # noqa: E402

matplotlib.use("Agg")
from matplotlib import pyplot  # noqa: E402

FOLDER = ROOT / "build" / "bench"
PAD_S = 0.3  # of sound kept around an utterance for PESQ and for the recogniser
SETTLE_S = 1.0  # before the noise in pauses counts
GUARD_S = 0.3  # around speech, for the room to fall silent
SHOWN = "sentences, noise1, 5 dB, dry"  # in the spectrograms; the first mixture where it is not there

# BSD-licensed RNNoise as a shared library; the Python package around it is not used.
RNNOISE = Wheel(
    "pyrnnoise",
    "0.4.5",
    sha256="c095114532f9fa21f621084c879d72c93aaa0c9dbe38b662a63577bada2c214e",
    size=13_273_323,
    platform="manylinux1_x86_64",
)
RNNOISE_MEMBER = "pyrnnoise-0.4.5.data/purelib/pyrnnoise/librnnoise.so"
RNNOISE_RATE = 48_000
RNNOISE_FRAME = 480


@dataclass(frozen=True)
class System:
    name: str
    delay_ms: float  # algorithmic: what is waited for, whatever the speed of the machine
    clean: Callable[[Mixture], np.ndarray]  # -> int16[n], aligned with the mixture


@dataclass(frozen=True)
class Score:
    """One system on one mixture; the first three are means over its utterances."""

    pesq: float
    stoi: float
    si_sdr: float  # dB
    reduction: float  # dB, of the power in pauses
    errors: int  # words
    words: int


# Key, title, format, whether more is better.
MEASURES = (
    ("pesq", "PESQ-WB", "{:.2f}", True),
    ("stoi", "STOI", "{:.3f}", True),
    ("si_sdr", "SI-SDR dB", "{:.1f}", True),
    ("reduction", "noise in pauses dB", "{:.1f}", False),
    ("wer", "WER %", "{:.1f}", False),
)


# ---- the systems -----------------------------------------------------------------------------------------------------


def ahead(sound: np.ndarray, samples: int) -> np.ndarray:
    """The sound so many samples earlier, silence at its end."""
    return np.concatenate([sound[samples:], np.zeros(samples, dtype=sound.dtype)])


def voxpath(mixture: Mixture) -> np.ndarray:
    return ahead(golden.denoise(mixture.pcm)[0], golden.DELAY)


def oracle(mixture: Mixture) -> np.ndarray:
    speech, noise = (
        2.0 ** (golden.analyse(np.rint(part).astype(np.int16)) / 1024) for part in (mixture.clean, mixture.noise)
    )
    gains = np.rint(golden.UNITY * speech / (speech + noise)).astype(np.int64)
    return ahead(golden.filter_path(mixture.pcm, golden.design(gains)), golden.DELAY)


class RNNoise:
    """The library through ctypes: frames of 480 float samples at 48 kHz in the range of int16."""

    def __init__(self, library: Path) -> None:
        self._library = ctypes.CDLL(str(library))
        floats = ctypes.POINTER(ctypes.c_float)
        self._library.rnnoise_create.restype = ctypes.c_void_p
        self._library.rnnoise_create.argtypes = [ctypes.c_void_p]
        self._library.rnnoise_destroy.argtypes = [ctypes.c_void_p]
        self._library.rnnoise_process_frame.restype = ctypes.c_float
        self._library.rnnoise_process_frame.argtypes = [ctypes.c_void_p, floats, floats]
        self.delay = self._measure()  # samples at 48 kHz

    def _run(self, sound: np.ndarray) -> np.ndarray:
        """float32[n] at 48 kHz -> as many, from a fresh state."""
        frames = -(-len(sound) // RNNOISE_FRAME)
        data = np.zeros(frames * RNNOISE_FRAME, dtype=np.float32)
        data[: len(sound)] = sound
        out = np.empty_like(data)
        state = self._library.rnnoise_create(None)
        pointer = ctypes.POINTER(ctypes.c_float)
        for at in range(0, len(data), RNNOISE_FRAME):
            source, target = (part[at:].ctypes.data_as(pointer) for part in (data, out))
            self._library.rnnoise_process_frame(state, target, source)
        self._library.rnnoise_destroy(state)
        return out[: len(sound)]

    def _measure(self) -> int:
        """Where the output best matches the input: a buzz with a voice's harmonics, which it lets through."""
        time = np.arange(2 * RNNOISE_RATE) / RNNOISE_RATE
        pitch = 120 + 20 * np.sin(2 * np.pi * 3 * time)
        phase = 2 * np.pi * np.cumsum(pitch) / RNNOISE_RATE
        buzz = sum(np.sin(h * phase) / h for h in range(1, 25)) * 4000 * np.sin(2 * np.pi * 2 * time) ** 2
        heard = self._run(buzz.astype(np.float32))
        lags = range(4 * RNNOISE_FRAME)
        return max(lags, key=lambda lag: float(heard[lag:] @ buzz[: len(buzz) - lag]))

    def __call__(self, mixture: Mixture) -> np.ndarray:
        # Its delay runs past the end of the sound, so silence follows.
        sound = np.concatenate([mixture.pcm.astype(np.float32), np.zeros(RATE // 10, dtype=np.float32)])
        out = self._run(soxr.resample(sound, RATE, RNNOISE_RATE, quality="HQ"))
        back = soxr.resample(out[self.delay :], RNNOISE_RATE, RATE, quality="HQ")
        return np.clip(np.rint(back[: len(mixture.pcm)]), -32768, 32767).astype(np.int16)


def systems(progress, console: Console) -> list[System]:
    delay_ms = golden.DELAY / RATE * 1000
    found = [System("none", 0.0, lambda mixture: mixture.pcm), System("Voxpath", delay_ms, voxpath)]
    if (platform.system(), platform.machine()) == ("Linux", "x86_64"):
        try:
            library = extract(RNNOISE, [RNNOISE_MEMBER], progress) / Path(RNNOISE_MEMBER).name
        except ModelError as error:
            console.print(f"Without RNNoise: {error}", highlight=False)
        else:
            rnnoise = RNNoise(library)
            waited = rnnoise.delay + RNNOISE_FRAME  # a frame is complete before any of it is worked on
            found.append(System("RNNoise", waited / RNNOISE_RATE * 1000, rnnoise))
    else:
        console.print("Without RNNoise: its package has a library for Linux on x86-64 alone.")
    return [*found, System("oracle", delay_ms, oracle)]


# ---- measures --------------------------------------------------------------------------------------------------------


def score(mixture: Mixture, sound: np.ndarray, recogniser) -> Score:
    qualities, errors, words = [], 0, 0
    pad = int(PAD_S * RATE)
    for one in mixture.utterances:
        exact, padded = slice(one.first, one.last), slice(max(0, one.first - pad), one.last + pad)
        truth, heard = (part.astype(np.float32) / 32768 for part in (mixture.clean, sound))
        quality = pesq(RATE, truth[padded], heard[padded], "wb", on_error=PesqError.RETURN_VALUES)
        qualities.append(
            (
                max(quality, 1.0),  # -1: it finds no speech at all in what it hears
                stoi(truth[exact], heard[exact], RATE),
                si_sdr(truth[exact], heard[exact]),
            )
        )
        if one.text:
            aligned = jiwer.process_words(one.text, plain(recogniser.transcribe(sound[padded]).text))
            errors += aligned.substitutions + aligned.deletions + aligned.insertions
            words += len(one.text.split())
    quiet = pauses(mixture)
    before, after = (float((part[quiet].astype(np.float64) ** 2).mean()) for part in (mixture.pcm, sound))
    return Score(*np.mean(qualities, axis=0), 10 * np.log10(before / max(after, 0.01)), errors, words)


def si_sdr(truth: np.ndarray, heard: np.ndarray) -> float:
    """Scale-invariant signal-to-distortion ratio, dB (Le Roux et al., ICASSP 2019)."""
    target = truth * (heard @ truth) / (truth @ truth)
    return float(10 * np.log10((target @ target) / ((heard - target) @ (heard - target))))


def pauses(mixture: Mixture) -> np.ndarray:
    """bool[n]: samples after SETTLE_S and at least GUARD_S away from speech."""
    guard = int(GUARD_S * RATE / FRAME)
    near = np.convolve(mixture.speech, np.ones(2 * guard + 1), "same") > 0.5
    quiet = np.repeat(~near, FRAME)
    quiet[: int(SETTLE_S * RATE)] = False
    return np.concatenate([quiet, np.zeros(len(mixture.pcm) - len(quiet), dtype=bool)])


def mean(scores: list[Score]) -> dict[str, float]:
    """Each measure over a list of scores."""
    values = {key: float(np.mean([getattr(one, key) for one in scores])) for key, *_ in MEASURES if key != "wer"}
    words = sum(one.words for one in scores)
    return {**values, "wer": 100 * sum(one.errors for one in scores) / words if words else float("nan")}


# ---- the run ---------------------------------------------------------------------------------------------------------


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true", help="one clip of three")
    args = options.parse_args()
    console = Console()
    if not have_recordings():
        console.print(MISSING, highlight=False)
    results: dict[tuple[float, str], dict[str, list[Score]]] = {}
    shown = None
    with cli.Progress(console) as progress:
        recogniser = ort.recogniser(models.asr(None, progress))
        peers = systems(progress, console)
        total, first = count(), next(iter(clips()))
        for done, mixture in enumerate(mixtures()):
            progress("listening", done / total)
            if args.quick and mixture.clip != first:
                continue
            sounds = {peer.name: peer.clean(mixture) for peer in peers}
            if shown is None or mixture.name == SHOWN:
                shown = mixture, sounds
            place = "dry" if mixture.room == "dry" else "rooms"
            row = results.setdefault((mixture.snr_db, place), {peer.name: [] for peer in peers})
            for name, sound in sounds.items():
                row[name].append(score(mixture, sound, recogniser))
        progress("listening", 1.0)
    means = {key: {name: mean(scores) for name, scores in row.items()} for key, row in results.items()}
    for place in ("dry", "rooms"):
        rows = {snr: row for (snr, where), row in means.items() if where == place}
        if rows:
            console.print(_table(place, rows, peers))
    FOLDER.mkdir(parents=True, exist_ok=True)
    plot_spectrograms(FOLDER / "denoiser_spectrograms.png", *shown)
    plot_measures(FOLDER / "denoiser_measures.png", means, peers)
    plot_delay(FOLDER / "denoiser_delay.png", means, peers)
    console.print(f"Plots: {FOLDER}/denoiser_*.png", highlight=False, soft_wrap=True)
    missed = list(shortfalls(means, results))
    for line in missed:
        console.print(f"MISSED: {line}", highlight=False)
    if not missed:
        console.print("Every target is met.")
    return 1 if missed else 0


def shortfalls(means, results):
    """A line for each target that Voxpath misses."""
    for (snr, place), row in sorted(means.items()):
        none, ours = row["none"], row["Voxpath"]
        where = f"{_ratio(snr)}, {place}"
        gain = {key: ours[key] - none[key] for key in ("pesq", "stoi", "wer")}
        least = {5: 0.20, 10: 0.25}.get(snr, 0.0)
        if gain["pesq"] < least:
            yield f"{where}: PESQ {gain['pesq']:+.2f}, not {least:+.2f}"
        if snr == 5 and ours["reduction"] < 10:
            yield f"{where}: noise in pauses down {ours['reduction']:.1f} dB, not 10"
        if gain["stoi"] < -0.005:
            yield f"{where}: STOI {gain['stoi']:+.4f}, not over -0.005"
    for snr in sorted({snr for snr, _ in results}):
        none, ours = (
            np.array([one.errors for (ratio, _), row in results.items() if ratio == snr for one in row[name]])
            for name in ("none", "Voxpath")
        )
        if ours.sum() > none.sum():
            error = (ours - none).std() * np.sqrt(len(ours))
            more = f"{ours.sum() - none.sum():+d}, standard error {error:.0f}"
            yield f"{_ratio(snr)}: {ours.sum()} wrong words, {none.sum()} without denoising ({more})"


# ---- tables and plots ------------------------------------------------------------------------------------------------


def _ratio(snr: float) -> str:
    return "clean" if np.isinf(snr) else f"{snr:g} dB"


def _table(place: str, rows: dict, peers: list[System]) -> Table:
    title = "In rooms" if place == "rooms" else "Dry"
    table = Table(title=title, title_justify="left")
    table.add_column("SNR", justify="right")
    table.add_column("system")
    for _, name, _, _ in MEASURES:
        table.add_column(name, justify="right")
    table.add_column("delay ms", justify="right")
    for snr, row in rows.items():
        for index, peer in enumerate(peers):
            values = [form.format(row[peer.name][key]) for key, _, form, _ in MEASURES]
            table.add_row(
                _ratio(snr) if index == 0 else "",
                peer.name,
                *values,
                f"{peer.delay_ms:.1f}",
                style="bold" if peer.name == "Voxpath" else None,
                end_section=index == len(peers) - 1,
            )
    return table


COLOURS = {"none": "0.5", "Voxpath": "C0", "RNNoise": "C1", "oracle": "C2"}


def plot_spectrograms(path: Path, mixture: Mixture, sounds: dict[str, np.ndarray]) -> None:
    """Clean speech, what came in, and what each peer made of it, one under the other."""
    rows = {"clean speech": np.rint(mixture.clean), **{("mixture" if k == "none" else k): v for k, v in sounds.items()}}
    figure, axes = pyplot.subplots(len(rows), 1, figsize=(12, 2.1 * len(rows)), sharex=True, layout="constrained")
    last = min(len(mixture.pcm), 12 * RATE)
    dither = 1e-7 * np.random.default_rng(0).standard_normal(last)  # digital silence has no logarithm
    for axis, (name, sound) in zip(axes, rows.items(), strict=True):
        spectrum = axis.specgram(
            sound[:last] / 32768 + dither, NFFT=512, noverlap=384, Fs=RATE, vmin=-120, vmax=-40, cmap="magma"
        )
        axis.set_title(name, loc="left", fontsize=10)
        axis.set_yticks([0, 2000, 4000, 6000, 8000], ["0", "2", "4", "6", "8"])
        axis.set_ylabel("kHz")
    axes[-1].set_xlabel("s")
    figure.colorbar(spectrum[3], ax=axes, label="dB relative to full scale, per Hz")
    figure.suptitle(mixture.name)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def plot_measures(path: Path, means: dict, peers: list[System]) -> None:
    """Each measure against the signal-to-noise ratio, dry and in rooms."""
    places = [place for place in ("dry", "rooms") if any(where == place for _, where in means)]
    figure, axes = pyplot.subplots(
        len(places), len(MEASURES), figsize=(17, 3.8 * len(places)), squeeze=False, layout="constrained"
    )
    for row, place in zip(axes, places, strict=True):
        ratios = sorted(snr for snr, where in means if where == place and np.isfinite(snr))
        for axis, (key, name, _, more) in zip(row, MEASURES, strict=True):
            for peer in peers:
                values = [means[snr, place][peer.name][key] for snr in ratios]
                axis.plot(ratios, values, "o-", color=COLOURS[peer.name], label=peer.name)
            better = "" if key == "reduction" else ", more is better" if more else ", less is better"
            axis.set_title(f"{name if key != 'reduction' else 'noise in pauses, dB less'}{better}", fontsize=10)
            axis.set_xlabel("SNR, dB")
            axis.set_xticks(ratios)
            axis.grid(alpha=0.3)
        row[0].set_ylabel("dry" if place == "dry" else "in rooms")
    axes[0, 0].legend()
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


def plot_delay(path: Path, means: dict, peers: list[System]) -> None:
    """PESQ won over no denoising, mean of 5 and 10 dB, against algorithmic delay."""
    figure, axis = pyplot.subplots(figsize=(7, 4.5), layout="constrained")
    rows = [row for (snr, _), row in means.items() if snr in (5, 10)]
    for peer in peers:
        won = np.mean([row[peer.name]["pesq"] - row["none"]["pesq"] for row in rows])
        axis.plot(peer.delay_ms, won, "o", color=COLOURS[peer.name], markersize=9)
        label = f"{peer.name}, {peer.delay_ms:.1f} ms"
        axis.annotate(label, (peer.delay_ms, won), xytext=(8, 6), textcoords="offset points")
    axis.set_xlim(-2, 1.4 * max(peer.delay_ms for peer in peers) + 4)
    axis.margins(y=0.2)
    axis.set_xlabel("algorithmic delay, ms")
    axis.set_ylabel("PESQ-WB over no denoising, mean of 5 and 10 dB")
    axis.grid(alpha=0.3)
    figure.savefig(path, dpi=110)
    pyplot.close(figure)


if __name__ == "__main__":
    sys.exit(main())
