"""ring_writer against the golden ring, through a memory that stalls, errs and falls silent."""

import random

import cocotb
import pytest
from cocotb.triggers import ReadOnly, Timer

from bench import simulate
from golden.ring import FRAME_BYTES, SLOT_BYTES, Ring

SLOTS = 4
BASE = 0x12_3456_0000
BOOT_ID = 0xB007_1D00
ADDR_W = 40
TIMEOUT_CYCLES = 200
WINDOW = SLOTS * SLOT_BYTES + 16
COPY = BASE + SLOTS * SLOT_BYTES
OKAY, SLVERR, DECERR = 0, 2, 3


class Memory:
    """An AXI4 slave for writes, one clock at a time.

    `stall` is the probability that a channel is not ready; `answer_after` gives the clocks from a burst's last beat to
    its response; `answer` gives the response to an address; channels in `silent` never move. Checks the protocol.
    """

    def __init__(self, dut, rng):
        self.dut, self.rng = dut, rng
        self.stall = 0.0
        self.answer_after = lambda: 1
        self.answer = lambda address: OKAY
        self.silent = set()
        self.bytes = {}  # address of a burst -> what it last wrote
        self.bursts = []  # addresses, in the order in which they were taken
        self.address = None
        self.beats = []
        self.response = None  # [clocks to wait, resp, address]
        self._held_address = self._held_beat = None

    def drive(self):
        dut, rng = self.dut, self.rng
        dut.m_axi_awready.value = int("aw" not in self.silent and rng.random() >= self.stall)
        dut.m_axi_wready.value = int("w" not in self.silent and rng.random() >= self.stall)
        valid = self.response is not None and self.response[0] <= 0 and "b" not in self.silent
        dut.m_axi_bvalid.value = int(valid)
        dut.m_axi_bresp.value = self.response[1] if valid else 0

    def observe(self):
        """Take what this clock transfers; returns (address, resp) if a response was taken."""
        dut, taken = self.dut, None
        if self.response is not None:
            self.response[0] -= 1
            if int(dut.m_axi_bvalid.value) and int(dut.m_axi_bready.value):
                taken = (self.response[2], self.response[1])
                self.response = None
        self._observe_address()
        self._observe_data()
        if self.address is not None and self.beats and self.beats[-1][2]:
            self._commit()
        return taken

    def _observe_address(self):
        dut = self.dut
        if not int(dut.m_axi_awvalid.value):
            assert self._held_address is None, "an offered address was taken back"
            return
        address, length = int(dut.m_axi_awaddr.value), int(dut.m_axi_awlen.value)
        assert self._held_address in (None, (address, length)), "an offered address changed"
        assert int(dut.m_axi_awsize.value) == 4 and int(dut.m_axi_awburst.value) == 1
        assert address >= BASE and address + 16 * (length + 1) <= BASE + WINDOW, "outside the window"
        assert address // 4096 == (address + 16 * length) // 4096, "across a 4 KiB boundary"
        if int(dut.m_axi_awready.value):
            assert self.address is None and self.response is None, "two bursts at a time"
            self.address, self._held_address = (address, length), None
            self.bursts.append(address)
        else:
            self._held_address = (address, length)

    def _observe_data(self):
        dut = self.dut
        if not int(dut.m_axi_wvalid.value):
            assert self._held_beat is None, "an offered beat was taken back"
            return
        beat = (int(dut.m_axi_wdata.value), int(dut.m_axi_wstrb.value), int(dut.m_axi_wlast.value))
        assert self._held_beat in (None, beat), "an offered beat changed"
        if int(dut.m_axi_wready.value):
            self.beats.append(beat)
            self._held_beat = None
        else:
            self._held_beat = beat

    def _commit(self):
        address, length = self.address
        assert len(self.beats) == length + 1
        data = b"".join(word.to_bytes(16, "little") for word, _, _ in self.beats)
        if address == COPY:
            assert self.beats[0][1] == 0x00FF
            data = data[:8]
        else:
            assert all(strobes == 0xFFFF for _, strobes, _ in self.beats)
        response = self.answer(address)
        if response == OKAY:
            self.bytes[address] = data
        self.response = [self.answer_after(), response, address]
        self.address, self.beats = None, []


