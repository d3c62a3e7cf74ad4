"""framer against its golden model, byte for byte, whatever the order and the pace of samples, hops and beats."""

import random
import zlib

import cocotb
from cocotb.triggers import ReadOnly, Timer

from bench import record_cycles, simulate
from golden.framer import FRAME_SAMPLES, Framer, Hop, Levels, Voice

SOURCES = ["crc32.sv", "framer.sv"]
SEQUENCE_RESET = 2**32 - 3  # for the wrap
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


def random_voice(rng):
    return Voice(rng.random() < 0.3, rng.random() < 0.3, rng.choice([None, False, True]))


class Harness:
    """Drives one clock at a time and tells the golden model what happened in it.

    `expected` are the golden frames that must come out, as (bytes, urgent); `received` are those that came. With
    `skip` the design gets no clock while its `busy` is low. `hops_due` counts the hops that have ended: one a frame of
    64 samples unless the caller says otherwise.
    """

    def __init__(self, dut, seed, *, skip=False):
        self.dut, self.skip = dut, skip
        self.rng = random.Random(seed)
        self.golden = Framer(int(dut.SEQUENCE_RESET.value))
        self.hops = [random_hop(self.rng) for _ in range(300)]
        self.hops_given = 0
        self.hops_due = None
        self.cycle = self.clocks = 0
        self.total = 0  # samples that were taken
        self.samples = []  # of the frame being filled, as (value, ns)
        self.delay_ns = 0  # at its first sample
        self.closing = None  # a frame that ended, and the cycle in which it is closed
        self.clipped = False
        self.expected, self.received, self.beats = [], [], []
        self.stalled = None  # a beat that was offered and not taken
        self.overruns = 0
        self.hop_cycles = {0: 0}  # number of results that have come -> cycle
        self.ends = []  # (cycle of the end, hops owed, samples) of each frame that is sent
        self.latencies = []  # of whole frames
        self.short_latencies = []  # of the others, less the cycles in which they are filled up

    async def start(self):
        for port in (
            *("clk", "s_axis_tdata", "s_axis_tuser", "s_axis_tvalid", "s_axis_tlast", "delay_ns", "patient"),
            *("frame_gated", "frame_onset", "frame_offset", "frame_speech", "frame_quiet", "hops_due", "hop_valid"),
            *("hop_speech", "hop_onset", "hop_offset", "hop_energy", "hop_floor", "hop_zc", "hop_score", "clipped"),
            *("stage_mask", "stream", "ring_idle", "frame_lost", "m_axis_tready", *FLAGS),
        ):
            getattr(self.dut, port).value = 0
        self.dut.ring_free.value = self.dut.s_axis_tkeep.value = 1
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
        hop, dut = self.hops[self.hops_given % 300], self.dut
        dut.hop_speech.value, dut.hop_onset.value, dut.hop_offset.value = hop.speech, hop.onset, hop.offset
        dut.hop_energy.value, dut.hop_floor.value = hop.energy, hop.floor
        dut.hop_zc.value, dut.hop_score.value = hop.zero_crossings, hop.score
        self.hops_given += 1
        self.hop_cycles[self.hops_given] = self.cycle

    def _offer(self, sample, last, voice, patient):
        """Drive a sample, ("empty", ns) for none that ends a frame; `voice` is that of a gated frame that ends here."""
        dut = self.dut
        keep = sample[0] != "empty"
        dut.s_axis_tdata.value = sample[0] & 0xFFFF if keep else self.rng.getrandbits(16)
        dut.s_axis_tuser.value = sample[1]
        dut.s_axis_tkeep.value, dut.s_axis_tlast.value = int(keep), int(last or not keep)
        dut.patient.value = int(patient)
        dut.frame_gated.value = int(voice is not None)
        if voice is not None:
            dut.frame_onset.value, dut.frame_offset.value = voice.onset, voice.offset
            quiet = voice.speech is False
            dut.frame_quiet.value = quiet
            dut.frame_speech.value = self.rng.random() < 0.5 if quiet else voice.speech is True

    async def step(
        self,
        *,
        sample=None,
        last=False,
        voice=None,
        patient=False,
        hop=False,
        ready=True,
        clipped=False,
        frame_lost=False,
    ):
        """One clock; `sample` is (int16 or "empty", ns) or None. True if it was taken.

        The level inputs are driven by the caller, before.
        """
        dut = self.dut
        dut.s_axis_tvalid.value = int(sample is not None)
        if sample is not None:
            self._offer(sample, last, voice, patient)
        due = (self.total + (sample is not None)) // FRAME_SAMPLES if self.hops_due is None else self.hops_due
        dut.hops_due.value = due % 256
        if hop:
            self._give_hop()
        dut.hop_valid.value = int(hop)
        dut.m_axis_tready.value = int(ready)
        dut.clipped.value = int(clipped)
        dut.frame_lost.value = int(frame_lost)
        await ReadOnly()
        taken = sample is not None and bool(int(dut.s_axis_tready.value))
        if sample is not None:
            ends = last or sample[0] == "empty" or len(self.samples) == FRAME_SAMPLES - 1
            assert taken == self._may_take(ends, patient)
        self.overruns += int(dut.hop_overrun.value)
        if frame_lost:
            self.golden.lost_in_the_ring()
        self.clipped |= clipped
        if self.closing and self.closing[0] == self.cycle:
            self._close()
        if taken:
            self._take_sample(sample, ends, voice, due)
        self._watch_output(ready)
        run = not self.skip or int(dut.busy.value)
        await Timer(1, "ns")
        self.cycle += 1
        if run:
            self.clocks += 1
            await self._clock()
        return taken

    def _may_take(self, ends, patient):
        """The ADC never stalls: only what comes from a memory waits, and only where there is something to wait for."""
        if self.closing and self.closing[0] > self.cycle:
            return False  # silence fills the frame up
        at_rest = not self.closing and len(self.received) == len(self.expected)
        ring = int(self.dut.ring_free.value) or int(self.dut.ring_idle.value)
        return not patient or not ends or bool(at_rest and ring)

    def _take_sample(self, sample, ends, voice, due):
        if not self.samples:
            self.delay_ns = int(self.dut.delay_ns.value)
        self.samples.append(sample)
        self.total += sample[0] != "empty"
        if ends:
            pcm = [value for value, _ in self.samples if value != "empty"]
            filled = FRAME_SAMPLES - len(pcm)
            self.closing = (self.cycle + 1 + filled, pcm, self.samples[0][1], self.delay_ns, voice, due, self.cycle)
            self.samples = []

    def _close(self):
        dut = self.dut
        _, pcm, first_ns, delay_ns, voice, due, ended = self.closing
        levels = Levels(
            clipped=self.clipped,
            stage_mask=int(dut.stage_mask.value),
            stream=int(dut.stream.value),
            **{flag: bool(int(getattr(dut, flag).value)) for flag in FLAGS},
        )
        kept = bool(int(dut.ring_free.value)) and len(self.received) == len(self.expected)
        hop = self.hops[(due - 1) % 300] if due else Hop()
        frame = self.golden.frame(pcm, first_ns, delay_ns, hop, levels, kept=kept, voice=voice)
        if kept:
            told = voice or hop
            self.expected.append((frame, told.onset or told.offset))
            self.ends.append((ended, due, len(pcm)))
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
            ended, due, samples = self.ends[len(self.received)]
            filled = FRAME_SAMPLES - samples
            latency = self.cycle - max(ended + filled, self.hop_cycles[due])
            (self.short_latencies if filled else self.latencies).append(latency)
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
        for _ in range(110):
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
    record_cycles("framer", worst, BUDGET)
    assert worst <= BUDGET


