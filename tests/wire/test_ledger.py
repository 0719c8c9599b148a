"""Calls whose reply was lost: run once, and recognised when they come again."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from django_echomq.queue import Claim, Queue, QueueOptions, Unique
from django_echomq.wire.client import Client, Slot
from django_echomq.wire.errors import JobGone, StaleToken, Superseded
from django_echomq.wire.scripts import script
from tests.queue.keyspace import lapse, server_ms
from tests.wire.monitor import recorded
from tests.wire.proxy import Proxy

MakeQueue = Callable[..., Queue]

ENQUEUE = script("jobs/enqueue").sha
SETTLE = script("jobs/settle").sha
PERIOD_MS = 60_000
#: How ``jobs/enqueue`` is told of a unique key, after its ttl.
HELD = ("done", "skip", 0, 0)


@pytest.fixture
def lossy(queue: Queue, proxy: Proxy) -> Iterator[Queue]:
    """The same queue by way of the proxy, its scripts known and its node leased."""
    made = Queue(queue.name, Client(proxy.endpoint, retry_for=30.0))
    made.drive(made.client.mint(1))
    yield made
    made.client.close()


def admission_args(slot: Slot, *pairs: str | bytes, when: str = "now") -> list[Any]:
    """The arguments of ``jobs/enqueue`` for minted ids, on a slot's next call."""
    return [*slot.next(), when, 0, "", 0, "minted", "", 0, *HELD, *pairs]


def mint(queue: Queue) -> str:
    (minted,) = queue.drive(queue.client.mint(1))
    return minted


def payloads(queue: Queue) -> list[bytes]:
    return sorted(job.payload for job in queue.jobs.browse(limit=1_000))


# Admissions


def test_an_admission_whose_reply_was_lost_is_admitted_once(
    queue: Queue, lossy: Queue, proxy: Proxy
) -> None:
    proxy.lose_reply(ENQUEUE)
    admission = lossy.jobs.enqueue(b"x")
    assert proxy.lost == 1
    assert admission.outcome == "enqueued"
    assert [job.id for job in queue.jobs.browse()] == [admission.job_id]


def test_an_admission_is_recognised_however_often_its_reply_is_lost(
    queue: Queue, lossy: Queue, proxy: Proxy
) -> None:
    proxy.lose_reply(ENQUEUE, times=4)
    admission = lossy.jobs.enqueue(b"x")
    assert proxy.lost == 4
    assert admission.outcome == "enqueued"
    assert [job.id for job in queue.jobs.browse()] == [admission.job_id]


def test_an_admission_under_an_id_of_ones_own_is_no_duplicate_of_itself(
    queue: Queue, lossy: Queue, proxy: Proxy
) -> None:
    proxy.lose_reply(ENQUEUE)
    admission = lossy.jobs.enqueue(b"x", job_id="JOB0NsVQMCRgHI")
    assert proxy.lost == 1
    assert (admission.job_id, admission.outcome) == ("JOB0NsVQMCRgHI", "enqueued")


def test_an_admission_under_a_unique_key_is_no_duplicate_of_itself(
    queue: Queue, lossy: Queue, proxy: Proxy
) -> None:
    proxy.lose_reply(ENQUEUE)
    admission = lossy.jobs.enqueue(b"x", unique=Unique("report"))
    assert proxy.lost == 1
    assert admission.outcome == "enqueued"
    assert len(queue.jobs.browse()) == 1


def test_a_duplicate_whose_reply_was_lost_still_names_the_holder(
    queue: Queue, lossy: Queue, proxy: Proxy
) -> None:
    holder = queue.jobs.enqueue(b"x", unique=Unique("report"))
    proxy.lose_reply(ENQUEUE)
    admission = lossy.jobs.enqueue(b"y", unique=Unique("report"))
    assert proxy.lost == 1
    assert (admission.job_id, admission.outcome) == (holder.job_id, "duplicate")


def test_a_scheduled_job_whose_reply_was_lost_is_scheduled_once(
    queue: Queue, lossy: Queue, proxy: Proxy
) -> None:
    proxy.lose_reply(ENQUEUE)
    admission = lossy.jobs.enqueue_in(b"x", 60)
    assert proxy.lost == 1
    assert admission.outcome == "scheduled"
    assert queue.metrics.counts("scheduled", "pending") == {"scheduled": 1, "pending": 0}


