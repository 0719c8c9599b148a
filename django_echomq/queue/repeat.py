"""Cadence: a registration, not a loop. Promoters fire what is due, each tick once."""

from __future__ import annotations

import logging
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from ..wire.client import Argument, Steps, refusal_of
from ..wire.keys import check_lane, check_name
from .cadence import CATCH_UP_LIMIT, Cadence, Cron, Every, zone
from .clock import Duration, When, duration_ms, instant_ms
from .values import Admission

if TYPE_CHECKING:
    from .queue import Look, Queue

logger = logging.getLogger("django_echomq.repeat")

_DUE_BATCH = 100


class Registered(StrEnum):
    """What a registration did."""

    REGISTERED = "registered"
    EXISTS = "exists"
    REPLACED = "replaced"


@dataclass(frozen=True, slots=True)
class Definition:
    """What a schedule does, as it is registered.

    Attributes:
        name: 1 to 128 letters, digits, ``.``, ``_`` or ``-``.
        payload: of each occurrence.
        every_ms, cron: the cadence; exactly one is given.
        tz: time zone of a cron line.
        lane, priority: of each occurrence.
        start_ms, end_ms: no tick before the one and after the other.
        catch_up: after an outage, ``skip`` runs once and goes on with the next tick in the future;
            ``all`` makes up for every tick, the latest 100 at most.
        source: who registered it.
    """

    name: str
    payload: bytes
    every_ms: int | None = None
    cron: str | None = None
    tz: str = "UTC"
    lane: str | None = None
    priority: int = 0
    start_ms: int | None = None
    end_ms: int | None = None
    catch_up: str = "skip"
    source: str = ""

    def __post_init__(self) -> None:
        check_name(self.name, "a schedule")
        if (self.every_ms is None) == (self.cron is None):
            raise ValueError(f"schedule {self.name!r} needs either an interval or a cron line")
        start, end = self.start_ms, self.end_ms
        if start is not None and end is not None and start > end:
            raise ValueError(f"schedule {self.name!r} ends before it starts")
        if self.catch_up not in ("skip", "all"):
            raise ValueError(f"catch_up is 'skip' or 'all', not {self.catch_up!r}")
        if self.lane is not None:
            check_lane(self.lane)
        if isinstance(self.priority, bool) or not isinstance(self.priority, int):
            raise TypeError(f"a priority is a whole number, not {self.priority!r}")
        if not -100 <= self.priority <= 100:
            raise ValueError(f"a priority lies between -100 and 100, not {self.priority}")
        self.rhythm(0)

    @property
    def cadence(self) -> str:
        """The cadence as one text; registrations of the same cadence share their next run."""
        return "|".join(map(str, (self.every_ms, self.cron, self.tz, self.start_ms, self.end_ms)))

    def rhythm(self, origin_ms: int) -> Cadence:
        """The cadence; an interval without a start ticks through ``origin_ms``."""
        if self.cron is not None:
            return Cron(self.cron, zone(self.tz))
        assert self.every_ms is not None
        return Every(self.every_ms, origin_ms if self.start_ms is None else self.start_ms)

    def after(self, instant_ms: int, origin_ms: int) -> int | None:
        """The first tick after an instant; ``None`` where the schedule is over."""
        if self.start_ms is not None:
            instant_ms = max(instant_ms, self.start_ms - 1)
        return self._within(self.rhythm(origin_ms).next_ms(instant_ms))

    def following(self, seen_ms: int, now_ms: int) -> int | None:
        """The tick to move to when the one at ``seen_ms`` is fired at ``now_ms``."""
        if self.catch_up == "skip":
            return self.after(max(seen_ms, now_ms), seen_ms)
        until = now_ms if self.end_ms is None else min(now_ms, self.end_ms)
        missed = self.rhythm(seen_ms).latest_ms(seen_ms, until, CATCH_UP_LIMIT)
        return self._within(missed[0]) if missed else self.after(seen_ms, seen_ms)

    def _within(self, tick: int | None) -> int | None:
        over = tick is None or (self.end_ms is not None and self.end_ms < tick)
        return None if over else tick

    def fields(self) -> list[Argument]:
        pairs: Mapping[str, Argument | None] = {
            "template": self.payload,
            "every_ms": self.every_ms,
            "cron": self.cron,
            "tz": self.tz if self.tz != "UTC" else None,
            "lane": self.lane,
            "priority": self.priority or None,
            "start_ms": self.start_ms,
            "end_ms": self.end_ms,
            "catch_up": self.catch_up if self.catch_up != "skip" else None,
            "source": self.source or None,
        }
        return [
            part for name, value in pairs.items() if value is not None for part in (name, value)
        ]


@dataclass(frozen=True, slots=True)
class Schedule:
    """A registered schedule.

    Attributes:
        definition: what it does.
        next_run: when it fires next; ``None`` while paused and when it is over.
        paused: why it is paused; ``None`` where it is not.
        fired: how many ticks it has fired.
        last_at, last_job: the latest tick, and its occurrence.
    """

    definition: Definition
    next_run: datetime | None
    paused: str | None
    fired: int
    last_at: datetime | None
    last_job: str | None

    @property
    def name(self) -> str:
        return self.definition.name


