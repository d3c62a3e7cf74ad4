"""uart_link, bram_slave and the whole front end on a serial line, bit by bit; the host's side is voxpath.link.uart.

The samples come three times as fast for the clock as on a board, so the line is loaded three times as much.
"""

import random
import struct
from collections import deque

import cocotb
import numpy as np
from cocotb.clock import Clock
from cocotb.triggers import FallingEdge, RisingEdge, Timer
from cocotb.utils import get_sim_time

import register_block
from bench import ROOT, RTL, simulate
from golden import playback
from serial_host import BREAK, SerialHost
from voxpath.boards import registers
from voxpath.link import frame, uart
from voxpath.link.tracker import SequenceTracker

CLK_HZ = 50_000_000
CLOCK_NS = 1_000_000_000 // CLK_HZ
TICK_CYCLES = 320  # 1,042 on a board; a slot of 24 kHz then takes the line for 86 % of the time that it plays
FASTEST_TICK = 256
FRAME_TICKS = 192
CAPTURE_SLOTS, PLAY_SLOTS = 16, 32
FILTERS = ROOT / "fpga" / "filters"
DELAY_INTERP = 583_333
# Cycles in which the line is idle inside the packet of a frame.
GAP_BUDGET = 300
# From a request's last byte to its reply's first, on a line with nothing else to do.
REPLY_BUDGET = 100


