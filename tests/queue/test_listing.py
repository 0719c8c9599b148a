"""Readers for lists: pages without what is long, sizes, all figures at one look, ends of logs."""

from __future__ import annotations

import time
from collections.abc import Callable

import pytest
import redis

from django_echomq.queue import Queue, Verdict
from django_echomq.wire.errors import InvalidId, JobGone, WrongState
from django_echomq.wire.ids import min_for
from django_echomq.wire.scripts import script
from tests.queue.keyspace import snapshot
from tests.wire.proxy import Proxy


def filled(queue: Queue, count: int) -> list[str]:
    return [each.job_id for each in queue.jobs.enqueue_many([b"x"] * count)]


def test_a_page_goes_by_rank_in_both_orders(queue: Queue) -> None:
    ids = filled(queue, 7)
    first = queue.jobs.page(limit=3)
    assert [each.job.id for each in first.jobs] == ids[:3:-1]
    assert (first.length, first.full) == (3, True)
    last = queue.jobs.page(offset=6, limit=3, newest_first=False)
    assert [each.job.id for each in last.jobs] == ids[6:]
    assert (last.length, last.full) == (1, False)
    beyond = queue.jobs.page(offset=50, limit=3)
    assert (beyond.jobs, beyond.length, beyond.full, beyond.end) == ([], 0, False, None)


def test_pages_behind_a_place_meet_each_job_once(queue: Queue) -> None:
    """However many come and go before the place."""
    ids = filled(queue, 20)
    met, place = [], None
    while True:
        page = queue.jobs.page(limit=3, newest_first=False, behind=place)
        met += [each.job.id for each in page.jobs]
        if not page.full:
            break
        place = page.end
        queue.jobs.remove(met[-1])
        queue.jobs.enqueue(b"urgent", priority=9)
    assert met == ids
    with pytest.raises(ValueError):
        queue.jobs.page(behind=(b"0", b"x"))


def test_a_page_leaves_out_what_is_long(queue: Queue, raw: redis.Redis) -> None:
    short, long = (queue.jobs.enqueue(b"x" * n).job_id for n in (4_096, 4_097))
    key = queue.keys.base + b"job:" + short.encode()
    raw.hset(key, mapping={"result": "r", "history": "{}", "last_error": "e" * 10_000})
    first, second = queue.jobs.page(newest_first=False).jobs
    assert (first.job.payload, first.length, first.too_long) == (b"x" * 4_096, 4_096, False)
    assert (first.job.result, first.job.history) == (None, [])
    assert first.job.last_error == "e" * 4_096
    assert (second.job.id, second.job.payload, second.length) == (long, b"", 4_097)
    assert second.too_long


def test_a_page_leaves_out_what_is_no_job(queue: Queue, raw: redis.Redis) -> None:
    ids = filled(queue, 2)
    raw.zadd(queue.keys.base + b"pending", {"a/b": 0, ids[0][:13] + "!": 0})
    raw.hset(queue.keys.base + b"job:a/b", "attempts", "0")
    raw.delete(queue.keys.base + b"job:" + ids[0].encode())
    page = queue.jobs.page(newest_first=False)
    assert [each.job.id for each in page.jobs] == [ids[1]]
    assert page.length == 4


def test_pages_of_every_state(queue: Queue) -> None:
    parked = queue.jobs.enqueue_at(b"x", 4_000_000_000_000).job_id
    in_lane = queue.jobs.enqueue(b"x", lane="a").job_id
    (listed,) = queue.jobs.page("scheduled").jobs
    assert (listed.job.id, listed.due_ms) == (parked, 4e12)
    assert listed.due_at is not None
    assert listed.due_at.year == 2096
    assert [each.job.id for each in queue.jobs.page(lane="a").jobs] == [in_lane]
    assert queue.jobs.page().jobs == []
    (claim,) = queue.jobs.claim()
    assert [each.job.id for each in queue.jobs.page("active").jobs] == [in_lane]
    queue.jobs.complete(claim)
    queue.jobs.cancel(parked)
    states = {each.job.id: each.job.state for each in queue.jobs.page("completed").jobs}
    assert states == {in_lane: "completed", parked: "cancelled"}
    queue.jobs.enqueue(b"x")
    queue.jobs.retry(queue.jobs.claim()[0], 0, 1, "no")
    (dead,) = queue.jobs.page("dead").jobs
    assert (dead.job.state, dead.job.last_error, dead.due_ms) == ("dead", "no", None)
    sizes = {state: queue.jobs.size(state) for state in ("pending", "scheduled", "dead")}
    assert sizes == {"pending": 0, "scheduled": 0, "dead": 1}
    assert queue.jobs.size("completed") == 2


@pytest.mark.parametrize(
    ("state", "offset", "limit", "lane"),
    [
        ("gone", 0, 1, None),
        ("dead", 0, 1, "a"),
        ("dead", -1, 1, None),
        ("dead", 0, 0, None),
        ("dead", 0, 1_001, None),
        ("pending", 0, 1, "no lane"),
    ],
)
def test_pages_that_there_are_not(
    queue: Queue, state: str, offset: int, limit: int, lane: str | None
) -> None:
    with pytest.raises(ValueError):
        queue.jobs.page(state, offset, limit, lane=lane)


