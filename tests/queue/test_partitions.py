"""A queue of several partitions behaves as one."""

from __future__ import annotations

import asyncio
import inspect
import itertools
import os
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from hypothesis import given, settings
from hypothesis import strategies as st

from django_echomq.queue import LaneOptions, Queue, QueueOptions, Rate, Unique
from django_echomq.queue.jobs import Jobs
from django_echomq.queue.metrics import Metrics
from django_echomq.queue.partitions import (
    PartitionedJobs,
    PartitionedMetrics,
    PartitionedQueue,
    partition_of,
)
from django_echomq.queue.repeat import Definition
from django_echomq.wire.client import Client
from django_echomq.wire.endpoint import Endpoint
from django_echomq.wire.errors import (
    ActiveJobs,
    InvalidId,
    InvalidName,
    JobGone,
    NotPaused,
    StaleToken,
    WrongState,
)
from django_echomq.wire.ids import min_for
from tests.conftest import purge, wait_until

Make = Callable[..., PartitionedQueue]
_names = itertools.count()
N = 4


def places(queue: Queue, raw: redis.Redis) -> list[str]:
    """Every key that the partitions have."""
    return [
        key.decode()
        for part in queue.parts
        for key in raw.scan_iter(f"emq:{{{part.keys.queue}}}:*", count=1000)
    ]


@pytest.fixture
def make_partitioned(client: Client) -> Iterator[Make]:
    made: list[PartitionedQueue] = []

    def make(n: int = N, **options: Any) -> PartitionedQueue:
        name = f"part{os.getpid()}-{next(_names)}"
        made.append(PartitionedQueue(name, [client] * n, QueueOptions(**options)))
        return made[-1]

    yield make
    for queue in made:
        queue.admin.pause()
        queue.admin.obliterate(force=True)


@pytest.fixture
def parted(make_partitioned: Make) -> PartitionedQueue:
    return make_partitioned()


def lane_in(partition: int, n: int = N) -> str:
    """The name of a lane of a partition."""
    return next(f"lane-{i}" for i in range(10_000) if partition_of(f"lane-{i}", n) == partition)


# Which partition


def test_the_partitions_have_names_of_their_own_and_the_name_of_the_whole(
    parted: PartitionedQueue,
) -> None:
    assert [part.keys.queue for part in parted.parts] == [f"{parted.name}.p{n}" for n in range(N)]
    assert {part.name for part in parted.parts} == {parted.name}
    assert {part.whole for part in parted.parts} == {parted}


def test_jobs_spread_by_their_ids_alone(parted: PartitionedQueue) -> None:
    ids = [parted.jobs.enqueue(b"x").job_id for _ in range(40)]
    ids += [told.job_id for told in parted.jobs.enqueue_many([b"x"] * 40)]
    ids += [
        told.job_id
        for told in asyncio.run(parted.client.adrive(parted.jobs.admission([b"x"] * 40)))
    ]
    for job_id in ids:
        part = parted.parts[partition_of(job_id, N)]
        assert part.jobs.state(job_id) == "pending"
    waiting = [part.metrics.counts("pending")["pending"] for part in parted.parts]
    assert sum(waiting) == len(ids) == len(set(ids))
    assert min(waiting) > len(ids) / N / 2


def test_bulk_answers_stand_in_the_order_of_the_payloads(parted: PartitionedQueue) -> None:
    told: list[tuple[int, int]] = []
    payloads = [b"%d" % n for n in range(600)]
    admissions = parted.jobs.enqueue_many(payloads, progress=lambda *step: told.append(step))
    assert [parted.jobs.get(each.job_id).payload for each in admissions[::50]] == payloads[::50]
    assert told[-1] == (600, 600)
    assert [done for done, _ in told] == sorted(done for done, _ in told)


def test_nothing_is_sent_where_one_payload_is_too_long(make_partitioned: Make) -> None:
    parted = make_partitioned(max_payload=3)
    with pytest.raises(ValueError, match="4 bytes"):
        parted.jobs.enqueue_many([b"x"] * 50 + [b"long"])
    assert parted.metrics.counts("pending") == {"pending": 0}


