"""Results: a job's row or outcome record as Django's ``TaskResult``."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..queue import Job, Outcome
from .compat import Task, TaskError, TaskResult, TaskResultStatus
from .envelope import Envelope

if TYPE_CHECKING:
    from typing_extensions import ParamSpec, TypeVar

    P = ParamSpec("P", default=...)
    R = TypeVar("R", default=Any)
    _Base = TaskResult
else:
    P, R = "P", "R"

    class _Base:
        def __class_getitem__(cls, types: Any) -> type:
            return TaskResult  # not generic at run time on Django 6


_STATUS = {
    "active": TaskResultStatus.RUNNING,
    "completed": TaskResultStatus.SUCCESSFUL,
    "dead": TaskResultStatus.FAILED,
    "cancelled": TaskResultStatus.FAILED,
}


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoTaskResult(_Base[P, R]):  # type: ignore[misc]  # frozen, as Django's own is at run time
    """A result that also says what became of the admission.

    Attributes:
        outcome: ``enqueued``, ``scheduled`` or ``duplicate``; a duplicate's id names the job that
            holds the unique key.
    """

    outcome: str = Outcome.ENQUEUED

    def __post_init__(self) -> None:
        # Django makes plain JSON of the arguments here; they have been made so before.
        pass

    @property
    def job_id(self) -> str:
        """The job's branded id."""
        return self.id


def fresh_result(
    task: Task[..., Any],
    job_id: str,
    args: list[Any],
    kwargs: dict[str, Any],
    outcome: str = Outcome.ENQUEUED,
    *,
    status: TaskResultStatus = TaskResultStatus.READY,
    enqueued_at: datetime | None = None,
    started_at: datetime | None = None,
    last_attempted_at: datetime | None = None,
    finished_at: datetime | None = None,
    errors: list[TaskError] | None = None,
    worker_ids: list[str] | None = None,
) -> EchoTaskResult:
    """The result of a call."""
    return EchoTaskResult(
        task=task,
        id=job_id,
        args=args,
        kwargs=kwargs,
        backend=task.backend,
        outcome=outcome,
        status=status,
        enqueued_at=enqueued_at,
        started_at=started_at,
        last_attempted_at=last_attempted_at,
        finished_at=finished_at,
        errors=[] if errors is None else errors,
        worker_ids=[] if worker_ids is None else worker_ids,
    )


def errors_of(history: Iterable[Mapping[str, Any]]) -> list[TaskError]:
    """The errors that a job's history tells of."""
    return [
        TaskError(
            exception_class_path=str(entry.get("exception", "")),
            traceback=str(entry.get("traceback", "")),
        )
        for entry in history
    ]


def workers_of(history: Iterable[Mapping[str, Any]]) -> list[str]:
    """The workers of the attempts that a job's history tells of."""
    return [str(entry.get("worker", "")) for entry in history]


def result_of(task: Task[..., Any], envelope: Envelope, job: Job) -> EchoTaskResult:
    """The result that a row or outcome record tells of."""
    status = _STATUS.get(job.state, TaskResultStatus.READY)
    errors, workers = errors_of(job.history), workers_of(job.history)
    if status in (TaskResultStatus.RUNNING, TaskResultStatus.SUCCESSFUL):
        workers.append(job.worker or "")
    if status == TaskResultStatus.FAILED and not (
        job.history and job.history[-1].get("token") == job.attempts
    ):
        # Cancelled, or buried by the sweep, which knows no traceback.
        if job.attempts:
            workers.append(job.worker or "")
        cancelled = job.state == "cancelled"
        kind = "queue.cancel.Cancelled" if cancelled else "wire.errors.StalledJob"
        errors.append(
            TaskError(exception_class_path=f"django_echomq.{kind}", traceback=job.last_error or "")
        )
    first = job.history[0].get("started_at") if job.history else None
    result = fresh_result(
        task,
        job.id,
        envelope.args,
        envelope.kwargs,
        status=status,
        enqueued_at=job.enqueued_at,
        started_at=_instant(first) or job.started_at,
        last_attempted_at=job.started_at,
        finished_at=job.finished_at,
        errors=errors,
        worker_ids=workers,
    )
    if status == TaskResultStatus.SUCCESSFUL and job.result:
        object.__setattr__(result, "_return_value", _value(job.result))
    return result


def _value(result: bytes) -> Any:
    try:
        return json.loads(result)
    except ValueError:
        # A worker of another runtime may leave plain text.
        return result.decode("utf-8", "backslashreplace")


def _instant(ms: Any) -> datetime | None:
    return datetime.fromtimestamp(ms / 1000, UTC) if isinstance(ms, int) else None
