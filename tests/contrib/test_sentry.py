"""Sentry hears of jobs by the records of the logs, without a line of ours."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from django_echomq.queue import Queue
from tests.conftest import Command
from tests.testapp import tasks

Site = Callable[[str], Queue]


@pytest.fixture
def events(
    site: Site, command: Callable[..., Command], tmp_path: Path
) -> Callable[..., list[dict[str, Any]]]:
    def run(*options: str) -> list[dict[str, Any]]:
        path = tmp_path / "events"
        env = {
            "DJANGO_SETTINGS_MODULE": "tests.contrib.sentry_settings",
            "ECHOMQ_TEST_EVENTS": str(path),
        }
        worker = command("echomq_worker", "--burst", "--threads", "1", *options, env=env)
        assert worker.wait() == 0, worker.output()
        return [json.loads(line) for line in path.read_text().splitlines()] if path.exists() else []

    return run


def test_a_job_that_is_dead_is_one_event(events: Callable[..., Any]) -> None:
    job = tasks.always_fails.using(max_attempts=1).enqueue("the disk is full")
    (event,) = events()
    print(json.dumps(event, indent=1)[:6000])
    (error,) = event["exception"]["values"]
    assert (error["type"], error["value"]) == ("RuntimeError", "the disk is full")
    frames = error["stacktrace"]["frames"]
    assert frames[-1]["function"] == "always_fails"
    assert event["level"] == "error"
    extra = event["extra"]
    assert extra.pop("duration") >= 0
    del extra["sys.argv"]
    assert extra == {
        "job_id": job.id,
        "task": "tests.testapp.tasks.always_fails",
        "queue": "fast",
        "attempt": 1,
    }


def test_an_attempt_that_is_tried_again_is_a_breadcrumb(events: Callable[..., Any]) -> None:
    tasks.flaky.enqueue(1)
    assert events() == []


def test_only_the_last_attempt_is_an_event(events: Callable[..., Any]) -> None:
    tasks.always_fails.using(max_attempts=2).enqueue("boom")
    (event,) = events()
    assert event["extra"]["attempt"] == 2


def test_discard(events: Callable[..., Any]) -> None:
    tasks.gives_up.enqueue()
    (event,) = events()
    print(json.dumps(event, indent=1)[:6000])


def test_isolated(events: Callable[..., Any]) -> None:
    tasks.always_fails.using(max_attempts=1).enqueue("boom")
    (event,) = events("--isolate")
    print(json.dumps(event, indent=1)[:6000])
