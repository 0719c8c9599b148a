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
Events = Callable[..., list[dict[str, Any]]]


@pytest.fixture
def events(site: Site, command: Callable[..., Command], tmp_path: Path) -> Events:
    """What a worker process sends to Sentry while it works all jobs off."""

    def run(*options: str) -> list[dict[str, Any]]:
        path = tmp_path / "events"
        path.touch()
        env = {
            "DJANGO_SETTINGS_MODULE": "tests.contrib.sentry_settings",
            "ECHOMQ_TEST_EVENTS": str(path),
        }
        worker = command("echomq_worker", "--burst", "--threads", "1", *options, env=env)
        assert worker.wait() == 0, worker.output()
        return [json.loads(line) for line in path.read_text().splitlines()]

    return run


def test_of_each_dead_job_there_is_one_event_and_of_retries_none(events: Events) -> None:
    job = tasks.always_fails.using(max_attempts=2).enqueue("the disk is full")
    tasks.flaky.enqueue(1)
    (event,) = events()
    (error,) = event["exception"]["values"]
    assert (error["type"], error["value"]) == ("RuntimeError", "the disk is full")
    assert error["stacktrace"]["frames"][-1]["function"] == "always_fails"
    assert (event["level"], event["logger"]) == ("error", "django_echomq.tasks")
    extra = {name: value for name, value in event["extra"].items() if name != "sys.argv"}
    assert extra.pop("duration") >= 0
    assert extra == {
        "job_id": job.id,
        "task": "tests.testapp.tasks.always_fails",
        "queue": "fast",
        "attempt": 2,
        "error": "builtins.RuntimeError",
    }
    assert event["tags"] == {"task": "tests.testapp.tasks.always_fails", "queue": "fast"}
    # That an attempt failed before is among what led there.
    assert any(
        crumb["level"] == "warning" and job.id in crumb["message"]
        for crumb in event["breadcrumbs"]["values"]
    )


def test_what_has_no_traceback_of_its_own_is_told_apart(events: Events) -> None:
    tasks.gives_up.enqueue()
    tasks.picky.enqueue(3)
    discarded, failed = sorted(events("--isolate"), key=lambda event: str(event["extra"]["task"]))
    assert discarded["fingerprint"] == [
        "{{ default }}",
        "tests.testapp.tasks.gives_up",
        "django_echomq.tasks.verdicts.Discard",
    ]
    assert "exception" not in discarded
    assert "Discard: pointless" in discarded["logentry"]["formatted"]
    assert failed["fingerprint"][1:] == ["tests.testapp.tasks.picky", "builtins.ValueError"]
    # What the child process said.
    (error,) = failed["exception"]["values"]
    assert "in picky" in error["value"]
