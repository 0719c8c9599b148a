"""Workers and promoters serve all partitions of a queue, as one queue."""

from __future__ import annotations

import asyncio
import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from django.db import transaction

from django_echomq.queue import Queue, Unique
from django_echomq.tasks.compat import InvalidTask
from django_echomq.testing import run_pending
from django_echomq.worker import Promoter
from tests.conftest import WIDE, Command, wait_until
from tests.testapp import tasks

Start = Callable[..., Command]

ENV = {"ECHOMQ_TEST_QUEUES": json.dumps(WIDE)}


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


@pytest.mark.django_db(transaction=True)
def test_a_worker_serves_them_all(wide: Queue, command: Start, tmp_path: Path) -> None:
    out = tmp_path / "out"
    task = tasks.record.using(queue_name="wide")
    results = [task.enqueue(str(out), f"{n}") for n in range(8)]
    results += task.enqueue_many([((str(out), f"{n}"), {}) for n in range(8, 24)])
    results += [task.using(lane="acme").enqueue(str(out), "lane")]
    results += [task.using(unique=Unique("k")).enqueue(str(out), "unique")]
    results += [asyncio.run(task.aenqueue(str(out), "async"))]
    with transaction.atomic():
        results += [task.using(lane="acme").enqueue_on_commit(str(out), "commit")]
    worker = command("echomq_worker", "wide", "--name", "w", "--threads", "2", env=ENV)
    wait_until(lambda: len(lines(out)) == 2 * len(results), "the jobs to run")
    (info,) = wait_until(wide.workers.all, "the worker to be listed")
    assert (info.name, info.queues) == ("w", ["wide"])
    wait_until(lambda: not wide.jobs.size("active"), "the jobs to be settled")
    for result in results:
        result.refresh()
        assert result.status.name == "SUCCESSFUL"
    assert wide.metrics.overview().workers == 1
    assert all(part.metrics.counts("completed")["completed"] for part in wide.parts)
    assert wide.workers.stop("w")
    assert worker.wait() == 0
    assert wide.workers.all() == []


@pytest.mark.django_db(transaction=True)
def test_a_task_sees_the_whole_queue(wide: Queue) -> None:
    result = tasks.tells.using(queue_name="wide").enqueue()
    assert run_pending("wide")
    result.refresh()
    assert result.is_finished


def test_a_lane_and_a_unique_key_are_refused_at_once(wide: Queue) -> None:
    with pytest.raises(InvalidTask, match="partitioned"):
        tasks.noop.using(queue_name="wide", lane="a", unique=Unique("k"))
    tasks.noop.using(queue_name="mail", lane="a", unique=Unique("k"))


def test_a_promoter_promotes_and_recovers_in_all(wide: Queue) -> None:
    for part in wide.parts:
        part.jobs.enqueue_in(b"x", 0.01)
        part.jobs.enqueue(b"x")
    assert len(wide.jobs.claim(9, lease=0.01)) == 3
    promoter = Promoter([wide], tick=0.05)
    thread = threading.Thread(target=promoter.run)
    thread.start()
    try:
        wait_until(lambda: wide.metrics.counts("pending") == {"pending": 6}, "the promoter")
    finally:
        promoter.stop()
        thread.join()


def test_isolated_tasks_and_retries(wide: Queue, command: Start, tmp_path: Path) -> None:
    out = tmp_path / "out"
    flaky = tasks.flaky.using(queue_name="wide")
    results: list[Any] = [flaky.enqueue(1) for _ in range(3)]
    results.append(tasks.record.using(queue_name="wide").enqueue(str(out), "x"))
    worker = command("echomq_worker", "wide", "--isolate", "--burst", env=ENV)
    assert worker.wait(120) == 0, worker.output()
    assert {wide.jobs.get(result.id).state for result in results} == {"completed"}
