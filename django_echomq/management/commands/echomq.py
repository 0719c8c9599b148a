"""``manage.py echomq``: looks at queues and operates them.

Exit codes: 0 done; 1 refused, or what was asked about is not well; 2 wrong arguments.
"""

from __future__ import annotations

import argparse
import json
import re
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...conf import queue_names
from ...queues import get_queue
from ...wire.errors import EchoMQError
from ._serving import chosen_queues, positive

Row = dict[str, Any]


class Command(BaseCommand):
    help = "Looks at queues and workers, and operates them."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)

        def verb(name: str, run: Callable[..., None], what: str) -> argparse.ArgumentParser:
            added: argparse.ArgumentParser = verbs.add_parser(name, help=what, description=what)
            added.set_defaults(run=run)
            added.add_argument("--json", action="store_true", help="print JSON")
            return added

        status = verb("status", self.status, "Shows how many jobs each queue has, and its workers.")
        status.add_argument("queues", nargs="*", metavar="QUEUE")

        workers = verb("workers", self.workers, "Lists the workers of the queues.")
        workers.add_argument("queues", nargs="*", metavar="QUEUE")

        worker = verb(
            "worker",
            self.worker,
            "Tells a worker to be quiet (claim nothing more), to resume, or to stop. It hears of "
            "it within a second, wherever it runs.",
        )
        worker.add_argument("what", choices=("quiet", "resume", "stop"))
        worker.add_argument("name", metavar="NAME", help="of a worker, or of a supervisor")

        ping = verb(
            "ping",
            self.ping,
            "Asks each server, or looks at a worker's health file. Ends with 1 where one is away, "
            "fenced for another version, or the file is old.",
        )
        ping.add_argument("queues", nargs="*", metavar="QUEUE")
        ping.add_argument("--health-file", type=Path, metavar="PATH", help="of a worker")
        ping.add_argument(
            "--max-age",
            type=positive(float),
            default=15.0,
            metavar="SECONDS",
            help="how old the health file may be (15)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        try:
            options["run"](**options)
        except EchoMQError as error:
            raise CommandError(str(error)) from error

    def status(self, *, queues: Sequence[str], **options: Any) -> None:
        rows = []
        for queue in chosen_queues(queues):
            row: Row = {"queue": queue.name, **queue.metrics.counts()}
            row["workers"] = len(queue.workers.all())
            row["paused"] = queue.admin.is_paused()
            rows.append(row)
        self.show(rows, options["json"])

    def workers(self, *, queues: Sequence[str], **options: Any) -> None:
        found: dict[str, Row] = {}
        for queue in chosen_queues(queues):
            for info in queue.workers.all():
                row = found.setdefault(
                    info.name, {**asdict(info), "queues": ",".join(info.queues), "in_hand": 0}
                )
                row["in_hand"] += info.in_hand
        rows = [
            {
                name: value.isoformat(timespec="seconds") if isinstance(value, datetime) else value
                for name, value in row.items()
            }
            for row in found.values()
        ]
        self.show(rows, options["json"], "no workers")

    def worker(self, *, what: str, name: str, **options: Any) -> None:
        told: dict[str, list[str]] = {}
        for queue in map(get_queue, queue_names()):
            tell = {
                "quiet": queue.workers.quiet,
                "resume": queue.workers.resume,
                "stop": queue.workers.stop,
            }[what]
            for info in queue.workers.all():
                # A supervisor's name stands for its processes.
                meant = re.fullmatch(rf"{re.escape(name)}(-\d+)?", info.name)
                if meant and tell(info.name):
                    told.setdefault(info.name, []).append(queue.name)
        if not told:
            raise CommandError(f"There is no worker {name!r}; see echomq workers.")
        self.show(
            [
                {"worker": each, "told": what, "queues": ",".join(queues)}
                for each, queues in told.items()
            ],
            options["json"],
        )

    def ping(
        self, *, queues: Sequence[str], health_file: Path | None, max_age: float, **options: Any
    ) -> None:
        if health_file is not None:
            self.look_at(health_file, max_age, options["json"])
            return
        rows = []
        for client in dict.fromkeys(queue.client for queue in chosen_queues(queues)):
            started = time.perf_counter()
            client.drive(client.command("PING"))
            ms = (time.perf_counter() - started) * 1000
            rows.append({"server": client.endpoint.label, "answers": True, "ms": round(ms, 1)})
        self.show(rows, options["json"])

    def look_at(self, path: Path, max_age: float, as_json: bool) -> None:
        try:
            beat = json.loads(path.read_text())
            age = time.time() - float(beat["at"])
        except (OSError, ValueError, TypeError, KeyError) as error:
            raise CommandError(f"The health file {path} cannot be read: {error}.") from error
        if age > max_age:
            raise CommandError(
                f"Worker {beat.get('worker')!r} beat last {age:.0f} s ago, over {max_age:g} s: its "
                "loop does not turn, or its server is away."
            )
        when = datetime.fromtimestamp(beat["at"], UTC).isoformat(timespec="seconds")
        self.show([{"worker": beat.get("worker"), "beat_at": when}], as_json)

    def show(self, rows: Sequence[Row], as_json: bool, nothing: str = "nothing") -> None:
        """Prints rows as JSON, or as a table with aligned columns."""
        if as_json:
            self.stdout.write(json.dumps(list(rows), indent=2))
            return
        if not rows:
            self.stdout.write(nothing)
            return
        names = list(rows[0])
        table = [names, *([_cell(row[name]) for name in names] for row in rows)]
        widths = [max(len(line[i]) for line in table) for i in range(len(names))]
        for line in table:
            cells = (cell.ljust(width) for cell, width in zip(line, widths, strict=True))
            self.stdout.write("  ".join(cells).rstrip())


def _cell(value: Any) -> str:
    if isinstance(value, bool):
        return "yes" if value else "no"
    return "" if value is None else str(value)
