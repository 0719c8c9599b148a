"""The operator plane: the whole queue at once.

A bulk verb is a loop of calls that each look at a bounded number of jobs, so none holds the server
for long. It takes what was there when it began. Where it is interrupted the queue is as sound as
before, and running it again finishes the work.
"""

from __future__ import annotations

from collections.abc import Callable, Generator
from functools import partial
from typing import TYPE_CHECKING

from ..wire.client import Argument
from ..wire.errors import ActiveJobs, NotPaused
from ..wire.ids import min_for
from .clock import Duration, duration_ms
from .limits import Rate, check_limit, shares

if TYPE_CHECKING:
    from .queue import Queue

Progress = Callable[[int, int], object]
#: A verb over many jobs of one queue of the server: notes when it begins, yields how many jobs it
#: expects to meet, is sent whom to tell of its steps and how many jobs to take at most, and ends
#: with how many it took.
Bulk = Generator[int, tuple[Progress | None, int | None], int]

_STEP = 50  # jobs that one call looks at: some milliseconds of the server's time
_PLACES = 500  # sets that one call is told of
_ENDED = {"dead": "dead", "completed": "outcomes", "cancelled": "outcomes"}
_WAITING = ("pending", "scheduled")
_THERE = ("pending", "active", "scheduled", "dead")


