"""Schedules: registered, fired once per tick, settled by nobody's failure."""

from __future__ import annotations

import threading
from collections import Counter
from collections.abc import Callable
from datetime import UTC, datetime, timedelta

import pytest
import redis

from django_echomq.queue import Queue
from django_echomq.queue.repeat import Definition, Registered
from django_echomq.wire.errors import InvalidName
from django_echomq.wire.ids import process_mint
from django_echomq.worker import Promoter
from tests.queue.keyspace import server_ms

MINUTE = 60_000


def make_due(queue: Queue, raw: redis.Redis, name: str, ago_ms: int = 1, cron: bool = False) -> int:
    """Moves a schedule's next run to some ms ago; answers the score."""
    seconds, micros = raw.time()
    score = seconds * 1000 + micros // 1000 - ago_ms
    raw.zadd(queue.keys.base + (b"cron" if cron else b"repeat"), {name: score})
    return score


def next_ms(queue: Queue, name: str) -> int:
    schedule = queue.repeat.get(name)
    assert schedule is not None
    assert schedule.next_run is not None
    return round(schedule.next_run.timestamp() * 1000)


def test_an_interval_is_what_a_stock_pump_reads(queue: Queue, raw: redis.Redis) -> None:
    assert queue.repeat.register("beat", payload=b"x", every=10) is Registered.REGISTERED
    record = raw.hgetall(queue.keys.base + b"repeat:beat")
    assert (record[b"every_ms"], record[b"template"]) == (b"10000", b"x")
    (now, _) = raw.time()
    assert 0 < raw.zscore(queue.keys.base + b"repeat", "beat") / 1000 - now <= 11


def test_a_stock_registration_is_understood_and_fired(queue: Queue, raw: redis.Redis) -> None:
    raw.hset(
        queue.keys.base + b"repeat:stock", mapping={"every_ms": "60000", "template": "payload"}
    )
    score = make_due(queue, raw, "stock")
    assert [schedule.name for schedule in queue.repeat.due()] == ["stock"]
    assert queue.repeat.fire() == 1
    assert queue.repeat.fire() == 0
    assert next_ms(queue, "stock") == score + MINUTE
    (claim,) = queue.jobs.claim()
    assert claim.payload == b"payload"


def test_a_name_that_is_taken_stays_as_it_is(queue: Queue) -> None:
    queue.repeat.register("a", payload=b"first", every=10)
    assert queue.repeat.register("a", payload=b"second", every=99) is Registered.EXISTS
    schedule = queue.repeat.get("a")
    assert schedule is not None
    assert schedule.definition.payload == b"first"
    assert queue.repeat.count() == 1


def test_replacing_keeps_the_next_run_of_the_same_cadence(queue: Queue) -> None:
    queue.repeat.register("a", payload=b"1", every=3600)
    before = next_ms(queue, "a")
    assert queue.repeat.register("a", payload=b"2", every=3600, replace=True) == "replaced"
    assert next_ms(queue, "a") == before
    queue.repeat.register("a", payload=b"2", every=60, replace=True)
    assert next_ms(queue, "a") < before


def test_an_occurrence_goes_to_its_lane_with_its_priority(queue: Queue, raw: redis.Redis) -> None:
    queue.repeat.register("a", payload=b"x", cron="* * * * *", lane="acme", priority=7)
    make_due(queue, raw, "a", cron=True)
    assert queue.repeat.fire() == 1
    (job,) = queue.jobs.browse("pending", lane="acme")
    assert (job.lane, job.priority, job.fields["schedule"]) == ("acme", 7, b"a")
    assert len(queue.jobs.claim(5)) == 1


def test_each_occurrence_is_a_fresh_job(queue: Queue, raw: redis.Redis) -> None:
    queue.repeat.register("a", payload=b"x", every=60)
    for _ in range(2):
        make_due(queue, raw, "a")
        assert queue.repeat.fire() == 1
    first, second = queue.jobs.browse("pending", newest_first=False)
    assert first.id < second.id


