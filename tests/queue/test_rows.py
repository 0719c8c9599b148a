"""Single rows: reading, browsing, progress and logs."""

from __future__ import annotations

import json
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

import pytest
import redis

from django_echomq.queue import Claim, Queue, Unique
from django_echomq.wire.errors import InvalidId, InvalidName, JobGone
from django_echomq.wire.ids import minted_at
from tests.queue.keyspace import names, snapshot
from tests.wire.monitor import recorded

MakeQueue = Callable[..., Queue]

OWN = "JOB0NsVQMCRgHI"


def claim_one(queue: Queue, **admission: Any) -> Claim:
    queue.jobs.enqueue(b"x", **admission)
    (claim,) = queue.jobs.claim()
    return claim


# State


@pytest.mark.parametrize("lane", [None, "a"])
def test_the_state_of_a_job_through_its_life(queue: Queue, lane: str | None) -> None:
    jobs = queue.jobs
    assert jobs.state(OWN) == "absent"
    jobs.enqueue_at(b"x", 1, job_id=OWN, lane=lane)
    assert jobs.state(OWN) == "scheduled"
    jobs.promote()
    assert jobs.state(OWN) == "pending"
    (claim,) = jobs.claim()
    assert jobs.state(OWN) == "active"
    jobs.complete(claim)
    assert jobs.state(OWN) == "completed"


def test_the_state_of_a_dead_job(queue: Queue) -> None:
    claim = claim_one(queue)
    queue.jobs.retry(claim, max_attempts=1)
    assert queue.jobs.state(claim.job_id) == "dead"


def test_the_state_is_where_a_job_stands_whatever_its_row_says(
    queue: Queue, raw: redis.Redis
) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    raw.hset(queue.keys.job(job_id), "state", "dead")
    assert queue.jobs.state(job_id) == "pending"


