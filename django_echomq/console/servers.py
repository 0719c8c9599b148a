"""Queues as the console talks to them."""

from __future__ import annotations

from django.http import Http404

from ..conf import queue_names
from ..queue import Queue
from ..readings import ask, impatient_queue

__all__ = ["ask", "queue_named", "queues"]


def queues() -> list[Queue]:
    """Every queue of the settings."""
    return [impatient_queue(name) for name in queue_names()]


def queue_named(name: str) -> Queue:
    """A queue of the settings.

    Raises:
        Http404: there is none of that name.
    """
    if name not in queue_names():
        raise Http404(f"there is no queue {name!r}")
    return impatient_queue(name)
