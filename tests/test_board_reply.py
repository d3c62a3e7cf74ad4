"""Replies against a playback ring whose events the test sends itself."""

import threading

import numpy as np
import pytest

from voxpath.boards import registers
from voxpath.boards.reply import Player
from voxpath.link.ring import PlaybackRing


class Ring:
    """Memory and registers of a board that has read nothing yet and remembers what was written."""

    def __init__(self):
        self.stopped = threading.Event()
        memory = bytearray(PlaybackRing.bytes_for(16))
        self.player = Player(PlaybackRing(memory, 16, lambda: 0, lambda head: None), self)

    def read(self, offset):
        return 0

    def write(self, offset, value):
        if offset == registers.PLAY_STOP:
            self.stopped.set()


@pytest.fixture
def ring():
    return Ring()


def begin(player):
    reply = player.start(16_000)
    reply.write(np.ones(240, np.int16))
    player.notice("reply_started", 1_000, reply.ticket, 0)
    return reply


def stop_in_a_thread(ring, reply):
    heard = []
    thread = threading.Thread(target=lambda: heard.append(reply.stop()))
    thread.start()
    assert ring.stopped.wait(5)
    return thread, heard


def test_a_stop_returns_what_the_board_says_was_heard(ring):
    reply = begin(ring.player)
    thread, heard = stop_in_a_thread(ring, reply)
    ring.player.notice("stopped", 9_000, reply.ticket, 77)
    thread.join(5)
    assert heard == [77] and reply.times["stopped"] == 9_000


def test_a_stop_that_names_an_earlier_ticket_means_that_nothing_was_heard(ring):
    reply = ring.player.start(16_000)
    reply.write(np.ones(240, np.int16))
    thread, heard = stop_in_a_thread(ring, reply)
    ring.player.notice("stopped", 9_000, reply.ticket - 1, 500)
    thread.join(5)
    assert heard == [0]


def test_a_stop_that_came_too_late_does_not_end_the_reply_that_follows(ring):
    first = begin(ring.player)
    thread, heard = stop_in_a_thread(ring, first)
    ring.player.notice("reply_ended", 8_000, first.ticket, 240)  # it ended by itself before the stop got there
    thread.join(5)
    assert heard == [240]
    second = begin(ring.player)
    ring.player.notice("stopped", 9_000, first.ticket, 240)
    assert not second.over and "stopped" not in second.times
    ring.player.notice("reply_ended", 20_000, second.ticket, 240)
    assert second.over and second.played() == 240
