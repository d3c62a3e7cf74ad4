"""play_reader after its memory was given up, clocked only while `busy`. What it reads and plays is in test_playback."""

import cocotb
from cocotb.triggers import ReadOnly, Timer

from bench import simulate

BASE = 0x5_0000_0000
SLOTS = 4
SLOT_BEATS = 16
TIMEOUT_CYCLES = 20


class Bench:
    """Drives inputs between clocks and leaves out every clock for which `busy` is low."""

    def __init__(self, dut):
        self.dut = dut

    async def start(self):
        dut = self.dut
        for port in ("clk", "quiesce", "flush", "flush_to", "slot_beat", "slot_pop", "limit"):
            getattr(dut, port).value = 0
        for port in ("arready", "rdata", "rresp", "rlast", "rvalid"):
            getattr(dut, f"m_axi_{port}").value = 0
        dut.enable.value, dut.base.value, dut.size.value = 1, BASE, SLOTS * 256
        dut.rst.value = 1
        for _ in range(2):
            await self.clock()
        dut.rst.value = 0

    async def clock(self):
        await Timer(5, "ns")
        self.dut.clk.value = 1
        await Timer(5, "ns")
        self.dut.clk.value = 0

    async def step(self, **inputs):
        """One cycle with these inputs of the memory's channel; returns whether it was clocked."""
        for port, value in inputs.items():
            getattr(self.dut, f"m_axi_{port}").value = value
        await ReadOnly()
        clocked = bool(self.dut.busy.value)
        await Timer(1, "ns")
        if clocked:
            await self.clock()
        return clocked


@cocotb.test()
async def a_late_answer_ends_the_burst_of_a_memory_that_was_given_up(dut):
    for address_late in (False, True):
        bench = Bench(dut)
        await bench.start()
        dut.limit.value = 1
        await bench.step()
        assert dut.m_axi_arvalid.value and int(dut.m_axi_araddr.value) == BASE
        if not address_late:
            await bench.step(arready=1)
        for _ in range(TIMEOUT_CYCLES + 5):
            clocked = await bench.step(arready=0)
        assert dut.timeout.value and not dut.idle.value and not clocked, "waiting for ever is not work"
        if address_late:
            assert dut.m_axi_arvalid.value
            assert await bench.step(arready=1), "the clock in which the address is taken was left out"
            assert not dut.m_axi_arvalid.value
        for beat in range(SLOT_BEATS):
            assert not dut.idle.value
            last = beat == SLOT_BEATS - 1
            assert await bench.step(arready=0, rvalid=1, rlast=int(last)), "the clock of a beat was left out"
        await bench.step(rvalid=0)
        assert dut.idle.value and not dut.slot_valid.value
        assert not await bench.step() and not dut.m_axi_arvalid.value, "a burst after the time-out"


def test_a_memory_that_was_given_up_may_still_answer(simulator):
    parameters = {"SLOTS": SLOTS, "TIMEOUT_CYCLES": TIMEOUT_CYCLES}
    simulate(simulator, "play_reader", ["play_reader.sv"], __name__, parameters=parameters)
