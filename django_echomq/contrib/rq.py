"""The names of RQ and django-rq, on EchoMQ.

Functions are sent by ``@job`` only: a worker runs what is registered, and a payload never names
code to import. What RQ does and this does not is refused with a sentence when it is asked for.
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from enum import StrEnum
from typing import Any, Generic, ParamSpec, TypeVar, cast, overload

from django.conf import settings
from django.core.exceptions import ImproperlyConfigured
from django.db import connection
from django.utils import timezone

from .. import queue as spine
from ..queue.backoff import Delays
from ..queues import get_queue as get_echo_queue
from ..tasks.backend import EchoMQBackend
from ..tasks.compat import TaskResult, TaskResultDoesNotExist, TaskResultStatus, task_backends
from ..tasks.registry import lookup
from ..tasks.task import EchoTask
from ..wire.errors import JobGone

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class JobStatus(StrEnum):
    """RQ's words for how a job stands."""

    QUEUED = "queued"
    FINISHED = "finished"
    FAILED = "failed"
    STARTED = "started"
    SCHEDULED = "scheduled"
    CANCELED = "canceled"


_STATUS = {
    "pending": JobStatus.QUEUED,
    "active": JobStatus.STARTED,
    "scheduled": JobStatus.SCHEDULED,
    "completed": JobStatus.FINISHED,
    "dead": JobStatus.FAILED,
    "cancelled": JobStatus.CANCELED,
}
_OF_DJANGO = {
    TaskResultStatus.SUCCESSFUL: JobStatus.FINISHED,
    TaskResultStatus.FAILED: JobStatus.FAILED,
}

_INSTEAD = {
    "at_front": "give the task a priority, with django.tasks",
    "depends_on": "let the first job send the second when it ends",
    "description": "the console shows the task and its arguments",
    "failure_ttl": "write KEEP_DEAD on the queue",
    "job_id": "ids are made here; Unique of django_echomq admits one job per key",
    "meta": "use current_job().progress(...) or give the task an argument",
    "on_failure": "use Django's task_finished signal",
    "on_stopped": "use Django's task_finished signal",
    "on_success": "use Django's task_finished signal",
    "pipeline": "EchoTask.enqueue_many sends many calls at once",
    "rate_limit": "write RATE_LIMIT on the queue",
    "repeat": "register a schedule, in SCHEDULES or with queue.repeat",
    "result_ttl": "write KEEP_COMPLETED on the queue",
    "ttl": "look at the time in the task",
    "unique": "use Unique of django_echomq with django.tasks",
    "webhooks": "use Django's task_finished signal",
}


class Retry:
    """How often a job that raises is tried again.

    Args:
        max: tries after the first.
        interval: seconds between them, or a list. Of a list with fewer than ``max``, the first is
            used for the tries that come too many, as RQ does.
    """

    def __init__(self, max: int, interval: int | Iterable[int] = 0) -> None:  # noqa: A002
        if max < 1:
            raise ValueError("max: a job is tried again once or more often")
        self.max = max
        self.intervals = [interval] if isinstance(interval, int) else list(interval)
        if not self.intervals or min(self.intervals) < 0:
            raise ValueError("interval: seconds, 0 or more")

    def options(self) -> dict[str, Any]:
        """As options of a task."""
        known = len(self.intervals)
        seconds = [self.intervals[max(known - left, 0)] for left in range(self.max, 0, -1)]
        return {
            "max_attempts": self.max + 1,
            "backoff": Delays(tuple(each * 1000 for each in seconds)),
        }