def test_a_lane_is_whole(parted: PartitionedQueue) -> None:
    lanes = [f"lane-{n}" for n in range(12)]
    for lane in lanes:
        parted.jobs.enqueue(b"1", lane=lane)
        parted.jobs.enqueue_many([b"2", b"3"], lane=lane)
    for lane in lanes:
        holds = [part.lanes.depths().get(lane, 0) for part in parted.parts]
        assert sorted(holds) == [0] * (N - 1) + [3]
        assert [job.payload for job in parted.jobs.browse(lane=lane, newest_first=False)] == [
            b"1",
            b"2",
            b"3",
        ]
    assert {lane.name: lane.depth for lane in parted.lanes.all()} == dict.fromkeys(lanes, 3)
    for job in parted.jobs.browse(lane=lanes[0]):
        assert parted.jobs.state(job.id) == "pending"


def test_a_lanes_limit_holds_over_the_whole(parted: PartitionedQueue) -> None:
    parted.lanes.limit("slow", 2)
    parted.jobs.enqueue_many([b"x"] * 5, lane="slow")
    assert len(parted.jobs.claim(5)) == 2
    (lane,) = parted.lanes.all()
    assert (lane.active, lane.limit, lane.depth) == (2, 2, 3)


def test_lane_verbs_reach_the_lane(parted: PartitionedQueue) -> None:
    parted.jobs.enqueue_many([b"x"] * 3, lane="a")
    assert parted.lanes.depth("a") == 3
    assert parted.lanes.pause("a")
    assert not parted.lanes.pause("a")
    assert parted.jobs.claim() == []
    assert parted.lanes.resume("a")
    parted.lanes.weight("a", 5)
    assert parted.lanes.all()[0].weight == 5
    assert parted.lanes.drain("a") == 3


def test_a_job_moves_only_to_lanes_of_its_partition(parted: PartitionedQueue) -> None:
    job_id = parted.jobs.enqueue(b"x").job_id
    here = partition_of(job_id, N)
    assert parted.lanes.reassign(job_id, lane_in(here)) == "moved"
    with pytest.raises(WrongState, match="different partitions"):
        parted.lanes.reassign(job_id, lane_in((here + 1) % N))
    assert parted.lanes.reassign(job_id, None) == "moved"


def test_a_unique_key_is_unique_over_the_whole(parted: PartitionedQueue) -> None:
    for key in (f"key-{n}" for n in range(12)):
        first = parted.jobs.enqueue(b"x", unique=Unique(key))
        again = parted.jobs.enqueue(b"x", unique=Unique(key))
        assert (first.outcome, again.outcome) == ("enqueued", "duplicate")
        assert again.job_id == first.job_id == parted.metrics.unique_holder(key)
    (claim,) = parted.jobs.claim()
    parted.jobs.complete(claim)
    assert parted.metrics.counts("pending")["pending"] == 11


def test_a_lane_and_a_unique_key_do_not_go_together(parted: PartitionedQueue) -> None:
    with pytest.raises(ValueError, match="not both"):
        parted.jobs.enqueue(b"x", lane="a", unique=Unique("k"))
    with pytest.raises(ValueError, match="not both"):
        parted.drive(parted.jobs.admission([b"x"], lane="a", unique=Unique("k")))


def test_an_id_of_the_callers_tells_the_partition(parted: PartitionedQueue) -> None:
    own = [min_for(1_800_000_000_000 + n) for n in range(20)]
    assert {parted.jobs.enqueue(b"x", job_id=job_id).outcome for job_id in own} == {"enqueued"}
    assert {
        told.outcome for told in parted.drive(parted.jobs.admission([b"x"] * 20, own_ids=own))
    } == {"duplicate"}
    other = lane_in((partition_of(own[0], N) + 1) % N)
    with pytest.raises(ValueError, match="different partitions"):
        parted.jobs.enqueue(b"x", job_id=own[0], lane=other)
    with pytest.raises(ValueError, match="different partitions"):
        parted.drive(parted.jobs.admission([b"x"], own_ids=own[:1], unique=Unique(other)))
    part = parted.part_for(other)
    (minted,) = part.drive(part.mint(1))
    assert parted.jobs.enqueue(b"x", job_id=minted, lane=other).job_id == minted


