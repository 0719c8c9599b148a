"""A queue beside a plain model of one, under random verbs of every kind.

The model predicts what each verb answers and where each job stands then; what is on the server is
compared with it after every step, key by key.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, ClassVar

import pytest
import redis
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from django_echomq.queue import Claim, Queue, QueueOptions, Unique
from django_echomq.queue.jobs import Settlement
from django_echomq.wire.client import Client, Command, Reply
from django_echomq.wire.errors import (
    ActiveJobs,
    JobGone,
    JobLocked,
    NotDead,
    NotPaused,
    StaleToken,
    WrongState,
)
from django_echomq.wire.ids import process_mint
from django_echomq.wire.scripts import script
from django_echomq.worker.promoter import tick_call
from tests.queue.keyspace import SETS, fall_due, lapse, server_ms, snapshot

LANES = [None, "a", "b", "c"]
NAMES = [lane for lane in LANES if lane is not None]
KEYS = ["one", "two"]
SCHEDULES = ["tick", "tock"]
BUDGETS = {"retry": 2, "bury": 1}
MAX_STALLED = 2
KEEP_MAX = 4
LONG = 3_600  # seconds, longer than any run
OWN_IDS = [f"JOB0NsVQMCRg{i:02}" for i in range(4)]  # minted long ago
NOBODY = "JOB0NsVQMCRgZZ"
PAST = 1
FAR = 253_402_300_799_999
UNIQUES = [
    None,
    None,
    *(
        Unique(key, ttl, until, on_conflict)
        for key in KEYS
        for until, ttl in (("done", None), ("done", LONG), ("started", None), ("ttl", LONG))
        for on_conflict in ("skip", "replace")
    ),
]
# What may stand in their place stops no verb and changes no answer.
HINTS = ["wake", "limiter", "metrics:completed", "metrics:failed", "metrics:cancelled", "gweight"]
SETTLING = ["complete", "retry", "bury", "delay", "release", "cancel"]
# Where a key of another type may stand while one of these verbs runs.
INDEXES = ["outcomes", "died", "cancels", "throttled", "gactive"]
VERBS: dict[str, dict[str, st.SearchStrategy[Any]]] = {
    "settle": {
        "verb": st.sampled_from(SETTLING),
        "at_once": st.booleans(),
    },
    "extend": {"ask": st.booleans()},
    "remove": {"unlock": st.booleans()},
    "reschedule": {"when": st.sampled_from([PAST, FAR])},
    "cancel": {"reason": st.just("why")},
    "reassign": {"lane": st.sampled_from(LANES)},
    "promote_now": {},
    "reprocess": {},
    "update_data": {"anew": st.booleans()},
    "promote": {},
    "reap": {"lane": st.sampled_from(LANES)},
    "sweep": {"ceiling": st.sampled_from([None, 0, 1])},
    "fire": {},
    "promote_all": {},
    "reprocess_all": {},
    "drain": {"scheduled": st.booleans()},
}
WITHOUT_DATA = {"promote", "reap", "sweep", "fire", "promote_all", "reprocess_all", "drain"}
# Calls that answer the same when their first reply was lost.
_REPEATABLE = """
jobs/enqueue jobs/settle jobs/cancel jobs/reprocess jobs/promote_now jobs/remove jobs/reschedule
jobs/update_data jobs/extend_locks jobs/checkpoint admin/drain admin/clean admin/reprocess_all
admin/promote_all admin/obliterate lanes/limit lanes/weight admin/limit_concurrency admin/limit_rate
"""
REPEATABLE = {script(name).sha for name in _REPEATABLE.split()}


class Forgetful(Client):
    """A client that, while told to, loses the first reply of each call and sends it again."""

    forgets = False

    def roundtrip(
        self, commands: list[Command], meanwhile: Callable[[], object] | None = None
    ) -> list[Reply]:
        replies = super().roundtrip(commands, meanwhile)
        repeatable = all(c[0] == "EVALSHA" and c[1] in REPEATABLE for c in commands)
        if self.forgets and repeatable:
            return super().roundtrip(commands)
        return replies


@dataclass
class Row:
    """What the model knows of a job."""

    payload: bytes
    lane: str | None
    priority: int
    unique: Unique | None
    where: str  # pending, active, schedule or dead; completed or cancelled as a record
    attempts: int = 0
    spared: int = 0  # claims that do not count
    stalled: int = 0
    due: bool = False
    lapsed: bool = False
    extended: bool = False
    ends: bool = False  # buried with a time at which it goes
    asked: str | None = None  # why it is to be cancelled
    error: str | None = None
    logs: int = 0
    claim: Claim | None = field(default=None, repr=False)


@dataclass
class Hold:
    """Who holds a unique key."""

    job_id: str
    unique: Unique


class Model(RuleBasedStateMachine):
    """The verbs, each with what the model expects of it."""

    client: Forgetful
    raw: redis.Redis
    numbers: ClassVar[Counter[str]] = Counter()

    @initialize(keep=st.booleans(), bury_for=st.sampled_from([0, LONG * 1000]))
    def begin(self, keep: bool, bury_for: int) -> None:
        self.numbers["machines"] += 1
        self.client.forgets = False
        self.keep, self.bury_for = keep, bury_for
        self.queue = Queue(
            f"model-{process_mint.mint(1)}",
            self.client,
            QueueOptions(
                max_attempts=BUDGETS["retry"],
                max_stalled=MAX_STALLED,
                keep_completed_ms=LONG * 1000 if keep else 0,
                keep_completed_max=KEEP_MAX,
                keep_dead_ms=bury_for,
                lease_ms=LONG * 1000,
            ),
        )
        self.old: list[Claim] = []  # claims that are over
        self.bodies = self.length = 0
        self.slack = False
        self.afresh()

    def afresh(self) -> None:
        self.limits: dict[str, int] = {}
        self.still: set[str] = set()  # paused lanes
        self.concurrency: int | None = None
        self.started: int = 0  # within the rate's window, which does not end
        self.rate: int | None = None
        self.paused = False
        self.rows: dict[str, Row] = {}
        self.records: dict[str, Row] = {}
        self.holds: dict[str, Hold] = {}
        self.tokens: dict[str, int] = {}
        self.totals = {"completed": 0, "failed": 0, "cancelled": 0}
        self.schedules: dict[str, tuple[str | None, bool, bool]] = {}  # lane, paused, due
        self.foreign: str | None = None

    def teardown(self) -> None:
        if not hasattr(self, "queue"):
            return
        self.client.forgets = False
        self.numbers["longest"] = max(self.numbers["longest"], self.length)
        for key in self.raw.keys(b"emq:{%s}:*" % self.queue.name.encode()):
            self.raw.delete(key)

    # What the model knows

    def standing(self, where: str) -> dict[str, Row]:
        return {job_id: row for job_id, row in self.rows.items() if row.where == where}

    def waiting(self) -> dict[str, Row]:
        return self.standing("pending") | self.standing("schedule")

    def claims(self) -> list[Claim]:
        return [row.claim for row in self.rows.values() if row.claim is not None]

    def active_in(self, lane: str | None) -> int:
        return sum(row.lane == lane for row in self.standing("active").values())

    def line(self, lane: str | None) -> list[str]:
        """The waiting jobs of a lane, in the order in which they are to be claimed."""
        waiting = self.standing("pending")
        mine = [job_id for job_id, row in waiting.items() if row.lane == lane]
        return sorted(mine, key=lambda job_id: (-self.rows[job_id].priority, job_id))

    def headroom(self, lane: str) -> int:
        if lane in self.still:
            return 0
        return max(0, self.limits.get(lane, 10_000) - self.active_in(lane))

    def room(self, lane: str | None) -> int:
        waiting = len(self.line(lane))
        return waiting if lane is None else min(waiting, self.headroom(lane))

    def queue_room(self) -> int:
        """How many more jobs the limits of the queue let start."""
        room = 10_000
        if self.concurrency is not None:
            room = min(room, self.concurrency - len(self.standing("active")))
        if self.rate is not None:
            room = min(room, self.rate - self.started)
        return max(0, room)

    def holder(self, key: str) -> str | None:
        hold = self.holds.get(key)
        if hold is None:
            return None
        row = self.rows.get(hold.job_id)
        lives = row is not None and row.where in ("pending", "active", "schedule")
        return hold.job_id if lives or hold.unique.until == "ttl" else None

    # What becomes of jobs

    def body(self) -> bytes:
        self.bodies += 1
        return b"%d" % self.bodies

    def admit(self, job_id: str, row: Row) -> None:
        assert job_id not in self.rows
        self.rows[job_id] = row
        self.tokens.pop(job_id, None)

    def free(self, job_id: str, unique: Unique | None) -> None:
        hold = self.holds.get(unique.key) if unique else None
        if unique and hold and hold.job_id == job_id and hold.unique.until != "ttl":
            del self.holds[unique.key]

    def leave(self, row: Row) -> None:
        """Out of hand, in whatever way."""
        if row.claim is not None:
            self.old.append(row.claim)  # its token counts until somebody else claims
        row.claim, row.asked = None, None
        row.lapsed = row.extended = row.due = False

    def end(self, job_id: str) -> None:
        """Gone with everything."""
        row = self.rows.pop(job_id)
        self.leave(row)
        self.free(job_id, row.unique)

    def conclude(self, job_id: str, state: str, error: str | None) -> None:
        row = self.rows[job_id]
        self.end(job_id)
        self.totals[state] += 1
        if self.keep:
            row.where, row.error = state, error
            self.records[job_id] = row

    def bury(self, job_id: str, error: str) -> None:
        row = self.rows[job_id]
        self.leave(row)
        self.free(job_id, row.unique)
        row.where, row.error, row.ends = "dead", error, self.bury_for > 0
        self.totals["failed"] += 1

    def bring_back(self, job_id: str) -> None:
        row = self.rows[job_id]
        row.where, row.spared, row.stalled, row.error, row.ends = (
            "pending",
            row.attempts,
            0,
            None,
            False,
        )
        unique = row.unique
        if unique and unique.until != "ttl" and self.holder(unique.key) is None:
            self.holds[unique.key] = Hold(job_id, unique)

    # Who is meant

    def any_claim(self, data: st.DataObject) -> Claim:
        """Mostly one that is held, at times one that is over or was never given."""
        claim = data.draw(st.sampled_from(self.claims() + self.old[-3:]))
        return data.draw(st.sampled_from([claim] * 5 + [replace(claim, attempts=99)]))

    def any_id(self, data: st.DataObject) -> str:
        known = [*self.rows, *self.rows, *self.records]
        return data.draw(st.sampled_from([*known, NOBODY]))

    def one_of(self, data: st.DataObject, where: str) -> str:
        return data.draw(st.sampled_from(sorted(self.standing(where))))

    # Admissions

    @rule(
        lane=st.sampled_from(LANES),
        priority=st.integers(-3, 3),
        unique=st.sampled_from(UNIQUES),
        own=st.sampled_from([None, None, *OWN_IDS]),
        when=st.sampled_from(["now", "now", "past", "later"]),
    )
    def enqueue(
        self, lane: str | None, priority: int, unique: Unique | None, own: str | None, when: str
    ) -> None:
        body, jobs = self.body(), self.queue.jobs
        options: dict[str, Any] = {
            "job_id": own,
            "lane": lane,
            "priority": priority,
            "unique": unique,
        }
        if when == "now":
            admission = jobs.enqueue(body, **options)
        elif when == "past":
            admission = jobs.enqueue_at(body, PAST, **options)
        else:
            admission = jobs.enqueue_in(body, LONG, **options)
        if own in self.rows:
            assert (admission.job_id, admission.outcome) == (own, "duplicate")
            return
        if unique is not None and (holder := self.holder(unique.key)) is not None:
            if unique.on_conflict == "skip" or holder not in self.waiting():
                assert (admission.job_id, admission.outcome) == (holder, "duplicate")
                return
            self.conclude(holder, "cancelled", f"replaced by {admission.job_id}")
        assert admission.outcome == ("enqueued" if when == "now" else "scheduled")
        assert admission.job_id == (own or admission.job_id)
        where = "pending" if when == "now" else "schedule"
        if self.records.pop(admission.job_id, None):
            # The record of the replaced job may have pushed another out before.
            self.slack = len(self.records) >= KEEP_MAX
        self.admit(admission.job_id, Row(body, lane, priority, unique, where, due=when == "past"))
        if unique is not None:
            self.holds[unique.key] = Hold(admission.job_id, unique)

    @rule(lane=st.sampled_from(LANES), unique=st.sampled_from(UNIQUES[2:]), now=st.booleans())
    def enqueue_under_a_key(self, lane: str | None, unique: Unique, now: bool) -> None:
        self.enqueue(lane, 0, unique, None, "now" if now else "later")

    @rule(count=st.integers(0, 6), lane=st.sampled_from(LANES), priority=st.integers(-1, 1))
    def enqueue_many(self, count: int, lane: str | None, priority: int) -> None:
        bodies = [self.body() for _ in range(count)]
        admissions = self.queue.jobs.enqueue_many(bodies, lane=lane, priority=priority)
        for body, admission in zip(bodies, admissions, strict=True):
            assert admission.outcome == "enqueued"
            self.admit(admission.job_id, Row(body, lane, priority, None, "pending"))

    # Schedules

    @rule(name=st.sampled_from(SCHEDULES), lane=st.sampled_from(LANES), anew=st.booleans())
    def register(self, name: str, lane: str | None, anew: bool) -> None:
        word = self.queue.repeat.register(
            name, payload=name.encode(), every=LONG, lane=lane, replace=anew
        )
        there = name in self.schedules
        assert word == ("replaced" if there and anew else "exists" if there else "registered")
        if anew or not there:
            _, paused, due = self.schedules.get(name, (None, False, False))
            self.schedules[name] = (lane, paused, due)

    @rule(name=st.sampled_from(SCHEDULES), verb=st.sampled_from(["pause", "resume", "cancel"]))
    def operate_schedule(self, name: str, verb: str) -> None:
        lane, paused, _ = self.schedules.get(name, (None, False, False))
        there = name in self.schedules
        changed = getattr(self.queue.repeat, verb)(name)
        if verb == "cancel":
            assert changed is there
            self.schedules.pop(name, None)
        else:
            assert changed is (there and paused is (verb == "resume"))
            if changed:
                self.schedules[name] = (lane, not paused, False)

    @precondition(lambda self: self.schedules)
    @rule(data=st.data())
    def let_schedule_fall_due(self, data: st.DataObject) -> None:
        name = data.draw(st.sampled_from(sorted(self.schedules)))
        lane, paused, _ = self.schedules[name]
        if not paused:
            self.raw.zadd(self.queue.keys.base + b"repeat", {name: 1}, xx=True)
            self.schedules[name] = (lane, False, True)

    @rule()
    def fire(self) -> None:
        due = [name for name, (_, _, due) in self.schedules.items() if due]
        assert self.queue.repeat.fire() == len(due)
        for name in due:
            lane = self.schedules[name][0]
            schedule = self.queue.repeat.get(name)
            assert schedule is not None
            assert schedule.last_job is not None
            self.admit(schedule.last_job, Row(name.encode(), lane, 0, None, "pending"))
            self.schedules[name] = (lane, False, False)

    # A stock peer's

    @rule(lane=st.sampled_from(LANES), later=st.booleans())
    def stock_enqueue(self, lane: str | None, later: bool) -> None:
        job_id, body, base = process_mint.mint(1), self.body(), self.queue.keys.base
        fields = {"state": "scheduled" if later else "pending", "attempts": 0, "payload": body}
        if lane is not None:
            fields["group"] = lane
        self.raw.hset(self.queue.keys.job(job_id), mapping=fields)
        if later:
            self.raw.zadd(self.queue.keys.schedule, {job_id: PAST})
        elif lane is None:
            self.raw.zadd(self.queue.keys.pending, {job_id: 0})
        else:
            self.raw.zadd(self.queue.keys.lane(lane), {job_id: 0})
            if self.headroom(lane) > 0 and self.raw.lpos(base + b"ring", lane) is None:
                self.raw.rpush(base + b"ring", lane)
        self.admit(job_id, Row(body, lane, 0, None, "schedule" if later else "pending", due=later))

    @precondition(lambda self: self.line(None))
    @rule()
    def stock_claim(self) -> None:
        """It heeds no limit, sets no lock and leaves the unique key."""
        expected = self.line(None)[0]
        ((member, _),) = self.raw.zpopmin(self.queue.keys.pending)
        assert member.decode() == expected
        key, row = self.queue.keys.job(expected), self.rows[expected]
        row.attempts = self.raw.hincrby(key, "attempts", 1)
        self.raw.hset(key, "state", "active")
        self.raw.zadd(self.queue.keys.active, {expected: server_ms(self.raw) + LONG * 1000})
        row.where = "active"
        row.claim = Claim(expected, row.payload, row.attempts)

    @precondition(lambda self: self.standing("active"))
    @rule(data=st.data())
    def stock_bury(self, data: st.DataObject) -> None:
        """It frees no key and says nothing of when."""
        job_id = self.one_of(data, "active")
        row, base = self.rows[job_id], self.queue.keys.base
        if row.lane is not None or row.extended:
            return
        key = self.queue.keys.job(job_id)
        self.raw.zrem(self.queue.keys.active, job_id)
        self.raw.hset(key, mapping={"state": "dead", "last_error": "stock"})
        self.raw.zadd(base + b"dead", {job_id: 0})
        asked = row.asked  # its field and its entry stay, too
        self.leave(row)
        if asked is not None:
            self.raw.hdel(key, "cancel")
            self.raw.hdel(base + b"cancels", job_id)
        row.where, row.error = "dead", "stock"
        if self.foreign != "metrics:failed":
            self.raw.hincrby(self.queue.keys.metric("failed"), "count", 1)
            self.totals["failed"] += 1

    @precondition(lambda self: self.foreign is None)
    @rule(name=st.sampled_from(HINTS), kind=st.sampled_from(["string", "set"]))
    def put_a_foreign_hint(self, name: str, kind: str) -> None:
        """A key of another type in the place of a counter or a hint."""
        self.raw.delete(self.queue.keys.base + name.encode())
        self.put(name, kind)
        self.foreign = name

    @precondition(lambda self: self.foreign is not None)
    @rule()
    def take_the_foreign_hint(self) -> None:
        name = str(self.foreign)
        self.raw.delete(self.queue.keys.base + name.encode())
        if name.startswith("metrics:"):
            self.totals[name.removeprefix("metrics:")] = 0
        self.foreign = None

    def put(self, name: str, kind: str) -> None:
        key = self.queue.keys.base + name.encode()
        if kind == "string":
            self.raw.set(key, "foreign")
        else:
            self.raw.sadd(key, "foreign")

    @rule(
        data=st.data(),
        place=st.sampled_from([*INDEXES, *SETS]),
        kind=st.sampled_from(["string", "set"]),
        verb=st.sampled_from(list(VERBS)),
    )
    def under_a_foreign_place(self, data: st.DataObject, place: str, kind: str, verb: str) -> None:
        """With a key of another type where a set would be, a verb goes through as ever, or is
        refused and has changed nothing."""
        key = self.queue.keys.base + place.encode()
        arguments = {name: data.draw(strategy) for name, strategy in VERBS[verb].items()}
        if verb in ("settle", "extend") and not (self.claims() or self.old):
            return
        if verb == "reassign" and place == "gactive":
            return  # what the lane has in hand could not be counted
        if verb not in WITHOUT_DATA:
            arguments["data"] = data
        if self.raw.exists(key):
            return
        self.put(place, kind)
        before = snapshot(self.queue, self.raw)
        try:
            getattr(self, verb)(**arguments)
        except redis.ResponseError:
            assert snapshot(self.queue, self.raw) == before
        self.raw.delete(key)
        # What was to be listed there ends by itself, or stays.
        for job_id in self.records if place == "outcomes" else ():
            self.raw.zadd(key, {job_id: server_ms(self.raw) + LONG * 1000})
        for row in self.rows.values() if place == "died" else ():
            row.ends = False

    # Claims

    @rule(limit=st.integers(1, 8))
    def claim(self, limit: int) -> None:
        self.exchange((), limit)

    @precondition(lambda self: self.claims() or self.old)
    @rule(data=st.data(), verb=st.sampled_from(SETTLING), at_once=st.booleans())
    def settle(self, data: st.DataObject, verb: str, at_once: bool) -> None:
        claim = self.any_claim(data)
        (word,) = self.exchange([(claim, verb, at_once)], 0)
        refusal = {"stale": StaleToken, "gone": JobGone}.get(word)
        if refusal is not None:
            with pytest.raises(refusal):
                self.queue.jobs.complete(claim)

    @rule(limit=st.integers(1, 4), verb=st.sampled_from(SETTLING), at_once=st.booleans())
    def work(self, limit: int, verb: str, at_once: bool) -> None:
        held = {claim.job_id for claim in self.claims()}
        self.claim(limit)
        new = [claim for claim in self.claims() if claim.job_id not in held]
        self.exchange([(claim, verb, at_once) for claim in new], 0)

    @precondition(lambda self: self.claims() or self.old)
    @rule(data=st.data(), limit=st.integers(0, 5), count=st.integers(1, 4))
    def settle_and_claim(self, data: st.DataObject, limit: int, count: int) -> None:
        """What a worker does in one step; it may name a claim twice."""
        verbs = st.tuples(st.sampled_from(SETTLING), st.booleans())
        self.exchange([(self.any_claim(data), *data.draw(verbs)) for _ in range(count)], limit)

    def exchange(self, ends: Sequence[tuple[Claim, str, bool]], limit: int) -> list[str]:
        """Ends claims and claims, in one call."""
        settlements = [self.settlement(*end) for end in ends]
        reply = self.queue.jobs._exchange(settlements, limit)
        words = [self.settled(*end) for end in ends]
        assert reply.settled == words
        self.claimed(reply.claims, limit)
        due = [row.due for row in self.standing("schedule").values()]
        assert (reply.next_due_ms is None) is (not due)
        assert (reply.next_due_ms == 0) is any(due)
        held_back = self.rate is not None and self.started >= self.rate and not self.paused
        waits = self.line(None) or any(self.room(lane) for lane in NAMES)
        assert (reply.token_ms is not None) is bool(limit and held_back and waits)
        return words

    def settlement(self, claim: Claim, verb: str, at_once: bool) -> Settlement:
        jobs, delay = self.queue.jobs, 0 if at_once else LONG
        if verb == "complete":
            return jobs.completion(claim, b"result")
        if verb == "cancel":
            return jobs.cancellation(claim, "told")
        if verb == "release":
            return jobs.giving_back(claim)
        if verb == "delay":
            return Settlement("delay", claim, ("at", PAST if at_once else FAR))
        return jobs.failure(claim, delay, BUDGETS[verb], error="no luck")

    def settled(self, claim: Claim, verb: str, at_once: bool) -> str:
        """What becomes of the job, and the word for it."""
        row = self.rows.get(claim.job_id)
        if row is None:
            return "gone"
        if row.attempts != claim.attempts or row.where in ("schedule", "dead"):
            return "stale"
        if verb == "complete":
            self.conclude(claim.job_id, "completed", None)
            return "done"
        if verb == "cancel" or row.asked is not None:
            self.conclude(claim.job_id, "cancelled", row.asked or "told")
            return "cancelled"
        if verb in BUDGETS and row.attempts - row.spared >= BUDGETS[verb]:
            self.bury(claim.job_id, "no luck")
            return "dead"
        self.leave(row)
        if verb in BUDGETS:
            row.error = "no luck"
        else:
            row.spared += 1
        row.where = "pending" if verb == "release" else "schedule"
        row.due = at_once and row.where == "schedule"
        return "released" if verb == "release" else "scheduled"

    def claimed(self, claims: list[Claim], limit: int) -> None:
        rooms = {lane: self.room(lane) for lane in LANES}
        most = min(limit, self.queue_room())
        assert len(claims) == (0 if self.paused else min(most, sum(rooms.values())))
        for lane in LANES:
            mine = [claim.job_id for claim in claims if claim.lane == lane]
            assert mine == self.line(lane)[: len(mine)]
            assert len(mine) <= rooms[lane]
        if self.rate is not None:
            self.started += len(claims)
        for claim in claims:
            row = self.rows[claim.job_id]
            row.attempts += 1
            row.where, row.claim = "active", claim
            if row.unique and row.unique.until == "started":
                self.free(claim.job_id, row.unique)
            attempt = row.attempts - row.spared
            assert claim == Claim(
                claim.job_id, row.payload, row.attempts, row.lane, attempt, b"", row.stalled
            )

    @precondition(lambda self: self.claims() or self.old)
    @rule(data=st.data(), ask=st.booleans())
    def extend(self, data: st.DataObject, ask: bool) -> None:
        claim = self.any_claim(data)
        row = self.rows.get(claim.job_id)
        held = row is not None and row.where == "active" and row.attempts == claim.attempts
        if not ask:
            over = self.queue.jobs.extend_locks([claim])
            assert over == ([] if held else [claim.job_id])
        elif held:
            assert row is not None
            assert self.queue.jobs.checkpoint(claim) == row.asked
        else:
            with pytest.raises(JobGone if row is None else StaleToken):
                self.queue.jobs.checkpoint(claim)
        if row is not None and held:
            row.lapsed, row.extended = False, True

    # Time

    @precondition(lambda self: self.claims())
    @rule(data=st.data(), every=st.booleans())
    def let_lapse(self, data: st.DataObject, every: bool) -> None:
        claims = self.claims() if every else [data.draw(st.sampled_from(self.claims()))]
        lapse(self.queue, self.raw, *claims)
        for claim in claims:
            self.rows[claim.job_id].lapsed = True

    @precondition(lambda self: self.standing("schedule"))
    @rule(data=st.data())
    def let_fall_due(self, data: st.DataObject) -> None:
        job_id = self.one_of(data, "schedule")
        fall_due(self.queue, self.raw, job_id)
        self.rows[job_id].due = True

    @precondition(lambda self: self.holds)
    @rule(data=st.data())
    def let_a_key_end(self, data: st.DataObject) -> None:
        """As if its ttl were over."""
        key = data.draw(st.sampled_from(sorted(self.holds)))
        if self.holds[key].unique.ttl is not None:
            self.raw.delete(self.queue.keys.base + b"de:" + key.encode())
            self.raw.zadd(self.queue.keys.base + b"throttled", {key: 1}, xx=True)
            del self.holds[key]

    @rule()
    def promote(self) -> None:
        assert self.queue.jobs.promote() == self.promote_due()

    def promote_due(self) -> int:
        due = [row for row in self.standing("schedule").values() if row.due]
        for row in due:
            row.where, row.due = "pending", False
        return len(due)

    @rule(lane=st.sampled_from(LANES))
    def reap(self, lane: str | None) -> None:
        """All, or those of a lane."""
        lapsed = {
            job_id
            for job_id, row in self.standing("active").items()
            if row.lapsed and lane in (None, row.lane)
        }
        found = self.queue.jobs.reap() if lane is None else self.queue.lanes.reap(lane)
        assert (found, 0) == self.recover(lapsed, 0)

    @rule(ceiling=st.sampled_from([None, 0, 1]))
    def sweep(self, ceiling: int | None) -> None:
        lapsed = {job_id for job_id, row in self.standing("active").items() if row.lapsed}
        swept = self.queue.stalled.check(ceiling)
        expected = self.recover(lapsed, MAX_STALLED if ceiling is None else ceiling)
        assert (swept.recovered, swept.dead) == expected

    def recover(self, lapsed: set[str], max_stalled: int) -> tuple[int, int]:
        recovered = buried = 0
        for job_id in lapsed:
            row = self.rows[job_id]
            if row.asked is not None:
                self.conclude(job_id, "cancelled", row.asked)
                continue
            self.leave(row)
            row.stalled += max_stalled > 0
            if 0 < max_stalled <= row.stalled:
                self.bury(job_id, "stalled")
                buried += 1
            else:
                row.where = "pending"
                recovered += 1
        return recovered, buried

    @rule(records=st.booleans(), dead=st.booleans())
    def tick(self, records: bool, dead: bool) -> None:
        """A beat of the promoter, perhaps when the time of some that ended is over."""
        base = self.queue.keys.base
        promoted = self.promote_due()
        ended = 0
        if records:
            ended += len(self.records)
            for job_id in self.records:
                self.raw.zadd(self.queue.keys.outcomes, {job_id: 1}, xx=True)
            self.records.clear()
        if dead:
            for job_id, row in self.standing("dead").items():
                if row.ends:
                    self.raw.zadd(base + b"died", {job_id: 1}, xx=True)
                    self.end(job_id)
                    ended += 1
        lapsed = {job_id for job_id, row in self.standing("active").items() if row.lapsed}
        expected = self.recover(lapsed, MAX_STALLED)
        reply = self.queue.drive(self.client.run(tick_call(self.queue, 100)))
        assert reply[:4] == [promoted, *expected, ended]

    # Single jobs

    @rule(data=st.data(), unlock=st.booleans())
    def remove(self, data: st.DataObject, unlock: bool) -> None:
        job_id = self.any_id(data)
        row = self.rows.get(job_id)
        if unlock and row is not None:
            # The marker of a job in hand ends with a crashed worker's second lease.
            self.raw.delete(self.queue.keys.job(job_id) + b":lock")
            self.raw.hdel(self.queue.keys.job(job_id), "lock")
            row.extended = False
        if row is None and job_id not in self.records:
            with pytest.raises(JobGone):
                self.queue.jobs.remove(job_id)
        elif row is not None and (row.extended or (row.where == "active" and not row.lapsed)):
            with pytest.raises(JobLocked):
                self.queue.jobs.remove(job_id)
        else:
            self.queue.jobs.remove(job_id)
            self.records.pop(job_id, None)
            if row is not None:
                self.end(job_id)

    @rule(data=st.data(), when=st.sampled_from([PAST, FAR]))
    def reschedule(self, data: st.DataObject, when: int) -> None:
        job_id = self.any_id(data)
        row = self.rows.get(job_id)
        if row is not None and row.where in ("pending", "schedule"):
            self.queue.jobs.reschedule(job_id, when)
            row.where, row.due = "schedule", when == PAST
        else:
            with pytest.raises(JobGone if row is None else WrongState):
                self.queue.jobs.reschedule(job_id, when)

    @rule(data=st.data())
    def promote_now(self, data: st.DataObject) -> None:
        job_id = self.any_id(data)
        row = self.rows.get(job_id)
        if row is not None and row.where == "schedule":
            self.queue.jobs.promote_now(job_id)
            row.where, row.due = "pending", False
        else:
            with pytest.raises(JobGone if row is None else WrongState):
                self.queue.jobs.promote_now(job_id)

    @rule(data=st.data(), reason=st.sampled_from(["why", "why not"]))
    def cancel(self, data: st.DataObject, reason: str) -> None:
        held = [claim.job_id for claim in self.claims()]
        job_id = data.draw(st.sampled_from([self.any_id(data), *held]))
        row = self.rows.get(job_id)
        if row is None or row.where == "dead":
            with pytest.raises(JobGone if row is None else WrongState):
                self.queue.jobs.cancel(job_id, reason)
        elif row.where == "active":
            assert self.queue.jobs.cancel(job_id, reason) == "asked"
            row.asked = reason
        else:
            assert self.queue.jobs.cancel(job_id, reason) == "cancelled"
            self.conclude(job_id, "cancelled", reason)

    @rule(data=st.data())
    def reprocess(self, data: st.DataObject) -> None:
        ended = [*self.standing("dead"), *self.records]
        job_id = data.draw(st.sampled_from(ended)) if ended else self.any_id(data)
        row, record = self.rows.get(job_id), self.records.get(job_id)
        if record is not None and record.where == "cancelled":
            self.queue.jobs.reprocess(job_id)
            self.rows[job_id] = self.records.pop(job_id)
            self.bring_back(job_id)
        elif row is not None and row.where == "dead":
            self.queue.jobs.reprocess(job_id)
            self.bring_back(job_id)
        else:
            with pytest.raises(JobGone if row is record is None else NotDead):
                self.queue.jobs.reprocess(job_id)

    @rule(data=st.data(), anew=st.booleans())
    def update_data(self, data: st.DataObject, anew: bool) -> None:
        job_id = self.any_id(data)
        row = self.rows.get(job_id)
        body = self.body() if anew or row is None else row.payload
        if row is None or (row.where == "active" and anew):
            with pytest.raises(JobGone if row is None else WrongState):
                self.queue.jobs.update_data(job_id, body)
        else:
            self.queue.jobs.update_data(job_id, body)
            row.payload = body

    @rule(data=st.data())
    def add_log(self, data: st.DataObject) -> None:
        job_id = self.any_id(data)
        row = self.rows.get(job_id)
        if row is None:
            with pytest.raises(JobGone):
                self.queue.jobs.add_log(job_id, "line", keep=2)
        else:
            row.logs = min(2, row.logs + 1)
            assert self.queue.jobs.add_log(job_id, "line", keep=2) == row.logs

    # Lanes

    @rule(lane=st.sampled_from(NAMES), paused=st.sampled_from([False, False, True]))
    def pause_or_resume_a_lane(self, lane: str, paused: bool) -> None:
        verb = self.queue.lanes.pause if paused else self.queue.lanes.resume
        assert verb(lane) is ((lane in self.still) is not paused)
        (self.still.add if paused else self.still.discard)(lane)

    @rule(lane=st.sampled_from(NAMES), most=st.sampled_from([None, 1, 2, 5]))
    def limit_lane(self, lane: str, most: int | None) -> None:
        self.queue.lanes.limit(lane, most)
        self.limits.pop(lane, None)
        if most is not None:
            self.limits[lane] = most

    @precondition(lambda self: self.foreign != "gweight")
    @rule(lane=st.sampled_from(NAMES), jobs=st.sampled_from([None, 1, 2, 5]))
    def weigh_lane(self, lane: str, jobs: int | None) -> None:
        self.queue.lanes.weight(lane, jobs)

    @precondition(lambda self: len(self.rows) > 8)
    @rule(lane=st.sampled_from(NAMES))
    def drain_lane(self, lane: str) -> None:
        gone = self.line(lane)
        assert self.queue.lanes.drain(lane) == len(gone)
        for job_id in gone:
            self.end(job_id)

    @rule(data=st.data(), lane=st.sampled_from(LANES))
    def reassign(self, data: st.DataObject, lane: str | None) -> None:
        job_id = self.any_id(data)
        row = self.rows.get(job_id)
        if row is None or row.where in ("schedule", "dead"):
            with pytest.raises(JobGone if row is None else WrongState):
                self.queue.lanes.reassign(job_id, lane)
            return
        word = self.queue.lanes.reassign(job_id, lane)
        assert word == ("noop" if row.lane == lane else "moved")
        row.lane = lane

    # The whole queue

    @rule(most=st.sampled_from([None, None, None, 1, 3]))
    def limit_concurrency(self, most: int | None) -> None:
        self.queue.admin.limit_concurrency(most)
        self.concurrency = most

    @rule(count=st.sampled_from([None, None, None, 2, 10]))
    def limit_rate(self, count: int | None) -> None:
        self.queue.admin.limit_rate(None if count is None else f"{count}/d")
        self.rate = count
        if self.foreign == "limiter":  # it is written anew
            self.foreign = None
        if count is None:
            self.started = 0

    @rule(paused=st.sampled_from([False, False, True]))
    def pause_or_resume(self, paused: bool) -> None:
        verb = self.queue.admin.pause if paused else self.queue.admin.resume
        assert verb() is (self.paused is not paused)
        self.paused = paused

    @precondition(lambda self: len(self.rows) > 8)
    @rule(scheduled=st.booleans())
    def drain(self, scheduled: bool) -> None:
        gone = self.waiting() if scheduled else self.standing("pending")
        assert self.queue.admin.drain(include_scheduled=scheduled) == len(gone)
        for job_id in gone:
            self.end(job_id)

    @precondition(lambda self: len(self.rows) + len(self.records) > 8)
    @rule(
        state=st.sampled_from(["pending", "scheduled", "dead", "completed", "cancelled"]),
        old=st.booleans(),
    )
    def clean(self, state: str, old: bool) -> None:
        """Of all ages, or those of a day and more."""
        where = "schedule" if state == "scheduled" else state
        meant = {
            job_id
            for job_id, row in (self.rows | self.records).items()
            if row.where == where and (not old or self.is_old(job_id, row))
        }
        assert self.queue.admin.clean(state, 86_400 if old else 0) == len(meant)
        for job_id in meant:
            if job_id in self.rows:
                self.end(job_id)
            else:
                del self.records[job_id]

    def is_old(self, job_id: str, row: Row) -> bool:
        if row.where in ("pending", "schedule"):
            return job_id in OWN_IDS
        return row.error == "stock"  # a job that was buried without a time counts as old

    @rule()
    def reprocess_all(self) -> None:
        # In the order in which they are met: of two with one unique key the first holds it.
        dead = sorted(self.standing("dead"))
        assert self.queue.admin.reprocess_all() == len(dead)
        for job_id in dead:
            self.bring_back(job_id)

    @rule()
    def promote_all(self) -> None:
        parked = self.standing("schedule")
        assert self.queue.admin.promote_all() == len(parked)
        for row in parked.values():
            row.where, row.due = "pending", False

    @precondition(lambda self: len(self.rows) + len(self.holds) > 6)
    @rule(pause=st.booleans(), force=st.booleans(), budget=st.integers(1, 10))
    def obliterate(self, pause: bool, force: bool, budget: int) -> None:
        if pause:
            self.pause_or_resume(True)
        if not self.paused:
            with pytest.raises(NotPaused):
                self.queue.admin.obliterate(force)
        elif self.standing("active") and not force:
            with pytest.raises(ActiveJobs):
                self.queue.admin.obliterate(force)
        else:
            assert self.queue.admin.obliterate(force, budget) == len(self.rows)
            for row in self.rows.values():
                self.leave(row)
            self.afresh()
            assert self.raw.keys(self.queue.keys.base + b"*") == []

    @rule()
    def lose_replies(self) -> None:
        self.client.forgets = not self.client.forgets

    @rule()
    def forget_scripts(self) -> None:
        self.raw.script_flush()

    # What holds after each step

    @invariant()
    def the_server_agrees(self) -> None:
        if not hasattr(self, "queue"):
            return
        self.numbers["steps"] += 1
        self.length += 1
        base = self.queue.keys.base
        keys = sorted(self.raw.keys(b"emq:{%s}:*" % self.queue.name.encode()))
        with self.raw.pipeline(transaction=False) as pipe:
            for key in keys:
                pipe.pttl(key)
            ttls = pipe.execute()
        self.times = {
            key.removeprefix(base).decode(): ttl for key, ttl in zip(keys, ttls, strict=True)
        }
        self.forget_evicted()
        self.each_job_stands_in_one_place()
        self.the_ring_holds_what_can_be_served()
        self.the_rows_are_whole()
        self.no_key_is_left_over()
        self.the_figures_agree()

    def forget_evicted(self) -> None:
        """Of more records than are kept the oldest go; ties of a millisecond go by id."""
        found = self.raw.zrange(self.queue.keys.outcomes, 0, -1)
        kept = {member.decode() for member in found}
        assert kept <= set(self.records)
        most = min(len(self.records), KEEP_MAX)
        assert most - self.slack <= len(kept) <= most
        self.slack = False
        self.records = {job_id: row for job_id, row in self.records.items() if job_id in kept}

    def each_job_stands_in_one_place(self) -> None:
        base = self.queue.keys.base
        places = [*SETS, *(f"g:{lane}:pending" for lane in NAMES)]
        with self.raw.pipeline(transaction=False) as pipe:
            for place in places:
                pipe.zrange(base + place.encode(), 0, -1, withscores=True)
            pipe.zrange(base + b"died", 0, -1)
            pipe.hgetall(base + b"cancels")
            pipe.zrange(base + b"throttled", 0, -1, withscores=True)
            *sets, died, cancels, throttled = pipe.execute()
        expected: dict[str, dict[bytes, float | None]] = {place: {} for place in places}
        for job_id, row in self.rows.items():
            place, score = row.where, None
            if row.where == "pending":
                score = -float(row.priority)
                if row.lane is not None:
                    place = f"g:{row.lane}:pending"
            elif row.where == "dead":
                score = 0.0
            expected[place][job_id.encode()] = score
        for place, members in zip(places, sets, strict=True):
            assert {member for member, _ in members} == set(expected[place]), place
            for member, score in members:
                assert expected[place][member] in (None, score)
        assert {each.decode() for each in died} == {i for i, row in self.rows.items() if row.ends}
        assert cancels == {
            job_id.encode(): row.asked.encode()
            for job_id, row in self.rows.items()
            if row.asked is not None
        }
        timed = {key for key, hold in self.holds.items() if hold.unique.until == "ttl"}
        assert timed == {key.decode() for key, end in throttled if end > 1}

    def the_ring_holds_what_can_be_served(self) -> None:
        base = self.queue.keys.base
        ring = self.raw.lrange(base + b"ring", 0, -1)
        assert sorted(lane.decode() for lane in ring) == [
            lane for lane in NAMES if self.room(lane) > 0
        ]
        active = {lane.encode(): b"%d" % self.active_in(lane) for lane in NAMES}
        gactive = self.raw.hgetall(base + b"gactive")
        assert gactive == {lane: count for lane, count in active.items() if count != b"0"}

    def the_rows_are_whole(self) -> None:
        states = {"schedule": b"scheduled"}
        known = [(self.queue.keys.job(i), row) for i, row in self.rows.items()]
        known += [(self.queue.keys.outcome(i), row) for i, row in self.records.items()]
        with self.raw.pipeline(transaction=False) as pipe:
            for key, _ in known:
                pipe.hgetall(key)
                pipe.execute_command("HPTTL", key, "FIELDS", 1, "lock")
            replies = pipe.execute()
        for n, (_, row) in enumerate(known):
            fields, (lock_ms,) = replies[2 * n], replies[2 * n + 1]
            assert fields[b"payload"] == row.payload
            assert fields[b"state"] == states.get(row.where, row.where.encode())
            assert int(fields[b"attempts"]) == row.attempts
            assert int(fields.get(b"attempts_base", 0)) == row.spared
            assert int(fields.get(b"stalled", 0)) == row.stalled
            assert int(fields.get(b"priority", 0)) == row.priority
            assert fields.get(b"group") == (row.lane.encode() if row.lane else None)
            assert fields.get(b"unique") == (row.unique.key.encode() if row.unique else None)
            assert fields.get(b"cancel") == (row.asked.encode() if row.asked else None)
            assert fields.get(b"last_error") == (row.error.encode() if row.error else None)
            assert (lock_ms > 0) is row.extended
            assert row.extended is (b"lock" in fields)
        for job_id, row in self.rows.items():
            assert row.attempts >= self.tokens.get(job_id, 0)
            self.tokens[job_id] = row.attempts

    def no_key_is_left_over(self) -> None:
        """Each key belongs to something that is there, and ends by itself where it has to."""
        found = {name for name in self.times if name.startswith(("job:", "de:"))}
        jobs: dict[str, bool] = {}
        for job_id, row in self.rows.items():
            jobs[f"job:{job_id}"] = False
            if row.extended:
                jobs[f"job:{job_id}:lock"] = True
            if row.logs:
                jobs[f"job:{job_id}:logs"] = False
        for job_id, row in self.records.items():
            jobs[f"job:{job_id}:outcome"] = True
            if row.logs:
                jobs[f"job:{job_id}:logs"] = True
        for key, hold in self.holds.items():
            jobs[f"de:{key}"] = hold.unique.ttl is not None
        assert found == set(jobs)
        ending = ("ledger:", "stats:", "limiter", "rate")
        for name, ttl in self.times.items():
            if name != self.foreign:
                assert (ttl > 0) is jobs.get(name, name.startswith(ending)), name
        with self.raw.pipeline(transaction=False) as pipe:
            for key in self.holds:
                pipe.get(self.queue.keys.base + b"de:" + key.encode())
            holders = pipe.execute()
        assert [h.decode() for h in holders] == [hold.job_id for hold in self.holds.values()]

    def the_figures_agree(self) -> None:
        if self.foreign is not None and self.foreign.startswith("metrics:"):
            self.totals[self.foreign.removeprefix("metrics:")] = 0
        if self.foreign not in ("metrics:completed", "metrics:failed"):
            assert self.queue.metrics.counts() == {
                "pending": len(self.standing("pending")),
                "active": len(self.standing("active")),
                "scheduled": len(self.standing("schedule")),
                "dead": len(self.standing("dead")),
                "completed": self.totals["completed"],
                "failed": self.totals["failed"],
            }
        if self.foreign != "metrics:cancelled":
            cancelled = self.raw.hget(self.queue.keys.metric("cancelled"), "count")
            assert int(cancelled or 0) == self.totals["cancelled"]
        assert self.raw.exists(self.queue.keys.metric("dropped")) == 0
        if self.foreign != "wake":
            assert self.raw.llen(self.queue.keys.wake) <= 64


def machine(client: Forgetful, raw: redis.Redis) -> type[Model]:
    """The machine, tied to a server."""
    return type("TiedModel", (Model,), {"client": client, "raw": raw})
