"""A job in hand: what a worker gives to a handler."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from ..queue import Claim, Queue
from ..queue.cancel import CancelToken
from ..queue.jobs import Settlement


@dataclass(slots=True, eq=False)
class Hand:
    """One claimed job.

    Attributes:
        queue, claim: what was claimed, and where; of a partitioned queue it is the partition.
        token: cancelled when the handler is to stop.
        manual_lease: set by a handler that extends its lease itself, through its checkpoints.
        task: the name of what runs, for log records; set by the handler.
        later: takes the settlement of a handler that answered ``None``; from any thread.
    """

    queue: Queue
    claim: Claim
    token: CancelToken = field(default_factory=CancelToken)
    manual_lease: bool = False
    task: str = ""
    later: Callable[[Hand, Settlement], object] | None = None
    _since: float = field(default_factory=time.monotonic)

    def extra(self) -> dict[str, Any]:
        """The fields of a log record about this job; ``duration`` is in seconds since its claim."""
        return {
            "job_id": self.claim.job_id,
            "task": self.task,
            "queue": self.queue.name,
            "attempt": self.claim.attempt,
            "duration": round(time.monotonic() - self._since, 3),
        }


#: Runs one job to its end and says how to settle it; or answers ``None``, goes on elsewhere without
#: holding the thread, and says so through :attr:`Hand.later` when it ends.
Handler = Callable[[Hand], Settlement | None]
