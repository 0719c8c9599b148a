"""``manage.py echomq``."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.core.management import CommandError, call_command
from django.test import override_settings

from django_echomq.queue import Queue
from tests.conftest import Command, wait_until
from tests.testapp import tasks

Site = Callable[[str], Queue]
Start = Callable[..., Command]


def told(*args: str) -> str:
    out = StringIO()
    call_command("echomq", *args, stdout=out)
    return out.getvalue()


def rows(*args: str) -> Any:
    return json.loads(told(*args, "--json"))


def test_status_counts_the_jobs_of_each_queue(site: Site) -> None:
    tasks.noop.enqueue()
    site("mail").admin.pause()
    by_name = {row["queue"]: row for row in rows("status")}
    assert list(by_name) == ["default", "mail", "fast"]
    assert (by_name["default"]["pending"], by_name["default"]["paused"]) == (1, False)
    assert by_name["mail"]["paused"] is True
    table = told("status", "default").splitlines()
    assert table[0].split()[:2] == ["queue", "pending"]
    assert table[1].split()[:2] == ["default", "1"]


def test_workers_are_listed_and_told(site: Site, command: Start) -> None:
    assert told("workers").strip() == "no workers"
    worker = command("echomq_worker", "default", "mail", "--name", "w-7")
    (row,) = wait_until(lambda: rows("workers"), "the worker to be listed")
    assert (row["name"], row["queues"], row["state"]) == ("w-7", "default,mail", "running")
    told("worker", "quiet", "w-7")
    wait_until(lambda: rows("workers")[0]["state"] == "quiet")
    told("worker", "resume", "w-7")
    wait_until(lambda: rows("workers")[0]["state"] == "running")
    told("worker", "stop", "w-7")
    assert worker.wait() == 0, worker.output()
    assert rows("workers") == []


def test_who_is_not_there_cannot_be_told(site: Site) -> None:
    with pytest.raises(CommandError, match="no worker 'nobody'"):
        told("worker", "stop", "nobody")


def test_ping_says_that_the_server_answers(site: Site) -> None:
    (row,) = rows("ping")
    assert row["answers"] is True


@pytest.mark.parametrize("url", ["redis://:hunter2@127.0.0.1:1/0"])
def test_ping_turns_red_when_the_server_is_away(site: Site, url: str) -> None:
    echomq = {"CONNECTIONS": {"default": {"URL": url}}, "QUEUES": {"default": {}}}
    with override_settings(ECHOMQ=echomq), pytest.raises(CommandError) as caught:
        told("ping")
    assert "redis://127.0.0.1:1" in str(caught.value)
    assert "hunter2" not in str(caught.value)


def test_ping_looks_at_a_health_file(tmp_path: Path) -> None:
    path = tmp_path / "health"
    with pytest.raises(CommandError, match="cannot be read"):
        told("ping", "--health-file", str(path))
    path.write_text(json.dumps({"worker": "w", "at": time.time()}))
    assert "w" in told("ping", "--health-file", str(path))
    path.write_text(json.dumps({"worker": "w", "at": time.time() - 60}))
    with pytest.raises(CommandError, match="60 s ago"):
        told("ping", "--health-file", str(path))


def test_a_worker_writes_its_health_file_while_it_beats(
    site: Site, command: Start, tmp_path: Path
) -> None:
    path = tmp_path / "health"
    worker = command("echomq_worker", "default", "--name", "w-8", "--health-file", str(path))
    wait_until(path.exists, "the first beat")
    first = json.loads(path.read_text())["at"]
    wait_until(lambda: json.loads(path.read_text())["at"] > first, "another beat")
    assert "w-8" in told("ping", "--health-file", str(path), "--max-age", "10")
    worker.process.kill()
    worker.process.wait()


@pytest.mark.parametrize("args", [["statsu"], [], ["worker", "kill", "x"], ["ping", "nosuch"]])
def test_a_wrong_argument_is_told(args: list[str]) -> None:
    with pytest.raises(Exception, match=r"(?i)invalid choice|required|no queue"):
        told(*args)
