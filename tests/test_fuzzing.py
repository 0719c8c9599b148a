"""Whatever is put before it, each decoder reads it or refuses it in the way that it says."""

from __future__ import annotations

import json
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from django.test import override_settings
from hypothesis import example, given
from hypothesis import strategies as st

from django_echomq import conf
from django_echomq.queue import Queue, Rate
from django_echomq.queue.backoff import backoff_from
from django_echomq.queue.clock import duration_ms, instant_ms
from django_echomq.queue.events import Event
from django_echomq.queue.repeat import _schedule
from django_echomq.queue.values import Job
from django_echomq.queue.workers import _info
from django_echomq.tasks.envelope import Envelope, task_name
from django_echomq.tasks.verdicts import BadPayload
from django_echomq.wire.endpoint import Endpoint
from django_echomq.wire.errors import EchoMQError
from tests.conftest import Command

SECRET = "Zz9secretZz9"
ID = "JOB0NsVQMCRgHI"

scalars = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(max_size=20)
    | st.sampled_from(["1e999", "-1", "nan", "100/s", "9" * 400, "0 0 30 2 *", "\ud800", "\0"])
)


def trees(names: st.SearchStrategy[str]) -> st.SearchStrategy[Any]:
    return st.recursive(
        scalars,
        lambda inner: (
            st.lists(inner, max_size=4) | st.dictionaries(names | st.text(max_size=5), inner)
        ),
        max_leaves=12,
    )


values = trees(st.sampled_from(["task", "args", "kwargs", "options", "TYPE", "MS", "event", "job"]))
number_like = st.binary(max_size=8) | st.sampled_from(
    [b"1", b"-1", b"1e999", b"nan", b"inf", b"9" * 30, b"9" * 5_000, b" 5", b"\xd9\xa3"]
)


@given(
    st.sampled_from(["redis", "rediss", "valkey", "unix", "http", ""]),
    st.text(max_size=12),
    st.text(max_size=30),
)
@example("redis", ":", "h:99999999/0")
@example("redis", "", "[::1/0")
@example("redis", "", "h/0?socket_timeout=soon")
@example("redis", "", "h/0?protocol=9&db=x")
@example("unix", "/", "?db=x")
@example("unix", "/", "")
@example("unix", "@/", "/path")
def test_a_server_url(scheme: str, before: str, after: str) -> None:
    """Its refusal and its endpoint keep the secret, wherever in the user part that stands."""
    url = f"{scheme}://user:{before}{SECRET}@{after}"
    try:
        found = Endpoint.from_url(url)
    except (ValueError, EchoMQError) as error:
        # A traceback shows what came before it too, unless that is suppressed.
        before = None if error.__suppress_context__ else error.__context__
        shown = f"{error!r} {error} {before!r}"
    else:
        shown = f"{found!r} {found.label}"
        found.pool()
    assert SECRET not in shown


_names = [*conf._TOP, *conf._CONNECTION, *conf._QUEUE_OPTIONS, *conf._SCHEDULE_OPTIONS]
_names += ["default", "TASK", "QUEUE", "ARGS", "KWARGS", "REDACT", "CONNECTION", "TYPE", "WEIGHT"]
branch = trees(st.sampled_from(_names))


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "CONNECTIONS": branch | st.dictionaries(st.just("default"), branch),
            "QUEUES": branch
            | st.dictionaries(
                st.just("q"), st.dictionaries(st.sampled_from([*conf._QUEUE_OPTIONS]), branch)
            ),
            "SCHEDULES": branch
            | st.dictionaries(
                st.just("s"), st.dictionaries(st.sampled_from([*conf._SCHEDULE_OPTIONS]), branch)
            ),
            "CONSOLE": branch,
        },
    )
    | branch
)
def test_the_settings(echomq: Any) -> None:
    """Every fault of them is a problem with a sentence; none is an exception."""
    with override_settings(ECHOMQ=echomq):
        found = conf._Reader().read()
    assert all(problem.message for problem in found.problems)


@given(values | st.binary(max_size=50))
def test_an_envelope(value: Any) -> None:
    payload = value if isinstance(value, bytes) else json.dumps(value).encode()
    with suppress(BadPayload):
        Envelope.decode(payload)
    assert isinstance(task_name(payload), str)


