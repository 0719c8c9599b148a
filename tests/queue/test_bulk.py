"""Verbs over many jobs: bounded, exact, safe to interrupt, to repeat, to run beside workers."""

from __future__ import annotations

import time
from collections.abc import Callable
from datetime import timedelta
from itertools import pairwise
from typing import Any

import pytest
import redis

from django_echomq.queue import Queue
from django_echomq.queue.admin import Admin
from django_echomq.wire.errors import InvalidId, JobGone, PayloadTooLarge, WrongState
from django_echomq.wire.ids import min_for
from django_echomq.wire.scripts import script
from tests.queue.keyspace import check_ring, names, server_ms, snapshot
from tests.wire.monitor import recorded
from tests.wire.proxy import Proxy

MakeQueue = Callable[..., Queue]
GONE = "JOB0NsVQMCRgHI"


class Interrupted(Exception):
    """Somebody pressed a key."""


def interrupt(done: int, total: int) -> None:
    raise Interrupted


def fill(queue: Queue, count: int, where: str) -> None:
    """So many jobs of a state, in the flat set and in lanes, of several priorities."""
    steps = [(None, 0), ("a", 0), (None, 5), ("b", -5)]
    for i, (lane, priority) in enumerate(steps):
        share = len(range(i, count, len(steps)))
        if where == "scheduled":
            queue.drive(
                queue.jobs.admission(
                    [b"x"] * share, lane=lane, priority=priority, when="in", ms=3_600_000
                )
            )
        else:
            queue.jobs.enqueue_many([b"x"] * share, lane=lane, priority=priority)
    if where in ("dead", "completed", "cancelled"):
        kill(queue, where)


def kill(queue: Queue, where: str = "dead") -> None:
    """Ends everything that waits."""
    slot, settlements = queue.client.take_slot(), []
    while True:
        call = queue.jobs.exchange_call(slot, settlements, 500, "w")
        claims = queue.jobs.exchange_answer(queue.drive(queue.client.run(call))).claims
        if not claims:
            return
        ends = {
            "dead": lambda claim: queue.jobs.failure(claim, 0, 1, "boom"),
            "completed": queue.jobs.completion,
            "cancelled": lambda claim: queue.jobs.cancellation(claim, "stop"),
        }
        settlements = [ends[where](claim) for claim in claims]


def size(queue: Queue, raw: redis.Redis, where: str) -> int:
    if where in ("completed", "cancelled"):
        return raw.zcard(queue.keys.outcomes)
    return queue.metrics.counts(where)[where]


VERBS: dict[str, tuple[str, Callable[..., int]]] = {
    "drain": ("pending", lambda q, **o: q.admin.drain(**o)),
    "drain all": ("scheduled", lambda q, **o: q.admin.drain(True, **o)),
    "reprocess_all": ("dead", lambda q, **o: q.admin.reprocess_all(**o)),
    "promote_all": ("scheduled", lambda q, **o: q.admin.promote_all(**o)),
    **{
        f"clean {state}": (state, lambda q, s=state, **o: q.admin.clean(s, 0, **o))
        for state in ("dead", "completed", "cancelled", "scheduled", "pending")
    },
}
verbs = pytest.mark.parametrize("verb", VERBS)


# What every bulk verb keeps


@verbs
def test_a_verb_goes_step_by_step_and_tells(queue: Queue, raw: redis.Redis, verb: str) -> None:
    where, run = VERBS[verb]
    fill(queue, 350, where)
    told: list[tuple[int, int]] = []
    assert run(queue, progress=lambda *step: told.append(step)) == 350
    assert told[-1] == (350, 350)
    assert len(told) >= 4
    assert all(here - before <= 100 for (before, _), (here, _) in pairwise(told))
    assert size(queue, raw, where) == 0
    assert run(queue) == 0
    check_ring(queue, raw)


@verbs
def test_a_verb_that_is_interrupted_is_finished_by_running_it_again(
    queue: Queue, raw: redis.Redis, verb: str
) -> None:
    where, run = VERBS[verb]
    fill(queue, 350, where)
    left = 350
    for _ in range(2):
        with pytest.raises(Interrupted):
            run(queue, progress=interrupt)
        assert left - 100 <= size(queue, raw, where) < left
        left = size(queue, raw, where)
        check_ring(queue, raw)
    assert run(queue) == left
    assert size(queue, raw, where) == 0