def test_a_row_that_stands_nowhere_is_unknown(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    raw.delete(queue.keys.pending)
    assert queue.jobs.state(job_id) == "unknown"


def test_a_row_that_waits_for_children_stands_nowhere_and_says_so(
    queue: Queue, raw: redis.Redis
) -> None:
    row = {"state": "awaiting_children", "attempts": 0, "payload": "x"}
    raw.hset(queue.keys.job(OWN), mapping=row)
    assert queue.jobs.state(OWN) == "awaiting_children"
    assert queue.jobs.get(OWN).state == "awaiting_children"


@pytest.mark.parametrize("verb", ["state", "get", "logs"])
@pytest.mark.parametrize(
    "job_id", ["", "x", "job0NsVQMCRgHI", None, OWN.encode(), "JOBzzzzzzzzzzz"]
)
def test_reading_asks_for_a_branded_id(
    queue: Queue, raw: redis.Redis, verb: str, job_id: Any
) -> None:
    with recorded(raw) as recording:
        with pytest.raises(InvalidId):
            getattr(queue.jobs, verb)(job_id)
        assert recording.sent() == []


# One row


def test_a_row_tells_all_about_a_waiting_job(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"body", lane="a", priority=7, unique=Unique("u")).job_id
    job = queue.jobs.get(job_id)
    assert (job.id, job.state, job.payload) == (job_id, "pending", b"body")
    assert (job.lane, job.priority, job.unique) == ("a", 7, "u")
    assert (job.attempts, job.attempt, job.stalled) == (0, 0, 0)
    assert job.enqueued_at == minted_at(job_id)
    assert (job.started_at, job.finished_at, job.worker) == (None, None, None)
    assert (job.result, job.last_error, job.progress) == (None, None, None)
    assert job.history == []


def test_a_row_tells_when_it_started_and_ended(queue: Queue) -> None:
    claim = claim_one(queue)
    queue.jobs.complete(claim)
    job = queue.jobs.get(claim.job_id)
    assert job.started_at is not None
    assert job.finished_at is not None
    assert job.started_at <= job.finished_at
    assert job.finished_at.tzinfo is UTC


def test_reading_a_row_changes_nothing(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue)
    before = snapshot(queue, raw)
    queue.jobs.get(claim.job_id)
    queue.jobs.state(claim.job_id)
    queue.jobs.browse("active")
    queue.jobs.logs(claim.job_id)
    queue.metrics.counts()
    assert snapshot(queue, raw) == before


def test_a_job_that_is_not_there_is_gone(queue: Queue) -> None:
    with pytest.raises(JobGone, match=f"there is no job {OWN} in queue '{queue.name}'"):
        queue.jobs.get(OWN)


def test_a_refusal_of_a_missing_job_is_a_lookup_error() -> None:
    assert issubclass(JobGone, LookupError)


def test_an_outcome_that_ended_is_gone(queue: Queue, raw: redis.Redis) -> None:
    claim = claim_one(queue)
    queue.jobs.complete(claim)
    raw.delete(queue.keys.outcome(claim.job_id))
    assert queue.jobs.state(claim.job_id) == "absent"
    with pytest.raises(JobGone):
        queue.jobs.get(claim.job_id)


# Browsing


@pytest.fixture
def full(queue: Queue) -> tuple[Queue, list[str]]:
    """A queue of five waiting jobs, and their ids, oldest first."""
    return queue, [queue.jobs.enqueue(b"%d" % i).job_id for i in range(5)]


def test_a_page_is_newest_first(full: tuple[Queue, list[str]]) -> None:
    queue, ids = full
    assert [job.id for job in queue.jobs.browse()] == ids[::-1]


def test_a_page_may_be_oldest_first(full: tuple[Queue, list[str]]) -> None:
    queue, ids = full
    assert [job.id for job in queue.jobs.browse(newest_first=False)] == ids


@pytest.mark.parametrize("newest_first", [True, False])
def test_pages_follow_each_other(full: tuple[Queue, list[str]], newest_first: bool) -> None:
    queue, ids = full
    found = [
        job.id
        for offset in (0, 2, 4, 6)
        for job in queue.jobs.browse(offset=offset, limit=2, newest_first=newest_first)
    ]
    assert found == (ids[::-1] if newest_first else ids)


def test_a_page_reads_whole_rows(full: tuple[Queue, list[str]]) -> None:
    queue, ids = full
    page = queue.jobs.browse(newest_first=False)
    assert page == [queue.jobs.get(job_id) for job_id in ids]


@pytest.mark.parametrize("state", ["pending", "active", "scheduled", "dead", "completed"])
def test_each_state_is_browsed(queue: Queue, state: str) -> None:
    jobs = queue.jobs
    scheduled = jobs.enqueue_in(b"x", 60).job_id
    active, dead, completed = (claim_one(queue) for _ in range(3))
    jobs.retry(dead, max_attempts=1)
    jobs.complete(completed)
    ids = {
        "scheduled": scheduled,
        "active": active.job_id,
        "dead": dead.job_id,
        "completed": completed.job_id,
        "pending": jobs.enqueue(b"x").job_id,
    }
    (found,) = jobs.browse(state)
    assert (found.id, found.state) == (ids[state], state)


def test_a_lane_is_browsed_by_its_name(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x", lane="a").job_id
    queue.jobs.enqueue(b"x", lane="b")
    assert [job.id for job in queue.jobs.browse(lane="a")] == [job_id]
    assert queue.jobs.browse() == []


def test_members_without_a_row_are_left_out_of_a_page(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    raw.zadd(queue.keys.pending, {OWN: 0})
    assert [job.id for job in queue.jobs.browse()] == [job_id]


@pytest.mark.parametrize("state", ["schedule", "waiting", "", "outcomes", "g:a:pending", None])
def test_an_unknown_state_is_refused_with_the_known_ones(queue: Queue, state: Any) -> None:
    with pytest.raises(ValueError, match="use pending, active, scheduled, dead, completed"):
        queue.jobs.browse(state)


@pytest.mark.parametrize("page", [(-1, 10), (0, 0), (0, -1), (0, 1_001)])
def test_a_page_outside_of_bounds_is_refused(queue: Queue, page: tuple[int, int]) -> None:
    with pytest.raises(ValueError, match="a page starts at rank 0 or later"):
        queue.jobs.browse(offset=page[0], limit=page[1])


def test_only_pending_jobs_are_browsed_by_lane(queue: Queue) -> None:
    with pytest.raises(ValueError, match="only pending jobs stand in a lane"):
        queue.jobs.browse("active", lane="a")


def test_a_bad_lane_is_refused(queue: Queue) -> None:
    with pytest.raises(InvalidName):
        queue.jobs.browse(lane="a b")


# Progress


def test_progress_is_kept_in_the_row(queue: Queue) -> None:
    claim = claim_one(queue)
    queue.jobs.update_progress(claim.job_id, "40")
    queue.jobs.update_progress(claim.job_id, '{"done": 2}')
    assert queue.jobs.get(claim.job_id).progress == '{"done": 2}'


@pytest.mark.parametrize("progress", ["40", "", 'qu"ote \\ \n', "na\u00efve \U0001f600", "\0"])
def test_progress_is_published_as_one_json_object(
    queue: Queue, raw: redis.Redis, progress: str
) -> None:
    claim = claim_one(queue)
    with raw.pubsub() as subscription:
        subscription.subscribe(queue.keys.events)
        assert subscription.get_message(timeout=10)["type"] == "subscribe"
        queue.jobs.update_progress(claim.job_id, progress)
        message = subscription.get_message(timeout=10)
    assert json.loads(message["data"]) == {
        "event": "progress",
        "job": claim.job_id,
        "progress": progress,
    }


def test_progress_of_no_job_is_refused_and_not_published(queue: Queue, raw: redis.Redis) -> None:
    with recorded(raw) as recording:
        with pytest.raises(JobGone):
            queue.jobs.update_progress(OWN, "40")
        assert not [asked for asked in recording.seen() if asked.text.startswith("PUBLISH")]
    assert names(queue, raw) == set()


def test_progress_of_a_completed_job_is_refused(queue: Queue) -> None:
    claim = claim_one(queue)
    queue.jobs.complete(claim)
    with pytest.raises(JobGone):
        queue.jobs.update_progress(claim.job_id, "100")


def test_progress_that_cannot_be_sent_is_refused(queue: Queue) -> None:
    claim = claim_one(queue)
    with pytest.raises(ValueError, match="surrogates"):
        queue.jobs.update_progress(claim.job_id, "\ud800")
    assert queue.jobs.get(claim.job_id).progress is None


# Logs


def test_log_lines_are_kept_in_order_and_counted(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    assert [queue.jobs.add_log(job_id, line) for line in ("a", "b", "")] == [1, 2, 3]
    assert queue.jobs.logs(job_id) == ["a", "b", ""]


def test_a_log_may_keep_only_its_newest_lines(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    assert [queue.jobs.add_log(job_id, f"{i}", keep=3) for i in range(5)] == [1, 2, 3, 3, 3]
    assert queue.jobs.logs(job_id) == ["2", "3", "4"]


@pytest.mark.parametrize("keep", [0, -1])
def test_a_log_keeps_at_least_one_line(queue: Queue, keep: int) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    with pytest.raises(ValueError, match="at least one line"):
        queue.jobs.add_log(job_id, "a", keep=keep)
    assert queue.jobs.logs(job_id) == []


def test_a_log_line_may_hold_anything_that_text_can(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    line = "na\u00efve \0 \n \U0001f600 " + "x" * 100_000
    queue.jobs.add_log(job_id, line)
    assert queue.jobs.logs(job_id) == [line]


def test_a_log_line_that_is_not_utf_8_is_read_as_well_as_it_can_be(
    queue: Queue, raw: redis.Redis
) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    raw.rpush(queue.keys.logs(job_id), b"\xff ok")
    assert queue.jobs.logs(job_id) == ["\\xff ok"]


def test_a_job_without_a_log_has_an_empty_one(queue: Queue) -> None:
    assert queue.jobs.logs(queue.jobs.enqueue(b"x").job_id) == []


def test_a_log_of_no_job_is_refused_and_not_written(queue: Queue, raw: redis.Redis) -> None:
    with pytest.raises(JobGone):
        queue.jobs.add_log(OWN, "a")
    with pytest.raises(JobGone):
        queue.jobs.logs(OWN)
    assert names(queue, raw) == set()


def test_a_completed_job_takes_no_more_lines_but_shows_what_it_has(queue: Queue) -> None:
    claim = claim_one(queue)
    queue.jobs.add_log(claim.job_id, "a")
    queue.jobs.complete(claim)
    with pytest.raises(JobGone):
        queue.jobs.add_log(claim.job_id, "b")
    assert queue.jobs.logs(claim.job_id) == ["a"]


def test_the_log_of_a_dead_job_stays(queue: Queue) -> None:
    claim = claim_one(queue)
    queue.jobs.add_log(claim.job_id, "a")
    queue.jobs.retry(claim, max_attempts=1)
    assert queue.jobs.logs(claim.job_id) == ["a"]


def test_the_mint_time_of_a_job_is_read_from_its_id(queue: Queue) -> None:
    queue.jobs.enqueue(b"x", job_id=OWN)
    enqueued_at = queue.jobs.get(OWN).enqueued_at
    assert enqueued_at == datetime(2026, 6, 11, 0, 16, 4, 963000, tzinfo=UTC)