def test_ids_minted_earlier_are_kept_where_they_belong(parted: PartitionedQueue) -> None:
    (minted,) = parted.drive(parted.client.mint(1))
    (told,) = parted.drive(parted.jobs.admission([b"x"], minted_ids=[minted]))
    assert told.job_id == minted
    lane = lane_in((partition_of(minted, N) + 1) % N)
    (told,) = parted.drive(parted.jobs.admission([b"x"], minted_ids=[minted], lane=lane))
    assert (told.job_id != minted, told.outcome) == (True, "enqueued")
    assert parted.jobs.get(told.job_id).lane == lane


@pytest.mark.parametrize("lane", ["", "a b", 5])
def test_what_names_no_lane_is_refused(parted: PartitionedQueue, lane: Any) -> None:
    with pytest.raises(InvalidName):
        parted.jobs.enqueue(b"x", lane=lane)


def test_what_is_left_of_a_lane_elsewhere_is_counted(parted: PartitionedQueue) -> None:
    lane = lane_in(0)
    parted.jobs.enqueue_many([b"x"] * 2, lane=lane)
    # As if it had been enqueued while there were fewer partitions.
    parted.parts[1].jobs.enqueue_many([b"x"] * 3, lane=lane)
    (found,) = parted.lanes.all()
    assert (found.name, found.depth) == (lane, 5)
    assert parted.metrics.depths() == {lane.encode(): 5}


# One job


def test_verbs_of_one_job_find_it(parted: PartitionedQueue) -> None:
    jobs = parted.jobs
    for _ in range(N):
        job_id = jobs.enqueue_in(b"x", 3600).job_id
        assert jobs.state(job_id=job_id) == "scheduled"
        jobs.update_data(job_id, b"y")
        jobs.reschedule(job_id, datetime.now(UTC) + timedelta(hours=2))
        jobs.promote_now(job_id)
        jobs.update_progress(job_id, "50")
        assert jobs.add_log(job_id, "line") == 1
        assert jobs.logs(job_id) == ["line"]
        assert jobs.tail(job_id, 5) == (["line"], 1)
        assert (jobs.get(job_id).payload, jobs.get(job_id).progress) == (b"y", "50")
        assert jobs.cancel(job_id) == "cancelled"
        jobs.reprocess(job_id)
        jobs.remove(job_id)
        with pytest.raises(JobGone):
            jobs.get(job_id)
        assert jobs.state(job_id) == "absent"


def test_claims_come_from_all_and_settle_where_they_are_from(parted: PartitionedQueue) -> None:
    ids = {told.job_id for told in parted.jobs.enqueue_many([b"x"] * 20)}
    claims = parted.jobs.claim(30)
    assert {claim.job_id for claim in claims} == ids
    assert parted.jobs.extend_locks(claims) == []
    parted.jobs.extend_lock(claims[0])
    assert parted.jobs.checkpoint(claims[0], details=b"half") is None
    parted.jobs.complete(claims[0], b"done")
    assert parted.jobs.get(claims[0].job_id).result == b"done"
    assert parted.jobs.retry(claims[1], 60) == "scheduled"
    parted.jobs.release(claims[2])
    parted.jobs.delay(claims[3], 60)
    with pytest.raises((JobGone, StaleToken)):
        parted.jobs.complete(claims[0])
    assert set(parted.jobs.extend_locks(claims)) == {claim.job_id for claim in claims[:4]}
    counts = parted.metrics.counts("pending", "active", "scheduled", "completed")
    assert counts == {"pending": 1, "active": 16, "scheduled": 2, "completed": 1}


def test_claims_take_turns(parted: PartitionedQueue) -> None:
    parted.jobs.enqueue_many([b"x"] * 60)
    first = [partition_of(parted.jobs.claim()[0].job_id, N) for _ in range(2 * N)]
    assert sorted(first[:N]) == sorted(first[N:]) == list(range(N))


def test_verbs_over_many_answer_in_order(parted: PartitionedQueue) -> None:
    ids = [told.job_id for told in parted.jobs.enqueue_many([b"x"] * 30)]
    absent = min_for(1_700_000_000_000)
    held = parted.jobs.claim()[0].job_id
    asked = [*ids[:15], absent, *ids[15:]]
    verdicts = dict(zip(asked, parted.jobs.remove_many(asked), strict=True))
    assert verdicts[absent] == "gone"
    assert verdicts[held] == "refused"
    assert sum(verdict == "done" for verdict in verdicts.values()) == 29


