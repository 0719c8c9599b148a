"""What a waiting job costs the server."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from django_echomq.queue import Queue


def test_a_waiting_job_costs_at_most_320_bytes(
    make_queue: Callable[..., Queue], raw: redis.Redis
) -> None:
    if "valkey_version" not in raw.info("server"):
        pytest.skip("the bound is of Valkey; Redis 7.0 needs some 330 bytes")
    queue, jobs = make_queue(), 100_000
    queue.jobs.enqueue(b"x" * 60)

    def used() -> int:
        info: Any = raw.info("memory")
        return int(info["used_memory"])

    before = used()
    queue.jobs.enqueue_many([b"x" * 60] * jobs)
    cost = (used() - before) / jobs
    print(f"{cost:.0f} bytes per waiting job")  # noqa: T201 - the figure is worth seeing
    assert cost <= 320
    queue.admin.drain()