class Harness:
    """Feeds frames, reads the ring and checks every clock against the golden ring."""

    def __init__(self, dut, seed):
        self.dut, self.rng = dut, random.Random(seed)
        self.memory = Memory(dut, self.rng)
        self.ring = Ring(SLOTS, BASE, BOOT_ID, int(dut.HEAD_RESET.value), int(dut.HEAD_RESET.value))
        self.queue = []  # beats to feed, as (word, last, urgent, first)
        self.frames = []  # fed or queued, oldest first, whose fate is not known
        self.idle = 0.0
        self.skip = False  # do not clock while `busy` is low
        self.tail = None
        self.lost = self.write_errors = self.bad_tails = self.cycle = self.clocks = 0
        self.stuck_beat = False
        self.full_before = False  # a clock ago
        self.was_full = False  # at some clock since the oldest frame was offered
        self.full_drops = self.started = 0
        self.first_beat = self.last_response = None
        self.latencies = []

    async def start(self, **levels):
        dut = self.dut
        for port in (
            *("clk", "s_axis_tdata", "s_axis_tvalid", "s_axis_tlast", "s_axis_tuser", "quiesce", "tail_write"),
            *("tail_value", "m_axi_awready", "m_axi_wready", "m_axi_bresp", "m_axi_bvalid"),
        ):
            getattr(dut, port).value = 0
        dut.enable.value = dut.alive.value = 1
        dut.base.value, dut.size.value, dut.boot_id.value = BASE, WINDOW, BOOT_ID
        for port, value in levels.items():
            getattr(dut, port).value = value
        dut.rst.value = 1
        for _ in range(3):
            await self._clock()
        dut.rst.value = 0
        for _ in range(2):
            await self._clock()  # the window is looked at a clock after it was set, a frame may come one later

    async def _clock(self):
        await Timer(5, "ns")
        self.dut.clk.value = 1
        await Timer(5, "ns")
        self.dut.clk.value = 0

    def feed(self, *, urgent=False):
        """Queue a frame of random bytes."""
        frame = self.rng.randbytes(FRAME_BYTES)
        words = [int.from_bytes(frame[at : at + 16], "little") for at in range(0, FRAME_BYTES, 16)]
        self.queue += [(word, at == 9, urgent, at == 0) for at, word in enumerate(words)]
        self.frames.append((frame, urgent))
        return frame

    async def step(self):
        dut, rng = self.dut, self.rng
        offer = bool(self.queue) and (self.stuck_beat or rng.random() >= self.idle)
        dut.s_axis_tvalid.value = int(offer)
        if offer:
            dut.s_axis_tdata.value, dut.s_axis_tlast.value, dut.s_axis_tuser.value = self.queue[0][:3]
        dut.tail_write.value = int(self.tail is not None)
        if self.tail is not None:
            dut.tail_value.value = self.tail
        self.memory.drive()
        await ReadOnly()
        self._check(offer)
        run = not self.skip or int(dut.busy.value)
        await Timer(1, "ns")
        self.cycle += 1
        self.tail = None
        if run:
            self.clocks += 1
            await self._clock()

    def _check(self, offer):
        dut, ring = self.dut, self.ring
        assert (int(dut.head.value), int(dut.tail.value)) == (ring.head, ring.tail)
        full = ring.used == SLOTS
        if full:
            assert not int(dut.free.value)
        in_flight = self.memory.address is not None or self.memory.response is not None
        if in_flight or int(dut.m_axi_awvalid.value) or int(dut.m_axi_wvalid.value):
            assert not int(dut.idle.value), "idle with a transaction outstanding"
            # The next frame could not tell of this one's loss.
            assert not int(dut.free.value), "free while the fate of a frame is open"
        lost_now = int(dut.frame_lost.value)
        published = int(dut.published.value)
        response = self.memory.observe()
        taken = offer and int(dut.s_axis_tready.value)
        self.stuck_beat = bool(offer and not taken)
        if offer and self.queue[0][3] and self.first_beat is None:
            self.first_beat = self.started = self.cycle
        if taken:
            self.queue.pop(0)
        assert int(dut.write_error.value) == int(response is not None and response[1] != OKAY)
        self.write_errors += int(dut.write_error.value)
        if published:
            # The frame is in memory, and memory has said so, before its head is anywhere.
            frame, urgent = self.frames.pop(0)
            self.was_full = False
            assert response == (ring.slot_address(), OKAY)
            assert self.memory.bytes[ring.slot_address()] == frame
            assert int(dut.published_urgent.value) == urgent
            assert ring.store(frame)
            self.latencies.append(self.cycle - self.first_beat)
            self.first_beat = None
        else:
            assert not int(dut.published_urgent.value)
        if COPY in self.memory.bytes:
            copy = int.from_bytes(self.memory.bytes[COPY][:4], "little")
            assert (ring.head - copy) % 2**32 < 2**31, "memory's head is ahead of the frames"
        self.was_full &= bool(self.frames)
        self.was_full |= offer and (full or self.full_before)  # that there is room again is known a clock later
        self.full_before = full
        if lost_now:
            failed = response is not None and response[0] != COPY and response[1] != OKAY
            closed = not (int(dut.enable.value) and int(dut.alive.value)) or int(dut.quiesce.value)
            faulty = int(dut.window_fault.value) or int(dut.timeout.value)
            faulty = faulty or self.cycle - self.started >= TIMEOUT_CYCLES
            assert failed or self.was_full or closed or faulty, "lost for no reason"
            self.full_drops += not failed
            self.was_full = False
            self.frames.pop(0)
            self.first_beat = None
            self.lost += 1
        if self.tail is not None:
            # What the host may read was published before this clock.
            head_now, ring.head = ring.head, int(dut.head.value)
            accepted = ring.read_up_to(self.tail)
            ring.head = head_now
            assert int(dut.bad_tail.value) == (not accepted)
            self.bad_tails += not accepted
        else:
            assert not int(dut.bad_tail.value)

    async def run(self, cycles):
        for _ in range(cycles):
            await self.step()

    async def settle(self):
        """Until every frame that was fed has met its fate and nothing is outstanding."""
        for _ in range(2000):
            await self.step()
            if not self.queue and not self.frames and int(self.dut.idle.value):
                break
        else:
            raise AssertionError("frames are left over")
        await self.step()
        if not int(self.dut.timeout.value):
            assert self.memory.bytes == self.ring.memory


