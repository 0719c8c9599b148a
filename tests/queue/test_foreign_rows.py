"""Rows that another hand wrote: a stock client's, and garbage. Neither stops the others."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest
import redis

from django_echomq.queue import Claim, Queue, Unique
from django_echomq.wire.client import Client
from django_echomq.wire.endpoint import Endpoint
from django_echomq.worker.promoter import tick_call
from tests.queue.keyspace import (
    check_ring,
    dropped,
    fall_due,
    in_hand,
    lapse,
    names,
    places,
    ring,
    snapshot,
)

MakeQueue = Callable[..., Queue]

# Older than any id that these tests mint, so the foreign job is the first in line.
OWN = "JOB0NsVQMCRgHI"
PARENT = "JOB0Nt6z93U3dY"
GARBAGE = [b"", b"x", b"inf", b"-inf", b"nan", b"1e400", b"2.5", b"-3", b" 5 ", b"0x10", b"\xff\0"]
by_garbage = pytest.mark.parametrize("garbage", GARBAGE)


def plant(queue: Queue, raw: redis.Redis, **fields: Any) -> None:
    """Writes a waiting row with raw commands, as a stock client does."""
    row: dict[str, Any] = {"state": "pending", "attempts": 0, "payload": "foreign", **fields}
    raw.hset(queue.keys.job(OWN), mapping={k: v for k, v in row.items() if v is not None})
    raw.zadd(queue.keys.pending, {OWN: 0})


def walk_through_a_life(queue: Queue, raw: redis.Redis) -> None:
    """Takes what waits through every verb; each has to go through."""
    jobs = queue.jobs
    for step in ("release", "reap", "stall", "retry", "retry again", "complete"):
        for claim in jobs.claim(10):
            if step == "release":
                jobs.release(claim)
            elif step == "reap":
                lapse(queue, raw, claim)
            elif step == "stall":
                jobs.extend_lock(claim)
                lapse(queue, raw, claim)
            elif step == "complete":
                jobs.complete(claim)
            else:
                history = b'{"step": "%s"}' % step.encode()
                jobs._settle(jobs.failure(claim, 0, 99, "no luck", history))
                fall_due(queue, raw, claim.job_id)
        jobs.reap() if step == "reap" else queue.stalled.check(9)
        jobs.promote()
        queue.drive(queue.client.run(tick_call(queue, 100)))
        for state in ("pending", "active", "scheduled", "dead", "completed"):
            jobs.browse(state)
        jobs.state(OWN)
        queue.metrics.counts()


# Rows of a stock client


def test_a_stock_row_is_claimed_and_completed(queue: Queue, raw: redis.Redis) -> None:
    plant(queue, raw)
    (claim,) = queue.jobs.claim()
    assert claim == Claim(OWN, b"foreign", attempts=1, lane=None, attempt=1)
    queue.jobs.complete(claim)
    assert queue.jobs.state(OWN) == "completed"


def test_a_stock_row_that_was_claimed_before_goes_on_with_its_token(
    queue: Queue, raw: redis.Redis
) -> None:
    plant(queue, raw, attempts=7)
    (claim,) = queue.jobs.claim()
    assert (claim.attempts, claim.attempt) == (8, 8)


def test_a_stock_claim_is_reaped(queue: Queue, raw: redis.Redis) -> None:
    row = {"state": "active", "attempts": 1, "payload": "foreign"}
    raw.hset(queue.keys.job(OWN), mapping=row)
    raw.zadd(queue.keys.active, {OWN: 1})
    assert queue.jobs.reap() == 1
    assert queue.jobs.claim()[0].attempts == 2


def test_a_stock_row_in_a_lane_is_claimed_in_turn(queue: Queue, raw: redis.Redis) -> None:
    lane = "USR0KHTOWnGLuC"
    row = {"state": "pending", "attempts": 0, "payload": "foreign", "group": lane}
    raw.hset(queue.keys.job(OWN), mapping=row)
    raw.zadd(queue.keys.lane(lane), {OWN: 0})
    raw.rpush(queue.keys.base + b"ring", lane)
    (claim,) = queue.jobs.claim()
    assert (claim.job_id, claim.lane) == (OWN, lane)
    assert in_hand(queue, raw) == {lane: 1}
    queue.jobs.complete(claim)
    assert in_hand(queue, raw) == {}
    check_ring(queue, raw)


def test_a_row_with_a_lane_that_waits_in_the_flat_set_is_claimed_there(
    queue: Queue, raw: redis.Redis
) -> None:
    plant(queue, raw, group="a")
    (claim,) = queue.jobs.claim()
    assert claim.lane == "a"
    assert in_hand(queue, raw) == {"a": 1}
    queue.jobs.release(claim)
    assert places(queue, raw, OWN) == ["g:a:pending"]
    assert in_hand(queue, raw) == {}
    check_ring(queue, raw)


def test_a_stock_schedule_is_promoted(queue: Queue, raw: redis.Redis) -> None:
    row = {"state": "scheduled", "attempts": 0, "payload": "foreign", "group": "a"}
    raw.hset(queue.keys.job(OWN), mapping=row)
    raw.zadd(queue.keys.schedule, {OWN: 1})
    assert queue.jobs.promote() == 1
    assert places(queue, raw, OWN) == ["g:a:pending"]
    check_ring(queue, raw)


def test_a_row_keeps_the_fields_that_this_package_does_not_know(
    queue: Queue, raw: redis.Redis
) -> None:
    foreign = {"parent": PARENT, "parent_queue": "other", "parent_policy": "fp", "x": b"\0\xff"}
    plant(queue, raw, **foreign)
    (claim,) = queue.jobs.claim()
    queue.jobs.retry(claim)
    fields = queue.jobs.get(OWN).fields
    assert {name: fields[name] for name in foreign} == {
        "parent": PARENT.encode(),
        "parent_queue": b"other",
        "parent_policy": b"fp",
        "x": b"\0\xff",
    }


def test_a_parent_that_waits_for_its_children_is_not_claimed(
    queue: Queue, raw: redis.Redis
) -> None:
    row = {"state": "awaiting_children", "attempts": 0, "payload": "foreign"}
    raw.hset(queue.keys.job(PARENT), mapping=row)
    raw.set(queue.keys.job(PARENT) + b":dependencies", 1)
    assert queue.jobs.claim(10) == []
    assert queue.jobs.state(PARENT) == "awaiting_children"


def test_a_completion_without_keeping_takes_the_stock_side_keys_away(
    make_queue: MakeQueue, raw: redis.Redis
) -> None:
    queue = make_queue(keep_completed_ms=0)
    plant(queue, raw)
    base = queue.keys.job(OWN)
    raw.set(base + b":lock", 1)
    raw.set(base + b":dependencies", 0)
    for suffix in (b":processed", b":failed", b":unsuccessful"):
        raw.hset(base + suffix, PARENT, "x")
    raw.rpush(base + b":logs", "x")
    queue.jobs.complete(queue.jobs.claim()[0])
    assert not [name for name in names(queue, raw) if OWN in name]


def test_a_lock_of_a_stock_worker_does_not_outlive_the_job(queue: Queue, raw: redis.Redis) -> None:
    plant(queue, raw, lock="1")
    raw.set(queue.keys.job(OWN) + b":lock", 1)
    queue.jobs.complete(queue.jobs.claim()[0])
    assert raw.exists(queue.keys.job(OWN) + b":lock") == 0
    assert "lock" not in queue.jobs.get(OWN).fields


# Keys of another type under a row's name


def spoil(raw: redis.Redis, key: bytes, kind: str) -> None:
    raw.delete(key)
    if kind == "string":
        raw.set(key, "foreign")
    elif kind == "list":
        raw.rpush(key, "foreign")
    elif kind == "set":
        raw.sadd(key, "foreign")
    elif kind == "zset":
        raw.zadd(key, {"foreign": 1})
    else:
        raw.xadd(key, {"foreign": "1"})


by_type = pytest.mark.parametrize("kind", ["string", "list", "set", "zset", "stream"])


@by_type
@pytest.mark.parametrize("stage", ["pending", "lane", "scheduled", "active"])
def test_a_key_of_another_type_is_no_job_and_stops_no_other(
    queue: Queue, raw: redis.Redis, kind: str, stage: str
) -> None:
    jobs = queue.jobs
    lane = "a" if stage == "lane" else None
    ids = []
    for _ in range(3):
        if stage == "scheduled":
            ids.append(jobs.enqueue_at(b"x", 1, lane=lane).job_id)
        else:
            ids.append(jobs.enqueue(b"x", lane=lane).job_id)
    if stage == "active":
        lapse(queue, raw, *jobs.claim(3))
    spoil(raw, queue.keys.job(ids[1]), kind)
    jobs.promote()
    jobs.reap()
    assert {claim.job_id for claim in jobs.claim(10)} == {ids[0], ids[2]}
    assert places(queue, raw, ids[1]) == []
    assert dropped(queue, raw) == 1
    assert raw.type(queue.keys.job(ids[1])) == kind.encode()


@by_type
def test_a_key_of_another_type_can_be_read_past(queue: Queue, raw: redis.Redis, kind: str) -> None:
    job_id, spoiled = (queue.jobs.enqueue(b"x").job_id for _ in range(2))
    spoil(raw, queue.keys.job(spoiled), kind)
    assert [job.id for job in queue.jobs.browse()] == [job_id]
    assert queue.jobs.state(spoiled) == "pending"
    with pytest.raises(LookupError):
        queue.jobs.get(spoiled)
    with pytest.raises(LookupError):
        queue.jobs.add_log(spoiled, "line")
    with pytest.raises(LookupError):
        queue.jobs.update_progress(spoiled, "1")


@by_type
def test_a_claim_whose_row_was_spoiled_is_gone_and_settles_no_other(
    queue: Queue, raw: redis.Redis, kind: str
) -> None:
    queue.jobs.enqueue_many([b"x"] * 3)
    claims = queue.jobs.claim(3)
    spoil(raw, queue.keys.job(claims[1].job_id), kind)
    answer = queue.jobs._exchange([queue.jobs.completion(claim) for claim in claims], 0)
    assert answer.settled == ["done", "gone", "done"]
    assert queue.jobs.extend_locks([claims[1]]) == [claims[1].job_id]


@by_type
def test_a_unique_key_of_another_type_does_not_lose_the_job(
    queue: Queue, raw: redis.Redis, kind: str
) -> None:
    queue.jobs.enqueue(b"x", unique=Unique("report"))
    (claim,) = queue.jobs.claim()
    if kind != "string":
        spoil(raw, queue.keys.base + b"de:report", kind)
    queue.jobs.complete(claim)
    assert queue.jobs.state(claim.job_id) == "completed"


# Fields that are not what they should be


@by_garbage
@pytest.mark.parametrize("field", ["attempts", "attempts_base", "priority", "stalled"])
def test_garbage_in_a_number_crashes_no_verb_and_loses_no_other_job(
    queue: Queue, raw: redis.Redis, field: str, garbage: bytes
) -> None:
    plant(queue, raw, **{field: garbage})
    other = queue.jobs.enqueue(b"other").job_id
    walk_through_a_life(queue, raw)
    assert queue.jobs.state(other) == "completed"
    assert queue.jobs.state(OWN) in ("completed", "dead")


@by_garbage
@pytest.mark.parametrize("field", ["group", "unique", "state", "history", "worker", "last_error"])
def test_garbage_in_a_text_crashes_no_verb_and_loses_no_job(
    queue: Queue, raw: redis.Redis, field: str, garbage: bytes
) -> None:
    plant(queue, raw, **{field: garbage})
    other = queue.jobs.enqueue(b"other").job_id
    walk_through_a_life(queue, raw)
    assert queue.jobs.state(other) == "completed"
    assert queue.jobs.state(OWN) == "completed"
    assert in_hand(queue, raw) == {}
    assert ring(queue, raw) == []


@by_garbage
def test_any_bytes_are_a_payload(queue: Queue, raw: redis.Redis, garbage: bytes) -> None:
    plant(queue, raw, payload=garbage)
    assert queue.jobs.claim()[0].payload == garbage


@pytest.mark.parametrize("attempts", [b"", b"x", b"nan", b"2.5", b"\xff"])
def test_attempts_that_are_no_number_bury_the_job(
    queue: Queue, raw: redis.Redis, attempts: bytes
) -> None:
    plant(queue, raw, attempts=attempts)
    assert queue.jobs.claim() == []
    assert places(queue, raw, OWN) == ["dead"]
    assert queue.jobs.get(OWN).last_error == "the row's attempts are not a number"
    assert queue.metrics.counts("failed") == {"failed": 1}


@pytest.mark.parametrize("attempts", [b"inf", b"-inf", b"1e400"])
def test_endless_attempts_bury_the_job_and_no_other_claim_is_lost(
    queue: Queue, raw: redis.Redis, attempts: bytes
) -> None:
    plant(queue, raw, attempts=attempts)
    other = queue.jobs.enqueue(b"other").job_id
    assert [claim.job_id for claim in queue.jobs.claim(2)] == [other]
    assert places(queue, raw, OWN) == ["dead"]


def test_a_job_buried_for_its_attempts_frees_its_unique_key(queue: Queue, raw: redis.Redis) -> None:
    plant(queue, raw, attempts="x", unique="report")
    raw.set(queue.keys.base + b"de:report", OWN)
    queue.jobs.claim()
    assert queue.jobs.enqueue(b"x", unique=Unique("report")).outcome == "enqueued"


def test_a_row_without_a_payload_is_dropped_and_no_other_is_lost(
    queue: Queue, raw: redis.Redis
) -> None:
    plant(queue, raw, payload=None)
    other = queue.jobs.enqueue(b"other").job_id
    assert [claim.job_id for claim in queue.jobs.claim()] == [other]
    assert dropped(queue, raw) == 1
    assert places(queue, raw, OWN) == []


@pytest.mark.parametrize("stage", ["pending", "active", "schedule"])
def test_a_row_without_attempts_is_dropped_and_nothing_is_added_to_it(
    queue: Queue, raw: redis.Redis, stage: str
) -> None:
    row = {b"state": b"pending", b"payload": b"foreign"}
    raw.hset(queue.keys.job(OWN), mapping=row)
    raw.zadd(queue.keys.base + stage.encode(), {OWN: 1})
    queue.jobs.promote()
    queue.jobs.reap()
    assert queue.jobs.claim() == []
    assert places(queue, raw, OWN) == []
    assert raw.hgetall(queue.keys.job(OWN)) == row


def test_a_claim_whose_payload_was_taken_is_settled_all_the_same(
    queue: Queue, raw: redis.Redis
) -> None:
    queue.jobs.enqueue(b"x")
    (claim,) = queue.jobs.claim()
    raw.hdel(queue.keys.job(claim.job_id), "payload")
    queue.jobs.complete(claim)
    assert queue.jobs.get(claim.job_id).payload == b""


@pytest.mark.parametrize(
    ("history", "entries"),
    [
        (b"", []),
        (b"not json", []),
        (b'{"n": 1}\ngarbage\n{"n": 2}', [1, 2]),
        (b'\n\n{"n": 1}\n\n', [1]),
        (b'[1]\n"x"\n5\nnull\n{"n": 1}', [1]),
        (b'\xff\xfe\n{"n": 1}', [1]),
        (b'{"n": 1}\n{"n": ' + b"[" * 5_000, [1]),
        (b'{"n": 1}\n' + b"9" * 5_000, [1]),
    ],
)
def test_a_corrupt_history_is_read_as_well_as_it_can_be(
    queue: Queue, raw: redis.Redis, history: bytes, entries: list[int]
) -> None:
    plant(queue, raw, history=history)
    assert [entry["n"] for entry in queue.jobs.get(OWN).history] == entries
    (claim,) = queue.jobs.claim()
    assert claim.history == history


@pytest.mark.parametrize("history", [b"garbage", b"\xff" * 40_000, b"\n" * 40_000])
def test_a_corrupt_history_is_written_on(queue: Queue, raw: redis.Redis, history: bytes) -> None:
    plant(queue, raw, history=history)
    (claim,) = queue.jobs.claim()
    queue.jobs._settle(queue.jobs.failure(claim, history=b'{"n": 1}'))
    job = queue.jobs.get(OWN)
    assert job.history == [{"n": 1}]
    assert len(job.fields["history"]) <= 32_768


def test_a_huge_foreign_history_does_not_hold_the_server(disposable: Endpoint) -> None:
    queue = Queue("huge", Client(disposable, retry_for=0.0))
    with redis.Redis(unix_socket_path=disposable.options["path"]) as raw:
        plant(queue, raw, history=b"\n" * 4_000_000)
    (claim,) = queue.jobs.claim()
    queue.jobs._settle(queue.jobs.failure(claim, history=b'{"n": 1}'))
    assert queue.jobs.get(OWN).history == [{"n": 1}]
    queue.client.close()


@pytest.mark.parametrize(
    "field", ["started_at", "finished_at", "priority", "stalled", "attempts", "attempts_base"]
)
@pytest.mark.parametrize("garbage", [*GARBAGE, b"9" * 30, b"9" * 5_000, b"-" + b"9" * 30])
def test_garbage_in_a_row_can_be_read(
    queue: Queue, raw: redis.Redis, field: str, garbage: bytes
) -> None:
    plant(queue, raw, **{field: garbage})
    job = queue.jobs.get(OWN)
    assert job.payload == b"foreign"
    assert job.fields[field] == garbage
    assert queue.jobs.browse() == [job]


def test_names_of_fields_that_are_not_utf_8_can_be_read(queue: Queue, raw: redis.Redis) -> None:
    plant(queue, raw)
    raw.hset(queue.keys.job(OWN), b"\xff", b"\xfe")
    assert queue.jobs.get(OWN).fields["\\xff"] == b"\xfe"


# Members that are no ids


@pytest.mark.parametrize("member", ["garbage", "ORD0NsVQMCRgHI", "", "a;b,c", "\u00e9"])
def test_a_member_that_is_no_job_id_stops_no_other(
    queue: Queue, raw: redis.Redis, member: str
) -> None:
    raw.zadd(queue.keys.pending, {member: -1})
    other = queue.jobs.enqueue(b"other").job_id
    assert [claim.job_id for claim in queue.jobs.claim(5)] == [other]


@pytest.mark.parametrize("member", [b"garbage", b"\xff\xfe"])
def test_a_row_under_a_name_that_is_no_id_stops_no_claim_of_others(
    queue: Queue, raw: redis.Redis, member: bytes
) -> None:
    row = {"state": "pending", "attempts": 0, "payload": "foreign"}
    raw.hset(queue.keys.base + b"job:" + member, mapping=row)
    raw.zadd(queue.keys.pending, {member: -1})
    other = queue.jobs.enqueue(b"other").job_id
    assert other in [claim.job_id for claim in queue.jobs.claim(5)]


@pytest.mark.parametrize("member", [b"garbage", b"\xff\xfe"])
def test_a_row_under_a_name_that_is_no_id_does_not_spoil_a_page(
    queue: Queue, raw: redis.Redis, member: bytes
) -> None:
    row = {"state": "pending", "attempts": 0, "payload": "foreign"}
    raw.hset(queue.keys.base + b"job:" + member, mapping=row)
    raw.zadd(queue.keys.pending, {member: -1})
    other = queue.jobs.enqueue(b"other").job_id
    assert other in [job.id for job in queue.jobs.browse()]


# Scores


@pytest.mark.parametrize("score", ["inf", "-inf", "1e300", "-1e300", "0.5"])
def test_any_score_of_the_schedule_can_be_told(queue: Queue, raw: redis.Redis, score: str) -> None:
    job_id = queue.jobs.enqueue_in(b"x", 60).job_id
    raw.zadd(queue.keys.schedule, {job_id: float(score)})
    due = queue.jobs._exchange((), 1).next_due_ms
    assert due is None or due >= 0
    queue.drive(queue.client.run(tick_call(queue, 10)))


def test_history_lines_are_json_texts(queue: Queue) -> None:
    queue.jobs.enqueue(b"x")
    (claim,) = queue.jobs.claim()
    entry = json.dumps({"error": "line\nbreak"}).encode()
    queue.jobs._settle(queue.jobs.failure(claim, history=entry))
    assert queue.jobs.get(claim.job_id).history == [{"error": "line\nbreak"}]


# Places that are no sets


@pytest.mark.parametrize("kind", ["string", "list", "set", "stream"])
def test_a_job_whose_lane_is_of_another_type_waits_in_the_flat_set(
    queue: Queue, raw: redis.Redis, kind: str
) -> None:
    """However it comes there, nothing stops half way and the job is served."""
    jobs = queue.jobs
    later = jobs.enqueue_at(b"x", 1, lane="a").job_id
    lapsed = jobs.enqueue(b"x", lane="a").job_id
    lapse(queue, raw, *jobs.claim(1))
    spoil(raw, queue.keys.base + b"g:a:pending", kind)
    new = jobs.enqueue(b"x", lane="a").job_id
    jobs.promote()
    jobs.reap()
    assert {job.id for job in jobs.browse("pending")} == {later, lapsed, new}
    gone = jobs.enqueue(b"x", lane="a").job_id
    assert jobs.cancel(gone)
    assert {claim.job_id for claim in jobs.claim(10)} == {later, lapsed, new}


@pytest.mark.parametrize("place", ["pending", "schedule"])
@pytest.mark.parametrize("unique", [None, Unique("report", on_conflict="replace")])
def test_an_admission_without_a_place_writes_nothing(
    queue: Queue, raw: redis.Redis, place: str, unique: Unique | None
) -> None:
    if unique:  # what it is to replace waits in the other place
        other = ("in", 60_000) if place == "pending" else ("now", 0)
        queue.jobs.admit(b"old", *other, None, None, 0, unique)
    raw.set(queue.keys.base + place.encode(), "foreign")
    before = snapshot(queue, raw)
    when = ("now", 0) if place == "pending" else ("in", 60_000)
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        queue.jobs.admit(b"x", *when, None, None, 0, unique)
    assert snapshot(queue, raw) == before


@pytest.mark.parametrize(
    ("spoilt", "verb"),
    [
        ("pending", "release"),
        ("pending", "reprocess"),
        ("schedule", "retry"),
        ("schedule", "delay"),
        ("dead", "bury"),
    ],
)
def test_a_job_keeps_its_place_where_the_next_one_is_of_another_type(
    queue: Queue, raw: redis.Redis, spoilt: str, verb: str
) -> None:
    jobs = queue.jobs
    job_id = jobs.enqueue(b"x").job_id
    (claim,) = jobs.claim()
    if verb == "reprocess":
        jobs.retry(claim, 0, 1)
    before = places(queue, raw, job_id)
    raw.delete(queue.keys.base + spoilt.encode())
    raw.set(queue.keys.base + spoilt.encode(), "foreign")
    with suppress(redis.ResponseError):
        {
            "release": lambda: jobs.release(claim),
            "reprocess": lambda: jobs.reprocess(job_id),
            "retry": lambda: jobs.retry(claim, 60),
            "delay": lambda: jobs.delay(claim, 60),
            "bury": lambda: jobs.retry(claim, 0, 1),
        }[verb]()
    raw.delete(queue.keys.base + spoilt.encode())
    assert places(queue, raw, job_id) == before


def test_what_was_cancelled_before_a_foreign_key_was_met_counts(
    queue: Queue, raw: redis.Redis
) -> None:
    held = queue.jobs.enqueue(b"x").job_id
    queue.jobs.claim()
    waiting = queue.jobs.enqueue(b"x").job_id
    queue.jobs.add_log(waiting, "line")
    raw.set(queue.keys.base + b"cancels", "foreign")
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        queue.jobs.cancel_many([waiting, held])
    assert queue.jobs.get(waiting).state == "cancelled"
    assert raw.pttl(queue.keys.logs(waiting)) > 0
    assert raw.zscore(queue.keys.outcomes, waiting) is not None
    assert raw.hget(queue.keys.base + b"metrics:cancelled", "count") == b"1"


def test_what_was_completed_before_a_claim_met_a_foreign_key_counts(
    queue: Queue, raw: redis.Redis
) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    (claim,) = queue.jobs.claim()
    queue.jobs.add_log(job_id, "line")
    spoilt = queue.jobs.enqueue(b"x").job_id
    raw.hset(queue.keys.job(spoilt), "attempts", "many")
    raw.set(queue.keys.dead, "foreign")
    call = queue.jobs.exchange_call(
        queue.client.take_slot(), [queue.jobs.completion(claim)], 1, "w"
    )
    with pytest.raises(redis.ResponseError, match="WRONGTYPE"):
        queue.drive(queue.client.run(call))
    assert queue.jobs.state(job_id) == "completed"
    assert raw.pttl(queue.keys.logs(job_id)) > 0
    assert raw.hget(queue.keys.base + b"metrics:completed", "count") == b"1"
