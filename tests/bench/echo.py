"""Does a reply that the microphone hears count as the user? And is the user heard over it?

    python tests/bench/echo.py [--quick] [--seed 0]

The simulated board itself speaks replies of the project's voice and hears them again, straight (after 5 ms, by the
board's own echo) or in recorded rooms, at -10, -20 and -30 dB under the DAC; human speech comes in at 0, 10 and 20 dB
over the echo, both measured where they are active. Every board and its gate are fresh, so the first reply of each is
one in a room that is not known yet. Duck: two `user` frames in a row. Sustained: 60 % of the frames of some 250 ms.
Noticed: ducked within 50 ms of where the clean speech comes within 20 dB of its loudest (steps of 4 ms).

Then the reply is lowered and given up as BargeIn says, for words, made coughs (1 to 3 bursts of 150 to 250 ms), hums of
250 to 350 ms with a pitch that varies, and "mm", "mhm" and "uh-huh" of the voice at five pitches, each 0 to 20 dB over
the echo. Exit code 1 when a target is missed. --quick takes about a fifth of it.
"""

import argparse
import sys
import time

import numpy as np
import soxr
from mixtures import RATE as ROOM_RATE
from mixtures import READING, _read, impulse_responses
from rich.console import Console
from rich.table import Table
from scipy.signal import fftconvolve
from sentences import evaluation, reading

from voxpath import models
from voxpath.boards import registers, sim_build
from voxpath.boards.access import Registers
from voxpath.boards.reply import Player
from voxpath.boards.sim_model import CAPTURE_ADDRESS, PLAY_ADDRESS, Model
from voxpath.engines import ort
from voxpath.link.ring import CaptureRing, PlaybackRing
from voxpath.speech.barge_in import BargeIn, bright
from voxpath.speech.echo import EchoGate
from voxpath.speech.speak import Joiner

TICK_RATE = 48_000
HOP = 192  # ticks a frame
SLOTS = 256
DELAY = 240  # ticks: 5 ms in the air
ROOM_S = 0.5  # of the impulse responses
ROOM_TONE_DBFS = -76.0
ACTIVE_DB = 30.0
COUPLINGS_DB = (-10, -20, -30)
LEVELS_DB = (0, 10, 20)
ECHO_S = 600.0
LEAD_S, GAP_S, TAIL_S = 0.6, 0.8, 0.3
WINDOW, SUSTAINED, WITHIN = 62, 0.6, 75  # frames, part of them, frames after the onset
NOTICED_MS = 50
FALSE_DUCKS, FOUND = 0.02, 0.96  # targets
REPLY_S = 2.4  # of a reply that is interrupted
FLUSHED, MISSED, FLUSH_MS = 0.04, 0.04, 300  # targets: of coughs and hums, of words, P95 of words

TEXTS = (
    "The capital of France is Paris. It lies on the river Seine.",
    "You can boil an egg in about eight minutes, or six if you like it soft.",
    "Yes, I can help you with that. What would you like to know?",
    "The train leaves at half past seven from platform two.",
    "I am not sure about that, but I think the museum opens at nine.",
    "There are seven days in a week, and twelve months in a year.",
    "The largest planet in our solar system is Jupiter, which has many moons.",
    "Please take an umbrella with you, because it may rain this afternoon.",
    "A good way to learn a language is to speak it every day with friends.",
    "Honey never spoils. Pots of it were found in ancient tombs.",
    "You could try a pinch of salt, a little pepper, and some fresh lemon juice.",
    "To reset the device, hold the button down for five seconds.",
    "Light from the sun takes about eight minutes to reach us.",
    "No, I would not recommend that. It could be dangerous.",
    "Turn left at the church, then walk straight on until you see the bridge.",
    "Good morning. You have two appointments today, and one of them is by telephone.",
)


def replies() -> list[np.ndarray]:
    """int16 at 24 kHz, as the chain hands them to the board."""
    voice = ort.voice(models.tts())
    made = []
    for text in TEXTS:
        joiner = Joiner(voice.rate)
        pieces = [joiner(chunk) for chunk in voice.speak(text)]
        made.append(np.concatenate([*pieces, joiner.end(text)]))
    return made


