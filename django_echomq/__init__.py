"""A job queue on Valkey for Django whose idea is control."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from .wire import __version__

if TYPE_CHECKING:
    from .queue import NotReplicated, Queue, Unique
    from .queue.backoff import Delays, Exponential, Fixed, Jitter
    from .queue.cancel import Cancelled, CancelToken
    from .queues import get_queue
    from .tasks.context import current_job
    from .tasks.task import task
    from .tasks.verdicts import Discard, Retry
    from .wire.errors import (
        ActiveJobs,
        EchoMQError,
        InvalidId,
        InvalidName,
        JobGone,
        JobLocked,
        NotDead,
        NotPaused,
        PayloadTooLarge,
        RateLimited,
        ServerUnavailable,
        StaleToken,
        VersionFence,
        WritesRefused,
        WrongKind,
        WrongState,
    )
    from .worker.batches import BatchConsumer


_HOMES = {
    "ActiveJobs": ".wire.errors",
    "EchoMQError": ".wire.errors",
    "InvalidId": ".wire.errors",
    "InvalidName": ".wire.errors",
    "JobGone": ".wire.errors",
    "JobLocked": ".wire.errors",
    "NotDead": ".wire.errors",
    "NotPaused": ".wire.errors",
    "PayloadTooLarge": ".wire.errors",
    "RateLimited": ".wire.errors",
    "ServerUnavailable": ".wire.errors",
    "StaleToken": ".wire.errors",
    "VersionFence": ".wire.errors",
    "WritesRefused": ".wire.errors",
    "WrongKind": ".wire.errors",
    "WrongState": ".wire.errors",
    "BatchConsumer": ".worker.batches",
    "CancelToken": ".queue.cancel",
    "Cancelled": ".queue.cancel",
    "Delays": ".queue.backoff",
    "Discard": ".tasks.verdicts",
    "Exponential": ".queue.backoff",
    "Fixed": ".queue.backoff",
    "Jitter": ".queue.backoff",
    "NotReplicated": ".queue",
    "Queue": ".queue",
    "Retry": ".tasks.verdicts",
    "Unique": ".queue",
    "current_job": ".tasks.context",
    "get_queue": ".queues",
    "task": ".tasks.task",
}
__all__ = [
    "ActiveJobs",
    "BatchConsumer",
    "CancelToken",
    "Cancelled",
    "Delays",
    "Discard",
    "EchoMQError",
    "Exponential",
    "Fixed",
    "InvalidId",
    "InvalidName",
    "Jitter",
    "JobGone",
    "JobLocked",
    "NotDead",
    "NotPaused",
    "NotReplicated",
    "PayloadTooLarge",
    "Queue",
    "RateLimited",
    "Retry",
    "ServerUnavailable",
    "StaleToken",
    "Unique",
    "VersionFence",
    "WritesRefused",
    "WrongKind",
    "WrongState",
    "__version__",
    "current_job",
    "get_queue",
    "task",
]


def __getattr__(name: str) -> Any:
    # Late, so that the lower floors are usable without Django and settings can import curves.
    if name in _HOMES:
        return getattr(importlib.import_module(_HOMES[name], __name__), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
