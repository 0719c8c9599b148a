"""A queue beside a plain model of one, under random verbs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace

import pytest
import redis
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    invariant,
    precondition,
    rule,
    run_state_machine_as_test,
)

from django_echomq.queue import Claim, Queue, Unique
from django_echomq.wire.errors import JobGone, NotDead, StaleToken, WrongState
from tests.queue.keyspace import SETS, fall_due, lapse

MakeQueue = Callable[..., Queue]

LANES = [None, "a", "b", "c"]
KEYS = [None, None, "one", "two"]
LIMITS = {"b": 2}
WEIGHTS = {"c": 3}
NAMES = [lane for lane in LANES if lane is not None]
BUDGET = 3
MAX_STALLED = 2
OWN_IDS = [f"JOB0NsVQMCRg{i:02}" for i in range(4)]
PAST = 1
LAST_ID = "JOBAzL8n0Y58m7"


@dataclass
class Row:
    """What the model knows of a job."""

    payload: bytes
    lane: str | None
    priority: int
    unique: str | None
    where: str  # pending, active, schedule or dead
    attempts: int = 0
    spared: int = 0  # claims that were given back
    stalled: int = 0
    due: bool = False
    lapsed: bool = False
    claim: Claim | None = field(default=None, repr=False)


class Model(RuleBasedStateMachine):
    """The verbs, each with what the model expects of it."""

    make_queue: MakeQueue
    raw: redis.Redis

    @initialize(keep=st.booleans())
    def begin(self, keep: bool) -> None:
        self.queue = self.make_queue(
            max_attempts=BUDGET, max_stalled=MAX_STALLED, keep_completed_ms=60_000 if keep else 0
        )
        self.limits = dict(LIMITS)
        for lane, most in LIMITS.items():
            self.queue.lanes.limit(lane, most)
        for lane, jobs in WEIGHTS.items():
            self.queue.lanes.weight(lane, jobs)
        self.still: set[str] = set()  # paused lanes
        self.concurrency: int | None = None
        self.started: int = 0  # within the rate's window, which does not end
        self.rate: int | None = None
        self.rows: dict[str, Row] = {}
        self.old: list[Claim] = []  # claims that are over
        self.tokens: dict[str, int] = {}
        self.paused = False
        self.completed = self.failed = self.bodies = 0

    # What the model knows

    def standing(self, where: str) -> dict[str, Row]:
        return {job_id: row for job_id, row in self.rows.items() if row.where == where}

    def claims(self) -> list[Claim]:
        return [row.claim for row in self.rows.values() if row.claim is not None]

    def active_in(self, lane: str | None) -> int:
        return sum(row.lane == lane for row in self.standing("active").values())

    def line(self, lane: str | None) -> list[str]:
        """The waiting jobs of a lane, in the order in which they are to be claimed."""
        waiting = self.standing("pending")
        mine = [job_id for job_id, row in waiting.items() if row.lane == lane]
        return sorted(mine, key=lambda job_id: (-self.rows[job_id].priority, job_id))

    def room(self, lane: str | None) -> int:
        waiting = len(self.line(lane))
        if lane is None:
            return waiting
        if lane in self.still:
            return 0
        if lane not in self.limits:
            return waiting
        return min(waiting, max(0, self.limits[lane] - self.active_in(lane)))

    def queue_room(self) -> int:
        """How many more jobs the limits of the queue let start."""
        room = 10_000
        if self.concurrency is not None:
            room = min(room, self.concurrency - len(self.standing("active")))
        if self.rate is not None:
            room = min(room, self.rate - self.started)
        return max(0, room)

    def holder(self, key: str) -> str | None:
        for job_id, row in self.rows.items():
            if row.unique == key and row.where != "dead":
                return job_id
        return None

    def end_of(self, claim: Claim) -> Row | None:
        """The row that a settlement of the claim ends, or ``None`` where it is refused."""
        row = self.rows.get(claim.job_id)
        if row is None or row.attempts != claim.attempts or row.where in ("schedule", "dead"):
            return None
        return row

    def settle(self, claim: Claim, verb: Callable[[], object]) -> Row | None:
        """Runs a settlement; answers the row that it ends, or checks that it is refused."""
        row = self.end_of(claim)
        if row is None:
            refusal = StaleToken if claim.job_id in self.rows else JobGone
            with pytest.raises(refusal):
                verb()
            return None
        verb()
        self.old.append(claim)
        row.claim, row.lapsed = None, False
        return row

    def take_back(self, row: Row) -> None:
        row.where, row.lapsed = "pending", False
        if row.claim is not None:
            # The token still counts until somebody else claims.
            self.old.append(row.claim)
            row.claim = None

    # Admissions

    @rule(
        lane=st.sampled_from(LANES),
        priority=st.integers(-3, 3),
        key=st.sampled_from(KEYS),
        own=st.sampled_from([None, None, *OWN_IDS]),
        when=st.sampled_from(["now", "now", "past", "later"]),
    )
    def enqueue(
        self, lane: str | None, priority: int, key: str | None, own: str | None, when: str
    ) -> None:
        self.bodies += 1
        body = b"%d" % self.bodies
        options = {
            "job_id": own,
            "lane": lane,
            "priority": priority,
            "unique": None if key is None else Unique(key),
        }
        jobs = self.queue.jobs
        if when == "now":
            admission = jobs.enqueue(body, **options)
        elif when == "past":
            admission = jobs.enqueue_at(body, PAST, **options)
        else:
            admission = jobs.enqueue_in(body, 3_600, **options)
        if own in self.rows:
            assert (admission.job_id, admission.outcome) == (own, "duplicate")
        elif key is not None and (holder := self.holder(key)) is not None:
            assert (admission.job_id, admission.outcome) == (holder, "duplicate")
        else:
            assert admission.outcome == ("enqueued" if when == "now" else "scheduled")
            assert admission.job_id == (own or admission.job_id)
            where = "pending" if when == "now" else "schedule"
            row = Row(body, lane, priority, key, where, due=when == "past")
            self.rows[admission.job_id] = row
            self.tokens.pop(admission.job_id, None)

    @rule(count=st.integers(0, 6), lane=st.sampled_from(LANES))
    def enqueue_many(self, count: int, lane: str | None) -> None:
        bodies = [b"%d" % (self.bodies + i) for i in range(1, count + 1)]
        self.bodies += count
        admissions = self.queue.jobs.enqueue_many(bodies, lane=lane)
        for body, admission in zip(bodies, admissions, strict=True):
            assert admission.outcome == "enqueued"
            self.rows[admission.job_id] = Row(body, lane, 0, None, "pending")

    # Claims

    @rule(limit=st.integers(1, 8))
    def claim(self, limit: int) -> None:
        lines = {lane: self.line(lane) for lane in LANES}
        rooms = {lane: self.room(lane) for lane in LANES}
        claims = self.queue.jobs.claim(limit)
        most = min(limit, self.queue_room())
        assert len(claims) == (0 if self.paused else min(most, sum(rooms.values())))
        if self.rate is not None:
            self.started += len(claims)
        for lane in LANES:
            mine = [claim.job_id for claim in claims if claim.lane == lane]
            assert mine == lines[lane][: len(mine)]
            assert len(mine) <= rooms[lane]
        for claim in claims:
            row = self.rows[claim.job_id]
            row.attempts += 1
            row.where, row.claim = "active", claim
            assert claim == Claim(
                claim.job_id,
                row.payload,
                row.attempts,
                row.lane,
                row.attempts - row.spared,
                claim.history,
            )

    def any_claim(self, data: st.DataObject) -> Claim:
        """Mostly one that is held, at times one that is over or was never given."""
        choices = self.claims() + self.old[-3:]
        claim = data.draw(st.sampled_from(choices))
        return data.draw(st.sampled_from([claim] * 5 + [replace(claim, attempts=99)]))

    @precondition(lambda self: self.claims() or self.old)
    @rule(data=st.data())
    def complete(self, data: st.DataObject) -> None:
        claim = self.any_claim(data)
        row = self.settle(claim, lambda: self.queue.jobs.complete(claim, b"result"))
        if row is not None:
            del self.rows[claim.job_id]
            self.completed += 1

    @precondition(lambda self: self.claims() or self.old)
    @rule(data=st.data(), at_once=st.booleans())
    def retry(self, data: st.DataObject, at_once: bool) -> None:
        claim = self.any_claim(data)
        words: list[str] = []
        row = self.settle(
            claim,
            lambda: words.append(
                self.queue.jobs.retry(claim, 0 if at_once else 3_600, error="no luck")
            ),
        )
        if row is not None:
            dead = row.attempts - row.spared >= BUDGET
            assert words == ["dead" if dead else "scheduled"]
            row.where, row.due = ("dead", False) if dead else ("schedule", at_once)
            self.failed += dead

    @precondition(lambda self: self.claims() or self.old)
    @rule(data=st.data())
    def release(self, data: st.DataObject) -> None:
        claim = self.any_claim(data)
        row = self.settle(claim, lambda: self.queue.jobs.release(claim))
        if row is not None:
            row.where = "pending"
            row.spared += 1

    @precondition(lambda self: self.claims() or self.old)
    @rule(data=st.data())
    def extend(self, data: st.DataObject) -> None:
        claim = self.any_claim(data)
        row = self.rows.get(claim.job_id)
        held = row is not None and row.where == "active" and row.attempts == claim.attempts
        over = self.queue.jobs.extend_locks([claim])
        assert over == ([] if held else [claim.job_id])
        if row is not None and held:
            row.lapsed = False

    # Time

    @precondition(lambda self: self.claims())
    @rule(data=st.data())
    def let_lapse(self, data: st.DataObject) -> None:
        claim = data.draw(st.sampled_from(self.claims()))
        lapse(self.queue, self.raw, claim)
        self.rows[claim.job_id].lapsed = True

    @precondition(lambda self: self.standing("schedule"))
    @rule(data=st.data())
    def let_fall_due(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.standing("schedule"))))
        fall_due(self.queue, self.raw, job_id)
        self.rows[job_id].due = True

    @rule()
    def promote(self) -> None:
        due = [row for row in self.standing("schedule").values() if row.due]
        assert self.queue.jobs.promote() == len(due)
        for row in due:
            row.where, row.due = "pending", False

    @rule()
    def reap(self) -> None:
        lapsed = [row for row in self.standing("active").values() if row.lapsed]
        assert self.queue.jobs.reap() == len(lapsed)
        for row in lapsed:
            self.take_back(row)

    @rule()
    def sweep(self) -> None:
        lapsed = [row for row in self.standing("active").values() if row.lapsed]
        swept = self.queue.stalled.check()
        buried = 0
        for row in lapsed:
            self.take_back(row)
            row.stalled += 1
            if row.stalled >= MAX_STALLED:
                row.where = "dead"
                buried += 1
        self.failed += buried
        assert (swept.recovered, swept.dead) == (len(lapsed) - buried, buried)

    # Single jobs

    @precondition(lambda self: self.claims() or self.old)
    @rule(data=st.data())
    def delay(self, data: st.DataObject) -> None:
        claim = self.any_claim(data)
        row = self.settle(claim, lambda: self.queue.jobs.delay(claim, 3_600))
        if row is not None:
            row.where, row.due = "schedule", False
            row.spared += 1

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def remove(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.rows)))
        # The lock marker of a job in hand goes with a crashed worker's second lease.
        self.raw.delete(self.queue.keys.job(job_id) + b":lock")
        self.raw.hdel(self.queue.keys.job(job_id), "lock")
        self.queue.jobs.remove(job_id)
        self.end(job_id)

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), when=st.sampled_from([PAST, 253_402_300_799_999]))
    def reschedule(self, data: st.DataObject, when: int) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.rows)))
        row = self.rows[job_id]
        if row.where in ("pending", "schedule"):
            self.queue.jobs.reschedule(job_id, when)
            row.where, row.due = "schedule", when == PAST
        else:
            with pytest.raises(WrongState):
                self.queue.jobs.reschedule(job_id, when)

    @precondition(lambda self: self.standing("pending") or self.standing("schedule"))
    @rule(data=st.data())
    def cancel(self, data: st.DataObject) -> None:
        waiting = self.standing("pending") | self.standing("schedule")
        job_id = data.draw(st.sampled_from(sorted(waiting)))
        self.queue.jobs.cancel(job_id)
        self.end(job_id)
        # What a reprocess brings back is no part of the model.
        self.raw.delete(self.queue.keys.outcome(job_id))

    @precondition(lambda self: self.rows)
    @rule(data=st.data())
    def reprocess(self, data: st.DataObject) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.rows)))
        row = self.rows[job_id]
        if row.where == "dead":
            self.queue.jobs.reprocess(job_id)
            row.where, row.spared, row.stalled = "pending", row.attempts, 0
            row.unique = None  # burying has freed it
        else:
            with pytest.raises(NotDead):
                self.queue.jobs.reprocess(job_id)

    def end(self, job_id: str) -> None:
        row = self.rows.pop(job_id)
        if row.claim is not None:
            self.old.append(row.claim)

    # Lanes

    @rule(lane=st.sampled_from(NAMES))
    def pause_lane(self, lane: str) -> None:
        assert self.queue.lanes.pause(lane) is (lane not in self.still)
        self.still.add(lane)

    @precondition(lambda self: self.still)
    @rule(data=st.data())
    def resume_lane(self, data: st.DataObject) -> None:
        lane = data.draw(st.sampled_from(sorted(self.still)))
        assert self.queue.lanes.resume(lane) is True
        self.still.discard(lane)

    @rule(lane=st.sampled_from(NAMES), most=st.sampled_from([None, 1, 2, 5]))
    def limit_lane(self, lane: str, most: int | None) -> None:
        self.queue.lanes.limit(lane, most)
        self.limits.pop(lane, None)
        if most is not None:
            self.limits[lane] = most

    @rule(lane=st.sampled_from(NAMES), jobs=st.sampled_from([None, 1, 2, 5]))
    def weigh_lane(self, lane: str, jobs: int | None) -> None:
        self.queue.lanes.weight(lane, jobs)

    @rule(lane=st.sampled_from(NAMES))
    def drain_lane(self, lane: str) -> None:
        gone = self.line(lane)
        slot = self.queue.client.take_slot()
        place = f"g:{lane}:pending"
        self.queue.run("admin/drain", *slot.next(), 1_000, "", "", 1_000, LAST_ID, place)
        for job_id in gone:
            self.end(job_id)

    @precondition(lambda self: self.rows)
    @rule(data=st.data(), lane=st.sampled_from(LANES))
    def reassign(self, data: st.DataObject, lane: str | None) -> None:
        job_id = data.draw(st.sampled_from(sorted(self.rows)))
        row = self.rows[job_id]
        if row.where in ("schedule", "dead"):
            with pytest.raises(WrongState):
                self.queue.lanes.reassign(job_id, lane)
            return
        word = self.queue.lanes.reassign(job_id, lane)
        assert word == ("noop" if row.lane == lane else "moved")
        row.lane = lane

    # The whole queue

    @rule(most=st.sampled_from([None, None, 1, 3]))
    def limit_concurrency(self, most: int | None) -> None:
        self.queue.admin.limit_concurrency(most)
        self.concurrency = most

    @rule(count=st.sampled_from([None, None, 2, 10]))
    def limit_rate(self, count: int | None) -> None:
        self.queue.admin.limit_rate(None if count is None else f"{count}/d")
        self.rate = count
        if count is None:
            self.started = 0

    @rule()
    def pause(self) -> None:
        assert self.queue.admin.pause() is not self.paused
        self.paused = True

    @precondition(lambda self: self.paused)
    @rule()
    def resume(self) -> None:
        assert self.queue.admin.resume() is True
        self.paused = False

    @rule()
    def forget_scripts(self) -> None:
        self.raw.script_flush()

    # What holds after each step

    @invariant()
    def the_server_agrees(self) -> None:
        if not hasattr(self, "queue"):
            return
        base = self.queue.keys.base
        places = [*SETS, *(f"g:{lane}:pending" for lane in NAMES)]
        with self.raw.pipeline(transaction=True) as pipe:
            for place in places:
                pipe.zrange(base + place.encode(), 0, -1, withscores=True)
            pipe.lrange(base + b"ring", 0, -1)
            pipe.hgetall(base + b"gactive")
            *found, ring, gactive = pipe.execute()
        self.each_job_stands_in_one_place(dict(zip(places, found, strict=True)))
        self.the_ring_holds_what_can_be_served(ring, gactive)
        self.the_rows_are_whole()
        self.the_figures_agree()

    def each_job_stands_in_one_place(self, found: dict[str, list[tuple[bytes, float]]]) -> None:
        expected: dict[str, dict[bytes, float | None]] = {place: {} for place in found}
        for job_id, row in self.rows.items():
            place, score = row.where, None
            if row.where == "pending":
                score = -float(row.priority)
                if row.lane is not None:
                    place = f"g:{row.lane}:pending"
            elif row.where == "dead":
                score = 0.0
            expected[place][job_id.encode()] = score
        for place, members in found.items():
            assert {member for member, _ in members} == set(expected[place]), place
            for member, score in members:
                assert expected[place][member] in (None, score)

    def the_ring_holds_what_can_be_served(
        self, ring: list[bytes], gactive: dict[bytes, bytes]
    ) -> None:
        assert sorted(lane.decode() for lane in ring) == [
            lane for lane in NAMES if self.room(lane) > 0
        ]
        active = {lane.encode(): b"%d" % self.active_in(lane) for lane in NAMES}
        assert gactive == {lane: count for lane, count in active.items() if count != b"0"}

    def the_rows_are_whole(self) -> None:
        base = self.queue.keys.base + b"job:"
        keys = self.raw.keys(b"emq:{%s}:job:*" % self.queue.name.encode())
        assert {key for key in keys if b":" not in key.removeprefix(base)} == {
            self.queue.keys.job(job_id) for job_id in self.rows
        }
        states = {"schedule": b"scheduled"}
        with self.raw.pipeline(transaction=False) as pipe:
            for job_id in self.rows:
                pipe.hgetall(self.queue.keys.job(job_id))
            rows = pipe.execute()
        for (job_id, row), fields in zip(self.rows.items(), rows, strict=True):
            assert fields[b"payload"] == row.payload
            assert fields[b"state"] == states.get(row.where, row.where.encode())
            assert int(fields[b"attempts"]) == row.attempts
            assert int(fields.get(b"attempts_base", 0)) == row.spared
            assert int(fields.get(b"stalled", 0)) == row.stalled
            assert row.attempts >= self.tokens.get(job_id, 0)
            self.tokens[job_id] = row.attempts

    def the_figures_agree(self) -> None:
        assert self.queue.metrics.counts() == {
            "pending": len(self.standing("pending")),
            "active": len(self.standing("active")),
            "scheduled": len(self.standing("schedule")),
            "dead": len(self.standing("dead")),
            "completed": self.completed,
            "failed": self.failed,
        }
        assert self.raw.exists(self.queue.keys.metric("dropped")) == 0


@pytest.fixture
def model(make_queue: MakeQueue, raw: redis.Redis) -> type[Model]:
    """The machine, tied to the run's server."""
    return type("TiedModel", (Model,), {"make_queue": staticmethod(make_queue), "raw": raw})


@pytest.mark.timeout(600)  # a failure is made small before it is shown, which takes its time
def test_a_queue_behaves_as_its_model(model: type[Model]) -> None:
    run_state_machine_as_test(
        model,
        settings=settings(
            max_examples=60,
            stateful_step_count=40,
            deadline=None,
            suppress_health_check=list(HealthCheck),
        ),
    )
