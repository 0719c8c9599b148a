"""The pages of ``docs/howto`` on moving in and on testing, run from top to bottom."""

from __future__ import annotations

import unittest
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import django
import pytest
from django.conf import settings
from django.core.checks import run_checks
from django.test import override_settings

from django_echomq.contrib.celery import canvas
from django_echomq.queue import Queue
from django_echomq.queues import get_queue
from django_echomq.testing import clean_queues, isolated_server, run_due, run_pending
from tests.test_howto import Reader, reading
from tests.testapp import tasks

__all__ = ["reading"]

Site = Callable[[str], Queue]
Reading = Callable[[str], Reader]


@pytest.mark.django_db(transaction=True)
def test_from_celery(
    site: Site, reading: Reading, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    site("default"), site("mail")
    monkeypatch.setattr(canvas, "_tasks", dict(canvas._tasks))
    reader = reading("from-celery.md")
    reader.tasks()
    names = reader.code("from django_echomq.contrib.celery import chain")
    assert capsys.readouterr().out == "PENDING\n"
    done = [result.return_value for result in run_pending("default")]
    assert done[0] == {"shop": 7}
    assert names["last"].get(timeout=60) == 113
    ran = run_due("mail", until=timedelta(minutes=5))
    assert sorted(result.return_value for result in ran if result.is_finished) == [
        "order 8 is paid",
        "order 9 is paid",
    ]
    charge = reader.tasks().charge
    charge.enqueue(1)
    assert [result.return_value for result in run_pending("mail")] == [1]
    assert reader.left == []


@pytest.mark.django_db(transaction=True)
def test_from_rq(site: Site, reading: Reading, capsys: Any) -> None:
    site("default"), site("mail")
    reader = reading("from-rq.md")
    reader.tasks()
    names = reader.code("from datetime import timedelta\n")
    assert capsys.readouterr().out == "queued 1\n"
    ran = run_due(until=timedelta(hours=2))
    values = [str(result.return_value) for result in ran]
    assert sorted(values[:3]) == ["3", "7", "mail to ada"]
    assert values[3:] == ["mail to grace", "mail to alan"]
    assert (names["first"].return_value(), names["second"].return_value()) == (3, 7)
    with reader.settings():
        assert [each for each in run_checks(tags=["echomq"]) if "'fast'" not in each.msg] == []
        assert site("mail").options.timeout_ms == 180_000
    assert reader.left == []


@pytest.mark.django_db
def test_testing(reading: Reading, django_capture_on_commit_callbacks: Any) -> None:
    reader = reading("testing.md")
    reader.tasks()
    names = reader.code("# test_letters.py")
    with isolated_server():  # as the fixture has it
        names["test_a_new_user_is_welcomed"](get_queue, None, django_capture_on_commit_callbacks)
        clean_queues()
        names["test_a_reminder_comes_later"](get_queue)

    case = reader.code("# tests.py")["SignUp"]
    result = unittest.TestResult()
    unittest.defaultTestLoader.loadTestsFromTestCase(case).run(result)
    assert (result.testsRun, result.errors, result.failures) == (1, [], [])

    block = reader.block("# settings.py\n")
    if django.VERSION < (6, 0):
        block = block.replace("django.tasks", "django_tasks")
    told: dict[str, Any] = {}
    exec(block, told)
    with override_settings(TASKS={**settings.TASKS, "other": told["TASKS"]["default"]}):
        at_once = tasks.echo.using(backend="other").enqueue(1)
        assert at_once.return_value == [[1], {}]
    assert reader.left == []
