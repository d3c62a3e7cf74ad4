"""The simulated board: the RTL behind the board interface, compiled once for all tests here."""

import shutil
import threading
import time

import numpy as np
import pytest

from voxpath.boards import open_board, registers, sim_build
from voxpath.boards.sim import SimBoard, ns_of, tick_of
from voxpath.boards.sim_model import CAPTURE_ADDRESS, PLAY_ADDRESS, Model
from voxpath.errors import BoardError
from voxpath.link.frame import parse
from voxpath.link.ring import PlaybackRing

SLOTS = 256
TICK_NS = 62_500 / 3


@pytest.fixture(scope="module")
def library():
    return sim_build.library()


def noise(samples, level=3000, seed=1):
    return np.random.default_rng(seed).integers(-level, level, samples).astype(np.int16)


def tone(seconds, rate, hertz=1000, level=8000):
    return np.rint(level * np.sin(2 * np.pi * hertz * np.arange(int(seconds * rate)) / rate)).astype(np.int16)


class Bare:
    """A model set up by hand and stepped in this thread: no host code but the registers."""

    def __init__(self, library, speed="skip"):
        self.model = Model(library, speed)
        write = self.model.write
        for base, size, address, length in (
            (registers.RING_BASE, registers.RING_SIZE, CAPTURE_ADDRESS, SLOTS * 256 + 16),
            (registers.PLAY_BASE, registers.PLAY_SIZE, PLAY_ADDRESS, SLOTS * 256),
        ):
            write(base, address)
            write(base + 4, 0)
            write(size, length)
        write(registers.HEARTBEAT, 1)
        write(registers.CONTROL, registers.CONTROL__CAPTURE_ENABLE | registers.CONTROL__PLAYBACK_ENABLE)
        self.play = PlaybackRing(
            self.model.memory[PLAY_ADDRESS:],
            SLOTS,
            lambda: self.model.read(registers.PLAY_TAIL),
            lambda head: write(registers.PLAY_HEAD, head),
        )

    def say(self, pcm, rate, ticket=1):
        for at in range(0, len(pcm), 120):
            last = at + 120 >= len(pcm)
            self.play.put(ticket, at, rate, pcm[at : at + 120], first=at == 0, last=last)
        self.play.publish()

    def frame_bytes(self):
        head = self.model.read(registers.RING_HEAD)
        slots = self.model.memory[CAPTURE_ADDRESS : CAPTURE_ADDRESS + 256 * SLOTS].reshape(SLOTS, 256)
        return slots[:head, :160].tobytes()


def take(board, count):
    frames = []
    for frame in board.frames():
        frames.append(frame)
        if len(frames) == count:
            return frames
    raise AssertionError(f"the board ended after {len(frames)} frames")


def until(condition, patience=20.0):
    end = time.monotonic() + patience
    while not condition():
        assert time.monotonic() < end, "waited in vain"
        time.sleep(0.005)


# ---- three speeds ----------------------------------------------------------------------------------------------------


def test_frames_and_sound_are_the_same_bit_for_bit_at_all_three_speeds(library):
    def run(speed):
        board = Bare(library, speed)
        board.model.play(np.concatenate([noise(1500, 40), tone(0.06, 48_000), noise(420, 40)]))
        board.model.run(700)
        board.say(tone(0.02, 24_000, 700), 24_000)
        board.model.run(2200)
        board.say(tone(0.02, 16_000, 500), 16_000, ticket=2)
        board.model.write(registers.HEARTBEAT, 2)
        board.model.run(1900)
        events = []
        while board.model.read(registers.EVENT_KIND) & registers.EVENT_KIND__COUNT:
            events.append([board.model.read(registers.EVENT_NS + 4 * word) for word in range(5)])
            board.model.write(registers.EVENT_POP, 1)
        return board.frame_bytes(), board.model.dac(0, 4800).tobytes(), events, board.model.counters()

    frames, sound, events, counters = run("skip")
    assert len(parse(frames)) == 25 and np.frombuffer(sound, np.int16).any() and len(events) >= 4
    assert any(frame.onset for frame in parse(frames))
    for speed in ("slow", "cycle"):
        other_frames, other_sound, other_events, other = run(speed)
        assert other_frames == frames
        assert other_sound == sound
        assert other_events == events
        assert other.cycles == {"slow": 4800 * 256, "cycle": 10_000_000}[speed]
    print(f"clocked cycles a hop of 4 ms: {counters.cycles / 25:.0f}, at most {counters.hop_cycles_max}")
    assert counters.hop_cycles_max <= 20_000
    assert counters.dac_missing == 0


