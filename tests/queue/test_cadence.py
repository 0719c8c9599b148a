"""Cadences against brute force: every minute is asked whether a line's time has come.

``docs/daylight-saving.md`` is read here too: each row of its tables is computed again.
"""

from __future__ import annotations

import doctest
import itertools
import re
from bisect import bisect_right
from collections.abc import Iterator
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta
from functools import cache
from typing import Any
from zoneinfo import ZoneInfo

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from django_echomq.queue import cadence
from django_echomq.queue.cadence import CATCH_UP_LIMIT, Cadence, Cron, Every, zone
from django_echomq.queue.clock import END_OF_TIME_MS
from tests.conftest import ROOT

MINUTE, HOUR, DAY = 60_000, 3_600_000, 86_400_000
Z = ZoneInfo("UTC")
unhurried = settings(deadline=None)
PAGE = ROOT / "docs" / "daylight-saving.md"


def ms(text: str) -> int:
    """Unix ms of an ISO text; UTC unless it names an offset."""
    instant = datetime.fromisoformat(text)
    return round((instant if instant.tzinfo else instant.replace(tzinfo=UTC)).timestamp() * 1000)


def local(instant: int, tz: ZoneInfo) -> datetime:
    return datetime.fromtimestamp(instant / 1000, UTC).astimezone(tz)


def wall(instant: int, tz: ZoneInfo) -> datetime:
    """What the clock on the wall shows at an instant."""
    return local(instant, tz).replace(tzinfo=None, fold=0)


def runs(rhythm: Cadence, after: int, until: int) -> list[int]:
    """The ticks after one instant and up to another, one call each."""
    found = []
    tick = rhythm.next_ms(after)
    while tick is not None and tick <= until:
        assert tick > after
        found.append(tick)
        after, tick = tick, rhythm.next_ms(tick)
    return found


# A grammar of lines whose meaning is known without reading them.


@dataclass(frozen=True)
class Line:
    text: str
    minutes: frozenset[int]
    hours: frozenset[int]
    days: frozenset[int]
    months: frozenset[int]
    weekdays: frozenset[int]

    def day(self, day: date) -> bool:
        _, _, days, _, weekdays = self.text.split()
        of_month, of_week = day.day in self.days, day.isoweekday() % 7 in self.weekdays
        starred = days.startswith("*") or weekdays.startswith("*")
        return day.month in self.months and (
            of_month and of_week if starred else of_month or of_week
        )

    def shows(self, time: datetime) -> bool:
        return time.minute in self.minutes and time.hour in self.hours and self.day(time.date())

    @property
    def fixed(self) -> bool:
        minute, hour, *_ = self.text.split()
        return not minute.startswith("*") and not hour.startswith("*")

    @property
    def possible(self) -> bool:
        # A day of the year 2000 that is named by number; days of the week come round anyhow.
        leap_year = (date(2000, 1, 1) + timedelta(days=n) for n in range(366))
        _, _, days, _, weekdays = self.text.split()
        if not (days.startswith("*") or weekdays.startswith("*")):
            return True
        return any(day.day in self.days and day.month in self.months for day in leap_year)


Part = tuple[str, frozenset[int]]


def parts(low: int, high: int, names: tuple[str, ...] = ()) -> st.SearchStrategy[Part]:
    """Texts of one field, each with the numbers it stands for."""
    value = st.integers(low, high)
    step = st.integers(1, high + 5)

    def one(n: int) -> Part:
        return str(n), frozenset([n])

    def span(ends: tuple[int, int]) -> Part:
        first, last = sorted(ends)
        return f"{first}-{last}", frozenset(range(first, last + 1))

    def stepped(span: Part, step: int) -> Part:
        return f"{span[0]}/{step}", frozenset(sorted(span[1])[::step])

    def onward(first: int, step: int) -> Part:
        return f"{first}/{step}", frozenset(range(first, high + 1, step))

    spans = st.tuples(value, value).filter(lambda ends: ends[0] != ends[1]).map(span)
    items = [value.map(one), spans, st.builds(stepped, spans, step), st.builds(onward, value, step)]
    if names:
        named = st.integers(0, len(names) - 1)
        items += [
            named.map(lambda n: (names[n], frozenset([n + low]))),
            st.tuples(named, named)
            .map(sorted)
            .map(
                lambda ends: (
                    f"{names[ends[0]].lower()}-{names[ends[1]]}",
                    frozenset(range(ends[0] + low, ends[1] + low + 1)),
                )
            ),
        ]
    item = st.one_of(items)
    several = st.lists(item, min_size=2, max_size=4).map(
        lambda some: (",".join(t for t, _ in some), frozenset().union(*(v for _, v in some)))
    )
    whole = ("*", frozenset(range(low, high + 1)))
    return st.one_of(
        st.just(whole), st.builds(stepped, st.just(whole), step), item, several
    )  # shrinks toward "*"


