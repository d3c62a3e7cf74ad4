"""The recorded human voice that the demonstration answers and the benches listen to."""

from pathlib import Path

from voxpath.models.fetch import Progress, Wheel, extract

# MIT; 48 kHz mono, 44 s. The wheel is the same on every machine: one file is read out of it.
_MOONSHINE = Wheel(
    "moonshine-voice",
    "0.1.5",
    sha256="1ed9e0ccf94be4845d69e7fa862dcf4c8b5801a758796966494c694f48184496",
    size=19_897_307,
    platform="manylinux_2_34_x86_64",
)

# Charles Dickens, A Tale of Two Cities (1859), the first sentence of book 1, chapter 1: in the public domain.
TWO_CITIES_TEXT = (
    "It was the best of times, it was the worst of times, it was the age of wisdom, it was the age of "
    "foolishness, it was the epoch of belief, it was the epoch of incredulity, it was the season of Light, it was "
    "the season of Darkness, it was the spring of hope, it was the winter of despair, we had everything before "
    "us, we had nothing before us, we were all going direct to Heaven, we were all going direct the other way - "
    "in short, the period was so far like the present period, that some of its noisiest authorities insisted on "
    "its being received, for good or for evil, in the superlative degree of comparison only."
)


def two_cities(progress: Progress | None = None) -> Path:
    """A WAV file of a man reading TWO_CITIES_TEXT; fetched once. Raises ModelError."""
    name = "two_cities.wav"
    return extract(_MOONSHINE, [f"moonshine_voice/assets/{name}"], progress) / name
