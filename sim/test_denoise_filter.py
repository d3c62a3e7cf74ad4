"""denoise_filter against its golden model: taps of any size, fades, skipped fades, pauses on both sides, a reset."""

import random

import cocotb
import numpy as np
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

from bench import record_cycles, simulate
from golden.denoiser import DELAY, FADE, FADE_FROM, HOP, IDENTITY, TAPS, filter_path

LATENCY_BUDGET = 8  # cycles last input -> output
BUDGET = 32  # cycles a sample


def random_designs(rng, hops):
    """int64[hops, 31]: quiet filters, extreme ones that saturate, the identity, the same one twice."""
    designs = np.zeros((hops, TAPS), dtype=np.int64)
    for hop in range(hops):
        kind = rng.integers(5)
        if kind == 0:
            designs[hop] = rng.integers(-(1 << 15), 1 << 15, TAPS)
        elif kind == 1:
            designs[hop] = rng.choice([-(1 << 15), (1 << 15) - 1], TAPS)
        elif kind == 2:
            designs[hop] = rng.integers(-300, 301, TAPS)
            designs[hop, 0] += 9000
        elif kind == 3:
            designs[hop] = IDENTITY
        elif hop:
            designs[hop] = designs[hop - 1]
    return designs


def stimulus(rng, count):
    """Noise at several levels with full-scale runs of both signs."""
    pcm = rng.integers(-32768, 32768, count)
    quiet = rng.random(count // 50 + 1).repeat(50)[:count] < 0.5
    pcm[quiet] >>= 6
    pcm[count // 4 : count // 4 + 70] = -32768
    pcm[count // 2 : count // 2 + 70] = 32767
    return pcm.astype(np.int16)


class Bench:
    """Drives and watches one filter; its grid of hops begins with each reset."""

    def __init__(self, dut):
        self.dut = dut
        self.cycle = 0

    async def start(self):
        dut = self.dut
        for port in ("s_axis_tdata", "s_axis_tuser", "s_axis_tvalid", "m_axis_tready", "tap_valid", "tap_index", "tap"):
            getattr(dut, port).value = 0
        dut.step.value = dut.step_first.value = 0
        dut.rst.value = 1
        if self.cycle == 0:
            Clock(dut.clk, 10, unit="ns").start()
        for _ in range(2):
            await RisingEdge(dut.clk)
            self.cycle += 1
        dut.rst.value = 0

    async def transfer(self, pcm, designs, taken, *, rng, idle=0.0, stall=0.0, early=0):
        """Send `pcm`; the taps designs[k] are written in hop k + 1 and fade in if taken[k]. Gives the outputs.

        Each is (sample, tuser, cycles since the input that pushed it out). `taken_at` are the cycles of the inputs.
        Everything about the taps comes `early` samples before its place on the grid.
        """
        dut = self.dut
        out, taken_at, sent, offered, quiet = [], [], 0, False, None
        writes, write_hop = [], 0  # (index, tap) to write; the next hop whose taps are to be written
        while len(out) < len(pcm):
            if not offered and sent < len(pcm) and rng.random() >= idle:
                offered = True
                dut.s_axis_tdata.value = int(pcm[sent])
                dut.s_axis_tuser.value = 5000 + sent
            hop, index = (sent + early) // HOP - 1, (sent + early) % HOP  # the sample offered is `index` of hop + 1
            step = hop >= 0 and FADE_FROM - 1 <= index < FADE_FROM + FADE - 1 and bool(taken[hop])
            dut.step.value = int(step)
            dut.step_first.value = int(step and index == FADE_FROM - 1)
            # Written at any pace in the half of the hop that comes before the fade.
            if hop == write_hop and index < FADE_FROM - 6:
                writes = list(enumerate(designs[hop].tolist()))
                rng.shuffle(writes)
                write_hop += 1
            write = bool(writes) and (rng.random() < 0.5 or index >= FADE_FROM - 6)
            dut.tap_valid.value = int(write)
            if write:
                dut.tap_index.value, dut.tap.value = writes[-1][0], writes[-1][1] & 0xFFFF
                writes.pop()
            dut.s_axis_tvalid.value = int(offered)
            dut.m_axis_tready.value = int(rng.random() >= stall)
            await ReadOnly()
            valid, ready = int(dut.m_axis_tvalid.value), int(dut.s_axis_tready.value)
            state = (ready, valid, valid and int(dut.m_axis_tdata.value), valid and int(dut.m_axis_tuser.value))
            assert quiet in (None, state), "something changed while busy was low"
            assert int(dut.busy.value) or not write, "a tap needs a clock"
            quiet = None if int(dut.busy.value) else state
            if valid and int(dut.m_axis_tready.value):
                user = state[3]
                out.append((dut.m_axis_tdata.value.to_signed(), user, self.cycle - taken_at[user - 5000]))
            if offered and ready:
                taken_at.append(self.cycle)
                sent += 1
                offered = False
            await RisingEdge(dut.clk)
            self.cycle += 1
        self.taken_at = taken_at
        dut.s_axis_tvalid.value = 0
        return out


def expected(pcm, designs, taken):
    """Outputs when a hop that was not taken keeps the filter before it."""
    coefficients, current = [], IDENTITY
    for hop in range(len(pcm) // HOP):
        current = designs[hop] if taken[hop] else current
        coefficients.append(current)
    return filter_path(pcm, np.array(coefficients))


@cocotb.test()
async def matches_the_golden_model_with_pauses_on_both_sides(dut):
    bench = Bench(dut)
    for seed, (idle, stall) in enumerate([(0.0, 0.0), (0.9, 0.5), (0.0, 0.95), (0.97, 0.0)]):
        await bench.start()  # what the memories still hold must not come out
        rng, draw = random.Random(seed), np.random.default_rng(seed)
        hops = 16 if idle or stall else 40
        pcm, designs = stimulus(draw, hops * HOP + seed), random_designs(draw, hops)
        taken = draw.random(hops) < 0.8
        out = await bench.transfer(pcm, designs, taken, rng=rng, idle=idle, stall=stall)
        clean = expected(pcm, designs, taken)
        assert [sample for sample, _, _ in out] == clean.tolist()
        assert [user for _, user, _ in out] == list(range(5000, 5000 + len(pcm)))
        assert (clean == 32767).sum() > 5 and (clean == -32768).sum() > 5, "nothing saturated"


@cocotb.test()
async def samples_before_the_reset_are_silence_to_a_filter_that_fades_in_at_once(dut):
    bench = Bench(dut)
    for seed in (1, 2):
        await bench.start()
        early = HOP + 1 + seed  # the taps are written at once, and their fade begins at sample 31 or 30
        draw = np.random.default_rng(seed)
        pcm, designs = stimulus(draw, 3 * HOP - early), random_designs(draw, 3)
        designs[0] = draw.integers(-(1 << 13), 1 << 13, TAPS)
        out = await bench.transfer(pcm, designs, np.ones(3, dtype=bool), rng=random.Random(seed), early=early)
        silence = np.zeros(early, dtype=np.int16)
        clean = filter_path(np.concatenate([silence, pcm]), designs)[early:]
        assert [sample for sample, _, _ in out] == clean.tolist()


@cocotb.test()
async def takes_a_sample_each_32_cycles_and_answers_in_a_few(dut):
    bench = Bench(dut)
    await bench.start()
    pcm = stimulus(np.random.default_rng(9), 8 * HOP)
    designs = random_designs(np.random.default_rng(9), 8)
    out = await bench.transfer(pcm, designs, np.ones(8, dtype=bool), rng=random.Random(9))
    latency = max(cycles for _, _, cycles in out)
    period = int(max(np.diff(bench.taken_at)))
    record_cycles("denoise_filter: last input to output", latency, LATENCY_BUDGET)
    record_cycles("denoise_filter: sample to sample", period, BUDGET)
    assert latency <= LATENCY_BUDGET and period <= BUDGET


@cocotb.test()
async def passes_samples_unchanged_until_a_design_comes(dut):
    bench = Bench(dut)
    await bench.start()
    pcm = stimulus(np.random.default_rng(3), 500)
    out = await bench.transfer(pcm, np.zeros((8, TAPS), dtype=int), np.zeros(8, dtype=bool), rng=random.Random(3))
    assert [sample for sample, _, _ in out] == [0] * DELAY + pcm[:-DELAY].tolist()


def test_denoise_filter(simulator):
    simulate(simulator, "denoise_filter", ["denoise_filter.sv"], __name__)


def test_a_fade_is_linear_and_ends_exactly_on_the_new_taps():
    """A constant input shows the filter's gain: 1 before, half after, in 16 equal steps from sample 32 of hop 1."""
    half = IDENTITY // 2
    clean = filter_path(np.full(4 * HOP, 16384, dtype=np.int16), np.array([half, half, half]))
    at = HOP + FADE_FROM
    assert clean[DELAY:at].tolist() == [16384] * (at - DELAY)
    assert clean[at : at + FADE].tolist() == [16384 - 512 * step for step in range(1, FADE + 1)]
    assert set(clean[at + FADE :].tolist()) == {8192}


@pytest.mark.parametrize("sign", [1, -1])
def test_a_sum_beyond_16_bits_saturates(sign):
    loud = np.full(4 * HOP, 30000 * sign, dtype=np.int16)
    assert filter_path(loud, np.array([IDENTITY * 3 // 2] * 3))[-1] == (32767 if sign > 0 else -32768)