def test_skip_runs_once_after_an_outage_and_goes_on_in_phase(
    queue: Queue, raw: redis.Redis
) -> None:
    queue.repeat.register("a", payload=b"x", every=60)
    seen = make_due(queue, raw, "a", ago_ms=10 * MINUTE + 5)
    assert queue.repeat.fire() == 1
    assert next_ms(queue, "a") == seen + 11 * MINUTE
    assert queue.repeat.fire() == 0


def test_all_makes_up_for_every_tick(queue: Queue, raw: redis.Redis) -> None:
    queue.repeat.register("a", payload=b"x", every=60, catch_up="all")
    seen = make_due(queue, raw, "a", ago_ms=10 * MINUTE + 5)
    fired = 0
    while queue.repeat.fire():
        fired += 1
    assert fired == 11
    assert next_ms(queue, "a") == seen + 11 * MINUTE


@pytest.mark.parametrize("cadence", [{"every": 60}, {"cron": "* * * * *"}], ids=["every", "cron"])
def test_all_makes_up_for_at_most_100(
    queue: Queue, raw: redis.Redis, cadence: dict[str, object]
) -> None:
    queue.repeat.register("a", payload=b"x", catch_up="all", **cadence)  # type: ignore[arg-type]
    make_due(queue, raw, "a", ago_ms=100_000 * MINUTE, cron="cron" in cadence)
    began = server_ms(raw) // MINUTE
    fired = 0
    while queue.repeat.fire():
        fired += 1
    # The tick that was seen, the latest 100, and what has come due meanwhile.
    assert 101 <= fired <= 101 + server_ms(raw) // MINUTE - began


def test_nothing_is_fired_before_the_start_or_after_the_end(queue: Queue, raw: redis.Redis) -> None:
    now = datetime.now(UTC).replace(microsecond=0)
    start = now + timedelta(days=2)
    queue.repeat.register("later", payload=b"x", every=60, start=start)
    schedule = queue.repeat.get("later")
    assert schedule is not None
    assert schedule.next_run == start
    queue.repeat.register("brief", payload=b"x", every=60, end=now + timedelta(seconds=30))
    make_due(queue, raw, "brief")
    assert queue.repeat.fire() == 1
    brief = queue.repeat.get("brief")
    assert brief is not None
    assert (brief.fired, brief.next_run) == (1, None)
    queue.repeat.register("over", payload=b"x", every=60, end=now - timedelta(days=1))
    over = queue.repeat.get("over")
    assert over is not None
    assert over.next_run is None


def test_a_paused_schedule_fires_nothing_until_it_is_resumed(
    queue: Queue, raw: redis.Redis
) -> None:
    queue.repeat.register("a", payload=b"x", every=60)
    assert queue.repeat.pause("a")
    assert not queue.repeat.pause("a")
    schedule = queue.repeat.get("a")
    assert schedule is not None
    assert (schedule.paused, schedule.next_run) == ("1", None)
    assert raw.zscore(queue.keys.base + b"repeat", "a") is None
    assert queue.repeat.resume("a")
    assert not queue.repeat.resume("a")
    make_due(queue, raw, "a")
    assert queue.repeat.fire() == 1


def test_replacing_a_paused_schedule_leaves_it_paused(queue: Queue) -> None:
    queue.repeat.register("a", payload=b"1", every=60)
    queue.repeat.pause("a")
    queue.repeat.register("a", payload=b"2", cron="0 0 * * *", replace=True)
    schedule = queue.repeat.get("a")
    assert schedule is not None
    assert (schedule.paused, schedule.next_run) == ("1", None)


def test_run_now_stands_beside_the_cadence(queue: Queue) -> None:
    queue.repeat.register("a", payload=b"x", every=3600, lane="l", priority=2)
    before = next_ms(queue, "a")
    job = queue.jobs.get(queue.repeat.run_now("a").job_id)
    assert (job.payload, job.lane, job.priority) == (b"x", "l", 2)
    assert next_ms(queue, "a") == before
    with pytest.raises(LookupError):
        queue.repeat.run_now("b")