async def random_traffic(dut, seed, *, skip):
    bench = Harness(dut, seed)
    await bench.start()
    rng, memory = bench.rng, bench.memory
    bench.skip = skip
    for idle, stall, errors in [(0.0, 0.0, 0.0), (0.3, 0.3, 0.0), (0.1, 0.7, 0.3), (0.7, 0.1, 0.3)]:
        bench.idle, memory.stall = idle, stall
        memory.answer = lambda address, p=errors: (
            rng.choice([SLVERR, DECERR]) if address != COPY and rng.random() < p else OKAY
        )
        memory.answer_after = lambda: rng.randint(0, 24)
        for _ in range(20):
            # Like the framer, feed where there is room; at times, where there is not.
            if int(dut.free.value) or rng.random() < 0.7:
                bench.feed(urgent=rng.random() < 0.3)
            for _ in range(rng.randint(1, 60)):
                await bench.step()
                if rng.random() < 0.015:
                    bench.tail = (bench.ring.tail + rng.randint(0, bench.ring.used)) % 2**32
        bench.tail = bench.ring.head
        await bench.settle()
    ring = bench.ring
    wrapped = (ring.head - int(dut.HEAD_RESET.value)) % 2**32
    assert wrapped > 3 * SLOTS and bench.full_drops >= 3 and bench.write_errors >= 3
    assert not int(dut.timeout.value) and not int(dut.window_fault.value)
    if skip:
        assert bench.clocks < bench.cycle
        print(f"ring_writer: clocked {bench.clocks} of {bench.cycle} cycles with idle skip")


@cocotb.test()
async def random_frames_and_stalls(dut):
    await random_traffic(dut, 1, skip=False)


