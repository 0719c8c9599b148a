"""Workers seen and told from outside."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable

import pytest
import redis

from django_echomq.queue import Queue
from django_echomq.queue.jobs import Settlement
from django_echomq.wire import __version__
from django_echomq.wire.errors import InvalidName
from django_echomq.worker import Hand, Stopped, Worker
from tests.conftest import complete, running, wait_until

MakeQueue = Callable[..., Queue]


def test_a_worker_is_on_the_lists_of_its_queues_while_it_runs(make_queue: MakeQueue) -> None:
    queues = [make_queue(), make_queue()]
    with running(Worker(queues, complete, name="w-1", threads=3)):
        for queue in queues:
            (info,) = wait_until(queue.workers.all)
            assert (info.name, info.pid, info.threads) == ("w-1", os.getpid(), 3)
            assert info.queues == [each.name for each in queues]
            assert (info.state, info.told, info.version) == ("running", "", __version__)
            assert info.started_at <= info.beat_at
    assert [queue.workers.all() for queue in queues] == [[], []]


def test_a_worker_that_died_ends_on_the_list_by_itself(queue: Queue, raw: redis.Redis) -> None:
    with running(Worker([queue], complete, name="w")):
        wait_until(queue.workers.all)
        assert 0 < raw.pttl(queue.keys.base + b"worker:w") <= 15_000
        raw.delete(queue.keys.base + b"worker:w")
        raw.zadd(queue.keys.base + b"workers", {"dead": 1})
        assert "dead" not in [each.name for each in queue.workers.all()]
        wait_until(queue.workers.all)
        assert raw.zscore(queue.keys.base + b"workers", "dead") is None


def test_a_quiet_worker_claims_nothing_until_it_may_go_on(queue: Queue) -> None:
    with running(Worker([queue], complete, name="w")):
        wait_until(queue.workers.all)
        assert queue.workers.quiet("w")
        wait_until(lambda: queue.workers.all()[0].state == "quiet")
        job_id = queue.jobs.enqueue(b"x").job_id
        beat = queue.workers.all()[0].beat_at
        wait_until(lambda: queue.workers.all()[0].beat_at > beat)
        assert queue.jobs.state(job_id) == "pending"
        assert queue.workers.resume("w")
        wait_until(lambda: queue.jobs.state(job_id) == "completed")


def test_a_worker_told_to_stop_finishes_what_it_has_in_hand(queue: Queue) -> None:
    go = threading.Event()

    def waits(hand: Hand) -> Settlement:
        go.wait(30)
        return complete(hand)

    job_id = queue.jobs.enqueue(b"x").job_id
    with running(Worker([queue], waits, name="w")) as ends:
        wait_until(lambda: queue.jobs.state(job_id) == "active")
        wait_until(queue.workers.all)
        assert queue.workers.stop("w")
        wait_until(lambda: queue.workers.all()[0].state == "stopping")
        late = queue.jobs.enqueue(b"x").job_id
        go.set()
        wait_until(lambda: ends)
    assert ends == [Stopped.FINISHED]
    assert queue.jobs.state(job_id) == "completed"
    assert queue.jobs.state(late) == "pending"


def test_who_is_not_there_cannot_be_told(queue: Queue, raw: redis.Redis) -> None:
    assert not queue.workers.quiet("nobody")
    assert not queue.workers.stop("nobody")
    with pytest.raises(InvalidName):
        queue.workers.stop("no body")
    assert raw.keys(queue.keys.base + b"*") == []


def test_a_foreign_record_is_left_out(queue: Queue, raw: redis.Redis) -> None:
    raw.zadd(queue.keys.base + b"workers", {"a": 9e15, "b": 9e15, "c": 9e15})
    raw.hset(queue.keys.base + b"worker:a", "info", "not json")
    raw.set(queue.keys.base + b"worker:b", "a string")
    assert queue.workers.all() == []
