"""What the microphone hears when there is no microphone: sound files, spoken questions, and their labels.

Everything becomes mono PCM16 at the board's 48 kHz. A clip is played with `LEAD_IN_S` of quiet before it and
`TAIL_S` after it, and room tone at `ROOM_TONE_DBFS` lies under all of it: a real microphone never delivers
digital silence, and a detector that tracks the noise floor should meet a realistic one.
"""

from __future__ import annotations

import errno
import json
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from voxpath.errors import SourceError
from voxpath.speech.pronounce import say

MOST_TEXT = 1 << 20  # bytes of a label file or a system prompt
BOARD_RATE = 48_000
LEAD_IN_S = 0.5
TAIL_S = 0.5
ROOM_TONE_DBFS = -60.0
# A recording whose loudest sample stays under this has nothing to hear in it (-72 dBFS: 8 steps of PCM16).
RATES = (2_000, 768_000)  # Hz; what else a file claims is a mistake
LOUDEST = 1e4  # of a float file, times full scale
SILENT_PEAK = 8 / 32768


@dataclass(frozen=True, slots=True)
class Label:
    """One utterance: seconds from the first sample of its source, and the words if they are known."""

    start_s: float
    end_s: float
    text: str = ""


@dataclass(frozen=True, slots=True)
class Clip:
    """Sound for the board's microphone: int16 at 48 kHz, with the labels of the utterances in it."""

    pcm: np.ndarray
    labels: tuple[Label, ...] = field(default=())
    name: str = ""

    @property
    def seconds(self) -> float:
        return len(self.pcm) / BOARD_RATE


def read_sound(path: str | Path) -> tuple[np.ndarray, int]:
    """Read a sound file as (float32 mono in -1..1, sample rate in Hz); channels are averaged.

    Raises SourceError when it is missing, a folder, unreadable, empty, not audio, or silent.
    """
    import soundfile

    path = Path(path)
    if not path.exists():
        raise SourceError(f"There is no file {path}.")
    if path.is_dir():
        raise SourceError(f"{path} is a folder; name a WAV or FLAC file.")
    if not path.is_file():
        raise SourceError(f"{path} is a pipe or a device; name a WAV or FLAC file.")
    try:
        size = path.stat().st_size
        with path.open("rb"):
            pass
    except OSError as error:
        raise SourceError(f"{path} cannot be read: {error.strerror}.") from error
    if size == 0:
        raise SourceError(f"{path} is empty (0 bytes).")
    try:
        samples, rate = soundfile.read(path, dtype="float32", always_2d=True)
    except (soundfile.SoundFileError, RuntimeError, ValueError) as error:
        raise SourceError(f"{path} is not a sound file that can be read (WAV and FLAC can).") from error
    if len(samples) == 0:
        raise SourceError(f"{path} holds no samples.")
    if not np.isfinite(samples).all():
        raise SourceError(f"{path} holds samples that are not numbers (NaN or infinite).")
    if not RATES[0] <= rate <= RATES[1]:
        raise SourceError(f"{path} has {rate} samples a second; {RATES[0]} to {RATES[1]} can be read.")
    if np.abs(samples).max() > LOUDEST:
        raise SourceError(f"{path} goes {20 * np.log10(np.abs(samples).max()):.0f} dB over full scale.")
    if np.abs(samples).max() < SILENT_PEAK:
        raise SourceError(f"{path} is silent: no sample is louder than -72 dBFS.")
    mono = samples.mean(axis=1)
    if np.abs(mono).max() < SILENT_PEAK:
        raise SourceError(f"The channels of {path} cancel each other: no sample of their mean is louder than -72 dBFS.")
    return mono, rate


def to_board_rate(samples: np.ndarray, rate: int) -> np.ndarray:
    """Resample float mono to int16 at 48 kHz (soxr, high quality).

    A float file may go beyond full scale, and a filter rings at the edges of a clipped one: what would not fit is
    scaled down as a whole, so that no new clipping is added.
    """
    import soxr

    samples = np.asarray(samples, dtype=np.float32)
    if rate != BOARD_RATE:
        samples = soxr.resample(samples, rate, BOARD_RATE, quality="HQ")
    peak = float(np.abs(samples).max(initial=0.0))
    full = 32767 / 32768
    if peak > full:
        samples = samples * (full / peak)
    return np.rint(samples * 32768.0).astype(np.int16)


