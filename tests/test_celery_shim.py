"""What ``django_echomq.contrib.celery`` refuses, and how it goes with other backends."""

from __future__ import annotations

import ast
import importlib
import inspect
from collections.abc import Callable
from datetime import datetime, timedelta
from importlib.metadata import files
from typing import Any

import django
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.db import transaction
from django.test import override_settings
from django.utils import timezone

from django_echomq.contrib.celery import chain, shared_task, signature
from django_echomq.contrib.celery.canvas import SendOptions
from django_echomq.contrib.celery.exceptions import NotRegistered, TimeLimitExceeded
from django_echomq.contrib.celery.result import AsyncResult
from django_echomq.contrib.celery.task import Task, TaskOptions
from django_echomq.queue import Queue
from django_echomq.testing import JobFailed, run_due, run_pending
from tests.testapp import celery_tasks

Site = Callable[[str], Queue]
TASKS_MODULE = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"


def stubs(name: str) -> ast.Module:
    (found,) = [
        each for each in files("celery-types") or () if str(each) == f"celery-stubs/{name}.pyi"
    ]
    return ast.parse(found.read_text())


def functions(tree: ast.AST, name: str) -> list[ast.FunctionDef]:
    return [
        node for node in ast.walk(tree) if isinstance(node, ast.FunctionDef) and node.name == name
    ]


def parameters(function: ast.FunctionDef) -> set[str]:
    given = function.args
    return {each.arg for each in (*given.args, *given.kwonlyargs)} - {"self", "cls"}


# What Celery has, by its types, is here or refused


def test_every_option_of_a_call_is_served_or_refused() -> None:
    (celerys,) = functions(stubs("app/task"), "apply_async")
    ours = {*SendOptions.__annotations__, "args", "kwargs", "task_id"}
    assert ours <= parameters(celerys) | {"countdown"}
    for name in parameters(celerys) - ours:
        with pytest.raises(TypeError, match=rf"{name}= has no counterpart in EchoMQ: \w+"):
            celery_tasks.add.apply_async((1, 2), **{name: "x"})
        with pytest.raises(TypeError, match="has no counterpart"):
            celery_tasks.add.s(1, 2).set(**{name: "x"})


def test_every_option_of_a_task_is_served_or_refused() -> None:
    celerys = functions(stubs("app/__init__"), "shared_task")
    names = {name for each in celerys for name in parameters(each)} - {"fun", "bind"}
    ours = set(TaskOptions.__annotations__)
    assert ours <= names | {"retry_backoff"}
    for name in names - ours:
        options: Any = {name: "x"}
        with pytest.raises(TypeError, match=rf"fun: {name}= has no counterpart in EchoMQ: \w+"):
            shared_task(**options)(fun)


def test_every_part_of_a_task_is_there_or_refused() -> None:
    (celerys,) = [
        node
        for node in ast.walk(stubs("app/task"))
        if isinstance(node, ast.ClassDef) and node.name == "Task"
    ]
    names = {node.name for node in celerys.body if isinstance(node, ast.FunctionDef)}
    assert {"delay", "apply_async", "retry", "s", "si", "signature", "AsyncResult"} <= names
    missing = [name for name in sorted(names) if not hasattr(celery_tasks.add, name)]
    assert "map" in missing
    for name in missing:
        if not name.startswith("_"):
            with pytest.raises(AttributeError, match=f"Task.{name} has no counterpart in EchoMQ"):
                getattr(celery_tasks.add, name)


def test_retry_takes_what_celerys_takes() -> None:
    (celerys,) = functions(stubs("app/task"), "retry")
    ours = set(inspect.signature(Task.retry).parameters) - {"self", "options"}
    assert ours <= parameters(celerys)


def fun() -> None: ...


@pytest.mark.parametrize(
    ("module", "name", "words"),
    [
        ("", "Celery", "there is no app"),
        ("", "group", "send each signature"),
        ("", "chord", "send the next"),
        ("", "current_task", "bind=True"),
        ("", "current_app", "there is no app"),
        (".exceptions", "Ignore", "Discard"),
        (".exceptions", "Reject", "Retry"),
    ],
)
def test_an_import_is_refused_with_a_sentence(module: str, name: str, words: str) -> None:
    home = importlib.import_module(f"django_echomq.contrib.celery{module}")
    with pytest.raises(ImportError, match=f"{name} has no counterpart in EchoMQ: .*{words}"):
        getattr(home, name)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"acks_late": False}, "always run again"),
        ({"reject_on_worker_lost": False}, "always run again"),
        ({"serializer": "pickle"}, "JSON"),
        ({"base": Task}, "signals"),
        ({"no_such_option": 1}, "leave it out"),
    ],
)
def test_a_declaration_is_refused_with_a_sentence(options: Any, words: str) -> None:
    with pytest.raises(TypeError, match=words):
        shared_task(**options)(fun)


