"""irq_coalescer: when an interrupt comes, and that no published frame is ever without one."""

import random

import cocotb
from cocotb.triggers import ReadOnly, Timer

from bench import simulate

TICK_NS = 20_833


class Harness:
    """One clock at a time; time advances by a tick where `step(tick=True)`. `skip` leaves clocks out while idle."""

    def __init__(self, dut, *, skip=False):
        self.dut, self.skip = dut, skip
        self.ns = 5_000

    async def start(self, *, frames=8, us=8000, adaptive=1, hot=0):
        dut = self.dut
        for port in ("clk", "tick", "published", "published_urgent", "ack"):
            getattr(dut, port).value = 0
        dut.tick_ns.value = self.ns
        dut.frames.value, dut.us.value, dut.adaptive.value, dut.hot.value = frames, us, adaptive, hot
        dut.rst.value = 1
        for _ in range(3):
            await self._clock()
        dut.rst.value = 0
        await self.step()

    async def _clock(self):
        await Timer(5, "ns")
        self.dut.clk.value = 1
        await Timer(5, "ns")
        self.dut.clk.value = 0

    async def step(self, *, tick=False, published=False, urgent=False, ack=False):
        """Returns `pending` after the clock."""
        dut = self.dut
        if tick:
            self.ns += TICK_NS
        dut.tick.value, dut.tick_ns.value = int(tick), self.ns
        dut.published.value, dut.published_urgent.value = int(published or urgent), int(urgent)
        dut.ack.value = int(ack)
        await ReadOnly()
        run = not self.skip or int(dut.busy.value)
        await Timer(1, "ns")
        if run:
            await self._clock()
        dut.tick.value = dut.published.value = dut.published_urgent.value = dut.ack.value = 0
        await ReadOnly()
        pending = bool(int(dut.pending.value))
        await Timer(1, "ns")
        return pending

    async def quiet(self, cycles=4):
        for _ in range(cycles):
            pending = await self.step()
        return pending


@cocotb.test()
async def by_count(dut):
    bench = Harness(dut)
    await bench.start(frames=8)
    for _ in range(2):
        for _ in range(7):
            await bench.step(published=True)
            assert not await bench.quiet()
        await bench.step(published=True)
        assert await bench.quiet()
        assert not await bench.step(ack=True)


@cocotb.test()
async def by_time(dut):
    bench = Harness(dut)
    await bench.start(us=8000)
    for _ in range(100):
        await bench.step(tick=True)
    await bench.step(published=True)
    published_ns = bench.ns
    await bench.step(tick=True)
    await bench.step(published=True)  # a later frame does not start the wait again
    while not await bench.step(tick=True):
        assert not await bench.quiet(2)
    # The first tick at which the first frame is 8 ms old.
    assert 0 <= bench.ns - published_ns - 8_000_000 < TICK_NS


@cocotb.test()
async def a_wait_lasts_as_long_as_was_set_when_it_began(dut):
    bench = Harness(dut)
    await bench.start(us=50)
    await bench.step(published=True)
    dut.us.value = 1000
    assert not await bench.step(tick=True)
    assert not await bench.step(tick=True)
    assert await bench.step(tick=True)
    await bench.step(ack=True)
    await bench.step(published=True)
    for _ in range(48):
        assert not await bench.step(tick=True)
    assert await bench.step(tick=True)


@cocotb.test()
async def one_by_one_while_hot(dut):
    bench = Harness(dut)
    await bench.start(hot=1)
    await bench.step(published=True)
    assert await bench.step()
    await bench.step(ack=True)
    # What waits when it turns hot does not wait any longer.
    dut.hot.value = 0
    await bench.step(published=True)
    assert not await bench.quiet()
    dut.hot.value = 1
    assert await bench.step()
    await bench.step(ack=True)
    # Not adaptive: hot makes no difference.
    dut.adaptive.value = 0
    await bench.step(published=True)
    assert not await bench.quiet()


@cocotb.test()
async def urgent_at_once(dut):
    bench = Harness(dut)
    await bench.start(adaptive=0, frames=255, us=65535)
    await bench.step(published=True)
    assert not await bench.quiet()
    assert await bench.step(urgent=True)
    assert not await bench.step(ack=True)
    assert not await bench.quiet()


@cocotb.test()
async def zero_frames_and_zero_us(dut):
    bench = Harness(dut)
    await bench.start(frames=0)
    await bench.step(published=True)
    assert await bench.step()
    await bench.step(ack=True)
    dut.frames.value, dut.us.value = 8, 0
    await bench.step(published=True)
    assert not await bench.quiet()
    assert await bench.step(tick=True)


@cocotb.test()
async def a_frame_published_with_the_acknowledge_counts(dut):
    bench = Harness(dut)
    await bench.start(frames=1)
    await bench.step(published=True)
    assert await bench.step()
    assert not await bench.step(ack=True, published=True)
    assert await bench.step()
    # An urgent one keeps the line up.
    assert await bench.step(ack=True, urgent=True)
    # What had waited is seen, even if its time is up in this very clock; the new frame waits for its own.
    await bench.step(ack=True)
    dut.frames.value, dut.us.value = 8, 30
    await bench.step(published=True)
    assert not await bench.step(tick=True)
    assert not await bench.step(tick=True, ack=True, published=True)
    assert not await bench.step(tick=True)
    assert await bench.step(tick=True)


@cocotb.test()
async def a_step_of_the_clock_makes_an_interrupt_early_at_most(dut):
    for step in (-3 * 10**9, -(10**9), -1_000_000, 10**9):
        bench = Harness(dut)
        bench.ns = 5 * 10**9
        await bench.start(us=8000)
        await bench.step(published=True)
        bench.ns += step
        assert await bench.step(tick=True)


async def random_frames(dut, *, skip):
    """Whatever comes: a frame waits no longer than its time, and the count of unseen frames stays below the limit."""
    bench, rng = Harness(dut, skip=skip), random.Random(3)
    interrupts = 0
    for frames, us, hot in [(3, 200, 0), (8, 8000, 0), (5, 300, 1), (255, 1000, 0)]:
        await bench.start(frames=frames, us=us, hot=hot)
        limit = 1 if hot else frames
        waiting = []  # publication times of the frames without an interrupt
        for _ in range(1500):
            tick, published, ack = rng.random() < 0.3, rng.random() < 0.05, rng.random() < 0.03
            urgent = published and rng.random() < 0.05
            was_pending = bool(int(dut.pending.value))
            pending = await bench.step(tick=tick, published=published, urgent=urgent, ack=ack)
            if ack:
                waiting.clear()
            if published and (ack or not was_pending):
                waiting.append(bench.ns)
            rose = pending and (ack or not was_pending)
            if rose:
                # Never without a reason: enough, overdue, or urgent.
                overdue = tick and waiting and bench.ns - waiting[0] >= 1000 * us
                assert urgent or len(waiting) >= limit or overdue
                interrupts += 1
            if pending:
                waiting.clear()
            assert len(waiting) <= limit
            # Only a frame of this very tick may be as old as the limit without having fired.
            assert not (tick and waiting and not ack and bench.ns - waiting[0] >= 1000 * us)
    assert interrupts > 20


@cocotb.test()
async def random_frames_every_clock(dut):
    await random_frames(dut, skip=False)


@cocotb.test()
async def random_frames_with_idle_skip(dut):
    await random_frames(dut, skip=True)


def test_interrupts_come_by_count_by_time_and_at_once_when_urgent(simulator):
    simulate(simulator, "irq_coalescer", ["irq_coalescer.sv"], __name__)
