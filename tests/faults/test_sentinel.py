"""Failovers under load: a primary, two replicas and three sentinels, workers and producers.

Each test admits jobs without pause, has the sentinels promote a replica, and counts: jobs whose
admission was answered, jobs of which nothing is left, jobs that ran twice.
"""

from __future__ import annotations

import asyncio
import logging
import random
import signal
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from django_echomq.queue import NotReplicated, Queue
from django_echomq.wire.client import Client
from django_echomq.wire.endpoint import Endpoint
from django_echomq.wire.errors import ServerUnavailable
from tests.conftest import Command, wait_until
from tests.faults.conftest import Server
from tests.faults.sentinels import SERVICE, Sentinels

Start = Callable[..., Command]

logger = logging.getLogger(__name__)

EFFECT = '{"task":"tests.testapp.tasks.effect","args":["%s","%s"]}'


@pytest.fixture
def group(tmp_path: Path) -> Iterator[Sentinels]:
    with Sentinels(tmp_path / "group") as made:
        yield made


class Load:
    """Producers on two threads and an event loop, and what became of what they sent."""

    def __init__(self, endpoint: Endpoint, path: Path) -> None:
        self.path = path
        self.admitted: list[str] = []
        self.unsure: list[str] = []
        self.away = 0
        self._client = Client(endpoint)
        self.jobs = Queue("fast", self._client).jobs
        self.queue = Queue("fast", Client(endpoint, retry_for=20))
        self._stop = threading.Event()
        self._threads = [
            threading.Thread(target=self._produce, args=("a",)),
            threading.Thread(target=self._produce, args=("b",)),
            threading.Thread(target=lambda: asyncio.run(self._aproduce())),
        ]

    @contextmanager
    def _sending(self, name: str) -> Iterator[str]:
        try:
            yield EFFECT % (self.path, name)
        except NotReplicated:
            self.unsure.append(name)
        except ServerUnavailable:
            self.unsure.append(name)
            self.away += 1
        else:
            self.admitted.append(name)

    def _produce(self, who: str) -> None:
        for n in range(1_000_000):
            if self._stop.wait(0.005):
                return
            with self._sending(f"{who}{n}") as payload:
                self.jobs.enqueue(payload)

    async def _aproduce(self) -> None:
        async def send(name: str) -> None:
            with self._sending(name) as payload:
                await self._client.adrive(self.jobs.admission([payload]))

        n = 0
        while not self._stop.is_set():
            await asyncio.gather(*(send(f"c{n + k}") for k in range(20)), asyncio.sleep(0.1))
            n += 20

    def some_more(self) -> None:
        """Waits until fifty more are admitted."""
        now = len(self.admitted)
        wait_until(lambda: len(self.admitted) >= now + 50, "more jobs")

    def __enter__(self) -> Load:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        for thread in self._threads:
            thread.join(60)
            assert not thread.is_alive()
        self._client.close()

    def effects(self) -> Counter[str]:
        return Counter(self.path.read_text().splitlines() if self.path.exists() else ())

    def settled(self) -> bool:
        counts = self.queue.metrics.counts("pending", "active", "scheduled")
        return not any(counts.values())

    def lost(self) -> set[str]:
        """Admitted, settled, and without an effect."""
        wait_until(self.settled, "the jobs to be done", step=0.1)
        return set(self.admitted) - set(self.effects())

    def sheet(self) -> str:
        effects = self.effects()
        return (
            f"{len(self.admitted)} admitted, {len(self.unsure)} unsure ({self.away} times away), "
            f"{len(effects)} with an effect, {len(self.lost())} lost, "
            f"{sum(n - 1 for n in effects.values())} doubled"
        )


def serve(command: Start, group: Sentinels) -> Command:
    worker = command("echomq_worker", "fast", "--threads", "2", env=group.env)
    worker.until("Stop with")
    return worker


