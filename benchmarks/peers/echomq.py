"""Ours, by the front door: Django's Tasks API with signals, and the worker command."""

from __future__ import annotations

from collections.abc import Sequence

import django

django.setup()

from django_echomq import get_queue  # noqa: E402

from .site.tasks import nap, noop  # noqa: E402

_LATER = 7 * 24 * 3600  # seconds


def enqueue(number: int, sent: int) -> None:
    noop.enqueue(number, sent)


def enqueue_many(numbers: Sequence[int], sent: int) -> None:
    noop.enqueue_many([((number, sent), {}) for number in numbers])


def enqueue_nap(number: int, sent: int) -> None:
    nap.enqueue(number, sent)


def fill(count: int, *, scheduled: bool) -> None:
    """Puts other jobs beside those that are measured: behind them, or in the far future."""
    queue = get_queue()
    payload = b'{"task":"peers.site.tasks.noop","args":[-1,0]}'
    options = {"when": "in", "ms": 1000 * _LATER} if scheduled else {"priority": -100}
    for start in range(0, count, 10_000):
        queue.drive(queue.jobs.admission([payload] * min(10_000, count - start), **options))
