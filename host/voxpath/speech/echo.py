"""Whether what the microphone hears during a reply is the user, or the reply itself.

An echo canceller takes from every frame what the reply explains, and the rest is compared with what it should be when
nobody speaks: noise, echo that the canceller has not learned yet, and reverberation beyond its memory. The canceller
is a partitioned-block Kalman filter in the frequency domain (G. Enzner and P. Vary, "Frequency-domain adaptive Kalman
filter for acoustic echo control in hands-free telephones", Signal Processing 86, 2006; partitioned as in F. Kuech et
al., "State-space architecture of the partitioned-block-based acoustic echo controller", ICASSP 2014). It knows how
sure it is of each of its coefficients, which gives the first reply its caution and stops it from learning the user.

This is a pure function of the frames and of what was played: no threads, no wall clock.
"""

from __future__ import annotations

import numpy as np

from voxpath.link.frame import FRAME_SAMPLES, SAMPLE_NS, SAMPLE_RATE

FFT = 2 * FRAME_SAMPLES
BINS = FFT // 2 + 1  # 125 Hz apart
PARTITIONS = 32  # frames that the canceller remembers: 128 ms
ROOM_TAIL_NS = 300_000_000  # after a reply something of it may be heard for so long

# Prior of the echo path: its gain in power, and how it is spread over the partitions (10 dB less in 60 ms).
PRIOR_GAIN = 10**-0.6
SPREAD = 10 ** (-np.arange(PARTITIONS) * 4 / 60)
PRIOR = (PRIOR_GAIN * SPREAD / SPREAD.sum())[:, None]
FORGET = 1 - 0.9995**2  # of what is known, a frame: rooms change
FORGET_LEAST = 0.001  # of the prior, so that a path that became quiet is found again
PSI_KEPT = 0.6  # smoothing of the power that is not echo

# Over 500 Hz, where the board's filter against rumble does not change what it lets pass, up to 7.1 kHz.
EDGES = np.unique(np.round(np.geomspace(4, 57, 13)).astype(int))
BANDS = EDGES[:-1]
WINDOW = np.hanning(FFT + 1)[:FFT]
WINDOW_POWER = float((WINDOW**2).mean())

# What is left when nobody speaks. Levels are log2 of power.
DECAY = 10**-0.03  # of a room's reverberation, a frame: 60 dB in 0.8 s
UNSURE = 4.0  # times what the filter believes to be its own error: it is an optimist
RESIDUAL, RESIDUAL_LEAST = 0.15, 0.02  # of the predicted echo: at first, and at best; learned by band
RESIDUAL_RATE, RESIDUAL_MOST_RISE = 0.02, 4.0  # a frame; one frame counts as at most so many times what was expected
NOISE_RISE = 1.0028  # a frame, 3 dB/s
NOISE_BIAS = 2.0  # from the tracked minimum to what a frame of noise may have
NOISE_LEAST = FFT * WINDOW_POWER  # a bin's power for 1 LSB RMS: what is less is no microphone
SETTLING = 25  # frames after which noise is no longer believed at once
EVIDENT_KEPT = 0.3  # smoothing, a frame, of the power that is compared with that
MARGIN, MOST = 0.7, 6.0  # of a band over that

USER = 0.32  # mean of the bands: somebody speaks
STILL = 0.14  # and goes on to
HELD = 5  # frames that an answer of yes outlasts its evidence: stops between sounds

LEARNING = 0.5  # with more than this nothing is learned about the residual
REALIGN_NS = 1_000_000  # a frame whose time is off by more does not follow the one before
GAIN_RAMP_NS = 2_000_000
BLIND_NS = 40_000_000  # around the return to full level, whose time is not known to the sample

TAPS = 16  # input samples on either side of an output sample of the resampler
CUTOFF_HZ = 7400


