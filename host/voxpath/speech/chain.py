"""A conversation through a board: frames in, turns out, one thread a stage.

    listen (this board's frames) -> recognise -> think -> speak -> play (the board)

While somebody speaks, the recogniser goes over what there is several times a second, and the language model reads the
words that will stay. At the first silence a reply is drafted; it is played if the silence lasts until the endpoint, and
called off if speech resumes. A turn ends in exactly one place, `_close`, whatever becomes of it.

Few cores: the board's own thread comes first, then listening, then the stages (see stage.be_nice). Among those, what a
turn waits for comes first: a pause ends the run over what came before it, nothing is foreseen while a reply is drafted,
and of a reply that may be for nothing only the first phrase is made.
"""

from __future__ import annotations

import contextlib
import math
import threading
import time
from collections import deque
from collections.abc import Callable, Iterator

import numpy as np

from voxpath.engines.cancel import Cancel, Cancelled
from voxpath.errors import BoardError, VoxpathError
from voxpath.link.frame import SAMPLE_RATE
from voxpath.speech.barge_in import BargeIn, bright
from voxpath.speech.draft import Draft
from voxpath.speech.echo import EchoGate
from voxpath.speech.endpoint import Adaptive, Evidence, FixedSilence
from voxpath.speech.listen import Listener, Signal, Utterance
from voxpath.speech.phrases import PhraseCutter
from voxpath.speech.pronounce import say
from voxpath.speech.recognise import Recognition, stable, words
from voxpath.speech.speak import Joiner
from voxpath.speech.stage import Stage
from voxpath.speech.think import DEFAULT_SYSTEM, thinker
from voxpath.speech.turn import Turn

STUCK_S = 3.0  # a reply, or a step of one, that takes longer than this ends its turn with an error
DEAD_S = 1.0  # a board that sends no frame for this long is dead
TOLD_WORDS = 3  # of a reply that is cut off; a small model that reads fewer learns to say no more
INTERRUPT_MS = 120  # speech that lasts this long before a reply is heard is more of the same turn
AHEAD_S = 0.6  # how much of a reply waits in the board; the rest waits here, where it can be dropped
PIECE_S = 0.1
PARTIAL_S = 0.2  # of new sound before the recogniser goes over what there is again
APOLOGY = "Sorry, I cannot answer that just now."
ENGINE = {"recognise": "the recogniser", "think": "the language model", "speak": "the voice"}


