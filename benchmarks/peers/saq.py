"""saq on Redis. Finished jobs are not kept."""

from __future__ import annotations

import os
from typing import Any

from saq import Queue

from . import effects

queue = Queue.from_url(effects.URL)


async def noop(ctx: Any, *, number: int, sent: int) -> None:
    effects.effect(number, sent)


async def nap(ctx: Any, *, number: int, sent: int) -> None:
    await effects.nap(number, sent)


settings = {
    "queue": queue,
    "functions": [noop, nap],
    "concurrency": int(os.environ.get("BENCH_SLOTS", 10)),
}


async def open_client() -> None:
    await queue.connect()


async def enqueue(number: int, sent: int) -> None:
    await queue.enqueue("noop", number=number, sent=sent, ttl=-1)


async def enqueue_nap(number: int, sent: int) -> None:
    await queue.enqueue("nap", number=number, sent=sent, ttl=-1)
