"""``manage.py echomq``."""

from __future__ import annotations

import copy
import fcntl
import json
import os
import pty
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Callable
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from io import StringIO
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings
from django.core.management import CommandError, call_command
from django.test import override_settings

from django_echomq.queue import Queue
from django_echomq.wire.client import Client
from tests.conftest import ROOT, Command, wait_until
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


def test_a_partitioned_queue_is_one(wide: Queue, capsys: pytest.CaptureFixture[str]) -> None:
    ids = [each.job_id for each in wide.jobs.enqueue_many([b"{}"] * 12)]
    wide.jobs.enqueue(b"{}", lane="acme")
    (row,) = rows("status", "wide")
    assert (row["queue"], row["pending"]) == ("wide", 13)
    assert [row["id"] for row in rows("jobs", "wide", "--oldest")] == ids
    assert rows("job", ids[3])["queue"] == "wide"
    assert [row["name"] for row in rows("lanes", "wide")] == ["acme"]
    assert {row["outcome"] for row in rows("cancel", *ids[:3])} == {"cancelled"}
    assert rows("metrics", "wide")[0]["cancelled"] == 3
    assert rows("pause", "wide")[0]["changed"]
    assert rows("drain", "wide", "--yes")[0]["removed"] == 10
    assert len(rows("ping", "wide")) == len({part.client for part in wide.parts})
    with pytest.raises(CommandError, match="2 cannot be divided among 3"):
        told("limit", "wide", "--concurrency", "2")
    rows("obliterate", "wide", "--yes")
    assert capsys.readouterr().err == ""


def test_jobs_in_partitions_that_are_not_named_any_more_are_told(
    wide: Queue, client: Client
) -> None:
    wide.jobs.enqueue_many([b"x"] * 30)
    left = wide.parts[2].metrics.counts("pending")["pending"]
    stray = Queue("wide", client)
    stray.jobs.enqueue(b"x")
    echomq = copy.deepcopy(settings.ECHOMQ)
    echomq["QUEUES"]["wide"]["PARTITIONS"] = 2
    err = StringIO()
    with override_settings(ECHOMQ=echomq):
        call_command("echomq", "status", "wide", stdout=StringIO(), stderr=err)
    assert f"{left} job(s) of queue wide are left in wide.p2" in err.getvalue()
    assert "1 job(s) of queue wide are left in wide," in err.getvalue()
    assert "wide.p1" not in err.getvalue()
    stray.admin.pause()
    stray.admin.obliterate()


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
    with pytest.raises(CommandError, match=r"6\d s ago"):
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


def test_a_queue_is_paused_and_resumed(site: Site) -> None:
    (row,) = rows("pause", "default")
    assert row == {"queue": "default", "paused": True, "changed": True}
    assert rows("pause", "default")[0]["changed"] is False
    assert site("default").admin.is_paused()
    rows("resume", "default")
    assert not site("default").admin.is_paused()


def test_jobs_of_a_state_are_listed_newest_first(site: Site) -> None:
    ids = [tasks.echo.enqueue(n).id for n in range(3)]
    assert [row["id"] for row in rows("jobs", "default")] == ids[::-1]
    assert [row["id"] for row in rows("jobs", "default", "--oldest", "--limit", "2")] == ids[:2]
    assert rows("jobs", "default", "--offset", "2")[0]["id"] == ids[0]
    assert told("jobs", "default", "--state", "dead").strip() == "no dead jobs"
    assert "tests.testapp.tasks.echo" in told("jobs", "default")
    with pytest.raises(CommandError, match="page"):
        told("jobs", "default", "--limit", "0")


def test_a_job_is_shown_with_its_secrets_masked(site: Site) -> None:
    job = tasks.echo.enqueue("open", user={"password": "hunter2", "name": "ada"})
    shown = told("job", job.id)
    assert "hunter2" not in shown
    assert '"ada"' in shown
    row = json.loads(told("job", job.id, "--json"))
    assert row["call"]["kwargs"] == {"user": {"password": "********", "name": "ada"}}
    assert (row["state"], row["queue"]) == ("pending", "default")
    assert "hunter2" not in told("jobs", "default")


