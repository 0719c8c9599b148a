"""``manage.py echomq_convert_celery``."""

from __future__ import annotations

from datetime import timedelta
from io import StringIO
from typing import Any

import celery
import pytest
from celery.schedules import crontab, schedule, solar
from django.core.checks import run_checks
from django.core.management import CommandError, call_command
from django.test import override_settings

from django_echomq.contrib.celery import schedules
from django_echomq.contrib.celery.convert import Conversion, convert
from tests.testapp import celery_tasks

TASK = celery_tasks.add.name


def converted(**given: Any) -> Conversion:
    return convert({"BROKER_URL": "redis://server:6379/3", **given})


def test_the_command_prints_settings_that_the_checks_accept() -> None:
    out = StringIO()
    with override_settings(
        CELERY_BROKER_URL="redis://127.0.0.1:6379/3",
        CELERY_RESULT_BACKEND="redis://127.0.0.1:6379/4",
        CELERY_RESULT_EXPIRES=timedelta(hours=2),
        CELERY_TASK_TIME_LIMIT=300,
        CELERY_TASK_ROUTES={TASK: {"queue": "slow"}},
        CELERY_TIMEZONE="Europe/Berlin",
        CELERY_WORKER_CONCURRENCY=4,
        CELERY_TASK_PUBLISH_RETRY_POLICY={"max_retries": 9},
        CELERY_BEAT_SCHEDULE={
            "every night": {
                "task": TASK,
                "schedule": crontab(hour=2, minute=30, day_of_week="mon-fri"),
                "args": (1, 2),
                "options": {"queue": "night", "expires": 60},
            },
            "often": {"task": TASK, "schedule": 10.0, "kwargs": {"x": 1, "y": 2}},
        },
    ):
        call_command("echomq_convert_celery", stdout=out)
    made: dict[str, Any] = {}
    exec(out.getvalue(), made)
    kept = {"KEEP_COMPLETED": 7200, "TIMEOUT": 300}
    assert made["ECHOMQ"] == {
        "CONNECTIONS": {"default": {"URL": "redis://127.0.0.1:6379/3"}},
        "QUEUES": {"default": kept, "slow": kept, "night": kept},
        "SCHEDULES": {
            "every-night": {
                "TASK": TASK,
                "CRON": "30 2 * * mon-fri",
                "TZ": "Europe/Berlin",
                "ARGS": [1, 2],
                "QUEUE": "night",
            },
            "often": {"TASK": TASK, "EVERY": 10, "KWARGS": {"x": 1, "y": 2}},
        },
    }
    for words in (
        "# The worker: manage.py echomq_worker --threads 4",
        "BEAT_SCHEDULE['every night']: expires = 60 has no counterpart",
        f"TASK_ROUTES['{TASK}']: write @shared_task(queue='slow')",
        "TASK_PUBLISH_RETRY_POLICY = {'max_retries': 9}: there is no counterpart",
        "RESULT_BACKEND: a result is kept with its job",
    ):
        assert words in out.getvalue()
    queues = {**made["ECHOMQ"]["QUEUES"], "mail": {}, "fast": {}}
    with override_settings(ECHOMQ={**made["ECHOMQ"], "QUEUES": queues}, TASKS=made["TASKS"]):
        assert run_checks(tags=["echomq"]) == []


def test_what_a_celery_app_says(monkeypatch: pytest.MonkeyPatch) -> None:
    app = celery.Celery("told", broker="redis+socket:///run/valkey.sock", set_as_current=False)
    app.conf.beat_schedule = {"beat": {"task": TASK, "schedule": timedelta(minutes=1)}}
    monkeypatch.setattr(celery_tasks, "app", app, raising=False)
    out = StringIO()
    call_command("echomq_convert_celery", app="tests.testapp.celery_tasks.app", stdout=out)
    made: dict[str, Any] = {}
    exec(out.getvalue(), made)
    assert made["ECHOMQ"]["CONNECTIONS"] == {"default": {"URL": "unix:///run/valkey.sock"}}
    assert made["ECHOMQ"]["SCHEDULES"] == {"beat": {"TASK": TASK, "EVERY": 60}}


@pytest.mark.parametrize(
    ("entry", "cadence"),
    [
        (crontab(), {"CRON": "* * * * *"}),
        (crontab(minute="*/15", hour=[1, 3]), {"CRON": "*/15 1,3 * * *"}),
        (schedules.crontab(minute=0, day_of_month="1,15"), {"CRON": "0 * 1,15 * *"}),
        (schedule(timedelta(seconds=90)), {"EVERY": 90}),
        (schedules.schedule(0.5), {"EVERY": 0.5}),
        (timedelta(days=1), {"EVERY": 86400}),
    ],
)
def test_cadences(entry: Any, cadence: dict[str, Any]) -> None:
    done = converted(BEAT_SCHEDULE={"beat": {"task": TASK, "schedule": entry}})
    assert done.echomq["SCHEDULES"] == {"beat": {"TASK": TASK, **cadence}}


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"BROKER_URL": "amqp://guest@rabbit//"}, "amqp is no Valkey"),
        ({"TASK_SERIALIZER": "pickle"}, "JSON only"),
        ({"TASK_DEFAULT_QUEUE": "celery"}, "write queue='celery'"),
        ({"TASK_DEFAULT_QUEUE": "with space"}, "a name is letters"),
        ({"TASK_SOFT_TIME_LIMIT": 5}, "write soft_time_limit=5"),
        ({"TASK_ANNOTATIONS": {"*": {"rate_limit": "1/s"}}}, "write it on @shared_task"),
        ({"TASK_DEFAULT_RATE_LIMIT": "1/s"}, "a rate is a queue's"),
        ({"TASK_ROUTES": ["router"]}, "write queue= on each task"),
        ({"BEAT_SCHEDULER": "django_celery_beat.schedulers:DatabaseScheduler"}, "are not read"),
        ({"RESULT_EXPIRES": None}, "write KEEP_COMPLETED"),
        (
            {"BEAT_SCHEDULE": {"b": {"task": TASK, "schedule": crontab(0, 0, 1, 13)}}},
            "a day of the month and a day of the week",
        ),
        (
            {"BEAT_SCHEDULE": {"b": {"task": "no.such", "schedule": 1}}},
            "no.such is no task here yet",
        ),
        ({"BEAT_SCHEDULE": {"b": {"task": TASK, "schedule": None}}}, "no crontab and no interval"),
    ],
)
def test_what_is_left_is_told(given: dict[str, Any], words: str) -> None:
    assert words in "\n".join(converted(**given).left)


def test_the_sun_is_no_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    rising = object.__new__(solar)  # its making needs another package
    monkeypatch.setattr(solar, "__repr__", lambda self: "<solar: sunrise>")
    done = converted(BEAT_SCHEDULE={"b": {"task": TASK, "schedule": rising}})
    assert "<solar: sunrise> is no crontab" in "\n".join(done.left)


def test_eager_becomes_the_immediate_backend() -> None:
    done = converted(TASK_ALWAYS_EAGER=True)
    assert done.tasks["default"]["BACKEND"].endswith(".ImmediateBackend")


def test_settings_without_celery_are_refused() -> None:
    with pytest.raises(CommandError, match="CELERY_"):
        call_command("echomq_convert_celery")
