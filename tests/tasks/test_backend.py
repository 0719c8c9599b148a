"""Django's Tasks API on the queue."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from django.db import transaction
from django.test import override_settings

import django_echomq
from django_echomq import Exponential, Fixed, Unique
from django_echomq.queue import Queue
from django_echomq.tasks.backend import EchoMQBackend
from django_echomq.tasks.compat import (
    InvalidTask,
    TaskResultDoesNotExist,
    TaskResultStatus,
    task_backends,
    task_enqueued,
)
from django_echomq.tasks.task import EchoTask
from django_echomq.wire.errors import PayloadTooLarge
from tests.testapp import tasks

Site = Callable[[str], Queue]


def envelope(queue: Queue, job_id: str) -> Any:
    return json.loads(queue.jobs.get(job_id).payload)


def test_the_backend_supports_everything() -> None:
    backend = task_backends["default"]
    assert isinstance(backend, EchoMQBackend)
    assert backend.supports_defer
    assert backend.supports_async_task
    assert backend.supports_get_result
    assert backend.supports_priority


def test_enqueue_answers_a_result_that_can_be_fetched(site: Site) -> None:
    result = tasks.echo.enqueue(1, "two", three=[3])
    assert result.status == TaskResultStatus.READY
    assert result.args == [1, "two"]
    assert result.kwargs == {"three": [3]}
    assert result.enqueued_at is not None
    fetched = tasks.echo.get_result(result.id)
    assert fetched.id == result.id == result.job_id
    assert (fetched.args, fetched.kwargs) == ([1, "two"], {"three": [3]})
    assert fetched.task.func is tasks.echo.func


def test_the_payload_is_one_json_object(site: Site) -> None:
    result = tasks.echo.enqueue(1, key="ü")
    assert envelope(site("default"), result.id) == {
        "task": "tests.testapp.tasks.echo",
        "args": [1],
        "kwargs": {"key": "ü"},
    }


def test_a_task_goes_to_its_queue_lane_and_priority(site: Site) -> None:
    result = tasks.echo.using(queue_name="mail", lane="acme", priority=7).enqueue()
    job = site("mail").jobs.get(result.id)
    assert (job.lane, job.priority) == ("acme", 7)


def test_run_after_parks_the_job(site: Site) -> None:
    when = datetime.now(UTC) + timedelta(hours=1)
    result = tasks.echo.using(run_after=when).enqueue()
    assert result.outcome == "scheduled"
    assert site("default").jobs.state(result.id) == "scheduled"


def test_run_after_in_the_past_is_due_at_once(site: Site) -> None:
    queue = site("default")
    tasks.echo.using(run_after=datetime(2020, 1, 1, tzinfo=UTC)).enqueue()
    assert queue.jobs.promote() == 1


def test_options_of_a_call_travel_with_it(site: Site) -> None:
    curve = Exponential(base_ms=5, cap_ms=50).jittered()
    result = tasks.echo.using(max_attempts=9, backoff=curve, timeout=2).enqueue()
    assert envelope(site("default"), result.id)["options"] == {
        "max_attempts": 9,
        "backoff": {"type": "exponential", "base_ms": 5, "cap_ms": 50, "jitter": True},
        "timeout": 2,
    }


def test_unique_takes_all_its_rules_along(site: Site) -> None:
    unique = Unique("k", ttl=60, until="ttl", on_conflict="replace")
    first = tasks.echo.using(unique=unique).enqueue(1)
    second = tasks.echo.using(unique=unique).enqueue(2)
    job = site("default").jobs.get(second.id)
    assert (job.fields["unique_until"], job.fields["unique_ttl"]) == (b"ttl", b"60000")
    replaced = tasks.echo.get_result(first.id)
    assert replaced.status == TaskResultStatus.FAILED
    assert site("default").jobs.state(first.id) == "cancelled"


def test_unique_answers_the_job_that_holds_the_key(site: Site) -> None:
    first = tasks.echo.using(unique=Unique("k")).enqueue(1)
    second = tasks.echo.using(unique="k").enqueue(2)
    assert (second.outcome, second.id) == ("duplicate", first.id)


@pytest.mark.parametrize(
    "argument",
    [
        object(),
        {1, 2},
        b"\xff",
        float("nan"),
        float("inf"),
        datetime(2026, 1, 1, tzinfo=UTC),
        {1: "a key that is no string"},
        1j,
        [[[object()]]],
    ],
    ids=["object", "set", "bytes", "nan", "inf", "datetime", "key", "complex", "nested"],
)
def test_what_is_not_json_raises_and_sends_nothing(site: Site, argument: Any) -> None:
    with pytest.raises((TypeError, ValueError)):
        tasks.echo.enqueue(argument)
    assert site("default").metrics.counts("pending") == {"pending": 0}


def test_an_endless_structure_raises(site: Site) -> None:
    loop: list[Any] = []
    loop.append(loop)
    with pytest.raises(ValueError, match="nested"):
        tasks.echo.enqueue(loop)


def test_hostile_text_travels(site: Site) -> None:
    texts = ["\x00", "\ud800", "😀", "</script>", "a" * 100_000]
    result = tasks.echo.enqueue(*texts)
    assert tasks.echo.get_result(result.id).args == texts


def test_a_payload_over_the_limit_raises(site: Site) -> None:
    with pytest.raises(PayloadTooLarge):
        tasks.echo.enqueue("a" * 1_100_000)
    assert site("default").metrics.counts("pending") == {"pending": 0}


def test_enqueue_many_answers_one_result_per_call_in_order(site: Site) -> None:
    results = tasks.echo.enqueue_many([((n,), {"k": n}) for n in range(1_234)])
    assert [result.args for result in results] == [[n] for n in range(1_234)]
    assert len({result.id for result in results}) == 1_234
    assert site("default").metrics.counts("pending") == {"pending": 1_234}
    assert tasks.echo.enqueue_many([]) == []


def test_enqueue_many_with_one_bad_call_sends_nothing(site: Site) -> None:
    with pytest.raises(TypeError):
        tasks.echo.enqueue_many([((1,), {}), ((object(),), {})])
    assert site("default").metrics.counts("pending") == {"pending": 0}


@pytest.mark.django_db(transaction=True)
def test_enqueue_on_commit_knows_its_id_and_sends_after_commit(site: Site) -> None:
    queue = site("default")
    with transaction.atomic():
        result = tasks.echo.enqueue_on_commit(1)
        assert queue.jobs.state(result.id) == "absent"
    assert queue.jobs.state(result.id) == "pending"


@pytest.mark.django_db(transaction=True)
def test_a_rollback_drops_the_call(site: Site) -> None:
    def fails() -> None:
        with transaction.atomic():
            tasks.echo.enqueue_on_commit(1)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fails()
    assert site("default").metrics.counts("pending") == {"pending": 0}


@pytest.mark.django_db(transaction=True)
def test_a_rolled_back_savepoint_drops_its_calls_only(site: Site) -> None:
    with transaction.atomic():
        outer = tasks.echo.enqueue_on_commit("outer", using="default")
        try:
            with transaction.atomic():
                tasks.echo.enqueue_on_commit("inner")
                raise RuntimeError
        except RuntimeError:
            pass
    assert [job.id for job in site("default").jobs.browse()] == [outer.id]


@pytest.mark.django_db
def test_on_commit_callbacks_can_be_captured(
    site: Site, django_capture_on_commit_callbacks: Any
) -> None:
    with django_capture_on_commit_callbacks(execute=True):
        result = tasks.echo.enqueue_on_commit(1)
    assert site("default").jobs.state(result.id) == "pending"


@pytest.mark.django_db(transaction=True)
def test_an_id_taken_before_the_commit_is_minted_again(site: Site) -> None:
    queue = site("default")
    with transaction.atomic():
        result = tasks.echo.enqueue_on_commit("mine")
        promised = result.id
        queue.jobs.enqueue(b"another's", job_id=promised)
    assert result.id != promised
    assert queue.jobs.get(promised).payload == b"another's"
    assert tasks.echo.get_result(result.id).args == ["mine"]


@pytest.mark.usefixtures("one_server")
def test_aenqueue_needs_no_thread(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    def no_thread(*args: Any, **kwargs: Any) -> None:
        raise AssertionError("a thread was asked for")

    async def send() -> Any:
        monkeypatch.setattr("asgiref.sync.SyncToAsync.__call__", no_thread)
        monkeypatch.setattr("asyncio.to_thread", no_thread)
        results = await asyncio.gather(*(tasks.echo.aenqueue(n) for n in range(50)))
        fetched = await tasks.echo.aget_result(results[0].id)
        assert fetched.args == [0]
        await fetched.arefresh()
        return results

    results = asyncio.run(send())
    assert len({result.id for result in results}) == 50
    assert site("default").metrics.counts("pending") == {"pending": 50}


def test_the_enqueued_signal_carries_the_result(site: Site) -> None:
    seen: list[Any] = []

    def receiver(sender: Any, task_result: Any, **kwargs: Any) -> None:
        seen.append(task_result)

    task_enqueued.connect(receiver)
    try:
        result = tasks.echo.enqueue(1)
    finally:
        task_enqueued.disconnect(receiver)
    assert seen == [result]


@pytest.mark.parametrize("result_id", ["", "nonsense", "JOB00000000000", "ORD0NsVQMCRgHI"])
def test_a_result_that_is_not_there(site: Site, result_id: str) -> None:
    with pytest.raises(TaskResultDoesNotExist):
        tasks.echo.get_result(result_id)


@pytest.mark.parametrize(
    "options",
    [
        {"priority": 101},
        {"priority": -101},
        {"max_attempts": 0},
        {"max_attempts": True},
        {"max_attempts": "3"},
        {"backoff": "soon"},
        {"backoff": {"TYPE": "fixed", "MILLIS": 1}},
        {"timeout": -1},
        {"lane": "no spaces"},
        {"unique": "no spaces"},
        {"unique": Unique("k", until="for ever")},
        {"unique": Unique("k", until="ttl")},
        {"unique": Unique("k", on_conflict="fail")},
        {"run_after": datetime(2026, 1, 1)},  # noqa: DTZ001 - naive on purpose
    ],
    ids=repr,
)
def test_a_task_that_cannot_be_sent_is_refused(options: dict[str, Any]) -> None:
    with pytest.raises(InvalidTask):
        tasks.echo.using(**options)


def test_a_task_keeps_its_options_through_using() -> None:
    changed = tasks.echo.using(lane="a").using(priority=3)
    assert isinstance(changed, EchoTask)
    assert (changed.lane, changed.priority) == ("a", 3)


def test_a_task_of_an_undefined_queue_says_what_is_defined(site: Site) -> None:
    with pytest.raises(Exception, match="Did you mean 'mail'"):
        tasks.echo.using(queue_name="mial").enqueue()


def test_a_task_of_another_backend_can_be_sent_here(site: Site) -> None:
    both = {
        "default": {"BACKEND": "django_echomq.backend.EchoMQBackend", "QUEUES": []},
        "second": {"BACKEND": "django_echomq.backend.EchoMQBackend", "QUEUES": ["mail"]},
    }
    with override_settings(TASKS=both):
        result = tasks.echo.using(backend="second", queue_name="mail").enqueue()
        assert site("mail").jobs.state(result.id) == "pending"
        with pytest.raises(InvalidTask):
            tasks.echo.using(backend="second", queue_name="fast")


def test_a_task_compares_and_hashes_whatever_form_its_options_had() -> None:
    variants = [
        tasks.echo.using(backoff=[300, 600], unique="k"),
        tasks.echo.using(backoff=[300, 600], unique=Unique("k")),
    ]
    assert len(set(variants)) == 1
    assert tasks.echo.using(backoff={"TYPE": "fixed", "MS": 5}).backoff == Fixed(5)


def test_the_public_names_are_where_they_are_promised() -> None:
    for name in django_echomq.__all__:
        if name != "__version__":
            assert getattr(django_echomq, name).__name__ == name
    with pytest.raises(AttributeError):
        django_echomq.no_such_name  # noqa: B018