def of_week(part: Part) -> Part:
    return part[0], frozenset(n % 7 for n in part[1])  # 7 is Sunday, as 0 is


MONTHS = ("JAN", "FEB", "MAR", "APR", "MAY", "JUN", "JUL", "AUG", "SEP", "OCT", "NOV", "DEC")
WEEK = ("SUN", "MON", "TUE", "WED", "THU", "FRI", "SAT")
EVERY_DAY = st.just(("*", frozenset(range(32))))


def lines(days: Any, months: Any, weekdays: Any) -> st.SearchStrategy[Line]:
    def build(*fields: Part) -> Line:
        return Line(" ".join(text for text, _ in fields), *(values for _, values in fields))

    return st.builds(build, parts(0, 59), parts(0, 23), days, months, weekdays)


any_line = lines(parts(1, 31), parts(1, 12, MONTHS), parts(0, 7, WEEK).map(of_week))
# Of these, most have a tick near any instant.
daily_line = lines(EVERY_DAY, EVERY_DAY, EVERY_DAY | parts(0, 7, WEEK).map(of_week))
instants = st.integers(0, ms("2150-01-01"))


def read(text: str) -> Line:
    """A line of the grammar's plainest part: ``*``, ``*/step``, numbers and spans."""
    ranges = [(0, 59), (0, 23), (1, 31), (1, 12), (0, 6)]

    def values(field: str, low: int, high: int) -> frozenset[int]:
        found: set[int] = set()
        for part in field.split(","):
            span, _, step = part.partition("/")
            first, _, last = ("*", "", "") if span == "*" else span.partition("-")
            ends = (low, high) if first == "*" else (int(first), int(last or first))
            found.update(range(ends[0], ends[1] + 1, int(step or 1)))
        return frozenset(found)

    return Line(text, *(values(f, *ends) for f, ends in zip(text.split(), ranges, strict=True)))


def brute_utc(line: Line, after: int, until: int) -> Iterator[int]:
    """Each minute after an instant at which the line's time has come."""
    first = after // MINUTE * MINUTE + MINUTE
    day = first // DAY * DAY
    while day <= until:
        midnight = datetime.fromtimestamp(day / 1000, UTC)
        if line.day(midnight.date()):
            for n in range(1440):
                if n % 60 in line.minutes and n // 60 in line.hours:
                    tick = day + n * MINUTE
                    if first <= tick <= until:
                        yield tick
        day += DAY


@unhurried
@given(any_line, instants)
def test_nothing_is_skipped_and_nothing_is_added(line: Line, after: int) -> None:
    if not line.possible:
        with pytest.raises(ValueError, match=r"no cron line|never comes true"):
            Cron(line.text, Z)
        return
    until = after + 400 * DAY
    expected = list(itertools.islice(brute_utc(line, after, until), 20))
    rhythm = Cron(line.text, Z)
    if len(expected) == 20:
        until = expected[-1]
    assert runs(rhythm, after, until) == expected


@unhurried
@given(any_line, instants)
def test_a_tick_is_a_whole_minute_after_the_instant(line: Line, after: int) -> None:
    if line.possible:
        tick = Cron(line.text, ZoneInfo("Europe/Berlin")).next_ms(after)
        assert tick is not None
        assert tick > after
        assert tick % MINUTE == 0


@unhurried
@given(daily_line, instants, st.integers(0, 20 * DAY), st.integers(1, 150))
@example(read("* * * * *"), 0, DAY, 100)
@example(read("0 3 * * *"), 0, 8 * HOUR, 1)  # exactly where the look back begins
@example(read("0 0 1 1 *"), ms("1999-12-31T23:59"), 2 * MINUTE, 5)
def test_the_latest_ticks_are_the_end_of_all_ticks(
    line: Line, after: int, span: int, most: int
) -> None:
    every_tick = list(brute_utc(line, after, after + span))
    assert Cron(line.text, Z).latest_ms(after, after + span, most) == every_tick[-most:]


