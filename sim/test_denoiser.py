"""denoiser: a delay of DELAY samples that loses nothing under any back-pressure."""

import os
import random

import cocotb
import numpy as np
import pytest
from cocotb.clock import Clock
from cocotb.triggers import ReadOnly, RisingEdge

from bench import simulate
from golden.denoiser import denoise

BUDGET = 32  # cycles a sample


@cocotb.test()
async def delays_every_sample_and_keeps_the_newest_stamp(dut):
    delay = int(os.environ["DELAY"])
    dut.rst.value = 1
    dut.s_axis_tvalid.value = 0
    dut.m_axis_tready.value = 0
    Clock(dut.clk, 10, unit="ns").start()
    worst = 0
    for seed, (idle, stall) in enumerate([(0, 0), (0.8, 0), (0, 0.8), (0.6, 0.6)]):
        rng = random.Random(seed)
        # A reset in between: what the memory still holds must not come out.
        dut.rst.value = 1
        await RisingEdge(dut.clk)
        await RisingEdge(dut.clk)
        dut.rst.value = 0
        pcm = np.random.default_rng(seed).integers(-32768, 32768, 400).astype(np.int16)
        out, sent, offered, cycle, taken_at = [], 0, False, 0, {}
        quiet = None
        while len(out) < len(pcm):
            if not offered and sent < len(pcm) and rng.random() >= idle:
                offered = True
                dut.s_axis_tdata.value = int(pcm[sent])
                dut.s_axis_tuser.value = 1000 + sent
            dut.s_axis_tvalid.value = int(offered)
            dut.m_axis_tready.value = int(rng.random() >= stall)
            await ReadOnly()
            state = (dut.m_axis_tvalid.value, dut.m_axis_tdata.value, dut.m_axis_tuser.value)
            assert quiet in (None, state), "something changed while busy was low"
            quiet = None if dut.busy.value else state
            if dut.m_axis_tvalid.value and dut.m_axis_tready.value:
                user = int(dut.m_axis_tuser.value)
                out.append((dut.m_axis_tdata.value.to_signed(), user))
                if stall == 0:
                    worst = max(worst, cycle - taken_at[user])
            if offered and dut.s_axis_tready.value:
                taken_at[1000 + sent] = cycle
                sent += 1
                offered = False
            await RisingEdge(dut.clk)
            cycle += 1
        assert [sample for sample, _ in out] == denoise(pcm, delay).tolist()
        assert [user for _, user in out] == list(range(1000, 1000 + len(pcm)))
    print(f"denoiser DELAY={delay}: {worst} cycles (budget {BUDGET})")
    assert worst <= BUDGET


@pytest.mark.parametrize("delay", [30, 1, 32])
def test_denoiser(simulator, delay):
    simulate(simulator, "denoiser", ["denoiser.sv"], __name__, parameters={"DELAY": delay}, env={"DELAY": str(delay)})


def test_default_delay_is_the_1_9_ms_that_the_linear_phase_filter_will_take():
    impulse = np.zeros(100, dtype=np.int16)
    impulse[3] = 9
    assert denoise(impulse).argmax() == 3 + 30
    assert 30 / 16_000 <= 1.9e-3
