"""A server that a test may kill, and the way to it."""

from __future__ import annotations

import json
import os
import shutil
import signal
import subprocess
import tempfile
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path

import pytest
import redis

from django_echomq.queue import Queue
from django_echomq.wire import embedded as programs
from django_echomq.wire.client import Client
from django_echomq.wire.embedded import embedded
from django_echomq.wire.endpoint import Endpoint
from tests.conftest import Command, wait_until
from tests.ports import free_port, listens
from tests.wire.proxy import Proxy


@pytest.fixture
def own_server() -> Iterator[tuple[Path, dict[str, str], Client]]:
    """An embedded server that a test may kill: its folder, environment and client."""
    folder = Path(tempfile.mkdtemp(prefix="echomq-"))
    server = embedded(folder / "valkey")
    server.ensure_running()
    env = {"ECHOMQ_TEST_VALKEY": str(folder / "valkey"), "PYTEST_XDIST_WORKER": ""}
    client = Client(Endpoint.from_embedded(folder / "valkey"), retry_for=20)
    yield folder, env, client
    client.close()
    server.release()
    wait_until(lambda: not (folder / "valkey" / "valkey.sock").exists(), "the server to stop")
    shutil.rmtree(folder, ignore_errors=True)


def server_pid(client: Client) -> int:
    info = client.drive(client.command("INFO", "server"))
    return int(info.split(b"process_id:")[1].split()[0])


class Server:
    """A server on loopback that a test starts, stops, starves and fills.

    Args:
        folder: where it keeps its data.
        options: what it is started with, as words of its command line.
    """

    def __init__(self, folder: Path, *options: str) -> None:
        self.port = free_port()
        self.folder = folder
        self.url = f"redis://127.0.0.1:{self.port}/0"
        self._options = options
        self.raw = redis.Redis(port=self.port)
        self._process: subprocess.Popen[bytes] | None = None

    @property
    def pid(self) -> int:
        assert self._process is not None
        return self._process.pid

    def start(
        self, *options: str, env: Mapping[str, str] | None = None, program: str | None = None
    ) -> None:
        """Starts it, with further options, and waits until it listens."""
        # Where a limit on its files is met it is to be told, not to be killed: SIGXFSZ stays
        # ignored, as Python has it.
        self._process = subprocess.Popen(
            [
                *(program or programs._find_binary(), "--port", str(self.port), "--save", ""),
                *self._options,
                *options,
            ],
            cwd=self.folder,
            env={**os.environ, **(env or {})},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            restore_signals=False,
        )
        wait_until(self._listens, "the server to listen")

    def _listens(self) -> bool:
        assert self._process is not None
        assert self._process.poll() is None, "the server did not start"
        return listens(self.port)

    def signal(self, number: int) -> None:
        assert self._process is not None
        self._process.send_signal(number)

    def kill(self) -> None:
        if self._process:
            self._process.kill()
            self._process.wait()
            self._process = None


@pytest.fixture
def make_server(tmp_path: Path) -> Iterator[Callable[..., Server]]:
    """Makes and starts servers, and ends them after the test."""
    made: list[Server] = []

    def make(*options: str, env: Mapping[str, str] | None = None) -> Server:
        folder = tmp_path / f"server-{len(made)}"
        folder.mkdir()
        made.append(Server(folder, *options))
        made[-1].start(env=env)
        return made[-1]

    yield make
    for each in made:
        each.raw.close()
        if each._process:
            each.signal(signal.SIGCONT)
        each.kill()


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
def watch_on(tmp_path: Path) -> Iterator[Callable[..., Watched]]:
    """Watches a queue of the settings on a server of the test's own."""
    made: list[Watched] = []

    def make(server: Server, name: str = "fast") -> Watched:
        env = {"ECHOMQ_TEST_URL": server.url + "?socket_timeout=1"}
        client = Client(Endpoint.from_url(server.url))
        made.append(Watched(tmp_path, env, client, name))
        return made[-1]

    yield make
    for each in made:
        each.proxy.close()
        each.client.close()


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
