"""EchoMQ's conformance scenarios by name, as far as they are served.

Each plays on a queue of its own and asserts what the original's scenario of that name asserts.
"""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import replace

import pytest
import redis

from django_echomq.queue import Claim, Queue, Settled, Unique
from django_echomq.queue.backoff import Exponential
from django_echomq.queue.cancel import Cancelled, CancelToken
from django_echomq.queue.events import Event
from django_echomq.wire.client import Client
from django_echomq.wire.endpoint import WIRE_VERSION
from django_echomq.wire.errors import (
    ActiveJobs,
    JobGone,
    JobLocked,
    NotDead,
    NotPaused,
    RateLimited,
    StaleToken,
    WrongKind,
)
from django_echomq.wire.ids import process_mint
from tests.conftest import wait_until

MakeQueue = Callable[..., Queue]


def only(claims: list[Claim]) -> Claim:
    (claim,) = claims
    return claim


def promoted(queue: Queue) -> int:
    return int(wait_until(queue.jobs.promote, "a due job", step=0.002))


def test_fence(client: Client, raw: redis.Redis) -> None:
    assert client.drive(client.command("PING")) == b"PONG"
    assert raw.get("{emq}:version") == WIRE_VERSION == b"echomq:3.0.0"


def test_mint(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"payload").job_id
    assert raw.hgetall(queue.keys.job(job_id)) == {
        b"state": b"pending",
        b"attempts": b"0",
        b"payload": b"payload",
    }


def test_duplicate(queue: Queue) -> None:
    job_id = process_mint.mint(1)
    assert queue.jobs.enqueue(b"first", job_id=job_id).outcome == "enqueued"
    again = queue.jobs.enqueue(b"second", job_id=job_id)
    assert (again.job_id, again.outcome) == (job_id, "duplicate")
    assert queue.jobs.get(job_id).payload == b"first"


def test_kind(queue: Queue, raw: redis.Redis) -> None:
    order = process_mint.mint(1, "ORD")
    with pytest.raises(WrongKind):
        queue.jobs.enqueue(b"x", job_id=order)
    assert not raw.exists(queue.keys.job(order))


def test_kind_is_refused_by_the_script_too(queue: Queue, raw: redis.Redis) -> None:
    order = process_mint.mint(1, "ORD")
    args = ("slot.1", 1, "now", 0, "", 0, "own", "", 0, "done", "skip", 0, 0, order, b"x")
    with pytest.raises(WrongKind):
        queue.run("jobs/enqueue", *args)
    assert raw.keys(queue.keys.base + b"*") == []


def test_order(queue: Queue) -> None:
    ids = [queue.jobs.enqueue(b"x").job_id for _ in range(3)]
    assert [job.id for job in queue.jobs.browse("pending")] == ids[::-1]


def test_claim(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"payload").job_id
    claim = only(queue.jobs.claim())
    assert (claim.job_id, claim.payload, claim.attempts) == (job_id, b"payload", 1)
    assert raw.hget(queue.keys.job(job_id), "state") == b"active"


