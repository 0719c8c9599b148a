"""The pages of ``docs/howto``, run from top to bottom; and whether what the pages under ``docs``
point to is there."""

from __future__ import annotations

import ast
import copy
import logging
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from types import ModuleType
from typing import Any
from zoneinfo import ZoneInfo

import django
import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.core.management import call_command
from django.test import override_settings

from django_echomq import BatchConsumer, Exponential
from django_echomq.queue import Queue
from django_echomq.tasks import registry
from django_echomq.tasks.compat import TaskResultStatus
from tests.conftest import ROOT, purge

DOCS = ROOT / "docs"
HOWTO = DOCS / "howto"
PAGES = sorted(DOCS.rglob("*.md"))

Site = Callable[[str], Queue]


def blocks(page: Path) -> list[str]:
    return re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)


class Reader:
    """Somebody who types the page in, block by block."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, page: Path) -> None:
        self.left = blocks(page)
        self._page = page
        self.names: dict[str, Any] = {}
        self._monkeypatch = monkeypatch

    def block(self, head: str) -> str:
        block = self.left.pop(0)
        assert block.startswith(head), block
        return block

    def tasks(self) -> Any:
        block = self.block("# ")
        package_name = block.removeprefix("# ").partition("/tasks.py\n")[0]
        if django.VERSION < (6, 0):
            # As the comment of that line says.
            block = block.replace("from django.tasks import", "from django_tasks import")
        package, module = ModuleType(package_name), ModuleType(f"{package_name}.tasks")
        self._monkeypatch.setitem(sys.modules, package_name, package)
        self._monkeypatch.setitem(sys.modules, f"{package_name}.tasks", module)
        # What the page registers is forgotten after the test.
        registry.autodiscover()
        self._monkeypatch.setattr(registry, "_tasks", registry.registered())
        exec(compile(block, f"{package_name}/tasks.py", "exec"), vars(module))
        return module

    def code(self, head: str) -> dict[str, Any]:
        exec(compile(self.block(head), str(self._page), "exec"), self.names)
        return self.names

    def settings(self) -> override_settings:
        echomq = copy.deepcopy(settings.ECHOMQ)
        exec(self.block("# settings.py\n"), {"ECHOMQ": echomq})
        return override_settings(ECHOMQ=echomq)


@pytest.fixture
def reading(monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str], Reader]]:
    logging.getLogger("django_echomq").setLevel(logging.CRITICAL)
    yield lambda name: Reader(monkeypatch, HOWTO / name)
    logging.getLogger("django_echomq").setLevel(logging.NOTSET)


def work_off(jobs: int) -> None:
    """A worker that claims so many jobs, and leaves their retries be."""
    call_command("echomq_worker", "default", max_jobs=jobs, verbosity=0)


def due_in(queue: Queue, raw: Any, job_id: str) -> float:
    """Seconds until a scheduled job is due."""
    seconds, microseconds = raw.time()
    score = raw.zscore(queue.keys.schedule, job_id)
    assert score is not None, queue.jobs.state(job_id)
    return float(score) / 1000 - seconds - microseconds / 1e6


@pytest.mark.django_db(transaction=True)
def test_delay_retry_repeat(
    site: Site, raw: Any, reading: Callable[[str], Reader], capsys: Any
) -> None:
    queue, reader = site("default"), reading("delay-retry-repeat.md")
    tasks = reader.tasks()

    # Delay
    names = reader.code("from datetime import timedelta\n")
    result = names["result"]
    assert result.outcome == "scheduled"
    assert queue.jobs.state(result.id) == "pending"
    parked = {job.payload: job.id for job in queue.jobs.browse("scheduled")}
    assert due_in(queue, raw, parked[b"any bytes"]) == pytest.approx(300, abs=30)
    assert due_in(queue, raw, parked[b"any text"]) == pytest.approx(600, abs=30)
    for job_id in parked.values():
        queue.jobs.remove(job_id)

    work_off(1)
    assert due_in(queue, raw, result.id) == pytest.approx(300, abs=30)
    assert queue.jobs.get(result.id).last_error == "Retry: not exported yet"
    tasks.exports["2026-03-29"] = lambda: "the figures"
    queue.jobs.promote_now(result.id)
    work_off(1)
    result.refresh()
    assert (result.return_value, result.attempts) == ("the figures", 2)

    # Retry
    def broken() -> None:
        raise OSError("the disk is full")

    tasks.exports.update({"2026-03-30": broken, "2026-03-31": broken})
    reader.code("fetch.using(")
    work_off(2)
    failed = queue.jobs.browse("scheduled")
    assert {(job.last_error, job.attempt) for job in failed} == {("OSError: the disk is full", 1)}
    waits = sorted(due_in(queue, raw, job.id) for job in failed)
    assert waits == [pytest.approx(10, abs=8), pytest.approx(30, abs=10)]
    for job in failed:
        queue.jobs.remove(job.id)

    # Run every night
    with reader.settings():
        assert run_checks(tags=["echomq"]) == []
        queue = names["queue"] = site("default")
        assert queue.options.max_attempts == 5
        assert queue.options.backoff == Exponential(1_000, 600_000).jittered()
        call_command("echomq_worker", "default", burst=True, verbosity=0)
        nightly, hourly = (queue.repeat.get(name) for name in ("nightly-report", "fetch"))
        assert nightly is not None
        assert hourly is not None
        assert nightly.next_run is not None
        assert nightly.next_run.astimezone(ZoneInfo("Europe/Berlin")).hour in (2, 3)
        assert hourly.next_run is not None
        assert (hourly.next_run - datetime.now(UTC)).total_seconds() == pytest.approx(3600, abs=30)
        assert hourly.definition.catch_up == "all"
        reader.code("print(queue.repeat")
        assert capsys.readouterr().out.strip() == str(nightly.next_run)
        assert queue.repeat.get("nightly-report") == nightly
        (job,) = queue.jobs.browse("pending")
        call_command("echomq_worker", "default", burst=True, verbosity=0)
        done = tasks.nightly.get_result(job.id)
        assert done.status == TaskResultStatus.SUCCESSFUL
        assert done.return_value == "report for board@example.com"
        for name in ("nightly-report", "fetch"):
            assert queue.repeat.cancel(name)
    assert reader.left == []


@pytest.mark.django_db(transaction=True)
def test_unique(site: Site, raw: Any, reading: Callable[[str], Reader], capsys: Any) -> None:
    queue, reader = site("default"), reading("unique.md")
    sent = reader.tasks().sent

    # Once per key
    names = reader.code("from datetime import timedelta\n")
    assert capsys.readouterr().out == "duplicate True\n"
    work_off(1)
    assert names["once"].enqueue(7).outcome == "enqueued"
    work_off(1)

    # Not while one waits
    reader.code("again = ")
    assert names["again"].enqueue(1).outcome == "duplicate"
    (claim,) = queue.jobs.claim()
    assert names["again"].enqueue(1).outcome == "enqueued"
    queue.jobs.complete(claim)
    work_off(1)

    # Throttle
    reader.code("throttled = ")
    work_off(1)
    assert names["throttled"].enqueue("the disk is full").outcome == "duplicate"
    assert 0 < raw.pttl(queue.keys.base + b"de:disk-full") <= 600_000

    # Debounce
    reader.code("for page in")
    (waiting,) = queue.jobs.browse("scheduled")
    assert waiting.id == names["last"].id
    assert due_in(queue, raw, waiting.id) == pytest.approx(30, abs=25)
    capsys.readouterr()
    reader.code("print(get_queue")
    assert capsys.readouterr().out.strip() == waiting.id
    assert reader.left == []
    queue.jobs.promote_now(waiting.id)
    work_off(1)
    once, index = ("welcome", 7), ("reindex", 1)
    assert sent == [once, once, index, ("alert", "the disk is full"), ("reindex", "final")]


def test_batches(
    site: Site,
    raw: Any,
    reading: Callable[[str], Reader],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    reader = reading("batches.md")
    with reader.settings():
        assert run_checks(tags=["echomq"]) == []
        queue = site("visits")
        try:
            assert queue.options.max_attempts == 5
            names = reader.code("from django_echomq import get_queue\n")
            names = reader.code("import json\n")
            assert names["pages"] == ["/", "/about", "/"]
            words = [str(word) for word in names["batch"].settled.values()]
            assert words == ["done", "done", "scheduled", "done"]
            (broken,) = queue.jobs.browse("scheduled")
            assert broken.payload == b"{"
            assert broken.last_error is not None
            assert broken.last_error.startswith("JSONDecodeError: ")
            assert due_in(queue, raw, broken.id) == pytest.approx(2, abs=2)

            # In a process of its own
            reader.code("# visits/management/commands")
            before = signal.getsignal(signal.SIGTERM)
            monkeypatch.setattr(
                BatchConsumer, "run", lambda consumer: os.kill(os.getpid(), signal.SIGTERM)
            )
            stopped: list[BatchConsumer] = []
            monkeypatch.setattr(BatchConsumer, "stop", lambda consumer: stopped.append(consumer))
            try:
                names["Command"]().handle()
            finally:
                signal.signal(signal.SIGTERM, before)
            assert len(stopped) == 1
        finally:
            purge(raw, "visits")
    assert reader.left == []


def test_partitions(site: Site, raw: Any, reading: Callable[[str], Reader]) -> None:
    reader = reading("partitions.md")
    with reader.settings():
        assert run_checks(tags=["echomq"]) == []
        queue = site("mail")
        try:
            names = reader.code("from django_echomq import get_queue\n")
            assert names["mail"] is queue
            assert len(queue.parts) == len(names["each"]) == 8
            assert (names["waiting"], sum(names["each"])) == ({"pending": 201}, 200)
            assert queue.jobs.get(names["claim"].job_id).state == "completed"
            reader.code("part = ")
            assert queue.jobs.get(names["own"]).lane == "acme"
            assert queue.lanes.depth("acme") == 2
            assert [part.options.concurrency for part in queue.parts] == [13] * 4 + [12] * 4
        finally:
            for part in queue.parts:
                purge(raw, part.keys.queue)
    with reader.settings():
        assert run_checks(tags=["echomq"]) == []
        assert [len(site(name).parts) for name in ("letters", "mail")] == [16, 8]
    assert reader.left == []


# What pages point to


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(DOCS)))
def test_the_links_of_a_page_lead_somewhere(page: Path) -> None:
    text = re.sub(r"```.*?```", "", page.read_text(), flags=re.DOTALL)
    for target in re.findall(r"\]\(([^)\s]+)\)", text):
        if re.match(r"[a-z]+:", target):
            continue
        name, _, anchor = target.partition("#")
        other = page.parent / name if name else page
        assert other.exists(), target
        if anchor:
            assert anchor in anchors(other), target


def anchors(page: Path) -> set[str]:
    """What the headings of a page are called in links."""
    heads = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {re.sub(r"[^\w -]", "", head.lower()).replace(" ", "-") for head in heads}


def test_every_test_that_a_page_names_is_there() -> None:
    tests = {
        node.name
        for file in (ROOT / "tests").rglob("*.py")
        for node in ast.walk(ast.parse(file.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
    }
    named = 0
    for page in PAGES:
        for quoted in re.findall(r"`([^`\n]+)`", page.read_text()):
            if re.fullmatch(r"tests/[\w/]+\.py", quoted):
                assert (ROOT / quoted).exists(), f"{page.name}: {quoted}"
            elif re.fullmatch(r"test_\w+", quoted):
                assert quoted in tests, f"{page.name}: {quoted}"
            else:
                continue
            named += 1
    assert named >= 15
