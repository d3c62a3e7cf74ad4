"""What a board hands to those who listen: an iterator that blocks, one a listener."""

import threading
import weakref
from collections import deque


class Subscription:
    """Iterates over what is published from its making on; made by `Channel.subscribe`."""

    def __init__(self, channel: "Channel"):
        self._channel = channel
        self._items = deque()

    def __iter__(self):
        return self

    def __next__(self):
        return self._channel._take(self)


class Channel:
    """Publishes to any number of subscriptions. A subscription that nobody holds any more is forgotten."""

    def __init__(self):
        self._changed = threading.Condition()
        self._subscriptions = weakref.WeakSet()
        self._closed = False
        self._error: Exception | None = None

    def subscribe(self) -> Subscription:
        """A listener of its own queue."""
        subscription = Subscription(self)
        with self._changed:
            self._subscriptions.add(subscription)
        return subscription

    def publish(self, items):
        """Give `items` to every listener; never waits."""
        with self._changed:
            for subscription in self._subscriptions:
                subscription._items.extend(items)
            self._changed.notify_all()

    def backlog(self) -> int:
        """Items that the slowest listener has not taken."""
        with self._changed:
            return max((len(subscription._items) for subscription in self._subscriptions), default=0)

    def wait_for_takers(self, timeout: float):
        """Return when a listener has taken something, or after `timeout` seconds."""
        with self._changed:
            self._changed.wait(timeout)

    def close(self, error: Exception | None = None):
        """Every listener ends after what it has; with `error` it raises that instead."""
        with self._changed:
            self._closed = True
            self._error = error or self._error
            self._changed.notify_all()

    def _take(self, subscription: Subscription):
        with self._changed:
            while not subscription._items:
                if self._error:
                    raise self._error
                if self._closed:
                    raise StopIteration
                self._changed.wait()
            self._changed.notify_all()
            return subscription._items.popleft()
