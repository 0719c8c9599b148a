"""Draining and obliterating: bounded, repeatable, thorough."""

from __future__ import annotations

import threading
from collections.abc import Callable

import pytest
import redis

from django_echomq.queue import Queue, Unique

MakeQueue = Callable[..., Queue]


def fill(queue: Queue) -> None:
    """One of everything that a queue can have."""
    queue.jobs.enqueue(b"x", unique=Unique("key"))
    queue.jobs.enqueue(b"x", priority=-5)
    queue.jobs.enqueue(b"x", lane="a")
    queue.jobs.enqueue(b"x", lane="b")
    queue.jobs.enqueue_in(b"x", 3600)
    queue.jobs.enqueue_many([b"x"] * 3, priority=100)
    done, dead, held = queue.jobs.claim(3)
    queue.jobs.add_log(done.job_id, "line")
    queue.jobs.complete(done)
    queue.jobs.retry(dead, 0, 1, "boom")
    queue.jobs.checkpoint(held, details=b"1")
    queue.jobs.cancel(held.job_id)
    queue.repeat.register("interval", payload=b"x", every=60)
    queue.repeat.register("cron", payload=b"x", cron="* * * * *")
    queue.repeat.register("paused", payload=b"x", every=60)
    queue.repeat.pause("paused")


def test_a_drain_takes_what_waits_and_nothing_else(queue: Queue, raw: redis.Redis) -> None:
    fill(queue)
    assert queue.admin.drain() == 4
    counts = queue.metrics.counts("pending", "active", "scheduled", "dead")
    assert counts == {"pending": 0, "active": 1, "scheduled": 1, "dead": 1}
    assert queue.repeat.count() == 3
    assert raw.lrange(queue.keys.base + b"ring", 0, -1) == []
    assert raw.keys(queue.keys.base + b"de:*") == []
    assert queue.admin.drain() == 0
    assert queue.admin.drain(include_scheduled=True) == 1


def test_a_drain_goes_step_by_step_and_tells(queue: Queue) -> None:
    queue.jobs.enqueue_many([b"x"] * 2_500)
    queue.jobs.enqueue_many([b"x"] * 1_200, lane="a")
    told: list[tuple[int, int]] = []
    assert queue.admin.drain(progress=lambda *step: told.append(step)) == 3_700
    assert told[-1] == (3_700, 3_700)
    assert len(told) >= 4


def test_a_drain_leaves_what_was_enqueued_while_it_went_on(
    queue: Queue, make_queue: MakeQueue
) -> None:
    queue.jobs.enqueue_many([b"old"] * 600)
    queue.jobs.enqueue_many([b"old"] * 600, priority=-100, lane="a")
    queue.jobs.enqueue_many([b"old"] * 5, lane="b")

    def meanwhile(done: int, total: int) -> None:
        # A step's worth, first in line, hides nothing that stands behind it.
        queue.jobs.enqueue_many([b"new"] * 300, priority=100)
        queue.jobs.enqueue(b"new", lane="a")
        queue.jobs.enqueue(b"new", lane="c")

    told: list[int] = []
    removed = queue.admin.drain(progress=lambda d, t: (meanwhile(d, t), told.append(d)))
    assert removed == 1_205
    assert len(told) >= 5
    assert queue.metrics.counts("pending") == {"pending": 302 * len(told)}
    left = [queue.jobs.browse(limit=1_000), queue.jobs.browse(limit=1_000, lane="a")]
    assert {job.payload for page in left for job in page} == {b"new"}


def test_a_drain_beside_producers_and_workers_ends(queue: Queue) -> None:
    stop = threading.Event()

    def produce() -> None:
        while not stop.is_set():
            queue.jobs.enqueue_many([b"x"] * 50)
            queue.jobs.claim(10)

    queue.jobs.enqueue_many([b"x"] * 2_000)
    thread = threading.Thread(target=produce)
    thread.start()
    try:
        assert queue.admin.drain() >= 1_000
    finally:
        stop.set()
        thread.join(30)


@pytest.mark.parametrize("budget", [1, 2, 1000])
def test_obliterate_leaves_not_one_key(queue: Queue, raw: redis.Redis, budget: int) -> None:
    fill(queue)
    queue.admin.pause()
    assert queue.admin.obliterate(force=True, budget=budget) == 7
    assert raw.keys(queue.keys.base + b"*") == []


def test_obliterate_refuses_and_changes_nothing(queue: Queue, raw: redis.Redis) -> None:
    fill(queue)
    before = sorted(raw.keys(queue.keys.base + b"*"))
    with pytest.raises(Exception, match="not paused"):
        queue.admin.obliterate()
    queue.admin.pause()
    with pytest.raises(Exception, match="active jobs present"):
        queue.admin.obliterate()
    queue.admin.resume()
    assert set(before) <= set(raw.keys(queue.keys.base + b"*"))


def test_draining_occurrences_never_stops_a_schedule_and_obliterating_ends_it(
    queue: Queue,
) -> None:
    queue.repeat.register("tick", payload=b"x", every=0.001)
    while not queue.repeat.fire():
        pass
    queue.admin.drain()
    while not queue.repeat.fire():
        pass
    assert queue.repeat.count() == 1
    queue.admin.pause()
    queue.admin.obliterate()
    assert queue.repeat.count() == 0