@unhurried
@given(any_line, instants, st.integers(0, 400 * DAY))
def test_the_latest_ticks_of_a_sparse_line(line: Line, after: int, span: int) -> None:
    if line.possible:
        found = Cron(line.text, Z).latest_ms(after, after + span, 5)
        assert found == sorted(set(found))
        backward = (
            tick
            for day in range((after + span) // DAY, after // DAY - 1, -1)
            for tick in reversed(list(brute_utc(line, day * DAY - 1, (day + 1) * DAY - 1)))
            if after < tick <= after + span
        )
        assert found == list(itertools.islice(backward, 5))[::-1]


@pytest.mark.parametrize("most", [0, 1, 5])
@pytest.mark.parametrize("rhythm", [Cron("* * * * *", Z), Every(MINUTE)], ids=["cron", "every"])
def test_the_latest_ticks_of_no_time_at_all(rhythm: Cadence, most: int) -> None:
    now = ms("2025-06-01T12:00")
    assert rhythm.latest_ms(now, now, most) == []
    assert rhythm.latest_ms(now, now - HOUR, most) == []
    assert rhythm.latest_ms(now, now + MINUTE - 1, most) == []
    assert rhythm.latest_ms(now, now + MINUTE, most) == [now + MINUTE][:most]
    assert rhythm.latest_ms(now - 1, now, most) == [now][:most]


@pytest.mark.parametrize(
    "text",
    [
        "* * * * *",
        "*/7 * * * *",
        "30 2 * * *",
        "*/15 2 * * *",
        "* * * * MON",
        "* * * 1 *",  # thousands of ticks in a row, and then none for long
        "* * 29 2 *",
        "0 0 1 1 *",
        "0 0 29 2 *",
    ],
)
def test_an_outage_of_fifty_years_costs_little(text: str, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    plain = Cron.next_ms

    def counted(self: Cron, after: int) -> int | None:
        asked.append(after)
        assert len(asked) <= 100 * CATCH_UP_LIMIT
        return plain(self, after)

    monkeypatch.setattr(Cron, "next_ms", counted)
    rhythm = Cron(text, ZoneInfo("Europe/Berlin"))
    found = rhythm.latest_ms(0, ms("2019-12-20"), CATCH_UP_LIMIT)
    assert len(found) in (CATCH_UP_LIMIT, 49, 12)


# Days


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # Both days named: either will do.
        ("0 0 13 * 5", ["2025-06-06", "2025-06-13", "2025-06-20", "2025-06-27", "2025-07-04"]),
        # One of them begins with a star: both must hold.
        ("0 0 13 * *", ["2025-06-13", "2025-07-13"]),
        ("0 0 * * 5", ["2025-06-06", "2025-06-13"]),
        ("0 0 */2 * 5", ["2025-06-13", "2025-06-27", "2025-07-11", "2025-07-25"]),
        ("0 0 1-7 * */7", ["2025-06-01", "2025-07-06", "2025-08-03"]),
        ("0 0 31 * *", ["2025-07-31", "2025-08-31", "2025-10-31", "2025-12-31", "2026-01-31"]),
        ("0 0 29 2 *", ["2028-02-29", "2032-02-29"]),
        ("0 0 29 2 MON", ["2026-02-02", "2026-02-09", "2026-02-16", "2026-02-23"]),
        ("0 0 30 2 SUN", ["2026-02-01", "2026-02-08"]),
        ("0 0 * jan,Jul mon-tue", ["2025-07-01", "2025-07-07", "2025-07-08"]),
        ("0 0 * * 0,7", ["2025-06-01", "2025-06-08"]),
        ("0 0 * * 6-7", ["2025-06-01", "2025-06-07", "2025-06-08"]),
        ("0 0 * * MON#2", ["2025-06-09", "2025-07-14"]),
        ("0 0 * * 5L", ["2025-06-27", "2025-07-25"]),
        ("0 0 L * *", ["2025-06-30", "2025-07-31"]),
        ("0 0 L 2 *", ["2026-02-28", "2027-02-28", "2028-02-29"]),
        ("0 0 LW * *", ["2025-06-30", "2025-07-31", "2025-08-29"]),
    ],
)
def test_days(text: str, expected: list[str]) -> None:
    rhythm, at = Cron(text, Z), ms("2025-05-31T12:00")
    found = []
    for _ in expected:
        tick = rhythm.next_ms(at)
        assert tick is not None
        found.append(local(tick, Z).date().isoformat())
        at = tick
    assert found == expected


