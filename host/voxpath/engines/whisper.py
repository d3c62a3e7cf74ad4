"""Speech to text with Whisper: what is asked of its two networks, and what is believed of what they say.

A recogniser is made of networks that run somewhere (voxpath.engines.ort on the CPU, voxpath.engines.cuda on a GPU):
`networks.listen(samples, cancel)` encodes the sound and is a context that gives an object with

    begin(tokens, rows) -> [(token, log probability)], probability of no speech
                            what the decoder would write after each of the tokens at `rows`, or after the first of
                            them; the first row is only looked at for whether there is speech
    follow(token, place) -> (token, log probability)
                            what it would write after `token`, which is at `place`; those behind it are forgotten
"""

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from voxpath.engines.cancel import Cancel
from voxpath.engines.mel import HOP, RATE

SILENCE_AFTER_S = 0.5  # the decoder ends more surely if it hears the end
TOKENS_PER_SECOND = 12  # nobody speaks faster; more is a decoder that does not stop
SPARE_TOKENS = 16
QUIETEST_DBFS = -70.0  # a loudest 10 ms below this is digital silence
# Text that Whisper hardly believes in is dropped, and sooner where it says itself that there is no speech. Speech in
# noise down to -5 dB stays above -0.8, with a probability of no speech under 0.4; noise alone is beyond a limit.
NO_SPEECH = 0.6
DOUBTFUL_LOGPROB = -0.5
HOPELESS_LOGPROB = -1.5


@dataclass(frozen=True)
class Word:
    """A word with seconds from the first sample. Times are estimates, spread by letters over what is not silent."""

    text: str
    start: float
    end: float


@dataclass(frozen=True)
class Transcript:
    """What was heard; empty text if nothing was said. `logprob` is the mean over tokens; `no_speech` a probability."""

    text: str = ""
    words: list[Word] = field(default_factory=list)
    tokens: list[int] = field(default_factory=list)
    logprob: float = 0.0
    no_speech: float = 1.0

    @property
    def confidence(self) -> float:
        """Geometric mean of the tokens' probabilities, 0 to 1."""
        return float(np.exp(self.logprob)) if self.tokens else 0.0


