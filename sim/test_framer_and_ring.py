"""framer and ring_writer joined: samples in, and the host's own ring reader takes the frames out of memory."""

import mmap
import random

import cocotb
from cocotb.triggers import ReadOnly, Timer
from cocotbext.axi import AxiRamWrite, AxiWriteBus

from bench import ROOT, simulate
from test_ring_writer import BASE as FAR_BASE
from test_ring_writer import COPY, OKAY, SLVERR, Memory
from voxpath.link.ring import CaptureRing
from voxpath.link.tracker import SequenceTracker

SLOTS = 4
BASE = 0x1_0000
WINDOW = CaptureRing.bytes_for(SLOTS)
BUDGET = 100  # cycles from a frame's last sample to its head, memory answering in 24
SOURCES = ["crc32.sv", "framer.sv", "ring_writer.sv", str(ROOT / "sim" / "rtl" / "framer_and_ring.sv")]


class Harness:
    """Feeds samples one clock at a time; the hop's result comes eight clocks after its last sample."""

    def __init__(self, dut, seed, memory=None):
        self.dut, self.rng, self.memory = dut, random.Random(seed), memory
        self.pcm = []  # every sample fed
        self.cycle = 0
        self.tail = None
        self.frame_end = 0
        self.published = []  # (cycles since the frame's last sample, urgent)

    async def start(self, base=BASE):
        dut = self.dut
        for port in ("clk", "s_axis_tdata", "s_axis_tuser", "s_axis_tvalid", "hop_valid", "hop_onset", "tail_write"):
            getattr(dut, port).value = 0
        dut.tail_value.value = 0
        dut.enable.value, dut.base.value, dut.size.value = 1, base, WINDOW
        dut.rst.value = 1
        for _ in range(3):
            await self._clock()
        dut.rst.value = 0

    async def _clock(self):
        await Timer(5, "ns")
        self.dut.clk.value = 1
        await Timer(5, "ns")
        self.dut.clk.value = 0

    async def step(self, *, sample=False):
        dut = self.dut
        if sample:
            self.pcm.append(self.rng.randint(-32768, 32767))
            dut.s_axis_tdata.value = self.pcm[-1] & 0xFFFF
            dut.s_axis_tuser.value = len(self.pcm) * 62_500
            if len(self.pcm) % 64 == 0:
                self.frame_end = self.cycle
        dut.s_axis_tvalid.value = int(sample)
        hop = bool(self.pcm) and len(self.pcm) % 64 == 0 and self.cycle == self.frame_end + 8
        dut.hop_valid.value = int(hop)
        if hop:
            dut.hop_onset.value = int(len(self.pcm) // 64 % 3 == 0)
        dut.tail_write.value = int(self.tail is not None)
        if self.tail is not None:
            dut.tail_value.value, self.tail = self.tail, None
        if self.memory:
            self.memory.drive()
        await ReadOnly()
        assert not int(dut.hop_overrun.value)
        if int(dut.published.value):
            self.published.append((self.cycle - self.frame_end, int(dut.published_urgent.value)))
        if self.memory:
            self.memory.observe()
        await Timer(1, "ns")
        self.cycle += 1
        await self._clock()

    async def frame(self, pace=2):
        """64 samples, one every `pace` clocks, and clocks enough for the hop's result."""
        for _ in range(64):
            await self.step(sample=True)
            for _ in range(pace - 1):
                await self.step()
        for _ in range(9):
            await self.step()

    def set_tail(self, count):
        self.tail = count


def account(bench, tracker, frames):
    """Every frame that came is right, and together they say what is missing."""
    for frame in frames:
        tracker.accept(frame)
        first = frame.sequence * 64
        assert list(frame.pcm) == bench.pcm[first : first + 64]
        assert frame.capture_ns == (first + 1) * 62_500


@cocotb.test()
async def a_host_reads_while_the_board_writes(dut):
    bench = Harness(dut, 1)
    await bench.start()
    rng = bench.rng
    shared = mmap.mmap(-1, 2 * BASE)
    bus = AxiWriteBus.from_prefix(dut, "m_axi")
    ram = AxiRamWrite(bus, dut.clk, dut.rst, size=len(shared), mem=shared)
    for channel in (ram.aw_channel, ram.w_channel, ram.b_channel):
        channel.set_pause_generator(rng.random() < 0.3 for _ in iter(int, 1))
    host = CaptureRing(memoryview(shared)[BASE : BASE + WINDOW], SLOTS, bench.set_tail)
    tracker, bad = SequenceTracker(), 0
    for number in range(40):
        await bench.frame()
        # Up to frame 20 the host is often too slow; then it keeps up.
        if rng.random() < 0.25 or number >= 20:
            for _ in range(60):
                await bench.step()
            frames = host.read()
            account(bench, tracker, frames)
            bad += frames.bad
    assert (tracker.received + tracker.ring_lost, tracker.link_lost, bad) == (40, 0, 0)
    assert tracker.ring_lost == int(dut.frames_lost.value) > 3
    assert int(dut.frames_captured.value) == 40
    assert host.published() == (int(dut.head.value), 7)


@cocotb.test()
async def errors_of_memory_are_told_as_losses_of_the_ring(dut):
    memory = Memory(dut, random.Random(2))
    bench = Harness(dut, 3, memory)
    await bench.start(FAR_BASE)
    memory.stall = 0.2
    memory.answer_after = lambda: bench.rng.randint(0, 24)
    buffer = bytearray(WINDOW)
    host = CaptureRing(buffer, SLOTS, bench.set_tail)
    tracker = SequenceTracker()
    for number in range(40):
        fails = bench.rng.random() < 0.4 and 0 < number < 39
        memory.answer = lambda address, fails=fails: SLVERR if fails and address != COPY else OKAY
        await bench.frame()
        for _ in range(120):
            await bench.step()
        for address, data in memory.bytes.items():
            buffer[address - FAR_BASE : address - FAR_BASE + len(data)] = data
        account(bench, tracker, host.read())
    assert (tracker.received + tracker.ring_lost, tracker.link_lost) == (40, 0)
    assert tracker.ring_lost == int(dut.frames_lost.value) > 5


@cocotb.test()
async def latency(dut):
    memory = Memory(dut, random.Random(4))
    bench = Harness(dut, 5, memory)
    await bench.start(FAR_BASE)
    memory.answer_after = lambda: 24
    for number in range(6):
        await bench.frame()
        for _ in range(120):
            await bench.step()
        bench.set_tail(number + 1)
        await bench.step()
    worst = max(cycles for cycles, _ in bench.published)
    print(f"framer + ring_writer: {worst} cycles from a frame's last sample to its head (budget {BUDGET})")
    assert len(bench.published) == 6 and worst <= BUDGET
    assert [urgent for _, urgent in bench.published] == [0, 0, 1, 0, 0, 1]


def test_the_host_reads_every_frame_and_knows_every_loss(simulator):
    simulate(simulator, "framer_and_ring", SOURCES, __name__, parameters={"SLOTS": SLOTS})
