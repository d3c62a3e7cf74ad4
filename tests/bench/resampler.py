"""The RTL's resampler (its bit-exact model) against soxr HQ and VHQ: same sound, 16 bits in and out, one run.

    python tests/bench/resampler.py [--plots FOLDER]

- ripple: gain of tones up to the pass band's edge, between the highest and the lowest. Alias: the strongest line in the
  output that is not the tone itself, relative to the tone that goes in, worst of the tones from the stop band's edge up
  (to lower rates) or in the pass band (to higher ones: images).
- delay: from the instant of a sound at the input to the instant at which the output sample that holds it can be had. It
  is measured as a user of a stream gets it: samples are fed one at a time, and it is noted with which input each
  output comes out. To that (for soxr: half its filter and its internal blocks) is added how much later than its place
  in the output the sound is, by the phase of a tone (for soxr 0: it shifts its output back by its filter's delay, which
  is why its samples come late). Median and worst of a second. The RTL's 0.62 us of computing (62 clocks of 100 MHz) are
  not in it.
- SNR: of a tone of 1 kHz against the ideal one, and of a sweep from 100 Hz to 6.4 kHz against that sweep as it is at
  the output's sample times. One gain is fitted to each: the tone shows noise and distortion, the sweep the ripple too.
- cost: soxr's CPU time for a second of sound, at once and in chunks of 4 ms; the RTL's clocks for the same.

Exit code 1 when the RTL misses its specification: ripple +-0.1 dB, alias -70 dB, 0.7 ms, 64 clocks.
"""

import argparse
import math
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

import matplotlib
import numpy as np
import soxr
from rich.console import Console
from rich.progress import Progress
from rich.table import Table

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [str(ROOT / "sim"), str(ROOT / "fpga" / "filters")]

import design  # noqa: E402

from board import processor  # noqa: E402
from golden.resampler import cycles, resample  # noqa: E402

matplotlib.use("Agg")
import matplotlib.pyplot as plt  # noqa: E402

AMPLITUDE = 16_384
FLOOR = 1e-7  # -140 dB: nothing came out
SWEEP_HZ = (100, 6_400)
SWEEP_S = 2.0
SETTLE_S = 0.25  # at either end of a tone, longer than any filter here
TONES = 120
CHUNK_S = 0.004
CLK_HZ = 100_000_000
BUDGET = {"ripple_db": 0.1, "alias_db": -70.0, "delay_ms": 0.7, "cycles": 64}
REFERENCE = (
    "reference article, sample-rate conversion: 0.7 ms in hardware, 17 ms in software (claimed, no other figure)"
)


@dataclass
class Conversion:
    """One of the front end's: its table, the rates in Hz and the edges of the bands."""

    name: str
    table: str
    rate_in: int
    rate_out: int

    def __post_init__(self):
        self.spec = next(spec for spec in design.FILTERS if spec.name == self.table)
        self.coefficients = design.read_hex(self.spec.path)

    @property
    def down(self) -> bool:
        return self.rate_out < self.rate_in


CONVERSIONS = (
    Conversion("48 to 16 kHz", "decimate_48k_16k", 48_000, 16_000),
    Conversion("44.1 to 16 kHz", "decimate_44k1_16k", 44_100, 16_000),
    Conversion("16 to 48 kHz", "interpolate_16k_48k", 16_000, 48_000),
    Conversion("24 to 48 kHz", "interpolate_24k_48k", 24_000, 48_000),
)


class Rtl:
    """The bit-exact model."""

    name = "RTL"

    def __init__(self, conversion: Conversion):
        self.conversion = conversion

    def convert(self, pcm: np.ndarray) -> np.ndarray:
        """int16[n] to int16[m]."""
        spec = self.conversion.spec
        return resample(pcm, self.conversion.coefficients, spec.up, spec.down)[0]

    def comes_with(self, count: int) -> np.ndarray:
        """The index of the input sample with which each output comes out, when `count` are fed one by one."""
        spec = self.conversion.spec
        return resample(np.zeros(count, np.int16), self.conversion.coefficients, spec.up, spec.down)[1]

    def cost(self, seconds: float) -> str:
        spec, conversion = self.conversion.spec, self.conversion
        clocks = cycles(spec.taps, spec.up, spec.down)
        rate = min(conversion.rate_in, conversion.rate_out)  # of outputs when decimating, else of inputs
        share = clocks * rate / CLK_HZ
        return f"{clocks} clocks a sample at {rate / 1000:g} kHz, {share:.2%} of {CLK_HZ // 10**6} MHz"


