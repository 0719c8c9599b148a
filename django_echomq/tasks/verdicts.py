"""What a task raises to choose how its attempt ends."""

from __future__ import annotations

from ..queue.cancel import Cancelled
from ..queue.clock import Duration, duration_ms


class Retry(Exception):
    """Try again after a delay of the task's own choosing.

    The attempt counts: at the budget's end the job is dead all the same.

    Args:
        delay: seconds or a timedelta; the curve decides where ``None``.
        reason: kept as the job's last error.
        max_attempts: the budget that this attempt is held against, in place of the task's.
    """

    def __init__(
        self, reason: str = "", *, delay: Duration | None = None, max_attempts: int | None = None
    ) -> None:
        if delay is not None:
            duration_ms(delay, "the delay")
        self.delay = delay
        self.max_attempts = max_attempts
        super().__init__(reason or "the task asked for a retry")


class Discard(Exception):
    """Give the job up: it goes to the dead set at once, with this reason."""

    def __init__(self, reason: str = "") -> None:
        super().__init__(reason or "the task gave the job up")


class TaskTimeout(Exception):
    """The task ran for longer than it may."""


class UnknownTask(Exception):
    """No task of that name is registered in this worker."""


class BadPayload(Exception):
    """The payload is not an envelope of a task call."""


__all__ = ["BadPayload", "Cancelled", "Discard", "Retry", "TaskTimeout", "UnknownTask"]
