"""Sends jobs of one system, as a process of its own; prints what was measured as JSON.

python -m peers.drive MODULE one|many|nap FIRST COUNT
python -m peers.drive MODULE paced FIRST COUNT [COUNT RATE]...
python -m peers.drive echomq waiting|scheduled 0 COUNT      jobs that are not measured
"""

from __future__ import annotations

import asyncio
import importlib
import inspect
import json
import sys
import time
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import redis

from .effects import URL

WARM_UP = 50
_CALL = 500  # jobs of one bulk call


def main() -> None:
    name, verb, first, count, *rest = sys.argv[1:]
    module: Any = importlib.import_module(f"peers.{name}")
    numbers = range(int(first), int(first) + int(count))
    found: dict[str, Any] = {}
    with asyncio.Runner() as runner:
        if opening := getattr(module, "open_client", None):
            runner.run(opening())
        if verb == "paced":
            legs = zip(map(int, rest[::2]), map(float, rest[1::2]), strict=True)
            found["rates"] = _paced(runner, module.enqueue, numbers, legs)
        elif verb in ("waiting", "scheduled"):
            module.fill(len(numbers), scheduled=verb == "scheduled")
        elif verb == "many":
            warm_up = min(_CALL, len(numbers) // 2)
            _timed(runner, module.enqueue_many, [numbers[:warm_up]], warm_up)
            left = numbers[warm_up:]
            found = _timed(runner, module.enqueue_many, _slices(left), len(left))
        else:
            send = module.enqueue_nap if verb == "nap" else module.enqueue
            # The first calls open connections and load scripts.
            warm_up = min(WARM_UP, len(numbers) // 2)
            _timed(runner, send, numbers[:warm_up], warm_up)
            found = _timed(runner, send, numbers[warm_up:], len(numbers) - warm_up)
    print(json.dumps(found))


def _slices(numbers: range) -> Iterator[range]:
    return (numbers[start : start + _CALL] for start in range(0, len(numbers), _CALL))


def _timed(
    runner: asyncio.Runner, send: Callable[..., Any], items: Iterable[Any], jobs: int
) -> dict[str, float]:
    """Sends everything, one call after the other."""
    clock = time.time_ns
    before = _used_memory()

    async def walk() -> None:
        for item in items:
            await send(item, clock())

    started = time.perf_counter()
    if inspect.iscoroutinefunction(send):
        runner.run(walk())
    else:
        for item in items:
            send(item, clock())
    seconds = time.perf_counter() - started
    return {
        "rate": jobs / seconds if jobs else 0.0,
        "bytes": (_used_memory() - before) / max(1, jobs),
    }


def _paced(
    runner: asyncio.Runner,
    send: Callable[..., Any],
    numbers: range,
    legs: Iterable[tuple[int, float]],
) -> list[float]:
    """Sends at fixed times, whatever becomes of the jobs; answers the rates that were reached."""
    reached = []
    for count, rate in legs:
        leg, numbers = numbers[:count], numbers[count:]
        started = time.perf_counter()
        due = [started + index / rate for index in range(count)]
        if inspect.iscoroutinefunction(send):
            runner.run(_asend_at(send, leg, due))
        else:
            for number, at in zip(leg, due, strict=True):
                time.sleep(max(0.0, at - time.perf_counter()))
                send(number, time.time_ns())
        # The next one would be due now.
        ended = max(time.perf_counter(), started + count / rate)
        reached.append(count / (ended - started))
    return reached


async def _asend_at(send: Callable[..., Any], numbers: range, due: list[float]) -> None:
    for number, at in zip(numbers, due, strict=True):
        await asyncio.sleep(max(0.0, at - time.perf_counter()))
        await send(number, time.time_ns())


def _used_memory() -> int:
    with redis.Redis.from_url(URL) as client:
        return int(client.info("memory")["used_memory"])


if __name__ == "__main__":
    main()
