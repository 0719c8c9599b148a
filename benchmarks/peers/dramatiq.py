"""dramatiq on Redis."""

from __future__ import annotations

import dramatiq
from dramatiq.brokers.redis import RedisBroker

from .effects import URL, effect

dramatiq.set_broker(RedisBroker(url=URL))


@dramatiq.actor
def noop(number: int, sent: int) -> None:
    effect(number, sent)


def enqueue(number: int, sent: int) -> None:
    noop.send(number, sent)
