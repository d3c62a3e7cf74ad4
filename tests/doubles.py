"""Stand-ins for tests of the chain: a board in virtual time and engines that do as they are told."""

import queue
import threading
import time
from concurrent.futures import Future
from types import SimpleNamespace

import numpy as np
import onnxruntime

from voxpath.engines.cancel import Cancelled
from voxpath.engines.cuda.device import bound
from voxpath.engines.ort import session
from voxpath.link.frame import OFFSET, ONSET, PLAYBACK, SPEECH, Frame

HOP_NS = 4_000_000
HANGOVER_NS = 32_000_000


def frame(sequence: int, *, flags: int = 0, capture_ns: int | None = None, pcm: np.ndarray | None = None) -> Frame:
    """A frame of the 4 ms grid: number `sequence`, captured at sequence x 4 ms."""
    if capture_ns is None:
        capture_ns = sequence * HOP_NS
    pcm = np.zeros(64, np.int16) if pcm is None else pcm
    return Frame(sequence, capture_ns, flags, 0, 0, 0, 0, 0, 64, 1, 0, pcm)


class DetectorGate:
    """An EchoGate for a microphone that hears no loudspeaker: speech of the detector is the user's."""

    def __init__(self):
        self.told, self.rest = [], np.zeros(64)

    def user(self, frame):
        self.rest = frame.pcm
        return frame.speech

    def __getattr__(self, name):
        return lambda *values: self.told.append((name, *values))


class FakeReply:
    def __init__(self, board, rate):
        self.board, self.rate = board, rate
        self.times = {}
        self.written, self.ducks = [], []
        self.waiting = 0
        self.heard = 0
        self.finished = self.over = self.dry = False

    def write(self, pcm):
        assert not self.over, "written to after its end"
        assert pcm.dtype == np.int16
        self.written.append(pcm)
        self.waiting += len(pcm)

    def finish(self):
        self.finished = True

    def buffered(self):
        return self.waiting

    def duck(self, db):
        self.ducks.append((self.board.ns, db))

    def played(self):
        return self.heard

    def stop(self):
        assert not self.over
        self.over = True
        self.times["stopped"] = self.board.ns
        return self.heard

    def advance(self, start_ns, span_ns):
        """The board's time went on by `span_ns` from `start_ns`."""
        if self.over:
            return
        want = round(span_ns * 1e-9 * self.rate)
        take = min(self.waiting, want)
        if take and "first" not in self.times:
            self.times["first"] = start_ns
            self.board.tell("reply_started", start_ns)
        dry = take < want and not self.finished and self.heard > 0
        if dry and not self.dry:
            self.board.tell("underrun", start_ns, self.heard + take)
        self.dry = dry
        self.waiting -= take
        self.heard += take
        if self.finished and not self.waiting and self.heard:
            self.times["last"] = start_ns + round(take * 1e9 / self.rate)
            self.over = True


