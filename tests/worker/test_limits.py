"""Workers on queues with limits: never above them, woken in time, and quiet meanwhile."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import ExitStack

import pytest
import redis

from django_echomq.queue import Queue, Rate
from django_echomq.queue.jobs import Settlement
from django_echomq.wire.scripts import script
from django_echomq.worker import Hand, Stopped, Worker
from tests.conftest import wait_until
from tests.wire.monitor import recorded
from tests.worker.test_worker import complete, running

MakeQueue = Callable[..., Queue]


def claims_in(sent: list[str]) -> int:
    sha = script("jobs/settle").sha.decode()
    return sum(sha in text for text in sent)


def test_no_more_run_at_once_than_the_queue_allows(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.admin.limit_concurrency(3)
    queue.jobs.enqueue_many([b"x"] * 60)
    lock, now, most = threading.Lock(), 0, 0

    def handler(hand: Hand) -> Settlement:
        nonlocal now, most
        with lock:
            now += 1
            most = max(most, now)
        threading.Event().wait(0.005)
        with lock:
            now -= 1
        return complete(hand)

    with ExitStack() as stack:
        for number in range(3):
            stack.enter_context(running(Worker([queue], handler, name=f"w{number}", threads=4)))
        wait_until(lambda: queue.metrics.counts("completed") == {"completed": 60})
    assert most == 3


def test_a_worker_that_met_the_ceiling_is_woken_by_room(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.admin.limit_concurrency(1)
    queue.jobs.enqueue_many([b"x"] * 2)
    (held,) = queue.jobs.claim()
    ran = threading.Event()

    def handler(hand: Hand) -> Settlement:
        ran.set()
        return complete(hand)

    worker = Worker([queue], handler, name="w", promoter=False)
    with running(worker):
        wait_until(lambda: queue.workers.all())
        queue.jobs.complete(held)
        assert ran.wait(30)


def test_starts_of_several_workers_stay_within_the_rate(
    make_queue: MakeQueue, raw: redis.Redis
) -> None:
    queue = make_queue()
    queue.admin.limit_rate(Rate(10, 300))
    ids = [each.job_id for each in queue.jobs.enqueue_many([b"x"] * 40)]
    with ExitStack() as stack:
        for number in range(3):
            stack.enter_context(running(Worker([queue], complete, name=f"w{number}")))
        wait_until(lambda: queue.metrics.counts("completed") == {"completed": 40})
    times = sorted(int(queue.jobs.get(job_id).fields["started_at"]) for job_id in ids)
    assert all(later - first >= 300 for first, later in zip(times, times[10:], strict=False))


def test_an_idle_worker_at_the_rate_asks_no_more_than_an_idle_worker(
    make_queue: MakeQueue, raw: redis.Redis
) -> None:
    queue, other = make_queue(), make_queue()
    queue.admin.limit_rate("2/h")
    queue.jobs.enqueue_many([b"x"] * 20)
    worker = Worker([queue, other], complete, name="w", promoter=False)
    with running(worker):
        wait_until(lambda: queue.metrics.counts("completed") == {"completed": 2})
        wait_until(lambda: raw.exists(queue.keys.base + b"limiter"))
        beats = raw.hget(queue.keys.base + b"worker:w", "beat")
        wait_until(lambda: raw.hget(queue.keys.base + b"worker:w", "beat") not in (None, beats))
        with recorded(raw) as recording:
            queue.jobs.enqueue_many([b"x"] * 20)  # rings, but nobody is to come
            beats = raw.hget(queue.keys.base + b"worker:w", "beat")
            wait_until(lambda: raw.hget(queue.keys.base + b"worker:w", "beat") != beats)
            job_id = other.jobs.enqueue(b"x").job_id
            wait_until(lambda: other.jobs.state(job_id) == "completed")
            sent = [text for text in recording.sent() if queue.keys.base.decode() in text]
        assert claims_in(sent) == 0
        assert not [text for text in sent if text.startswith("BLPOP")]


def test_a_worker_comes_when_the_next_may_start(make_queue: MakeQueue, raw: redis.Redis) -> None:
    queue = make_queue()
    queue.admin.limit_rate(Rate(1, 200))
    queue.jobs.enqueue_many([b"x"] * 6)
    worker = Worker([queue], complete, name="w", promoter=False)
    with recorded(raw) as recording, running(worker):
        wait_until(lambda: queue.metrics.counts("completed") == {"completed": 6})
        asked = claims_in(recording.sent())
    # Each job is claimed and settled, and the first look and the last may come for nothing.
    assert 6 <= asked <= 6 * 2 + 4


def test_a_burst_waits_for_the_rate(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.admin.limit_rate(Rate(3, 100))
    queue.jobs.enqueue_many([b"x"] * 9)
    assert Worker([queue], complete, name="w", burst=True).run() is Stopped.FINISHED
    assert queue.metrics.counts("completed", "pending") == {"completed": 9, "pending": 0}


def test_a_burst_ends_at_a_rate_that_nobody_waits_for(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.admin.limit_rate("3/h")
    queue.jobs.enqueue_many([b"x"] * 3)
    assert Worker([queue], complete, name="w", burst=True).run() is Stopped.FINISHED


@pytest.mark.parametrize("lane", ["a", None])
def test_a_limit_that_is_lifted_is_noticed(make_queue: MakeQueue, lane: str | None) -> None:
    queue = make_queue()
    queue.admin.limit_rate("1/d")
    queue.jobs.enqueue_many([b"x"] * 4, lane=lane)
    worker = Worker([queue], complete, name="w")
    with running(worker):
        wait_until(lambda: queue.metrics.counts("completed") == {"completed": 1})
        queue.admin.limit_rate(None)
        wait_until(lambda: queue.metrics.counts("completed") == {"completed": 4})
