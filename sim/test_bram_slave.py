"""bram_slave against two byte arrays: bursts, strobes, what lies outside, and both sides at once."""

import random

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

from bench import simulate

CAPTURE_SLOTS, PLAY_SLOTS = 4, 8
CAPTURE_BYTES = CAPTURE_SLOTS * 256 + 16
PLAY_BASE, PLAY_BYTES = 0x1_0000, PLAY_SLOTS * 256
OKAY, SLVERR, DECERR = 0, 2, 3
INCR, FIXED, WRAP = 1, 0, 2
# From a burst's last beat to its response, and from a read's address to its first beat.
WRITE_BUDGET = READ_BUDGET = 2


class Bench:
    """Clocks the design; `write` and `read` are bursts with random stalls, `capture` and `play` what memory holds."""

    def __init__(self, dut, seed):
        self.dut, self.rng = dut, random.Random(seed)
        self.capture, self.play = bytearray(CAPTURE_BYTES), bytearray(PLAY_BYTES)
        self.stall = 0.0
        self.clock = 0
        self.write_latency, self.read_latency = [], []

    async def start(self):
        dut = self.dut
        Clock(dut.clk, 10, unit="ns").start()
        for name in ("awvalid", "wvalid", "bready", "arvalid", "rready"):
            getattr(dut, f"s_axi_{name}").value = 0
        for name in ("capture_address", "play_write", "play_address", "play_data"):
            getattr(dut, name).value = 0
        dut.rst.value = 1
        for _ in range(3):
            await FallingEdge(dut.clk)
        dut.rst.value = 0
        # Memories start with anything; what is compared has to be written first.
        for row in range(0, CAPTURE_BYTES, 160):
            beats = min(10, (CAPTURE_BYTES - row) // 16)
            assert await self.write(row, [(0, 0xFFFF)] * beats) == OKAY
        for at in range(PLAY_BYTES):
            await self.put(at, 0)

    async def tick(self):
        await FallingEdge(self.dut.clk)
        self.clock += 1

    async def handshake(self, name, outgoing, **values):
        """Moves one beat over a channel: `outgoing` drives valid and the values, else ready; returns what came."""
        dut = self.dut
        port = lambda signal: getattr(dut, f"s_axi_{name}{signal}")  # noqa: E731
        while self.rng.random() < self.stall:
            await self.tick()
        for signal, value in values.items():
            getattr(dut, f"s_axi_{name}{signal}").value = value
        mine, theirs = ("valid", "ready") if outgoing else ("ready", "valid")
        port(mine).value = 1
        await ReadOnly()
        while not int(port(theirs).value):
            await self.tick()
            await ReadOnly()
        answers = {"b": ["resp"], "r": ["data", "resp", "last"]}.get(name, [])
        came = {signal: int(port(signal).value) for signal in answers}
        await self.tick()
        port(mine).value = 0
        return came

    async def write(self, address, beats, *, size=4, burst=INCR):
        """`beats` are (word, strobes); returns the response. The golden memory is the caller's to change."""
        await self.handshake("aw", True, addr=address, len=len(beats) - 1, size=size, burst=burst)
        for index, (word, strobes) in enumerate(beats):
            await self.handshake("w", True, data=word, strb=strobes, last=int(index == len(beats) - 1))
        begin = self.clock
        stall, self.stall = self.stall, 0.0
        came = await self.handshake("b", False)
        self.stall = stall
        self.write_latency.append(self.clock - begin)
        return came["resp"]

    async def read(self, address, beats, *, size=4, burst=INCR):
        """Returns (bytes, responses)."""
        await self.handshake("ar", True, addr=address, len=beats - 1, size=size, burst=burst)
        begin, data, responses = self.clock, b"", set()
        for index in range(beats):
            came = await self.handshake("r", False)
            if index == 0 and not self.stall:
                self.read_latency.append(self.clock - begin)
            data += came["data"].to_bytes(16, "little")
            responses.add(came["resp"])
            assert came["last"] == (index == beats - 1)
        return data, responses

    async def put(self, address, byte):
        """One byte from the link into the playback ring."""
        dut = self.dut
        dut.play_write.value, dut.play_address.value, dut.play_data.value = 1, address, byte
        await self.tick()
        dut.play_write.value = 0
        self.play[address] = byte

    async def check_capture(self):
        """Reads the whole capture ring through the link's port, a byte a clock."""
        dut, got = self.dut, bytearray()
        for address in [*range(CAPTURE_BYTES), 0]:
            dut.capture_address.value = address
            await self.tick()  # the clock that takes the address; the byte comes with the next one
            got.append(int(dut.capture_data.value))
        assert got[1:] == self.capture

    async def check_play(self):
        for slot in range(PLAY_SLOTS):
            data, responses = await self.read(PLAY_BASE + 256 * slot, 16)
            assert (data, responses) == (bytes(self.play[256 * slot : 256 * slot + 256]), {OKAY})


@cocotb.test()
async def bursts_and_strobes(dut):
    bench = Bench(dut, 1)
    await bench.start()
    rng = bench.rng
    for bench.stall in (0.0, 0.5):
        for _ in range(60):
            beats = rng.randint(1, 16)
            row = rng.randint(0, CAPTURE_BYTES // 16 - beats)
            words = [(rng.getrandbits(128), rng.choice([0xFFFF, rng.getrandbits(16)])) for _ in range(beats)]
            assert await bench.write(16 * row, words) == OKAY
            for index, (word, strobes) in enumerate(words):
                for lane in range(16):
                    if strobes >> lane & 1:
                        bench.capture[16 * (row + index) + lane] = word >> 8 * lane & 0xFF
            for _ in range(20):
                await bench.put(rng.randrange(PLAY_BYTES), rng.getrandbits(8))
            beats = rng.randint(1, 16)
            at = 16 * rng.randint(0, PLAY_BYTES // 16 - beats)
            data, responses = await bench.read(PLAY_BASE + at, beats)
            assert (data, responses) == (bytes(bench.play[at : at + 16 * beats]), {OKAY})
        await bench.check_capture()
        await bench.check_play()
    worst = max(bench.write_latency), max(bench.read_latency)
    print(f"bram_slave: {worst[0]} cycles from a burst's last beat to its response (budget {WRITE_BUDGET})")
    print(f"bram_slave: {worst[1]} cycles from a read's address to its first beat (budget {READ_BUDGET})")
    assert worst[0] <= WRITE_BUDGET and worst[1] <= READ_BUDGET


@cocotb.test()
async def both_sides_at_once(dut):
    """A frame is written while a slot is read, and a slot is filled while frames are read."""
    bench = Bench(dut, 2)
    await bench.start()
    bench.stall = 0.3
    rng = bench.rng
    frames = [[(rng.getrandbits(128), 0xFFFF) for _ in range(10)] for _ in range(CAPTURE_SLOTS)]
    for at in range(PLAY_BYTES):
        await bench.put(at, rng.getrandbits(8))
    reading = cocotb.start_soon(bench.check_play())
    for slot, frame in enumerate(frames):
        assert await bench.write(256 * slot, frame) == OKAY
        data = b"".join(word.to_bytes(16, "little") for word, _ in frame)
        bench.capture[256 * slot : 256 * slot + 160] = data
    await reading
    await bench.check_capture()


@cocotb.test()
async def what_lies_outside_is_refused_and_changes_nothing(dut):
    bench = Bench(dut, 3)
    await bench.start()
    rng = bench.rng
    word = (rng.getrandbits(128), 0xFFFF)
    assert await bench.write(CAPTURE_BYTES - 16, [word]) == OKAY, "the copy of the head"
    bench.capture[-16:] = word[0].to_bytes(16, "little")
    for bench.stall in (0.0, 0.5):
        for address, beats in (
            (CAPTURE_BYTES, 1),
            (CAPTURE_BYTES - 16, 2),  # begins inside
            (0x8000, 4),
            (PLAY_BASE, 1),  # the playback ring is not the front end's to write
            (0x2_0000, 1),
            (0x8000_0000, 10),
        ):
            assert await bench.write(address, [word] * beats) == DECERR, hex(address)
        for address, beats in ((PLAY_BASE + PLAY_BYTES, 1), (PLAY_BASE + PLAY_BYTES - 16, 2), (0, 16), (0x3_0000, 3)):
            data, responses = await bench.read(address, beats)
            assert (data, responses) == (bytes(16 * beats), {DECERR}), hex(address)
        for size, burst in ((4, FIXED), (4, WRAP), (2, INCR)):
            assert await bench.write(0, [word, word], size=size, burst=burst) == SLVERR
            assert (await bench.read(PLAY_BASE, 2, size=size, burst=burst))[1] == {SLVERR}
    await bench.check_capture()
    await bench.check_play()


def test_memory_holds_what_was_written_inside_the_rings_and_refuses_the_rest(simulator):
    parameters = {"CAPTURE_SLOTS": CAPTURE_SLOTS, "PLAY_SLOTS": PLAY_SLOTS}
    simulate(simulator, "bram_slave", ["bram_slave.sv"], __name__, parameters=parameters)


def test_slots_that_are_no_power_of_two_are_refused_with_a_sentence(simulator, capfd):
    with pytest.raises((RuntimeError, SystemExit)):
        simulate(simulator, "bram_slave", ["bram_slave.sv"], __name__, parameters={"CAPTURE_SLOTS": 6})
    output = capfd.readouterr()
    assert "CAPTURE_SLOTS must be a power of two" in output.out + output.err
