"""Golden model of fpga/rtl/stream_gate.sv: which samples each frame holds, and what it says of voice activity.

It works in samples alone: whatever may be sent is sent at once.
"""

from dataclasses import dataclass

from .framer import FRAME_SAMPLES, Voice

BLOCK = 16  # samples: the step of voice activity
SAMPLE_NS = 62_500
KEEP_ALIVE = 4096  # samples: 256 ms
# Decisions that are not those of a pulse are taken this far into a block, when no pulse can be under way.
AWAY_FROM_PULSES = 8


@dataclass(frozen=True)
class Cut:
    """A frame's samples: `first` counts samples since reset; `hops` had ended when the frame did."""

    first: int
    first_ns: int
    pcm: tuple[int, ...]
    hops: int
    voice: Voice | None


class StreamGate:
    """Takes samples and pulses in their order; each call gives the frames that it closed.

    `gated`, `preroll` and `min_onset` are registers and may be changed at any time.
    """

    def __init__(self, *, gated=False, preroll=128, min_onset=2, delay=30, history=1024):
        self.gated, self.preroll, self.min_onset = gated, preroll, min_onset
        self.delay = delay
        self.reach = history - 64  # an onset reaches no further back
        self.samples: list[int] = []
        self.stamps: list[int] = []  # of each block's first sample
        self.next = 0  # the sample to be sent next; in silence, the oldest that may still be sent
        self.open = True
        self.in_frame = 0  # samples of the frame in hand
        self.frame_gated = False
        self.speech = False
        self.end: int | None = None  # the sample after the last one before an offset's silence
        self.onset_at = 0  # the onset's first sample
        self.untold = False  # no frame has told of the onset
        self.decided = False  # an onset since the last hop's result

    def sample(self, value: int, ns: int) -> list[Cut]:
        if len(self.samples) % BLOCK == 0:
            self.stamps.append(ns)
        self.samples.append(value)
        count = len(self.samples)
        cuts = self._send()
        if not self.open and self.gated and count % KEEP_ALIVE == AWAY_FROM_PULSES and self.next < count:
            # No onset to come will reach further back than this, if it takes min_onset blocks, or one in place of none.
            deep = BLOCK * (self.min_onset + 1) - self.delay + self.preroll
            next_block_end = count + BLOCK - AWAY_FROM_PULSES
            self.next = max(self.next, next_block_end - min(max(deep, BLOCK), self.reach))
            cuts.append(self._cut(self.next, (), Voice(speech=False)))
        if not self.open and not self.gated and count % FRAME_SAMPLES == AWAY_FROM_PULSES:
            grid = count - AWAY_FROM_PULSES
            if self.next <= grid:
                self.next, self.open = grid, True
                cuts += self._send()
        return cuts

    def onset(self, blocks: int) -> list[Cut]:
        """An onset that began `blocks` blocks before the end of the block that has ended just now."""
        self.speech = self.decided = True
        if not self.frame_gated:
            return []
        begun = self._block_end() - BLOCK * blocks
        self.onset_at, self.untold = begun + self.delay, True
        if not self.open:
            deepest = self._block_end() - self.reach
            self.next, self.open = max(self.next, self.onset_at - self.preroll, deepest), True
        return self._send()

    def offset(self):
        """An offset decided at the end of the block that has ended just now."""
        self.speech = False
        if self.open and self.frame_gated:
            self.end = self._block_end() + self.delay

    def hop(self):
        """A hop's result came."""
        self.decided = False

    def _block_end(self) -> int:
        return (len(self.samples) + BLOCK // 2) // BLOCK * BLOCK

    def _send(self) -> list[Cut]:
        cuts = []
        while self.open and self.next < len(self.samples):
            if not self.in_frame:
                if self.gated and not self.speech and self.end is None:
                    self.open, self.frame_gated = False, True
                    break
                unsettled = self.frame_gated and (self.untold or self.end is not None)
                self.frame_gated = self.gated or self.next % FRAME_SAMPLES != 0 or unsettled
            quiet = self.untold and self.next < self.onset_at
            self.next += 1
            self.in_frame += 1
            at_stop = self.frame_gated and self.next == self.end
            on_grid = self.frame_gated and not self.gated and self.next % FRAME_SAMPLES == 0
            if self.in_frame == FRAME_SAMPLES or at_stop or (on_grid and self.end is None and not quiet):
                speech = False if quiet else True if self.decided else None
                voice = Voice(self.untold and not quiet, at_stop, speech) if self.frame_gated else None
                first = self.next - self.in_frame
                cuts.append(self._cut(first, tuple(self.samples[first : self.next]), voice))
                self.in_frame = 0
                self.untold = self.untold and quiet
            if at_stop:
                self.end = None
                self.open = self.speech
        return cuts

    def _cut(self, first: int, pcm: tuple[int, ...], voice: Voice | None) -> Cut:
        ns = (self.stamps[first // BLOCK] + SAMPLE_NS * (first % BLOCK)) % 2**64
        return Cut(first, ns, pcm, len(self.samples) // FRAME_SAMPLES % 256, voice)
