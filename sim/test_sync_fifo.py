"""sync_fifo against a Python queue: order, capacity, levels and clearing under random idle and back-pressure."""

import random
from collections import deque

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly, RisingEdge

from bench import simulate

WIDTH = 24


async def start(dut):
    Clock(dut.clk, 10, unit="ns").start()
    dut.rst.value = 1
    dut.clear.value = 0
    dut.s_axis_tvalid.value = 0
    dut.s_axis_tdata.value = 0
    dut.m_axis_tready.value = 0
    for _ in range(3):
        await RisingEdge(dut.clk)
    await FallingEdge(dut.clk)
    dut.rst.value = 0


async def follow(dut, cycles, *, idle, pressure, clear=0.0, seed=0):
    """Drive and check `cycles` cycles, then empty the FIFO; returns (words accepted, words delivered, fullest level).

    `idle`, `pressure` and `clear` are the probabilities of a cycle without a word offered, with the sink not ready,
    and with `clear`. An offered word stays until it is taken, as AXI4-Stream demands.
    """
    rng = random.Random(seed)
    held, accepted, delivered, fullest = deque(), 0, 0, 0
    offered = False
    draining = 2 * int(dut.DEPTH.value) + 4
    for cycle in range(cycles + draining):
        await FallingEdge(dut.clk)
        if not offered:
            offered = rng.random() >= idle and cycle < cycles
            dut.s_axis_tvalid.value = int(offered)
            dut.s_axis_tdata.value = rng.getrandbits(WIDTH)
        dut.m_axis_tready.value = int(rng.random() >= pressure or cycle >= cycles)
        dut.clear.value = int(rng.random() < clear and cycle < cycles)
        await ReadOnly()  # what is settled now is what the rising edge acts on
        take = offered and int(dut.s_axis_tready.value)
        give = int(dut.m_axis_tvalid.value) and int(dut.m_axis_tready.value)
        assert int(dut.level.value) == len(held)
        fullest = max(fullest, len(held))
        if give:
            assert int(dut.m_axis_tdata.value) == held.popleft()
            delivered += cycle < cycles
        if int(dut.clear.value):
            assert not int(dut.s_axis_tready.value)
            held.clear()
        if take:
            held.append(int(dut.s_axis_tdata.value))
            accepted += cycle < cycles
            offered = False
    assert not held and not int(dut.m_axis_tvalid.value)
    return accepted, delivered, fullest


@cocotb.test()
async def random_traffic(dut):
    await start(dut)
    for seed, (idle, pressure) in enumerate([(0, 0), (0.5, 0), (0, 0.5), (0.3, 0.3), (0.9, 0.05)]):
        await follow(dut, 400, idle=idle, pressure=pressure, seed=seed)
    _, _, fullest = await follow(dut, 400, idle=0.05, pressure=0.9, seed=99)
    assert fullest == int(dut.DEPTH.value)


@cocotb.test()
async def clearing(dut):
    await start(dut)
    await follow(dut, 800, idle=0.2, pressure=0.4, clear=0.05, seed=7)


@cocotb.test()
async def full_rate(dut):
    await start(dut)
    accepted, delivered, _ = await follow(dut, 300, idle=0, pressure=0, seed=1)
    if int(dut.DEPTH.value) > 2:
        assert (accepted, delivered) == (300, 298)  # two clocks from input to output
    else:
        assert accepted == 200


@pytest.mark.parametrize("depth", [2, 5, 16])
def test_words_leave_in_order_and_the_level_counts_them(simulator, depth):
    simulate(simulator, "sync_fifo", ["sync_fifo.sv"], __name__, parameters={"WIDTH": WIDTH, "DEPTH": depth})


def test_a_depth_of_one_is_refused_with_a_sentence(simulator, capfd):
    with pytest.raises((RuntimeError, SystemExit)):
        simulate(simulator, "sync_fifo", ["sync_fifo.sv"], __name__, parameters={"WIDTH": WIDTH, "DEPTH": 1})
    output = capfd.readouterr()
    assert "DEPTH must be at least 2" in output.out + output.err
