"""resampler: bit-exact against its golden model, which itself is compared with scipy in floating point."""

import importlib.util
import os
import random
from pathlib import Path

import cocotb
import numpy as np
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge
from scipy.signal import upfirdn

from bench import ROOT, simulate
from golden.resampler import cycles, resample

FILTERS = ROOT / "fpga" / "filters"
_spec = importlib.util.spec_from_file_location("design", FILTERS / "design.py")
design = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(design)

BUDGET = 64  # cycles from the last input of an output to the output

CONFIGURATIONS = {
    "48k to 16k": (1, 3, FILTERS / "decimate_48k_16k.hex"),
    "16k to 48k": (3, 1, FILTERS / "interpolate_16k_48k.hex"),
    "24k to 48k": (2, 1, FILTERS / "interpolate_24k_48k.hex"),
    "44.1k to 16k": (160, 441, FILTERS / "decimate_44k1_16k.hex"),
    "2/3, even taps": (2, 3, None),
    "1/2, even taps": (1, 2, None),
}


def coefficient_file(name, folder):
    """The table of a configuration; written into `folder` where none is committed."""
    up, down, path = CONFIGURATIONS[name]
    if path:
        return path
    # Any numbers serve, extremes included; L = 1 asks for symmetry.
    half = np.random.default_rng(1).integers(-(1 << 17), 1 << 17, 10)
    words = np.concatenate([half, half[::-1]])
    path = folder / "coefficients.hex"
    design.write_hex(path, words)
    return path