def test_a_failed_job_is_shown_with_its_attempts_and_logs(site: Site) -> None:
    job = tasks.always_fails.using(max_attempts=1).enqueue("the reason")
    call_command("echomq_worker", "fast", burst=True, verbosity=0)
    site("fast").jobs.add_log(job.id, "a line\x1b[2J")
    shown = told("job", job.id, "--logs")
    assert "RuntimeError: the reason" in shown
    assert "Traceback" in shown
    assert "a line\\x1b[2J" in shown


def test_jobs_are_acted_on_by_id_wherever_they_are(site: Site) -> None:
    job, other = tasks.noop.enqueue(), tasks.always_fails.enqueue()
    missing = job.id[:-4] + "zzzz"
    assert rows("cancel", job.id, other.id, "--reason", "enough") == [
        {"job": job.id, "outcome": "cancelled"},
        {"job": other.id, "outcome": "cancelled"},
    ]
    assert site("fast").jobs.get(other.id).last_error == "enough"
    assert rows("retry", job.id)[0]["outcome"] == "reprocessed"
    assert site("default").jobs.state(job.id) == "pending"
    with pytest.raises(CommandError, match="1 of 2 refused"):
        told("retry", job.id, other.id)
    assert site("fast").jobs.state(other.id) == "pending"
    with pytest.raises(CommandError, match="1 of 1 refused"):
        told("remove", missing, "--yes")
    rows("remove", job.id, "--yes")
    assert site("default").jobs.state(job.id) == "absent"
    with pytest.raises(CommandError, match="at least one"):
        told("cancel")
    with pytest.raises(CommandError, match="no job"):
        told("job", missing)
    with pytest.raises(CommandError, match="not a branded id"):
        told("job", "not-an-id")


def test_a_scheduled_job_is_promoted(site: Site) -> None:
    later = datetime.now(UTC) + timedelta(days=1)
    job = tasks.noop.using(run_after=later).enqueue()
    others = [tasks.noop.using(run_after=later).enqueue() for _ in range(3)]
    rows("promote", job.id)
    assert site("default").jobs.state(job.id) == "pending"
    assert rows("promote", "--all", "--queue", "default") == [{"queue": "default", "promoted": 3}]
    assert {site("default").jobs.state(each.id) for each in others} == {"pending"}
    with pytest.raises(CommandError, match="--all goes with"):
        told("promote", "--all")


def test_the_arguments_of_a_job_are_edited(site: Site) -> None:
    job = tasks.echo.enqueue("wrong", k=1)
    rows("edit", job.id, "--args", '["right"]')
    call_command("echomq_worker", "default", burst=True, verbosity=0)
    assert tasks.echo.get_result(job.id).return_value == [["right"], {"k": 1}]
    other = tasks.echo.enqueue()
    for bad, words in [
        ([], "Say what"),
        (["--args", "7"], "is a list"),
        (["--kwargs", "[]"], "is an object"),
        (["--args", "{"], "not JSON"),
    ]:
        with pytest.raises(Exception, match=words):
            told("edit", other.id, *bad)
    assert site("default").jobs.get(other.id).payload == b'{"task":"tests.testapp.tasks.echo"}'


def test_whole_queues_are_emptied_only_when_agreed(site: Site) -> None:
    queue = site("default")
    tasks.noop.enqueue_many([((), {})] * 5)
    later = datetime.now(UTC) + timedelta(days=1)
    tasks.noop.using(run_after=later).enqueue()
    for verb in (["drain", "default"], ["clean", "default", "pending", "--older-than", "0s"]):
        with pytest.raises(CommandError, match="pass --yes"):
            told(*verb)
    assert queue.metrics.counts("pending") == {"pending": 5}
    assert rows("drain", "default", "--yes") == [{"queue": "default", "removed": 5}]
    assert queue.metrics.counts("pending", "scheduled") == {"pending": 0, "scheduled": 1}
    with pytest.raises(CommandError, match="not paused"):
        told("obliterate", "default", "--yes")
    told("pause", "default")
    assert rows("obliterate", "default", "--yes") == [{"queue": "default", "removed": 1}]
    assert not queue.admin.is_paused()