def test_many_jobs_whose_reply_was_lost_are_admitted_once(
    queue: Queue, lossy: Queue, proxy: Proxy
) -> None:
    proxy.lose_reply(ENQUEUE, times=2)
    bodies = [b"%d" % i for i in range(1_100)]
    admissions = lossy.jobs.enqueue_many(bodies)
    assert proxy.lost == 2
    assert {admission.outcome for admission in admissions} == {"enqueued"}
    assert queue.metrics.counts("pending") == {"pending": 1_100}
    for admission in (admissions[0], admissions[500], admissions[-1]):
        body = bodies[admissions.index(admission)]
        assert queue.jobs.get(admission.job_id).payload == body


def test_an_admission_whose_reply_was_lost_is_admitted_once_on_an_event_loop(
    queue: Queue, lossy: Queue, proxy: Proxy
) -> None:
    proxy.lose_reply(ENQUEUE)
    (admission,) = asyncio.run(lossy.client.adrive(lossy.jobs.admission([b"x"])))
    assert proxy.lost == 1
    assert admission.outcome == "enqueued"
    assert [job.id for job in queue.jobs.browse()] == [admission.job_id]


def test_a_repeat_is_recognised_after_the_job_has_come_and_gone(
    make_queue: MakeQueue,
) -> None:
    queue = make_queue(keep_completed_ms=0)
    slot = queue.client.take_slot()
    args = admission_args(slot, mint(queue), b"x")
    assert queue.run("jobs/enqueue", *args) == [1]
    (claim,) = queue.jobs.claim()
    queue.jobs.complete(claim)
    assert queue.jobs.state(claim.job_id) == "absent"
    assert queue.run("jobs/enqueue", *args) == [1]
    assert queue.jobs.state(claim.job_id) == "absent"
    assert queue.metrics.counts("pending", "completed") == {"pending": 0, "completed": 1}


def test_a_repeat_rings_no_worker(queue: Queue, raw: redis.Redis) -> None:
    args = admission_args(queue.client.take_slot(), mint(queue), b"x")
    queue.run("jobs/enqueue", *args)
    raw.delete(queue.keys.wake)
    queue.run("jobs/enqueue", *args)
    assert raw.exists(queue.keys.wake) == 0


def test_a_later_call_of_a_slot_runs(queue: Queue) -> None:
    slot = queue.client.take_slot()
    for body in (b"1", b"2", b"3"):
        queue.run("jobs/enqueue", *admission_args(slot, mint(queue), body))
    assert payloads(queue) == [b"1", b"2", b"3"]


def test_slots_do_not_know_of_each_other(queue: Queue) -> None:
    for slot in (Slot(b"one"), Slot(b"two"), Slot(b"one:1"), Slot(b"")):
        queue.run("jobs/enqueue", *admission_args(slot, mint(queue), slot.name))
    assert payloads(queue) == [b"", b"one", b"one:1", b"two"]


def test_the_ledger_of_one_queue_says_nothing_about_another(make_queue: MakeQueue) -> None:
    first, second = make_queue(), make_queue()
    args = admission_args(Slot(b"shared"), mint(first), b"x")
    first.run("jobs/enqueue", *args)
    second.run("jobs/enqueue", *args)
    assert payloads(first) == payloads(second) == [b"x"]


def test_an_overtaken_admission_is_refused_and_not_run(queue: Queue, raw: redis.Redis) -> None:
    slot = queue.client.take_slot()
    late = admission_args(slot, mint(queue), b"late")
    queue.run("jobs/enqueue", *admission_args(slot, mint(queue), b"early"))
    with pytest.raises(Superseded):
        queue.run("jobs/enqueue", *late)
    assert payloads(queue) == [b"early"]
    assert raw.exists(queue.keys.job(late[-2])) == 0


def test_a_refused_admission_is_not_noted(queue: Queue) -> None:
    slot = Slot(b"slot")
    args = [*slot.next(), "now", 0, "", 0, "own", "", 0, *HELD]
    with pytest.raises(ValueError, match="JOB"):
        queue.run("jobs/enqueue", *args, "ORD0NsVQMCRgHI", b"x")
    assert queue.run("jobs/enqueue", *args, "JOB0NsVQMCRgHI", b"x") == [1]


# Claims


