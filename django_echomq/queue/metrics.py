"""Reading a queue."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import TYPE_CHECKING

from ..wire.errors import RateLimited
from ..wire.keys import check_unique
from .limits import Rate

if TYPE_CHECKING:
    from .queue import Look, Queue

STATES = ("pending", "active", "scheduled", "dead", "completed", "failed")
#: The longest looks back: minutes of a day, hours of a month, hours of histograms.
MAX_MINUTES, MAX_HOURS, MAX_LATENCY_HOURS = 1_440, 744, 48
#: The last bucket of times, which has no end.
LAST_BUCKET = 59

#: By kind, ``w`` waiting and ``r`` running: how many times fell into a bucket.
Histograms = dict[bytes, Counter[int]]

_MINUTE_MS, _HOUR_MS = 60_000, 3_600_000
# See lua/lib/stats.lua: the kind of key, the ms of a slot, slots in a key, keys read in one call.
_KEPT = {"minute": ("m", _MINUTE_MS, 60, 6), "hour": ("h", _HOUR_MS, 24, 16)}
_LATENCIES_AT_ONCE = 16


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
class Totals:
    """What happened to jobs since the queue began: figures that only grow.

    Attributes:
        completed, failed, cancelled, retried, enqueued: as of :class:`Throughput`.
        waits, runs: how many times of :class:`Latency` fell into each bucket, by the bucket's end
            in seconds. What nobody read the totals of for two days, the older hours do not count.
    """

    completed: int
    failed: int
    cancelled: int
    retried: int
    enqueued: int
    waits: dict[float, int]
    runs: dict[float, int]


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
        depths: of the pending, those in each lane where some wait.
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
    depths: dict[str, int]
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
    """Figures of a queue."""

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
        if states and "pending" not in states:
            _, found, _, _ = self._queue.run("metrics/counts", "")
            counts = _counts(found, {})
        else:
            counts = self._queue.look(self._counts_look())
        return {state: counts[state] for state in states or STATES}

    def depths(self) -> dict[bytes, int]:
        """How many jobs wait, by the name of the lane as it stands in the keys; empty lanes are
        left out.
        """
        return self._queue.look(self.depths_look())[1]

    def _counts_look(self) -> Look[dict[str, int]]:
        return _counts(*(yield from self.depths_look()))

    def depths_look(self) -> Look[tuple[list[int], dict[bytes, int]]]:
        flat: list[int] | None = None
        depths: dict[bytes, int] = {}
        place = b""
        while flat is None or place:
            place, found, names, many = yield self._queue.call("metrics/counts", place)
            flat = flat or found
            depths.update(zip(names, many, strict=True))
        return flat, {name: depth for name, depth in depths.items() if depth}

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
            look = self.throughput_look("hour", _within(hours, MAX_HOURS, "hours", 1))
        else:
            wanted = 60 if minutes is None else minutes
            look = self.throughput_look("minute", _within(wanted, MAX_MINUTES, "minutes", 1))
        return self._queue.look(look)

    def throughput_look(self, unit: str, n: int) -> Look[list[Throughput]]:
        """The steps of :meth:`throughput`: ``minute`` or ``hour``, and how many of them."""
        kind, _, per_key, at_once = _KEPT[unit]
        keys = (n + per_key - 2) // per_key + 1
        now, kept = yield from self._history(kind, keys, at_once)
        return _points(unit, n, now, kept)

    def _history(
        self, kind: str, keys: int, at_once: int
    ) -> Look[tuple[int, dict[int, list[bytes]]]]:
        """What was counted: the server's now, and the fields of each key by its number."""
        if keys > at_once:
            keys += 1  # the running key may change between the calls
        now, kept = 0, dict[int, list[bytes]]()
        for first in range(0, keys, at_once):
            reply = yield self._queue.call(
                "metrics/history", kind, first, min(at_once, keys - first)
            )
            now = now or int(reply[0])
            kept |= {int(reply[1]) - n: flat for n, flat in enumerate(reply[2])}
        return now, kept

    def latency(self, hours: int = 1) -> Latency:
        """How long jobs waited and ran.

        Args:
            hours: look at the running clock hour and at so many before it, 0 to 48.
        """
        return self._queue.look(self.latency_look(hours))

    def latency_look(self, hours: int) -> Look[Latency]:
        """The steps of :meth:`latency`."""
        return _latency((yield from self.histograms_look(hours)))

    def histograms_look(self, hours: int) -> Look[Histograms]:
        """What :meth:`latency` is told from: how many times fell into each bucket."""
        keys = _within(hours, MAX_LATENCY_HOURS, "hours", 0) + 1
        now, kept = yield from self._history("l", keys, _LATENCIES_AT_ONCE)
        sums: Histograms = {b"w": Counter(), b"r": Counter()}
        for number, flat in kept.items():
            if number > now // _HOUR_MS - keys:
                for field, value in zip(flat[::2], flat[1::2], strict=True):
                    if (found := _BUCKET.fullmatch(field)) and (n := _whole(value)) > 0:
                        sums[found[1]][int(found[2])] += n
        return sums

    def totals(self) -> Totals:
        """What happened to jobs since the queue began."""
        return self._queue.look(self.totals_look())

    def totals_look(self) -> Look[Totals]:
        """The steps of :meth:`totals`."""
        flat = yield self._queue.call("metrics/totals")
        completed, failed, cancelled, pairs = flat
        fields = dict(zip(pairs[::2], pairs[1::2], strict=True))
        times: dict[bytes, dict[float, int]] = {b"w": {}, b"r": {}}
        for field, n in fields.items():
            if found := _BUCKET.fullmatch(field):
                times[found[1]][_bucket_end(int(found[2]))] = _whole(n)
        return Totals(
            completed=int(completed),
            failed=int(failed),
            cancelled=int(cancelled),
            retried=_whole(fields.get(b"r")),
            enqueued=_whole(fields.get(b"e")),
            waits=dict(sorted(times[b"w"].items())),
            runs=dict(sorted(times[b"r"].items())),
        )

    def oldest(self) -> float | None:
        """Seconds since when the job that waits longest could have been claimed; ``None`` where
        none waits.

        Looked up at the heads of the flat set, for the 20 lowest priorities in use, and of each
        lane, for the 3 lowest; with more than 20 lanes for the highest only. Of jobs that came back
        to waiting, 20 per head are looked at, fewer where there are many heads; one that waits
        behind more of them may be missed.
        """
        return self._queue.look(self._oldest_look())

    def _oldest_look(self) -> Look[float | None]:
        longest, place = -1, None
        while place != b"":
            place, ms = yield self._queue.call("metrics/oldest", place or b"")
            longest = max(longest, ms)
        return None if longest < 0 else longest / 1000

    def overview(self) -> Overview:
        """All that says at one look how the queue is.

        One step for the server with up to 32 lanes, a step for each so many with more.
        """
        return self._queue.look(self.overview_look())

    def overview_look(self) -> Look[Overview]:
        """The steps of :meth:`overview`."""
        place, names, many, longest, *first = yield self._queue.call("metrics/overview", b"")
        depths = dict(zip(names, many, strict=True))
        while place:
            place, names, many, ms = yield self._queue.call("metrics/overview", place)
            depths.update(zip(names, many, strict=True))
            longest = max(longest, ms)
        flat, paused, concurrency, starts, period, full, workers, now, hour, kept = first
        return Overview(
            counts=_counts(flat, depths),
            paused=bool(paused),
            concurrency=int(concurrency) or None,
            rate=Rate(int(starts), int(period)) if starts else None,
            limited=bool(full),
            oldest=None if longest < 0 else longest / 1000,
            workers=int(workers),
            flat=int(flat[0]),
            depths={
                name.decode("utf-8", "backslashreplace"): depth
                for name, depth in depths.items()
                if depth
            },
            throughput=_points(
                "minute", 60, int(now), {int(hour) - n: fields for n, fields in enumerate(kept)}
            ),
        )


