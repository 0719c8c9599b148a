"""Reports: steps that follow each other, and that take long."""

from __future__ import annotations

import time
from pathlib import Path

from celery import Task, shared_task
from celery.exceptions import SoftTimeLimitExceeded


@shared_task
def collect(first: int, second: int) -> list[int]:
    return [first, second]


@shared_task
def summed(numbers: list[int], plus: int = 0) -> int:
    return sum(numbers) + plus


@shared_task
def broken(number: int) -> int:
    raise ArithmeticError(f"not {number}")


@shared_task
def noted(path: str, word: str) -> str:
    with Path(path).open("a") as file:
        file.write(f"{word}\n")
    return word


@shared_task(bind=True)
def slow(self: Task[[str], str], gate: str) -> str:
    self.update_state(state="PROGRESS", meta={"done": 3, "of": 4})
    while not Path(gate).exists():
        time.sleep(0.02)
    return "done"


@shared_task(soft_time_limit=1)
def bounded(tidy: bool) -> str:
    try:
        time.sleep(60)
    except SoftTimeLimitExceeded:
        if not tidy:
            raise
        return "tidied up"
    return "not stopped"


@shared_task(time_limit=1)
def killed() -> str:
    end = time.monotonic() + 60
    while time.monotonic() < end:
        time.sleep(0.1)
    return "not stopped"
