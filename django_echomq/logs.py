"""Log records that say which job they belong to."""

from __future__ import annotations

import logging

from django.conf import settings
from django.utils.log import RequireDebugTrue


class JobFields(logging.Filter):
    """Adds ``job_id``, ``task``, ``queue``, ``attempt`` and ``duration`` to every record.

    ``duration`` is in seconds since the job was claimed. All are ``None`` outside of jobs. Records
    of this package about a job carry them without it, and those about a failed attempt ``error``
    too, the name of the exception's class; this filter is for those of the tasks themselves and
    what they call. Hang it on a handler of Django's ``LOGGING``.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        from .tasks.context import current_job

        if not hasattr(record, "job_id"):
            job = current_job()
            fields = job.hand.extra() if job else dict.fromkeys(_FIELDS)
            record.__dict__.update(fields)
        return True


def spare_unseen(name: str, level: int = logging.INFO) -> bool:
    """Raises a logger's level above ``level`` where none of its handlers would show such records.

    Django tells of each task's start and end on ``django.tasks``. With its default configuration
    and ``DEBUG`` off nobody sees these records, but making them takes a good part of a short job.

    Returns:
        Whether the level was raised.
    """
    logger = logging.getLogger(name)
    if not logger.isEnabledFor(level) or any(_shows(each, level) for each in _handlers(logger)):
        return False
    logger.setLevel(level + 1)
    return True


def _handlers(logger: logging.Logger) -> list[logging.Handler]:
    found: list[logging.Handler] = []
    at: logging.Logger | None = logger
    while at:
        found += at.handlers
        at = at.parent if at.propagate else None
    return found or ([logging.lastResort] if logging.lastResort else [])


def _shows(handler: logging.Handler, level: int) -> bool:
    """Whether a handler may show a record of that level; of filters only Django's own is known."""
    hidden = not settings.DEBUG and any(isinstance(f, RequireDebugTrue) for f in handler.filters)
    return handler.level <= level and not hidden


_FIELDS = ("job_id", "task", "queue", "attempt", "duration")
