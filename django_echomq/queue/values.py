"""What the verbs answer and take: claims, admissions, rows, unique keys."""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from enum import StrEnum
from typing import Any

from ..wire.errors import EchoMQError, InvalidId
from ..wire.ids import minted_at
from ..wire.keys import check_unique
from .clock import Duration, duration_ms

_UNTIL = ("done", "started", "ttl")
_ON_CONFLICT = ("skip", "replace")


class Outcome(StrEnum):
    """What became of an admission."""

    ENQUEUED = "enqueued"
    SCHEDULED = "scheduled"
    DUPLICATE = "duplicate"


@dataclass(frozen=True, slots=True)
class Admission:
    """The answer to an enqueue.

    Attributes:
        job_id: the admitted job; for a duplicate the job that holds the id or the unique key.
        outcome: ``enqueued``, ``scheduled`` or ``duplicate``.
    """

    job_id: str
    outcome: str


class NotReplicated(EchoMQError):
    """The jobs are admitted, and fewer replicas than ``REPLICAS`` asks for are known to have them.

    They run, unless a failover to a replica without them comes first. Admitting them again makes
    further jobs.

    Attributes:
        admissions: what the call would have returned.
        replicas, asked: how many replicas have all of them, and should.
        ms: how long these had.
    """

    def __init__(self, admissions: list[Admission], replicas: int, asked: int, ms: int) -> None:
        first = admissions[0].job_id
        more = f" and {len(admissions) - 1} more" if len(admissions) > 1 else ""
        super().__init__(
            f"{first}{more}: admitted, but only {replicas} of {asked} replicas acknowledged it "
            f"within {ms / 1000:g} s; a failover now may lose it"
        )
        self.admissions = admissions
        self.replicas, self.asked, self.ms = replicas, asked, ms


@dataclass(frozen=True, slots=True)
class Claim:
    """A job in hand.

    Attributes:
        job_id: its branded id.
        payload: as it was admitted.
        attempts: the fencing token; settling under another one is refused.
        lane: where it came from, ``None`` for the flat set.
        attempt: which try of its budget this is, from 1. A released claim does not count.
        history: what the row says of earlier attempts, one line of JSON each.
        stalled: how often its lease has lapsed before.
    """

    job_id: str
    payload: bytes
    attempts: int
    lane: str | None = None
    attempt: int = 0
    history: bytes = field(default=b"", repr=False)
    stalled: int = 0


class Settled(StrEnum):
    """What a settlement did."""

    DONE = "done"
    SCHEDULED = "scheduled"
    DEAD = "dead"
    CANCELLED = "cancelled"
    RELEASED = "released"
    STALE = "stale"
    GONE = "gone"


class Verdict(StrEnum):
    """What a verb over many jobs did to one of them."""

    DONE = "done"
    ASKED = "asked"
    GONE = "gone"
    REFUSED = "refused"


class Cancellation(StrEnum):
    """What a cancel did."""

    CANCELLED = "cancelled"
    ASKED = "asked"


class Reassignment(StrEnum):
    """What a reassign did."""

    MOVED = "moved"
    NOOP = "noop"


@dataclass(frozen=True, slots=True)
class Lane:
    """A lane as it stands.

    Attributes:
        name: the lane's name.
        depth: jobs that wait in it.
        active: jobs of it in hand.
        limit: most jobs of it in hand at once; ``None`` for no limit.
        weight: jobs that it gives in one turn.
        paused: whether claiming from it is stopped.
        in_ring: whether it takes its turns: it has jobs, is not paused and is below its limit.
    """

    name: str
    depth: int
    active: int
    limit: int | None
    weight: int
    paused: bool
    in_ring: bool

    def beside(self, other: Lane) -> Lane:
        """Two parts of a lane as one."""
        return replace(
            self,
            depth=self.depth + other.depth,
            active=self.active + other.active,
            in_ring=self.in_ring or other.in_ring,
        )


@dataclass(frozen=True, slots=True)
class Unique:
    """At most one job per key.

    Attributes:
        key: 1 to 255 letters, digits, ``.``, ``_`` or ``-``.
        ttl: seconds or a timedelta after which the key is free whatever became of the job;
            ``None`` for never.
        until: what else frees the key: ``done``, the end of the job in whatever way; ``started``,
            its first claim; ``ttl``, nothing else, so that a ``ttl`` is needed.
        on_conflict: what happens to a job that meets one that waits under the key: ``skip``, it is
            not admitted; ``replace``, it takes the place of the other, which ends as cancelled. A
            job in hand is never replaced.
    """

    key: str
    ttl: Duration | None = None
    until: str = "done"
    on_conflict: str = "skip"

    def check(self) -> None:
        """Refuses what cannot be sent.

        Raises:
            InvalidName, TypeError, ValueError: the message says what is wrong.
        """
        check_unique(self.key)
        if self.until not in _UNTIL:
            raise ValueError(f"until is {_either(_UNTIL)}, not {self.until!r}")
        if self.on_conflict not in _ON_CONFLICT:
            raise ValueError(f"on_conflict is {_either(_ON_CONFLICT)}, not {self.on_conflict!r}")
        if self.until == "ttl" and self.ttl is None:
            raise ValueError("a unique key that only time frees needs a ttl")
        self.ttl_ms()

    def ttl_ms(self) -> int:
        """The ttl in ms, at least 1; 0 for never."""
        return 0 if self.ttl is None else max(1, duration_ms(self.ttl, "the ttl"))


