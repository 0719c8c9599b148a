"""The whole queue."""

from __future__ import annotations

import time
from collections.abc import Sequence
from datetime import timedelta
from typing import Any

from django.core.management.base import CommandError

from ...queues import left_behind
from ..commands._serving import positive
from .cli import Cli, Row, duration, table


class Queues:
    """``status``, ``pause``, ``resume``, ``drain``, ``clean`` and ``obliterate``."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        status = cli.verb(
            "status", self.status, "Shows how many jobs each queue has, and its workers."
        )
        status.add_argument("queues", nargs="*", metavar="QUEUE")
        status.add_argument(
            "--watch",
            nargs="?",
            type=positive(float),
            const=2.0,
            metavar="SECONDS",
            help="look again every so many seconds (2), until Ctrl-C",
        )
        pause = cli.verb("pause", self.pause, "Stops claiming; jobs in hand finish.")
        pause.add_argument("queues", nargs="+", metavar="QUEUE")
        resume = cli.verb("resume", self.resume, "Starts claiming again.")
        resume.add_argument("queues", nargs="+", metavar="QUEUE")
        limit = cli.verb(
            "limit", self.limit, "Bounds how many jobs run at once, or how many start in a while."
        )
        limit.add_argument("queue", metavar="QUEUE")
        limit.add_argument("--concurrency", metavar="N", help="jobs in hand at once; none lifts it")
        limit.add_argument("--rate", metavar="RATE", help="such as 100/s or 5000/m; none lifts it")
        drain = cli.verb(
            "drain", self.drain, "Removes the jobs that wait, in every lane.", asks=True
        )
        drain.add_argument("queue", metavar="QUEUE")
        drain.add_argument("--scheduled", action="store_true", help="those parked for later too")
        clean = cli.verb(
            "clean", self.clean, "Removes jobs of one state that are older than a while.", asks=True
        )
        clean.add_argument("queue", metavar="QUEUE")
        clean.add_argument(
            "state", choices=("pending", "scheduled", "dead", "completed", "cancelled")
        )
        clean.add_argument(
            "--older-than", type=duration, required=True, metavar="AGE", help="such as 12h or 7d"
        )
        obliterate = cli.verb(
            "obliterate",
            self.obliterate,
            "Removes a paused queue with all that belongs to it, its schedules too.",
            asks=True,
        )
        obliterate.add_argument("queue", metavar="QUEUE")
        obliterate.add_argument("--force", action="store_true", help="take jobs in hand too")

    def status(self, *, queues: Sequence[str], watch: float | None, **options: Any) -> None:
        if watch is None:
            self._cli.rows(self._status(queues))
            for queue in self._cli.queues(queues):
                for place, jobs in left_behind(queue.name).items():
                    self._cli.warn(
                        f"{jobs:,} job(s) of queue {queue.name} are left in {place}, which "
                        "PARTITIONS do not name any more: set them back until they are done."
                    )
            return
        if self._cli.json:
            raise CommandError("--watch draws a table: leave out --json.")
        from rich.console import Console
        from rich.live import Live

        console = Console(file=self._cli.file)
        try:
            with Live(table(self._status(queues)), console=console, auto_refresh=False) as live:
                while True:
                    time.sleep(watch)
                    live.update(table(self._status(queues)), refresh=True)
        except KeyboardInterrupt:
            return

    def _status(self, names: Sequence[str]) -> list[Row]:
        rows: list[Row] = []
        for queue in self._cli.queues(names):
            row: dict[str, Any] = {"queue": queue.name, **queue.metrics.counts()}
            row["workers"] = len(queue.workers.all())
            row["paused"] = queue.admin.is_paused()
            rows.append(row)
        return rows

    def pause(self, *, queues: Sequence[str], **options: Any) -> None:
        rows = []
        for queue in self._cli.queues(queues):
            changed = queue.admin.pause()
            rows.append({"queue": queue.name, "paused": True, "changed": changed})
        self._cli.rows(rows)

    def resume(self, *, queues: Sequence[str], **options: Any) -> None:
        rows = []
        for queue in self._cli.queues(queues):
            changed = queue.admin.resume()
            rows.append({"queue": queue.name, "paused": False, "changed": changed})
        self._cli.rows(rows)

    def limit(
        self, *, queue: str, concurrency: str | None, rate: str | None, **options: Any
    ) -> None:
        (found,) = self._cli.queues([queue])
        if concurrency is None and rate is None:
            raise CommandError("Say which limit: --concurrency or --rate.")
        try:
            if concurrency is not None:
                most = None if concurrency == "none" else int(concurrency)
                found.admin.limit_concurrency(most)
            if rate is not None:
                found.admin.limit_rate(None if rate == "none" else rate)
        except ValueError as error:
            raise CommandError(f"{error}.") from error
        row = {"queue": queue, "concurrency": concurrency, "rate": rate}
        self._cli.rows([{name: value for name, value in row.items() if value is not None}])

    def drain(self, *, queue: str, scheduled: bool, **options: Any) -> None:
        (found,) = self._cli.queues([queue])
        counts = found.metrics.counts("pending", "scheduled")
        many = counts["pending"] + (counts["scheduled"] if scheduled else 0)
        self._cli.confirm(f"Remove {many:,} waiting job(s) of queue {queue}?")
        with self._cli.progress("draining") as progress:
            removed = found.admin.drain(include_scheduled=scheduled, progress=progress)
        self._cli.rows([{"queue": queue, "removed": removed}])

    def clean(self, *, queue: str, state: str, older_than: timedelta, **options: Any) -> None:
        (found,) = self._cli.queues([queue])
        self._cli.confirm(f"Remove the {state} jobs of queue {queue} older than {older_than}?")
        with self._cli.progress("cleaning") as progress:
            removed = found.admin.clean(state, older_than, progress=progress)
        self._cli.rows([{"queue": queue, "removed": removed}])

    def obliterate(self, *, queue: str, force: bool, **options: Any) -> None:
        (found,) = self._cli.queues([queue])
        counts = found.metrics.counts("pending", "scheduled", "active", "dead")
        self._cli.confirm_name(
            f"Obliterate queue {queue} with {sum(counts.values()):,} job(s), its schedules, "
            "records and figures?",
            queue,
        )
        with self._cli.progress("obliterating") as progress:
            removed = found.admin.obliterate(force=force, progress=progress)
        self._cli.rows([{"queue": queue, "removed": removed}])
