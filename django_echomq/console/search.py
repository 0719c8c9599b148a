"""Looking through jobs, for a bounded while."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import QueryDict
from django.utils.translation import gettext as _

from ..queue import Queue
from ..queue.values import Listed
from ..tasks.envelope import task_name
from ..wire.keys import check_lane

#: Jobs that one page looks through at most for those that match.
LOOK = 1_000
STEP = 250
_TEXT = 200  # characters to search for
STATES = ("pending", "active", "scheduled", "dead", "completed")
_AGES = {"5m": 300, "1h": 3_600, "1d": 86_400, "7d": 604_800}
#: Seconds within which instants of different servers, kept in whole milliseconds, tell no order.
_SKEW = 1.0


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs are meant.

    Attributes:
        state, lane: where they stand.
        text: a part of the task's name, or of the error; in any case.
        age: only jobs that were enqueued longer ago: ``5m 1h 1d 7d``, or empty.
        newest_first: the order.
    """

    state: str = "pending"
    lane: str | None = None
    text: str = ""
    age: str = ""
    newest_first: bool = True

    @classmethod
    def read(cls, query: QueryDict) -> Filter:
        """Reads a query string or a form.

        Raises:
            ValueError: for what is no filter. To leave it out would mean more jobs than were asked
                for.
        """
        state, age = query.get("state") or "pending", query.get("age", "")
        text = query.get("q", "").strip()
        if state not in STATES:
            raise ValueError(_("There is no state %(state)s.") % {"state": state[:50]})
        if age and age not in _AGES:
            raise ValueError(_("There is no age %(age)s.") % {"age": age[:50]})
        if len(text) > _TEXT:
            raise ValueError(_("Search for at most %(n)d characters.") % {"n": _TEXT})
        lane = query.get("lane") if state == "pending" else None
        return cls(
            state,
            check_lane(lane) if lane else None,
            text,
            age,
            query.get("order") != "oldest",
        )

    @property
    def narrows(self) -> bool:
        return bool(self.text or self.age)

    def query(self, **changes: Any) -> str:
        """The filter as a query string."""
        parts = {
            "state": self.state,
            "lane": self.lane or "",
            "q": self.text,
            "age": self.age,
            "order": "" if self.newest_first else "oldest",
            **changes,
        }
        query = QueryDict(mutable=True)
        query.update({key: str(value) for key, value in parts.items() if value not in ("", None)})
        return query.urlencode()

    def matches(self, listed: Listed) -> bool:
        job = listed.job
        if self.age:
            limit = datetime.now(UTC) - timedelta(seconds=_AGES[self.age])
            if job.enqueued_at is None or job.enqueued_at > limit:
                return False
        if self.text:
            text = self.text.lower()
            return text in task_name(job.payload).lower() or text in (job.last_error or "").lower()
        return True


@dataclass(frozen=True, slots=True)
class Found:
    """A page of jobs.

    Attributes:
        jobs: at most as many as were asked for.
        next_offset: where the next page starts; ``None`` where this was the last.
        looked: how many jobs were looked at.
    """

    jobs: list[Listed]
    next_offset: int | None
    looked: int


def look(queue: Queue, meant: Filter, offset: int, size: int) -> Found:
    """The page of jobs that match, from a rank on."""
    if not meant.narrows:
        page = queue.jobs.page(meant.state, offset, size + 1, meant.newest_first, meant.lane)
        more = page.full
        return Found(page.jobs[:size], offset + size if more else None, len(page.jobs[:size]))
    found: list[Listed] = []
    looked, more = 0, True
    while looked < LOOK and more:
        page = queue.jobs.page(meant.state, offset + looked, STEP, meant.newest_first, meant.lane)
        more = page.full
        for n, listed in enumerate(page.jobs, 1):
            if meant.matches(listed):
                found.append(listed)
                if len(found) == size:
                    looked += n
                    return Found(found, offset + looked, looked)
        looked += page.length
    return Found(found, offset + looked if more else None, looked)


def act_on_all(
    meant: Filter,
    act: Callable[[Queue, list[str]], int],
) -> Callable[[Queue, Callable[[int, int], object]], int]:
    """A verb over all jobs that match and were there when it began, for
    :func:`operations.start`.

    The walk goes on behind the job that it saw last, so that jobs that come and go before it hide
    none. Jobs that it has moved, and that come back, are not met again: what it met at first is
    known by id, and what it met later by the instants of its row.

    Args:
        act: does it to some; answers to how many.
    """

    def run(queue: Queue, progress: Callable[[int, int], object]) -> int:
        total = queue.jobs.size(meant.state, meant.lane)
        (fresh,) = queue.drive(queue.client.mint(1))
        back = _now(queue) + timedelta(seconds=_SKEW)
        known_until = time.monotonic() + 2 * _SKEW
        met: set[str] = set()
        looked = done = 0
        place: tuple[bytes, bytes] | None = None
        while True:
            page = queue.jobs.page(meant.state, 0, STEP, False, meant.lane, place)
            ids = [
                listed.job.id
                for listed in page.jobs
                if listed.job.id not in met
                and not _newer(listed, back, fresh)
                and meant.matches(listed)
            ]
            # Each beat of a worker moves its active jobs on, before the walk once more.
            if meant.state == "active" or time.monotonic() < known_until:
                met.update(ids)
            done += act(queue, ids) if ids else 0
            looked += page.length
            progress(min(looked, total), total)
            if not page.full:
                return done
            place = page.end

    return run


def _now(queue: Queue) -> datetime:
    seconds, microseconds = queue.drive(queue.client.command("TIME"))
    return datetime.fromtimestamp(int(seconds) + int(microseconds) / 1_000_000, UTC)


def _newer(listed: Listed, back: datetime, fresh: str) -> bool:
    """Whether a job came after ``fresh``, or came back later than ``back``."""
    job = listed.job
    latest = max(filter(None, (job.started_at, job.finished_at)), default=None)
    return job.id[3:] > fresh[3:] or (latest is not None and latest > back)


def failures(queue: Queue) -> tuple[list[tuple[str, str, int, Listed]], int, bool]:
    """The newest dead jobs by task and error.

    Returns:
        Rows of task, error, number and newest job, the most frequent first; how many jobs were
        looked at; whether there are more.
    """
    groups: dict[tuple[str, str], list[Any]] = {}
    looked, more = 0, True
    while looked < LOOK and more:
        page = queue.jobs.page("dead", looked, STEP, True)
        for listed in page.jobs:
            key = (task_name(listed.job.payload), _kind(listed.job.last_error or ""))
            group = groups.setdefault(key, [0, listed])
            group[0] += 1
        looked += page.length
        more = page.full
    rows = [(task, error, count, newest) for (task, error), (count, newest) in groups.items()]
    return sorted(rows, key=lambda row: -row[2]), looked, more


def _kind(error: str) -> str:
    """The part of an error that jobs with the same fault share."""
    head, colon, rest = error.partition(":")
    return head if colon and head.isidentifier() else error[:80] or rest
