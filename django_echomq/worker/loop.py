"""An event loop on a thread of its own, for coroutine handlers."""

from __future__ import annotations

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Coroutine
from contextvars import Context, copy_context
from queue import SimpleQueue
from typing import Any, NamedTuple, TypeAlias, TypeVar

from ..queue.cancel import CancelToken

T = TypeVar("T")
_Ended: TypeAlias = Callable[[Any, BaseException | None], object]


class _Start(NamedTuple):
    context: Context
    coroutine: Coroutine[Any, Any, Any]
    token: CancelToken
    ended: _Ended


class LoopThread:
    """Runs coroutines of many threads on one event loop, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._line: deque[_Start] = deque()
        self._called = False
        self._tasks: set[asyncio.Task[None]] = set()  # a loop itself holds them weakly

    def run(self, coroutine: Coroutine[Any, Any, T], token: CancelToken) -> T:
        """Runs a coroutine to its end, in a copy of the caller's context; blocks the caller.

        Args:
            token: cancels the coroutine's asyncio task.

        Raises:
            BaseException: what the coroutine raised.
        """
        end: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()
        self.start(coroutine, token, lambda value, error: end.put((value, error)))
        value, error = end.get()
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

    def start(self, coroutine: Coroutine[Any, Any, Any], token: CancelToken, ended: _Ended) -> None:
        """As :meth:`run`, without blocking the caller.

        Args:
            ended: called on the loop's thread with the value, or with what the coroutine raised;
                it must neither block nor raise.
        """
        self._line.append(_Start(copy_context(), coroutine, token, ended))
        # One call wakes the loop for all that are in the line when it comes to it.
        if not self._called:
            self._called = True
            self._running().call_soon_threadsafe(self._begin)

    def _running(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_forever, name="echomq-loop", daemon=True
                ).start()
            return self._loop

    def _begin(self) -> None:
        self._called = False
        loop = asyncio.get_running_loop()
        while self._line:
            context, coroutine, token, ended = self._line.popleft()
            task = loop.create_task(_guarded(coroutine, token, ended), context=context)
            self._tasks.add(task)
            task.add_done_callback(self._tasks.discard)


async def _guarded(coroutine: Coroutine[Any, Any, Any], token: CancelToken, ended: _Ended) -> None:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    token.on_cancel(lambda: loop.call_soon_threadsafe(task.cancel))
    value = error = None
    try:
        value = await coroutine
    except BaseException as raised:
        # SystemExit and KeyboardInterrupt would otherwise end the loop of all the others.
        error = raised
    ended(value, error)
