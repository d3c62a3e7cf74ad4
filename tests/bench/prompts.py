"""Hundreds of human utterances for the response bench, in two sets, each with its words and where its speech ends.

Set A is said in one breath: no silence over SHORT_S inside it. Set B has exactly one, of PAUSE_S, after which the
speaker goes on: whoever answers there cuts in. A silence is what lies 30 dB under the loudest 10 ms, by the same rule
that says where speech ends (`sources.labelled`), on the clean sound.

Material: Debian's asterisk-core-sounds-en-g722 (a woman's telephone prompts, 16 kHz, CC-BY-SA 3.0, fetched once with
apt-get into the cache, without root), the Harvard sentences beside the checkout, and the public reading. Few people
pause for long in a prompt: a clip with one silence from SHORT_S to PAUSE_S[0] has it lengthened with its own quiet to a
length drawn from the seed. In every such prompt that silence lies between two words, as its halves were recognised.
"""

import gzip
import re
import shutil
import subprocess
from collections.abc import Callable, Iterator
from functools import cache
from pathlib import Path

import numpy as np
from mixtures import LEVEL_DBFS, READING
from sentences import evaluation, plain, reading

from voxpath import sources
from voxpath.errors import ModelError, VoxpathError
from voxpath.models import fetch
from voxpath.sources import BOARD_RATE, Clip

SHORT_S = 0.150
PAUSE_S = (0.300, 0.600)
SPEECH_S = (0.8, 8.0)
FEWEST_WORDS = 3
STEP_S = 0.010  # of the rule about silence
QUIET_S = 0.050  # of a silence, from which more of it is made
B_EVERY = 3  # every third turn is of set B

PACKAGES = ("asterisk-core-sounds-en", "asterisk-core-sounds-en-g722")  # the texts, the sound
PROMPT_RATE = 16_000
MARKED = re.compile(r"[\[<(*#@]|\.\.\.|:$")  # tones, remarks, and prompts that something else completes
# More prompts that nobody says alone: the telephone puts a name or a number before or after them.
FRAGMENTS = """
astcc-followed-by-the-pound-key conf-enteringno conf-hasjoin conf-hasleft conf-otherinparty conf-thereare
conf-userswilljoin conf-userwilljoin dir-first followme/call-from from-unknown-caller is-in-use is-set-to
queue-holdtime queue-thereare spy-misdn spy-nbs to-call-this-number to-listen-to-it to-rerecord-it
unidentified-no-callback vm-from-extension vm-from-phonenumber vm-isonphone vm-num-i-have vm-onefor vm-savemessage
vm-then-pound vm-theperson vm-tocancel vm-unknown-caller
"""
DIGITS = ["zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"]


def turns(count: int, seed: int = 0, missing: Callable[[str], None] = print) -> list[tuple[str, Clip]]:
    """`count` clips with the name of their set, every third of B; no clip comes twice before all of its set have come.

    `missing` gets a sentence for each source that is not there. Raises VoxpathError where a set would be empty.
    """
    pauseless, pausing = _sets(missing)
    if not pauseless or not pausing:
        raise VoxpathError("There are no recordings to take the utterances from.")
    rng = np.random.default_rng(seed)
    set_a, set_b = _shuffled(pauseless, rng), _shuffled(pausing, rng)
    chosen = []
    for at in range(count):
        if at % B_EVERY == 0:
            chosen.append(("B", with_pause(next(set_b), rng)))
        else:
            chosen.append(("A", next(set_a)))
    return chosen


def silences(clip: Clip, longer_s: float = SHORT_S) -> list[tuple[float, float]]:
    """(start_s, end_s) of the silences over `longer_s` inside the clip's one utterance."""
    label = clip.labels[0]
    found = sources.pauses(clip.pcm, BOARD_RATE, longer_s + STEP_S / 2)
    return [(start, end) for start, end in found if start >= label.start_s and end <= label.end_s]


def which_set(clip: Clip) -> str | None:
    """ "A", "B", or None for what is in neither; B also where the silence has yet to be lengthened."""
    label = clip.labels[0]
    if not SPEECH_S[0] <= label.end_s - label.start_s <= SPEECH_S[1] or len(words(label.text)) < FEWEST_WORDS:
        return None
    found = silences(clip)
    if not found:
        return "A"
    return "B" if len(found) == 1 and found[0][1] - found[0][0] <= PAUSE_S[1] + STEP_S / 2 else None


def with_pause(clip: Clip, rng: np.random.Generator) -> Clip:
    """A clip of set B with a pause of PAUSE_S: its own, or its shorter silence lengthened by quiet out of its middle.

    The quietest of the silence, at most QUIET_S, is played backwards and forwards again behind itself, so that no
    sample jumps; by whole steps, so that the rule finds everything else where it was.
    """
    ((start, end),) = silences(clip)
    wanted = rng.uniform(PAUSE_S[0] + QUIET_S, PAUSE_S[1] - QUIET_S)  # rounding, below, stays inside
    if end - start >= PAUSE_S[0] - STEP_S / 2:
        return clip
    more = wanted - (end - start)
    pairs = int(np.ceil(more / (2 * QUIET_S)))
    half = max(1, round(more / pairs / STEP_S)) * int(STEP_S * BOARD_RATE) // 2
    first, last = round(start * BOARD_RATE), round(end * BOARD_RATE)
    energy = np.concatenate([[0.0], np.cumsum(clip.pcm[first:last].astype(np.float64) ** 2)])
    at = first + int(np.argmin(energy[half:] - energy[:-half])) + half
    tone = clip.pcm[at - half : at]
    longer = np.concatenate([clip.pcm[:at], np.tile(np.concatenate([tone[::-1], tone]), pairs), clip.pcm[at:]])
    return sources.labelled(longer, clip.labels[0].text, clip.name)


