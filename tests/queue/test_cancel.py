"""Cancel: the token, jobs that wait, jobs in hand."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable

import pytest
import redis

from django_echomq.queue import Queue, Settled
from django_echomq.queue.cancel import Cancelled, CancelToken, Cause
from django_echomq.queue.jobs import Settlement
from django_echomq.wire.errors import JobGone, JobLocked, NotDead, StaleToken, WrongState
from django_echomq.wire.ids import process_mint
from django_echomq.worker.promoter import tick_answer, tick_call
from tests.conftest import wait_until


def settled(queue: Queue, settlement: Settlement) -> Settled:
    return queue.jobs._settle(settlement)


def test_a_token_hears_its_own_cancel_once() -> None:
    token, other = CancelToken(), CancelToken()
    assert token.check() is None
    token.raise_if_cancelled()
    assert token.cancel("first")
    assert not token.cancel("second", Cause.TIMEOUT)
    assert (token.check(), token.cause) == ("first", Cause.REQUEST)
    with pytest.raises(Cancelled, match="first"):
        token.raise_if_cancelled()
    assert other.check() is None


def test_a_token_calls_back_once_also_when_it_is_late() -> None:
    token, calls = CancelToken(), []
    token.on_cancel(lambda: calls.append("early"))
    token.cancel()
    token.cancel()
    token.on_cancel(lambda: calls.append("late"))
    assert calls == ["early", "late"]


def test_a_token_can_be_awaited_from_a_loop_and_cancelled_from_a_thread() -> None:
    async def wait() -> str:
        token = CancelToken()
        threading.Timer(0.02, token.cancel, ("enough",)).start()
        return await token

    assert asyncio.run(wait()) == "enough"


def test_one_of_many_threads_cancels() -> None:
    token, first = CancelToken(), []
    barrier = threading.Barrier(8)

    def cancel(n: int) -> None:
        barrier.wait()
        if token.cancel(str(n)):
            first.append(str(n))

    threads = [threading.Thread(target=cancel, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert first == [token.reason]


@pytest.mark.parametrize("where", ["pending", "lane", "scheduled"])
def test_a_job_that_waits_ends_at_once(queue: Queue, raw: redis.Redis, where: str) -> None:
    if where == "scheduled":
        job_id = queue.jobs.enqueue_in(b"x", 3600).job_id
    else:
        job_id = queue.jobs.enqueue(b"x", lane="acme" if where == "lane" else None).job_id
    assert queue.jobs.cancel(job_id, "not needed") == "cancelled"
    job = queue.jobs.get(job_id)
    assert (job.state, job.last_error) == ("cancelled", "not needed")
    assert queue.jobs.claim(5) == []
    assert queue.metrics.counts("pending", "scheduled", "failed") == {
        "pending": 0,
        "scheduled": 0,
        "failed": 0,
    }
    assert raw.hget(queue.keys.metric("cancelled"), "count") == b"1"
    assert raw.lrange(queue.keys.base + b"ring", 0, -1) == []
    with pytest.raises(JobGone):
        queue.jobs.cancel(job_id)


def test_with_nothing_kept_a_cancelled_job_is_gone(
    make_queue: Callable[..., Queue], raw: redis.Redis
) -> None:
    queue = make_queue(keep_completed_ms=0)
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.cancel(job_id)
    assert queue.jobs.state(job_id) == "absent"
    assert raw.keys(queue.keys.job(job_id) + b"*") == []


def test_a_job_in_hand_is_told_to_its_worker_only(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    slot = queue.client.take_slot()
    queue.drive(queue.client.run(queue.jobs.exchange_call(slot, (), 1, "mine")))
    assert queue.jobs.cancel(job_id, "stop it") == "asked"
    assert queue.jobs.state(job_id) == "active"

    def told(worker: str) -> dict[str, str]:
        reply = queue.drive(queue.client.run(tick_call(queue, 0, worker)))
        return tick_answer(queue, reply).cancels

    assert told("another") == {}
    assert told("mine") == told("mine") == {job_id: "stop it"}


def test_a_handler_that_stops_ends_as_cancelled_and_not_as_failed(
    queue: Queue, raw: redis.Redis
) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    (claim,) = queue.jobs.claim()
    queue.jobs.cancel(job_id, "stop it")
    assert settled(queue, queue.jobs.cancellation(claim, "heard")) is Settled.CANCELLED
    assert queue.jobs.get(job_id).last_error == "stop it"
    assert queue.jobs.state(job_id) == "cancelled"
    assert queue.metrics.counts("failed", "dead", "active") == {"failed": 0, "dead": 0, "active": 0}
    assert not raw.exists(queue.keys.base + b"cancels")


def test_a_handler_that_never_looks_completes(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    (claim,) = queue.jobs.claim()
    queue.jobs.cancel(job_id)
    queue.jobs.complete(claim, b"1")
    assert queue.jobs.state(job_id) == "completed"
    assert not raw.exists(queue.keys.base + b"cancels")


@pytest.mark.parametrize("end", ["retry", "release", "delay"])
def test_what_was_asked_to_be_cancelled_is_not_run_again(queue: Queue, end: str) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    (claim,) = queue.jobs.claim()
    queue.jobs.cancel(job_id, "stop it")
    if end == "retry":
        assert queue.jobs.retry(claim, 0, 5, "boom") is Settled.CANCELLED
    elif end == "release":
        queue.jobs.release(claim)
    else:
        queue.jobs.delay(claim, 0)
    assert queue.jobs.state(job_id) == "cancelled"


def test_a_worker_that_dies_with_a_cancelled_job_does_not_bring_it_back(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.claim(lease=0.005)
    queue.jobs.cancel(job_id, "stop it")
    wait_until(lambda: (queue.jobs.reap(), queue.jobs.state(job_id) == "cancelled")[1])
    assert queue.jobs.claim() == []


def test_cancelling_what_is_dead_or_gone_says_so(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    (claim,) = queue.jobs.claim()
    queue.jobs.retry(claim, 0, 1, "boom")
    with pytest.raises(WrongState):
        queue.jobs.cancel(job_id)
    assert queue.jobs.state(job_id) == "dead"
    with pytest.raises(JobGone):
        queue.jobs.cancel(process_mint.mint(1))


@pytest.mark.parametrize("how", ["dead", "cancelled"])
def test_reprocess_brings_back_to_the_lane_with_a_fresh_budget(queue: Queue, how: str) -> None:
    job_id = queue.jobs.enqueue(b"x", lane="acme", priority=5).job_id
    (claim,) = queue.jobs.claim()
    if how == "dead":
        queue.jobs.retry(claim, 0, 1, "boom")
    else:
        settled(queue, queue.jobs.cancellation(claim, "stop"))
    assert queue.jobs.state(job_id) == how
    queue.jobs.reprocess(job_id)
    job = queue.jobs.get(job_id)
    assert (job.state, job.lane, job.priority, job.last_error) == ("pending", "acme", 5, None)
    (again,) = queue.jobs.claim()
    assert (again.attempts, again.attempt) == (2, 1)


def test_reprocess_refuses_what_is_not_over(queue: Queue) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    with pytest.raises(NotDead):
        queue.jobs.reprocess(job_id)
    (claim,) = queue.jobs.claim()
    queue.jobs.complete(claim)
    with pytest.raises(NotDead):
        queue.jobs.reprocess(job_id)
    with pytest.raises(JobGone):
        queue.jobs.reprocess(process_mint.mint(1))


def test_a_checkpoint_extends_keeps_details_and_hears_of_a_cancel(
    queue: Queue, raw: redis.Redis
) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    (claim,) = queue.jobs.claim(lease=1)
    before = raw.zscore(queue.keys.active, job_id)
    assert queue.jobs.checkpoint(claim, 60, b'{"page":7}') is None
    assert raw.zscore(queue.keys.active, job_id) > before + 50_000
    queue.jobs.cancel(job_id, "stop it")
    assert queue.jobs.checkpoint(claim) == "stop it"
    assert queue.jobs.get(job_id).fields["checkpoint"] == b'{"page":7}'
    queue.jobs.complete(claim)
    with pytest.raises(JobGone):
        queue.jobs.checkpoint(claim)


def test_a_checkpoint_after_the_lease_was_recovered_is_refused(queue: Queue) -> None:
    queue.jobs.enqueue(b"x")
    (claim,) = queue.jobs.claim(lease=0.005)
    wait_until(queue.jobs.reap)
    with pytest.raises(StaleToken):
        queue.jobs.checkpoint(claim)


def test_remove_takes_everything_wherever_the_job_stands(queue: Queue, raw: redis.Redis) -> None:
    waiting = queue.jobs.enqueue(b"x", lane="acme").job_id
    parked = queue.jobs.enqueue_in(b"x", 60).job_id
    queue.jobs.add_log(waiting, "line")
    done = queue.jobs.enqueue(b"x", priority=100).job_id
    queue.jobs.complete(next(c for c in queue.jobs.claim(2) if c.job_id == done))
    for job_id in (parked, done):
        queue.jobs.remove(job_id)
        assert raw.keys(queue.keys.job(job_id) + b"*") == []
        with pytest.raises(JobGone):
            queue.jobs.remove(job_id)


def test_a_held_job_cannot_be_removed(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    (claim,) = queue.jobs.claim()
    with pytest.raises(JobLocked):
        queue.jobs.remove(job_id)
    assert queue.jobs.state(job_id) == "active"
    queue.jobs.release(claim)
    queue.jobs.remove(job_id)
    assert raw.keys(queue.keys.job(job_id) + b"*") == []