class Job(Generic[R_co]):
    """A job that was sent.

    Args:
        id: its id.
    """

    def __init__(self, id: str) -> None:  # noqa: A002 - RQ's name
        self._id = id
        self._told: TaskResult[..., Any] | None = None

    @classmethod
    def of(cls, told: TaskResult[..., Any]) -> Job[R_co]:
        """The job of a call that a backend answered with this."""
        made = cls(told.id)
        # Sent on commit, it may take the place of another, whose id is its own from then on.
        made._told = told
        return made

    @classmethod
    def fetch(cls, id: str) -> Job[R_co]:  # noqa: A002 - RQ's name
        """The job of that id.

        Raises:
            JobGone: nothing is known of it.
        """
        made = cls(id)
        made._row()
        return made

    def __repr__(self) -> str:
        return f"Job({self.id!r})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Job) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    @property
    def id(self) -> str:
        """The job's id."""
        return self._told.id if self._told is not None else self._id

    def get_id(self) -> str:
        """The job's id."""
        return self.id

    def get_status(self) -> JobStatus:
        """How it stands.

        Raises:
            JobGone: nothing is known of it any more.
        """
        if self._elsewhere is not None:
            return _OF_DJANGO.get(self._elsewhere.status, JobStatus.QUEUED)
        return _STATUS.get(self._row()[1].state, JobStatus.QUEUED)

    @property
    def is_queued(self) -> bool:
        """It waits."""
        return self.get_status() is JobStatus.QUEUED

    @property
    def is_scheduled(self) -> bool:
        """It waits for its time."""
        return self.get_status() is JobStatus.SCHEDULED

    @property
    def is_started(self) -> bool:
        """It runs."""
        return self.get_status() is JobStatus.STARTED

    @property
    def is_finished(self) -> bool:
        """It has ended with a value."""
        return self.get_status() is JobStatus.FINISHED

    @property
    def is_failed(self) -> bool:
        """It has ended with an exception."""
        return self.get_status() is JobStatus.FAILED

    def return_value(self) -> R_co | None:
        """What it returned; ``None`` before it has."""
        told = self._elsewhere
        if told is None:
            try:
                told = task_backends["default"].get_result(self.id)
            except TaskResultDoesNotExist:
                return None
        done = told.status == TaskResultStatus.SUCCESSFUL
        return cast(R_co, told.return_value) if done else None

    @property
    def exc_info(self) -> str | None:
        """The traceback of the try that failed last."""
        if self._elsewhere is not None:
            errors = self._elsewhere.errors
            return errors[-1].traceback if errors else None
        history = self._row()[1].history
        return str(history[-1].get("traceback", "")) if history else None

    def cancel(self) -> None:
        """Sees to it that it is not run; one that runs is asked to stop."""
        queue, row = self._row()
        queue.jobs.cancel(row.id)

    def delete(self) -> None:
        """Removes what is kept of it; it must not run."""
        queue, row = self._row()
        queue.jobs.remove(row.id)

    @property
    def _elsewhere(self) -> TaskResult[..., Any] | None:
        """What another backend than EchoMQ told."""
        return None if isinstance(task_backends["default"], EchoMQBackend) else self._told

    def _row(self) -> tuple[spine.Queue, spine.Job]:
        backend = task_backends["default"]
        try:
            found = backend.find(self.id) if isinstance(backend, EchoMQBackend) else None
        except TaskResultDoesNotExist:
            found = None
        if found is None:
            raise JobGone(f"nothing is known of the job {self.id}")
        return found


class JobFunction(Generic[P, R_co]):
    """A function that can be sent; made by :func:`job`.

    Attributes:
        django_task: the task of Django's Tasks API that carries it.
        func: the function.
    """

    def __init__(self, func: Callable[P, R_co], queue: str, options: dict[str, Any]) -> None:
        self.func = func
        self.__wrapped__ = func
        self.__name__, self.__qualname__ = func.__name__, func.__qualname__
        self.__module__, self.__doc__ = func.__module__, func.__doc__
        self.django_task = EchoTask(func=func, queue_name=queue, **options)

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self.func(*args, **kwargs)

    def __repr__(self) -> str:
        return f"<job {self.__module__}.{self.__qualname__}>"

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> Job[R_co]:
        """Sends a call; within a transaction, when it commits (``RQ["COMMIT_MODE"]``)."""
        named = set(inspect.signature(self.func).parameters)
        _refuse(
            f"{self.__qualname__}.delay()",
            {k: v for k, v in kwargs.items() if k in _POPPED and k not in named},
        )
        return _send(self.django_task, args, kwargs)

    enqueue = delay