def test_stale(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x")
    claim = only(queue.jobs.claim())
    raw.script_flush()
    with pytest.raises(StaleToken):
        queue.jobs.complete(replace(claim, attempts=99))
    queue.jobs.complete(claim)


def test_complete(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.complete(only(queue.jobs.claim()))
    assert not raw.exists(queue.keys.job(job_id))
    assert raw.zscore(queue.keys.active, job_id) is None


def test_retry(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    claim = only(queue.jobs.claim())
    assert queue.jobs.retry(claim, 0.010, 3, "boom") is Settled.SCHEDULED
    assert queue.jobs.state(job_id) == "scheduled"
    assert queue.jobs.get(job_id).last_error == "boom"
    assert promoted(queue) == 1
    again = only(queue.jobs.claim())
    assert again.attempts == 2
    queue.jobs.complete(again)


def test_dead(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    assert queue.jobs.retry(only(queue.jobs.claim()), 0, 1, "boom") is Settled.DEAD
    assert queue.jobs.state(job_id) == "dead"
    assert queue.jobs.get(job_id).last_error == "boom"
    assert raw.zscore(queue.keys.dead, job_id) == 0


def test_reap(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.claim(lease=0.030)
    assert wait_until(queue.jobs.reap, "the lease to lapse", step=0.002) == 1
    assert queue.jobs.state(job_id) == "pending"
    assert only(queue.jobs.claim()).attempts == 2


def test_schedule(queue: Queue) -> None:
    job_id = queue.jobs.enqueue_in(b"x", 0.030).job_id
    assert queue.jobs.state(job_id) == "scheduled"
    assert queue.jobs.claim() == []
    assert promoted(queue) == 1
    assert only(queue.jobs.claim()).attempts == 1


def test_backoff(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    curve = Exponential(base_ms=1, cap_ms=10)
    for attempt in (1, 2, 3):
        claim = only(queue.jobs.claim())
        assert claim.attempts == attempt
        word = queue.jobs.retry(claim, curve.delay_ms(attempt) / 1000, 3, f"boom {attempt}")
        if attempt < 3:
            assert word is Settled.SCHEDULED
            assert promoted(queue) == 1
    assert word is Settled.DEAD
    assert queue.jobs.get(job_id).last_error == "boom 3"


def test_repeat(queue: Queue) -> None:
    queue.repeat.register("tick", payload=b"x", every=0.010)
    wait_until(queue.repeat.fire, step=0.002)
    wait_until(queue.repeat.fire, step=0.002)
    assert queue.repeat.cancel("tick")
    first, second = queue.jobs.browse("pending", newest_first=False)[:2]
    assert first.id < second.id


def test_batch_delay(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.delay(only(queue.jobs.claim()), 0.030)
    assert queue.jobs.get(job_id).attempts == 1
    assert raw.zscore(queue.keys.schedule, job_id) is not None
    assert raw.zscore(queue.keys.active, job_id) is None
    assert queue.jobs.claim() == []
    assert promoted(queue) == 1
    assert only(queue.jobs.claim()).attempts == 2


def test_batch_delay_stale(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x")
    claim = only(queue.jobs.claim())
    raw.script_flush()
    with pytest.raises(StaleToken):
        queue.jobs.delay(replace(claim, attempts=99), 1)
    queue.jobs.delay(claim, 1)
    with pytest.raises(JobGone):
        queue.jobs.delay(replace(claim, job_id=process_mint.mint(1)), 1)


def test_counts(queue: Queue) -> None:
    for _ in range(4):
        queue.jobs.enqueue(b"x")
    queue.jobs.enqueue_in(b"later", 3600)
    queue.jobs.claim()
    counts = queue.metrics.counts("pending", "active", "scheduled", "dead")
    assert counts == {"pending": 3, "active": 1, "scheduled": 1, "dead": 0}
    with pytest.raises(ValueError, match="wait"):
        queue.metrics.counts("wait")


def test_state(queue: Queue) -> None:
    first = queue.jobs.enqueue(b"x").job_id
    later = queue.jobs.enqueue_in(b"x", 3600).job_id
    missing = process_mint.mint(1)
    queue.jobs.claim()
    assert queue.jobs.state(first) == "active"
    assert queue.jobs.state(later) == "scheduled"
    assert queue.jobs.state(missing) == "absent"
    assert queue.jobs.get(first).payload == b"x"
    with pytest.raises(JobGone):
        queue.jobs.get(missing)


def test_metrics(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x")
    assert queue.metrics.counts("completed") == {"completed": 0}
    queue.jobs.complete(only(queue.jobs.claim()))
    assert queue.metrics.counts("completed") == {"completed": 1}
    assert raw.llen(queue.keys.metric("completed") + b":data") == 0


def test_events(queue: Queue) -> None:
    job_id = process_mint.mint(1)
    with queue.events.subscribe() as events:
        assert queue.events.publish("completed", job_id) == 1
        assert next(events) == Event("completed", job_id)


def test_resubscribe(queue: Queue, raw: redis.Redis) -> None:
    with queue.events.subscribe() as events:
        raw.execute_command("CLIENT", "KILL", "TYPE", "pubsub")
        wait_until(lambda: raw.pubsub_numsub(queue.keys.events)[0][1] == 1, step=0.002)
        assert raw.publish(queue.keys.events, b'{"event":"completed","job":"x"}') == 1
        assert next(events) == Event("completed", "x")


def test_queue_pause(queue: Queue) -> None:
    queue.jobs.enqueue(b"x")
    queue.admin.pause()
    assert queue.admin.is_paused()
    assert queue.jobs.claim() == []
    assert queue.metrics.counts("pending") == {"pending": 1}
    queue.admin.resume()
    assert len(queue.jobs.claim()) == 1


def test_lock_extend(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    claim = only(queue.jobs.claim(lease=0.050))
    queue.jobs.extend_lock(claim, 60)
    time.sleep(0.060)
    assert queue.jobs.reap() == 0
    assert queue.jobs.state(job_id) == "active"
    with pytest.raises(StaleToken):
        queue.jobs.extend_lock(replace(claim, attempts=99), 60)
    with pytest.raises(JobGone):
        queue.jobs.extend_lock(replace(claim, job_id=process_mint.mint(1)), 60)


def test_extend_locks_batch(queue: Queue) -> None:
    queue.jobs.enqueue_many([b"x"] * 3)
    good, stale, gone = queue.jobs.claim(3)
    stale = replace(stale, attempts=99)
    gone = replace(gone, job_id=process_mint.mint(1))
    assert queue.jobs.extend_locks([good, stale, gone], 60) == [stale.job_id, gone.job_id]


def test_stalled(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.claim(lease=0.005)
    wait_until(lambda: queue.stalled.check(max_stalled=2).recovered, step=0.002)
    assert queue.jobs.state(job_id) == "pending"
    assert not queue.stalled.is_stalled(job_id)
    queue.jobs.claim(lease=0.005)
    wait_until(lambda: queue.stalled.check(max_stalled=2).dead, step=0.002)
    assert queue.jobs.get(job_id).last_error == "stalled"
    assert queue.stalled.is_stalled(job_id)


def test_stalled_group(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x", lane="PRT0NsVQMCRgHI").job_id
    queue.jobs.claim(lease=0.005)
    wait_until(lambda: queue.stalled.check(max_stalled=2).recovered, step=0.002)
    assert raw.zscore(queue.keys.lane("PRT0NsVQMCRgHI"), job_id) == 0
    assert raw.zscore(queue.keys.pending, job_id) is None
    claim = only(queue.jobs.claim())
    assert (claim.attempts, claim.lane) == (2, "PRT0NsVQMCRgHI")


def test_cancel() -> None:
    token = CancelToken()
    assert token.check() is None
    token.cancel("the reason")
    assert token.check() == "the reason"
    with pytest.raises(Cancelled, match="the reason"):
        token.raise_if_cancelled()


@pytest.fixture
def expires_fields(raw: redis.Redis) -> None:
    try:
        raw.execute_command("HPTTL", "none", "FIELDS", 1, "lock")
    except redis.ResponseError:
        pytest.skip("this server has no time to live for fields")


@pytest.mark.usefixtures("expires_fields")
def test_native_lock_field(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    claim = only(queue.jobs.claim(lease=30))
    key = queue.keys.job(job_id)
    queue.jobs.extend_lock(claim, 30)
    assert 0 < raw.execute_command("HPTTL", key, "FIELDS", 1, "lock")[0] <= 60_000
    assert 0 < raw.pttl(key + b":lock") <= 60_000
    raw.execute_command("HPEXPIREAT", key, 1, "FIELDS", 1, "lock")
    assert not raw.hexists(key, "lock")
    assert raw.hget(key, "state") == b"active"


@pytest.mark.usefixtures("expires_fields")
def test_native_lock_refuses(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    key = queue.keys.job(job_id)
    raw.hset(key, "lock", "1")
    raw.execute_command("HPEXPIRE", key, 60_000, "FIELDS", 1, "lock")
    with pytest.raises(JobLocked):
        queue.jobs.remove(job_id)
    raw.execute_command("HPEXPIREAT", key, 1, "FIELDS", 1, "lock")
    queue.jobs.remove(job_id)
    assert queue.jobs.state(job_id) == "absent"


def test_reap_group(queue: Queue) -> None:
    mine = queue.jobs.enqueue(b"x", lane="mine").job_id
    other = queue.jobs.enqueue(b"x", lane="other").job_id
    queue.jobs.claim(2, lease=0.005)
    assert wait_until(lambda: queue.lanes.reap("mine"), step=0.002) == 1
    assert queue.jobs.state(mine) == "pending"
    assert queue.jobs.state(other) == "active"
    assert only(queue.jobs.claim()).attempts == 2


def test_drain(queue: Queue, raw: redis.Redis) -> None:
    held = queue.jobs.enqueue(b"x").job_id
    queue.jobs.claim()
    ids = [queue.jobs.enqueue(b"x").job_id for _ in range(3)]
    assert queue.admin.drain() == 3
    assert not any(raw.exists(queue.keys.job(job_id)) for job_id in ids)
    assert queue.jobs.state(held) == "active"


def test_obliterate(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x")
    with pytest.raises(NotPaused):
        queue.admin.obliterate()
    assert queue.metrics.counts("pending") == {"pending": 1}
    queue.admin.pause()
    assert queue.admin.obliterate() == 1
    assert not any(queue.metrics.counts().values())


def test_obliterate_grouped(queue: Queue, raw: redis.Redis) -> None:
    for lane in ("a", "b"):
        queue.jobs.enqueue_many([b"x"] * 3, lane=lane)
    queue.jobs.claim(2)
    queue.admin.pause()
    with pytest.raises(ActiveJobs):
        queue.admin.obliterate()
    assert queue.admin.obliterate(force=True) == 6
    assert raw.keys(queue.keys.base + b"*") == []


def test_dedup(queue: Queue) -> None:
    assert queue.metrics.unique_holder("did") is None
    job_id = queue.jobs.enqueue(b"x", unique=Unique("did")).job_id
    assert queue.metrics.unique_holder("did") == job_id


def test_dedup_release(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x", unique=Unique("mine")).job_id
    orphan = queue.keys.base + b"de:orphan"
    raw.set(orphan, process_mint.mint(1))
    queue.jobs.remove(job_id)
    assert queue.metrics.unique_holder("mine") is None
    assert raw.exists(orphan)


def test_update_data(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"old").job_id
    queue.jobs.update_data(job_id, b"new")
    assert queue.jobs.get(job_id).payload == b"new"
    with pytest.raises(JobGone):
        queue.jobs.update_data(process_mint.mint(1), b"new")


def test_update_progress(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    with raw.pubsub(ignore_subscribe_messages=True) as subscriber:
        subscriber.subscribe(queue.keys.events)
        subscriber.get_message(timeout=5)
        queue.jobs.update_progress(job_id, "50")
        message = wait_until(subscriber.get_message)
    assert json.loads(message["data"]) == {"event": "progress", "job": job_id, "progress": "50"}
    assert queue.jobs.get(job_id).progress == "50"
    with pytest.raises(JobGone):
        queue.jobs.update_progress(process_mint.mint(1), "50")


def test_job_logs(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    assert [queue.jobs.add_log(job_id, line) for line in ("1", "2")] == [1, 2]
    assert queue.jobs.logs(job_id) == ["1", "2"]
    assert queue.jobs.add_log(job_id, "3", keep=2) == 2
    assert queue.jobs.logs(job_id) == ["2", "3"]
    missing = process_mint.mint(1)
    with pytest.raises(JobGone):
        queue.jobs.add_log(missing, "1")
    with pytest.raises(JobGone):
        queue.jobs.logs(missing)


def test_remove_job(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x", unique=Unique("did")).job_id
    locked = queue.jobs.enqueue(b"x").job_id
    queue.jobs.remove(job_id)
    assert raw.exists(queue.keys.job(job_id), queue.keys.base + b"de:did") == 0
    raw.set(queue.keys.job(locked) + b":lock", "1", px=60_000)
    with pytest.raises(JobLocked):
        queue.jobs.remove(locked)
    assert queue.jobs.state(locked) == "pending"
    with pytest.raises(JobGone):
        queue.jobs.remove(job_id)


def test_reprocess_job(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    with pytest.raises(NotDead):
        queue.jobs.reprocess(job_id)
    queue.jobs.retry(only(queue.jobs.claim()), 0, 1, "boom")
    queue.jobs.reprocess(job_id)
    job = queue.jobs.get(job_id)
    assert (job.state, job.last_error) == ("pending", None)
    with pytest.raises(JobGone):
        queue.jobs.reprocess(process_mint.mint(1))


def test_unknown_state(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.claim()
    deadline = raw.zscore(queue.keys.active, job_id)
    raw.zrem(queue.keys.active, job_id)
    assert queue.jobs.state(job_id) == "unknown"
    raw.zadd(queue.keys.active, {job_id: deadline})
    assert queue.jobs.state(job_id) == "active"
    assert queue.jobs.state(process_mint.mint(1)) == "absent"


def test_batch_claim(queue: Queue, raw: redis.Redis) -> None:
    ids = [queue.jobs.enqueue(b"x").job_id for _ in range(8)]
    claims = queue.jobs.claim(4)
    assert [claim.job_id for claim in claims] == ids[:4]
    assert {claim.attempts for claim in claims} == {1}
    assert len({raw.zscore(queue.keys.active, job_id) for job_id in ids[:4]}) == 1


def test_batch_claim_short(queue: Queue) -> None:
    for _ in range(3):
        queue.jobs.enqueue(b"x")
    assert len(queue.jobs.claim(7)) == 3
    assert queue.jobs.claim(7) == []
    queue.jobs.enqueue(b"x")
    queue.admin.pause()
    assert queue.jobs.claim(7) == []
    assert queue.metrics.counts("pending") == {"pending": 1}


# Lanes and limits. A claim of the original serves one lane; ours goes on through as many turns as
# it has room for. A turn of the original's is a claim of one job here, a weighted turn as many
# claims of one, and its claim of a whole lane is a claim while no other lane is to be served.


def lane_ids(queue: Queue, lane: str, count: int) -> list[str]:
    return [admission.job_id for admission in queue.jobs.enqueue_many([b"x"] * count, lane=lane)]


def turns(queue: Queue, count: int) -> list[str | None]:
    return [claim.lane for _ in range(count) for claim in queue.jobs.claim()]


def test_rotate(queue: Queue) -> None:
    for lane in ("PRT0NsVQMCRgHI", "PRT0NsVQMCRgHJ"):
        lane_ids(queue, lane, 2)
    assert turns(queue, 4) == ["PRT0NsVQMCRgHI", "PRT0NsVQMCRgHJ"] * 2


def test_pause(queue: Queue) -> None:
    for lane in ("a", "b"):
        lane_ids(queue, lane, 2)
    queue.lanes.pause("a")
    assert turns(queue, 3) == ["b", "b"]
    assert queue.lanes.depth("a") == 2
    queue.lanes.resume("a")
    assert turns(queue, 1) == ["a"]


def test_limit(queue: Queue) -> None:
    queue.lanes.limit("a", 1)
    lane_ids(queue, "a", 2)
    claim = only(queue.jobs.claim())
    assert queue.jobs.claim() == []
    queue.jobs.complete(claim)
    assert only(queue.jobs.claim()).lane == "a"


def test_lane_depth(queue: Queue) -> None:
    lane_ids(queue, "a", 2)
    lane_ids(queue, "b", 1)
    assert queue.lanes.depths() == {"a": 2, "b": 1}


def test_rate(queue: Queue, raw: redis.Redis) -> None:
    raw.hset(queue.keys.meta, "concurrency", 1)
    queue.jobs.enqueue(b"x")
    assert not queue.metrics.is_maxed()
    queue.jobs.claim()
    assert queue.metrics.is_maxed()
    with pytest.raises(RateLimited):
        queue.run("metrics/is_maxed")


def test_rate_consult(queue: Queue, raw: redis.Redis) -> None:
    raw.hset(queue.keys.meta, "concurrency", 1)
    queue.jobs.enqueue_many([b"x"] * 2)
    claim = only(queue.jobs.claim())
    assert queue.jobs.claim(5) == []
    assert queue.metrics.counts("active", "pending") == {"active": 1, "pending": 1}
    queue.jobs.complete(claim)
    assert not queue.metrics.is_maxed()
    only(queue.jobs.claim())


def test_reassign(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x", lane="src").job_id
    assert queue.lanes.reassign(job_id, "dst") == "moved"
    assert raw.zscore(queue.keys.lane("src"), job_id) is None
    assert raw.zscore(queue.keys.lane("dst"), job_id) == 0
    assert raw.hget(queue.keys.job(job_id), "group") == b"dst"
    assert queue.lanes.reassign(job_id, "dst") == "noop"
    gactive = queue.keys.base + b"gactive"
    claim = only(queue.jobs.claim())
    assert raw.hgetall(gactive) == {b"dst": b"1"}
    assert queue.lanes.reassign(job_id, "third") == "moved"
    assert raw.hgetall(gactive) == {b"third": b"1"}
    queue.jobs.complete(claim)
    assert not raw.exists(gactive)


def test_lane_drain(queue: Queue, raw: redis.Redis) -> None:
    queue.repeat.register("tick", payload=b"x", every=3600)
    held = lane_ids(queue, "a", 1)
    claim = only(queue.jobs.claim())
    gone = lane_ids(queue, "a", 2)
    (sibling,) = lane_ids(queue, "b", 1)
    queue.jobs.add_log(gone[0], "line")
    assert queue.lanes.drain("a") == 2
    assert [queue.jobs.state(job_id) for job_id in gone] == ["absent"] * 2
    assert not raw.exists(queue.keys.logs(gone[0]))
    assert raw.lrange(queue.keys.base + b"ring", 0, -1) == [b"b"]
    assert (queue.jobs.state(sibling), queue.jobs.state(held[0])) == ("pending", "active")
    assert queue.repeat.count() == 1
    assert queue.lanes.drain("absent") == 0
    queue.jobs.complete(claim)


def test_weighted_proportion(queue: Queue) -> None:
    queue.lanes.weight("a", 3)
    for lane in ("a", "b"):
        lane_ids(queue, lane, 60)
    served = turns(queue, 80)
    a, b = served.count("a"), served.count("b")
    assert b > 0
    assert 2 * b <= a <= 4 * b
    assert queue.metrics.counts("active") == {"active": 80}


def test_starvation_drill(queue: Queue) -> None:
    queue.lanes.weight("heavy", 5)
    lane_ids(queue, "heavy", 200)
    for lane in ("light", "lighter"):
        lane_ids(queue, lane, 6)
    # Nine turns of a heavy lane's five and two of one.
    assert {"light", "lighter"} <= set(turns(queue, 5 + 1 + 1))
    assert len(turns(queue, 300)) == 212 - 7


def test_grouped_batch_affinity(queue: Queue, raw: redis.Redis) -> None:
    ids = lane_ids(queue, "a", 4)
    claims = queue.jobs.claim(4)
    assert [(claim.job_id, claim.lane) for claim in claims] == [(each, "a") for each in ids]
    assert len({raw.zscore(queue.keys.active, job_id) for job_id in ids}) == 1


def test_grouped_batch_affinity_beside_another_lane(queue: Queue) -> None:
    """A lane's weight is the size of its batch: so many of one lane come in one claim."""
    queue.lanes.weight("a", 4)
    ids = lane_ids(queue, "a", 8)
    lane_ids(queue, "b", 4)
    assert [claim.job_id for claim in queue.jobs.claim(4)] == ids[:4]


def test_grouped_batch_ceiling(queue: Queue, raw: redis.Redis) -> None:
    queue.lanes.limit("a", 3)
    ids = lane_ids(queue, "a", 8)
    claims = queue.jobs.claim(8)
    assert [claim.job_id for claim in claims] == ids[:3]
    assert raw.hget(queue.keys.base + b"gactive", "a") == b"3"
    assert queue.jobs.claim(8) == []
    queue.jobs.complete(claims[0])
    assert only(queue.jobs.claim(8)).job_id == ids[3]


def test_grouped_batch_fairness(queue: Queue) -> None:
    lanes = {"heavy": 40, "light": 6, "lighter": 6}
    for lane, count in lanes.items():
        queue.lanes.limit(lane, 2)
        lane_ids(queue, lane, count)
    served: list[str | None] = []
    for _ in range(9):
        claims = queue.jobs.claim(2)
        served += [claim.lane for claim in claims]
        for claim in claims:
            queue.jobs.complete(claim)
    assert set(served) == set(lanes)
    while claims := queue.jobs.claim(50):
        for claim in claims:
            queue.jobs.complete(claim)
    assert queue.lanes.depths() == {}