class Soxr:
    """soxr in floating point; its output is rounded to 16 bits."""

    def __init__(self, conversion: Conversion, quality: str):
        self.name = f"soxr {quality}"
        self.quality = quality
        self.rates = conversion.rate_in, conversion.rate_out

    def convert(self, pcm: np.ndarray) -> np.ndarray:
        """int16[n] to int16[m]."""
        exact = soxr.resample(pcm.astype(np.float64), *self.rates, quality=self.quality)
        return np.clip(np.rint(exact), -32768, 32767).astype(np.int16)

    def _stream(self) -> soxr.ResampleStream:
        return soxr.ResampleStream(*self.rates, 1, dtype="float32", quality=self.quality)

    def comes_with(self, count: int) -> np.ndarray:
        """The index of the input sample with which each output comes out, when `count` are fed one by one."""
        stream, silence = self._stream(), np.zeros(1, np.float32)
        come = [len(stream.resample_chunk(silence)) for _ in range(count)]
        return np.repeat(np.arange(count), come)

    def cost(self, seconds: float) -> str:
        """CPU time of noise, the least of three runs each."""
        sound = np.random.default_rng(1).normal(0, 0.1, round(seconds * self.rates[0])).astype(np.float32)
        chunk = round(CHUNK_S * self.rates[0])

        def whole():
            soxr.resample(sound, *self.rates, quality=self.quality)

        def chunks():
            stream = self._stream()
            for at in range(0, len(sound), chunk):
                stream.resample_chunk(sound[at : at + chunk])

        best = {task: min(cpu_time(task) for _ in range(3)) / seconds for task in (whole, chunks)}
        return f"{best[whole] * 1e3:.2f} ms CPU a second at once, {best[chunks] * 1e3:.2f} in 4 ms chunks"


def cpu_time(task) -> float:
    began = time.process_time()
    task()
    return time.process_time() - began


# ---- measurements --------------------------------------------------------------------------------------------------


@dataclass
class Measured:
    """What came out of one resampler; frequencies in Hz, levels in dB, times in s."""

    name: str
    tones: list[int] = field(default_factory=list)
    gains_db: list[float] = field(default_factory=list)  # of the tone itself; -inf where it cannot be in the output
    aliases_db: list[float] = field(default_factory=list)
    delays_s: np.ndarray | None = None  # of each output sample of a second
    tone_snr_db: float = 0.0
    sweep_snr_db: float = 0.0
    cost: str = ""

    def ripple_db(self, pass_hz: float) -> tuple[float, float]:
        gains = [gain for tone, gain in zip(self.tones, self.gains_db, strict=True) if tone <= pass_hz]
        return min(gains), max(gains)

    def worst_alias(self, first_hz: float, last_hz: float) -> tuple[float, int]:
        inside = [(alias, tone) for tone, alias in zip(self.tones, self.aliases_db, strict=True)]
        return max(pair for pair in inside if first_hz <= pair[1] <= last_hz)


def tones(conversion: Conversion) -> list[int]:
    """Whole frequencies in Hz up to half the input's rate; each shares no divisor with the rates, so that the error of
    rounding to 16 bits repeats only after a second and lies under the lines to be measured."""
    spec = conversion.spec
    top = conversion.rate_in / 2 - 50
    wanted = [*np.linspace(50, top, TONES), *np.linspace(spec.pass_hz * 0.8, spec.pass_hz - 20, 12)]
    wanted += list(np.linspace(spec.stop_hz, min(spec.stop_hz + 1500, top), 24)) if conversion.down else []
    return sorted({next(f for f in range(int(at), int(at) + 30) if math.gcd(f, 210) == 1) for at in wanted})


def tone_pcm(hz: float, rate: int, seconds: float) -> np.ndarray:
    at = np.arange(round(rate * seconds))
    return np.rint(AMPLITUDE * np.sin(2 * np.pi * hz * at / rate)).astype(np.int16)


def tone_response(resampler, conversion: Conversion, hz: int) -> tuple[complex, float]:
    """The complex gain of a tone and its strongest alias, relative to the tone, both linear.

    A second of output holds whole periods of the tone and of every alias: their lines fall on single bins of a DFT.
    """
    out = resampler.convert(tone_pcm(hz, conversion.rate_in, 1 + 2 * SETTLE_S))
    first = round(SETTLE_S * conversion.rate_out)
    lines = np.fft.rfft(out[first : first + conversion.rate_out]) / (conversion.rate_out / 2) / AMPLITUDE
    gain = 0j
    if hz < conversion.rate_out / 2:
        # A sine that began at the first output sample would have phase -90 degrees there.
        gain = lines[hz] * 1j * np.exp(-2j * np.pi * hz * SETTLE_S)
        lines[hz] = 0
    return gain, max(np.abs(lines[1:]).max(), FLOOR)


