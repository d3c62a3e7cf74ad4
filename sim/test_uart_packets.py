"""COBS, CRC and delimiters of the serial line in RTL, against the host's own codec (voxpath.link.uart)."""

import random
import zlib

import cocotb
import pytest
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, ReadOnly

from bench import simulate
from voxpath.link import uart

SOURCES = ["crc32.sv", "cobs_encode.sv", "cobs_decode.sv", "uart_packet_tx.sv", "uart_packet_rx.sv"]
# What the encoder may add to the bytes themselves: from a block's last byte to its code, its code, its closing.
ENCODE_BUDGET = 2
PACKET_BUDGET = 8  # from a packet's last byte to its CRC's last byte at the encoder
LONGEST = 261


async def start(dut, *inputs):
    Clock(dut.clk, 10, unit="ns").start()
    for name in ("rst", *inputs):
        getattr(dut, name).value = 0
    dut.rst.value = 1
    for _ in range(3):
        await FallingEdge(dut.clk)
    dut.rst.value = 0


async def stream(dut, packets, rng, *, idle, pressure, has_last, limit=200_000):
    """Feeds whole packets to s_axis and collects m_axis until it rests; checks that offers hold.

    Returns (bytes out, with their clocks; the clock in which each packet's last byte was taken).
    """
    queue = [(byte, index == len(packet) - 1) for packet in packets for index, byte in enumerate(packet)]
    out, ends, offered, held, rest = [], [], False, None, 0
    for clock in range(limit):
        await FallingEdge(dut.clk)
        if not offered and queue and rng.random() >= idle:
            offered = True
            dut.s_axis_tdata.value, dut.s_axis_tlast.value = queue[0]
        dut.s_axis_tvalid.value = int(offered)
        dut.m_axis_tready.value = int(rng.random() >= pressure)
        await ReadOnly()
        valid = int(dut.m_axis_tvalid.value)
        beat = (int(dut.m_axis_tdata.value), int(dut.m_axis_tlast.value) if has_last else 0) if valid else None
        assert held is None or beat == held, "an offer changed or was taken back"
        held = beat if valid and not int(dut.m_axis_tready.value) else None
        if valid and held is None:
            out.append((*beat, clock))
        if offered and int(dut.s_axis_tready.value):
            offered = False
            if queue.pop(0)[1]:
                ends.append(clock)
        rest = 0 if queue or valid or offered else rest + 1
        if rest > 20:
            return out, ends
    raise AssertionError("the stream does not end")


def some_bytes(rng, length):
    """With many, few, no or only zeros."""
    zeros = rng.choice([0.0, 0.01, 0.3, 1.0])
    return bytes(0 if rng.random() < zeros else rng.randint(1, 255) for _ in range(length))


def edge_packets(rng):
    """Around the longest block, with a zero in every place that matters, and random ones."""
    full = bytes(rng.randint(1, 255) for _ in range(520))
    packets = [b"\0", b"\x01", b"\0\0", b"\x01\0", b"\0\x01"]
    for length in (253, 254, 255, 507, 508, 509):
        packets.append(full[:length])
        for zero in (0, length - 2, length - 1):
            packets.append(full[:zero] + b"\0" + full[zero + 1 : length])
    packets += [some_bytes(rng, rng.randint(1, 300)) for _ in range(25)]
    rng.shuffle(packets)
    return packets


# ---- cobs_encode -----------------------------------------------------------------------------------------------------


@cocotb.test()
async def encode_matches_the_codec(dut):
    await start(dut, "s_axis_tdata", "s_axis_tvalid", "s_axis_tlast", "m_axis_tready")
    rng = random.Random(1)
    for idle, pressure in ((0.0, 0.0), (0.5, 0.0), (0.0, 0.6), (0.4, 0.4)):
        packets = edge_packets(rng)
        out, _ = await stream(dut, packets, rng, idle=idle, pressure=pressure, has_last=True)
        got, piece = [], bytearray()
        for byte, last, _ in out:
            piece.append(byte)
            if last:
                got.append(bytes(piece))
                piece.clear()
        assert not piece and got == [uart.cobs_encode(packet) for packet in packets]


@cocotb.test()
async def encode_latency(dut):
    await start(dut, "s_axis_tdata", "s_axis_tvalid", "s_axis_tlast", "m_axis_tready")
    worst = 0
    for length in (1, 20, 165, 254):
        out, ends = await stream(dut, [b"\x07" * length], random.Random(1), idle=0, pressure=0, has_last=True)
        worst = max(worst, out[0][2] - ends[0])
        assert out[-1][2] - out[0][2] == length, "a byte a clock"
    print(f"cobs_encode: {worst} cycles from a block's last byte to its code (budget {ENCODE_BUDGET})")
    assert worst <= ENCODE_BUDGET


# ---- cobs_decode -----------------------------------------------------------------------------------------------------


