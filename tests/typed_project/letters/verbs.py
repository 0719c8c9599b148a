"""Verbs, options and the context of a task; no expression here is untyped."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import assert_type

from django_echomq import CancelToken, Exponential, Fixed, Unique, current_job, get_queue
from django_echomq.contrib.celery.result import AsyncResult
from django_echomq.queue import Admission, Event, Job, Lane, Verdict
from letters import tasks


def options(when: datetime) -> None:
    again = tasks.plain.using(
        unique=Unique("welcome", ttl=timedelta(minutes=1), until="started", on_conflict="replace"),
        backoff=Fixed(30_000),
        max_attempts=3,
        timeout=5.0,
        run_after=when,
        priority=3,
    )
    assert_type(again.enqueue(1).return_value, str)
    assert_type(again.enqueue(1, greeting="hi").attempts, int)
    tasks.plain.using(backoff=[1_000, 2_000], unique="welcome")
    tasks.plain.using(backoff=Exponential(1_000, 60_000).jittered())


def spine() -> None:
    jobs = get_queue("mail").jobs
    for claim in jobs.claim(5, lease=timedelta(minutes=1)):
        assert_type(claim.payload, bytes)
        assert_type(claim.attempts, int)
        assert_type(claim.lane, str | None)
        jobs.complete(claim, b"done")
        jobs.retry(claim, delay=3, error="no answer")
        jobs.release(claim)


def rows(job_id: str, when: datetime) -> None:
    jobs = get_queue("mail").jobs
    assert_type(jobs.enqueue_at(b"x", when), Admission)
    assert_type(jobs.get(job_id), Job)
    assert_type(jobs.get(job_id).result, bytes | None)
    assert_type(jobs.state(job_id), str)
    assert_type(jobs.logs(job_id), list[str])
    assert_type(jobs.browse("dead"), list[Job])
    assert_type(jobs.cancel_many([job_id]), list[Verdict])
    assert_type(jobs.cancel(job_id, "why").name, str)


def whole_queues() -> None:
    queue = get_queue("mail")
    assert_type(queue.admin.clean("dead", timedelta(days=1)), int)
    assert_type(queue.lanes.all(), list[Lane])
    assert_type(queue.lanes.pause("acme"), bool)
    assert_type(queue.metrics.oldest(), float | None)
    assert_type(queue.metrics.overview().counts, dict[str, int])
    assert_type([worker.name for worker in queue.workers.all()], list[str])
    assert_type(queue.repeat.run_now("nightly"), Admission)
    for schedule in queue.repeat.all():
        assert_type(schedule.next_run, datetime | None)
    with queue.events.subscribe(timeout=1) as events:
        for event in events:
            assert_type(event, Event)


def in_hand(token: CancelToken) -> None:
    token.raise_if_cancelled()
    job = current_job()
    if job is not None:
        assert_type(job.cancelled, bool)
        assert_type(job.attempt, int)
        assert_type(job.lane, str | None)
        job.progress(40)


def moved_in() -> None:
    result = tasks.moved.apply_async((1,), countdown=3, queue="mail")
    assert_type(result, AsyncResult[str])
    assert_type(result.get(timeout=1), str)
    assert_type(result.status, str)
    assert_type(tasks.moved.si(1).delay().get(), str)