def test_nothing_is_sent_where_one_id_is_none(parted: PartitionedQueue) -> None:
    job_id = parted.jobs.enqueue(b"x").job_id
    with pytest.raises(InvalidId):
        parted.jobs.remove_many([job_id, "no id"])
    assert parted.jobs.state(job_id) == "pending"


# Figures


def test_figures_are_those_of_all(parted: PartitionedQueue) -> None:
    parted.jobs.enqueue_many([b"x"] * 20)
    parted.jobs.enqueue_many([b"x"] * 5, lane="a")
    for claim in parted.jobs.claim(10):
        parted.jobs.complete(claim)
    overview = parted.metrics.overview()
    assert overview.counts == parted.metrics.counts()
    assert (overview.counts["pending"], overview.counts["completed"]) == (15, 10)
    assert overview.flat == parted.jobs.size("pending")
    assert sum(point.completed for point in overview.throughput) == 10
    points = parted.metrics.throughput(60)
    assert len(points) == 60
    assert (sum(p.enqueued for p in points), sum(p.completed for p in points)) == (25, 10)
    assert parted.metrics.latency().wait.count == 10
    oldest = [part.metrics.oldest() for part in parted.parts]
    whole = parted.metrics.oldest()
    assert whole is not None
    assert whole >= max(wait for wait in oldest if wait is not None)
    assert sum(parted.metrics.depths().values()) == sum(parted.lanes.depths().values())


def test_percentiles_are_of_all_times_together(parted: PartitionedQueue, raw: redis.Redis) -> None:
    hour = int(raw.time()[0]) // 3600
    for n, bucket in enumerate((2, 2, 2, 40)):
        raw.hset(parted.parts[n].keys.base + b"stats:l:%d" % hour, f"w{bucket}", 30 if n else 1)
    found = [key for key in places(parted, raw) if ":stats:l:" in key]
    assert len(found) == N
    wait = parted.metrics.latency(0).wait
    assert wait.count == 91
    assert wait.p50 is not None
    assert wait.p50 < 0.01
    assert wait.p95 is not None
    assert wait.p95 > 100


# Pages


def contents(queue: Queue, state: str, newest_first: bool, size: int) -> list[str]:
    seen: list[str] = []
    while True:
        page = queue.jobs.page(state, len(seen), size, newest_first)
        assert [listed.job.id for listed in page.jobs] == [
            job.id for job in queue.jobs.browse(state, len(seen), size, newest_first)
        ]
        seen += [listed.job.id for listed in page.jobs]
        if not page.full:
            return seen


@pytest.mark.parametrize("size", [7, 50])
def test_pages_are_in_one_order(parted: PartitionedQueue, size: int) -> None:
    order = [
        (-priority, parted.jobs.enqueue(b"x", priority=priority).job_id)
        for priority in [0, 3, -2] * 20
    ]
    expected = [job_id for _, job_id in sorted(order)]
    assert contents(parted, "pending", False, size) == expected
    assert contents(parted, "pending", True, size) == expected[::-1]


def test_deep_pages_read_little(parted: PartitionedQueue, monkeypatch: pytest.MonkeyPatch) -> None:
    ids = sorted(told.job_id for told in parted.jobs.enqueue_many([b""] * 2_000))
    rounds: list[int] = []
    roundtrip = Client.roundtrip

    def counted(self: Client, commands: Any, *more: Any) -> Any:
        rounds.append(len(commands))
        return roundtrip(self, commands, *more)

    monkeypatch.setattr(Client, "roundtrip", counted)
    page = parted.jobs.page("pending", 1_234, 5, False)
    assert [listed.job.id for listed in page.jobs] == ids[1_234:1_239]
    # Each is asked twice per halving, and a few times more; how much they hold does not matter.
    assert sum(rounds) < N * 2 * 22


