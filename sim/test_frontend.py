"""The joined front end against the golden models of its parts, run as the simulated board."""

from itertools import groupby

import numpy as np
import pytest

from golden import denoiser, frontend, input_mixer, playback, vad
from golden.frontend import DELAY_DENOISE, DELAY_RESAMPLE, ns_of, table
from voxpath.boards import registers, sim_build
from voxpath.boards.sim_model import CAPTURE_ADDRESS, PLAY_ADDRESS, Model

CAPTURE_SLOTS = PLAY_SLOTS = 256
SLOT_BYTES = 256
FRAME_BYTES = 160


@pytest.fixture(scope="module")
def library():
    return sim_build.library()


class Board:
    """A front end whose rings the test drives by hand."""

    def __init__(self, library, speed="skip"):
        self.model = Model(library, speed)
        self.tail = 0
        self.frames = []
        write = self.model.write
        for register, value in (
            (registers.RING_BASE, CAPTURE_ADDRESS),
            (registers.RING_BASE + 4, 0),
            (registers.RING_SIZE, CAPTURE_SLOTS * SLOT_BYTES + 16),
            (registers.PLAY_BASE, PLAY_ADDRESS),
            (registers.PLAY_BASE + 4, 0),
            (registers.PLAY_SIZE, PLAY_SLOTS * SLOT_BYTES),
            (registers.BOOT_ID, 77),
            (registers.HEARTBEAT, 1),
            (registers.CONTROL, registers.CONTROL__CAPTURE_ENABLE | registers.CONTROL__PLAYBACK_ENABLE),
        ):
            write(register, value)

    def set(self, **settings):
        """Write registers by name."""
        for name, value in settings.items():
            self.model.write(getattr(registers, name), value)

    def run(self, ticks):
        """Run in steps of 100 ms, each with a heartbeat and an emptied capture ring."""
        while ticks > 0:
            self.model.run(min(ticks, 4800))
            ticks -= 4800
            self.model.write(registers.HEARTBEAT, 1)
            head = self.model.read(registers.RING_HEAD)
            for slot in range(self.tail, head):
                start = CAPTURE_ADDRESS + slot % CAPTURE_SLOTS * SLOT_BYTES
                self.frames.append(self.model.memory[start : start + FRAME_BYTES].tobytes())
            self.tail = head
            self.model.write(registers.RING_TAIL, head)

    def publish(self, slots, head):
        for number, slot in enumerate(slots, head):
            start = PLAY_ADDRESS + number % PLAY_SLOTS * SLOT_BYTES
            self.model.memory[start : start + SLOT_BYTES] = np.frombuffer(slot.pack(), np.uint8)
        self.model.write(registers.PLAY_HEAD, head + len(slots))


def speech_like(seconds, seed):
    """Bursts of a chirp over noise, int16 at 48 kHz; some samples at the converter's limits."""
    rng = np.random.default_rng(seed)
    t = np.arange(int(seconds * 48_000)) / 48_000
    gate = np.sin(2 * np.pi * 1.3 * t) > 0.2
    pcm = 20 * rng.standard_normal(len(t)) + 9000 * gate * np.sin(2 * np.pi * (200 + 900 * t) * t)
    pcm = np.clip(pcm, -32768, 32767).astype(np.int16)
    pcm[rng.integers(0, len(pcm), 5)] = 32767
    return pcm


def test_every_byte_of_every_frame_is_the_golden_chains(library):
    pcm = speech_like(3.0, seed=1)
    board = Board(library)
    board.model.play(pcm)
    board.run(len(pcm))
    expected = frontend.frames(pcm)[: len(board.frames)]
    assert len(board.frames) >= 749
    flags = {frame[3] for frame in expected}
    assert any(flag & 0x02 for flag in flags) and any(flag & 0x10 for flag in flags), "the stimulus must be telling"
    different = [k for k, pair in enumerate(zip(board.frames, expected, strict=True)) if pair[0] != pair[1]]
    assert different == []


def test_settings_of_mixer_denoiser_and_voice_activity_reach_their_modules(library):
    pcm = speech_like(1.5, seed=8) // 4
    board = Board(library)
    board.set(
        INPUT=registers.INPUT__REMOVE_DC | 2,  # the mean of both: the simulated board's right channel is silent
        INPUT_GAIN=0x2800,
        DENOISE_FLOOR=3000,
        DENOISE_OVERSUBTRACTION=500,
        DENOISE_SMOOTHING=50_000,
        VAD_ONSET_SCORE=90,
        VAD_OFFSET_SCORE=60,
        VAD_HANGOVER=5,
        VAD_MIN_ONSET=3,
    )
    board.model.play(pcm)
    board.run(len(pcm))
    assert board.frames == frontend.frames(
        pcm,
        channel=input_mixer.MEAN,
        gain=0x2800,
        remove_dc=True,
        denoise=denoiser.Settings(floor=3000, oversubtraction=500, smoothing=50_000),
        voice=vad.Settings(onset_score=90, offset_score=60, hangover=5, min_onset=3, delay_ns=DELAY_RESAMPLE),
    )


