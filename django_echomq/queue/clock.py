"""Durations and instants as whole milliseconds."""

from __future__ import annotations

from datetime import datetime, timedelta

#: 10,000-01-01T00:00:00Z; later instants are mistakes.
END_OF_TIME_MS = 253_402_300_800_000

Duration = int | float | timedelta
When = datetime | int


def duration_ms(value: Duration, what: str = "a duration") -> int:
    """Milliseconds of a duration.

    Args:
        value: seconds (int or float) or a timedelta, not negative, below 10,000 years.
        what: how the message calls it.

    Raises:
        TypeError: for another type.
        ValueError: for NaN, a negative or an endless duration.
    """
    if isinstance(value, timedelta):
        seconds = value.total_seconds()
    elif isinstance(value, (int, float)) and not isinstance(value, bool):
        seconds = value
    else:
        raise TypeError(f"{what} is seconds or a timedelta, not {type(value).__name__}")
    # Compared first: an int may be too large for a float.
    if not 0 <= seconds < END_OF_TIME_MS / 1000:
        raise ValueError(f"{what} must be between 0 seconds and 10,000 years, not {value!r}")
    return round(seconds * 1000)


def instant_ms(value: When, what: str = "an instant") -> int:
    """Unix milliseconds of an instant.

    Args:
        value: an aware datetime, or Unix milliseconds as an int.
        what: how the message calls it.

    Raises:
        TypeError: for another type.
        ValueError: for a naive datetime, an instant before 1970 or from the year 10,000 on.
    """
    if isinstance(value, datetime):
        if value.utcoffset() is None:
            raise ValueError(f"{what} must be an aware datetime; {value!r} has no time zone")
        ms = round(value.timestamp() * 1000)
    elif isinstance(value, int) and not isinstance(value, bool):
        ms = value
    else:
        raise TypeError(f"{what} is an aware datetime or Unix ms, not {type(value).__name__}")
    if not 0 <= ms < END_OF_TIME_MS:
        raise ValueError(f"{what} must lie between 1970 and the year 10,000, not {value!r}")
    return ms
