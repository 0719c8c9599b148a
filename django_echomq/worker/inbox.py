"""What many threads tell one."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from contextlib import suppress
from queue import Empty, SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class Inbox(Generic[T]):
    """A line of events that one thread takes in. Whoever puts an event wakes that thread only when
    there are as many as it waits for, as each waking costs as much as a short job."""

    def __init__(self) -> None:
        self._events: deque[T] = deque()
        self._bell: SimpleQueue[None] = SimpleQueue()
        self._rung = False
        self._enough = 1

    def put(self, event: T, urgent: bool = True) -> None:
        """Adds an event; from any thread, and from a signal handler.

        Args:
            urgent: wakes whoever waits, however few events there are.
        """
        self._events.append(event)
        if not self._rung and (urgent or len(self._events) >= self._enough):
            self._rung = True
            self._bell.put(None)

    def take(self, seconds: float, enough: int = 1) -> Iterator[T]:
        """What has come; waits at most so long for ``enough`` events, or an urgent one."""
        # Set before the line is looked at, so that an event that comes later rings by it.
        self._enough = enough
        with suppress(Empty):
            if seconds > 0 and len(self._events) < enough:
                self._bell.get(timeout=seconds)
            elif self._rung:
                self._bell.get_nowait()
        # Cleared before the line is emptied, so that an event that comes later rings again.
        self._rung = False
        while self._events:
            yield self._events.popleft()
