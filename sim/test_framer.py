"""framer against its golden model, byte for byte, whatever the order and the pace of samples, hops and beats."""

import random
import zlib

import cocotb
from cocotb.triggers import ReadOnly, Timer

from bench import simulate
from golden.framer import FRAME_SAMPLES, Framer, Hop, Levels

SOURCES = ["crc32.sv", "framer.sv"]
BUDGET = 16  # cycles from a frame's last sample, and its hop's result, to its first beat
FLAGS = ("time_locked", "playback_active", "test_pattern")


def random_hop(rng):
    return Hop(
        speech=rng.random() < 0.5,
        onset=rng.random() < 0.2,
        offset=rng.random() < 0.2,
        energy=rng.getrandbits(16),
        floor=rng.getrandbits(16),
        zero_crossings=rng.getrandbits(8),
        score=rng.getrandbits(8),
    )


class Harness:
    """Drives one clock at a time and tells the golden model what happened in it.

    `expected` are the golden frames that must come out, as (bytes, urgent); `received` are those that came. With
    `skip` the design gets no clock while its `busy` is low.
    """

    def __init__(self, dut, seed, *, skip=False):
        self.dut, self.skip = dut, skip
        self.rng = random.Random(seed)
        self.golden = Framer()
        self.hops = [random_hop(self.rng) for _ in range(300)]
        self.hops_given = 0
        self.cycle = self.clocks = 0
        self.samples = []  # of the frame being filled, as (value, ns)
        self.delay_ns = []  # at the first sample of each frame
        self.closing = None  # the samples of a frame that ended in the cycle before
        self.clipped = False
        self.expected, self.received, self.beats = [], [], []
        self.stalled = None  # a beat that was offered and not taken
        self.overruns = 0
        self.given = {}  # frame number -> cycle of the later one of its last sample and its hop's result
        self.sent_numbers = []
        self.latencies = []

    async def start(self):
        for port in (
            *(
                "clk",
                "s_axis_tdata",
                "s_axis_tuser",
                "s_axis_tvalid",
                "delay_ns",
                "hop_valid",
                "hop_speech",
                "hop_onset",
            ),
            *("hop_onset", "hop_offset", "hop_energy", "hop_floor", "hop_zc", "hop_score", "clipped", "stage_mask"),
            *("stream", "frame_lost", "m_axis_tready", *FLAGS),
        ):
            getattr(self.dut, port).value = 0
        self.dut.ring_free.value = 1
        self.dut.rst.value = 1
        for _ in range(3):
            await self._clock()
        self.dut.rst.value = 0

    async def _clock(self):
        await Timer(5, "ns")
        self.dut.clk.value = 1
        await Timer(5, "ns")
        self.dut.clk.value = 0

    def _give_hop(self):
        hop, dut = self.hops[self.hops_given], self.dut
        dut.hop_speech.value, dut.hop_onset.value, dut.hop_offset.value = hop.speech, hop.onset, hop.offset
        dut.hop_energy.value, dut.hop_floor.value = hop.energy, hop.floor
        dut.hop_zc.value, dut.hop_score.value = hop.zero_crossings, hop.score
        self.given[self.hops_given] = self.cycle
        self.hops_given += 1

    async def step(self, *, sample=None, hop=False, ready=True, clipped=False, frame_lost=False):
        """One clock; `sample` is (int16, ns) or None. The level inputs are driven by the caller, before."""
        dut = self.dut
        dut.s_axis_tvalid.value = int(sample is not None)
        if sample is not None:
            dut.s_axis_tdata.value = sample[0] & 0xFFFF
            dut.s_axis_tuser.value = sample[1]
        if hop:
            self._give_hop()
        dut.hop_valid.value = int(hop)
        dut.m_axis_tready.value = int(ready)
        dut.clipped.value = int(clipped)
        dut.frame_lost.value = int(frame_lost)
        await ReadOnly()
        assert int(dut.s_axis_tready.value), "the ADC never stalls"
        self.overruns += int(dut.hop_overrun.value)
        if frame_lost:
            self.golden.lost_in_the_ring()
        self.clipped |= clipped
        if self.closing:
            self._close()
        if sample is not None:
            if not self.samples:
                self.delay_ns.append(int(dut.delay_ns.value))
            self.samples.append(sample)
            if len(self.samples) == FRAME_SAMPLES:
                self.given[self.golden.captured] = self.cycle
                self.closing, self.samples = self.samples, []
        self._watch_output(ready)
        run = not self.skip or int(dut.busy.value)
        await Timer(1, "ns")
        self.cycle += 1
        if run:
            self.clocks += 1
            await self._clock()

    def _close(self):
        dut, number = self.dut, self.golden.captured
        levels = Levels(
            clipped=self.clipped,
            stage_mask=int(dut.stage_mask.value),
            stream=int(dut.stream.value),
            **{flag: bool(int(getattr(dut, flag).value)) for flag in FLAGS},
        )
        pcm, first_ns = [value for value, _ in self.closing], self.closing[0][1]
        kept = bool(int(dut.ring_free.value)) and len(self.received) == len(self.expected)
        hop = self.hops[number]
        frame = self.golden.frame(pcm, first_ns, self.delay_ns[number], hop, levels, kept=kept)
        if kept:
            self.expected.append((frame, hop.onset or hop.offset))
            self.sent_numbers.append(number)
        self.closing, self.clipped = None, False

    def _watch_output(self, ready):
        dut = self.dut
        valid = int(dut.m_axis_tvalid.value)
        if self.stalled is not None:
            assert valid, "an offered beat was taken back"
        if not valid:
            return
        beat = (int(dut.m_axis_tdata.value), int(dut.m_axis_tlast.value), int(dut.m_axis_tuser.value))
        assert self.stalled in (None, beat), "an offered beat changed"
        if not self.beats and self.stalled is None:
            self.latencies.append(self.cycle - self.given[self.sent_numbers[len(self.received)]])
        self.stalled = None if ready else beat
        if ready:
            self.beats.append(beat)
            if beat[1]:
                self._take_frame()

    def _take_frame(self):
        data = b"".join(word.to_bytes(16, "little") for word, _, _ in self.beats)
        frame, urgent = self.expected[len(self.received)]
        assert data == frame
        assert all(user == urgent for _, _, user in self.beats)
        self.received.append(data)
        self.beats = []

    async def finish(self):
        """Take what is left and check the counts."""
        for _ in range(40):
            await self.step()
        assert len(self.received) == len(self.expected) and not self.beats
        assert int(self.dut.frames_captured.value) == self.golden.captured
        assert int(self.dut.frames_lost.value) == self.golden.frames_lost
        assert not int(self.dut.busy.value)

    def random_levels(self):
        rng, dut = self.rng, self.dut
        for flag in FLAGS:
            getattr(dut, flag).value = rng.getrandbits(1)
        dut.stage_mask.value = rng.getrandbits(8)
        dut.stream.value = rng.getrandbits(8)
        dut.delay_ns.value = rng.getrandbits(rng.choice([8, 22, 32]))

    async def frame(self, *, lag=3, gap=0, first_ns=10**9, **levels):
        """One frame of random samples with `gap` idle clocks between them and the hop `lag` clocks after the last."""
        for index in range(FRAME_SAMPLES):
            last = index == FRAME_SAMPLES - 1
            sample = (self.rng.randint(-32768, 32767), first_ns + 62_500 * index)
            await self.step(sample=sample, hop=last and lag == 0, **levels)
            for _ in range(gap):
                await self.step(**levels)
        for wait in range(1, max(lag, 1) + 1):
            await self.step(hop=wait == lag, **levels)


