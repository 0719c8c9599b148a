"""The ring holds exactly the lanes that can be served, after every verb that there is."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from contextlib import suppress

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_echomq.queue import Claim, Queue
from django_echomq.wire.errors import EchoMQError
from django_echomq.worker.promoter import tick_call
from tests.queue.keyspace import check_ring, fall_due, in_hand, lapse, names

MakeQueue = Callable[..., Queue]


class Hands:
    """A queue, the jobs that were ever in it, and the claims that were ever made."""

    def __init__(self, queue: Queue, raw: redis.Redis) -> None:
        self.queue, self.raw = queue, raw
        self.jobs: list[str] = []
        self.claims: list[Claim] = []

    def enqueue(self, lane: str, n: int) -> None:
        admissions = self.queue.jobs.enqueue_many([b"x"] * (1 + n % 3), lane=lane)
        self.jobs += [admission.job_id for admission in admissions]

    def park(self, lane: str, n: int) -> None:
        self.jobs.append(self.queue.jobs.enqueue_in(b"x", n % 2 * 3600, lane=lane).job_id)

    def claim(self, lane: str, n: int) -> None:
        self.claims += self.queue.jobs.claim(1 + n % 4)

    def lapse(self, lane: str, n: int) -> None:
        lapse(self.queue, self.raw, self.claims[n % len(self.claims)])

    def remove(self, lane: str, n: int) -> None:
        job_id = self.jobs[n % len(self.jobs)]
        self.raw.delete(self.queue.keys.job(job_id) + b":lock")
        if self.raw.exists(self.queue.keys.job(job_id)):
            self.raw.hdel(self.queue.keys.job(job_id), "lock")
        self.queue.jobs.remove(job_id)

    def promote(self, lane: str, n: int) -> None:
        fall_due(self.queue, self.raw, self.jobs[n % len(self.jobs)])
        self.queue.jobs.promote()

    def on_claim(self, verb: Callable[[Claim], object]) -> Callable[[str, int], object]:
        return lambda lane, n: verb(self.claims[n % len(self.claims)])

    def on_job(self, verb: Callable[[str], object]) -> Callable[[str, int], object]:
        return lambda lane, n: verb(self.jobs[n % len(self.jobs)])

    def verbs(self) -> dict[str, Callable[[str, int], object]]:
        queue = self.queue
        jobs, lanes = queue.jobs, queue.lanes
        return {
            "enqueue": self.enqueue,
            "enqueue more": self.enqueue,
            "park": self.park,
            "claim": self.claim,
            "claim more": self.claim,
            "complete": self.on_claim(jobs.complete),
            "retry": self.on_claim(lambda claim: jobs.retry(claim, 3600)),
            "die": self.on_claim(lambda claim: jobs.retry(claim, max_attempts=1)),
            "release": self.on_claim(jobs.release),
            "delay": self.on_claim(lambda claim: jobs.delay(claim, 3600)),
            "lapse": self.lapse,
            "reap": lambda lane, n: jobs.reap(),
            "reap a lane": lambda lane, n: lanes.reap(lane),
            "stall": lambda lane, n: queue.stalled.check(max_stalled=1),
            "beat": lambda lane, n: queue.drive(queue.client.run(tick_call(queue, 100))),
            "promote": self.promote,
            "promote now": self.on_job(jobs.promote_now),
            "reschedule": self.on_job(lambda job_id: jobs.reschedule(job_id, 1)),
            "cancel": self.on_job(jobs.cancel),
            "remove": self.remove,
            "reprocess": self.on_job(jobs.reprocess),
            "reassign": lambda lane, n: lanes.reassign(self.jobs[n % len(self.jobs)], lane),
            "to the flat set": self.on_job(lambda job_id: lanes.reassign(job_id, None)),
            "pause a lane": lambda lane, n: lanes.pause(lane),
            "resume a lane": lambda lane, n: lanes.resume(lane),
            "limit": lambda lane, n: lanes.limit(lane, (None, 1, 2)[n % 3]),
            "weigh": lambda lane, n: lanes.weight(lane, (None, 1, 3)[n % 3]),
            "drain a lane": lambda lane, n: lanes.drain(lane),
            "drain": lambda lane, n: queue.admin.drain(),
            "concurrency": lambda lane, n: queue.admin.limit_concurrency((None, None, 2)[n % 3]),
            "pause": lambda lane, n: queue.admin.pause(),
            "resume": lambda lane, n: queue.admin.resume(),
        }

    def check(self) -> None:
        check_ring(self.queue, self.raw)
        held = self.raw.zrange(self.queue.keys.active, 0, -1)
        groups = [self.raw.hget(self.queue.keys.job(each.decode()), "group") for each in held]
        assert in_hand(self.queue, self.raw) == Counter(g.decode() for g in groups if g)


@pytest.mark.timeout(600)  # a failure is made small before it is shown, which takes its time
def test_the_ring_is_true_after_every_verb(make_queue: MakeQueue, raw: redis.Redis) -> None:
    verbs = sorted(Hands(make_queue(), raw).verbs())
    step = st.tuples(st.sampled_from(verbs), st.sampled_from("ab"), st.integers(0, 30))

    @settings(max_examples=80, deadline=None, suppress_health_check=list(HealthCheck))
    @given(st.lists(step, min_size=30, max_size=50))
    def walk(steps: list[tuple[str, str, int]]) -> None:
        queue = make_queue()
        hands = Hands(queue, raw)
        queue.lanes.limit("a", 1)
        hands.enqueue("a", 2)
        hands.enqueue("b", 2)
        hands.claim("", 3)
        for verb, lane, n in steps:
            # Refused, or there is nothing yet to do it to.
            with suppress(EchoMQError, ZeroDivisionError):
                hands.verbs()[verb](lane, n)
            hands.check()
        queue.admin.pause()
        queue.admin.obliterate(force=True)
        assert {name for name in names(queue, raw) if not name.startswith("ledger:")} == set()

    walk()
