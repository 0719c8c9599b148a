"""What the pages say and do."""

from __future__ import annotations

import html
import json
import re
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
import redis
from django.contrib.admin.models import LogEntry
from django.test import Client as Browser
from django.urls import reverse

from django_echomq import readings
from django_echomq.console import operations, schedules, search, servers
from django_echomq.queue import Queue
from django_echomq.queue.repeat import Definition, Schedule
from django_echomq.queues import forget_queues, get_queue
from django_echomq.wire.client import Client
from django_echomq.wire.endpoint import Endpoint
from tests.console.conftest import PAYLOAD, World, beat, die, ended, url
from tests.ports import free_port

pytestmark = pytest.mark.django_db


def text(browser: Browser, path: str, status: int = 200) -> str:
    answer = browser.get(path)
    assert answer.status_code == status, answer.content.decode()[:2_000]
    body = re.sub(r"<(script|style).*?</\1>", "", answer.content.decode(), flags=re.DOTALL)
    return html.unescape(body)


def plain(page: str) -> str:
    """A page's words without its tags."""
    return " ".join(re.sub(r"<[^>]+>", " ", page).split())


def listed(browser: Browser, name: str, query: str = "") -> list[str]:
    """The ids on a page of jobs."""
    page = text(browser, url("jobs", name=name) + query)
    return re.findall(r'name="_selected_action" value="(JOB\w{11})"', page)


# Queues


def test_the_list_of_queues(world: World, root: Browser) -> None:
    page = plain(text(root, url("changelist")))
    assert re.search(
        r"default running 2 1 1 1 .* 1 1 mail running 0 0 0 0",
        page.replace("fast running 0 0 0 0", ""),
    ), page
    assert "Pending 2 Active 1 Scheduled 1 Dead 1" in page


def test_filters_of_the_list(world: World, root: Browser) -> None:
    def names(query: str) -> list[str]:
        page = text(root, url("changelist") + query)
        return re.findall(r'name="_selected_action" value="(\w+)"', page)

    world.queue.admin.pause()
    get_queue("mail").admin.limit_concurrency(1)
    get_queue("mail").jobs.enqueue_many([b"x"] * 2)
    get_queue("mail").jobs.claim()
    assert names("") == ["default", "mail", "fast"]
    assert names("?q=MAI") == ["mail"]
    assert names("?state=paused") == ["default"]
    assert names("?state=limited") == ["mail"]
    assert names("?state=running") == ["fast"]
    assert names("?state=dead") == ["default"]
    assert names("?state=away") == []


def test_status(world: World, root: Browser) -> None:
    world.queue.admin.limit_rate("10/m")
    status = root.get(url("status"))
    assert status.status_code == 200
    queues = {row["queue"]: row for row in status.json()["queues"]}
    assert set(queues) == {"default", "mail", "fast"}
    row = queues["default"]
    assert row.pop("oldest_wait_seconds") >= 0
    assert row == {
        "queue": "default",
        "state": "running",
        "error": "",
        "pending": 2,
        "active": 1,
        "scheduled": 1,
        "dead": 1,
        "completed": 1,
        "failed": 1,
        "concurrency": None,
        "rate": "10/m",
        "workers": 1,
        "completed_last_hour": 1,
        "failed_last_hour": 1,
    }


@pytest.mark.parametrize("span", ["hour", "day", "month", "nonsense"])
def test_one_queue(span: str, world: World, root: Browser) -> None:
    world.queue.admin.limit_concurrency(7)
    page = plain(text(root, url("queue", name=world.name) + f"?span={span}"))
    assert "Pending 2 Active 1 Scheduled 1 Dead 1" in page
    assert "completed: 1 failed: 1 cancelled: 0" in page
    assert "Running at once 7" in page
    assert "1 completed, 1 failed" in page


def test_acts_on_several_queues(world: World, root: Browser) -> None:
    form = {"action": "pause", "_selected_action": ["default", "mail"]}
    page = root.post(url("act_on_selected"), form, follow=True).content.decode()
    assert "Pause: 2 queues" in page
    assert world.queue.admin.is_paused()
    assert get_queue("mail").admin.is_paused()
    assert [entry.object_id for entry in LogEntry.objects.order_by("pk")] == ["default", "mail"]
    for form, said in (
        ({"action": "pause"}, "Select at least one queue."),
        ({"action": "explode", "_selected_action": ["mail"]}, "Choose an action."),
    ):
        answer = root.post(url("act_on_selected"), form, follow=True)
        assert said in answer.content.decode()
    unknown = {"action": "pause", "_selected_action": ["mail", "nothing"]}
    assert root.post(url("act_on_selected"), unknown).status_code == 404


