"""Sound to words: one run of the recogniser over what has been said so far, and what of its words will stay."""

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
    """One run over int16 `pcm` at 16 kHz: over the sound so far while somebody speaks, or over all of an utterance.

    `before` are the runs over pieces that were cut off the front of the utterance. `turn` is set once the turn that
    waits for this run is committed.
    """

    pcm: np.ndarray
    audio_ready_ns: int
    before: tuple[Recognition, ...] = ()
    guess: tuple[int, ...] = ()  # tokens of an earlier run, which the recogniser checks at once
    earlier: str = ""  # and its words
    cancel: Cancel = field(default_factory=Cancel)
    turn: Turn | None = None
    text: str | None = None
    tokens: tuple[int, ...] = ()
    final_ns: int = 0
    error: Exception | None = None
    cpu_s: float = 0.0

    @property
    def done(self) -> bool:
        return self.text is not None or self.error is not None

    def follow(self, earlier: Recognition) -> None:
        """Take over what a run over less of the same sound has found, or had from one before it."""
        if earlier.text is None:
            self.guess, self.earlier = earlier.guess, earlier.earlier
        else:
            self.guess, self.earlier = earlier.tokens, earlier.text

    def said(self, text: str | None = None) -> str:
        """The words of the whole utterance so far; `text` in place of those of this run."""
        parts = [part.text for part in self.before]
        return " ".join(part for part in (*parts, self.text if text is None else text) if part)


def words(text: str) -> str:
    """The transcript without asides and doubled spaces; empty when nothing was said."""
    text = " ".join(ASIDES.sub(" ", text).split())
    return text if any(char.isalnum() for char in text) else ""


def stable(earlier: str, later: str) -> str:
    """The words that two runs over growing sound agree on from the start, as the later one writes them.

    The last word of the earlier run may have been cut in its middle, so it counts only if more words follow it in the
    later one (local agreement: Liu et al., "Low-Latency Sequence-to-Sequence Speech Recognition", Interspeech 2020).
    """
    before, now = earlier.split(), later.split()
    agreed = 0
    for one, other in zip(before, now[:-1], strict=False):
        if _bare(one) != _bare(other):
            break
        agreed += 1
    return " ".join(now[:agreed])


def _bare(word: str) -> str:
    return "".join(char for char in word.lower() if char.isalnum())
