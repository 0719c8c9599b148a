"""Durations and instants: whole milliseconds, and what is refused."""

from __future__ import annotations

import doctest
import math
from datetime import UTC, datetime, timedelta, timezone
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_echomq.queue import clock
from django_echomq.queue.clock import END_OF_TIME_MS, duration_ms, instant_ms

zones = st.integers(-14 * 60, 14 * 60).map(lambda m: timezone(timedelta(minutes=m)))


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (0, 0),
        (0.0, 0),
        (-0.0, 0),
        (1, 1_000),
        (0.25, 250),
        (0.0004, 0),
        (0.0006, 1),
        (5e-324, 0),
        (timedelta(), 0),
        (timedelta(seconds=1.5), 1_500),
        (timedelta(microseconds=600), 1),
        (timedelta(days=365), 31_536_000_000),
        (10**9, 10**12),
    ],
)
def test_a_duration_is_whole_ms(value: Any, ms: int) -> None:
    assert duration_ms(value) == ms
    assert type(duration_ms(value)) is int


@given(st.integers(0, END_OF_TIME_MS - 1))
def test_a_timedelta_of_whole_ms_is_exact(ms: int) -> None:
    assert duration_ms(timedelta(milliseconds=ms)) == ms


@given(st.integers(0, END_OF_TIME_MS // 1000 - 1))
def test_whole_seconds_are_exact(seconds: int) -> None:
    assert duration_ms(seconds) == seconds * 1000


@pytest.mark.parametrize(
    "value",
    [
        -1,
        -0.001,
        -5e-324,
        timedelta(microseconds=-1),
        timedelta.max,
        math.nan,
        math.inf,
        -math.inf,
        1e300,
        END_OF_TIME_MS // 1000,
        pytest.param(10**400, id="beyond-a-float"),
    ],
)
def test_a_duration_outside_of_time_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="must be between 0 seconds and 10,000 years"):
        duration_ms(value)


@pytest.mark.parametrize(
    "value", [None, True, "5", b"5", [5], datetime(2026, 1, 1, tzinfo=UTC), 5j, object()]
)
def test_another_type_is_no_duration(value: Any) -> None:
    with pytest.raises(
        TypeError, match=f"the delay is seconds or a timedelta, not {type(value).__name__}"
    ):
        duration_ms(value, "the delay")


@given(st.floats(allow_nan=True, allow_infinity=True) | st.integers() | st.timedeltas())
def test_any_number_is_a_duration_or_refused(value: Any) -> None:
    try:
        ms = duration_ms(value)
    except ValueError:
        return
    assert 0 <= ms <= END_OF_TIME_MS


@pytest.mark.parametrize(
    ("value", "ms"),
    [
        (0, 0),
        (1_769_526_697_641, 1_769_526_697_641),
        (END_OF_TIME_MS - 1, END_OF_TIME_MS - 1),
        (datetime(1970, 1, 1, tzinfo=UTC), 0),
        (datetime(2026, 1, 27, 15, 11, 37, 641_000, tzinfo=UTC), 1_769_526_697_641),
        (
            datetime(2026, 1, 27, 17, 11, 37, 641_000, timezone(timedelta(hours=2))),
            1_769_526_697_641,
        ),
        (datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC), END_OF_TIME_MS - 1_000),
    ],
)
def test_an_instant_is_unix_ms(value: Any, ms: int) -> None:
    assert instant_ms(value) == ms
    assert type(instant_ms(value)) is int


@given(st.integers(0, END_OF_TIME_MS - 86_400_000), zones)
def test_the_time_zone_does_not_matter(ms: int, zone: timezone) -> None:
    utc = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=ms)
    assert instant_ms(utc.astimezone(zone)) == instant_ms(utc) == ms


@pytest.mark.parametrize("value", [datetime(2026, 1, 1), datetime.min, datetime.max])  # noqa: DTZ001, DTZ901
def test_a_naive_datetime_is_refused(value: datetime) -> None:
    with pytest.raises(ValueError, match=r"must be an aware datetime; .* has no time zone"):
        instant_ms(value)


@pytest.mark.parametrize(
    "value",
    [
        -1,
        END_OF_TIME_MS,
        pytest.param(10**400, id="beyond-a-float"),
        datetime(1969, 12, 31, 23, 59, 59, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=UTC),
        datetime(1, 1, 1, tzinfo=timezone(timedelta(hours=14))),
        datetime(9999, 12, 31, 23, 59, tzinfo=timezone(-timedelta(hours=12))),
    ],
)
def test_an_instant_outside_of_time_is_refused(value: Any) -> None:
    with pytest.raises(ValueError, match="must lie between 1970 and the year 10,000"):
        instant_ms(value)


@pytest.mark.parametrize("value", [None, True, 1.5, math.nan, "2026-01-01", timedelta(1), object()])
def test_another_type_is_no_instant(value: Any) -> None:
    with pytest.raises(
        TypeError, match=f"when is an aware datetime or Unix ms, not {type(value).__name__}"
    ):
        instant_ms(value, "when")


def test_the_end_of_time_is_the_year_ten_thousand() -> None:
    last = datetime(9999, 12, 31, 23, 59, 59, tzinfo=UTC)
    assert round(last.timestamp() * 1000) + 1_000 == END_OF_TIME_MS


def test_the_examples_of_the_module_hold() -> None:
    assert doctest.testmod(clock).failed == 0
