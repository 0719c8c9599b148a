"""Feeds from places that come and go."""

from __future__ import annotations

import time
from pathlib import Path

from celery import Task, shared_task


def note(path: str) -> int:
    with Path(path).open("a") as file:
        file.write(f"{time.time()}\n")
    return len(Path(path).read_text().splitlines())


@shared_task(
    autoretry_for=(ConnectionError,),
    retry_kwargs={"max_retries": 2, "countdown": 0},
    acks_late=True,
)
def fetch(path: str, failures: int) -> int:
    tries = note(path)
    if tries <= failures:
        raise ConnectionResetError("the feed is away")
    return tries


@shared_task(
    autoretry_for=(OSError,),
    dont_autoretry_for=(FileNotFoundError,),
    retry_backoff=True,
    retry_backoff_max=600,
    retry_jitter=False,
    max_retries=1,
)
def backed_off(path: str, missing: bool) -> None:
    note(path)
    raise FileNotFoundError("gone") if missing else OSError("away")


@shared_task(bind=True, queue="mail", priority=5)
def routed(self: Task[[], str]) -> str:
    return str((self.request.delivery_info or {})["routing_key"])


@shared_task
def touch(path: str) -> int:
    return note(path)