@verbs
def test_a_step_whose_reply_was_lost_is_counted_once(
    queue: Queue, lossy: Queue, proxy: Proxy, raw: redis.Redis, verb: str
) -> None:
    where, run = VERBS[verb]
    fill(queue, 250, where)
    time.sleep(0.002)  # ids of one millisecond are in no order, and theirs are another client's
    name = "admin/" + verb.split()[0]
    if verb in ("clean pending", "clean scheduled"):
        name = "admin/drain"
    proxy.lose_reply(script(name).sha, times=2)
    assert run(lossy) == 250
    assert proxy.lost == 2
    assert size(queue, raw, where) == 0


@verbs
def test_a_verb_over_an_empty_queue_writes_nothing(
    queue: Queue, raw: redis.Redis, verb: str
) -> None:
    assert VERBS[verb][1](queue) == 0
    assert {name for name in names(queue, raw) if not name.startswith("ledger:")} == set()


@verbs
def test_members_without_a_row_stop_no_verb(queue: Queue, raw: redis.Redis, verb: str) -> None:
    where, run = VERBS[verb]
    fill(queue, 10, where)
    places = {"pending": "pending", "scheduled": "schedule", "dead": "dead"}
    place = queue.keys.base + places.get(where, "outcomes").encode()
    raw.zadd(place, {min_for(server_ms(raw) - 60_000): 0, b'\xff,"': 0})
    assert run(queue) >= 10
    assert not raw.zrangebylex(place, b"[JOB", b"[JOC")


# A drain


def test_a_drain_beside_hundreds_of_lanes(queue: Queue, raw: redis.Redis) -> None:
    for lane in range(520):
        queue.jobs.enqueue(b"x", lane=f"l{lane}")
    raw.hset(queue.keys.base + b"glimit", "l0", 1)
    queue.jobs.enqueue(b"x", lane="l0")
    queue.jobs.claim(1)
    raw.sadd(queue.keys.base + b"paused", "l1")
    raw.lrem(queue.keys.base + b"ring", 0, "l1")
    assert queue.admin.drain() == 520
    assert raw.llen(queue.keys.base + b"ring") == 0
    assert queue.metrics.counts("pending", "active") == {"pending": 0, "active": 1}


def test_a_drain_never_takes_what_is_active(queue: Queue, raw: redis.Redis) -> None:
    held = queue.jobs.enqueue(b"x").job_id
    (claim,) = queue.jobs.claim()
    raw.zadd(queue.keys.pending, {held: 0})  # as a stock peer may leave it
    assert queue.admin.drain() == 0
    queue.jobs.complete(claim)


def test_what_is_promoted_during_a_drain_of_all_is_drained(queue: Queue) -> None:
    for _ in range(150):
        queue.jobs.enqueue_in(b"x", 3_600)
    late = [queue.jobs.enqueue_in(b"x", 7_200, lane=lane).job_id for lane in (None, "a")]

    def meanwhile(done: int, total: int) -> None:
        while late:
            queue.jobs.promote_now(late.pop())

    assert queue.admin.drain(include_scheduled=True, progress=meanwhile) == 152


# Reprocessing


