"""Tasks of the test suite. Effects go to files, appended in one write, so that processes can
count them."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import time
from pathlib import Path
from typing import Any

from django.contrib.contenttypes.models import ContentType
from django.db import DatabaseError, connection, transaction

from django_echomq import Discard, Retry, current_job
from django_echomq.tasks.compat import task


def append(path: str, line: str) -> None:
    descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    try:
        os.write(descriptor, f"{line}\n".encode())
    finally:
        os.close(descriptor)


@task
def noop() -> None:
    pass


@task
def echo(*args: Any, **kwargs: Any) -> list[Any]:
    return [list(args), kwargs]


@task
def record(path: str, line: str, seconds: float = 0) -> str:
    """Appends a line at the start and, after a while, another at the end."""
    append(path, f"start {line}")
    time.sleep(seconds)
    append(path, f"end {line}")
    return line


@task(queue_name="fast")
def fast_record(path: str, line: str, seconds: float = 0) -> None:
    append(path, f"start {line}")
    time.sleep(seconds)
    append(path, f"end {line}")


@task
def gated(path: str, line: str, gate: str) -> None:
    """Ends when a file comes into being."""
    append(path, f"start {line}")
    while not os.path.exists(gate):  # noqa: PTH110
        time.sleep(0.01)
    append(path, f"end {line}")


@task
def effect(path: str, line: str) -> None:
    append(path, line)


@task(queue_name="fast", takes_context=True)
def flaky(context: Any, failures: int) -> int:
    if context.attempt <= failures:
        raise ValueError(f"attempt {context.attempt}")
    return int(context.attempt)


@task(queue_name="fast")
def always_fails(message: str = "boom") -> None:
    raise RuntimeError(message)


@task(queue_name="fast")
def raises_system_exit() -> None:
    raise SystemExit(3)


@task(queue_name="fast")
def raises_unprintable() -> None:
    class Unprintable(Exception):
        def __init__(self, lock: Any) -> None:
            self.lock = lock

        def __str__(self) -> str:
            raise RuntimeError("no text")

        def __reduce__(self) -> Any:
            raise TypeError("not picklable")

    raise Unprintable(object())


@task(queue_name="fast")
def returns_an_object() -> object:
    return object()


@task(queue_name="fast")
def asks_for_retry(path: str) -> str:
    job = current_job()
    assert job is not None
    append(path, f"attempt {job.attempt}")
    if job.attempt == 1:
        raise Retry("not yet", delay=0.05)
    return "then"


@task(queue_name="fast", max_attempts=1)
def asks_for_one_more_try() -> int:
    job = current_job()
    assert job is not None
    if job.attempt < 4:
        # The first goes beyond the task's budget, and the third to the end of its own.
        raise Retry("once more", delay=0.01, max_attempts=3)
    return job.attempt


@task(queue_name="fast")
def gives_up() -> None:
    raise Discard("pointless")


@task
async def double(number: int) -> int:
    await asyncio.sleep(0.01)
    job = current_job()
    assert job is not None
    return number * 2


@task(queue_name="fast")
async def async_system_exit() -> None:
    raise SystemExit(4)


@task(takes_context=True)
def tells(context: Any) -> list[Any]:
    context.progress({"done": 1, "of": 2})
    context.log("one")
    context.log("two")
    context.checkpoint()
    return [context.job_id, context.attempt, context.lane, context.cancelled]


@task(queue_name="fast")
def kills_its_worker() -> None:
    os._exit(9)


@task(queue_name="mail", max_attempts=1)
def picky(user_id: int) -> int:
    if user_id != 7:
        raise ValueError(f"no user {user_id}")
    return user_id


@task(queue_name="fast")
def logs(message: str) -> None:
    logging.getLogger("tests.task").warning(message)


@task(queue_name="fast")
def waits_a_little() -> None:
    time.sleep(0.5)


def plain_function() -> None:
    """Not a task; a payload that names it must not run it."""
    raise AssertionError("a plain function ran")


@task
def stamp(path: str, line: str) -> None:
    """Appends the line and the host's true time in ms, whatever clock the process was given."""
    append(path, f"{line} {time.clock_gettime_ns(time.CLOCK_REALTIME) // 1_000_000}")


