"""Bit-exact model of fpga/rtl/frontend.sv from the ADC to the frames, out of the models of its parts."""

from collections.abc import Iterator
from pathlib import Path

import numpy as np

from . import denoiser, framer, input_mixer, pattern, resampler, stream_gate, vad

FILTERS = Path(__file__).resolve().parents[2] / "fpga" / "filters"
FRAME_TICKS = 192
DELAY_RESAMPLE = 583_333  # ns: 28 samples of 48 kHz
DELAY_DENOISE = 1_875_000  # ns: 30 samples of 16 kHz
RESAMPLED, DENOISED = 1, 2  # bits of the stage mask
# Registers after reset.
DENOISER = denoiser.Settings()
VOICE = vad.Settings(delay_ns=DELAY_RESAMPLE)


def ns_of(tick: int) -> int:
    """Media time of a 48 kHz tick in simulation; the first after reset is tick 0."""
    return tick * 62_500 // 3


def table(name: str) -> np.ndarray:
    """A coefficient table of fpga/filters: int64, 18-bit two's complement in the file."""
    values = np.array([int(word, 16) for word in (FILTERS / name).read_text().split()])
    return np.where(values >= 1 << 17, values - (1 << 18), values)


def frames(
    pcm48,
    *,
    denoise: denoiser.Settings = DENOISER,
    voice: vad.Settings = VOICE,
    test_pattern: bool = False,
    gated: bool = False,
    preroll: int = 128,
    **mixer,
) -> list[bytes]:
    """Every frame from reset on: int16[n] on the left channel, or 24 bits int32[n, 2], at 48 kHz.

    `mixer` are the arguments of `InputMixer.mix`. Nothing is played, nothing lost, and settings stay as they are;
    nothing clips in a gated stream.
    """
    samples = np.asarray(pcm48, dtype=np.int64)
    if samples.ndim == 1:
        samples = np.stack([samples << 8, np.zeros_like(samples)], axis=1)
    mono, full = input_mixer.InputMixer().mix(samples, **mixer)
    pcm16, newest = resampler.resample(mono, table("decimate_48k_16k.hex"), 1, 3)
    clean, spectrum = denoiser.denoise(pcm16, denoise)
    stamps = [ns_of(int(tick)) for tick in newest]
    hops = vad.detect(pcm16, voice, stamps=stamps, bins=(spectrum.bin_level, spectrum.bin_noise))
    clean, _ = pattern.pattern(clean, np.full(len(clean), test_pattern))
    maker = framer.Framer()
    out = []
    gate = stream_gate.StreamGate(gated=gated, preroll=preroll, min_onset=voice.min_onset)
    for ended, cut in _cuts(clean, stamps, hops, gate):
        closed = 3 * (cut.first + len(cut.pcm) - 1)  # the tick that closes a frame of the grid
        hop = framer.Hop(**{name: getattr(hops, name)[ended - 1] for name in _OF_A_HOP}) if ended else framer.Hop()
        levels = framer.Levels(
            clipped=bool(full[max(0, closed + 1 - FRAME_TICKS) : closed + 1].any()),
            test_pattern=test_pattern,
            stage_mask=RESAMPLED | (0 if denoise.bypass else DENOISED),
        )
        delay = DELAY_RESAMPLE + DELAY_DENOISE
        out.append(maker.frame(cut.pcm, cut.first_ns, delay, hop, levels, kept=True, voice=cut.voice))
    return out


_OF_A_HOP = ("speech", "onset", "offset", "energy", "floor", "zero_crossings", "score")


def _cuts(pcm, stamps, hops: vad.Hops, gate: stream_gate.StreamGate) -> Iterator[tuple[int, stream_gate.Cut]]:
    """Samples and the pulses of voice activity, each after the last sample of its block, through the gate.

    Gives (hops that had ended, frame).
    """
    was = False
    for n, (sample, ns) in enumerate(zip(pcm.tolist(), stamps, strict=True)):
        ended = (n + 1) // vad.HOP
        yield from ((ended, cut) for cut in gate.sample(sample, ns))
        block, rest = divmod(n + 1, vad.BLOCK)
        if rest or block > len(hops.active):
            continue
        active = hops.active[block - 1]
        if active and not was:
            yield from ((ended, cut) for cut in gate.onset(hops.onset_blocks[block - 1]))
        elif was and not active:
            gate.offset()
        if block % 4 == 0:
            gate.hop()
        was = active
