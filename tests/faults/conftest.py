"""A server that a test may kill, and the way to it."""

from __future__ import annotations

import json
import shutil
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from django_echomq.queue import Queue
from django_echomq.wire.client import Client
from django_echomq.wire.embedded import embedded
from django_echomq.wire.endpoint import Endpoint
from tests.conftest import Command, wait_until
from tests.wire.proxy import Proxy


@pytest.fixture
def own_server() -> Iterator[tuple[Path, dict[str, str], Client]]:
    """An embedded server that a test may kill: its folder, environment and client."""
    folder = Path(tempfile.mkdtemp(prefix="echomq-"))
    server = embedded(folder / "valkey")
    server.ensure_running()
    env = {"ECHOMQ_TEST_VALKEY": str(folder / "valkey"), "PYTEST_XDIST_WORKER": ""}
    yield folder, env, Client(Endpoint.from_embedded(folder / "valkey"), retry_for=20)
    server.release()
    wait_until(lambda: not (folder / "valkey" / "valkey.sock").exists(), "the server to stop")
    shutil.rmtree(folder, ignore_errors=True)


def server_pid(client: Client) -> int:
    info = client.drive(client.command("INFO", "server"))
    return int(info.split(b"process_id:")[1].split()[0])


class Watched:
    """A queue on that server, a proxy on the way there, and what the jobs of a test have done."""

    def __init__(self, folder: Path, env: dict[str, str], client: Client, name: str) -> None:
        self.client = client
        self.proxy = Proxy(client.endpoint)
        self.queue = Queue(name, client)
        self.direct = env
        self.by_proxy = {**env, "ECHOMQ_TEST_URL": self.proxy.url}
        self.path = folder / "effects"
        self.gate = folder / "gate"
        self.admitted = 0

    def enqueue(self, line: str = "job") -> str:
        """A job that ends when the gate is open."""
        args = [str(self.path), line, str(self.gate)]
        self.admitted += 1
        payload = json.dumps({"task": "tests.testapp.tasks.gated", "args": args})
        return self.queue.jobs.enqueue(payload).job_id

    def open(self) -> None:
        self.gate.touch()

    def effects(self) -> dict[str, int]:
        """How many handlers have started and how many came to their end."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        return dict(Counter(line.split()[0] for line in lines))

    def warm_up(self, worker: Command) -> None:
        """Waits until a worker has served a job, knows its scripts and is parked."""
        worker.until("Stop with")
        payload = b'{"task":"tests.testapp.tasks.noop"}'
        self.admitted += 1
        job_id = self.queue.jobs.enqueue(payload).job_id
        wait_until(lambda: self.queue.jobs.state(job_id) == "completed", "the first job")
        # One call at a time: with its answer to the next beat the one before has arrived.
        (before,) = self.queue.workers.all()
        wait_until(lambda: self.queue.workers.all()[0].beat_at > before.beat_at, "a beat")

    def settled(self) -> bool:
        return not any(self.queue.metrics.counts("pending", "active", "scheduled").values())

    def books(self) -> dict[str, int]:
        return self.queue.metrics.counts("completed", "failed", "dead", "active", "pending")


@pytest.fixture
def watch(
    own_server: tuple[Path, dict[str, str], Client],
) -> Iterator[Callable[[str], Watched]]:
    """Watches a queue of the settings."""
    made: list[Watched] = []

    def make(name: str) -> Watched:
        made.append(Watched(*own_server, name))
        return made[-1]

    yield make
    for each in made:
        each.proxy.close()
