"""How long a quiet lane waits behind floods.

    python benchmarks/fairness.py [--lanes 100] [--jobs 20000]

The lanes of an embedded server get very unequal backlogs, the longest about half of all jobs. Then
a job comes in a lane of its own, and one worker with one thread claims. The position at which it is
served is printed beside that of a line in which all stand as they came.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
from pathlib import Path

from django_echomq.queue import Queue
from django_echomq.queue.jobs import Settlement
from django_echomq.wire.client import Client
from django_echomq.wire.endpoint import Endpoint
from django_echomq.worker import Hand, Worker

QUIET = "quiet"


def backlogs(lanes: int, jobs: int) -> list[int]:
    """Each lane has about as many jobs as all that follow together, and at least one."""
    left, found = jobs, []
    for _ in range(lanes):
        found.append(max(1, left // 2))
        left -= found[-1]
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--lanes", type=int, default=100)
    parser.add_argument("--jobs", type=int, default=20_000)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="echomq-") as folder:
        queue = Queue("fairness", Client(Endpoint.from_embedded(Path(folder) / "valkey")))
        sizes = backlogs(options.lanes, options.jobs)
        for number, size in enumerate(sizes):
            queue.jobs.enqueue_many([b"x"] * size, lane=f"lane-{number}")
        quiet = queue.jobs.enqueue(b"x", lane=QUIET).job_id
        served: list[str] = []

        def handler(hand: Hand) -> Settlement:
            served.append(hand.claim.job_id)
            if hand.claim.job_id == quiet:
                worker.stop()
            return queue.jobs.completion(hand.claim)

        worker = Worker([queue], handler, name="fairness", threads=1)
        worker.run()
        position = served.index(quiet) + 1
        server = queue.drive(queue.client.command("INFO", "server"))
        version = server.partition(b"valkey_version:")[2].split()[0].decode()
        print(
            f"Python {platform.python_version()}, Valkey {version}, {sum(sizes)} jobs in "
            f"{options.lanes} lanes of {sizes[0]} to {sizes[-1]}"
        )
        print(f"one turn of all lanes: {options.lanes + 1} jobs")
        print(f"the quiet lane's job was served at position {position}")
        print(f"first in, first out: {sum(sizes) + 1}")


if __name__ == "__main__":
    main()
