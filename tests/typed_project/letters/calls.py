"""What the project's calls are, to the type checker."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from typing import assert_type

from django_echomq import Queue, get_queue
from django_echomq.contrib.celery import Signature, chain
from django_echomq.contrib.celery.result import AsyncResult
from django_echomq.contrib.rq import Job
from django_echomq.queue import Admission, Claim
from django_echomq.testing import captured_jobs, run_due, run_pending
from letters import tasks


def sends() -> None:
    result = tasks.plain.enqueue(1, greeting="hi")
    assert_type(result.return_value, str)
    assert_type(result.outcome, str)
    assert_type(tasks.controlled.using(lane="acme", priority=3).enqueue(7).return_value, list[int])
    assert_type(tasks.told.enqueue("May").return_value, float)
    assert_type(tasks.plain.enqueue_on_commit(1).return_value, str)
    assert_type([each.return_value for each in tasks.plain.enqueue_many([((1,), {})])], list[str])
    assert_type(tasks.awaited.enqueue(1).return_value, bytes)
    assert_type(tasks.awaited_mail.enqueue(1).return_value, bytes)
    assert_type(tasks.plain.get_result("JOB").return_value, str)


async def awaits() -> None:
    assert_type((await tasks.plain.aenqueue(1)).return_value, str)


def moved_in() -> None:
    assert_type(tasks.moved.delay(1), AsyncResult[str])
    assert_type(tasks.moved.apply_async((1,), countdown=3, queue="mail").get(timeout=1), str)
    assert_type(tasks.moved.s(1), Signature[str])
    assert_type(tasks.moved(1), str)
    assert_type(chain(tasks.moved.s(1), tasks.moved.si(2)).delay().id, str)
    assert_type(tasks.job.delay(1), Job[int])
    assert_type(tasks.job(1), int)


def verbs() -> None:
    queue = get_queue("mail")
    assert_type(queue, Queue)
    assert_type(queue.jobs.enqueue(b"x", lane="acme"), Admission)
    assert_type(queue.jobs.claim(5), list[Claim])
    assert_type(queue.metrics.counts(), dict[str, int])
    assert_type(queue.admin.drain(), int)


def runs(echomq: Callable[[str], Queue]) -> None:
    with captured_jobs() as jobs:
        sends()
    assert_type(jobs.assert_enqueued(tasks.plain, 1).id, str)
    assert_type(run_pending()[0].id, str)
    assert_type(run_due(until=timedelta(hours=1))[0].is_finished, bool)
