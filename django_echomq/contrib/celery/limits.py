"""The soft time limit: an exception in the middle of the task, which may catch it and tidy up."""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from .exceptions import SoftTimeLimitExceeded


@contextmanager
def soft_limit(seconds: float | None) -> Iterator[None]:
    """Raises :class:`SoftTimeLimitExceeded` in the block when its time is over; ``None`` is never.

    Tasks with a time limit run in the main thread of a child process, where a signal reaches them
    even inside a system call. On another thread there is no limit.
    """
    if not seconds or threading.current_thread() is not threading.main_thread():
        yield
        return

    def ring(*_: Any) -> None:
        raise SoftTimeLimitExceeded(f"the soft time limit of {seconds:g} s is over")

    started = time.monotonic()
    before = signal.signal(signal.SIGALRM, ring)
    outer, _ = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)
        if outer:
            # Somebody else's alarm, which has gone on meanwhile.
            left = outer - (time.monotonic() - started)
            signal.setitimer(signal.ITIMER_REAL, max(0.001, left))
