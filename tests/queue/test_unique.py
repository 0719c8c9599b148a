"""What frees a unique key, and what becomes of a job that meets it held."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pytest
import redis

from django_echomq.queue import Admission, Claim, Queue, Unique
from django_echomq.wire.errors import InvalidName
from django_echomq.wire.scripts import script
from tests.conftest import wait_until
from tests.queue.keyspace import fall_due, lapse, names, server_ms, snapshot
from tests.wire.monitor import recorded
from tests.wire.proxy import Proxy

MakeQueue = Callable[..., Queue]

STARTED = Unique("report", until="started")
FOR_A_TIME = Unique("report", ttl=60, until="ttl")
DEBOUNCE = Unique("report", on_conflict="replace")


def only(queue: Queue) -> Claim:
    (claim,) = queue.jobs.claim()
    return claim


def again(queue: Queue, unique: Unique) -> str:
    return queue.jobs.enqueue(b"again", unique=unique).outcome


def run_out(queue: Queue, raw: redis.Redis, key: str = "report") -> None:
    """Lets the time of a key end."""
    raw.zadd(queue.keys.base + b"throttled", {key: server_ms(raw) - 1}, xx=True)
    raw.pexpire(queue.keys.base + b"de:" + key.encode(), 1)
    wait_until(lambda: queue.metrics.unique_holder(key) is None)


# What is said and refused


@pytest.mark.parametrize(
    ("unique", "error", "message"),
    [
        (Unique("a b"), InvalidName, "unique key"),
        (Unique("k", until="forever"), ValueError, "'done' or 'started' or 'ttl'"),
        (Unique("k", on_conflict="fail"), ValueError, "'skip' or 'replace'"),
        (Unique("k", until="ttl"), ValueError, "needs a ttl"),
        (Unique("k", ttl=-1, until="ttl"), ValueError, "the ttl"),
        (Unique("k", ttl="1"), TypeError, "the ttl"),  # type: ignore[arg-type]
    ],
)
def test_what_cannot_be_meant_is_refused_and_nothing_is_sent(
    queue: Queue, raw: redis.Redis, unique: Unique, error: type[Exception], message: str
) -> None:
    with recorded(raw) as recording:
        with pytest.raises(error, match=message):
            queue.jobs.enqueue(b"x", unique=unique)
        assert recording.sent() == []


def test_the_row_says_what_is_not_the_default(queue: Queue) -> None:
    plain = queue.jobs.enqueue(b"x", unique=Unique("a")).job_id
    assert not {"unique_until", "unique_ttl"} & set(queue.jobs.get(plain).fields)
    timed = Unique("b", ttl=timedelta(minutes=1), until="ttl")
    fields = queue.jobs.get(queue.jobs.enqueue(b"x", unique=timed).job_id).fields
    assert (fields["unique_until"], fields["unique_ttl"]) == (b"ttl", b"60000")


# until="done"


@pytest.mark.parametrize("end", ["complete", "dead", "cancel", "remove", "drain", "clean"])
def test_whatever_ends_the_job_frees_its_key(queue: Queue, end: str) -> None:
    job_id = queue.jobs.enqueue(b"x", unique=Unique("report")).job_id
    assert again(queue, Unique("report")) == "duplicate"
    if end == "complete":
        queue.jobs.complete(only(queue))
    elif end == "dead":
        queue.jobs.retry(only(queue), 0, 1)
    elif end == "cancel":
        queue.jobs.cancel(job_id)
    elif end == "remove":
        queue.jobs.remove(job_id)
    elif end == "drain":
        queue.admin.drain()
    else:
        queue.admin.clean("pending", 0)
    assert queue.metrics.unique_holder("report") is None
    assert again(queue, Unique("report")) == "enqueued"


def test_a_job_that_a_stock_peer_buried_holds_nothing(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x", unique=Unique("report")).job_id
    raw.zrem(queue.keys.pending, job_id)
    raw.hset(queue.keys.job(job_id), "state", "dead")
    raw.zadd(queue.keys.dead, {job_id: 0})
    assert again(queue, Unique("report")) == "enqueued"


def test_a_row_that_stands_nowhere_holds_nothing(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x", unique=Unique("report")).job_id
    raw.zrem(queue.keys.pending, job_id)
    assert again(queue, Unique("report")) == "enqueued"


def test_a_job_brought_back_holds_its_key_again(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x", unique=Unique("report", ttl=60)).job_id
    queue.jobs.retry(only(queue), 0, 1)
    queue.jobs.reprocess(job_id)
    assert queue.jobs.enqueue(b"y", unique=Unique("report")) == Admission(job_id, "duplicate")
    assert 0 < raw.pttl(queue.keys.base + b"de:report") <= 60_000


def test_a_job_brought_back_takes_the_key_from_nobody(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x", unique=Unique("report")).job_id
    queue.jobs.retry(only(queue), 0, 1)
    other = queue.jobs.enqueue(b"y", unique=Unique("report")).job_id
    queue.jobs.reprocess(job_id)
    assert queue.metrics.unique_holder("report") == other
    queue.jobs.remove(job_id)
    assert queue.metrics.unique_holder("report") == other


# until="started"


def test_a_claim_frees_a_key_that_is_held_until_the_start(queue: Queue) -> None:
    first = queue.jobs.enqueue(b"x", unique=STARTED).job_id
    assert queue.jobs.enqueue(b"y", unique=STARTED) == Admission(first, "duplicate")
    claim = only(queue)
    second = queue.jobs.enqueue(b"y", unique=STARTED)
    assert second.outcome == "enqueued"
    queue.jobs.complete(claim)
    assert queue.metrics.unique_holder("report") == second.job_id


def test_a_claim_frees_no_key_that_another_holds_by_now(queue: Queue) -> None:
    queue.jobs.enqueue(b"x", unique=STARTED)
    first = only(queue)
    second = queue.jobs.enqueue(b"y", unique=STARTED).job_id
    queue.jobs.release(first)
    assert only(queue).job_id == first.job_id
    assert queue.metrics.unique_holder("report") == second


def test_a_started_job_that_is_lost_in_a_crash_blocks_nobody(
    queue: Queue, raw: redis.Redis
) -> None:
    queue.jobs.enqueue(b"x", unique=STARTED)
    lapse(queue, raw, only(queue))
    queue.jobs.reap()
    assert again(queue, STARTED) == "enqueued"


# until="ttl"


@pytest.mark.parametrize("end", ["nothing", "complete", "dead", "cancel", "remove", "drain"])
def test_only_time_frees_a_throttled_key(queue: Queue, raw: redis.Redis, end: str) -> None:
    job_id = queue.jobs.enqueue(b"x", unique=FOR_A_TIME).job_id
    if end == "complete":
        queue.jobs.complete(only(queue))
    elif end == "dead":
        queue.jobs.retry(only(queue), 0, 1)
    elif end == "cancel":
        queue.jobs.cancel(job_id)
    elif end == "remove":
        queue.jobs.remove(job_id)
    elif end == "drain":
        queue.admin.drain()
    for unique in (FOR_A_TIME, Unique("report"), STARTED):
        assert queue.jobs.enqueue(b"y", unique=unique) == Admission(job_id, "duplicate")
    run_out(queue, raw)
    assert again(queue, FOR_A_TIME) == "enqueued"


def test_a_key_taken_after_its_time_is_freed_by_the_end_of_its_job(
    queue: Queue, raw: redis.Redis
) -> None:
    queue.jobs.enqueue(b"x", unique=FOR_A_TIME)
    run_out(queue, raw)
    other = queue.jobs.enqueue(b"y", unique=Unique("report")).job_id
    queue.jobs.remove(other)
    assert queue.metrics.unique_holder("report") is None


def test_the_index_of_throttled_keys_is_cleared_as_they_end(queue: Queue, raw: redis.Redis) -> None:
    index = queue.keys.base + b"throttled"
    raw.zadd(index, {f"old{i}": 1 for i in range(15)})
    queue.jobs.enqueue(b"x", unique=FOR_A_TIME)
    assert raw.zcard(index) == 6
    raw.zadd(index, {"older": 1})
    queue.run("jobs/tick", 100, 0, 0, 0, 0, "", "")
    assert raw.zrange(index, 0, -1) == [b"report"]


# on_conflict="replace"


@pytest.mark.parametrize("lane", [None, "acme"])
@pytest.mark.parametrize("delay", [None, 60])
def test_a_job_that_waits_is_replaced(
    queue: Queue, raw: redis.Redis, lane: str | None, delay: int | None
) -> None:
    options: dict[str, Any] = {"lane": lane, "unique": DEBOUNCE}
    for body in (b"1", b"2", b"3"):
        if delay is None:
            admission = queue.jobs.enqueue(body, **options)
            assert admission.outcome == "enqueued"
        else:
            admission = queue.jobs.enqueue_in(body, delay, **options)
            assert admission.outcome == "scheduled"
    assert queue.metrics.unique_holder("report") == admission.job_id
    fall_due(queue, raw, admission.job_id)
    queue.jobs.promote()
    assert [claim.payload for claim in queue.jobs.claim(10)] == [b"3"]
    ended = queue.jobs.browse("completed", newest_first=False)
    assert [(job.payload, job.fields["state"]) for job in ended] == [
        (b"1", b"cancelled"),
        (b"2", b"cancelled"),
    ]
    assert ended[1].last_error == f"replaced by {admission.job_id}"


def test_with_nothing_kept_nothing_is_left_of_a_replaced_job(
    make_queue: MakeQueue, raw: redis.Redis
) -> None:
    queue = make_queue(keep_completed_ms=0)
    replaced = queue.jobs.enqueue(b"1", unique=DEBOUNCE).job_id
    queue.jobs.add_log(replaced, "line")
    queue.jobs.enqueue(b"2", unique=DEBOUNCE)
    assert not [name for name in names(queue, raw) if replaced in name]


def test_a_job_in_hand_is_not_replaced(queue: Queue) -> None:
    queue.jobs.enqueue(b"1", unique=DEBOUNCE)
    claim = only(queue)
    assert queue.jobs.enqueue(b"2", unique=DEBOUNCE) == Admission(claim.job_id, "duplicate")
    queue.jobs.complete(claim)


def test_a_job_that_waits_for_its_next_try_is_replaced(queue: Queue) -> None:
    queue.jobs.enqueue(b"1", unique=DEBOUNCE)
    failed = only(queue)
    queue.jobs.retry(failed, 60)
    assert again(queue, DEBOUNCE) == "enqueued"
    assert queue.jobs.state(failed.job_id) == "cancelled"


def test_a_throttled_key_is_passed_on_while_its_job_waits(queue: Queue, raw: redis.Redis) -> None:
    both = Unique("report", ttl=60, until="ttl", on_conflict="replace")
    queue.jobs.enqueue(b"1", unique=both)
    second = queue.jobs.enqueue(b"2", unique=both)
    assert second.outcome == "enqueued"
    queue.jobs.complete(only(queue))
    assert queue.jobs.enqueue(b"3", unique=both) == Admission(second.job_id, "duplicate")


def test_a_duplicate_leaves_the_record_of_an_earlier_life_alone(queue: Queue) -> None:
    own = "JOB0NsVQMCRgHI"
    queue.jobs.enqueue(b"x", job_id=own)
    queue.jobs.complete(only(queue), b"result")
    holder = queue.jobs.enqueue(b"y", unique=Unique("report")).job_id
    assert queue.jobs.enqueue(b"z", job_id=own, unique=Unique("report")).job_id == holder
    assert queue.jobs.get(own).result == b"result"


# A reply that is lost


@pytest.mark.parametrize("unique", [STARTED, FOR_A_TIME, DEBOUNCE])
def test_an_admission_whose_reply_was_lost_is_no_conflict_with_itself(
    queue: Queue, lossy: Queue, proxy: Proxy, raw: redis.Redis, unique: Unique
) -> None:
    proxy.lose_reply(script("jobs/enqueue").sha)
    admission = lossy.jobs.enqueue(b"x", unique=unique)
    assert proxy.lost == 1
    assert admission.outcome == "enqueued"
    assert queue.metrics.unique_holder("report") == admission.job_id
    assert queue.metrics.counts("pending") == {"pending": 1}
    assert queue.jobs.browse("completed") == []


def test_a_foreign_value_under_the_index_stops_no_admission(queue: Queue, raw: redis.Redis) -> None:
    raw.set(queue.keys.base + b"throttled", "x")
    assert again(queue, FOR_A_TIME) == "enqueued"
    raw.hset(queue.keys.base + b"de:hash", "a", "b")
    assert again(queue, Unique("hash")) == "enqueued"
    before = snapshot(queue, raw)
    assert again(queue, Unique("hash")) == "duplicate"
    assert snapshot(queue, raw) == before