def test_a_claim_whose_reply_was_lost_is_answered_again(
    queue: Queue, lossy: Queue, proxy: Proxy
) -> None:
    admitted = [queue.jobs.enqueue(b"1").job_id, queue.jobs.enqueue(b"2", lane="a").job_id]
    left = queue.jobs.enqueue(b"3", lane="a").job_id
    proxy.lose_reply(SETTLE)
    claims = lossy.jobs.claim(2)
    assert proxy.lost == 1
    assert sorted(claim.job_id for claim in claims) == sorted(admitted)
    assert [queue.jobs.state(each) for each in (*admitted, left)] == ["active"] * 2 + ["pending"]


def test_a_claim_answered_again_is_the_same_claim(queue: Queue) -> None:
    queue.jobs.enqueue(b"flat")
    queue.jobs.enqueue(b"in a lane", lane="a")
    (failed,) = queue.jobs.claim()
    history = b'{"attempt": 1}'
    queue.jobs._settle(queue.jobs.failure(failed, history=history))
    queue.jobs.promote()
    slot = queue.client.take_slot()
    call = queue.jobs.exchange_call(slot, (), 5, "worker")
    first, second = (
        queue.jobs.exchange_answer(queue.drive(queue.client.run(call))).claims for _ in range(2)
    )
    again = {claim.job_id: claim for claim in second}
    assert again == {claim.job_id: claim for claim in first}
    assert {claim.lane for claim in second} == {None, "a"}
    assert (again[failed.job_id].attempts, again[failed.job_id].history) == (2, history)


def test_a_claim_answered_again_can_be_settled(queue: Queue, lossy: Queue, proxy: Proxy) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    proxy.lose_reply(SETTLE)
    (claim,) = lossy.jobs.claim()
    lossy.jobs.complete(claim)
    assert proxy.lost == 1
    assert queue.jobs.state(job_id) == "completed"


def test_a_claim_of_nothing_whose_reply_was_lost_claims_nothing_later(queue: Queue) -> None:
    call = queue.jobs.exchange_call(queue.client.take_slot(), (), 5, "worker")
    assert queue.drive(queue.client.run(call))[1] == []
    queue.jobs.enqueue(b"x")
    assert queue.drive(queue.client.run(call))[1] == []
    assert queue.metrics.counts("pending") == {"pending": 1}


def test_a_job_whose_lease_lapsed_is_not_answered_again(queue: Queue, raw: redis.Redis) -> None:
    lost, kept = queue.jobs.enqueue(b"1").job_id, queue.jobs.enqueue(b"2").job_id
    call = queue.jobs.exchange_call(queue.client.take_slot(), (), 5, "worker")
    queue.drive(queue.client.run(call))
    lapse(queue, raw, Claim(lost, b"", 1))
    assert queue.jobs.reap() == 1
    answer = queue.jobs.exchange_answer(queue.drive(queue.client.run(call)))
    assert [claim.job_id for claim in answer.claims] == [kept]


def test_a_job_that_another_worker_has_meanwhile_is_not_answered_again(
    queue: Queue, raw: redis.Redis
) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    call = queue.jobs.exchange_call(queue.client.take_slot(), (), 5, "worker")
    queue.drive(queue.client.run(call))
    lapse(queue, raw, Claim(job_id, b"", 1))
    queue.jobs.reap()
    (theirs,) = queue.jobs.claim()
    assert theirs.job_id == job_id
    assert queue.jobs.exchange_answer(queue.drive(queue.client.run(call))).claims == []
    queue.jobs.complete(theirs)


def test_an_overtaken_claim_is_refused_and_claims_nothing(queue: Queue) -> None:
    slot = queue.client.take_slot()
    late = queue.jobs.exchange_call(slot, (), 5, "worker")
    queue.drive(queue.client.run(queue.jobs.exchange_call(slot, (), 0, "worker")))
    queue.jobs.enqueue(b"x")
    with pytest.raises(Superseded):
        queue.drive(queue.client.run(late))
    assert queue.metrics.counts("pending", "active") == {"pending": 1, "active": 0}


# Settlements


