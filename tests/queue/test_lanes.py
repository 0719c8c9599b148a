"""The verbs of lanes."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from django_echomq.queue import Lane, Queue, Reassignment, Unique
from django_echomq.wire.errors import InvalidName, JobGone, WrongState
from django_echomq.wire.ids import process_mint
from tests.queue.keyspace import check_ring, endless, in_hand, lapse, names, places, ring

MakeQueue = Callable[..., Queue]


def lanes_of(queue: Queue, count: int) -> list[str | None]:
    return [claim.lane for claim in queue.jobs.claim(count)]


# Settings


def test_a_paused_lane_gives_nothing_and_keeps_its_jobs(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue_many([b"x"] * 3, lane="a")
    assert queue.lanes.pause("a") is True
    assert queue.lanes.pause("a") is False
    assert queue.jobs.claim(5) == []
    queue.jobs.enqueue(b"x", lane="a")
    assert ring(queue, raw) == []
    assert queue.lanes.resume("a") is True
    assert queue.lanes.resume("a") is False
    assert lanes_of(queue, 5) == ["a"] * 4


def test_a_lane_that_goes_on_wakes_a_worker_per_job(queue: Queue, raw: redis.Redis) -> None:
    queue.lanes.pause("a")
    queue.lanes.limit("b", 1)
    queue.jobs.enqueue_many([b"x"] * 5, lane="a")
    queue.jobs.enqueue_many([b"x"] * 5, lane="b")
    queue.jobs.claim(2)
    raw.delete(queue.keys.wake)
    queue.lanes.resume("a")
    assert raw.llen(queue.keys.wake) >= 5
    raw.delete(queue.keys.wake)
    queue.lanes.limit("b", 4)
    assert raw.llen(queue.keys.wake) >= 3


def test_a_limit_holds_at_once_and_is_lifted_at_once(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue_many([b"x"] * 6, lane="a")
    queue.jobs.claim(2)
    queue.lanes.limit("a", 2)
    assert queue.jobs.claim(5) == []
    assert ring(queue, raw) == []
    queue.lanes.limit("a", 3)
    assert len(queue.jobs.claim(5)) == 1
    queue.lanes.limit("a", None)
    assert len(queue.jobs.claim(5)) == 3


def test_weights_give_proportion_whatever_a_claim_asks_for(make_queue: MakeQueue) -> None:
    found = []
    for at_once in (1, 2, 3, 5, 30):
        queue = make_queue()
        queue.lanes.weight("a", 3)
        for lane in ("a", "b", None):
            queue.jobs.enqueue_many([b"x"] * 30, lane=lane)
        found.append([lane for _ in range(30 // at_once) for lane in lanes_of(queue, at_once)])
    assert found == [found[0]] * 5
    assert (found[0].count("a"), found[0].count("b"), found[0].count(None)) == (18, 6, 6)


@pytest.mark.parametrize("change", ["pause", "drain", "lighter"])
def test_a_turn_cut_short_is_over_when_its_lane_changes(
    queue: Queue, raw: redis.Redis, change: str
) -> None:
    queue.lanes.weight("a", 5)
    for lane in ("a", "b"):
        queue.jobs.enqueue_many([b"x"] * 9, lane=lane)
    assert lanes_of(queue, 2) == ["a", "a"]
    if change == "pause":
        queue.lanes.pause("a")
    elif change == "drain":
        # Jobs minted within this second may be drained too, which the test does not mind.
        queue.lanes.drain("a")
    else:
        queue.lanes.weight("a", None)
    assert "b" in lanes_of(queue, 5)
    check_ring(queue, raw)


def test_settings_outlive_an_empty_lane_and_leave_no_key_without(
    queue: Queue, raw: redis.Redis
) -> None:
    lanes = queue.lanes
    lanes.limit("a", 2)
    lanes.weight("a", 3)
    lanes.pause("a")
    queue.jobs.enqueue(b"x", lane="a")
    queue.jobs.remove(queue.jobs.browse(lane="a")[0].id)
    assert lanes.all() == [Lane("a", 0, 0, 2, 3, True, False)]
    lanes.limit("a", None)
    lanes.weight("a", None)
    lanes.resume("a")
    assert lanes.all() == []
    assert endless(queue, raw) <= {"wake"}


@pytest.mark.parametrize("value", [0, -1, 1_000_001, 1.5, True, "3"])
@pytest.mark.parametrize("verb", ["limit", "weight"])
def test_a_number_that_makes_no_sense_is_refused(
    queue: Queue, raw: redis.Redis, verb: str, value: object
) -> None:
    with pytest.raises((TypeError, ValueError), match=r"whole number|between"):
        getattr(queue.lanes, verb)("a", value)
    assert names(queue, raw) == set()


@pytest.mark.parametrize("name", ["", "a b", "{a}", "a:b", "a" * 129, "é", None, 5])
def test_a_name_that_is_none_is_refused(queue: Queue, raw: redis.Redis, name: object) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    before = names(queue, raw)
    lanes = queue.lanes
    for verb in (
        lanes.pause,
        lanes.resume,
        lanes.depth,
        lanes.drain,
        lambda lane: lanes.limit(lane, 1),
        lambda lane: lanes.weight(lane, 1),
    ):
        with pytest.raises(InvalidName):
            verb(name)
    if name is not None:
        with pytest.raises(InvalidName):
            lanes.reassign(job_id, name)
    assert names(queue, raw) == before


# Reading


def test_all_tells_every_lane_as_it_stands(queue: Queue) -> None:
    lanes = queue.lanes
    assert lanes.all() == []
    queue.jobs.enqueue_many([b"x"] * 3, lane="busy")
    queue.jobs.enqueue_many([b"x"] * 2, lane="full")
    queue.jobs.enqueue(b"x", lane="quiet")
    lanes.limit("full", 1)
    lanes.weight("heavy", 4)
    lanes.pause("quiet")
    queue.jobs.claim(2)
    assert lanes.all() == [
        Lane("busy", 2, 1, None, 1, False, True),
        Lane("full", 1, 1, 1, 1, False, False),
        Lane("heavy", 0, 0, None, 4, False, False),
        Lane("quiet", 1, 0, None, 1, True, False),
    ]
    assert lanes.depths() == {"busy": 2, "full": 1, "quiet": 1}
    assert [lanes.depth(lane) for lane in ("busy", "heavy", "none")] == [2, 0, 0]


def test_garbage_in_the_settings_can_be_read(queue: Queue, raw: redis.Redis) -> None:
    base = queue.keys.base
    raw.hset(base + b"glimit", "a", "x")
    raw.hset(base + b"gweight", "a", "-5")
    raw.hset(base + b"gactive", "a", "")
    raw.sadd(base + b"paused", b"\xff")
    assert queue.lanes.all() == [
        Lane("a", 0, 0, None, 1, False, False),
        Lane("\\xff", 0, 0, None, 1, True, False),
    ]


# Draining


def test_a_drain_takes_all_that_waits_in_the_lane(queue: Queue, raw: redis.Redis) -> None:
    (unique,) = [queue.jobs.enqueue(b"x", lane="a", unique=Unique("key")).job_id]
    queue.jobs.add_log(unique, "line")
    queue.jobs.enqueue_many([b"x"] * 1_500, lane="a")
    other = queue.jobs.enqueue(b"x", lane="b").job_id
    flat = queue.jobs.enqueue(b"x").job_id
    parked = queue.jobs.enqueue_in(b"x", 3600, lane="a").job_id
    (held,) = [claim for claim in queue.jobs.claim(3) if claim.lane == "a"]
    told: list[tuple[int, int]] = []
    assert queue.lanes.drain("a", progress=lambda *step: told.append(step)) == 1_500
    assert told[-1] == (1_500, 1_500)
    assert len(told) >= 2
    assert [queue.jobs.state(each) for each in (other, flat)] == ["active", "active"]
    assert queue.jobs.state(parked) == "scheduled"
    assert in_hand(queue, raw) == {"a": 1, "b": 1}
    assert ring(queue, raw) == []
    if held.job_id != unique:
        assert raw.exists(queue.keys.base + b"de:key", queue.keys.logs(unique)) == 0
    assert queue.lanes.drain("a") == 0
    assert queue.lanes.drain("absent") == 0


def test_members_without_a_row_are_drained_too(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue_many([b"x"] * 3, lane="a")
    for job in queue.jobs.browse(lane="a"):
        raw.delete(queue.keys.job(job.id))
    assert queue.lanes.drain("a") == 3
    assert ring(queue, raw) == []


# Reassigning


@pytest.mark.parametrize(("source", "target"), [("a", "b"), ("a", None), (None, "b")])
def test_a_waiting_job_is_moved(
    queue: Queue, raw: redis.Redis, source: str | None, target: str | None
) -> None:
    job_id = queue.jobs.enqueue(b"x", lane=source, priority=7).job_id
    assert queue.lanes.reassign(job_id, target) is Reassignment.MOVED
    place = "pending" if target is None else f"g:{target}:pending"
    assert places(queue, raw, job_id) == [place]
    assert raw.zscore(queue.keys.base + place.encode(), job_id) == -7
    assert queue.jobs.get(job_id).lane == target
    check_ring(queue, raw)
    assert queue.lanes.reassign(job_id, target) is Reassignment.NOOP
    assert lanes_of(queue, 1) == [target]


@pytest.mark.parametrize(("source", "target"), [("a", "b"), ("a", None), (None, "b")])
def test_a_job_in_hand_counts_in_its_new_lane(
    queue: Queue, raw: redis.Redis, source: str | None, target: str | None
) -> None:
    for lane in ("a", "b"):
        queue.lanes.limit(lane, 1)
    queue.jobs.enqueue_many([b"x"] * 2, lane=source)
    (claim,) = queue.jobs.claim(1)
    queue.jobs.enqueue_many([b"x"] * 2, lane="b")
    assert queue.lanes.reassign(claim.job_id, target) is Reassignment.MOVED
    assert in_hand(queue, raw) == ({} if target is None else {target: 1})
    check_ring(queue, raw)
    if source == "a":
        assert "a" in ring(queue, raw)
    queue.jobs.release(claim)
    assert in_hand(queue, raw) == {}
    assert queue.jobs.get(claim.job_id).lane == target
    assert places(queue, raw, claim.job_id) == [
        "pending" if target is None else f"g:{target}:pending"
    ]
    check_ring(queue, raw)


def test_a_job_in_hand_that_lapses_goes_to_its_new_lane(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x", lane="a")
    (claim,) = queue.jobs.claim()
    queue.lanes.reassign(claim.job_id, "b")
    lapse(queue, raw, claim)
    assert queue.jobs.reap() == 1
    assert places(queue, raw, claim.job_id) == ["g:b:pending"]
    assert in_hand(queue, raw) == {}


def test_what_neither_waits_nor_is_in_hand_is_not_moved(queue: Queue) -> None:
    parked = queue.jobs.enqueue_in(b"x", 3600, lane="a").job_id
    dead = queue.jobs.enqueue(b"x", lane="a").job_id
    queue.jobs.retry(queue.jobs.claim()[0], max_attempts=1)
    for job_id in (parked, dead):
        for lane in ("a", "b", None):
            with pytest.raises(WrongState):
                queue.lanes.reassign(job_id, lane)
        assert queue.jobs.get(job_id).lane == "a"
    with pytest.raises(JobGone):
        queue.lanes.reassign(process_mint.mint(1), "b")


# Keys of another type in the way

SPOILS = ("ring", "paused", "glimit", "gactive", "gweight", "g:a:pending", "meta", "wake", "rate")


@pytest.mark.parametrize("key", SPOILS)
@pytest.mark.parametrize("weight", [None, 3])
def test_a_foreign_key_in_the_way_loses_no_job(
    queue: Queue, raw: redis.Redis, key: str, weight: int | None
) -> None:
    queue.lanes.weight("a", weight)
    queue.lanes.weight("b", weight)
    queue.admin.limit_rate("1000/s")
    ids = {
        lane: {each.job_id for each in queue.jobs.enqueue_many([b"x"] * 4, lane=lane)}
        for lane in ("a", "b", None)
    }
    spoiled = queue.keys.base + key.encode()
    raw.delete(spoiled)
    raw.xadd(spoiled, {"foreign": "1"})
    first = queue.jobs.claim(5)
    assert first
    for claim in first:
        queue.jobs.release(claim) if claim.lane is None else queue.jobs.complete(claim)
    claims = queue.jobs.claim(100)
    for claim in claims:
        queue.jobs.complete(claim)
    if key == "ring":
        # Lanes wait until it is out of the way; the flat set does not.
        assert {claim.job_id for claim in claims} == ids[None]
        assert queue.lanes.depth("a") + queue.lanes.depth("b") == 8
    else:
        served = {claim.job_id for claim in first + claims}
        assert served == set().union(*ids.values()) - (ids["a"] if key == "g:a:pending" else set())


def test_an_active_set_of_another_type_is_met_before_anything_is_taken(
    queue: Queue, raw: redis.Redis
) -> None:
    ids = [queue.jobs.enqueue(b"x", lane=lane).job_id for lane in ("a", None)]
    raw.set(queue.keys.active, "foreign")
    with pytest.raises(redis.ResponseError):
        queue.jobs.claim(5)
    raw.delete(queue.keys.active)
    assert {claim.job_id for claim in queue.jobs.claim(5)} == set(ids)
