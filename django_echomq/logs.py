"""Log records that say which job they belong to."""

from __future__ import annotations

import logging


class JobFields(logging.Filter):
    """Adds ``job_id``, ``task``, ``queue``, ``attempt`` and ``duration`` to every record.

    ``duration`` is in seconds since the job was claimed. All are ``None`` outside of jobs. Records
    of this package about a job carry them without it; this filter is for those of the tasks
    themselves and what they call. Hang it on a handler of Django's ``LOGGING``.
    """

    def filter(self, record: logging.LogRecord) -> bool:
        from .tasks.context import current_job

        if not hasattr(record, "job_id"):
            job = current_job()
            fields = job.hand.extra() if job else dict.fromkeys(_FIELDS)
            record.__dict__.update(fields)
        return True


_FIELDS = ("job_id", "task", "queue", "attempt", "duration")