def test_the_29th_of_february_is_left_out_in_2100() -> None:
    rhythm = Cron("0 12 29 2 *", Z)
    assert rhythm.next_ms(ms("2096-02-29T12:00")) == ms("2104-02-29T12:00")


def test_a_line_that_comes_true_once_in_forty_years_is_found() -> None:
    # A Sunday; the year 2100 is no leap year.
    rhythm = Cron("0 0 29 2 */7", Z)
    assert runs(rhythm, ms("2060-03-01"), ms("2130-01-01")) == [ms("2088-02-29"), ms("2128-02-29")]


# Bad input


@pytest.mark.parametrize(
    "text",
    [
        "",
        " ",
        "\n",
        "*",
        "* * * *",
        "* * * * * *",
        "0 0 0 1 1 * 2026",
        "@daily",
        "@reboot",
        "every 5 minutes please now",
        "60 * * * *",
        "61 * * * *",
        "-1 * * * *",
        "1.5 * * * *",
        "+1 * * * *",
        "0x1 * * * *",
        "* 24 * * *",
        "* * 0 * *",
        "* * 32 * *",
        "* * * 0 *",
        "* * * 13 *",
        "* * * * 8",
        "* * * MON *",
        "* * * * JAN",
        "MON * * * *",
        "* * * * FRI-MON",
        "5-1 * * * *",
        "1- * * * *",
        "-5 * * * *",
        "1-2-3 * * * *",
        ", * * * *",
        "1,,2 * * * *",
        "1, * * * *",
        "*/0 * * * *",
        "*/ * * * *",
        "/5 * * * *",
        "*/-5 * * * *",
        "*/x * * * *",
        "1/2/3 * * * *",
        "** * * * *",
        "? * * * *",
        "* * ? * *",
        "* * L-3 * *",
        "* * 15W * *",
        "* * * * L",
        "* * * * 1#0",
        "* * * * 1#6",
        "* * * * #",
        "* * * * MON#",
        "0 0 31 2 *",
        "0 0 30 2 *",
        "0 0 30,31 2 *",
        "0 0 31 2,4,6,9,11 *",
        "０ * * * *",
        "٣ * * * *",
        "² * * * *",
        "* * * * ²L",
        "0\N{NO-BREAK SPACE}0 * * *",
        "\N{EM SPACE}0 0 * * *",
        "0 0 * * fr\N{LATIN SMALL LETTER DOTLESS I}",
        "0 0 * * \N{LATIN SMALL LETTER LONG S}un",
        "\x00 * * * *",
        "0\x00 * * * *",
        "\ud800 * * * *",
        "9" * 5_000 + " * * * *",
        "*/" + "9" * 5_000 + " * * * *",
        "0," * 5_000 + " * * * *",
    ],
    ids=lambda text: ascii(text)[:40],
)
def test_what_is_no_cron_line_is_refused_with_a_sentence(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no cron line: .|the cron line .* never comes true"):
        Cron(text, Z)


@unhurried
@given(st.text(max_size=30) | st.text("*/,-#LW0123456789 monjan", min_size=5, max_size=30))
def test_any_text_is_a_line_or_refused(text: str) -> None:
    try:
        rhythm = Cron(text, Z)
    except ValueError:
        return
    assert rhythm.next_ms(0) is not None


@pytest.mark.parametrize("value", [None, 5, b"0 0 * * *", ["0", "0", "*", "*", "*"], object()])
def test_a_line_is_text(value: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        Cron(value, Z)


@pytest.mark.parametrize("text", ["0 0 * * *", "  0   0\t*  * *\n", "0 0 * * *\r\n"])
def test_spaces_do_not_matter(text: str) -> None:
    assert Cron(text, Z).next_ms(0) == DAY


@pytest.mark.parametrize(
    "name",
    [
        "",
        " ",
        ".",
        "..",
        "/",
        "Europe",
        "Europe/",
        "Europe/Berlinn",
        "Europe Berlin",
        "Berlin",
        "UTC+2",
        "+02:00",
        "MEZ",
        "../UTC",
        "Europe/../../UTC",
        "/etc/passwd",
        "/usr/share/zoneinfo/UTC",
        "UTC\x00",
        "UTC\n",
        "zone.tab",
        "tzdata.zi",
        "Europe/Zürich",
        "\N{FULLWIDTH LATIN CAPITAL LETTER U}TC",
        "\ud800",
        "a" * 5_000,
        "a/" * 5_000,
    ],
    ids=lambda name: ascii(name)[:40],
)
def test_a_time_zone_that_is_none_is_refused_with_a_sentence(name: str) -> None:
    with pytest.raises(ValueError, match=r"there is no time zone .*; names are like"):
        zone(name)


@pytest.mark.parametrize("name", ["UTC", "Europe/Berlin", "America/Argentina/Ushuaia", "Etc/GMT-3"])
def test_a_time_zone_has_its_name(name: str) -> None:
    assert zone(name) == ZoneInfo(name)


# The ends of time


def test_the_last_tick_of_all() -> None:
    rhythm = Cron("* * * * *", Z)
    last = END_OF_TIME_MS - MINUTE
    assert rhythm.next_ms(last - 1) == last
    assert rhythm.next_ms(last) is None
    assert rhythm.latest_ms(last - 2 * MINUTE, END_OF_TIME_MS - 1, 9) == [last - MINUTE, last]
    assert Every(MINUTE).next_ms(last - 1) == last
    assert Every(MINUTE).next_ms(last) is None


@pytest.mark.parametrize("name", ["UTC", "Asia/Tokyo", "Europe/Berlin", "America/New_York"])
@pytest.mark.parametrize("text", ["* * * * *", "30 2 * * *", "0 0 1 1 *", "0 0 29 2 *"])
def test_nothing_is_due_at_the_end_of_time(name: str, text: str) -> None:
    rhythm = Cron(text, ZoneInfo(name))
    assert rhythm.next_ms(END_OF_TIME_MS - 1) is None
    assert rhythm.next_ms(END_OF_TIME_MS) is None


def test_the_first_tick_of_all() -> None:
    assert Cron("* * * * *", Z).next_ms(-1) == 0
    assert Cron("0 0 * * *", ZoneInfo("Europe/Berlin")).next_ms(0) == 23 * HOUR
    assert Every(MINUTE).next_ms(-1) == 0


# Intervals


@given(
    st.integers(1, 10**12),
    st.integers(-(10**13), 10**13),
    st.integers(0, 10**13),
    st.integers(1, 50),
)
def test_an_interval_never_drifts(period: int, origin: int, after: int, steps: int) -> None:
    rhythm = Every(period, origin)
    at = after
    for _ in range(steps):
        tick = rhythm.next_ms(at)
        assert tick is not None
        assert (tick - origin) % period == 0
        assert 0 < tick - at <= period
        at = tick
    assert (at - after) // period == steps - 1 or (at - after) == steps * period


@given(
    st.integers(1, 1000),
    st.integers(-5000, 5000),
    st.integers(-5000, 5000),
    st.integers(0, 5000),
    st.integers(0, 120),
)
def test_the_latest_ticks_of_an_interval(
    period: int, origin: int, after: int, span: int, most: int
) -> None:
    ticks = [t for t in range(after + 1, after + span + 1) if (t - origin) % period == 0]
    expected = ticks[-most:] if most else []
    assert Every(period, origin).latest_ms(after, after + span, most) == expected


@pytest.mark.parametrize("period", [0, -1, END_OF_TIME_MS, 10**30])
def test_an_interval_lasts_at_least_a_millisecond_and_not_for_ever(period: int) -> None:
    with pytest.raises(ValueError, match=f"an interval lasts .*, not {period} ms"):
        Every(period)


# Changes of clocks


@dataclass(frozen=True)
class Change:
    zone: ZoneInfo
    at: int

    @property
    def before(self) -> datetime:
        """What the clock would show, had it not been changed."""
        return wall(self.at - MINUTE, self.zone) + timedelta(minutes=1)

    @property
    def shift(self) -> timedelta:
        return wall(self.at, self.zone) - self.before

    @property
    def words(self) -> str:
        """As the heads of the page's columns have it."""
        before, after = self.before, wall(self.at, self.zone)
        day = "" if before.date() == after.date() else f"{after.date()} "
        return f"{before:%Y-%m-%d %H:%M} → {day}{after:%H:%M}"


@cache
def changes(name: str, *years: int) -> tuple[Change, ...]:
    """The instants of those years at which the clocks of a zone change."""
    tz = ZoneInfo(name)

    def offset(instant: int) -> timedelta | None:
        return local(instant, tz).utcoffset()

    return tuple(
        Change(tz, minute)
        for year in years
        for hour in range(ms(f"{year}-01-01"), ms(f"{year + 1}-01-01"), HOUR)
        if offset(hour) != offset(hour + HOUR)
        for minute in range(hour + MINUTE, hour + HOUR + 1, MINUTE)
        if offset(minute - MINUTE) != offset(minute)
    )


@cache
def shown(change: Change) -> dict[datetime, list[int]]:
    """What the clock shows around a change, each time with the instants at which it does."""
    times: dict[datetime, list[int]] = {}
    for minute in range(change.at - 30 * HOUR, change.at + 30 * HOUR + 1, MINUTE):
        times.setdefault(wall(minute, change.zone), []).append(minute)
    return times


def brute(line: Line, change: Change) -> list[int]:
    """The ticks around a change of clocks, by the rules of the page."""
    times = shown(change)
    time, last = min(times), max(times)
    ticks = set()
    while time <= last:
        if line.shows(time):
            if time not in times:  # in the gap
                ticks.update([change.at] if line.fixed else [])
            else:
                ticks.update(times[time][:1] if line.fixed else times[time])
        time += timedelta(minutes=1)
    return sorted(ticks)


FOUR = [
    *changes("Europe/Berlin", 2025),
    *changes("America/New_York", 2025),
    *changes("Australia/Lord_Howe", 2025),  # by half an hour
    changes("Pacific/Apia", 2011)[-1],  # without 2011-12-30
    changes("Pacific/Apia", 2012)[0],
]
OTHERS = [
    *changes("America/St_Johns", 2010),  # at one minute past midnight
    *changes("America/Havana", 2025),  # at midnight
    *changes("America/Santiago", 2025),  # from midnight, and back to the day before
    *changes("Africa/Cairo", 2025),
    *changes("Antarctica/Troll", 2025),  # by two hours
    *changes("Europe/Dublin", 2025),  # winter time is the exception there
    *changes("Pacific/Chatham", 2025),
    *changes("America/Caracas", 2016),  # by half an hour, once
    *changes("Asia/Pyongyang", 2015, 2018),
    *changes("Pacific/Kwajalein", 1993),  # without a day
    # No change of clocks.
    *(Change(ZoneInfo(name), ms("2025-03-30T01:00")) for name in ("UTC", "Asia/Kathmandu")),
]
TEXTS = [
    "30 2 * * *",
    "0,30 2 * * *",
    "15 1-4 * * *",
    "0 0 * * *",
    "59 23 * * 0",
    "0 12 31 12 *",
    "* * * * *",
    "30 * * * *",
    "*/15 * * * *",
    "*/15 2 * * *",
    "*/20 0 * * 0",
    "*/15 9 * * *",
    "0 */2 * * *",
    "0 */6 * * *",
    "0 */6 * * 0",
    "5-59/15 2 * * *",
]


def named(change: Any) -> str:
    return f"{change.zone.key} {change.words}" if isinstance(change, Change) else str(change)


@pytest.mark.parametrize("change", FOUR + OTHERS, ids=named)
def test_ticks_around_a_change_of_clocks(change: Change) -> None:
    start, end = change.at - 28 * HOUR, change.at + 28 * HOUR
    for text in TEXTS:
        rhythm = Cron(text, change.zone)
        expected = [tick for tick in brute(read(text), change) if start < tick <= end]
        assert runs(rhythm, start, end) == expected, text
        assert rhythm.latest_ms(start, end, 7) == expected[-7:], text


@pytest.mark.parametrize("change", FOUR + OTHERS, ids=named)
def test_the_next_tick_needs_no_memory(change: Change) -> None:
    """Asked from any instant, right after the gap or on either pass of the repeated hour, the
    answer is the first tick after it: none in the past, none twice."""
    near = range(change.at - 150 * MINUTE, change.at + 150 * MINUTE, 15 * MINUTE)
    asked = list(itertools.chain.from_iterable((n - 1, n + 31_416 * (n % 7)) for n in near))
    for text in TEXTS:
        rhythm = Cron(text, change.zone)
        ticks = brute(read(text), change)
        for instant in asked:
            index = bisect_right(ticks, instant)
            found = rhythm.next_ms(instant)
            assert found is not None
            if index < len(ticks):
                assert found == ticks[index], (text, instant)
            else:
                assert found > change.at + 28 * HOUR, (text, instant)


@unhurried
@given(daily_line, st.sampled_from(FOUR + OTHERS), st.integers(-28 * HOUR, 28 * HOUR))
def test_any_line_from_any_instant_around_a_change(line: Line, change: Change, offset: int) -> None:
    after, until = change.at + offset, change.at + 29 * HOUR
    expected = [tick for tick in brute(line, change) if after < tick <= until][:50]
    found = runs(
        Cron(line.text, change.zone), after, expected[-1] if len(expected) == 50 else until
    )
    assert found == expected


def test_the_changes_are_the_ones_that_were_meant() -> None:
    assert [named(change) for change in FOUR] == [
        "Europe/Berlin 2025-03-30 02:00 → 03:00",
        "Europe/Berlin 2025-10-26 03:00 → 02:00",
        "America/New_York 2025-03-09 02:00 → 03:00",
        "America/New_York 2025-11-02 02:00 → 01:00",
        "Australia/Lord_Howe 2025-04-06 02:00 → 01:30",
        "Australia/Lord_Howe 2025-10-05 02:00 → 02:30",
        "Pacific/Apia 2011-12-30 00:00 → 2011-12-31 00:00",
        "Pacific/Apia 2012-04-01 04:00 → 03:00",
    ]


HOURS = [change for change in FOUR if abs(change.shift) < timedelta(days=1)]


def daily_at(time: datetime, tz: ZoneInfo) -> Cron:
    return Cron(f"{time:%M %H} * * *", tz)


@pytest.mark.parametrize("part", [0.0, 0.1, 0.5, 0.9])
@pytest.mark.parametrize("change", [c for c in HOURS if c.shift > timedelta()], ids=named)
def test_a_fixed_time_in_the_gap_runs_once_right_after_it(change: Change, part: float) -> None:
    rhythm = daily_at(change.before + part * change.shift, change.zone)
    assert runs(rhythm, change.at - 20 * HOUR, change.at + 20 * HOUR) == [change.at]


@pytest.mark.parametrize("part", [0.1, 0.5, 0.9, 1.0])
@pytest.mark.parametrize("change", [c for c in HOURS if c.shift < timedelta()], ids=named)
def test_a_fixed_time_in_the_repeated_hour_runs_once_the_first_time(
    change: Change, part: float
) -> None:
    rhythm = daily_at(change.before + part * change.shift, change.zone)
    (tick,) = runs(rhythm, change.at - 20 * HOUR, change.at + 20 * HOUR)
    assert tick == change.at + part * change.shift // timedelta(milliseconds=1)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("30 2 * * *", ["2011-12-29 02:30", "2011-12-31 00:00", "2011-12-31 02:30"]),
        ("30 2,14 30 12 *", ["2011-12-31 00:00"]),
        ("0 0 * * *", ["2011-12-29 00:00", "2011-12-31 00:00", "2012-01-01 00:00"]),
        ("*/20 2 30 12 *", []),
    ],
)
def test_a_day_that_does_not_exist(text: str, expected: list[str]) -> None:
    tz = ZoneInfo("Pacific/Apia")
    ticks = runs(Cron(text, tz), ms("2011-12-28T23:59-10:00"), ms("2012-01-01T00:00+14:00"))
    assert [wall(tick, tz).isoformat(" ", "minutes") for tick in ticks] == expected