def lost(frame):
    """Field and flag."""
    return int.from_bytes(frame[16:18], "little"), bool(frame[3] & 0x08)


def sequence(dut, frame):
    """Counted from the first frame, modulo 2^32."""
    return (int.from_bytes(frame[4:8], "little") - int(dut.SEQUENCE_RESET.value)) % 2**32


@cocotb.test()
async def losses_are_told_exactly(dut):
    bench = Harness(dut, seed=3)
    await bench.start()
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
    assert [sequence(dut, frame) for frame in bench.received] == [0, 4, 5, 6]


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
    assert [sequence(dut, frame) for frame in bench.received] == [0, 2]
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


@cocotb.test()
async def numbers_wrap_at_two_to_the_thirty_second(dut):
    bench = Harness(dut, seed=7)
    await bench.start()
    for _ in range(6):
        await bench.frame()
        await bench.finish()
    first = int(dut.SEQUENCE_RESET.value)
    numbers = [int.from_bytes(frame[4:8], "little") for frame in bench.received]
    assert numbers == [(first + n) % 2**32 for n in range(6)]
    if first:
        assert 0xFFFFFFFF in numbers and 0 in numbers


# ---- gated ---------------------------------------------------------------------------------------------------------


@cocotb.test()
async def a_short_frame_is_filled_up_with_silence_and_says_how_long_it_is(dut):
    bench = Harness(dut, seed=8)
    await bench.start()
    bench.hops_due = 0
    for length in (1, 2, 7, 8, 9, 33, 63, 64, 0):
        for index in range(length):
            ends = index == length - 1
            await bench.step(sample=(-1 - index, 10**9 + index), last=ends, voice=Voice(offset=ends))
        if not length:
            await bench.step(sample=("empty", 77), voice=Voice(speech=False))
        await bench.finish()
        frame = bench.received[-1]
        assert int.from_bytes(frame[24:26], "little") == length
        assert frame[32:] == b"".join((-1 - n).to_bytes(2, "little", signed=True) for n in range(length)).ljust(
            128, b"\0"
        )
        assert frame[3] & 0x07 == (0x04 if length else 0)
        assert int.from_bytes(frame[8:16], "little") == (10**9 if length else 77)
    # And one cycle for each sample that it lacks, which these latencies leave out.
    record_cycles("framer: short frame", max(bench.short_latencies), BUDGET)
    assert max(bench.short_latencies) <= BUDGET


