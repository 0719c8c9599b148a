"""Recovery: jobs whose lease lapsed because their worker is gone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from .queue import Queue


class Lapsed(NamedTuple):
    """A job whose lease lapsed, and whether it was buried."""

    job_id: str
    dead: bool


@dataclass(frozen=True, slots=True)
class Recovered:
    """What a sweep did: how many jobs went back, how many were buried."""

    recovered: int
    dead: int


class Stalled:
    """The sweep over lapsed leases."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def check(self, max_stalled: int | None = None, limit: int = 100) -> Recovered:
        """Returns lapsed jobs to where they came from, and buries those that keep lapsing.

        Args:
            max_stalled: lapses at which a job is buried with the reason ``stalled``; 0 never
                buries; the queue's ``MAX_STALLED`` unless given.
            limit: at most so many jobs.
        """
        options = self._queue.options
        ceiling = options.max_stalled if max_stalled is None else max_stalled
        recovered = dead = 0
        for part in self._queue.parts:
            if (left := limit - recovered - dead) < 1:
                break
            back, buried = part.run(
                "stalled/check",
                left,
                ceiling,
                options.keep_dead_ms,
                options.keep_completed_ms,
                options.keep_completed_max,
            )
            recovered, dead = recovered + int(back), dead + int(buried)
        return Recovered(recovered, dead)

    def is_stalled(self, job_id: str) -> bool:
        """Whether the job was buried because its lease lapsed too often.

        Raises:
            JobGone: there is no such job.
        """
        job = self._queue.jobs.get(job_id)
        return job.state == "dead" and job.last_error == "stalled"
