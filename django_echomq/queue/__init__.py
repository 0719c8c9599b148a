"""The control map: one module per control, one method per verb. Needs no Django."""

from .events import Event, Subscription
from .queue import Queue, QueueOptions
from .values import Admission, Claim, Job, Outcome, Settled, Unique

__all__ = [
    "Admission",
    "Claim",
    "Event",
    "Job",
    "Outcome",
    "Queue",
    "QueueOptions",
    "Settled",
    "Subscription",
    "Unique",
]
