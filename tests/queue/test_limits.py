"""Limits of a queue: jobs in hand at once, starts within a window."""

from __future__ import annotations

from collections.abc import Callable

import pytest
import redis

from django_echomq.queue import LaneOptions, Queue, Rate
from django_echomq.queue.jobs import Exchange
from django_echomq.worker.promoter import tick_answer, tick_call
from tests.conftest import wait_until
from tests.queue.keyspace import endless, lapse, names, server_ms

MakeQueue = Callable[..., Queue]


def fill(queue: Queue, count: int = 10, lane: str | None = None) -> None:
    queue.jobs.enqueue_many([b"x"] * count, lane=lane)


def ask(queue: Queue, limit: int = 100) -> Exchange:
    return queue.jobs._exchange((), limit)


def waiting(queue: Queue) -> int:
    return tick_answer(queue, queue.drive(queue.client.run(tick_call(queue, 100)))).waiting


def started(queue: Queue, raw: redis.Redis, *ages: int) -> None:
    """Lets starts lie so many ms in the past, oldest first."""
    now = server_ms(raw)
    raw.delete(queue.keys.base + b"rate")
    raw.rpush(queue.keys.base + b"rate", *(now - age for age in ages))


def window(queue: Queue, raw: redis.Redis) -> int:
    return int(raw.llen(queue.keys.base + b"rate"))


# Concurrency


def test_no_more_are_in_hand_than_the_queue_allows(queue: Queue) -> None:
    queue.admin.limit_concurrency(3)
    fill(queue, 4, "a")
    fill(queue, 4)
    claims = queue.jobs.claim(100)
    assert len(claims) == 3
    assert queue.jobs.claim(100) == []
    assert queue.metrics.is_maxed()
    queue.jobs.complete(claims[0])
    assert not queue.metrics.is_maxed()
    assert len(queue.jobs.claim(100)) == 1
    queue.admin.limit_concurrency(None)
    assert len(queue.jobs.claim(100)) == 4


def test_a_settlement_makes_room_for_the_claim_beside_it(queue: Queue) -> None:
    queue.admin.limit_concurrency(2)
    fill(queue)
    claims = queue.jobs.claim(2)
    exchange = queue.jobs._exchange([queue.jobs.completion(claim) for claim in claims], 5)
    assert len(exchange.claims) == 2


@pytest.mark.parametrize("lane", [None, "a"])
@pytest.mark.parametrize("end", ["complete", "retry", "die", "delay", "stall", "cancel", "remove"])
def test_room_below_the_concurrency_wakes_a_worker(
    queue: Queue, raw: redis.Redis, end: str, lane: str | None
) -> None:
    queue.admin.limit_concurrency(1)
    fill(queue, 2, lane)
    (claim,) = queue.jobs.claim(5)
    assert not raw.exists(queue.keys.wake)
    assert waiting(queue) == 0
    if end == "complete":
        queue.jobs.complete(claim)
    elif end == "retry":
        queue.jobs.retry(claim, 60)
    elif end == "die":
        queue.jobs.retry(claim, max_attempts=1)
    elif end == "delay":
        queue.jobs.delay(claim, 60)
    elif end == "stall":
        lapse(queue, raw, claim)
        queue.stalled.check(max_stalled=1)
    elif end == "cancel":
        queue.jobs.cancel(claim.job_id)
        lapse(queue, raw, claim)
        queue.jobs.reap()
    else:
        raw.zadd(queue.keys.active, {claim.job_id: 1})  # its lease has lapsed
        queue.jobs.remove(claim.job_id)
    assert raw.exists(queue.keys.wake)
    assert waiting(queue) > 0
    assert len(queue.jobs.claim(5)) == 1


def test_nobody_is_woken_for_room_that_nobody_waits_for(queue: Queue, raw: redis.Redis) -> None:
    queue.admin.limit_concurrency(1)
    fill(queue, 1)
    (claim,) = queue.jobs.claim()
    raw.delete(queue.keys.wake)
    queue.jobs.complete(claim)
    assert not raw.exists(queue.keys.wake)


# The rate


