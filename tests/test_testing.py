"""``django_echomq.testing`` and the pytest plugin, as the tests of a project use them."""

from __future__ import annotations

import os
import subprocess
import sys
import textwrap
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path

import django
import pytest
import redis
from django.conf import settings
from django.contrib.contenttypes.models import ContentType
from django.core.exceptions import ImproperlyConfigured
from django.test import TestCase, override_settings
from django.utils import timezone

from django_echomq import get_queue
from django_echomq.queue import Queue
from django_echomq.tasks.compat import TaskResultStatus
from django_echomq.testing import (
    EchoMQTestMixin,
    JobFailed,
    captured_jobs,
    clean_queues,
    isolated_server,
    run_due,
    run_pending,
)
from tests.conftest import ROOT
from tests.testapp import tasks

Site = Callable[[str], Queue]
DONE = TaskResultStatus.SUCCESSFUL


class InATransaction(EchoMQTestMixin, TestCase):
    """Nothing is committed here, and jobs see it all the same."""

    def test_jobs_see_the_transaction_of_the_test(self) -> None:
        ContentType.objects.create(app_label="testapp", model="of-the-test")
        tasks.writes.enqueue("of-the-job")
        (result,) = run_pending()
        assert result.status == DONE
        found = ContentType.objects.filter(app_label="testapp").values_list("model", flat=True)
        assert sorted(found) == ["of-the-job", "of-the-test"]

    def test_what_waits_for_a_commit(self) -> None:
        with captured_jobs() as jobs:
            with self.captureOnCommitCallbacks(execute=True):
                tasks.echo.enqueue_on_commit(7)
                jobs.assert_not_enqueued()
            jobs.assert_enqueued(tasks.echo, 7)
        assert [result.return_value for result in run_pending()] == [[[7], {}]]

    def test_the_queues_are_empty_and_the_tests_own(self) -> None:
        assert get_queue("default").metrics.counts()["pending"] == 0
        assert get_queue("default").client.endpoint.label != _outer_label()
        tasks.noop.enqueue()


def _outer_label() -> str:
    connection = settings.ECHOMQ["CONNECTIONS"]["default"]
    return str(connection.get("URL") or connection["EMBEDDED"])


# Running


def test_pending_jobs_and_what_they_send_are_run(site: Site) -> None:
    site("default"), site("mail")
    tasks.echo.enqueue(1)
    tasks.echo.using(queue_name="mail").enqueue(2)
    tasks.echo.using(run_after=timezone.now() + timedelta(hours=1)).enqueue(3)
    assert [result.args for result in run_pending("mail")] == [[2]]
    assert [result.return_value for result in run_pending()] == [[[1], {}]]
    assert run_pending() == []
    assert get_queue("default").metrics.counts()["scheduled"] == 1


def test_coroutines_and_isolated_tasks_run_here(site: Site) -> None:
    site("default"), site("fast")
    tasks.double.enqueue(4)
    assert [result.return_value for result in run_pending()] == [8]
    tasks.isolated.enqueue("pid")
    (here,) = run_pending()
    assert here.return_value == [os.getpid(), 1, here.id]


def test_a_dead_job_is_raised_with_the_traceback_of_its_task(site: Site) -> None:
    site("fast")
    tasks.always_fails.using(max_attempts=1).enqueue("no ink")
    with pytest.raises(JobFailed, match=r"(?s)_fails: RuntimeError: no ink.*raise") as e:
        run_pending()
    assert e.value.result is not None
    assert e.value.result.status == TaskResultStatus.FAILED
    tasks.always_fails.using(max_attempts=1).enqueue()
    (result,) = run_pending(raises=False)
    assert result.errors[-1].exception_class is RuntimeError
    get_queue("fast").jobs.enqueue(b"no task call")
    with pytest.raises(JobFailed, match="no task's: BadPayload"):
        run_pending()


def test_jobs_without_end_are_noticed(site: Site) -> None:
    site("default")
    for _ in range(3):
        tasks.noop.enqueue()
    with pytest.raises(RuntimeError, match="2 jobs were run and there are still more"):
        run_pending(limit=2)


def test_what_falls_due_runs_in_the_order_of_time(site: Site) -> None:
    site("default")
    now = timezone.now()
    for hours in (3, 1, 2, 9):
        tasks.echo.using(run_after=now + timedelta(hours=hours)).enqueue(hours)
    ran = run_due(until=now + timedelta(hours=3, seconds=1))
    assert [result.args for result in ran] == [[1], [2], [3]]
    assert [result.args for result in run_due(until=timedelta(hours=10))] == [[9]]


def test_retries_fall_due_too(site: Site) -> None:
    site("fast")
    tasks.flaky.using(backoff=[60_000]).enqueue(2)
    statuses = [result.status for result in run_due(until=timedelta(minutes=2))]
    assert statuses == [TaskResultStatus.READY, TaskResultStatus.READY, DONE]