@cocotb.test()
async def random_frames_with_idle_skip(dut):
    await random_traffic(dut, 2, skip=True)


@cocotb.test()
async def latency(dut):
    bench = Harness(dut, 3)
    await bench.start()
    bench.memory.answer_after = lambda: 24
    for _ in range(3):
        bench.feed()
        await bench.settle()
    worst = max(bench.latencies)
    print(f"ring_writer: {worst} cycles from a frame's first beat to its head, memory answering in 24")
    assert worst <= 100 - 16  # what the framer's own budget leaves


@cocotb.test()
async def a_full_ring_drops_whole_frames(dut):
    bench = Harness(dut, 4)
    await bench.start()
    for _ in range(SLOTS + 3):
        bench.feed()
        await bench.settle()
    assert bench.lost == 3
    assert bench.memory.bursts.count(COPY) == SLOTS
    bench.tail = bench.ring.tail + 2
    await bench.step()
    for _ in range(3):
        bench.feed()
        await bench.settle()
    assert bench.lost == 4
    assert bench.ring.used == SLOTS


@cocotb.test()
async def impossible_tails_are_ignored(dut):
    bench = Harness(dut, 5)
    await bench.start()
    for _ in range(3):
        bench.feed()
        await bench.settle()
    bench.tail = bench.ring.tail + 1
    await bench.step()
    start = bench.ring.tail
    for wrong in (start - 1, start + 3, start + SLOTS, start + 2**31, start - 2**31 + 1, start - SLOTS):
        bench.tail = wrong % 2**32
        await bench.step()
    await bench.step()
    assert bench.bad_tails == 6
    assert int(dut.tail.value) == start
    bench.tail = bench.ring.head
    await bench.step()
    await bench.step()
    assert int(dut.tail.value) == int(dut.head.value)


@cocotb.test()
async def a_window_that_does_not_fit_is_refused(dut):
    bench = Harness(dut, 6)
    await bench.start()
    for base, size in [
        (BASE, WINDOW - 1),
        (BASE, 0),
        (BASE + 0x100, WINDOW),
        (BASE + 0x8000, 2**32 - 1),
        (1 << ADDR_W, WINDOW),
        (BASE | 1 << 63, WINDOW),
    ]:
        dut.base.value, dut.size.value = base, size
        await bench.run(2)
        bench.feed()
        await bench.settle()
        assert int(dut.window_fault.value) and not int(dut.free.value)
    assert bench.lost == 6 and bench.memory.bursts == []
    dut.enable.value = 0
    await bench.step()
    assert not int(dut.window_fault.value)
    dut.enable.value, dut.base.value, dut.size.value = 1, BASE, WINDOW
    await bench.run(2)
    bench.feed()
    await bench.settle()
    assert bench.lost == 6 and not int(dut.window_fault.value)


@cocotb.test()
async def an_error_response_publishes_nothing(dut):
    bench = Harness(dut, 7)
    await bench.start()
    bench.memory.answer = lambda address: SLVERR
    bench.feed(urgent=True)
    await bench.settle()
    assert (bench.lost, bench.write_errors) == (1, 1)
    assert bench.memory.bursts == [bench.ring.slot_address()]
    bench.memory.answer = lambda address: OKAY
    bench.feed()
    await bench.settle()
    assert bench.memory.bursts == [bench.memory.bursts[0]] * 2 + [COPY]


@cocotb.test()
async def an_error_of_the_copy_loses_no_frame(dut):
    bench = Harness(dut, 8)
    await bench.start()
    bench.memory.answer = lambda address: SLVERR if address == COPY else OKAY
    bench.feed()
    while not bench.write_errors:
        await bench.step()
    assert bench.lost == 0 and bench.ring.used == 1
    bench.memory.answer = lambda address: OKAY
    bench.feed()
    await bench.settle()


@cocotb.test()
async def an_offered_copy_stays_as_it_is_when_the_boot_identity_is_written(dut):
    bench = Harness(dut, 9)
    await bench.start()
    bench.feed()
    while bench.ring.used == 0:
        await bench.step()
    bench.memory.silent = {"w"}
    while not int(dut.m_axi_wvalid.value):
        await bench.step()
    for boot_id in (1, 2, 3):
        await bench.step()
        dut.boot_id.value = boot_id
    bench.memory.silent = set()
    await bench.settle()
    assert bench.memory.bytes[COPY][4:] == BOOT_ID.to_bytes(4, "little")