class Recogniser:
    """A Whisper in memory.

    >>> recogniser(model).transcribe(pcm).text        # pcm int16 or float, 16 kHz, mono
    'The capital of France is Paris.'
    """

    rate = RATE

    def __init__(self, description, tokenizer, networks):
        self.description = description
        self.tokenizer = tokenizer
        self._networks = networks
        self._decode(np.zeros(RATE, np.float32), [], [], None)

    def transcribe(
        self,
        pcm: np.ndarray,
        prompt: str | None = None,
        cancel: Cancel | None = None,
        guess: Sequence[int] = (),
    ) -> Transcript:
        """What is said in `pcm` [n] (int16, or float within +-1).

        `prompt` is text that came before, for names and style. `guess` are tokens that the transcript may begin with,
        such as those of a shorter part of the sound: as many as are right cost one step of the decoder together, and
        what is heard does not depend on them. Silence and noise give an empty transcript. Raises Cancelled.
        """
        samples = pcm.astype(np.float32) / 32768 if pcm.dtype == np.int16 else np.asarray(pcm, np.float32)
        previous = self._previous(prompt)
        pieces, start = [], 0
        ends = _cuts(samples, int(self.description.max_frames * HOP - SILENCE_AFTER_S * RATE))
        for end in ends:
            told = guess if len(ends) == 1 else ()
            pieces.append(self._piece(samples[start:end], start / RATE, previous, told, cancel))
            start = end
        spoken = [piece for piece in pieces if piece.text]
        if len(spoken) < 2:
            return spoken[0] if spoken else (pieces[0] if pieces else Transcript())
        tokens = [token for piece in spoken for token in piece.tokens]
        return Transcript(
            text=" ".join(piece.text for piece in spoken),
            words=[word for piece in spoken for word in piece.words],
            tokens=tokens,
            logprob=sum(piece.logprob * len(piece.tokens) for piece in spoken) / len(tokens),
            no_speech=min(piece.no_speech for piece in spoken),
        )

    def _previous(self, prompt: str | None) -> list[int]:
        if not prompt or not prompt.strip():
            return []
        ids = self.tokenizer.encode(" " + prompt.strip(), add_special_tokens=False).ids
        return [self.description.previous, *ids[-(self.description.max_tokens // 2 - 1) :]]

    def _piece(
        self, samples: np.ndarray, offset: float, previous: list[int], guess: Sequence[int], cancel: Cancel | None
    ) -> Transcript:
        active = _active(samples)
        if active is None:
            return Transcript()
        tokens, logprob, no_speech = self._decode(samples, previous, guess, cancel)
        text = self.tokenizer.decode(tokens).strip()
        if not text or logprob < (DOUBTFUL_LOGPROB if no_speech > NO_SPEECH else HOPELESS_LOGPROB):
            return Transcript(logprob=logprob, no_speech=no_speech)
        return Transcript(text, _spread(text, offset + active[0], offset + active[1]), tokens, logprob, no_speech)

    def _decode(
        self, samples: np.ndarray, previous: list[int], guess: Sequence[int], cancel: Cancel | None
    ) -> tuple[list[int], float, float]:
        """The likeliest next token, again and again. Returns tokens, mean log probability, probability of no speech."""
        d = self.description
        limit = int(TOKENS_PER_SECOND * len(samples) / RATE) + SPARE_TOKENS
        ids = [*previous, *d.prompt]
        first = len(ids)
        guess = list(guess)[: max(0, min(d.max_tokens - first - 1, limit))]
        # Whisper says whether there is speech where the transcript starts: at the token that follows `previous`.
        rows = [len(previous), *range(first - 1, first + len(guess))]
        tokens, logprobs = [], []
        with self._networks.listen(samples, cancel) as writing:
            chosen, no_speech = writing.begin([*ids, *guess], rows)  # the next token, and those after it if all is so
            for place in range(first, min(d.max_tokens, first + limit)):
                if not chosen:
                    chosen = [writing.follow(tokens[-1], place - 1)]
                token, logprob = chosen.pop(0)
                logprobs.append(logprob)
                if token == d.end:
                    break
                tokens.append(token)
                if kept := _repeats(tokens):
                    tokens = tokens[:kept]
                    break
                if guess[:1] == [token]:
                    guess = guess[1:]
                else:  # there was no guess, or it is wrong from here on
                    guess, chosen = [], []
        return tokens, float(np.mean(logprobs)), no_speech


def _repeats(tokens: list[int], times: int = 4, longest: int = 12) -> int:
    """How many tokens to keep if they end in the same few, `times` in a row; 0 if they do not."""
    for length in range(1, longest + 1):
        tail = tokens[-length * times :]
        if len(tail) == length * times and tail == tail[:length] * times:
            return len(tokens) - length * (times - 1)
    return 0


def _loudness(samples: np.ndarray) -> np.ndarray:
    """dB relative to full scale, each 10 ms (the last one padded)."""
    blocks = np.pad(samples, (0, -len(samples) % HOP)).reshape(-1, HOP)
    return 10 * np.log10(np.maximum((blocks**2).mean(1), 1e-12))


def _active(samples: np.ndarray, below_loudest_db: float = 35.0) -> tuple[float, float] | None:
    """First and last second that is within `below_loudest_db` of the loudest; None for digital silence."""
    if not len(samples):
        return None
    loudness = _loudness(samples)
    if loudness.max() < QUIETEST_DBFS:
        return None
    blocks = np.flatnonzero(loudness > loudness.max() - below_loudest_db)
    return float(blocks[0] * HOP / RATE), float(min(len(samples), (blocks[-1] + 1) * HOP) / RATE)


def _cuts(samples: np.ndarray, longest: int) -> list[int]:
    """Where to end each piece of at most `longest` samples: at the quietest tenth of a second in its last third."""
    cuts, start = [], 0
    while len(samples) - start > longest:
        first = start + 2 * longest // 3
        loudness = np.convolve(_loudness(samples[first : start + longest]), np.ones(10) / 10, mode="valid")
        start = first + (int(loudness.argmin()) + 5) * HOP
        cuts.append(start)
    return [*cuts, len(samples)]


def _spread(text: str, start: float, end: float) -> list[Word]:
    """Words with times in proportion to their letters."""
    words, at = [], 0
    per_letter = (end - start) / len(text)
    for word in text.split():
        at = text.index(word, at)
        words.append(Word(word, start + at * per_letter, start + (at + len(word)) * per_letter))
        at += len(word)
    return words