def test_every_dead_job_comes_back_where_it_belongs(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x", lane="acme", priority=7).job_id
    for _ in range(2):
        (claim,) = queue.jobs.claim()
        assert queue.jobs.retry(claim, 0, 1, "boom") == "dead"
        assert queue.admin.reprocess_all() == 1
        assert raw.zscore(queue.keys.lane("acme"), job_id) == -7
    (claim,) = queue.jobs.claim()
    assert (claim.attempts, claim.attempt) == (3, 1)
    assert raw.exists(queue.keys.dead, queue.keys.base + b"died") == 0


@pytest.fixture
def coarse(monkeypatch: pytest.MonkeyPatch) -> None:
    """All that happens in a second is of the same time, as what happens in a millisecond is."""
    now_ms = Admin._now_ms
    monkeypatch.setattr(Admin, "_now_ms", lambda admin: now_ms(admin) // 1_000 * 1_000 + 999)


@pytest.mark.usefixtures("coarse")
def test_what_dies_again_meanwhile_is_not_brought_back_twice(queue: Queue) -> None:
    fill(queue, 250, "dead")
    rounds = 0

    def meanwhile(done: int, total: int) -> None:
        nonlocal rounds
        rounds += 1
        queue.jobs.enqueue_many([b"new"] * 30)
        kill(queue)

    assert queue.admin.reprocess_all(progress=meanwhile) == 250
    assert queue.metrics.counts("dead") == {"dead": 250 + 30 * rounds}
    assert {job.attempts for job in queue.jobs.browse("dead", limit=1_000)} == {1, 2}


def test_reprocessing_wakes_who_is_parked(queue: Queue, raw: redis.Redis) -> None:
    fill(queue, 5, "dead")
    raw.delete(queue.keys.wake)
    queue.admin.reprocess_all()
    assert raw.llen(queue.keys.wake) >= 5


# Promoting


def test_all_that_is_scheduled_is_claimable(queue: Queue) -> None:
    fill(queue, 120, "scheduled")
    assert queue.admin.promote_all() == 120
    assert len(queue.jobs.claim(500)) == 120


@pytest.mark.usefixtures("coarse")
def test_what_fails_again_meanwhile_is_not_promoted_twice(queue: Queue) -> None:
    fill(queue, 250, "scheduled")

    def meanwhile(done: int, total: int) -> None:
        for claim in queue.jobs.claim(500):
            queue.jobs.retry(claim, 7_200, 10)
        queue.jobs.enqueue_in(b"new", 7_200)

    assert queue.admin.promote_all(progress=meanwhile) == 250
    assert {job.attempts for job in queue.jobs.browse("scheduled", limit=1_000)} == {0, 1}


# Cleaning


def age(queue: Queue, raw: redis.Redis, key: bytes, seconds: int) -> None:
    raw.hset(key, "finished_at", server_ms(raw) - seconds * 1000)


@pytest.mark.parametrize("state", ["dead", "completed", "cancelled"])
def test_what_ended_is_cleaned_by_its_end(queue: Queue, raw: redis.Redis, state: str) -> None:
    old, young, other = (queue.jobs.enqueue(b"x").job_id for _ in range(3))
    claims = {claim.job_id: claim for claim in queue.jobs.claim(3)}
    for job_id in (old, young):
        if state == "dead":
            queue.jobs.retry(claims[job_id], 0, 1)
        elif state == "completed":
            queue.jobs.complete(claims[job_id])
        else:
            queue.jobs.release(claims[job_id])
            queue.jobs.cancel(job_id)
        queue_key = queue.keys.job(job_id) if state == "dead" else queue.keys.outcome(job_id)
        age(queue, raw, queue_key, 120 if job_id == old else 30)
    if state != "completed":
        queue.jobs.complete(claims[other])
    assert queue.admin.clean(state, timedelta(minutes=1)) == 1
    assert queue.jobs.state(old) == "absent"
    assert not [name for name in names(queue, raw) if old in name]
    assert queue.jobs.state(young) == state
    assert queue.admin.clean(state, 0) == 1
    assert queue.jobs.state(other) == ("active" if state == "completed" else "completed")


@pytest.mark.parametrize("state", ["pending", "scheduled"])
def test_what_waits_is_cleaned_by_its_mint_time(queue: Queue, raw: redis.Redis, state: str) -> None:
    old = min_for(server_ms(raw) - 120_000)
    young = min_for(server_ms(raw) - 30_000)
    for job_id in (old, young):
        if state == "pending":
            queue.jobs.enqueue(b"x", job_id=job_id, lane="a")
        else:
            queue.jobs.enqueue_in(b"x", 60, job_id=job_id)
    assert queue.admin.clean(state, 60) == 1
    assert queue.jobs.state(old) == "absent"
    assert queue.jobs.state(young) == state


@pytest.mark.parametrize("state", ["dead", "completed", "pending"])
def test_a_clean_takes_no_more_than_asked(queue: Queue, raw: redis.Redis, state: str) -> None:
    fill(queue, 250, state)
    assert queue.admin.clean(state, 0, limit=130) == 130
    assert size(queue, raw, state) == 120


@pytest.mark.parametrize(
    ("args", "error"),
    [
        (("active", 0), ValueError),
        (("wait", 0), ValueError),
        (("dead", -1), ValueError),
        (("dead", float("nan")), ValueError),
        (("dead", "1"), TypeError),
        (("dead", 0, 0), ValueError),
        (("dead", 0, True), TypeError),
        (("dead", 0, 1.5), TypeError),
    ],
)
def test_a_clean_of_what_cannot_be_meant_sends_nothing(
    queue: Queue, raw: redis.Redis, args: tuple[Any, ...], error: type[Exception]
) -> None:
    with recorded(raw) as recording:
        with pytest.raises(error):
            queue.admin.clean(*args)
        assert recording.sent() == []


# Obliterating


def test_an_obliterate_whose_replies_are_lost_ends_well(
    queue: Queue, lossy: Queue, proxy: Proxy, raw: redis.Redis
) -> None:
    fill(queue, 250, "dead")
    queue.admin.pause()
    proxy.lose_reply(script("admin/obliterate").sha, times=4)
    assert lossy.admin.obliterate() == 250
    assert proxy.lost == 4
    assert names(queue, raw) == set()


def test_an_obliterate_that_is_interrupted_leaves_the_queue_paused(
    queue: Queue, raw: redis.Redis
) -> None:
    fill(queue, 250, "pending")
    queue.admin.pause()
    with pytest.raises(Interrupted):
        queue.admin.obliterate(progress=interrupt)
    assert queue.admin.is_paused()
    check_ring(queue, raw)
    left = queue.metrics.counts("pending")["pending"]
    assert 0 < left < 250
    assert queue.admin.obliterate() == left
    assert names(queue, raw) == set()


# Verdicts


def test_each_id_has_its_verdict(queue: Queue) -> None:
    dead, held, waiting = (queue.jobs.enqueue(b"x").job_id for _ in range(3))
    claim, _ = queue.jobs.claim(2)
    queue.jobs.retry(claim, 0, 1)
    ids = [dead, held, waiting, GONE]
    assert queue.jobs.cancel_many(ids) == ["refused", "asked", "done", "gone"]
    assert queue.jobs.reprocess_many(ids) == ["done", "refused", "done", "gone"]
    assert queue.jobs.remove_many(ids) == ["done", "refused", "done", "gone"]
    assert queue.jobs.remove_many([]) == []


@pytest.mark.parametrize("verb", ["cancel", "reprocess", "remove"])
def test_many_verdicts_survive_a_lost_reply(
    queue: Queue, lossy: Queue, proxy: Proxy, verb: str
) -> None:
    fill(queue, 150, "dead" if verb == "reprocess" else "pending")
    where = "dead" if verb == "reprocess" else "pending"
    ids = [job.id for job in queue.jobs.browse(where, limit=1_000)]
    many = {
        "cancel": lossy.jobs.cancel_many,
        "reprocess": lossy.jobs.reprocess_many,
        "remove": lossy.jobs.remove_many,
    }
    proxy.lose_reply(script(f"jobs/{verb}").sha, times=2)
    assert many[verb](ids) == ["done"] * len(ids)
    assert proxy.lost == 2


def test_an_id_that_is_none_stops_all_before_anything_is_sent(
    queue: Queue, raw: redis.Redis
) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    with recorded(raw) as recording:
        for many in (queue.jobs.cancel_many, queue.jobs.reprocess_many, queue.jobs.remove_many):
            with pytest.raises(InvalidId):
                many([job_id, "nonsense"])
        assert recording.sent() == []


# One row's payload


@pytest.mark.parametrize("where", ["pending", "scheduled", "dead"])
def test_the_next_attempt_gets_the_new_payload(queue: Queue, where: str) -> None:
    job_id = queue.jobs.enqueue(b"old", lane="a").job_id
    if where == "scheduled":
        queue.jobs.reschedule(job_id, 253_402_300_799_999)
    elif where == "dead":
        queue.jobs.retry(queue.jobs.claim()[0], 0, 1)
    queue.jobs.update_data(job_id, "n\u00e9w")
    if where == "scheduled":
        queue.jobs.promote_now(job_id)
    elif where == "dead":
        queue.jobs.reprocess(job_id)
    assert queue.jobs.claim()[0].payload == "n\u00e9w".encode()


def test_the_payload_of_a_job_in_hand_stays_and_the_refusal_says_so(
    queue: Queue, raw: redis.Redis
) -> None:
    job_id = queue.jobs.enqueue(b"old").job_id
    queue.jobs.claim()
    before = snapshot(queue, raw)
    with pytest.raises(WrongState, match="a worker holds the job; its payload stays as it is"):
        queue.jobs.update_data(job_id, b"new")
    assert snapshot(queue, raw) == before


def test_an_edit_that_is_repeated_after_the_job_was_claimed_is_no_refusal(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"old").job_id
    queue.jobs.update_data(job_id, b"new")
    queue.jobs.claim()
    queue.jobs.update_data(job_id, b"new")


def test_what_is_too_large_or_gone_is_not_edited(make_queue: MakeQueue, raw: redis.Redis) -> None:
    queue = make_queue(max_payload=10)
    job_id = queue.jobs.enqueue(b"old").job_id
    queue.jobs.complete(queue.jobs.claim()[0])
    before = snapshot(queue, raw)
    for gone in (job_id, GONE):
        with pytest.raises(JobGone):
            queue.jobs.update_data(gone, b"new")
    with pytest.raises(PayloadTooLarge):
        queue.jobs.update_data(job_id, b"x" * 11)
    with pytest.raises(TypeError):
        queue.jobs.update_data(job_id, {"a": 1})  # type: ignore[arg-type]
    with pytest.raises(InvalidId):
        queue.jobs.update_data("nonsense", b"new")
    assert snapshot(queue, raw) == before
