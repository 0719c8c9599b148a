"""The whole queue at once: its pause, and its figures."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from django_echomq.queue import Queue
from tests.queue.keyspace import lapse, names, snapshot
from tests.wire.monitor import recorded

MakeQueue = Callable[..., Queue]

ALL = ("pending", "active", "scheduled", "dead", "completed", "failed")


def counts(queue: Queue) -> tuple[int, ...]:
    return tuple(queue.metrics.counts().values())


# Pause


def test_a_queue_runs_unless_paused(queue: Queue) -> None:
    assert queue.admin.is_paused() is False


def test_a_pause_answers_whether_the_queue_was_running(queue: Queue) -> None:
    assert [queue.admin.pause(), queue.admin.pause()] == [True, False]
    assert queue.admin.is_paused() is True


def test_a_resume_answers_whether_the_queue_was_paused(queue: Queue) -> None:
    queue.admin.pause()
    assert [queue.admin.resume(), queue.admin.resume()] == [True, False]
    assert queue.admin.is_paused() is False


def test_a_pause_is_a_field_of_meta(queue: Queue, raw: redis.Redis) -> None:
    queue.admin.pause()
    assert raw.hgetall(queue.keys.meta) == {b"paused": b"1"}
    queue.admin.resume()
    assert raw.exists(queue.keys.meta) == 0


def test_a_pause_leaves_the_other_fields_of_meta(queue: Queue, raw: redis.Redis) -> None:
    raw.hset(queue.keys.meta, "concurrency", 5)
    queue.admin.pause()
    queue.admin.resume()
    assert raw.hgetall(queue.keys.meta) == {b"concurrency": b"5"}


def test_a_pause_by_a_foreign_hand_holds(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x")
    raw.hset(queue.keys.meta, "paused", "1")
    assert queue.admin.is_paused()
    assert queue.jobs.claim() == []


def test_a_pause_touches_no_job(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue_many([b"x"] * 3, lane="a")
    before = snapshot(queue, raw)
    queue.admin.pause()
    after = snapshot(queue, raw)
    assert {name for name in after if after[name] != before.get(name)} == {"meta"}


def test_jobs_are_admitted_while_the_queue_is_paused(queue: Queue) -> None:
    queue.admin.pause()
    assert queue.jobs.enqueue(b"x").outcome == "enqueued"
    assert queue.jobs.claim() == []


def test_a_pause_of_one_queue_is_none_of_another(make_queue: MakeQueue) -> None:
    paused, running = make_queue(), make_queue()
    paused.admin.pause()
    running.jobs.enqueue(b"x")
    assert len(running.jobs.claim()) == 1


def test_a_resume_rings_for_what_waits(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue_many([b"x"] * 3)
    queue.jobs.enqueue(b"x", lane="a")
    queue.admin.pause()
    raw.delete(queue.keys.wake)
    queue.admin.resume()
    assert raw.llen(queue.keys.wake) == 4


def test_a_resume_of_an_empty_queue_rings_nobody(queue: Queue, raw: redis.Redis) -> None:
    queue.admin.pause()
    queue.admin.resume()
    assert names(queue, raw) == set()


# Counts


def test_an_empty_queue_counts_zero_of_all(queue: Queue) -> None:
    assert queue.metrics.counts() == dict.fromkeys(ALL, 0)


def test_each_job_is_counted_where_it_stands(queue: Queue) -> None:
    queue.jobs.enqueue_many([b"x"] * 6)
    completed, failed, died, *_ = queue.jobs.claim(4)
    queue.jobs.complete(completed)
    queue.jobs.retry(failed, 60)
    queue.jobs.retry(died, max_attempts=1)
    queue.jobs.enqueue_in(b"x", 60)
    assert counts(queue) == (2, 1, 2, 1, 1, 1)


def test_only_the_states_that_were_named_are_told_in_that_order(queue: Queue) -> None:
    queue.jobs.enqueue(b"x")
    assert list(queue.metrics.counts("dead", "pending").items()) == [("dead", 0), ("pending", 1)]


def test_pending_counts_every_lane(queue: Queue, raw: redis.Redis) -> None:
    raw.sadd(queue.keys.base + b"paused", "paused")
    raw.hset(queue.keys.base + b"glimit", "limited", 1)
    for lane in ("ring", "paused", "limited", None):
        queue.jobs.enqueue_many([b"x"] * 3, lane=lane)
    assert queue.metrics.counts("pending") == {"pending": 12}
    queue.jobs.claim(100)
    assert queue.metrics.counts("pending", "active") == {"pending": 5, "active": 7}


def test_a_lane_that_several_keys_name_is_counted_once(queue: Queue, raw: redis.Redis) -> None:
    raw.hset(queue.keys.base + b"glimit", "a", 5)
    queue.jobs.enqueue(b"x", lane="a")
    raw.sadd(queue.keys.base + b"paused", "a")
    assert queue.metrics.counts("pending") == {"pending": 1}


def test_completed_and_failed_count_since_the_queue_began(make_queue: MakeQueue) -> None:
    queue = make_queue(keep_completed_ms=0)
    queue.jobs.enqueue_many([b"x"] * 5)
    first, second, third, *_ = queue.jobs.claim(5)
    queue.jobs.complete(first)
    queue.jobs.complete(second)
    queue.jobs.retry(third, max_attempts=1)
    assert queue.metrics.counts("completed", "failed") == {"completed": 2, "failed": 1}


def test_a_burial_as_stalled_counts_as_failed(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x")
    lapse(queue, raw, *queue.jobs.claim())
    queue.stalled.check(max_stalled=1)
    assert queue.metrics.counts("failed") == {"failed": 1}


def test_a_scheduled_retry_is_not_counted_as_failed(queue: Queue) -> None:
    queue.jobs.enqueue(b"x")
    queue.jobs.retry(queue.jobs.claim()[0])
    assert queue.metrics.counts("failed") == {"failed": 0}


@pytest.mark.parametrize("garbage", ["", "x", "\x00"])
def test_garbage_for_a_counter_counts_as_zero(queue: Queue, raw: redis.Redis, garbage: str) -> None:
    raw.hset(queue.keys.metric("completed"), "count", garbage)
    assert queue.metrics.counts("completed") == {"completed": 0}


@pytest.mark.parametrize("word", ["schedule", "wait", "", "PENDING", None, 7])
def test_an_unknown_state_is_refused_and_nothing_is_sent(
    queue: Queue, raw: redis.Redis, word: Any
) -> None:
    with recorded(raw) as recording:
        with pytest.raises(ValueError, match=f"unknown state {word!r}: use pending, active"):
            queue.metrics.counts("pending", word)
        assert recording.sent() == []


def test_counts_are_one_round_trip(queue: Queue, raw: redis.Redis) -> None:
    queue.metrics.counts()
    with recorded(raw) as recording:
        queue.metrics.counts()
        assert len(recording.sent()) == 1


# The front door


def test_a_queue_tells_its_name_and_place(queue: Queue) -> None:
    assert repr(queue) == f"<Queue {queue.name} at {queue.client.endpoint.label}>"


def test_the_controls_of_a_queue_are_made_once(queue: Queue) -> None:
    assert queue.jobs is queue.jobs
    assert queue.admin is queue.admin
    assert queue.metrics is queue.metrics
    assert queue.stalled is queue.stalled