def test_a_coroutine_is_refused() -> None:
    async def coroutine() -> None: ...

    with pytest.raises(TypeError, match="no coroutines"):
        shared_task(coroutine)


def test_two_tasks_of_one_name_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    from django_echomq.contrib.celery import canvas

    monkeypatch.setattr(canvas, "_tasks", dict(canvas._tasks))
    with pytest.raises(ValueError, match=r"two shared tasks are named 'tests.testapp"):
        shared_task(name=celery_tasks.add.name)(fun)


def test_a_rate_is_the_queues() -> None:
    with pytest.raises(
        ImproperlyConfigured, match=r"a queue of its own, with .*'RATE_LIMIT': '9/m'"
    ):
        shared_task(queue="mail", rate_limit="9/m")(fun)
    from django.conf import settings

    limited = {**settings.ECHOMQ["QUEUES"], "mail": {"RATE_LIMIT": "9/m"}}
    with override_settings(ECHOMQ={**settings.ECHOMQ, "QUEUES": limited}):
        limited_task = shared_task(queue="mail", rate_limit="9/m")(fun)
        with pytest.raises(ImproperlyConfigured, match="the queue 'default' has another"):
            limited_task.apply_async(queue="default")


def test_calls_that_cannot_be_kept_are_refused() -> None:
    add, naive = celery_tasks.add, datetime(2031, 1, 1)  # noqa: DTZ001
    with pytest.raises(ValueError, match=r"eta=.* has no time zone"):
        add.apply_async((1, 2), eta=naive)
    with pytest.raises(ValueError, match=r"expires=.* has no time zone"):
        add.apply_async((1, 2), expires=naive)
    with pytest.raises(TypeError, match="only the task can have one"):
        add.apply_async((1, 2), time_limit=3)
    with pytest.raises(TypeError, match="add: missing a required argument: 'y'"):
        add.apply_async((1,))
    with pytest.raises(TypeError, match="JSON cannot carry object"):
        add.apply_async((1, object()))
    with pytest.raises(ImproperlyConfigured, match=r"no queue 'mial'.*Did you mean 'mail'"):
        add.apply_async((1, 2), queue="mial")
    with pytest.raises(NotRegistered, match=r"No @shared_task is named 'tests.nothing'"):
        signature("tests.nothing").delay()
    with pytest.raises(TypeError, match="signatures such as"):
        chain(add.s(1, 2), [add])  # type: ignore[list-item]
    with pytest.raises(TypeError, match="throw=False"):
        celery_tasks.troubled.retry(throw=False)
    with pytest.raises(TypeError, match="cannot change the arguments"):
        celery_tasks.troubled.retry(args=(3,))
    with pytest.raises(AttributeError, match=r"self.request.group has no counterpart"):
        celery_tasks.add.request.group  # noqa: B018
    with pytest.raises(AttributeError, match=r"AsyncResult.children has no counterpart"):
        AsyncResult("x").children  # noqa: B018
    with pytest.raises(NotImplementedError, match="SIGUSR1"):
        AsyncResult("x").revoke(terminate=True, signal="SIGUSR1")


# On the queue


def test_a_call_carries_its_id_its_priority_and_its_time(site: Site) -> None:
    queue = site("mail")
    (own,) = queue.drive(queue.client.mint(1))
    when = timezone.now() + timedelta(hours=1)
    result = celery_tasks.add.apply_async((1, 2), None, own, queue="mail", priority=7, eta=when)
    assert result.id == own
    (listed,) = queue.jobs.page("scheduled").jobs
    assert (listed.job.id, listed.job.priority) == (own, 7)
    assert listed.due_ms == pytest.approx(when.timestamp() * 1000, abs=1)
    with pytest.raises(Exception, match="id"):
        celery_tasks.add.apply_async((1, 2), task_id="d3b07384-d9a0-4c9b-8f3e-000000000000")


@pytest.mark.django_db(transaction=True)
def test_retries_have_their_own_budget(site: Site) -> None:
    site("default")
    passing, failing = celery_tasks.troubled.delay(2), celery_tasks.troubled.delay(3)
    run_pending()
    assert (passing.state, failing.state) == ("RETRY", "RETRY")
    with pytest.raises(JobFailed, match="Trouble: again"):
        run_due(until=timedelta(minutes=5))
    run_due(until=timedelta(minutes=5))
    assert passing.get(timeout=60) == 2
    assert (failing.state, failing.retries) == ("FAILURE", 2)
    with pytest.raises(celery_tasks.Trouble, match=r"^again$"):
        failing.get(timeout=60)


