"""Tells Django's task signals and those of :mod:`django_echomq.signals`, where somebody hears."""

from __future__ import annotations

import logging
from collections.abc import Iterable
from typing import Any

from django.dispatch import Signal

from ..queue import Queue
from ..queue.stalled import Lapsed
from ..signals import job_stalled, job_started
from ..worker.hand import Hand
from .compat import (
    log_task_enqueued,
    log_task_finished,
    log_task_started,
    signals_logger,
    task_enqueued,
    task_finished,
    task_started,
)
from .registry import lookup
from .results import EchoTaskResult

logger = logging.getLogger("django_echomq.tasks")

# Django's own receivers only log, at these levels and above.
_LOGS = {
    task_enqueued: (log_task_enqueued, logging.DEBUG),
    task_started: (log_task_started, logging.INFO),
    task_finished: (log_task_finished, logging.INFO),
}


def heard(signal: Signal) -> bool:
    """Whether one of the three signals would do anything: not while Django's own receiver is the
    only one and its logger is off."""
    own, level = _LOGS[signal]
    receivers = signal.receivers
    return (
        len(receivers) != 1 or receivers[0][0][0] != id(own) or signals_logger.isEnabledFor(level)
    )


def tell(signal: Signal, sender: type, result: EchoTaskResult) -> None:
    """Sends one of the three signals, where it is heard: the way through the dispatcher costs as
    much as the rest of a short call."""
    if heard(signal):
        _send(signal, sender, task_result=result)


def tell_job(signal: Signal, hand: Hand, worker: str, **more: Any) -> None:
    """Sends one of the signals of a job in hand; ``more`` is what is special to it."""
    if signal.receivers:
        fields = hand.extra()
        if signal is job_started:
            del fields["duration"]
        sender = lookup(hand.task)
        _send(signal, sender, lane=hand.claim.lane, worker=worker, **fields, **more)


def tell_stalled(queue: Queue, lapsed: Iterable[Lapsed]) -> None:
    """Sends :data:`~django_echomq.signals.job_stalled` for each."""
    for job_id, dead in lapsed if job_stalled.receivers else ():
        _send(job_stalled, None, job_id=job_id, queue=queue.name, dead=dead)


def _send(signal: Signal, sender: object, **fields: Any) -> None:
    try:
        signal.send_robust(sender=sender, **fields)
    except BaseException:
        # It passes on what is no Exception, such as SystemExit: a receiver's, not the job's.
        logger.exception("A receiver of a signal failed")
