"""One real Valkey for the whole run, a fresh queue for each test."""

from __future__ import annotations

import itertools
import os
import shutil
import subprocess
import sys
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from django.test import override_settings
from hypothesis import HealthCheck
from hypothesis import settings as hypothesis_settings
from redis.sentinel import Sentinel

from django_echomq.queue import Queue, QueueOptions
from django_echomq.queue.jobs import Settlement
from django_echomq.queues import forget_queues, get_client, get_queue
from django_echomq.wire.client import Client
from django_echomq.wire.embedded import embedded
from django_echomq.wire.endpoint import Endpoint
from django_echomq.worker import Hand, Stopped, Worker
from tests.ports import free_ports
from tests.waiting import wait_until as wait_until
from tests.wire.nodes import Nodes, Router, slot_of

ROOT = Path(__file__).resolve().parents[1]
_names = itertools.count()

# How fast a machine is today says nothing about the code.
hypothesis_settings.register_profile(
    "patient", deadline=None, suppress_health_check=[HealthCheck.too_slow]
)
hypothesis_settings.load_profile("patient")


@pytest.fixture(scope="session")
def endpoint() -> Iterator[Endpoint]:
    """Where the run's server is."""
    connection = settings.ECHOMQ["CONNECTIONS"]["default"]
    if "URL" in connection:
        yield Endpoint.from_url(connection["URL"])
        return
    if "SENTINELS" in connection:
        yield get_client().endpoint
        return
    if "CLUSTER" in connection:
        nodes = Nodes(ports_of(connection["CLUSTER"]), timeout_ms=5_000)
        if not os.environ.get("ECHOMQ_TEST_CLUSTER"):
            nodes.start()
        yield Endpoint.from_cluster(connection["CLUSTER"])
        forget_queues()
        nodes.close()
        return
    folder = connection["EMBEDDED"]
    found = Endpoint.from_embedded(folder)
    found.heal()
    yield found
    forget_queues()
    embedded(folder).release()
    wait_until(lambda: not (folder / "valkey.sock").exists(), "the embedded server to stop")
    shutil.rmtree(folder, ignore_errors=True)


@pytest.fixture
def one_server(endpoint: Endpoint) -> Endpoint:
    """The run's server for what a cluster has not: numbered databases, a proxy in front."""
    if endpoint.cluster:
        pytest.skip("the run's server is a cluster")
    return endpoint


@pytest.fixture(scope="session")
def nodes() -> Iterator[Nodes]:
    """A cluster of three primaries and three replicas, of which a test may kill any."""
    made = Nodes(free_ports(6), timeout_ms=2_000)
    try:
        made.start()
        yield made
    finally:
        made.close()


@pytest.fixture
def cluster(nodes: Nodes) -> Iterator[Nodes]:
    """That cluster, all of whose nodes are well before and after."""
    nodes.settle()
    yield nodes
    for node in nodes.nodes:
        if not node.is_running:
            node.start()
            wait_until(node.listens, "the node to listen")
    nodes.settle()


@pytest.fixture(scope="session")
def client(endpoint: Endpoint) -> Client:
    """A client of the run's server, patient with a machine that is busy."""
    return Client(endpoint, retry_for=30)


@pytest.fixture(scope="session")
def raw(endpoint: Endpoint) -> redis.Redis:
    """A plain client: plays the stock side, and the foreign hand."""
    options = dict(endpoint.options)
    if endpoint.cluster:
        return Router(ports_of(settings.ECHOMQ["CONNECTIONS"]["default"]["CLUSTER"]))
    if endpoint.sentinels:
        found = Sentinel(endpoint.sentinels).discover_master(endpoint.service)
        options |= zip(("host", "port"), found, strict=True)
    if "path" in options:
        return redis.Redis(unix_socket_path=options["path"])
    return redis.Redis(
        host=options["host"], port=options.get("port", 6379), db=options.get("db", 0)
    )


def ports_of(nodes: Sequence[str]) -> list[int]:
    return [int(node.rpartition(":")[2]) for node in nodes]


def in_view(client: Client, name: str) -> bool:
    """Whether a queue is on the server that ``raw`` shows: always, unless that is a cluster."""
    cluster = client.endpoint.cluster
    return not cluster or cluster.primary(slot_of(name)) == cluster.primary(0)


