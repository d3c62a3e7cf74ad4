"""Sound to words."""

from __future__ import annotations

import re
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import numpy as np

from voxpath.engines.cancel import Cancel

if TYPE_CHECKING:
    from voxpath.speech.turn import Turn

# What recognisers write for sound without words: [BLANK_AUDIO], (music), *coughs*.
ASIDES = re.compile(r"\[[^\]]*\]|\([^)]*\)|\*[^*]*\*|<\|[^|]*\|>")


@dataclass(eq=False, slots=True)
class Recognition:
    """One run of the recogniser: over the sound so far (a speculation), or over a finished utterance.

    `turn` is set once the turn that this recognition belongs to is committed.
    """

    pcm: np.ndarray
    audio_ready_ns: int
    cancel: Cancel = field(default_factory=Cancel)
    turn: Turn | None = None
    text: str | None = None
    final_ns: int = 0
    error: Exception | None = None


def words(text: str) -> str:
    """The transcript without asides and doubled spaces; empty when nothing was said."""
    text = " ".join(ASIDES.sub(" ", text).split())
    return text if any(char.isalnum() for char in text) else ""
