"""What a running task can ask and tell."""

from __future__ import annotations

from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from ..queue import Claim, Queue
from ..queue.clock import Duration
from ..wire.errors import JobGone, StaleToken
from .compat import TaskContext
from .envelope import dumps, to_json
from .verdicts import Cancelled

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
        queue: the job's queue.
        claim: the claim that the attempt runs under.
    """

    queue: Queue = field(repr=False)
    claim: Claim
    _over: list[str] = field(default_factory=list, init=False, repr=False)

    @property
    def attempt(self) -> int:
        """Which try this is, from 1."""
        return self.claim.attempt

    @property
    def job_id(self) -> str:
        """The job's branded id."""
        return self.claim.job_id

    @property
    def lane(self) -> str | None:
        """The lane that the job waited in."""
        return self.claim.lane

    @property
    def cancelled(self) -> bool:
        """Whether :meth:`checkpoint` found that the job is no longer this attempt's."""
        return bool(self._over)

    def progress(self, value: Any) -> None:
        """Notes how far the job is: a number or a JSON value. Published as an event."""
        self.queue.jobs.update_progress(self.job_id, dumps(to_json(value)).decode())

    def log(self, line: str) -> None:
        """Adds a line to the job's log, which keeps the newest 1,000."""
        self.queue.jobs.add_log(self.job_id, line, keep=_LOG_KEEP)

    def checkpoint(self, lease: Duration | None = None) -> None:
        """Extends the lease from now.

        Args:
            lease: seconds or a timedelta; the queue's unless given.

        Raises:
            Cancelled: the job is no longer this attempt's; whatever it goes on to do does not
                count.
        """
        if not self._over:
            try:
                self.queue.jobs.extend_lock(self.claim, lease)
                return
            except (StaleToken, JobGone):
                self._over.append("lease lost")
        raise Cancelled(self._over[0])