def test_no_more_start_in_a_window_than_the_rate(queue: Queue, raw: redis.Redis) -> None:
    queue.admin.limit_rate("4/h")
    fill(queue, 3, "a")
    fill(queue, 3)
    assert len(queue.jobs.claim(3)) == 3
    assert len(queue.jobs.claim(100)) == 1
    assert queue.jobs.claim(100) == []
    assert queue.metrics.is_maxed()
    assert window(queue, raw) == 4
    assert 0 < raw.pttl(queue.keys.base + b"rate") <= 3_600_000


def test_the_window_slides_and_has_no_edge(queue: Queue, raw: redis.Redis) -> None:
    queue.admin.limit_rate("5/m")
    fill(queue, 20)
    # Three at the start of some minute, two just before the end of the next.
    started(queue, raw, 60_001, 60_000, 30_000, 100, 50)
    assert len(queue.jobs.claim(100)) == 2
    assert window(queue, raw) == 5
    started(queue, raw, 30_000, 100, 50, 40, 30)
    assert queue.jobs.claim(100) == []


def test_starts_over_all_claims_stay_within_the_rate_at_every_moment(
    queue: Queue, raw: redis.Redis
) -> None:
    queue.admin.limit_rate("20/s")
    fill(queue, 60)
    times: list[int] = []
    while len(times) < 60:
        for claim in queue.jobs.claim(7):
            times.append(int(raw.hget(queue.keys.job(claim.job_id), "started_at")))
    assert all(later - first >= 1_000 for first, later in zip(times, times[20:], strict=False))


def test_the_reply_says_when_the_next_may_start(queue: Queue, raw: redis.Redis) -> None:
    queue.admin.limit_rate("3/m")
    assert ask(queue).token_ms is None
    fill(queue, 5)
    assert ask(queue, 2).token_ms is None
    first = ask(queue)
    assert len(first.claims) == 1
    assert first.token_ms is not None
    assert 55_000 < first.token_ms <= 60_000
    started(queue, raw, 50_000, 20, 10)
    again = ask(queue)
    assert again.claims == []
    assert again.token_ms is not None
    assert 5_000 < again.token_ms <= 10_000
    assert waiting(queue) == 0


def test_the_reply_says_nothing_where_nothing_waits(queue: Queue) -> None:
    queue.admin.limit_rate("3/m")
    fill(queue, 3)
    assert ask(queue).token_ms is None
    assert ask(queue).token_ms is None


def test_the_reply_says_nothing_while_the_queue_is_paused(queue: Queue) -> None:
    queue.admin.limit_rate("1/m")
    fill(queue, 3)
    assert ask(queue).token_ms is not None
    queue.admin.pause()
    assert ask(queue).token_ms is None


def test_a_rate_that_was_lowered_counts_what_has_started(queue: Queue, raw: redis.Redis) -> None:
    queue.admin.limit_rate("5/m")
    fill(queue)
    started(queue, raw, 50_000, 40_000, 30_000, 20_000, 10_000)
    queue.admin.limit_rate("2/m")
    token_ms = ask(queue).token_ms
    assert token_ms is not None
    assert 35_000 < token_ms <= 40_000  # four of them have left then


def test_a_rate_that_is_raised_or_lifted_holds_at_once(queue: Queue, raw: redis.Redis) -> None:
    queue.admin.limit_rate("1/h")
    fill(queue)
    assert len(ask(queue).claims) == 1
    raw.delete(queue.keys.wake)
    queue.admin.limit_rate("3/h")
    assert raw.exists(queue.keys.wake)
    assert len(ask(queue).claims) == 2
    queue.admin.limit_rate(None)
    assert len(ask(queue).claims) == 7
    assert names(queue, raw) & {"rate", "limiter"} == set()


def test_a_stock_reader_sees_the_limits(queue: Queue, raw: redis.Redis) -> None:
    queue.admin.limit_rate("2/m")
    queue.admin.limit_concurrency(9)
    assert raw.hmget(queue.keys.meta, "max", "concurrency") == [b"2", b"9"]
    fill(queue, 3)
    limiter = queue.keys.base + b"limiter"
    ask(queue, 1)
    assert not raw.exists(limiter)
    ask(queue, 1)
    assert int(raw.get(limiter)) >= 2
    assert 0 < raw.pttl(limiter) <= 60_000


