"""The streaming vocoder against hibari's own, which works on whole sentences."""

import numpy as np
import pytest
from hibari import dsp

from voxpath.engines.vocoder import BINS, HOP, Frames, Vocoder

FRAMES = 60


@pytest.fixture(scope="module")
def frames():
    """Spectra with all three branches alive but the noise, which the two draw in different orders."""
    rng = np.random.default_rng(7)
    lh, theta, ln, lr, phi = (rng.standard_normal((BINS, FRAMES)).astype(np.float32) for _ in range(5))
    at = np.arange(FRAMES)
    f0 = np.where(at % 20 < 14, 120 + 30 * np.sin(at / 5), 0).astype(np.float32)  # voiced and unvoiced
    return Frames(lh, theta, ln - 60, lr, phi, f0)


def say(frames, ends, **options):
    vocoder, out, start = Vocoder(**options), [], 0
    for end in ends:
        out.append(vocoder.push(Frames(*(part[..., start:end] for part in frames)), end == len(frames.f0)))
        start = end
    return out


@pytest.mark.parametrize(
    "ends", [[FRAMES], [24, FRAMES], [1, 2, 3, 10, 59, FRAMES], list(range(1, FRAMES + 1))], ids=["1", "2", "6", "60"]
)
def test_sound_in_pieces_is_that_of_the_whole_sentence(frames, ends):
    expected = dsp.synth(*frames, np.random.default_rng(0))
    sound = np.concatenate(say(frames, ends))
    assert len(sound) == len(expected) == FRAMES * HOP
    np.testing.assert_allclose(sound, expected, atol=3e-5)


def test_a_frame_is_heard_four_frames_after_it_is_pushed(frames):
    lengths = np.cumsum([len(piece) for piece in say(frames, range(1, FRAMES + 1))])
    assert list(lengths[:-1] // HOP) == [max(0, pushed - 4) for pushed in range(1, FRAMES)]


def test_noise_has_the_spectrum_it_should_and_does_not_depend_on_the_pieces():
    silent = np.full((BINS, 400), -60, np.float32)
    frames = Frames(silent, silent, np.zeros_like(silent), silent, silent, np.zeros(400, np.float32))
    whole = np.concatenate(say(frames, [400], seed=3))
    np.testing.assert_allclose(np.concatenate(say(frames, [7, 100, 400], seed=3)), whole, atol=1e-6)
    expected = dsp.synth(*frames, np.random.default_rng(5))
    assert whole.std() == pytest.approx(expected.std(), rel=0.03)
    assert not np.allclose(whole, np.concatenate(say(frames, [400], seed=4)))
