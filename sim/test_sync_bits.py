"""sync_bits: two registers, so a bit comes with the second clock after it changed, and nothing unknown stays."""

import random

import cocotb
from cocotb.triggers import ReadOnly, Timer

from bench import simulate

WIDTH = 5


async def clock(dut):
    await Timer(5, "ns")
    dut.clk.value = 1
    await Timer(5, "ns")
    dut.clk.value = 0


@cocotb.test()
async def every_bit_comes_two_clocks_late_and_reset_clears_both_registers(dut):
    rng = random.Random(1)
    dut.clk.value, dut.rst.value, dut.d.value = 0, 1, 0
    await clock(dut)
    first = second = 0
    for _ in range(500):
        bits, reset = rng.getrandbits(WIDTH), rng.random() < 0.05
        dut.d.value, dut.rst.value = bits, int(reset)
        await ReadOnly()
        assert int(dut.q.value) == second
        await Timer(1, "ns")
        await clock(dut)
        first, second = (0, 0) if reset else (bits, first)


@cocotb.test()
async def an_undriven_input_is_unknown_for_two_clocks_more_and_no_longer(dut):
    if cocotb.SIM_NAME != "Icarus Verilog":
        return  # Verilator has no unknown values
    dut.clk.value, dut.rst.value, dut.d.value = 0, 1, "X" * WIDTH
    await clock(dut)
    await ReadOnly()
    assert int(dut.q.value) == 0
    await Timer(1, "ns")
    dut.rst.value = 0
    await clock(dut)
    await clock(dut)
    dut.d.value = 9
    await clock(dut)
    await clock(dut)
    await ReadOnly()
    assert int(dut.q.value) == 9


def test_sync_bits(simulator):
    simulate(simulator, "sync_bits", ["sync_bits.sv"], __name__, parameters={"WIDTH": WIDTH})
