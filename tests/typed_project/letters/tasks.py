"""Tasks of a project that is checked with ``mypy --strict``."""

from __future__ import annotations

from datetime import timedelta

from django_echomq import Discard, Exponential, Retry, Unique, current_job, task
from django_echomq.contrib import celery, rq
from django_echomq.tasks.context import EchoTaskContext


@task
def plain(user_id: int, *, greeting: str = "hello") -> str:
    return f"{greeting} {user_id}"


@task(
    queue_name="mail",
    max_attempts=5,
    backoff=Exponential(base_ms=1_000).jittered(),
    timeout=timedelta(minutes=1),
    unique=Unique("welcome", ttl=60),
)
def controlled(user_id: int) -> list[int]:
    job = current_job()
    if job is not None and job.attempt == 1:
        raise Retry("not yet", delay=timedelta(seconds=5))
    if user_id < 0:
        raise Discard("nobody")
    return [user_id]


@task(takes_context=True, isolate=True)
def told(context: EchoTaskContext, month: str) -> float:
    context.progress(40)
    context.log(f"{context.job_id} {context.attempt}")
    context.checkpoint()
    return 1.5


@task
async def awaited(number: int) -> bytes:
    return bytes(number)


@task(queue_name="mail")
async def awaited_mail(number: int) -> bytes:
    return bytes(number)


@celery.shared_task(bind=True, max_retries=3, autoretry_for=(OSError,), retry_backoff=True)
def moved(self: celery.Task[[int], str], number: int) -> str:
    if self.request.retries < 1:
        raise self.retry(countdown=1, exc=ValueError("again"))
    return str(number)


@rq.job("mail", timeout="5m", retry=rq.Retry(max=3, interval=[1, 2, 3]))
def job(number: int) -> int:
    return number
