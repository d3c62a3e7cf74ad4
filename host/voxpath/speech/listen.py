"""Frames in, the state of the speaker's turn out.

    idle --speech--> listening --pause--> maybe over --silence long enough--> idle (the utterance is handed out)
                         ^                    |
                         +------ speech ------+

This is a pure function of the frames and of OFFSET_NS: no threads, no wall clock, no models.
"""

from __future__ import annotations

import enum
from collections import deque
from dataclasses import dataclass, field

import numpy as np

from voxpath.link.frame import FRAME_SAMPLES, SAMPLE_NS, SAMPLE_RATE
from voxpath.link.tracker import missing_samples

HOP_NS = FRAME_SAMPLES * SAMPLE_NS
PREROLL_MS = 300  # what the recogniser hears from before the onset: soft consonants come before the loud vowel
PAUSE_MS = 16  # from here a pause may be the end: what is begun for nothing in a stop consonant costs little
RESUMED_MS = 12  # less speech than this in a pause is a click
MIN_SPEECH_MS = 60  # less speech than this is a click or a knock
LONGEST_S = 27.0  # the recogniser's window is 30 s; what is longer is recognised in pieces
CUT_WITHIN_S = 3.0  # a piece ends at the quietest moment of its last seconds, so that few words are cut
CUT_QUIET_HOPS = 25  # 100 ms
ENERGY_DB = 1024 / (10 * np.log10(2))  # of a frame's energy and floor, a dB
MOST_CONCEALED = 256  # a gap of more frames than the ring holds is a restart, not a loss


class Signal(enum.Enum):
    """What a frame meant for the turn."""

    ONSET = "onset"
    PAUSE = "pause"
    RESUMED = "resumed"
    NOISE = "noise"
    CUT = "cut"
    ENDPOINT = "endpoint"


@dataclass(slots=True)
class Utterance:
    """What the speaker said: frames from the pre-roll on, and when speech began and last was (board ns)."""

    speech_start_ns: int
    speech_end_ns: int
    pieces: list[np.ndarray] = field(default_factory=list)
    samples: int = 0
    speech_ms: float = 0.0
    loudest: int = 0  # frame of speech, and the noise floor below it: log2 as in the frame's header, 0 if not known
    floor: int = 0
    concealed_frames: int = 0
    segments: list = field(default_factory=list)  # what became of the pieces cut off its front; the chain's to fill

    def pcm(self) -> np.ndarray:
        """Everything heard so far: int16, 16 kHz; lost frames are silence."""
        return np.concatenate(self.pieces) if self.pieces else np.zeros(0, np.int16)

    def add(self, piece: np.ndarray) -> None:
        self.pieces.append(piece)
        self.samples += len(piece)

    @property
    def snr_db(self) -> float | None:
        """How far the loudest frame of speech is over the noise floor; None if the board does not tell."""
        return (self.loudest - self.floor) / ENERGY_DB if self.loudest else None

    @property
    def seconds(self) -> float:
        return self.samples / SAMPLE_RATE


