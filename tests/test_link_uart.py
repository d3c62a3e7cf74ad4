"""The serial line's packets: what arrives is what was sent, or is dropped and counted; nothing that arrives raises."""

import random
import struct
import zlib

import numpy as np
import pytest

from voxpath.link import frame, uart

RNG_SEED = 20


def some_messages(rng):
    """One of each, both ways, with random content."""
    u32 = lambda: rng.getrandbits(32)  # noqa: E731
    pcm = bytes(rng.choice([0, rng.getrandbits(8)]) for _ in range(2 * rng.randint(0, 120)))
    to_board = [
        uart.Read(rng.getrandbits(8), 4 * rng.getrandbits(14), rng.randint(1, 8)),
        uart.Write(rng.getrandbits(8), 4 * rng.getrandbits(14), tuple(u32() for _ in range(rng.randint(1, 2)))),
        uart.Slot(u32(), u32(), u32(), rng.randint(0, 1), rng.randint(0, 3), pcm),
        uart.TimeRequest(rng.getrandbits(64)),
    ]
    to_host = [
        uart.Captured(frame.build([rng.randint(-9, 9) for _ in range(64)], sequence=u32())),
        uart.Reply(rng.getrandbits(8), rng.randint(0, 1), 0x20, tuple(u32() for _ in range(rng.randint(0, 8)))),
        uart.Credit(u32(), u32()),
        uart.Time(rng.getrandbits(64), rng.getrandbits(64), rng.getrandbits(64), u32(), u32(), u32(), u32(), u32()),
        uart.Event(rng.getrandbits(64), u32(), u32(), rng.randint(0, 4), rng.randint(1, 16), rng.getrandbits(16)),
    ]
    return to_board, to_host


# ---- byte stuffing ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("plain", "stuffed"),
    [
        # Cheshire and Baker's examples, and the edges of the longest block.
        (b"", b"\x01"),
        (b"\0", b"\x01\x01"),
        (b"\0\0", b"\x01\x01\x01"),
        (b"\x11\x22\0\x33", b"\x03\x11\x22\x02\x33"),
        (b"\x11\0\0\0", b"\x02\x11\x01\x01\x01"),
        (bytes(range(1, 254)), b"\xfe" + bytes(range(1, 254))),
        (bytes(range(1, 255)), b"\xff" + bytes(range(1, 255))),
        (bytes(range(0, 255)), b"\x01\xff" + bytes(range(1, 255))),
        (bytes(range(1, 256)), b"\xff" + bytes(range(1, 255)) + b"\x02\xff"),
        (bytes(range(2, 256)) + b"\0", b"\xff" + bytes(range(2, 256)) + b"\x01\x01"),
        (bytes(range(3, 256)) + b"\0\x01", b"\xfe" + bytes(range(3, 256)) + b"\x02\x01"),
    ],
    ids=lambda value: f"{len(value)} bytes",
)
def test_stuffing_gives_the_published_bytes(plain, stuffed):
    assert uart.cobs_encode(plain) == stuffed
    assert uart.cobs_decode(stuffed) == plain


def test_stuffing_has_no_zeros_and_is_undone_for_random_bytes_of_every_length():
    rng = random.Random(RNG_SEED)
    for length in [*range(0, 12), *range(250, 262), *range(505, 512)]:
        for zeros in (0.0, 0.02, 0.5, 1.0):
            plain = bytes(0 if rng.random() < zeros else rng.randint(1, 255) for _ in range(length))
            stuffed = uart.cobs_encode(plain)
            assert 0 not in stuffed
            assert len(stuffed) <= length + 1 + length // 254
            assert uart.cobs_decode(stuffed) == plain


@pytest.mark.parametrize("stuffed", [b"\x03\x11", b"\xff\x01", b"\x02\0", b"\0"])
def test_what_is_not_stuffed_bytes_is_refused_with_a_sentence(stuffed):
    with pytest.raises(uart.PacketError):
        uart.cobs_decode(stuffed)


# ---- layouts ---------------------------------------------------------------------------------------------------------


def content(data):
    """Type and body of one packet, by independent means: the CRC is looked at here."""
    assert data[0] == 0 and data[-1] == 0 and 0 not in data[1:-1]
    plain = uart.cobs_decode(data[1:-1])
    assert struct.unpack("<I", plain[-4:])[0] == zlib.crc32(plain[:-4])
    return plain[:-4]


