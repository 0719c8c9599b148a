"""The loop on its own, without Django: queues, a handler, a real server."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable

import pytest
import redis

from django_echomq.queue import Queue
from django_echomq.queue.jobs import Settlement
from django_echomq.wire.client import Client, Command, Reply
from django_echomq.wire.endpoint import Endpoint
from django_echomq.wire.errors import ServerUnavailable, VersionFence
from django_echomq.worker import Hand, Stopped, Worker, leases
from django_echomq.worker.leases import LeaseKeeper
from tests.conftest import complete, running, wait_until

MakeQueue = Callable[..., Queue]


def test_burst_works_off_all_queues_and_ends(make_queue: MakeQueue) -> None:
    queues = [make_queue(), make_queue(), make_queue()]
    for queue in queues:
        queue.jobs.enqueue_many([b"x"] * 50)
    worker = Worker(queues, complete, name="w", burst=True)
    assert worker.run() is Stopped.FINISHED
    assert worker.claimed == 150
    assert [queue.metrics.counts("completed")["completed"] for queue in queues] == [50] * 3


def test_queues_of_several_servers(
    make_queue: MakeQueue, one_server: Endpoint, raw: redis.Redis
) -> None:
    here = make_queue()
    there = Queue(here.name, Client(one_server.with_options(db=7)))
    for queue in (here, there):
        queue.jobs.enqueue_many([b"x"] * 20)
    try:
        worker = Worker([here, there], complete, name="w")
        with running(worker):
            wait_until(
                lambda: (
                    here.metrics.counts("completed") == there.metrics.counts("completed")
                    and here.metrics.counts("completed") == {"completed": 20}
                )
            )
            late = there.jobs.enqueue(b"late").job_id
            wait_until(lambda: there.jobs.state(late) == "completed")
    finally:
        there.drive(there.client.command("FLUSHDB"))


def test_a_server_that_is_away_holds_up_no_other(
    make_queue: MakeQueue, caplog: pytest.LogCaptureFixture
) -> None:
    here = make_queue()
    nowhere = Client(Endpoint.from_url("redis://127.0.0.1:1/0"))
    worker = Worker([Queue("nowhere", nowhere), here], complete, name="w")
    with caplog.at_level(logging.WARNING, "django_echomq.worker"), running(worker):
        wait_until(lambda: "is away" in caplog.text)
        for _ in range(20):
            late = here.jobs.enqueue(b"x").job_id
            wait_until(lambda job_id=late: here.jobs.state(job_id) == "completed")
    # Told once: that the one answers says nothing of the other.
    assert caplog.text.count("is away") == 1
    assert "is back after" not in caplog.text


def test_a_handler_that_raises_fails_the_attempt(
    make_queue: MakeQueue, caplog: pytest.LogCaptureFixture
) -> None:
    queue = make_queue(max_attempts=1)

    def raises(hand: Hand) -> Settlement:
        raise KeyboardInterrupt

    job_id = queue.jobs.enqueue(b"x").job_id
    with caplog.at_level(logging.CRITICAL, "django_echomq.worker"):
        Worker([queue], raises, name="w", burst=True).run()
    assert queue.jobs.state(job_id) == "dead"
    assert queue.jobs.get(job_id).last_error == "KeyboardInterrupt()"


def test_a_worker_claims_no_more_than_its_threads_while_jobs_are_long(
    make_queue: MakeQueue,
) -> None:
    queue = make_queue()
    queue.jobs.enqueue_many([b"x"] * 20)
    go = threading.Event()

    def waits(hand: Hand) -> Settlement:
        go.wait(30)
        return complete(hand)

    worker = Worker([queue], waits, name="w", threads=3)
    with running(worker):
        wait_until(lambda: queue.metrics.counts("active") == {"active": 3})
        go.set()
        wait_until(lambda: queue.metrics.counts("completed") == {"completed": 20})


def test_what_was_claimed_starts_while_the_server_is_at_work_on_the_next_call(
    make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No reply is read before all that is claimed has started; were it taken in only then, none of
    it ever would."""
    queue = make_queue()
    queue.jobs.enqueue_many([b"x"] * 2_000)
    started: list[str] = []
    overlapped = 0

    def handler(hand: Hand) -> Settlement:
        started.append(hand.claim.job_id)
        return complete(hand)

    worker = Worker([queue], handler, name="w", threads=2, burst=True)
    roundtrip = queue.client.roundtrip

    def slow(commands: list[Command], meanwhile: Callable[[], object] | None = None) -> list[Reply]:
        def wait_for_all() -> None:
            nonlocal overlapped
            assert meanwhile
            overlapped += len(started) < worker.claimed
            meanwhile()
            wait_until(lambda: len(started) == worker.claimed)

        return roundtrip(commands, wait_for_all if meanwhile else None)

    monkeypatch.setattr(queue.client, "roundtrip", slow)
    assert worker.run() is Stopped.FINISHED
    assert queue.metrics.counts("completed") == {"completed": 2_000}
    assert overlapped > 3