def between_sentences(clip: Clip) -> bool:
    """Whether the text is more than one sentence; then the pause of set B lies between two."""
    return bool(re.search(r"[.?!]\s+\w", clip.labels[0].text))


def words(text: str) -> list[str]:
    """The text's words as they are compared with what was recognised: plain, digits spoken out."""
    return [DIGITS[int(word)] if len(word) == 1 and word.isdigit() else word for word in plain(text).split()]


def _shuffled(clips: list[Clip], rng: np.random.Generator) -> Iterator[Clip]:
    while True:
        for at in rng.permutation(len(clips)):
            yield clips[at]


# ---- the material ----------------------------------------------------------------------------------------------------


@cache
def _sorted() -> tuple[list[Clip], list[Clip], list[str]]:
    """(set A, set B with their silences as recorded, what is missing)."""
    missing = []
    clips = [sources.labelled(clip.pcm, clip.labels[0].text, clip.name) for clip in evaluation()]
    if not clips:
        missing.append("There are no Harvard sentences beside the checkout: their words are left out.")
    for source in (prompts, reading_pieces):
        try:
            clips += source()
        except VoxpathError as error:
            missing.append(str(error))
    clips = [_at_level(clip) for clip in clips]
    sets = {name: [clip for clip in clips if which_set(clip) == name] for name in "AB"}
    return sets["A"], sets["B"], missing


def _sets(missing: Callable[[str], None]) -> tuple[list[Clip], list[Clip]]:
    pauseless, pausing, sentences = _sorted()
    for sentence in sentences:
        missing(sentence)
    return pauseless, pausing


def _at_level(clip: Clip) -> Clip:
    """The clip with its active 10 ms frames at LEVEL_DBFS on average."""
    step = BOARD_RATE // 100
    frames = clip.pcm[: len(clip.pcm) // step * step].astype(np.float64).reshape(-1, step)
    power = (frames**2).mean(axis=1)
    active = power[power >= power.max() * 10**-3].mean()
    gain = 32768 * 10 ** (LEVEL_DBFS / 20) / np.sqrt(active)
    pcm = np.clip(np.rint(clip.pcm * gain), -32768, 32767).astype(np.int16)
    return sources.labelled(pcm, clip.labels[0].text, clip.name)


def reading_pieces() -> list[Clip]:
    """The reading's phrases, and each two that follow one another."""
    whole = reading()
    pieces = [*READING]
    pieces += [(a, last, f"{text} {more}") for (a, _, text), (_, last, more) in zip(READING, READING[1:], strict=False)]
    return [
        sources.labelled(whole[int((first - 0.1) * BOARD_RATE) : int((last + 0.1) * BOARD_RATE)], text, f"reading {at}")
        for at, (first, last, text) in enumerate(pieces)
    ]


def prompts() -> list[Clip]:
    """The telephone prompts that may be said alone. Raises VoxpathError where they, or their decoder, are not there."""
    try:
        from G722 import G722
    except ImportError as error:
        raise VoxpathError(
            "The telephone prompts are left out: the Python package G722 decodes them; `make setup-bench` installs it."
        ) from error
    folder = fetch.entry("sources/asterisk-core-sounds-en", _fetch)
    (texts,) = folder.rglob("core-sounds-en.txt.gz")
    sounds = {
        str(path.relative_to(voice).with_suffix("")): path
        for voice in folder.glob("usr/share/asterisk/sounds/*")
        for path in voice.rglob("*.g722")
    }
    fragments = set(FRAGMENTS.split())
    clips = []
    for line in gzip.decompress(texts.read_bytes()).decode().splitlines():
        name, _, text = line.partition(":")
        text = text.strip()
        if name in sounds and name not in fragments and not MARKED.search(text) and len(words(text)) >= FEWEST_WORDS:
            decoded = np.asarray(G722(PROMPT_RATE, 64_000).decode(sounds[name].read_bytes()), dtype=np.float32) / 32768
            clips.append(sources.labelled(sources.to_board_rate(decoded, PROMPT_RATE), text, name))
    return clips


def _fetch(folder: Path) -> None:
    """Unpack PACKAGES into `folder`."""
    for command in ("apt-get", "dpkg-deb"):
        if shutil.which(command) is None:
            raise ModelError(f"The telephone prompts are left out: they come from Debian, and there is no {command}.")
    try:
        _run(["apt-get", "download", *PACKAGES], folder)
        for package in folder.glob("*.deb"):
            _run(["dpkg-deb", "-x", package.name, "."], folder)
            package.unlink()
    except subprocess.CalledProcessError as error:
        said = (error.stderr.strip().splitlines() or ["nothing"])[-1].removeprefix("E: ").rstrip(".")
        raise ModelError(
            f"The telephone prompts are left out: `apt-get download {PACKAGES[1]}` said: {said}; "
            "`sudo apt-get update` may help."
        ) from error


def _run(command: list[str], folder: Path) -> None:
    subprocess.run(command, cwd=folder, check=True, capture_output=True, text=True)
