"""Whether a worker stays as it is over many jobs and a minute without its server.

    python benchmarks/endurance.py [--jobs 200000] [--away 60] [--warm-up 20000]

One worker process of the test project serves an embedded server: no-ops, calls with arguments and a
result, coroutines and database queries. Half way the server goes away. Ends with 1 if the worker's
resident memory grew by 10 % or more after the warm-up, if it has more threads or sockets than
then, or if a job is missing.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import psutil

from django_echomq.queue import Queue
from django_echomq.wire.client import Client
from django_echomq.wire.embedded import EmbeddedServer
from django_echomq.wire.endpoint import Endpoint

ROOT = Path(__file__).resolve().parents[1]

GROWTH = 1.10
# The event loop's own pair, and one each for the consumer, the leases and the parking, which need
# not have been in use at the same moment before the warm-up was over.
OWN_SOCKETS = 2 + 3
CHUNK, BACKLOG = 500, 3_000
JOBS = (
    b'{"task":"tests.testapp.tasks.noop"}',
    b'{"task":"tests.testapp.tasks.echo","args":[1,"two"],"kwargs":{"three":[3.0,null]}}',
    b'{"task":"tests.testapp.tasks.double","args":[21]}',
    b'{"task":"tests.testapp.tasks.queries"}',
)
# Many more of the shortest.
MIX = [JOBS[0]] * 14 + [JOBS[1]] * 4 + [JOBS[2], JOBS[3]]


class Sample(NamedTuple):
    """The worker at one moment."""

    when: str
    seconds: float
    done: int
    rss: float
    threads: int
    descriptors: int
    sockets: int


class Run:
    def __init__(self, folder: Path, jobs: int) -> None:
        self.server = EmbeddedServer(folder / "valkey")
        self.server.ensure_running()
        # By its path alone, so that nobody but this script keeps the server running.
        url = f"unix://{self.server.socket_path}"
        self.queue = Queue("default", Client(Endpoint.from_url(url), retry_for=30))
        self.jobs = jobs
        self.done = 0
        self.sent = 0
        env = {
            **os.environ,
            "DJANGO_SETTINGS_MODULE": "tests.settings",
            "PYTHONPATH": str(ROOT),
            "ECHOMQ_TEST_URL": url,
            "ECHOMQ_TEST_DB": str(folder / "db.sqlite3"),
            "PYTEST_XDIST_WORKER": "",
        }
        django = [sys.executable, "-m", "django"]
        subprocess.run([*django, "migrate", "contenttypes", "-v0"], env=env, cwd=ROOT, check=True)
        self.log = folder / "log"
        with self.log.open("wb") as log:
            self.worker = subprocess.Popen(
                [*django, "echomq_worker", "default"], env=env, cwd=ROOT, stdout=log, stderr=log
            )
        self.process = psutil.Process(self.worker.pid)
        self.started = time.monotonic()

    def sample(self, when: str) -> Sample:
        with self.process.oneshot():
            return Sample(
                when,
                time.monotonic() - self.started,
                self.done,
                self.process.memory_info().rss / 2**20,
                self.process.num_threads(),
                self.process.num_fds(),
                len(self.process.net_connections("all")),
            )

    def work(self, until: int) -> None:
        """Feeds the worker until so many jobs are done."""
        while self.done < until:
            if self.worker.poll() is not None:
                raise SystemExit(f"The worker has ended:\n{self.log.read_text()[-4000:]}")
            self.done = self.queue.metrics.counts("completed")["completed"]
            room = min(self.jobs - self.sent, BACKLOG - (self.sent - self.done))
            if room >= min(CHUNK, self.jobs - self.sent) > 0:
                count = min(CHUNK, room)
                batch = [MIX[(self.sent + n) % len(MIX)] for n in range(count)]
                self.queue.jobs.enqueue_many(batch)
                self.sent += count
            else:
                time.sleep(0.02)

    def pause(self, seconds: float) -> None:
        """Lets so much time pass without a server."""
        self.server.release()
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            time.sleep(0.1)

    def play(self, warm_up: int, away: float) -> Iterator[Sample]:
        self.work(warm_up)
        yield self.sample("warm")
        self.work(self.jobs // 2)
        yield self.sample("half way")
        self.pause(away)
        yield self.sample("server away")
        self.server.ensure_running()
        self.work(self.jobs // 2 + min(1_000, self.jobs // 10))
        yield self.sample("server back")
        self.work(self.jobs)
        yield self.sample("end")

    def close(self) -> None:
        self.worker.terminate()
        self.worker.wait(60)
        self.queue.client.close()
        self.server.release()


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=200_000)
    parser.add_argument("--away", type=float, default=60.0, help="seconds without a server")
    parser.add_argument("--warm-up", type=int, default=20_000, help="jobs before the comparison")
    options = parser.parse_args()
    if not 0 < options.warm_up < options.jobs // 2:
        parser.error("--warm-up must lie before the half of --jobs")
    print(f"Python {platform.python_version()}, {options.jobs} jobs, {options.away:g} s away")
    print(f"{'':<12} {'seconds':>8} {'jobs':>8} {'MiB':>7} {'threads':>8} {'files':>6} sockets")
    # Not the system's: the path of a socket must be short.
    with tempfile.TemporaryDirectory(prefix="emq-", dir="/tmp") as name:
        run = Run(Path(name), options.jobs)
        samples = []
        try:
            for one in run.play(options.warm_up, options.away):
                samples.append(one)
                print(
                    f"{one.when:<12} {one.seconds:>8.1f} {one.done:>8} {one.rss:>7.1f} "
                    f"{one.threads:>8} {one.descriptors:>6} {one.sockets:>7}",
                    flush=True,
                )
            books = run.queue.metrics.counts("completed", "failed", "dead", "pending", "active")
        finally:
            run.close()
    warm, end = samples[0], samples[-1]
    print(f"memory after the warm-up: {100 * (end.rss / warm.rss - 1):+.1f} %")
    faults = []
    if end.rss >= GROWTH * warm.rss:
        faults.append("resident memory grew")
    if end.threads > warm.threads:
        faults.append("threads grew")
    if end.sockets > max(warm.sockets, OWN_SOCKETS):
        faults.append("sockets grew")
    expected = {"completed": options.jobs, "failed": 0, "dead": 0, "pending": 0, "active": 0}
    if books != expected:
        faults.append(f"the books are {books}")
    for fault in faults:
        print(f"FAULT: {fault}")
    return bool(faults)


if __name__ == "__main__":
    sys.exit(main())