@task(takes_context=True)
def checks(context: Any, path: str, seconds: float = 30) -> str:
    """Works until it is cancelled, and says when it heard of it."""
    append(path, "start")
    end = time.monotonic() + seconds
    try:
        while time.monotonic() < end:
            context.raise_if_cancelled()
            time.sleep(0.005)
    finally:
        append(path, f"heard {time.time()}" if context.cancelled else "end")
    return "completed"


@task
def deaf(path: str, seconds: float) -> str:
    """Never looks whether it is cancelled."""
    append(path, "start")
    time.sleep(seconds)
    append(path, "end")
    return "completed all the same"


@task
async def meets(path: str, line: str, of: int) -> int:
    """Ends when as many of its kind run at once."""
    append(path, line)
    while len(Path(path).read_text().splitlines()) < of:
        await asyncio.sleep(0.01)
    return of


@task
async def async_waits(path: str, seconds: float = 30) -> str:
    append(path, "start")
    try:
        await asyncio.sleep(seconds)
    except asyncio.CancelledError:
        append(path, "heard")
        raise
    return "completed"


@task(queue_name="fast")
def spins(seconds: float) -> str:
    """Pure Python that neither asks nor catches."""
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        sum(range(100))
    return "completed"


@task(queue_name="fast", takes_context=True, manual_lease=True)
def resumes(context: Any, path: str) -> Any:
    """Checkpoints, hangs past its lease on its first try, and goes on from there on its second."""
    append(path, f"attempt {context.attempt} from {context.resume}")
    if context.attempt == 1:
        context.checkpoint({"page": 7})
        time.sleep(4)
    return context.resume


@task(queue_name="fast", takes_context=True, isolate=True)
def isolated(context: Any, what: str, path: str = "") -> Any:
    """Behaves badly in its own process."""
    if what == "pid":
        context.log("from the child")
        context.progress(1)
        context.checkpoint()
        return [os.getpid(), context.attempt, context.job_id]
    if what == "dies":
        os._exit(9)
    if what == "fails":
        raise ValueError("from the child")
    if what == "retries" and context.attempt == 1:
        raise Retry("once more", delay=0.01)
    if what == "discards":
        raise Discard("from the child")
    if what == "eats":
        hoard = []
        while True:
            hoard.append(bytearray(4 * 2**20))
            time.sleep(0.005)
    if what == "hangs":
        append(path, f"start {os.getpid()}")
        while True:
            time.sleep(60)
    if what == "listens":
        append(path, f"start {os.getpid()}")
        while True:
            context.raise_if_cancelled()
            time.sleep(0.01)
    return what


# Tasks with a database


@task(queue_name="fast")
def queries(seconds: float = 0) -> int:
    count = ContentType.objects.count()
    time.sleep(seconds)
    return count


@task(queue_name="fast")
async def aqueries(seconds: float = 0) -> int:
    count = await ContentType.objects.acount()
    await asyncio.sleep(seconds)
    return count


@task(queue_name="fast")
def writes(label: str) -> None:
    ContentType.objects.create(app_label="testapp", model=label)


@task(queue_name="fast")
def leaves_a_transaction(how: str) -> None:
    """Writes, and ends in the middle of a transaction."""
    if how == "atomic":
        transaction.atomic().__enter__()
    elif how == "autocommit off":
        transaction.set_autocommit(False)
    else:
        with connection.cursor() as cursor:
            cursor.execute("BEGIN")
    ContentType.objects.create(app_label="testapp", model="left")
    if how == "broken":
        with contextlib.suppress(DatabaseError), connection.cursor() as cursor:
            cursor.execute("SELECT no_such_column")


@task
def signs_in(user: str, password: str) -> None:
    """Has a secret among its positional arguments."""
