"""test_pattern: a ramp that a host can check frame by frame, switched where frames meet; otherwise not there."""

import random

import cocotb
import numpy as np
from cocotb.triggers import ReadOnly, Timer

from bench import simulate
from golden.pattern import pattern

FRAME = 64


class Bench:
    """Drives one clock at a time; with `skip` the design gets none while its `busy` is low."""

    def __init__(self, dut, *, skip=False):
        self.dut, self.skip = dut, skip
        self.cycle = self.clocks = 0
        self.out = []  # (sample, tuser)
        self.active_after = []  # `active` in the cycle after each sample

    async def start(self):
        dut = self.dut
        for port in (dut.clk, dut.enable, dut.s_axis_tdata, dut.s_axis_tuser, dut.s_axis_tvalid, dut.m_axis_tready):
            port.value = 0
        dut.rst.value = 1
        for _ in range(3):
            await self._clock()
        dut.rst.value = 0

    async def _clock(self):
        await Timer(5, "ns")
        self.dut.clk.value = 1
        await Timer(5, "ns")
        self.dut.clk.value = 0

    async def step(self, sample=None, *, enable=0, ready=True):
        """One clock, with (int16, tuser) offered or nothing; true if it was taken."""
        dut = self.dut
        dut.enable.value, dut.m_axis_tready.value = int(enable), int(ready)
        dut.s_axis_tvalid.value = int(sample is not None)
        if sample is not None:
            dut.s_axis_tdata.value, dut.s_axis_tuser.value = sample[0] & 0xFFFF, sample[1]
        await ReadOnly()
        assert int(dut.m_axis_tvalid.value) == (sample is not None)
        assert int(dut.s_axis_tready.value) == ready
        if len(self.active_after) < len(self.out):
            self.active_after.append(bool(int(dut.active.value)))
        elif self.active_after:
            assert self.active_after[-1] == int(dut.active.value), "`active` changed without a sample"
        taken = sample is not None and ready
        if taken:
            self.out.append((dut.m_axis_tdata.value.to_signed(), int(dut.m_axis_tuser.value)))
        busy = int(dut.busy.value)
        assert busy >= taken
        await Timer(1, "ns")
        self.cycle += 1
        if busy or not self.skip:
            self.clocks += 1
            await self._clock()
        return taken


async def random_traffic(dut, seed, *, skip):
    rng = random.Random(seed)
    bench = Bench(dut, skip=skip)
    await bench.start()
    pcm = [rng.randint(-32768, 32767) for _ in range(40 * FRAME)]
    users = [rng.getrandbits(64) for _ in pcm]
    enables = []
    enable = 0
    for index, (value, user) in enumerate(zip(pcm, users, strict=True)):
        idle, stall = ((0, 0), (0.6, 0), (0, 0.6), (0.5, 0.5))[index // FRAME % 4]
        while rng.random() < idle:
            await bench.step(enable=rng.getrandbits(1))
        while True:
            enable = enable ^ (rng.random() < 0.03)
            if await bench.step((value, user), enable=enable, ready=rng.random() >= stall):
                break
        enables.append(enable)
    await bench.step()
    expected, active = pattern(pcm, enables)
    assert bench.out == list(zip(expected.tolist(), users, strict=True))
    assert bench.active_after == active.tolist()
    assert 0.1 < active.mean() < 0.9
    if skip:
        assert bench.clocks < bench.cycle


@cocotb.test()
async def random_traffic_every_clock(dut):
    await random_traffic(dut, 1, skip=False)


@cocotb.test()
async def random_traffic_with_idle_skip(dut):
    await random_traffic(dut, 2, skip=True)


@cocotb.test()
async def every_frame_says_its_own_numbers_and_wraps_after_1024_of_them(dut):
    bench = Bench(dut)
    await bench.start()
    dut.enable.value = dut.s_axis_tvalid.value = dut.m_axis_tready.value = 1
    dut.s_axis_tdata.value = 0xFFFF
    for index in range(1027 * FRAME):
        # Every sample of some frames, and the first one of the rest.
        sequence, sample = divmod(index, FRAME)
        if sample == 0 or sequence in (0, 1, 511, 512, 1023, 1024, 1026):
            await ReadOnly()
            assert int(dut.m_axis_tdata.value) == (64 * sequence + sample) % 65536
        await bench._clock()


@cocotb.test()
async def the_flag_of_a_frame_stands_in_the_cycle_in_which_it_is_closed(dut):
    """The framer closes a frame the cycle after its last sample, in which the next frame's first may come."""
    print("test_pattern: 0 cycles (budget 1)")
    bench = Bench(dut)
    await bench.start()
    closed = []
    for index in range(6 * FRAME):
        if index and index % FRAME == 0:
            closed.append(bool(int(dut.active.value)))
        # Switched on within frame 1 and off within frame 3.
        await bench.step((0, 0), enable=FRAME + 20 <= index < 3 * FRAME + 20)
    assert closed == [False, False, True, True, False]


def test_test_pattern(simulator):
    simulate(simulator, "test_pattern", ["test_pattern.sv"], __name__)


def test_golden_model_switches_at_frames_alone():
    enable = np.zeros(256, bool)
    enable[10:130] = True
    samples, active = pattern(np.full(256, 7), enable)
    assert active.tolist() == [False] * 64 + [True] * 128 + [False] * 64
    assert samples.tolist() == [7] * 64 + list(range(64, 192)) + [7] * 64
