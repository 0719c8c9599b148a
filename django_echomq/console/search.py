"""Looking through jobs, for a bounded while."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

from django.http import QueryDict

from ..queue import Queue
from ..queue.values import Listed
from ..tasks.envelope import task_name

#: Jobs that one page looks through at most for those that match.
LOOK = 5_000
STEP = 500
STATES = ("pending", "active", "scheduled", "dead", "completed")
_AGES = {"5m": 300, "1h": 3_600, "1d": 86_400, "7d": 604_800}


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
        """Reads a query string or a form; what is no filter is left out."""
        state = query.get("state", "")
        lane = query.get("lane", "")[:128] or None
        age = query.get("age", "")
        return cls(
            state if state in STATES else "pending",
            lane if state in ("", "pending") else None,
            query.get("q", "").strip()[:200],
            age if age in _AGES else "",
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
    """A verb over all jobs that match, for :func:`operations.start`.

    Args:
        act: does it to some; answers how many left the state.
    """

    def run(queue: Queue, progress: Callable[[int, int], object]) -> int:
        # From the oldest on, as new ones arrive at the other end. What stays is passed over.
        total = queue.jobs.size(meant.state, meant.lane)
        looked = stayed = done = 0
        while looked < total:
            page = queue.jobs.page(meant.state, stayed, STEP, False, meant.lane)
            ids = [listed.job.id for listed in page.jobs if meant.matches(listed)]
            moved = act(queue, ids) if ids else 0
            done += moved
            looked += page.length
            stayed += page.length - moved
            progress(done, max(done, total if not meant.narrows else done))
            if not page.full:
                break
        return done

    return run


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