def shift_s(resampler, conversion: Conversion) -> float:
    """How much later than its place in the output a sound is: coarsely by two tones 100 Hz apart, finely by one."""
    low, high = (np.angle(tone_response(resampler, conversion, hz)[0]) for hz in (1000, 1100))
    coarse = -((high - low + np.pi) % (2 * np.pi) - np.pi) / (2 * np.pi * 100)
    turns = round((coarse + low / (2 * np.pi * 1000)) * 1000)
    return turns / 1000 - low / (2 * np.pi * 1000)


def snr_db(out: np.ndarray, ideal: np.ndarray) -> float:
    """Of int16[n] against float[n], after one gain is fitted."""
    gain = out @ ideal / (ideal @ ideal)
    error = out - gain * ideal
    return 10 * np.log10((gain * ideal) @ (gain * ideal) / (error @ error))


def sweep(at: np.ndarray) -> np.ndarray:
    """A linear sweep over SWEEP_HZ in SWEEP_S, with 20 ms of fading at either end, at times in seconds."""
    low, high = SWEEP_HZ
    fade = np.clip(np.minimum(at, SWEEP_S - at) / 0.02, 0, 1)
    phase = 2 * np.pi * (low * at + (high - low) * at**2 / (2 * SWEEP_S))
    return AMPLITUDE * np.sin(np.pi / 2 * fade) ** 2 * np.sin(phase)


