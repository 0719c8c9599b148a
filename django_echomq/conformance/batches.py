"""Batches: many claimed in one step, each settled on its own."""

from __future__ import annotations

from dataclasses import replace

from ..queue import Claim, Settled
from ..queue.backoff import Fixed
from ..wire.errors import StaleToken
from ..worker.batches import BatchConsumer, BatchVerdict
from .case import Case, refused, same


def batch_claim(case: Case) -> None:
    jobs = case.queue.jobs
    ids = [jobs.enqueue(b"x").job_id for _ in range(8)]
    claims = jobs.claim(4)
    same("the claims", [claim.job_id for claim in claims], ids[:4])
    same("their tokens", {claim.attempts for claim in claims}, {1})
    same("deadlines", len({case.score("active", job_id) for job_id in ids[:4]}), 1)


def batch_claim_short(case: Case) -> None:
    queue = case.queue
    queue.jobs.enqueue_many([b"x"] * 3)
    same("jobs of seven asked for", len(queue.jobs.claim(7)), 3)
    same("a claim of nothing", queue.jobs.claim(7), [])
    queue.jobs.enqueue(b"x")
    queue.admin.pause()
    same("a claim while paused", queue.jobs.claim(7), [])
    same("what waits", queue.metrics.counts("pending"), {"pending": 1})


def batch_partial_failure(case: Case) -> None:
    jobs = case.queue.jobs
    jobs.enqueue_many([b"x"] * 4)
    first, poison, *others = jobs.claim(4)
    with refused("poison under another token", StaleToken):
        jobs.complete(replace(poison, attempts=99))
    for claim in (first, *others):
        jobs.complete(claim)
    same("the word for poison", jobs.retry(poison, 0.001, 3, "boom"), Settled.SCHEDULED)
    case.promoted()
    again = jobs.claim(4)
    found = [(claim.job_id, claim.attempts) for claim in again]
    same("what returns", found, [(poison.job_id, 2)])


def batch_shaping_floor(case: Case) -> None:
    jobs = case.queue.jobs
    consumer = BatchConsumer(case.queue, _all_well, min_size=4, timeout=3600)
    ids = [each.job_id for each in jobs.enqueue_many([b"x"] * 3)]
    same("a batch below the floor", consumer.step(), None)
    ids += [each.job_id for each in jobs.enqueue_many([b"x"] * 3)]
    same("the batch", _ids(consumer), ids)
    same("their states", {jobs.state(job_id) for job_id in ids}, {"completed"})


def batch_shaping_timeout(case: Case) -> None:
    jobs, now = case.queue.jobs, 0.0
    consumer = BatchConsumer(case.queue, _all_well, min_size=5, timeout=10, clock=lambda: now)
    same("a batch of nothing", consumer.step(), None)
    now = 10.0
    same("a batch of nothing after the timeout", consumer.step(), None)
    ids = [each.job_id for each in jobs.enqueue_many([b"x"] * 2)]
    same("a batch below the floor", consumer.step(), None)
    now = 19.999
    same("a batch just before the timeout", consumer.step(), None)
    now = 20.0
    same("the batch at the timeout", _ids(consumer), ids)


def batch_shaping_partial_failure(case: Case) -> None:
    jobs = case.queue.jobs
    well, poison, omitted = (each.job_id for each in jobs.enqueue_many([b"x"] * 3))
    consumer = BatchConsumer(
        case.queue,
        lambda claims: {well: "ok", poison: ValueError("boom")},
        min_size=3,
        backoff=Fixed(1),
    )
    batch = consumer.step()
    wanted = {well: Settled.DONE, poison: Settled.SCHEDULED, omitted: Settled.SCHEDULED}
    same("what became of them", batch and batch.settled, wanted)
    errors = [jobs.get(job_id).last_error for job_id in (poison, omitted)]
    same("the errors", errors, ["ValueError: boom", "missing verdict"])

    def both_wait() -> bool:
        jobs.promote()
        return jobs.size("pending") == 2

    case.until(both_wait, "both to fall due")
    again = [(claim.job_id, claim.attempts) for claim in jobs.claim(3)]
    same("what returns", again, [(poison, 2), (omitted, 2)])


def batch_partition(case: Case) -> None:
    jobs, client = case.queue.jobs, case.client
    ids = [each.job_id for each in jobs.enqueue_many([b"x"] * 5)]
    completed, retried, buried, delayed, omitted = jobs.claim(5)
    jobs.delay(delayed, 3600)
    slot = client.take_slot()
    try:
        settlements = [
            jobs.completion(completed),
            jobs.failure(retried, 3600, 3, "boom"),
            jobs.failure(buried, 3600, 1, "boom"),
            jobs.failure(omitted, 3600, 3, "missing verdict"),
        ]
        call = jobs.exchange_call(slot, settlements, 0, "conformance")
        words = jobs.exchange_answer(client.drive(client.run(call))).settled
    finally:
        client.give_slot(slot)
    same("the words", words, [Settled.DONE, Settled.SCHEDULED, Settled.DEAD, Settled.SCHEDULED])
    states = [jobs.state(job_id) for job_id in ids]
    same("the states", states, ["completed", "scheduled", "dead", "scheduled", "scheduled"])
    same("the error of the omitted", jobs.get(omitted.job_id).last_error, "missing verdict")


def _all_well(claims: list[Claim]) -> dict[str, BatchVerdict]:
    return {claim.job_id: "ok" for claim in claims}


def _ids(consumer: BatchConsumer) -> list[str]:
    batch = consumer.step()
    return [] if batch is None else [claim.job_id for claim in batch.claims]