def test_a_walk_meets_every_job_once(parted: PartitionedQueue) -> None:
    ids = {told.job_id for told in parted.jobs.enqueue_many([b"x"] * 100)}
    met: list[str] = []
    page = parted.jobs.page("pending", 0, 10, False)
    while True:
        met += [listed.job.id for listed in page.jobs]
        # Those that go while it walks hide none.
        for listed in page.jobs:
            parted.jobs.remove(listed.job.id)
        if not page.full:
            break
        page = parted.jobs.page("pending", 0, 10, False, behind=page.end)
    assert (len(met), set(met)) == (100, ids)


def test_a_page_behind_a_place_goes_on_there(parted: PartitionedQueue) -> None:
    # Not evenly: most of what follows is in one partition.
    told = parted.jobs.enqueue_many([b"x"] * 10)
    told += parted.parts[1].jobs.enqueue_many([b"x"] * 30)
    told += parted.jobs.enqueue_many([b"x"] * 10)
    ids = sorted(each.job_id for each in told)
    found = ids[:5]
    while True:
        page = parted.jobs.page("pending", 0, 8, False, behind=(b"0", found[-1].encode()))
        assert len(page.jobs) <= 8
        found += [listed.job.id for listed in page.jobs]
        if not page.full:
            break
        assert page.end == (b"0.0", found[-1].encode())
    assert found == ids
    with pytest.raises(ValueError, match="oldest first"):
        parted.jobs.page("pending", behind=(b"0", ids[4].encode()))


# The whole queue


def test_pause_and_resume(parted: PartitionedQueue) -> None:
    parted.jobs.enqueue_many([b"x"] * 10)
    parted.parts[1].admin.pause()
    assert not parted.admin.is_paused()
    assert parted.admin.pause()
    assert parted.admin.is_paused()
    assert parted.metrics.overview().paused
    assert parted.jobs.claim(10) == []
    assert not parted.admin.pause()
    parted.parts[1].admin.resume()
    assert parted.admin.resume()
    assert not parted.admin.resume()
    assert len(parted.jobs.claim(10)) == 10


def test_drain_takes_what_was_there_when_it_began(parted: PartitionedQueue) -> None:
    parted.jobs.enqueue_many([b"x"] * 100)
    parted.jobs.enqueue_many([b"x"] * 20, lane="a")
    parted.jobs.enqueue_in(b"x", 60)
    told: list[tuple[int, int]] = []
    late: list[str] = []

    def progress(done: int, total: int) -> None:
        told.append((done, total))
        late.extend(each.job_id for each in parted.jobs.enqueue_many([b"late"] * N))

    assert parted.admin.drain(progress=progress) == 120
    assert told[-1] == (120, 120)
    assert {parted.jobs.state(job_id) for job_id in late} == {"pending"}
    assert parted.admin.drain(include_scheduled=True) == len(late) + 1
    assert parted.metrics.counts("pending", "scheduled") == {"pending": 0, "scheduled": 0}


def test_an_interrupted_drain_is_finished_by_another(parted: PartitionedQueue) -> None:
    parted.jobs.enqueue_many([b"x"] * 300)

    def interrupt(done: int, total: int) -> None:
        if done >= 150:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parted.admin.drain(progress=interrupt)
    left = parted.metrics.counts("pending")["pending"]
    assert 0 < left <= 150
    assert parted.admin.drain() == left


def test_dead_and_scheduled_jobs_come_back(make_partitioned: Make) -> None:
    parted = make_partitioned(max_attempts=1)
    parted.jobs.enqueue_many([b"x"] * 30)
    for claim in parted.jobs.claim(30):
        parted.jobs.retry(claim)
    assert parted.metrics.counts("dead") == {"dead": 30}
    assert parted.admin.reprocess_all() == 30
    for claim in parted.jobs.claim(30):
        parted.jobs.delay(claim, 60)
    assert parted.admin.promote_all() == 30
    for claim in parted.jobs.claim(30):
        parted.jobs.retry(claim)
    assert parted.admin.clean("dead", 0, limit=7) == 7
    assert parted.admin.clean("dead", 60) == 0
    assert parted.admin.clean("dead", 0) == 23


