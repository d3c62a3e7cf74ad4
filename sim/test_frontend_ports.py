"""frontend at its own ports: a register master and a memory that stall at random, and memories that woke up full."""

import os
import random

import cocotb
import numpy as np
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ClockCycles, FallingEdge, ReadOnly, RisingEdge
from cocotbext.axi import AxiBus, AxiLiteBus, AxiLiteMaster, AxiRam

from bench import BUILD, ROOT, simulate
from golden import playback
from golden.frontend import DELAY_RESAMPLE, frames, ns_of, table
from test_frontend import FRAME_BYTES, SLOT_BYTES, speech_like
from test_registers import generate
from voxpath.boards import registers

CAPTURE, PLAY = 0x10000, 0x30000
SLOTS = 256
CYCLES_A_TICK = 256  # the least that a board gives
TICKS = 5 * 192


class Board:
    """The front end with a clock, 256 KiB of memory and a register master; `stall` is how often a channel waits."""

    def __init__(self, dut, stall, seed):
        self.dut = dut
        for port in ("s_axis_adc_tvalid", "s_axis_adc_tdata"):
            getattr(dut, port).value = 0
        dut.rst.value = 1
        Clock(dut.clk, 10, unit="ns").start()
        self.ram = AxiRam(AxiBus.from_prefix(dut, "m_axi"), dut.clk, dut.rst, size=1 << 18)
        self.master = AxiLiteMaster(AxiLiteBus.from_prefix(dut, "s_axil"), dut.clk, dut.rst)
        write, read = self.ram.write_if, self.ram.read_if
        channels = [write.aw_channel, write.w_channel, write.b_channel, read.ar_channel, read.r_channel]
        channels += [self.master.write_if.b_channel, self.master.read_if.r_channel]
        channels += [self.master.write_if.aw_channel, self.master.write_if.w_channel, self.master.read_if.ar_channel]
        for number, channel in enumerate(channels):
            channel.set_pause_generator(self._pauses(stall, seed + number))
        self.dac = []
        cocotb.start_soon(self._listen())

    @staticmethod
    def _pauses(stall, seed):
        rng = random.Random(seed)
        while True:
            yield rng.random() < stall

    async def _listen(self):
        while True:
            await FallingEdge(self.dut.clk)
            if self.dut.m_axis_dac_tvalid.value:
                self.dac.append(self.dut.m_axis_dac_tdata.value.to_signed())

    async def reset(self):
        self.dut.rst.value = 1
        await ClockCycles(self.dut.clk, 8)
        self.dut.rst.value = 0
        await ClockCycles(self.dut.clk, 2)

    async def write(self, register, value):
        await self.master.write_dword(register, value)

    async def read(self, register):
        return await self.master.read_dword(register)

    async def open(self):
        for register, value in (
            (registers.RING_BASE, CAPTURE),
            (registers.RING_BASE + 4, 0),
            (registers.RING_SIZE, SLOTS * SLOT_BYTES + 16),
            (registers.PLAY_BASE, PLAY),
            (registers.PLAY_BASE + 4, 0),
            (registers.PLAY_SIZE, SLOTS * SLOT_BYTES),
            (registers.BOOT_ID, 77),
            (registers.HEARTBEAT, 1),
            (registers.IRQ_ENABLE, 3),
            (registers.CONTROL, registers.CONTROL__CAPTURE_ENABLE | registers.CONTROL__PLAYBACK_ENABLE),
        ):
            await self.write(register, value)

    async def hear(self, pcm):
        """One sample each CYCLES_A_TICK cycles, on the left channel."""
        for sample in pcm:
            self.dut.s_axis_adc_tdata.value = (int(sample) & 0xFFFF) << 8
            self.dut.s_axis_adc_tvalid.value = 1
            await RisingEdge(self.dut.clk)
            self.dut.s_axis_adc_tvalid.value = 0
            await ClockCycles(self.dut.clk, CYCLES_A_TICK - 1)


