"""``celery.result``: what became of a call, by its id."""

from __future__ import annotations

import json
import sys
import time
from contextlib import suppress
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypeVar, cast

from ...queue import Job, Queue
from ...tasks.backend import EchoMQBackend
from ...tasks.compat import TaskResult, TaskResultDoesNotExist, TaskResultStatus, task_backends
from ...tasks.context import current_job
from ...tasks.envelope import Envelope
from ...tasks.registry import lookup
from ...tasks.task import EchoTask
from ...wire.errors import JobGone, WrongState
from .exceptions import TaskError, TaskRevokedError, TimeLimitExceeded, TimeoutError

R_co = TypeVar("R_co", covariant=True)

#: The keyword under which a call carries what Celery keeps in the headers of its message.
MESSAGE = "_celery"

_READY = ("SUCCESS", "FAILURE", "REVOKED")
_FIRST_LOOK = 0.01  # seconds


def echo_backend() -> EchoMQBackend | None:
    """The backend that tasks go to; ``None`` where the settings name another one."""
    backend = task_backends["default"]
    return backend if isinstance(backend, EchoMQBackend) else None


class AsyncResult(Generic[R_co]):
    """A call that was sent.

    Args:
        id: its id. Of one that nothing is known of, the state is ``PENDING``, as in Celery.
        parent: the result of the step before it, in a chain.
    """

    def __init__(self, id: str, *, parent: AsyncResult[Any] | None = None) -> None:  # noqa: A002
        self._id = id
        self.parent = parent
        self.ignored = False
        self._told: TaskResult[..., Any] | None = None

    @classmethod
    def of(cls, told: TaskResult[..., Any], *, ignored: bool = False) -> AsyncResult[R_co]:
        """The result of a call that a backend answered with this."""
        result = cls(told.id)
        result.ignored = ignored
        # Sent on commit, it may take the id of another, or be run then.
        result._told = told
        return result

    def __repr__(self) -> str:
        return f"<AsyncResult: {self.id}>"

    def __str__(self) -> str:
        return self.id

    def __eq__(self, other: object) -> bool:
        return isinstance(other, AsyncResult) and other.id == self.id

    def __hash__(self) -> int:
        return hash(self.id)

    # Looking

    @property
    def id(self) -> str:
        """The id."""
        return self._told.id if self._told is not None else self._id

    @property
    def task_id(self) -> str:
        """The id."""
        return self.id

    @property
    def state(self) -> str:
        """``PENDING``, ``STARTED``, ``RETRY``, ``SUCCESS``, ``FAILURE``, ``REVOKED``, or what the
        task called it with ``update_state``."""
        return self._look()[0]

    status = state

    @property
    def result(self) -> Any:
        """The value, the exception, or what ``update_state`` told; ``None`` before."""
        return self._look()[1]

    info = result

    @property
    def traceback(self) -> str | None:
        """Of the attempt that failed last."""
        job = self._job()
        return str(job.history[-1].get("traceback", "")) if job and job.history else None

    @property
    def retries(self) -> int:
        """How often it was tried again."""
        job = self._job()
        return max(0, job.attempt - 1) if job else 0

    @property
    def date_done(self) -> datetime | None:
        """When it ended."""
        if self._elsewhere is not None:
            return self._elsewhere.finished_at
        job = self._job()
        return job.finished_at if job else None

    def ready(self) -> bool:
        """Whether it has ended."""
        return self.state in _READY

    def successful(self) -> bool:
        """Whether it has ended with a value."""
        return self.state == "SUCCESS"

    def failed(self) -> bool:
        """Whether it has ended with an exception."""
        return self.state == "FAILURE"

    # Waiting

    def get(
        self,
        timeout: float | None = None,
        propagate: bool = True,
        interval: float = 0.5,
        *,
        disable_sync_subtasks: bool = True,
    ) -> R_co:
        """Waits for the end and answers the value.

        Args:
            timeout: seconds to wait at most; ``None`` for ever.
            propagate: raise the exception of a task that failed; else it is answered.
            interval: seconds between looks, once it takes longer.
            disable_sync_subtasks: refuse to wait inside a task.

        Raises:
            TimeoutError: it has not ended in time.
            RuntimeError: called inside a task.
            Exception: the task's own, or that of the step of the chain that failed.
        """
        if disable_sync_subtasks and current_job() is not None:
            raise RuntimeError(
                "A task that waits for another may wait for ever, when all workers do: send what "
                "follows as a chain."
            )
        if self.ignored:
            return cast(R_co, None)
        until = None if timeout is None else time.monotonic() + timeout
        pause = min(_FIRST_LOOK, interval)
        while True:
            for step in self._steps():
                state, value = step._look()
                if state in ("FAILURE", "REVOKED"):
                    if propagate:
                        raise value
                    return cast(R_co, value)
            if state == "SUCCESS":
                return cast(R_co, value)
            left = pause if until is None else min(pause, until - time.monotonic())
            if left <= 0:
                raise TimeoutError(f"{self.id} is {state} after {timeout:g} s")
            time.sleep(left)
            pause = min(2 * pause, interval)

    wait = get

    def _steps(self) -> list[AsyncResult[Any]]:
        """The steps of the chain as far as this one, the first one first."""
        steps: list[AsyncResult[Any]] = [self]
        while (parent := steps[0].parent) is not None:
            steps.insert(0, parent)
        return steps

    # Acting

    def revoke(self, terminate: bool = False, signal: str | None = None) -> None:
        """Sees to it that it is not run; one that runs goes on, unless it is to be terminated.

        Args:
            terminate: also stop one that runs, which a time limit has put into a process of its
                own: it is asked to stop, and killed 5 seconds later.
            signal: cannot be chosen.

        Raises:
            NotImplementedError: it runs on a thread, which cannot be killed.
        """
        if signal not in (None, "SIGTERM", "SIGKILL"):
            raise NotImplementedError(
                f"revoke(signal={signal!r}) is not served: a task that is terminated is asked to "
                "stop and killed 5 seconds later. Leave signal out."
            )
        found = self._find()
        if found is None:
            return
        queue, job = found
        if job.state == "active":
            if not terminate:
                return
            task = lookup(Envelope.decode(job.payload).task)
            if not (isinstance(task, EchoTask) and task.isolate):
                raise NotImplementedError(
                    f"revoke(terminate=True): {self.id} runs on a thread, which cannot be killed. "
                    "Give its task a time_limit, which puts it into a process, or let it look at "
                    "django_echomq.current_job().checkpoint() and use queue.jobs.cancel."
                )
        with suppress(JobGone, WrongState):  # it ended meanwhile
            queue.jobs.cancel(job.id, "revoked")

    def forget(self) -> None:
        """Drops what is kept of a call that has ended."""
        found = self._find()
        if found is not None and self.ready():
            found[0].jobs.remove(self.id)

    # How it stands

    def _find(self) -> tuple[Queue, Job] | None:
        backend = echo_backend()
        if backend is None:
            return None
        try:
            return backend.find(self.id)
        except TaskResultDoesNotExist:
            return None

    @property
    def _elsewhere(self) -> TaskResult[..., Any] | None:
        """What another backend than EchoMQ answered."""
        return self._told if echo_backend() is None else None

    def _job(self) -> Job | None:
        found = self._find()
        return found[1] if found else None

    def _look(self) -> tuple[str, Any]:
        """The state, and what goes with it."""
        if self._elsewhere is not None:
            return _of_django(self._elsewhere)
        job = self._job()
        if job is None:
            return "PENDING", None
        if job.state == "completed":
            return "SUCCESS", json.loads(job.result) if job.result else None
        if job.state == "dead":
            return "FAILURE", _error(job)
        if job.state == "cancelled":
            return "REVOKED", TaskRevokedError(job.last_error or "revoked")
        if job.state == "active":
            return _own_state(job) or ("STARTED", None)
        return ("RETRY" if job.history else "PENDING"), None

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"AsyncResult.{name} has no counterpart in EchoMQ; the row of the job is "
                "django_echomq.get_queue(...).jobs.get(result.id)"
            )


