"""Signals of what becomes of jobs, sent in the process of the worker that has them in hand.

Every receiver is given these, by name:

``sender``
    The task, as its decorator made it; ``None`` where this process knows no such task.
``job_id``, ``queue``, ``task``, ``lane``
    The job's id, the names of its queue and task, and its lane or ``None``. ``task`` is empty where
    the payload is no task call.
``attempt``
    Which try this is, from 1.
``worker``
    The worker's name.
``duration``
    Seconds since the claim; not with :data:`job_started`.

They are sent on the thread that ran the task, where that is a coroutine on one for the ends of all,
before the server knows that the attempt has ended. Where its lease was lost meanwhile, the server
refuses the end, and another worker runs the job again and tells of it again. A worker that is
killed, or stopped at once, tells nothing of what it has in hand.

A receiver that raises is logged, to ``django.dispatch`` as everywhere, and harms nothing. A signal
without receivers costs nothing.
"""

from __future__ import annotations

from django.dispatch import Signal

#: An attempt begins. Where the task is unknown, or the payload no task call, there is none: such a
#: job fails without.
job_started = Signal()

#: The task returned. Also ``result``: what it returned, as JSON carries it.
job_succeeded = Signal()

#: An attempt failed and the job is tried again. Also ``error``, the exception, and ``delay``, the
#: seconds until then.
job_retried = Signal()

#: The last attempt failed, and the job goes to the dead set. Also ``error``.
job_failed = Signal()

#: The job ends as cancelled. Also ``reason``.
job_cancelled = Signal()

#: The job is given back unfinished, and the attempt does not count. Also ``reason``:
#: ``shutdown`` or ``lease lost``.
job_released = Signal()

#: The lease of a job lapsed, as its worker died or hung. Sent by the process whose beat found it,
#: a worker's or a promoter's, which has not read the job: ``sender`` is ``None``, and beside
#: ``job_id`` and ``queue`` there is ``dead`` alone. It says whether the job was buried for good
#: (``MAX_STALLED``) or went back to waiting.
job_stalled = Signal()
