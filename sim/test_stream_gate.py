"""stream_gate against its golden model, and both against what a gated stream promises."""

import random

import cocotb
from cocotb.triggers import ReadOnly, Timer

from bench import record_cycles, simulate
from golden.framer import Voice
from golden.stream_gate import BLOCK, Cut, StreamGate

DELAY = 30
BUDGET = 4  # cycles from a sample to its way out
START_NS = 5_000_000_000
FLAGS = ("frame_gated", "frame_onset", "frame_offset", "frame_speech", "frame_quiet")


class Harness:
    """Feeds samples and pulses to the design and to the golden model, one clock at a time.

    A sample's value tells its place, so that one sent twice, left out or out of order shows. `ready` is the chance that
    a sample is taken. With `skip` the design gets no clock while its `busy` is low. `cuts` are the frames that came.
    """

    def __init__(self, dut, seed=0, *, ready=1.0, skip=True, **settings):
        self.dut, self.ready, self.skip = dut, ready, skip
        self.rng = random.Random(seed)
        self.history = int(dut.HISTORY.value)
        self.golden = StreamGate(delay=DELAY, history=self.history, **settings)
        self.count = 0
        self.expected, self.cuts = [], []
        self.closing_taken = True  # the sink takes samples that end a frame
        self.frame = None  # (first, stamp, values) of the frame that is coming
        self.stalled = None
        self.cycle = self.clocks = 0
        self.given = self.seen = 0

    async def start(self):
        dut = self.dut
        for port in ("clk", "s_axis_tdata", "s_axis_tuser", "s_axis_tvalid", "onset_pulse", "onset_blocks"):
            getattr(dut, port).value = 0
        for port in ("offset_pulse", "hop_valid", "m_axis_tready"):
            getattr(dut, port).value = 0
        self._settings()
        dut.rst.value = 1
        for _ in range(3):
            await self._clock()
        dut.rst.value = 0

    def set(self, **settings):
        """Write registers."""
        for name, value in settings.items():
            setattr(self.golden, name, value)
        self._settings()

    def _settings(self):
        for name in ("gated", "preroll", "min_onset"):
            getattr(self.dut, name).value = int(getattr(self.golden, name))

    async def _clock(self):
        await Timer(5, "ns")
        self.dut.clk.value = 1
        await Timer(5, "ns")
        self.dut.clk.value = 0

    async def step(self, *, sample=False, onset=0, offset=False, hop=False):
        """One clock; in the golden model a sample comes before a pulse, and a hop's result before an onset."""
        dut = self.dut
        dut.s_axis_tvalid.value = int(sample)
        if sample:
            value, ns = self.value(self.count), self.stamp(self.count)
            dut.s_axis_tdata.value, dut.s_axis_tuser.value = value & 0xFFFF, ns
            self.count += 1
            self.given = self.cycle
            self.expected += self.golden.sample(value, ns)
        dut.hop_valid.value, dut.offset_pulse.value, dut.onset_pulse.value = int(hop), int(offset), int(onset > 0)
        if hop:
            self.golden.hop()
        if offset:
            self.golden.offset()
        if onset:
            dut.onset_blocks.value = onset
            self.expected += self.golden.onset(onset)
        await ReadOnly()
        assert int(dut.s_axis_tready.value), "samples never wait"
        closing = int(dut.m_axis_tvalid.value) and int(dut.m_axis_tlast.value)
        ready = self.rng.random() < self.ready and (self.closing_taken or not closing)
        await Timer(1, "ns")
        dut.m_axis_tready.value = int(ready)
        await ReadOnly()
        self._watch(ready)
        busy = bool(int(dut.busy.value))
        await Timer(1, "ns")
        self.cycle += 1
        if busy or not self.skip:
            self.clocks += 1
            await self._clock()
        return busy

    @staticmethod
    def value(index):
        """Of a sample: all different in any 65,536, and no run of zeros."""
        return (index * 40503 + 12345) % 65536 - 32768

    @staticmethod
    def stamp(index):
        """Of a sample, ns. Its clock is 20 ppm fast, so only the block's first sample is exact."""
        return START_NS + index * 62_500 + index * 62_500 // 50_000

    def _watch(self, ready):
        dut = self.dut
        if not int(dut.m_axis_tvalid.value):
            assert self.stalled is None, "an offered sample was taken back"
            return
        keep, last = int(dut.m_axis_tkeep.value), int(dut.m_axis_tlast.value)
        data = dut.m_axis_tdata.value.to_signed() if keep else None
        beat = (data, int(dut.m_axis_tuser.value), keep, last, *(int(getattr(dut, flag).value) for flag in FLAGS))
        assert self.stalled in (None, beat), "an offered sample changed"
        if self.stalled is None:
            self.seen = self.cycle
        self.stalled = None if ready else beat
        if not ready:
            return
        if self.frame is None:
            self.frame = (beat[1], [])
        assert keep or (last and not self.frame[1]), "only an empty frame has no sample"
        if keep:
            self.frame[1].append(data)
        if last:
            self._take(beat[4:])

    def _take(self, flags):
        gated, onset, offset, speech, quiet = flags
        assert not (speech and quiet) or quiet
        voice = Voice(bool(onset), bool(offset), False if quiet else True if speech else None) if gated else None
        first_ns, pcm = self.frame
        first = round((first_ns - START_NS) / (62_500 * 1.00002))
        self.cuts.append(Cut(first, first_ns, tuple(pcm), int(self.dut.hops_due.value), voice))
        self.frame = None

    async def settle(self, limit=40_000):
        """Clock until nothing happens any more."""
        for _ in range(limit):
            if not await self.step() and not (self.stalled and self.closing_taken):
                return
        raise AssertionError("the gate does not come to rest")

    async def feed(self, count):
        """Samples, each after the last has had its effect, with the hop's result at the end of each hop."""
        for _ in range(count):
            await self.step(sample=True)
            await self.settle()
            if self.count % 64 == 0:
                await self.step(hop=True)
                await self.settle()

    async def to_block_end(self, blocks=0):
        """Feed to the end of a block, and `blocks` blocks more."""
        await self.feed(-self.count % BLOCK + BLOCK * blocks)

    async def onset(self, blocks):
        await self.step(onset=blocks)
        await self.settle()

    async def offset(self):
        await self.step(offset=True)
        await self.settle()

    def check(self):
        """All that came is what the golden model sent; returns the frames since the last check."""
        assert [strip(cut) for cut in self.cuts] == [strip(cut) for cut in self.expected]
        cuts = self.cuts
        for before, after in zip(cuts, cuts[1:], strict=False):
            assert after.first >= before.first + len(before.pcm), "time goes back"
        for cut in cuts:
            values = [self.value(index) for index in range(cut.first, cut.first + len(cut.pcm))]
            assert list(cut.pcm) == values, "not the samples that the time says"
        self.cuts, self.expected = [], []
        return cuts