#: What RQ takes out of a call of ``delay``.
_POPPED = ("depends_on", "job_id", "at_front")


class Queue:
    """A queue of the settings, with RQ's verbs."""

    def __init__(self, name: str = "default") -> None:
        self.name = name
        self._queue = get_echo_queue(name)

    def enqueue(self, f: Callable[..., Any] | str, *args: Any, **kwargs: Any) -> Job[Any]:
        """Sends a call of a ``@job``; within a transaction, when it commits.

        Args:
            f: the function that was decorated, or its dotted name.
            args, kwargs: its arguments; of the latter RQ's own options are taken out:
                ``job_timeout`` and ``retry`` are served.
        """
        return _send(self._prepared(f, kwargs), args, kwargs)

    def enqueue_call(
        self,
        func: Callable[..., Any] | str,
        args: Sequence[Any] = (),
        kwargs: dict[str, Any] | None = None,
        timeout: int | str | None = None,
        retry: Retry | None = None,
        **options: Any,
    ) -> Job[Any]:
        """:meth:`enqueue` with the arguments apart from the options."""
        _refuse("enqueue_call()", options)
        given = {"job_timeout": timeout, "retry": retry}
        return _send(self._prepared(func, given), args, kwargs or {})

    def enqueue_at(
        self, datetime: datetime, f: Callable[..., Any] | str, *args: Any, **kwargs: Any
    ) -> Job[Any]:
        """Sends a call that may run from an instant on. Does not wait for a commit, as in RQ."""
        if timezone.is_naive(datetime):
            raise ValueError(f"enqueue_at: {datetime!r} has no time zone: make it aware.")
        task = self._prepared(f, kwargs).using(run_after=datetime)
        return Job.of(task.enqueue(*args, **kwargs))

    def enqueue_in(
        self, time_delta: timedelta, func: Callable[..., Any] | str, *args: Any, **kwargs: Any
    ) -> Job[Any]:
        """Sends a call that may run after a while."""
        return self.enqueue_at(_now() + time_delta, func, *args, **kwargs)

    def fetch_job(self, job_id: str) -> Job[Any] | None:
        """The job of that id; ``None`` where this queue does not know it."""
        return Job(job_id) if self._queue.jobs.state(job_id) != "absent" else None

    @property
    def count(self) -> int:
        """How many jobs wait."""
        return self._queue.metrics.counts("pending")["pending"]

    def __len__(self) -> int:
        return self.count

    def is_empty(self) -> bool:
        """Whether none waits."""
        return self.count == 0

    def empty(self) -> int:
        """Removes the jobs that wait, and answers how many."""
        return self._queue.admin.drain()

    def _prepared(self, f: Any, kwargs: dict[str, Any]) -> EchoTask:
        """The task that a call goes to; RQ's options are taken out of the arguments."""
        given = {name: kwargs.pop(name) for name in ("job_timeout", "retry") if name in kwargs}
        _refuse("enqueue()", {name: kwargs.pop(name) for name in _INSTEAD if name in kwargs})
        task = _task_of(f).using(queue_name=self.name)
        options = _options(given.get("job_timeout"), given.get("retry"))
        isolate = options.pop("isolate", False)
        if isolate and not task.isolate:
            raise TypeError(
                "enqueue(): a call can change job_timeout, but only the task can have one: write "
                "@job(..., timeout=...), which puts it into a process of its own."
            )
        return task.using(**options) if options else task


