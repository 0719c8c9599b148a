"""A job in hand: what a worker gives to a handler."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from ..queue import Claim, Queue
from ..queue.cancel import CancelToken
from ..queue.jobs import Settlement


@dataclass(slots=True, eq=False)
class Hand:
    """One claimed job.

    Attributes:
        queue, claim: what was claimed.
        token: cancelled when the handler is to stop.
        manual_lease: set by a handler that extends its lease itself, through its checkpoints.
    """

    queue: Queue
    claim: Claim
    token: CancelToken = field(default_factory=CancelToken)
    manual_lease: bool = False


#: Runs one job to its end and says how to settle it.
Handler = Callable[[Hand], Settlement]