def test_what_was_claimed_ahead_of_a_long_job_is_given_back(make_queue: MakeQueue) -> None:
    queue = make_queue()
    queue.jobs.enqueue_many([b"short"] * 300)
    queue.jobs.enqueue_many([b"long"] * 10)
    go = threading.Event()

    def handler(hand: Hand) -> Settlement:
        if hand.claim.payload == b"long":
            go.wait(30)
        return complete(hand)

    worker = Worker([queue], handler, name="w", threads=4)
    with running(worker):
        wait_until(lambda: queue.metrics.counts("completed") == {"completed": 300})
        wait_until(lambda: queue.metrics.counts("active", "pending") == {"active": 4, "pending": 6})
        go.set()
        wait_until(lambda: queue.metrics.counts("completed") == {"completed": 310})
    assert {job.attempt for job in queue.jobs.browse("completed", limit=1_000)} == {1}


@pytest.mark.parametrize("short", [100, 101])
def test_a_burst_takes_what_it_has_given_back(make_queue: MakeQueue, short: int) -> None:
    """Claimed ahead of a long job, given back, and left for nobody else."""
    queue = make_queue()
    queue.jobs.enqueue_many([b""] * short + [b"long", b"", b""])

    def handler(hand: Hand) -> Settlement:
        if hand.claim.payload:
            time.sleep(0.3)
        return complete(hand)

    assert Worker([queue], handler, name="w", threads=1, burst=True).run() is Stopped.FINISHED
    assert queue.metrics.counts("pending", "completed") == {"pending": 0, "completed": short + 3}