async def random_traffic(dut, seed, *, skip):
    """Samples from every clock to one in ten, hops early and late, a slow sink, a full ring, losses in the ring."""
    bench = Harness(dut, seed, skip=skip)
    await bench.start()
    rng = bench.rng
    total, untold_loss, kept_seen = 0, False, 0
    for idle, pressure, full in [(0.0, 0.0, 0.0), (0.5, 0.5, 0.1), (0.9, 0.1, 0.3), (0.2, 0.9, 0.0), (0.0, 0.3, 0.5)]:
        target = total + 16 * FRAME_SAMPLES
        lead, lag = rng.randint(0, 6), rng.randint(0, 40)
        while total < target or bench.hops_given < total // FRAME_SAMPLES:
            if rng.random() < 0.02:
                bench.random_levels()
            if rng.random() < 0.05:
                dut.ring_free.value = int(rng.random() >= full)
            sample = None
            if total < target and rng.random() >= idle:
                ns = rng.getrandbits(rng.choice([10, 33, 64]))
                sample = (rng.randint(-32768, 32767), ns)
            # A hop's result comes up to `lead` samples before its frame ends, or up to `lag` clocks after.
            hop = False
            if total + lead >= (bench.hops_given + 1) * FRAME_SAMPLES:
                lag -= 1
                hop = lag < 0
                if hop:
                    lead, lag = rng.randint(0, 6), rng.randint(0, 40)
            untold_loss |= len(bench.received) > kept_seen and rng.random() < 0.2
            kept_seen = len(bench.received)
            frame_lost = untold_loss and len(bench.received) == len(bench.expected) and rng.random() < 0.2
            untold_loss &= not frame_lost
            await bench.step(
                sample=sample,
                hop=hop,
                ready=rng.random() >= pressure,
                clipped=rng.random() < 0.003,
                frame_lost=frame_lost,
            )
            total += sample is not None
    await bench.finish()
    assert bench.overruns == 0
    dropped = bench.golden.frames_lost
    assert len(bench.received) > 20 and dropped > 5
    assert max(bench.latencies) <= BUDGET
    assert (bench.clocks < bench.cycle) == skip


