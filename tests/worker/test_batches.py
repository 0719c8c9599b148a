"""Batches: when one is claimed, how each of its jobs ends, and that none is lost."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from datetime import timedelta
from typing import Any

import pytest
import redis
from hypothesis import example, given
from hypothesis import strategies as st

from django_echomq.queue import Claim, Queue, QueueOptions, Settled
from django_echomq.queue.backoff import Fixed
from django_echomq.queue.partitions import PartitionedQueue
from django_echomq.wire.client import Call, Client
from django_echomq.wire.endpoint import Endpoint
from django_echomq.wire.errors import ServerUnavailable
from django_echomq.wire.scripts import script
from django_echomq.worker import BatchConsumer
from django_echomq.worker.batches import BatchVerdict, decide
from tests.conftest import wait_until
from tests.wire.proxy import Proxy

# How fast a machine is today says nothing about the code.

MakeQueue = Callable[..., Queue]
ByProxy = Callable[[float], Queue]
SETTLE = script("jobs/settle").sha


def all_well(claims: list[Claim]) -> dict[str, BatchVerdict]:
    return {claim.job_id: "ok" for claim in claims}


class Recorder:
    """A handler that keeps what it was given, and says of each job what it is told to say."""

    def __init__(self, *verdicts: BatchVerdict) -> None:
        self.batches: list[list[str]] = []
        self._verdicts = verdicts

    def __call__(self, claims: list[Claim]) -> Mapping[str, BatchVerdict]:
        self.batches.append([claim.job_id for claim in claims])
        return all_well(claims) | {
            claim.job_id: verdict for claim, verdict in zip(claims, self._verdicts, strict=False)
        }


@pytest.fixture
def proxy(one_server: Endpoint) -> Iterator[Proxy]:
    """A server that loses replies when told to."""
    made = Proxy(one_server)
    yield made
    made.close()


@pytest.fixture
def by_proxy(queue: Queue, proxy: Proxy) -> Iterator[ByProxy]:
    """The queue by way of the proxy, with a client that is patient for so many seconds."""
    clients: list[Client] = []

    def make(patience: float) -> Queue:
        clients.append(Client(proxy.endpoint, retry_for=patience))
        far = Queue(queue.name, clients[-1], queue.options)
        far.drive(far.client.mint(1))
        return far

    yield make
    for client in clients:
        client.close()


@contextmanager
def serving(consumer: BatchConsumer) -> Iterator[threading.Thread]:
    thread = threading.Thread(target=consumer.run)
    thread.start()
    try:
        yield thread
    finally:
        consumer.stop()
        thread.join(30)
        assert not thread.is_alive()


def send(queue: Queue, count: int) -> list[str]:
    return [each.job_id for each in queue.jobs.enqueue_many([b"x"] * count)]


def states(queue: Queue, ids: list[str]) -> list[str]:
    return [queue.jobs.state(job_id) for job_id in ids]


# When


@given(
    st.integers(0, 1000),
    st.floats(0, 1e6),
    st.integers(1, 500),
    st.floats(0, 1e6),
    st.integers(1, 500),
)
@example(10, 50, 10, 200, 500)
@example(0, 200, 10, 200, 500)
@example(3, 200, 10, 200, 2)
def test_how_many_are_taken(
    depth: int, waited: float, min_size: int, timeout: float, max_size: int
) -> None:
    size = decide(depth, waited, min_size, timeout, max_size)
    enough, late = depth >= min_size, waited >= timeout
    assert size in (0, min(depth, max_size))
    assert bool(size) == (depth > 0 and (enough or late))


def test_a_batch_is_as_long_as_allowed_and_the_rest_waits_anew(queue: Queue) -> None:
    now, handler = 0.0, Recorder()
    consumer = BatchConsumer(queue, handler, min_size=2, max_size=3, timeout=5, clock=lambda: now)
    ids = send(queue, 4)
    batch = consumer.step()
    assert batch is not None
    assert batch.settled == dict.fromkeys(ids[:3], Settled.DONE)
    now = 4.0
    assert consumer.step() is None
    now = 8.9
    assert consumer.step() is None
    now = 9.0
    assert consumer.step() is not None
    assert handler.batches == [ids[:3], ids[3:]]


def test_many_are_claimed_and_settled_in_several_calls(queue: Queue) -> None:
    ids = send(queue, 230)
    handler = Recorder()
    batch = BatchConsumer(queue, handler, min_size=230, max_size=500).step()
    assert batch is not None
    assert handler.batches == [ids]
    assert batch.settled == dict.fromkeys(ids, Settled.DONE)


def test_a_paused_queue_gives_no_batch(queue: Queue) -> None:
    send(queue, 3)
    queue.admin.pause()
    consumer = BatchConsumer(queue, all_well)
    assert consumer.step() is None
    queue.admin.resume()
    assert consumer.step() is not None


def test_jobs_of_lanes_are_taken_too(queue: Queue) -> None:
    ids = [queue.jobs.enqueue(b"x", lane=lane).job_id for lane in ("acme", "globex")]
    batch = BatchConsumer(queue, all_well, min_size=2).step()
    assert batch is not None
    assert set(batch.settled) == set(ids)


@pytest.mark.parametrize(
    "wrong",
    [
        *({"min_size": 0}, {"max_size": 501}, {"min_size": 3, "max_size": 2}, {"min_size": True}),
        *({"timeout": -1}, {"timeout": "soon"}, {"lease": 0}),
    ],
    ids=str,
)
def test_what_cannot_be_is_refused(queue: Queue, wrong: dict[str, Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        BatchConsumer(queue, all_well, **wrong)


def test_of_a_partitioned_queue_each_part_has_its_own(client: Client) -> None:
    whole = PartitionedQueue("wide", [client, client], QueueOptions())
    with pytest.raises(TypeError, match="for each of its parts"):
        BatchConsumer(whole, all_well)
    BatchConsumer(whole.parts[0], all_well, lease=5)


# How each ends


def test_each_job_ends_on_its_own(make_queue: MakeQueue) -> None:
    queue = make_queue(backoff=Fixed(3_600_000), max_attempts=3)
    ids = send(queue, 5)
    well, failed, later, odd, omitted = ids
    answer: Any = {
        well: "ok",
        failed: OSError("the disk is full\nall of it"),
        later: timedelta(hours=2),
        odd: None,
        "JOB00000000000": "ok",
    }
    batch = BatchConsumer(queue, lambda claims: answer, min_size=5).step()
    assert batch is not None
    assert [claim.job_id for claim in batch.claims] == ids
    assert states(queue, ids) == ["completed", *["scheduled"] * 4]
    errors = [queue.jobs.get(job_id).last_error for job_id in (failed, odd, omitted)]
    assert errors == ["OSError: the disk is full", "bad verdict: None", "missing verdict"]
    # What was parked has an attempt more than what failed.
    assert [queue.jobs.get(job_id).attempt for job_id in (failed, later)] == [1, 0]


@pytest.mark.parametrize("verdict", [timedelta(-1), timedelta.max, "OK", b"ok", 1], ids=repr)
def test_a_verdict_that_is_none_is_a_failure(queue: Queue, verdict: Any) -> None:
    (job_id,) = send(queue, 1)
    BatchConsumer(queue, lambda claims: {job_id: verdict}).step()
    error = queue.jobs.get(job_id).last_error
    assert error is not None
    assert error.startswith("bad verdict: ")


def test_an_answer_that_is_no_mapping_fails_all(queue: Queue) -> None:
    ids = send(queue, 2)
    handler: Any = lambda claims: None  # noqa: E731
    BatchConsumer(queue, handler, min_size=2).step()
    assert {queue.jobs.get(job_id).last_error for job_id in ids} == {"bad verdict: None"}


def test_where_the_handler_raises_all_have_failed(queue: Queue) -> None:
    ids = send(queue, 3)
    calls = []

    def handler(claims: list[Claim]) -> dict[str, BatchVerdict]:
        calls.append(claims)
        raise RuntimeError("boom")

    consumer = BatchConsumer(queue, handler, min_size=3, max_attempts=2, backoff=Fixed(0))
    first = consumer.step()
    assert first is not None
    assert first.settled == dict.fromkeys(ids, Settled.SCHEDULED)
    wait_until(lambda: queue.jobs.promote() or queue.jobs.size("pending") == 3)
    second = consumer.step()
    assert second is not None
    assert second.settled == dict.fromkeys(ids, Settled.DEAD)
    assert {queue.jobs.get(job_id).last_error for job_id in ids} == {"RuntimeError: boom"}
    assert len(calls) == 2


def test_a_handler_that_ends_the_process_leaves_nothing_in_hand(queue: Queue) -> None:
    ids = send(queue, 2)

    def handler(claims: list[Claim]) -> dict[str, BatchVerdict]:
        raise SystemExit

    with pytest.raises(SystemExit):
        BatchConsumer(queue, handler, min_size=2).run()
    assert states(queue, ids) == ["scheduled", "scheduled"]


def test_a_key_in_the_way_of_one_job_is_in_the_way_of_no_other(
    queue: Queue, raw: redis.Redis
) -> None:
    ids = send(queue, 3)
    poison = ids[1]

    def handler(claims: list[Claim]) -> dict[str, BatchVerdict]:
        raw.set(queue.keys.dead, b"foreign")
        return all_well(claims) | {poison: ValueError("boom")}

    consumer = BatchConsumer(queue, handler, min_size=3, max_attempts=1)
    batch = consumer.step()
    raw.delete(queue.keys.dead)
    assert batch is not None
    assert poison not in batch.settled
    assert states(queue, [ids[0], ids[2]]) == ["completed", "completed"]
    assert consumer.step() is None


# Leases and lost replies


def test_a_lease_shorter_than_the_batch_is_extended(queue: Queue) -> None:
    ids = send(queue, 2)

    def handler(claims: list[Claim]) -> dict[str, BatchVerdict]:
        before = deadline(queue, ids[0])
        wait_until(lambda: deadline(queue, ids[0]) > before)
        assert queue.jobs.reap() == 0
        return all_well(claims)

    batch = BatchConsumer(queue, handler, min_size=2, lease=0.6).step()
    assert batch is not None
    assert batch.settled == dict.fromkeys(ids, Settled.DONE)


def deadline(queue: Queue, job_id: str) -> float:
    score = queue.drive(queue.client.command("ZSCORE", queue.keys.base + b"active", job_id))
    return float(score)


def test_what_was_lost_meanwhile_is_told_and_not_settled(queue: Queue, raw: redis.Redis) -> None:
    (job_id,) = send(queue, 1)

    def handler(claims: list[Claim]) -> dict[str, BatchVerdict]:
        raw.zadd(queue.keys.base + b"active", {job_id: 1})
        assert queue.jobs.reap() == 1
        assert len(queue.jobs.claim()) == 1
        return all_well(claims)

    batch = BatchConsumer(queue, handler).step()
    assert batch is not None
    assert batch.settled == {job_id: Settled.STALE}
    assert queue.jobs.state(job_id) == "active"


def test_lost_replies_lose_no_job_and_run_none_twice(
    queue: Queue, proxy: Proxy, by_proxy: ByProxy
) -> None:
    lossy = by_proxy(30.0)
    ids = send(queue, 4)
    handler = Recorder(ValueError("boom"))
    proxy.lose_reply(SETTLE, 2)  # of the claim and its repetition
    consumer = BatchConsumer(lossy, handler, min_size=4)
    assert consumer.step() is not None
    assert handler.batches == [ids]
    assert queue.jobs.get(ids[0]).attempts == 1
    send(queue, 4)
    proxy.lose_reply(SETTLE, 1)
    assert consumer.step() is not None
    assert proxy.lost == 3
    assert queue.metrics.counts("active", "completed") == {"active": 0, "completed": 6}


def test_a_step_that_lost_its_server_is_taken_up_by_the_next(
    queue: Queue, proxy: Proxy, by_proxy: ByProxy
) -> None:
    impatient = by_proxy(0.0)
    handler = Recorder()
    consumer = BatchConsumer(impatient, handler, min_size=3)
    ids = send(queue, 3)
    proxy.lose_reply(SETTLE)
    with pytest.raises(ServerUnavailable):
        consumer.step()
    assert (handler.batches, queue.jobs.size("active")) == ([], 3)  # claimed, and not known to be
    proxy.refuse(1)
    with pytest.raises(ServerUnavailable):
        consumer.step()
    batch = consumer.step()
    assert batch is not None
    assert batch.settled == dict.fromkeys(ids, Settled.DONE)
    assert handler.batches == [ids]


def test_a_claim_that_lapses_before_the_batch_is_whole_is_not_handed_over(
    queue: Queue, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    ids = send(queue, 150)
    handler = Recorder()
    client, asked = queue.client, 0
    ask = client.ask

    def lose_the_second(call: Call) -> Any:
        nonlocal asked
        reply = ask(call)
        asked += 1
        if asked == 2:
            raise ServerUnavailable("lost on its way")
        return reply

    consumer = BatchConsumer(queue, handler, min_size=150, max_size=150)
    with monkeypatch.context() as patch:
        patch.setattr(client, "ask", lose_the_second)
        with pytest.raises(ServerUnavailable):
            consumer.step()
    raw.zadd(queue.keys.base + b"active", {ids[0]: 1})
    assert queue.jobs.reap() == 1
    assert [claim.job_id for claim in queue.jobs.claim(10)] == ids[:1]
    batch = consumer.step()
    assert batch is not None
    assert batch.settled == dict.fromkeys(ids[1:], Settled.DONE)
    assert handler.batches == [ids[1:]]


# Until it stops


def test_it_runs_until_it_is_told_to_stop_and_retries_meanwhile(queue: Queue) -> None:
    failing = {"left": 1}

    def handler(claims: list[Claim]) -> Mapping[str, BatchVerdict]:
        if failing["left"]:
            failing["left"] -= 1
            raise RuntimeError("boom")
        return all_well(claims)

    consumer = BatchConsumer(queue, handler, min_size=5, timeout=0.1, poll=0.01, backoff=Fixed(1))
    with serving(consumer):
        send(queue, 7)
        wait_until(lambda: queue.metrics.counts("completed") == {"completed": 7})
    send(queue, 7)
    assert consumer.step() is None
    assert queue.jobs.size("pending") == 7


def test_it_runs_until_a_condition_holds(queue: Queue) -> None:
    send(queue, 6)
    handler = Recorder()
    BatchConsumer(queue, handler, max_size=2).run(lambda: len(handler.batches) == 2)
    assert queue.jobs.size("pending") == 2


def test_a_stop_lets_the_batch_in_hand_end(queue: Queue) -> None:
    ids = send(queue, 2)
    entered, leave = threading.Event(), threading.Event()

    def handler(claims: list[Claim]) -> dict[str, BatchVerdict]:
        entered.set()
        assert leave.wait(30)
        return all_well(claims)

    consumer = BatchConsumer(queue, handler, min_size=2)
    with serving(consumer) as thread:
        assert entered.wait(30)
        consumer.stop()
        leave.set()
        thread.join(30)
    assert states(queue, ids) == ["completed", "completed"]


def test_a_stop_gives_back_what_was_not_handed_over(
    queue: Queue, proxy: Proxy, by_proxy: ByProxy
) -> None:
    lossy = by_proxy(30.0)
    assert lossy.jobs.claim() == []  # so that the server knows the script
    ids = send(queue, 2)
    handler = Recorder()
    consumer = BatchConsumer(lossy, handler, min_size=2)
    proxy.hold_reply(SETTLE)
    with serving(consumer):
        wait_until(lambda: proxy.held == 1)
        assert states(queue, ids) == ["active", "active"]
        consumer.stop()
        proxy.release()
    assert handler.batches == []
    assert states(queue, ids) == ["pending", "pending"]
    assert queue.jobs.get(ids[0]).attempt == 0


def test_it_goes_on_when_the_server_is_back(
    queue: Queue, proxy: Proxy, by_proxy: ByProxy, caplog: pytest.LogCaptureFixture
) -> None:
    far = by_proxy(0.0)
    consumer = BatchConsumer(far, all_well, poll=0.01, promoter=False)
    with serving(consumer):
        proxy.refuse(3)
        proxy.cut()
        wait_until(lambda: "The server is back" in caplog.text)
        send(queue, 3)
        wait_until(lambda: queue.metrics.counts("completed") == {"completed": 3})
    assert caplog.text.count("The server is away") == 1
