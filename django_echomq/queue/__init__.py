"""The control map: one module per control, one method per verb. Needs no Django."""

from .queue import Queue, QueueOptions
from .values import Admission, Claim, Job, Outcome, Settled, Unique, Verdict

__all__ = [
    "Admission",
    "Claim",
    "Job",
    "Outcome",
    "Queue",
    "QueueOptions",
    "Settled",
    "Unique",
    "Verdict",
]
