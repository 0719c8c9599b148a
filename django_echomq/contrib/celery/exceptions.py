"""``celery.exceptions``, as far as tasks and their callers meet them."""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any

from ...tasks import verdicts


class CeleryError(Exception):
    """What is raised here, except for mistakes in a call."""


class TaskError(CeleryError):
    """A task failed; where its own exception cannot be built again, this one tells of it."""


class MaxRetriesExceededError(TaskError):
    """The task asked for a retry once more than it may."""


class TimeoutError(TaskError):  # noqa: A001 - Celery's name
    """The result was not there in time."""


class TaskRevokedError(TaskError):
    """The task was revoked, or expired."""


class NotRegistered(KeyError, TaskError):
    """No ``@shared_task`` has that name."""

    def __str__(self) -> str:
        return str(self.args[0])


class SoftTimeLimitExceeded(Exception):
    """Raised inside a task at its soft time limit."""


class TimeLimitExceeded(Exception):
    """The task was ended at its time limit."""


class Retry(verdicts.Retry, CeleryError):
    """What :meth:`~django_echomq.contrib.celery.task.Task.retry` raises.

    Attributes:
        exc: why.
        when: the countdown in seconds, or the instant.
    """

    def __init__(
        self,
        message: str | None = None,
        exc: Exception | None = None,
        when: float | datetime | None = None,
        *,
        delay: float | None = None,
        max_attempts: int | None = None,
    ) -> None:
        self.message = message
        self.exc = exc
        self.when = when
        text = message or (repr(exc) if exc else "the task asked for a retry")
        super().__init__(text, delay=delay, max_attempts=max_attempts)


_INSTEAD = {
    "Ignore": "return, or raise django_echomq.Discard to end as dead",
    "Reject": "raise django_echomq.Discard to end as dead, django_echomq.Retry to try again",
}

if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        if name in _INSTEAD:
            raise ImportError(f"Celery's {name} has no counterpart in EchoMQ: {_INSTEAD[name]}.")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