def stimulus(rng, count):
    """Noise with full-scale runs of both signs in it, so that sums saturate."""
    pcm = rng.integers(-32768, 32768, count)
    pcm[count // 4 : count // 4 + 60] = -32768
    pcm[count // 2 : count // 2 + 60] = 32767
    return pcm.astype(np.int16)


# ---- what runs in the simulator ------------------------------------------------------------------------------------


class Bench:
    """Drives and watches one resampler; `idle` and `stall` are the chances of a pause on either side."""

    def __init__(self, dut):
        self.dut = dut
        self.cycle = 0
        self.out = []
        self.latency = []
        self.accepted = []  # cycle in which each input was taken
        self.quiet_changes = 0

    async def start(self):
        dut = self.dut
        dut.rst.value = 1
        dut.clear.value = 0
        dut.s_axis_tvalid.value = 0
        dut.s_axis_tdata.value = 0
        dut.s_axis_tuser.value = 0
        dut.m_axis_tready.value = 0
        Clock(dut.clk, 10, unit="ns").start()
        for _ in range(3):
            await RisingEdge(dut.clk)
        dut.rst.value = 0

    async def transfer(self, pcm, outputs, *, rng, idle=0.0, stall=0.0):
        """Send `pcm` with its index as tuser until `outputs` came out; gives [(sample, tuser, cycle)]."""
        dut = self.dut
        out, accepted = [], []
        sent, offered = 0, False
        was_busy, before = True, None
        while len(out) < outputs or sent < len(pcm):
            if not offered and sent < len(pcm) and rng.random() >= idle:
                offered = True
                dut.s_axis_tdata.value = int(pcm[sent])
                dut.s_axis_tuser.value = sent
            dut.s_axis_tvalid.value = int(offered)
            dut.m_axis_tready.value = int(rng.random() >= stall)
            await ReadOnly()
            valid, ready = bool(dut.m_axis_tvalid.value), bool(dut.s_axis_tready.value)
            state = (valid, ready, valid and dut.m_axis_tdata.value)
            if not was_busy and before != state:
                self.quiet_changes += 1
            was_busy, before = bool(dut.busy.value), state
            taken = offered and ready
            if valid and dut.m_axis_tready.value:
                out.append((dut.m_axis_tdata.value.to_signed(), int(dut.m_axis_tuser.value), self.cycle))
            if taken:
                accepted.append(self.cycle)
                sent += 1
                offered = False
            await RisingEdge(dut.clk)
            self.cycle += 1
            assert self.cycle < 400_000, "the resampler hangs"
        dut.s_axis_tvalid.value = 0
        dut.m_axis_tready.value = 0
        self.accepted = accepted
        return out


def configuration():
    up, down = int(os.environ["UP"]), int(os.environ["DOWN"])
    return up, down, design.read_hex(Path(os.environ["COEFFICIENTS"]))


def check(out, pcm, up, down, coefficients):
    expected, newest = resample(pcm, coefficients, up, down)
    assert [sample for sample, _, _ in out] == expected.tolist()
    assert [user for _, user, _ in out] == newest.tolist()


@cocotb.test()
async def matches_the_golden_model_with_pauses_on_both_sides(dut):
    up, down, coefficients = configuration()
    bench = Bench(dut)
    await bench.start()
    for seed, (idle, stall) in enumerate([(0, 0), (0, 0.95), (0.9, 0.5)]):
        rng = random.Random(seed)
        pcm = stimulus(np.random.default_rng(seed), 200 if up == 1 or down > 1 else 120)
        dut.clear.value = 1
        await RisingEdge(dut.clk)
        dut.clear.value = 0
        out = await bench.transfer(pcm, -(-len(pcm) * up // down), rng=rng, idle=idle, stall=stall)
        check(out, pcm, up, down, coefficients)
    assert bench.quiet_changes == 0, "something changed while busy was low"


@cocotb.test()
async def first_output_of_an_input_is_within_the_cycle_budget(dut):
    up, down, coefficients = configuration()
    bench = Bench(dut)
    await bench.start()
    pcm = stimulus(np.random.default_rng(7), 100)
    out = await bench.transfer(pcm, -(-len(pcm) * up // down), rng=random.Random(7))
    first = {}
    for _, user, cycle in out:
        first.setdefault(user, cycle)
    worst = max(cycle - bench.accepted[user] for user, cycle in first.items())
    whole = max(cycle - bench.accepted[user] for _, user, cycle in out)
    print(f"resampler L={up} M={down}: {worst} cycles to the first output, {whole} to the last (budget {BUDGET})")
    assert worst <= BUDGET
    assert whole == cycles(len(coefficients), up, down)
    # A few clocks after the last output everything is still.
    for _ in range(4):
        await RisingEdge(dut.clk)
    await ReadOnly()
    assert not dut.busy.value


@cocotb.test()
async def clear_forgets_history_phase_and_an_output_that_waits(dut):
    up, down, coefficients = configuration()
    bench = Bench(dut)
    await bench.start()
    rng = random.Random(3)
    for cut in (1, 2, 70):
        dut.m_axis_tready.value = 0
        pcm = stimulus(np.random.default_rng(cut), 80)
        await bench.transfer(pcm[:cut], max(0, -(-cut * up // down) - 1), rng=rng)
        for _ in range(rng.randrange(80)):
            await RisingEdge(dut.clk)
        dut.clear.value = 1
        await RisingEdge(dut.clk)
        dut.clear.value = 0
        await ReadOnly()
        assert not dut.m_axis_tvalid.value and not dut.busy.value
        await RisingEdge(dut.clk)
        out = await bench.transfer(pcm, -(-len(pcm) * up // down), rng=rng)
        check(out, pcm, up, down, coefficients)


# ---- what pytest runs ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_resampler(simulator, name, tmp_path):
    up, down, _ = CONFIGURATIONS[name]
    path = coefficient_file(name, tmp_path)
    simulate(
        simulator,
        "resampler",
        ["resampler.sv"],
        __name__,
        parameters={
            "L": up,
            "M": down,
            "TAPS": len(path.read_text().split()),
            "COEF_FILE": f'"{path}"',
        },
        env={"UP": str(up), "DOWN": str(down), "COEFFICIENTS": str(path)},
    )


@pytest.mark.parametrize("name", CONFIGURATIONS)
def test_golden_model_is_a_rounded_float_resampler(name, tmp_path):
    up, down, _ = CONFIGURATIONS[name]
    coefficients = design.read_hex(coefficient_file(name, tmp_path))
    pcm = stimulus(np.random.default_rng(2), 3000)
    samples, newest = resample(pcm, coefficients, up, down)
    exact = upfirdn(coefficients / 65536, pcm.astype(float), up, down)[: len(samples)]
    assert np.abs(samples - np.clip(exact, -32768, 32767)).max() <= 0.5
    # An output may use only what has come: output i lies at time i * down / up of the input.
    assert np.array_equal(newest, np.floor(np.arange(len(samples)) * down / up + 1e-9))
    assert len(samples) == -(-len(pcm) * up // down)


@pytest.mark.parametrize("name", ["48k to 16k", "16k to 48k", "24k to 48k", "44.1k to 16k"])
def test_a_tone_in_the_pass_band_comes_out_delayed_by_the_group_delay(name, tmp_path):
    up, down, _ = CONFIGURATIONS[name]
    coefficients = design.read_hex(coefficient_file(name, tmp_path))
    rate = {"48k to 16k": 48_000, "16k to 48k": 16_000, "24k to 48k": 24_000, "44.1k to 16k": 44_100}[name]
    delay = (len(coefficients) - 1) / 2 / (rate * up)
    assert delay <= 0.7e-3
    tone = 16_000 * np.sin(2 * np.pi * 1_000 * np.arange(rate // 4) / rate)
    samples, _ = resample(np.rint(tone).astype(np.int16), coefficients, up, down)
    seconds = np.arange(len(samples)) * down / up / rate - delay
    settled = seconds > 0.01
    expected = 16_000 * np.sin(2 * np.pi * 1_000 * seconds)
    # +-0.1 dB is 1.2 %.
    assert np.abs(samples - expected)[settled].max() <= 0.012 * 16_000 + 1