@cocotb.test()
async def speech_of_a_gated_frame_is_that_of_the_hop_unless_it_is_known(dut):
    bench = Harness(dut, seed=9)
    await bench.start()
    flags = []
    for speech_in_hop in (False, True):
        for known in (None, False, True):
            bench.hops[bench.hops_given] = Hop(speech=speech_in_hop, onset=True, offset=True)
            bench.hops_due = bench.hops_given + 1
            await bench.step(hop=True)
            await bench.step(sample=(5, 10**9), last=True, voice=Voice(speech=known))
            await bench.finish()
            flags.append(bench.received[-1][3] & 0x07)
    # The onset and the offset of the hop are told by the frames that hold them, and not by these.
    assert flags == [0, 0, 1, 1, 0, 1]


@cocotb.test()
async def a_patient_frame_waits_for_the_ring_but_not_for_a_full_one(dut):
    bench = Harness(dut, seed=10)
    await bench.start()
    bench.hops_due = 0

    async def short(**levels):
        """One sample that ends a frame; clocks that it waited."""
        for waited in range(200):
            if await bench.step(sample=(waited, 10**9), last=True, patient=True, voice=Voice(), **levels):
                return waited
        raise AssertionError("the frame is never taken")

    assert await short() == 0
    assert await short() == 63 + 1 + 9 + 10 + 1  # filled up, closed, header, beats, the last of them taken
    await bench.finish()
    # The ring works on the frame before: worth waiting for.
    dut.ring_free.value = 0
    for _ in range(30):
        assert not await bench.step(sample=(1, 10**9), last=True, patient=True, voice=Voice())
    assert not int(dut.busy.value), "waiting takes no clocks"
    dut.ring_free.value = 1
    assert await short() == 0
    await bench.finish()
    # It is full: nothing to wait for, the frame is dropped and counted.
    dut.ring_free.value, dut.ring_idle.value = 0, 1
    assert await short() == 0
    await bench.finish()
    assert int(dut.frames_lost.value) == 1
    # Who is not patient drops frames while the ring works.
    dut.ring_idle.value = 0
    assert await bench.step(sample=(1, 10**9), last=True, voice=Voice())
    await bench.finish()
    assert int(dut.frames_lost.value) == 2
    dut.ring_free.value = 1
    await short()
    await bench.finish()
    assert lost(bench.received[-1]) == (2, True)


