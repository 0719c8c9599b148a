"""The control map: one module per control, one method per verb. Needs no Django."""

from .limits import LaneOptions, Rate
from .queue import Queue, QueueOptions
from .values import Admission, Claim, Job, Lane, Outcome, Reassignment, Settled, Unique

__all__ = [
    "Admission",
    "Claim",
    "Job",
    "Lane",
    "LaneOptions",
    "Outcome",
    "Queue",
    "QueueOptions",
    "Rate",
    "Reassignment",
    "Settled",
    "Unique",
]
