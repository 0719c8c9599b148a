"""Whatever a queue went through, an obliterate leaves not one key of it behind."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_echomq.queue import Claim, Queue, Unique
from django_echomq.worker.promoter import tick_call
from tests.queue.keyspace import check_ring, lapse, names

MakeQueue = Callable[..., Queue]

UNIQUES = [
    None,
    Unique("done"),
    Unique("timed", ttl=60),
    Unique("started", until="started"),
    Unique("throttled", ttl=60, until="ttl"),
    Unique("latest", on_conflict="replace"),
]
END = 253_402_300_799_999


class Life:
    """The verbs that a queue may meet, each a name and a number that chooses."""

    def __init__(self, queue: Queue, raw: redis.Redis) -> None:
        self.queue, self.raw = queue, raw
        self.ids: list[str] = []
        self.claims: list[Claim] = []
        base = queue.keys.base
        raw.hset(base + b"glimit", mapping={"b": 1})
        raw.hset(base + b"gweight", mapping={"c": 3})

    def job(self, n: int) -> str:
        return self.ids[n % len(self.ids)] if self.ids else "JOB0NsVQMCRgHI"

    def enqueue(self, n: int) -> None:
        options: dict[str, Any] = {
            "lane": [None, "a", "b", "c"][n % 4],
            "priority": n % 3,
            "unique": UNIQUES[n % len(UNIQUES)],
        }
        if n % 5 == 0:
            self.ids.append(self.queue.jobs.enqueue_at(b"x", END, **options).job_id)
        else:
            self.ids.append(self.queue.jobs.enqueue(b"x", **options).job_id)

    def claim(self, n: int) -> None:
        self.claims += self.queue.jobs.claim(1 + n % 4)

    def settle(self, n: int) -> None:
        if self.claims:
            jobs, claim = self.queue.jobs, self.claims.pop()
            end = [
                jobs.completion(claim, b"result"),
                jobs.failure(claim, 60, 9, "boom"),
                jobs.failure(claim, 0, 1, "boom", b"{}"),
                jobs.giving_back(claim),
                jobs.cancellation(claim, "stop"),
            ][n % 5]
            slot = self.queue.client.take_slot()
            self.queue.drive(self.queue.client.run(jobs.exchange_call(slot, [end], 0, "w")))
            self.queue.client.give_slot(slot)

    def lapse(self, n: int) -> None:
        lapse(self.queue, self.raw, *self.claims)
        self.queue.stalled.check(max_stalled=1 + n % 2)

    def one_row(self, n: int) -> None:
        verb = n % 7
        jobs, job_id = self.queue.jobs, self.job(n // 7)
        if verb == 0:
            jobs.remove_many([job_id])
        elif verb == 1:
            jobs.cancel_many([job_id])
        elif verb == 2:
            jobs.reprocess_many([job_id])
        else:
            quiet = pytest.raises(Exception) if jobs.state(job_id) in GONE else None
            verbs: list[Callable[[], object]] = [
                lambda: jobs.add_log(job_id, "line", 2),
                lambda: jobs.update_progress(job_id, "50"),
                lambda: jobs.add_log(job_id, "more"),
                lambda: jobs.update_progress(job_id, "60"),
            ]
            if quiet is None:
                verbs[verb - 3]()
            else:
                with quiet:
                    verbs[verb - 3]()

    def bulk(self, n: int) -> None:
        admin = self.queue.admin
        verbs: list[Callable[[], object]] = [
            admin.drain,
            admin.reprocess_all,
            admin.promote_all,
            lambda: admin.clean("dead", 0),
            lambda: admin.clean("completed", 0),
            lambda: admin.clean("scheduled", 0, limit=1),
        ]
        verbs[n % len(verbs)]()

    def lane(self, n: int) -> None:
        """A lane is paused, as the verb of lanes does it."""
        base = self.queue.keys.base
        self.raw.sadd(base + b"paused", "c")
        self.raw.lrem(base + b"ring", 0, "c")

    def schedule(self, n: int) -> None:
        cadence = {"every": 0.001} if n % 2 else {"cron": "* * * * *"}
        self.queue.repeat.register(f"s{n % 3}", payload=b"x", replace=True, **cadence)
        self.queue.repeat.fire()
        if n % 5 == 0:
            self.queue.repeat.pause(f"s{n % 3}")

    def beat(self, n: int) -> None:
        """A worker says that it is there, and is never heard of again."""
        self.queue.drive(self.queue.client.run(tick_call(self.queue, 100, f"w{n % 2}", "{}")))


GONE = ("absent", "completed", "cancelled")
VERBS = [name for name in vars(Life) if not name.startswith("_") and name != "job"]


def test_no_key_is_left_after_an_obliterate(make_queue: MakeQueue, raw: redis.Redis) -> None:
    @settings(
        max_examples=40, deadline=None, suppress_health_check=list(HealthCheck), database=None
    )
    @given(
        st.lists(st.tuples(st.sampled_from(VERBS), st.integers(0, 999)), min_size=5, max_size=40),
        st.sampled_from([1, 3, 1_000]),
        st.sampled_from([0, 60_000]),
    )
    def run(verbs: list[tuple[str, int]], budget: int, keep: int) -> None:
        queue = make_queue(keep_completed_ms=keep, keep_dead_ms=keep)
        life = Life(queue, raw)
        for verb, n in verbs:
            getattr(life, verb)(n)
            check_ring(queue, raw)
        queue.admin.pause()
        queue.admin.obliterate(force=True, budget=budget)
        assert names(queue, raw) == set()

    run()
