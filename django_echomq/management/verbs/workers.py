"""Workers and servers: who serves, and whether they are well."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Sequence
from dataclasses import asdict
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from django.core.management.base import CommandError

from ..commands._serving import positive
from .cli import Cli


class Workers:
    """``workers``, ``worker`` and ``ping``."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        workers = cli.verb("workers", self.workers, "Lists the workers of the queues.")
        workers.add_argument("queues", nargs="*", metavar="QUEUE")

        worker = cli.verb(
            "worker",
            self.worker,
            "Tells a worker to be quiet (claim nothing more), to resume, or to stop. It hears of "
            "it within a second, wherever it runs.",
        )
        worker.add_argument("what", choices=("quiet", "resume", "stop"))
        worker.add_argument("name", metavar="NAME", help="of a worker, or of a supervisor")

        ping = cli.verb(
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

    def workers(self, *, queues: Sequence[str], **options: Any) -> None:
        found: dict[str, dict[str, Any]] = {}
        for queue in self._cli.queues(queues):
            for info in queue.workers.all():
                row = found.setdefault(
                    info.name, {**asdict(info), "queues": ",".join(info.queues), "in_hand": 0}
                )
                row["in_hand"] += info.in_hand
        self._cli.rows(list(found.values()), "no workers")

    def worker(self, *, what: str, name: str, **options: Any) -> None:
        told: dict[str, list[str]] = {}
        for queue in self._cli.queues([]):
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
        self._cli.rows(
            [
                {"worker": each, "told": what, "queues": ",".join(queues)}
                for each, queues in told.items()
            ]
        )

    def ping(
        self, *, queues: Sequence[str], health_file: Path | None, max_age: float, **options: Any
    ) -> None:
        if health_file is not None:
            self._look_at(health_file, max_age)
            return
        rows = []
        parts = (part for queue in self._cli.queues(queues) for part in queue.parts)
        for client in dict.fromkeys(part.client for part in parts):
            started = time.perf_counter()
            client.drive(client.command("PING"))
            ms = (time.perf_counter() - started) * 1000
            rows.append({"server": client.endpoint.label, "answers": True, "ms": round(ms, 1)})
        self._cli.rows(rows)

    def _look_at(self, path: Path, max_age: float) -> None:
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
        when = datetime.fromtimestamp(beat["at"], UTC)
        self._cli.rows([{"worker": beat.get("worker"), "beat_at": when}])