def test_looks_change_nothing(queue: Queue, raw: redis.Redis) -> None:
    filled(queue, 3)
    queue.admin.limit_concurrency(2)
    before = snapshot(queue, raw)
    queue.jobs.page()
    queue.jobs.size("pending")
    queue.metrics.overview()
    assert snapshot(queue, raw) == before


def test_promoting_many(queue: Queue) -> None:
    parked = [queue.jobs.enqueue_in(b"x", 3_600).job_id for _ in range(120)]
    (waiting,) = filled(queue, 1)
    verdicts = queue.jobs.promote_many([*parked, waiting, "JOB00000000000", parked[0]])
    assert verdicts[:120] == [Verdict.DONE] * 120
    assert verdicts[120:] == [Verdict.REFUSED, Verdict.GONE, Verdict.REFUSED]
    assert queue.metrics.counts("pending", "scheduled") == {"pending": 121, "scheduled": 0}
    assert len(queue.jobs.claim(500)) == 121
    with pytest.raises(InvalidId):
        queue.jobs.promote_many([parked[0], "x"])
    with pytest.raises(WrongState):
        queue.jobs.promote_now(waiting)
    with pytest.raises(JobGone):
        queue.jobs.promote_now("JOB00000000000")


def test_promoting_is_done_once_though_a_reply_is_lost(lossy: Queue, proxy: Proxy) -> None:
    parked = [lossy.jobs.enqueue_in(b"x", 3_600).job_id for _ in range(3)]
    proxy.lose_reply(script("jobs/promote_now").sha)
    assert lossy.jobs.promote_many(parked) == [Verdict.DONE] * 3
    assert lossy.metrics.counts("pending") == {"pending": 3}


def test_an_overview_says_what_each_reader_says(
    make_queue: Callable[..., Queue], raw: redis.Redis
) -> None:
    queue = make_queue()
    empty = queue.metrics.overview()
    assert empty.counts == queue.metrics.counts()
    assert (empty.state, empty.oldest, empty.workers, empty.flat) == ("running", None, 0, 0)
    assert (empty.concurrency, empty.rate, len(empty.throughput)) == (None, None, 60)
    filled(queue, 3)
    queue.jobs.enqueue(b"x", lane="a")
    queue.lanes.pause("a")
    queue.jobs.enqueue_in(b"x", 60)
    queue.admin.limit_concurrency(1)
    queue.admin.limit_rate("100/m")
    queue.jobs.retry(queue.jobs.claim()[0], 0, 1)
    queue.jobs.claim()
    queue.run("jobs/tick", 0, 0, 0, 0, 0, "w", "{}")
    seen = queue.metrics.overview()
    assert seen.counts == queue.metrics.counts()
    assert seen.counts == {
        "pending": 2,
        "active": 1,
        "scheduled": 1,
        "dead": 1,
        "completed": 0,
        "failed": 1,
    }
    assert (seen.state, seen.limited, seen.workers, seen.flat) == ("limited", True, 1, 1)
    assert (seen.concurrency, str(seen.rate)) == (1, "100/m")
    assert seen.failed_last_hour == 1
    assert sum(point.enqueued for point in seen.throughput) == 5
    assert seen.oldest is not None
    queue.admin.pause()
    assert queue.metrics.overview().state == "paused"


def test_the_oldest_is_found_in_the_last_of_fifty_lanes(queue: Queue) -> None:
    for n in range(49):
        queue.jobs.enqueue(b"x", lane=f"lane{n}")
    queue.jobs.enqueue_many([b"x"] * 2, lane="old")
    year_ago = min_for(time.time_ns() // 1_000_000 - 31_536_000_000)
    queue.jobs.enqueue(b"x", lane="old", job_id=year_ago)
    oldest = queue.metrics.oldest()
    assert oldest is not None
    assert oldest > 31_000_000
    assert queue.metrics.overview().oldest >= oldest


def test_the_oldest_is_found_in_the_lowest_priority_of_a_lane(queue: Queue) -> None:
    for n in range(19):
        queue.jobs.enqueue(b"x", lane=f"lane{n}")
    queue.jobs.enqueue_many([b"x"] * 2, lane="old")
    year_ago = min_for(time.time_ns() // 1_000_000 - 31_536_000_000)
    queue.jobs.enqueue(b"x", lane="old", priority=-5, job_id=year_ago)
    oldest = queue.metrics.oldest()
    assert oldest is not None
    assert oldest > 31_000_000


def test_the_end_of_a_log(queue: Queue) -> None:
    (job_id,) = filled(queue, 1)
    for n in range(5):
        queue.jobs.add_log(job_id, f"{n}" * 5_000)
    lines, count = queue.jobs.tail(job_id, 2)
    assert (lines, count) == (["3" * 4_096, "4" * 4_096], 5)
    assert queue.jobs.logs(job_id) == [f"{n}" * 5_000 for n in range(5)]
    with pytest.raises(JobGone):
        queue.jobs.tail("JOB00000000000", 2)
