"""The claim that a worker without work leaves at the server, and what may become of it."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator

import pytest
import redis

from django_echomq.queue import Queue
from django_echomq.queue.jobs import Settlement
from django_echomq.wire.client import Client
from django_echomq.wire.endpoint import Endpoint
from django_echomq.wire.scripts import script
from django_echomq.worker import Hand, Stopped, Worker
from tests.conftest import complete, running, wait_until
from tests.wire.proxy import Proxy

MakeQueue = Callable[..., Queue]
SETTLE = script("jobs/settle").sha


@pytest.fixture
def queue(make_queue: MakeQueue) -> Queue:
    return make_queue(lease_ms=60_000)


@pytest.fixture
def proxy(queue: Queue, one_server: Endpoint) -> Iterator[Proxy]:
    made = Proxy(queue.client.endpoint)
    yield made
    made.close()


@pytest.fixture
def by_proxy(queue: Queue, proxy: Proxy) -> Iterator[Queue]:
    """The queue as a worker sees it."""
    client = Client(proxy.endpoint)
    yield Queue(queue.name, client, queue.options)
    client.close()


class Beats:
    """Counts the beats of a worker."""

    def __init__(self) -> None:
        self.count = 0

    def __call__(self) -> None:
        self.count += 1

    def pass_by(self, count: int) -> None:
        end = self.count + count
        wait_until(lambda: self.count >= end, "the worker to beat")


@pytest.fixture
def beats() -> Beats:
    return Beats()


def test_a_lost_answer_costs_no_lease(
    queue: Queue, by_proxy: Queue, proxy: Proxy, beats: Beats
) -> None:
    with running(Worker([by_proxy], complete, name="w", beat=beats)):
        beats.pass_by(1)
        proxy.lose_reply(SETTLE)
        beats.pass_by(2)  # it has parked with what is going to be lost
        job_id = queue.jobs.enqueue(b"x").job_id
        wait_until(lambda: queue.jobs.state(job_id) == "completed")
    assert proxy.lost == 1
    job = queue.jobs.get(job_id)
    assert (job.attempt, job.stalled) == (1, 0)


@pytest.mark.parametrize("how", ["stop", "stop at once", "quiet"])
def test_what_it_took_unheard_is_given_back_by_a_worker_that_takes_no_more(
    queue: Queue, by_proxy: Queue, proxy: Proxy, beats: Beats, how: str
) -> None:
    ran: list[str] = []

    def run(hand: Hand) -> Settlement:
        ran.append(hand.claim.job_id)
        return complete(hand)

    worker = Worker([by_proxy], run, name="w", beat=beats)
    with running(worker) as ends:
        beats.pass_by(1)
        proxy.hold_reply(SETTLE)
        # The answer to the next claim that is parked will be held.
        wait_until(lambda: not proxy.awaited)
        job_id = queue.jobs.enqueue(b"x").job_id
        wait_until(lambda: queue.jobs.state(job_id) == "active")
        for _ in range({"stop": 1, "stop at once": 2}.get(how, 0)):
            worker.stop()
        if how == "quiet":
            worker.quiet()
        wait_until(lambda: queue.jobs.state(job_id) == "pending")
        proxy.release()
        if how == "quiet":
            beats.pass_by(2)
            assert queue.jobs.state(job_id) == "pending"
            worker.resume()
            wait_until(lambda: queue.jobs.state(job_id) == "completed")
            assert ran == [job_id]
        else:
            wait_until(lambda: bool(ends))
            assert ran == []
    job = queue.jobs.get(job_id)
    assert (job.attempt, job.stalled) == (1 if how == "quiet" else 0, 0)


def test_a_quiet_worker_takes_nothing(queue: Queue, beats: Beats) -> None:
    ran = threading.Event()

    def run(hand: Hand) -> Settlement:
        ran.set()
        return complete(hand)

    worker = Worker([queue], run, name="w", beat=beats)
    with running(worker):
        beats.pass_by(1)
        worker.quiet()
        job_id = queue.jobs.enqueue(b"x").job_id
        beats.pass_by(3)
        assert not ran.is_set()
        assert queue.jobs.state(job_id) == "pending"
        assert queue.jobs.get(job_id).attempt == 0
        worker.resume()
        wait_until(lambda: queue.jobs.state(job_id) == "completed")


def test_a_worker_that_stops_while_it_is_parked_leaves_no_claim_behind(
    queue: Queue, beats: Beats
) -> None:
    for _ in range(3):
        worker = Worker([queue], complete, name="w", beat=beats)
        with running(worker) as ends:
            beats.pass_by(1)
        assert ends == [Stopped.FINISHED]
        # The parked connection is still there, and its claim would be the next to run.
        job_id = queue.jobs.enqueue(b"x").job_id
        (claim,) = queue.jobs.claim()
        assert claim.job_id == job_id
        queue.jobs.complete(claim)


def test_a_worker_that_has_stopped_is_not_parked_any_more(
    queue: Queue, raw: redis.Redis, beats: Beats
) -> None:
    with running(Worker([queue], complete, name="w", beat=beats)):
        beats.pass_by(2)
        wait_until(lambda: parked(raw))
    # By then what it had withdrawn may be forgotten: a claim that ran would be lost with it.
    wait_until(lambda: not parked(raw), "the connection to close", seconds=0.5)


def parked(raw: redis.Redis) -> int:
    return sum(each["cmd"] == "blpop" for each in raw.client_list())
