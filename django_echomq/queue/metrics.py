"""Reading a queue."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

from ..wire.client import Call
from ..wire.errors import RateLimited
from ..wire.keys import check_unique
from .limits import Rate

if TYPE_CHECKING:
    from .queue import Queue

STATES = ("pending", "active", "scheduled", "dead", "completed", "failed")
#: The longest looks back: minutes of a day, hours of a month, hours of histograms.
MAX_MINUTES, MAX_HOURS, MAX_LATENCY_HOURS = 1_440, 744, 48


@dataclass(frozen=True, slots=True)
class Throughput:
    """What happened to jobs within one minute or one hour of the server's clock.

    Attributes:
        at: its beginning; the running one is not over yet.
        completed: jobs that completed.
        failed: jobs that went to the dead set.
        cancelled: jobs that ended as cancelled.
        retried: attempts that failed and are tried again.
        enqueued: jobs admitted, scheduled ones and those that a schedule fired included.
    """

    at: datetime
    completed: int
    failed: int
    cancelled: int
    retried: int
    enqueued: int


@dataclass(frozen=True, slots=True)
class Percentiles:
    """A distribution of times, in seconds.

    The times were counted in buckets, each up to 1.41 times as long as the one before; a percentile
    lies in its true bucket and is interpolated within it. ``None`` where nothing was counted.
    """

    count: int
    p50: float | None
    p95: float | None
    p99: float | None


@dataclass(frozen=True, slots=True)
class Latency:
    """How long jobs waited for a claim, and how long attempts were in hand.

    Attributes:
        wait: from when a job could be claimed to its claim.
        run: from the claim to the end of an attempt, whether completed, failed or cancelled. What
            a worker gave back or delayed does not count.
    """

    wait: Percentiles
    run: Percentiles


@dataclass(frozen=True, slots=True)
class Overview:
    """How a queue is, at one look.

    Attributes:
        counts: as :meth:`Metrics.counts` tells them.
        paused: claiming is stopped.
        concurrency, rate: its limits; ``None`` for none.
        limited: one of them forbids a claim now.
        oldest: seconds of the longest wait; ``None`` where none waits.
        workers: how many serve it.
        flat: of the pending, those in no lane.
        throughput: the last 60 minutes.
    """

    counts: dict[str, int]
    paused: bool
    concurrency: int | None
    rate: Rate | None
    limited: bool
    oldest: float | None
    workers: int
    flat: int
    throughput: list[Throughput]

    @property
    def state(self) -> str:
        """``paused``, ``limited`` or ``running``."""
        return "paused" if self.paused else "limited" if self.limited else "running"

    @property
    def failed_last_hour(self) -> int:
        """Jobs that went to the dead set within the last 60 minutes."""
        return sum(point.failed for point in self.throughput)


class Metrics:
    """Figures of a queue, read in one script each."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def counts(self, *states: str) -> dict[str, int]:
        """Jobs per state.

        Args:
            states: any of ``pending`` (every lane included) ``active scheduled dead``, the jobs
                that are there, and ``completed failed``, the jobs that ended so since the queue
                began; all of them where none is named.

        Raises:
            ValueError: for another word; nothing is sent.
        """
        unknown = sorted(set(states) - set(STATES))
        if unknown:
            raise ValueError(f"unknown state {unknown[0]!r}: use {', '.join(STATES)}")
        counts = dict(zip(STATES, map(int, self._queue.run("metrics/counts")), strict=True))
        return {state: counts[state] for state in states or STATES}

    def is_maxed(self) -> bool:
        """Whether a limit of the queue forbids starting a job now: its concurrency, or its rate.

        A look: claiming heeds the limits by itself.
        """
        try:
            self._queue.run("metrics/is_maxed")
        except RateLimited:
            return True
        return False

    def unique_holder(self, key: str) -> str | None:
        """The id of the job that a unique key names; ``None`` where the key is free.

        A job that a crash of the server lost is still named; it keeps nobody from the key.

        Raises:
            InvalidName: nothing was sent.
        """
        queue = self._queue
        name = queue.keys.base + b"de:" + check_unique(key).encode()
        holder = queue.drive(queue.client.command("GET", name))
        return None if holder is None else holder.decode("ascii", "backslashreplace")

    def throughput(
        self, minutes: int | None = None, *, hours: int | None = None
    ) -> list[Throughput]:
        """What happened to jobs, oldest first; the running minute or hour comes last.

        Args:
            minutes: per minute, 1 to 1,440 of them; 60 where neither is given.
            hours: instead, per hour, 1 to 744 of them.
        """
        if hours is not None and minutes is not None:
            raise TypeError("give either minutes or hours")
        if hours is not None:
            call = self.throughput_call("hour", _within(hours, MAX_HOURS, "hours", 1))
        else:
            wanted = 60 if minutes is None else minutes
            call = self.throughput_call("minute", _within(wanted, MAX_MINUTES, "minutes", 1))
        return self.read_throughput(self._run(call), "minute" if hours is None else "hour")

    def throughput_call(self, unit: str, n: int) -> Call:
        """The call of :meth:`throughput`: ``minute`` or ``hour``, and how many of them."""
        return self._queue.call("metrics/throughput", unit, n)

    def read_throughput(self, reply: Any, unit: str) -> list[Throughput]:
        """Reads the reply of :meth:`throughput_call` of the same unit."""
        first, flat = reply
        step = timedelta(hours=1) if unit == "hour" else timedelta(minutes=1)
        return _points(int(first), step, flat)

    def latency(self, hours: int = 1) -> Latency:
        """How long jobs waited and ran.

        Args:
            hours: look at the running clock hour and at so many before it, 0 to 48.
        """
        return self.read_latency(self._run(self.latency_call(hours)))

    def latency_call(self, hours: int) -> Call:
        """The call of :meth:`latency`."""
        hours = _within(hours, MAX_LATENCY_HOURS, "hours", 0)
        return self._queue.call("metrics/latency", hours)

    def read_latency(self, reply: Any) -> Latency:
        """Reads the reply of :meth:`latency_call`."""
        waits, runs = reply
        return Latency(percentiles(waits), percentiles(runs))

    def oldest(self) -> float | None:
        """Seconds since when the job that waits longest could have been claimed; ``None`` where
        none waits.

        Looked up at the heads of the flat set, for the 20 lowest priorities in use, and of each
        lane, for the 3 lowest; with more than 20 lanes for the highest only, of the 50 whose turn
        is next. Of jobs that came back to waiting, 20 per head are looked at, fewer where there are
        more than 25 lanes; one that waits behind more of them may be missed.
        """
        ms = int(self._queue.run("metrics/oldest"))
        return None if ms < 0 else ms / 1000

    def overview(self) -> Overview:
        """All that says at one look how the queue is."""
        return self.read_overview(self._run(self.overview_call()))

    def overview_call(self) -> Call:
        """The call of :meth:`overview`."""
        return self._queue.call("metrics/overview")

    def read_overview(self, reply: Any) -> Overview:
        """Reads the reply of :meth:`overview_call`."""
        counts, paused, concurrency, starts, period, full, oldest, workers, flat, first, points = (
            reply
        )
        return Overview(
            counts=dict(zip(STATES, map(int, counts), strict=True)),
            paused=bool(paused),
            concurrency=int(concurrency) or None,
            rate=Rate(int(starts), int(period)) if starts else None,
            limited=bool(full),
            oldest=None if oldest < 0 else oldest / 1000,
            workers=int(workers),
            flat=int(flat),
            throughput=_points(int(first), timedelta(minutes=1), points),
        )

    def _run(self, call: Call) -> Any:
        return self._queue.drive(self._queue.client.run(call))


