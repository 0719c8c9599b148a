"""How late a job starts that was parked for a second, on an otherwise idle worker.

    python benchmarks/lateness.py [--jobs 500] [--delay 1.0] [--gap 0.01]

A worker process of its own serves an embedded server; jobs are parked one after the other. Lateness
is the time from the due score, on the server's clock, to the first line of the handler.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from django_echomq.queue import Queue
from django_echomq.queue.jobs import Settlement
from django_echomq.wire.client import Client
from django_echomq.wire.endpoint import Endpoint
from django_echomq.worker import Hand, Worker


def connect(folder: Path) -> Queue:
    return Queue("lateness", Client(Endpoint.from_embedded(folder / "valkey")))


def work(folder: Path, jobs: int) -> None:
    out = (folder / "starts").open("w")

    def handler(hand: Hand) -> Settlement:
        started = time.time_ns()
        out.write(f"{hand.claim.job_id} {started}\n")
        out.flush()
        return hand.queue.jobs.completion(hand.claim)

    Worker([connect(folder)], handler, name="lateness", max_jobs=jobs).run()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--jobs", type=int, default=500)
    parser.add_argument("--delay", type=float, default=1.0, help="seconds")
    parser.add_argument("--gap", type=float, default=0.01, help="seconds between enqueues")
    parser.add_argument("--serve", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        work(options.serve, options.jobs)
        return
    with tempfile.TemporaryDirectory(prefix="echomq-") as name:
        folder = Path(name)
        queue = connect(folder)
        queue.metrics.counts()
        worker = subprocess.Popen(
            [sys.executable, __file__, "--serve", name, "--jobs", str(options.jobs)]
        )
        time.sleep(2)
        due: dict[str, float] = {}
        for _ in range(options.jobs):
            job_id = queue.jobs.enqueue_in(b"x", options.delay).job_id
            score = queue.drive(queue.client.command("ZSCORE", queue.keys.schedule, job_id))
            due[job_id] = float(score)
            time.sleep(options.gap)
        worker.wait(60 + options.delay)
        late = []
        for line in (folder / "starts").read_text().splitlines():
            job_id, started = line.split()
            late.append(int(started) / 1e6 - due[job_id])
        cuts = statistics.quantiles(late, n=100)
        server = queue.drive(queue.client.command("INFO", "server"))
        version = server.partition(b"valkey_version:")[2].split()[0].decode()
        print(f"Python {platform.python_version()}, Valkey {version}, {len(late)} jobs")
        print(
            f"lateness in ms: p50 {cuts[49]:.1f}  p95 {cuts[94]:.1f}  p99 {cuts[98]:.1f}  "
            f"max {max(late):.1f}  min {min(late):.1f}"
        )


if __name__ == "__main__":
    main()
