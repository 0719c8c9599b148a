"""The operator plane: the whole queue at once."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from ..wire.client import Argument
from ..wire.ids import min_for
from .limits import Rate, check_limit

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

    def limit_concurrency(self, most: int | None) -> None:
        """Bounds how many jobs of the queue are in hand at once, over all workers.

        Jobs in hand stay. The limit holds until it is changed here, or ``CONCURRENCY`` is changed
        in the settings and a worker starts.

        Args:
            most: 1 to 1,000,000; ``None`` for no limit.
        """
        self._queue.run(
            "admin/limit_concurrency", "" if most is None else check_limit(most, "the concurrency")
        )

    def limit_rate(self, rate: Rate | str | int | None) -> None:
        """Bounds how many jobs of the queue start within a window, over all workers.

        The window slides: no stretch of its length sees more starts than the rate. A job that is
        given back, or whose claim never reached its worker, has started all the same. The limit
        holds as that of :meth:`limit_concurrency` does.

        Args:
            rate: ``"100/s"``, ``"5000/m"``, ``"10/h"``, ``"1000/d"``, or a number per second;
                ``None`` for no limit.

        Raises:
            TypeError, ValueError: it is none of these, or more than 100,000 in a window.
        """
        if rate is None:
            self._queue.run("admin/limit_rate", "", "")
        else:
            read = Rate.read(rate)
            self._queue.run("admin/limit_rate", read.count, read.period_ms)

    def configure(self) -> list[str]:
        """Applies the limits and weights of the queue's options.

        Each is applied only where the options say something else than when they were last applied,
        so what was set at run time stays until then.

        Returns:
            What changed: ``concurrency``, ``rate``, ``limit:<lane>``, ``weight:<lane>``.
        """
        options = self._queue.options
        wanted: list[Argument] = []
        if options.concurrency is not None:
            wanted += "concurrency", options.concurrency
        if options.rate_limit is not None:
            wanted += "rate", f"{options.rate_limit.count}/{options.rate_limit.period_ms}"
        for lane, how in options.lanes.items():
            if how.limit is not None:
                wanted += f"limit:{lane}", how.limit
            if how.weight is not None:
                wanted += f"weight:{lane}", how.weight
        changed = self._queue.run("admin/configure", *wanted)
        return [name.decode("utf-8", "backslashreplace") for name in changed]

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
        bound = self.drain_bound()
        counts = queue.metrics.counts()
        expected = counts["pending"] + (counts["scheduled"] if include_scheduled else 0)
        removed, more = 0, 1
        while more:
            step, more = queue.run("admin/drain", _STEP, bound, int(include_scheduled))
            removed += int(step)
            if progress:
                progress(removed, max(removed, expected))
        return removed

    def drain_bound(self) -> str:
        """The smallest id that a drain which begins now leaves."""
        seconds, _ = self._queue.drive(self._queue.client.command("TIME"))
        # The next second's ids; a job enqueued in this one may go with the rest.
        return min_for((int(seconds) + 1) * 1000)

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
