"""RQ. Results are not kept."""

from __future__ import annotations

from collections.abc import Sequence

from redis import Redis
from rq import Queue

from .effects import URL, effect

queue = Queue("bench", connection=Redis.from_url(URL))


def enqueue(number: int, sent: int) -> None:
    queue.enqueue(effect, number, sent, result_ttl=0)


def enqueue_many(numbers: Sequence[int], sent: int) -> None:
    queue.enqueue_many(
        [Queue.prepare_data(effect, (number, sent), result_ttl=0) for number in numbers]
    )