def test_the_digital_loop_is_one_tick_long(library):
    """What comes back through the loop is what a microphone hears that is given the DAC's samples one tick later."""
    looped = Bare(library)
    looped.model.write(registers.INPUT, registers.INPUT__LOOP)
    looped.say(tone(0.05, 24_000, 700), 24_000)
    looped.model.run(4800)
    sound = looped.model.dac(0, 4800)
    assert np.abs(sound).max() > 7000
    told = Bare(library)
    told.model.play(np.concatenate([[0], sound[:-1]]).astype(np.int16))
    told.model.run(4800)
    there, back = list(parse(told.frame_bytes())), list(parse(looped.frame_bytes()))
    assert len(back) == 25
    assert all((a.pcm == b.pcm).all() for a, b in zip(there, back, strict=True))


# ---- memory that misbehaves ------------------------------------------------------------------------------------------


def test_a_frame_that_memory_refuses_is_lost_and_counted_and_the_next_ones_come(library):
    board = Bare(library)
    board.model.run(10 * 192)
    board.model.misbehave(on_write="error")
    board.model.run(3 * 192)
    board.model.misbehave()
    board.model.run(10 * 192)
    frames = list(parse(board.frame_bytes()))
    assert [frame.lost for frame in frames if frame.dropped] == [3]
    assert len(frames) == 20 and board.model.read(registers.RING_LOST) == 3
    assert board.model.read(registers.FAULTS) == registers.FAULTS__WRITE_ERROR


def test_memory_that_never_answers_is_given_up_and_sound_goes_on(library):
    board = Bare(library)
    board.model.misbehave(on_write="silence", on_read="silence")
    board.say(tone(0.02, 24_000), 24_000)
    board.model.run(5 * 192)
    assert board.model.read(registers.FAULTS) == registers.FAULTS__MEMORY_TIMEOUT
    assert board.model.read(registers.RING_HEAD) == 0 and board.model.read(registers.RING_LOST) == 5
    assert board.model.counters().dac_missing == 0


# ---- the board interface ---------------------------------------------------------------------------------------------


@pytest.fixture
def quick(library):
    """A board that runs as fast as frames are taken; closed after a minute, so that no test can wait for ever."""
    with SimBoard(pace=0) as board:
        watchdog = threading.Timer(60, board.close)
        watchdog.start()
        yield board
        watchdog.cancel()


def test_times_of_ticks_are_exact_and_invertible():
    assert [ns_of(n) for n in (0, 1, 2, 3, 48_000)] == [0, 20_833, 41_666, 62_500, 1_000_000_000]
    assert all(tick_of(ns_of(n)) == n and tick_of(ns_of(n + 1) - 1) == n for n in range(1000))


def test_a_click_is_heard_at_the_time_that_the_source_was_given(quick):
    frames = quick.frames()
    click = np.zeros(4800, np.int16)
    click[2400 - 30 : 2400 + 31] = 12_000 * np.hanning(61)
    start = quick.play_source(click)
    heard = []
    for frame in frames:
        heard.append(frame)
        if frame.capture_ns > start + 150_000_000:
            break
    pcm = np.concatenate([frame.pcm for frame in heard]).astype(float)
    at = np.concatenate([frame.capture_ns + 62_500 * np.arange(64) for frame in heard])
    centre = (pcm**2 * at).sum() / (pcm**2).sum()
    assert abs(centre - (start + 2400 * TICK_NS)) < TICK_NS
    assert quick.source_done


def test_frames_follow_each_other_without_gap(quick):
    quick.play_source(noise(48_000))
    frames = take(quick, 301)[1:]  # the very first begins before the clock does
    assert {b.sequence - a.sequence for a, b in zip(frames, frames[1:], strict=False)} == {1}
    assert {b.capture_ns - a.capture_ns for a, b in zip(frames, frames[1:], strict=False)} == {4_000_000}
    assert quick.tracker.link_lost == quick.tracker.crc_errors == quick.tracker.ring_lost == 0
    assert quick.registers.read(registers.FAULTS) == 0