def test_packets_have_the_documented_bytes():
    assert content(uart.Read(7, 0x00B0, 2).pack()) == bytes.fromhex("02 07 02 b000")
    assert content(uart.Write(8, 0x0018, (1,)).pack()) == bytes.fromhex("03 08 00 1800 01000000")
    assert content(uart.Write(9, 0x0030, (-2, -1)).pack()) == bytes.fromhex("03 09 00 3000 feffffff ffffffff")
    slot = uart.Slot(number=5, ticket=3, position=240, rate=1, flags=2, pcm=b"\x34\x12")
    assert content(slot.pack()) == bytes.fromhex("05 03000000 f0000000 01 02 0100 05000000 3412")
    assert content(uart.TimeRequest(0x0102).pack()) == bytes.fromhex("06 0201000000000000")
    assert content(uart.Captured(bytes(range(160))).pack()) == b"\x01" + bytes(range(160))
    assert content(uart.Reply(7, 1, 0x20).pack()) == bytes.fromhex("04 07 01 2000")
    assert content(uart.Reply(7, 0, 0x20, (258,)).pack()) == bytes.fromhex("04 07 00 2000 02010000")
    assert content(uart.Credit(9, 6).pack()) == bytes.fromhex("05 09000000 06000000")
    event = uart.Event(ns=1, ticket=2, position=3, kind=4, waiting=5, number=6)
    assert content(event.pack()) == bytes.fromhex("07 0100000000000000 02000000 03000000 04 05 0600")


def test_a_full_slot_and_a_frame_take_the_bytes_that_the_bandwidth_was_reckoned_with():
    assert len(uart.Slot(0, 0, 0, 1, 0, b"\x01" * 240).pack()) == 264
    assert len(uart.Captured(b"\x01" * 160).pack()) == 168
    assert len(uart.Credit(0x01010101, 0x01010101).pack()) == 16
    assert len(uart.TimeRequest(1).pack()) == 16 and len(uart.Time(1, 2, 3, 4, 5, 6, 7, 8).pack()) == 52
    assert len(uart.Write(1, 2, (3,)).pack()) == 16


# ---- what arrives ----------------------------------------------------------------------------------------------------


def test_every_message_comes_through_whatever_the_pieces():
    rng = random.Random(RNG_SEED)
    for _ in range(60):
        for messages, known in zip(some_messages(rng), (uart.TO_BOARD, uart.TO_HOST), strict=True):
            line = b"".join(message.pack() for message in messages)
            decoder, got = uart.Decoder(known), []
            while line:
                size = rng.choice([1, 2, rng.randint(1, 400)])
                got += decoder.feed(line[:size])
                line = line[size:]
            assert got == messages
            assert decoder.dropped == 0


def test_a_stream_of_garbage_gives_nothing_and_the_next_packet_comes_through():
    rng = random.Random(RNG_SEED)
    decoder, sent = uart.Decoder(), uart.Credit(4, 2)
    for _ in range(300):
        assert list(decoder.feed(rng.randbytes(rng.randint(0, 700)))) == []
        # Whatever the garbage was, the packet's own leading delimiter ends it.
        assert list(decoder.feed(sent.pack())) == [sent]
    assert decoder.dropped >= 300


def test_any_bit_that_flips_is_noticed_and_costs_no_other_packet():
    rng = random.Random(RNG_SEED)
    for _ in range(40):
        before, hit, after = (rng.choice(some_messages(rng)[1]) for _ in range(3))
        packed = bytearray(hit.pack())
        packed[rng.randint(1, len(packed) - 2)] ^= 1 << rng.randrange(8)  # not a delimiter
        decoder = uart.Decoder()
        assert list(decoder.feed(before.pack() + bytes(packed) + after.pack())) == [before, after]
        assert decoder.dropped >= 1