def _points(first_ms: int, step: timedelta, flat: Sequence[int]) -> list[Throughput]:
    start = datetime.fromtimestamp(first_ms / 1000, UTC)
    return [
        Throughput(start + i * step, *map(int, flat[5 * i : 5 * i + 5]))
        for i in range(len(flat) // 5)
    ]


def _within(value: int, most: int, what: str, least: int) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or not least <= value <= most:
        raise ValueError(f"{what} is a whole number from {least} to {most:,}, not {value!r}")
    return value


def percentiles(flat: Sequence[int]) -> Percentiles:
    """Percentiles of a histogram, buckets (see ``lua/lib/stats.lua``) and numbers, flat.

    >>> percentiles([6, 1])  # one time of 8 ms to below 11.3 ms
    Percentiles(count=1, p50=0.009656854249492381, p95=0.011147819...
    """
    buckets = sorted(zip(map(int, flat[::2]), map(int, flat[1::2]), strict=True))
    total = sum(n for _, n in buckets)

    def at(share: float) -> float | None:
        below = 0
        for bucket, n in buckets:
            if below + n >= share * total:
                start = 2 ** (bucket / 2) if bucket else 0.0
                end = 2 ** ((bucket + 1) / 2)
                return (start + (end - start) * (share * total - below) / n) / 1000
            below += n
        return None

    return Percentiles(total, at(0.50), at(0.95), at(0.99))