def test_a_completion_whose_reply_was_lost_counts_once(
    queue: Queue, lossy: Queue, proxy: Proxy
) -> None:
    job_id = lossy.jobs.enqueue(b"x").job_id
    (claim,) = lossy.jobs.claim()
    proxy.lose_reply(SETTLE)
    lossy.jobs.complete(claim, b"result")
    assert proxy.lost == 1
    assert queue.jobs.get(job_id).result == b"result"
    assert queue.metrics.counts("completed") == {"completed": 1}


def test_a_completion_that_keeps_nothing_is_recognised(make_queue: MakeQueue, proxy: Proxy) -> None:
    queue = make_queue(keep_completed_ms=0)
    lossy = Queue(queue.name, Client(proxy.endpoint, retry_for=30.0), queue.options)
    lossy.jobs.enqueue(b"x")
    (claim,) = lossy.jobs.claim()
    proxy.lose_reply(SETTLE)
    lossy.jobs.complete(claim)
    assert proxy.lost == 1
    lossy.client.close()
    with pytest.raises(JobGone):
        queue.jobs.complete(claim)


@pytest.mark.parametrize(("budget", "word"), [(3, "scheduled"), (1, "dead")])
def test_a_failure_whose_reply_was_lost_happens_once(
    queue: Queue, lossy: Queue, proxy: Proxy, budget: int, word: str
) -> None:
    job_id = lossy.jobs.enqueue(b"x").job_id
    (claim,) = lossy.jobs.claim()
    proxy.lose_reply(SETTLE)
    assert lossy.jobs.retry(claim, 60, budget, "no luck") == word
    assert proxy.lost == 1
    row = queue.jobs.get(job_id)
    assert (row.state, row.attempts, row.last_error) == (word, 1, "no luck")
    assert queue.metrics.counts("failed") == {"failed": int(word == "dead")}


def test_a_history_entry_whose_reply_was_lost_is_written_once(
    queue: Queue, lossy: Queue, proxy: Proxy
) -> None:
    job_id = lossy.jobs.enqueue(b"x").job_id
    (claim,) = lossy.jobs.claim()
    proxy.lose_reply(SETTLE)
    lossy.jobs._settle(lossy.jobs.failure(claim, history=b'{"n": 1}'))
    assert proxy.lost == 1
    assert queue.jobs.get(job_id).history == [{"n": 1}]


def test_a_release_whose_reply_was_lost_happens_once(
    queue: Queue, lossy: Queue, proxy: Proxy
) -> None:
    job_id = lossy.jobs.enqueue(b"x", lane="a").job_id
    (claim,) = lossy.jobs.claim()
    proxy.lose_reply(SETTLE)
    lossy.jobs.release(claim)
    assert proxy.lost == 1
    row = queue.jobs.get(job_id)
    assert (row.state, row.fields["attempts_base"]) == ("pending", b"1")


def test_a_release_is_recognised_although_the_job_is_in_other_hands(queue: Queue) -> None:
    queue.jobs.enqueue(b"x")
    (claim,) = queue.jobs.claim()
    giving_back = queue.jobs.giving_back(claim)
    call = queue.jobs.exchange_call(queue.client.take_slot(), [giving_back], 0, "worker")
    assert queue.drive(queue.client.run(call))[0] == [b"released"]
    (theirs,) = queue.jobs.claim()
    assert queue.drive(queue.client.run(call))[0] == [b"released"]
    queue.jobs.complete(theirs)


def test_words_and_claims_of_one_exchange_are_answered_again(queue: Queue) -> None:
    queue.jobs.enqueue_many([b"x"] * 4)
    gone, stale, done = queue.jobs.claim(3)
    queue.jobs.complete(gone)
    settlements = [
        queue.jobs.completion(gone),
        queue.jobs.completion(Claim(stale.job_id, b"", 9)),
        queue.jobs.completion(done),
    ]
    call = queue.jobs.exchange_call(queue.client.take_slot(), settlements, 5, "worker")
    first, second = (queue.drive(queue.client.run(call)) for _ in range(2))
    assert first == second
    exchange = queue.jobs.exchange_answer(first)
    assert exchange.settled == ["gone", "stale", "done"]
    assert exchange.claimed == len(exchange.claims) == 1


@pytest.mark.parametrize("verb", ["complete", "retry", "release"])
def test_a_stale_settlement_is_refused_although_its_reply_was_lost(
    queue: Queue, lossy: Queue, proxy: Proxy, verb: str
) -> None:
    queue.jobs.enqueue(b"x")
    (claim,) = queue.jobs.claim()
    proxy.lose_reply(SETTLE)
    with pytest.raises(StaleToken):
        getattr(lossy.jobs, verb)(Claim(claim.job_id, b"", 9))
    assert proxy.lost == 1
    queue.jobs.complete(claim)