def test_a_truncated_packet_is_dropped_and_the_next_comes_through():
    rng = random.Random(RNG_SEED)
    for _ in range(200):
        hit, after = (rng.choice(some_messages(rng)[1]) for _ in range(2))
        packed = hit.pack()
        decoder = uart.Decoder()
        cut = rng.randint(2, len(packed) - 1)
        got = list(decoder.feed(packed[:cut] + after.pack()))
        # Only the closing delimiter was cut off: then nothing was lost.
        assert got == ([hit, after] if cut == len(packed) - 1 else [after])
        assert decoder.dropped == (cut < len(packed) - 1)


def test_what_is_dropped_is_counted_by_its_reason():
    decoder = uart.Decoder()

    def wrong(kind, body):
        return list(decoder.feed(uart.packet(kind, body)))

    assert wrong(9, b"") == [] and decoder.unknown == 1
    assert wrong(2, b"\0\0\0\0") == [] and decoder.unknown == 2, "a read does not come from a board"
    assert wrong(5, bytes(7)) == [] and decoder.bad_length == 1
    assert wrong(1, bytes(159)) == [] and decoder.bad_length == 2
    assert wrong(4, bytes(6)) == [] and decoder.bad_length == 3
    assert list(decoder.feed(b"\0\x03\x01\x02\0")) == [] and decoder.bad_length == 4, "too short for a CRC"
    assert list(decoder.feed(b"\0" + uart.cobs_encode(b"\x05" + bytes(12)) + b"\0")) == [] and decoder.bad_crc == 1
    assert list(decoder.feed(b"\0\x09\x01\0")) == [] and decoder.bad_cobs == 1
    assert decoder.dropped == 2 + 4 + 1 + 1
    assert list(decoder.feed(b"\0\0\0\0")) == [] and decoder.dropped == 8, "delimiters alone are nothing"


def test_a_line_that_never_sends_a_delimiter_takes_no_memory():
    decoder = uart.Decoder()
    for _ in range(100):
        assert list(decoder.feed(b"\x55" * 10_000)) == []
        assert len(decoder._pending) <= 300
    assert list(decoder.feed(uart.Credit(1, 1).pack())) == [uart.Credit(1, 1)]
    assert decoder.bad_length == 1


@pytest.mark.parametrize(
    "body",
    [
        bytes(15),  # no whole header
        struct.pack("<IIBBHI", 0, 0, 0, 0, 121, 0) + bytes(242),  # more samples than a slot holds
        struct.pack("<IIBBHI", 0, 0, 0, 0, 2, 0) + bytes(2),  # fewer bytes than it says
    ],
)
def test_a_slot_that_contradicts_itself_is_dropped(body):
    decoder = uart.Decoder(uart.TO_BOARD)
    assert list(decoder.feed(uart.packet(uart.Slot.KIND, body))) == []
    assert decoder.bad_length == 1


@pytest.mark.parametrize("count", [0, 9])
def test_a_read_of_no_word_or_of_too_many_is_dropped(count):
    decoder = uart.Decoder(uart.TO_BOARD)
    assert list(decoder.feed(uart.packet(uart.Read.KIND, struct.pack("<BBH", 0, count, 0)))) == []
    assert decoder.bad_length == 1


def test_a_write_of_three_words_is_refused_where_it_is_made():
    with pytest.raises(ValueError, match="1 or 2"):
        uart.Write(0, 0, (1, 2, 3)).pack()


# ---- time ------------------------------------------------------------------------------------------------------------


def test_the_four_counts_of_a_time_become_stamps_in_nanoseconds():
    # At 50 MHz a count is 20 ns. The request came 100 counts before the free time was taken, the answer left 3000 after
    # it, and the media time was taken 4 before it; the counter wraps in between.
    free_at = 50
    time = uart.Time(
        cookie=1,
        time_ns=5_000_000_000,
        free_ns=1_000_000_000,
        epoch=2,
        received=(free_at - 100) % 2**32,
        time_at=free_at - 4,
        free_at=free_at,
        sent=free_at + 3000,
    )
    assert time.received_ns(50_000_000) == 1_000_000_000 - 2_000
    assert time.sent_ns(50_000_000) == 1_000_000_000 + 60_000
    # Media time at free_at would have read 80 ns more.
    assert time.offset_ns(50_000_000) == 4_000_000_080


# ---- playback by credits ---------------------------------------------------------------------------------------------