def measure(resampler, conversion: Conversion, step) -> Measured:
    """Everything about one resampler; `step` is called after each tone."""
    measured = Measured(resampler.name)
    for hz in tones(conversion):
        gain, alias = tone_response(resampler, conversion, hz)
        measured.tones.append(hz)
        measured.gains_db.append(20 * np.log10(abs(gain)) if gain else -np.inf)
        measured.aliases_db.append(20 * np.log10(alias))
        step()

    late = shift_s(resampler, conversion)
    comes_with = resampler.comes_with(2 * conversion.rate_in)
    place = np.arange(len(comes_with)) / conversion.rate_out
    settled = (place > 0.5) & (place < 1.5)
    measured.delays_s = (comes_with / conversion.rate_in - place + late)[settled]

    inside = slice(round(SETTLE_S * conversion.rate_out), round((1 + SETTLE_S) * conversion.rate_out))
    out = resampler.convert(tone_pcm(1000, conversion.rate_in, 1 + 2 * SETTLE_S)).astype(float)
    at = np.arange(len(out)) / conversion.rate_out - late
    measured.tone_snr_db = snr_db(out[inside], np.sin(2 * np.pi * 1000 * at)[inside])

    spoken = sweep(np.arange(round(SWEEP_S * conversion.rate_in)) / conversion.rate_in)
    padded = np.concatenate([np.rint(spoken), np.zeros(conversion.rate_in // 10)]).astype(np.int16)
    out = resampler.convert(padded).astype(float)
    measured.sweep_snr_db = snr_db(out, sweep(np.arange(len(out)) / conversion.rate_out - late))

    measured.cost = resampler.cost(10.0)
    return measured


# ---- report --------------------------------------------------------------------------------------------------------


def alias_band(conversion: Conversion) -> tuple[float, float]:
    """The input's frequencies whose aliases count: over the stop band's edge, or of images those of the pass band."""
    spec = conversion.spec
    return (spec.stop_hz, conversion.rate_in / 2) if conversion.down else (0, spec.pass_hz)


def row(conversion: Conversion, measured: Measured, edges: str) -> dict[str, str]:
    """Headings and cells of one resampler."""
    spec = conversion.spec
    low, high = measured.ripple_db(spec.pass_hz)
    alias, at = measured.worst_alias(*alias_band(conversion))
    delays = measured.delays_s * 1e3
    cells = {
        "resampler": measured.name,
        "ripple, dB": f"{low:+.3f} .. {high:+.3f}",
        f"alias {edges}, dB": f"{alias:.1f} at {at / 1000:.1f} kHz",
    }
    if conversion.down:
        near = measured.worst_alias(conversion.rate_out / 2, spec.stop_hz)[0]
        cells[f"{conversion.rate_out / 2000:g} to {spec.stop_hz / 1000:g} kHz, dB"] = f"{near:.0f}"
    return cells | {
        "delay, ms: median / worst": f"{np.median(delays):.3f} / {delays.max():.3f}",
        "SNR 1 kHz, dB": f"{measured.tone_snr_db:.1f}",
        "SNR sweep, dB": f"{measured.sweep_snr_db:.1f}",
        "cost": measured.cost,
    }


def misses(conversion: Conversion, measured: Measured) -> list[str]:
    """What of the specification the RTL does not meet."""
    spec = conversion.spec
    found = {
        "ripple_db": max(map(abs, measured.ripple_db(spec.pass_hz))),
        "alias_db": measured.worst_alias(*alias_band(conversion))[0],
        "delay_ms": measured.delays_s.max() * 1e3,
        "cycles": cycles(spec.taps, spec.up, spec.down),
    }
    return [f"{conversion.name}: {name} {found[name]:.3f}" for name, most in BUDGET.items() if found[name] > most]


def plot(conversion: Conversion, results: list[Measured], path: Path) -> None:
    """Gain in the pass band, strongest alias by frequency, delay of a stream."""
    figure, (gain, alias, delay) = plt.subplots(1, 3, figsize=(15, 4.2), layout="constrained")
    spec = conversion.spec
    for measured in results:
        khz = np.array(measured.tones) / 1000
        gain.plot(khz, measured.gains_db, ".-", ms=3, lw=1, label=measured.name)
        alias.plot(khz, measured.aliases_db, ".-", ms=3, lw=1, label=measured.name)
        times = np.arange(len(measured.delays_s)) / conversion.rate_out
        shown = times < 0.1
        delay.plot(times[shown] * 1e3, measured.delays_s[shown] * 1e3, lw=1, label=measured.name)
    limits = {"color": "0.6", "lw": 1, "ls": "--", "zorder": 0}
    for level in (-0.1, 0.1):
        gain.plot([0, spec.pass_hz / 1000], [level] * 2, **limits)
    gain.set(title="Pass band", xlabel="kHz", ylabel="gain, dB", ylim=(-0.5, 0.25), xlim=(0, spec.stop_hz / 1000))
    first, last = alias_band(conversion)
    alias.plot([first / 1000, last / 1000], [-70] * 2, **limits)
    alias.set(title="Strongest alias or image of a tone", xlabel="tone at the input, kHz", ylabel="dB of the tone")
    delay.axhline(0.7, **limits)
    delay.set(title="Delay of a stream fed sample by sample", xlabel="output sample, ms", ylabel="ms", yscale="log")
    marks = [0.5, 1, 2, 5, 10, 20, 50, 100]
    delay.set_yticks(marks, [f"{mark:g}" for mark in marks])
    delay.set(ylim=(0.4, 120))
    delay.minorticks_off()
    for axes in (gain, alias, delay):
        axes.grid(alpha=0.25)
    gain.legend(fontsize=8, loc="lower left")
    figure.suptitle(f"{conversion.name}: RTL ({-(-spec.taps // spec.up)} taps an output) and soxr, 16 bits in and out")
    figure.savefig(path, dpi=110)
    plt.close(figure)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--plots", type=Path, default=ROOT / "build" / "bench", metavar="FOLDER")
    folder = options.parse_args().plots
    folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    missed = []
    with Progress(console=console, transient=True) as progress:
        task = progress.add_task("Measuring", total=3 * sum(len(tones(conversion)) for conversion in CONVERSIONS))
        for conversion in CONVERSIONS:
            resamplers = (Rtl(conversion), Soxr(conversion, "HQ"), Soxr(conversion, "VHQ"))
            results = []
            for resampler in resamplers:
                progress.update(task, description=f"{conversion.name}, {resampler.name}")
                results.append(measure(resampler, conversion, lambda: progress.advance(task)))
            missed += misses(conversion, results[0])
            spec = conversion.spec
            edges = (
                f"from {spec.stop_hz / 1000:g} kHz"
                if conversion.down
                else f"images of tones to {spec.pass_hz / 1000:g}"
            )
            table = Table(title=f"{conversion.name}, pass band to {spec.pass_hz / 1000:g} kHz")
            rows = [row(conversion, measured, edges) for measured in results]
            for heading in rows[0]:
                table.add_column(heading, justify="left" if heading in ("resampler", "cost") else "right")
            for cells in rows:
                table.add_row(*cells.values())
            progress.console.print(table)
            plot(conversion, results, folder / f"resampler_{spec.name}.png")
    console.print(REFERENCE, highlight=False)
    console.print(f"soxr {soxr.__version__} on {processor()}", highlight=False)
    console.print(f"Plots: {folder}/resampler_*.png", highlight=False, soft_wrap=True)
    for miss in missed:
        console.print(f"[red]The RTL misses its specification: {miss}[/]", highlight=False)
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
