"""Noisy speech with known truth, 16 kHz, for the benches of denoiser and VAD: clips x noises x ratios x rooms.

A stream is LEAD_S of noise alone (an estimator of noise needs something to listen to), then utterances with pauses
between them, then TAIL_S. The noise has the given ratio to the speech in the room, both measured over their mean power,
the speech's where it is active; ROOM_TONE_DBFS lies under everything. Where ../shared/data/speech is not there, the
public reading and synthesised noises take the place of the recordings, without rooms.
"""

import json
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import soxr
from scipy.signal import fftconvolve, lfilter
from sentences import SPEECH, plain, reading

from voxpath import sources

RATE = 16_000
FRAME = RATE // 100  # samples: the step of the truth about speech
LEAD_S = 2.0
GAP_S = 1.0  # between utterances that are files of their own
TAIL_S = 1.0
LEVEL_DBFS = -26.0  # of active speech
ROOM_TONE_DBFS = -66.0
ACTIVE_DB = 30.0  # a frame this far under the loudest is not speech any more
SNRS_DB = (0, 5, 10, 20)
MISSING = f"No recordings in {SPEECH}: the public reading and synthesised noises instead, no rooms."

# The reading's first phrases, as its pauses cut it: (first second, last second, words).
READING = (
    (1.20, 4.55, "it was the best of times it was the worst of times"),
    (5.02, 6.19, "it was the age of wisdom"),
    (6.67, 8.19, "it was the age of foolishness"),
    (8.82, 10.29, "it was the epoch of belief"),
    (10.77, 12.78, "it was the epoch of incredulity"),
    (13.47, 14.77, "it was the season of light"),
    (15.15, 16.68, "it was the season of darkness"),
    (17.57, 20.45, "it was the spring of hope it was the winter of despair"),
    (21.25, 23.99, "we had everything before us we had nothing before us"),
)


@dataclass(frozen=True)
class Utterance:
    first: int  # samples of its stream, half open
    last: int
    text: str = ""  # plain words, empty where they are not known


@dataclass(frozen=True)
class Mixture:
    """int16[n] at 16 kHz as the denoiser meets it, and what it is made of."""

    pcm: np.ndarray  # the sum, int16
    clean: np.ndarray  # the speech alone, in its room, float64 in units of int16
    noise: np.ndarray  # the noise alone, likewise
    utterances: tuple[Utterance, ...]
    speech: np.ndarray  # bool[n // FRAME]: frames within ACTIVE_DB of the clean stream's loudest
    clip: str
    noise_name: str  # "clean" where there is only room tone
    snr_db: float  # infinite where there is only room tone
    room: str  # "dry" or the name of an impulse response

    @property
    def name(self) -> str:
        return f"{self.clip}, {self.noise_name}, {self.snr_db:g} dB, {self.room}"


def have_recordings() -> bool:
    return (SPEECH / "manifest.json").exists()


def mixtures(snrs=(*SNRS_DB, np.inf), every_room: bool = False) -> Iterator[Mixture]:
    """Every clip with every noise at every ratio, dry and in a room, the rooms in turn (or each in all of them)."""
    streams, noises, rooms = clips(), background(), list(impulse_responses().items())
    for clip_at, (clip, (speech, utterances)) in enumerate(streams.items()):
        for snr_at, snr in enumerate(snrs):
            for noise_at, (noise_name, noise) in enumerate(noises.items()):
                if np.isinf(snr) and noise_at > 0:
                    continue
                turn = clip_at + snr_at + noise_at
                chosen = rooms if every_room else rooms[turn % len(rooms) :][:1] if rooms else []
                for room, response in [("dry", None), *chosen]:
                    yield mix(speech, utterances, noise, snr, response, clip, noise_name, room, seed=turn)


def count(snrs=(*SNRS_DB, np.inf), every_room: bool = False) -> int:
    """How many `mixtures` yields."""
    noises, rooms = len(background()), len(impulse_responses())
    pairs = sum(1 if np.isinf(snr) else noises for snr in snrs)
    return len(clips()) * pairs * (1 + (rooms if every_room else min(rooms, 1)))


