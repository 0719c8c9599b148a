"""``django_echomq.contrib.rq``: jobs written for RQ."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Any

import pytest
import rq
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from django_echomq import JobGone
from django_echomq.contrib.rq import Job, JobStatus, Queue, Retry, enqueue, get_queue, job
from django_echomq.queue import Queue as EchoQueue
from django_echomq.testing import captured_jobs, run_due, run_pending
from tests.testapp import rq_jobs, tasks

Site = Callable[[str], EchoQueue]


def test_jobs_are_sent_in_rqs_ways(site: Site) -> None:
    site("default"), site("mail")
    sent: list[Job[Any]] = [
        rq_jobs.add.delay(1, 2),
        rq_jobs.add.enqueue(1, y=3),
        enqueue(rq_jobs.add, 1, 4),
        get_queue("mail").enqueue(rq_jobs.add, 1, 5),
        get_queue("mail").enqueue("tests.testapp.rq_jobs.add", 1, 6),
        get_queue("mail").enqueue_call(rq_jobs.add, (1,), {"y": 7}),
        rq_jobs.mail.delay("ada"),
    ]
    assert (len(get_queue("default")), get_queue("mail").count) == (3, 4)
    assert all(each.is_queued for each in sent)
    run_pending()
    assert [each.return_value() for each in sent] == [3, 4, 5, 6, 7, 8, "mail to ada"]
    assert all(each.is_finished for each in sent)
    assert Job.fetch(sent[0].id) == sent[0]
    assert get_queue("mail").is_empty()
    assert rq_jobs.add(1, 1) == 2


def test_later(site: Site) -> None:
    site("default")
    queue = get_queue("default")
    soon = queue.enqueue_in(timedelta(minutes=5), rq_jobs.add, 1, 2)
    at = queue.enqueue_at(timezone.now() + timedelta(minutes=1), rq_jobs.add, 3, 4)
    assert (soon.is_scheduled, at.is_scheduled) == (True, True)
    assert [result.args for result in run_due(until=timedelta(minutes=6))] == [[3, 4], [1, 2]]
    assert (soon.return_value(), at.return_value()) == (3, 7)
    with pytest.raises(ValueError, match="no time zone"):
        queue.enqueue_at(datetime(2031, 1, 1), rq_jobs.add, 1, 2)  # noqa: DTZ001


def test_a_job_that_raises_is_dead_at_once_or_tried_again(site: Site) -> None:
    site("default")
    once, again = rq_jobs.broken.delay(), rq_jobs.tried_again.delay()
    run_pending(raises=False)
    assert (once.get_status(), again.get_status()) == (JobStatus.FAILED, JobStatus.SCHEDULED)
    assert "no paper" in (once.exc_info or "")
    assert once.return_value() is None
    ran = run_due(until=timedelta(minutes=5), raises=False)
    assert len(ran) == 2
    assert again.is_failed


@pytest.mark.parametrize(
    ("most", "interval"), [(3, 5), (3, [1, 2, 3]), (3, [1, 2]), (2, [1, 2, 3])]
)
def test_intervals_are_rqs(most: int, interval: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    theirs = rq.Retry(max=most, interval=interval)
    stub = object.__new__(rq.job.Job)
    stub.retry_intervals = theirs.intervals
    curve = Retry(most, interval).options()["backoff"]
    for tried in range(1, most + 1):
        stub.retries_left = most + 1 - tried
        assert curve.delay_ms(tried) == stub.get_retry_interval() * 1000


@pytest.mark.django_db(transaction=True)
def test_jobs_wait_for_the_commit_unless_told_otherwise(site: Site) -> None:
    site("default")
    with captured_jobs() as jobs:
        with transaction.atomic():
            sent = rq_jobs.add.delay(1, 2)
            jobs.assert_not_enqueued()
        jobs.assert_enqueued(rq_jobs.add, 1, 2)
        with transaction.atomic():
            rq_jobs.add.delay(3, 4)
            transaction.set_rollback(True)
        assert len(jobs) == 1
        with override_settings(RQ={"COMMIT_MODE": "auto"}), transaction.atomic():
            rq_jobs.add.delay(5, 6)
            jobs.assert_enqueued(rq_jobs.add, 5, 6)
        with (
            override_settings(RQ={"COMMIT_MODE": "request_finished"}),
            pytest.raises(ImproperlyConfigured, match="'request_finished' is not served"),
        ):
            rq_jobs.add.delay(1, 2)
    run_pending()
    assert sent.return_value() == 3


def test_cancel_and_delete(site: Site) -> None:
    site("default")
    first, second = rq_jobs.add.delay(1, 2), rq_jobs.add.delay(3, 4)
    first.cancel()
    assert first.get_status() is JobStatus.CANCELED
    second.delete()
    with pytest.raises(JobGone):
        second.get_status()
    with pytest.raises(JobGone):
        Job.fetch("no-such-id")
    rq_jobs.add.delay(5, 6)
    assert get_queue("default").empty() == 1


def test_a_timeout_puts_a_job_into_a_process(site: Site) -> None:
    queue = site("default")
    assert rq_jobs.bounded.django_task.isolate
    assert rq_jobs.bounded.django_task.timeout == 300
    get_queue("default").enqueue(rq_jobs.bounded, job_timeout="10s")
    (waiting,) = queue.jobs.browse("pending")
    assert b'"options":{"timeout":10}' in waiting.payload
    with pytest.raises(TypeError, match="only the task can have one"):
        get_queue("default").enqueue(rq_jobs.add, 1, 2, job_timeout=10)
    with pytest.raises(ValueError, match="write seconds"):
        job("default", timeout="soon")(plain)


def plain() -> None: ...


def test_what_does_not_map_is_refused(site: Site) -> None:
    site("default")
    theirs = set(inspect.signature(rq.Queue.enqueue_call).parameters)
    ours = set(inspect.signature(Queue.enqueue_call).parameters)
    for name in theirs - ours:
        with pytest.raises(TypeError, match=rf"{name}= has no counterpart in EchoMQ: \w+"):
            get_queue("default").enqueue_call(rq_jobs.add, (1, 2), **{name: "x"})
        with pytest.raises(TypeError, match="has no counterpart"):
            get_queue("default").enqueue(rq_jobs.add, 1, 2, **{name: "x"})
        with pytest.raises(TypeError, match="has no counterpart"):
            job("default", **{name: "x"})
    with pytest.raises(TypeError, match=r"delay\(\): job_id= has no counterpart"):
        rq_jobs.add.delay(1, 2, job_id="x")  # type: ignore[call-arg]
    with pytest.raises(TypeError, match=r"'plain' is no job"):
        enqueue(plain)
    with pytest.raises(LookupError, match=r"No @job is named 'os.system'"):
        enqueue("os.system", "true")
    assert enqueue(tasks.echo, 1).is_queued
