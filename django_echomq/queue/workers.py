"""Who serves a queue, seen and told from outside."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

from ..wire.keys import check_name

if TYPE_CHECKING:
    from .queue import Look, Queue


@dataclass(frozen=True, slots=True)
class WorkerInfo:
    """A worker as its last beat told of it.

    Attributes:
        name: unique among live workers.
        host, pid: where it runs.
        queues: all that it serves.
        threads: handlers that run at once.
        in_hand: jobs of this queue that it holds.
        started_at, beat_at: since when, and when it was last heard of.
        state: ``running``, ``quiet`` or ``stopping``.
        told: ``quiet`` or ``stop`` where somebody told it so; else empty.
        version: of this package.
    """

    name: str
    host: str
    pid: int
    queues: list[str]
    threads: int
    in_hand: int
    started_at: datetime
    beat_at: datetime
    state: str
    told: str
    version: str

    def beside(self, other: WorkerInfo) -> WorkerInfo:
        """What a worker said of two partitions of a queue, as one."""
        latest = max(self, other, key=lambda info: info.beat_at)
        return replace(latest, in_hand=self.in_hand + other.in_hand)


class Workers:
    """The verbs of workers. Each worker beats once a second; one that is gone ends on the list by
    itself, within 15 seconds."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def all(self) -> list[WorkerInfo]:
        """The workers that serve the queue, by name."""
        return self._queue.look(self.look())

    def look(self) -> Look[list[WorkerInfo]]:
        """The steps of :meth:`all`."""
        found: dict[str, WorkerInfo] = {}
        for part in self._queue.parts:
            flat = yield part.call("workers/all")
            for i in range(0, len(flat), 4):
                info = _info(*flat[i : i + 4])
                if info:
                    known = found.get(info.name)
                    found[info.name] = known.beside(info) if known else info
        return [found[name] for name in sorted(found)]

    def quiet(self, name: str) -> bool:
        """Tells a worker to claim nothing more. Answers whether there is such a worker."""
        return self._tell(name, "quiet")

    def resume(self, name: str) -> bool:
        """Tells a quiet worker to go on. Answers whether there is such a worker."""
        return self._tell(name, "")

    def stop(self, name: str) -> bool:
        """Tells a worker to finish what it has in hand and end. Answers whether there is one."""
        return self._tell(name, "stop")

    def _tell(self, name: str, what: str) -> bool:
        check_name(name, "a worker")
        return any(self._queue.run_all("workers/tell", name, what))


def _info(name: bytes, info: bytes, beat: bytes, told: bytes) -> WorkerInfo | None:
    try:
        fields: dict[str, Any] = json.loads(info)
        return WorkerInfo(
            name.decode(),
            str(fields["host"]),
            int(fields["pid"]),
            [str(queue) for queue in fields["queues"]],
            int(fields["threads"]),
            int(fields["in_hand"]),
            datetime.fromtimestamp(fields["started_at"] / 1000, UTC),
            datetime.fromtimestamp(int(beat) / 1000, UTC),
            str(fields["state"]),
            told.decode(),
            str(fields["version"]),
        )
    except (KeyError, TypeError, ValueError, OverflowError, OSError, RecursionError):
        return None
