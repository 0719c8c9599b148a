"""Bulk admission, batch by batch: one is on its way while the answer of another is read."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest
import redis
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from django_echomq.queue import Queue
from django_echomq.queue.jobs import STREAMED
from django_echomq.wire.client import Call, Client
from django_echomq.wire.endpoint import Endpoint
from django_echomq.wire.errors import InvalidName, NotPaused
from django_echomq.wire.scripts import script
from tests.wire.proxy import Proxy

BATCHES = 6
BODIES = [b"%d" % n for n in range(BATCHES * STREAMED)]


@pytest.fixture
def proxy(queue: Queue, one_server: Endpoint) -> Iterator[Proxy]:
    """The queue's server by way of a proxy that loses replies on request."""
    made = Proxy(queue.client.endpoint)
    yield made
    made.close()


def all_admitted_once(queue: Queue, ids: list[str]) -> None:
    assert len(set(ids)) == len(BODIES)
    assert queue.metrics.counts("pending") == {"pending": len(BODIES)}
    claims = [claim for _ in range(2) for claim in queue.jobs.claim(500)]
    assert [(claim.job_id, claim.payload) for claim in claims] == sorted(
        zip(ids, BODIES, strict=True)
    )


def test_a_call_is_sent_before_the_answer_before_it_is_read(queue: Queue) -> None:
    queue.admin.pause()  # the connection is there, and the script
    told: list[str] = []

    def calls() -> Iterator[Call]:
        for n in range(4):
            told.append(f"made {n}")
            yield queue.call("admin/pause")

    for n, reply in enumerate(queue.client.stream(calls())):
        told.append(f"read {n}: {reply}")
    assert told == [
        "made 0", "made 1", "read 0: 0", "made 2", "read 1: 0", "made 3", "read 2: 0", "read 3: 0",
    ]  # fmt: skip


def test_batches_are_admitted_once_though_replies_are_lost(queue: Queue, proxy: Proxy) -> None:
    client = Client(proxy.endpoint, retry_for=30.0)
    mine = Queue(queue.name, client)
    mine.admin.is_paused()
    ids: list[str] = []
    for n, batch in enumerate(mine.jobs.stream(BODIES)):
        if n % 2 == 0:
            proxy.lose_reply(script("jobs/enqueue").sha)
        ids += [admission.job_id for admission in batch]
    client.close()
    assert proxy.lost >= 2
    all_admitted_once(queue, ids)


def test_batches_are_admitted_once_though_scripts_are_forgotten(
    queue: Queue, raw: redis.Redis
) -> None:
    ids: list[str] = []
    for batch in queue.jobs.stream(BODIES):
        raw.script_flush()
        ids += [admission.job_id for admission in batch]
    assert len(set(ids)) == len(BODIES)
    assert queue.metrics.counts("pending") == {"pending": len(BODIES)}


def test_a_stream_that_is_left_takes_no_answer_with_it(queue: Queue) -> None:
    queue.jobs.enqueue(b"first")
    stream = queue.jobs.stream(BODIES)
    next(stream)
    stream.close()
    # What was on its way has its answer on a connection that nobody reads any more.
    assert queue.metrics.counts("pending", "dead").keys() == {"pending", "dead"}
    assert queue.jobs.enqueue(b"last").outcome == "enqueued"
    assert queue.metrics.counts("pending")["pending"] in (STREAMED + 2, 2 * STREAMED + 2)


def test_a_refusal_is_raised_where_it_stands(queue: Queue) -> None:
    refused = queue.call("admin/obliterate", "slot", 1, 100, "", "")  # it is not paused by then
    calls = [queue.call("admin/resume"), refused]
    replies = queue.client.stream([*calls, queue.call("admin/resume")])
    assert next(replies) == 0
    with pytest.raises(NotPaused):
        next(replies)
    assert queue.jobs.enqueue(b"x").outcome == "enqueued"


def test_nothing_is_sent_where_a_payload_is_none(queue: Queue) -> None:
    with pytest.raises(TypeError):
        queue.jobs.enqueue_many([*BODIES, 7])  # type: ignore[list-item]
    with pytest.raises(InvalidName):
        queue.jobs.enqueue_many(BODIES, lane="no good")
    assert queue.metrics.counts("pending") == {"pending": 0}


@settings(
    max_examples=20, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(sizes=st.lists(st.integers(0, 300_000), max_size=12))
def test_large_payloads_go_in_smaller_batches(
    make_queue: Callable[..., Queue], sizes: list[int]
) -> None:
    queue = make_queue()
    batches = list(queue.jobs.stream([b"x" * size for size in sizes]))
    assert sum(map(len, batches)) == len(sizes)
    assert all(batches)
    done = 0
    for batch in batches:
        # The last of a batch may take it over the bound.
        assert sum(sizes[done : done + len(batch) - 1]) <= 1_048_576
        done += len(batch)
