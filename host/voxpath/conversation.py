"""A conversation as a program has it: a board, a chain, and callbacks for what happens."""

from __future__ import annotations

import logging
import queue
import threading
import time
from collections.abc import Callable

from voxpath.errors import VoxpathError
from voxpath.speech import endpoint as endpoints
from voxpath.speech.chain import Chain, Watcher
from voxpath.speech.think import DEFAULT_SYSTEM
from voxpath.speech.turn import Turn

STOP_S = 2.0  # for callbacks that are under way when a conversation ends
CHECK_S = 0.1


def _nothing(*_) -> None: ...


class Conversation:
    """Listens to whoever speaks into `board` and answers, from `start` to `stop`; also a context manager.

    >>> board = open_board("sim")
    >>> engines = ort.recogniser(models.asr()), ort.language(models.llm()), ort.voice(models.tts())
    >>> with Conversation(board, *engines, on_final=print, on_reply=print) as conversation:
    ...     conversation.say("Hello! How can I help?")
    ...     conversation.run(seconds=60)

    Callbacks come one after another from a thread of their own and may call its methods; what one raises is logged:
    `on_partial(text)` as words are recognised, `on_final(text)` when a turn's words are settled, `on_reply(text)` with
    the reply as far as it is written, `on_interrupt(text)` with what was heard of a reply that was spoken over,
    `on_turn(turn)` when a turn is over (voxpath.speech.turn.Turn), `on_error(sentence)` for what went wrong in one.

    `idle_prompt` is (seconds, text): said once when nobody has said anything for so long. `push_to_talk` hears nothing
    but what is said between `press` and `release`. The board is opened and closed by whoever owns it.
    """

    def __init__(
        self,
        board,
        recogniser,
        language,
        voice,
        *,
        endpoint: str = endpoints.DEFAULT,
        speculate: bool = True,
        system: str = DEFAULT_SYSTEM,
        push_to_talk: bool = False,
        idle_prompt: tuple[float, str] | None = None,
        on_partial: Callable[[str], None] = _nothing,
        on_final: Callable[[str], None] = _nothing,
        on_reply: Callable[[str], None] = _nothing,
        on_interrupt: Callable[[str], None] = _nothing,
        on_turn: Callable[[Turn], None] = _nothing,
        on_error: Callable[[str], None] = _nothing,
    ) -> None:
        self._board = board
        self._idle_prompt = idle_prompt
        self._quiet_since = time.monotonic()
        self._prompted = False
        self._teller = _Teller()
        self._started = self._stopped = False
        self._chain = Chain(
            board,
            recogniser,
            language,
            voice,
            endpoint=endpoints.parse_endpoint(endpoint),
            speculate=speculate,
            system=system,
            watcher=_Callbacks(self._teller, on_partial, on_final, on_reply, on_error),
            on_turn=self._turn_over,
        )
        self._on_turn, self._on_interrupt = on_turn, on_interrupt
        if push_to_talk:
            self._chain.mute()

    def __enter__(self) -> Conversation:
        self.start()
        return self

    def __exit__(self, *_) -> None:
        self.stop()

    def start(self) -> None:
        """Begin to listen, once: a conversation that was stopped is over. Raises VoxpathError."""
        if self._started:
            raise VoxpathError("A conversation can be started once; make a new one.")
        self._started = True
        self._quiet_since = time.monotonic()
        self._teller.start()
        self._chain.start()

    def stop(self) -> None:
        """End the conversation; a reply that is being heard is cut off. Stopping twice is harmless."""
        if self._started and not self._stopped:
            self._stopped = True
            self._chain.stop()
            self._teller.stop()

    def run(self, seconds: float | None = None) -> None:
        """Keep the conversation going for so long, or until the board ends. Raises BoardError for a dead board.

        A program with a loop of its own calls `check` in it instead.
        """
        until = None if seconds is None else time.monotonic() + seconds
        while until is None or time.monotonic() < until:
            self.check()
            time.sleep(CHECK_S)

    def check(self) -> None:
        """To be called a few times a second: ends turns that hang, says the idle prompt. Raises BoardError."""
        self._chain.check()
        if not self._chain.idle:
            self._quiet_since = time.monotonic()
            return
        if self._idle_prompt is None or self._prompted:
            return
        seconds, text = self._idle_prompt
        if time.monotonic() - self._quiet_since >= seconds:
            self._prompted = self.say(text)

    def say(self, text: str) -> bool:
        """Say something unasked, such as a greeting; False, and nothing said, while somebody speaks or is answered."""
        if not any(char.isalnum() for char in text):
            raise VoxpathError("There is nothing to say: the text has no words.")
        return self._started and not self._stopped and self._chain.say(text)

    @property
    def idle(self) -> bool:
        """Nobody speaks, and nothing is being answered or said."""
        return self._chain.idle

    def mute(self) -> None:
        """Hear nothing from now on; what was being said is forgotten, what is being answered goes on."""
        self._chain.mute()

    def unmute(self) -> None:
        """Hear again."""
        self._chain.unmute()

    def press(self) -> None:
        """Push to talk: hear from now on; a reply that is being heard ends."""
        self._chain.interrupt()
        self._chain.unmute(hold=True)

    def release(self) -> None:
        """Push to talk: what was said since `press` is the whole turn, and is answered without waiting for silence."""
        self._chain.mute(finish=True)

    def _turn_over(self, turn: Turn) -> None:
        self._prompted = False
        if turn.barged_in:
            self._teller.tell(self._on_interrupt, turn.heard)
        self._teller.tell(self._on_turn, turn)


class _Teller:
    """Calls callbacks in a thread of its own: the chain neither waits for them nor minds what they raise."""

    def __init__(self) -> None:
        self._told: queue.SimpleQueue = queue.SimpleQueue()
        self._thread = threading.Thread(target=self._run, name="callbacks", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Return once all has been told."""
        self._told.put(None)
        if self._thread is not threading.current_thread():
            self._thread.join(STOP_S)

    def tell(self, callback: Callable, value) -> None:
        self._told.put((callback, value))

    def _run(self) -> None:
        while (told := self._told.get()) is not None:
            callback, value = told
            try:
                callback(value)
            except Exception:
                logging.getLogger("voxpath").exception("A callback of the conversation raised.")


class _Callbacks(Watcher):
    def __init__(self, teller: _Teller, on_partial, on_final, on_reply, on_error) -> None:
        self._teller = teller
        self._on_partial, self._on_final, self._on_reply, self._on_error = on_partial, on_final, on_reply, on_error

    def partial(self, text: str) -> None:
        self._teller.tell(self._on_partial, text)

    def heard(self, turn: Turn) -> None:
        self._teller.tell(self._on_final, turn.transcript)

    def replying(self, turn: Turn) -> None:
        self._teller.tell(self._on_reply, turn.reply.strip())

    def failed(self, turn: Turn, sentence: str) -> None:
        self._teller.tell(self._on_error, sentence)