def test_a_foreign_key_in_the_way_of_settling_does_not_stop_the_others(
    make_queue: MakeQueue, raw: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    queue = make_queue()
    raw.set(queue.keys.dead, "a string")
    ids = [done.job_id for done in queue.jobs.enqueue_many([b"x"] * 30)]

    def fails_once(hand: Hand) -> Settlement:
        if hand.claim.job_id == ids[12]:
            return queue.jobs.failure(hand.claim, max_attempts=1)
        return complete(hand)

    with caplog.at_level(logging.ERROR, "django_echomq.worker"):
        assert Worker([queue], fails_once, name="w", burst=True).run() is Stopped.FINISHED
    assert f"Job {ids[12]} could not be settled" in caplog.text
    raw.delete(queue.keys.dead)
    assert queue.jobs.state(ids[12]) == "active"  # until its lease lapses
    assert queue.metrics.counts("pending", "completed") == {"pending": 0, "completed": 29}


def test_a_foreign_key_in_place_of_the_index_of_records_is_in_nobodys_way(
    make_queue: MakeQueue, raw: redis.Redis
) -> None:
    queue = make_queue()
    raw.set(queue.keys.outcomes, "a string")
    job_id = queue.jobs.enqueue(b"x").job_id
    assert Worker([queue], complete, name="w", burst=True).run() is Stopped.FINISHED
    assert queue.jobs.get(job_id).state == "completed"
    assert raw.pttl(queue.keys.job(job_id) + b":outcome") > 0


def test_foreign_keys_in_place_of_counters_do_no_harm(
    make_queue: MakeQueue, raw: redis.Redis
) -> None:
    queue = make_queue()
    for name in ("metrics:completed", "wake", "gactive", "ledger:0", "ledger:1", "ledger:2"):
        raw.set(queue.keys.base + name.encode(), "a string")
    queue.jobs.enqueue_many([b"x"] * 10)
    queue.jobs.enqueue(b"x", lane="acme")
    worker = Worker([queue], complete, name="w", burst=True)
    assert worker.run() is Stopped.FINISHED
    assert worker.claimed == 11
    assert raw.zcard(queue.keys.outcomes) == 11


def test_a_lost_lease_is_told_and_the_late_end_refused(
    make_queue: MakeQueue, raw: redis.Redis, caplog: pytest.LogCaptureFixture
) -> None:
    queue = make_queue(lease_ms=300)
    job_id = queue.jobs.enqueue(b"x").job_id
    go = threading.Event()

    def waits(hand: Hand) -> Settlement:
        go.wait(30)
        return complete(hand)

    with caplog.at_level(logging.WARNING, "django_echomq.worker"):
        with running(Worker([queue], waits, name="w", threads=1)):
            wait_until(lambda: queue.jobs.state(job_id) == "active")

            # As if the worker had been stopped past its lease and another had taken the job.
            def lapsed() -> bool:
                raw.zadd(queue.keys.active, {job_id: 1}, xx=True)
                queue.jobs.reap()
                return queue.jobs.state(job_id) == "pending"

            wait_until(lapsed)  # unless the worker has just extended it
            (other,) = queue.jobs.claim(lease=60)
            wait_until(lambda: "Lease lost" in caplog.text)
            go.set()
        assert "was refused (stale)" in caplog.text
    assert queue.jobs.state(job_id) == "active"
    queue.jobs.complete(other)
    assert queue.metrics.counts("completed") == {"completed": 1}


def test_leases_that_could_not_be_extended_are_tried_again_soon(
    make_queue: MakeQueue, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """Not a third of a lease later: the server may be back just before they lapse."""
    asked: list[Queue] = []
    monkeypatch.setattr(leases, "_AGAIN", 0.01)
    away, there = make_queue(lease_ms=3_000), make_queue(lease_ms=3_000)
    for queue in (away, there):

        def extend(claims: object, queue: Queue = queue) -> list[str]:
            asked.append(queue)
            if queue is away:
                raise ServerUnavailable("away")
            return []

        monkeypatch.setattr(queue.jobs, "extend_locks", extend)
        queue.jobs.enqueue(b"x")
    keeper = LeaseKeeper([away, there], "w")
    keeper.add(Hand(queue, queue.jobs.claim()[0]) for queue in (away, there))
    try:
        wait_until(lambda: asked.count(away) >= 20)
    finally:
        keeper.close()
    assert asked.count(there) < 10
    assert caplog.text.count("could not be extended") == 1


def test_another_wire_version_ends_the_worker(one_server: Endpoint, raw: redis.Redis) -> None:
    client = Client(one_server.with_options(db=6))
    queue = Queue("fenced", client)
    queue.jobs.enqueue(b"x")
    if "path" not in one_server.options:
        pytest.skip("another database is looked for on the embedded server only")
    other = redis.Redis(unix_socket_path=one_server.options["path"], db=6)
    try:
        other.set("{emq}:version", "echomq:9.0.0")
        client.close()
        with pytest.raises(VersionFence, match=r"echomq:9\.0\.0"):
            Worker([queue], complete, name="w").run()
        assert other.zcard("emq:{fenced}:pending") == 1
    finally:
        other.flushdb()
        other.close()


def test_settling_is_never_told_as_a_lost_lease(
    queue: Queue, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(LeaseKeeper, "_interval", lambda keeper, queue: 0.05)

    def works(hand: Hand) -> Settlement:
        end = time.perf_counter() + 0.005
        while time.perf_counter() < end:
            pass
        return complete(hand)

    queue.jobs.enqueue_many([b"x"] * 300)
    with caplog.at_level(logging.WARNING, "django_echomq.worker"):
        Worker([queue], works, name="w", threads=4, burst=True).run()
    assert queue.metrics.counts("completed") == {"completed": 300}
    assert "Lease lost" not in caplog.text


@pytest.mark.parametrize("weight", ["0", "-3", "0.5", "many"])
def test_a_lane_with_a_foreign_weight_holds_nobody(
    make_queue: MakeQueue, raw: redis.Redis, weight: str
) -> None:
    queue = make_queue()
    raw.hset(queue.keys.base + b"gweight", "acme", weight)
    raw.rpush(queue.keys.base + b"ring", "empty-1", "empty-2", "empty-3")
    queue.jobs.enqueue(b"x", lane="acme")
    queue.jobs.enqueue(b"x")
    assert len(queue.jobs.claim(10)) == 2


def test_a_worker_whose_server_is_away_neither_spins_nor_keeps_a_stop_waiting(
    queue: Queue,
) -> None:
    away = Queue(queue.name, Client(Endpoint.from_url("redis://127.0.0.1:1/0"), retry_for=0.0))
    worker = Worker([away], complete, name="w", grace=1_000)
    waits = 0
    wait = worker._wait

    def counted(now: float, give_up_at: float) -> float:
        nonlocal waits
        waits += 1
        return wait(now, give_up_at)

    worker._wait = counted  # type: ignore[method-assign]
    end = time.monotonic() + 1.0
    with running(worker):
        wait_until(lambda: time.monotonic() > end, "a second")
        assert waits < 50
