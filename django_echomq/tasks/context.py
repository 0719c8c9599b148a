"""What a running task can ask and tell."""

from __future__ import annotations

import json
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..queue import Queue
from ..queue.cancel import CancelToken, Cause
from ..queue.clock import Duration
from ..wire.errors import JobGone, StaleToken
from ..worker.hand import Hand
from .compat import TaskContext
from .envelope import dumps, to_json

if TYPE_CHECKING:
    _Base = TaskContext[..., Any]
else:
    _Base = TaskContext  # not generic at run time on Django 6

_LOG_KEEP = 1_000

_current: ContextVar[EchoTaskContext | None] = ContextVar("echomq_current_job", default=None)


def current_job() -> EchoTaskContext | None:
    """The context of the job that the calling code runs in; ``None`` outside of one."""
    return _current.get()


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoTaskContext(_Base):  # type: ignore[misc]  # frozen, as Django's own is at run time
    """The context of one attempt.

    Attributes:
        hand: the job in hand.
    """

    hand: Hand = field(repr=False)

    @property
    def attempt(self) -> int:
        """Which try this is, from 1."""
        return self.hand.claim.attempt

    @property
    def job_id(self) -> str:
        """The job's branded id."""
        return self.hand.claim.job_id

    @property
    def lane(self) -> str | None:
        """The lane that the job waited in."""
        return self.hand.claim.lane

    @property
    def queue(self) -> Queue:
        """The job's queue."""
        return self.hand.queue.whole

    @property
    def token(self) -> CancelToken:
        """Hears when the task is to stop; a coroutine may await it."""
        return self.hand.token

    @property
    def cancelled(self) -> bool:
        """Whether the task is to stop; asks nobody."""
        return self.hand.token.cancelled

    def raise_if_cancelled(self) -> None:
        """Raises ``Cancelled`` where the task is to stop; asks nobody."""
        self.hand.token.raise_if_cancelled()

    def progress(self, value: Any) -> None:
        """Notes how far the job is: a number or a JSON value. Published as an event."""
        self.hand.queue.jobs.update_progress(self.job_id, dumps(to_json(value)).decode())

    def log(self, line: str) -> None:
        """Adds a line to the job's log, which keeps the newest 1,000."""
        self.hand.queue.jobs.add_log(self.job_id, line, keep=_LOG_KEEP)

    def checkpoint(self, details: Any = None, *, lease: Duration | None = None) -> None:
        """Extends the lease from now, and asks the server whether the task is to stop.

        Args:
            details: a JSON value that the next attempt reads as :attr:`resume`; ``None`` keeps
                what is there.
            lease: seconds or a timedelta; the queue's unless given.

        Raises:
            Cancelled: the task is to stop: it was cancelled, ran out of time, its worker is
                stopping, or the job is no longer this attempt's.
        """
        self.hand.token.raise_if_cancelled()
        body = b"" if details is None else dumps(to_json(details))
        try:
            reason = self.hand.queue.jobs.checkpoint(self.hand.claim, lease, body)
        except (StaleToken, JobGone):
            self.hand.token.cancel("lease lost", Cause.LEASE_LOST)
        else:
            if reason is not None:
                self.hand.token.cancel(reason)
        self.hand.token.raise_if_cancelled()

    @property
    def resume(self) -> Any:
        """The details of the latest checkpoint of any attempt; ``None`` where there are none."""
        details = self.hand.queue.jobs.get(self.job_id).fields.get("checkpoint")
        return None if details is None else json.loads(details)
