"""``django_echomq.task``: one task on every backend of Django's Tasks API."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import django
import pytest
from django.conf import settings
from django.db import transaction
from django.test import override_settings

from django_echomq import task
from django_echomq.queue import Queue
from django_echomq.tasks.compat import task_backends
from django_echomq.testing import captured_jobs, run_pending

Site = Callable[[str], Queue]
MODULE = "django.tasks" if django.VERSION >= (6, 0) else "django_tasks"
OTHERS = {
    "immediate": {"BACKEND": f"{MODULE}.backends.immediate.ImmediateBackend"},
    "dummy": {"BACKEND": f"{MODULE}.backends.dummy.DummyBackend"},
}


@task(max_attempts=2, backoff=[10], timeout=5, lane="acme")
def add(x: int, y: int = 0) -> int:
    return x + y


@task
def noted(word: str) -> str:
    return word


@pytest.fixture(autouse=True)
def others() -> Iterator[None]:
    with override_settings(TASKS={**settings.TASKS, **OTHERS}):
        yield


def values(results: list[Any]) -> list[Any]:
    return [result.return_value for result in results]


@pytest.mark.django_db(transaction=True)
@pytest.mark.parametrize("backend", ["default", "immediate", "dummy"])
def test_the_same_code_on_every_backend(site: Site, backend: str) -> None:
    site("default")
    there = add.using(backend=backend, max_attempts=3)
    with captured_jobs() as jobs:
        results = [there.using(lane="other").enqueue(1), *there.enqueue_many([((2,), {"y": 3})])]
        with transaction.atomic():
            results.append(there.enqueue_on_commit(4))
            assert len(jobs) == 2
            assert results[-1].id
        with transaction.atomic():
            there.enqueue_on_commit(5)
            transaction.set_rollback(True)
    assert [job.args for job in jobs.of(add)] == [[1], [2], [4]]
    if backend == "default":
        assert values(run_pending()) == [1, 5, 4]
        return
    assert jobs[-1].id == results[-1].id
    if backend == "immediate":
        assert values(results) == [1, 5, 4]
    else:
        assert [result.args for result in task_backends["dummy"].results] == [[1], [2], [4]]


def test_it_takes_what_djangos_takes(site: Site) -> None:
    site("mail")
    named = noted.using(queue_name="mail", priority=3)
    named.enqueue("hello")
    (job,) = site("mail").jobs.browse()
    assert job.priority == 3
    with pytest.raises(TypeError, match="lanes"):
        task(lanes="acme")(noted.func)  # type: ignore[call-overload]