# The ledger's own keys


def ledger_keys(queue: Queue, raw: redis.Redis) -> list[bytes]:
    return sorted(raw.scan_iter(b"emq:{%s}:ledger:*" % queue.name.encode(), count=1000))


def within_a_period(raw: redis.Redis, work: Callable[[int], None]) -> None:
    """Does the work again where the server's clock turned a period over meanwhile."""
    while True:
        period = server_ms(raw) // PERIOD_MS
        try:
            work(period)
        except AssertionError:
            if server_ms(raw) // PERIOD_MS == period:
                raise
        if server_ms(raw) // PERIOD_MS == period:
            return


def test_every_ledger_key_ends_by_itself(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x")
    (claim,) = queue.jobs.claim()
    queue.jobs.complete(claim)
    found = ledger_keys(queue, raw)
    assert found
    assert all(0 < raw.pttl(key) <= 3 * PERIOD_MS for key in found)


def test_a_later_entry_does_not_lengthen_the_life_of_its_key(
    queue: Queue, raw: redis.Redis
) -> None:
    queue.jobs.enqueue(b"1")
    key = ledger_keys(queue, raw)[-1]
    raw.pexpire(key, 90_000)
    queue.client._slots.clear()
    queue.jobs.enqueue(b"2")
    assert raw.pttl(key) <= 90_000


def test_a_slot_has_one_entry_per_period(queue: Queue, raw: redis.Redis) -> None:
    for _ in range(20):
        queue.jobs.enqueue(b"x")
    assert all(raw.hlen(key) == 1 for key in ledger_keys(queue, raw))
    assert len(ledger_keys(queue, raw)) <= 2


@pytest.mark.parametrize(("age", "known"), [(0, True), (1, True), (2, False), (3, False)])
def test_an_entry_is_known_in_its_period_and_the_next(
    make_queue: MakeQueue, raw: redis.Redis, age: int, known: bool
) -> None:
    def work(period: int) -> None:
        queue = make_queue()
        key = queue.keys.base + b"ledger:%d" % ((period - age) % 4)
        raw.hset(key, "slot", "7:[1]")
        queue.run(
            "jobs/enqueue", "slot", 7, "now", 0, "", 0, "minted", "", 0, *HELD, mint(queue), b"x"
        )
        assert queue.metrics.counts("pending") == {"pending": 0 if known else 1}

    within_a_period(raw, work)


def test_an_entry_of_this_period_hides_that_of_the_last(
    make_queue: MakeQueue, raw: redis.Redis
) -> None:
    def work(period: int) -> None:
        queue = make_queue()
        raw.hset(queue.keys.base + b"ledger:%d" % ((period - 1) % 4), "slot", "7:[1]")
        args = ["now", 0, "", 0, "minted", "", 0, *HELD, mint(queue), b"x"]
        queue.run("jobs/enqueue", "slot", 8, *args)
        with pytest.raises(Superseded):
            queue.run("jobs/enqueue", "slot", 7, *args)

    within_a_period(raw, work)


def test_an_admission_is_one_round_trip(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"warm")
    with recorded(raw) as recording:
        queue.jobs.enqueue(b"x")
        (sent,) = recording.sent()
    assert sent.startswith(f"EVALSHA {ENQUEUE.decode()} 1 ")


def test_options_of_a_queue_do_not_change_what_a_repeat_answers(
    queue: Queue, raw: redis.Redis
) -> None:
    queue.jobs.enqueue(b"x")
    (claim,) = queue.jobs.claim()
    slot = queue.client.take_slot()
    call = queue.jobs.exchange_call(slot, [queue.jobs.completion(claim)], 0, "worker")
    queue.drive(queue.client.run(call))
    other = Queue(queue.name, queue.client, QueueOptions(keep_completed_ms=0))
    slot.number -= 1
    again = other.jobs.exchange_call(slot, [other.jobs.completion(claim)], 0, "worker")
    assert other.drive(other.client.run(again))[0] == [b"done"]
    assert queue.jobs.state(claim.job_id) == "completed"