def _task_of(f: Any) -> EchoTask:
    found = lookup(f) if isinstance(f, str) else getattr(f, "django_task", f)
    if isinstance(f, str) and found is None:
        raise LookupError(f"No @job is named {f!r}; jobs live in the tasks.py of an app.")
    if not isinstance(found, EchoTask):
        raise TypeError(
            f"{getattr(f, '__qualname__', f)!r} is no job: a worker runs what is registered. "
            "Decorate it with @job, in the tasks.py of an app."
        )
    return found


def _send(task: EchoTask, args: Sequence[Any], kwargs: dict[str, Any]) -> Job[Any]:
    mode = dict(getattr(settings, "RQ", {})).get("COMMIT_MODE", "on_db_commit")
    if mode not in ("on_db_commit", "auto"):
        raise ImproperlyConfigured(
            f"RQ['COMMIT_MODE'] = {mode!r} is not served: jobs are sent when the transaction "
            "commits ('on_db_commit'), or at once ('auto')."
        )
    if mode == "auto" or not connection.in_atomic_block:
        return Job.of(task.enqueue(*args, **kwargs))
    return Job.of(task.enqueue_on_commit(*args, **kwargs))


def _refuse(where: str, options: dict[str, Any]) -> None:
    for name, value in options.items():
        if value is not None and value is not False:
            instead = _INSTEAD.get(name, "leave it out")
            raise TypeError(f"{where}: {name}= has no counterpart in EchoMQ: {instead}.")


_UNITS = {"": 1, "s": 1, "m": 60, "h": 3600, "d": 86_400}


def _options(timeout: int | str | None, retry: Retry | None) -> dict[str, Any]:
    options: dict[str, Any] = {} if retry is None else retry.options()
    if isinstance(timeout, str):
        found = re.fullmatch(r"(\d+)([smhd]?)", timeout.lower())
        if not found:
            raise ValueError(f"timeout={timeout!r}: write seconds, or '30s', '5m', '2h'.")
        timeout = int(found[1]) * _UNITS[found[2]]
    if timeout is not None and timeout != -1:
        options.update(timeout=timeout, isolate=True)
    return options


def _now() -> datetime:
    now = timezone.now()
    return timezone.make_aware(now) if timezone.is_naive(now) else now


def get_queue(name: str = "default") -> Queue:
    """The queue of that name in ``ECHOMQ["QUEUES"]``."""
    return Queue(name)


def enqueue(func: Callable[..., Any] | str, *args: Any, **kwargs: Any) -> Job[Any]:
    """Sends a call to the queue ``default``."""
    return get_queue().enqueue(func, *args, **kwargs)


@overload
def job(func_or_queue: Callable[P, R], /) -> JobFunction[P, R]: ...
@overload
def job(
    func_or_queue: Queue | str = ...,
    *,
    timeout: int | str | None = ...,
    retry: Retry | None = ...,
    **options: Any,
) -> Callable[[Callable[P, R]], JobFunction[P, R]]: ...
def job(
    func_or_queue: Any = "default",
    *,
    timeout: int | str | None = None,
    retry: Retry | None = None,
    **options: Any,
) -> Any:
    """Makes a function of a module one that can be sent.

    Args:
        func_or_queue: the function, or the queue that calls go to.
        timeout: seconds, or text such as ``5m``, after which it is ended; it then runs in a process
            of its own, as all of RQ's do. ``-1`` is for ever.
        retry: how often it is tried again where it raises; without, it is dead at once.

    Raises:
        TypeError: another option of RQ's; the sentence says what to do instead.
    """
    _refuse("@job", options)
    queue = func_or_queue.name if isinstance(func_or_queue, Queue) else func_or_queue

    def make(func: Callable[..., Any], queue: str) -> JobFunction[..., Any]:
        return JobFunction(func, queue, {"max_attempts": 1, **_options(timeout, retry)})

    if callable(queue):
        return make(queue, "default")
    return lambda func: make(func, queue)