@pytest.mark.parametrize("change", FOUR, ids=named)
def test_a_starred_hour_and_an_interval_run_every_real_hour(change: Change) -> None:
    start, end = change.at - 24 * HOUR, change.at + 24 * HOUR
    quarters = runs(Cron("*/15 * * * *", change.zone), start, end)
    assert quarters == list(range(start + 15 * MINUTE, end + 1, 15 * MINUTE))
    assert runs(Every(HOUR), start, end) == list(range(start // HOUR * HOUR + HOUR, end + 1, HOUR))
    halves = runs(Cron("30 * * * *", change.zone), start, end)
    steps = {later - tick for tick, later in itertools.pairwise(halves)}
    # Where clocks change by half an hour, the clock shows half past again after 30 minutes.
    half = abs(change.shift) == timedelta(minutes=30)
    assert steps == ({HOUR, HOUR // 2} if half else {HOUR})
    assert len(halves) == 48 + half


@pytest.mark.parametrize("name", ["UTC", "Etc/UTC", "Africa/Abidjan", "Asia/Kolkata", "Etc/GMT+12"])
def test_without_a_change_of_clocks_a_zone_is_utc_moved(name: str) -> None:
    tz = ZoneInfo(name)
    start, end = ms("2025-03-29"), ms("2025-03-31")
    offset = (wall(start, tz) - wall(start, Z)) // timedelta(milliseconds=1)
    for text in TEXTS:
        moved = [tick + offset for tick in runs(Cron(text, tz), start, end)]
        assert moved == runs(Cron(text, Z), start + offset, end + offset)


# The page


Row = list[str]


def tables(under: str) -> list[list[Row]]:
    """The tables under a heading of the page, head first, without the line below the head."""
    section = PAGE.read_text().partition(f"\n## {under}\n")[2].partition("\n## ")[0]
    found = []
    for block in re.findall(r"(?:^\|.*\n)+", section, re.MULTILINE):
        rows = [
            [cell.strip() for cell in line.strip("|").split("|")] for line in block.splitlines()
        ]
        found.append([row for row in rows if not set(row[0]) <= set("-: ")])
    return found


def rhythm_of(words: str, tz: ZoneInfo) -> Cadence:
    return Every(HOUR) if words == "every 3600 s" else Cron(words.strip("`"), tz)


@pytest.mark.parametrize("side", [0, 1], ids=["gap", "repeated hour"])
@pytest.mark.parametrize("name", sorted({change.zone.key for change in FOUR}))
def test_each_row_of_the_page_is_so(name: str, side: int) -> None:
    tz = ZoneInfo(name)
    (change,) = (c for c in FOUR if c.zone is tz and (c.shift < timedelta()) == side)
    (table,) = tables(name)
    head, *rows = [row[3 * side : 3 * side + 3] for row in table]
    assert head == [change.words, "local", "UTC"]
    told: dict[str, list[int]] = {}
    for words, here, utc in rows:
        instant = datetime.fromisoformat(utc.replace("Z", "+00:00"))
        tick = round(instant.timestamp() * 1000)
        assert here == local(tick, tz).isoformat(" ", "minutes"), utc
        told.setdefault(words, []).append(tick)
    assert [(words.startswith("`"), len(ticks)) for words, ticks in told.items()] == [
        (True, 3),
        (True, 4),
        (False, 4),
    ]
    fixed, starred, _ = told
    assert read(fixed.strip("`")).fixed
    assert starred == "`30 * * * *`"
    for words, ticks in told.items():
        assert ticks[0] < change.at <= ticks[-1]
        assert runs(rhythm_of(words, tz), ticks[0] - 1, ticks[-1]) == ticks


def test_the_runs_of_a_day_are_as_the_page_counts_them() -> None:
    tz = ZoneInfo("Europe/Berlin")
    (table,) = tables("How often on such a day")
    (_, *days), *rows = table
    assert len(rows) >= 6
    for words, *counts in rows:
        for day, count in zip(days, counts, strict=True):
            date_of, hours = re.fullmatch(r"(\S+), (\d+) hours", day).groups()  # type: ignore[union-attr]
            midnight = datetime.fromisoformat(date_of).replace(tzinfo=tz)
            start = round(midnight.timestamp() * 1000)
            end = start + int(hours) * HOUR
            assert wall(end, tz) == datetime.fromisoformat(date_of) + timedelta(days=1)
            assert len(runs(rhythm_of(words, tz), start - 1, end - 1)) == int(count), (words, day)


def test_the_examples_of_the_module_hold() -> None:
    results = doctest.testmod(cadence)
    assert (results.failed, results.attempted >= 3) == (0, True)