def mix(speech, utterances, noise, snr, response, clip, noise_name, room, seed=0) -> Mixture:
    """One mixture of float speech and noise of any level in a room of impulse `response`; the noise is repeated."""
    if response is not None:
        speech = fftconvolve(speech, response)[: len(speech)]
    active = activity(speech)
    powers = _powers(speech)
    speech = speech * (32768 * 10 ** (LEVEL_DBFS / 20) / np.sqrt(powers[active].mean()))
    rng = np.random.default_rng(seed)
    tone = 32768 * 10 ** (ROOM_TONE_DBFS / 20) * rng.standard_normal(len(speech))
    if np.isinf(snr):
        noise, noise_name = tone, "clean"
    else:
        start = int(rng.integers(len(noise)))
        noise = np.take(noise, np.arange(start, start + len(speech)), mode="wrap")
        level = 32768 * 10 ** ((LEVEL_DBFS - snr) / 20) / np.sqrt((noise**2).mean())
        noise = noise * level + tone
    loudest = np.abs(speech + noise).max()
    if loudest > 32000:  # neither clips, and their ratio stays
        speech, noise = speech * (32000 / loudest), noise * (32000 / loudest)
    pcm = np.rint(speech + noise).astype(np.int16)
    return Mixture(pcm, speech, noise, utterances, active, clip, noise_name, snr, room)


def activity(speech: np.ndarray) -> np.ndarray:
    """bool[n // FRAME]: the frames of clean speech within ACTIVE_DB of its loudest."""
    powers = _powers(speech)
    return powers >= powers.max() * 10 ** (-ACTIVE_DB / 10)


def _powers(sound: np.ndarray) -> np.ndarray:
    frames = np.asarray(sound[: len(sound) // FRAME * FRAME], dtype=np.float64).reshape(-1, FRAME)
    return (frames**2).mean(axis=1)


# ---- the material ----------------------------------------------------------------------------------------------------


def clips() -> dict[str, tuple[np.ndarray, tuple[Utterance, ...]]]:
    """Name -> (float64 stream with its pauses, utterances)."""
    streams = {}
    if have_recordings():
        facts = json.loads((SPEECH / "manifest.json").read_text())
        sentences = [(name, fact) for name, fact in sorted(facts.items()) if name.startswith("spk1_")]
        streams["sentences"] = _stream(
            [(_read(name), *fact["speech_samples"], fact["text"]) for name, fact in sentences]
        )
        fact = _read("lj050_0131.wav")
        first, last = sources.loud_span(fact, RATE, ACTIVE_DB)
        streams["lj050"] = _stream([(fact, int(first * RATE), int(last * RATE), "")])
    sound = soxr.resample(reading().astype(np.float64) / 32768, sources.BOARD_RATE, RATE)
    start, end = READING[0][0] - 0.1, READING[-1][1] + 0.1
    whole, utterances = _stream([(sound[int(start * RATE) : int(end * RATE)], 0, 0, "")])
    offset = int((LEAD_S - start) * RATE)
    utterances = tuple(Utterance(offset + int(a * RATE), offset + int(b * RATE), text) for a, b, text in READING)
    streams["reading"] = whole, utterances
    return streams


def _stream(parts) -> tuple[np.ndarray, tuple[Utterance, ...]]:
    """(sound, first, last, text) one after another with quiet around them."""
    pieces, utterances, at = [np.zeros(int(LEAD_S * RATE))], [], int(LEAD_S * RATE)
    for index, (sound, first, last, text) in enumerate(parts):
        pieces += [sound, np.zeros(int((TAIL_S if index == len(parts) - 1 else GAP_S) * RATE))]
        utterances.append(Utterance(at + first, at + last, plain(text)))
        at += len(sound) + int(GAP_S * RATE)
    return np.concatenate(pieces), tuple(utterances)


def background() -> dict[str, np.ndarray]:
    """Name -> float64 noise."""
    if have_recordings():
        return {name: _read(f"{name}.wav") for name in ("noise1", "noise2", "noise3")}
    rng = np.random.default_rng(1)
    white = rng.standard_normal((3, 20 * RATE))
    pink = np.fft.rfft(white[0])
    pink[1:] /= np.sqrt(np.arange(1, len(pink)))
    rumble = lfilter([1], [1, -1.9, 0.9025], white[1])  # two poles near 130 Hz
    swell = 1 + 0.7 * np.sin(2 * np.pi * 0.5 * np.arange(20 * RATE) / RATE)  # a noise that comes and goes
    return {"pink": np.fft.irfft(pink), "rumble": rumble, "swelling": white[2] * swell}


def impulse_responses() -> dict[str, np.ndarray]:
    """Name -> float64 impulse response from its direct sound on; none where there are no recordings."""
    if not have_recordings():
        return {}
    responses = {}
    for name in ("rir1", "rir2"):
        response = _read(f"{name}.wav")
        responses[name] = response[np.abs(response).argmax() :]
    return responses


def _read(name: str) -> np.ndarray:
    """A file of the folder as float64 mono at 16 kHz."""
    sound, rate = sources.read_sound(SPEECH / name)
    return sound.astype(np.float64) if rate == RATE else soxr.resample(sound.astype(np.float64), rate, RATE)