class Host(SerialHost):
    """The host with a heartbeat, and the converters' ticks. Frames are held against what memory had of them."""

    def __init__(self, dut, *, tick_cycles=TICK_CYCLES, seed=1):
        super().__init__(dut.rx, dut.tx, round(CLK_HZ / int(dut.BAUD.value)) * CLOCK_NS, self._check)
        self.dut = dut
        self.tick_cycles = tick_cycles
        self.rng = random.Random(seed)
        self.written = deque()  # frames that the front end has written, as memory held them then
        self.frames = []  # received
        self.heard = []  # samples to the DAC
        self.ticks = 0
        self.beating = True

    async def begin(self, *, enable=True):
        dut = self.dut
        Clock(dut.clk, CLOCK_NS, unit="ns").start()
        for name in ("s_axis_adc_tvalid", "s_axis_adc_tdata", "adc_error", "dac_underrun"):
            getattr(dut, name).value = 0
        dut.rst.value = 1
        for _ in range(5):
            await FallingEdge(dut.clk)
        dut.rst.value = 0
        for coroutine in (self._ticks, self._watch_memory, self._watch_dac, self._beat):
            cocotb.start_soon(coroutine())
        # The two ends' bits begin anywhere in a clock.
        await Timer(10 * self.bit_ns + 7, "ns")
        self.start()
        if enable:
            await self.write(registers.HEARTBEAT, 1)
            await self.write(registers.CONTROL, registers.CONTROL__CAPTURE_ENABLE | registers.CONTROL__PLAYBACK_ENABLE)

    async def _ticks(self):
        dut, rng = self.dut, random.Random(7)
        while True:
            await Timer((self.tick_cycles - 1) * CLOCK_NS, "ns")
            dut.s_axis_adc_tdata.value = rng.getrandbits(48)
            dut.s_axis_adc_tvalid.value = 1
            await Timer(CLOCK_NS, "ns")
            dut.s_axis_adc_tvalid.value = 0
            self.ticks += 1

    async def wait_ticks(self, count):
        await Timer(count * self.tick_cycles * CLOCK_NS, "ns")

    async def wait_frames(self, count):
        most = self.ticks + 400 * count + 4000
        while len(self.frames) < count:
            assert self.ticks < most, f"{len(self.frames)} of {count} frames came"
            await self.wait_ticks(FRAME_TICKS // 4)

    async def _beat(self):
        while True:
            await self.wait_ticks(2000)
            if self.beating:
                self.say(uart.Write(255, registers.HEARTBEAT, (1,)).pack())

    async def _watch_memory(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.frontend.published)
            slot = int(dut.frontend.ring_head.value) % CAPTURE_SLOTS
            rows = [int(dut.memory.capture[16 * slot + row].value) for row in range(10)]
            self.written.append(b"".join(row.to_bytes(16, "little") for row in rows))

    async def _watch_dac(self):
        dut = self.dut
        while True:
            await RisingEdge(dut.m_axis_dac_tvalid)
            self.heard.append(dut.m_axis_dac_tdata.value.to_signed())

    def _check(self, message):
        if isinstance(message, uart.Captured):
            assert message.data == self.written.popleft(), "not what the front end wrote"
            (parsed,) = frame.parse(message.data)
            self.frames.append(parsed)

    def tracked(self):
        tracker = SequenceTracker()
        for one in self.frames:
            tracker.accept(one)
        return tracker


# ---- registers -------------------------------------------------------------------------------------------------------


@cocotb.test()
async def registers_are_read_and_written(dut):
    host = Host(dut)
    await host.begin(enable=False)
    assert await host.read(registers.ID) == 0x56585046
    assert await host.read(registers.RING_SLOTS) == CAPTURE_SLOTS
    # The rings are laid before the host says anything.
    assert await host.read(registers.RING_BASE, 3) == (0, 0, CAPTURE_SLOTS * 256 + 16)
    assert await host.read(registers.PLAY_BASE, 3) == (0x1_0000, 0, PLAY_SLOTS * 256)
    assert await host.read(registers.CONTROL) & 3 == 0 and await host.read(registers.FAULTS) == 0
    await host.write(registers.BOOT_ID, 0xB007_1D)
    await host.write(
        registers.DELAY_ADC,
        111,
    )
    await host.write(registers.DELAY_DAC, 2**32 - 1)
    assert await host.read(registers.BOOT_ID) == 0xB007_1D
    assert await host.read(registers.DELAY_ADC) == 111 and await host.read(registers.DELAY_DAC) == 2**32 - 1
    # Eight words are the most; what lies between registers reads as zero.
    words = await host.read(registers.VAD_ONSET_MARGIN, 8)
    assert words[0] == await host.read(registers.VAD_ONSET_MARGIN)
    # Both halves of a wide register at once.
    await host.write(registers.CLOCK_STEP, 5_000_000_000 & 0xFFFFFFFF, 5_000_000_000 >> 32)
    low, high = await host.read(registers.TIME_NS, 2)
    assert 5_000_000_000 < (low | high << 32) < 5_100_000_000
    assert await host.read(registers.CLOCK_EPOCH) == 1


@cocotb.test()
async def registers_that_are_the_links_or_nobodys_are_refused(dut):
    host = Host(dut)
    await host.begin(enable=False)
    before = await host.read(registers.RING_BASE, 3), await host.read(registers.PLAY_BASE, 3)
    refused = [
        uart.Write(1, address, (7,))
        for address in (
            *(registers.RING_BASE, registers.RING_BASE + 4, registers.RING_SIZE, registers.RING_TAIL),
            *(
                registers.PLAY_BASE,
                registers.PLAY_BASE + 4,
                registers.PLAY_SIZE,
                registers.PLAY_HEAD,
                registers.EVENT_POP,
            ),
            *(2, 0x200, 0x7FFC, uart.LINK_ID, uart.LINK_CYCLES + 4, 0xFFFC),
        )
    ]
    refused += [uart.Write(1, registers.RING_BASE, (7, 7)), uart.Write(1, registers.RING_TAIL - 4, (0, 7))]
    refused += [uart.Read(1, 1), uart.Read(1, 0x1FC, 2), uart.Read(1, 0x200), uart.Read(1, 0x7FFC, 2)]
    refused += [uart.Read(1, uart.LINK_CYCLES, 2), uart.Read(1, 0xFFFC), uart.Read(1, 0xFFF8, 8)]
    for message in refused:
        assert await host.request(message) == uart.Reply(1, uart.REFUSED, message.address), message
    assert before == (await host.read(registers.RING_BASE, 3), await host.read(registers.PLAY_BASE, 3))
    assert await host.read(registers.RING_TAIL) == 0 and await host.read(registers.PLAY_HEAD) == 0


@cocotb.test()
async def replies_come_in_order_and_soon(dut):
    host = Host(dut)
    await host.begin(enable=False)
    answers = []
    for tag in range(40):
        message = uart.Read(tag, registers.TIME_NS) if tag % 3 else uart.Write(tag, registers.DELAY_ADC, (tag,))
        answers.append(host.ask(message))
    for tag, answer in enumerate(answers):
        assert (await answer.get()).tag == tag
        assert not any(later.here for later in answers[tag + 1 :]), "in order"
    await host.read(registers.ID)
    latency = (host.log[-1][1] - host.said_at) / CLOCK_NS
    print(
        f"uart_link: {latency:.0f} cycles from a read's last stop bit to its reply's start bit (budget {REPLY_BUDGET})"
    )
    assert latency <= REPLY_BUDGET


@cocotb.test()
async def the_links_own_registers_say_what_it_is(dut):
    host = Host(dut)
    await host.begin(enable=False)
    counts = await host.link_counts()
    assert counts[uart.LINK_ID] == uart.LINK_ID_VALUE and counts[uart.LINK_VERSION] == 1
    assert counts[uart.LINK_CLK_HZ] == CLK_HZ and counts[uart.LINK_CYCLES_PER_BIT] == 25
    assert counts[uart.LINK_PACKETS] == 1, "the read itself"
    assert sum(counts[word] for word in range(uart.LINK_BAD_COBS, uart.LINK_CYCLES, 4)) == 0


# ---- frames ----------------------------------------------------------------------------------------------------------


@cocotb.test()
async def frames_arrive_as_the_front_end_wrote_them(dut):
    host = Host(dut)
    await host.begin()
    await host.wait_frames(CAPTURE_SLOTS + 4)
    tracker = host.tracked()
    assert (tracker.ring_lost, tracker.link_lost) == (0, 0)
    assert host.decoder.dropped == 0
    tail, head = await host.read(registers.RING_TAIL), await host.read(registers.RING_HEAD)
    assert tail >= CAPTURE_SLOTS + 4 and head - tail <= 1
    assert int(dut.alive.value) and not int(dut.fault.value)
    assert await host.read(registers.FAULTS) == 0
    waits = []
    spans = [(begin, end) for kind, begin, end in host.log if kind is uart.Captured]
    for begin, end in spans:
        waits.append((end - begin) / CLOCK_NS - 168 * 10 * 25)
    print(f"uart_link: {max(waits):.0f} idle cycles inside a frame's packet of 42,000 (budget {GAP_BUDGET})")
    # A block is collected, three clocks a byte, while the byte before it is on the line; one of 161 bytes takes longer.
    assert max(waits) <= GAP_BUDGET


@cocotb.test()
async def a_ring_that_overflows_loses_whole_frames_and_counts_them(dut):
    """One frame needs the line for longer than the next takes to come, from the first sample on."""
    host = Host(dut, tick_cycles=FASTEST_TICK)
    await host.begin()
    await host.wait_frames(40)
    tracker = host.tracked()
    assert tracker.ring_lost > 0 and tracker.link_lost == 0
    assert any(one.dropped for one in host.frames)
    span = host.frames[-1].sequence - host.frames[0].sequence + 1
    assert span == tracker.received + tracker.ring_lost
    # Frames do not starve what else is to be said.
    assert await host.read(registers.ID) == 0x56585046
    assert await host.read(registers.RING_LOST) >= tracker.ring_lost


# ---- playback --------------------------------------------------------------------------------------------------------


def tables():
    result = []
    for name in ("interpolate_16k_48k.hex", "interpolate_24k_48k.hex"):
        values = np.array([int(word, 16) for word in (FILTERS / name).read_text().split()])
        result.append(np.where(values >= 1 << 17, values - (1 << 18), values))
    return tuple(result)


def golden_dac(pcm, rate, ticks):
    """What is heard of a reply that never under-runs, from its first sample on."""
    golden = playback.Playback(tables(), delay_ns=DELAY_INTERP, low_water=0)
    slots = [
        playback.Slot(9, at, pcm[at : at + 120], rate=rate, first=at == 0, last=at + 120 >= len(pcm))
        for at in range(0, len(pcm), 120)
    ]
    golden.publish(slots)
    return [golden.tick(0) for _ in range(ticks)]


def trimmed(samples):
    """Without the zeros at both ends."""
    loud = np.flatnonzero(samples)
    return np.asarray(samples)[loud[0] : loud[-1] + 1]


async def play(host, sender, pcm, rate, spoil=lambda packet: packet):
    """Sends a reply as the credits allow; until its last event. Time is that of a board with this clock."""
    now = lambda: get_sim_time("ns") / 1e9  # noqa: E731
    for at in range(0, len(pcm), 120):
        sender.put(9, at, rate, pcm[at : at + 120], first=at == 0, last=at + 120 >= len(pcm))
    credits = host.received[uart.Credit]
    most = host.ticks + 3 * len(pcm) + 2000
    while not any(event.kind == 1 for event in host.received[uart.Event]):
        assert host.ticks < most, "the reply has no end"
        while credits:
            sender.credit(credits.pop(0), now())
        # A line that is busy is not given more, so that what is sent again is decided late.
        if host.silent:
            host.say(spoil(sender.take(now())))
        await Timer(5 * host.bit_ns, "ns")


@cocotb.test()
async def a_reply_is_played_by_credits_without_a_gap(dut):
    host = Host(dut)
    await host.begin()
    pcm = (6000 * np.random.default_rng(2).standard_normal(120 * 35 + 17)).clip(-32768, 32767).astype(np.int16)
    sender = uart.SlotSender(PLAY_SLOTS)
    await play(host, sender, pcm, 24_000)
    await host.wait_ticks(200)
    # low_water comes when little is left; an under-run never does.
    kinds = [event.kind for event in host.received[uart.Event]]
    assert [kind for kind in kinds if kind != 4] == [0, 1]
    first, last = (next(event for event in host.received[uart.Event] if event.kind == kind) for kind in (0, 1))
    assert (first.ticket, first.position, last.ticket, last.position) == (9, 0, 9, len(pcm))
    assert [event.number for event in host.received[uart.Event]] == [*range(len(kinds))]
    np.testing.assert_array_equal(trimmed(host.heard), trimmed(golden_dac(pcm, 1, 2 * len(pcm) + 400)))
    assert host.received[uart.Credit][-1:] in ([], [uart.Credit(36, 36)])
    assert await host.read(registers.PLAY_HEAD, 2) == (36, 36)
    assert len(host.frames) > 35 and host.tracked().ring_lost == 0, "frames came meanwhile"
    counts = await host.link_counts()
    assert counts[uart.LINK_NO_CREDIT] == counts[uart.LINK_OUT_OF_TURN] == 0
    assert counts[uart.LINK_EVENTS] == len(kinds)


@cocotb.test()
async def slots_that_are_spoilt_or_lost_on_the_line_are_made_good(dut):
    host = Host(dut, tick_cycles=512)  # what is sent again has to fit as well
    await host.begin()
    rng = random.Random(5)
    pcm = (6000 * np.random.default_rng(3).standard_normal(120 * 36)).clip(-32768, 32767).astype(np.int16)
    spoilt = 0

    def spoil(packet):
        nonlocal spoilt
        # Not in the beginning: what is in the ring by then bridges the time until it is sent again.
        if len(packet) < 200 or sender.queued > 30 or rng.random() > 0.15:
            return packet
        spoilt += 1
        if rng.random() < 0.3:
            return b""
        at = rng.randint(5, len(packet) - 5)
        return packet[:at] + bytes([packet[at] ^ 1 << rng.randrange(8)]) + packet[at + 1 :]

    sender = uart.SlotSender(PLAY_SLOTS, patience=0.004)
    await play(host, sender, pcm, 24_000, spoil)
    await host.wait_ticks(200)
    assert spoilt >= 3
    assert [event.kind for event in host.received[uart.Event] if event.kind != 4] == [0, 1]
    np.testing.assert_array_equal(trimmed(host.heard), trimmed(golden_dac(pcm, 1, 2 * len(pcm) + 400)))
    counts = await host.link_counts()
    assert counts[uart.LINK_BAD_CRC] + counts[uart.LINK_BAD_COBS] + counts[uart.LINK_BAD_LENGTH] > 0
    assert await host.read(registers.FAULTS) == 0


@cocotb.test()
async def slots_without_credit_or_out_of_turn_change_nothing(dut):
    host = Host(dut)
    await host.begin(enable=False)  # nothing is read from the ring
    slot = lambda number: uart.Slot(number, 1, 120 * number, 1, 0, bytes([number + 1] * 240)).pack()  # noqa: E731
    for number in range(PLAY_SLOTS):
        host.say(slot(number))
    host.say(slot(PLAY_SLOTS) + slot(3) + slot(PLAY_SLOTS + 5))
    host.say(uart.packet(uart.Slot.KIND, struct.pack("<IIBBHI", 1, 0, 1, 0, 121, PLAY_SLOTS) + bytes(240)))
    host.say(uart.packet(uart.Slot.KIND, struct.pack("<IIBBHI", 1, 0, 1, 0, 5, PLAY_SLOTS) + bytes(12)))
    assert await host.read(registers.PLAY_HEAD, 2) == (PLAY_SLOTS, 0)
    counts = await host.link_counts()
    assert counts[uart.LINK_NO_CREDIT] == 1 and counts[uart.LINK_OUT_OF_TURN] == 2
    assert counts[uart.LINK_BAD_LENGTH] == 2
    assert host.received[uart.Credit][-1] == uart.Credit(PLAY_SLOTS, 0), "told again with each that was refused"
    # What is in the ring is what was accepted, the first slot untouched by the one that came without credit.
    for number in (0, PLAY_SLOTS - 1):
        row = int(dut.memory.play[16 * number + 1].value)
        assert row == int.from_bytes(bytes([number + 1] * 16), "little")


# ---- time ------------------------------------------------------------------------------------------------------------


@cocotb.test()
async def the_four_instants_of_a_time_are_exact(dut):
    host = Host(dut)
    await host.begin()
    await host.write(registers.CLOCK_STEP, 1_000_000, 0)
    await FallingEdge(dut.clk)
    # At 50 MHz the free-running time goes by 20 ns a clock exactly.
    begin_ns, count, free = get_sim_time("ns"), int(dut.link.cycles_q.value), int(dut.frontend.free_ns.value)
    media = int(dut.frontend.now_ns.value)
    for cookie in (1, 2**64 - 1, 0x0100_0000_0000_0000):
        # Whatever else the line has to carry: sometimes a frame's packet is under way.
        await host.wait_ticks(host.rng.randint(1, 300))
        host.say(uart.TimeRequest(cookie).pack())
        seen = len(host.received[uart.Time])
        while len(host.received[uart.Time]) == seen:
            await host.wait_ticks(5)
        time = host.received[uart.Time][-1]
        sent_at = next(begin for kind, begin, _ in reversed(host.log) if kind is uart.Time)
        assert time.cookie == cookie and time.epoch == 1
        assert time.free_ns == free + CLOCK_NS * (time.free_at - count)
        assert time.time_ns == media + CLOCK_NS * (time.time_at - count)
        assert time.offset_ns(CLK_HZ) == media - free == 1_000_000
        # The line's own instants; the receiver's filter and registers are 5 to 6 clocks late.
        assert 0 <= (time.sent_ns(CLK_HZ) - free) - (sent_at - begin_ns) <= CLOCK_NS
        late = (time.received_ns(CLK_HZ) - free) - (host.said_at - begin_ns)
        assert 4 * CLOCK_NS <= late <= 7 * CLOCK_NS
        assert time.received_ns(CLK_HZ) < min(time.free_ns, time.sent_ns(CLK_HZ))
    print(f"uart_link: {(time.free_at - time.received)} cycles from a time request's end to its free time")


# ---- a bad line, a bad host ------------------------------------------------------------------------------------------


@cocotb.test()
async def corrupted_packets_do_nothing_and_are_counted_by_reason(dut):
    host = Host(dut)
    await host.begin()
    good = uart.Write(1, registers.DELAY_ADC, (5,)).pack()
    crc = bytearray(uart.cobs_decode(good[1:-1]))
    crc[-5] ^= 4
    host.say(b"\0" + uart.cobs_encode(bytes(crc)) + b"\0")
    host.say(good[:-3] + b"\0")
    host.say(uart.packet(uart.Read.KIND, bytes(9)))
    host.say(uart.packet(uart.Read.KIND, struct.pack("<BBH", 1, 9, 0)))
    host.say(uart.packet(uart.Write.KIND, struct.pack("<BBHIII", 1, 0, 4, 1, 2, 3)))
    host.say(uart.packet(uart.TimeRequest.KIND, bytes(7)))
    host.say(uart.packet(1, bytes(400)))
    host.say(uart.packet(9, b"") + uart.packet(0, bytes(30)))
    counts = await host.link_counts()
    assert counts[uart.LINK_BAD_CRC] == 1 and counts[uart.LINK_BAD_COBS] == 1
    assert counts[uart.LINK_BAD_LENGTH] == 5 and counts[uart.LINK_UNKNOWN] == 2
    assert await host.read(registers.DELAY_ADC) == 0


@cocotb.test()
async def garbage_for_a_while_harms_nothing(dut):
    host = Host(dut)
    await host.begin()
    before = await host.read(registers.CONTROL), await host.read(registers.PLAY_HEAD)
    host.say(host.rng.randbytes(1500))
    host.say(b"\0" * 50)
    for kind in range(10):
        host.say(b"\0" + bytes([2, kind]) + host.rng.randbytes(30) + b"\0")
    host.say(b"\0")
    assert before == (await host.read(registers.CONTROL), await host.read(registers.PLAY_HEAD))
    counts = await host.link_counts()
    assert counts[uart.LINK_BAD_COBS] > 3 and counts[uart.LINK_OUT_OF_TURN] == counts[uart.LINK_NO_CREDIT] == 0
    seen = len(host.frames)
    await host.wait_frames(seen + 5)
    assert host.tracked().ring_lost == 0


@cocotb.test()
async def a_break_of_the_line_costs_the_packet_in_it_alone(dut):
    host = Host(dut)
    await host.begin()
    write = uart.Write(1, registers.DELAY_ADC, (5,)).pack()
    host.say(write[:8])
    host.say([BREAK])
    host.say(write[8:])
    host.say([BREAK])
    # The next packet is whole, as its own delimiter comes first.
    assert await host.read(registers.DELAY_ADC) == 0
    counts = await host.link_counts()
    assert counts[uart.LINK_FRAMING] == 2 and counts[uart.LINK_BAD_COBS] == 2
    await host.wait_frames(len(host.frames) + 4)
    assert host.decoder.dropped == 0 and host.tracked().ring_lost == 0


@cocotb.test()
async def a_flood_of_reads_is_answered_as_far_as_it_fits_and_frames_still_come(dut):
    host = Host(dut)
    await host.begin()
    await host.wait_frames(2)
    begin, asked = len(host.frames), 150
    for _ in range(asked):
        host.say(uart.Read(7, registers.VAD_ONSET_MARGIN, 8).pack())
    while not host.silent:
        await host.wait_ticks(20)
    await host.wait_ticks(2 * FRAME_TICKS)  # for the waiting replies to leave: this read, too, would find no room
    # The line takes 12 bytes a request and 44 a reply: replies, credits and frames share what there is.
    assert len(host.frames) > begin + 2
    counts = await host.link_counts()
    answered = sum(kind is uart.Reply for kind, _, _ in host.log)
    assert counts[uart.LINK_BUSY] > 50
    assert answered + counts[uart.LINK_BUSY] >= asked
    assert host.decoder.dropped == 0


@cocotb.test()
async def a_dead_host_stops_the_frames_and_a_living_one_has_them_again(dut):
    host = Host(dut)
    host.beating = False
    await host.begin()
    await host.wait_frames(3)
    # Most of the 24,000 ticks, in which nothing happens, are left out.
    left = dut.frontend.heartbeat.left_q
    assert 24_000 - 6 * FRAME_TICKS < int(left.value) < 24_000 - 2 * FRAME_TICKS
    left.value = 2 * FRAME_TICKS
    await host.wait_ticks(6 * FRAME_TICKS)
    stopped = len(host.frames)
    assert stopped <= 6
    await host.wait_ticks(6 * FRAME_TICKS)
    assert len(host.frames) == stopped, "half a second after the last beat nothing is written and nothing sent"
    assert await host.read(registers.STATUS) & registers.STATUS__ALIVE == 0, "reading is no sign of life"
    assert await host.read(registers.FAULTS) == registers.FAULTS__HEARTBEAT_LOST
    assert not int(dut.alive.value) and int(dut.fault.value)
    await host.write(registers.HEARTBEAT, 1)
    await host.wait_frames(stopped + 5)
    tracker = host.tracked()
    assert host.frames[stopped].lost >= 9 and tracker.link_lost == 0
    assert tracker.ring_lost == host.frames[stopped].lost


# ---- pytest ----------------------------------------------------------------------------------------------------------


def run(tests, **parameters):
    """Verilator alone: the front end is more than Icarus 11 takes; the link's cells have benches that run on both."""
    simulate(
        "verilator",
        "frontend_uart",
        [*register_block.sources(), *sorted(RTL.glob("*.sv"))],
        __name__,
        parameters={"FILTERS": f'"{FILTERS}/"', **parameters},
        env={"COCOTB_TEST_FILTER": tests},
    )


def test_a_serial_line_carries_registers_frames_replies_and_time():
    run("^(?!.*overflows)")


def test_a_line_too_slow_for_the_frames_loses_whole_ones_and_counts_them():
    run("overflows", BAUD=1_000_000)
