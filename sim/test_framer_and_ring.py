"""stream_gate, framer and ring_writer joined: samples in, and the host's own reader takes the frames out of memory."""

import dataclasses
import itertools
import mmap
import random

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge, Timer
from cocotbext.axi import AxiRamWrite, AxiWriteBus

from bench import ROOT, record_cycles, simulate
from golden.framer import Framer, Hop, Levels
from golden.stream_gate import BLOCK, StreamGate
from test_ring_writer import BASE as FAR_BASE
from test_ring_writer import COPY, OKAY, SLVERR, Memory
from voxpath.link import frame as link
from voxpath.link.ring import CaptureRing
from voxpath.link.tracker import SequenceTracker

SLOTS = 4
BASE = 0x1_0000
WINDOW = CaptureRing.bytes_for(SLOTS)
BUDGET = 100  # cycles from a frame's last sample to its head, memory answering in 24
SOURCES = [
    *("crc32.sv", "stream_gate.sv", "framer.sv", "ring_writer.sv"),
    str(ROOT / "sim" / "rtl" / "framer_and_ring.sv"),
]
PORTS = (
    *("clk", "s_axis_tdata", "s_axis_tuser", "s_axis_tvalid", "gated", "preroll", "min_onset", "onset_pulse"),
    *("onset_blocks", "offset_pulse", "hop_valid", "hop_speech", "hop_onset", "hop_offset", "hop_energy"),
    *("tail_write", "tail_value"),
)


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
        for port in PORTS:
            getattr(dut, port).value = 0
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
        first = (frame.sequence - int(bench.dut.SEQUENCE_RESET.value)) % 2**32 * 64
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
    assert int(dut.frames_captured.value) == (40 + int(dut.SEQUENCE_RESET.value)) % 2**32
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
    record_cycles("ring_writer", worst, BUDGET)
    assert len(bench.published) == 6 and worst <= BUDGET
    assert [urgent for _, urgent in bench.published] == [0, 0, 1, 0, 0, 1]


# ---- gated ---------------------------------------------------------------------------------------------------------