@dataclass(frozen=True, slots=True)
class Job:
    """A row, or the outcome record of a job that ended.

    Attributes:
        id: branded id.
        state: ``pending active scheduled dead awaiting_children unknown completed cancelled``.
        payload: as admitted.
        attempts: claims so far; the fencing token.
        attempt: claims that count toward the budget of attempts.
        lane, priority, unique: as admitted.
        enqueued_at: mint time of the id, by the clock of the process that minted it; ``None`` for
            a foreign id.
        started_at, worker: of the latest claim.
        finished_at: of the end, for completed and dead jobs.
        result: of a completed job.
        last_error: reason of the last failure, one line.
        history: one mapping per attempt that did not complete, oldest first.
        progress: as the handler last reported it.
        stalled: how often its lease lapsed.
        schedule: the schedule that fired it.
        fields: the whole row, names to bytes.
    """

    id: str
    state: str
    payload: bytes
    attempts: int
    attempt: int
    lane: str | None
    priority: int
    unique: str | None
    enqueued_at: datetime | None
    started_at: datetime | None
    finished_at: datetime | None
    worker: str | None
    result: bytes | None
    last_error: str | None
    history: list[dict[str, Any]]
    progress: str | None
    stalled: int
    schedule: str | None
    fields: dict[str, bytes] = field(repr=False)

    @classmethod
    def from_row(cls, job_id: str, state: str, flat: list[bytes]) -> Job:
        """Reads a row. What a foreign hand wrote there is read as well as it can be."""
        fields = {_text(name): value for name, value in zip(flat[::2], flat[1::2], strict=False)}

        def text(name: str) -> str | None:
            return _text(fields[name]) if name in fields else None

        attempts = _number(fields.get("attempts"))
        return cls(
            id=job_id,
            state=state,
            payload=fields.get("payload", b""),
            attempts=attempts,
            attempt=attempts - _number(fields.get("attempts_base")),
            lane=text("group"),
            priority=_number(fields.get("priority")),
            unique=text("unique"),
            enqueued_at=_minted_at(job_id),
            started_at=_instant(fields.get("started_at")),
            finished_at=_instant(fields.get("finished_at")),
            worker=text("worker"),
            result=fields.get("result"),
            last_error=text("last_error"),
            history=history_entries(fields.get("history", b"")),
            progress=text("progress"),
            stalled=_number(fields.get("stalled")),
            schedule=text("schedule"),
            fields=fields,
        )


def _either(words: tuple[str, ...]) -> str:
    return " or ".join(map(repr, words))


@dataclass(frozen=True, slots=True)
class Listed:
    """A job in a list: its row without what is long.

    Attributes:
        job: its row; ``payload`` is empty where it is long.
        length: bytes of the payload.
        due_ms: of a scheduled job, when it is due (Unix ms).
        score: by which it is ordered, ids within one.
    """

    job: Job
    length: int
    due_ms: float | None = None
    score: float = 0.0

    @property
    def too_long(self) -> bool:
        """Whether the payload was left out."""
        return self.length > 0 and not self.job.payload

    @property
    def due_at(self) -> datetime | None:
        """When it is due."""
        return None if self.due_ms is None else due_at(self.due_ms)


def due_at(ms: float) -> datetime | None:
    """A score of the schedule as an instant; ``None`` where it is none."""
    try:
        return _instant(b"%d" % round(ms))
    except (ValueError, OverflowError):  # no number, or without end
        return None


@dataclass(frozen=True, slots=True)
class Page:
    """A page of a list.

    Attributes:
        jobs: those that have a row.
        length: how many ranks it covers.
        full: whether there may be more behind it.
        end: where it ends, a score and a member.
    """

    jobs: list[Listed]
    length: int
    full: bool
    end: tuple[bytes, bytes] | None = None


def _minted_at(job_id: str) -> datetime | None:
    try:
        return minted_at(job_id)
    except InvalidId:
        return None


def _text(value: bytes) -> str:
    return value.decode("utf-8", "backslashreplace")


def _number(value: bytes | None) -> int:
    try:
        number = int(value or 0)
    except ValueError:
        return 0
    return number if abs(number) < 2**63 else 0


def _instant(value: bytes | None) -> datetime | None:
    try:
        return datetime.fromtimestamp(int(value) / 1000, UTC) if value else None
    except (ValueError, OverflowError, OSError):
        return None


def history_entries(value: bytes) -> list[dict[str, Any]]:
    """The attempts that a row's history tells of, oldest first; unreadable lines are left out."""
    entries = []
    for line in value.split(b"\n") if value else ():
        try:
            entry = json.loads(line)
        except (ValueError, RecursionError):
            continue
        if isinstance(entry, dict):
            entries.append(entry)
    return entries