def test_there_is_no_such_queue(root: Browser, site: Callable[[str], Queue]) -> None:
    for page in ("queue", "jobs", "failures", "lanes"):
        assert root.get(url(page, name="nothing")).status_code == 404
    assert root.post(url("act", name="nothing"), {"action": "pause"}).status_code == 404


# Jobs


def test_lists_of_jobs(world: World, root: Browser) -> None:
    assert listed(root, "default") == [world.pending]
    assert listed(root, "default", "?lane=acme") == [world.in_lane]
    for state in ("active", "scheduled", "dead", "completed"):
        assert listed(root, "default", f"?state={state}") == [getattr(world, state)]
    page = plain(text(root, url("jobs", name="default")))
    assert "tasks.echo (1, 'two', three=3)" in page


def test_what_is_no_filter_is_not_taken_for_all(world: World, root: Browser) -> None:
    for query in ("state=all", "age=1y", "lane=no lane", "q=" + "x" * 201):
        assert root.get(f"{url('jobs', name='default')}?{query}").status_code == 404
        form = {**dict([query.split("=")]), "action": "remove", "select_across": "1"}
        answer = root.post(url("act_on_jobs", name="default"), {**form, "confirmed": "yes"})
        assert answer.status_code == 302
        assert "operation" not in answer.url
    assert world.queue.metrics.counts("pending") == {"pending": 2}


def test_a_search_by_task_and_by_error(world: World, root: Browser) -> None:
    other = world.queue.jobs.enqueue(b'{"task":"shop.tasks.Refund"}').job_id
    assert listed(root, "default", "?q=refund") == [other]
    assert listed(root, "default", "?q=echo") == [world.pending]
    assert listed(root, "default", "?q=nothing") == []
    assert listed(root, "default", "?state=dead&q=valueERR") == [world.dead]
    assert root.get(url("jobs", name="default") + f"?q={other}").url == url(
        "job", name="default", job_id=other
    )