class EchoGate:
    """Tells the user from the reply, frame by frame; see `user`.

    A reply is `wrote` as it is handed to the board, `started` once the board has said when its first sample left the
    DAC, `ducked` at will, and `ended`; the next `wrote` begins another one. What was learned about the room is kept.
    Times are board ns. The board's noise reduction is assumed to leave 500 Hz and more alone (DENOISE_FLOOR 0x8000).
    """

    def __init__(self) -> None:
        self._weights = np.zeros((PARTITIONS, BINS), complex)  # the echo path
        self._unsure = np.repeat(PRIOR, BINS, axis=1)  # their variance
        self._psi = np.full(BINS, NOISE_LEAST)
        self._residual = np.full(len(BANDS), RESIDUAL)
        self._noise = np.full(len(BANDS), NOISE_LEAST)
        self._smooth = self._noise.copy()  # 40 ms of power, out of which noise is the minimum
        self._settling = SETTLING
        self._previous = None
        self._was_user = False
        self._level = 0.0
        self._forget_reply()

    # ---- what is played --------------------------------------------------------------------------------------------

    def wrote(self, pcm: np.ndarray, rate: int) -> None:
        """int16 samples at `rate` Hz were handed to the board, behind those before."""
        if self._ended_ns is not None:
            self._forget_reply()
        self._rate = rate
        need = self._length + len(pcm)
        if need > len(self._pcm):
            self._pcm = np.concatenate([self._pcm, np.zeros(max(need, 10 * rate), np.float32)])
        self._pcm[self._length : need] = pcm
        self._length = need

    def started(self, ns: int) -> None:
        """When the first sample left the DAC."""
        self._first_ns = ns

    def ducked(self, db: float, ns: int) -> None:
        """From `ns` on the reply is played `db` <= 0 lower; 0 is full level."""
        gain = 10 ** (db / 20)
        if gain > self._gains[-1][1]:
            self._louder_ns = ns
        self._gains += [(ns, self._gains[-1][1]), (ns + GAIN_RAMP_NS, gain)]

    def ended(self, ns: int) -> None:
        """The reply was heard to its end, or stopped, at `ns`."""
        self._ended_ns = ns

    # ---- what is heard ---------------------------------------------------------------------------------------------

    def user(self, frame) -> bool:
        """Whether the user speaks in this frame. Takes frames in order; a repeated one gets the last answer.

        During a reply, and until its tail in the room is over, the evidence is what the reply does not explain. At
        other times it is the board's detector. As long as it is not known when a reply began, who spoke goes on.
        """
        step = 1 if self._previous is None else (frame.sequence - self._previous.sequence) & 0xFFFFFFFF
        if step == 0 or step >= 1 << 31:
            return self._was_user
        heard = np.zeros(FRAME_SAMPLES)
        heard[: frame.samples] = frame.pcm[: frame.samples]
        if self._ended_ns is not None and frame.capture_ns > self._ended_ns + ROOM_TAIL_NS:
            self._forget_reply()
        if self._first_ns is None or frame.end_ns <= self._first_ns:
            self._hear(heard, np.zeros(FRAME_SAMPLES), None)
            self._was_user = frame.speech and (self._was_user or not frame.playback)
        else:
            self._follow(frame, step)
            echo, unsure = self._cancel(heard)
            self._hear(heard - echo, echo, unsure)
            self._was_user = self._decide(frame)
        self._previous = frame
        return self._was_user

    @property
    def rest(self) -> np.ndarray:
        """What the reply does not explain of the newest frame: float64[64], 16 kHz, in units of int16."""
        return self._rest[FRAME_SAMPLES:]

    def _forget_reply(self) -> None:
        self._pcm, self._length, self._rate = np.zeros(0, np.float32), 0, SAMPLE_RATE
        self._first_ns: int | None = None
        self._ended_ns: int | None = None
        self._louder_ns: int | None = None
        self._gains = [(-1, 1.0)]  # (ns, gain), straight lines in between
        self._at = 0  # index in the reply of the frame's first sample, rounded down
        self._due_ns: int | None = None  # when the next frame begins if it follows
        self._spectra = np.zeros((PARTITIONS, BINS), complex)  # of the reply, newest first
        self._played = np.zeros(FRAME_SAMPLES)  # newest frame of the reply
        self._echo = np.zeros(FFT)  # the predicted echo and the rest, newest frame last
        self._rest = np.zeros(FFT) if self._previous is None else self._rest
        self._reverberant = np.zeros(len(BANDS))
        self._unsure_heard = np.zeros(len(BANDS))
        self._evident = np.zeros(len(BANDS))
        self._held = 0

    def _follow(self, frame, step: int) -> None:
        """Bring the reply's spectra up to this frame."""
        blocks = step
        if self._due_ns is not None:
            self._due_ns += (step - 1) * FRAME_SAMPLES * SAMPLE_NS
            self._at += step * FRAME_SAMPLES * self._rate // SAMPLE_RATE
        if self._due_ns is None or abs(frame.capture_ns - self._due_ns) > REALIGN_NS:
            place = (frame.capture_ns - self._first_ns) * self._rate / 1e9
            self._at = int(np.floor(place))
            self._matrix = _resampler(self._rate, place - self._at)
            blocks = PARTITIONS
            self._rest[FRAME_SAMPLES:] = 0  # of the frame before it is not known what is echo
        for back in range(min(blocks, PARTITIONS) - 1, -1, -1):
            played = self._reference(frame.capture_ns, back)
            self._spectra[1:] = self._spectra[:-1]
            self._spectra[0] = np.fft.rfft(np.concatenate([self._played, played]))
            self._played = played
        self._due_ns = frame.capture_ns + FRAME_SAMPLES * SAMPLE_NS

    def _reference(self, ns: int, back: int) -> np.ndarray:
        """What the loudspeaker played `back` frames before the frame at `ns`: float64[64], 16 kHz."""
        ns -= back * FRAME_SAMPLES * SAMPLE_NS
        first = self._at - back * FRAME_SAMPLES * self._rate // SAMPLE_RATE - TAPS
        end = self._length
        if self._ended_ns is not None:
            end = min(end, int((self._ended_ns - self._first_ns) * self._rate / 1e9) + 1)
        span = self._matrix.shape[1]
        if first + span <= 0 or first >= end:
            return np.zeros(FRAME_SAMPLES)
        if first < 0 or first + span > end:
            part = np.zeros(span)
            low, high = max(first, 0), min(first + span, end)
            part[low - first : high - first] = self._pcm[low:high]
        else:
            part = self._pcm[first : first + span]
        played = self._matrix @ part
        if len(self._gains) > 1:
            times, gains = zip(*self._gains, strict=True)
            played *= np.interp(ns + SAMPLE_NS * np.arange(FRAME_SAMPLES), times, gains)
        return played

    def _cancel(self, heard: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        """(predicted echo float64[64], the power by bin of its error as the filter believes) of a frame; then learn."""
        spectra, weights, unsure = self._spectra, self._weights, self._unsure
        echo = np.fft.irfft(np.einsum("pk,pk->k", spectra, weights))[FRAME_SAMPLES:]
        error = np.fft.rfft(heard - echo, FFT) * _HALF_BACK
        power = spectra.real**2 + spectra.imag**2
        expected = 0.5 * np.einsum("pk,pk->k", unsure, power)
        self._psi = PSI_KEPT * self._psi + (1 - PSI_KEPT) * np.maximum(error.real**2 + error.imag**2, 1)
        gain = unsure / (expected + self._psi + 1)
        weights += gain * spectra.conj() * error
        response = np.fft.irfft(weights, axis=1)
        response[:, FRAME_SAMPLES:] = 0  # a partition is a frame long
        self._weights = weights = np.fft.rfft(response, axis=1)
        unsure *= 1 - 0.5 * gain * power
        unsure += FORGET * (weights.real**2 + weights.imag**2 + FORGET_LEAST * PRIOR - unsure)
        return echo, expected

    def _hear(self, rest: np.ndarray, echo: np.ndarray, unsure: np.ndarray | None) -> None:
        """How far the rest of a frame exceeds what nobody's speech would leave: `_level`, a mean over bands."""
        self._rest = np.concatenate([self._rest[FRAME_SAMPLES:], rest])
        power = _bands(self._rest)
        self._smooth += 0.1 * (power - self._smooth)
        if self._settling:
            self._settling -= 1
            self._noise = np.maximum(self._smooth, NOISE_LEAST)
        else:
            self._noise = np.maximum(np.minimum(self._noise * NOISE_RISE, self._smooth), NOISE_LEAST)
        if unsure is None:
            return
        self._echo = np.concatenate([self._echo[FRAME_SAMPLES:], echo])
        self._reverberant = np.maximum(_bands(self._echo), DECAY * self._reverberant)
        heard = np.add.reduceat(unsure[: EDGES[-1]], BANDS) * (2 * WINDOW_POWER)
        self._unsure_heard = np.maximum(heard, DECAY * self._unsure_heard)
        quiet = NOISE_BIAS * self._noise + self._residual * self._reverberant + UNSURE * self._unsure_heard
        self._evident += (1 - EVIDENT_KEPT) * (power - self._evident)
        over = np.log2((self._evident + 1) / quiet) - MARGIN
        self._level = float(np.minimum(np.maximum(over, 0), MOST).mean())
        if self._level < LEARNING:
            ratio = np.maximum(power - self._noise, 0) / (self._reverberant + 1)
            change = RESIDUAL_RATE * (np.minimum(ratio, RESIDUAL_MOST_RISE * self._residual) - self._residual)
            learned = np.clip(self._residual + change, RESIDUAL_LEAST, 1)
            audible = self._residual * self._reverberant > self._noise
            self._residual = np.where(audible, learned, self._residual)

    def _decide(self, frame) -> bool:
        if self._louder_ns is not None and abs(frame.capture_ns - self._louder_ns) < BLIND_NS:
            return self._was_user
        if self._level >= (STILL if self._held else USER):
            if self._held or self._was_user:  # one frame alone is held against nobody
                self._held = HELD
            return True
        self._held = max(0, self._held - 1)
        return self._held > 0


# The spectrum of a frame in the second half of a block of two.
_HALF_BACK = np.exp(-2j * np.pi * np.arange(BINS) * FRAME_SAMPLES / FFT)


def _bands(sound: np.ndarray) -> np.ndarray:
    """Power by band of the newest 128 samples."""
    spectrum = np.fft.rfft(WINDOW * sound)[: EDGES[-1]]
    return np.add.reduceat(spectrum.real**2 + spectrum.imag**2, BANDS)


def _resampler(rate: int, fraction: float) -> np.ndarray:
    """float64[64, n]: makes 64 samples of 16 kHz, from `fraction` of a sample at `rate` after input sample 16 on."""
    places = TAPS + fraction + np.arange(FRAME_SAMPLES) * (rate / SAMPLE_RATE)
    distance = places[:, None] - np.arange(int(places[-1]) + TAPS + 1)
    window = np.where(np.abs(distance) < TAPS, np.cos(np.pi / 2 * distance / TAPS) ** 2, 0)
    cutoff = 2 * CUTOFF_HZ / rate
    return cutoff * np.sinc(cutoff * distance) * window
