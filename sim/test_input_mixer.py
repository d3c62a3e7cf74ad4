"""input_mixer: bit-exact against its golden model, which itself is compared with the arithmetic that it stands for."""

import random

import cocotb
import numpy as np
import pytest
from cocotb.triggers import ReadOnly, Timer
from scipy.signal import lfilter

from bench import simulate
from golden.i2s import pack
from golden.input_mixer import LEFT, MEAN, RIGHT, UNITY, InputMixer

BUDGET = 8  # cycles from a sample to its result
SPACING = 6  # clocks between samples, at least
FULL = (1 << 23) - 1


def random_samples(rng, count):
    """Words of 24 bits, left and right: all magnitudes, with the extremes and their neighbours."""
    words = rng.integers(-(1 << 23), 1 << 23, (count, 2)) >> rng.integers(0, 24, (count, 1))
    edges = np.array([FULL, FULL - 255, FULL - 256, -FULL - 1, -FULL + 254, -FULL + 255, 0, -1, 1, 127, 128])
    special = rng.random((count, 2)) < 0.2
    return np.where(special, rng.choice(edges, (count, 2)), words)


# ---- what runs in the simulator ------------------------------------------------------------------------------------


class Bench:
    """Drives one clock at a time; with `skip` the design gets none while its `busy` is low."""

    def __init__(self, dut, *, skip=False):
        self.dut, self.skip = dut, skip
        self.cycle = self.clocks = 0
        self.out = []  # (sample, clipped, cycle)
        self.last = None

    async def start(self):
        dut = self.dut
        dut.clk.value = dut.s_axis_tvalid.value = dut.s_axis_tdata.value = 0
        dut.channel.value = dut.gain.value = dut.remove_dc.value = 0
        dut.rst.value = 1
        for _ in range(3):
            await self._clock()
        dut.rst.value = 0

    async def _clock(self):
        await Timer(5, "ns")
        self.dut.clk.value = 1
        await Timer(5, "ns")
        self.dut.clk.value = 0

    async def step(self, sample=None):
        """One clock; `sample` is (left, right) or None."""
        dut = self.dut
        dut.s_axis_tvalid.value = int(sample is not None)
        if sample is not None:
            dut.s_axis_tdata.value = pack(*sample)
        await ReadOnly()
        seen = tuple(port.value for port in (dut.m_axis_tvalid, dut.m_axis_tdata, dut.clipped))
        if int(seen[0]):
            self.out.append((seen[1].to_signed(), bool(int(seen[2])), self.cycle))
        else:
            assert not int(seen[2]), "clipped without a sample"
        busy = int(dut.busy.value)
        if self.last is not None:
            assert self.last == seen, "something changed while busy was low"
        self.last = None if busy else seen
        await Timer(1, "ns")
        self.cycle += 1
        if busy or not self.skip:
            self.clocks += 1
            await self._clock()

    async def settings(self, channel, gain, remove_dc):
        self.dut.channel.value, self.dut.gain.value, self.dut.remove_dc.value = channel, gain, int(remove_dc)


async def random_traffic(dut, seed, *, skip):
    """Every setting, changed between samples; spacings from the least to long ones."""
    rng = np.random.default_rng(seed)
    bench, golden = Bench(dut, skip=skip), InputMixer()
    await bench.start()
    expected, given = [], []
    for _ in range(120):
        channel, remove_dc = int(rng.integers(0, 4)), bool(rng.integers(0, 2))
        gain = int(rng.choice([UNITY, 0, 1, 0xFFFF, int(rng.integers(0, 1 << 16))]))
        await bench.settings(channel, gain, remove_dc)
        samples = random_samples(rng, 12)
        voice, clipped = golden.mix(samples, channel=channel, gain=gain, remove_dc=remove_dc)
        expected += list(zip(voice.tolist(), clipped.tolist(), strict=True))
        for sample in samples.tolist():
            given.append(bench.cycle)
            await bench.step(sample)
            # Settings count as they were with the sample: nonsense in between has no effect.
            await bench.settings(int(rng.integers(0, 4)), int(rng.integers(0, 1 << 16)), rng.integers(0, 2))
            for _ in range(SPACING - 1 + int(rng.choice([0, 0, 3, 40]))):
                await bench.step()
            await bench.settings(channel, gain, remove_dc)
    for _ in range(10):
        await bench.step()
    assert [(sample, clip) for sample, clip, _ in bench.out] == expected
    assert sum(clip for _, clip in expected) > 100
    assert (bench.clocks < bench.cycle) == skip
    return max(out[2] - at for out, at in zip(bench.out, given, strict=True))


@cocotb.test()
async def matches_the_golden_model_every_clock(dut):
    worst = await random_traffic(dut, 1, skip=False)
    print(f"input_mixer: {worst} cycles (budget {BUDGET})")
    assert worst <= BUDGET


@cocotb.test()
async def matches_the_golden_model_with_idle_skip(dut):
    await random_traffic(dut, 2, skip=True)


