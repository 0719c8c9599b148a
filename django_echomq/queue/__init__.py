"""The control map: one module per control, one method per verb. Needs no Django."""

from .events import Event, Subscription
from .limits import LaneOptions, Rate
from .queue import Queue, QueueOptions
from .values import (
    Admission,
    Claim,
    Job,
    Lane,
    NotReplicated,
    Outcome,
    Reassignment,
    Settled,
    Unique,
    Verdict,
)

__all__ = [
    "Admission",
    "Claim",
    "Event",
    "Job",
    "Lane",
    "LaneOptions",
    "NotReplicated",
    "Outcome",
    "Queue",
    "QueueOptions",
    "Rate",
    "Reassignment",
    "Settled",
    "Subscription",
    "Unique",
    "Verdict",
]
