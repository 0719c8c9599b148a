"""A shop: mails, and a payment service that is not always there."""

from __future__ import annotations

import os
import time

from celery import Task, shared_task
from celery.exceptions import MaxRetriesExceededError
from celery.utils.log import get_task_logger

log = get_task_logger(__name__)


class PaymentDown(Exception):
    pass


def append(path: str, line: object) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


@shared_task
def total(*prices: int) -> int:
    return sum(prices)


@shared_task
def price(amount: int, *, discount: int = 0) -> int:
    log.info("pricing %d", amount)
    return amount - discount


@shared_task(ignore_result=True)
def mail(path: str, line: str) -> str:
    append(path, line)
    return line


@shared_task
def refuse(path: str) -> None:
    append(path, "tried")
    raise ValueError("out of stock")


@shared_task
def started_at() -> float:
    return time.time()


@shared_task(bind=True, max_retries=2, default_retry_delay=0)
def charge(self: Task[[str, int], int], path: str, failures: int) -> int:
    append(path, self.request.retries)
    if self.request.retries < failures:
        try:
            raise PaymentDown("no answer")
        except PaymentDown as error:
            raise self.retry(exc=error) from error
    return self.request.retries


@shared_task(bind=True, name="shop.poll", max_retries=None)
def poll(self: Task[[int], str], tries: int) -> str:
    if self.request.retries + 1 < tries:
        raise self.retry(countdown=0)
    return f"{self.name} {self.request.retries}"


@shared_task(bind=True)
def once(self: Task[[], str]) -> str:
    try:
        raise self.retry(countdown=0, max_retries=0)
    except MaxRetriesExceededError:
        return "gave up"


@shared_task(bind=True)
def who(self: Task[[str], list[object]], word: str) -> list[object]:
    request = self.request
    return [
        request.id,
        list(request.args or ()),
        dict(request.kwargs or {}),
        request.called_directly,
    ]
