"""The host's end of the serial line in a bench, bit by bit, with the host's own codec (voxpath.link.uart)."""

import itertools
from collections import deque

import cocotb
from cocotb.triggers import Event, FallingEdge, Timer, with_timeout
from cocotb.utils import get_sim_time

from voxpath.link import uart

BREAK = "break"  # in the place of a byte: the line is low for three bytes


class SerialHost:
    """Talks to a design whose serial input is `rx` and whose output is `tx`; a bit lasts `bit_ns`.

    `received` holds the messages that are no replies, by their class; `take(message)` is called for each of them. `log`
    is everything received, as (class, ns of its first start bit, ns of its last stop bit's end). `said_at` is the
    middle of the stop bit of the last byte sent, in ns.
    """

    def __init__(self, rx, tx, bit_ns, take=lambda message: None):
        self._rx, self._tx, self.bit_ns, self._on_message = rx, tx, bit_ns, take
        self.decoder = uart.Decoder()
        self.received = {kind: [] for kind in (uart.Captured, uart.Credit, uart.Time, uart.Event)}
        self.log = []
        self.said_at = 0
        self._line = deque()
        self._speak = Event()
        self._tags = itertools.cycle(range(255))
        self._replies = {}
        rx.value = 1

    def start(self):
        cocotb.start_soon(self._send())
        cocotb.start_soon(self._listen())

    def say(self, data):
        """Sends bytes, or [BREAK]; does not wait."""
        self._line.extend(data)
        self._speak.set()

    @property
    def silent(self):
        """All was sent, but for the byte that is on the line."""
        return not self._line

    async def request(self, message):
        """Sends a read or a write and waits for its reply."""
        return await self.ask(message).get()

    def ask(self, message):
        """Sends a read or a write; `get` of the result waits for the reply."""
        self._replies[message.tag] = answer = Answer()
        self.say(message.pack())
        return answer

    async def read(self, address, count=1):
        reply = await self.request(uart.Read(next(self._tags), address, count))
        assert (reply.status, reply.address, len(reply.values)) == (uart.DONE, address, count)
        return reply.values if count > 1 else reply.values[0]

    async def write(self, address, *values):
        reply = await self.request(uart.Write(next(self._tags), address, values))
        assert reply == uart.Reply(reply.tag, uart.DONE, address)

    async def link_counts(self):
        """The link's own registers by their addresses."""
        words = (*await self.read(uart.LINK_ID, 8), *await self.read(uart.LINK_UNKNOWN, 8))
        return {uart.LINK_ID + 4 * index: word for index, word in enumerate(words)}

    async def _send(self):
        rx, bit = self._rx, self.bit_ns
        while True:
            while not self._line:
                self._speak.clear()
                await self._speak.wait()
            byte = self._line.popleft()
            if byte == BREAK:
                rx.value = 0
                await Timer(30 * bit, "ns")
                rx.value = 1
                await Timer(2 * bit, "ns")
                continue
            # Only edges need the simulator: a run of equal bits is one wait.
            for level, run in itertools.groupby([0, *(byte >> i & 1 for i in range(8))]):
                rx.value = level
                await Timer(bit * len(list(run)), "ns")
            rx.value = 1
            self.said_at = get_sim_time("ns") + bit / 2
            await Timer(bit, "ns")

    async def _listen(self):
        tx, bit = self._tx, self.bit_ns
        begin = None
        while True:
            await FallingEdge(tx)
            at = get_sim_time("ns")
            await Timer(bit * 3 // 2, "ns")
            byte = 0
            for index in range(8):
                byte |= int(tx.value) << index
                await Timer(bit, "ns")
            assert int(tx.value) == 1, "a stop bit"
            if byte == 0 and begin is None:
                begin = at
            for message in self.decoder.feed(bytes([byte])):
                self.log.append((type(message), begin, at + 10 * bit))
                self._take(message)
                begin = None

    def _take(self, message):
        if isinstance(message, uart.Reply):
            if message.tag in self._replies:
                self._replies.pop(message.tag).set(message)
        else:
            self.received[type(message)].append(message)
            self._on_message(message)


class Answer:
    """A reply that may not have come yet."""

    def __init__(self):
        self._event, self._value = Event(), None

    def set(self, value):
        self._value = value
        self._event.set()

    @property
    def here(self):
        return self._event.is_set()

    async def get(self):
        await with_timeout(self._event.wait(), 50, "ms")
        return self._value
