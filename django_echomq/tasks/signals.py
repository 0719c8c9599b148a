"""Tells Django's task signals, where somebody hears."""

from __future__ import annotations

import logging

from django.dispatch import Signal

from .compat import (
    log_task_enqueued,
    log_task_finished,
    log_task_started,
    signals_logger,
    task_enqueued,
    task_finished,
    task_started,
)
from .results import EchoTaskResult

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
        signal.send_robust(sender=sender, task_result=result)
