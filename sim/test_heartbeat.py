"""heartbeat: how long a sign of life counts."""

import random

import cocotb
import pytest
from cocotb.triggers import ReadOnly, Timer

from bench import simulate


async def clock(dut):
    await Timer(5, "ns")
    dut.clk.value = 1
    await Timer(5, "ns")
    dut.clk.value = 0


async def start(dut):
    dut.clk.value = dut.tick.value = dut.beat.value = 0
    dut.rst.value = 1
    for _ in range(3):
        await clock(dut)
    dut.rst.value = 0


async def step(dut, *, tick=False, beat=False):
    """One clock; returns (alive, lost) as they are in it."""
    dut.tick.value, dut.beat.value = int(tick), int(beat)
    await ReadOnly()
    seen = bool(int(dut.alive.value)), bool(int(dut.lost.value))
    await clock(dut)
    return seen


@cocotb.test()
async def random_beats(dut):
    ticks = int(dut.TICKS.value)
    if ticks > 100:
        return
    rng = random.Random(1)
    await start(dut)
    since, losses = None, 0  # ticks since the last beat
    for _ in range(4000):
        tick, beat = rng.random() < 0.5, rng.random() < 0.04
        alive, lost = await step(dut, tick=tick, beat=beat)
        assert alive == (since is not None and since < ticks)
        assert lost == (alive and tick and not beat and since + 1 == ticks)
        losses += lost
        if beat:
            since = 0
        elif since is not None:
            since += tick
    assert losses > 10


@cocotb.test()
async def freshness(dut):
    ticks = int(dut.TICKS.value)
    await start(dut)
    assert await step(dut, tick=True) == (False, False)
    await step(dut, beat=True)
    for _ in range(ticks - 1):
        assert await step(dut, tick=True) == (True, False)
    for _ in range(50):  # clocks without a tick are no time
        assert await step(dut) == (True, False)
    assert await step(dut, tick=True) == (True, True)
    assert await step(dut, tick=True) == (False, False)
    await step(dut, beat=True)
    assert (await step(dut))[0]


@pytest.mark.parametrize("parameters", [{"TICKS": 20}, {}], ids=["20 ticks", "500 ms"])
def test_the_host_is_alive_for_exactly_the_ticks_after_its_beat(simulator, parameters):
    simulate(simulator, "heartbeat", ["heartbeat.sv"], __name__, parameters=parameters)
