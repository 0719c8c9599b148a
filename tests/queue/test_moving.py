"""Jobs moved in time by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta

import pytest
import redis

from django_echomq.queue import Claim, Queue
from django_echomq.wire.errors import JobGone, StaleToken, WrongState
from django_echomq.wire.ids import process_mint
from tests.conftest import wait_until


def claimed(queue: Queue, **options: object) -> Claim:
    queue.jobs.enqueue(b"x", **options)  # type: ignore[arg-type]
    (claim,) = queue.jobs.claim()
    return claim


def test_delay_parks_a_job_in_hand_and_does_not_count(queue: Queue, raw: redis.Redis) -> None:
    claim = claimed(queue, lane="acme")
    queue.jobs.delay(claim, 0.01)
    assert queue.jobs.state(claim.job_id) == "scheduled"
    assert raw.zscore(queue.keys.active, claim.job_id) is None
    assert raw.hget(queue.keys.base + b"gactive", "acme") is None
    assert queue.jobs.get(claim.job_id).attempts == 1
    assert queue.jobs.claim() == []
    wait_until(queue.jobs.promote)
    (again,) = queue.jobs.claim()
    assert (again.attempts, again.attempt, again.lane) == (2, 1, "acme")


def test_delay_until_an_instant(queue: Queue, raw: redis.Redis) -> None:
    claim = claimed(queue)
    when = datetime(2100, 1, 1, tzinfo=UTC)
    queue.jobs.delay(claim, at=when)
    assert raw.zscore(queue.keys.schedule, claim.job_id) == when.timestamp() * 1000


def test_delay_is_fenced(queue: Queue, raw: redis.Redis) -> None:
    claim = claimed(queue)
    raw.script_flush()
    with pytest.raises(StaleToken):
        queue.jobs.delay(replace(claim, attempts=99), 1)
    queue.jobs.delay(claim, 1)
    with pytest.raises(JobGone):
        queue.jobs.delay(replace(claim, job_id=process_mint.mint(1)), 1)


@pytest.mark.parametrize(
    "options", [{}, {"delay": 1, "at": 5}, {"delay": -1}, {"delay": "1"}, {"at": -1}], ids=repr
)
def test_delay_refuses_what_makes_no_sense(queue: Queue, options: dict[str, object]) -> None:
    claim = claimed(queue)
    with pytest.raises((TypeError, ValueError)):
        queue.jobs.delay(claim, **options)  # type: ignore[arg-type]
    assert queue.jobs.state(claim.job_id) == "active"


def test_reschedule_moves_what_is_scheduled(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue_in(b"x", 3600).job_id
    queue.jobs.reschedule(job_id, datetime.now(UTC) - timedelta(seconds=1))
    assert queue.jobs.promote() == 1
    assert queue.jobs.state(job_id) == "pending"


@pytest.mark.parametrize("lane", [None, "acme"])
def test_reschedule_parks_what_waits_and_brings_it_back(queue: Queue, lane: str | None) -> None:
    job_id = queue.jobs.enqueue(b"x", lane=lane, priority=4).job_id
    queue.jobs.reschedule(job_id, datetime.now(UTC) + timedelta(hours=1))
    assert queue.jobs.state(job_id) == "scheduled"
    assert queue.metrics.counts("pending") == {"pending": 0}
    assert queue.jobs.claim() == []
    queue.jobs.promote_now(job_id)
    (claim,) = queue.jobs.claim()
    assert (claim.job_id, claim.lane) == (job_id, lane)
    assert queue.jobs.get(job_id).priority == 4


def test_a_job_in_hand_or_dead_cannot_be_moved(queue: Queue) -> None:
    claim = claimed(queue)
    for state in ("active", "dead"):
        assert queue.jobs.state(claim.job_id) == state
        with pytest.raises(WrongState):
            queue.jobs.reschedule(claim.job_id, 5)
        with pytest.raises(WrongState):
            queue.jobs.promote_now(claim.job_id)
        assert queue.jobs.state(claim.job_id) == state
        if state == "active":
            queue.jobs.retry(claim, 0, 1, "boom")


def test_promote_now_refuses_what_is_not_scheduled(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    with pytest.raises(WrongState):
        queue.jobs.promote_now(job_id)


def test_what_is_gone_is_said_to_be(queue: Queue) -> None:
    missing = process_mint.mint(1)
    with pytest.raises(JobGone):
        queue.jobs.reschedule(missing, 5)
    with pytest.raises(JobGone):
        queue.jobs.promote_now(missing)


def test_a_new_earliest_job_rings_wake(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue_in(b"x", 3600)
    assert raw.llen(queue.keys.wake) == 1
    queue.jobs.enqueue_in(b"x", 7200)
    assert raw.llen(queue.keys.wake) == 1
    queue.jobs.enqueue_in(b"x", 60)
    assert raw.llen(queue.keys.wake) == 2