def speakers() -> list[np.ndarray]:
    """Human speech, float64 at 48 kHz, each from 50 ms before its onset."""
    clips = [clip.pcm.astype(float) for clip in evaluation()]
    sound = reading().astype(float)
    clips += [sound[int((a - 0.1) * TICK_RATE) : int((b + 0.1) * TICK_RATE)] for a, b, _ in READING]
    if evaluation():
        clips.append(soxr.resample(_read("lj050_0131.wav"), ROOM_RATE, TICK_RATE))
    return [clip[max(0, onset(clip) - TICK_RATE // 20) :] for clip in clips]


def coughs(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """Bursts of coloured noise: a burst opens in 10 ms, dies down to a third, and closes. float64, 48 kHz."""
    made = []
    for _ in range(count):
        parts = []
        for _ in range(rng.integers(1, 4)):
            length = int(rng.uniform(0.15, 0.25) * TICK_RATE)
            at = np.arange(length) / TICK_RATE
            shape = np.minimum(at / 0.01, 1) * (0.3 + 0.7 * np.exp(-at / 0.04)) * np.minimum((at[-1] - at) / 0.05, 1)
            spectrum = np.fft.rfft(rng.standard_normal(length))
            hertz = np.fft.rfftfreq(length, 1 / TICK_RATE)
            spectrum /= 1 + (hertz / rng.uniform(1500, 3500)) ** 2
            spectrum *= hertz > 200
            parts += [np.fft.irfft(spectrum, length) * shape, np.zeros(int(rng.uniform(0.09, 0.25) * TICK_RATE))]
        made.append(np.concatenate(parts))
    return made


def hums(rng: np.random.Generator, count: int) -> list[np.ndarray]:
    """A closed mouth: harmonics under a nasal murmur near 250 Hz, a weak second one near 2 kHz, and a falling or rising
    pitch. float64, 48 kHz."""
    made = []
    for _ in range(count):
        length = int(rng.uniform(0.25, 0.35) * TICK_RATE)
        at = np.arange(length) / TICK_RATE
        pitch = rng.uniform(90, 250) * 2 ** (rng.uniform(-0.4, 0.4) * at / at[-1])
        phase = 2 * np.pi * np.cumsum(pitch) / TICK_RATE
        sound = np.zeros(length)
        for harmonic in range(1, 30):
            hertz = harmonic * pitch
            near, far = 1 / (1 + ((hertz - 250) / 120) ** 2), 0.03 / (1 + ((hertz - 2100) / 300) ** 2)
            sound += (near + far) * (hertz < 7000) * np.sin(harmonic * phase)
        sound += 0.002 * rng.standard_normal(length)
        made.append(sound * np.minimum(1, np.minimum(at / 0.03, (at[-1] - at) / 0.06)))
    return made


def murmurs() -> dict[str, list[np.ndarray]]:
    """What a listener says to say nothing, in the project's voice at five pitches and lengths. float64, 48 kHz."""
    voice = ort.voice(models.tts())
    made = {}
    for text in ("Mm.", "Mhm.", "Uh-huh."):
        joiner = Joiner(voice.rate)
        sound = np.concatenate([*(joiner(chunk) for chunk in voice.speak(text)), joiner.end(text)]).astype(float)
        made[f"“{text[:-1].lower()}”, spoken"] = [
            soxr.resample(sound, voice.rate * factor, TICK_RATE) for factor in (0.8, 0.9, 1.0, 1.12, 1.25)
        ]
    return made


def onset(clip: np.ndarray) -> int:
    """Sample at which 4 ms come within 20 dB of the loudest 4 ms."""
    power = (clip[: len(clip) // HOP * HOP].reshape(-1, HOP) ** 2).mean(axis=1)
    return int(np.argmax(power >= power.max() / 100)) * HOP


def active_level(sound: np.ndarray, rate: int) -> float:
    """RMS of the 10 ms within 30 dB of the loudest."""
    step = rate // 100
    power = (sound[: len(sound) // step * step].astype(float).reshape(-1, step) ** 2).mean(axis=1)
    return float(np.sqrt(power[power >= power.max() * 10 ** (-ACTIVE_DB / 10)].mean()))


class Room:
    """A board that hears its loudspeaker in a room, stepped a frame at a time; and the gate that listens."""

    def __init__(self, response: np.ndarray | None, coupling_db: float, rng: np.random.Generator) -> None:
        self.gate = EchoGate()
        self.cost = []  # seconds of `user`, each frame
        self._rng = rng
        self._model = Model(sim_build.library())
        gain = 10 ** (coupling_db / 20)
        self._response = None if response is None else gain * response
        if response is None:
            self._model.echo(gain, DELAY)
        self._coming = np.zeros(HOP if response is None else DELAY + len(response) + 2 * HOP)
        access = Registers(self._model.read, self._model.write)
        memory = memoryview(self._model.memory)
        for register, value in (
            (registers.RING_BASE, CAPTURE_ADDRESS),
            (registers.RING_SIZE, CaptureRing.bytes_for(SLOTS)),
            (registers.PLAY_BASE, PLAY_ADDRESS),
            (registers.PLAY_SIZE, SLOTS * 256),
            (registers.CONTROL, registers.CONTROL__CAPTURE_ENABLE | registers.CONTROL__PLAYBACK_ENABLE),
        ):
            access.write(register, value)
        self._access = access
        self._ring = CaptureRing(
            memory[CAPTURE_ADDRESS:PLAY_ADDRESS], SLOTS, lambda tail: access.write(registers.RING_TAIL, tail)
        )
        playback = PlaybackRing(
            memory[PLAY_ADDRESS:],
            SLOTS,
            lambda: access.read(registers.PLAY_TAIL),
            lambda head: access.write(registers.PLAY_HEAD, head),
        )
        self.player = Player(playback, access)
        self.frames = 0

    def hear(self, source: np.ndarray) -> list[bool]:
        """Run on while the microphone hears float64 samples at 48 kHz besides its echo; what the gate says of them."""
        steps = range(0, len(source) // HOP * HOP, HOP)
        return [user for at in steps for user, _ in self._judged(source[at : at + HOP])]

    def _judged(self, source: np.ndarray) -> list[tuple[bool, bool]]:
        tone = 32768 * 10 ** (ROOM_TONE_DBFS / 20) * self._rng.standard_normal(HOP)
        heard = np.rint(np.clip(source + self._coming[:HOP] + tone, -32768, 32767)).astype(np.int16)
        self._coming = np.concatenate([self._coming[HOP:], np.zeros(HOP)])
        self._model.play(heard)
        self._model.run(HOP)
        if self._response is not None:  # no echo within a frame, so that a frame's can be made after it
            played = self._model.dac(HOP * self.frames, HOP).astype(float)
            if played.any():
                echo = fftconvolve(played, self._response)
                self._coming[DELAY - HOP : DELAY - HOP + len(echo)] += echo
        self.frames += 1
        access = self._access
        access.write(registers.HEARTBEAT, self.frames)
        while access.read(registers.EVENT_KIND) & registers.EVENT_KIND__COUNT:
            code = access.read(registers.EVENT_KIND) & registers.EVENT_KIND__KIND
            ns = access.read(registers.EVENT_NS)
            ticket, position = access.read(registers.EVENT_TICKET), access.read(registers.EVENT_POSITION)
            access.write(registers.EVENT_POP, 1)
            if code < 2:
                (self.gate.started, self.gate.ended)[code](ns)
                self.player.notice(("reply_started", "reply_ended")[code], ns, ticket, position)
        self.player.feed()
        said = []
        for frame in self._ring.read():
            began = time.perf_counter()
            said.append((self.gate.user(frame), bright(self.gate.rest)))
            self.cost.append(time.perf_counter() - began)
        return said

    def speak(self, pcm: np.ndarray) -> None:
        self.gate.wrote(pcm, 24_000)
        self.reply = self.player.start(24_000)
        self.reply.write(pcm)
        self.reply.finish()

    def interrupted(self, pcm: np.ndarray, source: np.ndarray) -> list[tuple[int, str]]:
        """(frame, action) while `source` is heard over a reply that is lowered and brought back; it is not stopped."""
        self.speak(pcm)
        machine, actions, n = BargeIn(), [], 0
        for at in range(0, len(source) // HOP * HOP, HOP):
            for user, is_bright in self._judged(source[at : at + HOP]):
                action = machine.hear(user, 4.0, is_bright)
                if action:
                    actions.append((n, action))
                if action in ("duck", "restore"):
                    db = machine.duck_db if action == "duck" else 0.0
                    self.reply.duck(db)
                    self.gate.ducked(db, HOP * self.frames * 62_500 // 3)
                n += 1
        return actions


def ducks(said: np.ndarray) -> np.ndarray:
    """bool: this frame and the one before are the user."""
    return said[1:] & said[:-1]


def sustained(said: np.ndarray, within: int | None = None) -> bool:
    share = np.convolve(said, np.ones(WINDOW), "valid") / WINDOW
    return bool((share[:within] >= SUSTAINED).any())


def echo_alone(room: Room, spoken: list[np.ndarray]) -> tuple[int, int]:
    """(replies with a false duck, replies with a false barge-in)."""
    room.hear(np.zeros(int(LEAD_S * TICK_RATE)))
    ducked = held = 0
    for pcm in spoken:
        room.speak(pcm)
        said = np.array(room.hear(np.zeros(int((len(pcm) / 24_000 + GAP_S) * TICK_RATE))))
        ducked += bool(ducks(said).any())
        held += sustained(said)
    return ducked, held


def barge_in(room: Room, pcm: np.ndarray, clip: np.ndarray, at_s: float) -> tuple[float, bool]:
    """(ms from the onset to the duck, infinite if there is none; whether it was sustained)."""
    start = int(at_s * TICK_RATE) // HOP * HOP
    source = np.concatenate([np.zeros(start), clip, np.zeros(int(GAP_S * TICK_RATE))])
    source = np.pad(source, (0, max(0, int((len(pcm) / 24_000 + GAP_S) * TICK_RATE) - len(source))))
    room.speak(pcm)
    said = np.array(room.hear(source))[(start + onset(clip)) // HOP :]
    found = np.flatnonzero(ducks(said))
    return (4.0 * (found[0] + 2) if len(found) else np.inf), sustained(said, WITHIN)


def main() -> int:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("--quick", action="store_true")
    options.add_argument("--seed", type=int, default=0)
    chosen = options.parse_args()
    rng = np.random.default_rng(chosen.seed)
    console = Console()
    rooms = {"straight": None}
    for name, response in impulse_responses().items():
        response = response - response[-len(response) // 4 :].mean()  # an offset is no echo
        response = soxr.resample(response[: int(ROOM_S * ROOM_RATE)], ROOM_RATE, TICK_RATE)
        rooms[name] = response / np.sqrt((response**2).sum())
    spoken, clips = replies(), speakers()
    cost, seconds, alone, found = [], 0.0, {}, {}
    each_s = ECHO_S / (len(rooms) * len(COUPLINGS_DB)) / (5 if chosen.quick else 1)
    with console.status("") as status:
        for name, response in rooms.items():
            for coupling in COUPLINGS_DB:
                status.update(f"{name}, {coupling} dB")
                for _ in range(1 if chosen.quick else 3):  # whose first replies meet an unknown room
                    room, batch, length = Room(response, coupling, rng), [], LEAD_S
                    while length < each_s / (1 if chosen.quick else 3):
                        batch.append(spoken[rng.integers(len(spoken))])
                        length += len(batch[-1]) / 24_000 + GAP_S
                    ducked, held = echo_alone(room, batch)
                    before = alone.get((name, coupling), (0, 0, 0))
                    alone[name, coupling] = (before[0] + len(batch), before[1] + ducked, before[2] + held)
                    seconds += room.frames * HOP / TICK_RATE
                    cost += room.cost
                for level in LEVELS_DB:
                    room = Room(response, coupling, rng)
                    room.hear(np.zeros(int(LEAD_S * TICK_RATE)))
                    for first in (True,) if chosen.quick else (True, False):
                        pcm, clip = spoken[rng.integers(len(spoken))], clips[rng.integers(len(clips))]
                        over = 10 ** ((coupling + level) / 20) * active_level(pcm, 24_000)
                        clip = clip * (over / active_level(clip, TICK_RATE))
                        at = rng.uniform(0.3, len(pcm) / 24_000 - 0.5)
                        result = barge_in(room, pcm, clip, at)
                        found.setdefault((coupling, level), []).append((first, *result))
                    cost += room.cost
        outcome = interruptions(rooms, spoken, clips, rng, chosen.quick, status)
    good = report(console, seconds, alone, found, np.array(cost))
    return 0 if report_interruptions(console, outcome) and good else 1


def interruptions(rooms, spoken, clips, rng, quick, status) -> dict[str, list[float]]:
    """Kind of sound -> ms from its onset to the flush, infinite where there is none."""
    count = 12 if quick else 60
    words = [clips[rng.integers(len(clips))] for _ in range(count)]
    kinds = {"words": words, "coughs": coughs(rng, count), "hums": hums(rng, count), **murmurs()}
    outcome = {}
    for kind, sounds in kinds.items():
        for number, sound in enumerate(sounds):
            status.update(f"{kind} {number}")
            if number % 10 == 0:
                coupling = float(rng.choice(COUPLINGS_DB))
                room = Room(rooms[rng.choice(list(rooms))], coupling, rng)
                room.hear(np.zeros(int(LEAD_S * TICK_RATE)))
            pcm = spoken[rng.integers(len(spoken))][: int(REPLY_S * 24_000)]
            level = 10 ** ((coupling + rng.choice(LEVELS_DB)) / 20) * active_level(pcm, 24_000)
            sound = sound[:TICK_RATE] * (level / active_level(sound, TICK_RATE))
            start = int(rng.uniform(0.4, 1.0) * TICK_RATE) // HOP * HOP
            source = np.zeros(int((REPLY_S + GAP_S) * TICK_RATE))
            source[start : start + len(sound)] = sound
            begins = (start + onset(sound)) // HOP
            flushed = [at for at, action in room.interrupted(pcm, source) if action == "flush" and at >= begins]
            outcome.setdefault(kind, []).append(4.0 * (flushed[0] + 1 - begins) if flushed else np.inf)
    return outcome


def report_interruptions(console, outcome) -> bool:
    table = Table(title="Given up")
    for heading in ("sound", "number", "flushed", "median, ms", "P95, ms"):
        table.add_column(heading, justify="left" if heading == "sound" else "right")
    for kind, times in outcome.items():
        ms = np.array(times)
        spread = (f"{np.percentile(ms, q, method='higher'):.0f}" for q in (50, 95))
        table.add_row(kind, str(len(ms)), f"{100 * np.isfinite(ms).mean():.0f} %", *spread)
    console.print(table)
    words = np.array(outcome["words"])
    flushed = np.isfinite(outcome["coughs"] + outcome["hums"]).mean()
    missed, late = np.isinf(words).mean(), np.percentile(words, 95, method="higher")
    good = flushed <= FLUSHED and missed <= MISSED and late <= FLUSH_MS
    console.print(
        f"Coughs and hums that end a reply: {flushed:.1%} (at most {FLUSHED:.0%}); words that do not: {missed:.1%} "
        f"(at most {MISSED:.0%}); P95 {late:.0f} ms (at most {FLUSH_MS}): {'reached' if good else 'MISSED'}.",
        highlight=False,
    )
    return good


def report(console, seconds, alone, found, cost) -> bool:
    table = Table(title=f"Replies alone, {seconds / 60:.1f} minutes")
    for heading in ("room", "echo, dB", "replies", "false ducks", "false barge-ins"):
        table.add_column(heading, justify="left" if heading == "room" else "right")
    for (name, coupling), counts in alone.items():
        table.add_row(name, str(coupling), *map(str, counts))
    console.print(table)
    table = Table(title="Barge-ins")
    for heading in ("echo, dB", "over it, dB", "number", "noticed", "sustained", "both", "median, ms", "P95, ms"):
        table.add_column(heading, justify="right")
    every = [one for group in found.values() for one in group]
    rows = [(str(c), str(level), group) for (c, level), group in found.items()]
    rows += [("all", "", every), ("all", "first reply", [one for one in every if one[0]])]
    for coupling, level, group in rows:
        ms = np.array([one[1] for one in group])
        noticed, kept = ms <= NOTICED_MS, np.array([one[2] for one in group])
        shares = (f"{100 * share.mean():.0f} %" for share in (noticed, kept, noticed & kept))
        spread = (f"{np.percentile(ms, q, method='higher'):.0f}" for q in (50, 95))
        table.add_row(coupling, level, str(len(group)), *shares, *spread)
    console.print(table)
    console.print(f"A frame takes {1e6 * np.median(cost):.0f} us, 99 % under {1e6 * np.percentile(cost, 99):.0f}.")
    told, ducked, held = np.sum(list(alone.values()), axis=0)
    share = np.mean([ms <= NOTICED_MS and kept for _, ms, kept in every])
    good = held == 0 and ducked <= FALSE_DUCKS * told and share >= FOUND
    console.print(
        f"False ducks in {ducked} of {told} replies (at most {FALSE_DUCKS:.0%}), false barge-ins {held} (none); "
        f"noticed and sustained {share:.1%} of {len(every)} (at least {FOUND:.0%}): {'reached' if good else 'MISSED'}.",
        highlight=False,
    )
    return good


if __name__ == "__main__":
    sys.exit(main())
