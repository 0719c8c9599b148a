"""The work, as Django tasks. A worker (``manage.py echomq_worker``) runs them."""

import time
from contextlib import contextmanager
from dataclasses import asdict
from datetime import datetime

from django.db.models import F
from django.utils import timezone

from .analysis import STDLIB, measure
from .models import TOTALS, Attempt, SourceFile

try:
    from django.tasks import task
except ImportError:  # Django 5.2, with the backport
    from django_tasks import task


@task
def analyse_file(path):
    """Measures one file and notes the result in its row.

    A job may run twice: the worker can die after the row is written and before the queue hears
    of it. So the task sets values rather than adding to them; ``runs`` alone counts, to show it.
    """
    source = (STDLIB / path).read_bytes()
    SourceFile.objects.filter(path=path).update(
        **asdict(measure(source)),
        bytes=len(source),
        runs=F("runs") + 1,
        analysed_at=timezone.now(),
    )


@task(queue_name="reports")
async def summarise():
    """Adds everything up, as a coroutine. What it returns is kept with the job for an hour."""
    totals = await SourceFile.objects.aaggregate(**TOTALS)
    worst = await SourceFile.objects.order_by("-most_complex_value").afirst()
    return {
        **totals,
        "most_complex": f"{worst.most_complex} in {worst.path} ({worst.most_complex_value})",
    }


# The rest shows how a job can go other than well and at once.


@contextmanager
def recorded(context):
    """Keeps a row about this attempt, for the page."""
    attempt = Attempt.objects.create(
        task=context.task_result.task.name, job_id=context.job_id, number=context.attempt
    )
    try:
        yield attempt
    except Exception as error:
        attempt.outcome, attempt.note = Attempt.Outcome.FAILED, str(error)
        raise
    else:
        attempt.outcome = Attempt.Outcome.SUCCEEDED
    finally:
        attempt.ended_at = timezone.now()
        attempt.save()


@task(queue_name="reports", takes_context=True)
def flaky(context):
    """Fails twice, then succeeds; how often and when it is tried again is the queue's setting."""
    with recorded(context):
        if context.attempt < 3:
            raise ConnectionError("The other side hung up.")


@task(queue_name="reports", takes_context=True, max_attempts=3, backoff=[300, 600])
def broken(context):
    """Fails always: after its third attempt the job is dead and stays for you to look at."""
    with recorded(context):
        raise RuntimeError("This never works.")


@task(queue_name="reports", takes_context=True)
def delayed(context, due):
    """Enqueued with ``run_after``; tells how long after that it began."""
    with recorded(context) as attempt:
        late = timezone.now() - datetime.fromisoformat(due)
        attempt.note = f"Began {late.total_seconds():.2f} s after it was due."


@task(queue_name="reports", takes_context=True)
def long_report(context, steps=10):
    """Takes three seconds, and can be watched while it does."""
    with recorded(context) as attempt:
        for step in range(1, steps + 1):
            context.checkpoint()  # holds on to the job; raises Cancelled if it is lost
            time.sleep(0.3)  # stands for a chapter's work
            context.progress(100 * step // steps)
            context.log(f"Chapter {step} of {steps} is written.")
        attempt.note = f"{steps} chapters."
