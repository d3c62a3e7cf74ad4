"""Whisper's features against a slow transform written from the definition."""

import numpy as np
import pytest

from voxpath.engines.mel import HOP, RATE, WINDOW, log_mel, mel_filters


def slow_mel(pcm, frames, bins):
    """The definition, a sum a bin: centred, mirrored, Hann-windowed power spectra through the filters."""
    padded = np.concatenate([pcm, np.zeros(frames * HOP - len(pcm))])
    padded = np.concatenate([padded[200:0:-1], padded, padded[-2:-202:-1]])
    n = np.arange(WINDOW)
    window = np.sin(np.pi * n / WINDOW) ** 2
    out = np.zeros((bins, frames))
    for frame in range(frames):
        part = padded[frame * HOP : frame * HOP + WINDOW] * window
        power = [abs(np.sum(part * np.exp(-2j * np.pi * k * n / WINDOW))) ** 2 for k in range(WINDOW // 2 + 1)]
        out[:, frame] = np.log10(np.maximum(mel_filters(bins) @ power, 1e-10))
    return (np.maximum(out, out.max() - 8) + 4) / 4


@pytest.mark.parametrize("samples", [1, 700, 1900, 12 * HOP])
def test_features_are_those_of_a_direct_transform(samples):
    rng = np.random.default_rng(samples)
    pcm = rng.standard_normal(samples) * 0.1 + 0.3 * np.sin(2 * np.pi * 440 / RATE * np.arange(samples))
    features = log_mel(pcm.astype(np.float32), 12)
    assert features.shape == (1, 80, 12) and features.dtype == np.float32
    np.testing.assert_allclose(features[0], slow_mel(pcm, 12, 80), atol=2e-4)


def test_audio_that_is_too_long_is_cut_as_if_it_ended_there():
    pcm = np.random.default_rng(0).standard_normal(40 * HOP).astype(np.float32)
    np.testing.assert_array_equal(log_mel(pcm, 20), log_mel(pcm[: 20 * HOP], 20))


def test_filters_are_slaneys():
    # The first numbers of the 80-filter table that is published with Whisper.
    filters = mel_filters(80)
    assert filters[0, 1] == pytest.approx(0.02486259, abs=1e-7) and filters[1, 1] == pytest.approx(0.00199082, abs=1e-7)
    # Unit area in Hz, once a filter is wide enough for 40 Hz steps to show its shape.
    np.testing.assert_allclose(filters[60:].sum(1) * RATE / WINDOW, 1, rtol=0.02)
    assert (filters >= 0).all() and filters.shape == (80, 201)
    # A tone at 1 kHz is 15 mel: its filter is the one whose middle is nearest on a scale of 80 equal steps.
    top = 15 + 27 * np.log(8) / np.log(6.4)
    assert filters[:, 25].argmax() == round(15 / top * 81) - 1
