"""Whisper's features: the log-mel spectrogram of 16 kHz audio, 100 frames a second.

Radford et al., "Robust Speech Recognition via Large-Scale Weak Supervision" (2022), and its reference code: 400-point
Hann windows each 160 samples, power, Slaney's mel filters (those of librosa), log10, the range cut to 8 below the
loudest, (x + 4) / 4.
"""

import functools

import numpy as np
import scipy.fft

RATE = 16000
HOP = 160
WINDOW = 400
FRAMES_PER_SECOND = RATE // HOP


def log_mel(pcm: np.ndarray, frames: int, bins: int = 80) -> np.ndarray:
    """Features [1, bins, frames] float32 of float samples, padded with silence to `frames` hops (or cut there)."""
    pcm = pcm[: frames * HOP]
    heard = min(frames, -(-(len(pcm) + WINDOW // 2) // HOP))  # later frames see nothing but padding
    padded = np.zeros(max(frames, 4) * HOP, np.float32)
    padded[: len(pcm)] = pcm
    padded = np.pad(padded, WINDOW // 2, mode="reflect")
    windows = np.lib.stride_tricks.sliding_window_view(padded, WINDOW)[::HOP][:heard]
    spectrum = scipy.fft.rfft(windows * _hann(), axis=1)
    power = spectrum.real**2 + spectrum.imag**2
    features = np.full((bins, frames), -10.0, np.float32)
    features[:, :heard] = np.log10(np.maximum(mel_filters(bins) @ power.T, 1e-10))
    return ((np.maximum(features, features.max() - 8.0) + 4.0) / 4.0)[None]


@functools.cache
def _hann() -> np.ndarray:
    return (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)).astype(np.float32)


@functools.cache
def mel_filters(bins: int) -> np.ndarray:
    """Triangular filters [bins, 201] between points equally spaced on Slaney's mel scale, each of unit area in Hz.

    The scale is linear below 1 kHz (15 mel) and logarithmic above (27 mel for a factor of 6.4).
    """
    top = 15 + 27 * np.log(RATE / 2 / 1000) / np.log(6.4)
    mels = np.linspace(0, top, bins + 2)
    points = np.where(mels < 15, mels * 1000 / 15, 1000 * np.exp((mels - 15) * np.log(6.4) / 27))
    frequencies = np.arange(WINDOW // 2 + 1) * RATE / WINDOW
    low, middle, high = points[:-2, None], points[1:-1, None], points[2:, None]
    rising, falling = (frequencies - low) / (middle - low), (high - frequencies) / (high - middle)
    return (np.maximum(0, np.minimum(rising, falling)) * 2 / (high - low)).astype(np.float32)