class Watcher:
    """What a view may want to know, as it happens. Every method returns at once; the default does nothing."""

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
        endpoint: FixedSilence | Adaptive,
        speculate: bool = True,
        system: str = DEFAULT_SYSTEM,
        watcher: Watcher | None = None,
        on_turn: Callable[[Turn], None] = lambda turn: None,
    ) -> None:
        self._board, self._recogniser, self._voice = board, recogniser, voice
        self._thinker = thinker(language, system)
        self._endpoint = endpoint
        self._speculate = speculate
        self._watcher = watcher or Watcher()
        self._on_turn = on_turn
        self.listener = Listener(endpoint.longest_ms)
        self._latest: Recognition | None = None  # the newest run over the present utterance
        self._candidate: Recognition | None = None  # the run over all that was said before the present pause
        self._draft: Draft | None = None  # what may be answered to the candidate's words
        self._turn: Turn | None = None
        self._turns = 0
        self._used_s = 0.0
        self._lock = threading.Lock()
        self._hearing = threading.Lock()  # held while a frame is taken in, so that `idle` sees no half-made turn
        self._detected: deque = deque()
        self._gate = EchoGate()
        self._barge_in = BargeIn()
        self._played: deque = deque()  # calls of the gate that other threads have to make, in order
        self._deaf = self._finish = self._held = False
        self._running = False
        self._stopping = Cancel()
        self._last_frame = time.monotonic()
        self._board_error: BoardError | None = None
        self._stages = {
            "recognise": Stage("recognise", self._recognition_failed),
            "think": Stage("think", self._draft_failed),
            "speak": Stage("speak", self._draft_failed),
            "play": Stage("play", self._turn_failed),
        }

    # ---- for the owner ---------------------------------------------------------------------------------------------

    @property
    def idle(self) -> bool:
        """Nobody speaks and no turn is open."""
        with self._hearing:
            return self._turn is None and self.listener.utterance is None

    @property
    def cpu_s(self) -> tuple[float, float]:
        """Processor seconds of the stages: (of all their work, of what of it was called off or only foreseen)."""
        total = sum(stage.cpu_s for stage in self._stages.values())
        return total, max(0.0, total - self._used_s)

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
        if (turn := self._turn) is not None:
            turn.call_off()
        self._forget()
        for stage in self._stages.values():
            stage.stop()
        deadline = time.monotonic() + 1.0
        while self._turn is not None and time.monotonic() < deadline:
            time.sleep(0.01)
        if (turn := self._turn) is not None:
            self._close(turn)
        for stage in self._stages.values():
            stage.join(2.0)

    def say(self, text: str) -> bool:
        """Say something unasked, such as a greeting; False while a turn is open or somebody speaks."""
        turn = Turn(-1, None)
        with self._hearing:
            if self._turn is not None or self.listener.utterance is not None:
                return False
            self._tell_board(turn_open=True)
            self._turn = turn
        self._play(turn, self._unasked(text))
        return True

    def mute(self, finish: bool = False) -> None:
        """Hear nobody from now on. What was being said is forgotten, or, with `finish`, is a whole turn at once."""
        with self._hearing:
            self._deaf, self._held = True, False
            self._finish = finish and self.listener.utterance is not None
            if not self._finish and self.listener.utterance is not None:
                self.listener.forget()
                self._forget()

    def unmute(self, hold: bool = False) -> None:
        """Hear again; with `hold` no silence ends what is said before `mute`."""
        with self._hearing:
            self._deaf = self._finish = False
            self._held = hold

    def interrupt(self) -> None:
        """End the reply that is being heard or made, if any, as if it had been spoken over."""
        turn = self._turn
        if turn is not None:
            turn.barged_in = True
            turn.call_off()

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
        if late or now - turn.moved > STUCK_S:
            step = turn.step
            self._fail(turn, f"no answer from {ENGINE[step]} within {STUCK_S:.0f} s", aloud=step != "speak")
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
        while self._played:
            tell, *values = self._played.popleft()
            tell(*values)
        self.listener.needed_ms = self._needed_ms()
        user = self._gate.user(frame) and not self._deaf
        signal = self.listener.hear(frame, user)
        utterance = self.listener.utterance
        self._watcher.level(frame, self.listener.state)
        if signal in (Signal.ONSET, Signal.NOISE):
            self._forget()
        elif signal is Signal.RESUMED:
            self._candidate = None
            self._drop_draft()
        elif signal is Signal.CUT:
            utterance.segments.append(self._begin_recognition(utterance, self.listener.cut_off))
            self._forget(keep_running=True)
        elif signal is Signal.ENDPOINT and self._answering():
            self._forget()  # too short to be the next turn: a cough, an "mm"
        elif signal is Signal.ENDPOINT:
            self._finish = False
            self._commit()
        elif utterance is not None and not self._answering():
            self._follow_words(utterance)
        self._hear_over_reply(frame, user)

    def _needed_ms(self) -> float:
        """Silence that ends what is being said."""
        if self._finish:
            return 0.0
        return math.inf if self._held else self._endpoint.silence_ms(self._evidence())

    def _hear_over_reply(self, frame, user: bool) -> None:
        """Somebody may speak while a turn is open: lower or end its reply, or, if none is heard yet, take it back."""
        turn, utterance = self._turn, self.listener.utterance
        if turn is None or turn.cancel.is_set:
            return
        if not turn.begun:
            speaks = utterance is not None and not self.listener.paused and utterance.speech_ms >= INTERRUPT_MS
            if speaks and turn.withdraw():
                if turn.utterance is not None:
                    self.listener.take_back(turn.utterance)
                    self._turns -= 1
                self._close(turn)
            return
        action = self._barge_in.hear(user, len(frame.pcm) * 1e3 / SAMPLE_RATE, bright(self._gate.rest))
        if action == "flush":
            self.interrupt()
        elif action is not None and turn.board_reply is not None:
            db = self._barge_in.duck_db if action == "duck" else 0.0
            with contextlib.suppress(BoardError):  # a dead board is reported by its frames
                turn.board_reply.duck(db)
            self._gate.ducked(db, self._now())

    def _evidence(self) -> Evidence:
        candidate, draft, utterance = self._candidate, self._draft, self.listener.utterance
        snr_db = None if utterance is None else utterance.snr_db
        if candidate is None or candidate.text is None:
            return Evidence(snr_db=snr_db)
        return Evidence(candidate.said(), None if draft is None else draft.over, snr_db)

    def _follow_words(self, utterance: Utterance) -> None:
        """Recognise all that was said before a pause; while somebody speaks, what there is, whenever the recogniser is
        free and enough of it is new."""
        latest = self._latest
        if self.listener.paused:
            if self._speculate and self._candidate is None:
                self._begin_recognition(utterance, final=True)
        elif latest is None or latest.done:
            known_s = 0.0 if latest is None else len(latest.pcm) / SAMPLE_RATE
            if utterance.seconds >= known_s + PARTIAL_S:
                self._begin_recognition(utterance)

    def _begin_recognition(
        self, utterance: Utterance, pcm: np.ndarray | None = None, *, final: bool = False
    ) -> Recognition:
        """Have the recogniser hear all that there is of an utterance now (or `pcm`), instead of what it hears of it.

        A `final` one becomes the candidate.
        """
        recognition = Recognition(utterance.pcm() if pcm is None else pcm, self._now(), tuple(utterance.segments))
        latest, self._latest = self._latest, recognition
        if latest is not None:
            latest.cancel.set()
            recognition.follow(latest)
        if final:
            self._candidate = recognition
        self._stages["recognise"].put(self._recognise, recognition)
        return recognition

    def _forget(self, keep_running: bool = False) -> None:
        """What has been recognised so far is not part of what comes next."""
        if self._latest is not None and not keep_running:
            self._latest.cancel.set()
        self._latest = self._candidate = None
        self._drop_draft()

    def _drop_draft(self) -> None:
        with self._lock:
            draft, self._draft = self._draft, None
        if draft is not None:
            draft.cancel.set()

    def _commit(self) -> None:
        """The speaker has finished: open a turn with the candidate, or with a recognition of what was not cut off."""
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
        turn.speculated = self._candidate is not None
        recognition = self._candidate or self._begin_recognition(utterance)
        turn.recognition = recognition
        turn.times["audio_ready"] = recognition.audio_ready_ns
        self._latest = self._candidate = None
        self._tell_board(turn_open=True)
        with self._lock:
            self._turn = turn
            recognition.turn = turn
            done = recognition.done
        if done:
            self._answer(turn)

    def _answering(self) -> bool:
        turn = self._turn
        return turn is not None and not turn.cancel.is_set

    # ---- recognise -------------------------------------------------------------------------------------------------

    def _recognise(self, recognition: Recognition) -> None:
        found = self._recogniser.transcribe(recognition.pcm, cancel=recognition.cancel, guess=recognition.guess)
        final_ns, text = self._now(), words(found.text)
        with self._lock:
            recognition.tokens = tuple(found.tokens)
            recognition.final_ns, recognition.text = final_ns, text
            turn = recognition.turn
        self._watcher.partial(recognition.said())
        if turn is not None:
            self._answer(turn)
        elif recognition is self._candidate:
            self._draft_for(recognition.said())
            if recognition is not self._candidate and recognition.turn is None:
                self._drop_draft()  # speech resumed in between
        else:
            self._stages["think"].put(self._foresee, recognition)

    def _foresee(self, recognition: Recognition) -> None:
        if self._draft is None and not recognition.cancel.is_set:
            self._thinker.foresee(recognition.said(stable(recognition.earlier, recognition.text)), recognition.cancel)

    def _recognition_failed(self, recognition: Recognition, error: Exception) -> None:
        with self._lock:
            recognition.error = error
            turn = recognition.turn
        if turn is not None:
            self._answer(turn)

    def _answer(self, turn: Turn) -> None:
        """A committed turn has its words; those of the pieces cut off before came first out of the same stage."""
        recognition = turn.recognition
        error = next((part.error for part in (*recognition.before, recognition) if part.error is not None), None)
        if error is not None:
            self._turn_failed(turn, error)
            return
        turn.transcript = recognition.said()
        turn.times["asr_final"] = recognition.final_ns
        if not turn.transcript:
            self._drop_draft()
            self._close(turn)
            return
        self._watcher.heard(turn)
        self._play(turn, self._draft_for(turn.transcript, wanted=True))

    # ---- think and speak -------------------------------------------------------------------------------------------

    def _draft_for(self, text: str, *, wanted: bool = False) -> Draft:
        """The draft that answers `text`: the present one if it does, else a new one, which is `wanted` or may be for
        nothing."""
        with self._lock:
            draft = self._draft
            if draft is not None and draft.words == text and draft.error is None and not draft.cancel.is_set:
                return draft
            if draft is not None:
                draft.cancel.set()
            draft = self._draft = Draft(text)
        if wanted:
            draft.go.set()
        if text:
            self._stages["think"].put(self._think, draft)
            self._stages["speak"].put(self._speak, draft)
        return draft

    def _think(self, draft: Draft) -> None:
        if self._endpoint.wants_evidence and not draft.go.is_set():
            draft.over = self._thinker.over(draft.words, draft.cancel)
        cutter = PhraseCutter()
        for text in self._thinker.answer(draft.words, draft.cancel):
            self._stamp(draft, "llm_first_token")
            draft.progress = time.monotonic()
            draft.reply += text
            if (turn := self._turn) is not None and turn.draft is draft:
                self._watcher.replying(turn)
            if self._say(draft, cutter.feed(text)):
                draft.wait()
        self._say(draft, cutter.end())
        draft.phrases.put(None)

    def _say(self, draft: Draft, phrases: list[str]) -> bool:
        for phrase in phrases:
            self._stamp(draft, "phrase")
            draft.phrases.put(phrase)
        return bool(phrases)

    def _speak(self, draft: Draft) -> None:
        joiner = Joiner(self._voice.rate)
        while (phrase := draft.next(draft.phrases)) is not None:
            draft.at("speak")
            first = True
            for chunk in self._spoken(draft, phrase):
                self._stamp(draft, "tts_first_audio")
                if len(sound := joiner(chunk)):
                    self._stamp(draft, "reply_ready")
                    draft.sounds(sound, phrase, first=first)
                    first = False
            draft.sounds(joiner.end(phrase), phrase, first=first, last=True)
            draft.at("think")
        draft.sound.put(None)

    def _spoken(self, draft: Draft, phrase: str) -> Iterator[np.ndarray]:
        try:
            yield from self._voice.speak(say(phrase), cancel=draft.cancel)
        except Cancelled:
            raise
        except Exception:
            draft.mute = True
            raise

    def _draft_failed(self, draft, error: Exception) -> None:
        """Whoever waits for the draft finds the error at the end of its queues; nobody may."""
        if isinstance(draft, Draft):
            draft.error = draft.error or error
            draft.phrases.put(None)
            draft.sound.put(None)

    # ---- play ------------------------------------------------------------------------------------------------------

    def _play(self, turn: Turn, draft: Draft) -> None:
        with self._lock:
            turn.draft = draft
            if self._draft is draft:
                self._draft = None
        if turn.cancel.is_set:
            draft.cancel.set()
        draft.go.set()
        self._stages["play"].put(self._play_turn, turn)

    def _play_turn(self, turn: Turn) -> None:
        while not turn.closed:
            draft = turn.draft
            try:
                self._play_draft(turn, draft)
                break
            except Cancelled:
                if turn.cancel.is_set or draft is turn.draft:
                    break
            except Exception as error:
                if turn.begun and not isinstance(error, BoardError):
                    self._announce(turn, _reason(error))
                    with contextlib.suppress(Cancelled, BoardError):
                        self._finish_reply(turn)  # what has been made of it is heard
                    break
                self._turn_failed(turn, error)
        self._silence(turn)
        self._close(turn)

    def _play_draft(self, turn: Turn, draft: Draft) -> None:
        while (sound := draft.next(draft.sound)) is not None:
            self._write(turn, sound.pcm)
            if sound.last:
                turn.first_phrase_samples = turn.first_phrase_samples or turn.samples
        if turn.board_reply is None:
            raise VoxpathError("the reply had no sound")
        self._finish_reply(turn)

    def _finish_reply(self, turn: Turn) -> None:
        """Nothing more will be written: wait until all of it was heard."""
        turn.board_reply.finish()
        turn.playing = True
        self._play_out(turn)

    def _write(self, turn: Turn, pcm: np.ndarray) -> None:
        """Hand sound to the board in pieces, never more than AHEAD_S before it is heard."""
        rate = self._voice.rate
        if not len(pcm):
            return
        if turn.board_reply is None:
            if not turn.begin():
                raise Cancelled
            turn.rate = rate
            self._barge_in = BargeIn()
            turn.board_reply = self._board.start_reply(rate)
        for start in range(0, len(pcm), int(PIECE_S * rate)):
            piece = pcm[start : start + int(PIECE_S * rate)]
            while turn.board_reply.buffered() > AHEAD_S * rate:
                self._wait(turn, PIECE_S / 4)
            turn.cancel.check()
            self._played.append((self._gate.wrote, piece, rate))
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
        turn.cancel.check()
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
        self._played.append((self._gate.ended, self._now()))
        heard = {"first": "first_pcm", "last": "reply_end", "stopped": "reply_end"}
        turn.times |= {heard[kind]: ns for kind, ns in reply.times.items() if kind in heard}

    # ---- the end of a turn -----------------------------------------------------------------------------------------

    def _now(self) -> int:
        """Board time of this moment: everything received was before it, everything done now comes after."""
        return self._board.time()[0]

    def _stamp(self, what: Turn | Draft, moment: str) -> None:
        if moment not in what.times:
            what.times[moment] = self._now()

    def _turn_failed(self, turn: Turn, error: Exception) -> None:
        if isinstance(error, Cancelled):
            self._close(turn)
        else:
            mute = turn.draft is not None and turn.draft.mute
            self._fail(turn, _reason(error), aloud=not mute)

    def _fail(self, turn: Turn, why: str, aloud: bool = True) -> None:
        """Tell the user that the turn has failed: in a sentence, and `aloud` unless a reply is being heard. The chain
        goes on listening."""
        if turn.cancel.is_set or turn.closed:
            return
        again = turn.error is not None
        self._announce(turn, why)
        if again or turn.begun or not aloud:
            turn.call_off()
            self._close(turn)
            return
        waiting = turn.draft
        turn.committed = turn.progress = time.monotonic()  # the apology has its own time
        apology = self._unasked(APOLOGY)
        if waiting is None:
            self._play(turn, apology)
        else:
            turn.draft = apology
            waiting.cancel.set()

    def _announce(self, turn: Turn, why: str) -> None:
        turn.error = turn.error or why
        what = "What was to be said" if turn.utterance is None else f"Turn {turn.number}"
        self._watcher.failed(turn, f"{what} ended: {why.rstrip('.')}.")

    def _unasked(self, text: str) -> Draft:
        """A draft of words that need no thought."""
        draft = Draft("", reply=text)
        draft.go.set()
        draft.phrases.put(text)
        draft.phrases.put(None)
        self._stages["speak"].put(self._speak, draft)
        return draft

    def _close(self, turn: Turn) -> None:
        if not turn.close():
            return
        self._silence(turn)
        if self._turn is turn:
            self._tell_board(turn_open=False)
            self._turn = None
        if turn.withdrawn:
            return
        if turn.draft is not None:
            turn.times |= {name: ns for name, ns in turn.draft.times.items() if name not in turn.times}
        self._used_s += sum(work.cpu_s for work in (turn.recognition, turn.draft) if work is not None)
        if turn.board_reply is not None:
            turn.heard = turn.draft.heard(turn.board_reply.played())
        if turn.heard and turn.error is None:
            told = turn.heard if not turn.barged_in or len(turn.heard.split()) >= TOLD_WORDS else ""
            self._stages["think"].put(self._remember, (turn.transcript, told))
        if turn.utterance is not None:
            self._on_turn(turn)

    def _remember(self, exchange: tuple[str, str]) -> None:
        self._thinker.remember(*exchange)
        self._thinker.prepare(self._stopping)

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
                self._played.append((self._gate.started, event.ns))
                self._watcher.sounding(turn, event.ns)
            elif event.kind == "underrun" and turn is not None:
                turn.underruns.append((event.ns, event.position))


def _reason(error: Exception) -> str:
    """What an error says, in one line that a terminal can be given."""
    text = " ".join("".join(char if char.isprintable() else " " for char in str(error)).split())
    return text or type(error).__name__
