"""What a job costs the server: memory while it waits, commands while it moves. Counts, no times."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis

from django_echomq.queue import Queue
from django_echomq.queue.jobs import STREAMED, Settlement
from tests.wire.monitor import Recording, recorded


@pytest.mark.parametrize(("length", "most"), [(30, 290), (66, 300), (200, 460)])
@pytest.mark.usefixtures("one_server")
def test_a_waiting_job_costs_little_memory(
    make_queue: Callable[..., Queue], raw: redis.Redis, length: int, most: int
) -> None:
    if "valkey_version" not in raw.info("server"):
        pytest.skip("the bound is of Valkey; Redis 7.0 needs some 50 bytes more")
    if raw.info("replication")["connected_slaves"]:
        pytest.skip("what the replicas have yet to take takes memory, too")
    queue, jobs = make_queue(), 50_000
    payload = b"x" * length
    queue.jobs.enqueue(payload)

    def used() -> int:
        info: Any = raw.info("memory")
        # Without what waits for a slow disk.
        return int(info["used_memory"]) - int(info["mem_aof_buffer"])

    before = used()
    queue.jobs.enqueue_many([payload] * jobs)
    assert (used() - before) / jobs <= most
    queue.admin.drain()


def commands(recording: Recording) -> tuple[int, int]:
    """How many commands came from clients, and how many scripts ran on their behalf."""
    seen = recording.seen()
    inside = sum(asked.by_script for asked in seen)
    return len(seen) - inside, inside


@pytest.fixture
def running(make_queue: Callable[..., Queue]) -> Queue:
    """A queue that has been used: its scripts are known, its counters are there."""
    queue = make_queue()
    queue.client.home._node = None  # its number is leased now, and not again for some minutes
    queue.jobs.enqueue_many([b"x"] * 100)
    drive(queue, 8)
    queue.jobs.enqueue(b"x")
    return queue


def drive(queue: Queue, batch: int, turns: int = 1) -> None:
    """Settles and claims as a worker does."""
    slot = queue.client.take_slot()
    ended: list[Settlement] = []
    for _ in range(turns + 1):
        reply = queue.drive(queue.client.run(queue.jobs.exchange_call(slot, ended, batch, "w")))
        ended = [queue.jobs.completion(claim) for claim in queue.jobs.exchange_answer(reply).claims]
    queue.drive(queue.client.run(queue.jobs.exchange_call(slot, ended, 0, "w")))


def test_enqueueing_is_one_round_trip_of_few_commands(running: Queue, raw: redis.Redis) -> None:
    def one() -> tuple[int, int]:
        with recorded(raw) as recording:
            running.jobs.enqueue(b"x")
            return commands(recording)

    # The first of a minute takes three more: a key of the ledger, and one of the figures.
    sent, inside = min(one(), one())
    assert sent == 1
    assert inside <= 12


@pytest.mark.parametrize("lane", [None, "a"])
def test_a_bulk_admission_takes_three_commands_a_job(
    running: Queue, raw: redis.Redis, lane: str | None
) -> None:
    jobs = 2 * STREAMED
    with recorded(raw) as recording:
        running.jobs.enqueue_many([b"x"] * jobs, lane=lane)
        sent, inside = commands(recording)
    assert sent == 2
    # Whether it is there, its row, and its event; their place is taken together.
    assert inside <= 3 * jobs + 2 * 20


@pytest.mark.parametrize(("events", "most"), [(True, 9), (False, 7)])
def test_a_job_is_claimed_and_settled_with_few_commands(
    running: Queue, raw: redis.Redis, events: bool, most: int
) -> None:
    if not events:
        running.events.disable()
    running.jobs.enqueue_many([b"x"] * 400)
    turns, batch = 20, 16
    with recorded(raw) as recording:
        drive(running, batch, turns)
        sent, inside = commands(recording)
    assert sent == turns + 2
    assert inside <= most * batch * (turns + 1) + 18 * sent
