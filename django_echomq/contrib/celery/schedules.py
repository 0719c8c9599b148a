"""``celery.schedules``: what a beat schedule in the settings is written with."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from datetime import timedelta

Cronspec = str | int | Iterable[int]


def cronfield(value: Cronspec) -> str:
    """A field as a cron line has it."""
    if isinstance(value, (str, int)):
        return str(value).replace(" ", "")
    return ",".join(map(str, sorted(value)))


class crontab:  # noqa: N801 - Celery's name
    """A cron line, by its fields. It is only read by ``manage.py echomq_convert_celery``."""

    def __init__(
        self,
        minute: Cronspec = "*",
        hour: Cronspec = "*",
        day_of_week: Cronspec = "*",
        day_of_month: Cronspec = "*",
        month_of_year: Cronspec = "*",
    ) -> None:
        self._orig_minute = cronfield(minute)
        self._orig_hour = cronfield(hour)
        self._orig_day_of_week = cronfield(day_of_week)
        self._orig_day_of_month = cronfield(day_of_month)
        self._orig_month_of_year = cronfield(month_of_year)


@dataclass
class schedule:  # noqa: N801 - Celery's name
    """An interval."""

    run_every: float | timedelta
