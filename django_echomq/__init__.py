"""A job queue on Valkey for Django whose idea is control."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .queue import Queue, Unique
    from .queue.backoff import Delays, Exponential, Fixed, Jitter
    from .queues import get_queue
    from .tasks.context import current_job
    from .tasks.verdicts import Cancelled, Discard, Retry

__version__ = "0.1.0"

_HOMES = {
    "Cancelled": ".tasks.verdicts",
    "Delays": ".queue.backoff",
    "Discard": ".tasks.verdicts",
    "Exponential": ".queue.backoff",
    "Fixed": ".queue.backoff",
    "Jitter": ".queue.backoff",
    "Queue": ".queue",
    "Retry": ".tasks.verdicts",
    "Unique": ".queue",
    "current_job": ".tasks.context",
    "get_queue": ".queues",
}
__all__ = [
    "Cancelled",
    "Delays",
    "Discard",
    "Exponential",
    "Fixed",
    "Jitter",
    "Queue",
    "Retry",
    "Unique",
    "current_job",
    "get_queue",
]


def __getattr__(name: str) -> Any:
    # Late, so that the lower floors are usable without Django and settings can import curves.
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
