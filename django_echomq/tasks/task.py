"""Django's task, with the controls of the queue."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Self

from ..queue import Unique
from ..queue.backoff import Backoff, backoff_from
from .compat import Task
from .registry import register
from .results import EchoTaskResult

if TYPE_CHECKING:
    from .backend import EchoMQBackend

    _Base = Task[..., Any]
else:
    _Base = Task  # not generic at run time on Django 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoTask(_Base):
    """A task of the EchoMQ backend.

    Attributes:
        max_attempts: the budget of tries; the queue's where ``None``.
        backoff: the curve between tries: a curve, a list of delays in ms, or a mapping; the
            queue's where ``None``.
        timeout: seconds a handler may run; the queue's where ``None``.
        lane: the lane to wait in.
        unique: at most one job per key; text is a key that the end of the job frees.
        manual_lease: only the task's own checkpoints extend its lease, so that one that hangs is
            recovered.
        isolate: each call runs in a child process, which can be killed for time, cancel or memory.
    """

    max_attempts: int | None = None
    backoff: Backoff | list[int] | dict[str, Any] | None = None
    timeout: float | timedelta | None = None
    lane: str | None = None
    unique: Unique | str | None = None
    manual_lease: bool = False
    isolate: bool = False

    def __post_init__(self) -> None:
        Task.__post_init__(self)
        # One form for each, which compares and hashes like the rest of the task.
        if self.backoff is not None:
            object.__setattr__(self, "backoff", backoff_from(self.backoff))
        if isinstance(self.unique, str):
            object.__setattr__(self, "unique", Unique(self.unique))
        register(self)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        max_attempts: int | None = None,
        backoff: Backoff | list[int] | dict[str, Any] | None = None,
        timeout: float | timedelta | None = None,
        lane: str | None = None,
        unique: Unique | str | None = None,
    ) -> Self:
        """The same task with some options replaced; ``None`` leaves an option as it is."""
        changes: dict[str, Any] = {
            "priority": priority,
            "queue_name": queue_name,
            "run_after": run_after,
            "backend": backend,
            "max_attempts": max_attempts,
            "backoff": backoff,
            "timeout": timeout,
            "lane": lane,
            "unique": unique,
        }
        return replace(self, **{k: v for k, v in changes.items() if v is not None})

    def enqueue_many(
        self, calls: Iterable[tuple[Iterable[Any], dict[str, Any]]]
    ) -> list[EchoTaskResult]:
        """Enqueues many calls, some hundreds per round trip.

        Args:
            calls: pairs of positional arguments and keyword arguments.

        Returns:
            One result per call, in order.

        Raises:
            TypeError, ValueError: a call is not JSON; nothing was sent.
        """
        return self._backend().enqueue_many(self, calls)

    def enqueue_on_commit(
        self, *args: Any, using: str | None = None, **kwargs: Any
    ) -> EchoTaskResult:
        """Enqueues after the current transaction commits; a rollback drops the call.

        Args:
            using: the database alias whose transaction counts; the default one unless given.

        Returns:
            The result, its id known now. Without a transaction the call is sent at once.
        """
        return self._backend().enqueue_on_commit(self, args, kwargs, using)

    def _backend(self) -> EchoMQBackend:
        backend: EchoMQBackend = self.get_backend()  # type: ignore[assignment]
        return backend