def strip(cut, *, hops=False):
    """What must be the same however fast the clock is: all but the hops, of which a slow sink may see more."""
    return (cut.first, cut.first_ns, cut.pcm, cut.voice, cut.hops if hops else None)


def shape(cuts):
    """(place of the first sample, samples, onset, offset) of each frame."""
    return [(cut.first, len(cut.pcm), cut.voice.onset, cut.voice.offset) for cut in cuts]


# ---- continuous ----------------------------------------------------------------------------------------------------


@cocotb.test()
async def continuous_frames_are_those_of_the_grid_whatever_the_voice_does(dut):
    bench = Harness(dut, 1, ready=0.8)
    await bench.start()
    for _ in range(40):
        await bench.feed(bench.rng.randrange(1, 60))
        if bench.rng.random() < 0.5:
            await bench.onset(bench.rng.randrange(1, 64))
            await bench.feed(16)
            await bench.offset()
    cuts = bench.check()
    assert [cut.first for cut in cuts] == [64 * n for n in range(bench.count // 64)]
    assert all(len(cut.pcm) == 64 and cut.voice is None for cut in cuts)
    assert [cut.first_ns for cut in cuts] == [bench.stamp(cut.first) for cut in cuts]


@cocotb.test()
async def a_sample_each_clock_passes_without_a_gap(dut):
    bench = Harness(dut, 2, skip=False)
    await bench.start()
    for _ in range(64 * 10):
        await bench.step(sample=True)
    await bench.settle()
    assert len(bench.check()) == 10
    await bench.feed(1)
    record_cycles("stream_gate", bench.seen - bench.given, BUDGET)
    assert 0 < bench.seen - bench.given <= BUDGET


# ---- an onset, an offset -------------------------------------------------------------------------------------------


@cocotb.test()
async def the_payload_starts_at_the_onset_less_the_preroll_and_ends_where_the_offset_was_decided(dut):
    """Onsets at every place of a frame of the grid; sample n of voice activity is sample n + DELAY here."""
    bench = Harness(dut, 3, ready=0.9, gated=True, min_onset=8)
    await bench.start()
    certain = 0
    for preroll in (0, 128, 256, 77):
        bench.set(preroll=preroll)
        for blocks in (1, 2, 5, 6, 8):
            await bench.to_block_end(40)  # silence
            bench.check()
            onset_at = bench.count - BLOCK * blocks + DELAY
            await bench.onset(blocks)
            await bench.to_block_end(9)
            end = bench.count + DELAY
            await bench.offset()
            await bench.to_block_end(3)
            cuts = bench.check()
            start = onset_at - preroll
            frames, rest = divmod(end - start, 64)
            sizes = [64] * frames + [rest] * (rest > 0)
            told = (onset_at - start) // 64  # the frame that holds the onset's first sample
            assert shape(cuts) == [
                (start + 64 * n, size, n == told, n == len(sizes) - 1) for n, size in enumerate(sizes)
            ]
            # What lies before the onset is no speech; what comes before the next hop's result is.
            assert [cut.voice.speech for cut in cuts[:told]] == [False] * told
            if cuts[told].first + 64 <= onset_at + BLOCK * blocks - DELAY:
                assert cuts[told].voice.speech is True
                certain += 1
    assert certain > 3


@cocotb.test()
async def the_frame_in_hand_goes_on_while_there_is_speech(dut):
    bench = Harness(dut, 4, gated=True, preroll=0)
    await bench.start()
    await bench.to_block_end(60)
    bench.check()
    await bench.onset(3)
    await bench.feed(64 * 20)
    cuts = bench.check()
    assert all(len(cut.pcm) == 64 for cut in cuts) and len(cuts) == 20
    assert [cut.voice.onset for cut in cuts] == [True] + [False] * 19
    assert {cut.voice.speech for cut in cuts[2:]} == {None}, "the hop says whether it is speech"


@cocotb.test()
async def an_onset_right_after_an_offset_neither_repeats_nor_skips_a_sample(dut):
    bench = Harness(dut, 5, ready=0.7, gated=True, preroll=256)
    await bench.start()
    await bench.to_block_end(60)
    await bench.onset(2)
    await bench.to_block_end(10)
    for later in (1, 2, 3, 5, 16):
        bench.check()
        end = bench.count + DELAY
        await bench.offset()
        await bench.to_block_end(later)
        await bench.onset(1)
        await bench.to_block_end(10)
        cuts = bench.check()
        (closed,) = [n for n, cut in enumerate(cuts) if cut.voice.offset]
        assert cuts[closed].first + len(cuts[closed].pcm) == end
        assert cuts[closed + 1].first == end, "what was not sent is the pre-roll, and no more of it is there"
        assert [cut.voice.onset for cut in cuts].count(True) == 1


@cocotb.test()
async def an_onset_at_the_streams_start_has_the_samples_that_there_are(dut):
    for blocks in (1, 3):
        bench = Harness(dut, 6, gated=True, preroll=256)
        await bench.start()
        await bench.to_block_end()
        await bench.feed(BLOCK * blocks)
        await bench.onset(blocks)
        await bench.feed(64 * 3)
        alive, *cuts = bench.check()
        assert alive.first == 0 and alive.pcm == (), "at once after reset"
        assert [cut.first for cut in cuts] == [0, 64, 128][: len(cuts)] and len(cuts) >= 3
        assert cuts[0].voice.onset, "the first sample of speech is in the first frame"


@cocotb.test()
async def a_long_onset_is_sent_from_its_start_as_far_as_the_history_reaches(dut):
    bench = Harness(dut, 7, gated=True, min_onset=63)
    await bench.start()
    for preroll in (0, 128, 256):
        bench.set(preroll=preroll)
        await bench.to_block_end(150)
        bench.check()
        asked = 63 * BLOCK - DELAY + preroll
        block_end = bench.count
        await bench.onset(63)
        await bench.to_block_end(2)
        await bench.offset()
        await bench.to_block_end(3)
        cuts = bench.check()
        assert cuts[0].first == block_end - min(asked, bench.history - 64)
        assert [cut.voice.onset for cut in cuts].count(True) == 1
        if asked > bench.history - 64 + preroll:
            assert cuts[0].voice.onset, "its start is forgotten: the first frame tells of it"


@cocotb.test()
async def a_pulse_some_cycles_or_samples_off_means_the_same_block(dut):
    shapes = set()
    for early in (-7, -3, -1, 0, 1, 4, 7):
        bench = Harness(dut, 8, gated=True, preroll=100)
        await bench.start()
        await bench.feed(64 * 12)
        await bench.feed(BLOCK - early)
        await bench.onset(4)
        await bench.feed(BLOCK * 6)
        await bench.offset()
        await bench.feed(BLOCK * 6)
        shapes.add(tuple(shape(bench.check())))
    assert len(shapes) == 1
    # With the sample itself, too.
    bench = Harness(dut, 8, gated=True, preroll=100, ready=0.3)
    await bench.start()
    await bench.feed(64 * 12 + BLOCK - 1)
    await bench.step(sample=True, onset=4)
    await bench.settle()
    await bench.feed(BLOCK * 6 - 1)
    await bench.step(sample=True, offset=True)
    await bench.settle()
    await bench.feed(BLOCK * 6)
    assert tuple(shape(bench.check())) in shapes


# ---- silence -------------------------------------------------------------------------------------------------------


@cocotb.test()
async def silence_sends_an_empty_frame_each_256_ms(dut):
    bench = Harness(dut, 9, gated=True)
    await bench.start()
    await bench.feed(3 * 4096 + 100)
    cuts = bench.check()
    assert [len(cut.pcm) for cut in cuts] == [0, 0, 0, 0]
    assert [b.first - a.first for a, b in zip(cuts[1:], cuts[2:], strict=False)] == [4096, 4096]
    assert all(cut.voice == Voice(speech=False) for cut in cuts)


@cocotb.test()
async def an_empty_frame_promises_that_nothing_older_will_come_and_costs_no_preroll(dut):
    """The first block of an onset may end at any time around a keep-alive frame."""
    bench = Harness(dut, 10, gated=True)
    await bench.start()
    for min_onset, preroll in ((2, 128), (1, 0), (20, 256), (0, 50)):
        blocks = max(min_onset, 1)
        bench.set(min_onset=min_onset, preroll=preroll)
        for until in (1, 2, blocks, blocks + 1):
            keep_alive_at = (bench.count // 4096 + 1) * 4096
            await bench.feed(keep_alive_at - bench.count)
            bench.check()
            await bench.feed(BLOCK * until)
            onset_at = bench.count - BLOCK * blocks + DELAY
            await bench.onset(blocks)
            await bench.to_block_end(6)
            await bench.offset()
            await bench.to_block_end(6)
            alive, *cuts = bench.check()  # which checks that time does not go back
            assert alive.pcm == ()
            assert cuts[0].first == onset_at - preroll


# ---- the mode ------------------------------------------------------------------------------------------------------


@cocotb.test()
async def the_grid_is_left_at_a_frames_end_and_speech_goes_on(dut):
    bench = Harness(dut, 11)
    await bench.start()
    await bench.to_block_end(9)
    await bench.onset(2)
    await bench.feed(20)
    bench.set(gated=True)
    await bench.feed(64 * 4)
    await bench.to_block_end()
    end = bench.count + DELAY
    await bench.offset()
    await bench.feed(64 * 3)
    cuts = bench.check()
    grid = [cut for cut in cuts if cut.voice is None]
    gated = [cut for cut in cuts if cut.voice is not None]
    assert [cut.first for cut in grid] == [64 * n for n in range(len(grid))] and len(grid) == 3
    assert gated[0].first == 64 * len(grid), "no sample between"
    assert not any(cut.voice.onset for cut in gated), "a frame of the grid told of it"
    assert gated[-1].voice.offset and gated[-1].first + len(gated[-1].pcm) == end


@cocotb.test()
async def the_grid_is_left_for_silence_at_a_frames_end(dut):
    bench = Harness(dut, 12)
    await bench.start()
    await bench.feed(100)
    bench.set(gated=True)
    await bench.feed(400)
    assert [cut.first for cut in bench.check()] == [0, 64]
    await bench.to_block_end()
    await bench.onset(1)
    await bench.to_block_end(10)
    cuts = bench.check()
    assert cuts[0].first == bench.count - 10 * BLOCK - BLOCK + DELAY - 128


@cocotb.test()
async def speech_goes_on_where_the_grid_is_joined(dut):
    bench = Harness(dut, 13, gated=True)
    await bench.start()
    for blocks in (1, 2, 3, 4, 5):
        await bench.to_block_end(40)
        await bench.onset(blocks)
        await bench.feed(100)
        bench.set(gated=False)
        await bench.feed(64 * 5)
        cuts = bench.check()
        cuts = cuts[[len(cut.pcm) > 0 for cut in cuts].index(True) :]
        assert all(b.first == a.first + len(a.pcm) for a, b in zip(cuts, cuts[1:], strict=False)), (
            "no sample is left out"
        )
        first = [cut.voice is None for cut in cuts].index(True)
        assert cuts[first].first % 64 == 0
        assert all(len(cut.pcm) == 64 for n, cut in enumerate(cuts) if n != first - 1)
        assert [cut.voice.onset for cut in cuts[:first]].count(True) == 1
        await bench.to_block_end()
        await bench.offset()
        bench.set(gated=True)
        await bench.feed(128)
        bench.check()


@cocotb.test()
async def silence_gives_way_to_the_next_frame_of_the_grid(dut):
    bench = Harness(dut, 14, gated=True)
    await bench.start()
    await bench.feed(64 * 20 + 30)
    bench.check()
    bench.set(gated=False)
    await bench.feed(64 * 3)
    assert [cut.first for cut in bench.check()] == [64 * 21, 64 * 22]


@cocotb.test()
async def the_mode_may_change_at_any_time(dut):
    """Also between a pulse and what it does: never a sample twice or out of place, and no onset untold for long."""
    bench = Harness(dut, 15, ready=0.6, gated=True)
    await bench.start()
    rng = bench.rng
    speech = False
    for _ in range(150):
        if rng.random() < 0.4:
            bench.set(gated=rng.random() < 0.5)
        await bench.feed(rng.randrange(0, 50))
        if rng.random() < 0.4:
            bench.set(gated=rng.random() < 0.5)
        if rng.random() < 0.5:
            await bench.to_block_end()
            if speech:
                await bench.offset()
            else:
                await bench.onset(rng.choice([1, 2, 3, 12, 40]))
            speech = not speech
    bench.check()


# ---- all together --------------------------------------------------------------------------------------------------


async def soak(dut, seed, *, ready, skip):
    bench = Harness(dut, seed, ready=ready, skip=skip, gated=True)
    await bench.start()
    rng = bench.rng
    onsets = 0
    sent = 0
    while onsets < 14:
        if rng.random() < 0.4:
            bench.set(preroll=rng.choice([0, 1, 128, 255, 256]), min_onset=rng.choice([0, 1, 2, 8, 63]))
        await bench.to_block_end(rng.choice([0, 1, 2, 9, 30, 90]))
        await bench.onset(rng.choice([1, 2, 2, 3, 9, 30, 63]))
        onsets += 1
        await bench.to_block_end(rng.choice([1, 1, 2, 5, 33, 60]))
        await bench.offset()
        await bench.to_block_end(rng.choice([0, 1, 1, 2, 3, 40]))
        cuts = bench.check()
        sent += sum(len(cut.pcm) for cut in cuts)
    await bench.to_block_end(4)
    bench.check()
    assert sent > 3000
    assert (bench.clocks < bench.cycle) == skip


@cocotb.test()
async def random_speech_to_a_ready_sink(dut):
    await soak(dut, 20, ready=1.0, skip=False)


@cocotb.test()
async def random_speech_to_a_slow_sink_with_idle_skip(dut):
    await soak(dut, 21, ready=0.4, skip=True)


@cocotb.test()
async def samples_that_come_while_an_onset_is_sent_follow_it(dut):
    """A sample every five clocks and a sink that takes two in three: the replay catches up with them."""
    bench = Harness(dut, 22, ready=0.66, gated=True)
    await bench.start()
    for blocks in (2, 9, 50):
        await bench.to_block_end(90)
        bench.check()
        await bench.step(onset=blocks)
        for _ in range(640):
            await bench.step(sample=True)
            for _ in range(4):
                await bench.step()
        await bench.settle()
        await bench.to_block_end()
        await bench.offset()
        await bench.to_block_end(3)
        cuts = bench.check()
        assert all(b.first == a.first + 64 for a, b in zip(cuts, cuts[1:], strict=False))


@cocotb.test()
async def a_sink_that_is_stuck_is_waited_for_until_the_history_is_needed(dut):
    bench = Harness(dut, 23, gated=True)
    await bench.start()
    await bench.to_block_end(90)
    bench.check()
    await bench.onset(2)
    await bench.feed(64 - bench.count % 64)
    bench.check()
    bench.closing_taken = False
    await bench.feed(64)
    waited = 0
    while int(dut.patient.value) and waited < bench.history:
        waited += 1
        await bench.feed(1)
    assert bench.history - 64 - 100 < waited < bench.history - 32
    # A framer that does not wait any more drops frames until there is room again.
    bench.closing_taken = True
    await bench.settle()
    await bench.feed(64)
    await bench.to_block_end()
    await bench.offset()
    await bench.to_block_end(3)
    cuts = bench.check()
    assert all(b.first == a.first + 64 for a, b in zip(cuts, cuts[1:], strict=False))


def test_frames_match_the_golden_model(simulator):
    simulate(simulator, "stream_gate", ["stream_gate.sv"], __name__, parameters={"HISTORY": 1024})


def test_a_longer_history_forgets_no_onset_that_the_registers_allow():
    simulate("verilator", "stream_gate", ["stream_gate.sv"], __name__, parameters={"HISTORY": 2048})


# ---- the golden model alone ----------------------------------------------------------------------------------------


def test_golden_gated_stream_holds_every_sample_of_speech_once():
    gate = StreamGate(gated=True, preroll=32)
    cuts, count = [], 0

    def feed(samples):
        nonlocal count
        for _ in range(samples):
            cuts.extend(gate.sample(count, count * 62_500))
            count += 1

    feed(320)
    cuts += gate.onset(2)  # began at 288, here at 318
    feed(160)
    gate.offset()  # at 480, here at 510
    feed(100)
    assert [value for cut in cuts for value in cut.pcm] == list(range(318 - 32, 510))
    assert [cut.voice.offset for cut in cuts] == [False] * (len(cuts) - 1) + [True]
