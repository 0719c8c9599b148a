"""Tools for the tests of a project: a real server of their own, and its jobs run when a test says.

Nothing is faked. Jobs go to a Valkey that belongs to the tests, and are claimed, run and settled as
a worker does it, on the test's thread, so that they see its transaction.
"""

from __future__ import annotations

import copy
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from .conf import queue_names, read_settings
from .queue import Queue
from .queue.clock import duration_ms, instant_ms
from .queues import forget_queues, get_queue
from .tasks.compat import (
    TaskResult,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_enqueued,
    task_started,
)
from .tasks.registry import autodiscover
from .tasks.runner import Runner, _Plan
from .tasks.schedules import reconcile_schedules
from .wire.embedded import embedded
from .worker.hand import Hand

if TYPE_CHECKING:
    from unittest import TestCase as _TestCase

    Result = TaskResult[..., Any]
else:
    _TestCase = object
    Result = TaskResult  # not generic at run time on Django 6


class JobFailed(AssertionError):
    """A job that was run has failed for good.

    Attributes:
        result: what became of it; ``None`` for a job that is no task's.
    """

    def __init__(self, message: str, result: Result | None) -> None:
        super().__init__(message)
        self.result = result


# Running


def run_pending(*queues: str, raises: bool = True, limit: int = 1_000) -> list[Result]:
    """Runs the jobs that wait, and those that they send, until none is left.

    They run one after another on this thread and in its transaction, whatever the task says of
    processes of its own; coroutines run on an event loop. Jobs for later, retries among them, are
    left: see :func:`run_due`.

    Args:
        queues: names of queues; all of the settings unless given.
        raises: raise where a job is dead at its end.
        limit: at most so many runs, should jobs send others without end.

    Returns:
        What became of each run, in order.

    Raises:
        JobFailed: a job is dead; the message ends with the traceback of its task.
        RuntimeError: the limit was met.
    """
    with _Bench(queues, raises, limit) as bench:
        bench.run()
    return bench.results


def run_due(
    *queues: str, until: datetime | timedelta, raises: bool = True, limit: int = 1_000
) -> list[Result]:
    """:func:`run_pending`, then everything that falls due up to an instant, in the order of time:
    jobs for later, retries, and the ticks of schedules, those of the settings among them.

    The clock of a real server cannot be set. Jobs are brought forward instead: to them, to the
    server and to ``timezone.now()`` it is still now. What they schedule counts from now as well.

    Args:
        queues: names of queues; all of the settings unless given.
        until: an aware datetime, or a timedelta from now.
        raises, limit: as in :func:`run_pending`.
    """
    with _Bench(queues, raises, limit) as bench:
        bench.run()
        bench.run_until(until)
    return bench.results


class _Inline(Runner):
    """Runs every task on the thread that calls."""

    def _plan(self, name: str, queue: Queue) -> _Plan | None:
        plan = super()._plan(name, queue)
        return plan and replace(plan, isolate=False)


class _Bench:
    def __init__(self, names: Sequence[str], raises: bool, limit: int) -> None:
        self.queues = [get_queue(name) for name in names or queue_names()]
        self.results: list[Result] = []
        self._raises = raises
        self._limit = limit
        self._runs = 0

    def __enter__(self) -> _Bench:
        autodiscover()
        self._runner = _Inline("tests", coroutines=0)
        return self

    def __exit__(self, *error: object) -> None:
        self._runner.close()

    def run(self) -> None:
        """Runs what waits."""
        while sum(self._run_one(queue) for queue in self.queues):
            pass

    def run_until(self, until: datetime | timedelta) -> None:
        """Runs what falls due by then."""
        start = time.time_ns() // 1_000_000
        if isinstance(until, timedelta):
            end = start + duration_ms(until, "until")
        else:
            end = instant_ms(until, "until")
        reconcile_schedules(self.queues)
        ticks = {
            (queue.name, schedule.name): (instant_ms(schedule.next_run), schedule.definition)
            for queue in self.queues
            for schedule in queue.repeat.all()
            if schedule.next_run is not None
        }
        while True:
            due: list[tuple[float, str, Queue]] = []
            for queue in self.queues:
                for listed in queue.jobs.page("scheduled", limit=1, newest_first=False).jobs:
                    if listed.due_ms is not None:
                        due.append((listed.due_ms, f"job {listed.job.id}", queue))
                due += [
                    (tick, f"tick {name}", queue)
                    for (of, name), (tick, _) in ticks.items()
                    if of == queue.name
                ]
            if not due:
                return
            at, what, queue = min(due, key=lambda entry: entry[:2])
            if at > end:
                return
            kind, _, name = what.partition(" ")
            if kind == "job":
                queue.jobs.promote_now(name)
            else:
                self._count()
                queue.repeat.run_now(name)
                tick, definition = ticks.pop((queue.name, name))
                following = definition.after(tick, tick)
                if following is not None:
                    ticks[queue.name, name] = following, definition
            self.run()

    def _count(self) -> None:
        self._runs += 1
        if self._runs > self._limit:
            raise RuntimeError(
                f"{self._limit} jobs were run and there are still more: do they send each other? "
                "Else raise limit."
            )

    def _run_one(self, queue: Queue) -> bool:
        queue.jobs.promote()
        claims = queue.jobs.claim()
        for claim in claims:
            self._count()
            told: list[Result] = []

            def started(task_result: Result, told: list[Result] = told, **_: Any) -> None:
                told.append(task_result)

            task_started.connect(started, weak=False)
            try:
                settlement = self._runner(Hand(queue, claim))
            finally:
                task_started.disconnect(started)
            assert settlement is not None, "coroutines hold the thread"
            queue.jobs._settle(settlement)
            result = _current(told[0]) if told else None
            if result is not None:
                self.results.append(result)
            if self._raises and queue.jobs.state(claim.job_id) == "dead":
                job = queue.jobs.get(claim.job_id)
                what = result.task.module_path if result else "no task's"
                trace = job.history[-1].get("traceback", "") if job.history else ""
                raise JobFailed(f"job {job.id}, {what}: {job.last_error}\n{trace}", result)
        return bool(claims)