def room_tone(count: int, seed: int = 0) -> np.ndarray:
    """`count` samples of low-pass noise at `ROOM_TONE_DBFS` RMS (float64, 1.0 is full scale), the same each time.

    White noise through one pole at about 1 kHz: rooms rumble more than they hiss.
    """
    white = np.random.default_rng(seed).standard_normal(count)
    pole = float(np.exp(-2 * np.pi * 1000 / BOARD_RATE))
    # The one-pole low-pass as a truncated FIR: its impulse response is below -100 dB after 90 samples.
    taps = pole ** np.arange(96)
    taps *= 10 ** (ROOM_TONE_DBFS / 20) / np.sqrt(np.sum(taps**2))
    return np.convolve(white, taps)[:count]


def quiet_room(seconds: float = 20.0) -> np.ndarray:
    """Room tone alone, int16 at 48 kHz: what a microphone hears while nobody speaks."""
    return np.rint(32768.0 * room_tone(int(seconds * BOARD_RATE), seed=1)).astype(np.int16)


def with_room(clip: Clip, seed: int = 0) -> Clip:
    """The clip with quiet before and after it and room tone under all of it; labels move with the sound."""
    lead, tail = int(LEAD_IN_S * BOARD_RATE), int(TAIL_S * BOARD_RATE)
    sound = np.concatenate([np.zeros(lead), clip.pcm.astype(np.float64), np.zeros(tail)])
    sound += 32768.0 * room_tone(len(sound), seed)
    pcm = np.clip(np.rint(sound), -32768, 32767).astype(np.int16)
    labels = tuple(Label(one.start_s + LEAD_IN_S, one.end_s + LEAD_IN_S, one.text) for one in clip.labels)
    return Clip(pcm, labels, clip.name)


