"""Cancel, time limits and leases of jobs that run in a worker of another process."""

from __future__ import annotations

import signal
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from django_echomq.queue import Queue
from django_echomq.tasks.compat import TaskResultStatus
from tests.conftest import Command, wait_until
from tests.testapp import tasks

Site = Callable[[str], Queue]
Start = Callable[..., Command]


@pytest.fixture
def worker(command: Start) -> Command:
    started = command("echomq_worker", "--threads", "4", "--grace", "1")
    started.until("Stop with")
    return started


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_cancel_reaches_a_handler_in_another_process(
    site: Site, worker: Command, tmp_path: Path
) -> None:
    queue = site("default")
    for n in range(5):
        path = tmp_path / f"effects{n}"
        result = tasks.checks.enqueue(str(path))
        wait_until(lambda path=path: lines(path), "the job to start")
        asked = time.time()
        assert queue.jobs.cancel(result.id, "not needed") == "asked"
        wait_until(lambda path=path: len(lines(path)) == 2, "the handler to hear of it")
        # A beat is a second. Its lease is extended every ten, which would tell the worker as well.
        assert float(lines(path)[1].split()[1]) - asked < 8
        wait_until(lambda result=result: queue.jobs.state(result.id) == "cancelled")
        result.refresh()
        assert result.status == TaskResultStatus.FAILED
        assert result.errors[-1].traceback == "not needed"
    assert queue.metrics.counts("failed", "dead") == {"failed": 0, "dead": 0}


def test_a_coroutine_gets_a_real_cancellation(site: Site, worker: Command, tmp_path: Path) -> None:
    path = tmp_path / "effects"
    result = tasks.async_waits.enqueue(str(path))
    wait_until(lambda: lines(path), "the job to start")
    site("default").jobs.cancel(result.id, "not needed")
    wait_until(lambda: site("default").jobs.state(result.id) == "cancelled")
    assert lines(path) == ["start", "heard"]


def test_a_handler_that_never_looks_completes_and_counts(
    site: Site, worker: Command, tmp_path: Path
) -> None:
    path = tmp_path / "effects"
    result = tasks.deaf.enqueue(str(path), 2.5)
    wait_until(lambda: lines(path), "the job to start")
    site("default").jobs.cancel(result.id)
    wait_until(lambda: site("default").jobs.state(result.id) == "completed")
    result.refresh()
    assert result.return_value == "completed all the same"


def test_a_job_cancelled_before_it_starts_never_runs(site: Site, command: Start) -> None:
    result = tasks.always_fails.enqueue()
    site("fast").jobs.cancel(result.id, "changed my mind")
    assert command("echomq_worker", "fast", "--burst").wait() == 0
    job = site("fast").jobs.get(result.id)
    assert (job.state, job.attempts, job.last_error) == ("cancelled", 0, "changed my mind")
    result.refresh()
    assert result.attempts == 0


@pytest.mark.parametrize("kind", ["asks", "coroutine", "neither asks nor catches"])
def test_a_handler_that_runs_too_long_fails_with_a_clear_error(
    site: Site, command: Start, tmp_path: Path, kind: str
) -> None:
    path = str(tmp_path / "effects")
    task = {
        "asks": tasks.checks.using(queue_name="fast"),
        "coroutine": tasks.async_waits.using(queue_name="fast"),
        "neither asks nor catches": tasks.spins,
    }[kind].using(timeout=0.3, max_attempts=1)
    result = task.enqueue(*([60] if task.func is tasks.spins.func else [path]))
    worker = command("echomq_worker", "fast")
    wait_until(lambda: site("fast").jobs.state(result.id) == "dead", "the time limit")
    job = site("fast").jobs.get(result.id)
    assert job.last_error == "TaskTimeout: ran for longer than 0.3 s"
    # The thread works on.
    good = tasks.flaky.enqueue(0)
    wait_until(lambda: site("fast").jobs.state(good.id) == "completed")
    assert worker.process.poll() is None


@pytest.mark.parametrize("task", [tasks.checks, tasks.async_waits], ids=["thread", "coroutine"])
def test_at_the_end_of_the_grace_time_handlers_are_told(
    site: Site, worker: Command, tmp_path: Path, task: Any
) -> None:
    path = tmp_path / "effects"
    result = task.enqueue(str(path))
    wait_until(lambda: lines(path), "the job to start")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()
    assert lines(path)[1].startswith("heard")
    job = site("default").jobs.get(result.id)
    assert (job.state, job.attempts, job.attempt) == ("pending", 1, 0)


def test_a_hung_handler_with_a_manual_lease_is_recovered_and_resumes(
    site: Site, command: Start, tmp_path: Path
) -> None:
    path = tmp_path / "effects"
    result = tasks.resumes.enqueue(str(path))
    worker = command("echomq_worker", "fast", "--threads", "2")
    wait_until(lambda: site("fast").jobs.state(result.id) == "completed")
    assert lines(path) == ["attempt 1 from None", "attempt 2 from {'page': 7}"]
    result.refresh()
    assert result.return_value == {"page": 7}
    worker.until("was no longer this worker's")
    assert site("fast").metrics.counts("completed") == {"completed": 1}