def test_schedules_tick_between_jobs(site: Site) -> None:
    site("default")
    schedules = {
        "beat": {"TASK": "tests.testapp.tasks.echo", "EVERY": 3600, "ARGS": ["tick"]},
        "paused": {"TASK": "tests.testapp.tasks.noop", "EVERY": 1},
    }
    with override_settings(ECHOMQ={**settings.ECHOMQ, "SCHEDULES": schedules}):
        run_due(until=timedelta())
        get_queue("default").repeat.pause("paused")
        start = datetime.now(UTC)
        tasks.echo.using(run_after=start + timedelta(minutes=90)).enqueue("job")
        ran = run_due(until=start + timedelta(hours=2, minutes=30))
        assert [result.args for result in ran] == [["tick"], ["job"], ["tick"]]


# Looking at what is sent


def test_captured_jobs_say_what_was_sent(site: Site) -> None:
    site("default")
    with captured_jobs() as jobs:
        tasks.echo.enqueue(1, word="one")
        tasks.echo.enqueue_many([((2,), {}), ((2,), {})])
    tasks.echo.enqueue(4)
    assert len(jobs) == 3
    assert jobs.assert_enqueued(tasks.echo, 1, word="one").id
    assert [job.args for job in jobs.of(tasks.echo)] == [[1], [2], [2]]
    jobs.assert_not_enqueued(tasks.noop)
    with pytest.raises(AssertionError, match=r"echo\(1\) was not enq(?s:.*)echo\(1, word='one'\)"):
        jobs.assert_enqueued(tasks.echo, 1)
    with pytest.raises(AssertionError, match=r"echo\(2\) was 2 times enqueued"):
        jobs.assert_enqueued(tasks.echo, 2)
    with pytest.raises(AssertionError, match="nothing should have been"):
        jobs.assert_not_enqueued(tasks.echo)


TASKS_MODULE = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"


@pytest.mark.parametrize("backend", ["immediate.ImmediateBackend", "dummy.DummyBackend"])
def test_captured_jobs_of_djangos_own_backends(backend: str) -> None:
    other = {"BACKEND": f"{TASKS_MODULE}.backends.{backend}"}
    with override_settings(TASKS={**settings.TASKS, "other": other}), captured_jobs() as jobs:
        tasks.echo.using(backend="other").enqueue(1)
    jobs.assert_enqueued(tasks.echo, 1)


# A place for tests


def test_queues_of_a_server_that_others_may_use_are_not_emptied() -> None:
    url = {"CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0"}}}
    with override_settings(ECHOMQ={**settings.ECHOMQ, **url}):
        with pytest.raises(ImproperlyConfigured, match="a server that others may use"):
            clean_queues()
        with isolated_server():
            get_queue("default").jobs.enqueue(b"x")
            get_queue("mail").jobs.enqueue(b"x", lane="acme")
            clean_queues()
            endpoint = get_queue("default").client.endpoint
            server = redis.Redis(unix_socket_path=endpoint.options["path"])
            assert list(server.scan_iter("emq:{default}:*")) == []
            assert list(server.scan_iter("emq:{mail}:*")) == []
        assert not Path(endpoint.options["path"]).exists()


PROJECT = {
    "site_settings.py": """
        SECRET_KEY = "not a secret"
        USE_TZ = True
        INSTALLED_APPS = ["django_echomq", "letters"]
        DATABASES = {"default": {"ENGINE": "django.db.backends.sqlite3", "NAME": ":memory:"}}
        ECHOMQ = {
            "CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:1/0"}},
            "QUEUES": {"default": {}, "mail": {}},
        }
        TASKS = {
            "default": {"BACKEND": "django_echomq.backend.EchoMQBackend", "QUEUES": []}
        }
    """,
    "letters/__init__.py": "",
    "letters/tasks.py": """
        from django.db import transaction
        from TASKS_MODULE import task

        @task
        def welcome(user_id):
            return f"welcome, {user_id}"

        def sign_up(user_id):
            with transaction.atomic():
                welcome.enqueue_on_commit(user_id)
    """,
    "test_letters.py": """
        import pytest
        from letters.tasks import sign_up, welcome
        from django_echomq.testing import captured_jobs, run_pending

        @pytest.mark.parametrize("turn", range(6))
        @pytest.mark.django_db
        def test_welcome(turn, echomq, django_capture_on_commit_callbacks):
            assert echomq("default").metrics.counts()["pending"] == 0
            with captured_jobs() as jobs, django_capture_on_commit_callbacks(execute=True):
                sign_up(turn)
            jobs.assert_enqueued(welcome, turn)
            welcome.enqueue("left")
            assert [r.return_value for r in run_pending()] == [f"welcome, {turn}", "welcome, left"]
            welcome.enqueue("left for the next test")
    """,
}


def test_the_plugin_gives_each_process_a_server_and_each_test_empty_queues(
    tmp_path: Path,
) -> None:
    for name, source in PROJECT.items():
        path = tmp_path / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(textwrap.dedent(source).replace("TASKS_MODULE", TASKS_MODULE))
    environment = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "site_settings",
        "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
    }
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST"):
        environment.pop(name, None)
    done = subprocess.run(
        [
            *(sys.executable, "-m", "pytest", "-q", "-n", "2", "-p", "no:cacheprovider"),
            *("-c", os.devnull, "--rootdir", str(tmp_path), "test_letters.py"),
        ],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "6 passed" in done.stdout
