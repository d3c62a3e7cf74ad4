"""Stopping work that runs in another thread."""

import contextlib
import threading
from collections.abc import Callable, Iterator


class Cancelled(Exception):
    """The work was stopped by its Cancel; what it had made so far is of no use to whoever stopped it."""


class Cancel:
    """A switch that stays set. Engines check it between steps and hang a callback on it that interrupts a running step.

    >>> cancel = Cancel()
    >>> cancel.set()
    >>> cancel.is_set
    True
    """

    def __init__(self):
        self._lock = threading.Lock()
        self._set = False
        self._callbacks: dict[object, Callable[[], None]] = {}

    @property
    def is_set(self) -> bool:
        return self._set

    def set(self) -> None:
        """Stop everything that looks at this switch; setting it twice is harmless. Callbacks run in this thread."""
        with self._lock:
            self._set = True
            callbacks = list(self._callbacks.values())
        for callback in callbacks:
            callback()

    def check(self) -> None:
        """Raise Cancelled if set."""
        if self._set:
            raise Cancelled

    @contextlib.contextmanager
    def interrupting(self, callback: Callable[[], None]) -> Iterator[None]:
        """While the body runs, `set` calls `callback`, from the thread that sets. Raises Cancelled if already set."""
        key = object()
        with self._lock:
            if self._set:
                raise Cancelled
            self._callbacks[key] = callback
        try:
            yield
        finally:
            with self._lock:
                del self._callbacks[key]
