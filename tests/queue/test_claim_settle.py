"""The way into the active set and the ways out of it, each fenced by the token."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_echomq.queue import Claim, Queue
from django_echomq.wire.errors import JobGone, StaleToken
from django_echomq.worker.promoter import tick_call
from tests.queue.keyspace import (
    endless,
    fall_due,
    in_hand,
    lapse,
    names,
    places,
    server_ms,
    snapshot,
)
from tests.wire.monitor import recorded

MakeQueue = Callable[..., Queue]
Settle = Callable[[Queue, Claim], object]

VERBS: dict[str, Settle] = {
    "complete": lambda queue, claim: queue.jobs.complete(claim),
    "retry": lambda queue, claim: queue.jobs.retry(claim),
    "retry-to-death": lambda queue, claim: queue.jobs.retry(claim, max_attempts=1),
    "release": lambda queue, claim: queue.jobs.release(claim),
    "extend": lambda queue, claim: queue.jobs.extend_lock(claim),
}
every_verb = pytest.mark.parametrize("verb", VERBS.values(), ids=VERBS)
settling_verbs = pytest.mark.parametrize(
    "verb",
    [VERBS[name] for name in VERBS if name != "extend"],
    ids=[n for n in VERBS if n != "extend"],
)


def claim_one(queue: Queue, **admission: Any) -> Claim:
    queue.jobs.enqueue(b"x", **admission)
    (claim,) = queue.jobs.claim()
    return claim


def claim_again(queue: Queue, raw: redis.Redis, claim: Claim) -> Claim:
    """Lets the claim lapse; answers the next one of the same job."""
    lapse(queue, raw, claim)
    assert queue.jobs.reap() == 1
    (again,) = queue.jobs.claim()
    assert again.job_id == claim.job_id
    return again


# Claim


def test_a_claim_carries_the_job(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"body", lane="a").job_id
    (claim,) = queue.jobs.claim()
    assert claim == Claim(job_id, b"body", attempts=1, lane="a", attempt=1, history=b"")


def test_a_claim_of_the_flat_set_has_no_lane(queue: Queue) -> None:
    assert claim_one(queue).lane is None


def test_a_claimed_job_stands_in_the_active_set_only(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue)
    assert places(queue, raw, claim.job_id) == ["active"]
    row = queue.jobs.get(claim.job_id)
    assert (row.state, row.attempts) == ("active", 1)


def test_a_claimed_row_says_who_and_when(queue: Queue, raw: redis.Redis) -> None:
    before = server_ms(raw)
    claim = claim_one(queue)
    after = server_ms(raw)
    row = queue.jobs.get(claim.job_id)
    assert row.worker
    assert row.started_at is not None
    started = row.started_at - datetime(1970, 1, 1, tzinfo=UTC)
    assert before <= started // timedelta(milliseconds=1) <= after


def test_the_deadline_is_the_lease_from_the_servers_now(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x")
    before = server_ms(raw)
    (claim,) = queue.jobs.claim(lease=7)
    after = server_ms(raw)
    assert before + 7_000 <= raw.zscore(queue.keys.active, claim.job_id) <= after + 7_000


def test_the_lease_is_the_queues_unless_given(make_queue: MakeQueue, raw: redis.Redis) -> None:
    queue = make_queue(lease_ms=90_000)
    before = server_ms(raw)
    claim = claim_one(queue)
    assert raw.zscore(queue.keys.active, claim.job_id) >= before + 90_000


def test_claims_of_one_call_share_a_deadline(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue_many([b"x"] * 4)
    queue.jobs.claim(4)
    scores = {score for _, score in raw.zrange(queue.keys.active, 0, -1, withscores=True)}
    assert len(scores) == 1


def test_nothing_is_claimed_of_an_empty_queue(queue: Queue, raw: redis.Redis) -> None:
    assert queue.jobs.claim(10) == []
    assert {name for name in names(queue, raw) if not name.startswith("ledger:")} == set()


def test_more_than_there_are_gives_what_there_is(queue: Queue) -> None:
    admitted = [admission.job_id for admission in queue.jobs.enqueue_many([b"x"] * 3)]
    assert [claim.job_id for claim in queue.jobs.claim(7)] == admitted
    assert queue.jobs.claim(7) == []


def test_jobs_are_claimed_in_mint_order(queue: Queue) -> None:
    admitted = [queue.jobs.enqueue(b"x").job_id for _ in range(10)]
    assert [queue.jobs.claim()[0].job_id for _ in range(10)] == admitted


@settings(
    deadline=None, max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(
    priorities=st.lists(st.integers(-100, 100), min_size=1, max_size=30),
    lane=st.sampled_from([None, "a"]),
)
def test_jobs_are_claimed_by_priority_and_within_one_in_mint_order(
    make_queue: MakeQueue, priorities: list[int], lane: str | None
) -> None:
    queue = make_queue()
    admitted = [
        (-priority, queue.jobs.enqueue(b"x", priority=priority, lane=lane).job_id)
        for priority in priorities
    ]
    claimed = []
    while claims := queue.jobs.claim(7):
        claimed += [claim.job_id for claim in claims]
    assert claimed == [job_id for _, job_id in sorted(admitted)]


def test_an_older_id_goes_first_although_it_was_enqueued_later(queue: Queue) -> None:
    newer, older = "JOB0Nt6z93U3dY", "JOB0NsVQMCRgHI"
    queue.jobs.enqueue(b"x", job_id=newer)
    queue.jobs.enqueue(b"x", job_id=older)
    assert [claim.job_id for claim in queue.jobs.claim(2)] == [older, newer]


@pytest.mark.parametrize("limit", [0, -1, 501, 10**9, math.nan, math.inf])
def test_a_claim_takes_1_to_500_jobs(queue: Queue, raw: redis.Redis, limit: Any) -> None:
    queue.jobs.enqueue(b"x")
    with recorded(raw) as recording:
        with pytest.raises(ValueError, match="between 1 and 500"):
            queue.jobs.claim(limit)
        assert recording.sent() == []


@pytest.mark.parametrize("limit", [1.5, "2", None])
def test_a_limit_that_is_no_whole_number_claims_nothing(
    queue: Queue, raw: redis.Redis, limit: Any
) -> None:
    for lane in ("a", "b", None):
        queue.jobs.enqueue(b"x", lane=lane)
    before = snapshot(queue, raw)
    with pytest.raises((TypeError, ValueError)):
        queue.jobs.claim(limit)
    assert snapshot(queue, raw) == before


def test_a_claim_takes_500_at_once(queue: Queue) -> None:
    queue.jobs.enqueue_many([b"x"] * 501)
    assert len(queue.jobs.claim(500)) == 500
    assert queue.metrics.counts("pending", "active") == {"pending": 1, "active": 500}


@pytest.mark.parametrize("lease", [0, -1, 0.0001, math.nan, math.inf, timedelta(0)])
def test_a_lease_lasts_at_least_a_millisecond(queue: Queue, lease: Any) -> None:
    queue.jobs.enqueue(b"x")
    with pytest.raises(ValueError):
        queue.jobs.claim(lease=lease)
    assert queue.metrics.counts("pending") == {"pending": 1}


@pytest.mark.parametrize("lane", [None, "a"])
def test_a_paused_queue_gives_nothing(queue: Queue, lane: str | None) -> None:
    queue.jobs.enqueue(b"x", lane=lane)
    queue.admin.pause()
    assert queue.jobs.claim(5) == []
    assert queue.metrics.counts("pending") == {"pending": 1}
    queue.admin.resume()
    assert len(queue.jobs.claim(5)) == 1


def test_a_pause_does_not_touch_jobs_in_hand(queue: Queue) -> None:
    claim = claim_one(queue)
    queue.admin.pause()
    queue.jobs.extend_lock(claim)
    queue.jobs.complete(claim)
    assert queue.jobs.state(claim.job_id) == "completed"


def test_a_short_claim_clears_the_wake_tokens(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue_many([b"x"] * 3)
    queue.jobs.claim(2)
    assert raw.llen(queue.keys.wake) == 3
    queue.jobs.claim(2)
    assert raw.exists(queue.keys.wake) == 0


def test_each_claim_has_a_higher_token(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue)
    tokens = [claim.attempts]
    for _ in range(5):
        claim = claim_again(queue, raw, claim)
        tokens.append(claim.attempts)
    assert tokens == [1, 2, 3, 4, 5, 6]


def test_a_claim_is_one_round_trip(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.claim()
    with recorded(raw) as recording:
        queue.jobs.claim(10)
        assert len(recording.sent()) == 1


# Refused settlements


@every_verb
@pytest.mark.parametrize("lane", [None, "a"])
def test_another_token_is_stale_and_changes_nothing(
    queue: Queue, raw: redis.Redis, verb: Settle, lane: str | None
) -> None:
    claim = claim_one(queue, lane=lane, unique=None)
    for token in (0, claim.attempts + 1, 10**12, -1):
        before = snapshot(queue, raw)
        with pytest.raises(StaleToken, match=f"no longer held under token {token}"):
            verb(queue, replace(claim, attempts=token))
        assert snapshot(queue, raw) == before
    queue.jobs.complete(claim)


@every_verb
def test_a_claim_that_another_worker_took_over_is_stale(
    queue: Queue, raw: redis.Redis, verb: Settle
) -> None:
    claim = claim_one(queue, lane="a")
    theirs = claim_again(queue, raw, claim)
    before = snapshot(queue, raw)
    with pytest.raises(StaleToken):
        verb(queue, claim)
    assert snapshot(queue, raw) == before
    queue.jobs.complete(theirs)


@every_verb
@pytest.mark.parametrize("keep_ms", [0, 60_000])
def test_a_completed_job_is_gone_and_nothing_changes(
    make_queue: MakeQueue, raw: redis.Redis, verb: Settle, keep_ms: int
) -> None:
    queue = make_queue(keep_completed_ms=keep_ms)
    claim = claim_one(queue)
    queue.jobs.complete(claim)
    before = snapshot(queue, raw)
    with pytest.raises(JobGone, match=claim.job_id):
        verb(queue, claim)
    assert snapshot(queue, raw) == before


@every_verb
def test_a_job_that_never_was_is_gone_and_nothing_is_written(
    queue: Queue, raw: redis.Redis, verb: Settle
) -> None:
    with pytest.raises(JobGone):
        verb(queue, Claim("JOB0NsVQMCRgHI", b"x", 1))
    assert snapshot(queue, raw) == {}


@every_verb
@pytest.mark.parametrize("budget", [1, 3])
def test_a_claim_that_failed_is_stale(
    queue: Queue, raw: redis.Redis, verb: Settle, budget: int
) -> None:
    claim = claim_one(queue, lane="a")
    queue.jobs.retry(claim, 60, budget)
    before = snapshot(queue, raw)
    with pytest.raises(StaleToken):
        verb(queue, claim)
    assert snapshot(queue, raw) == before


@every_verb
def test_a_claim_buried_as_stalled_is_stale(queue: Queue, raw: redis.Redis, verb: Settle) -> None:
    claim = claim_one(queue)
    lapse(queue, raw, claim)
    assert queue.stalled.check(max_stalled=1).dead == 1
    before = snapshot(queue, raw)
    with pytest.raises(StaleToken):
        verb(queue, claim)
    assert snapshot(queue, raw) == before


# A lease that lapsed


@settling_verbs
@pytest.mark.parametrize("lane", [None, "a"])
def test_a_lapsed_lease_does_not_void_a_claim(
    queue: Queue, raw: redis.Redis, verb: Settle, lane: str | None
) -> None:
    claim = claim_one(queue, lane=lane)
    lapse(queue, raw, claim)
    verb(queue, claim)
    assert "active" not in places(queue, raw, claim.job_id)
    assert in_hand(queue, raw) == {}


@pytest.mark.parametrize("lane", [None, "a"])
def test_a_late_completion_counts_while_nobody_else_has_claimed(
    queue: Queue, raw: redis.Redis, lane: str | None
) -> None:
    claim = claim_one(queue, lane=lane)
    lapse(queue, raw, claim)
    assert queue.jobs.reap() == 1
    queue.jobs.complete(claim, b"late")
    assert queue.jobs.get(claim.job_id).result == b"late"
    assert queue.jobs.claim() == []
    assert queue.metrics.counts("pending", "active", "completed") == {
        "pending": 0,
        "active": 0,
        "completed": 1,
    }


@settling_verbs
@pytest.mark.parametrize("lane", [None, "a"])
def test_every_late_settlement_leaves_one_place(
    queue: Queue, raw: redis.Redis, verb: Settle, lane: str | None
) -> None:
    claim = claim_one(queue, lane=lane)
    lapse(queue, raw, claim)
    queue.jobs.reap()
    verb(queue, claim)
    assert len(places(queue, raw, claim.job_id)) == (queue.jobs.state(claim.job_id) != "completed")
    assert in_hand(queue, raw) == {}


def test_a_reaped_claim_cannot_be_extended(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue)
    lapse(queue, raw, claim)
    queue.jobs.reap()
    with pytest.raises(StaleToken):
        queue.jobs.extend_lock(claim)
    assert places(queue, raw, claim.job_id) == ["pending"]


def test_a_lapsed_claim_that_nobody_reaped_can_be_extended(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue)
    lapse(queue, raw, claim)
    queue.jobs.extend_lock(claim)
    assert queue.jobs.reap() == 0


# Release


def test_a_released_job_waits_where_it_was(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue, lane="a", priority=5)
    queue.jobs.release(claim)
    assert places(queue, raw, claim.job_id) == ["g:a:pending"]
    assert raw.zscore(queue.keys.lane("a"), claim.job_id) == -5.0
    assert queue.jobs.get(claim.job_id).state == "pending"


def test_a_released_job_is_the_next_to_be_claimed(queue: Queue) -> None:
    first, second = (queue.jobs.enqueue(b"x").job_id for _ in range(2))
    (claim,) = queue.jobs.claim()
    queue.jobs.release(claim)
    assert [claim.job_id for claim in queue.jobs.claim(2)] == [first, second]


def test_a_release_does_not_count_as_an_attempt_but_the_token_grows(queue: Queue) -> None:
    claim = claim_one(queue)
    for _ in range(3):
        queue.jobs.release(claim)
        (claim,) = queue.jobs.claim()
    assert (claim.attempts, claim.attempt) == (4, 1)
    row = queue.jobs.get(claim.job_id)
    assert (row.attempts, row.attempt) == (4, 1)


def test_releases_do_not_use_up_the_budget(queue: Queue) -> None:
    claim = claim_one(queue)
    for _ in range(5):
        queue.jobs.release(claim)
        (claim,) = queue.jobs.claim()
    assert queue.jobs.retry(claim, max_attempts=2) == "scheduled"
    queue.jobs.promote()
    (claim,) = queue.jobs.claim()
    assert queue.jobs.retry(claim, max_attempts=2) == "dead"


def test_a_release_rings(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue)
    raw.delete(queue.keys.wake)
    queue.jobs.release(claim)
    assert raw.llen(queue.keys.wake) == 1


# Retry


def test_a_failed_job_is_scheduled_after_its_delay(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue)
    before = server_ms(raw)
    assert queue.jobs.retry(claim, 90, error="no luck") == "scheduled"
    after = server_ms(raw)
    assert places(queue, raw, claim.job_id) == ["schedule"]
    assert before + 90_000 <= raw.zscore(queue.keys.schedule, claim.job_id) <= after + 90_000
    row = queue.jobs.get(claim.job_id)
    assert (row.state, row.last_error, row.attempts) == ("scheduled", "no luck", 1)


def test_a_job_dies_when_its_budget_is_used_up(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue)
    words = []
    for _ in range(3):
        words.append(queue.jobs.retry(claim, error=f"try {claim.attempt}"))
        queue.jobs.promote()
        (claim, *_) = queue.jobs.claim() or [claim]
    assert words == ["scheduled", "scheduled", "dead"]
    assert places(queue, raw, claim.job_id) == ["dead"]
    assert raw.zscore(queue.keys.dead, claim.job_id) == 0.0
    row = queue.jobs.get(claim.job_id)
    assert (row.state, row.last_error) == ("dead", "try 3")
    assert row.finished_at is not None
    assert queue.metrics.counts("failed", "dead") == {"failed": 1, "dead": 1}


def test_the_budget_is_the_queues_unless_given(make_queue: MakeQueue) -> None:
    queue = make_queue(max_attempts=1)
    assert queue.jobs.retry(claim_one(queue), max_attempts=2) == "scheduled"
    assert queue.jobs.retry(claim_one(queue)) == "dead"


def test_a_budget_of_none_left_is_death_at_once(queue: Queue) -> None:
    assert queue.jobs.retry(claim_one(queue), max_attempts=0) == "dead"


@pytest.mark.parametrize("budget", ["three", math.nan, b"\xff", ""])
def test_a_budget_that_is_no_number_is_refused_and_the_claim_holds(
    queue: Queue, raw: redis.Redis, budget: Any
) -> None:
    claim = claim_one(queue)
    before = snapshot(queue, raw)
    with pytest.raises((TypeError, ValueError)):
        queue.jobs.retry(claim, max_attempts=budget)
    assert snapshot(queue, raw) == before


def test_a_lapse_counts_as_an_attempt(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_again(queue, raw, claim_one(queue))
    assert claim.attempt == 2
    assert queue.jobs.retry(claim, max_attempts=2) == "dead"


@pytest.mark.parametrize("delay", [-1, math.nan, math.inf, timedelta(-1)])
def test_a_delay_outside_of_time_is_refused_and_the_claim_holds(
    queue: Queue, raw: redis.Redis, delay: Any
) -> None:
    claim = claim_one(queue)
    with pytest.raises(ValueError, match="the delay must be between 0 seconds"):
        queue.jobs.retry(claim, delay)
    queue.jobs.complete(claim)


def test_an_error_is_kept_whatever_it_holds(queue: Queue) -> None:
    claim = claim_one(queue)
    queue.jobs.retry(claim, error="na\u00efve \0 \ud800 \U0001f600")
    assert queue.jobs.get(claim.job_id).last_error == "na\u00efve \0 \\ud800 \U0001f600"


def test_a_long_error_is_cut(queue: Queue) -> None:
    claim = claim_one(queue)
    queue.jobs.retry(claim, error="x" * 100_000)
    assert queue.jobs.get(claim.job_id).last_error == "x" * 4_096


def test_a_history_grows_by_one_line_per_failure(queue: Queue) -> None:
    claim = claim_one(queue)
    for number in (1, 2, 3):
        queue.jobs._settle(queue.jobs.failure(claim, 0, 9, "no luck", b'{"attempt": %d}' % number))
        queue.jobs.promote()
        (claim,) = queue.jobs.claim()
    assert claim.history == b'{"attempt": 1}\n{"attempt": 2}\n{"attempt": 3}'
    assert [each["attempt"] for each in queue.jobs.get(claim.job_id).history] == [1, 2, 3]


def test_a_history_keeps_its_tail_within_32_kib(queue: Queue) -> None:
    claim = claim_one(queue)
    for number in range(5):
        entry = b'{"attempt": %d, "text": "%s"}' % (number, b"x" * 10_000)
        queue.jobs._settle(queue.jobs.failure(claim, 0, 99, "", entry))
        queue.jobs.promote()
        (claim,) = queue.jobs.claim()
    assert len(claim.history) <= 32_768
    assert [each["attempt"] for each in queue.jobs.get(claim.job_id).history] == [2, 3, 4]


def test_a_single_entry_longer_than_that_is_kept_whole(queue: Queue) -> None:
    claim = claim_one(queue)
    entry = b'{"text": "%s"}' % (b"x" * 40_000)
    queue.jobs._settle(queue.jobs.failure(claim, history=entry))
    assert queue.jobs.get(claim.job_id).fields["history"] == entry


def test_a_dead_job_stays_for_ever_by_default(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue)
    queue.jobs.retry(claim, max_attempts=1)
    assert raw.pttl(queue.keys.job(claim.job_id)) == -1
    assert raw.exists(queue.keys.base + b"died") == 0


def test_a_dead_job_with_an_end_is_listed_for_trimming(
    make_queue: MakeQueue, raw: redis.Redis
) -> None:
    queue = make_queue(keep_dead_ms=50_000)
    before = server_ms(raw)
    claim = claim_one(queue)
    queue.jobs.retry(claim, max_attempts=1)
    ends = raw.zscore(queue.keys.base + b"died", claim.job_id)
    assert before + 50_000 <= ends <= server_ms(raw) + 50_000


# Complete


def test_a_completed_job_leaves_an_outcome_record(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue, lane="a", priority=5)
    queue.jobs.complete(claim, b"result")
    assert raw.exists(queue.keys.job(claim.job_id)) == 0
    assert places(queue, raw, claim.job_id) == []
    row = queue.jobs.get(claim.job_id)
    assert (row.state, row.result, row.payload) == ("completed", b"result", b"x")
    assert (row.lane, row.priority, row.attempts) == ("a", 5, 1)
    assert row.finished_at is not None
    assert queue.metrics.counts("completed") == {"completed": 1}


def test_the_outcome_ends_by_itself(make_queue: MakeQueue, raw: redis.Redis) -> None:
    queue = make_queue(keep_completed_ms=50_000)
    claim = claim_one(queue)
    queue.jobs.complete(claim)
    assert 0 < raw.pttl(queue.keys.outcome(claim.job_id)) <= 50_000
    assert raw.zscore(queue.keys.outcomes, claim.job_id) >= server_ms(raw)


def test_the_log_ends_with_the_outcome(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue_many([b"x"] * 3)
    _, claim, _ = claims = queue.jobs.claim(3)
    queue.jobs.add_log(claim.job_id, "line")
    slot = queue.client.take_slot()
    settlements = [queue.jobs.completion(each) for each in claims]
    queue.drive(queue.client.run(queue.jobs.exchange_call(slot, settlements, 0, "w")))
    assert queue.jobs.logs(claim.job_id) == ["line"]
    assert raw.pttl(queue.keys.logs(claim.job_id)) == pytest.approx(
        raw.pttl(queue.keys.outcome(claim.job_id)), abs=1_000
    )


def test_a_completion_forgets_the_last_error_but_not_the_history(queue: Queue) -> None:
    claim = claim_one(queue)
    queue.jobs._settle(queue.jobs.failure(claim, 0, 3, "no luck", b'{"n": 1}'))
    queue.jobs.promote()
    (claim,) = queue.jobs.claim()
    queue.jobs.complete(claim)
    row = queue.jobs.get(claim.job_id)
    assert (row.last_error, row.history) == (None, [{"n": 1}])


@pytest.mark.parametrize("result", [None, b"", ""])
def test_no_result_is_an_empty_result(queue: Queue, result: Any) -> None:
    claim = claim_one(queue)
    queue.jobs.complete(claim, result)
    assert queue.jobs.get(claim.job_id).result == b""


@pytest.mark.parametrize("result", [object(), ["x"], "\ud800", True])
def test_a_result_that_cannot_be_sent_leaves_the_claim(queue: Queue, result: Any) -> None:
    claim = claim_one(queue)
    with pytest.raises((TypeError, ValueError, redis.DataError)):
        queue.jobs.complete(claim, result)
    queue.jobs.complete(claim, b"result")


def test_outcomes_are_listed_newest_first(queue: Queue) -> None:
    claims = [claim_one(queue) for _ in range(3)]
    for claim in claims:
        queue.jobs.complete(claim)
    listed = queue.jobs.browse("completed")
    assert [job.id for job in listed] == [claim.job_id for claim in reversed(claims)]


def test_only_so_many_outcomes_are_kept(make_queue: MakeQueue, raw: redis.Redis) -> None:
    queue = make_queue(keep_completed_max=3)
    claims = []
    for _ in range(6):
        claim = claim_one(queue)
        queue.jobs.add_log(claim.job_id, "line")
        queue.jobs.complete(claim)
        claims.append(claim)
    kept = {job.id for job in queue.jobs.browse("completed")}
    assert kept == {claim.job_id for claim in claims[3:]}
    for claim in claims[:3]:
        assert queue.jobs.state(claim.job_id) == "absent"
        assert raw.exists(queue.keys.logs(claim.job_id)) == 0


def test_outcomes_beyond_a_lowered_ceiling_are_trimmed_bit_by_bit(
    make_queue: MakeQueue, raw: redis.Redis
) -> None:
    queue = make_queue(keep_completed_max=1)
    raw.zadd(queue.keys.outcomes, {f"JOB{i:011}": 1 for i in range(250)})
    queue.jobs.complete(claim_one(queue))
    assert raw.zcard(queue.keys.outcomes) == 150


@pytest.mark.parametrize("options", [{"keep_completed_ms": 0}, {"keep_completed_max": 0}])
def test_without_keeping_nothing_of_the_job_is_left(
    make_queue: MakeQueue, raw: redis.Redis, options: dict[str, int]
) -> None:
    queue = make_queue(**options)
    claim = claim_one(queue, lane="a", priority=5)
    queue.jobs.add_log(claim.job_id, "line")
    queue.jobs.update_progress(claim.job_id, "50")
    queue.jobs.complete(claim, b"result")
    assert queue.jobs.state(claim.job_id) == "absent"
    assert not [name for name in names(queue, raw) if claim.job_id in name]
    assert raw.exists(queue.keys.outcomes) == 0


@pytest.mark.parametrize("keep_ms", [0, 60_000])
def test_a_finished_life_leaves_no_endless_key_but_the_counters(
    make_queue: MakeQueue, raw: redis.Redis, keep_ms: int
) -> None:
    queue = make_queue(keep_completed_ms=keep_ms)
    from_lane = claim_one(queue, lane="a", priority=1)
    from_flat = claim_one(queue)
    queue.jobs.add_log(from_lane.job_id, "line")
    queue.jobs.retry(from_flat)
    queue.jobs.promote()
    (from_flat,) = queue.jobs.claim()
    queue.jobs.release(from_flat)
    (from_flat,) = queue.jobs.claim()
    queue.jobs.complete(from_lane)
    queue.jobs.complete(from_flat)
    assert queue.jobs.claim() == []
    left = endless(queue, raw)
    assert left == {"metrics:completed", "outcomes"} if keep_ms else {"metrics:completed"}


def test_what_the_outcomes_list_ends_with_the_promoters_beat(
    queue: Queue, raw: redis.Redis
) -> None:
    claim = claim_one(queue)
    queue.jobs.complete(claim)
    raw.zadd(queue.keys.outcomes, {claim.job_id: 1})
    queue.drive(queue.client.run(tick_call(queue, 100)))
    assert raw.exists(queue.keys.outcomes) == 0
    assert queue.jobs.state(claim.job_id) == "absent"


# Extending


def test_an_extended_lease_runs_from_now(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue)
    before = server_ms(raw)
    queue.jobs.extend_lock(claim, 500)
    assert raw.zscore(queue.keys.active, claim.job_id) >= before + 500_000


def test_a_lease_may_be_shortened(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue)
    queue.jobs.extend_lock(claim, timedelta(milliseconds=1))
    assert raw.zscore(queue.keys.active, claim.job_id) <= server_ms(raw) + 1


def test_extending_many_answers_the_ids_of_those_that_are_over(
    queue: Queue, raw: redis.Redis
) -> None:
    queue.jobs.enqueue_many([b"x"] * 4)
    held, done, reaped, also_held = queue.jobs.claim(4)
    queue.jobs.complete(done)
    lapse(queue, raw, reaped)
    queue.jobs.reap()
    before = server_ms(raw)
    over = queue.jobs.extend_locks([held, done, reaped, also_held], 500)
    assert over == [done.job_id, reaped.job_id]
    for claim in (held, also_held):
        assert raw.zscore(queue.keys.active, claim.job_id) >= before + 500_000


def test_extending_none_sends_nothing(queue: Queue, raw: redis.Redis) -> None:
    with recorded(raw) as recording:
        assert queue.jobs.extend_locks([]) == []
        assert recording.sent() == []


# Settling and claiming in one step


def test_one_call_settles_and_claims(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue_many([b"x"] * 6)
    done, failed, died, back, stale = queue.jobs.claim(5)
    jobs = queue.jobs
    answer = jobs._exchange(
        [
            jobs.completion(done, b"result"),
            jobs.failure(failed, 60),
            jobs.failure(died, 60, 1),
            jobs.giving_back(back),
            jobs.completion(replace(stale, attempts=9)),
            jobs.completion(Claim("JOB0NsVQMCRgHI", b"", 1)),
        ],
        1,
    )
    assert answer.settled == ["done", "scheduled", "dead", "released", "stale", "gone"]
    assert [claim.job_id for claim in answer.claims] == [back.job_id]
    assert [jobs.state(each.job_id) for each in (done, failed, died, back, stale)] == [
        "completed",
        "scheduled",
        "dead",
        "active",
        "active",
    ]


def test_a_claim_settled_twice_in_one_call_ends_once(queue: Queue) -> None:
    claim = claim_one(queue)
    answer = queue.jobs._exchange([queue.jobs.completion(claim)] * 2, 0)
    assert answer.settled == ["done", "gone"]
    assert queue.metrics.counts("completed") == {"completed": 1}


def test_what_a_settlement_frees_is_claimed_in_the_same_call(
    queue: Queue, raw: redis.Redis
) -> None:
    raw.hset(queue.keys.base + b"glimit", "a", 1)
    queue.jobs.enqueue_many([b"x"] * 2, lane="a")
    (claim,) = queue.jobs.claim(5)
    answer = queue.jobs._exchange([queue.jobs.completion(claim)], 5)
    assert answer.settled == ["done"]
    assert [each.lane for each in answer.claims] == ["a"]


def test_an_exchange_tells_when_the_next_job_is_due(queue: Queue, raw: redis.Redis) -> None:
    assert queue.jobs._exchange((), 1).next_due_ms is None
    job_id = queue.jobs.enqueue_in(b"x", 60).job_id
    due = queue.jobs._exchange((), 1).next_due_ms
    assert due is not None
    assert 0 < due <= 60_000
    fall_due(queue, raw, job_id)
    assert queue.jobs._exchange((), 1).next_due_ms == 0


def test_a_paused_queue_still_settles(queue: Queue) -> None:
    claim = claim_one(queue)
    queue.jobs.enqueue(b"y")
    queue.admin.pause()
    answer = queue.jobs._exchange([queue.jobs.completion(claim)], 5)
    assert (answer.settled, answer.claims) == (["done"], [])


def test_claimed_rows_carry_the_workers_name(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    call = queue.jobs.exchange_call(queue.client.take_slot(), (), 1, "host-1.42")
    queue.drive(queue.client.run(call))
    assert queue.jobs.get(job_id).worker == "host-1.42"


def test_five_hundred_settlements_and_claims_are_one_call(queue: Queue) -> None:
    queue.jobs.enqueue_many([b"x"] * 1_000)
    claims = queue.jobs.claim(500)
    answer = queue.jobs._exchange([queue.jobs.completion(claim) for claim in claims], 500)
    assert set(answer.settled) == {"done"}
    assert len(answer.claims) == 500
