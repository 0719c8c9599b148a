"""``django_echomq.contrib.opentelemetry``: one trace from who sends to who runs."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from asgiref.sync import async_to_sync
from django.core.management import call_command
from django.db import transaction
from opentelemetry import baggage, context, trace
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode

from django_echomq.contrib.opentelemetry import instrument, uninstrument
from django_echomq.queue import Queue
from django_echomq.tasks import around
from django_echomq.tasks.envelope import Envelope
from django_echomq.tasks.runner import Runner
from django_echomq.wire.errors import PayloadTooLarge
from tests.conftest import Command
from tests.testapp import tasks

Site = Callable[[str], Queue]
pytestmark = pytest.mark.django_db(transaction=True)

PROVIDER = TracerProvider()
EXPORTER = InMemorySpanExporter()
PROVIDER.add_span_processor(SimpleSpanProcessor(EXPORTER))
TRACER = PROVIDER.get_tracer("tests")


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.getLogger("django_echomq").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("django_echomq").setLevel(logging.NOTSET)


@pytest.fixture
def traced() -> Iterator[None]:
    EXPORTER.clear()
    instrument(PROVIDER)
    yield
    uninstrument()


def spans(name: str) -> list[ReadableSpan]:
    """The spans that have ended, oldest first."""
    return [span for span in EXPORTER.get_finished_spans() if span.name == name]


def work(queue: str, **options: Any) -> None:
    call_command("echomq_worker", queue, burst=True, threads=2, verbosity=0, **options)


def identity(span: ReadableSpan) -> tuple[int, int]:
    found = span.get_span_context()
    return found.trace_id, found.span_id


def parent(span: ReadableSpan) -> tuple[int, int] | None:
    return (span.parent.trace_id, span.parent.span_id) if span.parent else None


def links(span: ReadableSpan) -> list[tuple[int, int]]:
    return [(link.context.trace_id, link.context.span_id) for link in span.links]


def test_one_trace_from_the_request_to_the_attempt(site: Site, traced: None) -> None:
    with TRACER.start_as_current_span("request"):
        job = tasks.echo.using(lane="acme", max_attempts=7).enqueue(1)
    work("default")
    (request,), (sent,), (run,) = (
        spans("request"),
        spans("enqueue default"),
        spans("process default"),
    )
    assert parent(sent) == identity(request)
    assert parent(run) == identity(sent)
    assert links(run) == [identity(sent)]
    assert (sent.kind, run.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    common = {
        "messaging.system": "echomq",
        "messaging.destination.name": "default",
        "messaging.message.id": job.id,
        "messaging.echomq.task": "tests.testapp.tasks.echo",
    }
    where = {key: v for key, v in (sent.attributes or {}).items() if key.startswith("server.")}
    assert sent.attributes == common | where | {
        "messaging.operation.type": "send",
        "messaging.operation.name": "enqueue",
        "messaging.echomq.outcome": "enqueued",
    }
    assert run.attributes == common | where | {
        "messaging.operation.type": "process",
        "messaging.operation.name": "process",
        "messaging.echomq.attempt": 1,
        "messaging.echomq.lane": "acme",
        "messaging.echomq.outcome": "completed",
    }
    assert run.status.status_code is StatusCode.UNSET


def test_the_context_is_w3cs_and_leaves_the_call_as_it_was(site: Site, traced: None) -> None:
    queue = site("default")
    with TRACER.start_as_current_span("request") as span:
        bare, laden = tasks.noop.enqueue(), tasks.echo.using(timeout=5).enqueue(1, two=2)
    payloads = [queue.jobs.get(job.id).payload for job in (bare, laden)]
    for payload in payloads:
        version, trace_id, _, _ = json.loads(payload)["options"]["trace"]["traceparent"].split("-")
        assert (version, int(trace_id, 16)) == ("00", span.get_span_context().trace_id)
    # Who knows nothing of it reads the same call.
    assert Envelope.decode(payloads[0]) == Envelope("tests.testapp.tasks.noop")
    assert Envelope.decode(payloads[1]) == Envelope(
        "tests.testapp.tasks.echo", [1], {"two": 2}, {"timeout": 5}
    )


@pytest.mark.parametrize("task", [tasks.flaky, tasks.always_fails], ids=["retried", "dead"])
def test_every_attempt_is_a_span_and_says_what_went_wrong(
    site: Site, traced: None, task: Any
) -> None:
    task.using(max_attempts=2).enqueue(1)
    work("fast")
    (sent,), (first, second) = spans("enqueue fast"), spans("process fast")
    assert parent(first) == parent(second) == identity(sent)
    attributes = [span.attributes or {} for span in (first, second)]
    assert [each["messaging.echomq.attempt"] for each in attributes] == [1, 2]
    last = "completed" if task is tasks.flaky else "dead"
    assert [each["messaging.echomq.outcome"] for each in attributes] == ["retried", last]
    kind = "builtins.ValueError" if task is tasks.flaky else "builtins.RuntimeError"
    assert attributes[0]["error.type"] == kind
    assert first.status.status_code is StatusCode.ERROR
    (event,) = first.events
    assert event.name == "exception"
    assert (event.attributes or {})["exception.type"] == kind
    assert "Traceback" in str((event.attributes or {})["exception.stacktrace"])
    assert second.status.is_ok is (last == "completed")


@pytest.mark.parametrize("task", [tasks.asks_for_retry, tasks.double], ids=["thread", "loop"])
def test_what_a_task_does_is_below_its_span(
    site: Site, traced: None, task: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    seen: list[tuple[int, object]] = []

    def look() -> SimpleNamespace:
        seen.append((trace.get_current_span().get_span_context().span_id, baggage.get_baggage("k")))
        return SimpleNamespace(attempt=2)

    monkeypatch.setattr(tasks, "current_job", look)
    token = context.attach(baggage.set_baggage("k", "v"))
    try:
        task.enqueue(2 if task is tasks.double else str(tmp_path / "effects"))
    finally:
        context.detach(token)
    work(task.queue_name)
    (run,) = spans(f"process {task.queue_name}")
    assert seen == [(identity(run)[1], "v")]
    assert (run.attributes or {})["messaging.echomq.outcome"] == "completed"
    assert not trace.get_current_span().get_span_context().is_valid


def test_many_calls_are_sent_in_one_span(site: Site, traced: None) -> None:
    tasks.echo.enqueue_many([((n,), {}) for n in range(3)])
    work("default")
    (sent,), runs = spans("enqueue default"), spans("process default")
    assert (sent.attributes or {})["messaging.batch.message_count"] == 3
    assert "messaging.message.id" not in (sent.attributes or {})
    assert [parent(run) for run in runs] == [identity(sent)] * 3


def test_links_only_begins_a_trace_per_attempt(site: Site, traced: None) -> None:
    instrument(PROVIDER, links_only=True)
    tasks.echo.enqueue_many([((1,), {}), ((2,), {})])
    work("default")
    (sent,), runs = spans("enqueue default"), spans("process default")
    assert [parent(run) for run in runs] == [None, None]
    assert [links(run) for run in runs] == [[identity(sent)]] * 2
    assert len({identity(span)[0] for span in (sent, *runs)}) == 3


def test_every_way_of_sending_is_traced(site: Site, traced: None) -> None:
    with transaction.atomic():
        tasks.noop.enqueue_on_commit()
        assert spans("enqueue default") == []
    async_to_sync(tasks.noop.aenqueue)()
    queue, backend = site("default"), tasks.noop.get_backend()
    (own,) = queue.drive(queue.client.mint(1))
    assert backend.enqueue_as(tasks.noop, (), {}, own).id == own
    assert backend.enqueue_as(tasks.noop, (), {}, own).outcome == "duplicate"
    sent = spans("enqueue default")
    assert [(span.attributes or {})["messaging.echomq.outcome"] for span in sent] == [
        "enqueued",
        "enqueued",
        "enqueued",
        "duplicate",
    ]
    work("default")
    assert {parent(run) for run in spans("process default")} == {identity(s) for s in sent[:3]}


def test_what_could_not_be_sent_is_an_error(site: Site, traced: None) -> None:
    with pytest.raises(PayloadTooLarge):
        tasks.echo.enqueue("x" * 2**20)
    (sent,) = spans("enqueue default")
    assert sent.status.status_code is StatusCode.ERROR
    assert (sent.attributes or {})["error.type"] == "django_echomq.wire.errors.PayloadTooLarge"


def test_a_payload_without_room_goes_without(site: Site, traced: None) -> None:
    queue = site("default")
    head = len(Envelope("tests.testapp.tasks.echo", ["", ""]).encode())
    text = "x" * (queue.options.max_payload - head)
    job = tasks.echo.enqueue(text, "")
    assert len(queue.jobs.get(job.id).payload) == queue.options.max_payload
    work("default")
    (run,) = spans("process default")
    assert (parent(run), links(run)) == (None, [])


@pytest.mark.parametrize(
    "options",
    [
        b'{"trace":{"traceparent":"00-nonsense"}}',
        b'{"trace":{"traceparent":7}}',
        b'{"trace":{"traceparent":{"trace":{}}}}',
        b'[{"trace":{"traceparent":""}}]',
        b'{"x":[{"trace":{}}]}',
    ],
)
def test_what_another_wrote_there_harms_nothing(site: Site, traced: None, options: bytes) -> None:
    queue = site("default")
    payload = b'{"task":"tests.testapp.tasks.echo","options":' + options + b"}"
    job_id = queue.jobs.enqueue(payload).job_id
    work("default")
    # Options that are no object are refused, whoever looks.
    assert queue.jobs.state(job_id) == ("dead" if options[:1] == b"[" else "completed")
    (run,) = spans("process default")
    assert (parent(run), links(run)) == (None, [])


def test_nothing_goes_along_unless_it_was_switched_on(site: Site) -> None:
    EXPORTER.clear()
    assert not around.anything()
    runner = Runner("w")
    assert runner._handler == runner._run
    runner.close()
    job = tasks.echo.enqueue(1)
    assert b"options" not in site("default").jobs.get(job.id).payload
    work("default")
    assert EXPORTER.get_finished_spans() == ()


def test_a_worker_process_goes_on_with_the_trace(
    site: Site, traced: None, command: Callable[..., Command], tmp_path: Path
) -> None:
    tasks.echo.enqueue(1)
    path = tmp_path / "spans"
    env = {
        "DJANGO_SETTINGS_MODULE": "tests.contrib.traced_settings",
        "ECHOMQ_TEST_SPANS": str(path),
    }
    worker = command("echomq_worker", "default", "--burst", env=env)
    assert worker.wait() == 0, worker.output()
    (sent,) = spans("enqueue default")
    (run,) = [json.loads(line) for line in path.read_text().splitlines()]
    assert int(run["parent_id"], 16) == identity(sent)[1]
    assert int(run["context"]["trace_id"], 16) == identity(sent)[0]
    assert run["attributes"]["messaging.echomq.outcome"] == "completed"
