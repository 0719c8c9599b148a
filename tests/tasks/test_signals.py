"""The signals of ``django_echomq.signals``: each transition is told, with what a receiver needs."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import redis
from django.core.management import call_command
from django.dispatch import Signal

from django_echomq import signals
from django_echomq.queue import Queue
from django_echomq.tasks import runner
from django_echomq.tasks.runner import Runner
from django_echomq.tasks.signals import tell_stalled
from django_echomq.worker import Promoter, Worker
from tests.conftest import Command, running, wait_until
from tests.testapp import tasks

Site = Callable[[str], Queue]
pytestmark = pytest.mark.django_db(transaction=True)
SIGNALS = {name: each for name, each in vars(signals).items() if isinstance(each, Signal)}


class Heard(list[tuple[str, dict[str, Any]]]):
    """What was sent: name of the signal and arguments."""

    def names(self) -> list[str]:
        return [name for name, _ in self]

    def one(self, name: str) -> dict[str, Any]:
        (found,) = [fields for heard, fields in self if heard == name]
        return found


@contextmanager
def connected(signal: Signal, receiver: Callable[..., None]) -> Iterator[None]:
    signal.connect(receiver, weak=False)
    try:
        yield
    finally:
        signal.disconnect(receiver)


@pytest.fixture
def heard() -> Iterator[Heard]:
    logging.getLogger("django_echomq").setLevel(logging.CRITICAL)
    found = Heard()
    receivers = {}
    for name, signal in SIGNALS.items():

        def receiver(*, _name: str = name, **fields: Any) -> None:
            assert fields.pop("signal") is SIGNALS[_name]
            found.append((_name, fields | {"thread": threading.current_thread().name}))

        signal.connect(receiver)
        receivers[name] = receiver
    yield found
    for name, signal in SIGNALS.items():
        assert signal.disconnect(receivers[name])
    logging.getLogger("django_echomq").setLevel(logging.NOTSET)


def work(queue: str, **options: Any) -> None:
    call_command("echomq_worker", queue, burst=True, threads=1, verbosity=0, name="w1", **options)


@contextmanager
def serving(queue: Queue, isolate: bool = False, **options: Any) -> Iterator[None]:
    """A worker beside the test."""
    handler = Runner("w1", isolate=isolate)
    worker = Worker([queue], handler, name="w1", threads=1, stalled=handler.stalled, **options)
    try:
        with running(worker):
            yield
    finally:
        handler.close()


def test_success_after_a_retry(site: Site, heard: Heard) -> None:
    job = tasks.flaky.using(lane="acme").enqueue(1)
    work("fast")
    assert heard.names() == ["job_started", "job_retried", "job_started", "job_succeeded"]
    (_, started), (_, retried), _, (_, succeeded) = heard
    common = {
        "sender": tasks.flaky,
        "job_id": job.id,
        "queue": "fast",
        "task": "tests.testapp.tasks.flaky",
        "lane": "acme",
        "worker": "w1",
    }
    for fields in (started, retried, succeeded):
        thread = fields.pop("thread")
        assert thread.startswith("w1")
        if fields is not started:
            assert 0 <= fields.pop("duration") < 60
    assert str(retried.pop("error")) == "attempt 1"
    assert started == common | {"attempt": 1}
    assert retried == common | {"attempt": 1, "delay": 0.05}
    assert succeeded == common | {"attempt": 2, "result": 2}


def test_a_sender_is_the_task_as_it_was_defined(site: Site) -> None:
    mine: list[str] = []

    def receiver(job_id: str, **fields: Any) -> None:
        mine.append(job_id)

    signals.job_succeeded.connect(receiver, sender=tasks.echo)
    try:
        job = tasks.echo.using(priority=5).enqueue(1)
        tasks.noop.enqueue()
        work("default")
    finally:
        assert signals.job_succeeded.disconnect(receiver, sender=tasks.echo)
    assert mine == [job.id]


def test_the_last_failure_says_why(site: Site, heard: Heard) -> None:
    tasks.always_fails.using(max_attempts=1).enqueue("boom")
    work("fast")
    assert heard.names() == ["job_started", "job_failed"]
    error = heard.one("job_failed")["error"]
    assert isinstance(error, RuntimeError)
    assert error.__traceback__ is not None


def test_what_cannot_start_fails_all_the_same(site: Site, heard: Heard) -> None:
    queue = site("fast")
    queue.jobs.enqueue(b"no task call")
    work("fast")
    assert heard.names() == ["job_failed"]
    assert (heard[0][1]["sender"], heard[0][1]["task"]) == (None, "")


@pytest.mark.parametrize("isolate", [False, True])
def test_a_cancelled_job_says_for_what_reason(
    site: Site, heard: Heard, tmp_path: Path, isolate: bool
) -> None:
    queue, path = site("default"), tmp_path / "effects"
    job = tasks.checks.enqueue(str(path))
    with serving(queue, isolate):
        wait_until(path.exists, "the task to start")
        queue.jobs.cancel(job.id, "no longer wanted")
        wait_until(lambda: len(heard) == 2, "the end")
    assert heard.names() == ["job_started", "job_cancelled"]
    assert heard.one("job_cancelled")["reason"] == "no longer wanted"


def test_a_worker_that_ends_releases(site: Site, heard: Heard, tmp_path: Path) -> None:
    queue, path = site("default"), tmp_path / "effects"
    tasks.checks.enqueue(str(path))
    with serving(queue, grace=0.01):
        wait_until(path.exists, "the task to start")
    assert heard.names() == ["job_started", "job_released"]
    assert heard.one("job_released")["reason"] == "shutdown"
    assert queue.metrics.counts("pending") == {"pending": 1}


def test_receivers_never_hold_up_the_event_loop(
    site: Site, heard: Heard, monkeypatch: pytest.MonkeyPatch
) -> None:
    # Where Django's own signals are heard, those would see to it.
    monkeypatch.setattr(runner, "heard", lambda signal: False)
    tasks.double.enqueue(4)
    work("default")
    assert heard.one("job_succeeded")["result"] == 8
    assert heard.one("job_succeeded")["thread"] == "w1-ends"


def lapse(queue: Queue, raw: redis.Redis, stalled: int = 0) -> str:
    """A job whose worker is gone."""
    (claim,) = queue.jobs.claim()
    raw.hset(queue.keys.job(claim.job_id), "stalled", stalled)
    raw.zadd(queue.keys.active, {claim.job_id: 1})
    return claim.job_id


def test_a_worker_tells_of_those_that_others_lost(
    site: Site, raw: redis.Redis, heard: Heard
) -> None:
    queue = site("default")
    tasks.echo.enqueue_many([((1,), {}), ((2,), {})])
    back, dead = lapse(queue, raw), lapse(queue, raw, stalled=2)
    with serving(queue):
        wait_until(lambda: "job_succeeded" in heard.names(), "the one that came back")
        wait_until(lambda: heard.names().count("job_stalled") == 2, "both")
    told = {
        fields["job_id"]: (fields["sender"], fields["queue"], fields["dead"])
        for name, fields in heard
        if name == "job_stalled"
    }
    assert told == {back: (None, "default", False), dead: (None, "default", True)}


def test_a_promoter_tells_of_them_too(site: Site, raw: redis.Redis, heard: Heard) -> None:
    queue = site("default")
    tasks.echo.enqueue()
    lost = lapse(queue, raw)
    Promoter([queue], stalled=tell_stalled).beat(queue)
    assert heard.one("job_stalled")["job_id"] == lost


@pytest.mark.parametrize("error", [ValueError, SystemExit])
def test_a_receiver_that_raises_is_logged_and_harms_nothing(
    site: Site, error: type[BaseException], caplog: pytest.LogCaptureFixture
) -> None:
    def receiver(**fields: Any) -> None:
        raise error("a receiver's own fault")

    job = tasks.flaky.enqueue(1)
    with (
        connected(signals.job_started, receiver),
        connected(signals.job_retried, receiver),
        connected(signals.job_succeeded, receiver),
    ):
        work("fast")
    job.refresh()
    assert (job.return_value, job.attempts) == (2, 2)
    assert caplog.text.count("a receiver's own fault") >= 4


def test_an_unheard_signal_is_not_made(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[dict[str, Any]] = []

    def send(**fields: Any) -> None:
        sent.append(fields)

    for signal in SIGNALS.values():
        assert signal.receivers == []
        monkeypatch.setattr(signal, "send_robust", send)
    jobs = tasks.flaky.enqueue(1), tasks.always_fails.using(max_attempts=1).enqueue()
    work("fast")
    assert [site("fast").jobs.state(job.id) for job in jobs] == ["completed", "dead"]
    assert sent == []


def test_the_process_of_the_worker_hears_and_not_its_children(
    site: Site, command: Callable[..., Command], tmp_path: Path
) -> None:
    path = tmp_path / "heard"
    job = tasks.echo.enqueue(1)
    env = {"ECHOMQ_TEST_HEARD": str(path)}
    worker = command("echomq_worker", "default", "--burst", "--isolate", env=env)
    assert worker.wait() == 0, worker.output()
    assert path.read_text().splitlines() == [
        f"{worker.pid} job_started {job.id}",
        f"{worker.pid} job_succeeded {job.id}",
    ]
