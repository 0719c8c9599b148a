"""An event loop on a thread of its own, for coroutine handlers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Coroutine
from typing import Any, TypeVar

from ..queue.cancel import CancelToken

T = TypeVar("T")


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
        value, error = asyncio.run_coroutine_threadsafe(
            _guarded(coroutine, token), self._start()
        ).result()
        if error is not None:
            raise error
        return value  # type: ignore[return-value]

    def _start(self) -> asyncio.AbstractEventLoop:
        with self._lock:
            if self._loop is None:
                self._loop = asyncio.new_event_loop()
                threading.Thread(
                    target=self._loop.run_forever, name="echomq-loop", daemon=True
                ).start()
            return self._loop


async def _guarded(
    coroutine: Coroutine[Any, Any, T], token: CancelToken
) -> tuple[T | None, BaseException | None]:
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    assert task is not None
    token.on_cancel(lambda: loop.call_soon_threadsafe(task.cancel))
    try:
        return await coroutine, None
    except BaseException as error:
        # SystemExit and KeyboardInterrupt would otherwise end the loop of all the others.
        return None, error