def _powers(pcm: np.ndarray, rate: int) -> np.ndarray:
    """Mean square of each whole 10 ms (float64, in squared sample units)."""
    step = rate // 100
    frames = np.asarray(pcm[: len(pcm) // step * step], dtype=np.float64).reshape(-1, step)
    return (frames**2).mean(axis=1)


def loud_span(pcm: np.ndarray, rate: int, within_db: float = 30.0) -> tuple[float, float]:
    """Seconds from the start of the first to the end of the last 10 ms frame within `within_db` of the loudest."""
    power = _powers(pcm, rate)
    if len(power) == 0 or power.max() == 0:
        raise SourceError("There is nothing to label: the sound is silent or shorter than 10 ms.")
    loud = np.flatnonzero(power >= power.max() * 10 ** (-within_db / 10))
    return float(loud[0]) / 100, float(loud[-1] + 1) / 100


def labelled(pcm: np.ndarray, text: str = "", name: str = "") -> Clip:
    """A clip of one utterance (int16, 48 kHz) whose label comes from the 30 dB rule of `loud_span`."""
    start_s, end_s = loud_span(pcm, BOARD_RATE)
    return Clip(pcm, (Label(start_s, end_s, text),), name)


def read_labels(path: str | Path, seconds: float | None = None) -> tuple[Label, ...]:
    """Labels from a JSON file `[{"start_s": 0.0, "end_s": 1.0, "text": ""}]`, in order of time.

    `seconds` is the length of the recording. Raises SourceError with the place of the first fault.
    """
    path = Path(path)
    try:
        rows = json.loads(read_text(path))
    except FileNotFoundError as error:
        raise SourceError(f"There is no label file {path}.") from error
    except OSError as error:
        raise SourceError(f"The label file {path} cannot be read: {error.strerror}.") from error
    except UnicodeDecodeError as error:
        raise SourceError(f"The label file {path} is not text in UTF-8.") from error
    except (ValueError, RecursionError) as error:
        raise SourceError(f"The label file {path} is not JSON: {error}.") from error
    if not isinstance(rows, list) or not rows:
        raise SourceError(f"The label file {path} must hold a list of at least one label.")
    labels = []
    for index, row in enumerate(rows):
        where = f"Label {index} in {path}"
        if not isinstance(row, dict):
            raise SourceError(f"{where} is not an object with start_s, end_s and text.")
        start_s, end_s, text = row.get("start_s"), row.get("end_s"), row.get("text", "")
        if not _is_seconds(start_s) or not _is_seconds(end_s):
            raise SourceError(f"{where} needs start_s and end_s, in seconds from the first sample.")
        if not isinstance(text, str):
            raise SourceError(f"{where} has a text that is not a string.")
        if end_s <= start_s:
            raise SourceError(f"{where} ends ({end_s} s) before it starts ({start_s} s).")
        if labels and start_s < labels[-1].end_s:
            raise SourceError(f"{where} starts before the label before it ends; labels must be in order.")
        if seconds is not None and end_s > seconds + 0.01:
            raise SourceError(f"{where} ends at {end_s} s, after the recording does ({seconds:.2f} s).")
        labels.append(Label(float(start_s), float(end_s), text))
    return tuple(labels)


def _is_seconds(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and 0 <= value < 1e9  # no NaN, no infinity


def read_text(path: str | Path) -> str:
    """The text of a small UTF-8 file. Raises OSError, also for a pipe, a device or more than a mebibyte."""
    path = Path(path)
    if path.exists() and not path.is_file():
        raise OSError(errno.EINVAL, "it is not a file")
    if path.stat().st_size > MOST_TEXT:
        raise OSError(errno.EFBIG, f"it has more than {MOST_TEXT >> 20} MiB")
    return path.read_text(encoding="utf-8")


def from_file(path: str | Path, labels: str | Path | None = None) -> Clip:
    """A sound file of any rate and channel count as a clip; labelled only when a label file is given."""
    samples, rate = read_sound(path)
    pcm = to_board_rate(samples, rate)
    marks = read_labels(labels, len(pcm) / BOARD_RATE) if labels else ()
    return Clip(pcm, marks, Path(path).name)


def pauses(pcm: np.ndarray, rate: int, at_least_s: float = 0.35, below_db: float = 30.0) -> list[tuple[float, float]]:
    """Quiet stretches (start_s, end_s) at least `at_least_s` long, `below_db` under the loudest 10 ms frame."""
    power = _powers(pcm, rate)
    quiet = power < power.max() * 10 ** (-below_db / 10)
    edges = np.flatnonzero(np.diff(np.concatenate([[0], quiet.astype(np.int8), [0]])))
    spans = [(float(a) / 100, float(b) / 100) for a, b in zip(edges[::2], edges[1::2], strict=True)]
    return [span for span in spans if span[1] - span[0] >= at_least_s]


def phrases(pcm: np.ndarray, shortest_s: float = 1.0, longest_s: float = 8.0, pause_s: float = 0.35) -> list:
    """Cut a 48 kHz recording at its pauses into phrases (int16) of `shortest_s` to `longest_s`, in order.

    A tenth of a second of the pauses around a phrase is kept. Shorter sounds (breaths, clicks) and longer stretches are
    left out.
    """
    gaps = pauses(pcm, BOARD_RATE, pause_s)
    starts = [0.0, *[end - 0.1 for _, end in gaps]]
    ends = [*[start + 0.1 for start, _ in gaps], len(pcm) / BOARD_RATE]
    spans = [span for span in zip(starts, ends, strict=True) if shortest_s <= span[1] - span[0] - 0.2 <= longest_s]
    return [pcm[int(start * BOARD_RATE) : int(end * BOARD_RATE)] for start, end in spans]


def default_recording() -> Clip:
    """The recording that a bare run answers: the first phrase of a human reading, cut at a pause, with its label."""
    from voxpath.models import recordings

    samples, rate = read_sound(recordings.two_cities())
    return labelled(phrases(to_board_rate(samples, rate))[0], name="two_cities")


def spoken(text: str, voice) -> Clip:
    """`text` said by a voice engine, as a clip with its label."""
    if not text.strip():
        raise SourceError("There is nothing to ask: the text of --ask is empty.")
    chunks = list(voice.speak(say(text)))
    if not chunks:
        raise SourceError(f"The voice made no sound of {text!r}.")
    pcm = np.concatenate(chunks)
    return labelled(to_board_rate(pcm.astype(np.float32) / 32768.0, voice.rate), text, "ask")
