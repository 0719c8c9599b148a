"""The operator plane: the whole queue at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..wire.ids import min_for

if TYPE_CHECKING:
    from .queue import Queue


_STEP = 1_000  # jobs that one step of a drain looks at


class Admin:
    """Verbs over a whole queue."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def pause(self) -> bool:
        """Stops claiming; jobs in hand finish. Answers whether the queue was running."""
        return bool(self._queue.run("admin/pause"))

    def resume(self) -> bool:
        """Starts claiming again. Answers whether the queue was paused."""
        return bool(self._queue.run("admin/resume"))

    def drain(
        self,
        include_scheduled: bool = False,
        progress: Callable[[int, int], object] | None = None,
    ) -> int:
        """Removes the jobs that wait, in the flat set and every lane.

        Jobs in hand, dead jobs and schedules stay, and so do jobs that are minted after the drain
        began. Each step is bounded; a drain that is interrupted may be run again.

        Args:
            include_scheduled: remove parked jobs too.
            progress: called with (removed, expected) after each step.

        Returns:
            How many jobs were removed.
        """
        queue = self._queue
        seconds, _ = queue.drive(queue.client.command("TIME"))
        # The next second's ids; a job enqueued in this one may go with the rest.
        bound = min_for((int(seconds) + 1) * 1000)
        counts = queue.metrics.counts()
        expected = counts["pending"] + (counts["scheduled"] if include_scheduled else 0)
        removed, more = 0, 1
        while more:
            step, more = queue.run("admin/drain", _STEP, bound, int(include_scheduled))
            removed += int(step)
            if progress:
                progress(removed, max(removed, expected))
        return removed

    def obliterate(
        self,
        force: bool = False,
        budget: int = 1000,
        progress: Callable[[int, int], object] | None = None,
    ) -> int:
        """Removes a paused queue with all that belongs to it, its schedules too.

        Args:
            force: take jobs in hand too; their workers' results are refused.
            budget: at most so many jobs per step.
            progress: called with (removed, expected) after each step.

        Returns:
            How many jobs were removed.

        Raises:
            NotPaused: the queue is not paused; nothing is changed.
            ActiveJobs: jobs are in hand and ``force`` is not given; nothing is changed.
        """
        if budget < 1:
            raise ValueError("a step removes at least one job")
        counts = self._queue.metrics.counts("pending", "active", "scheduled", "dead")
        expected = sum(counts.values())
        removed, more = 0, 1
        while more:
            step, more = self._queue.run("admin/obliterate", budget, int(force))
            removed += int(step)
            if progress:
                progress(removed, max(removed, expected))
        return removed

    def is_paused(self) -> bool:
        """Whether claiming is stopped."""
        queue = self._queue
        return bool(queue.drive(queue.client.command("HEXISTS", queue.keys.meta, "paused")))