class Admin:
    """Verbs over a whole queue."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def pause(self) -> bool:
        """Stops claiming; jobs in hand finish. Answers whether the queue was running."""
        return any(self._queue.run_all("admin/pause"))

    def resume(self) -> bool:
        """Starts claiming again. Answers whether the queue was paused."""
        return any(self._queue.run_all("admin/resume"))

    def limit_concurrency(self, most: int | None) -> None:
        """Bounds how many jobs of the queue are in hand at once, over all workers.

        Jobs in hand stay. The limit holds until it is changed here, or ``CONCURRENCY`` is changed
        in the settings and a worker starts.

        Args:
            most: 1 to 1,000,000; ``None`` for no limit.

        Raises:
            TypeError, ValueError: it is none of these, or less than one for each partition.
        """
        parts = self._queue.parts
        if most is None:
            self._queue.run_all("admin/limit_concurrency", "")
            return
        check_limit(most, "the concurrency")
        for part, share in zip(parts, shares(most, len(parts)), strict=True):
            part.run("admin/limit_concurrency", share)

    def limit_rate(self, rate: Rate | str | int | None) -> None:
        """Bounds how many jobs of the queue start within a window, over all workers.

        The window slides: no stretch of its length sees more starts than the rate. A job that is
        given back, or whose claim never reached its worker, has started all the same. The limit
        holds as that of :meth:`limit_concurrency` does.

        Args:
            rate: ``"100/s"``, ``"5000/m"``, ``"10/h"``, ``"1000/d"``, or a number per second;
                ``None`` for no limit.

        Raises:
            TypeError, ValueError: it is none of these, more than 100,000 in a window, or less than
                one for each partition.
        """
        parts = self._queue.parts
        if rate is None:
            self._queue.run_all("admin/limit_rate", "", "")
            return
        read = Rate.read(rate)
        for part, share in zip(parts, shares(read.count, len(parts)), strict=True):
            part.run("admin/limit_rate", share, read.period_ms)

    def configure(self) -> list[str]:
        """Applies the limits and weights of the queue's options.

        Each is applied only where the options say something else than when they were last applied,
        so what was set at run time stays until then.

        Returns:
            What changed: ``concurrency``, ``rate``, ``limit:<lane>``, ``weight:<lane>``.
        """
        changed = [name for part in self._queue.parts for name in part.admin._configure()]
        return list(dict.fromkeys(changed))

    def _configure(self) -> list[str]:
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

    def is_paused(self) -> bool:
        """Whether claiming is stopped."""
        return all(
            part.drive(part.client.command("HEXISTS", part.keys.meta, "paused"))
            for part in self._queue.parts
        )

    def drain(self, include_scheduled: bool = False, progress: Progress | None = None) -> int:
        """Removes the jobs that wait, in the flat set and every lane.

        Jobs in hand, dead jobs and schedules stay, and so do jobs that are minted after the drain
        began, by the clocks of the hosts that mint.

        Args:
            include_scheduled: remove parked jobs too.
            progress: called with (removed, expected) after each step.

        Returns:
            How many jobs were removed.
        """
        states = _WAITING if include_scheduled else ("pending",)
        return self._everywhere(lambda admin: admin._removing_waiting(states), progress)

    def reprocess_all(self, progress: Progress | None = None) -> int:
        """Brings every dead job back to where it came from, with a fresh budget of attempts.

        Jobs that die while it goes on stay dead, also those that it has brought back.

        Args:
            progress: called with (done, expected) after each step.

        Returns:
            How many jobs came back.
        """
        return self._everywhere(Admin._reprocessing, progress)

    def _reprocessing(self) -> Bulk:
        args = (self._began_ms(),)
        expected = self._queue.metrics.counts("dead")["dead"]
        progress, _ = yield expected
        return self._walk("admin/reprocess_all", args, ["dead"], expected, progress)

    def promote_all(self, progress: Progress | None = None) -> int:
        """Makes every scheduled job claimable at once, retries that wait for their time too.

        Jobs that are enqueued or claimed while it goes on wait for their time.

        Args:
            progress: called with (done, expected) after each step.

        Returns:
            How many jobs were promoted.
        """
        return self._everywhere(Admin._promoting, progress)

    def _promoting(self) -> Bulk:
        args = (self._began_ms(), self._fresh_id())
        expected = self._queue.metrics.counts("scheduled")["scheduled"]
        progress, _ = yield expected
        return self._walk("admin/promote_all", args, ["schedule"], expected, progress)

    def clean(
        self,
        state: str,
        older_than: Duration,
        limit: int | None = None,
        progress: Progress | None = None,
    ) -> int:
        """Removes the jobs of a state that are older than a time. Jobs in hand are never removed.

        Args:
            state: ``dead completed cancelled``, whose age counts from their end by the server's
                clock, or ``pending scheduled``, whose age counts from the mint time of their id.
            older_than: seconds or a timedelta; 0 for all that is there.
            limit: remove at most so many.
            progress: called with (removed, expected) after each step; what is expected is how many
                jobs of the state there are, old or not.

        Returns:
            How many jobs were removed.

        Raises:
            TypeError, ValueError: nothing was sent.
        """
        if state not in (*_ENDED, *_WAITING):
            raise ValueError(f"clean takes {', '.join((*_ENDED, *_WAITING))}, not {state!r}")
        if limit is not None and (isinstance(limit, bool) or not isinstance(limit, int)):
            raise TypeError(f"a limit is a whole number, not {limit!r}")
        if limit is not None and limit < 1:
            raise ValueError("a limit is at least one job")
        age_ms = duration_ms(older_than, "the age")
        if state in _WAITING:
            return self._everywhere(
                lambda admin: admin._removing_waiting((state,), age_ms), progress, limit
            )
        return self._everywhere(lambda admin: admin._cleaning(state, age_ms), progress, limit)

    def _cleaning(self, state: str, age_ms: int) -> Bulk:
        queue, place = self._queue, _ENDED[state]
        args = (state, self._now_ms() - age_ms + (age_ms == 0))
        expected = int(queue.drive(queue.client.command("ZCARD", queue.keys.base + place.encode())))
        progress, limit = yield expected
        return self._walk("admin/clean", args, [place], expected, progress, limit)

    def drain_places(
        self, places: list[Argument], expected: int, progress: Progress | None = None
    ) -> int:
        """Drains sorted sets of waiting jobs, named below the base; see :meth:`drain`."""
        return self._walk("admin/drain", (self._fresh_id(),), places, expected, progress)

    def obliterate(
        self, force: bool = False, budget: int = 1000, progress: Progress | None = None
    ) -> int:
        """Removes a paused queue with all that belongs to it, its schedules too.

        Args:
            force: take jobs in hand too; their workers' results are refused.
            budget: at most so many jobs per step; it never takes more than 50.
            progress: called with (removed, expected) after each step.

        Returns:
            How many jobs were removed.

        Raises:
            NotPaused: the queue is not paused; nothing is changed.
            ActiveJobs: jobs are in hand and ``force`` is not given; nothing is changed.
        """
        if budget < 1:
            raise ValueError("a step removes at least one job")
        self._refuse_half(force)
        return self._everywhere(lambda admin: admin._obliterating(force, budget), progress)

    def _refuse_half(self, force: bool) -> None:
        """Finds out before the first of several partitions is gone what another would refuse."""
        parts = self._queue.parts
        if len(parts) == 1:
            return
        there = {part: sum(part.metrics.counts(*_THERE).values()) for part in parts}
        running = [part for part in parts if not part.admin.is_paused()]
        # What an obliteration that was interrupted has done is empty, and not paused any more.
        if len(running) == len(parts) or any(there[part] for part in running):
            raise NotPaused(f"queue {self._queue.name!r} is not paused")
        if not force and any(part.metrics.counts("active")["active"] for part in parts):
            raise ActiveJobs(f"queue {self._queue.name!r} still has jobs in hand")
        for part in running:
            part.admin.pause()

    def _obliterating(self, force: bool, budget: int) -> Bulk:
        queue = self._queue
        expected = sum(queue.metrics.counts(*_THERE).values())
        progress, _ = yield expected
        step_size = min(budget, _STEP)
        removed, more = 0, 1
        slot = queue.client.take_slot()
        try:
            while more:
                step, more = queue.run("admin/obliterate", *slot.next(), step_size, int(force), "")
                removed += int(step)
                if progress:
                    progress(removed, max(removed, expected))
            queue.run("admin/obliterate", *slot.next(), step_size, int(force), "end")
        finally:
            queue.client.give_slot(slot)
        return removed

    def _everywhere(
        self,
        verb: Callable[[Admin], Bulk],
        progress: Progress | None,
        limit: int | None = None,
    ) -> int:
        """Runs a verb over many jobs on every partition. It begins on all of them before it goes on
        with the first."""
        walks = [verb(part.admin) for part in self._queue.parts]
        expected = sum([next(walk) for walk in walks])
        taken = 0
        for walk in walks:
            tell = progress and partial(_tell, progress, taken, expected)
            try:
                walk.send((tell, None if limit is None else limit - taken))
            except StopIteration as end:
                taken += end.value
        return taken

    def _removing_waiting(self, states: tuple[str, ...], age_ms: int = 0) -> Bulk:
        bound = min_for(self._now_ms() - age_ms) if age_ms else self._fresh_id()
        expected = sum(self._queue.metrics.counts(*states).values())
        progress, limit = yield expected
        removed = 0
        # The schedule first: what is promoted meanwhile is met again where it waits then.
        if "scheduled" in states:
            places: list[Argument] = ["schedule"]
            removed = self._walk("admin/drain", (bound,), places, expected, progress, limit)
        if "pending" in states:
            lanes = self._queue.metrics.depths()
            places = ["pending", *(b"g:%s:pending" % name for name in lanes)]
            removed = self._walk(
                "admin/drain", (bound,), places, expected, progress, limit, removed
            )
        return removed

    def _walk(
        self,
        verb: str,
        args: tuple[Argument, ...],
        places: list[Argument],
        expected: int,
        progress: Progress | None,
        limit: int | None = None,
        taken: int = 0,
    ) -> int:
        """Calls a walk over places again and again, to its end; see ``lua/lib/walk.lua``.

        Args:
            taken: how many jobs walks before this one have taken; the answer counts on from there.
        """
        score, member = b"", b""
        slot = self._queue.client.take_slot()
        try:
            while places and (limit is None or taken < limit):
                most = _STEP if limit is None else min(_STEP, limit - taken)
                head = (*slot.next(), _STEP, score, member, most)
                step, done, score, member = self._queue.run(verb, *head, *args, *places[:_PLACES])
                taken += int(step)
                places = places[int(done) :]
                if progress:
                    progress(taken, max(taken, expected))
        finally:
            self._queue.client.give_slot(slot)
        return taken

    def _fresh_id(self) -> str:
        (fresh,) = self._queue.drive(self._queue.client.mint(1))
        return fresh

    def _began_ms(self) -> int:
        """A time that has passed: what happens from here on is later, in whole milliseconds too."""
        began = self._now_ms()
        while self._now_ms() == began:
            pass
        return began

    def _now_ms(self) -> int:
        seconds, microseconds = self._queue.drive(self._queue.client.command("TIME"))
        return int(seconds) * 1000 + int(microseconds) // 1000


def _tell(progress: Progress, before: int, expected: int, taken: int, _: int) -> None:
    progress(before + taken, max(before + taken, expected))
