"""Tasks in child processes: they may die, hang and eat memory without harming the worker."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from django_echomq.queue import Queue
from django_echomq.tasks import isolated as isolated_module
from django_echomq.tasks.runner import Runner
from django_echomq.worker import Worker
from tests.conftest import ROOT, Command, wait_until
from tests.testapp import tasks

Site = Callable[[str], Queue]
Start = Callable[..., Command]
pytestmark = pytest.mark.django_db(transaction=True)


def alive(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.fixture
def work(site: Site, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., None]]:
    monkeypatch.setattr(isolated_module, "GRACE", 1.0)
    runners: list[Runner] = []

    def run(**options: Any) -> None:
        runners.append(Runner("w", **options))
        Worker([site("fast")], runners[-1], name="w", threads=2, burst=True).run()

    yield run
    for runner in runners:
        runner.close()


def outcome(site: Site, result: Any) -> tuple[str, str | None]:
    job = site("fast").jobs.get(result.id)
    return job.state, job.last_error


def test_a_task_runs_in_a_process_of_its_own(site: Site, work: Callable[..., None]) -> None:
    result = tasks.isolated.enqueue("pid")
    work()
    result.refresh()
    pid, attempt, job_id = result.return_value
    assert pid != os.getpid()
    assert (attempt, job_id) == (1, result.id)
    assert site("fast").jobs.logs(result.id) == ["from the child"]


def test_a_child_is_kept_for_the_next_call(site: Site, work: Callable[..., None]) -> None:
    results = [tasks.isolated.enqueue("pid") for _ in range(6)]
    work()
    pids = set()
    for result in results:
        result.refresh()
        pids.add(result.return_value[0])
    assert len(pids) <= 2


def test_what_a_child_raises_is_told(site: Site, work: Callable[..., None]) -> None:
    failed = tasks.isolated.using(max_attempts=1).enqueue("fails")
    retried = tasks.isolated.enqueue("retries")
    discarded = tasks.isolated.enqueue("discards")
    work()
    assert outcome(site, failed) == ("dead", "ValueError: from the child")
    failed.refresh()
    assert failed.errors[0].exception_class is ValueError
    assert "raise ValueError" in failed.errors[0].traceback
    assert outcome(site, retried)[0] == "completed"
    assert outcome(site, discarded) == ("dead", "Discard: from the child")


def test_a_child_that_dies_fails_its_attempt_and_nothing_else(
    site: Site, work: Callable[..., None]
) -> None:
    bad = tasks.isolated.using(max_attempts=2).enqueue("dies")
    good = [tasks.isolated.enqueue("good") for _ in range(5)]
    work()
    state, error = outcome(site, bad)
    assert state == "dead"
    assert "the child process ended with 9" in str(error)
    assert {outcome(site, result)[0] for result in good} == {"completed"}


def test_a_child_that_eats_too_much_is_killed(site: Site, work: Callable[..., None]) -> None:
    result = tasks.isolated.using(max_attempts=1).enqueue("eats")
    work(max_memory_mib=200)
    assert outcome(site, result) == ("dead", "OutOfMemory: took more than 200 MiB")


def test_a_child_that_hangs_is_killed_at_its_time_limit(
    site: Site, work: Callable[..., None], tmp_path: Path
) -> None:
    path = tmp_path / "effects"
    result = tasks.isolated.using(max_attempts=1, timeout=0.5).enqueue("hangs", str(path))
    work()
    assert outcome(site, result) == ("dead", "TaskTimeout: ran for longer than 0.5 s")
    assert not alive(int(path.read_text().split()[1]))


def test_a_time_limit_is_of_the_task_and_not_of_its_import(
    site: Site, work: Callable[..., None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "sitecustomize.py").write_text(
        "import sys, time\n"
        "class Slow:\n"
        "    def find_spec(self, name, path, target=None):\n"
        "        if name == 'tests.testapp.tasks':\n"
        "            time.sleep(8)\n"
        "if any('spawn_main' in word for word in sys.orig_argv):\n"
        "    sys.meta_path.insert(0, Slow())\n"
    )
    monkeypatch.setenv("PYTHONPATH", f"{tmp_path}:{ROOT}")
    result = tasks.isolated.using(max_attempts=1, timeout=3).enqueue("good")
    work()
    assert outcome(site, result)[0] == "completed"


@pytest.mark.parametrize("what", ["listens", "hangs"])
def test_a_cancel_reaches_a_child(site: Site, command: Start, tmp_path: Path, what: str) -> None:
    path = tmp_path / "effects"
    result = tasks.isolated.enqueue(what, str(path))
    worker = command("echomq_worker", "fast", "--threads", "2")
    wait_until(lambda: path.exists() and path.read_text(), "the child to start")
    site("fast").jobs.cancel(result.id, "not needed")
    wait_until(lambda: outcome(site, result) == ("cancelled", "not needed"), "the end")
    assert alive(int(path.read_text().split()[1])) == (what == "listens")
    worker.process.kill()
    worker.process.wait()
    wait_until(lambda: not alive(int(path.read_text().split()[1])), "the child to follow")


def test_every_task_can_be_isolated(site: Site, work: Callable[..., None]) -> None:
    result = tasks.flaky.enqueue(1)
    work(isolate=True)
    result.refresh()
    assert result.return_value == 2
