"""How long the console's pages take while a million jobs wait.

    python benchmarks/console.py [--pending 1000000] [--dead 200000] [--lanes 500]

Prints for each page the time of the whole request, the median of five: by the clock on the wall,
and the processor's time of the web process and of Valkey, which other programs do not lengthen. And
how often it asked Valkey and the database, on an empty queue and on the full one. Ends with 1 where
a page takes 150 ms of the processor or more.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import tempfile
import time
from pathlib import Path
from typing import Any, NamedTuple

LIMIT = 150.0  # ms
ROOT = Path(__file__).resolve().parents[1]


class Cost(NamedTuple):
    """Of one page: ms, round trips to Valkey, queries to the database, bytes."""

    wall: float
    cpu: float
    trips: int
    queries: int
    size: int


def cost(queue: Any, browser: Any, path: str) -> Cost:
    """Opens a page five times."""
    from big_queue import cpu_ms
    from django.db import connection
    from django.test.utils import CaptureQueriesContext

    from django_echomq.wire.client import Client

    plain, trips = Client.roundtrip, 0

    def counted(self: Client, commands: list[Any]) -> list[Any]:
        nonlocal trips
        trips += 1
        return plain(self, commands)

    browser.get(path)
    Client.roundtrip = counted  # type: ignore[method-assign]
    try:
        with CaptureQueriesContext(connection) as queries:
            answer = browser.get(path)
        asked = len(queries)
    finally:
        Client.roundtrip = plain  # type: ignore[method-assign]
    assert answer.status_code == 200, (path, answer.status_code)

    def computed() -> float:
        return cpu_ms(queue.drive(queue.client.command("INFO", "cpu"))) + time.process_time() * 1000

    wall, cpu = [], []
    for _ in range(5):
        began, before = time.perf_counter(), computed()
        browser.get(path)
        cpu.append(computed() - before)
        wall.append((time.perf_counter() - began) * 1000)
    return Cost(statistics.median(wall), statistics.median(cpu), trips, asked, len(answer.content))


def pages(queue: Any, big: Any) -> dict[str, str]:
    """Every page, by what the table calls it."""
    home = "/admin/django_echomq/queue/"
    here = f"{home}q/{queue.name}/"
    found = {
        "queues": home,
        "status.json": f"{home}status.json",
        "schedules": f"{home}schedules/",
        "workers": f"{home}workers/",
        "activity": f"{home}activity/",
        "queue, hour": here,
        "queue, day": f"{here}?span=day",
        "queue, month": f"{here}?span=month",
        "lanes": f"{here}lanes/",
        "failures": f"{here}failures/",
    }
    for state in ("pending", "active", "scheduled", "dead", "completed"):
        found[f"jobs, {state}"] = f"{here}jobs/?state={state}"
    found["jobs, far down"] = f"{here}jobs/?from=500000"
    found["jobs, of a lane"] = f"{here}jobs/?lane=customer-0007"
    found["jobs, a search that finds"] = f"{here}jobs/?state=dead&q=smtp"
    found["jobs, a search in vain"] = f"{here}jobs/?state=dead&q=nowhere"
    if big:
        found["job"] = f"{here}job/{big.pending[len(big.pending) // 2]}/"
        found["job, dead"] = f"{here}job/{big.dead[1000]}/"
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pending", type=int, default=1_000_000)
    parser.add_argument("--dead", type=int, default=200_000)
    parser.add_argument("--lanes", type=int, default=500)
    options = parser.parse_args()
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory(prefix="echomq-", ignore_cleanup_errors=True) as name:
        os.environ["ECHOMQ_TEST_DB"] = f"{name}/db.sqlite3"
        os.environ["ECHOMQ_TEST_VALKEY"] = f"{name}/valkey"
        os.environ["DJANGO_SETTINGS_MODULE"] = "tests.settings"
        import django
        from django.core.management import call_command

        django.setup()
        call_command("migrate", verbosity=0)
        sys.exit(run(options))


def run(options: argparse.Namespace) -> int:
    from big_queue import fill
    from django.contrib.auth.models import User
    from django.test import Client as Browser

    from django_echomq.queues import get_client, get_queue

    get_client().retry_for = 30
    queue = get_queue()
    browser = Browser()
    browser.force_login(User.objects.create_superuser("root"))
    empty = {page: cost(queue, browser, path) for page, path in pages(queue, None).items()}

    big = fill(queue, options.pending, options.dead, options.lanes)
    for n in range(20):
        queue.repeat.register(f"s{n}", payload=b'{"task":"a.b"}', cron=f"{n} 3 * * 1-5")
    for claim in queue.jobs.claim(200):
        queue.jobs.complete(claim, b"1")
    queue.jobs.claim(200, lease=3600)
    server = queue.drive(queue.client.command("INFO", "server"))
    version = server.partition(b"valkey_version:")[2].split()[0].decode()
    print(f"Python {platform.python_version()}, Valkey {version}, {queue.metrics.counts()}")
    print(
        f"{'page':<28}{'wall':>8}{'cpu':>8}{'KiB':>8}{'trips':>7}{'empty':>7}{'queries':>9}{'empty':>7}"
    )
    over = False
    for page, path in pages(queue, big).items():
        full, before = cost(queue, browser, path), empty.get(page)
        over |= full.cpu >= LIMIT
        print(
            f"{page:<28}{full.wall:>8.1f}{full.cpu:>8.1f}{full.size / 1024:>8.0f}"
            f"{full.trips:>7}{before.trips if before else '':>7}"
            f"{full.queries:>9}{before.queries if before else '':>7}"
            f"{'  <-- over' if full.cpu >= LIMIT else ''}"
        )
    return 1 if over else 0


if __name__ == "__main__":
    main()