class EagerResult(AsyncResult[R_co]):
    """What :meth:`Task.apply` answers."""

    def __init__(self, id: str, value: Any, state: str) -> None:  # noqa: A002
        super().__init__(id)
        self._value, self._state = value, state

    def _look(self) -> tuple[str, Any]:
        return self._state, self._value


def _of_django(told: TaskResult[..., Any]) -> tuple[str, Any]:
    if told.status == TaskResultStatus.SUCCESSFUL:
        return "SUCCESS", told.return_value
    if told.status == TaskResultStatus.FAILED:
        error = told.errors[-1]
        text = error.traceback.strip().rpartition("\n")[2].partition(": ")[2]
        return "FAILURE", _rebuilt(error.exception_class_path, text)
    return "PENDING", None


def _own_state(job: Job) -> tuple[str, Any] | None:
    try:
        told = json.loads(job.progress or "null")
    except ValueError:
        return None
    if isinstance(told, dict) and set(told) == {"state", "meta"}:
        return str(told["state"]), told["meta"]
    return None


def _error(job: Job) -> Exception:
    """The exception that ended a job, built again from its name and message."""
    last = job.last_error or ""
    if not job.history:
        return TaskError(last or "the job's lease lapsed too often")
    kind = str(job.history[-1].get("exception", ""))
    return _rebuilt(kind, last.partition(": ")[2] or last)


def _rebuilt(kind: str, text: str) -> Exception:
    if kind.endswith(".verdicts.TaskTimeout"):
        return TimeLimitExceeded(text)
    # Only what the process has loaded by itself: a name out of a row imports nothing.
    module_name, _, name = kind.rpartition(".")
    found = getattr(sys.modules.get(module_name), name, None)
    if isinstance(found, type) and issubclass(found, Exception):
        try:
            return found(text) if text else found()
        except Exception:
            return TaskError(f"{kind}: {text}")
    return TaskError(f"{kind}: {text}")