@cocotb.test()
async def a_silent_memory_is_given_up(dut):
    for seed, (channel, copy_only) in enumerate(
        [("aw", False), ("w", False), ("b", False), ("aw", True), ("w", True), ("b", True)]
    ):
        bench = Harness(dut, 9 + seed)
        await bench.start()
        bench.feed()
        if copy_only:
            while bench.ring.used == 0:
                await bench.step()
        bench.memory.silent = {channel}
        waited = 0
        while int(dut.idle.value):
            await bench.step()
        if copy_only:
            await bench.step()
        while not int(dut.timeout.value):
            await bench.step()
            waited += 1
            assert waited <= TIMEOUT_CYCLES
        assert waited >= TIMEOUT_CYCLES - 2
        assert bench.lost == int(not copy_only)
        assert not int(dut.free.value) and not int(dut.idle.value)
        await bench.run(5)
        assert not int(dut.busy.value), "waiting for ever is not work"
        # A late answer ends the transaction and changes nothing else; what comes after is dropped.
        bench.memory.silent = set()
        bursts = len(bench.memory.bursts) + int(channel == "aw")
        bench.feed()
        await bench.settle()
        await bench.run(50)
        assert len(bench.memory.bursts) == bursts, "a new burst after the time-out"
        assert bench.lost == 1 + int(not copy_only)
        assert bench.ring.used == int(copy_only)
        assert int(dut.idle.value) and int(dut.timeout.value)


@cocotb.test()
async def quiesce_ends_in_idle_with_nothing_outstanding(dut):
    for seed in range(25):
        bench = Harness(dut, 100 + seed)
        await bench.start()
        bench.memory.stall = 0.3
        bench.memory.answer_after = lambda b=bench: b.rng.randint(0, 24)
        bench.feed()
        await bench.run(1 + 3 * seed)
        dut.quiesce.value = 1
        await bench.step()
        assert not int(dut.free.value)
        for _ in range(300):
            if int(dut.idle.value):
                break
            await bench.step()
        assert int(dut.idle.value)
        bursts = len(bench.memory.bursts)
        assert bursts in (0, 2), "a frame and its copy belong together"
        bench.feed()
        await bench.run(100)
        assert int(dut.idle.value) and len(bench.memory.bursts) == bursts
        dut.quiesce.value = 0
        await bench.step()
        bench.feed()
        await bench.settle()
        assert len(bench.memory.bursts) == bursts + 2


@cocotb.test()
async def nothing_is_written_for_a_dead_host_or_when_disabled(dut):
    for port in ("alive", "enable"):
        bench = Harness(dut, 200)
        await bench.start(**{port: 0})
        bench.feed()
        await bench.settle()
        assert bench.lost == 1 and bench.memory.bursts == [] and int(dut.idle.value)
        getattr(dut, port).value = 1
        await bench.step()
        bench.feed()
        await bench.settle()
        assert bench.lost == 1 and len(bench.memory.bursts) == 2


PARAMETERS = {"SLOTS": SLOTS, "ADDR_W": ADDR_W, "TIMEOUT_CYCLES": TIMEOUT_CYCLES}


@pytest.mark.parametrize("head", [0, 2**32 - 6], ids=["from zero", "across the wrap of the head"])
def test_frames_are_in_memory_before_their_head_and_faults_write_nothing(simulator, head):
    simulate(simulator, "ring_writer", ["ring_writer.sv"], __name__, parameters={**PARAMETERS, "HEAD_RESET": head})


def test_slots_that_are_not_a_power_of_two_are_refused_with_a_sentence(simulator, capfd):
    with pytest.raises((RuntimeError, SystemExit)):
        simulate(simulator, "ring_writer", ["ring_writer.sv"], __name__, parameters={**PARAMETERS, "SLOTS": 6})
    output = capfd.readouterr()
    assert "SLOTS must be a power of two" in output.out + output.err
