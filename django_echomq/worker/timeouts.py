"""Ends handlers that run for too long."""

from __future__ import annotations

import ctypes
import heapq
import itertools
import threading
import time
from types import TracebackType

from ..queue.cancel import CancelToken, Cause

#: Seconds between telling a handler to stop and interrupting its thread.
GRACE = 5.0


class HandlerTimedOut(BaseException):
    """Raised inside a handler's thread. Not an Exception, so that handlers do not catch it."""


class Timeouts:
    """A thread that watches deadlines.

    At its deadline a handler's token is cancelled; after a grace time :class:`HandlerTimedOut` is
    raised in its thread. Python delivers that between two instructions: a handler inside a system
    call or C code meets it when it returns from there.
    """

    def __init__(self) -> None:
        self._heap: list[tuple[float, int, Limit]] = []
        self._order = itertools.count()
        self._changed = threading.Condition()
        self._running = False

    def limit(self, token: CancelToken, seconds: float | None, interrupt: bool) -> Limit:
        """A context in which the calling thread may stay for so long; ``None`` is for ever.

        Args:
            interrupt: raise in this thread when the token went unheard.
        """
        return Limit(self, token, seconds, interrupt)

    def _watch(self, at: float, limit: Limit) -> None:
        with self._changed:
            heapq.heappush(self._heap, (at, next(self._order), limit))
            if not self._running:
                self._running = True
                threading.Thread(target=self._serve, name="echomq-timeouts", daemon=True).start()
            self._changed.notify()

    def _serve(self) -> None:
        while True:
            with self._changed:
                while not self._heap or self._heap[0][0] > time.monotonic():
                    wait = self._heap[0][0] - time.monotonic() if self._heap else None
                    self._changed.wait(wait)
                _, _, limit = heapq.heappop(self._heap)
            again = limit.due()
            if again is not None:
                self._watch(again, limit)


class Limit:
    """One stay under a deadline."""

    __slots__ = (
        "_active",
        "_interrupt",
        "_lock",
        "_sent",
        "_thread",
        "_timeouts",
        "seconds",
        "token",
    )

    def __init__(
        self, timeouts: Timeouts, token: CancelToken, seconds: float | None, interrupt: bool
    ) -> None:
        self._timeouts = timeouts
        self._interrupt = interrupt
        self._lock = threading.Lock()
        self._active = False
        self._sent = False
        self._thread = 0
        self.token = token
        self.seconds = seconds

    def __enter__(self) -> None:
        if self.seconds is not None:
            self._thread = threading.get_ident()
            self._active = True
            self._timeouts._watch(time.monotonic() + self.seconds, self)

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        if self.seconds is None:
            return
        with self._lock:
            self._active = False
        if self._sent:
            # What has not been delivered yet must not strike the thread's next job.
            _raise_in(self._thread, None)

    def due(self) -> float | None:
        """The deadline has come. Answers when to come again."""
        with self._lock:
            if not self._active:
                return None
            if self.token.cancel(f"timeout after {self.seconds:g} s", Cause.TIMEOUT):
                return time.monotonic() + GRACE
            if self._interrupt and not self._sent and self.token.cause is Cause.TIMEOUT:
                self._sent = True
                _raise_in(self._thread, HandlerTimedOut)
            return None


def _raise_in(thread: int, error: type[BaseException] | None) -> None:
    ctypes.pythonapi.PyThreadState_SetAsyncExc(
        ctypes.c_ulong(thread), ctypes.py_object(error) if error else None
    )
