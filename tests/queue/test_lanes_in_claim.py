"""Lanes: their turns, weights, limits and pauses, and the ring that holds those to be served."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from django_echomq.queue import Claim, Queue
from django_echomq.wire.client import Client
from django_echomq.wire.endpoint import Endpoint
from tests.queue.keyspace import check_ring, fall_due, in_hand, lapse, places, ring

MakeQueue = Callable[..., Queue]
End = Callable[[Queue, redis.Redis, Claim], object]


def reap(queue: Queue, raw: redis.Redis, claim: Claim) -> None:
    lapse(queue, raw, claim)
    assert queue.jobs.reap() == 1


def bury_as_stalled(queue: Queue, raw: redis.Redis, claim: Claim) -> None:
    lapse(queue, raw, claim)
    assert queue.stalled.check(max_stalled=1).dead == 1


ENDS: dict[str, End] = {
    "complete": lambda queue, raw, claim: queue.jobs.complete(claim),
    "retry": lambda queue, raw, claim: queue.jobs.retry(claim, 60),
    "die": lambda queue, raw, claim: queue.jobs.retry(claim, max_attempts=1),
    "release": lambda queue, raw, claim: queue.jobs.release(claim),
    "reap": reap,
    "stall": bury_as_stalled,
}
every_end = pytest.mark.parametrize("end", ENDS.values(), ids=ENDS)


def weigh(queue: Queue, raw: redis.Redis, lane: str, weight: Any) -> None:
    raw.hset(queue.keys.base + b"gweight", lane, weight)


def limit(queue: Queue, raw: redis.Redis, lane: str, most: Any) -> None:
    raw.hset(queue.keys.base + b"glimit", lane, most)


def fill(queue: Queue, *lanes: str | None, each: int = 4) -> None:
    for lane in lanes:
        queue.jobs.enqueue_many([b"x"] * each, lane=lane)


def turns(queue: Queue, count: int, at_once: int = 1) -> list[str | None]:
    """The lanes of so many claims, in the order they were given."""
    return [claim.lane for _ in range(count) for claim in queue.jobs.claim(at_once)]


# Turns


def test_lanes_take_turns(queue: Queue) -> None:
    fill(queue, "a", "b", each=3)
    assert turns(queue, 6) == ["a", "b", "a", "b", "a", "b"]


def test_lanes_take_turns_within_one_claim(queue: Queue) -> None:
    fill(queue, "a", "b", "c", each=2)
    assert turns(queue, 1, at_once=6) == ["a", "b", "c", "a", "b", "c"]


def test_the_flat_set_has_its_turn_among_the_lanes(queue: Queue) -> None:
    fill(queue, "a", "b", None, each=3)
    found = turns(queue, 9)
    for start in (0, 3, 6):
        assert set(found[start : start + 3]) == {"a", "b", None}


def test_the_flat_set_has_its_turn_within_one_claim(queue: Queue) -> None:
    fill(queue, "a", "b", None, each=3)
    found = turns(queue, 1, at_once=9)
    for start in (0, 3, 6):
        assert set(found[start : start + 3]) == {"a", "b", None}


def test_the_size_of_a_claim_does_not_change_the_turns(make_queue: MakeQueue) -> None:
    found = []
    for at_once in (1, 2, 3, 12):
        queue = make_queue()
        fill(queue, "a", "b", None)
        found.append(turns(queue, 12 // at_once, at_once))
    assert found == [found[0]] * 4


def test_a_flood_does_not_starve_the_others(queue: Queue) -> None:
    fill(queue, "flood", each=300)
    fill(queue, "quiet", None, each=1)
    assert {"quiet", None} <= set(turns(queue, 3))


def test_a_lane_that_is_empty_is_passed_over(queue: Queue) -> None:
    fill(queue, "a", each=1)
    fill(queue, "b", each=3)
    assert turns(queue, 4) == ["a", "b", "b", "b"]


def test_lanes_alone_are_claimed_to_the_end(queue: Queue, raw: redis.Redis) -> None:
    fill(queue, "a", "b", None, each=5)
    assert len(queue.jobs.claim(100)) == 15
    assert ring(queue, raw) == []
    assert queue.jobs.claim(1) == []


def test_a_flat_set_that_fills_later_gets_its_turn(queue: Queue) -> None:
    fill(queue, "a", each=20)
    turns(queue, 7)
    fill(queue, None, each=1)
    assert None in turns(queue, 2)


def test_no_turn_is_noted_once_all_lanes_are_empty(queue: Queue, raw: redis.Redis) -> None:
    fill(queue, "a", "b", None)
    queue.jobs.claim(3)
    assert raw.hexists(queue.keys.meta, "turns")
    queue.jobs.claim(100)
    assert not raw.hexists(queue.keys.meta, "turns")


@pytest.mark.parametrize("garbage", ["", "x", "-5", "1e400", "nan", "2.5"])
def test_garbage_for_the_turns_loses_no_job(queue: Queue, raw: redis.Redis, garbage: str) -> None:
    fill(queue, "a", None)
    raw.hset(queue.keys.meta, "turns", garbage)
    assert len(queue.jobs.claim(100)) == 8


def test_priority_holds_within_a_lane(queue: Queue) -> None:
    low = queue.jobs.enqueue(b"x", lane="a", priority=-1).job_id
    high = queue.jobs.enqueue(b"x", lane="a", priority=1).job_id
    assert [claim.job_id for claim in queue.jobs.claim(2)] == [high, low]


# Weights


def test_a_lane_of_weight_three_takes_three_per_turn(queue: Queue, raw: redis.Redis) -> None:
    weigh(queue, raw, "a", 3)
    fill(queue, "a", "b", each=6)
    assert turns(queue, 1, at_once=8) == ["a", "a", "a", "b", "a", "a", "a", "b"]


def test_a_weight_takes_no_more_than_was_asked_for(queue: Queue, raw: redis.Redis) -> None:
    weigh(queue, raw, "a", 50)
    fill(queue, "a", "b", each=6)
    assert turns(queue, 1, at_once=4) == ["a"] * 4


def test_a_weight_takes_no_more_than_the_lane_has_or_may(queue: Queue, raw: redis.Redis) -> None:
    weigh(queue, raw, "a", 5)
    limit(queue, raw, "a", 2)
    fill(queue, "a", "b", each=4)
    assert turns(queue, 1, at_once=4) == ["a", "a", "b", "b"]
    assert in_hand(queue, raw) == {"a": 2, "b": 2}


@pytest.mark.parametrize("weight", ["", "x", "1e400"])
def test_a_weight_that_is_no_number_loses_no_job(
    queue: Queue, raw: redis.Redis, weight: str
) -> None:
    weigh(queue, raw, "a", weight)
    fill(queue, "a", None)
    assert len(queue.jobs.claim(100)) == 8


@pytest.mark.parametrize("weight", ["0", "-1", "nan", "0.5", "2.5"])
def test_an_odd_weight_neither_hangs_the_server_nor_loses_a_job(
    disposable: Endpoint, weight: str
) -> None:
    queue = Queue("odd", Client(disposable, retry_for=0.0))
    fill(queue, "a", None)
    with redis.Redis(unix_socket_path=disposable.options["path"]) as raw:
        weigh(queue, raw, "a", weight)
    assert len(queue.jobs.claim(100)) == 8
    queue.client.close()


# Limits


def test_a_lane_gives_no_more_than_its_limit(queue: Queue, raw: redis.Redis) -> None:
    limit(queue, raw, "a", 2)
    fill(queue, "a", each=5)
    assert len(queue.jobs.claim(10)) == 2
    assert queue.jobs.claim(10) == []
    assert in_hand(queue, raw) == {"a": 2}
    assert ring(queue, raw) == []


def test_a_limit_does_not_hold_the_others_up(queue: Queue, raw: redis.Redis) -> None:
    limit(queue, raw, "a", 1)
    fill(queue, "a", "b", None, each=3)
    assert sorted(map(str, turns(queue, 1, at_once=100))) == ["None"] * 3 + ["a"] + ["b"] * 3


@every_end
def test_each_end_of_a_claim_makes_room_below_the_limit(
    queue: Queue, raw: redis.Redis, end: End
) -> None:
    limit(queue, raw, "a", 1)
    fill(queue, "a", each=2)
    (claim,) = queue.jobs.claim(10)
    assert ring(queue, raw) == []
    end(queue, raw, claim)
    assert in_hand(queue, raw) == {}
    check_ring(queue, raw)
    assert [each.lane for each in queue.jobs.claim(10)] == ["a"]


@every_end
def test_room_below_a_limit_rings(queue: Queue, raw: redis.Redis, end: End) -> None:
    limit(queue, raw, "a", 1)
    fill(queue, "a", each=2)
    (claim,) = queue.jobs.claim(10)
    assert raw.exists(queue.keys.wake) == 0
    end(queue, raw, claim)
    assert raw.llen(queue.keys.wake) >= 1


@pytest.mark.parametrize("most", ["0", "-1", "nan"])
def test_a_lane_of_no_room_gives_nothing(queue: Queue, raw: redis.Redis, most: str) -> None:
    limit(queue, raw, "a", most)
    fill(queue, "a", "b")
    assert set(turns(queue, 1, at_once=10)) == {"b"}


@pytest.mark.parametrize("most", ["", "x", "inf"])
def test_a_limit_that_is_no_number_is_none(queue: Queue, raw: redis.Redis, most: str) -> None:
    limit(queue, raw, "a", most)
    fill(queue, "a")
    assert len(queue.jobs.claim(10)) == 4


def test_a_fractional_limit_loses_no_job(queue: Queue, raw: redis.Redis) -> None:
    limit(queue, raw, "a", "2.5")
    weigh(queue, raw, "a", 5)
    fill(queue, "a", None)
    assert 6 <= len(queue.jobs.claim(10)) <= 7


def test_a_limit_that_was_lowered_below_what_runs_holds(queue: Queue, raw: redis.Redis) -> None:
    fill(queue, "a", each=6)
    claims = queue.jobs.claim(3)
    limit(queue, raw, "a", 2)
    assert queue.jobs.claim(10) == []
    queue.jobs.complete(claims[0])
    assert queue.jobs.claim(10) == []
    queue.jobs.complete(claims[1])
    assert len(queue.jobs.claim(10)) == 1


# Jobs in hand per lane


@every_end
def test_each_end_of_a_claim_is_counted_off(queue: Queue, raw: redis.Redis, end: End) -> None:
    fill(queue, "a", "b", None, each=2)
    claims = queue.jobs.claim(6)
    assert in_hand(queue, raw) == {"a": 2, "b": 2}
    end(queue, raw, next(claim for claim in claims if claim.lane == "a"))
    assert in_hand(queue, raw) == {"a": 1, "b": 2}
    check_ring(queue, raw)


@every_end
def test_a_lane_with_nothing_in_hand_has_no_count(queue: Queue, raw: redis.Redis, end: End) -> None:
    fill(queue, "a", each=1)
    end(queue, raw, queue.jobs.claim()[0])
    assert raw.exists(queue.keys.base + b"gactive") == 0


def test_a_refused_settlement_counts_nobody_off(queue: Queue, raw: redis.Redis) -> None:
    fill(queue, "a", each=1)
    (claim,) = queue.jobs.claim()
    stale = Claim(claim.job_id, b"", 9)
    assert queue.jobs._exchange([queue.jobs.completion(stale)], 0).settled == ["stale"]
    assert in_hand(queue, raw) == {"a": 1}


def test_a_late_completion_counts_nobody_off_twice(queue: Queue, raw: redis.Redis) -> None:
    fill(queue, "a", each=2)
    first, second = queue.jobs.claim(2)
    reap(queue, raw, first)
    queue.jobs.complete(first)
    assert in_hand(queue, raw) == {"a": 1}
    queue.jobs.complete(second)
    assert in_hand(queue, raw) == {}


def test_a_count_below_zero_is_removed(queue: Queue, raw: redis.Redis) -> None:
    fill(queue, "a", each=1)
    (claim,) = queue.jobs.claim()
    raw.hset(queue.keys.base + b"gactive", "a", -3)
    queue.jobs.complete(claim)
    assert raw.exists(queue.keys.base + b"gactive") == 0


# Pauses


def test_a_lane_paused_by_hand_gives_nothing(queue: Queue, raw: redis.Redis) -> None:
    raw.sadd(queue.keys.base + b"paused", "a")
    fill(queue, "a", "b")
    check_ring(queue, raw)
    assert set(turns(queue, 1, at_once=10)) == {"b"}
    assert queue.metrics.counts("pending") == {"pending": 4}


def test_a_lane_paused_while_it_stood_in_the_ring_leaves_it(queue: Queue, raw: redis.Redis) -> None:
    fill(queue, "a", each=1)
    (claim,) = queue.jobs.claim()
    raw.sadd(queue.keys.base + b"paused", "a")
    queue.jobs.release(claim)
    assert ring(queue, raw) == []
    assert queue.jobs.claim(5) == []


@every_end
def test_an_end_of_a_claim_keeps_a_paused_lane_out_of_the_ring(
    queue: Queue, raw: redis.Redis, end: End
) -> None:
    fill(queue, "a", each=2)
    (claim,) = queue.jobs.claim()
    raw.sadd(queue.keys.base + b"paused", "a")
    raw.delete(queue.keys.base + b"ring")
    end(queue, raw, claim)
    check_ring(queue, raw)
    assert in_hand(queue, raw) == {}


# The ring


def test_a_lane_stands_in_the_ring_once(queue: Queue, raw: redis.Redis) -> None:
    fill(queue, "a", each=5)
    queue.jobs.enqueue_at(b"x", 1, lane="a")
    queue.jobs.promote()
    assert ring(queue, raw) == ["a"]


def test_a_lane_that_stood_in_the_ring_twice_stands_there_once_when_it_leaves(
    queue: Queue, raw: redis.Redis
) -> None:
    fill(queue, "a", each=1)
    raw.rpush(queue.keys.base + b"ring", "a")
    queue.jobs.claim(5)
    assert ring(queue, raw) == []


def test_a_lane_in_the_ring_without_jobs_leaves_it(queue: Queue, raw: redis.Redis) -> None:
    raw.rpush(queue.keys.base + b"ring", "x", "y", "z")
    fill(queue, "a", None, each=1)
    assert len(queue.jobs.claim(10)) == 2
    assert ring(queue, raw) == []


def test_ghosts_in_a_lane_do_not_take_the_place_of_its_jobs(queue: Queue, raw: redis.Redis) -> None:
    raw.zadd(queue.keys.lane("a"), {f"JOB{i:011}": 0 for i in range(50)})
    job_id = queue.jobs.enqueue(b"x", lane="a").job_id
    assert [claim.job_id for claim in queue.jobs.claim()] == [job_id]
    check_ring(queue, raw)


def test_ghosts_beside_a_lane_do_not_take_the_place_of_the_flat_jobs(
    queue: Queue, raw: redis.Redis
) -> None:
    raw.zadd(queue.keys.pending, {f"JOB{i:011}": 0 for i in range(50)})
    fill(queue, "a", None, each=1)
    assert {claim.lane for claim in queue.jobs.claim(2)} == {"a", None}


def test_the_ring_holds_what_can_be_served_after_each_verb(queue: Queue, raw: redis.Redis) -> None:
    limit(queue, raw, "b", 1)
    for lane in ("a", "b", "c", None):
        queue.jobs.enqueue(b"x", lane=lane)
        check_ring(queue, raw)
        queue.jobs.enqueue_at(b"x", 1, lane=lane)
        check_ring(queue, raw)
    queue.jobs.promote()
    check_ring(queue, raw)
    claims = []
    while got := queue.jobs.claim(2):
        claims += got
        check_ring(queue, raw)
    for number, claim in enumerate(claims):
        end = list(ENDS.values())[number % len(ENDS)]
        end(queue, raw, claim)
        check_ring(queue, raw)


def test_a_lane_whose_job_is_scheduled_again_is_not_in_the_ring(
    queue: Queue, raw: redis.Redis
) -> None:
    fill(queue, "a", each=1)
    (claim,) = queue.jobs.claim()
    queue.jobs.retry(claim, 60)
    assert ring(queue, raw) == []
    fall_due(queue, raw, claim.job_id)
    queue.jobs.promote()
    assert ring(queue, raw) == ["a"]
    assert places(queue, raw, claim.job_id) == ["g:a:pending"]


def test_a_quiet_lane_waits_at_most_one_turn_behind_a_hundred_floods(queue: Queue) -> None:
    lanes = [f"lane-{number}" for number in range(100)]
    for number, lane in enumerate(lanes):
        fill(queue, lane, each=300 if number % 10 == 0 else 2)
    turns(queue, 37)
    queue.jobs.enqueue(b"x", lane="quiet")
    assert "quiet" in turns(queue, len(lanes) + 1)
