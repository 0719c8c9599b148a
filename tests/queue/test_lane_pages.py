"""Queues of so many lanes that a look at them takes several calls."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from django_echomq.queue import Lane, Queue
from django_echomq.queue.queue import Look
from django_echomq.wire.ids import EPOCH_MS, encode
from django_echomq.wire.scripts import script
from tests.queue.keyspace import server_ms

HOUR = 3_600_000


def plant(queue: Queue, raw: redis.Redis, jobs: dict[str, list[int]], ring: set[str]) -> None:
    """Writes jobs as a stock peer does: by lane, the ms for which each has waited."""
    now, number, pipe = server_ms(raw), 0, raw.pipeline(transaction=False)
    for lane, waits in jobs.items():
        for ms in waits:
            number += 1
            job_id = encode("JOB", (now - ms - EPOCH_MS << 22) + number % 4096)
            row = {"state": "pending", "attempts": 0, "payload": "x", "group": lane}
            pipe.hset(queue.keys.job(job_id), mapping=row)
            pipe.zadd(queue.keys.lane(lane), {job_id: 0})
        if lane in ring:
            pipe.rpush(queue.keys.base + b"ring", lane)
    pipe.execute()


def walked(queue: Queue, look: Look[Any], between: Callable[[], object]) -> Any:
    """Ends a reading; something happens between any two of its calls."""
    call = next(look)
    while True:
        reply = queue.drive(queue.client.run(call))
        between()
        try:
            call = look.send(reply)
        except StopIteration as end:
            return end.value


@pytest.fixture
def world(queue: Queue, raw: redis.Redis) -> dict[str, Lane]:
    """A thousand lanes in every condition; answers them as they stand."""
    chance = random.Random(7)
    base, expected = queue.keys.base, {}
    jobs: dict[str, list[int]] = {}
    for n in range(1_000):
        name = f"lane{n:04}"
        paused, full, empty = n % 7 == 0, n % 5 == 0, n % 11 == 0
        waits = [] if empty else [chance.randrange(HOUR) for _ in range(chance.randrange(1, 4))]
        jobs[name] = waits
        if paused:
            raw.sadd(base + b"paused", name)
        if full:
            raw.hset(base + b"glimit", name, 1)
            raw.hset(base + b"gactive", name, 1)
        in_ring = bool(waits) and not paused and not full
        if paused or full or waits:
            expected[name] = Lane(
                name, len(waits), int(full), 1 if full else None, 1, paused, in_ring
            )
    plant(queue, raw, jobs, {name for name, lane in expected.items() if lane.in_ring})
    # In hand or with a weight, and nothing else.
    raw.hset(base + b"gactive", "busy", 3)
    raw.hset(base + b"gweight", "heavy", 9)
    expected["busy"] = Lane("busy", 0, 3, None, 1, False, False)
    expected["heavy"] = Lane("heavy", 0, 0, None, 9, False, False)
    return expected


def test_a_thousand_lanes_are_told_as_they_stand(queue: Queue, world: dict[str, Lane]) -> None:
    assert queue.lanes.all() == [world[name] for name in sorted(world)]
    depths = {name: lane.depth for name, lane in world.items() if lane.depth}
    assert queue.lanes.depths() == depths
    assert queue.metrics.depths() == {name.encode(): depth for name, depth in depths.items()}


def test_the_jobs_of_a_thousand_lanes_are_counted(queue: Queue, world: dict[str, Lane]) -> None:
    queue.jobs.enqueue_many([b"x"] * 3)
    counts = queue.metrics.counts()
    assert counts["pending"] == 3 + sum(lane.depth for lane in world.values())
    overview = queue.metrics.overview()
    assert (overview.counts, overview.flat) == (counts, 3)


@pytest.mark.parametrize("where", ["in turn", "paused", "full"])
def test_the_oldest_of_a_thousand_lanes_is_found(
    queue: Queue, raw: redis.Redis, world: dict[str, Lane], where: str
) -> None:
    lane = next(
        lane
        for lane in reversed(world.values())
        if lane.depth and {"in turn": lane.in_ring, "paused": lane.paused}.get(where, lane.limit)
    )
    for hours in (0, 2):
        if hours:
            plant(queue, raw, {lane.name: [hours * HOUR]}, set())
        now = server_ms(raw)
        heads = [
            row[0]
            for name, other in world.items()
            if other.depth
            for row in [raw.zrange(queue.keys.lane(name), 0, 0)]
        ]
        model = max(now - minted(head.decode()) for head in heads) / 1000
        found = queue.metrics.oldest()
        assert found is not None
        assert model - 0.002 <= found <= model + 60
        seen = queue.metrics.overview().oldest
        assert seen is not None
        assert found <= seen <= found + 60


def minted(job_id: str) -> int:
    digits = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
    number = 0
    for digit in job_id[3:]:
        number = number * 62 + digits.index(digit)
    return (number >> 22) + EPOCH_MS


@pytest.mark.parametrize("seed", range(4))
def test_lanes_that_stay_are_met_while_the_ring_turns(
    queue: Queue, raw: redis.Redis, seed: int
) -> None:
    chance = random.Random(seed)
    stay, go = [f"stay{n:03}" for n in range(400)], [f"go{n:03}" for n in range(300)]
    order = stay + go
    chance.shuffle(order)
    plant(queue, raw, {name: [HOUR] * (2 if name in stay else 1) for name in order}, set(order))
    paused, new = chance.sample(stay, 40), iter(range(10**6))
    for name in paused[:20]:
        queue.lanes.pause(name)
    flips: Iterator[Callable[[], object]] = iter(
        [lambda name=name: queue.lanes.resume(name) for name in paused[:20]]
        + [lambda name=name: queue.lanes.pause(name) for name in paused[20:]]
    )

    def turn() -> None:
        for _ in range(chance.choice((0, 1, 3))):
            for claim in queue.jobs.claim(chance.choice((1, 20, 250))):
                if claim.lane in stay:
                    queue.jobs.release(claim)
                else:
                    queue.jobs.complete(claim)
        for _ in range(chance.randrange(0, 9)):
            queue.jobs.enqueue(b"x", lane=f"new{next(new)}")
            next(flips, lambda: None)()
        queue.jobs.cancel_many([job.id for job in queue.jobs.browse(lane=chance.choice(go))])

    for read, names in (
        (queue.lanes.look, lambda found: {lane.name for lane in found}),
        (queue.metrics.depths_look, lambda found: {name.decode() for name in found[1]}),
    ):
        assert set(stay) <= names(walked(queue, read(), turn))


def test_the_ring_may_turn_past_the_place(queue: Queue, raw: redis.Redis) -> None:
    """Those that were read have their turn and go, and so have some that were not."""
    names = [f"lane{n:03}" for n in range(120)]
    plant(queue, raw, {name: [HOUR] for name in names}, set(names))
    queue.jobs.enqueue(b"x", lane=names[79])
    turned = iter([True])

    def turn() -> None:
        if next(turned, False):
            for name in names[:79]:
                raw.lrem(queue.keys.base + b"ring", 1, name)
                raw.delete(queue.keys.lane(name))
            for _ in range(11):
                raw.lmove(queue.keys.base + b"ring", queue.keys.base + b"ring")

    found = walked(queue, queue.lanes.look(), turn)
    assert {lane.name for lane in found} >= set(names[79:])


def test_what_enters_the_ring_behind_the_place_is_met(queue: Queue, raw: redis.Redis) -> None:
    """All paused lanes are resumed when the ring has been read and some of them have."""
    running, paused = [f"lane{n:03}" for n in range(260)], [f"paused{n:03}" for n in range(600)]
    plant(queue, raw, {name: [HOUR] for name in running + paused}, set(running))
    raw.sadd(queue.keys.base + b"paused", *paused)
    calls = iter(range(99))

    def resume() -> None:
        if next(calls) == 4:
            raw.delete(queue.keys.base + b"paused")
            raw.rpush(queue.keys.base + b"ring", *paused)

    found = walked(queue, queue.lanes.look(), resume)
    assert [lane.name for lane in found] == running + paused


@pytest.mark.parametrize("look", ["lanes/all", "metrics/counts", "metrics/oldest"])
def test_a_call_looks_at_a_bounded_number_of_lanes(
    queue: Queue, raw: redis.Redis, look: str
) -> None:
    names = [f"lane{n:04}" for n in range(1_500)]
    raw.rpush(queue.keys.base + b"ring", *names[:700])
    raw.sadd(queue.keys.base + b"paused", *names[600:1_100])
    raw.hset(queue.keys.base + b"glimit", mapping=dict.fromkeys(names[1_000:], 1))
    raw.hset(queue.keys.base + b"gweight", mapping=dict.fromkeys(names[:500], 1))
    place, calls = b"", 0
    while not calls or place:
        raw.config_resetstat()
        place = queue.run(look, place)[0]
        stats = raw.info("commandstats")
        asked = sum(
            stats.get(f"cmdstat_{command}", {"calls": 0})["calls"]
            for command in ("zcard", "zrange")
        )
        assert asked <= 210
        calls += 1
    assert calls < 120


@pytest.mark.parametrize("key", ["ring", "paused", "glimit", "gactive", "gweight", "g:a:pending"])
def test_foreign_keys_abort_no_look(queue: Queue, raw: redis.Redis, key: str) -> None:
    queue.jobs.enqueue(b"x", lane="a")
    raw.delete(queue.keys.base + key.encode())
    raw.set(queue.keys.base + key.encode(), "foreign")
    queue.lanes.all()
    queue.metrics.counts()
    queue.metrics.oldest()
    queue.metrics.overview()


def test_few_lanes_are_looked_at_in_one_call(queue: Queue, raw: redis.Redis) -> None:
    names = [f"lane{n}" for n in range(30)]
    plant(queue, raw, {name: [HOUR] for name in names}, set(names))
    for read, name in (
        (queue.lanes.all, "lanes/all"),
        (queue.metrics.counts, "metrics/counts"),
        (queue.metrics.oldest, "metrics/oldest"),
        (queue.metrics.overview, "metrics/overview"),
    ):
        read()
        raw.config_resetstat()
        read()
        assert raw.info("commandstats")["cmdstat_evalsha"]["calls"] == 1, script(name).name
