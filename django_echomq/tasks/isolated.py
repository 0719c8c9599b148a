"""Runs task functions in child processes, which can be killed without harming the worker.

A child is started fresh (nothing is shared over a fork), sets Django up, and then serves one call
after another over a pipe. It ends when the pipe closes, so it does not outlive its worker.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import multiprocessing
import os
import signal
import threading
import time
from collections import deque
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection
from typing import Any

from ..queue import Claim
from ..queue.cancel import Cancelled, CancelToken
from ..worker.hand import Hand
from .verdicts import Discard, Retry

#: Seconds between telling a child to stop and killing it.
GRACE = 5.0
# A terminal and a service manager signal the whole group; the worker decides for its children.
_WORKERS_SIGNALS = (
    signal.SIGTERM,
    signal.SIGINT,
    signal.SIGQUIT,
    signal.SIGTSTP,
    signal.SIGUSR1,
    signal.SIGUSR2,
)
_LOOK = 0.05  # seconds between looks at the token and the memory of a child


class ChildDied(Exception):
    """The child process ended in the middle of the task."""


class OutOfMemory(Exception):
    """The task took more memory than a child may, and was killed."""


class TaskFailed(Exception):
    """What a task raised in its child process.

    Attributes:
        kind: the dotted name of the exception's class.
        reason: one line.
        traceback: text.
    """

    def __init__(self, kind: str, reason: str, traceback: str) -> None:
        super().__init__(reason)
        self.kind = kind
        self.reason = reason
        self.traceback = traceback
        if traceback:
            # The frames of the child, where those of this process tell nothing.
            self.add_note(traceback)


@dataclass(frozen=True, slots=True)
class _Ask:
    """A call on its way to a child."""

    queue: str
    claim: Claim
    worker: str
    task: str
    args: list[Any]
    kwargs: dict[str, Any]


@dataclass(frozen=True, slots=True)
class _Answer:
    """How the call ended: a value as JSON, or an error."""

    value: bytes = b""
    verdict: str = ""
    delay: Any = None
    max_attempts: int | None = None
    kind: str = ""
    reason: str = ""
    traceback: str = ""


class _Child:
    def __init__(self) -> None:
        # Spawned: a fork would share the sockets and locks of all the worker's threads.
        context = multiprocessing.get_context("spawn")
        self.pipe, theirs = context.Pipe()
        self.process = context.Process(target=_serve, args=(theirs,), daemon=True)
        # One to the whole group may come before the child can ignore it, and would end the child.
        # They are blocked in this thread alone; the tracker's own start would unblock them.
        resource_tracker.ensure_running()
        before = signal.pthread_sigmask(signal.SIG_BLOCK, _WORKERS_SIGNALS)
        try:
            self.process.start()
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)
        theirs.close()
        self.ready = False

    def kill(self) -> None:
        self.process.kill()
        self.process.join()
        self.pipe.close()

    def rss_mib(self) -> float:
        """Resident memory; 0 where the system does not tell."""
        try:
            with open(f"/proc/{self.process.pid}/statm") as file:  # noqa: PTH123 - a hot path
                return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE") / 2**20
        except (OSError, ValueError, IndexError):
            return 0.0


class Children:
    """Child processes, one per call in hand, kept for the next.

    Args:
        worker: the worker's name.
        max_memory_mib: a child over it is killed, and the attempt fails.
    """

    def __init__(self, worker: str, max_memory_mib: float | None = None) -> None:
        self._worker = worker
        self._max_memory = max_memory_mib
        self._idle: deque[_Child] = deque()

    def call(
        self,
        hand: Hand,
        task: str,
        args: list[Any],
        kwargs: dict[str, Any],
        limit: AbstractContextManager[Any],
    ) -> Any:
        """Calls a registered task in a child.

        Args:
            limit: entered when the child is ready, so that its start does not count.

        Raises:
            Cancelled: it was told to stop, and did or was killed.
            Retry, Discard: what it asked for.
            TaskFailed: what it raised.
            ChildDied, OutOfMemory: its process ended.
        """
        try:
            child = self._idle.pop()
        except IndexError:
            child = _Child()
        try:
            if not child.ready:
                self._wait(child, hand.token)
                child.ready = True
            with limit:
                child.pipe.send(_Ask(hand.queue.name, hand.claim, self._worker, task, args, kwargs))
                answer = self._wait(child, hand.token)
        except (EOFError, OSError):
            child.process.join(GRACE)
            code = child.process.exitcode
            child.kill()
            raise ChildDied(
                f"the child process was killed by signal {-code}"
                if code is not None and code < 0
                else f"the child process ended with {code} in the middle of the task"
            ) from None
        except BaseException:
            child.kill()
            raise
        self._idle.append(child)
        return _result(answer)

    def _wait(self, child: _Child, token: CancelToken) -> _Answer:
        kill_at = None
        while not child.pipe.poll(_LOOK):
            if token.cancelled and kill_at is None:
                kill_at = time.monotonic() + GRACE
                child.pipe.send((token.reason, token.cause))
            if kill_at is not None and time.monotonic() > kill_at:
                raise Cancelled(token.reason)
            if self._max_memory is not None and child.rss_mib() > self._max_memory:
                raise OutOfMemory(f"took more than {self._max_memory:g} MiB")
        answer = child.pipe.recv()
        assert isinstance(answer, _Answer)
        return answer

    def close(self) -> None:
        """Ends the idle children."""
        while self._idle:
            self._idle.pop().kill()


def _result(answer: _Answer) -> Any:
    if answer.verdict == "retry":
        raise Retry(answer.reason, delay=answer.delay, max_attempts=answer.max_attempts)
    if answer.verdict == "discard":
        raise Discard(answer.reason)
    if answer.verdict == "cancelled":
        raise Cancelled(answer.reason)
    if answer.verdict:
        raise TaskFailed(answer.kind, answer.reason, answer.traceback)
    return json.loads(answer.value)


def _serve(pipe: Connection) -> None:
    """The child: serves calls until the pipe closes."""
    for number in _WORKERS_SIGNALS:
        # Not SIG_IGN, which programs that the task starts would inherit.
        signal.signal(number, lambda *_: None)
    signal.pthread_sigmask(signal.SIG_UNBLOCK, _WORKERS_SIGNALS)
    importlib.import_module("django").setup()
    run: Callable[[_Ask, CancelToken], _Answer]
    run = importlib.import_module("django_echomq.tasks.runner").run_in_child
    # The tasks of the site are imported now, not on the first call's time.
    importlib.import_module("django_echomq.tasks.registry").autodiscover()
    asks: deque[tuple[_Ask, CancelToken]] = deque()
    token = CancelToken()
    came = threading.Semaphore(0)

    def listen() -> None:
        nonlocal token
        while True:
            try:
                message = pipe.recv()
            except (EOFError, OSError):
                # The worker is gone, and nobody waits for the answer.
                os._exit(1)
            if isinstance(message, _Ask):
                token = CancelToken()
                asks.append((message, token))
                came.release()
            else:
                token.cancel(*message)

    threading.Thread(target=listen, daemon=True).start()
    pipe.send(_Answer())
    while True:
        came.acquire()
        answer = run(*asks.popleft())
        with contextlib.suppress(OSError):
            pipe.send(answer)