@cocotb.test()
async def random_frames_of_any_length(dut):
    """Gated and not, patient and not, empty ones, hops late, a slow sink, a ring that works or is full."""
    bench = Harness(dut, 11, skip=True)
    await bench.start()
    rng = bench.rng
    bench.hops_due = 0
    hop_in = 0
    for _ in range(120):
        gated = rng.random() < 0.8
        length = rng.choice([0, 1, 5, 63, 64, rng.randrange(65)]) if gated else FRAME_SAMPLES
        voice = random_voice(rng) if gated else None
        patient = gated and rng.random() < 0.7
        pressure, idle = rng.choice([0.0, 0.3, 0.9]), rng.choice([0.0, 0.0, 0.5])
        sent = 0
        while sent < max(length, 1):
            if rng.random() < 0.02:
                bench.random_levels()
            if rng.random() < 0.1:
                dut.ring_free.value, dut.ring_idle.value = rng.choice([(1, 0), (1, 1), (0, 0), (0, 1)])
            # A hop ends well before a frame does; its result may come after it.
            at_rest = bench.closing is None and len(bench.received) == len(bench.expected)
            if sent == 0 and at_rest and bench.hops_given == bench.hops_due and rng.random() < 0.3:
                bench.hops_due += 1
                hop_in = rng.randrange(30)
            hop = bench.hops_given < bench.hops_due and hop_in == 0
            hop_in = max(0, hop_in - 1)
            sample = None
            if rng.random() >= idle:
                ns = rng.getrandbits(rng.choice([10, 33, 64]))
                sample = (rng.randint(-32768, 32767) if length else "empty", ns)
            taken = await bench.step(
                sample=sample,
                last=0 < length < FRAME_SAMPLES and sent == length - 1,
                voice=voice,
                patient=patient,
                hop=hop,
                ready=rng.random() >= pressure,
                clipped=rng.random() < 0.01,
            )
            sent += taken
    while bench.hops_given < bench.hops_due:
        await bench.step(hop=True)
    await bench.finish()
    assert bench.overruns == 0 and bench.hops_given > 10
    assert len(bench.received) > 40 and bench.golden.frames_lost > 10
    assert max(bench.latencies) <= BUDGET and max(bench.short_latencies) <= BUDGET


def test_frames_match_the_golden_model_and_losses_are_exact(simulator):
    simulate(simulator, "framer", SOURCES, __name__)


def test_frames_are_right_across_the_wrap_of_their_number(simulator):
    simulate(simulator, "framer", SOURCES, __name__, parameters={"SEQUENCE_RESET": SEQUENCE_RESET})


def test_golden_crc_is_that_of_header_and_payload_in_the_stated_order():
    frame = Framer().frame(range(64), 5, 2, Hop(energy=7), Levels(), kept=True)
    assert len(frame) == 160
    assert frame[:4] == b"VX\x01\x00" and frame[8:16] == (3).to_bytes(8, "little")
    # The sum runs over the payload first: the same as one run over payload and header end to end.
    assert int.from_bytes(frame[28:32], "little") == zlib.crc32(frame[32:] + frame[:28])