async def decode(dut, line, rng, idle, damaged=()):
    """Feeds the line's bytes; `damaged` are indices before which a byte was lost. Returns (bytes, bad) a packet."""
    packets, piece, index = [], bytearray(), 0
    lost = sorted(damaged)
    for _ in range(1_000_000):
        await FallingEdge(dut.clk)
        if int(dut.m_axis_tvalid.value):
            piece.append(int(dut.m_axis_tdata.value))
        if int(dut.done.value):
            packets.append((bytes(piece), bool(int(dut.bad.value))))
            piece.clear()
        dut.damaged.value = 0
        dut.s_axis_tvalid.value = 0
        if index == len(line) + 3:
            return packets
        if lost and lost[0] == index:
            dut.damaged.value = 1
            lost.pop(0)
        elif index >= len(line):
            index += 1
        elif rng.random() >= idle:
            dut.s_axis_tvalid.value, dut.s_axis_tdata.value = 1, line[index]
            index += 1
    raise AssertionError


def golden_decode(line):
    """What the codec makes of the pieces between delimiters: the bytes where they are a packet, None where not."""
    packets = []
    for piece in line.split(b"\0")[:-1]:
        if piece:
            try:
                packets.append(uart.cobs_decode(piece))
            except uart.PacketError:
                packets.append(None)
    return packets


@cocotb.test()
async def decode_matches_the_codec(dut):
    await start(dut, "s_axis_tdata", "s_axis_tvalid", "damaged")
    rng = random.Random(2)
    for idle in (0.0, 0.7):
        packets = edge_packets(rng)
        line = b"".join(b"\0" + uart.cobs_encode(packet) + b"\0" for packet in packets)
        assert await decode(dut, line, rng, idle) == [(packet, False) for packet in packets]


@cocotb.test()
async def decode_tells_garbage_from_packets_as_the_codec_does(dut):
    await start(dut, "s_axis_tdata", "s_axis_tvalid", "damaged")
    rng = random.Random(3)
    line = b""
    for _ in range(300):
        piece = some_bytes(rng, rng.randint(0, 40)) if rng.random() < 0.7 else uart.cobs_encode(some_bytes(rng, 30))
        line += bytes(min(byte, rng.choice([4, 255])) for byte in piece) + b"\0"
    golden = golden_decode(line)
    got = await decode(dut, line, rng, 0.1)
    assert len(got) == len(golden) and golden.count(None) > 50 and len(golden) - golden.count(None) > 50
    for (data, bad), expected in zip(got, golden, strict=True):
        assert bad == (expected is None)
        assert bad or data == expected


@cocotb.test()
async def decode_a_lost_byte_spoils_its_packet_and_no_other(dut):
    await start(dut, "s_axis_tdata", "s_axis_tvalid", "damaged")
    one = b"\0" + uart.cobs_encode(b"\x11\x22\0\x33") + b"\0"
    got = await decode(dut, one * 3, random.Random(4), 0.0, damaged=[len(one) + 3])
    assert [bad for _, bad in got] == [False, True, False]
    # Between packets it is something that was no packet; the next one is whole, thanks to its leading delimiter.
    got = await decode(dut, one * 2, random.Random(4), 0.0, damaged=[len(one)])
    assert got == [(b"\x11\x22\0\x33", False), (b"", True), (b"\x11\x22\0\x33", False)]


# ---- uart_packet_tx --------------------------------------------------------------------------------------------------


@cocotb.test()
async def packet_tx_matches_the_codec(dut):
    await start(dut, "s_axis_tdata", "s_axis_tvalid", "s_axis_tlast", "m_axis_tready")
    rng = random.Random(5)
    for idle, pressure in ((0.0, 0.0), (0.3, 0.9)):
        packets = [some_bytes(rng, rng.choice([1, 5, 160, 257, rng.randint(1, 300)])) for _ in range(25)]
        out, _ = await stream(dut, packets, rng, idle=idle, pressure=pressure, has_last=False)
        assert bytes(byte for byte, _, _ in out) == b"".join(uart.packet(data[0], data[1:]) for data in packets)


@cocotb.test()
async def packet_tx_latency(dut):
    await start(dut, "s_axis_tdata", "s_axis_tvalid", "s_axis_tlast", "m_axis_tready")
    out, ends = await stream(dut, [b"\x01" * 161], random.Random(1), idle=0, pressure=0, has_last=False)
    latency = out[1][2] - ends[0]
    print(f"uart_packet_tx: {latency} cycles from a packet's last byte to its first code (budget {PACKET_BUDGET})")
    assert latency <= PACKET_BUDGET
    assert out[0][2] == 0, "the delimiter does not wait for the packet"


# ---- uart_packet_rx --------------------------------------------------------------------------------------------------


