"""Figures over time: throughput, latencies, the oldest waiting job."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import astuple
from pathlib import Path
from typing import Any

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st

from django_echomq.queue import Claim, Queue
from django_echomq.queue.metrics import Percentiles, Throughput, percentiles
from django_echomq.wire.ids import EPOCH_MS, encode
from django_echomq.wire.scripts import lua_folder
from tests.queue.keyspace import fall_due, lapse, names, server_ms

MakeQueue = Callable[..., Queue]

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000


def stats(queue: Queue, raw: redis.Redis) -> list[str]:
    return sorted(name for name in names(queue, raw) if name.startswith("stats:"))


def totals(points: list[Throughput]) -> dict[str, int]:
    fields = ("completed", "failed", "cancelled", "retried", "enqueued")
    return {name: sum(getattr(point, name) for point in points) for name in fields}


def aged_id(raw: redis.Redis, ms: int, number: int = 0) -> str:
    """An id that was minted so many ms ago."""
    return encode("JOB", (server_ms(raw) - ms - EPOCH_MS << 22) + number)


def started(queue: Queue, raw: redis.Redis, claim: Claim, ms: int) -> None:
    """Lets a claim be so many ms old."""
    raw.hset(queue.keys.job(claim.job_id), "started_at", server_ms(raw) - ms)


def bounds(ms: float) -> tuple[float, float]:
    """The bucket of a time, in seconds."""
    bucket = min(59, math.floor(2 * math.log2(max(ms, 1)) + 1e-9))
    return (2 ** (bucket / 2) if bucket else 0) / 1000, 2 ** ((bucket + 1) / 2) / 1000


def mixed_run(queue: Queue, raw: redis.Redis) -> dict[str, int]:
    """Ends jobs in every way; answers what happened."""
    queue.jobs.enqueue_many([b"x"] * 9, lane="a")
    for _ in range(4):
        queue.jobs.enqueue(b"x")
    parked = queue.jobs.enqueue_in(b"x", 3600).job_id
    queue.repeat.register("tick", payload=b"x", every=3600)
    raw.zadd(queue.keys.base + b"repeat", {"tick": 1})
    assert queue.repeat.fire() == 1
    done, other, retried, died, stopped, released, delayed, lapsed, asked = queue.jobs.claim(9)
    queue.jobs.complete(done)
    queue.jobs.complete(other)
    queue.jobs.retry(retried, 60, 3)
    queue.jobs.retry(died, 60, 1)
    queue.jobs.cancel(stopped.job_id)
    queue.jobs.retry(stopped, 60, 3)
    queue.jobs.release(released)
    queue.jobs.delay(delayed, 60)
    lapse(queue, raw, lapsed, asked)
    queue.jobs.cancel(asked.job_id)
    assert queue.stalled.check(max_stalled=1).dead == 1
    queue.jobs.cancel(parked)
    return {"completed": 2, "failed": 2, "cancelled": 3, "retried": 1, "enqueued": 15}


# Throughput


def test_an_empty_queue_had_no_throughput(queue: Queue, raw: redis.Redis) -> None:
    points = queue.metrics.throughput()
    assert len(points) == 60
    assert {astuple(point)[1:] for point in points} == {(0, 0, 0, 0, 0)}
    assert names(queue, raw) == set()


def test_throughput_is_what_happened(queue: Queue, raw: redis.Redis) -> None:
    happened = mixed_run(queue, raw)
    assert totals(queue.metrics.throughput(minutes=5)) == happened
    assert totals(queue.metrics.throughput(hours=2)) == happened
    counts = queue.metrics.counts()
    assert {name: counts[name] for name in ("completed", "failed")} == {"completed": 2, "failed": 2}


def test_the_points_follow_each_other_up_to_now(queue: Queue, raw: redis.Redis) -> None:
    before = server_ms(raw)
    points = queue.metrics.throughput(minutes=3)
    after = server_ms(raw)
    at = [int(point.at.timestamp() * 1000) for point in points]
    assert at in [
        [m * MINUTE - 2 * MINUTE, m * MINUTE - MINUTE, m * MINUTE]
        for m in (before // MINUTE, after // MINUTE)
    ]


@pytest.mark.parametrize("ago", [0, 1, 59, 60, 61, 1_000, 1_438])
def test_a_minute_is_found_where_it_was_counted(queue: Queue, raw: redis.Redis, ago: int) -> None:
    minute = server_ms(raw) // MINUTE - ago
    key = queue.keys.base + b"stats:m:%d" % (minute // 60)
    raw.hset(key, mapping={f"{minute % 60}c": 5, f"{minute % 60}f": 4, f"{minute % 60}e": 1})
    points = queue.metrics.throughput(minutes=1_440)
    assert len(points) == 1_440
    found = {int(p.at.timestamp() * 1000) // MINUTE: astuple(p)[1:] for p in points}
    assert found.pop(minute) == (5, 4, 0, 0, 1)
    assert set(found.values()) == {(0, 0, 0, 0, 0)}


@pytest.mark.parametrize("ago", [0, 1, 23, 24, 25, 742])
def test_an_hour_is_found_where_it_was_counted(queue: Queue, raw: redis.Redis, ago: int) -> None:
    hour = server_ms(raw) // HOUR - ago
    raw.hset(queue.keys.base + b"stats:h:%d" % (hour // 24), f"{hour % 24}x", 7)
    points = queue.metrics.throughput(hours=744)
    assert len(points) == 744
    found = {int(p.at.timestamp() * 1000) // HOUR: p.cancelled for p in points}
    assert found.pop(hour) == 7
    assert set(found.values()) == {0}


@pytest.mark.parametrize("garbage", ["", "x", "1.5", "9" * 40, "\x00"])
def test_garbage_is_read_as_nothing(queue: Queue, raw: redis.Redis, garbage: str) -> None:
    hour = server_ms(raw) // HOUR
    for minute in range(60):
        raw.hset(queue.keys.base + b"stats:m:%d" % hour, f"{minute}c", garbage)
    raw.hset(queue.keys.base + b"stats:l:%d" % hour, mapping={"w5": garbage, garbage: 5})
    assert totals(queue.metrics.throughput(60))["completed"] == 0
    assert queue.metrics.latency().wait.count == 0


def test_foreign_keys_in_place_of_figures_keep_no_job_from_moving(
    queue: Queue, raw: redis.Redis
) -> None:
    now = server_ms(raw)
    for name in (f"m:{now // HOUR}", f"h:{now // DAY}", f"l:{now // HOUR}"):
        raw.set(queue.keys.base + b"stats:" + name.encode(), "foreign")
    mixed_run(queue, raw)
    queue.metrics.throughput()
    queue.metrics.throughput(hours=24)
    queue.metrics.latency()


@pytest.mark.parametrize(
    "arguments",
    [
        {"minutes": 0},
        {"minutes": 1_441},
        {"minutes": True},
        {"minutes": 1.5},
        {"hours": 0},
        {"hours": 745},
    ],
)
def test_a_span_that_is_not_kept_is_refused(queue: Queue, arguments: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="whole number from 1 to"):
        queue.metrics.throughput(**arguments)


def test_minutes_and_hours_together_are_refused(queue: Queue) -> None:
    with pytest.raises(TypeError):
        queue.metrics.throughput(5, hours=5)


# Latency


@pytest.mark.parametrize("hours", [-1, 49, True, 1.5])
def test_latency_of_a_span_that_is_not_kept_is_refused(queue: Queue, hours: Any) -> None:
    with pytest.raises(ValueError, match="whole number from 0 to 48"):
        queue.metrics.latency(hours)


def test_without_jobs_there_are_no_percentiles(queue: Queue) -> None:
    empty = Percentiles(0, None, None, None)
    assert astuple(queue.metrics.latency()) == (astuple(empty), astuple(empty))


RUNS = [0, 1, 2, 3, 7, 8, 9, 50, 63, 64, 65, 1_000, 1_023, 1_024, 60_000, DAY, 8 * DAY]


@pytest.mark.parametrize("ms", RUNS)
def test_a_time_is_counted_in_its_bucket(queue: Queue, raw: redis.Redis, ms: int) -> None:
    queue.jobs.enqueue(b"x")
    (claim,) = queue.jobs.claim()
    before = server_ms(raw)
    started(queue, raw, claim, ms)
    queue.jobs.complete(claim)
    late = server_ms(raw) - before + 1
    run = queue.metrics.latency().run
    assert run.count == 1
    assert run.p50 is not None
    assert bounds(ms)[0] <= run.p50 <= bounds(ms + late + 10)[1]


def test_percentiles_agree_with_those_of_the_times(queue: Queue, raw: redis.Redis) -> None:
    times = [round(1.07**n) + 20 for n in range(200)]
    now = server_ms(raw)
    for number, ms in enumerate(times):
        queue.jobs.enqueue(b"x", job_id=encode("JOB", (now - ms - EPOCH_MS << 22) + number))
    claims = queue.jobs.claim(500)
    mapping = dict(zip(sorted(c.job_id for c in claims), sorted(times, reverse=True), strict=True))
    start = server_ms(raw)
    for claim in claims:
        raw.hset(queue.keys.job(claim.job_id), "started_at", start - mapping[claim.job_id])
    for claim in claims:
        queue.jobs.complete(claim)
    slack = (server_ms(raw) - now) / 1000
    latency = queue.metrics.latency()
    for found in (latency.wait, latency.run):
        assert found.count == 200
        for share, value in ((0.5, found.p50), (0.95, found.p95), (0.99, found.p99)):
            true = sorted(times)[math.ceil(share * 200) - 1] / 1000
            assert value is not None
            assert true / 1.4143 <= value <= (true + slack) * 1.4143


@given(st.lists(st.integers(0, 10 * DAY), min_size=1, max_size=300))
def test_a_percentile_lies_in_its_bucket(times: list[int]) -> None:
    histogram: dict[int, int] = {}
    for ms in times:
        fraction, exponent = math.frexp(max(ms, 1))
        bucket = min(59, 2 * exponent - (2 if fraction < math.sqrt(0.5) else 1))
        histogram[bucket] = histogram.get(bucket, 0) + 1
    found = percentiles([value for pair in histogram.items() for value in pair])
    assert found.count == len(times)
    for share, value in ((0.5, found.p50), (0.95, found.p95), (0.99, found.p99)):
        low, high = bounds(sorted(times)[math.ceil(share * len(times)) - 1])
        assert value is not None
        assert low - 1e-9 <= value <= high + 1e-9


def test_a_job_waits_since_it_was_minted(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x", job_id=aged_id(raw, HOUR))
    queue.jobs.claim()
    wait = queue.metrics.latency().wait
    assert wait.count == 1
    assert wait.p50 is not None
    assert 3600 / 1.4143 <= wait.p50 <= 3700 * 1.4143


def back_by_promotion(queue: Queue, raw: redis.Redis, job_id: str) -> None:
    queue.jobs.enqueue_in(b"x", 3600, job_id=job_id)
    fall_due(queue, raw, job_id)
    queue.jobs.promote()


def back_by_promote_now(queue: Queue, raw: redis.Redis, job_id: str) -> None:
    queue.jobs.enqueue_in(b"x", 3600, job_id=job_id)
    queue.jobs.promote_now(job_id)


def back_by_release(queue: Queue, raw: redis.Redis, job_id: str) -> None:
    queue.jobs.enqueue(b"x", job_id=job_id)
    queue.jobs.release(*queue.jobs.claim())


def back_by_recovery(queue: Queue, raw: redis.Redis, job_id: str) -> None:
    queue.jobs.enqueue(b"x", job_id=job_id)
    lapse(queue, raw, *queue.jobs.claim())
    queue.jobs.reap()


def back_by_retry(queue: Queue, raw: redis.Redis, job_id: str) -> None:
    queue.jobs.enqueue(b"x", job_id=job_id)
    queue.jobs.retry(*queue.jobs.claim())
    fall_due(queue, raw, job_id)
    queue.jobs.promote()


def back_by_reprocess(queue: Queue, raw: redis.Redis, job_id: str) -> None:
    queue.jobs.enqueue(b"x", job_id=job_id)
    queue.jobs.retry(*queue.jobs.claim(), max_attempts=1)
    queue.jobs.reprocess(job_id)


@pytest.mark.parametrize(
    "back",
    [
        back_by_promotion,
        back_by_promote_now,
        back_by_release,
        back_by_recovery,
        back_by_retry,
        back_by_reprocess,
    ],
)
def test_a_job_that_came_back_waits_since_then(
    queue: Queue, raw: redis.Redis, back: Callable[[Queue, redis.Redis, str], None]
) -> None:
    back(queue, raw, aged_id(raw, HOUR))
    for name in stats(queue, raw):
        if name.startswith("stats:l"):
            raw.delete(queue.keys.base + name.encode())
    oldest = queue.metrics.oldest()
    assert oldest is not None
    assert oldest < 1800
    assert len(queue.jobs.claim()) == 1
    wait = queue.metrics.latency().wait
    assert wait.count == 1
    assert wait.p99 is not None
    assert wait.p99 < 1800


def test_a_wait_that_cannot_be_told_is_not_counted(queue: Queue, raw: redis.Redis) -> None:
    """A stock peer takes a job back to waiting and notes no time."""
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.release(*queue.jobs.claim())
    queue.jobs.claim()
    before = queue.metrics.latency().wait.count
    raw.zrem(queue.keys.active, job_id)
    raw.zadd(queue.keys.pending, {job_id: 0})
    raw.hset(queue.keys.job(job_id), "since", 1)
    assert queue.metrics.oldest() is None
    assert len(queue.jobs.claim()) == 1
    assert queue.metrics.latency().wait.count == before


@pytest.mark.parametrize(
    "job_id", ["short", "JOB-not-base62", "job0NgWEfAEJfs", "\x00\xff", "J" * 900]
)
def test_a_foreign_id_tells_no_wait(queue: Queue, raw: redis.Redis, job_id: str) -> None:
    raw.hset(queue.keys.job(job_id), mapping={"state": "pending", "attempts": 0, "payload": "x"})
    raw.zadd(queue.keys.pending, {job_id: 0})
    assert queue.metrics.oldest() is None
    assert len(queue.jobs.claim()) == 1
    assert queue.metrics.latency().wait.count == 0


def test_an_id_from_the_future_waits_for_no_time(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x", job_id=aged_id(raw, -HOUR))
    assert queue.metrics.oldest() == 0
    queue.jobs.claim()
    wait = queue.metrics.latency().wait
    assert wait.p99 is not None
    assert wait.p99 < 0.002


def test_what_was_given_back_did_not_run(queue: Queue) -> None:
    queue.jobs.enqueue_many([b"x"] * 2)
    given, delayed = queue.jobs.claim(2)
    queue.jobs.release(given)
    queue.jobs.delay(delayed, 60)
    assert queue.metrics.latency().run.count == 0


def test_every_attempt_that_ended_ran(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue_many([b"x"] * 4)
    first, second, third, fourth = queue.jobs.claim(4)
    queue.jobs.complete(first)
    queue.jobs.retry(second)
    queue.jobs.retry(third, max_attempts=1)
    queue.jobs._settle(queue.jobs.cancellation(fourth, "told"))
    assert queue.metrics.latency().run.count == 4


def test_older_hours_are_counted_where_asked_for(queue: Queue, raw: redis.Redis) -> None:
    hour = server_ms(raw) // HOUR
    for ago in (0, 2, 48):
        raw.hset(queue.keys.base + b"stats:l:%d" % (hour - ago), "w10", 1)
    assert [queue.metrics.latency(hours).wait.count for hours in (0, 2, 47, 48)][1:3] == [2, 2]


# The oldest


def test_nobody_waits_in_an_empty_queue(queue: Queue) -> None:
    assert queue.metrics.oldest() is None


def test_the_oldest_waits_anywhere(queue: Queue, raw: redis.Redis) -> None:
    def age(lane: str | None, ms: int, priority: int = 0) -> float:
        queue.jobs.enqueue(b"x", job_id=aged_id(raw, ms), lane=lane, priority=priority)
        oldest = queue.metrics.oldest()
        assert oldest is not None
        return oldest // 60

    assert age(None, 5 * MINUTE) == 5
    assert age(None, 2 * MINUTE) == 5
    assert age("a", 15 * MINUTE) == 15
    assert age("b", 10 * MINUTE) == 15
    assert age(None, 25 * MINUTE, priority=-7) == 25
    assert age("b", 35 * MINUTE, priority=100) == 35
    queue.jobs.enqueue_at(b"x", 1, job_id=aged_id(raw, 3 * HOUR))
    raw.sadd(queue.keys.base + b"paused", "a")
    assert age("a", 45 * MINUTE) == 45


def test_a_job_that_came_back_does_not_hide_one_that_waits(queue: Queue, raw: redis.Redis) -> None:
    for number in range(19):
        queue.jobs.enqueue_in(b"x", 0, job_id=aged_id(raw, 2 * HOUR, number))
    while queue.metrics.counts("scheduled")["scheduled"]:
        queue.jobs.promote()
    queue.jobs.enqueue(b"x", job_id=aged_id(raw, HOUR))
    oldest = queue.metrics.oldest()
    assert oldest is not None
    assert 3590 <= oldest <= 5400


def test_figures_are_one_round_trip_each(queue: Queue, raw: redis.Redis) -> None:
    mixed_run(queue, raw)
    for read in (queue.metrics.throughput, queue.metrics.latency, queue.metrics.oldest):
        before = raw.info("commandstats")["cmdstat_evalsha"]["calls"]
        read()
        assert raw.info("commandstats")["cmdstat_evalsha"]["calls"] - before <= 2


# What it costs, and that it ends


def test_each_key_of_figures_ends_by_itself(queue: Queue, raw: redis.Redis) -> None:
    mixed_run(queue, raw)
    kept = {"m": 25 * HOUR, "h": 32 * DAY, "l": 49 * HOUR}
    found = stats(queue, raw)
    assert {name.split(":")[1] for name in found} == set(kept)
    for name in found:
        left = raw.pttl(queue.keys.base + name.encode())
        assert kept[name.split(":")[1]] - HOUR < left <= kept[name.split(":")[1]]


def test_a_call_writes_each_figure_once(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue_many([b"x"] * 100)
    slot = queue.client.take_slot()
    claims = queue.jobs.claim(100)

    def written() -> int:
        return int(raw.info("commandstats").get("cmdstat_hincrby", {"calls": 0})["calls"])

    before = written()
    call = queue.jobs.exchange_call(slot, [queue.jobs.completion(c) for c in claims], 0, "w")
    queue.drive(queue.client.run(call))
    # Beside the total of each job: the minute, the hour, the buckets of nearly equal times.
    assert written() - before <= 100 + 5


def test_figures_are_bounded_whatever_happens(queue: Queue, raw: redis.Redis) -> None:
    now = server_ms(raw)
    mixed_run(queue, raw)
    for name in stats(queue, raw):
        assert raw.hlen(queue.keys.base + name.encode()) <= 60 * 5
    assert len(stats(queue, raw)) <= 3 * (1 + (server_ms(raw) // HOUR - now // HOUR))


def test_an_obliterated_queue_has_no_figures(queue: Queue, raw: redis.Redis) -> None:
    mixed_run(queue, raw)
    now = server_ms(raw)
    for kind, oldest in (("m", now // HOUR - 25), ("h", now // DAY - 32), ("l", now // HOUR - 49)):
        raw.hset(queue.keys.base + f"stats:{kind}:{oldest}".encode(), "1c", 1)
    queue.admin.pause()
    queue.admin.obliterate(force=True)
    assert names(queue, raw) == set()


def test_every_script_that_counts_writes_what_it_counted() -> None:
    folder = lua_folder()
    files = {path: path.read_text() for path in Path(folder).rglob("*.lua")}
    bodies = {
        match[1]: match[2]
        for path, text in files.items()
        if path.parent.name == "lib"
        for match in re.finditer(r"^local function (\w+)\(.*?\)\n(.*?)^end$", text, re.M | re.S)
    }
    counting = {"count", "observe"}
    while more := {
        name
        for name, body in bodies.items()
        if name not in counting and any(re.search(rf"\b{word}\(", body) for word in counting)
    }:
        counting |= more
    assert {"bury", "claim_jobs", "other_ways", "recover_lapsed"} <= counting
    for path, text in files.items():
        if path.parent.name != "lib" and any(re.search(rf"\b{word}\(", text) for word in counting):
            assert re.search(r"\bfinish\b", text), path


# Totals


def add(queue: Queue, raw: redis.Redis, kind: str, number: int, **fields: int) -> None:
    raw.hset(queue.keys.base + b"stats:%s:%d" % (kind.encode(), number), mapping=fields)


def test_totals_are_what_happened(queue: Queue, raw: redis.Redis) -> None:
    happened = mixed_run(queue, raw)
    found = queue.metrics.totals()
    assert {name: getattr(found, name) for name in happened} == happened
    latency = queue.metrics.latency()
    assert sum(found.waits.values()) == latency.wait.count
    assert sum(found.runs.values()) == latency.run.count


def test_totals_only_grow_while_what_they_are_made_of_ends(queue: Queue, raw: redis.Redis) -> None:
    now = server_ms(raw)
    hour, day = now // HOUR, now // DAY
    for number in range(hour - 48, hour + 1):
        add(queue, raw, "l", number, w5=1, r7=2)
    for number in range(day - 31, day + 1):
        add(queue, raw, "h", number, **{"7e": 3, "8r": 1, "8c": 9})
    first = queue.metrics.totals()
    assert (first.enqueued, first.retried, first.completed) == (96, 32, 0)
    assert (list(first.waits.values()), list(first.runs.values())) == ([49], [98])
    for name in stats(queue, raw):
        number = int(name.rpartition(":")[2]) if name != "stats:t" else hour
        if number < (day if ":h:" in name else hour) - 1:
            raw.delete(queue.keys.base + name.encode())
    assert queue.metrics.totals() == first
    add(queue, raw, "l", hour, w5=2, w6=1)
    later = queue.metrics.totals()
    assert list(later.waits.values()) == [50, 1]
    assert list(later.waits) == [bounds(2**2.5)[1], bounds(2**3)[1]]


def test_totals_after_nobody_read_them_for_long(queue: Queue, raw: redis.Redis) -> None:
    hour = server_ms(raw) // HOUR
    raw.hset(queue.keys.base + b"stats:t", mapping={"hour": hour - 500, "w3": 7, "day": 1})
    add(queue, raw, "l", hour - 40, w3=1)
    assert list(queue.metrics.totals().waits.values()) == [8]


@pytest.mark.parametrize("garbage", ["x", "1.5", "-3", "9" * 40, ""])
def test_totals_among_what_a_foreign_hand_wrote(
    queue: Queue, raw: redis.Redis, garbage: str
) -> None:
    hour = server_ms(raw) // HOUR
    fields = {"hour": garbage, "w5": garbage, "e": garbage, garbage: "5"}
    raw.hset(queue.keys.base + b"stats:t", mapping=fields)
    raw.hset(queue.keys.base + b"stats:l:%d" % (hour - 5), mapping={"w5": garbage, "w6": 4})
    first = queue.metrics.totals()
    assert first.waits[bounds(2**3)[1]] == 4
    assert queue.metrics.totals() == first


def test_totals_beside_a_foreign_key(queue: Queue, raw: redis.Redis) -> None:
    add(queue, raw, "l", server_ms(raw) // HOUR - 5, w5=3)
    raw.set(queue.keys.base + b"stats:t", "foreign")
    for _ in range(2):
        assert list(queue.metrics.totals().waits.values()) == [3]


def test_totals_are_one_step_and_go_with_the_queue(queue: Queue, raw: redis.Redis) -> None:
    mixed_run(queue, raw)
    before = raw.info("commandstats")["cmdstat_evalsha"]["calls"]
    queue.metrics.totals()
    assert raw.info("commandstats")["cmdstat_evalsha"]["calls"] - before <= 2
    raw.hset(queue.keys.base + b"stats:t", "e", 1)
    queue.admin.pause()
    queue.admin.obliterate(force=True)
    assert names(queue, raw) == set()