@cocotb.test()
async def left_at_unity_gives_every_16_bit_sample_back(dut):
    bench, rng = Bench(dut), random.Random(3)
    await bench.start()
    await bench.settings(LEFT, UNITY, False)
    samples = [-32768, -32767, -1, 0, 1, 32766, 32767, *(rng.randint(-32768, 32767) for _ in range(300))]
    for sample in samples:
        await bench.step((sample << 8, rng.randint(-FULL, FULL)))
        for _ in range(SPACING - 1):
            await bench.step()
    for _ in range(10):
        await bench.step()
    assert [sample for sample, _, _ in bench.out] == samples
    assert [clip for _, clip, _ in bench.out] == [sample in (-32768, 32767) for sample in samples]


@cocotb.test()
async def a_reset_forgets_the_offset_and_a_sample_on_its_way(dut):
    bench = Bench(dut)
    await bench.start()
    await bench.settings(LEFT, UNITY, True)
    for _ in range(50):
        await bench.step((1 << 22, 0))
        for _ in range(SPACING - 1):
            await bench.step()
    await bench.step((1 << 22, 0))
    await bench.step()
    await bench.start()
    bench.out.clear()
    bench.last = None
    for _ in range(10):
        await bench.step()
    assert not bench.out
    await bench.settings(LEFT, UNITY, True)
    await bench.step((1000 << 8, 0))
    for _ in range(10):
        await bench.step()
    assert [sample for sample, _, _ in bench.out] == [1000]


@cocotb.test()
async def an_undriven_input_without_tvalid_leaves_no_trace(dut):
    if cocotb.SIM_NAME != "Icarus Verilog":
        return  # Verilator has no unknown values
    bench = Bench(dut)
    await bench.start()
    await bench.settings(MEAN, UNITY, True)
    dut.s_axis_tdata.value = "X" * 48
    for _ in range(10):
        await bench.step()
        assert all(port.value.is_resolvable for port in (dut.m_axis_tdata, dut.m_axis_tvalid, dut.clipped, dut.busy))
    await bench.step((500 << 8, 300 << 8))
    dut.s_axis_tdata.value = "X" * 48
    for _ in range(10):
        await bench.step()
    assert bench.out[0][:2] == (400, False)


# ---- what pytest runs ----------------------------------------------------------------------------------------------


def test_input_mixer(simulator):
    simulate(simulator, "input_mixer", ["input_mixer.sv"], __name__)


@pytest.mark.parametrize(("channel", "weights"), [(LEFT, (1, 0)), (RIGHT, (0, 1)), (MEAN, (0.5, 0.5)), (3, (0.5, 0.5))])
@pytest.mark.parametrize("gain", [UNITY, 0x0800, 0x3A7F, 0xFFFF])
def test_golden_model_is_a_rounded_and_saturated_product(channel, weights, gain):
    samples = random_samples(np.random.default_rng(4), 5000)
    voice, clipped = InputMixer().mix(samples, channel=channel, gain=gain)
    exact = samples @ np.array(weights) / 256 * gain / 4096
    assert np.abs(voice - np.clip(exact, -32768, 32767)).max() <= 0.5
    used = samples[:, np.array(weights) > 0] / 256
    full = ((used >= 32767) | (used < -32767)).any(axis=1)
    assert np.array_equal(clipped, full | (np.floor(exact + 0.5) > 32767) | (np.floor(exact + 0.5) < -32768))


def test_removal_of_the_offset_is_a_first_order_high_pass_of_3_7_hz():
    rng = np.random.default_rng(5)
    left = np.rint(rng.normal(0, 4e5, 40_000)).astype(int) + 700_000
    voice, _ = InputMixer().mix(np.stack([left, left], axis=1), gain=0x4000, remove_dc=True)
    # y = x - m with m += (x - m) / 2048: zero at 0 Hz, pole at 1 - 1/2048.
    exact = 4 * lfilter([1, -1], [1, -(1 - 1 / 2048)], left) / 256
    # Half a unit of rounding, and the mean's last bit, of 2^-25.
    assert np.abs(voice - exact).max() <= 0.51
    corner = -np.log(1 - 1 / 2048) * 48_000 / (2 * np.pi)
    assert 3 < corner < 5


@pytest.mark.parametrize("offset", [1, -1, 255, -256, 123_457, -8_388_608, 8_388_607])
def test_a_constant_is_gone_to_the_last_bit_after_a_second(offset):
    mixer = InputMixer()
    mixer.mix(np.full((48_000, 2), offset), gain=0xFFFF)  # it follows while it is off, too
    voice, _ = mixer.mix(np.full((100, 2), offset), channel=MEAN, gain=0xFFFF, remove_dc=True)
    assert not voice.any()


def test_gain_beyond_the_range_saturates_and_says_so_without_wrapping():
    samples = [[0x100000, 0], [-0x100000, 0], [0x0FFF00, 0], [-0x100000 + 256, 0]]
    voice, clipped = InputMixer().mix(samples, gain=0x8000)
    assert voice.tolist() == [32767, -32768, 32760, -32760]
    assert clipped.tolist() == [True, False, False, False]
