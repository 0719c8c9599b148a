"""Enqueueing: what is admitted, under which id, and what is refused before anything is sent."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from itertools import pairwise
from typing import Any

import pytest
import redis

from django_echomq.queue import Admission, Queue, Unique
from django_echomq.queue.jobs import MAX_PRIORITY, MIN_PRIORITY
from django_echomq.wire.errors import InvalidId, InvalidName, PayloadTooLarge, WrongKind
from django_echomq.wire.ids import check_job, parts
from django_echomq.wire.scripts import script
from django_echomq.worker.promoter import tick_call
from tests.conftest import wait_until
from tests.queue.keyspace import lapse, names, places, snapshot
from tests.wire.monitor import recorded

MakeQueue = Callable[..., Queue]
#: How ``jobs/enqueue`` is told of a unique key, after its ttl.
HELD = ("done", "skip", 0, 0)

OWN = "JOB0NsVQMCRgHI"
OTHER = "JOB0Nt6z93U3dY"


def row(queue: Queue, raw: redis.Redis, job_id: str) -> dict[bytes, bytes]:
    return raw.hgetall(queue.keys.job(job_id))


def tokens(queue: Queue, raw: redis.Redis) -> int:
    return raw.llen(queue.keys.wake)


# What an admission writes


def test_a_fresh_row_has_exactly_three_fields(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"body").job_id
    expected = {b"state": b"pending", b"attempts": b"0", b"payload": b"body"}
    assert row(queue, raw, job_id) == expected


def test_a_fresh_job_stands_in_the_flat_set_at_score_zero(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    assert raw.zrange(queue.keys.pending, 0, -1, withscores=True) == [(job_id.encode(), 0.0)]
    assert places(queue, raw, job_id) == ["pending"]


def test_a_job_in_a_lane_carries_it_and_stands_there_only(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x", lane="USR0KHTOWnGLuC").job_id
    assert row(queue, raw, job_id)[b"group"] == b"USR0KHTOWnGLuC"
    assert places(queue, raw, job_id) == ["g:USR0KHTOWnGLuC:pending"]


@pytest.mark.parametrize(("priority", "score"), [(1, -1.0), (-1, 1.0), (100, -100.0), (-100, 100)])
def test_a_priority_is_the_score_turned_round(
    queue: Queue, raw: redis.Redis, priority: int, score: float
) -> None:
    job_id = queue.jobs.enqueue(b"x", priority=priority).job_id
    assert raw.zscore(queue.keys.pending, job_id) == score
    assert row(queue, raw, job_id)[b"priority"] == b"%d" % priority


def test_a_unique_key_names_its_job(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x", unique=Unique("report")).job_id
    assert row(queue, raw, job_id)[b"unique"] == b"report"
    assert raw.get(queue.keys.base + b"de:report") == job_id.encode()


def test_an_admission_answers_a_job_id_and_a_word(queue: Queue) -> None:
    admission = queue.jobs.enqueue(b"x")
    assert check_job(admission.job_id) == admission.job_id
    assert admission == Admission(admission.job_id, "enqueued")


def test_ids_of_a_queue_ascend(queue: Queue) -> None:
    ids = [queue.jobs.enqueue(b"x").job_id for _ in range(50)]
    assert ids == sorted(set(ids))


def test_an_admission_is_one_round_trip(queue: Queue, raw: redis.Redis) -> None:
    queue.client.home._node = None  # its number is leased now, and not again for some minutes
    queue.jobs.enqueue(b"warm")
    with recorded(raw) as recording:
        queue.jobs.enqueue(b"x", lane="a", priority=5, unique=Unique("u"))
        sent = recording.sent()
    assert len(sent) == 1
    assert sent[0].startswith(f"EVALSHA {script('jobs/enqueue').sha.decode()} 1 ")


def test_an_admission_writes_no_other_keys(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    written = {name for name in names(queue, raw) if not name.startswith(("ledger:", "stats:"))}
    assert written == {f"job:{job_id}", "pending", "wake"}


# Ids


def test_a_job_is_admitted_under_the_callers_own_id(queue: Queue) -> None:
    assert queue.jobs.enqueue(b"x", job_id=OWN) == Admission(OWN, "enqueued")
    assert queue.jobs.get(OWN).payload == b"x"


def test_a_second_job_under_an_own_id_is_a_duplicate_and_changes_nothing(
    queue: Queue, raw: redis.Redis
) -> None:
    queue.jobs.enqueue(b"first", job_id=OWN)
    before = snapshot(queue, raw)
    assert queue.jobs.enqueue(b"second", job_id=OWN, lane="a", priority=3) == Admission(
        OWN, "duplicate"
    )
    assert snapshot(queue, raw) == before


@pytest.mark.parametrize("stage", ["active", "scheduled", "dead"])
def test_an_own_id_is_a_duplicate_while_its_row_is_there(queue: Queue, stage: str) -> None:
    queue.jobs.enqueue(b"x", job_id=OWN)
    (claim,) = queue.jobs.claim()
    if stage != "active":
        queue.jobs.retry(claim, 60, 1 if stage == "dead" else 3)
    assert queue.jobs.state(OWN) == stage
    assert queue.jobs.enqueue(b"y", job_id=OWN) == Admission(OWN, "duplicate")


@pytest.mark.parametrize("keep_ms", [0, 60_000])
def test_an_own_id_is_free_again_once_its_job_completed(
    make_queue: MakeQueue, keep_ms: int
) -> None:
    queue = make_queue(keep_completed_ms=keep_ms)
    queue.jobs.enqueue(b"first", job_id=OWN)
    queue.jobs.complete(queue.jobs.claim()[0])
    assert queue.jobs.enqueue(b"second", job_id=OWN).outcome == "enqueued"
    assert queue.jobs.get(OWN).payload == b"second"
    assert queue.jobs.state(OWN) == "pending"


def test_a_second_life_under_an_id_does_not_show_the_log_of_the_first(queue: Queue) -> None:
    queue.jobs.enqueue(b"first", job_id=OWN)
    queue.jobs.add_log(OWN, "of the first")
    queue.jobs.complete(queue.jobs.claim()[0])
    queue.jobs.enqueue(b"second", job_id=OWN)
    assert queue.jobs.logs(OWN) == []


def test_the_end_of_an_outcome_takes_no_log_of_a_second_life(
    make_queue: MakeQueue, raw: redis.Redis
) -> None:
    queue = make_queue()
    queue.jobs.enqueue(b"first", job_id=OWN)
    queue.jobs.complete(queue.jobs.claim()[0])
    queue.jobs.enqueue(b"second", job_id=OWN)
    queue.jobs.add_log(OWN, "of the second")
    raw.zadd(queue.keys.outcomes, {OWN: 1}, xx=True)
    queue.drive(queue.client.run(tick_call(queue, 100)))
    assert queue.jobs.logs(OWN) == ["of the second"]
    assert raw.pttl(queue.keys.logs(OWN)) == -1


def test_a_minted_id_that_meets_a_row_is_minted_again(queue: Queue) -> None:
    queue.jobs.enqueue(b"first", job_id=OWN)
    (admission,) = queue.drive(queue.jobs.admission([b"second"], minted_ids=[OWN]))
    assert admission.outcome == "enqueued"
    assert admission.job_id != OWN
    assert {job.payload for job in queue.jobs.browse()} == {b"first", b"second"}


def test_only_the_ids_that_met_rows_are_minted_again(queue: Queue) -> None:
    queue.jobs.enqueue(b"first", job_id=OWN)
    fresh = "JOB0Nt6z93U3dZ"
    admissions = queue.drive(
        queue.jobs.admission([b"a", b"b", b"c"], minted_ids=[OTHER, OWN, fresh])
    )
    assert [admission.outcome for admission in admissions] == ["enqueued"] * 3
    assert (admissions[0].job_id, admissions[2].job_id) == (OTHER, fresh)
    assert admissions[1].job_id != OWN
    bodies = [queue.jobs.get(admission.job_id).payload for admission in admissions]
    assert bodies == [b"a", b"b", b"c"]


def test_a_minted_id_that_meets_a_foreign_key_is_minted_again(
    queue: Queue, raw: redis.Redis
) -> None:
    raw.set(queue.keys.job(OWN), "no row of a job")
    (admission,) = queue.drive(queue.jobs.admission([b"x"], minted_ids=[OWN]))
    assert (admission.outcome, admission.job_id == OWN) == ("enqueued", False)
    assert raw.get(queue.keys.job(OWN)) == b"no row of a job"


def test_a_collision_keeps_the_unique_key_for_the_job_that_is_admitted(
    queue: Queue, raw: redis.Redis
) -> None:
    queue.jobs.enqueue(b"first", job_id=OWN)
    steps = queue.jobs.admission([b"second"], minted_ids=[OWN], unique=Unique("report"))
    (admission,) = queue.drive(steps)
    assert raw.get(queue.keys.base + b"de:report") == admission.job_id.encode()


@pytest.mark.parametrize(
    "job_id", ["", "job-1", "job0NsVQMCRgHI", "JOBzzzzzzzzzzz", 7, OWN.encode()]
)
def test_an_invalid_id_is_refused_and_nothing_is_sent(
    queue: Queue, raw: redis.Redis, job_id: Any
) -> None:
    with recorded(raw) as recording:
        with pytest.raises(InvalidId):
            queue.jobs.enqueue(b"x", job_id=job_id)
        assert recording.sent() == []


def test_an_id_of_another_kind_is_refused_and_nothing_is_sent(
    queue: Queue, raw: redis.Redis
) -> None:
    with recorded(raw) as recording:
        with pytest.raises(WrongKind):
            queue.jobs.enqueue(b"x", job_id="ORD0NsVQMCRgHI")
        assert recording.sent() == []


@pytest.mark.parametrize("ids", [["ORD0NsVQMCRgHI"], [OWN, "ORD0NsVQMCRgHI"]])
def test_the_script_itself_refuses_an_id_of_another_kind_and_writes_nothing(
    queue: Queue, raw: redis.Redis, ids: list[str]
) -> None:
    pairs = [part for each in ids for part in (each, b"x")]
    with pytest.raises(WrongKind):
        queue.run("jobs/enqueue", "slot", 1, "now", 0, "a", 0, "own", "u", 0, *HELD, *pairs)
    assert names(queue, raw) == set()


# Payloads


@pytest.mark.parametrize("payload", [None, 7, bytearray(b"x"), memoryview(b"x"), ["x"], {"a": 1}])
def test_a_payload_is_bytes_or_text(queue: Queue, raw: redis.Redis, payload: Any) -> None:
    with recorded(raw) as recording:
        with pytest.raises(TypeError, match=f"bytes or str, not {type(payload).__name__}"):
            queue.jobs.enqueue(payload)
        assert recording.sent() == []


@pytest.mark.parametrize("payload", ["\ud800", "a\udfffb", "\udc80" * 3])
def test_a_lone_surrogate_is_refused_and_nothing_is_sent(
    queue: Queue, raw: redis.Redis, payload: str
) -> None:
    with recorded(raw) as recording:
        with pytest.raises(ValueError, match="surrogates not allowed"):
            queue.jobs.enqueue(payload)
        assert recording.sent() == []


def test_a_payload_of_the_largest_size_is_taken(make_queue: MakeQueue) -> None:
    queue = make_queue(max_payload=100)
    queue.jobs.enqueue(b"x" * 100)
    assert queue.jobs.claim()[0].payload == b"x" * 100


@pytest.mark.parametrize("payload", [b"x" * 101, "x" * 101, "\u00e9" * 51])
def test_a_larger_payload_is_refused_and_nothing_is_sent(
    make_queue: MakeQueue, raw: redis.Redis, payload: bytes | str
) -> None:
    queue = make_queue(max_payload=100)
    with recorded(raw) as recording:
        with pytest.raises(PayloadTooLarge, match=f"10[12] bytes, queue '{queue.name}' takes 100"):
            queue.jobs.enqueue(payload)
        assert recording.sent() == []


def test_an_empty_payload_is_a_payload(queue: Queue) -> None:
    queue.jobs.enqueue("")
    assert queue.jobs.claim()[0].payload == b""


# Priorities and lanes


@pytest.mark.parametrize("priority", [MIN_PRIORITY, 0, MAX_PRIORITY])
def test_a_priority_may_reach_its_bounds(queue: Queue, priority: int) -> None:
    job_id = queue.jobs.enqueue(b"x", priority=priority).job_id
    assert queue.jobs.get(job_id).priority == priority


@pytest.mark.parametrize("priority", [MIN_PRIORITY - 1, MAX_PRIORITY + 1, 10**30])
def test_a_priority_beyond_its_bounds_is_refused(
    queue: Queue, raw: redis.Redis, priority: int
) -> None:
    with recorded(raw) as recording:
        with pytest.raises(ValueError, match="between -100 and 100"):
            queue.jobs.enqueue(b"x", priority=priority)
        assert recording.sent() == []


@pytest.mark.parametrize("priority", [True, False, 1.0, "1", None, float("nan")])
def test_a_priority_is_a_whole_number(queue: Queue, raw: redis.Redis, priority: Any) -> None:
    with recorded(raw) as recording:
        with pytest.raises(TypeError, match="a priority is a whole number"):
            queue.jobs.enqueue(b"x", priority=priority)
        assert recording.sent() == []


@pytest.mark.parametrize("lane", ["", "a b", "{a}", "x" * 129, b"a", 7, "\u00e9"])
def test_a_bad_lane_name_is_refused_and_nothing_is_written(
    queue: Queue, raw: redis.Redis, lane: Any
) -> None:
    with pytest.raises(InvalidName):
        queue.jobs.enqueue(b"x", lane=lane)
    assert names(queue, raw) == set()


# Unique keys


def test_a_second_job_under_a_unique_key_is_a_duplicate_that_names_the_holder(
    queue: Queue, raw: redis.Redis
) -> None:
    holder = queue.jobs.enqueue(b"first", unique=Unique("report"))
    before = snapshot(queue, raw)
    assert queue.jobs.enqueue(b"second", unique=Unique("report")) == Admission(
        holder.job_id, "duplicate"
    )
    assert snapshot(queue, raw) == before


def test_other_unique_keys_are_free(queue: Queue) -> None:
    for key in ("a", "A", "a.", "x" * 255):
        assert queue.jobs.enqueue(b"x", unique=Unique(key)).outcome == "enqueued"


def test_a_unique_key_of_one_queue_is_free_in_another(make_queue: MakeQueue) -> None:
    for queue in (make_queue(), make_queue()):
        assert queue.jobs.enqueue(b"x", unique=Unique("report")).outcome == "enqueued"


@pytest.mark.parametrize("keep_ms", [0, 60_000])
def test_a_completion_frees_the_unique_key(make_queue: MakeQueue, keep_ms: int) -> None:
    queue = make_queue(keep_completed_ms=keep_ms)
    queue.jobs.enqueue(b"x", unique=Unique("report"))
    queue.jobs.complete(queue.jobs.claim()[0])
    assert queue.jobs.enqueue(b"y", unique=Unique("report")).outcome == "enqueued"


def test_a_death_frees_the_unique_key(queue: Queue) -> None:
    queue.jobs.enqueue(b"x", unique=Unique("report"))
    assert queue.jobs.retry(queue.jobs.claim()[0], max_attempts=1) == "dead"
    assert queue.jobs.enqueue(b"y", unique=Unique("report")).outcome == "enqueued"


def test_a_burial_as_stalled_frees_the_unique_key(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x", unique=Unique("report"))
    lapse(queue, raw, *queue.jobs.claim())
    assert queue.stalled.check(max_stalled=1).dead == 1
    assert queue.jobs.enqueue(b"y", unique=Unique("report")).outcome == "enqueued"


def test_a_retry_a_release_and_a_reap_keep_the_unique_key(queue: Queue, raw: redis.Redis) -> None:
    holder = queue.jobs.enqueue(b"x", unique=Unique("report"))
    duplicate = Admission(holder.job_id, "duplicate")
    queue.jobs.retry(queue.jobs.claim()[0])
    assert queue.jobs.enqueue(b"y", unique=Unique("report")) == duplicate
    queue.jobs.promote()
    queue.jobs.release(queue.jobs.claim()[0])
    assert queue.jobs.enqueue(b"y", unique=Unique("report")) == duplicate
    lapse(queue, raw, *queue.jobs.claim())
    queue.jobs.reap()
    assert queue.jobs.enqueue(b"y", unique=Unique("report")) == duplicate


def test_a_scheduled_job_holds_its_unique_key(queue: Queue) -> None:
    holder = queue.jobs.enqueue_in(b"x", 60, unique=Unique("report"))
    assert queue.jobs.enqueue(b"y", unique=Unique("report")) == Admission(
        holder.job_id, "duplicate"
    )


def test_a_unique_key_ends_with_its_time(queue: Queue) -> None:
    queue.jobs.enqueue(b"x", unique=Unique("report", ttl=0.001))
    admitted = wait_until(
        lambda: queue.jobs.enqueue(b"y", unique=Unique("report")).outcome == "enqueued"
    )
    assert admitted


def test_the_time_of_a_unique_key_is_kept_in_ms(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x", unique=Unique("report", ttl=90))
    assert 60_000 < raw.pttl(queue.keys.base + b"de:report") <= 90_000


def test_a_unique_key_without_a_time_does_not_end(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x", unique=Unique("report"))
    assert raw.pttl(queue.keys.base + b"de:report") == -1


@pytest.mark.parametrize("ttl", [-1, float("nan"), float("inf")])
def test_a_time_outside_of_time_is_refused_for_a_unique_key(
    queue: Queue, raw: redis.Redis, ttl: float
) -> None:
    with recorded(raw) as recording:
        with pytest.raises(ValueError, match="the ttl must be between 0 seconds"):
            queue.jobs.enqueue(b"x", unique=Unique("report", ttl=ttl))
        assert recording.sent() == []


def test_a_unique_key_whose_job_is_lost_blocks_nobody(queue: Queue, raw: redis.Redis) -> None:
    lost = queue.jobs.enqueue(b"x", unique=Unique("report"))
    raw.delete(queue.keys.job(lost.job_id))
    admission = queue.jobs.enqueue(b"y", unique=Unique("report"))
    assert admission.outcome == "enqueued"
    assert raw.get(queue.keys.base + b"de:report") == admission.job_id.encode()


def test_a_job_does_not_free_a_key_that_another_holds_by_now(
    queue: Queue, raw: redis.Redis
) -> None:
    queue.jobs.enqueue(b"x", unique=Unique("report"))
    (claim,) = queue.jobs.claim()
    raw.delete(queue.keys.base + b"de:report")  # as if its time had ended
    holder = queue.jobs.enqueue(b"y", unique=Unique("report"))
    queue.jobs.complete(claim)
    assert queue.jobs.enqueue(b"z", unique=Unique("report")) == Admission(
        holder.job_id, "duplicate"
    )


def test_an_own_id_that_is_taken_is_named_before_the_unique_key(queue: Queue) -> None:
    queue.jobs.enqueue(b"x", job_id=OWN)
    queue.jobs.enqueue(b"y", job_id=OTHER, unique=Unique("report"))
    assert queue.jobs.enqueue(b"z", job_id=OWN, unique=Unique("report")) == Admission(
        OWN, "duplicate"
    )


# Many


def test_many_of_none_is_nothing_and_sends_nothing(queue: Queue, raw: redis.Redis) -> None:
    with recorded(raw) as recording:
        assert queue.jobs.enqueue_many([]) == []
        assert recording.sent() == []


def test_many_of_one_is_one(queue: Queue) -> None:
    (admission,) = queue.jobs.enqueue_many([b"x"])
    assert queue.jobs.get(admission.job_id).payload == b"x"


def test_many_are_admitted_in_order_and_claimed_in_order(queue: Queue) -> None:
    bodies = [b"%d" % i for i in range(1_001)]
    admissions = queue.jobs.enqueue_many(bodies)
    assert {admission.outcome for admission in admissions} == {"enqueued"}
    ids = [admission.job_id for admission in admissions]
    assert ids == sorted(set(ids))
    claimed = [*queue.jobs.claim(500), *queue.jobs.claim(500), *queue.jobs.claim(500)]
    assert [(claim.job_id, claim.payload) for claim in claimed] == list(
        zip(ids, bodies, strict=True)
    )


def test_progress_is_told_after_each_batch(queue: Queue) -> None:
    told: list[tuple[int, int]] = []
    queue.jobs.enqueue_many([b"x"] * 1_001, progress=lambda *done: told.append(done))
    assert told[-1] == (1_001, 1_001)
    done = [0, *(done for done, _ in told)]
    assert all(0 < after - before <= 250 for before, after in pairwise(done))


def test_what_progress_raises_ends_the_rest(queue: Queue) -> None:
    def stop(done: int, total: int) -> None:
        raise KeyError(done)

    queue.jobs.enqueue(b"first")  # so that the server knows the script
    with pytest.raises(KeyError):
        queue.jobs.enqueue_many([b"x"] * 1_001, progress=stop)
    assert queue.metrics.counts("pending") == {"pending": 251}


def test_many_take_a_generator(queue: Queue) -> None:
    def bodies() -> Iterator[bytes]:
        for i in range(3):
            yield b"%d" % i

    admissions = queue.jobs.enqueue_many(bodies())
    assert [queue.jobs.get(each.job_id).payload for each in admissions] == [b"0", b"1", b"2"]


@pytest.mark.parametrize(
    ("bad", "refusal"),
    [
        (None, TypeError),
        (7, TypeError),
        ("\ud800", ValueError),
        (b"x" * 101, PayloadTooLarge),
    ],
)
def test_one_bad_payload_in_the_middle_stops_all(
    make_queue: MakeQueue, raw: redis.Redis, bad: Any, refusal: type[Exception]
) -> None:
    queue = make_queue(max_payload=100)
    with recorded(raw) as recording:
        with pytest.raises(refusal):
            queue.jobs.enqueue_many([b"x"] * 700 + [bad] + [b"x"] * 700)
        assert recording.sent() == []


def test_many_in_a_lane_with_a_priority(queue: Queue, raw: redis.Redis) -> None:
    admissions = queue.jobs.enqueue_many([b"x"] * 3, lane="a", priority=7)
    assert [raw.zscore(queue.keys.lane("a"), each.job_id) for each in admissions] == [-7.0] * 3


def test_large_payloads_travel_in_smaller_batches(queue: Queue) -> None:
    told: list[int] = []
    bodies = [bytes([i]) * 600_000 for i in range(5)]
    admissions = queue.jobs.enqueue_many(bodies, progress=lambda done, _: told.append(done))
    assert told == [2, 4, 5]
    assert [queue.jobs.get(each.job_id).payload for each in admissions] == bodies


# Wake tokens


def test_a_flat_job_rings_once(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x")
    assert raw.lrange(queue.keys.wake, 0, -1) == [b"1"]


def test_each_job_rings(queue: Queue, raw: redis.Redis) -> None:
    for count in range(1, 6):
        queue.jobs.enqueue(b"x")
        assert tokens(queue, raw) == count


def test_a_job_in_a_lane_rings(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x", lane="a")
    assert tokens(queue, raw) >= 1


def test_many_ring_for_as_many_workers(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue_many([b"x"] * 10)
    assert tokens(queue, raw) == 10


@pytest.mark.parametrize("lane", [None, "a"])
def test_there_are_at_most_64_tokens(queue: Queue, raw: redis.Redis, lane: str | None) -> None:
    for _ in range(3):
        queue.jobs.enqueue_many([b"x"] * 501, lane=lane)
        assert tokens(queue, raw) == 64


def test_a_duplicate_rings_nobody(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x", job_id=OWN)
    raw.delete(queue.keys.wake)
    queue.jobs.enqueue(b"y", job_id=OWN)
    assert tokens(queue, raw) == 0


def test_the_earliest_scheduled_job_rings(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue_in(b"x", 60)
    assert tokens(queue, raw) == 1
    queue.jobs.enqueue_in(b"later", 120)
    assert tokens(queue, raw) == 1
    queue.jobs.enqueue_in(b"sooner", 30)
    assert tokens(queue, raw) == 2


# As steps


def test_steps_may_be_walked_by_hand(queue: Queue) -> None:
    steps = queue.jobs.admission([b"x"], minted_ids=[OWN])
    (command,) = next(steps)
    assert command[0] == "EVALSHA"
    with pytest.raises(StopIteration) as end:
        steps.send([[1]])
    assert end.value.value == [Admission(OWN, "enqueued")]
    assert queue.jobs.state(OWN) == "absent"


def test_minted_ids_carry_the_time_of_their_minting(queue: Queue) -> None:
    first, second = (queue.jobs.enqueue(b"x").job_id for _ in range(2))
    assert parts(first).unix_ms <= parts(second).unix_ms
    assert parts(first).node == parts(second).node


@pytest.mark.parametrize("kind", ["own_ids", "minted_ids"])
def test_fewer_ids_than_payloads_lose_no_payload(queue: Queue, kind: str) -> None:
    with pytest.raises(ValueError, match="1 ids were given for 2 payloads"):
        queue.drive(queue.jobs.admission([b"a", b"b"], **{kind: [OWN]}))
    assert queue.jobs.state(OWN) == "absent"
