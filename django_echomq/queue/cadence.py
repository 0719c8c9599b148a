"""Cadences: pure functions from an instant to the next tick.

Cron lines follow Debian's cron over a change of clocks. A line with a fixed minute and hour whose
time falls into the gap runs once, at the first instant after the gap, and in the repeated hour runs
once, the first time. A line with ``*`` in its hour, and an interval, runs every real hour.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from datetime import UTC, datetime
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
        if len(self.line.split()) != 5:
            raise ValueError(
                f"{self.line!r} is no cron line: it has five fields, "
                "minute hour day-of-month month day-of-week"
            )
        try:
            CronSim(self.line, datetime(2000, 1, 1, tzinfo=UTC))
        except CronSimError as error:
            raise ValueError(f"{self.line!r} is no cron line: {error}") from None
        if self.next_ms(1_700_000_000_000) is None:
            raise ValueError(f"the cron line {self.line!r} never comes true")

    def next_ms(self, after_ms: int) -> int | None:
        try:
            local = datetime.fromtimestamp(after_ms / 1000, UTC).astimezone(self.zone)
            for tick in CronSim(self.line, local):
                # In the repeated hour a fixed time comes out as its first instant, which may be
                # past already.
                ms = round(tick.timestamp() * 1000)
                if ms > after_ms:
                    return ms if ms < END_OF_TIME_MS else None
        except OverflowError:
            pass
        return None

    def latest_ms(self, after_ms: int, until_ms: int, most: int) -> list[int]:
        # Looks back over a span that widens until it holds enough, so that an outage of a year
        # costs no more than one of a day.
        span = 3_600_000
        while True:
            start = max(after_ms, until_ms - span)
            ticks: deque[int] = deque(maxlen=most)
            tick = self.next_ms(start)
            while tick is not None and tick <= until_ms:
                ticks.append(tick)
                tick = self.next_ms(tick)
            if start == after_ms or len(ticks) == most:
                return list(ticks)
            span *= 8


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
