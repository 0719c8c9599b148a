"""Fair lanes: their settings, their backlog, and moving jobs between them."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ..wire.client import Argument
from ..wire.errors import JobGone, WrongState
from ..wire.ids import check
from ..wire.keys import check_lane
from .limits import check_limit
from .values import Lane, Reassignment

if TYPE_CHECKING:
    from .queue import Look, Queue


class Lanes:
    """The verbs of lanes.

    A lane comes into being with its first job or its first setting; without either nothing is left
    of it. Settings outlive an empty lane. Each verb raises ``InvalidName`` for what cannot name a
    lane; nothing is sent then.
    """

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def pause(self, lane: str) -> bool:
        """Stops claiming from a lane; its jobs in hand finish. Answers whether it was running."""
        return bool(self._run("lanes/pause", lane))

    def resume(self, lane: str) -> bool:
        """Starts claiming from a lane again. Answers whether it was paused."""
        return bool(self._run("lanes/resume", lane))

    def limit(self, lane: str, most: int | None) -> None:
        """Bounds how many jobs of a lane are in hand at once, over all workers.

        Args:
            most: 1 to 1,000,000; ``None`` for no limit. Jobs in hand stay.
        """
        self._set("lanes/limit", lane, most, "a lane's limit")

    def weight(self, lane: str, jobs: int | None) -> None:
        """Sets how many jobs a lane gives in one turn, and so its share beside the others.

        Args:
            jobs: 1 to 1,000,000; ``None`` for one.
        """
        self._set("lanes/weight", lane, jobs, "a lane's weight")

    def _set(self, script: str, lane: str, value: int | None, what: str) -> None:
        number = "" if value is None else check_limit(value, what)
        self._run(script, lane, number)

    def _run(self, script: str, lane: str, *args: Argument) -> Any:
        """Runs a transition where the lane is."""
        return self._queue.part_for(check_lane(lane)).run(script, lane, *args)

    def depth(self, lane: str) -> int:
        """How many jobs wait in a lane."""
        return int(self._run("lanes/depth", lane))

    def depths(self) -> dict[str, int]:
        """How many jobs wait, by lane; empty lanes are left out."""
        return {lane.name: lane.depth for lane in self.all() if lane.depth}

    def all(self) -> list[Lane]:
        """Every lane that has jobs, jobs in hand or settings, by name.

        Up to 60 are read in one step for the server, more of them page by page: a lane that is
        there throughout is told, as it stood when its page was read.
        """
        return self._queue.look(self.look())

    def look(self) -> Look[list[Lane]]:
        """The steps of :meth:`all`."""
        lanes: dict[bytes, Lane] = {}
        for part in self._queue.parts:
            for name, lane in (yield from part.lanes._look()).items():
                # Where the number of partitions was changed, there is one more part of it.
                lanes[name] = lanes[name].beside(lane) if name in lanes else lane
        return [lanes[name] for name in sorted(lanes)]

    def _look(self) -> Look[dict[bytes, Lane]]:
        lanes: dict[bytes, Lane] = {}
        place = b""
        while True:
            place, names, depths, in_ring, paused, *flat = yield self._queue.call(
                "lanes/all", place
            )
            stopped = set(paused)
            active, limits, weights = (dict(zip(f[::2], f[1::2], strict=True)) for f in flat)
            for name, depth, turns in zip(names, depths, in_ring, strict=True):
                lanes[name] = Lane(
                    name.decode("utf-8", "backslashreplace"),
                    depth,
                    _number(active.get(name)) or 0,
                    _number(limits.get(name)),
                    max(1, _number(weights.get(name)) or 1),
                    name in stopped,
                    bool(turns) or (name in lanes and lanes[name].in_ring),
                )
            if not place:
                return lanes

    def drain(self, lane: str, progress: Callable[[int, int], object] | None = None) -> int:
        """Removes the jobs that wait in a lane.

        Its jobs in hand, parked jobs and settings stay, and so do jobs that are minted after the
        drain began. Each step is bounded; a drain that is interrupted may be run again.

        Args:
            progress: called with (removed, expected) after each step.

        Returns:
            How many jobs were removed.
        """
        place = f"g:{check_lane(lane)}:pending"
        admin = self._queue.part_for(lane).admin
        return admin.drain_places([place], self.depth(lane), progress)

    def reassign(self, job_id: str, lane: str | None) -> Reassignment:
        """Moves a job that waits or is in hand to another lane; one in hand counts there.

        Args:
            lane: ``None`` for the flat set.

        Returns:
            ``moved``, or ``noop`` where the job is there.

        Raises:
            JobGone: there is no such job.
            WrongState: it is parked, dead or a flow's parent, or the lane is in another partition
                than the job.
        """
        to = "" if lane is None else check_lane(lane)
        part = self._queue.part_of(check(job_id))
        if lane is not None and self._queue.part_for(lane) is not part:
            raise WrongState(
                f"job {job_id} and lane {lane!r} are in different partitions of queue "
                f"{self._queue.name!r}: remove the job and enqueue another"
            )
        word = part.run("lanes/reassign", job_id, to)
        if word == b"gone":
            raise JobGone(f"there is no job {job_id} in queue {self._queue.name!r}")
        return Reassignment(word.decode())

    def reap(self, lane: str, limit: int = 100) -> int:
        """Returns up to ``limit`` jobs of one lane whose lease lapsed; answers how many."""
        options = self._queue.options
        return int(
            self._queue.part_for(check_lane(lane)).run(
                "lanes/reap",
                limit,
                lane,
                options.keep_completed_ms,
                options.keep_completed_max,
            )
        )


def _number(value: bytes | None) -> int | None:
    """What a foreign hand wrote may be anything."""
    try:
        return None if value is None else int(value)
    except ValueError:
        return None