def test_a_room_is_heard_while_no_source_plays(library):
    room = noise(4800, level=300)
    with SimBoard(pace=0, room=room) as board:
        board.play_source(np.zeros(9600, np.int16))
        frames = take(board, 200)
    loud = [np.abs(frame.pcm).max() > 50 for frame in frames[2:]]
    assert not any(loud[5:45]) and all(loud[60:])


def test_speech_is_announced_with_the_time_of_its_first_and_last_sample(quick):
    events = quick.events()
    start = quick.play_source(np.concatenate([noise(48_000, 30), tone(0.3, 48_000), noise(14_400, 30)])) + 10**9
    onset, offset = (next(event for event in events if event.kind == kind) for kind in ("onset", "offset"))
    assert abs(onset.ns - start) < 3_100_000
    assert abs(offset.ns - (start + 300_000_000)) < 10_000_000


@pytest.mark.parametrize("rate, length", [(24_000, 48_000), (16_000, 16_000), (24_000, 1), (16_000, 240)])
def test_a_reply_is_played_whole_and_its_times_are_those_of_its_samples(quick, rate, length):
    events = quick.events()
    reply = quick.start_reply(rate)
    pcm = tone(length / rate, rate, 500) if length > 240 else np.full(length, 12_000, np.int16)
    for at in range(0, length, 777):
        reply.write(pcm[at : at + 777])
    reply.finish()
    until(lambda: reply.over)
    assert reply.underruns == 0 or length == 1  # finish() may come after a single sample was heard
    assert reply.played() == length and reply.buffered() == 0
    assert abs(reply.times["last"] - reply.times["first"] - (length - 1) * 10**9 / rate) < 1.01 * TICK_NS
    replied = (event.kind for event in events if event.kind.startswith("reply"))
    assert [next(replied), next(replied)] == ["reply_started", "reply_ended"]
    # the sound itself, delayed by the filter that the times already count
    sound, start = quick.dac_pcm()
    first = round((reply.times["first"] - start) / TICK_NS)
    expected = np.interp(np.arange(int(length * 48_000 / rate)) * rate / 48_000, np.arange(length), pcm)
    if length > 240:
        got = sound[first : first + len(expected)].astype(float)
        assert np.abs(got - expected)[100:-100].max() < 150


def test_a_reply_longer_than_the_ring_is_fed_while_it_plays(quick):
    reply = quick.start_reply(24_000)
    reply.write(tone(5, 24_000))
    assert reply.buffered() > 80_000
    reply.finish()
    until(lambda: reply.over)
    assert reply.played() == 120_000 and reply.underruns == 0


def test_stop_says_how_much_was_heard_and_discards_the_rest(quick):
    reply = quick.start_reply(24_000)
    reply.write(tone(3, 24_000))
    until(lambda: reply.played() > 12_000)
    before = reply.played()
    heard = reply.stop()
    assert before <= heard < 72_000 and heard == reply.played()
    assert abs((reply.times["stopped"] - reply.times["first"]) * 24_000 / 1e9 - heard) < 2
    sound, start = quick.dac_pcm(reply.times["stopped"] + 5_000_000)
    assert not sound.any()
    assert reply.stop() == heard
    reply.write(tone(0.1, 24_000))  # what a late synthesiser still sends is dropped
    again = quick.start_reply(16_000)
    again.write(tone(0.2, 16_000))
    again.finish()
    until(lambda: again.over)
    assert again.played() == 3200


def test_a_reply_stopped_before_a_sample_was_written_was_not_heard(quick):
    assert quick.start_reply(24_000).stop() == 0
    quick.start_reply(24_000).finish()
    quick.start_reply(24_000).stop()


