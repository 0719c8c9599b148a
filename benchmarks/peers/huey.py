"""huey on Redis, without results."""

from __future__ import annotations

from huey import RedisHuey

from .effects import URL, effect

huey = RedisHuey("bench", url=URL, results=False)


@huey.task()
def noop(number: int, sent: int) -> None:
    effect(number, sent)


def enqueue(number: int, sent: int) -> None:
    noop(number, sent)
