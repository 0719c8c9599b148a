"""Tasks written for Celery."""

from __future__ import annotations

from django_echomq.contrib.celery import Task, shared_task


class Trouble(Exception):
    pass


@shared_task
def add(x: int, y: int) -> int:
    return x + y


@shared_task(bind=True, max_retries=2)
def troubled(self: Task[[int], int], failures: int) -> int:
    if self.request.retries < failures:
        raise self.retry(exc=Trouble("again"), countdown=60)
    return self.request.retries


@shared_task(soft_time_limit=30, expires=3600)
def bounded() -> str:
    return "in time"
