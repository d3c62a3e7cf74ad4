"""A conversation through a board: frames in, turns out, one thread a stage.

    listen (this board's frames) -> recognise -> think -> speak -> the board

Recognition may start at the first pause and is kept if nobody speaks again before the endpoint; the language model and
the voice run once the turn is committed. A turn ends in exactly one place, `_close`, whatever becomes of it.
"""

from __future__ import annotations

import contextlib
import queue
import threading
import time
from collections import deque
from collections.abc import Callable

import numpy as np

from voxpath.engines.cancel import Cancel, Cancelled
from voxpath.errors import BoardError, VoxpathError
from voxpath.link.frame import SAMPLE_RATE
from voxpath.speech.endpoint import FixedSilence
from voxpath.speech.listen import Listener, Signal
from voxpath.speech.phrases import PhraseCutter
from voxpath.speech.recognise import words
from voxpath.speech.speak import LeadTrimmer
from voxpath.speech.stage import Stage
from voxpath.speech.think import DEFAULT_SYSTEM, Thinker
from voxpath.speech.turn import Recognition, Turn

STUCK_S = 3.0  # a reply, or a step of one, that takes longer than this ends its turn with an error
DEAD_S = 1.0  # a board that sends no frame for this long is dead
INTERRUPT_MS = 120  # speech that lasts this long while a reply is under way is the speaker's next turn
AHEAD_S = 0.6  # how much of a reply waits in the board; the rest waits here, where it can be dropped
PIECE_S = 0.1
PARTIAL_S = 1.0
ENGINE = {"recognise": "the recogniser", "think": "the language model", "speak": "the voice"}


class Watcher:
    """What a view may want to know, as it happens. Every method returns at once; the default does nothing.

    With `wants_partials` the recogniser also runs about once a second while someone speaks.
    """

    wants_partials = False

    def level(self, frame, state: str) -> None: ...
    def partial(self, text: str) -> None: ...
    def heard(self, turn: Turn) -> None: ...
    def replying(self, turn: Turn) -> None: ...
    def speaking(self, turn: Turn) -> None: ...
    def sounding(self, turn: Turn, ns: int) -> None: ...
    def failed(self, turn: Turn, sentence: str) -> None: ...