def test_dead_jobs_are_reprocessed_and_cleaned(site: Site) -> None:
    for n in range(3):
        tasks.always_fails.using(max_attempts=1).enqueue(str(n))
    call_command("echomq_worker", "fast", burst=True, verbosity=0)
    assert rows("retry", "--all", "--queue", "fast") == [{"queue": "fast", "reprocessed": 3}]
    call_command("echomq_worker", "fast", burst=True, verbosity=0)
    assert rows("clean", "fast", "dead", "--older-than", "1h", "--yes")[0]["removed"] == 0
    assert rows("clean", "fast", "dead", "--older-than", "0s", "--yes")[0]["removed"] == 3


def test_schedules_are_listed_and_operated(site: Site) -> None:
    queue = site("default")
    payload = b'{"task":"tests.testapp.tasks.noop"}'
    queue.repeat.register("nightly", payload=payload, cron="30 2 * * *", tz="Europe/Berlin")
    (row,) = rows("schedules")
    assert (row["name"], row["cadence"], row["paused"]) == ("nightly", "30 2 * * *", False)
    rows("schedule", "pause", "nightly")
    assert rows("schedules")[0]["paused"] is True
    rows("schedule", "resume", "nightly")
    assert rows("schedules")[0]["paused"] is False
    (ran,) = rows("schedule", "run", "nightly")
    assert queue.jobs.state(ran["job"]) == "pending"
    with pytest.raises(CommandError, match="pass --yes"):
        told("schedule", "cancel", "nightly")
    rows("schedule", "cancel", "nightly", "--yes")
    assert rows("schedules") == []
    with pytest.raises(CommandError, match="no schedule 'nightly'"):
        told("schedule", "run", "nightly")


def test_lanes_are_listed_and_operated(site: Site) -> None:
    queue = site("default")
    ids = [tasks.noop.using(lane="acme").enqueue().id for _ in range(3)]
    other = tasks.noop.enqueue().id
    (row,) = rows("lanes", "default")
    assert (row["name"], row["depth"], row["weight"], row["paused"]) == ("acme", 3, 1, False)
    rows("lane", "default", "acme", "pause")
    rows("lane", "default", "acme", "limit", "2")
    rows("lane", "default", "acme", "weight", "5")
    (row,) = rows("lanes", "default")
    assert (row["limit"], row["weight"], row["paused"]) == (2, 5, True)
    rows("lane", "default", "acme", "resume")
    rows("lane", "default", "acme", "limit", "none")
    assert rows("lanes", "default")[0]["limit"] is None
    assert rows("move", other, "acme") == [{"job": other, "outcome": "moved"}]
    assert rows("move", ids[0]) == [{"job": ids[0], "outcome": "moved"}]
    assert queue.lanes.depth("acme") == 3
    with pytest.raises(CommandError, match="pass --yes"):
        told("lane", "default", "acme", "drain")
    assert rows("lane", "default", "acme", "drain", "--yes")[0]["removed"] == 3
    for bad in (["limit"], ["pause", "3"], ["limit", "0"], ["limit", "many"]):
        with pytest.raises(Exception, match=r"Give a number|no whole number"):
            told("lane", "default", "acme", *bad)


