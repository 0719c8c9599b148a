"""Jobs parked in time, and jobs whose time in hand is over."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
import redis

from django_echomq.queue import Admission, Claim, Queue
from django_echomq.queue.clock import END_OF_TIME_MS
from django_echomq.queue.stalled import Recovered
from django_echomq.worker.promoter import Tick, tick_answer, tick_call
from tests.conftest import wait_until
from tests.queue.keyspace import (
    check_ring,
    dropped,
    fall_due,
    in_hand,
    lapse,
    names,
    places,
    ring,
    server_ms,
)
from tests.wire.monitor import recorded

MakeQueue = Callable[..., Queue]

OWN = "JOB0NsVQMCRgHI"
LATER = datetime(2100, 1, 1, tzinfo=UTC)


def tick(queue: Queue, batch: int = 100) -> Tick:
    return tick_answer(queue, queue.drive(queue.client.run(tick_call(queue, batch))))


def claim_one(queue: Queue, **admission: Any) -> Claim:
    queue.jobs.enqueue(b"x", **admission)
    (claim,) = queue.jobs.claim()
    return claim


# Scheduling


def test_a_job_for_an_instant_is_scheduled_at_it(queue: Queue, raw: redis.Redis) -> None:
    admission = queue.jobs.enqueue_at(b"x", LATER)
    assert admission.outcome == "scheduled"
    score = raw.zscore(queue.keys.schedule, admission.job_id)
    assert score == LATER.timestamp() * 1000
    assert places(queue, raw, admission.job_id) == ["schedule"]
    assert queue.jobs.get(admission.job_id).state == "scheduled"


@pytest.mark.parametrize(
    "when",
    [
        4_102_444_800_000,
        LATER,
        LATER.astimezone(timezone(timedelta(hours=5, minutes=30))),
    ],
)
def test_an_instant_is_a_datetime_or_unix_ms(queue: Queue, raw: redis.Redis, when: Any) -> None:
    job_id = queue.jobs.enqueue_at(b"x", when).job_id
    assert raw.zscore(queue.keys.schedule, job_id) == 4_102_444_800_000


def test_the_last_instant_of_time_is_taken(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue_at(b"x", END_OF_TIME_MS - 1).job_id
    assert raw.zscore(queue.keys.schedule, job_id) == END_OF_TIME_MS - 1
    assert tick(queue).promoted == 0


@pytest.mark.parametrize("delay", [90, 90.0, timedelta(seconds=90)])
def test_a_delay_runs_by_the_servers_clock(queue: Queue, raw: redis.Redis, delay: Any) -> None:
    before = server_ms(raw)
    job_id = queue.jobs.enqueue_in(b"x", delay).job_id
    after = server_ms(raw)
    assert before + 90_000 <= raw.zscore(queue.keys.schedule, job_id) <= after + 90_000


@pytest.mark.parametrize(
    "when", [0, 1, datetime(1970, 1, 1, tzinfo=UTC), datetime(2001, 1, 1, tzinfo=UTC)]
)
def test_the_past_is_due_at_once(queue: Queue, when: Any) -> None:
    job_id = queue.jobs.enqueue_at(b"x", when).job_id
    assert queue.jobs.state(job_id) == "scheduled"
    assert queue.jobs.promote() == 1
    assert queue.jobs.claim()[0].job_id == job_id


def test_a_delay_of_nothing_is_due_at_once(queue: Queue) -> None:
    queue.jobs.enqueue_in(b"x", 0)
    assert queue.jobs.promote() == 1


def test_a_short_delay_comes_by_itself(queue: Queue) -> None:
    queue.jobs.enqueue_in(b"x", 0.002)
    assert wait_until(queue.jobs.promote, "the job to be due") == 1


@pytest.mark.parametrize(
    ("when", "refusal"),
    [
        (datetime(2100, 1, 1), ValueError),  # noqa: DTZ001
        (-1, ValueError),
        (END_OF_TIME_MS, ValueError),
        (datetime(1969, 12, 31, tzinfo=UTC), ValueError),
        (1.5, TypeError),
        (True, TypeError),
        (None, TypeError),
        ("2100-01-01", TypeError),
    ],
)
def test_what_is_no_instant_is_refused_and_nothing_is_sent(
    queue: Queue, raw: redis.Redis, when: Any, refusal: type[Exception]
) -> None:
    with recorded(raw) as recording:
        with pytest.raises(refusal):
            queue.jobs.enqueue_at(b"x", when)
        assert recording.sent() == []


@pytest.mark.parametrize(
    ("delay", "refusal"),
    [
        (-1, ValueError),
        (-0.001, ValueError),
        (math.nan, ValueError),
        (math.inf, ValueError),
        (END_OF_TIME_MS, ValueError),
        (timedelta(-1), ValueError),
        (True, TypeError),
        (None, TypeError),
        ("5", TypeError),
    ],
)
def test_what_is_no_delay_is_refused_and_nothing_is_sent(
    queue: Queue, raw: redis.Redis, delay: Any, refusal: type[Exception]
) -> None:
    with recorded(raw) as recording:
        with pytest.raises(refusal, match="the delay"):
            queue.jobs.enqueue_in(b"x", delay)
        assert recording.sent() == []


def test_a_scheduled_job_is_not_claimed(queue: Queue) -> None:
    queue.jobs.enqueue_in(b"x", 60)
    assert queue.jobs.claim(10) == []


def test_a_scheduled_job_holds_its_own_id(queue: Queue) -> None:
    queue.jobs.enqueue_at(b"x", LATER, job_id=OWN)
    assert queue.jobs.enqueue_in(b"y", 1, job_id=OWN) == Admission(OWN, "duplicate")
    assert queue.jobs.enqueue(b"z", job_id=OWN) == Admission(OWN, "duplicate")


# Promotion


def test_a_due_job_waits_where_it_was_admitted_to(queue: Queue, raw: redis.Redis) -> None:
    flat = queue.jobs.enqueue_at(b"x", 1, priority=5).job_id
    in_lane = queue.jobs.enqueue_at(b"x", 1, lane="a", priority=-5).job_id
    assert queue.jobs.promote() == 2
    assert raw.zscore(queue.keys.pending, flat) == -5.0
    assert raw.zscore(queue.keys.lane("a"), in_lane) == 5.0
    assert [queue.jobs.get(each).state for each in (flat, in_lane)] == ["pending", "pending"]
    check_ring(queue, raw)


def test_a_scheduled_retry_comes_back_to_its_lane(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue, lane="a", priority=5)
    queue.jobs.retry(claim)
    assert queue.jobs.promote() == 1
    assert raw.zscore(queue.keys.lane("a"), claim.job_id) == -5.0


def test_only_due_jobs_are_promoted(queue: Queue) -> None:
    later = queue.jobs.enqueue_in(b"x", 60).job_id
    queue.jobs.enqueue_at(b"x", 1)
    assert queue.jobs.promote() == 1
    assert queue.jobs.state(later) == "scheduled"
    assert queue.jobs.promote() == 0


def test_at_most_so_many_are_promoted_the_earliest_first(queue: Queue) -> None:
    ids = [queue.jobs.enqueue_at(b"x", 10 - i).job_id for i in range(5)]
    assert queue.jobs.promote(2) == 2
    assert [queue.jobs.state(each) for each in ids] == ["scheduled"] * 3 + ["pending"] * 2
    assert queue.jobs.promote(100) == 3


def test_a_promotion_rings(queue: Queue, raw: redis.Redis) -> None:
    for _ in range(3):
        queue.jobs.enqueue_at(b"x", 1)
    raw.delete(queue.keys.wake)
    queue.jobs.promote()
    assert raw.llen(queue.keys.wake) == 3


def test_jobs_are_promoted_while_the_queue_is_paused(queue: Queue) -> None:
    queue.jobs.enqueue_at(b"x", 1)
    queue.admin.pause()
    assert queue.jobs.promote() == 1
    assert queue.jobs.claim() == []


# Reaping


def test_a_lapsed_job_returns_and_its_token_stays(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue, lane="a", priority=5)
    assert queue.jobs.reap() == 0
    lapse(queue, raw, claim)
    assert queue.jobs.reap() == 1
    assert places(queue, raw, claim.job_id) == ["g:a:pending"]
    assert raw.zscore(queue.keys.lane("a"), claim.job_id) == -5.0
    row = queue.jobs.get(claim.job_id)
    assert (row.state, row.attempts, row.stalled) == ("pending", 1, 0)
    assert in_hand(queue, raw) == {}
    check_ring(queue, raw)


def test_a_short_lease_lapses_by_itself(queue: Queue) -> None:
    queue.jobs.enqueue(b"x")
    queue.jobs.claim(lease=0.002)
    assert wait_until(queue.jobs.reap, "the lease to lapse") == 1


def test_at_most_so_many_are_reaped(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue_many([b"x"] * 5)
    lapse(queue, raw, *queue.jobs.claim(5))
    assert (queue.jobs.reap(3), queue.jobs.reap(3), queue.jobs.reap(3)) == (3, 2, 0)


def test_reaping_buries_nobody(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue)
    for _ in range(20):
        lapse(queue, raw, claim)
        queue.jobs.reap()
        (claim,) = queue.jobs.claim()
    assert queue.jobs.get(claim.job_id).stalled == 0
    assert queue.metrics.counts("dead") == {"dead": 0}


def test_a_reap_rings(queue: Queue, raw: redis.Redis) -> None:
    lapse(queue, raw, claim_one(queue))
    raw.delete(queue.keys.wake)
    queue.jobs.reap()
    assert raw.llen(queue.keys.wake) == 1


# The sweep over stalled jobs


def test_a_sweep_counts_each_lapse(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue)
    for count in (1, 2):
        lapse(queue, raw, claim)
        assert queue.stalled.check() == Recovered(1, 0)
        assert queue.jobs.get(claim.job_id).stalled == count
        (claim,) = queue.jobs.claim()


def test_a_job_that_keeps_lapsing_is_buried(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue, lane="a")
    for _ in range(2):
        lapse(queue, raw, claim)
        queue.stalled.check()
        (claim,) = queue.jobs.claim()
    lapse(queue, raw, claim)
    assert queue.stalled.check() == Recovered(0, 1)
    assert places(queue, raw, claim.job_id) == ["dead"]
    row = queue.jobs.get(claim.job_id)
    assert (row.state, row.last_error, row.stalled) == ("dead", "stalled", 3)
    assert row.finished_at is not None
    assert queue.metrics.counts("failed") == {"failed": 1}
    assert in_hand(queue, raw) == {}
    check_ring(queue, raw)


def test_the_ceiling_is_the_queues_unless_given(make_queue: MakeQueue, raw: redis.Redis) -> None:
    queue = make_queue(max_stalled=1)
    lapse(queue, raw, claim_one(queue))
    assert queue.stalled.check(max_stalled=2) == Recovered(1, 0)
    lapse(queue, raw, *queue.jobs.claim())
    assert queue.stalled.check() == Recovered(0, 1)


def test_a_ceiling_of_zero_buries_nobody(make_queue: MakeQueue, raw: redis.Redis) -> None:
    queue = make_queue(max_stalled=0)
    claim = claim_one(queue)
    for _ in range(10):
        lapse(queue, raw, claim)
        assert queue.stalled.check() == Recovered(1, 0)
        (claim,) = queue.jobs.claim()


def test_at_most_so_many_are_swept(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue_many([b"x"] * 5)
    lapse(queue, raw, *queue.jobs.claim(5))
    assert queue.stalled.check(limit=4) == Recovered(4, 0)
    assert queue.stalled.check(limit=4) == Recovered(1, 0)


def test_a_burial_as_stalled_has_the_end_of_dead_jobs(
    make_queue: MakeQueue, raw: redis.Redis
) -> None:
    queue = make_queue(max_stalled=1, keep_dead_ms=50_000)
    claim = claim_one(queue)
    lapse(queue, raw, claim)
    queue.stalled.check()
    assert raw.zscore(queue.keys.base + b"died", claim.job_id) >= server_ms(raw)


# The promoter's beat


def test_a_beat_on_an_empty_queue_moves_nothing(queue: Queue, raw: redis.Redis) -> None:
    found = tick(queue)
    assert (found.moved, found.next_due_ms, found.waiting, found.full) == (0, None, 0, False)
    assert names(queue, raw) == set()


def test_a_beat_promotes_recovers_buries_and_trims(make_queue: MakeQueue, raw: redis.Redis) -> None:
    queue = make_queue(max_stalled=2, keep_dead_ms=60_000)
    recovered, buried, completed, died = (claim_one(queue) for _ in range(4))
    queue.jobs.complete(completed)
    queue.jobs.retry(died, max_attempts=1)
    raw.zadd(queue.keys.outcomes, {completed.job_id: 1})
    raw.zadd(queue.keys.base + b"died", {died.job_id: 1})
    raw.hset(queue.keys.job(buried.job_id), "stalled", 1)
    lapse(queue, raw, recovered, buried)
    queue.jobs.enqueue_at(b"x", 1)
    queue.jobs.enqueue_in(b"x", 60)
    found = tick(queue)
    assert (found.promoted, found.recovered, found.buried, found.trimmed) == (1, 1, 1, 2)
    assert found.moved == 5
    assert found.next_due_ms is not None
    assert 0 < found.next_due_ms <= 60_000
    assert (found.waiting, found.full) == (2, False)
    states = [queue.jobs.state(each.job_id) for each in (recovered, buried, completed, died)]
    assert states == ["pending", "dead", "absent", "absent"]


def test_a_beat_counts_jobs_and_lanes_that_wait(queue: Queue) -> None:
    queue.jobs.enqueue_many([b"x"] * 3)
    queue.jobs.enqueue_many([b"x"] * 3, lane="a")
    queue.jobs.enqueue_many([b"x"] * 3, lane="b")
    assert tick(queue).waiting == 5
    queue.admin.pause()
    assert tick(queue).waiting == 0


def test_a_beat_moves_a_batch_of_each_kind_and_says_when_it_was_full(
    queue: Queue, raw: redis.Redis
) -> None:
    queue.jobs.enqueue_many([b"x"] * 3)
    lapse(queue, raw, *queue.jobs.claim(3))
    for _ in range(5):
        queue.jobs.enqueue_at(b"x", 1)
    beats = [tick(queue, batch=2) for _ in range(4)]
    assert [(beat.promoted, beat.recovered) for beat in beats] == [(2, 2), (2, 1), (1, 0), (0, 0)]
    assert [beat.full for beat in beats] == [True, True, False, False]


def test_a_beat_takes_a_dead_job_away_with_all_that_belongs_to_it(
    make_queue: MakeQueue, raw: redis.Redis
) -> None:
    queue = make_queue(keep_dead_ms=1)
    claim = claim_one(queue, lane="a")
    queue.jobs.add_log(claim.job_id, "line")
    queue.jobs.retry(claim, max_attempts=1)
    wait_until(lambda: tick(queue).trimmed, "the dead job to be trimmed")
    assert not [name for name in names(queue, raw) if claim.job_id in name]
    assert raw.exists(queue.keys.dead, queue.keys.base + b"died") == 0
    assert queue.metrics.counts("failed", "dead") == {"failed": 1, "dead": 0}


def test_a_beat_leaves_a_job_that_left_the_dead_set_by_another_hand(
    make_queue: MakeQueue, raw: redis.Redis
) -> None:
    queue = make_queue(keep_dead_ms=60_000)
    claim = claim_one(queue)
    queue.jobs.retry(claim, max_attempts=1)
    raw.zrem(queue.keys.dead, claim.job_id)
    raw.zadd(queue.keys.pending, {claim.job_id: 0})
    raw.zadd(queue.keys.base + b"died", {claim.job_id: 1})
    tick(queue)
    assert queue.jobs.claim()[0].job_id == claim.job_id
    assert raw.exists(queue.keys.base + b"died") == 0


# Members of a set without a job


@pytest.mark.parametrize("key", ["pending", "g:a:pending"])
def test_a_waiting_ghost_is_dropped_and_counted(queue: Queue, raw: redis.Redis, key: str) -> None:
    raw.zadd(queue.keys.base + key.encode(), {OWN: 0})
    if key.startswith("g:"):
        raw.rpush(queue.keys.base + b"ring", "a")
    assert queue.jobs.claim(5) == []
    assert raw.exists(queue.keys.job(OWN)) == 0
    assert places(queue, raw, OWN) == []
    assert dropped(queue, raw) == 1
    assert ring(queue, raw) == []


def test_a_ghost_does_not_take_the_place_of_a_job(queue: Queue, raw: redis.Redis) -> None:
    raw.zadd(queue.keys.pending, {f"JOB{i:011}": 0 for i in range(20)})
    job_id = queue.jobs.enqueue(b"x").job_id
    assert [claim.job_id for claim in queue.jobs.claim()] == [job_id]
    assert dropped(queue, raw) == 20


def test_a_ghost_in_the_schedule_is_dropped_and_counted(queue: Queue, raw: redis.Redis) -> None:
    raw.zadd(queue.keys.schedule, {OWN: 1})
    assert queue.jobs.promote() == 0
    assert raw.exists(queue.keys.job(OWN)) == 0
    assert places(queue, raw, OWN) == []
    assert dropped(queue, raw) == 1


@pytest.mark.parametrize("verb", ["reap", "check"])
def test_an_active_ghost_is_dropped_and_counted(queue: Queue, raw: redis.Redis, verb: str) -> None:
    raw.zadd(queue.keys.active, {OWN: 1})
    if verb == "reap":
        assert queue.jobs.reap() == 0
    else:
        assert queue.stalled.check() == Recovered(0, 0)
    assert raw.exists(queue.keys.job(OWN)) == 0
    assert places(queue, raw, OWN) == []
    assert dropped(queue, raw) == 1


def test_a_beat_drops_ghosts_and_tells_that_more_may_be_due(queue: Queue, raw: redis.Redis) -> None:
    raw.zadd(queue.keys.schedule, {f"JOB{i:011}": 1 for i in range(3)})
    job_id = queue.jobs.enqueue_at(b"x", 2).job_id
    first, second = tick(queue, batch=3), tick(queue, batch=3)
    assert (first.promoted, first.full) == (0, True)
    assert (second.promoted, second.full) == (1, False)
    assert queue.jobs.state(job_id) == "pending"


def test_a_job_due_now_is_told_as_due_in_no_time(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue_in(b"x", 60).job_id
    other = queue.jobs.enqueue_in(b"x", 60).job_id
    fall_due(queue, raw, job_id, other)
    assert tick(queue, batch=1).next_due_ms == 0