class Chain:
    """Answers whoever speaks into the board, turn after turn, until `stop`.

    `on_turn(turn)` is called once for every turn that was committed and not withdrawn, after its reply has been heard.
    The owner calls `check()` a few times a second: it ends turns that hang, and raises BoardError for a dead board.
    """

    def __init__(
        self,
        board,
        recogniser,
        language,
        voice,
        *,
        endpoint: FixedSilence,
        speculate: bool = True,
        system: str = DEFAULT_SYSTEM,
        watcher: Watcher | None = None,
        on_turn: Callable[[Turn], None] = lambda turn: None,
    ) -> None:
        self._board, self._recogniser, self._voice = board, recogniser, voice
        self._thinker = Thinker(language, system)
        self._speculate = speculate
        self._watcher = watcher or Watcher()
        self._on_turn = on_turn
        self.listener = Listener(endpoint)
        self._speculation: Recognition | None = None
        self._partial: Recognition | None = None
        self._turn: Turn | None = None
        self._turns = 0
        self._lock = threading.Lock()
        self._hearing = threading.Lock()  # held while a frame is taken in, so that `idle` sees no half-made turn
        self._detected: deque = deque()
        self._running = False
        self._stopping = Cancel()
        self._last_frame = time.monotonic()
        self._board_error: BoardError | None = None
        self._stages = {
            "recognise": Stage("recognise", self._recognise, self._recognition_failed),
            "think": Stage("think", self._think, self._stage_failed),
            "speak": Stage("speak", self._speak, self._stage_failed),
        }

    # ---- for the owner ---------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Nobody speaks and no turn is open."""
        with self._hearing:
            return self._turn is None and self.listener.utterance is None

    def start(self) -> None:
        """Prepare the language model and begin to listen."""
        self._thinker.prepare()
        self._running = True
        self._last_frame = time.monotonic()
        for stage in self._stages.values():
            stage.start()
        threading.Thread(target=self._listen, name="listen", daemon=True).start()
        threading.Thread(target=self._follow_events, name="events", daemon=True).start()

    def stop(self) -> None:
        """End every thread; an open turn is cut off and closed. The board is closed by its owner, after this."""
        self._running = False
        self._stopping.set()
        turn = self._turn
        if turn is not None:
            turn.cancel.set()
        for stage in self._stages.values():
            stage.stop()
        deadline = time.monotonic() + 1.0
        while self._turn is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        if (turn := self._turn) is not None:
            self._close(turn)
        for stage in self._stages.values():
            stage.join(2.0)

    def check(self) -> None:
        """Raise BoardError if the board has died; end a turn that has made no progress for too long."""
        if self._board_error is not None:
            raise self._board_error
        silent = time.monotonic() - self._last_frame
        if self._running and silent > DEAD_S:
            raise BoardError(f"The board has sent no frame for {silent:.1f} s; check that it is running and connected.")
        turn = self._turn
        if turn is None or turn.closed or turn.step == "play":
            return
        now = time.monotonic()
        late = not turn.begun and now - turn.committed > STUCK_S
        if late or now - turn.progress > STUCK_S:
            step = turn.step
            self._fail(turn, f"no answer from {ENGINE[step]} within {STUCK_S:.0f} s")
            self._stages[step].replace()
            if step == "think":
                self._thinker.renew()

    # ---- listening -------------------------------------------------------------------------------------------------

    def _listen(self) -> None:
        try:
            for frame in self._board.frames():
                self._last_frame = time.monotonic()
                if not self._running:
                    return
                with self._hearing:
                    self._hear(frame)
        except BoardError as error:
            self._board_error = error
            return
        except Exception as error:
            self._board_error = BoardError(f"Reading the board's frames failed: {error}.")
            return
        if self._running:
            self._board_error = BoardError("The board stopped sending frames in the middle of the run.")

    def _hear(self, frame) -> None:
        while self._detected:
            event = self._detected.popleft()
            (self.listener.onset_at if event.kind == "onset" else self.listener.offset_at)(event.ns)
        signal = self.listener.hear(frame)
        utterance = self.listener.utterance
        self._watcher.level(frame, self.listener.state)
        if self._watcher.wants_partials:
            self._transcribe_so_far(signal)
        if signal is Signal.PAUSE and self._speculate:
            self._speculation = self._begin_recognition(utterance.pcm())
        elif signal in (Signal.RESUMED, Signal.NOISE):
            self._drop_speculation()
        elif signal is Signal.CUT:
            self._drop_speculation()
            utterance.segments.append(self._begin_recognition(self.listener.cut_off))
        elif signal is Signal.ENDPOINT and self._answering():
            self._drop_speculation()  # too short to be the next turn: a cough, an "mm"
        elif signal is Signal.ENDPOINT:
            self._commit()
        if signal in (None, Signal.RESUMED) and utterance is not None and utterance.speech_ms >= INTERRUPT_MS:
            self._interrupt()

    def _transcribe_so_far(self, signal: Signal | None) -> None:
        """Show words while they are spoken. Whatever the recogniser is needed for next does not wait for this."""
        partial, utterance = self._partial, self.listener.utterance
        if signal is not None:
            if partial is not None:
                partial.cancel.set()
            self._partial = None
        elif utterance is not None and not self.listener.paused and not self._answering():
            heard_s = 0.0 if partial is None else len(partial.pcm) / SAMPLE_RATE
            if utterance.seconds >= heard_s + PARTIAL_S:
                self._partial = self._begin_recognition(utterance.pcm())

    def _begin_recognition(self, pcm: np.ndarray) -> Recognition:
        """Have the recogniser hear `pcm`, all of which is there now; no turn waits for it yet."""
        recognition = Recognition(pcm, self._now())
        self._stages["recognise"].put(recognition)
        return recognition

    def _drop_speculation(self) -> None:
        if self._speculation is not None:
            self._speculation.cancel.set()
            self._speculation = None

    def _commit(self) -> None:
        """The speaker has finished: open a turn with the speculation, or with a recognition of what was not cut off."""
        now = self._now()
        utterance = self.listener.finished
        turn = Turn(self._turns, utterance)
        self._turns += 1
        turn.uncertainty_ns = self._board.time()[1]
        turn.times |= {
            "speech_start": utterance.speech_start_ns,
            "speech_end": utterance.speech_end_ns,
            "endpoint": now,
        }
        recognition, self._speculation = self._speculation, None
        turn.speculated = recognition is not None
        fresh = recognition is None
        if fresh:
            recognition = Recognition(utterance.pcm(), now)
        turn.cancel = recognition.cancel
        turn.times["audio_ready"] = recognition.audio_ready_ns
        self._tell_board(turn_open=True)
        with self._lock:
            self._turn = turn
            recognition.turn = turn
            done = recognition.text is not None or recognition.error is not None
        if fresh:
            self._stages["recognise"].put(recognition)
        elif done:
            self._recognised(recognition)

    def _answering(self) -> bool:
        turn = self._turn
        return turn is not None and not turn.cancel.is_set

    def _interrupt(self) -> None:
        """Someone speaks while a turn is open: take the turn back, or, if its reply is being heard, cut the reply."""
        if not self._answering():
            return
        turn = self._turn
        if turn.withdraw():
            self.listener.take_back(turn.utterance)
            self._turns -= 1
            self._close(turn)
        else:
            turn.barged_in = True
            turn.cancel.set()

    # ---- recognise -------------------------------------------------------------------------------------------------

    def _recognise(self, recognition: Recognition) -> None:
        text = words(self._recogniser.transcribe(recognition.pcm, cancel=recognition.cancel).text)
        final_ns = self._now()
        with self._lock:
            recognition.text, recognition.final_ns = text, final_ns
            committed = recognition.turn is not None
        self._watcher.partial(text)
        if committed:
            self._recognised(recognition)

    def _recognition_failed(self, recognition: Recognition, error: Exception) -> None:
        with self._lock:
            recognition.error = error
            committed = recognition.turn is not None
        if committed:
            self._recognised(recognition)

    def _recognised(self, recognition: Recognition) -> None:
        """A committed turn has its words; those of the pieces cut off before came first out of the same stage."""
        turn = recognition.turn
        parts = [*turn.utterance.segments, recognition]
        error = next((part.error for part in parts if part.error is not None), None)
        if error is not None:
            self._stage_failed(turn, error)
            return
        turn.transcript = " ".join(part.text for part in parts if part.text)
        turn.times["asr_final"] = recognition.final_ns
        if not turn.transcript:
            self._close(turn)
            return
        self._watcher.heard(turn)
        turn.at("think")
        self._stages["think"].put(turn)

    # ---- think -----------------------------------------------------------------------------------------------------

    def _think(self, turn: Turn) -> None:
        cutter = PhraseCutter()
        self._stages["speak"].put(turn)
        try:
            for text in self._thinker.answer(turn.transcript, turn.cancel):
                self._stamp(turn, "llm_first_token")
                turn.progress = time.monotonic()
                turn.reply += text
                self._watcher.replying(turn)
                self._say(turn, cutter.feed(text))
            self._say(turn, cutter.end())
        finally:
            turn.phrases.put(None)
            if turn.reply.strip() and not turn.withdrawn:
                self._thinker.remember(turn.transcript, turn.reply.strip())
        self._thinker.prepare(self._stopping)

    def _say(self, turn: Turn, phrases: list[str]) -> None:
        for phrase in phrases:
            self._stamp(turn, "phrase")
            turn.phrases.put(phrase)

    # ---- speak -----------------------------------------------------------------------------------------------------

    def _speak(self, turn: Turn) -> None:
        try:
            self._speak_phrases(turn)
            if turn.board_reply is None:
                raise VoxpathError("the reply had no sound")
            turn.board_reply.finish()
            turn.at("play")
            self._play_out(turn)
        except Cancelled:
            pass
        except Exception as error:
            self._stage_failed(turn, error)
        self._silence(turn)
        self._close(turn)

    def _speak_phrases(self, turn: Turn) -> None:
        trim = LeadTrimmer(self._voice.rate)
        while (phrase := self._next_phrase(turn)) is not None:
            turn.at("speak")
            for chunk in self._voice.speak(phrase, cancel=turn.cancel):
                self._stamp(turn, "tts_first_audio")
                chunk = trim(chunk)
                if len(chunk):
                    self._write(turn, chunk)
            if turn.first_phrase_samples is None and turn.pcm:
                turn.first_phrase_samples = turn.samples
            turn.at("think")

    @staticmethod
    def _next_phrase(turn: Turn) -> str | None:
        while not turn.cancel.is_set:
            try:
                return turn.phrases.get(timeout=0.02)
            except queue.Empty:
                continue
        raise Cancelled

    def _write(self, turn: Turn, chunk: np.ndarray) -> None:
        """Hand a chunk to the board in pieces, never more than AHEAD_S before it is heard."""
        rate = self._voice.rate
        if turn.board_reply is None:
            self._stamp(turn, "reply_ready")
            if not turn.begin():
                raise Cancelled
            turn.rate = rate
            turn.board_reply = self._board.start_reply(rate)
        for start in range(0, len(chunk), int(PIECE_S * rate)):
            piece = chunk[start : start + int(PIECE_S * rate)]
            while turn.board_reply.buffered() > AHEAD_S * rate:
                self._wait(turn, PIECE_S / 4)
            if turn.cancel.is_set:
                raise Cancelled
            turn.board_reply.write(piece)
            if "handed_to_board" not in turn.times:
                self._stamp(turn, "handed_to_board")
                self._watcher.speaking(turn)
            turn.pcm.append(piece)
            turn.progress = time.monotonic()

    def _play_out(self, turn: Turn) -> None:
        """Wait until the last sample has been heard."""
        reply = turn.board_reply
        limit_ns = self._now() + int((reply.buffered() / turn.rate + 1.0) * 1e9)
        while "last" not in reply.times:
            self._wait(turn, 0.005)
            if self._now() > limit_ns:
                raise BoardError("the board did not report the end of the reply")

    @staticmethod
    def _wait(turn: Turn, seconds: float) -> None:
        if turn.cancel.is_set:
            raise Cancelled
        turn.progress = time.monotonic()
        time.sleep(seconds)

    def _silence(self, turn: Turn) -> None:
        """Stop the turn's reply unless it has ended; safe to call twice and from any thread."""
        with self._lock:
            reply, over = turn.board_reply, turn.silenced
            turn.silenced = turn.silenced or reply is not None
        if reply is None or over:
            return
        if "last" not in reply.times:
            try:
                reply.stop()
            except BoardError as error:
                turn.error = turn.error or str(error)
        heard = {"first": "first_pcm", "last": "reply_end", "stopped": "reply_end"}
        turn.times |= {heard[kind]: ns for kind, ns in reply.times.items() if kind in heard}

    # ---- the end of a turn -----------------------------------------------------------------------------------------

    def _now(self) -> int:
        """Board time of this moment: everything received was before it, everything done now comes after."""
        return self._board.time()[0]

    def _stamp(self, turn: Turn, moment: str) -> None:
        if moment not in turn.times:
            turn.times[moment] = self._now()

    def _stage_failed(self, turn: Turn, error: Exception) -> None:
        if isinstance(error, Cancelled):
            self._close(turn)
        else:
            self._fail(turn, str(error).strip() or type(error).__name__)

    def _fail(self, turn: Turn, why: str) -> None:
        """End the turn with an error that the user is told of; the chain goes on listening."""
        if turn.cancel.is_set or turn.closed:
            return
        turn.error = why
        turn.cancel.set()
        self._watcher.failed(turn, f"Turn {turn.number} ended: {why.rstrip('.')}.")
        self._close(turn)

    def _close(self, turn: Turn) -> None:
        if not turn.close():
            return
        self._silence(turn)
        if self._turn is turn:
            self._tell_board(turn_open=False)
            self._turn = None
        if not turn.withdrawn:
            self._on_turn(turn)

    def _tell_board(self, *, turn_open: bool) -> None:
        """A board may care: while a turn is open it delivers every frame at once."""
        tell = getattr(self._board, "turn_open", None)
        if tell is not None:
            with contextlib.suppress(BoardError):  # a dead board is reported by its frames
                tell(turn_open)

    def _follow_events(self) -> None:
        """Keep what the board tells beside its frames: the detector's exact times, and under-runs."""
        for event in self._board.events():
            turn = self._turn
            if event.kind in ("onset", "offset"):
                self._detected.append(event)
            elif event.kind == "reply_started" and turn is not None:
                self._watcher.sounding(turn, event.ns)
            elif event.kind == "underrun" and turn is not None:
                turn.underruns.append((event.ns, event.position))