def test_obliterate_leaves_no_key(parted: PartitionedQueue, raw: redis.Redis) -> None:
    parted.jobs.enqueue_many([b"x"] * 60)
    parted.jobs.enqueue(b"x", lane="a")
    parted.jobs.enqueue(b"x", unique=Unique("k"))
    parted.repeat.register("s", payload=b"x", every=60)
    with pytest.raises(NotPaused):
        parted.admin.obliterate()
    claims = parted.jobs.claim(1)
    parted.admin.pause()
    with pytest.raises(ActiveJobs):
        parted.admin.obliterate()
    assert parted.metrics.counts("pending")["pending"] == 61
    parted.jobs.complete(claims[0])
    assert parted.admin.obliterate() == 61
    assert places(parted, raw) == []


def test_an_interrupted_obliterate_is_finished_by_another(
    parted: PartitionedQueue, raw: redis.Redis
) -> None:
    parted.jobs.enqueue_many([b"x"] * 200)
    parted.admin.pause()

    def interrupt(done: int, total: int) -> None:
        if done > 120:
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        parted.admin.obliterate(progress=interrupt)
    assert not parted.parts[0].admin.is_paused()  # gone, and its pause with it
    parted.admin.obliterate()
    assert places(parted, raw) == []


# Limits


def test_limits_are_divided_and_never_exceeded(make_partitioned: Make) -> None:
    parted = make_partitioned(concurrency=6, rate_limit=Rate(10, 86_400_000))
    assert set(parted.admin.configure()) == {"concurrency", "rate"}
    assert parted.admin.configure() == []
    overview = parted.metrics.overview()
    assert (overview.concurrency, overview.rate) == (6, Rate(10, 86_400_000))
    parted.jobs.enqueue_many([b"x"] * 100)
    claims = parted.jobs.claim(100)
    assert len(claims) == 6
    assert parted.metrics.is_maxed()
    assert parted.metrics.overview().limited
    for claim in claims:
        parted.jobs.complete(claim)
    assert len(parted.jobs.claim(100)) == 4
    parted.admin.limit_rate(None)
    parted.admin.limit_concurrency(None)
    assert parted.metrics.overview().concurrency is None
    with pytest.raises(ValueError, match="3 cannot be divided among 4"):
        parted.admin.limit_concurrency(3)
    with pytest.raises(ValueError, match="3 cannot be divided among 4"):
        parted.admin.limit_rate("3/s")
    with pytest.raises(ValueError, match="divided"):
        make_partitioned(concurrency=3)


def test_the_settings_of_lanes_go_where_the_lanes_are(make_partitioned: Make) -> None:
    lanes = {f"lane-{n}": LaneOptions(weight=2, limit=n + 1) for n in range(8)}
    parted = make_partitioned(lanes=lanes)
    parted.admin.configure()
    found = {lane.name: (lane.weight, lane.limit) for lane in parted.lanes.all()}
    assert found == {name: (2, how.limit) for name, how in lanes.items()}
    assert sum(len(part.lanes.all()) for part in parted.parts) == 8


# Schedules, recovery, workers, events


def test_a_schedule_fires_once_and_its_jobs_are_found(parted: PartitionedQueue) -> None:
    start = datetime.now(UTC) - timedelta(days=1)
    names = {"plain": None, "in-lane": "acme"}
    for name, lane in names.items():
        parted.repeat.register(
            name, payload=name.encode(), every=3600, start=start, lane=lane, replace=True
        )
    assert [schedule.name for schedule in parted.repeat.all()] == ["in-lane", "plain"]
    assert parted.repeat.count() == 2
    for part in parted.parts:
        part.drive(part.client.command("ZADD", part.keys.base + b"repeat", "XX", 1, "plain"))
        part.drive(part.client.command("ZADD", part.keys.base + b"repeat", "XX", 1, "in-lane"))
    assert {schedule.name for schedule in parted.repeat.due()} == set(names)
    assert parted.repeat.fire() == 2
    assert parted.repeat.fire() == 0
    jobs = [*parted.jobs.browse("pending"), *parted.jobs.browse("pending", lane="acme")]
    assert {job.payload for job in jobs} == {b"plain", b"in-lane"}
    for job in jobs:
        assert parted.jobs.state(job.id) == "pending"
    assert parted.repeat.run_now("in-lane").outcome == "enqueued"
    assert parted.lanes.depth("acme") == 2


