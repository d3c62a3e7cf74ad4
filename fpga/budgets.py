"""What each part of the front end may take: area and clock cycles, beside what the reference reports.

The one place for these numbers: `make synth` holds the area against AREA, the benches their cycles against CYCLES.
They are those of the architecture's front-end table; a part without a limit is measured for information.
"""

from dataclasses import dataclass, field

MHZ_MIN = 80  # the whole front end on an ECP5-85F, speed grade 6; the ULX3S runs it at 50 MHz


@dataclass(frozen=True)
class Area:
    """One row of the area table: a module, or what a module has beyond one that it holds.

    `top` is the module of fpga/rtl, `parameters` its parameters as Verilog text, `without` a row whose figures are
    taken off. The limits are in the units of the KV260's family: LUTs, flip-flops, DSP48E2, halves of a RAMB36.
    """

    name: str
    top: str
    parameters: dict[str, str] = field(default_factory=dict)
    without: str = ""
    lut: int | None = None
    ff: int | None = None
    dsp: int | None = None
    bram18: int | None = None
    reference: str = ""


@dataclass(frozen=True)
class Cycles:
    """A limit in clock cycles; `what` says from where to where they count."""

    budget: int
    what: str
    reference: str = ""


def _table(name: str) -> str:
    return f'"fpga/filters/{name}.hex"'


_PLAY_TABLES = {"COEF_16K": _table("interpolate_16k_48k"), "COEF_24K": _table("interpolate_24k_48k")}

AREA = (
    Area("frontend", "frontend"),
    Area("resampler", "resampler", {"COEF_FILE": _table("decimate_48k_16k")}),
    Area("denoiser", "denoiser", dsp=4, bram18=6),
    Area("denoiser: path", "denoise_filter", lut=500, reference="1,248 LUT"),
    Area("denoiser: adaptation", "denoiser", without="denoiser: path", lut=2500),
    Area("vad", "vad", reference="64 FF"),
    Area("framer", "framer", reference="2 BRAM of 128 bits"),
    Area("stream_gate", "stream_gate"),
    Area("ring_writer", "ring_writer"),
    Area("playback", "playback", _PLAY_TABLES),
    Area("media_clock", "media_clock"),
    Area("irq_coalescer", "irq_coalescer"),
    Area("heartbeat", "heartbeat"),
    Area("input_mixer", "input_mixer"),
    Area("i2s_rx", "i2s_rx"),
    Area("i2s_tx", "i2s_tx"),
    Area("uart_link", "uart_link"),
    Area("bram_slave", "bram_slave"),
)

CYCLES = {
    "resampler": Cycles(64, "last input of an output to the output", "0.7 ms of delay"),
    "denoiser": Cycles(32, "sample to sample", "32 cycles, 1.9 ms of delay"),
    "denoiser: adaptation": Cycles(8_000, "clocked for a hop of 64 samples"),
    "denoiser: bins": Cycles(6_000, "last sample of a hop to the last bin for the vad"),
    "vad": Cycles(8, "last sample of a block to its verdict", "8 cycles, 3.1 ms to the trigger"),
    "framer": Cycles(16, "last sample of a frame and its hop's result to the first beat", "16 cycles"),
    "ring_writer": Cycles(100, "last sample of a frame to its head published"),
    "playback": Cycles(48, "tick to its DAC sample"),
    "frontend": Cycles(20_000, "clocked for a hop of 4 ms, playback included"),
}
