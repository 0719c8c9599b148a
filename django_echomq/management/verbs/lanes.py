"""Lanes of a queue."""

from __future__ import annotations

import argparse
from dataclasses import asdict
from typing import Any

from django.core.management.base import CommandError

from .cli import Cli


def _number(text: str) -> int | None:
    """An argparse type: a whole number from 1, or ``none``."""
    if text == "none":
        return None
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is no whole number from 1, and not 'none'")
    return int(text)


class Lanes:
    """``lanes``, ``lane`` and ``move``."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        lanes = cli.verb("lanes", self.lanes, "Lists the lanes of a queue, the deepest first.")
        lanes.add_argument("queue", metavar="QUEUE")

        lane = cli.verb(
            "lane",
            self.lane,
            "Pauses or resumes a lane, bounds how many of its jobs run at once, weighs it, or "
            "removes the jobs that wait in it.",
            asks=True,
        )
        lane.add_argument("queue", metavar="QUEUE")
        lane.add_argument("name", metavar="LANE")
        lane.add_argument("what", choices=("pause", "resume", "limit", "weight", "drain"))
        lane.add_argument(
            "number", nargs="?", type=_number, default=0, help="of limit and weight; none lifts it"
        )

        move = cli.verb("move", self.move, "Moves a job that waits or is in hand to a lane.")
        move.add_argument("id", metavar="ID")
        move.add_argument("lane", nargs="?", metavar="LANE", help="the flat set unless given")
        move.add_argument("--queue", help="look in this queue only")

    def lanes(self, *, queue: str, **options: Any) -> None:
        (found,) = self._cli.queues([queue])
        lanes = sorted(found.lanes.all(), key=lambda lane: (-lane.depth, lane.name))
        self._cli.rows([asdict(lane) for lane in lanes], "no lanes")

    def lane(self, *, queue: str, name: str, what: str, number: int | None, **options: Any) -> None:
        (found,) = self._cli.queues([queue])
        if (what in ("limit", "weight")) != (number != 0):
            raise CommandError("Give a number, or none, with limit and weight, and only there.")
        row: dict[str, Any] = {"queue": queue, "lane": name, "done": what}
        if what == "pause":
            row["changed"] = found.lanes.pause(name)
        elif what == "resume":
            row["changed"] = found.lanes.resume(name)
        elif what == "limit":
            found.lanes.limit(name, number)
            row["limit"] = number
        elif what == "weight":
            found.lanes.weight(name, number)
            row["weight"] = number
        else:
            depth = found.lanes.depth(name)
            self._cli.confirm(f"Remove {depth:,} waiting job(s) of lane {name} of queue {queue}?")
            with self._cli.progress("draining") as progress:
                row["removed"] = found.lanes.drain(name, progress=progress)
        self._cli.rows([row])

    def move(self, *, id: str, lane: str | None, queue: str | None, **options: Any) -> None:  # noqa: A002 - the argument's name
        found = self._cli.queue_of(id, queue)
        word = found.lanes.reassign(id, lane)
        self._cli.verdicts({id: word.value}, refused=0)