def test_a_schedule_stands_once_whatever_lane_it_gets(parted: PartitionedQueue) -> None:
    register = parted.repeat.register
    assert register("s", payload=b"1", every=60, lane=lane_in(0)) == "registered"
    assert register("s", payload=b"2", every=60, lane=lane_in(1)) == "exists"
    assert register("s", payload=b"2", every=60, lane=lane_in(1), replace=True) == "replaced"
    (schedule,) = parted.repeat.all()
    assert schedule == parted.repeat.get("s")
    assert schedule.definition.payload == b"2"
    assert parted.repeat.pause("s")
    assert not parted.repeat.pause("s")
    assert parted.repeat.resume("s")
    assert not parted.repeat.resume("s")
    assert parted.repeat.reconcile([], "") == {"s": "cancelled"}
    assert not parted.repeat.cancel("s")


def test_a_schedule_that_stands_elsewhere_comes_home(parted: PartitionedQueue) -> None:
    definition = Definition("s", b"x", every_ms=60_000, lane=lane_in(0), source="settings")
    assert parted.repeat.reconcile([definition], "settings") == {"s": "registered"}
    for part in parted.parts[1:]:  # as if there had been another number of partitions
        part.repeat.reconcile([definition], "settings")
    assert parted.repeat.count() == N
    assert parted.repeat.reconcile([definition], "settings") == {"s": "replaced"}
    assert [part.repeat.count() for part in parted.parts] == [1, 0, 0, 0]
    assert parted.repeat.reconcile([definition], "settings") == {}


def test_lapsed_jobs_are_recovered_in_all(make_partitioned: Make) -> None:
    parted = make_partitioned(lease_ms=100)
    parted.jobs.enqueue_many([b"x"] * 12)
    claims = parted.jobs.claim(12)
    assert len(claims) == 12
    swept: list[int] = []

    def sweep() -> bool:
        swept.append(parted.stalled.check(limit=5).recovered)
        return sum(swept) == 12

    wait_until(sweep, "the leases to lapse")
    assert max(swept) <= 5
    assert not parted.stalled.is_stalled(claims[0].job_id)
    assert parted.metrics.counts("pending") == {"pending": 12}


def test_events_of_all_are_heard(parted: PartitionedQueue) -> None:
    with parted.events.subscribe(timeout=20) as events:
        ids = [parted.jobs.enqueue(b"x").job_id for _ in range(2 * N)]
        parted.events.publish("mine", ids[0])
        heard = [next(events) for _ in range(2 * N + 1)]
    # Of nodes of a cluster they come in whatever order.
    assert {event.job_id for event in heard if event.name != "mine"} == set(ids)
    assert [event.job_id for event in heard if event.name == "mine"] == [ids[0]]
    assert parted.events.is_enabled()
    parted.events.disable()
    assert not parted.events.is_enabled()
    assert not any(part.events.is_enabled() for part in parted.parts)
    parted.events.enable()
    assert parted.events.is_enabled()


def test_partitions_on_several_servers(
    parted: PartitionedQueue, client: Client, disposable: Endpoint
) -> None:
    other = Client(disposable)
    spread = PartitionedQueue(parted.name, [client, other] * 2)
    try:
        with spread.events.subscribe(timeout=20) as events:
            ids = [spread.jobs.enqueue(b"x").job_id for _ in range(10)]
            assert {next(events).job_id for _ in ids} == set(ids)
        assert spread.metrics.overview().counts["pending"] == 10
        there = sum(part.metrics.counts("pending")["pending"] for part in spread.parts[1::2])
        assert there == sum(partition_of(job_id, N) % 2 for job_id in ids)
        assert [each.job.id for each in spread.jobs.page(newest_first=False).jobs] == sorted(ids)
        assert {claim.job_id for claim in spread.jobs.claim(20)} == set(ids)
        assert spread.server == f"{client.endpoint.label}, {other.endpoint.label}"
        through = spread.through(lambda each: each)
        assert [part.client for part in through.parts] == [part.client for part in spread.parts]
        assert through.parts[1].through(lambda each: client).keys.queue == f"{parted.name}.p1"
    finally:
        other.close()


