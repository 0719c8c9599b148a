"""Schedules: what runs on a cadence."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from django.core.management.base import CommandError

from ...queue import Queue
from .cli import Cli


class Schedules:
    """``schedules`` and ``schedule``."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        schedules = cli.verb("schedules", self.schedules, "Lists the schedules of the queues.")
        schedules.add_argument("queues", nargs="*", metavar="QUEUE")

        schedule = cli.verb(
            "schedule",
            self.schedule,
            "Pauses or resumes a schedule, runs it once now, or ends it. One that comes from the "
            "settings is registered again when a worker starts.",
            asks=True,
        )
        schedule.add_argument("what", choices=("pause", "resume", "run", "cancel"))
        schedule.add_argument("name", metavar="NAME")
        schedule.add_argument("--queue", help="look in this queue only")

    def schedules(self, *, queues: Sequence[str], **options: Any) -> None:
        rows = []
        for queue in self._cli.queues(queues):
            for found in queue.repeat.all():
                definition = found.definition
                every = definition.every_ms
                rows.append(
                    {
                        "name": found.name,
                        "queue": queue.name,
                        "cadence": definition.cron or f"every {(every or 0) / 1000:g} s",
                        "tz": definition.tz if definition.cron else None,
                        "next_run": found.next_run,
                        "paused": found.paused is not None,
                        "fired": found.fired,
                        "last_at": found.last_at,
                        "source": definition.source,
                    }
                )
        self._cli.rows(rows, "no schedules")

    def schedule(self, *, what: str, name: str, queue: str | None, **options: Any) -> None:
        found = self._holder(name, queue)
        if what == "cancel":
            self._cli.confirm(f"End schedule {name} of queue {found.name}?")
            found.repeat.cancel(name)
        elif what == "pause":
            found.repeat.pause(name)
        elif what == "resume":
            found.repeat.resume(name)
        row = {"schedule": name, "queue": found.name, "done": what}
        if what == "run":
            row["job"] = found.repeat.run_now(name).job_id
        self._cli.rows([row])

    def _holder(self, name: str, queue: str | None) -> Queue:
        queues = self._cli.queues([queue] if queue else [])
        for found in queues:
            if found.repeat.get(name):
                return found
        where = ", ".join(found.name for found in queues)
        raise CommandError(f"There is no schedule {name!r} in {where}.")
