"""arq. Results are not kept; each poll reads five jobs per slot."""

from __future__ import annotations

import os
from typing import Any

from arq import create_pool
from arq.connections import ArqRedis, RedisSettings

from . import effects

_pool: ArqRedis


async def noop(ctx: Any, number: int, sent: int) -> None:
    effects.effect(number, sent)


async def nap(ctx: Any, number: int, sent: int) -> None:
    await effects.nap(number, sent)


class WorkerSettings:
    functions = (noop, nap)
    redis_settings = RedisSettings.from_dsn(effects.URL)
    max_jobs = int(os.environ.get("BENCH_SLOTS", 100))
    keep_result = 0
    log_results = False


async def open_client() -> None:
    global _pool
    _pool = await create_pool(WorkerSettings.redis_settings)


async def enqueue(number: int, sent: int) -> None:
    await _pool.enqueue_job("noop", number, sent)


async def enqueue_nap(number: int, sent: int) -> None:
    await _pool.enqueue_job("nap", number, sent)