def test_no_verb_is_forgotten(parted: PartitionedQueue) -> None:
    """Nothing of a partitioned queue speaks to the server under the name of the whole."""
    with pytest.raises(TypeError, match="one of its parts"):
        parted.run("jobs/claim")
    below = ("self._queue.run(", "self._queue.call(", "keys.base", "self._client.", "keys.meta")
    for plain, partitioned in ((Jobs, PartitionedJobs), (Metrics, PartitionedMetrics)):
        for name, verb in inspect.getmembers(plain, inspect.isfunction):
            if any(word in inspect.getsource(verb) for word in below):
                mine = getattr(partitioned, name) is not verb
                assert mine or name in _BELOW, f"{plain.__name__}.{name}"


# What only verbs that are replaced call.
_BELOW = {
    "__init__",
    "_admit",
    "_admit_call",
    "_admitted",
    "_exchange",
    "_history",
    "_oldest_look",
    "admission",
    "exchange_call",
    "reading",
}


# Beside a queue that is not partitioned

_ACTS = st.lists(
    st.one_of(
        st.tuples(st.just("enqueue"), st.sampled_from([None, "a", "b"]), st.integers(-2, 2)),
        st.tuples(st.just("unique"), st.sampled_from(["k", "l"]), st.just(0)),
        st.tuples(st.just("later"), st.none(), st.just(0)),
        st.tuples(st.just("settle"), st.sampled_from(["complete", "retry", "release"]), st.just(0)),
        st.tuples(
            st.sampled_from(["cancel", "remove", "promote", "reprocess"]),
            st.none(),
            st.integers(0, 30),
        ),
        st.tuples(
            st.sampled_from(["pause", "resume", "promote_all", "reprocess_all", "drain"]),
            st.none(),
            st.just(0),
        ),
    ),
    max_size=30,
)


class Player:
    """Plays the same verbs on a queue; jobs are known by when they were enqueued."""

    def __init__(self, queue: Queue) -> None:
        self.queue = queue
        self.ids: list[str] = []

    def play(self, act: str, word: str | None, number: int) -> Any:
        jobs, admin = self.queue.jobs, self.queue.admin
        if act in ("enqueue", "unique", "later"):
            payload = b"%d" % len(self.ids)
            if act == "enqueue":
                told = jobs.enqueue(payload, lane=word, priority=number)
            elif act == "unique":
                told = jobs.enqueue(payload, unique=Unique(str(word)))
            else:
                told = jobs.enqueue_in(payload, 3600)
            if told.outcome == "duplicate":
                return self.ids.index(told.job_id)
            self.ids.append(told.job_id)
            return told.outcome
        if act == "settle":
            # All that wait, as the order over partitions is none.
            claims = sorted(jobs.claim(500), key=lambda claim: int(claim.payload))
            for claim in claims:
                if word == "retry":
                    jobs.retry(claim, 3600, 1 if int(claim.payload) % 2 else 3)
                else:
                    getattr(jobs, str(word))(claim)
            return [(claim.payload, claim.attempt, claim.lane) for claim in claims]
        if act in ("cancel", "remove", "promote", "reprocess"):
            verb = getattr(jobs, f"{act}_many")
            return verb(self.ids[number : number + 3])
        return getattr(admin, act)()

    def look(self) -> Any:
        queue = self.queue
        states = ("pending", "scheduled", "dead", "completed")
        return (
            queue.metrics.counts(),
            queue.admin.is_paused(),
            queue.lanes.all(),
            [queue.jobs.state(job_id) for job_id in self.ids],
            {
                state: [self.ids.index(job.id) for job in queue.jobs.browse(state)]
                for state in ("pending", "dead")
            },
            {state: queue.jobs.size(state) for state in states},
        )


@settings(max_examples=25)
@given(acts=_ACTS)
def test_it_does_what_a_queue_does(client: Client, raw: redis.Redis, acts: list[Any]) -> None:
    name = f"part{os.getpid()}-{next(_names)}"
    plain, parted = Player(Queue(name, client)), Player(PartitionedQueue(name, [client] * 3))
    try:
        for act in acts:
            assert parted.play(*act) == plain.play(*act), act
        assert parted.look() == plain.look()
    finally:
        for queue in (*plain.queue.parts, *parted.queue.parts):
            purge(raw, queue.keys.queue)
