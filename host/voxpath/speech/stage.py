"""One thread a stage: a queue, a worker, and a way out when the worker never comes back."""

from __future__ import annotations

import contextlib
import os
import queue
import threading
import time
from collections.abc import Callable
from typing import Any

NICENESS = 10


def be_nice() -> None:
    """Lower this thread's priority by NICENESS, so that the board's own thread keeps its pace. Linux only."""
    thread = threading.get_native_id()
    with contextlib.suppress(OSError, AttributeError):
        os.setpriority(os.PRIO_PROCESS, thread, os.getpriority(os.PRIO_PROCESS, thread) + NICENESS)


class Stage:
    """Runs `work(item)` for each pair put in, in order, on a thread of its own.

    `failed(item, error)` is called when `work` raises. `replace()` gives up on a worker that hangs: a new thread takes
    over with an empty queue, and the old one ends when its call returns. `cpu_s` is the processor time of all the
    work; an item that has a `cpu_s` of its own gets its share.
    """

    def __init__(self, name: str, failed: Callable[[Any, Exception], None]) -> None:
        self._name, self._failed = name, failed
        self._inbox: queue.SimpleQueue = queue.SimpleQueue()
        self._thread: threading.Thread | None = None
        self.cpu_s = 0.0

    def start(self) -> None:
        self._thread = threading.Thread(target=self._run, args=(self._inbox,), name=self._name, daemon=True)
        self._thread.start()

    def put(self, work: Callable[[Any], None], item: Any) -> None:
        self._inbox.put((work, item))

    def replace(self) -> None:
        self.stop()
        self._inbox = queue.SimpleQueue()
        self.start()

    def stop(self) -> None:
        """Let the thread end after what it is doing; does not wait."""
        self._inbox.put(None)

    def join(self, seconds: float) -> None:
        """Wait for the thread's end: a network that still runs while the interpreter ends would bring it down."""
        if self._thread is not None and self._thread is not threading.current_thread():
            self._thread.join(seconds)

    def _run(self, inbox: queue.SimpleQueue) -> None:
        be_nice()
        while (job := inbox.get()) is not None:
            work, item = job
            begun = time.thread_time()
            try:
                work(item)
            except Exception as error:  # whatever a model raises must end one turn, not the chain
                self._failed(item, error)
            finally:
                spent = time.thread_time() - begun
                self.cpu_s += spent
                if hasattr(item, "cpu_s"):
                    item.cpu_s += spent
