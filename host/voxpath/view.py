"""The live view in the terminal: level, state, words, reply, response time; plain lines where there is no terminal.

The chain's threads only leave values here; a thread of the view's own draws them about ten times a second.
"""

from __future__ import annotations

import queue
import textwrap
import threading

from voxpath.speech.chain import Watcher
from voxpath.speech.turn import Turn

PER_SECOND = 10
METER_WIDTH = 32
INDENT = " " * 8
# Energy of a frame is log2(1 + sum of squares of 64 samples) in Q6.10; full scale is 64 x 32768^2.
FULL_SCALE_LOG2 = 36.0
DB_PER_OCTAVE = 3.0103
FLOOR_DB = -72.0


def level_db(energy: int) -> float:
    """A frame's energy field in dBFS (mean square, 0 dB = full scale), at least -72."""
    return max(FLOOR_DB, (energy / 1024 - FULL_SCALE_LOG2) * DB_PER_OCTAVE)


def meter(db: float, width: int = METER_WIDTH) -> str:
    """A bar of `width` characters for -72..0 dBFS."""
    full = round(width * (min(db, 0.0) - FLOOR_DB) / -FLOOR_DB)
    return "\u2588" * full + "\u00b7" * (width - full)


class View(Watcher):
    """Shows a conversation; use as a context manager around the run."""

    def __init__(self, console) -> None:
        self._console = console
        self._live = None
        self._lines: queue.SimpleQueue = queue.SimpleQueue()
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._draw, name="view", daemon=True)
        self._level = FLOOR_DB
        self._state = "idle"
        self._thinking = False
        self._heard = ""
        self._reply = ""
        self._response = ""

    def __enter__(self) -> View:
        if self._console.is_terminal:
            from rich.live import Live

            self._live = Live(self._picture(), console=self._console, auto_refresh=False, transient=True)
            self._live.start()
        self._thread.start()
        return self

    def __exit__(self, *_) -> None:
        self._ended.set()
        self._thread.join(timeout=2.0)
        if self._live is not None:
            self._live.stop()

    # ---- what the chain tells ----------------------------------------------------------------------------------------

    def level(self, frame, state: str) -> None:
        db = level_db(frame.energy)
        self._level = db if db > self._level else self._level - 0.4  # falls 100 dB a second: a meter that can be read
        if state == "idle":
            state = "speaking" if frame.playback else "thinking" if self._thinking else state
        self._state = state

    def partial(self, text: str) -> None:
        self._heard = text
        self._reply = ""

    def heard(self, turn: Turn) -> None:
        self._heard, self._reply = turn.transcript, ""
        self._thinking = True
        if self._live is None:
            self.say(f"heard   {turn.transcript}")

    def replying(self, turn: Turn) -> None:
        self._reply = turn.reply.strip()

    def speaking(self, turn: Turn) -> None:
        if self._live is None:
            self.say("        speaking ...")

    def sounding(self, turn: Turn, ns: int) -> None:
        # By the detector's end of speech; the record, which has the label's, says it again at the end.
        self._thinking = False
        if "speech_end" in turn.times:
            self._response = f"{(ns - turn.times['speech_end']) / 1e6:.0f} ms"

    def failed(self, turn: Turn, sentence: str) -> None:
        self._thinking = False
        self.say(sentence, style="red")

    def finished(self, record) -> None:
        """A turn is over: its words and its time stay on the screen as lines."""
        self._thinking = False
        if record.transcript and self._live is not None:
            self.say(f"heard   {record.transcript}")
        if record.reply:
            self.say(f"reply   {record.reply}{' (interrupted)' if record.barged_in else ''}")
        if record.response_ms is not None:
            self._response = f"{record.response_ms:.0f} ms"
            self.say(f"        the reply was heard {record.response_ms:.0f} ms after the end of speech")
        elif record.outcome == "cut_in":
            self.say(f"        cut in: the reply began {record.overlap_ms:.0f} ms before the end of speech")
        elif not record.transcript and record.error is None:
            self.say(f"Turn {record.turn}: no words were recognised.")

    def say(self, text: str, style: str | None = None) -> None:
        """Print a line, above the live part where there is one; returns at once."""
        self._lines.put(("".join(char for char in text if char.isprintable() or char == "\n"), style))

    # ---- drawing -----------------------------------------------------------------------------------------------------

    def _draw(self) -> None:
        ended = False
        while not ended:
            ended = self._ended.wait(1 / PER_SECOND)
            while not self._lines.empty():
                text, style = self._lines.get()
                if self._live is not None:
                    text = textwrap.fill(text, self._console.width, subsequent_indent=INDENT)
                self._console.print(text, style=style, highlight=False, markup=False, soft_wrap=True)
            if self._live is not None:
                self._live.update(self._picture(), refresh=True)

    def _picture(self):
        from rich.table import Table
        from rich.text import Text

        table = Table.grid(padding=(0, 2))
        table.add_row("level", Text(f"{meter(self._level)} {self._level:5.0f} dBFS", style="green"))
        table.add_row("state", Text(self._state))
        table.add_row("heard", Text(self._heard or "\u2026"))
        table.add_row("reply", Text(self._reply or "\u2026"))
        table.add_row("response", Text(self._response or "\u2026"))
        return table
