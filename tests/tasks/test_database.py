"""Database connections around jobs, on SQLite and on PostgreSQL."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable
from typing import Any

import pytest
from asgiref.sync import sync_to_async
from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.db import connection, connections, transaction
from django.test import override_settings

from django_echomq.queue import Queue
from django_echomq.tasks import database, schedules
from django_echomq.tasks.database import fresh_async_connections, fresh_connections
from tests.conftest import Command, wait_until
from tests.tasks.conftest import Postgres
from tests.testapp import tasks

Site = Callable[[str], Queue]
Start = Callable[..., Command]


def finish(worker: Command) -> None:
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()


def completed(queue: Queue, jobs: int) -> bool:
    return queue.metrics.counts("completed") == {"completed": jobs}


def all_at_first_try(queue: Queue, jobs: int) -> None:
    assert queue.metrics.counts("completed", "failed", "dead", "scheduled") == {
        "completed": jobs,
        "failed": 0,
        "dead": 0,
        "scheduled": 0,
    }
    assert {job.attempt for job in queue.jobs.browse("completed", limit=jobs)} == {1}


# A worker on PostgreSQL


@pytest.mark.parametrize("max_age", [0, 600])
def test_connections_do_not_grow_over_1000_jobs_on_8_threads(
    site: Site, postgres: Postgres, on_postgres: Start, max_age: int
) -> None:
    """At most one a thread and one of the main thread. Without persistent connections the last two
    of each thread may still be on their way out."""
    queue, threads = site("fast"), 8
    tasks.queries.enqueue_many([((), {})] * 1_000)
    worker = on_postgres("--threads", str(threads), name="growth", max_age=max_age)
    most, ever = 0, set()

    def look() -> bool:
        nonlocal most
        pids = set(postgres.backends("growth"))
        most = max(most, len(pids))
        ever.update(pids)
        return completed(queue, 1_000)

    wait_until(look, "all jobs")
    assert 0 < most <= (threads + 1 if max_age else 3 * threads + 1)
    if max_age:
        assert len(ever) <= threads + 1
    else:
        wait_until(lambda: not postgres.backends("growth"), "the last connections to be closed")
    finish(worker)
    all_at_first_try(queue, 1_000)


@pytest.mark.parametrize("kind", ["threads", "coroutines", "isolated"])
def test_a_server_that_drops_idle_connections_is_not_noticed(
    site: Site, postgres: Postgres, on_postgres: Start, kind: str
) -> None:
    queue = site("fast")
    task = tasks.aqueries if kind == "coroutines" else tasks.queries
    options = ["--isolate"] if kind == "isolated" else []
    worker = on_postgres("--threads", "4", *options, name=kind)
    before: dict[int, str] = {}
    for batch in range(1, 4):
        task.enqueue_many([((0.02,), {})] * 20)
        wait_until(lambda batch=batch: completed(queue, 20 * batch), "the jobs")
        backends = postgres.backends(kind)
        assert backends
        assert not backends.keys() & before.keys()
        before = backends
        postgres.drop(kind)
    finish(worker)
    all_at_first_try(queue, 60)


LEFT = ["atomic", "autocommit off", "begun", "broken"]


@pytest.mark.parametrize("how", LEFT)
def test_a_transaction_left_open_does_not_poison_the_next_job(
    site: Site, postgres: Postgres, on_postgres: Start, how: str
) -> None:
    queue = site("fast")
    worker = on_postgres("--threads", "1", name="left")
    tasks.leaves_a_transaction.enqueue(how)
    tasks.writes.enqueue(f"after {how}")
    wait_until(lambda: completed(queue, 2), "both jobs")
    finish(worker)
    all_at_first_try(queue, 2)
    with postgres.connect() as plain:
        rows = plain.execute("SELECT model FROM django_content_type").fetchall()
    assert (f"after {how}",) in rows
    assert ("left",) not in rows


# The same on SQLite


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("how", LEFT)
def test_a_transaction_left_open_does_not_lock_sqlite(site: Site, command: Start, how: str) -> None:
    queue = site("fast")
    worker = command("echomq_worker", "fast", "--threads", "2")
    tasks.leaves_a_transaction.enqueue(how)
    wait_until(lambda: completed(queue, 1), "the first job")
    tasks.writes.enqueue(f"after {how}")
    wait_until(lambda: completed(queue, 2), "the second job")
    finish(worker)
    all_at_first_try(queue, 2)
    models = set(ContentType.objects.filter(app_label="testapp").values_list("model", flat=True))
    assert models == {f"after {how}"}


@pytest.mark.django_db
def test_a_transaction_of_the_caller_is_left_alone() -> None:
    with transaction.atomic():
        ContentType.objects.create(app_label="testapp", model="the caller's")
        with fresh_connections():
            ContentType.objects.create(app_label="testapp", model="the job's")
        assert connection.in_atomic_block
        assert ContentType.objects.filter(app_label="testapp").count() == 2


# Coroutines


@sync_to_async
def is_open() -> bool:
    return connection.connection is not None


async def connect() -> None:
    await sync_to_async(lambda: connection.ensure_connection())()


@pytest.fixture
def nothing_made(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(database, "_made_elsewhere", False)


def test_a_coroutine_without_a_database_makes_no_hop(
    monkeypatch: pytest.MonkeyPatch, nothing_made: None
) -> None:
    def hop(function: Any) -> Any:
        raise AssertionError("a hop to another thread")

    monkeypatch.setattr(database, "sync_to_async", hop)

    async def job() -> None:
        async with fresh_async_connections():
            pass

    asyncio.run(job())


@pytest.mark.django_db(transaction=True)
def test_a_coroutine_closes_its_connection(nothing_made: None) -> None:
    async def job() -> bool:
        async with fresh_async_connections():
            await connect()
            assert await is_open()
        return await is_open()

    assert not asyncio.run(job())


@pytest.mark.django_db(transaction=True)
def test_a_coroutine_leaves_a_connection_that_others_use(nothing_made: None) -> None:
    async def jobs() -> tuple[bool, bool]:
        async with fresh_async_connections():
            await connect()
            async with fresh_async_connections():
                pass
            between = await is_open()
        return between, await is_open()

    assert asyncio.run(jobs()) == (True, False)


@pytest.mark.django_db(transaction=True)
def test_a_connection_that_failed_is_replaced_though_others_are_in_flight(
    nothing_made: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(type(connections["default"]), "is_usable", lambda self: False)

    def fail() -> None:
        connection.ensure_connection()
        connection.errors_occurred = True

    async def jobs() -> bool:
        async with fresh_async_connections():
            await sync_to_async(fail)()
            async with fresh_async_connections():
                return await is_open()

    assert not asyncio.run(jobs())


@pytest.mark.django_db(transaction=True)
@override_settings(ECHOMQ={**settings.ECHOMQ, "SCHEDULES": {"beat": {"TASK": "none", "EVERY": 10}}})
def test_preparing_the_schedules_keeps_no_connection(monkeypatch: pytest.MonkeyPatch) -> None:
    """What workers and promoters do once, in a thread that sees no job."""
    counted = []
    monkeypatch.setattr(
        schedules, "lookup", lambda name: counted.append(ContentType.objects.count())
    )
    schedules.reconcile_schedules([])
    assert len(counted) == 1
    assert connection.connection is None


def test_a_driver_that_cannot_be_looked_at_is_asked_after_a_second() -> None:
    assert not database._speaks(object(), 0.9)
    assert database._speaks(object(), 1.1)