def test_ducking_lowers_the_level_and_a_new_reply_is_at_full_level(quick):
    def loudest(duck):
        reply = quick.start_reply(24_000)
        if duck:
            reply.duck(duck)
        reply.write(tone(0.5, 24_000))
        reply.finish()
        until(lambda: reply.over)
        sound, _ = quick.dac_pcm(reply.times["first"] + 100_000_000)
        return np.abs(sound.astype(int)).max()

    assert loudest(-20) == pytest.approx(800, rel=0.02)
    assert loudest(0) == pytest.approx(8000, rel=0.02)


def test_what_cannot_be_played_is_refused_with_a_reason(quick):
    with pytest.raises(BoardError, match="16000 or 24000"):
        quick.start_reply(44_100)
    reply = quick.start_reply(24_000)
    with pytest.raises(BoardError, match="still open"):
        quick.start_reply(24_000)
    with pytest.raises(ValueError, match="int16"):
        reply.write(np.zeros(10, np.float32))
    with pytest.raises(ValueError, match="0 dB or less"):
        reply.duck(3)
    reply.write(tone(0.1, 24_000))
    reply.finish()
    with pytest.raises(BoardError, match="finished"):
        reply.write(tone(0.1, 24_000))


# ---- listeners and losses --------------------------------------------------------------------------------------------


def test_a_listener_that_sleeps_loses_frames_and_knows_how_many(library):
    with SimBoard(pace=4) as board:
        frames = board.frames()
        next(frames)
        until(lambda: board.registers.read(registers.RING_LOST) > 20)
        for frame in frames:
            if frame.dropped:
                break
        assert frame.lost >= 20
        tracker = board.tracker
        assert tracker.ring_lost == frame.lost and tracker.link_lost == 0
        later = take(board, 50)
        assert later[-1].sequence >= frame.sequence + 49
        assert tracker.captured == tracker.received + tracker.ring_lost


def test_a_listener_that_went_away_holds_nobody_back(quick):
    for _ in range(3):
        next(quick.frames())
    assert len(take(quick, 600)) == 600
    assert quick.tracker.ring_lost == 0


def test_every_listener_hears_everything(quick):
    one, two = quick.frames(), quick.frames()
    first = [next(one).sequence for _ in range(50)]
    second = [next(two).sequence for _ in range(50)]
    assert first == second


# ---- closing ---------------------------------------------------------------------------------------------------------


def test_close_ends_everyone_who_waits_and_may_be_called_twice(library):
    board = open_board("sim")
    reply = board.start_reply(24_000)
    ended = []

    def listen(items):
        for _ in items:
            pass
        ended.append(items)

    threads = [threading.Thread(target=listen, args=(items,)) for items in (board.frames(), board.events())]
    for thread in threads:
        thread.start()
    time.sleep(0.1)
    started = time.monotonic()
    board.close()
    board.close()
    for thread in threads:
        thread.join(5)
    assert len(ended) == 2 and time.monotonic() - started < 5
    assert list(board.frames()) == [] and list(board.events()) == []
    assert reply.stop() == 0
    with pytest.raises(BoardError, match="closed"):
        board.start_reply(24_000)


def test_what_was_measured_and_played_can_be_read_after_close(library):
    with SimBoard(pace=0) as board:
        take(board, 30)
    sound, start = board.dac_pcm()
    assert len(sound) >= 30 * 192 and start == 0
    assert board.cycles_per_hop > 1000 and board.realtime_factor > 0 and 0 < board.core_share <= 1.1


def test_a_closed_board_can_be_opened_anew(library):
    board = SimBoard(pace=0)
    for _ in range(2):
        board.open()
        assert take(board, 3)[0].capture_ns < 10**9
        board.close()


def test_close_returns_though_nobody_takes_frames_and_memory_is_dead(library):
    board = SimBoard(pace=0)
    board.open()
    frames = board.frames()
    next(frames)
    board._model.misbehave("silence", "silence")
    time.sleep(0.3)
    started = time.monotonic()
    board.close()
    assert time.monotonic() - started < 5


def test_two_boards_in_one_process_do_not_hear_each_other(library):
    with SimBoard(pace=0) as one, SimBoard(pace=0) as two:
        listening, silent = one.frames(), two.frames()
        one.play_source(noise(48_000, 8000))
        reply = two.start_reply(16_000)
        reply.write(tone(0.3, 16_000))
        reply.finish()
        assert max(np.abs(next(listening).pcm).max() for _ in range(100)) > 1000
        assert max(np.abs(next(silent).pcm).max() for _ in range(100)) == 0
        until(lambda: reply.over)
        assert not one.dac_pcm()[0].any()