def test_in_bypass_under_the_plain_rule_frames_are_those_of_a_plain_front_end(library):
    pcm = speech_like(1.0, seed=9)
    board = Board(library)
    board.set(DENOISE=1, VAD_RULE=1)
    board.model.play(pcm)
    board.run(len(pcm))
    plain = frontend.frames(
        pcm, denoise=denoiser.Settings(bypass=True), voice=vad.Settings(plain=True, delay_ns=DELAY_RESAMPLE)
    )
    assert board.frames == plain
    assert {frame[26] for frame in plain} == {frontend.RESAMPLED}


@pytest.mark.parametrize("preroll", [0, 128, 256])
def test_a_gated_stream_holds_the_speech_its_pre_roll_and_a_sign_of_life(library, preroll):
    pcm = (speech_like(4.0, seed=11) // 2).astype(np.int16)
    board = Board(library)
    board.set(PREROLL=preroll, STREAM_MODE=1)
    board.model.play(pcm)
    board.run(len(pcm))
    expected = frontend.frames(pcm, gated=True, preroll=preroll)
    assert board.frames == expected
    samples = [int.from_bytes(frame[24:26], "little") for frame in expected]
    onsets = sum(frame[3] >> 1 & 1 for frame in expected)
    assert onsets >= 3 and 0 in samples and any(0 < count < 64 for count in samples)
    assert sum(samples) < 0.8 * len(pcm) / 3, "silence must not be sent"


def test_the_test_pattern_is_a_ramp_that_any_host_can_check(library):
    board = Board(library)
    board.run(960)
    board.set(INPUT=registers.INPUT__TEST_PATTERN)
    board.run(4800)
    for frame in board.frames[5:]:
        sequence = int.from_bytes(frame[4:8], "little")
        ramp = (64 * sequence + np.arange(64)).astype("<u2")
        assert frame[3] & 0x80 and frame[32:] == ramp.tobytes()
    assert len(board.frames) == 30 and not any(frame[3] & 0x80 for frame in board.frames[:5])


def test_the_loudspeaker_gets_what_the_golden_playback_gives(library):
    rng = np.random.default_rng(3)
    tables = table("interpolate_16k_48k.hex"), table("interpolate_24k_48k.hex")
    board, golden = Board(library), playback.Playback(tables, delay_ns=DELAY_RESAMPLE, low_water=4800)
    expected, head = [], 0
    for ticket, rate in enumerate((1, 0, 1), start=5):
        pcm = (6000 * rng.standard_normal(900)).clip(-32768, 32767).astype(np.int16)
        slots = [
            playback.Slot(ticket, at, pcm[at : at + 120], rate=rate, first=at == 0, last=at + 120 >= len(pcm))
            for at in range(0, len(pcm), 120)
        ]
        board.publish(slots, head)
        golden.publish(slots)
        head += len(slots)
        board.run(3600)
        expected += [golden.tick(ns_of(tick)) for tick in range(len(expected), len(expected) + 3600)]
    heard = board.model.dac(0, len(expected))
    assert np.abs(heard).max() > 10_000
    np.testing.assert_array_equal(heard, np.array(expected, np.int16))


def test_the_capture_ring_says_who_it_belongs_to_behind_its_last_slot(library):
    board = Board(library)
    board.run(4800)
    at = CAPTURE_ADDRESS + CAPTURE_SLOTS * SLOT_BYTES
    head, boot_id = board.model.memory[at : at + 8].view("<u4")
    assert (head, boot_id) == (25, 77) == (board.model.read(registers.RING_HEAD), 77)


def test_an_impossible_tail_is_refused_and_does_not_stay_in_the_register(library):
    board = Board(library)
    board.run(4800)
    board.model.write(registers.RING_TAIL, 5000)
    assert board.model.read(registers.RING_TAIL) == 25
    assert board.model.read(registers.FAULTS) == registers.FAULTS__BAD_TAIL
    board.model.write(registers.FAULTS, registers.FAULTS__BAD_TAIL)
    assert board.model.read(registers.FAULTS) == 0


def test_frames_of_a_full_ring_are_counted_in_the_next_one_that_fits(library):
    board = Board(library)
    for _ in range(12):  # 1.2 s without a tail: 300 frames for 256 slots
        board.model.run(4800)
        board.model.write(registers.HEARTBEAT, 1)
    assert board.model.read(registers.RING_HEAD) == 256
    assert board.model.read(registers.RING_LOST) == 44
    board.model.write(registers.RING_TAIL, 256)
    board.model.run(192)
    frame = board.model.memory[CAPTURE_ADDRESS : CAPTURE_ADDRESS + FRAME_BYTES].tobytes()
    assert int.from_bytes(frame[4:8], "little") == 300
    assert frame[3] & 0x08 and int.from_bytes(frame[16:18], "little") == 44


def test_ten_seconds_without_room_lose_whole_frames_and_not_one_sample_of_time(library):
    pcm = speech_like(10.5, seed=5)
    board = Board(library)
    board.model.play(pcm)
    for _ in range(100):  # the host lives, but takes nothing
        board.model.run(4800)
        board.model.write(registers.HEARTBEAT, 1)
    captured = 480_000 // 192
    assert board.model.read(registers.RING_HEAD) == CAPTURE_SLOTS
    assert board.model.read(registers.RING_LOST) == captured - CAPTURE_SLOTS
    board.run(9600)
    expected = frontend.frames(pcm[: 480_000 + 9600])
    # One that told nothing yet: the frames in the ring, and those after it but for what the next one says it lost.
    assert board.frames[:CAPTURE_SLOTS] == expected[:CAPTURE_SLOTS]
    first = board.frames[CAPTURE_SLOTS]
    sequence, lost = int.from_bytes(first[4:8], "little"), int.from_bytes(first[16:18], "little")
    assert sequence == CAPTURE_SLOTS + lost and lost >= captured - CAPTURE_SLOTS
    assert first[32:] == expected[sequence][32:] and first[8:16] == expected[sequence][8:16]
    assert board.frames[CAPTURE_SLOTS + 1 :] == expected[sequence + 1 :]


def test_steps_of_the_clock_to_and_fro_are_counted_and_tear_no_frame(library):
    board = Board(library)
    board.run(960)
    jumps = (1_000_000_000, -300_000_000, 7, -7)
    for number, jump in enumerate(jumps, 1):
        board.model.write(registers.CLOCK_STEP, jump & 0xFFFFFFFF)
        board.model.write(registers.CLOCK_STEP + 4, (jump >> 32) & 0xFFFFFFFF)
        assert board.model.read(registers.CLOCK_EPOCH) == number
        board.run(960)
    stamps = [int.from_bytes(frame[8:16], "little") for frame in board.frames]
    away = [stamp - max(0, 4_000_000 * k - DELAY_RESAMPLE - DELAY_DENOISE) for k, stamp in enumerate(stamps)]
    # A step falls between two frames, and each of the five that follow has what the clock had come to.
    assert [away for away, _ in groupby(away)] == [sum(jumps[:n]) for n in range(len(jumps) + 1)]


def test_a_dead_host_stops_the_writing_after_half_a_second(library):
    board = Board(library)
    board.model.run(24_000 + 960)
    head = board.model.read(registers.RING_HEAD)
    board.model.run(9600)
    assert board.model.read(registers.RING_HEAD) == head == 125
    assert board.model.read(registers.FAULTS) & registers.FAULTS__HEARTBEAT_LOST
    board.model.write(registers.HEARTBEAT, 1)
    board.model.run(960)
    assert board.model.read(registers.RING_HEAD) > head


def test_a_step_of_the_clock_moves_the_media_time_and_not_the_free_one(library):
    board = Board(library)
    board.model.run(48)
    read = lambda low: board.model.read(low) | board.model.read(low + 4) << 32  # noqa: E731
    before, free = read(registers.TIME_NS), read(registers.FREE_NS)
    board.model.write(registers.CLOCK_STEP, 5_000_000_000 & 0xFFFFFFFF)
    board.model.write(registers.CLOCK_STEP + 4, 5_000_000_000 >> 32)
    assert read(registers.TIME_NS) == before + 5_000_000_000
    assert read(registers.FREE_NS) == free
    assert board.model.read(registers.CLOCK_EPOCH) == 1


def test_quiesce_brings_the_board_to_rest_and_no_memory_changes_after(library):
    board = Board(library)
    board.run(4800)
    board.model.write(registers.CONTROL, registers.CONTROL__CAPTURE_ENABLE | registers.CONTROL__QUIESCE)
    assert board.model.read(registers.STATUS) & registers.STATUS__IDLE
    memory = board.model.memory.copy()
    board.model.run(9600)
    np.testing.assert_array_equal(board.model.memory, memory)


@pytest.mark.parametrize("answer", ["error", "silence"])
def test_a_frame_that_memory_refuses_is_not_published_and_is_counted(library, answer):
    board = Board(library)
    board.run(4800)
    board.model.misbehave(on_write=answer)
    board.model.run(4800)
    assert board.model.read(registers.RING_HEAD) == 25
    fault = {"error": registers.FAULTS__WRITE_ERROR, "silence": registers.FAULTS__MEMORY_TIMEOUT}[answer]
    assert board.model.read(registers.FAULTS) & fault
    assert board.model.read(registers.RING_LOST) >= 24
