"""Limits of a queue and its lanes, as values."""

from __future__ import annotations

import re
from dataclasses import dataclass

#: Most starts that a window of a rate holds: the server keeps the time of each.
MAX_STARTS = 100_000
#: Highest limit or weight.
MAX_LIMIT = 1_000_000

_UNITS = {"s": 1_000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}
_RATE = re.compile(r"([0-9]{1,18})\s*/\s*([smhd])", re.ASCII)


@dataclass(frozen=True, slots=True)
class Rate:
    """At most so many starts within any window of a length.

    Attributes:
        count: 1 to 100,000.
        period_ms: the window.

    >>> Rate.read("100/s")
    Rate(count=100, period_ms=1000)
    """

    count: int
    period_ms: int

    def __str__(self) -> str:
        for unit, ms in _UNITS.items():
            if ms == self.period_ms:
                return f"{self.count}/{unit}"
        return f"{self.count}/{self.period_ms} ms"

    @classmethod
    def read(cls, value: object) -> Rate:
        """Reads ``"100/s"``, ``"5000/m"``, ``"10/h"``, ``"1000/d"``, or a number per second.

        Raises:
            TypeError, ValueError: it is none of these, or a window holds more than 100,000 starts.
        """
        if isinstance(value, Rate):
            return value
        if isinstance(value, int) and not isinstance(value, bool):
            count, unit = value, "s"
        elif isinstance(value, str):
            match = _RATE.fullmatch(value.strip())
            if not match:
                raise ValueError("a rate is written '100/s', '5000/m', '10/h' or '1000/d'")
            count, unit = int(match[1]), match[2]
        else:
            raise TypeError("a rate is text such as '100/s', or a whole number per second")
        if count < 1:
            raise ValueError("a rate lets at least one job start")
        if count > MAX_STARTS:
            per_second = max(1, count * 1_000 // _UNITS[unit])
            hint = f": use a shorter unit, such as '{per_second}/s'" if unit != "s" else ""
            raise ValueError(f"a window holds at most {MAX_STARTS:,} starts{hint}")
        return cls(count, _UNITS[unit])


@dataclass(frozen=True, slots=True)
class LaneOptions:
    """How a lane is served.

    Attributes:
        weight: jobs that it gives in one turn; ``None`` for one.
        limit: jobs of it in hand at once, over all workers; ``None`` for no limit.
    """

    weight: int | None = None
    limit: int | None = None


def check_limit(value: object, what: str) -> int:
    """The number, unchanged.

    Args:
        what: how the message calls it.

    Raises:
        TypeError, ValueError: unless it is a whole number from 1 to 1,000,000.
    """
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{what} is a whole number, not {value!r}")
    if not 1 <= value <= MAX_LIMIT:
        raise ValueError(f"{what} lies between 1 and {MAX_LIMIT:,}, not {value}")
    return value


def shares(limit: int, parts: int) -> list[int]:
    """A limit divided among the partitions of a queue; their sum is the limit.

    Raises:
        ValueError: it is less than one for each.

    >>> shares(10, 4)
    [3, 3, 2, 2]
    """
    if limit < parts:
        raise ValueError(
            f"{limit} cannot be divided among {parts} partitions: give {parts} or more"
        )
    each, rest = divmod(limit, parts)
    return [each + (n < rest) for n in range(parts)]