def _current(result: Result) -> Result:
    """The result as the server tells it; as the run left it, where no record is kept."""
    try:
        return task_backends[result.backend].get_result(result.id)
    except TaskResultDoesNotExist:
        if result.status == TaskResultStatus.RUNNING:
            object.__setattr__(result, "status", TaskResultStatus.READY)
        return result


# Looking at what is sent


class CapturedJobs(list[Result]):
    """Calls that were sent, in order."""

    def of(self, task: Any) -> list[Result]:
        """Those of one task."""
        return [result for result in self if result.task.func is task.func]

    def assert_enqueued(self, task: Any, *args: Any, **kwargs: Any) -> Result:
        """Answers the call of the task with exactly these arguments.

        Raises:
            AssertionError: there is none, or more than one; the message says what was sent.
        """
        plain = list(args)
        found = [
            each for each in self.of(task) if (list(each.args), each.kwargs) == (plain, kwargs)
        ]
        if len(found) != 1:
            wanted = _call(task.func, plain, kwargs)
            times = f"{len(found)} times" if found else "not"
            raise AssertionError(f"{wanted} was {times} enqueued; enqueued were:{self}")
        return found[0]

    def assert_not_enqueued(self, task: Any = None) -> None:
        """
        Args:
            task: any task where ``None``.

        Raises:
            AssertionError: a call of the task was sent.
        """
        found = self if task is None else CapturedJobs(self.of(task))
        if found:
            raise AssertionError(f"nothing should have been enqueued, but there were:{found}")

    def __str__(self) -> str:
        calls = [_call(each.task.func, each.args, each.kwargs) for each in self]
        return "".join(f"\n  {call}" for call in calls) or " none"


def _call(func: Callable[..., Any], args: Sequence[Any], kwargs: dict[str, Any]) -> str:
    given = [*map(repr, args), *(f"{name}={value!r}" for name, value in kwargs.items())]
    return f"{func.__module__}.{func.__qualname__}({', '.join(given)})"


@contextmanager
def captured_jobs() -> Iterator[CapturedJobs]:
    """The calls of tasks that are sent within the block, on any backend of Django's Tasks API.

    They are sent all the same. Those that wait for a commit are there when it comes; in a
    ``TestCase``, whose transaction never commits, with ``captureOnCommitCallbacks(execute=True)``.
    What ``queue.jobs.enqueue`` admits is no task's call, and not among them.
    """
    jobs = CapturedJobs()

    def enqueued(task_result: Result, **kwargs: Any) -> None:
        jobs.append(copy.copy(task_result))

    task_enqueued.connect(enqueued, weak=False)
    try:
        yield jobs
    finally:
        task_enqueued.disconnect(enqueued)


# A place for tests


@contextmanager
def isolated_server(folder: Path | None = None) -> Iterator[None]:
    """Puts every connection of the settings on a server of the block's own.

    Processes that a test starts read the settings anew, and know nothing of it.

    Args:
        folder: where its socket is; a temporary one unless given.

    Raises:
        ImproperlyConfigured: there is no server to start.
    """
    made = folder is None
    # A short name, for a socket's path must be short.
    folder = folder or Path(tempfile.mkdtemp(prefix="echomq-"))
    place = folder / "valkey"
    current: dict[str, Any] = dict(getattr(settings, "ECHOMQ", None) or {})
    aliases = {"default", *current.get("CONNECTIONS", {})}
    current["CONNECTIONS"] = {alias: {"EMBEDDED": place} for alias in aliases}
    try:
        with override_settings(ECHOMQ=current):
            faults = [each for each in read_settings().problems if "'CONNECTIONS'" in each.message]
            if faults:
                raise ImproperlyConfigured(f"{faults[0].message} {faults[0].hint}")
            try:
                yield
            finally:
                forget_queues()
                embedded(place).release()
    finally:
        if made:
            _remove(folder, place / "valkey.sock")


def _remove(folder: Path, socket: Path) -> None:
    deadline = time.monotonic() + 10
    while socket.exists() and time.monotonic() < deadline:
        time.sleep(0.01)
    shutil.rmtree(folder, ignore_errors=True)


def clean_queues() -> None:
    """Removes all jobs, schedules and counters of the queues of the settings.

    Raises:
        ImproperlyConfigured: a queue's server is not the tests' own: not an embedded one.
    """
    current = read_settings()
    for name, definition in current.queues.items():
        if any("EMBEDDED" not in current.connections.get(c, {}) for c in definition.connections):
            raise ImproperlyConfigured(
                f"clean_queues() would empty the queue {name!r} of a server that others may use: "
                "call it within isolated_server()."
            )
    for name in current.queues:
        queue = get_queue(name)
        queue.admin.pause()
        queue.admin.obliterate(force=True)


class EchoMQTestMixin(_TestCase):
    """For test classes of Django or unittest: a server for the class, and queues that are empty
    when a test starts. With pytest the fixture ``echomq`` does it, with one server for all."""

    @classmethod
    def setUpClass(cls) -> None:
        super().setUpClass()
        cls.enterClassContext(isolated_server())

    def setUp(self) -> None:
        super().setUp()
        clean_queues()


__all__ = [
    "CapturedJobs",
    "EchoMQTestMixin",
    "JobFailed",
    "captured_jobs",
    "clean_queues",
    "isolated_server",
    "run_due",
    "run_pending",
]
