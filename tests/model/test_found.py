"""What the model found, each as the shortest sequence that shows it."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from django_echomq.queue import Queue
from django_echomq.worker.promoter import tick_call
from tests.queue.keyspace import lapse, names, snapshot

MakeQueue = Callable[..., Queue]

OWN = "JOB0NsVQMCRgHI"
INDEXES = ["outcomes", "died", "cancels", "throttled", "gactive"]


def plant(queue: Queue, raw: redis.Redis, place: str) -> None:
    raw.set(queue.keys.base + place.encode(), "foreign")


def tick(queue: Queue, worker: str = "") -> list[object]:
    call = tick_call(queue, 100)
    if worker:
        call = call._replace(args=(*call.args[:5], worker, "{}"))
    return queue.drive(queue.client.run(call))


def test_the_figures_can_be_read_beside_a_foreign_counter(queue: Queue, raw: redis.Redis) -> None:
    for name in ("completed", "failed"):
        raw.set(queue.keys.metric(name), "foreign")
    queue.jobs.enqueue(b"x")
    assert queue.metrics.counts("pending", "completed") == {"pending": 1, "completed": 0}
    assert queue.metrics.overview().counts["failed"] == 0
    assert queue.admin.drain() == 1


def test_a_request_to_cancel_does_not_outlive_its_job(queue: Queue, raw: redis.Redis) -> None:
    """Another job under the same id would be cancelled, which nobody asked for."""
    queue.jobs.enqueue(b"x", job_id=OWN)
    queue.jobs.claim()
    queue.jobs.cancel(OWN)
    raw.zadd(queue.keys.active, {OWN: 1})  # its lease has lapsed
    queue.jobs.remove(OWN)
    assert "cancels" not in names(queue, raw)
    queue.jobs.enqueue(b"x", job_id=OWN)
    queue.jobs.claim()
    worker = queue.jobs.get(OWN).worker
    assert worker is not None
    assert tick(queue, worker)[9] == []


@pytest.mark.parametrize("place", INDEXES)
@pytest.mark.parametrize("end", ["remove", "complete", "retry", "cancel", "stall"])
def test_a_foreign_index_leaves_no_job_half_ended(
    make_queue: MakeQueue, raw: redis.Redis, place: str, end: str
) -> None:
    queue = make_queue(keep_dead_ms=60_000, max_attempts=1)
    queue.jobs.enqueue(b"x", job_id=OWN, lane="a")
    if end != "remove":
        (claim,) = queue.jobs.claim()
    plant(queue, raw, place)
    if end == "remove":
        queue.jobs.remove(OWN)
    elif end == "complete":
        queue.jobs.complete(claim)
    elif end == "retry":
        queue.jobs.retry(claim)
    elif end == "cancel":
        queue.jobs._settle(queue.jobs.cancellation(claim, "told"))
    else:
        lapse(queue, raw, claim)
        queue.stalled.check(1)
    state = {"remove": "absent", "complete": "completed", "cancel": "cancelled"}.get(end, "dead")
    assert queue.jobs.state(OWN) == state


@pytest.mark.parametrize("place", INDEXES)
def test_a_promoter_goes_on_beside_a_foreign_index(
    queue: Queue, raw: redis.Redis, place: str
) -> None:
    queue.jobs.enqueue_at(b"x", 1)
    plant(queue, raw, place)
    assert tick(queue, "w")[0] == 1


def test_a_job_is_not_asked_to_stop_where_its_worker_cannot_hear(
    queue: Queue, raw: redis.Redis
) -> None:
    queue.jobs.enqueue(b"x", job_id=OWN)
    queue.jobs.claim()
    plant(queue, raw, "cancels")
    with pytest.raises(redis.ResponseError):
        queue.jobs.cancel(OWN)
    assert "cancel" not in queue.jobs.get(OWN).fields


MOVES: dict[str, tuple[str, Callable[[Queue], object]]] = {
    "promote": ("schedule", lambda queue: queue.jobs.promote()),
    "promote_now": ("schedule", lambda queue: queue.jobs.promote_now(OWN)),
    "reap": ("active", lambda queue: queue.jobs.reap()),
    "stall": ("active", lambda queue: queue.stalled.check(1)),
    "tick": ("active", tick),
    "reprocess": ("dead", lambda queue: queue.jobs.reprocess(OWN)),
}


@pytest.mark.parametrize(
    ("verb", "place"),
    [
        (v, place)
        for v in MOVES
        for place in ("pending", "dead", "schedule")
        if place != MOVES[v][0]
    ],
)
def test_a_foreign_set_is_met_before_a_job_has_left_its_own(
    queue: Queue, raw: redis.Redis, verb: str, place: str
) -> None:
    own, move = MOVES[verb]
    if own == "schedule":
        queue.jobs.enqueue_at(b"x", 1, job_id=OWN)
    else:
        queue.jobs.enqueue(b"x", job_id=OWN)
        (claim,) = queue.jobs.claim()
        lapse(queue, raw, claim)
        if own == "dead":
            queue.jobs.retry(claim, 0, 1)
    plant(queue, raw, place)
    before = snapshot(queue, raw)
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        move(queue)
    assert snapshot(queue, raw) == before


def test_work_goes_on_beside_a_foreign_schedule(queue: Queue, raw: redis.Redis) -> None:
    """The reply tells when the next scheduled job is due."""
    plant(queue, raw, "schedule")
    queue.jobs.enqueue(b"x", job_id=OWN)
    (claim,) = queue.jobs.claim()
    queue.jobs.complete(claim)
    assert queue.jobs.state(OWN) == "completed"


def test_a_repeated_settlement_that_asked_for_no_job_tells_of_no_start(queue: Queue) -> None:
    """As the call did whose reply was lost."""
    queue.admin.limit_rate("1/d")
    queue.jobs.enqueue_many([b"x"] * 2)
    (claim,) = queue.jobs.claim()
    slot = queue.client.take_slot()
    call = queue.jobs.exchange_call(slot, [queue.jobs.completion(claim)], 0, "w")
    first, again = (queue.drive(queue.client.run(call)) for _ in range(2))
    assert first == again == [[b"done"], [], -1, -1]


@pytest.mark.parametrize(
    ("place", "verb"),
    [("schedule", "retry"), ("dead", "bury"), ("pending", "release")],
)
def test_a_foreign_set_is_met_before_a_claim_has_ended(
    queue: Queue, raw: redis.Redis, place: str, verb: str
) -> None:
    jobs = queue.jobs
    jobs.enqueue(b"x", job_id=OWN)
    (claim,) = jobs.claim()
    plant(queue, raw, place)
    settlement = {
        "retry": jobs.failure(claim, 60, 3),
        "bury": jobs.failure(claim, 60, 1),
        "release": jobs.giving_back(claim),
    }[verb]
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        jobs._settle(settlement)
    assert raw.zscore(queue.keys.active, OWN) is not None


@pytest.mark.parametrize("place", ["pending", "schedule"])
def test_a_foreign_set_is_met_before_a_row_is_written(
    queue: Queue, raw: redis.Redis, place: str
) -> None:
    plant(queue, raw, place)
    admit = queue.jobs.enqueue if place == "pending" else queue.jobs.enqueue_in
    delay = () if place == "pending" else (60,)
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        admit(b"x", *delay, job_id=OWN)
    assert raw.exists(queue.keys.job(OWN)) == 0


@pytest.mark.parametrize("how", ["enqueue", "release", "promote", "reap"])
def test_a_job_whose_lane_is_a_foreign_key_waits_in_no_lane(
    queue: Queue, raw: redis.Redis, how: str
) -> None:
    if how in ("release", "reap"):
        queue.jobs.enqueue(b"x", job_id=OWN, lane="a")
        (claim,) = queue.jobs.claim()
    plant(queue, raw, "g:a:pending")
    if how == "enqueue":
        queue.jobs.enqueue(b"x", job_id=OWN, lane="a")
    elif how == "promote":
        queue.jobs.enqueue_at(b"x", 1, job_id=OWN, lane="a")
        queue.jobs.promote()
    elif how == "release":
        queue.jobs.release(claim)
    else:
        lapse(queue, raw, claim)
        queue.jobs.reap()
    assert queue.jobs.state(OWN) == "pending"
    (again,) = queue.jobs.claim()
    assert again.lane == "a"
    queue.jobs.complete(again)
    assert queue.jobs.state(OWN) == "completed"