def test_a_job_that_is_given_back_has_started_all_the_same(queue: Queue) -> None:
    queue.admin.limit_rate("1/h")
    fill(queue, 1)
    queue.jobs.release(queue.jobs.claim()[0])
    assert queue.jobs.claim() == []


def test_a_job_that_is_not_there_takes_no_token(queue: Queue, raw: redis.Redis) -> None:
    queue.admin.limit_rate("2/h")
    fill(queue, 3)
    raw.delete(queue.keys.job(queue.jobs.browse(newest_first=False)[0].id))
    assert len(queue.jobs.claim(2)) == 2


def test_a_claim_that_is_repeated_takes_its_tokens_once(queue: Queue, raw: redis.Redis) -> None:
    queue.admin.limit_rate("5/h")
    fill(queue)
    slot = queue.client.take_slot()
    call = queue.jobs.exchange_call(slot, (), 3, "w")
    answers = [queue.jobs.exchange_answer(queue.drive(queue.client.run(call))) for _ in range(2)]
    assert answers[0].claims == answers[1].claims
    assert window(queue, raw) == 3


def test_a_clock_that_was_set_back_does_not_stop_the_queue(queue: Queue, raw: redis.Redis) -> None:
    queue.admin.limit_rate("2/m")
    fill(queue)
    started(queue, raw, -3_600_000, -3_600_000)
    assert len(ask(queue).claims) == 2
    started(queue, raw, -30_000, -30_000)
    token_ms = ask(queue).token_ms
    assert token_ms is not None
    assert token_ms <= 90_000


def test_a_long_window_is_trimmed_in_few_steps(queue: Queue, raw: redis.Redis) -> None:
    queue.admin.limit_rate("100000/m")
    fill(queue, 2)
    for _ in range(10):
        started_before = [server_ms(raw) - 70_000] * 9_900 + [server_ms(raw) - 10] * 10
        raw.rpush(queue.keys.base + b"rate", *sorted(started_before))
    raw.sort(queue.keys.base + b"rate", store=queue.keys.base + b"rate")
    assert len(ask(queue).claims) == 2
    assert window(queue, raw) == 102


@pytest.mark.parametrize("field", ["concurrency", "max", "period"])
@pytest.mark.parametrize("garbage", ["", "x", "0", "-1", "nan", "inf", "1e400", "2.5", "9" * 40])
def test_a_limit_that_is_no_number_is_none(
    queue: Queue, raw: redis.Redis, field: str, garbage: str
) -> None:
    queue.admin.limit_rate("1/h")
    queue.admin.limit_concurrency(1)
    raw.hset(queue.keys.meta, field, garbage)
    fill(queue, 5, "a")
    fill(queue, 5)
    other = "concurrency" if field != "concurrency" else "rate"
    assert len(queue.jobs.claim(100)) == 1, f"{other} still holds"
    queue.admin.limit_rate(None) if field == "concurrency" else queue.admin.limit_concurrency(None)
    raw.hset(queue.keys.meta, field, garbage)
    assert len(queue.jobs.claim(100)) == 9


@pytest.mark.parametrize("start", ["", "x", "nan", "-1", "9" * 40])
def test_garbage_among_the_starts_breaks_no_claim(
    queue: Queue, raw: redis.Redis, start: str
) -> None:
    queue.admin.limit_rate("3/h")
    fill(queue)
    raw.rpush(queue.keys.base + b"rate", start, server_ms(raw), start)
    assert len(queue.jobs.claim(100)) <= 3
    assert queue.jobs.claim(100) == []


@pytest.mark.parametrize(
    ("value", "rate"),
    [
        ("100/s", Rate(100, 1_000)),
        (" 5000 / m ", Rate(5_000, 60_000)),
        ("10/h", Rate(10, 3_600_000)),
        ("1000/d", Rate(1_000, 86_400_000)),
        ("100000/m", Rate(100_000, 60_000)),
        (7, Rate(7, 1_000)),
        (Rate(2, 500), Rate(2, 500)),
    ],
)
def test_rates_are_read(value: object, rate: Rate) -> None:
    assert Rate.read(value) == rate


