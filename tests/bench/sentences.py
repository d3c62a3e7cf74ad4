"""Labelled speech for the benches: sentences with known texts where they lie beside the checkout, and a reading."""

import json
import re
from pathlib import Path

import numpy as np

from voxpath import sources
from voxpath.models import recordings
from voxpath.sources import Clip, Label

SPEECH = Path(__file__).resolve().parents[3] / "shared" / "data" / "speech"


def evaluation() -> list[Clip]:
    """The Harvard sentences, labelled by their manifest; none where the folder is not there."""
    manifest = SPEECH / "manifest.json"
    if not manifest.exists():
        return []
    clips = []
    for name, facts in sorted(json.loads(manifest.read_text()).items()):
        if not name.startswith("spk1_"):
            continue
        samples, rate = sources.read_sound(SPEECH / name)
        first, last = (sample / facts["rate"] for sample in facts["speech_samples"])
        clips.append(Clip(sources.to_board_rate(samples, rate), (Label(first, last, facts["text"]),), name))
    return clips


def reading() -> np.ndarray:
    """The whole public reading, int16 at 48 kHz."""
    samples, rate = sources.read_sound(recordings.two_cities())
    return sources.to_board_rate(samples, rate)


def reading_phrases() -> list[Clip]:
    """The reading cut at its pauses, each piece labelled by the 30 dB rule; their texts are not known one by one."""
    return [sources.labelled(piece, name=f"two_cities {at}") for at, piece in enumerate(sources.phrases(reading()))]


def plain(text: str) -> str:
    """Lower-case words alone, as word error rates compare them."""
    text = text.lower().replace("\u2019", "'")
    return " ".join(re.sub(r"[^a-z0-9' ]+", " ", text).split())