class Gated:
    """Speaks to the joined modules as the VAD and the denoiser would, with a host that reads at once.

    A sample's value tells its place. `pace` clocks lie between two samples, of which those are left out in which the
    design is not busy; `lead` clocks lie between a sample's pulses and the sample itself. `expected` are the golden
    models' frames, none lost.
    """

    def __init__(self, dut, seed=0, *, pace=768, lead=4, stall=0.0, answer=24, **settings):
        self.dut, self.pace, self.lead, self.rng = dut, pace, lead, random.Random(seed)
        self.gate = StreamGate(**settings)
        self.maker = Framer(int(dut.SEQUENCE_RESET.value))
        self.memory = Memory(dut, random.Random(seed))
        self.memory.stall = stall
        self.memory.answer_after = lambda: answer
        self.buffer = bytearray(WINDOW)
        self.host = CaptureRing(self.buffer, SLOTS, self._set_tail)
        self.reads = True
        self.tail = None
        self.unread = False
        self.count = 0
        self.hop, self.hops = wired_hop(), [wired_hop()]  # of no hop, of the first, ...
        self.speech = False
        self.expected, self.frames = [], []
        self.clocks = 0

    async def start(self):
        dut = self.dut
        for port in PORTS:
            getattr(dut, port).value = 0
        dut.enable.value, dut.base.value, dut.size.value = 1, FAR_BASE, WINDOW
        self.set()
        dut.rst.value = 1
        for _ in range(3):
            await self._clock()
        dut.rst.value = 0

    def set(self, **settings):
        for name, value in settings.items():
            setattr(self.gate, name, value)
        for name in ("gated", "preroll", "min_onset"):
            getattr(self.dut, name).value = int(getattr(self.gate, name))

    def _set_tail(self, count):
        self.tail = count

    async def _clock(self):
        await Timer(5, "ns")
        self.dut.clk.value = 1
        await Timer(5, "ns")
        self.dut.clk.value = 0

    async def _step(self):
        """One clock, if there is anything to do; the caller has driven samples and pulses."""
        dut = self.dut
        if self.unread and self.reads:
            self._read()
        dut.tail_write.value = int(self.tail is not None)
        if self.tail is not None:
            dut.tail_value.value, self.tail = self.tail, None
        self.memory.drive()
        await ReadOnly()
        busy = bool(int(dut.busy.value))
        if busy:
            self.memory.observe()
            self.unread |= bool(int(dut.published.value))
        await Timer(1, "ns")
        if busy:
            self.clocks += 1
            await self._clock()
        return busy

    def _read(self):
        self.unread = False
        for address, data in self.memory.bytes.items():
            self.buffer[address - FAR_BASE : address - FAR_BASE + len(data)] = data
        frames = self.host.read(int(self.dut.head.value))
        assert frames.bad == 0
        self.frames += list(frames)

    async def sample(self, *, onset=0, offset=False):
        """A sample, with the pulses that its block, and the result that its hop, has brought."""
        dut = self.dut
        value, ns = self.value(self.count), self.count * 62_500
        self.count += 1
        ends_hop = self.count % 64 == 0
        cuts = self.gate.sample(value, ns)
        if offset:
            self.gate.offset()
            self.speech, self.hop.offset = False, True
        if onset:
            self.speech, self.hop.onset = True, True
        self.hop.speech |= self.speech
        if ends_hop:
            self.gate.hop()
            self.hop.energy = self.rng.getrandbits(16)
            self.hops.append(self.hop)
        if onset:
            cuts += self.gate.onset(onset)
        for cut in cuts:
            hop = self.hops[cut.hops]
            made = self.maker.frame(cut.pcm, cut.first_ns, 0, hop, Levels(), kept=True, voice=cut.voice)
            self.expected += list(link.parse(made))
        for cycle in range(self.pace):
            dut.s_axis_tvalid.value = int(cycle == self.lead)
            dut.s_axis_tdata.value, dut.s_axis_tuser.value = value & 0xFFFF, ns
            dut.onset_pulse.value = int(cycle == 7 and onset > 0)
            dut.onset_blocks.value = onset
            dut.offset_pulse.value = int(cycle == 7 and offset)
            dut.hop_valid.value = int(cycle == 7 and ends_hop)
            if cycle == 7 and ends_hop:
                hop = self.hop
                dut.hop_speech.value, dut.hop_onset.value, dut.hop_offset.value = hop.speech, hop.onset, hop.offset
                dut.hop_energy.value = hop.energy
                self.hop = wired_hop()
            unread = self.unread and self.reads
            if not await self._step() and cycle > max(7, self.lead) and self.tail is None and not unread:
                break

    @staticmethod
    def value(index):
        return (index * 40503 + 12345) % 65536 - 32768

    async def silence(self, blocks):
        """To the end of a block, and `blocks` blocks."""
        for _ in range(-self.count % BLOCK + BLOCK * blocks):
            await self.sample()

    async def utterance(self, onset, blocks):
        """Speech whose onset takes `onset` blocks and whose offset is decided `blocks` blocks later."""
        await self.silence(onset - 1)
        for index in range(BLOCK):
            await self.sample(onset=onset if index == BLOCK - 1 else 0)
        await self.silence(blocks - 1)
        for index in range(BLOCK):
            await self.sample(offset=index == BLOCK - 1)

    def check(self):
        """What the host read is what the golden models made, field by field and sample by sample."""
        assert [fields(frame) for frame in self.frames] == [fields(frame) for frame in self.expected]
        tracker = SequenceTracker()
        assert all(tracker.accept(frame) for frame in self.frames)
        assert (tracker.ring_lost, tracker.link_lost, tracker.duplicated) == (0, 0, 0)
        assert int(self.dut.frames_lost.value) == 0


def wired_hop():
    """What is not known of a hop is constant in the joined modules."""
    return Hop(floor=2, zero_crossings=3, score=4)


def fields(frame):
    return {
        **{field.name: getattr(frame, field.name) for field in dataclasses.fields(frame)},
        "pcm": frame.pcm.tolist(),
    }


def heard(frames):
    """(first sample's place, samples) of each piece that is whole; every sample must be the one that its time says."""
    pieces = []
    for frame in frames:
        first = frame.capture_ns // 62_500
        assert frame.pcm.tolist() == [Gated.value(first + n) for n in range(frame.samples)]
        if pieces and sum(pieces[-1]) == first:
            pieces[-1][1] += frame.samples
        elif frame.samples:
            assert not pieces or first > sum(pieces[-1]), "time goes back"
            pieces.append([first, frame.samples])
    return [tuple(piece) for piece in pieces]


