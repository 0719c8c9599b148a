"""taskiq on Redis: a stream, whose jobs outlive a worker, or a list, whose do not."""

from __future__ import annotations

import os

from taskiq_redis import ListQueueBroker, RedisStreamBroker

from . import effects

_Broker = ListQueueBroker if os.environ.get("BENCH_LIST") == "1" else RedisStreamBroker
# redis-py 8 would give up on a parked read after 5 s, and with it the worker.
broker = _Broker(effects.URL, socket_timeout=None)


@broker.task(task_name="noop")
async def noop(number: int, sent: int) -> None:
    effects.effect(number, sent)


@broker.task(task_name="nap")
async def nap(number: int, sent: int) -> None:
    await effects.nap(number, sent)


async def open_client() -> None:
    await broker.startup()


async def enqueue(number: int, sent: int) -> None:
    await noop.kiq(number, sent)


async def enqueue_nap(number: int, sent: int) -> None:
    await nap.kiq(number, sent)