def _bucket_end(bucket: int) -> float:
    """In seconds; see ``lua/lib/stats.lua``."""
    return float(2 ** ((bucket + 1) / 2) / 1000) if bucket < LAST_BUCKET else math.inf


_BUCKET = re.compile(rb"([wr])(\d\d?)")


def _counts(flat: Sequence[int], depths: Mapping[bytes, int]) -> dict[str, int]:
    counts = dict(zip(STATES, map(int, flat), strict=True))
    counts["pending"] += sum(depths.values())
    return counts


def _latency(sums: Histograms) -> Latency:
    """What :meth:`Metrics.latency` answers."""
    waits, runs = (
        percentiles([x for pair in of_kind.items() for x in pair]) for of_kind in sums.values()
    )
    return Latency(waits, runs)


def _points(unit: str, n: int, now: int, kept: Mapping[int, list[bytes]]) -> list[Throughput]:
    _, step, per_key, _ = _KEPT[unit]
    fields = {key: dict(zip(flat[::2], flat[1::2], strict=True)) for key, flat in kept.items()}
    points = []
    for slot in range(now // step - n + 1, now // step + 1):
        values = fields.get(slot // per_key, {})
        figures = [_whole(values.get(b"%d%c" % (slot % per_key, letter))) for letter in b"cfxre"]
        points.append(Throughput(datetime.fromtimestamp(slot * step / 1000, UTC), *figures))
    return points


def _whole(value: bytes | None) -> int:
    """A number that was counted; what a foreign hand wrote there is none."""
    if value is None or not re.fullmatch(rb"-?\d{1,16}", value):
        return 0
    return int(value)


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