@cocotb.test()
async def random_frames_every_clock(dut):
    await random_traffic(dut, 1, skip=False)


@cocotb.test()
async def random_frames_with_idle_skip(dut):
    await random_traffic(dut, 2, skip=True)


@cocotb.test()
async def latency(dut):
    bench = Harness(dut, seed=2)
    await bench.start()
    for lag in range(0, 20):
        await bench.frame(lag=lag)
        for _ in range(30):
            await bench.step()
    await bench.finish()
    worst = max(bench.latencies)
    print(f"framer: {worst} cycles from a frame's last sample and its hop's result to its first beat (budget {BUDGET})")
    assert worst <= BUDGET


@cocotb.test()
async def losses_are_told_exactly(dut):
    bench = Harness(dut, seed=3)
    await bench.start()

    def lost(frame):
        return int.from_bytes(frame[16:18], "little"), bool(frame[3] & 0x08)

    await bench.frame()
    await bench.finish()
    dut.ring_free.value = 0
    for _ in range(3):
        await bench.frame()
    dut.ring_free.value = 1
    await bench.frame()
    await bench.finish()
    # The frame that told of three losses is lost in the ring, so the next one tells of four.
    await bench.step(frame_lost=True)
    await bench.frame()
    await bench.finish()
    await bench.frame()
    await bench.finish()
    assert [lost(frame) for frame in bench.received] == [(0, False), (3, True), (4, True), (0, False)]
    assert [int.from_bytes(frame[4:8], "little") for frame in bench.received] == [0, 4, 5, 6]


@cocotb.test()
async def a_frame_goes_nowhere_while_the_one_before_is_stuck(dut):
    bench = Harness(dut, seed=4)
    await bench.start()
    await bench.frame(ready=False)
    for _ in range(5):
        await bench.frame(ready=False)
    assert int(dut.frames_lost.value) == 5
    await bench.finish()
    await bench.frame()
    await bench.finish()
    assert bench.received[1][16:18] == b"\x05\x00"


@cocotb.test()
async def a_late_hop_is_flagged_and_its_frame_still_right(dut):
    bench = Harness(dut, seed=5)
    await bench.start()
    await bench.frame(lag=-1)  # no result yet
    assert bench.overruns == 0
    await bench.frame(lag=-1)
    await bench.step()
    assert bench.overruns == 1
    await bench.step(hop=True)  # belongs to frame 0, which waits for it
    await bench.step()
    await bench.step(hop=True)  # of frame 1, which was dropped
    await bench.finish()
    await bench.frame()
    await bench.finish()
    assert [int.from_bytes(frame[4:8], "little") for frame in bench.received] == [0, 2]
    await bench.step(hop=True)
    assert bench.overruns == 1
    await bench.step(hop=True)  # two hops ahead of the samples
    assert bench.overruns == 2


@cocotb.test()
async def time_before_the_clock_began_reads_zero(dut):
    bench = Harness(dut, seed=6)
    await bench.start()
    dut.delay_ns.value = 2_458_333
    for first_ns in (0, 2_458_332, 2_458_333, 2_458_334, 2**64 - 64 * 62_500):
        await bench.frame(first_ns=first_ns)
        await bench.finish()
    times = [int.from_bytes(frame[8:16], "little") for frame in bench.received]
    assert times == [0, 0, 0, 1, 2**64 - 64 * 62_500 - 2_458_333]


def test_frames_match_the_golden_model_and_losses_are_exact(simulator):
    simulate(simulator, "framer", SOURCES, __name__)


def test_golden_crc_is_that_of_header_and_payload_in_the_stated_order():
    frame = Framer().frame(range(64), 5, 2, Hop(energy=7), Levels(), kept=True)
    assert len(frame) == 160
    assert frame[:4] == b"VX\x01\x00" and frame[8:16] == (3).to_bytes(8, "little")
    # The sum runs over the payload first: the same as one run over payload and header end to end.
    assert int.from_bytes(frame[28:32], "little") == zlib.crc32(frame[32:] + frame[:28])