def test_a_queue_is_limited(site: Site) -> None:
    rows("limit", "default", "--concurrency", "4", "--rate", "100/m")
    overview = site("default").metrics.overview()
    assert (overview.concurrency, str(overview.rate)) == (4, "100/m")
    rows("limit", "default", "--concurrency", "none", "--rate", "none")
    overview = site("default").metrics.overview()
    assert (overview.concurrency, overview.rate) == (None, None)
    for bad in ([], ["--concurrency", "0"], ["--concurrency", "x"], ["--rate", "fast"]):
        with pytest.raises(CommandError):
            told("limit", "default", *bad)


def test_figures_tell_of_what_happened(site: Site) -> None:
    tasks.noop.enqueue_many([((), {})] * 3)
    call_command("echomq_worker", "default", burst=True, verbosity=0)
    (row,) = rows("metrics", "default")
    assert (row["enqueued"], row["completed"], row["oldest_wait_s"]) == (3, 3, None)
    assert 0 <= row["wait_p50_s"] <= row["wait_p99_s"]


def test_events_are_followed(site: Site, command: Start) -> None:
    follower = command("echomq", "events", "default", "--limit", "2", "--json")
    wait_until(lambda: client_count(site("default")) > 0, "the follower")
    job = tasks.noop.enqueue()
    site("default").jobs.cancel(job.id)
    assert follower.wait() == 0, follower.output()
    told = [json.loads(line) for line in follower.output().splitlines()]
    assert [(line["event"], line["job"]) for line in told] == [
        ("enqueued", job.id),
        ("cancelled", job.id),
    ]


def client_count(queue: Queue) -> int:
    """How many listen to a queue's events."""
    client = queue.client
    answer = client.drive(client.command("PUBSUB", "NUMSUB", queue.keys.events))
    return int(answer[1])


class Terminal:
    """The command on a terminal of its own."""

    def __init__(self, *args: str) -> None:
        self.master, slave = pty.openpty()
        fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", 40, 160, 0, 0))
        self.process = subprocess.Popen(
            [sys.executable, "-m", "django", "echomq", *args],
            cwd=ROOT,
            env={
                **os.environ,
                "DJANGO_SETTINGS_MODULE": "tests.settings",
                "PYTHONPATH": str(ROOT),
                "TERM": "xterm",
            },
            stdin=slave,
            stdout=slave,
            stderr=slave,
            start_new_session=True,
            preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),
        )
        os.close(slave)
        os.set_blocking(self.master, False)
        self.seen = ""

    def until(self, text: str) -> None:
        def look() -> bool:
            with suppress(BlockingIOError, OSError):
                self.seen += os.read(self.master, 65536).decode(errors="replace")
            return text in self.seen

        wait_until(look, text)

    def type(self, keys: str) -> None:
        os.write(self.master, keys.encode())

    def close(self) -> int:
        code = self.process.wait(30)
        os.close(self.master)
        return code


def test_on_a_terminal_it_asks_before_it_destroys(site: Site) -> None:
    tasks.noop.enqueue_many([((), {})] * 3)
    for answer, left in [("n", 3), ("y", 0)]:
        terminal = Terminal("drain", "default")
        terminal.until("Remove 3 waiting job(s) of queue default? [y/N]")
        terminal.type(f"{answer}\n")
        terminal.until("Nothing was changed" if left else "removed")
        assert terminal.close() == (1 if left else 0)
        assert site("default").metrics.counts("pending") == {"pending": left}


def test_obliterate_asks_for_the_name(site: Site) -> None:
    tasks.noop.enqueue()
    site("default").admin.pause()
    for answer, left in [("y", 1), ("default", 0)]:
        terminal = Terminal("obliterate", "default")
        terminal.until("Type default to go on")
        terminal.type(f"{answer}\n")
        assert terminal.close() == left
        assert site("default").metrics.counts("pending") == {"pending": left}


def test_status_watches_until_it_is_stopped(site: Site) -> None:
    terminal = Terminal("status", "--watch", "0.1")
    terminal.until("default")
    tasks.noop.enqueue_many([((), {})] * 4711)
    terminal.until("4711")
    terminal.type("\x03")
    assert terminal.close() == 0