class Receiver:
    """Feeds bytes and notes what comes of each packet, and the bytes of the good ones with their positions."""

    VERDICTS = ("good", "bad_cobs", "bad_length", "bad_crc")

    def __init__(self, dut, rng):
        self.dut, self.rng = dut, rng
        self.verdicts, self.good, self.latency = [], [], 0
        self._piece = []

    async def feed(self, line, idle=0.0):
        dut = self.dut
        for byte in [*line, None, None]:
            while byte is not None and self.rng.random() < idle:
                await self._clock()
            if byte is not None:
                dut.s_axis_tvalid.value, dut.s_axis_tdata.value = 1, byte
            await self._clock()
            dut.s_axis_tvalid.value = 0

    async def _clock(self):
        dut = self.dut
        await FallingEdge(dut.clk)
        if int(dut.m_axis_tvalid.value):
            self._piece.append((int(dut.position.value), int(dut.m_axis_tdata.value)))
        verdict = [name for name in self.VERDICTS if int(getattr(dut, name).value)]
        assert len(verdict) == int(dut.done.value), "one verdict a packet"
        if verdict:
            self.verdicts += verdict
            if verdict == ["good"]:
                assert int(dut.position.value) == len(self._piece)
                assert [at for at, _ in self._piece] == [*range(len(self._piece))]
                self.good.append(bytes(byte for _, byte in self._piece))
            self._piece = []


@cocotb.test()
async def packet_rx_whole_packets_come_through(dut):
    await start(dut, "s_axis_tdata", "s_axis_tvalid", "framing_error")
    rng = random.Random(6)
    receiver = Receiver(dut, rng)
    packets = [some_bytes(rng, rng.choice([1, 2, 257, rng.randint(1, 257)])) for _ in range(60)]
    for packet in packets:
        await receiver.feed(uart.packet(packet[0], packet[1:]), idle=rng.choice([0.0, 0.5]))
    assert receiver.verdicts == ["good"] * len(packets)
    assert [data[:-4] for data in receiver.good] == packets
    assert all(zlib.crc32(data[:-4]) == int.from_bytes(data[-4:], "little") for data in receiver.good)


@cocotb.test()
async def packet_rx_no_flipped_bit_and_no_garbage_passes(dut):
    await start(dut, "s_axis_tdata", "s_axis_tvalid", "framing_error")
    rng = random.Random(7)
    receiver = Receiver(dut, rng)
    sent = []
    for _ in range(150):
        body = some_bytes(rng, rng.randint(1, 60))
        packed = bytearray(uart.packet(5, body))
        packed[rng.randint(1, len(packed) - 2)] ^= 1 << rng.randrange(8)
        whole = some_bytes(rng, rng.randint(1, 60))
        sent.append(b"\x03" + whole)
        await receiver.feed(bytes(packed) + rng.randbytes(rng.randint(0, 30)) + uart.packet(3, whole))
    assert [data[:-4] for data in receiver.good] == sent
    assert {"bad_cobs", "bad_crc"} <= set(receiver.verdicts)


@cocotb.test()
async def packet_rx_says_why_a_packet_is_none(dut):
    await start(dut, "s_axis_tdata", "s_axis_tvalid", "framing_error")
    receiver = Receiver(dut, random.Random(8))

    async def verdict(line):
        before = len(receiver.verdicts)
        await receiver.feed(line)
        return receiver.verdicts[before:]

    assert await verdict(b"\0\0\0") == []
    assert await verdict(b"\x09\x01\0") == ["bad_cobs"]
    assert await verdict(b"\x01\0") == ["bad_length"], "no byte at all"
    assert await verdict(uart.cobs_encode(zlib.crc32(b"").to_bytes(4, "little")) + b"\0") == ["bad_length"], "no type"
    assert await verdict(uart.packet(1, bytes(LONGEST - 5))) == ["good"]
    assert await verdict(uart.packet(1, bytes(LONGEST - 4))) == ["bad_length"]
    assert await verdict(uart.packet(1, bytes(3000))) == ["bad_length"], "however long"
    assert await verdict(uart.cobs_encode(b"\x01\x02\x03\x04\x05") + b"\0") == ["bad_crc"]
    assert await verdict(uart.packet(1, b"")) == ["good"]
    dut.framing_error.value = 1
    await FallingEdge(dut.clk)
    dut.framing_error.value = 0
    assert await verdict(uart.packet(1, b"")) == ["bad_cobs", "good"]


CELLS = {
    "encode": "cobs_encode",
    "decode": "cobs_decode",
    "packet_tx": "uart_packet_tx",
    "packet_rx": "uart_packet_rx",
}


@pytest.mark.parametrize("cell", CELLS)
def test_packets_are_the_codecs(simulator, cell):
    env = {"COCOTB_TEST_FILTER": f"^(.*\\.)?{cell}_"}
    simulate(simulator, CELLS[cell], SOURCES, __name__, env=env)