def test_cancel_ends_the_schedule_and_leaves_its_jobs(queue: Queue, raw: redis.Redis) -> None:
    queue.repeat.register("a", payload=b"x", every=60)
    make_due(queue, raw, "a")
    queue.repeat.fire()
    assert queue.repeat.cancel("a")
    assert not queue.repeat.cancel("a")
    assert queue.repeat.get("a") is None
    assert queue.metrics.counts("pending") == {"pending": 1}
    left = {key.removeprefix(queue.keys.base) for key in raw.keys(queue.keys.base + b"*")}
    assert not left & {b"repeat", b"cron", b"schedules", b"repeat:a"}


def test_failing_occurrences_never_stop_the_schedule(queue: Queue, raw: redis.Redis) -> None:
    queue.repeat.register("a", payload=b"x", every=60)
    for _ in range(3):
        make_due(queue, raw, "a")
        assert queue.repeat.fire() == 1
        (claim,) = queue.jobs.claim()
        queue.jobs.retry(claim, 0, 1, "boom")
    schedule = queue.repeat.get("a")
    assert schedule is not None
    assert schedule.fired == 3


def test_a_tick_fires_once_however_many_fire_it(queue: Queue, raw: redis.Redis) -> None:
    for n in range(20):
        queue.repeat.register(f"s{n}", payload=str(n).encode(), every=60)
        make_due(queue, raw, f"s{n}")
    barrier = threading.Barrier(10)
    fired: list[int] = []

    def fire() -> None:
        barrier.wait()
        fired.append(queue.repeat.fire())

    threads = [threading.Thread(target=fire) for _ in range(10)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sum(fired) == 20
    payloads = [job.payload for job in queue.jobs.browse("pending")]
    assert Counter(payloads) == Counter(str(n).encode() for n in range(20))


def test_a_repeated_fire_call_does_nothing(queue: Queue, raw: redis.Redis) -> None:
    queue.repeat.register("a", payload=b"x", every=60)
    seen = make_due(queue, raw, "a")
    args = ("a", seen, seen + MINUTE, process_mint.mint(1))
    assert queue.run("repeat/fire", *args) == 1
    assert queue.run("repeat/fire", *args) == 0
    assert queue.metrics.counts("pending") == {"pending": 1}


def test_an_id_that_meets_a_row_is_minted_again(queue: Queue, raw: redis.Redis) -> None:
    taken = queue.jobs.enqueue(b"another").job_id
    queue.repeat.register("a", payload=b"x", every=60)
    seen = make_due(queue, raw, "a")
    assert queue.run("repeat/fire", "a", seen, seen + MINUTE, taken) == -1
    assert queue.jobs.get(taken).payload == b"another"
    assert queue.repeat.fire() == 1


@pytest.mark.parametrize(
    "record",
    [
        {"every_ms": "soon", "template": "x"},
        {"every_ms": "-5", "template": "x"},
        {"cron": "not a line", "template": "x"},
        {"every_ms": "60000"},
        {"cron": "* * * * *", "tz": "Mars/Olympus", "template": "x"},
    ],
    ids=repr,
)
def test_a_record_that_cannot_be_read_is_paused_and_harms_no_other(
    queue: Queue, raw: redis.Redis, record: dict[str, str]
) -> None:
    queue.repeat.register("good", payload=b"x", every=60)
    make_due(queue, raw, "good")
    raw.hset(queue.keys.base + b"repeat:bad", mapping=record)
    make_due(queue, raw, "bad", cron="cron" in record)
    assert queue.repeat.fire() == 1
    assert queue.repeat.fire() == 0
    assert raw.hget(queue.keys.base + b"repeat:bad", "paused") == b"it cannot be read"
    assert queue.metrics.counts("pending") == {"pending": 1}


def test_a_name_without_a_record_is_dropped(queue: Queue, raw: redis.Redis) -> None:
    make_due(queue, raw, "ghost")
    assert queue.repeat.fire() == 0
    Promoter([queue]).beat(queue)
    assert queue.repeat.all() == []


@pytest.mark.parametrize(
    ("options", "error"),
    [
        ({}, ValueError),
        ({"every": 1, "cron": "* * * * *"}, ValueError),
        ({"every": 0}, ValueError),
        ({"every": -1}, ValueError),
        ({"every": float("nan")}, ValueError),
        ({"every": "1"}, TypeError),
        ({"cron": "* * * *"}, ValueError),
        ({"cron": "61 * * * *"}, ValueError),
        ({"cron": "0 0 31 2 *"}, ValueError),
        ({"cron": "* * * * *", "tz": "Nowhere"}, ValueError),
        ({"every": 1, "catch_up": "some"}, ValueError),
        ({"every": 1, "lane": "a b"}, InvalidName),
        ({"every": 1, "priority": 101}, ValueError),
        ({"every": 1, "start": datetime(2026, 1, 1)}, ValueError),  # noqa: DTZ001
        ({"every": 1, "payload": 5}, TypeError),
        ({"cron": 5}, TypeError),
        ({"every": 1, "start": 10, "end": 5}, ValueError),
    ],
    ids=repr,
)
def test_what_makes_no_sense_is_refused_and_sends_nothing(
    queue: Queue, raw: redis.Redis, options: dict[str, object], error: type[Exception]
) -> None:
    with pytest.raises(error):
        queue.repeat.register("a", **{"payload": b"x", **options})  # type: ignore[arg-type]
    assert raw.keys(queue.keys.base + b"*") == []


def test_a_bad_name_is_refused(queue: Queue) -> None:
    with pytest.raises(InvalidName):
        queue.repeat.register("a b", payload=b"x", every=1)


def definition(name: str, **fields: object) -> Definition:
    values = {"every_ms": 60_000, "payload": b"x", "source": "settings", **fields}
    return Definition(name=name, **values)  # type: ignore[arg-type]


def test_reconciling_converges(queue: Queue) -> None:
    queue.repeat.register("by-hand", payload=b"x", every=60)
    first = [definition("a"), definition("b"), definition("c", cron="0 2 * * *", every_ms=None)]
    assert queue.repeat.reconcile(first, "settings") == {
        "a": "registered",
        "b": "registered",
        "c": "registered",
    }
    assert queue.repeat.reconcile(first, "settings") == {}
    second = [definition("a", payload=b"changed"), definition("d")]
    assert queue.repeat.reconcile(second, "settings") == {
        "a": "replaced",
        "d": "registered",
        "b": "cancelled",
        "c": "cancelled",
    }
    assert [schedule.name for schedule in queue.repeat.all()] == ["a", "by-hand", "d"]


def test_reconciling_leaves_what_others_registered(queue: Queue) -> None:
    queue.repeat.register("a", payload=b"mine", every=60)
    assert queue.repeat.reconcile([definition("a")], "settings") == {}
    assert queue.repeat.reconcile([], "settings") == {}
    schedule = queue.repeat.get("a")
    assert schedule is not None
    assert schedule.definition.payload == b"mine"


def test_a_parked_promoter_learns_of_the_next_run(
    make_queue: Callable[..., Queue], raw: redis.Redis
) -> None:
    queue = make_queue()
    queue.repeat.register("a", payload=b"x", every=0.2)
    tick = Promoter([queue]).beat(queue)
    assert tick.next_run_ms is not None
    assert tick.next_run_ms <= 200
    assert tick.next_ms == tick.next_run_ms


def test_an_end_that_passed_in_an_outage_still_has_its_ticks_made_up_for() -> None:
    ended = definition("a", every_ms=1_000, end_ms=3_600_000, catch_up="all")
    assert ended.following(1_000_000, 7_200_000) == 3_501_000
    assert ended.following(3_600_000, 7_200_000) is None