def end_well(worker: Command) -> None:
    assert worker.process.poll() is None, worker.output()
    worker.signal(signal.SIGTERM)
    assert worker.wait(60) == 0, worker.output()
    assert "Traceback" not in worker.output(), worker.output()


def test_no_sentinel_is_forgotten_and_no_connection_to_one_is_left(group: Sentinels) -> None:
    """When many ask at once, and the one that they ask first is away."""
    client = Client(group.endpoint())

    async def ask() -> list[object]:
        await asyncio.gather(*(client.adrive(client.command("PING")) for _ in range(50)))
        ((pool, _),) = client._async_pools.values()
        manager = pool.sentinel_manager
        await asyncio.gather(*(manager.discover_master(SERVICE) for _ in range(50)))
        known = list(manager.sentinels)
        assert len({id(sentinel) for sentinel in known}) == 3
        return known

    group.sentinels[0].kill()
    for sentinel in asyncio.run(ask()):
        pool = sentinel.connection_pool
        assert not any(each.is_connected for each in pool._available_connections)


@pytest.mark.parametrize("how", ["kill -9", "SENTINEL FAILOVER"])
def test_workers_and_producers_follow_the_new_primary(
    group: Sentinels, command: Start, tmp_path: Path, how: str
) -> None:
    """Without a restart, threads and event loops; nobody speaks to the old one when it is back."""
    worker = serve(command, group)
    waited = replace(group.endpoint(), replicas=1, replicas_ms=1_000)
    with Load(waited, tmp_path / "effects") as load:
        load.some_more()
        old = group.kill_primary() if how == "kill -9" else group.fail_over()
        load.some_more()
        if how == "kill -9":
            old.start()
        group.until_whole()
        old.raw.config_resetstat()
        load.some_more()
        asked = old.raw.info("commandstats")
    assert not load.lost(), load.sheet()
    logger.info(load.sheet())
    assert load.queue.metrics.counts("failed", "dead") == {"failed": 0, "dead": 0}
    assert not {"cmdstat_evalsha", "cmdstat_blpop", "cmdstat_eval"} & set(asked)
    end_well(worker)


def kill_alone(group: Sentinels, meanwhile: Callable[[], object]) -> Server:
    """Kills the primary when its replicas are cut off from it, for less than is noticed."""
    primary = group.primary()
    replicas = [server for server in group.servers if server is not primary]
    for replica in replicas:
        replica.signal(signal.SIGSTOP)
    primary.raw.execute_command("CLIENT", "KILL", "TYPE", "replica")
    meanwhile()
    primary.kill()
    for replica in replicas:
        replica.signal(signal.SIGCONT)
    group.until_another_serves(primary)
    return primary


@pytest.mark.slow
def test_what_a_replica_has_survives_its_primary(
    group: Sentinels, command: Start, tmp_path: Path
) -> None:
    """Killed at random moments, also such at which it has what no replica has."""
    worker = serve(command, group)
    waited = replace(group.endpoint(), replicas=1, replicas_ms=1_000)
    with Load(waited, tmp_path / "effects") as load:
        for _ in range(3):
            load.some_more()
            dead = kill_alone(group, lambda: time.sleep(random.uniform(0, 0.3)))
            dead.start("--replicaof", "127.0.0.1", str(group.primary().port))
            group.until_whole()
        load.some_more()
    assert not load.lost(), load.sheet()
    logger.info(load.sheet())
    end_well(worker)


def test_what_no_replica_has_is_lost_with_its_primary(group: Sentinels) -> None:
    """Why ``REPLICAS`` is there."""
    client = Client(group.endpoint())
    jobs = Queue("fast", client).jobs
    jobs.enqueue(b"x")  # knows the primary and the script from here on
    ids: list[str] = []
    kill_alone(group, lambda: ids.extend(jobs.enqueue(b"x").job_id for _ in range(10)))
    assert [jobs.state(job_id) for job_id in ids] == ["absent"] * 10
    client.close()