async def speak(bench, utterances=11):
    """Random utterances; where each began and ended, in samples of the stream."""
    await bench.start()
    rng = bench.rng
    for _ in range(utterances):
        bench.set(preroll=rng.choice([0, 128, 256]), min_onset=rng.choice([1, 2, 8]))
        await bench.silence(rng.choice([0, 1, 2, 7, 33]))
        await bench.utterance(rng.choice([1, 2, 3, 8, 40]), rng.choice([1, 2, 5, 40]))
    await bench.silence(20)


@cocotb.test()
async def gated_frames_in_memory_are_those_of_the_golden_models(dut):
    bench = Gated(dut, 30, stall=0.3, answer=11, gated=True)
    await speak(bench)
    bench.check()
    assert sum(frame.onset for frame in bench.frames) == sum(frame.offset for frame in bench.frames) == 11
    assert all(frame.samples == 64 or frame.offset or not frame.samples for frame in bench.frames)
    heard(bench.frames)


@cocotb.test()
async def frames_do_not_depend_on_the_clocks_between_samples_nor_on_the_denoisers_latency(dut):
    runs = []
    for pace, lead in ((768, 4), (768, 33), (5000, 1), (5000, 20)):
        bench = Gated(dut, 31, pace=pace, lead=lead, gated=True)
        await speak(bench, 6)
        bench.check()
        runs.append([fields(frame) for frame in bench.frames])
    assert len(runs[0]) > 20 and all(run == runs[0] for run in runs)


@cocotb.test()
async def an_onset_of_nearly_a_second_of_history_loses_no_frame_while_memory_answers(dut):
    """16 frames at once into a ring of four slots, with the slowest answers that the budget of the ring allows."""
    bench = Gated(dut, 32, answer=24, gated=True, min_onset=63, preroll=256)
    await bench.start()
    await bench.silence(100)
    await bench.utterance(63, 40)
    await bench.silence(5)
    bench.check()
    (piece,) = heard(bench.frames)
    assert piece[1] == 960 + 40 * BLOCK + 30


@cocotb.test()
async def the_mode_may_change_in_speech(dut):
    bench = Gated(dut, 33, stall=0.1)
    await bench.start()
    for gated in (True, False, True, False):
        await bench.silence(bench.rng.randrange(3, 9))
        for index in range(BLOCK):
            await bench.sample(onset=2 if index == BLOCK - 1 else 0)
        for _ in range(bench.rng.randrange(100)):
            await bench.sample()
        bench.set(gated=gated)
        await bench.silence(20)
        for index in range(BLOCK):
            await bench.sample(offset=index == BLOCK - 1)
        await bench.silence(8)
    bench.check()
    heard(bench.frames)


@cocotb.test()
async def a_full_ring_loses_whole_frames_and_says_how_many(dut):
    bench = Gated(dut, 34, gated=True)
    await bench.start()
    for _ in range(4):
        bench.reads = False
        await bench.silence(10)
        await bench.utterance(4, bench.rng.randrange(30, 60))
        bench.reads = True
        await bench.silence(2)
        await bench.utterance(1, 3)
    await bench.silence(3)
    tracker = SequenceTracker()
    for frame in bench.frames:
        tracker.accept(frame)
    heard(bench.frames)
    assert tracker.ring_lost == int(dut.frames_lost.value) > 10
    assert tracker.captured == len(bench.expected)
    assert int(dut.frames_captured.value) == (len(bench.expected) + int(dut.SEQUENCE_RESET.value)) % 2**32
    assert (tracker.link_lost, tracker.duplicated, tracker.reordered) == (0, 0, 0)


# ---- ten seconds, and many more, without a ring ----------------------------------------------------------------------


ON_VERILATOR = getattr(cocotb, "SIM_NAME", "").lower().startswith("verilator")