class Board:
    """Takes slots as the RTL does: in order, with room, and says so."""

    def __init__(self, slots=4, head=0):
        self.slots, self.head, self.tail = slots, head, head
        self.decoder = uart.Decoder(uart.TO_BOARD)
        self.played = []

    def take(self, line):
        credits = []
        for slot in self.decoder.feed(line):
            if slot.number == self.head % 2**32 and self.head - self.tail < self.slots:
                self.head += 1
                self.played.append(slot.position)
            credits.append(self.state())
        return credits

    def state(self):
        return uart.Credit(self.head % 2**32, self.tail % 2**32)


def drain(sender, now):
    packets = []
    while packet := sender.take(now):
        packets.append(packet)
    return packets


def fill(sender, count, at=0):
    for index in range(at, at + count):
        sender.put(1, index, 24_000, np.full(120, index, np.int16), first=index == 0)


@pytest.mark.parametrize("head", [0, 2**32 - 2])
def test_no_more_slots_are_sent_than_the_board_has_room_for(head):
    board, sender = Board(head=head), uart.SlotSender(4, head % 2**32, head % 2**32)
    fill(sender, 10)
    assert len(drain(sender, 0.0)) == 4 and sender.queued == 10
    sender.credit(uart.Credit((head + 4) % 2**32, (head + 1) % 2**32), 0.0)
    assert len(drain(sender, 0.0)) == 1, "one was read, one more may come"
    assert sender.unconfirmed == 6 and sender.queued == 9
    assert board.tail == head


def test_lost_slots_and_lost_credits_are_made_good_in_order():
    rng = random.Random(RNG_SEED)
    board, sender = Board(), uart.SlotSender(4, patience=0.02)
    fill(sender, 60)
    now, credits = 0.0, []
    while board.tail < 60:
        now += 0.001
        assert now < 30, "it goes on"
        for packet in drain(sender, now):
            if rng.random() < 0.2:
                continue
            if rng.random() < 0.1:
                packet = packet[:-5] + b"\x77" + packet[-4:]
            credits += board.take(packet)
        if board.tail < board.head and rng.random() < 0.3:
            board.tail += 1
            credits.append(board.state())
        for credit in credits:
            if rng.random() >= 0.2:
                sender.credit(credit, now)
        credits = []
    assert board.played == list(range(60))


def test_a_slot_is_sent_again_only_when_the_board_was_given_its_time():
    sender = uart.SlotSender(4, patience=0.02)
    fill(sender, 2)
    first = drain(sender, 1.0)
    assert len(first) == 2 and drain(sender, 1.019) == []
    assert drain(sender, 1.021) == first
    sender.credit(uart.Credit(1, 0), 1.03)
    assert drain(sender, 1.045) == [], "progress starts the time anew"
    assert drain(sender, 1.051) == first[1:]


def test_credits_that_cannot_be_change_nothing():
    sender = uart.SlotSender(4, head=10, tail=10)
    fill(sender, 3)
    drain(sender, 0.0)
    for credit in (uart.Credit(9, 9), uart.Credit(14, 10), uart.Credit(11, 12), uart.Credit(12, 7)):
        sender.credit(credit, 0.0)
    assert sender.unconfirmed == 3 and sender.queued == 3


def test_what_was_never_sent_can_be_discarded_and_numbers_go_on_behind_what_was():
    board, sender = Board(), uart.SlotSender(4)
    fill(sender, 8)
    sent = drain(sender, 0.0)
    sender.discard()
    assert sender.unconfirmed == 4
    for packet in sent:
        for credit in board.take(packet):
            sender.credit(credit, 0.0)
    board.tail = 4
    sender.credit(board.state(), 0.0)
    fill(sender, 1, at=100)
    for packet in drain(sender, 0.0):
        board.take(packet)
    assert board.played == [0, 1, 2, 3, 100]


def test_samples_that_no_slot_holds_are_refused():
    sender = uart.SlotSender(4)
    with pytest.raises(ValueError):
        sender.put(1, 0, 22_050, np.zeros(4, np.int16))
    with pytest.raises(ValueError):
        sender.put(1, 0, 24_000, np.zeros(121, np.int16))
    with pytest.raises(ValueError):
        sender.put(1, 0, 24_000, np.zeros(0, np.int16))
    with pytest.raises(ValueError):
        sender.put(1, 0, 24_000, np.zeros(4, np.float32))
