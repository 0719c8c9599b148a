"""Figures and events of queues."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from ..commands._serving import positive
from .cli import Cli, shown


class Figures:
    """``metrics`` and ``events``."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        metrics = cli.verb(
            "metrics",
            self.metrics,
            "Shows throughput of late, wait and run times, and the oldest waiting job.",
        )
        metrics.add_argument("queues", nargs="*", metavar="QUEUE")
        metrics.add_argument(
            "--minutes", type=positive(int), default=60, metavar="N", help="look back so far (60)"
        )

        events = cli.verb(
            "events",
            self.events,
            "Follows what happens on a queue, a line for each, until Ctrl-C.",
        )
        events.add_argument("queue", metavar="QUEUE")
        events.add_argument(
            "--limit", type=positive(int), metavar="N", help="end after so many events"
        )
        events.add_argument(
            "--timeout", type=positive(float), metavar="SECONDS", help="end when none came so long"
        )

    def metrics(self, *, queues: Sequence[str], minutes: int, **options: Any) -> None:
        rows = []
        for queue in self._cli.queues(queues):
            points = queue.metrics.throughput(minutes)
            latency = queue.metrics.latency()
            rows.append(
                {
                    "queue": queue.name,
                    "minutes": minutes,
                    "enqueued": sum(point.enqueued for point in points),
                    "completed": sum(point.completed for point in points),
                    "failed": sum(point.failed for point in points),
                    "cancelled": sum(point.cancelled for point in points),
                    "retried": sum(point.retried for point in points),
                    "oldest_wait_s": queue.metrics.oldest(),
                    "wait_p50_s": latency.wait.p50,
                    "wait_p95_s": latency.wait.p95,
                    "wait_p99_s": latency.wait.p99,
                    "run_p50_s": latency.run.p50,
                    "run_p95_s": latency.run.p95,
                    "run_p99_s": latency.run.p99,
                }
            )
        self._cli.rows(rows)

    def events(
        self, *, queue: str, limit: int | None, timeout: float | None, **options: Any
    ) -> None:
        (found,) = self._cli.queues([queue])
        seen = 0
        try:
            with found.events.subscribe(timeout=timeout, gaps=True) as events:
                for event in events:
                    fields = {"event": event.name, "job": event.job_id, **event.extras}
                    if self._cli.json:
                        self._cli.line(json.dumps(fields))
                    else:
                        self._cli.line(" ".join(shown(value) for value in fields.values() if value))
                    self._cli.file.flush()
                    seen += 1
                    if seen == limit:
                        return
        except KeyboardInterrupt:
            return