def test_an_unknown_id_is_pending_as_in_celery(site: Site) -> None:
    site("default")
    for unknown in ("d3b07384-d9a0-4c9b-8f3e-000000000000", "JOB0STt1jPn9NY"):
        assert AsyncResult(unknown).state == "PENDING"
        AsyncResult(unknown).revoke()


def test_a_task_on_a_thread_cannot_be_terminated(site: Site) -> None:
    queue = site("default")
    result = celery_tasks.add.delay(1, 2)
    queue.jobs.claim()
    result.revoke()
    assert result.state == "STARTED"
    with pytest.raises(NotImplementedError, match="runs on a thread, which cannot be killed"):
        result.revoke(terminate=True)
    limited = celery_tasks.bounded.delay()
    (claim,) = queue.jobs.claim()
    limited.revoke(terminate=True)
    assert queue.jobs.get(claim.job_id).fields["cancel"] == b"revoked"


def test_a_step_that_was_sent_is_not_sent_again(site: Site) -> None:
    queue = site("default")
    result = chain(celery_tasks.add.s(1, 2), celery_tasks.add.s(3)).delay()
    assert result.parent is not None
    first = queue.jobs.get(result.parent.id).payload
    run_pending()
    assert result.get(timeout=60) == 6
    # Its worker is lost before the first is settled, and it comes back.
    again = queue.jobs.enqueue(first)
    queue.jobs.release(queue.jobs.claim()[0])
    claim = queue.jobs.claim()[0]
    queue.jobs.retry(claim, 0, 9, "lost")
    run_pending()
    assert queue.jobs.state(again.job_id) == "completed"
    assert queue.metrics.counts()["pending"] == 0
    assert queue.metrics.counts("completed")["completed"] == 3


def test_the_time_limit_is_an_exception_of_its_own() -> None:
    from django_echomq.contrib.celery.result import _rebuilt

    assert isinstance(_rebuilt("django_echomq.tasks.verdicts.TaskTimeout", "x"), TimeLimitExceeded)
    assert repr(_rebuilt("no.such.Error", "x")) == "TaskError('no.such.Error: x')"
    assert repr(_rebuilt("builtins.SystemExit", "x")) == "TaskError('builtins.SystemExit: x')"


# On Django's own backends

IMMEDIATE = {"default": {"BACKEND": f"{TASKS_MODULE}.backends.immediate.ImmediateBackend"}}
DUMMY = {"default": {"BACKEND": f"{TASKS_MODULE}.backends.dummy.DummyBackend"}}


@pytest.fixture
def declared(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Any:
    """The tasks as a project has them whose settings name another backend."""
    from django_echomq.contrib.celery import canvas

    monkeypatch.setattr(canvas, "_tasks", dict(canvas._tasks))
    name, path = "tests.testapp.celery_tasks", celery_tasks.__file__
    with override_settings(TASKS=request.param):
        spec = importlib.util.spec_from_file_location(name, path)
        assert spec is not None
        assert spec.loader is not None
        module = importlib.util.module_from_spec(spec)
        # Results of the dummy backend are copied by the name of their task.
        monkeypatch.setitem(importlib.sys.modules, name, module)
        spec.loader.exec_module(module)
        yield module


@pytest.mark.parametrize("declared", [IMMEDIATE], indirect=True)
@pytest.mark.django_db(transaction=True)
def test_the_immediate_backend_runs_at_once(declared: Any) -> None:
    result = declared.add.delay(1, 2)
    assert (result.state, result.get(), result.ready()) == ("SUCCESS", 3, True)
    assert declared.troubled.delay(2).get() == 2
    failed = declared.troubled.delay(9)
    assert failed.failed()
    with pytest.raises(Exception, match="again"):
        failed.get()
    assert (declared.add.s(1, 2) | declared.add.s(3)).delay().get() == 6
    with transaction.atomic():
        later = declared.add.delay_on_commit(1, 1)
        assert later.state == "PENDING"
    assert later.get() == 2
    assert declared.bounded.delay().get() == "in time"


@pytest.mark.parametrize("declared", [DUMMY], indirect=True)
def test_the_dummy_backend_runs_nothing(declared: Any) -> None:
    from django_echomq.tasks.compat import task_backends

    result = declared.add.delay(1, 2)
    assert (result.state, result.ready()) == ("PENDING", False)
    chained = (declared.add.s(1, 2) | declared.add.s(3)).delay()
    assert chained.state == "PENDING"
    assert len(task_backends["default"].results) == 2
