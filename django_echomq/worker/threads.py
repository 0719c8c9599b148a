"""Runs handlers on a fixed set of threads."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable
from queue import SimpleQueue
from typing import Generic, TypeVar

T = TypeVar("T")


class ThreadPool(Generic[T]):
    """N threads that take items from one line.

    A batch of items wakes one thread; each thread that takes an item while more wait wakes one
    more. Handlers that block therefore run side by side at once, and a batch of handlers that do
    not costs one hand-over instead of one per job. While :attr:`brief` is set a batch is one
    thread's, until :meth:`nudge` says that it takes its time: threads that do not block only take
    the interpreter from each other.

    Args:
        size: how many threads.
        work: called with each item; it must not raise.
        name: prefix of the threads' names.
    """

    def __init__(self, size: int, work: Callable[[T], object], name: str) -> None:
        self._work = work
        self._items: deque[T] = deque()
        self._tokens: SimpleQueue[bool] = SimpleQueue()
        self._waking = False
        self.brief = False
        self._threads = [
            # Daemons: a handler that never returns must not keep a stopped worker alive.
            threading.Thread(target=self._serve, name=f"{name}-{n}", daemon=True)
            for n in range(size)
        ]
        for thread in self._threads:
            thread.start()

    def submit(self, items: Iterable[T]) -> None:
        """Adds items to the line."""
        self._items.extend(items)
        self._wake()

    def nudge(self) -> None:
        """Wakes a thread for a line on which the others are slow."""
        self.brief = False
        if self._items:
            self._wake()

    @property
    def waiting(self) -> int:
        """How many items no thread has taken yet."""
        return len(self._items)

    def withdraw(self) -> list[T]:
        """Takes back the items that no thread has taken yet."""
        items: list[T] = []
        while True:
            try:
                items.append(self._items.pop())
            except IndexError:
                return items

    def close(self) -> None:
        """Lets idle threads end; a busy one ends after its item."""
        for _ in self._threads:
            self._tokens.put(False)

    def _wake(self) -> None:
        # A thread that is being woken looks at the line after it has cleared the flag, so an item
        # added before the flag was read is never overlooked.
        if not self._waking:
            self._waking = True
            self._tokens.put(True)

    def _serve(self) -> None:
        items, work = self._items, self._work
        while self._tokens.get():
            self._waking = False
            while True:
                try:
                    item = items.popleft()
                except IndexError:
                    break
                if items and not self.brief:
                    self._wake()
                work(item)
                # Not kept alive while the thread waits.
                del item
