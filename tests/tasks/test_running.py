"""What becomes of a job: the worker command runs it, Django's result tells of it."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.management import call_command

from django_echomq.logs import JobFields
from django_echomq.queue import Queue
from django_echomq.tasks.compat import TaskResultStatus, task_finished, task_started
from tests.testapp import tasks

Site = Callable[[str], Queue]
pytestmark = pytest.mark.django_db(transaction=True)


def work(*queues: str) -> None:
    call_command("echomq_worker", *queues, burst=True, threads=4, verbosity=0)


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.getLogger("django_echomq").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("django_echomq").setLevel(logging.NOTSET)


def test_a_result_succeeds_with_its_value(site: Site) -> None:
    result = tasks.echo.enqueue(1, k="v")
    work()
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL
    assert result.is_finished
    assert result.return_value == [[1], {"k": "v"}]
    assert result.attempts == 1
    assert result.enqueued_at is not None
    assert result.enqueued_at <= result.started_at <= result.finished_at
    assert site("default").jobs.state(result.id) == "completed"


def test_a_coroutine_task_runs_on_an_event_loop(site: Site) -> None:
    results = [tasks.double.enqueue(n) for n in range(10)]
    work()
    assert [tasks.double.get_result(r.id).return_value for r in results] == [
        n * 2 for n in range(10)
    ]


@pytest.mark.parametrize("isolated", [False, True])
def test_records_about_a_job_say_which_and_never_its_arguments(
    site: Site, caplog: pytest.LogCaptureFixture, isolated: bool
) -> None:
    good = tasks.echo.using(queue_name="fast").enqueue("secret-1", password="secret-2")
    bad = tasks.flaky.using(max_attempts=2).enqueue(1)
    with caplog.at_level(logging.INFO, "django_echomq"):
        call_command("echomq_worker", "fast", burst=True, isolate=isolated, verbosity=0)
    told = [
        (r.job_id, r.task, r.queue, r.attempt, r.levelname)
        for r in caplog.records
        if hasattr(r, "job_id")
    ]
    flaky = "tests.testapp.tasks.flaky"
    assert sorted(told, key=lambda t: (t[1], t[3])) == [
        (good.id, "tests.testapp.tasks.echo", "fast", 1, "INFO"),
        (bad.id, flaky, "fast", 1, "WARNING"),
        (bad.id, flaky, "fast", 2, "INFO"),
    ]
    assert all(r.duration >= 0 for r in caplog.records if hasattr(r, "job_id"))
    assert "secret" not in caplog.text


def test_records_of_a_task_get_the_fields_of_its_job(
    site: Site, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.handler.addFilter(fields := JobFields())
    try:
        job = tasks.logs.enqueue("from the task")
        work("fast")
        logging.getLogger("elsewhere").warning("outside")
    finally:
        caplog.handler.removeFilter(fields)
    inside, outside = (r for r in caplog.records if r.name in ("tests.task", "elsewhere"))
    assert (inside.job_id, inside.task, inside.queue, inside.attempt) == (
        job.id,
        "tests.testapp.tasks.logs",
        "fast",
        1,
    )
    assert (outside.job_id, outside.duration) == (None, None)


def test_coroutine_tasks_run_beside_each_other_and_hold_no_thread(
    site: Site, tmp_path: Path
) -> None:
    path = str(tmp_path / "effects")
    results = [tasks.meets.enqueue(path, str(n), 40) for n in range(40)]
    call_command("echomq_worker", "default", burst=True, threads=2, verbosity=0)
    for result in results:
        result.refresh()
    assert [result.return_value for result in results] == [40] * 40


def test_coroutines_beyond_their_number_hold_threads(site: Site, tmp_path: Path) -> None:
    path = str(tmp_path / "effects")
    for n in range(5):
        tasks.meets.enqueue(path, str(n), 5)
    call_command("echomq_worker", "default", burst=True, threads=2, coroutines=3, verbosity=0)
    assert site("default").metrics.counts("completed") == {"completed": 5}


def test_a_failure_is_tried_again_on_the_curve(site: Site) -> None:
    result = tasks.flaky.enqueue(2)
    work("fast")
    result.refresh()
    assert result.return_value == 3
    assert result.attempts == 3
    assert [error.exception_class for error in result.errors] == [ValueError, ValueError]
    assert "attempt 1" in result.errors[0].traceback


def test_a_job_out_of_attempts_is_dead_with_its_last_error(site: Site) -> None:
    result = tasks.always_fails.enqueue("the reason\nand more")
    work("fast")
    job = site("fast").jobs.get(result.id)
    assert (job.state, job.attempt) == ("dead", 3)
    assert job.last_error == "RuntimeError: the reason"
    assert len(job.history) == 3
    result.refresh()
    assert result.status == TaskResultStatus.FAILED
    assert result.errors[-1].exception_class is RuntimeError
    with pytest.raises(ValueError, match="failed"):
        result.return_value  # noqa: B018


def test_attempts_of_a_call_win_over_the_queue(site: Site) -> None:
    result = tasks.always_fails.using(max_attempts=1).enqueue()
    work("fast")
    assert site("fast").jobs.get(result.id).attempt == 1


@pytest.mark.parametrize(
    ("task", "words"),
    [
        (tasks.raises_system_exit, "SystemExit: 3"),
        (tasks.async_system_exit, "SystemExit: 4"),
        (tasks.raises_unprintable, "Unprintable"),
        (tasks.returns_an_object, "JSON cannot carry object"),
    ],
    ids=["system exit", "async system exit", "unprintable", "no JSON result"],
)
def test_no_exception_of_a_task_harms_the_worker(site: Site, task: Any, words: str) -> None:
    bad = task.using(max_attempts=1).enqueue()
    good = tasks.flaky.enqueue(0)
    work("fast")
    assert words in str(site("fast").jobs.get(bad.id).last_error)
    assert site("fast").jobs.state(bad.id) == "dead"
    assert site("fast").jobs.state(good.id) == "completed"


def test_retry_chooses_its_own_delay(site: Site, tmp_path: Path) -> None:
    result = tasks.asks_for_retry.enqueue(str(tmp_path / "effects"))
    work("fast")
    result.refresh()
    assert result.return_value == "then"
    assert (tmp_path / "effects").read_text() == "attempt 1\nattempt 2\n"


@pytest.mark.parametrize("isolated", [False, True])
def test_retry_brings_its_own_budget(site: Site, isolated: bool) -> None:
    result = tasks.asks_for_one_more_try.enqueue()
    call_command("echomq_worker", "fast", burst=True, isolate=isolated, verbosity=0)
    job = site("fast").jobs.get(result.id)
    assert (job.state, job.attempt, job.last_error) == ("dead", 3, "Retry: once more")


def test_the_callers_own_id_is_taken_once(site: Site) -> None:
    backend = tasks.echo.get_backend()
    queue = site("default")
    (own,) = queue.drive(queue.client.mint(1))
    assert backend.enqueue_as(tasks.echo, (1,), {}, own).id == own
    again = backend.enqueue_as(tasks.echo, (2,), {}, own)
    assert (again.id, again.outcome) == (own, "duplicate")
    work()
    found = backend.find(own)
    assert found is not None
    assert (found[0], found[1].state, found[1].result) == (queue, "completed", b"[[1],{}]")


def test_discard_goes_to_the_dead_set_at_once(site: Site) -> None:
    result = tasks.gives_up.enqueue()
    work("fast")
    job = site("fast").jobs.get(result.id)
    assert (job.state, job.attempt, job.last_error) == ("dead", 1, "Discard: pointless")


def test_the_context_tells_and_asks(site: Site) -> None:
    queue = site("default")
    result = tasks.tells.using(lane="acme").enqueue()
    work("default")
    result.refresh()
    assert result.return_value == [result.id, 1, "acme", False]
    job = queue.jobs.get(result.id)
    assert job.progress == '{"done":1,"of":2}'
    assert queue.jobs.logs(result.id) == ["one", "two"]


@pytest.mark.parametrize(
    "name", ["os.system", "tests.testapp.tasks.plain_function", "no.such.module.task", ""]
)
def test_only_registered_tasks_run(site: Site, name: str) -> None:
    queue = site("fast")
    payload = f'{{"task": "{name}", "args": ["touch forged"]}}'
    job_id = queue.jobs.enqueue(payload).job_id
    work("fast")
    job = queue.jobs.get(job_id)
    assert job.state == "dead"
    assert job.attempt == 3
    assert f"no task named {name!r} is registered" in str(job.last_error)


@pytest.mark.parametrize("payload", [b"\xff\x00", b"{}", b"[]", b'{"task": 5}', b""])
def test_a_payload_that_is_no_task_call_is_dead_at_once(site: Site, payload: bytes) -> None:
    job_id = site("fast").jobs.enqueue(payload).job_id
    work("fast")
    job = site("fast").jobs.get(job_id)
    assert (job.state, job.attempt) == ("dead", 1)
    assert str(job.last_error).startswith("BadPayload")


def test_arguments_that_do_not_fit_fail_the_attempt(site: Site) -> None:
    result = tasks.flaky.using(max_attempts=1).enqueue(wrong=1)
    work("fast")
    assert "TypeError" in str(site("fast").jobs.get(result.id).last_error)


def test_signals_are_sent_once_per_attempt_and_at_the_end(site: Site) -> None:
    events: list[tuple[str, str, int]] = []

    def note(kind: str) -> Callable[..., None]:
        def receiver(sender: Any, task_result: Any, **kwargs: Any) -> None:
            events.append((kind, task_result.status, task_result.attempts))

        return receiver

    started, finished = note("started"), note("finished")
    task_started.connect(started)
    task_finished.connect(finished)
    try:
        tasks.flaky.enqueue(1)
        tasks.always_fails.using(max_attempts=1).enqueue()
        work("fast")
    finally:
        task_started.disconnect(started)
        task_finished.disconnect(finished)
    assert sorted(events) == sorted(
        [
            ("started", "RUNNING", 1),
            ("started", "RUNNING", 2),
            ("finished", "SUCCESSFUL", 2),
            ("started", "RUNNING", 1),
            ("finished", "FAILED", 1),
        ]
    )


def test_a_receiver_that_raises_does_not_harm_the_job(site: Site) -> None:
    def receiver(**kwargs: Any) -> None:
        raise RuntimeError("a receiver's own fault")

    task_started.connect(receiver)
    try:
        result = tasks.flaky.enqueue(0)
        work("fast")
    finally:
        task_started.disconnect(receiver)
    result.refresh()
    assert result.status == TaskResultStatus.SUCCESSFUL


def test_a_huge_traceback_is_bounded(site: Site) -> None:
    result = tasks.always_fails.using(max_attempts=1).enqueue("x" * 500_000)
    work("fast")
    job = site("fast").jobs.get(result.id)
    assert len(job.fields["history"]) < 20_000
    assert len(job.fields["last_error"]) <= 500


def test_a_finished_job_leaves_no_key_without_an_end(site: Site, raw: redis.Redis) -> None:
    tasks.tells.enqueue()
    work("default")
    keys = raw.keys("emq:{default}:*")
    endless = {key for key in keys if raw.ttl(key) == -1}
    assert endless == {b"emq:{default}:metrics:completed", b"emq:{default}:outcomes"}