def test_a_board_that_dies_ends_its_listeners_with_the_reason(quick):
    frames, events = quick.frames(), quick.events()

    def dead(timeout_ms):
        raise BoardError("The board is dead.")

    quick._service._wait_irq = dead
    with pytest.raises(BoardError, match="is dead"):
        for _ in frames:
            pass
    assert any(event.kind == "link_lost" for event in events)


# ---- time ------------------------------------------------------------------------------------------------------------


def test_board_time_and_wall_time_go_together_as_far_as_the_board_is_not_late(library):
    with SimBoard() as board:
        frames = take(board, 150)
        first, last = frames[0].capture_ns, frames[-1].capture_ns
        wall = board.wall_ns(last) - board.wall_ns(first)
        assert abs(wall - (last - first)) <= board.lag_ms_max * 1e6
        assert board.wall_ns(last) <= time.monotonic_ns()
        now, uncertainty, locked = board.time()
        assert now >= frames[-1].end_ns and 0 < uncertainty <= 1_000_000 and locked
        assert frames[-1].time_locked


def test_a_throttled_board_is_seen_to_lag(library):
    with SimBoard(throttle=0.5) as board:
        started = time.monotonic_ns()
        take(board, 50)
        assert time.monotonic_ns() - started > 350_000_000
        assert board.lag_ms_max > 100
        assert board.wall_ns(190_000_000) - board.wall_ns(10_000_000) > 300_000_000


def test_virtual_time_waits_for_the_listener_and_loses_nothing(quick):
    frames = quick.frames()
    next(frames)
    deadline = time.monotonic() + 20
    before, stood = -1, quick.time()[0]
    while before != stood and time.monotonic() < deadline:
        time.sleep(0.3)
        before, stood = stood, quick.time()[0]
    assert before == stood
    numbers = [next(frames).sequence for _ in range(700)]
    assert numbers == list(range(numbers[0], numbers[0] + 700)) and quick.tracker.ring_lost == 0


# ---- building --------------------------------------------------------------------------------------------------------


def test_the_library_is_built_once(library, monkeypatch):
    monkeypatch.setattr(sim_build, "_run", lambda *_: pytest.fail("built again"))
    assert sim_build.library() == library


def test_a_damaged_library_is_not_loaded_but_built_anew(library, monkeypatch, tmp_path):
    folder = tmp_path / "build"
    shutil.copytree(library.parent, folder)
    assert sim_build._intact(folder)
    with open(folder / library.name, "r+b") as file:
        file.truncate(5000)
    assert not sim_build._intact(folder)
    shutil.copytree(library.parent, folder, dirs_exist_ok=True)
    next(folder.glob("*.hex")).write_text("")
    assert not sim_build._intact(folder)


def test_a_cache_that_cannot_be_written_is_named(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("VOXPATH_CACHE", str(tmp_path / "file"))
    with pytest.raises(BoardError, match="cannot be kept in .*VOXPATH_CACHE"):
        sim_build.library()


def test_a_missing_compiler_is_named_with_the_command_that_installs_it(monkeypatch):
    monkeypatch.setattr(sim_build.shutil, "which", lambda tool: None if tool in ("g++", "perl") else tool)
    with pytest.raises(BoardError, match="sudo apt-get install g\\+\\+ perl"):
        sim_build.library()


def test_a_failed_build_leaves_nothing_behind_and_says_why(tmp_path, monkeypatch):
    monkeypatch.setenv("VOXPATH_CACHE", str(tmp_path))
    monkeypatch.setattr(sim_build, "_VERILATOR", ["--no-such-option"])
    with pytest.raises(BoardError, match="no-such-option"):
        sim_build.library(progress=lambda line: None)
    assert [path.suffix for path in (tmp_path / "board").iterdir()] == [".lock"]


def test_an_unknown_board_is_refused():
    with pytest.raises(BoardError, match="no board called 'toaster'"):
        open_board("toaster")
