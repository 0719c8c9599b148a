"""Cadences: pure functions from an instant to the next tick.

Cron lines follow Debian's cron over a change of clocks. A line whose minute and hour begin with no
star names fixed times: one in the gap runs once, at the first instant after it, one in the repeated
hour once, the first time. Any other line runs whenever the clock shows its time, so that ``*`` for
the hour runs every real hour. An interval does not look at the clock.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Protocol
from zoneinfo import ZoneInfo

from cronsim import CronSim, CronSimError

from .clock import END_OF_TIME_MS

#: With ``catch_up="all"``, the most ticks that are made up for after an outage.
CATCH_UP_LIMIT = 100


class Cadence(Protocol):
    """A rhythm."""

    def next_ms(self, after_ms: int) -> int | None:
        """The first tick after an instant, in Unix ms; ``None`` where there is none any more."""
        ...

    def latest_ms(self, after_ms: int, until_ms: int, most: int) -> list[int]:
        """The latest ``most`` ticks after ``after_ms`` and not after ``until_ms``, ascending."""
        ...


@dataclass(frozen=True, slots=True)
class Every:
    """Ticks at ``origin_ms`` and every ``every_ms`` from there, in both directions.

    >>> Every(1000, origin_ms=300).next_ms(1300)
    2300
    """

    every_ms: int
    origin_ms: int = 0

    def __post_init__(self) -> None:
        if not 1 <= self.every_ms < END_OF_TIME_MS:
            raise ValueError(f"an interval lasts at least a millisecond, not {self.every_ms} ms")

    def next_ms(self, after_ms: int) -> int | None:
        steps = (after_ms - self.origin_ms) // self.every_ms + 1
        tick = self.origin_ms + steps * self.every_ms
        return tick if tick < END_OF_TIME_MS else None

    def latest_ms(self, after_ms: int, until_ms: int, most: int) -> list[int]:
        last = self.origin_ms + (until_ms - self.origin_ms) // self.every_ms * self.every_ms
        ticks = (last - back * self.every_ms for back in range(most))
        return [tick for tick in ticks if tick > after_ms][::-1]


@dataclass(frozen=True, slots=True)
class Cron:
    """Ticks of a cron line of five fields in a time zone.

    Raises:
        ValueError: the line is no cron line, or never comes true.

    >>> tick = Cron("30 2 * * *", ZoneInfo("Europe/Berlin")).next_ms(1774738800000)
    >>> datetime.fromtimestamp(tick / 1000, UTC).isoformat()  # 03:00 in Berlin, after the gap
    '2026-03-29T01:00:00+00:00'
    """

    line: str
    zone: ZoneInfo

    def __post_init__(self) -> None:
        if not isinstance(self.line, str):
            raise TypeError(f"a cron line is text, not {type(self.line).__name__}")
        if not self.line.isascii() or len(self.line.split()) != 5:
            raise ValueError(
                f"{self.line!r} is no cron line: it has five fields, "
                "minute hour day-of-month month day-of-week"
            )
        try:
            CronSim(self.line, datetime(2000, 1, 1, tzinfo=UTC))
        except (CronSimError, ValueError) as error:
            raise ValueError(f"{self.line!r} is no cron line: {error}") from None
        if self.next_ms(1_700_000_000_000) is None:
            raise ValueError(f"the cron line {self.line!r} never comes true")

    @property
    def _by_the_clock(self) -> bool:
        """Whether it runs each time that the clock shows a time of the line."""
        minute, hour = self.line.split()[:2]
        return minute.startswith("*") or hour.startswith("*")

    def next_ms(self, after_ms: int) -> int | None:
        try:
            local = datetime.fromtimestamp(after_ms / 1000, UTC).astimezone(self.zone)
            if not self._by_the_clock:
                return self._first(CronSim(self.line, local), after_ms)
            wall = local.replace(tzinfo=None)
            found = [self._first(self._shown(wall), after_ms)]
            again = _offset(local) - _offset(local.replace(fold=1))
            if again > timedelta():
                # The first pass through a repeated hour: times that are past come once more.
                found.append(self._first(self._shown(wall - again), after_ms))
            return min((ms for ms in found if ms is not None), default=None)
        except (OverflowError, ValueError):
            return None  # the end of time

    def _shown(self, wall: datetime) -> Iterator[datetime]:
        """When the clock shows the line's times: never in a gap, twice in a repeated hour."""
        for tick in CronSim(self.line, wall):
            for fold in (0, 1):
                instant = tick.replace(tzinfo=self.zone, fold=fold).astimezone(UTC)
                local = instant.astimezone(self.zone)
                if local.replace(tzinfo=None, fold=0) == tick and local.fold == fold:
                    yield instant

    def _first(self, ticks: Iterator[datetime], after_ms: int) -> int | None:
        # In the repeated hour a fixed time comes out as its first instant, which may be past
        # already.
        for tick in ticks:
            ms = round(tick.timestamp() * 1000)
            if ms > after_ms:
                return ms if ms < END_OF_TIME_MS else None
        return None

    def latest_ms(self, after_ms: int, until_ms: int, most: int) -> list[int]:
        # Looks back over a span that widens until it holds enough, and from there closes in on a
        # start that has enough ahead and little more. No step walks over more than a few times
        # `most` ticks, however many an outage has missed.
        if most < 1:
            return []
        span = 3_600_000
        while span < until_ms - after_ms:
            if len(self._ticks(until_ms - span, until_ms, most)) == most:
                break
            span *= 8
        low, high = max(after_ms, until_ms - span), until_ms
        while len(ticks := self._ticks(low, until_ms, 2 * most + 1)) > 2 * most:
            middle = (low + high) // 2
            if len(self._ticks(middle, until_ms, most)) == most:
                low = middle
            else:
                high = middle
        return ticks[-most:]

    def _ticks(self, after_ms: int, until_ms: int, most: int) -> list[int]:
        """The first ticks of a span, at most so many."""
        ticks: list[int] = []
        tick = self.next_ms(after_ms)
        while tick is not None and tick <= until_ms and len(ticks) < most:
            ticks.append(tick)
            tick = self.next_ms(tick)
        return ticks


def _offset(local: datetime) -> timedelta:
    offset = local.utcoffset()
    assert offset is not None
    return offset


def zone(name: str) -> ZoneInfo:
    """The time zone of that name.

    Raises:
        ValueError: there is none.
    """
    try:
        return ZoneInfo(name)
    except (LookupError, ValueError, OSError):
        raise ValueError(
            f"there is no time zone {name!r}; names are like 'Europe/Berlin' or 'UTC'"
        ) from None
