"""The user is told from the reply's own echo: synthetic replies and rooms, frames as the board makes them."""

import numpy as np
import pytest

from voxpath.link import frame as link
from voxpath.speech.echo import EchoGate

RATE = 24_000
FRAME_NS = 4_000_000
TONE = 5  # LSB RMS of the room
FIRST_NS = 500_020_833  # a tick that is no multiple of 16 kHz


def syllables(seconds, rate, seed, level=2000.0):
    """Coloured noise that swells four times a second, band-limited to 6 kHz."""
    rng = np.random.default_rng(seed)
    spectrum = np.fft.rfft(rng.standard_normal(int(seconds * rate)))
    hertz = np.fft.rfftfreq(int(seconds * rate), 1 / rate)
    spectrum *= (hertz > 200) * (hertz < 6000) / np.sqrt(1 + (hertz / 800) ** 2)
    sound = np.fft.irfft(spectrum) * (0.05 + np.sin(4 * np.pi * np.arange(int(seconds * rate)) / rate) ** 2)
    return sound * (level / np.sqrt((sound**2).mean()))


def at_16_khz(pcm, delay_s, samples):
    """24 kHz sound on a 16 kHz grid that begins `delay_s` >= 0 before it: exact for what is under 8 kHz."""
    padded = np.zeros(2 * (len(pcm) + int(delay_s * RATE)) // 6 * 3 + 3)
    padded[: len(pcm)] = pcm
    count = len(padded) // 3 * 2
    spectrum = np.fft.rfft(padded)[: count // 2 + 1]
    spectrum *= np.exp(-2j * np.pi * np.arange(len(spectrum)) * (16_000 / count) * delay_s)
    out = np.zeros(samples)
    heard = np.fft.irfft(spectrum, count)[:samples] * (2 / 3)
    out[: len(heard)] = heard
    return out


class Scene:
    """A microphone for `seconds`: room tone, what is added to it, and the frames of it."""

    def __init__(self, seconds, seed=0):
        self.pcm = np.random.default_rng(seed).normal(0, TONE, int(seconds * 16_000))
        self.playing = []

    def add(self, sound, at_s):
        at = int(at_s * 16_000)
        self.pcm[at : at + len(sound)] += sound[: len(self.pcm) - at]

    def echo(self, pcm, first_ns, path, gain=None):
        """`path` is {delay in ms: factor}; `gain` a function of the time at the DAC, s."""
        for delay_ms, factor in path.items():
            heard = factor * at_16_khz(pcm, first_ns / 1e9 + delay_ms / 1000, len(self.pcm))
            left_dac = np.arange(len(self.pcm)) / 16_000 - delay_ms / 1000
            self.pcm += heard if gain is None else heard * gain(left_dac)
        self.playing.append((first_ns, first_ns + len(pcm) * 10**9 // RATE))

    def frames(self, speech=lambda s: True):
        pcm = np.rint(np.clip(self.pcm, -32768, 32767)).astype(np.int16)
        for n in range(len(pcm) // 64):
            ns = n * FRAME_NS
            flags = link.SPEECH if speech(ns / 1e9) else 0
            flags |= link.PLAYBACK if any(a <= ns + FRAME_NS and ns < b for a, b in self.playing) else 0
            made = link.build(pcm[64 * n : 64 * n + 64], sequence=n, capture_ns=ns, flags=flags)
            yield from link.parse(made)


def listen(gate, frames, calls=()):
    """What the gate says of each frame; each of `calls` is (ns, function, arguments), made before that frame."""
    calls, said = sorted(calls, key=lambda call: call[0]), []
    for frame in frames:
        while calls and calls[0][0] <= frame.capture_ns:
            _, function, *arguments = calls.pop(0)
            function(*arguments)
        said.append(gate.user(frame))
    return np.array(said)


def reply_calls(gate, pcm, first_ns, told_late_ns=12_000_000):
    end = first_ns + len(pcm) * 10**9 // RATE
    return [
        (first_ns - 30_000_000, gate.wrote, pcm, RATE),
        (first_ns + told_late_ns, gate.started, first_ns),
        (end + told_late_ns, gate.ended, end),
    ]


def ducks(said):
    return np.flatnonzero(said[1:] & said[:-1])


ROOM = {5.0: 0.25, 9.3: -0.12, 31.7: 0.06, 62.1: -0.03}


@pytest.fixture(scope="module")
def reply():
    return np.rint(syllables(3, RATE, 1)).astype(np.int16)


@pytest.fixture(scope="module")
def heard(reply):
    """The microphone hears the reply alone, from FIRST_NS on."""
    scene = Scene(4.2)
    scene.echo(reply, FIRST_NS, ROOM)
    return scene


def with_speech(scene, at_s, level, seconds=0.4):
    spoken = Scene(0)
    spoken.pcm, spoken.playing = scene.pcm.copy(), scene.playing
    spoken.add(syllables(seconds + 0.125, 16_000, 5, level)[2000:], at_s)  # from a loudest moment on
    return spoken


def test_without_a_reply_the_user_is_what_the_board_calls_speech():
    said = listen(EchoGate(), Scene(1).frames(speech=lambda s: 0.3 <= s < 0.7))
    assert list(np.flatnonzero(said)) == list(range(75, 175))


def test_a_first_reply_in_an_unknown_room_is_not_the_user(reply, heard):
    gate = EchoGate()
    said = listen(gate, heard.frames(speech=lambda s: s > 0.5), reply_calls(gate, reply, FIRST_NS))
    assert not len(ducks(said[: int(3.75 / 0.004)]))


def test_after_the_room_has_fallen_silent_the_board_decides_again(reply, heard):
    gate = EchoGate()
    said = listen(gate, heard.frames(), reply_calls(gate, reply, FIRST_NS))
    end_s = FIRST_NS / 1e9 + 3.0
    assert not said[int((end_s + 0.05) / 0.004) : int((end_s + 0.29) / 0.004)].any()
    assert said[int((end_s + 0.31) / 0.004) :].all()


@pytest.mark.parametrize("level", [1700, 540, 340])
def test_the_user_is_heard_over_the_reply_and_even_somewhat_under_it(reply, heard, level):
    """The echo has 540 LSB RMS: only what is subtracted from it lets 4 dB less through."""
    gate = EchoGate()
    said = listen(
        gate, with_speech(heard, 2.5, level).frames(speech=lambda s: s > 0.5), reply_calls(gate, reply, FIRST_NS)
    )
    first = ducks(said[125 : int(3.4 / 0.004)])[0] + 125
    assert 2.5 / 0.004 - 1 <= first <= 2.54 / 0.004
    assert said[first : first + 75].mean() > 0.6


def test_a_loud_user_is_heard_from_the_first_reply_on(reply, heard):
    gate = EchoGate()
    said = listen(
        gate, with_speech(heard, 0.8, 2500).frames(speech=lambda s: s > 0.5), reply_calls(gate, reply, FIRST_NS)
    )
    first = ducks(said[125:])[0] + 125
    assert 0.8 / 0.004 - 1 <= first <= 0.83 / 0.004


def test_while_it_is_not_known_when_the_reply_began_nobody_begins_to_speak_but_who_speaks_goes_on(reply, heard):
    for begins_s in (0.45, 0.51):
        gate = EchoGate()
        calls = reply_calls(gate, reply, FIRST_NS, told_late_ns=60_000_000)
        said = listen(gate, heard.frames(speech=lambda s, since=begins_s: s >= since), calls)
        assert said[int(0.512 / 0.004) : int(0.552 / 0.004)].all() == (begins_s == 0.45)
        assert said[int(0.512 / 0.004) : int(0.552 / 0.004)].any() == (begins_s == 0.45)


def test_a_reply_that_returns_to_full_level_is_not_the_user(reply):
    scene = Scene(4.2)
    scene.echo(reply, FIRST_NS, ROOM, gain=lambda s: np.where((s >= 1.5) & (s < 2.2), 0.05, 1.0))
    gate = EchoGate()
    calls = reply_calls(gate, reply, FIRST_NS)
    # the host knows these times to a millisecond
    calls += [(1_500_000_000, gate.ducked, -26, 1_501_000_000), (2_200_000_000, gate.ducked, 0, 2_201_500_000)]
    said = listen(gate, scene.frames(), calls)
    assert not len(ducks(said[: int(3.75 / 0.004)][int(1.6 / 0.004) :]))


def test_a_room_that_is_known_lets_a_quiet_user_through_from_the_start_of_the_next_reply(reply, heard):
    """Whichever fraction of a sample the reply begins at, and however late that is told."""
    for first_ns in (200_000_000, 200_041_666):
        gate = EchoGate()
        listen(gate, heard.frames(), reply_calls(gate, reply, FIRST_NS))
        scene = Scene(2, seed=9)
        pcm = np.rint(syllables(1.4, RATE, 3)).astype(np.int16)
        scene.echo(pcm, first_ns, ROOM)
        shift = len(heard.pcm) // 64
        frames = list(with_speech(scene, 0.35, 250).frames(speech=lambda s: s > 0.2))
        for frame in frames:
            frame.sequence += shift
            frame.capture_ns += shift * FRAME_NS
        calls = reply_calls(gate, pcm, first_ns + shift * FRAME_NS, told_late_ns=40_000_000)
        said = listen(gate, frames, calls)
        begins = int(0.35 / 0.004)
        assert not said[: begins - 1].any()
        assert ducks(said)[0] <= begins + 10


def test_what_is_learned_in_one_reply_is_taken_off_the_next_from_its_start_whatever_tick_it_begins_at(reply, heard):
    pcm = np.rint(syllables(0.6, RATE, 3)).astype(np.int16)
    for first_ns in (200_000_000, 200_020_833):
        gate = EchoGate()
        listen(gate, heard.frames(), reply_calls(gate, reply, FIRST_NS))
        scene = Scene(0.4, seed=9)
        scene.echo(pcm, first_ns, ROOM)
        shift = len(heard.pcm) // 64
        gate.wrote(pcm, RATE)
        gate.started(first_ns + shift * FRAME_NS)
        left, all_of_it = 0.0, 0.0
        for frame in scene.frames():
            frame.sequence += shift
            frame.capture_ns += shift * FRAME_NS
            gate.user(frame)
            if frame.capture_ns >= first_ns + shift * FRAME_NS:
                left += (np.diff(gate.rest) ** 2).sum()  # what is high counts: there a part of a sample matters
                all_of_it += (np.diff(frame.pcm.astype(float)) ** 2).sum()
        assert 10 * np.log10(all_of_it / left) > 29


def test_a_repeated_or_late_frame_changes_nothing(reply, heard):
    frames = list(heard.frames())[:400]
    rests = []
    for given in (frames, frames[:300] + frames[299:300] + frames[290:300] + frames[300:]):
        gate = EchoGate()
        listen(gate, given, reply_calls(gate, reply, FIRST_NS))
        rests.append(gate.rest)
    assert (rests[0] == rests[1]).all()


def test_lost_frames_do_not_make_a_user_of_the_reply(reply, heard):
    gate = EchoGate()
    frames = list(heard.frames(speech=lambda s: s > 0.5))
    kept = frames[:300] + frames[307:450] + frames[490:]
    said = listen(gate, kept, reply_calls(gate, reply, FIRST_NS))
    at = np.array([frame.capture_ns for frame in kept])
    assert not len(ducks(said[(at > FIRST_NS) & (at < 3_750_000_000)]))


def test_a_reply_stopped_early_is_not_expected_any_more(reply):
    """What is not played is not taken off: the user who stopped it is not covered by its rest."""
    scene = Scene(3)
    scene.echo(reply[: int(1.0 * RATE)], FIRST_NS, ROOM)
    gate = EchoGate()
    stopped = FIRST_NS + 1_000_000_000
    calls = [*reply_calls(gate, reply, FIRST_NS)[:2], (stopped + 4_000_000, gate.ended, stopped)]
    said = listen(gate, with_speech(scene, 1.65, 200).frames(), calls)
    first = ducks(said[int(1.56 / 0.004) :])[0] + int(1.56 / 0.004)
    assert 1.65 / 0.004 - 1 <= first <= 1.68 / 0.004