class FakeBoard:
    """Frames of a script: `speech` is a list of (start_s, end_s); time runs `speed` times faster than the wall.

    Its microphone hears a ramp, so that a test can see which samples reached the recogniser.
    """

    def __init__(self, speech=(), *, speed=20.0, ends_after_s=None, raises=None, skip=(), hangs_after_s=None):
        self.speech = [(round(a * 1e9), round(b * 1e9)) for a, b in speech]
        self.speed, self.ends_after_s, self.raises, self.skip = speed, ends_after_s, raises, set(skip)
        self.hangs_after_s = hangs_after_s
        self.ns = 0
        self.replies = []
        self.sources = []  # (board ns of the first sample, int16 at 48 kHz)
        self._events = queue.SimpleQueue()
        self._closed = threading.Event()

    def open(self):
        pass

    def close(self):
        self._closed.set()
        self._events.put(None)

    def time(self):
        return self.ns, 0, True

    def tell(self, kind, ns, position=0):
        self._events.put(SimpleNamespace(kind=kind, ns=ns, ticket=len(self.replies), position=position))

    def events(self):
        while (event := self._events.get()) is not None:
            yield event

    def play_source(self, pcm):
        """Sound louder than -30 dBFS is speech."""
        start_ns = self.ns + 10_000_000
        self.sources.append((start_ns, pcm))
        loud = np.flatnonzero(np.abs(pcm.astype(np.int32)) > 1000)
        breaks = np.flatnonzero(np.diff(loud) > 4800)
        for first, last in zip([0, *(breaks + 1)], [*breaks, -1], strict=True):
            span = (start_ns + int(loud[edge]) * 62_500 // 3 for edge in (first, last))
            self.speech.append(tuple(span))
        return start_ns

    def dac_pcm(self):
        return np.arange(4800, dtype=np.int16), 0

    def start_reply(self, rate):
        assert all(reply.over for reply in self.replies), "two replies at once"
        self.replies.append(FakeReply(self, rate))
        return self.replies[-1]

    def frames(self):
        number = 0
        while not self._closed.is_set():
            start = number * HOP_NS
            end = start + HOP_NS
            if self.ends_after_s is not None and end > self.ends_after_s * 1e9:
                if self.raises:
                    raise self.raises
                return
            if self.hangs_after_s is not None and end > self.hangs_after_s * 1e9:
                self._closed.wait()
                return
            # Time that a busy machine took is not made up for: the chain's threads have lost it too.
            time.sleep(HOP_NS * 1e-9 / self.speed)
            self.ns = end
            for reply in self.replies:
                reply.advance(start, HOP_NS)
            if number not in self.skip:
                yield self._frame(number, start, end)
            number += 1

    def _frame(self, number, start, end):
        flags = 0
        for first, last in self.speech:
            if first < end and last > start:
                flags |= SPEECH
            if start <= first < end:
                flags |= ONSET
                self.tell("onset", first)
            if start <= last + HANGOVER_NS < end:
                flags |= OFFSET
                self.tell("offset", last)
        if any(reply.heard and not reply.over for reply in self.replies):
            flags |= PLAYBACK
        return frame(number, flags=flags, pcm=np.arange(64 * number, 64 * number + 64).astype(np.int16))


class FakeRecogniser:
    """Says one of `texts` for each utterance, or the last again; for an utterance with a list of them, the next for
    each run. An exception among them is raised, a number is waited for first, a function gets the sound. A run is of
    another utterance when its sound begins elsewhere."""

    def __init__(self, *texts):
        self.texts, self.heard, self.begins = list(texts), [], None

    def transcribe(self, pcm, prompt=None, cancel=None, guess=()):
        if self.begins is not None and pcm[0] != self.begins and len(self.texts) > 1:
            self.texts.pop(0)
        self.begins = pcm[0]
        self.heard.append(pcm)
        text = self.texts[0]
        if isinstance(text, list):
            text = text.pop(0) if len(text) > 1 else text[0]
        if callable(text):
            text = text(pcm)
        return SimpleNamespace(text=obey(text, cancel), tokens=[])


class FakeTokenizer:
    """A token a character."""

    stop = (0,)

    def encode(self, text):
        return [ord(char) for char in text]

    def start(self):
        return []

    def open_turn(self, role):
        return self.encode(f"<{role}>")

    def close_turn(self):
        return self.encode("\n")

    def turn(self, role, text):
        return [*self.open_turn(role), *self.encode(text), *self.close_turn()]

    def decode(self, ids):
        return "".join(chr(token) for token in ids)


class FakeContext:
    def __init__(self, language):
        self.language, self.tokens = language, []

    def extend(self, tokens, cancel=None):
        self.language.extended.append(len(tokens))
        self.tokens += tokens

    def truncate(self, count):
        del self.tokens[count:]

    def probability(self, token, cancel=None):
        return self.language.over

    def generate(self, stop, limit, cancel=None):
        self.language.prompts.append("".join(map(chr, self.tokens)))
        answer = self.language.answers.pop(0) if len(self.language.answers) > 1 else self.language.answers[0]
        for token in self.language.tokenizer.encode(obey(answer, cancel)):
            obey("", cancel)
            if self.language.token_s:
                time.sleep(self.language.token_s)
            self.tokens.append(token)
            yield [token]


class FakeLanguage:
    def __init__(self, *answers, token_s=0.0, over=0.5):
        self.answers, self.token_s, self.over = list(answers), token_s, over
        self.tokenizer, self.prompts, self.extended = FakeTokenizer(), [], []

    def open(self):
        return FakeContext(self)


class FakeVoice:
    """Half a second of tone for each phrase after `lead_s` of silence; 24 kHz."""

    rate = 24_000

    def __init__(self, *, lead_s=0.05, seconds=0.5, first=""):
        self.lead_s, self.seconds, self.said, self.first = lead_s, seconds, [], first

    def speak(self, text, cancel=None):
        self.said.append(text)
        obey(self.first, cancel)
        yield np.zeros(round(self.lead_s * self.rate), np.int16)
        tone = 8000 * np.sin(2 * np.pi * 300 / self.rate * np.arange(round(self.seconds * self.rate)))
        yield tone.astype(np.int16)


class Deaf(Exception):
    """What an engine does that neither answers nor heeds its cancel."""


def obey(order, cancel):
    """Return a text; raise an exception; for a number, hang that long (seconds) without heeding `cancel`."""
    if isinstance(order, tuple):
        seconds, order = order
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            if cancel is not None and cancel.is_set:
                raise Cancelled
            time.sleep(0.001)
    if isinstance(order, Deaf):
        time.sleep(30)
    if isinstance(order, Exception):
        raise order
    if cancel is not None and cancel.is_set:
        raise Cancelled
    return order


class HostBuffer:
    """A buffer of voxpath.engines.cuda.device in the host's memory."""

    def __init__(self, array):
        self.shape = array.shape
        self._array = array.reshape(-1)
        self.value = onnxruntime.OrtValue.ortvalue_from_numpy(array)

    def write(self, values):
        values = np.asarray(values, self._array.dtype).reshape(-1)
        self._array[: len(values)] = values

    def read(self, count=None):
        return self._array[:count].copy()


class HostGpu:
    """A GPU's place taken by the CPU: what a step does has been done when it returns."""

    def __init__(self):
        self.launched = 0

    def run(self, work, *arguments):
        return work(*arguments)

    def start(self, work, *arguments):
        done = Future()
        try:
            done.set_result(work(*arguments))
        except Exception as error:
            done.set_exception(error)
        return done

    def load(self, path, **sizes):
        return session.load(path, sizes=sizes)

    def zeros(self, *shape, dtype=np.float32):
        return HostBuffer(np.zeros(shape, dtype))

    def step(self, network, inputs, outputs):
        binding = bound(network, inputs, outputs)

        def launch():
            self.launched += 1
            network.run_with_iobinding(binding)

        launch()
        launch()  # as often as a capture runs it, at least
        return launch

    def wait(self):
        pass