class Blocked:
    """Samples as fast as clocks allow, hops' results that are always there, and a host that does not read for long."""

    def __init__(self, dut):
        self.dut = dut
        shared = np.zeros(WINDOW, np.uint8)
        self.memory = Memory(dut, random.Random(40))
        self.buffer = shared
        self.host = CaptureRing(memoryview(shared), SLOTS, lambda count: None)
        self.count = 0

    async def start(self):
        dut = self.dut
        for port in PORTS:
            getattr(dut, port).value = 0
        dut.enable.value, dut.base.value, dut.size.value = 1, FAR_BASE, WINDOW
        dut.rst.value = 1
        self.clock = Clock(dut.clk, 10, unit="ns")
        self.clock.start()
        for _ in range(3):
            await RisingEdge(dut.clk)
        await Timer(1, "ns")
        dut.rst.value = 0

    async def cycle(self):
        self.memory.drive()
        await ReadOnly()
        self.memory.observe()
        await RisingEdge(self.dut.clk)
        await Timer(1, "ns")

    async def frames(self, count):
        """Whole frames, each with its hop's result, and time for memory."""
        dut = self.dut
        for _ in range(count):
            for _ in range(64):
                dut.s_axis_tvalid.value = 1
                dut.s_axis_tdata.value = Gated.value(self.count) & 0xFFFF
                dut.s_axis_tuser.value = self.count * 62_500
                self.count += 1
                await self.cycle()
            dut.s_axis_tvalid.value = 0
            dut.hop_valid.value = 1
            await self.cycle()
            dut.hop_valid.value = 0
            for _ in range(120):
                await self.cycle()

    async def read(self):
        for address, data in self.memory.bytes.items():
            self.buffer[address - FAR_BASE : address - FAR_BASE + len(data)] = np.frombuffer(data, np.uint8)
        frames = list(self.host.read(int(self.dut.head.value)))
        self.dut.tail_value.value, self.dut.tail_write.value = self.host.tail, 1
        await self.cycle()
        self.dut.tail_write.value = 0
        return frames

    async def deaf(self, frames):
        """The ring is full: nothing moves on the bus, so that the simulator may run alone. One sample a clock."""
        dut = self.dut
        # A hop's result comes with each frame's last sample; 64 clocks make a frame.
        dut.s_axis_tvalid.value = 1
        for _ in range(frames):
            dut.hop_valid.value = 0
            await Timer(630, "ns")
            dut.hop_valid.value = 1
            await Timer(10, "ns")
        dut.hop_valid.value = dut.s_axis_tvalid.value = 0
        self.count += 64 * frames


async def without_a_ring(dut, frames):
    """`frames` frames while the ring is full; (frames read around them, of which the last ones came after)."""
    bench = Blocked(dut)
    await bench.start()
    await bench.frames(SLOTS)
    assert int(dut.head.value) == SLOTS
    await bench.deaf(frames)
    assert int(dut.head.value) == SLOTS and int(dut.idle.value)
    for _ in range(10):
        await bench.cycle()
    assert int(dut.frames_lost.value) == frames
    before = await bench.read()
    await bench.frames(3)
    after = await bench.read()
    bench.clock.stop()
    for number, frame in enumerate([*before, *after]):
        captured = number if number < SLOTS else number + frames
        assert frame.sequence == (captured + int(dut.SEQUENCE_RESET.value)) % 2**32
        assert frame.capture_ns == 64 * captured * 62_500
        assert frame.pcm.tolist() == [Gated.value(64 * captured + n) for n in range(64)]
    assert int(dut.frames_captured.value) == (int(dut.SEQUENCE_RESET.value) + SLOTS + frames + 3) % 2**32
    tracker = SequenceTracker()
    assert all(tracker.accept(frame) for frame in itertools.chain(before, after))
    assert (tracker.received, tracker.ring_lost, tracker.link_lost) == (SLOTS + 3, frames, 0)
    return after


@cocotb.test(skip=not ON_VERILATOR)
async def ten_seconds_without_a_ring_are_told_by_the_first_frame_after_them(dut):
    """160,000 samples: 2,500 frames."""
    after = await without_a_ring(dut, 2_500)
    assert [(frame.lost, frame.dropped) for frame in after] == [(2_500, True), (0, False), (0, False)]


@cocotb.test(skip=not ON_VERILATOR)
async def what_the_field_cannot_count_stays_at_its_highest(dut):
    """262 s: `lost` stays at 65,535, FRAMES_LOST and the frames' numbers go on."""
    after = await without_a_ring(dut, 65_537)
    assert [(frame.lost, frame.dropped) for frame in after] == [(0xFFFF, True), (0, False), (0, False)]


def test_the_host_reads_every_frame_and_knows_every_loss(simulator):
    simulate(simulator, "framer_and_ring", SOURCES, __name__, parameters={"SLOTS": SLOTS})


def test_frames_are_numbered_across_the_wrap(simulator):
    parameters = {"SLOTS": SLOTS, "SEQUENCE_RESET": 2**32 - 6}
    simulate(simulator, "framer_and_ring", SOURCES, __name__, parameters=parameters)
