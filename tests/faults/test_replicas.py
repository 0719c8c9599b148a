"""Admissions that return when replicas have them, ``"REPLICAS": n``."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from django.conf import settings
from django.test import override_settings

from django_echomq.queue import NotReplicated, Queue
from django_echomq.queue.partitions import PartitionedQueue
from django_echomq.queues import forget_queues
from django_echomq.tasks.compat import task_enqueued
from django_echomq.wire.client import Client
from django_echomq.wire.endpoint import Endpoint
from django_echomq.wire.errors import ServerUnavailable
from tests.conftest import wait_until
from tests.faults.conftest import Server
from tests.testapp import tasks

MakeServer = Callable[..., Server]
Pair = tuple[Server, Server, Queue]


def endpoint_of(server: Server, replicas_ms: int) -> Endpoint:
    return replace(Endpoint.from_url(server.url), replicas=1, replicas_ms=replicas_ms)


@pytest.fixture
def pair(make_server: MakeServer) -> Pair:
    """A primary, its replica, and a queue whose admissions wait for it."""
    primary = make_server("--repl-diskless-sync-delay", "0")
    replica = make_server("--replicaof", "127.0.0.1", str(primary.port))
    wait_until(lambda: replica.raw.info("replication")["master_link_status"] == "up", "the replica")
    return primary, replica, Queue("fast", Client(endpoint_of(primary, 5_000)))


@pytest.fixture
def short(pair: Pair) -> Pair:
    """The same with a replica that stands still."""
    primary, replica, _ = pair
    replica.signal(signal.SIGSTOP)
    return primary, replica, Queue("fast", Client(endpoint_of(primary, 50)))


def test_an_admission_returns_when_a_replica_has_it(pair: Pair) -> None:
    primary, replica, queue = pair
    primary.raw.script_flush()
    for _ in range(20):
        admission = queue.jobs.enqueue(b"x")
        assert replica.raw.exists(queue.keys.job(admission.job_id))
    for admission in queue.jobs.enqueue_many([b"x"] * 600):
        assert replica.raw.exists(queue.keys.job(admission.job_id))


def test_one_that_no_replica_acknowledged_is_admitted_and_told(short: Pair) -> None:
    _, _, queue = short
    with pytest.raises(NotReplicated, match=r"only 0 of 1 replicas .* within 0.05 s") as caught:
        queue.jobs.enqueue_in(b"x", 60)
    (admission,) = caught.value.admissions
    assert admission.outcome == "scheduled"
    assert queue.jobs.state(admission.job_id) == "scheduled"
    assert caught.value.replicas == 0


def test_of_a_partitioned_queue_too(short: Pair) -> None:
    primary, _, plain = short
    sure = Client(Endpoint.from_url(primary.url))
    queue = PartitionedQueue("wide", [sure, plain.client, plain.client])
    with pytest.raises(NotReplicated, match=r"and 899 more.* 0 of 1 replicas") as caught:
        queue.jobs.enqueue_many([b"x"] * 900)
    told = [admission.job_id for admission in caught.value.admissions]
    assert len(set(told)) == 900 == queue.metrics.counts("pending")["pending"]
    assert all(queue.jobs.state(job_id) == "pending" for job_id in told[::90])


def test_many_are_all_admitted_and_waited_for_until_the_first_that_are_short(short: Pair) -> None:
    primary, _, queue = short
    with pytest.raises(NotReplicated, match="and 599 more") as caught:
        queue.jobs.enqueue_many([b"x"] * 600)
    assert len({admission.job_id for admission in caught.value.admissions}) == 600
    assert queue.metrics.counts("pending") == {"pending": 600}
    # Twice for the first of three batches, whose script was not known yet.
    assert primary.raw.info("commandstats")["cmdstat_wait"]["calls"] == 2


def test_on_an_event_loop(short: Pair) -> None:
    _, _, queue = short
    with pytest.raises(NotReplicated):
        asyncio.run(queue.client.adrive(queue.jobs.admission([b"x"])))
    assert queue.metrics.counts("pending") == {"pending": 1}


def test_a_repeated_call_waits_for_what_the_first_has_written(short: Pair) -> None:
    """On its new connection nothing was written yet, which a plain WAIT takes for replicated."""
    _, _, queue = short
    client = queue.client
    slot = client.take_slot()
    head = queue.jobs._head(None, 0, None, "now", 0, False)
    (job_id,) = client.drive(client.mint(1))
    call = queue.call("jobs/enqueue", *slot.next(), *head, job_id, b"x")
    assert client.drive(client.admit(call)) == ([1], 0)
    client.close()
    assert client.drive(client.admit(call)) == ([1], 0)
    assert queue.metrics.counts("pending") == {"pending": 1}


def test_one_whose_primary_is_demoted_while_it_waits_is_repeated(pair: Pair) -> None:
    """What the demoted one had may be lost; its word about replicas counts for nothing."""
    primary, replica, queue = pair
    replica.signal(signal.SIGSTOP)
    ends: list[BaseException] = []

    def admit() -> None:
        try:
            queue.jobs.enqueue(b"x")
        except ServerUnavailable as error:
            ends.append(error)

    thread = threading.Thread(target=admit)
    thread.start()
    wait_until(lambda: any(each["cmd"] == "wait" for each in primary.raw.client_list()), "the wait")
    primary.raw.replicaof("127.0.0.1", 1)
    thread.join(30)
    assert len(ends) == 1
    assert "read-only" in str(ends[0])


def test_a_task_whose_call_raises_is_told_as_enqueued(short: Pair) -> None:
    primary, _, queue = short
    connection = {"URL": primary.url, "REPLICAS": 1, "REPLICAS_TIMEOUT": 0.05}
    told: list[str] = []

    def hear(task_result: Any, **_: object) -> None:
        told.append(task_result.id)

    task_enqueued.connect(hear)
    try:
        with override_settings(ECHOMQ={**settings.ECHOMQ, "CONNECTIONS": {"default": connection}}):
            forget_queues()
            with pytest.raises(NotReplicated) as caught:
                tasks.fast_record.enqueue("nowhere", "x")
    finally:
        task_enqueued.disconnect(hear)
        forget_queues()
    assert told == [caught.value.admissions[0].job_id]
    assert queue.jobs.state(told[0]) == "pending"
