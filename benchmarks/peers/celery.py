"""Celery on Redis, without results. Its guide to optimising advises a prefetch of this size for
short tasks."""

from __future__ import annotations

import os

from celery import Celery

from .effects import URL, effect

_LATE = os.environ.get("BENCH_LATE") == "1"

app = Celery("bench", broker=URL)
app.conf.update(
    task_ignore_result=True,
    task_acks_late=_LATE,
    task_reject_on_worker_lost=_LATE,
    worker_prefetch_multiplier=64,
    broker_connection_retry_on_startup=True,
)


@app.task(name="noop")
def noop(number: int, sent: int) -> None:
    effect(number, sent)


def enqueue(number: int, sent: int) -> None:
    noop.delay(number, sent)
