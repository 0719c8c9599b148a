"""What the jobs of a soak do. Each tells its effects in a file, a line in one write:

``<word> <tag> <job id> <token> <pid> <parent's pid> <edit>``

where the word is ``start``, ``done`` or ``failed``, and the tag names the admission.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from django_echomq import Discard, Retry
from django_echomq.tasks.compat import task
from tests.testapp.tasks import append

#: More tries than the faults of a run cost a job, so that only jobs made to die do.
PATIENT: dict[str, Any] = {"queue_name": "soak", "takes_context": True, "max_attempts": 50}


@contextmanager
def effect(context: Any, tag: str, edit: str) -> Iterator[None]:
    claim = context.hand.claim
    rest = f"{tag} {claim.job_id} {claim.attempts} {os.getpid()} {os.getppid()} {edit or '-'}"
    path = os.environ["SOAK_EFFECTS"]
    append(path, f"start {rest}")
    try:
        yield
    except BaseException:
        append(path, f"failed {rest}")
        raise
    append(path, f"done {rest}")


@task(**PATIENT)
def plain(context: Any, tag: str, seconds: float = 0, edit: str = "") -> str:
    with effect(context, tag, edit):
        time.sleep(seconds)
    return tag


@task(**PATIENT)
def tick(context: Any) -> None:
    with effect(context, "tick", ""):
        pass


@task(**PATIENT)
def talks(context: Any, tag: str, edit: str = "") -> None:
    with effect(context, tag, edit):
        for n in range(3):
            context.progress({"done": n, "of": 3})
            context.log(f"step {n}")
            context.checkpoint({"step": n})


@task(**PATIENT, manual_lease=True)
def resumes(context: Any, tag: str, edit: str = "") -> None:
    """Goes on from its last checkpoint, longer in all than the lease."""
    with effect(context, tag, edit):
        for n in range((context.resume or {"step": 0})["step"], 8):
            context.checkpoint({"step": n})
            time.sleep(0.5)


@task(**PATIENT)
def flaky(context: Any, tag: str, failures: int, edit: str = "") -> None:
    with effect(context, tag, edit):
        if context.attempt <= failures:
            raise ValueError(f"attempt {context.attempt}")


@task(**PATIENT)
def asks_again(context: Any, tag: str, edit: str = "") -> None:
    with effect(context, tag, edit):
        if context.attempt <= 2:
            raise Retry("not yet", delay=0.1)


@task(**PATIENT)
def gives_up(context: Any, tag: str, edit: str = "") -> None:
    with effect(context, tag, edit):
        raise Discard("pointless")


@task(queue_name="soak", takes_context=True, max_attempts=2)
def dies(context: Any, tag: str, edit: str = "") -> None:
    with effect(context, tag, edit):
        raise RuntimeError("always")


@task(queue_name="soak", takes_context=True, max_attempts=2, timeout=0.3)
def too_slow(context: Any, tag: str, edit: str = "") -> None:
    with effect(context, tag, edit):
        while True:
            context.raise_if_cancelled()
            time.sleep(0.02)


@task(**PATIENT)
def stoppable(context: Any, tag: str, seconds: float = 2, edit: str = "") -> None:
    with effect(context, tag, edit):
        end = time.monotonic() + seconds
        while time.monotonic() < end:
            context.raise_if_cancelled()
            time.sleep(0.02)


@task(**PATIENT)
async def coroutine(context: Any, tag: str, seconds: float = 0.1, edit: str = "") -> None:
    with effect(context, tag, edit):
        await asyncio.sleep(seconds)


@task(**PATIENT, isolate=True)
def isolated(context: Any, tag: str, edit: str = "") -> None:
    with effect(context, tag, edit):
        context.log("from the child")
