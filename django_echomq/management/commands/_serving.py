"""What the serving commands share."""

from __future__ import annotations

import logging
import os
import signal
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any

from django.core.management.base import CommandError

from ...conf import queue_names
from ...queue import Queue
from ...queues import get_queue
from ...tasks.schedules import reconcile_schedules

logger = logging.getLogger("django_echomq.worker")


def chosen_queues(names: Sequence[str]) -> list[Queue]:
    """The named queues, or all of the settings where none is named.

    Raises:
        ImproperlyConfigured: a name is not defined.
        CommandError: there is no queue.
    """
    queues = [get_queue(name) for name in dict.fromkeys(names or queue_names())]
    if not queues:
        raise CommandError("No queue to serve: define one in ECHOMQ['QUEUES'].")
    return queues


def apply_settings(queues: Sequence[Queue]) -> None:
    """Puts on the server what the settings say of these queues: limits, weights, events, schedules.

    Raises:
        ServerUnavailable: some may be applied and some not; calling again finishes the work.
    """
    for queue in queues:
        for what in queue.admin.configure():
            logger.info("Queue %s: %s is what the settings say", queue.name, what)
        if queue.options.events:
            queue.events.enable()
        else:
            queue.events.disable()
    reconcile_schedules(queues)


def on_stop_signal(stop: Callable[[], object], message: str = "") -> None:
    """Calls ``stop`` at each SIGTERM and SIGINT, and says the message."""
    if threading.current_thread() is not threading.main_thread():
        return

    def handle(number: int, frame: Any) -> None:
        stop()
        # Not through sys.stdout, which the signal may have interrupted in the middle of a write.
        with suppress(OSError):
            os.write(1, message.encode())

    signal.signal(signal.SIGTERM, handle)
    signal.signal(signal.SIGINT, handle)


def positive(kind: type) -> Callable[[str], Any]:
    """An argparse type: a number above zero."""

    def read(text: str) -> Any:
        value = kind(text)
        if not value > 0:
            raise ValueError
        return value

    read.__name__ = f"number above zero ({kind.__name__})"
    return read