class Repeat:
    """The verbs of schedules."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue
        self._client = queue.client

    def register(
        self,
        name: str,
        *,
        payload: bytes | str,
        every: Duration | None = None,
        cron: str | None = None,
        tz: str = "UTC",
        lane: str | None = None,
        priority: int = 0,
        start: When | None = None,
        end: When | None = None,
        catch_up: str = "skip",
        replace: bool = False,
        source: str = "",
    ) -> Registered:
        """Registers a schedule.

        Args:
            name: 1 to 128 letters, digits, ``.``, ``_`` or ``-``.
            payload: of each occurrence.
            every: seconds or a timedelta; the first tick is that far from now, or at ``start``.
            cron: a line of five fields.
            tz: the time zone of the cron line.
            lane, priority: of each occurrence.
            start, end: an aware datetime or Unix ms; no tick lies outside of them.
            catch_up: ``skip`` or ``all``; see :class:`Definition`.
            replace: replace a schedule of that name; otherwise it stays as it is.

        Returns:
            ``registered``, ``replaced`` or ``exists``.

        Raises:
            InvalidName, TypeError, ValueError: nothing was sent.
        """
        definition = Definition(
            name=name,
            payload=self._queue.jobs.body(payload),
            every_ms=None if every is None else duration_ms(every, "the interval"),
            cron=cron,
            tz=tz,
            lane=lane,
            priority=priority,
            start_ms=None if start is None else instant_ms(start, "start"),
            end_ms=None if end is None else instant_ms(end, "end"),
            catch_up=catch_up,
            source=source,
        )
        return self._put(definition, replace)

    def _put(self, definition: Definition, replace: bool) -> Registered:
        """Registers a schedule where its lane is, without a lane by its name; nowhere else."""
        home = self._home(definition)
        strays = [p for p in self._queue.parts if p is not home and p.repeat._read(definition.name)]
        if strays and not replace:
            return Registered.EXISTS
        # Gone first: no tick is fired twice.
        for part in strays:
            part.repeat.cancel(definition.name)
        done = home.drive(home.repeat._register(definition, replace))
        return Registered.REPLACED if strays else done

    def _home(self, definition: Definition) -> Queue:
        return self._queue.part_for(definition.lane or definition.name)

    def _register(self, definition: Definition, replace: bool) -> Steps[Registered]:
        now = yield from self._now()
        at = definition.after(now, now)
        word = yield from self._client.run(
            self._queue.call(
                "repeat/register",
                definition.name,
                "replace" if replace else "new",
                "" if at is None else at,
                definition.cadence,
                *definition.fields(),
            )
        )
        return Registered(word.decode())

    def _now(self) -> Steps[int]:
        seconds, microseconds = yield from self._client.command("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    def reconcile(self, definitions: Sequence[Definition], source: str) -> dict[str, str]:
        """Makes the schedules of one source what the definitions say.

        Added and changed ones are registered; those of the source that are not defined any more
        are cancelled. Schedules of other sources are not touched, whatever their name.

        Returns:
            What was done, by name; what stays as it was is left out.
        """
        present: dict[str, Schedule] = {}
        places: dict[str, list[Queue]] = {}
        for part in self._queue.parts:
            for schedule in part.repeat.all():
                present[schedule.name] = schedule
                places.setdefault(schedule.name, []).append(part)
        done: dict[str, str] = {}
        for definition in definitions:
            known = present.get(definition.name)
            if known and known.definition.source != source:
                logger.warning(
                    "Schedule %s of queue %s stays as it is: it was not registered by %s",
                    definition.name,
                    self._queue.name,
                    source,
                )
            elif (
                known is None
                or known.definition != definition
                or places[known.name] != [self._home(definition)]
            ):
                done[definition.name] = self._put(definition, True).value
        wanted = {definition.name for definition in definitions}
        for name, schedule in present.items():
            if (
                schedule.definition.source == source
                and name not in wanted
                and self._drop(name, source)
            ):
                done[name] = "cancelled"
        return done

    def cancel(self, name: str) -> bool:
        """Ends a schedule; its occurrences stay. Answers whether there was one."""
        return self._drop(check_name(name, "a schedule"), "")

    def _drop(self, name: str, source: str) -> bool:
        """Ends a schedule, of one source only where one is given."""
        return any(self._queue.run_all("repeat/cancel", name, source))

    def pause(self, name: str, why: str = "") -> bool:
        """Fires nothing until resumed. Answers whether it was running."""
        check_name(name, "a schedule")
        return any(self._queue.run_all("repeat/pause", name, why))

    def resume(self, name: str) -> bool:
        """Goes on with the next tick in the future. Answers whether it was paused."""
        resumed = [part.repeat._resume(name) for part in self._queue.parts]
        return any(resumed)

    def _resume(self, name: str) -> bool:
        schedule = self.get(name)
        if schedule is None or schedule.paused is None:
            return False
        now = self._client.drive(self._now())
        last = now if schedule.last_at is None else round(schedule.last_at.timestamp() * 1000)
        at = schedule.definition.after(now, last)
        return bool(self._queue.run("repeat/resume", name, "" if at is None else at))

    def run_now(self, name: str) -> Admission:
        """Admits an occurrence beside the cadence, which stays as it is.

        Raises:
            LookupError: there is no such schedule.
        """
        schedule = self.get(name)
        if schedule is None:
            raise LookupError(f"there is no schedule {name!r} in queue {self._queue.name!r}")
        definition = schedule.definition
        return self._queue.jobs.enqueue(
            definition.payload, lane=definition.lane, priority=definition.priority
        )

    def get(self, name: str) -> Schedule | None:
        """A schedule; ``None`` where there is none of that name."""
        check_name(name, "a schedule")
        for part in self._queue.parts:
            for schedule in part.repeat._read(name):
                return schedule
        return None

    def all(self) -> list[Schedule]:
        """Every schedule, by name; those that stock nodes registered too."""
        return self._queue.look(self.look())

    def look(self) -> Look[list[Schedule]]:
        """The steps of :meth:`all`."""
        found: list[Schedule] = []
        for part in self._queue.parts:
            _, flat = yield part.call("repeat/all")
            found += [schedule for schedule in _schedules(flat) if schedule is not None]
        return sorted(found, key=lambda schedule: schedule.name)

    def count(self) -> int:
        """How many schedules there are."""
        return sum(len(part.repeat._read()) for part in self._queue.parts)

    def due(self, limit: int = _DUE_BATCH) -> list[Schedule]:
        """The schedules whose time has come."""
        replies = self._queue.run_all("repeat/due", limit)
        return [s for _, flat in replies for s in _schedules(flat) if s is not None][:limit]

    def fire(self, limit: int = _DUE_BATCH) -> int:
        """Fires what is due, each tick once however many do so; answers how many were fired."""
        return sum(part.drive(part.repeat.firing(limit)) for part in self._queue.parts)

    def firing(self, limit: int = _DUE_BATCH) -> Steps[int]:
        """The steps of :meth:`fire`."""
        now, flat = yield from self._client.run(self._queue.call("repeat/due", limit))
        due: dict[str, tuple[Argument, Argument]] = {}
        for name, score, record in _triples(flat):
            schedule = _schedule(name, score, record)
            if schedule is None:
                yield from self._set_aside(name)
                continue
            seen = round(float(score))
            at = schedule.definition.following(seen, int(now))
            due[schedule.name] = (score, "" if at is None else at)
        fired = 0
        while due:
            ids = yield from self._queue.mint(len(due))
            replies = yield from self._client.run_many(
                [
                    self._queue.call("repeat/fire", due_name, *scores, job_id)
                    for (due_name, scores), job_id in zip(due.items(), ids, strict=True)
                ]
            )
            for fired_name, reply in zip(list(due), replies, strict=True):
                if isinstance(reply, Exception):
                    raise refusal_of(reply) or reply
                fired += reply == 1
                if reply >= 0:
                    del due[fired_name]
        return fired

    def _set_aside(self, name: bytes) -> Steps[None]:
        """Pauses a record that cannot be read, which would otherwise be due for ever."""
        logger.error(
            "Schedule %r of queue %s cannot be read and was paused", name, self._queue.name
        )
        yield from self._client.run(self._queue.call("repeat/pause", name, "it cannot be read"))

    def _read(self, *names: str) -> list[Schedule]:
        _, flat = self._queue.run("repeat/all", *names)
        return [schedule for schedule in _schedules(flat) if schedule is not None]


def _triples(flat: Sequence[Any]) -> list[tuple[bytes, bytes, list[bytes]]]:
    return [(flat[i], flat[i + 1], flat[i + 2]) for i in range(0, len(flat), 3)]


def _schedules(flat: Sequence[Any]) -> list[Schedule | None]:
    return [_schedule(*triple) for triple in _triples(flat)]


def _schedule(name: bytes, score: bytes, record: list[bytes]) -> Schedule | None:
    """Reads a record, ours or a stock node's; ``None`` where it cannot be read."""
    fields = {
        key.decode("ascii", "replace"): value
        for key, value in zip(record[::2], record[1::2], strict=False)
    }

    def text(key: str) -> str | None:
        return fields[key].decode() if key in fields else None

    def whole(key: str) -> int | None:
        return int(fields[key]) if key in fields else None

    try:
        definition = Definition(
            name=name.decode(),
            payload=fields["template"],
            every_ms=None if "cron" in fields else whole("every_ms"),
            cron=text("cron"),
            tz=text("tz") or "UTC",
            lane=text("lane"),
            priority=whole("priority") or 0,
            start_ms=whole("start_ms"),
            end_ms=whole("end_ms"),
            catch_up=text("catch_up") or "skip",
            source=text("source") or "",
        )
        last_at = whole("last_at")
        return Schedule(
            definition,
            datetime.fromtimestamp(float(score) / 1000, UTC) if score else None,
            text("paused"),
            whole("fired") or 0,
            None if last_at is None else datetime.fromtimestamp(last_at / 1000, UTC),
            text("last_job"),
        )
    except (KeyError, ValueError, TypeError, OverflowError, OSError):
        return None
