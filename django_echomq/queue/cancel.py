"""Cooperative cancellation: a token that a handler asks, or awaits."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Generator
from enum import Enum


class Cancelled(Exception):
    """The job is no longer to be worked on; the message says why."""


class Cause(Enum):
    """Who wants the handler to stop."""

    REQUEST = "request"
    TIMEOUT = "timeout"
    SHUTDOWN = "shutdown"
    LEASE_LOST = "lease lost"


class CancelToken:
    """Hears one cancel, its own, and keeps the reason. Thread-safe; may be awaited.

    >>> token = CancelToken()
    >>> token.check() is None
    True
    >>> token.cancel("not needed any more")
    True
    >>> token.check()
    'not needed any more'
    """

    __slots__ = ("_calls", "_lock", "cause", "reason")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._calls: list[Callable[[], object]] = []
        self.reason: str | None = None
        self.cause: Cause | None = None

    def cancel(self, reason: str = "cancelled", cause: Cause = Cause.REQUEST) -> bool:
        """Cancels. Answers whether this was the first cancel; the first one's reason stays."""
        with self._lock:
            if self.reason is not None:
                return False
            self.reason = reason
            self.cause = cause
            calls, self._calls = self._calls, []
        for call in calls:
            call()
        return True

    @property
    def cancelled(self) -> bool:
        """Whether it was cancelled."""
        return self.reason is not None

    def check(self) -> str | None:
        """The reason; ``None`` while not cancelled."""
        return self.reason

    def raise_if_cancelled(self) -> None:
        """Raises :class:`Cancelled` with the reason once cancelled."""
        if self.reason is not None:
            raise Cancelled(self.reason)

    def on_cancel(self, call: Callable[[], object]) -> None:
        """Calls back once, from the thread that cancels; at once where that has happened."""
        with self._lock:
            if self.reason is None:
                self._calls.append(call)
                return
        call()

    def __await__(self) -> Generator[None, None, str]:
        return self._wait().__await__()

    async def _wait(self) -> str:
        loop = asyncio.get_running_loop()
        heard = asyncio.Event()
        self.on_cancel(lambda: loop.call_soon_threadsafe(heard.set))
        await heard.wait()
        assert self.reason is not None
        return self.reason
