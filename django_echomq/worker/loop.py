"""An event loop on a thread of its own, for coroutine handlers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Coroutine
from concurrent.futures import Future
from typing import Any, TypeAlias, TypeVar

from ..queue.cancel import CancelToken

T = TypeVar("T")
_End: TypeAlias = tuple[T | None, BaseException | None]


class LoopThread:
    """Runs coroutines of many threads on one event loop, started when it is first needed."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._loop: asyncio.AbstractEventLoop | None = None

    def run(self, coroutine: Coroutine[Any, Any, T], token: CancelToken) -> T:
        """Runs a coroutine to its end, in a copy of the caller's context; blocks the caller.

        Args:
            token: cancels the coroutine's asyncio task.

        Raises:
            BaseException: what the coroutine raised.
        """
        value, error = self._begin(coroutine, token).result()
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

    def start(
        self,
        coroutine: Coroutine[Any, Any, T],
        token: CancelToken,
        ended: Callable[[T | None, BaseException | None], object],
    ) -> None:
        """As :meth:`run`, without blocking the caller.

        Args:
            ended: called on the loop's thread with the value, or with what the coroutine raised;
                it must neither block nor raise.
        """
        self._begin(coroutine, token).add_done_callback(lambda future: ended(*future.result()))

    def _begin(self, coroutine: Coroutine[Any, Any, T], token: CancelToken) -> Future[_End[T]]:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_forever, name="echomq-loop", daemon=True
                ).start()
        return asyncio.run_coroutine_threadsafe(_guarded(coroutine, token), self._loop)


async def _guarded(coroutine: Coroutine[Any, Any, T], token: CancelToken) -> _End[T]:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    token.on_cancel(lambda: loop.call_soon_threadsafe(task.cancel))
    try:
        return await coroutine, None
    except BaseException as error:
        # SystemExit and KeyboardInterrupt would otherwise end the loop of all the others.
        return None, error