def test_a_search_says_how_far_it_looked(
    world: World, root: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LOOK", 20)
    monkeypatch.setattr(search, "STEP", 10)
    first = world.queue.jobs.enqueue(b'{"task":"rare"}').job_id
    world.queue.jobs.enqueue_many([PAYLOAD] * 30)
    path = url("jobs", name="default")
    page = text(root, f"{path}?q=rare")
    assert "Looked at 20 jobs." in page
    assert first not in page
    (further,) = re.findall(r'href="\?([^"]*)">Look further', page)
    page = text(root, f"{path}?{further}")
    assert "Looked at 12 jobs." in page
    assert first in page
    assert "Look further" not in page


def test_pages_of_a_search_lose_no_job(
    world: World, root: Browser, settings: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.ECHOMQ = {**settings.ECHOMQ, "CONSOLE": {"PAGE_SIZE": 10}}
    monkeypatch.setattr(search, "STEP", 7)
    payloads = [PAYLOAD if n % 3 else b'{"task":"rare"}' for n in range(60)]
    admitted = world.queue.jobs.enqueue_many(payloads)
    ids = [each.job_id for n, each in enumerate(admitted) if n % 3 == 0]
    for filters, expected in (("?q=rare", ids), ("", None)):
        met, query = [], filters
        while True:
            page = text(root, url("jobs", name="default") + query)
            met += re.findall(r'name="_selected_action" value="(JOB\w{11})"', page)
            further = re.findall(r'href="(\?[^"]*)">(?:Look further|Next page)', page)
            if not further:
                break
            (query,) = further
        assert len(met) == len(set(met))
        if expected:
            assert met == expected[::-1]
        else:
            assert len(met) == 61


def test_by_age_and_by_order(world: World, root: Browser, raw: redis.Redis) -> None:
    from django_echomq.wire.ids import min_for

    two_hours = datetime.now(UTC) - timedelta(hours=2)
    old = min_for(round(two_hours.timestamp() * 1000))
    world.queue.jobs.enqueue(PAYLOAD, job_id=old)
    assert listed(root, "default", "?age=1h") == [old]
    assert listed(root, "default", "?age=5m&q=echo") == [old]
    assert listed(root, "default", "?age=1d") == []
    assert listed(root, "default", "?order=oldest") == [old, world.pending]
    assert listed(root, "default") == [world.pending, old]


def test_failures_by_task_and_error(world: World, root: Browser) -> None:
    for error in ("KeyError: 'a'", "KeyError: 'b'", "it broke"):
        newest = die(world.queue, error)
    page = plain(text(root, url("failures", name="default")))
    assert "The newest 4 dead jobs" in page
    rows = re.findall(r"(\d+) tests.testapp.tasks.echo (\w+(?: \w+)?) JOB", page)
    assert sorted(rows) == [("1", "ValueError"), ("1", "it broke"), ("2", "KeyError")]
    assert rows[0] == ("2", "KeyError")
    assert newest in page


def test_one_job(world: World, root: Browser) -> None:
    world.queue.jobs.add_log(world.dead, "a line of the log")
    page = plain(text(root, url("job", name="default", job_id=world.dead)))
    for words in ("dead", "ValueError: no", "Attempt 1", "Traceback", "a line of the log"):
        assert words in page
    assert '"three": 3' in page
    done = plain(text(root, url("job", name="default", job_id=world.completed)))
    assert '"answer": 42' in done
    assert "in hand of" in plain(text(root, url("job", name="default", job_id=world.active)))
    assert "is not a branded id" in text(root, url("job", name="default", job_id="x"), 404)
    gone = text(root, url("job", name="default", job_id="JOB00000000000"), 404)
    assert "there is no job" in gone


def edited(browser: Browser, job_id: str) -> dict[str, str]:
    """The form of a job's arguments, as a browser would send it."""
    page = browser.get(url("job", name="default", job_id=job_id)).content.decode()
    found = re.findall(r'<textarea[^>]* name="(\w+)"[^>]*>(.*?)</textarea>', page, re.DOTALL)
    return {name: html.unescape(value).replace("\n", "\r\n") for name, value in found}


def test_an_edit_keeps_secrets_and_all_else(world: World, root: Browser) -> None:
    payload = {
        "task": "tests.testapp.tasks.signs_in",
        "args": ["ann", "hunter2", "\u202e\x00é\ud800"],
        "kwargs": {"api_key": {"deep": 1}, "n": 1},
        "options": {"timeout": 3},
        "from": "a peer",
    }
    job_id = world.queue.jobs.enqueue(json.dumps(payload)).job_id
    path = url("edit_job", name="default", job_id=job_id)
    form = edited(root, job_id)
    assert "hunter2" not in form["args"]
    assert root.post(path, form).status_code == 302
    assert json.loads(world.queue.jobs.get(job_id).payload) == payload
    form["kwargs"] = form["kwargs"].replace('"n": 1', '"n": 2')
    root.post(path, form)
    payload["kwargs"]["n"] = 2  # type: ignore[index]
    assert json.loads(world.queue.jobs.get(job_id).payload) == payload


@pytest.mark.parametrize(
    ("form", "said"),
    [
        ({"args": "[", "kwargs": "{}"}, "This is not JSON"),
        ({"args": "[]"}, "This is not JSON"),
        ({"args": "{}", "kwargs": "{}"}, "positional arguments are a list"),
        ({"args": "[]", "kwargs": "[]"}, "positional arguments are a list"),
        ({"args": "[NaN]", "kwargs": "{}"}, "JSON has no nan"),
        ({"args": "[" * 50_000, "kwargs": "{}"}, "This is not JSON"),
        ({"args": '["********"]', "kwargs": "{}"}, "masked"),
        ({"args": '["' + "x" * 1_100_000 + '"]', "kwargs": "{}"}, "takes 1048576"),
    ],
    ids=range(8),
)
def test_edits_that_are_refused(
    form: dict[str, str], said: str, world: World, root: Browser
) -> None:
    path = url("edit_job", name="default", job_id=world.pending)
    answer = root.post(path, form, follow=True)
    assert said in html.unescape(answer.content.decode())
    assert world.queue.jobs.get(world.pending).payload == PAYLOAD
    assert not LogEntry.objects.exists()


def test_what_is_in_hand_or_gone_is_not_edited(world: World, root: Browser) -> None:
    for job_id, said in ((world.active, "holds"), ("JOB00000000000", "there is no job")):
        path = url("edit_job", name="default", job_id=job_id)
        answer = root.post(path, {"args": "[]", "kwargs": "{}"}, follow=True)
        assert said in answer.content.decode().lower()
    assert edited(root, world.active) == {}
    assert edited(root, world.completed) == {}


@pytest.mark.parametrize(
    ("zone", "utc"), [("Europe/Berlin", "10:30"), ("UTC", "12:30"), ("Asia/Kolkata", "07:00")]
)
def test_a_time_is_meant_in_the_sites_zone(
    zone: str, utc: str, world: World, root: Browser, settings: Any
) -> None:
    settings.TIME_ZONE = zone
    path = url("act_on_job", name="default", job_id=world.pending)
    root.post(path, {"action": "reschedule", "when": "2031-07-01T12:30"})
    due = [each for each in world.queue.jobs.page("scheduled").jobs if each.job.id == world.pending]
    assert due[0].due_at == datetime.fromisoformat(f"2031-07-01T{utc}Z")
    for when in ("", "soon", "2031-13-01T00:00", "1960-01-01T00:00", "0001-01-01T00:00"):
        answer = root.post(path, {"action": "reschedule", "when": when}, follow=True)
        assert "reschedule: done" not in answer.content.decode()


def test_selected_jobs_that_refuse_are_told(world: World, root: Browser) -> None:
    form = {"action": "retry", "_selected_action": [world.dead, world.pending], "state": "dead"}
    page = root.post(url("act_on_jobs", name="default"), form, follow=True).content.decode()
    assert "Retry: 1 job" in page
    assert "1 job was refused" in page
    empty = root.post(url("act_on_jobs", name="default"), {"action": "retry"}, follow=True)
    assert "Select at least one job." in empty.content.decode()


# All that match


def walk(queue: Queue, meant: search.Filter, act: Callable[[list[str]], int]) -> list[str]:
    met: list[str] = []

    def run(queue: Queue, ids: list[str]) -> int:
        met.extend(ids)
        return act(ids)

    done = search.act_on_all(meant, run)(queue, lambda done, total: None)
    assert done >= 0
    return met


@pytest.fixture
def steps(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(search, "STEP", 5)


@pytest.mark.usefixtures("steps")
def test_all_pending_are_met_once_while_jobs_come_and_go(queue: Queue) -> None:
    """New ones come in front and behind; those before the walk leave; some stay, some go."""
    ids = [queue.jobs.enqueue(PAYLOAD if n % 4 else b"x", priority=n % 3).job_id for n in range(60)]
    wanted = {job_id for n, job_id in enumerate(ids) if n % 4}
    taken: set[str] = set()

    def act(some: list[str]) -> int:
        queue.jobs.enqueue(PAYLOAD, priority=9)
        queue.jobs.enqueue(PAYLOAD, priority=-9)
        taken.update(claim.job_id for claim in queue.jobs.claim(2))
        queue.jobs.remove_many(some[::2])
        return len(some)

    met = walk(queue, search.Filter("pending", text="echo"), act)
    assert len(met) == len(set(met))
    assert wanted - taken <= set(met) <= wanted


@pytest.fixture(params=["by id", "by instant", "clock ahead", "clock behind"])
def told(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> float:
    """How jobs that come back are told from others; seconds that an act takes."""
    if request.param == "by instant":
        monkeypatch.setattr(search, "_SKEW", 0.02)
        return 0.02
    now = search._now
    off = {"by id": 0.0, "clock ahead": 0.8, "clock behind": -0.8}[request.param]
    monkeypatch.setattr(search, "_now", lambda queue: now(queue) + timedelta(seconds=off))
    return 0.0


@pytest.mark.usefixtures("steps")
def test_all_scheduled_are_met_once_though_they_come_back(queue: Queue, told: float) -> None:
    ids = {queue.jobs.enqueue_in(PAYLOAD, 3_600 + n).job_id for n in range(23)}

    def act(some: list[str]) -> int:
        queue.jobs.promote_many(some)
        for claim in queue.jobs.claim(500):
            queue.jobs.retry(claim, 7_200, 9)
        time.sleep(told)
        return len(some)

    met = walk(queue, search.Filter("scheduled"), act)
    assert sorted(met) == sorted(ids)


@pytest.mark.usefixtures("steps")
def test_all_dead_are_met_once_though_they_die_again(queue: Queue, told: float) -> None:
    ids = {die(queue) for _ in range(23)}

    def act(some: list[str]) -> int:
        queue.jobs.reprocess_many(some)
        for claim in queue.jobs.claim(500):
            queue.jobs.retry(claim, 0, 1)
        time.sleep(told)
        return len(some)

    met = walk(queue, search.Filter("dead"), act)
    assert sorted(met) == sorted(ids)


@pytest.mark.usefixtures("steps")
def test_all_in_hand_are_met_once_though_their_leases_move(queue: Queue) -> None:
    queue.jobs.enqueue_many([PAYLOAD] * 23)
    claims = queue.jobs.claim(23, lease=60)
    left = list(claims)

    def act(some: list[str]) -> int:
        if left:
            queue.jobs.extend_lock(left.pop(), 600)
        return len(some)

    met = walk(queue, search.Filter("active"), act)
    assert sorted(met) == sorted(claim.job_id for claim in claims)


def test_an_act_on_all_that_match(world: World, root: Browser) -> None:
    world.queue.jobs.enqueue_many([b'{"task":"rare"}'] * 40)
    form = {"action": "remove", "state": "pending", "q": "RARE", "select_across": "1"}
    page = root.post(url("act_on_jobs", name="default"), form)
    assert "40 pending jobs that match, out of 41." in plain(page.content.decode())
    answer = root.post(url("act_on_jobs", name="default"), {**form, "confirmed": "yes"})
    operation = ended(world.queue, answer.url)
    assert (operation.state, operation.done, operation.total) == ("done", 40, 40)
    assert listed(root, "default") == [world.pending]
    assert "40 of 40 jobs, started by" in plain(text(root, answer.url))
    entry = LogEntry.objects.get()
    assert "remove of 41 jobs" in entry.change_message


def test_an_operation_that_fails_says_why(world: World, root: Browser) -> None:
    world.queue.admin.pause()
    form = {"action": "obliterate", "confirmed": "yes", "typed": "default"}
    answer = root.post(url("act", name="default"), form)
    operation = ended(world.queue, answer.url)
    assert operation.state == "failed"
    page = plain(text(root, answer.url))
    assert "ActiveJobs" in page
    assert "failed" in page


def test_an_operation_whose_process_is_gone(
    world: World, root: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    go, running = threading.Event(), threading.Event()

    def run(queue: Queue, progress: Callable[[int, int], object]) -> int:
        progress(3, 10)
        running.set()
        go.wait(30)
        return 10

    operation = operations.start("default", "drain", "ann", run)
    path = url("operation", name="default", operation_id=operation.id)
    try:
        assert running.wait(30)
        page = plain(text(root, path))
        assert "running 3 of 10 jobs, started by ann." in page
        monkeypatch.setattr(operations, "_SILENT", -1.0)
        page = plain(text(root, path))
        assert "interrupted" in page
        assert "The queue is in order; run it again to finish." in page
    finally:
        go.set()
    monkeypatch.undo()
    assert ended(world.queue, path).state == "done"
    nothing = plain(text(root, url("operation", name="default", operation_id="0" * 16)))
    assert "It has ended, and is no longer known." in nothing


# Lanes, schedules, workers, activity


def test_lanes(world: World, root: Browser) -> None:
    world.queue.lanes.pause("acme")
    world.queue.lanes.limit("beta", 3)
    page = text(root, url("lanes", name="default"))
    assert "acme paused 1 0" in plain(page)
    assert "beta empty 0 0" in plain(page)
    assert re.search(r'value="3" aria-label="Limit of lane beta', page)
    assert "beta" not in plain(text(root, url("lanes", name="default") + "?q=ACM"))
    for number in ("x", "0", "-1", "1.5", "9" * 30):
        form = {"action": "limit", "lane": "beta", "number": number}
        root.post(url("act_on_lane", name="default"), form)
    assert {lane.name: lane.limit for lane in world.queue.lanes.all()}["beta"] == 3
    root.post(url("act_on_lane", name="default"), {"action": "limit", "lane": "beta"})
    assert "beta" not in {lane.name for lane in world.queue.lanes.all()}


def test_more_lanes_than_a_page_holds(world: World, root: Browser) -> None:
    for n in range(130):
        world.queue.lanes.weight(f"lane{n:03}", 2)
    page = plain(text(root, url("lanes", name="default")))
    assert "31 more; search for their names." in page
    assert "lane129" in plain(text(root, url("lanes", name="default") + "?q=lane129"))


def row(cron: str, zone: str, next_run: str) -> schedules.ScheduleRow:
    definition = Definition(name="s", payload=b'{"task":"a.b"}', cron=cron, tz=zone)
    at = datetime.fromisoformat(next_run)
    return schedules._row(None, Schedule(definition, at, None, 0, None, None))  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("cron", "runs"),
    [
        # 02:30 does not exist on the 29th.
        (
            "30 2 * * *",
            ["28 01:30", "29 01:00", "30 00:30", "31 00:30"],
        ),
        ("0 12 * * *", ["28 11:00", "29 10:00", "30 10:00", "31 10:00"]),
    ],
)
def test_next_runs_over_a_change_of_clocks(cron: str, runs: list[str]) -> None:
    made = row(cron, "Europe/Berlin", f"2026-03-{runs[0].replace(' ', 'T')}Z")
    assert len(made.runs) == 5
    assert [f"{run:%d %H:%M}" for run in made.runs[:4]] == runs
    assert made.task == "a.b"


def test_next_runs_end_with_the_schedule_and_with_time() -> None:
    assert len(row("0 0 1 1 *", "UTC", "9997-01-01T00:00Z").runs) == 3
    every = Definition(name="s", payload=b"", every_ms=2 * 10**14)
    made = schedules._row(None, Schedule(every, datetime.now(UTC), None, 0, None, None))  # type: ignore[arg-type]
    assert len(made.runs) == 2


def test_schedules(world: World, root: Browser, settings: Any) -> None:
    world.queue.repeat.register("often", payload=PAYLOAD, every=300)
    world.queue.repeat.register("seldom", payload=PAYLOAD, every=172_800)
    world.queue.repeat.register("oddly", payload=PAYLOAD, every=1.5)
    page = text(root, url("schedules"))
    words = plain(page)
    for expected in ("At 02:30 every day", "every 5 minutes", "every 2 days", "every 1.5 seconds"):
        assert expected in words
    assert "02:30 CE" in words
    assert page.count("<li><time") == 4 * 5
    world.queue.repeat.pause("often", "for a while")
    assert "for a while" in plain(text(root, url("schedules") + "?queue=default"))
    assert "No schedules." in plain(text(root, url("schedules") + "?queue=mail"))
    assert root.get(url("schedules") + "?queue=nothing").status_code == 404
    form = {"action": "run", "schedule": "nothing"}
    answer = root.post(url("act_on_schedule", name="default"), form, follow=True)
    assert "There is no schedule nothing." in answer.content.decode()


def test_workers(world: World, root: Browser) -> None:
    beat(get_queue("mail"), "w1", in_hand=2)
    page = plain(text(root, url("workers")))
    assert "w1 h 7 running default , mail 4 3" in page
    root.post(url("act_on_worker"), {"action": "quiet", "worker": "w1"})
    assert {info.told for info in world.queue.workers.all()} == {"quiet"}
    assert "told: quiet" in plain(text(root, url("workers")))
    for form, said in (
        ({"action": "stop", "worker": "w9"}, "There is no worker w9 any more."),
        ({"action": "explode", "worker": "w1"}, "Choose an action."),
    ):
        answer = root.post(url("act_on_worker"), form, follow=True)
        assert said in answer.content.decode()


def test_activity(world: World, root: Browser, settings: Any) -> None:
    settings.ECHOMQ = {**settings.ECHOMQ, "CONSOLE": {"PAGE_SIZE": 10}}
    for word in ("pause", "resume") * 6:
        root.post(url("act", name="default"), {"action": word})
    root.post(url("act", name="mail"), {"action": "pause"})
    page = plain(text(root, url("activity")))
    assert re.search(r"-True mail pause .*-True default resume", page)
    assert page.count("default resume") + page.count("default pause") == 9
    assert "default" not in plain(text(root, url("activity") + "?queue=mail")).rpartition("What")[2]
    assert "default pause" in plain(text(root, url("activity") + "?page=2"))


# The server is away


def settle_on(settings: Any, **connections: str) -> None:
    """Points the queues at other servers."""
    settings.ECHOMQ = {
        "CONNECTIONS": {alias: {"URL": target} for alias, target in connections.items()},
        "QUEUES": {f"q-{alias}": {"CONNECTION": alias} for alias in connections},
    }


@pytest.fixture
def elsewhere(settings: Any) -> Iterator[None]:
    forget_queues()
    yield
    forget_queues()


@contextmanager
def silent() -> Iterator[tuple[int, list[int]]]:
    """A server that takes connections and never says a word; counts them."""
    taken: list[int] = []
    with closing(socket.create_server(("127.0.0.1", 0))) as server, ExitStack() as stack:

        def accept() -> None:
            while True:
                try:
                    connection, _ = server.accept()
                except OSError:
                    return
                stack.callback(connection.close)
                taken.append(1)

        thread = threading.Thread(target=accept, daemon=True)
        thread.start()
        yield server.getsockname()[1], taken
        server.shutdown(socket.SHUT_RDWR)
        thread.join(10)


PAGES = ("queue", "jobs", "failures", "lanes")


def test_nobody_listens(root: Browser, settings: Any, elsewhere: None) -> None:
    settle_on(settings, away=f"redis://127.0.0.1:{free_port()}/0")
    page = plain(text(root, url("changelist")))
    assert "q-away away no answer from the server" in page
    for name in PAGES:
        assert "The server does not answer." in text(root, url(name, name="q-away"), 503)
    for name in ("schedules", "workers"):
        assert "The server of queue q-away is away." in text(root, url(name))
    assert root.get(url("status")).status_code == 503
    assert root.get(url("status")).json()["queues"][0]["state"] == "away"
    for name in ("admin:index", "admin:auth_user_changelist", "admin:auth_group_add"):
        assert root.get(reverse(name)).status_code == 200
    assert root.get(url("activity")).status_code == 200
    for word in ("pause", "drain"):
        answer = root.post(url("act", name="q-away"), {"action": word})
        assert answer.status_code == 302
    assert not LogEntry.objects.exists()


@pytest.mark.parametrize("trouble", ["away", "refused"])
def test_no_page_shows_the_password(
    root: Browser,
    settings: Any,
    elsewhere: None,
    endpoint: Endpoint,
    trouble: str,
    caplog: pytest.LogCaptureFixture,
) -> None:
    target = f"redis://nobody:sesame@127.0.0.1:{free_port()}/0"
    if trouble == "refused":
        if "path" not in endpoint.options:
            pytest.skip("the run's server is reached by TCP")
        target = f"unix://nobody:sesame@{endpoint.options['path']}"
    settle_on(settings, away=target)
    for name in ("changelist", "status", "schedules", "workers"):
        answer = root.get(url(name))
        assert answer.status_code in {200, 503}
        assert "sesame" not in answer.content.decode()
    for name in PAGES:
        assert "sesame" not in text(root, url(name, name="q-away"), 503)
    assert "sesame" not in caplog.text


def test_a_server_that_hangs_is_waited_for_once(
    root: Browser, settings: Any, elsewhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A page opens within two seconds: its tries times what each may take."""
    connect, answer, again = readings._TIMEOUT, readings._TIMEOUT, readings._RETRY_FOR
    # A tenth of each: the tries are as many.
    monkeypatch.setattr(readings, "_TIMEOUT", readings._TIMEOUT / 10)
    monkeypatch.setattr(readings, "_RETRY_FOR", readings._RETRY_FOR / 10)
    with silent() as (first, taken), silent() as (second, also):
        settle_on(
            settings,
            one=f"redis://127.0.0.1:{first}/0",
            two=f"redis://127.0.0.1:{second}/0",
        )
        options = servers.queue_named("q-one").client.endpoint.options
        assert options["socket_timeout"] == options["socket_connect_timeout"] == connect / 10
        paths = (
            *(url(name, name="q-one") for name in PAGES),
            *(url(name) for name in ("changelist", "schedules", "workers", "status")),
        )
        for path in paths:
            assert root.get(path).status_code in (200, 503)
        # Connecting to it takes no time, or it is refused after its timeout: never both.
        assert len(taken) / len(paths) * max(connect, answer) + again <= 2.0
        assert len(also) <= len(paths)


def test_servers_are_asked_at_the_same_time(
    settings: Any, elsewhere: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    settle_on(settings, one="redis://127.0.0.1:1/0", two="redis://127.0.0.1:2/0")
    together = threading.Barrier(2, timeout=30)

    def meet(client: Client, steps: Any) -> Any:
        steps.close()
        together.wait()
        raise ConnectionError("away")

    monkeypatch.setattr(Client, "drive", meet)
    named = servers.queues()
    answers = servers.ask([(queue, queue.metrics.overview_look()) for queue in named])
    assert [str(answer) for answer in answers] == ["away", "away"]


def test_one_server_of_two_is_away(
    root: Browser, settings: Any, elsewhere: None, raw: redis.Redis
) -> None:
    settings.ECHOMQ = {
        "CONNECTIONS": {
            **settings.ECHOMQ["CONNECTIONS"],
            "away": {"URL": f"redis://127.0.0.1:{free_port()}/0"},
        },
        "QUEUES": {"mail": {}, "far": {"CONNECTION": "away"}},
    }
    page = plain(text(root, url("changelist")))
    assert "mail running 0" in page
    assert "far away no answer" in page
    assert root.get(url("queue", name="mail")).status_code == 200


def test_a_queue_of_many_lanes_is_counted_whole(world: World, root: Browser) -> None:
    for n in range(70):
        world.queue.jobs.enqueue(b"x", lane=f"lane{n}")
    (found,) = [
        row for row in root.get(url("status")).json()["queues"] if row["queue"] == "default"
    ]
    assert found["pending"] == world.queue.metrics.counts()["pending"] > 70


# What a page costs

#: Of each page: round trips to Valkey, and queries to the database. (The session, the user; and of
#: the log, how many entries there are and a page of them.)
COSTS = {
    "changelist": (1, 2),
    "status": (1, 2),
    "schedules": (1, 2),
    "workers": (1, 2),
    "activity": (0, 4),
    "queue": (1, 2),
    "jobs": (4, 2),
    "failures": (2, 2),
    "lanes": (2, 2),
    "job": (3, 2),
    "operation": (2, 2),
}


@pytest.fixture
def trips(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Counts the round trips to Valkey."""
    counted: list[int] = []
    plain_trip = Client.roundtrip

    def roundtrip(client: Client, commands: list[Any], *more: Any) -> list[Any]:
        counted.append(len(commands))
        return plain_trip(client, commands, *more)

    monkeypatch.setattr(Client, "roundtrip", roundtrip)
    return counted


@pytest.mark.parametrize("name", COSTS)
def test_what_a_page_asks_for_does_not_grow(
    name: str,
    world: World,
    root: Browser,
    trips: list[int],
    settings: Any,
    django_assert_num_queries: Any,
) -> None:
    of_queue = {"name": "default"} if name in ("queue", "jobs", "failures", "lanes") else {}
    path = {
        "job": lambda: url("job", name="default", job_id=world.pending),
        "operation": lambda: url("operation", name="default", operation_id="0" * 16),
    }.get(name, lambda: url(name, **of_queue))()
    root.post(url("act", name="default"), {"action": "pause"})
    root.post(url("act", name="default"), {"action": "resume"})
    root.get(path)

    def look() -> None:
        trips.clear()
        with django_assert_num_queries(COSTS[name][1]):
            assert root.get(path).status_code == 200
        assert len(trips) == COSTS[name][0]

    look()
    queue = world.queue
    queue.jobs.enqueue_many([PAYLOAD] * 120)
    for n in range(60):
        queue.jobs.enqueue(PAYLOAD, lane=f"lane{n}")
        queue.repeat.register(f"s{n}", payload=PAYLOAD, every=60)
        beat(queue, f"w{n}")
    for _ in range(60):
        die(queue)
    for word in ("pause", "resume"):
        root.post(url("act", name="default"), {"action": word})
    more: dict[str, Any] = {f"more{n}": {} for n in range(20)}
    settings.ECHOMQ = {**settings.ECHOMQ, "QUEUES": {**settings.ECHOMQ["QUEUES"], **more}}
    forget_queues()
    root.get(path)
    look()


def test_a_search_asks_a_bounded_number_of_times(
    world: World, root: Browser, trips: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(search, "LOOK", 20)
    monkeypatch.setattr(search, "STEP", 10)
    world.queue.jobs.enqueue_many([PAYLOAD] * 300)
    root.get(url("jobs", name="default"))
    trips.clear()
    root.get(url("jobs", name="default") + "?q=nothing")
    assert len(trips) == 2 + 3


# In the reader's own words


def test_times_and_numbers_are_the_readers(world: World, root: Browser, settings: Any) -> None:
    world.queue.jobs.enqueue_many([b"x"] * 1_234)
    settings.TIME_ZONE = "Asia/Kolkata"
    root.post(
        url("act_on_job", name="default", job_id=world.pending),
        {"action": "reschedule", "when": "2031-07-01T12:30"},
    )
    page = text(root, url("jobs", name="default") + "?state=scheduled")
    assert "July 1, 2031, 12:30 p.m." in page
    assert 'datetime="2031-07-01T07:00:00.000+00:00"' in page
    assert "1,235" in plain(text(root, url("queue", name="default")))
    german = root.get(url("queue", name="default"), headers={"accept-language": "de"})
    settings.LANGUAGE_CODE = "de"
    german = root.get(url("queue", name="default"))
    assert "1.235" in german.content.decode()
