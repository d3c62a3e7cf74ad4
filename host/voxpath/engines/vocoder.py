"""Sound out of hibari's spectra, piece by piece: what has been spoken does not wait for the rest of the sentence.

Each 12.5 ms frame k has five spectral parts over 601 bins and a pitch f0. With E the spectrum of a train of pulses at
f0 and Z complex white noise, its spectrum is

    S = exp(lh) e^(i pi tanh(theta)) E + exp(ln) Z + exp(lr) e^(i phi)

and the sound is the inverse short-time Fourier transform of S (1,200-point periodic Hann windows each 300 samples of
24 kHz, overlap-add, divided by the sum of the squared windows). The formulas are those of `hibari.dsp`, which works on
whole sentences. A frame is heard 4 frames after it is pushed: one for the pitch's interpolation, one for the pulses
under its window, two for the windows that overlap it.
"""

from typing import NamedTuple

import numpy as np
import scipy.fft

RATE = 24000
HOP = 300
WINDOW = 4 * HOP
BINS = WINDOW // 2 + 1

_HALF = WINDOW // 2
_HANN = (0.5 - 0.5 * np.cos(2 * np.pi * np.arange(WINDOW) / WINDOW)).astype(np.float32)
_LOUDEST = 7.0  # a magnitude's logarithm is cut here
_UNVOICED_HZ = 40.0  # a pitch below this is none
_HIGHEST_HARMONIC_HZ = 11000.0


class Frames(NamedTuple):
    """The network's outputs for n frames: five float32 [601, n] and the pitch in Hz [n]."""

    lh: np.ndarray
    theta: np.ndarray
    ln: np.ndarray
    lr: np.ndarray
    phi: np.ndarray
    f0: np.ndarray


class Vocoder:
    """The state of one sentence. `seed` fixes the noise, so that the sound is the same however it is cut."""

    def __init__(self, seed: int = 0):
        self._noise = np.random.default_rng(seed)
        self._pitch = np.zeros(0, np.float32)  # of frames not yet made pulses, and of the one before them
        self._phase = 0.0  # cycles, at the last pulse sample
        self._pulses = np.zeros(0, np.float32)  # from the start of the first waiting frame's window
        self._started = False
        self._waiting: list[np.ndarray] = []  # spectra [n, 601] without their harmonics, and the harmonics' factors
        self._overlap = np.zeros((3, HOP), np.float32)  # sound that later windows still add to
        self._weight = np.zeros((3, HOP), np.float32)  # and the sum of its squared windows
        self._skip = 2  # hops before the first sample, half the first window

    def push(self, frames: Frames, last: bool) -> np.ndarray:
        """Float32 samples that these frames complete; `last` ends the sentence and gives all the rest."""
        self._excite(frames.f0, last)
        factors = _polar(frames.lh, np.pi * np.tanh(frames.theta))
        rest = _polar(frames.lr, frames.phi)
        noise = self._noise.standard_normal((len(rest), BINS, 2), np.float32).view(np.complex64)[..., 0]
        rest += noise * np.exp(np.minimum(frames.ln.T, _LOUDEST))
        if self._waiting:
            factors, rest = (np.concatenate(pair) for pair in zip(self._waiting, (factors, rest), strict=True))
        ready = max(0, min(len(rest), (len(self._pulses) - WINDOW) // HOP + 1)) if self._started else 0
        self._waiting = [factors[ready:], rest[ready:]]
        if not ready:
            return np.zeros(0, np.float32)
        windows = np.lib.stride_tricks.sliding_window_view(self._pulses, WINDOW)[::HOP][:ready]
        # Scaled so that a cosine of amplitude 1 has a spectrum of 1.
        harmonics = scipy.fft.rfft(windows * (_HANN / (WINDOW / 4)), axis=1)
        self._pulses = self._pulses[ready * HOP :]
        return self._add(harmonics * factors[:ready] + rest[:ready], last)

    def _excite(self, f0: np.ndarray, last: bool) -> None:
        """Add the pulses of all frames whose following frame's pitch is known."""
        if not len(self._pitch) and len(f0):
            f0 = np.concatenate([f0[:1], f0])
        pitch = np.concatenate([self._pitch, f0, f0[-1:] if last else f0[:0]]).astype(np.float32)
        self._pitch = pitch[-2:]
        if len(pitch) > 2:
            self._pulses = np.concatenate([self._pulses, self._train(pitch)])
        # The ends are mirrored, as torch's centred transform does.
        if not self._started and len(self._pulses) > _HALF:
            self._pulses = np.concatenate([self._pulses[_HALF:0:-1], self._pulses])
            self._started = True
        if last:
            self._pulses = np.concatenate([self._pulses, self._pulses[-2 : -_HALF - 2 : -1]])

    def _train(self, pitch: np.ndarray) -> np.ndarray:
        """Pulses of all frames of `pitch` but the outer two: every harmonic h below 11 kHz at amplitude 1.

        sum over h <= H of cos(h t) = sin((H + 1/2) t) / (2 sin(t / 2)) - 1/2.
        """
        after = (np.arange(HOP // 2, dtype=np.float32) + 0.5) / HOP  # from a frame's middle on
        before = after + 0.5  # from the middle of the frame before, up to this one's
        first, this, following = pitch[:-2, None], pitch[1:-1, None], pitch[2:, None]
        hertz = np.concatenate([first + (this - first) * before, this + (following - this) * after], axis=1).ravel()
        voiced = hertz > _UNVOICED_HZ
        hertz = np.maximum(hertz, np.float32(_UNVOICED_HZ))
        cycles = self._phase + np.cumsum(hertz, dtype=np.float64) / RATE
        self._phase = cycles[-1] % 1.0
        angle = (2 * np.pi * (cycles % 1.0)).astype(np.float32)
        harmonics = np.floor(_HIGHEST_HARMONIC_HZ / hertz) + np.float32(0.5)
        below = 2 * np.sin(angle * np.float32(0.5))
        peak = np.abs(below) <= 2e-3  # where both sines vanish, their ratio is H + 1/2
        pulses = np.where(peak, harmonics, np.sin(harmonics * angle) / np.where(peak, 1, below)) - np.float32(0.5)
        return np.where(voiced, pulses, np.float32(0))

    def _add(self, spectra: np.ndarray, last: bool) -> np.ndarray:
        """Overlap-add spectra [n, 601]; returns the samples that no later window reaches."""
        count = len(spectra)
        windows = (scipy.fft.irfft(spectra, WINDOW, axis=1) * _HANN).reshape(count, 4, HOP)
        sound, weight = (
            np.concatenate([part, np.zeros((count, HOP), np.float32)]) for part in (self._overlap, self._weight)
        )
        squared = (_HANN * _HANN).reshape(4, HOP)
        for quarter in range(4):
            sound[quarter : quarter + count] += windows[:, quarter]
            weight[quarter : quarter + count] += squared[quarter]
        finished = count + (2 if last else 0)  # the sentence ends in the middle of its last window
        self._overlap, self._weight = sound[count:], weight[count:]
        done = sound[self._skip : finished] / np.maximum(weight[self._skip : finished], 1e-11)
        self._skip = max(0, self._skip - count)
        return done.ravel()


def _polar(log_magnitude: np.ndarray, angle: np.ndarray) -> np.ndarray:
    """[601, n] -> complex64 [n, 601]."""
    out = np.empty(log_magnitude.T.shape, np.complex64)
    np.cos(angle.T, out=out.real)
    np.sin(angle.T, out=out.imag)
    out *= np.exp(np.minimum(log_magnitude.T, _LOUDEST))
    return out