@given(values | st.binary(max_size=50))
def test_an_event(value: Any) -> None:
    message = value if isinstance(value, bytes) else json.dumps(value).encode()
    event = Event.from_message(message)
    assert event is None or all(isinstance(text, str) for text in event.extras.values())


@given(values)
def test_what_a_user_writes(value: Any) -> None:
    for read in (
        Rate.read,
        backoff_from,
        lambda it: duration_ms(it, "it"),
        lambda it: instant_ms(it, "it"),
    ):
        with suppress(TypeError, ValueError):
            read(value)


@given(
    st.dictionaries(
        st.sampled_from(
            [
                *(b"state", b"attempts", b"payload", b"history", b"started_at", b"progress"),
                *(b"priority", b"finished_at", b"stalled", b"group", b"attempts_base"),
                *(b"checkpoint", b"schedule"),
            ]
        )
        | st.binary(max_size=6),
        number_like | values.map(lambda value: json.dumps(value).encode()),
    )
)
def test_a_row(row: dict[bytes, bytes]) -> None:
    job = Job.from_row(ID, "pending", [part for pair in row.items() for part in pair])
    assert job.id == ID
    repr((job, job.history, job.progress, job.attempts, job.started_at))


@given(
    st.dictionaries(
        st.sampled_from([b"every_ms", b"cron", b"tz", b"template", b"lane", b"priority"])
        | st.sampled_from([b"fired", b"start_ms", b"end_ms", b"catch_up", b"last_at", b"source"]),
        number_like | st.sampled_from([b"* * * * *", b"Europe/Berlin", b"../../etc/passwd"]),
    ),
    number_like,
)
def test_a_schedule(record: dict[bytes, bytes], score: bytes) -> None:
    schedule = _schedule(b"tick", score, [part for pair in record.items() for part in pair])
    repr(schedule)


@given(st.binary(max_size=10), values, number_like, st.binary(max_size=10))
def test_a_worker(name: bytes, info: Any, beat: bytes, told: bytes) -> None:
    repr(_info(name, json.dumps(info).encode(), beat, told))


def test_a_worker_takes_anything_as_a_payload(
    site: Callable[[str], Queue], command: Callable[..., Command]
) -> None:
    """Each ends as completed or dead, and the worker ends in peace."""
    queue = site("mail")
    task = "tests.testapp.tasks.echo"
    odd: list[Any] = [-1, 0, 1e308, "soon", None, [], {}, True, 2**70, {"TYPE": "fixed", "MS": -1}]
    payloads: list[bytes] = [
        *(json.dumps({"task": task, "options": {name: value}}).encode()
          for name in ("max_attempts", "backoff", "timeout") for value in odd),
        *(json.dumps({"task": value}).encode() for value in odd),
        *(json.dumps({"task": task, "args": value, "kwargs": value}).encode() for value in odd),
        b'{"task":"%s","args":%s}' % (task.encode(), b"[" * 20_000 + b"]" * 20_000),
        b'{"task":"%s","args":[%s]}' % (task.encode(), b"9" * 10_000),
        b'{"task":"%s","kwargs":{"\\ud800":"\\udfff"}}' % task.encode(),
        b'{"task":"%s","args":[NaN,Infinity]}' % task.encode(),
        b'{"task":"__import__","args":["os"]}', b'{"task":"os.system","args":["true"]}',
        b"", b"\0", b"\xff" * 1_000, b"[" * 100_000, b"x" * 1_000_000,
    ]  # fmt: skip
    ids = [queue.jobs.enqueue(payload).job_id for payload in payloads]
    worker = command("echomq_worker", "mail", "--burst")
    assert worker.wait() == 0, worker.output()
    states = {queue.jobs.state(job_id) for job_id in ids}
    # A task that nobody knows may be one of a deploy to come: it is tried again.
    assert states <= {"completed", "dead", "scheduled"}
    assert queue.metrics.counts("pending", "active") == {"pending": 0, "active": 0}
    for word in ("could not be settled", "Claiming from", "Running job"):
        assert word not in worker.output()
