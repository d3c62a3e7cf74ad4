"""The simulated board's microphone hears its loudspeaker: level, delay and saturation to the sample."""

import math
import threading
import time

import numpy as np
import pytest

from voxpath.boards import registers, sim_build
from voxpath.boards.sim import SimBoard
from voxpath.boards.sim_model import CAPTURE_ADDRESS, PLAY_ADDRESS, Model
from voxpath.errors import BoardError
from voxpath.link.frame import parse
from voxpath.link.ring import PlaybackRing

SLOTS = 256
TICKS = 4800


@pytest.fixture(scope="module")
def library():
    return sim_build.library()


def noise(samples, level, seed=1):
    return np.random.default_rng(seed).integers(-level, level, samples).astype(np.int16)


def run(library, source, *, reply=None, echo=None, speed="skip", steps=(TICKS,)):
    """(the capture ring's bytes, int16 samples of the DAC) of a fresh board that heard `source` and spoke `reply`."""
    model = Model(library, speed)
    if echo:
        model.echo(*echo)
    for register, value in (
        (registers.RING_BASE, CAPTURE_ADDRESS),
        (registers.RING_BASE + 4, 0),
        (registers.RING_SIZE, SLOTS * 256 + 16),
        (registers.PLAY_BASE, PLAY_ADDRESS),
        (registers.PLAY_BASE + 4, 0),
        (registers.PLAY_SIZE, SLOTS * 256),
        (registers.HEARTBEAT, 1),
        (registers.CONTROL, registers.CONTROL__CAPTURE_ENABLE | registers.CONTROL__PLAYBACK_ENABLE),
    ):
        model.write(register, value)
    if reply is not None:
        ring = PlaybackRing(
            model.memory[PLAY_ADDRESS:],
            SLOTS,
            lambda: model.read(registers.PLAY_TAIL),
            lambda head: model.write(registers.PLAY_HEAD, head),
        )
        for at in range(0, len(reply), 120):
            ring.put(1, at, 24_000, reply[at : at + 120], first=at == 0, last=at + 120 >= len(reply))
        ring.publish()
    model.play(source)
    for ticks in steps:
        model.run(ticks)
    frames = model.memory[CAPTURE_ADDRESS : CAPTURE_ADDRESS + 256 * SLOTS].reshape(SLOTS, 256)
    return frames[: model.read(registers.RING_HEAD), :160].tobytes(), model.dac(0, TICKS)


def sounds(frames):
    return np.concatenate([frame.pcm for frame in parse(frames)])


@pytest.mark.parametrize("gain, delay", [(0.1, 240), (0.7, 1), (1.0, 777)])
def test_the_microphone_hears_its_source_and_the_dac_so_many_ticks_ago(library, gain, delay):
    """As another board does that is given the sum."""
    source, reply = noise(TICKS, 2000), noise(1500, 12_000, seed=2)
    heard, dac = run(library, source, reply=reply, echo=(gain, delay))
    assert np.abs(dac.astype(int)).max() > 8000
    copy = np.concatenate([np.zeros(delay), np.rint(gain * dac.astype(float))])[:TICKS]
    told, _ = run(library, (source + copy).astype(np.int16))
    assert (sounds(heard) == sounds(told)).all() and len(sounds(heard)) == TICKS // 3


def test_a_sum_beyond_16_bits_saturates_at_either_end(library):
    source, reply = noise(TICKS, 30_000), noise(1500, 30_000, seed=2)
    heard, dac = run(library, source, reply=reply, echo=(2.0, 48))
    total = source + np.concatenate([np.zeros(48), np.rint(2.0 * dac.astype(float))])[:TICKS]
    assert (total > 32767).any() and (total < -32768).any()
    told, _ = run(library, np.clip(total, -32768, 32767).astype(np.int16))
    assert (sounds(heard) == sounds(told)).all()


def test_frames_are_the_same_at_all_speeds_and_however_the_ticks_are_grouped(library):
    source, reply = noise(300, 500), noise(700, 12_000, seed=2)
    whole = run(library, source, reply=reply, echo=(0.3, 5))
    assert parse(whole[0]).pcm.any()
    for other in (
        run(library, source, reply=reply, echo=(0.3, 5), speed="slow"),
        run(library, source, reply=reply, echo=(0.3, 5), speed="cycle"),
        run(library, source, reply=reply, echo=(0.3, 5), steps=(1, 46, 48, 4705)),
    ):
        assert other[0] == whole[0] and (other[1] == whole[1]).all()


def test_without_an_echo_the_loudspeaker_is_not_heard(library):
    source, reply = noise(TICKS, 2000), noise(1500, 12_000, seed=2)
    playing, dac = run(library, source, reply=reply)
    silent, _ = run(library, source)
    assert dac.any() and (sounds(playing) == sounds(silent)).all()


@pytest.mark.parametrize("db, ms", [(-20, 5.0), (0, 12.5)])
def test_a_board_with_an_echo_hears_its_reply_at_that_level_and_that_much_later(library, db, ms):
    with SimBoard(pace=0, echo_db=db, echo_delay_ms=ms) as board:
        watchdog = threading.Timer(60, board.close)
        watchdog.start()
        frames = board.frames()
        reply = board.start_reply(16_000)
        click = np.zeros(1600, np.int16)
        click[800 - 40 : 800 + 41] = 20_000 * np.hanning(81) * np.cos(2 * np.pi * 3 / 16 * np.arange(-40, 41))  # 3 kHz
        reply.write(click)
        reply.finish()
        heard, end = [], time.monotonic() + 30
        while "last" not in reply.times or heard[-1].capture_ns < reply.times["last"] + 50_000_000:
            heard.append(next(frames))
            assert time.monotonic() < end
        watchdog.cancel()
    pcm = np.concatenate([frame.pcm for frame in heard]).astype(float)
    at = np.concatenate([frame.capture_ns + 62_500 * np.arange(64) for frame in heard])
    centre = (pcm**2 * at).sum() / (pcm**2).sum()
    assert abs(centre - (reply.times["first"] + 800 * 62_500 + ms * 1e6)) < 12_000
    assert math.sqrt((pcm**2).sum() / (click.astype(float) ** 2).sum()) == pytest.approx(10 ** (db / 20), rel=0.02)


@pytest.mark.parametrize("db", [-101, 21, math.nan, math.inf])
def test_an_echo_of_an_impossible_level_is_refused_in_one_sentence(db):
    with pytest.raises(BoardError, match="echo is -100 to 20 dB"):
        SimBoard(echo_db=db)


@pytest.mark.parametrize("ms", [0, 0.02, -1, 1000.1, math.nan])
def test_an_echo_that_comes_before_the_next_tick_or_never_is_refused(ms):
    with pytest.raises(BoardError, match=r"1/48 \(a tick\) to 1000 ms"):
        SimBoard(echo_db=-20, echo_delay_ms=ms)