class Listener:
    """Follows the detector's flags, frame by frame, and counts silence.

    At ENDPOINT the utterance is in `finished`. At CUT the first part of an utterance that is too long for the
    recogniser is in `cut_off`, int16; the utterance goes on with the rest.

    Silence runs from the end of the last frame with flag 0 (speech before hangover), or from OFFSET_NS where the
    board has told it (`offset_at`): never from flag 2, which comes after the hangover. How much of it ends the
    utterance is `needed_ms`, which may be changed at any time.
    """

    def __init__(self, needed_ms: float) -> None:
        self.needed_ms = needed_ms
        self.utterance: Utterance | None = None
        self.finished: Utterance | None = None
        self.cut_off = np.zeros(0, np.int16)
        self.paused = False
        self.silence_ms = 0.0
        self._blip: list = []  # frames of speech in a pause that may be a click
        self._preroll: deque = deque(maxlen=int(PREROLL_MS * 1e6 / HOP_NS))
        self._previous = None  # the frame before

    @property
    def state(self) -> str:
        if self.utterance is None:
            return "idle"
        return "maybe over" if self.paused else "listening"

    def hear(self, frame, speech: bool | None = None) -> Signal | None:
        """Take the next frame; late and repeated ones are ignored, lost ones become silence.

        `speech` says whether the frame counts as the speaker's; by default the detector's flag does.
        """
        lost = self._lost_before(frame)
        if lost < 0:
            return None
        if speech is None:
            speech = frame.speech or (frame.onset and self.utterance is None)
        if self.utterance is None:
            self._preroll.append(frame)
            return self._begin(frame) if speech else None
        utterance = self.utterance
        if lost:
            utterance.add(np.zeros(lost, np.int16))
            utterance.concealed_frames += -(-lost // FRAME_SAMPLES)
        utterance.add(frame.pcm[: frame.samples])
        signal = self._follow(frame, speech)
        if signal is None and utterance.seconds >= LONGEST_S:
            return self._cut()
        return signal

    def offset_at(self, ns: int) -> None:
        """OFFSET_NS as the board reports it: the last speech sample, finer than the frame that holds it."""
        utterance = self.utterance
        if utterance is not None and 0 <= utterance.speech_end_ns - ns < 2 * HOP_NS:
            utterance.speech_end_ns = ns

    def onset_at(self, ns: int) -> None:
        """ONSET_NS as the board reports it; an onset is decided a few ms after the first speech sample."""
        utterance = self.utterance
        if utterance is not None and abs(utterance.speech_start_ns - ns) < 4 * HOP_NS:
            utterance.speech_start_ns = ns

    def forget(self) -> None:
        """Nothing has been said."""
        self.utterance = None
        self.paused = False
        self._preroll.clear()

    def take_back(self, earlier: Utterance) -> None:
        """The speaker went on after all: put an utterance that had been handed out before the one being heard."""
        utterance = self.utterance
        if utterance is None:
            return
        utterance.pieces = earlier.pieces + utterance.pieces
        utterance.samples += earlier.samples
        utterance.speech_start_ns = earlier.speech_start_ns
        utterance.speech_ms += earlier.speech_ms
        utterance.concealed_frames += earlier.concealed_frames
        utterance.loudest = max(utterance.loudest, earlier.loudest)
        utterance.segments = earlier.segments + utterance.segments

    def _follow(self, frame, speech: bool) -> Signal | None:
        """Count speech and silence of a frame that has been added to the utterance."""
        utterance = self.utterance
        if speech:
            self._blip.append(frame)
        if speech and (not self.paused or len(self._blip) * HOP_NS >= RESUMED_MS * 1e6):
            utterance.speech_ms += len(self._blip) * HOP_NS / 1e6
            utterance.speech_end_ns = frame.end_ns
            utterance.loudest, utterance.floor = max(utterance.loudest, frame.energy), frame.floor
            self._blip.clear()
            self.silence_ms = 0.0
            if self.paused:
                self.paused = False
                return Signal.RESUMED
            return None
        if not speech:
            self._blip.clear()
        self.silence_ms = (frame.end_ns - utterance.speech_end_ns) / 1e6
        if self.silence_ms >= self.needed_ms:
            return self._end()
        if not self.paused and self.silence_ms >= PAUSE_MS and utterance.speech_ms >= MIN_SPEECH_MS:
            self.paused = True
            return Signal.PAUSE
        return None

    def _cut(self) -> Signal:
        utterance = self.utterance
        recent = utterance.pieces[-int(CUT_WITHIN_S * 1e9 / HOP_NS) :]
        power = [float(np.mean(np.square(piece, dtype=np.float32))) for piece in recent]
        quiet = np.convolve(power, np.ones(CUT_QUIET_HOPS), "valid").argmin() + CUT_QUIET_HOPS // 2
        split = len(utterance.pieces) - len(recent) + int(quiet)
        self.cut_off = np.concatenate(utterance.pieces[:split])
        utterance.pieces = utterance.pieces[split:]
        utterance.samples -= len(self.cut_off)
        return Signal.CUT

    def _begin(self, frame) -> Signal:
        self.utterance = Utterance(frame.capture_ns, frame.end_ns)
        self.paused = False
        self.silence_ms = 0.0
        self._blip.clear()
        for earlier in self._preroll:
            self.utterance.add(earlier.pcm[: earlier.samples])
        self.utterance.speech_ms = HOP_NS / 1e6
        return Signal.ONSET

    def _end(self) -> Signal:
        utterance, self.utterance = self.utterance, None
        self.paused = False
        if utterance.speech_ms < MIN_SPEECH_MS:
            return Signal.NOISE
        self.finished = utterance
        self._preroll.clear()  # no sound is given to the recogniser twice
        return Signal.ENDPOINT

    def _lost_before(self, frame) -> int:
        """Samples missing before this frame; -1 for one that is late or repeated."""
        before, self._previous = self._previous, frame
        if before is None:
            return 0
        step = (frame.sequence - before.sequence) & 0xFFFFFFFF
        if step == 0 or step > 0xFFFFFFFF - MOST_CONCEALED:
            self._previous = before
            return -1
        return missing_samples(before, frame) if step - 1 <= MOST_CONCEALED else 0
