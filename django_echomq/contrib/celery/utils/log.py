"""``celery.utils.log``."""

from __future__ import annotations

import logging


def get_task_logger(name: str) -> logging.Logger:
    """The logger of that name. The worker's records carry ``job_id`` and ``task``; for those of
    tasks see :class:`django_echomq.logs.JobFields`."""
    return logging.getLogger(name)