@cocotb.test()
async def frames_and_replies_do_not_depend_on_how_buses_stall(dut):
    board = Board(dut, stall=float(os.environ["STALL"]), seed=1)
    await board.reset()
    await board.open()
    await board.write(registers.VAD_PLAYBACK_MARGIN, 0)  # the golden chain of frames does not play
    rng = np.random.default_rng(4)
    reply = (5000 * rng.standard_normal(480)).clip(-32768, 32767).astype(np.int16)
    slots = [
        playback.Slot(9, at, reply[at : at + 120], rate=1, first=at == 0, last=at + 120 >= len(reply))
        for at in range(0, len(reply), 120)
    ]
    for number, slot in enumerate(slots):
        board.ram.write(PLAY + number * SLOT_BYTES, slot.pack())
    await board.write(registers.PLAY_HEAD, len(slots))
    pcm = speech_like(TICKS / 48_000, seed=2)[:TICKS]
    hearing = cocotb.start_soon(board.hear(pcm))
    # The register master is at work all the while.
    while not hearing.done():
        assert await board.read(registers.ID) == 0x56585046
        await board.write(registers.HEARTBEAT, int(rng.integers(1 << 32)))
        await ClockCycles(dut.clk, 500)
    await ClockCycles(dut.clk, 2000)
    count = await board.read(registers.RING_HEAD)
    stored = [board.ram.read(CAPTURE + n * SLOT_BYTES, FRAME_BYTES) for n in range(count)]
    assert count == TICKS // 192
    # Flag 6 says that a reply is audible.
    expected = frames(pcm)
    assert [clear_playback(frame) for frame in stored] == [clear_playback(frame) for frame in expected]
    golden = playback.Playback(
        (table("interpolate_16k_48k.hex"), table("interpolate_24k_48k.hex")), delay_ns=DELAY_RESAMPLE, low_water=4800
    )
    golden.publish(slots)
    assert board.dac[:TICKS] == [golden.tick(ns_of(tick)) for tick in range(TICKS)]
    assert await board.read(registers.FAULTS) == 0
    assert dut.irq.value


def clear_playback(frame: bytes) -> bytes:
    """A frame without flag 6 and the checksum over it."""
    return frame[:3] + bytes([frame[3] & ~0x40]) + frame[4:28] + frame[32:]


@cocotb.test()
async def a_reset_leaves_nothing_of_what_was_before(dut):
    """Outputs after reset, whatever registers and memories held when they woke: written down for a comparison."""
    board = Board(dut, stall=0.3, seed=7)
    await board.reset()
    trace = []

    async def watch():
        outputs = [
            getattr(dut, name)
            for name in (
                *("m_axi_awvalid", "m_axi_wvalid", "m_axi_arvalid", "m_axi_bready", "m_axi_rready", "irq", "busy"),
                *("m_axis_dac_tvalid", "m_axis_dac_tdata", "s_axil_bvalid", "s_axil_rvalid", "m_axi_awaddr"),
                *("s_axil_awready", "s_axil_wready", "s_axil_arready", "m_axi_araddr"),
            )
        ]
        while True:
            await RisingEdge(dut.clk)
            await ReadOnly()
            trace.append(tuple(str(output.value) for output in outputs))

    cocotb.start_soon(watch())
    await board.hear([1000, -1000] * 100)
    await board.open()
    await board.hear(speech_like(0.02, seed=3)[:400])
    digest = "\n".join(" ".join(row) for row in trace)
    assert "x" not in digest.lower()
    head = await board.read(registers.RING_HEAD)
    assert head >= 2
    frames = [board.ram.read(CAPTURE + n * SLOT_BYTES, FRAME_BYTES).hex() for n in range(head)]
    with open(os.environ["TRACE"], "w") as out:
        out.write(digest + "\n" + "\n".join(frames))


def run(test, plusargs=(), **env):
    simulate(
        "verilator",
        "frontend_ports",
        [
            str(ROOT / "build/sim/regs/frontend_regs_pkg.sv"),
            str(ROOT / "build/sim/regs/frontend_regs.sv"),
            *sorted(str(path) for path in (ROOT / "fpga/rtl").glob("*.sv")),
            str(ROOT / "sim/rtl/frontend_ports.sv"),
        ],
        __name__,
        parameters={"FILTERS": f'"{ROOT}/fpga/filters/"'},
        env={"COCOTB_TEST_FILTER": f"{test}$", **env},
        plusargs=plusargs,
    )


@pytest.fixture(scope="module", autouse=True)
def register_block():
    generate.write_rtl(BUILD / "regs")


@pytest.mark.parametrize("stall", [0.0, 0.7])
def test_frames_and_replies_are_the_golden_models_however_the_buses_stall(stall):
    run("frames_and_replies_do_not_depend_on_how_buses_stall", STALL=str(stall))


def test_after_a_reset_nothing_depends_on_what_registers_and_memories_held(tmp_path):
    traces = []
    for seed in (1, 2, 3):
        trace = tmp_path / f"{seed}.txt"
        run(
            "a_reset_leaves_nothing_of_what_was_before",
            plusargs=["+verilator+rand+reset+2", f"+verilator+seed+{seed}"],
            TRACE=str(trace),
        )
        traces.append(trace.read_text())
    assert traces[0] == traces[1] == traces[2]