def purge(raw: redis.Redis, name: str) -> None:
    for key in raw.scan_iter(f"emq:{{{name}}}:*", count=1000):
        raw.delete(key)


@pytest.fixture
def make_queue(client: Client, raw: redis.Redis) -> Iterator[Callable[..., Queue]]:
    """Makes queues of names of their own, with options."""
    made: list[str] = []

    def make(**options: Any) -> Queue:
        name = f"t{os.getpid()}-{next(_names)}"
        while not in_view(client, name):
            name = f"t{os.getpid()}-{next(_names)}"
        made.append(name)
        return Queue(name, client, QueueOptions(**options))

    yield make
    for name in made:
        purge(raw, name)


@pytest.fixture
def queue(make_queue: Callable[..., Queue]) -> Queue:
    """An empty queue with the default options."""
    return make_queue()


@pytest.fixture
def site(endpoint: Endpoint, raw: redis.Redis) -> Iterator[Callable[[str], Queue]]:
    """The queues of the settings, empty before and after."""
    names = list(settings.ECHOMQ["QUEUES"])
    for name in names:
        purge(raw, name)
    yield get_queue
    for name in names:
        purge(raw, name)


WIDE = {"wide": {"PARTITIONS": 3, "LEASE": 1, "BACKOFF": {"TYPE": "fixed", "MS": 50}}}


@pytest.fixture
def wide(site: Callable[[str], Queue], raw: redis.Redis) -> Iterator[Queue]:
    """A partitioned queue of the settings; processes get it by ``ECHOMQ_TEST_QUEUES``."""
    with override_settings(
        ECHOMQ={**settings.ECHOMQ, "QUEUES": {**settings.ECHOMQ["QUEUES"], **WIDE}}
    ):
        queue = get_queue("wide")
        yield queue
        for part in queue.parts:
            purge(raw, part.keys.queue)


class Command:
    """A management command in a process of its own, started ``under`` another program if wanted."""

    def __init__(
        self,
        *args: str,
        env: dict[str, str] | None = None,
        log: Path,
        under: Sequence[str] = (),
    ) -> None:
        self.log = log
        self._out = log.open("ab")
        self.process = subprocess.Popen(
            [*under, sys.executable, "-m", "django", *args],
            cwd=ROOT,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "tests.settings",
                "PYTHONUNBUFFERED": "1",
                "PYTHONPATH": str(ROOT),
                **(env or {}),
            },
            stdout=self._out,
            stderr=subprocess.STDOUT,
            stdin=subprocess.DEVNULL,
        )

    @property
    def pid(self) -> int:
        return self.process.pid

    def output(self) -> str:
        return self.log.read_text(errors="replace")

    def until(self, text: str, seconds: float = 150.0) -> None:
        """Waits for the text in the output."""
        try:
            wait_until(
                lambda: text in self.output() or self.process.poll() is not None, text, seconds
            )
        except AssertionError as error:
            raise AssertionError(f"{error}; its output is:\n{self.output()}") from None
        assert text in self.output(), self.output()

    def signal(self, number: int) -> None:
        self.process.send_signal(number)

    def wait(self, seconds: float = 150.0) -> int:
        return self.process.wait(seconds)

    def close(self) -> None:
        if self.process.poll() is None:
            self.process.kill()
        self.process.wait()
        self._out.close()


@pytest.fixture
def command(endpoint: Endpoint, tmp_path: Path) -> Iterator[Callable[..., Command]]:
    """Starts management commands, and ends them after the test."""
    started: list[Command] = []

    def start(*args: str, env: dict[str, str] | None = None, under: Sequence[str] = ()) -> Command:
        log = tmp_path / f"command-{len(started)}.log"
        new = Command(*args, env=env, log=log, under=under)
        started.append(new)
        return new

    yield start
    for each in started:
        each.close()


def complete(hand: Hand) -> Settlement:
    return hand.queue.jobs.completion(hand.claim, hand.claim.payload)


@contextmanager
def running(worker: Worker) -> Iterator[list[Stopped]]:
    ends: list[Stopped] = []
    thread = threading.Thread(target=lambda: ends.append(worker.run()))
    thread.start()
    try:
        yield ends
    finally:
        worker.stop()
        thread.join(30)
        assert not thread.is_alive()