@pytest.mark.parametrize(
    ("value", "words"),
    [
        ("", "written"),
        ("100", "written"),
        ("100/x", "written"),
        ("-1/s", "written"),
        ("1.5/s", "written"),
        ("٣/s", "written"),
        ("0/s", "at least one"),
        (0, "at least one"),
        (True, "text"),
        (1.5, "text"),
        (None, "text"),
        ("6000000/m", "'100000/s'"),
        ("100001/s", "at most 100,000"),
        ("9" * 18 + "/d", "shorter unit"),
    ],
)
def test_other_rates_are_refused(queue: Queue, value: object, words: str) -> None:
    with pytest.raises((TypeError, ValueError), match=words):
        Rate.read(value)


@pytest.mark.parametrize("value", [0, -1, 1.5, True, "3", 1_000_001])
def test_a_concurrency_that_makes_no_sense_is_refused(queue: Queue, value: object) -> None:
    with pytest.raises((TypeError, ValueError), match="concurrency"):
        queue.admin.limit_concurrency(value)  # type: ignore[arg-type]


# Settings


def test_settings_are_applied_and_what_an_operator_set_since_stays(
    make_queue: MakeQueue, raw: redis.Redis
) -> None:
    queue = make_queue(
        concurrency=5,
        rate_limit=Rate(100, 1_000),
        lanes={"a": LaneOptions(weight=3, limit=10), "b": LaneOptions(limit=2)},
    )
    assert sorted(queue.admin.configure()) == [
        "concurrency",
        "limit:a",
        "limit:b",
        "rate",
        "weight:a",
    ]
    assert raw.hmget(queue.keys.meta, "concurrency", "max", "period") == [b"5", b"100", b"1000"]
    assert [(lane.name, lane.weight, lane.limit) for lane in queue.lanes.all()] == [
        ("a", 3, 10),
        ("b", 1, 2),
    ]
    queue.admin.limit_concurrency(1)
    queue.admin.limit_rate(None)
    queue.lanes.limit("a", None)
    assert queue.admin.configure() == []
    assert raw.hmget(queue.keys.meta, "concurrency", "max") == [b"1", None]

    again = Queue(queue.name, queue.client, make_queue(concurrency=6).options)
    assert sorted(again.admin.configure()) == [
        "concurrency",
        "limit:a",
        "limit:b",
        "rate",
        "weight:a",
    ]
    assert raw.hgetall(queue.keys.meta).keys() == {b"concurrency", b"settings"}
    assert queue.lanes.all() == []


def test_a_queue_without_settings_gets_no_key(queue: Queue, raw: redis.Redis) -> None:
    assert queue.admin.configure() == []
    assert names(queue, raw) == set()


def test_settings_that_are_taken_away_leave_no_key(make_queue: MakeQueue, raw: redis.Redis) -> None:
    queue = make_queue(concurrency=5, rate_limit=Rate(1, 1_000), lanes={"a": LaneOptions(2, 3)})
    queue.admin.configure()
    Queue(queue.name, queue.client).admin.configure()
    assert endless(queue, raw) <= {"wake"}


@pytest.mark.parametrize("garbage", ["", "x", "[1]", "null", "5", '{"limit:a": {}}'])
def test_garbage_for_what_was_applied_is_applied_over(
    make_queue: MakeQueue, raw: redis.Redis, garbage: str
) -> None:
    queue = make_queue(concurrency=5)
    raw.hset(queue.keys.meta, "settings", garbage)
    assert "concurrency" in queue.admin.configure()
    assert queue.admin.configure() == []


def test_obliterating_takes_limits_too(queue: Queue, raw: redis.Redis) -> None:
    queue.admin.limit_rate("2/m")
    queue.admin.limit_concurrency(3)
    queue.lanes.limit("a", 1)
    fill(queue, 3)
    wait_until(lambda: ask(queue).token_ms)
    queue.admin.pause()
    queue.admin.obliterate(force=True)
    assert names(queue, raw) == set()
