"""``settings.ECHOMQ``: every fault is told, with a hint."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.test import override_settings

from django_echomq import Fixed, get_queue
from django_echomq.queue import Queue
from django_echomq.queue.backoff import Jitter
from django_echomq.queues import get_client
from tests.testapp import tasks

URL = {"URL": "redis://127.0.0.1:1/0"}


def problems(echomq: Any, **others: Any) -> list[tuple[str, str, str]]:
    with override_settings(ECHOMQ=echomq, **others):
        return [
            (str(p.id), p.msg, p.hint or "")
            for p in run_checks(tags=["echomq"])
            if p.id not in {"echomq.E006", "echomq.E007"}
        ]


def test_the_settings_of_the_suite_are_sound() -> None:
    assert run_checks(tags=["echomq"]) == []


@pytest.mark.parametrize(
    ("echomq", "number", "words"),
    [
        ([], "E001", "must be a dict"),
        ({"QUEUE": {}, "CONNECTIONS": {"default": URL}}, "E001", "Did you mean 'QUEUES'"),
        ({"CONNECTIONS": {"default": {}}}, "E002", "Give one of"),
        ({"CONNECTIONS": {"default": {"ULR": "x", **URL}}}, "E002", "Did you mean 'URL'"),
        ({"CONNECTIONS": {"default": {"URL": "http://x"}}}, "E002", "redis://"),
        ({"CONNECTIONS": {"default": {"URL": "redis://h:port"}}}, "E002", "cannot be read"),
        ({"CONNECTIONS": {"default": {**URL, "EMBEDDED": "x"}}}, "E002", "one server"),
        ({"CONNECTIONS": {"default": {"CACHE": "defualt"}}}, "E002", "Did you mean 'default'"),
        ({"CONNECTIONS": {"default": {"SENTINELS": [("h", 1)]}}}, "E002", "SERVICE"),
        ({"CONNECTIONS": {"default": {"CLUSTER": ["h:1"]}}}, "E002", "not served"),
        (
            {"CONNECTIONS": {"default": {**URL, "OPTIONS": {"decode_responses": True}}}},
            "E002",
            "decode_responses",
        ),
        ({"CONNECTIONS": {"default": URL}, "QUEUES": {"emq": {}}}, "E003", "reserved"),
        ({"CONNECTIONS": {"default": URL}, "QUEUES": {"a b": {}}}, "E003", "cannot name"),
        ({"CONNECTIONS": {"default": URL}, "QUEUES": {"q": {"LEESE": 1}}}, "E003", "'LEASE'"),
        ({"CONNECTIONS": {"default": URL}, "QUEUES": {"q": {"lease": 1}}}, "E003", "'LEASE'"),
        ({"CONNECTIONS": {"default": URL}, "QUEUES": {"q": {"LEASE": 0}}}, "E003", "at least"),
        ({"CONNECTIONS": {"default": URL}, "QUEUES": {"q": {"LEASE": "1"}}}, "E003", "seconds"),
        ({"CONNECTIONS": {"default": URL}, "QUEUES": {"q": {"MAX_ATTEMPTS": 0}}}, "E003", "1 or"),
        ({"CONNECTIONS": {"default": URL}, "QUEUES": {"q": {"BACKOFF": 5}}}, "E003", "backoff"),
        (
            {"CONNECTIONS": {"default": URL}, "QUEUES": {"q": {"CONNECTION": "defalt"}}},
            "E004",
            "Did you mean 'default'",
        ),
    ],
    ids=repr,
)
def test_a_fault_is_told_with_a_hint(echomq: Any, number: str, words: str) -> None:
    found = problems(echomq)
    assert any(
        ident == f"echomq.{number}" and words in f"{message} {hint}"
        for ident, message, hint in found
    ), found


def test_a_password_is_not_repeated() -> None:
    echomq = {"CONNECTIONS": {"default": {"URL": "redis://u:hunter2@h:port/0"}}}
    assert "hunter2" not in repr(problems(echomq))
    with override_settings(ECHOMQ=echomq), pytest.raises(ImproperlyConfigured) as caught:
        get_client()
    assert "hunter2" not in str(caught.value)


def test_a_task_on_an_undefined_queue_is_told() -> None:
    assert tasks.always_fails.queue_name == "fast"
    with override_settings(ECHOMQ={"CONNECTIONS": {"default": URL}, "QUEUES": {"fats": {}}}):
        found = [p for p in run_checks(tags=["echomq"]) if p.id == "echomq.E006"]
    assert any("always_fails" in p.msg and p.hint == "Did you mean 'fats'?" for p in found)


def test_a_backend_of_an_undefined_queue_is_told() -> None:
    backend = {"BACKEND": "django_echomq.backend.EchoMQBackend", "QUEUES": ["default", "mial"]}
    with override_settings(TASKS={"default": backend}):
        found = [p for p in run_checks(tags=["echomq"]) if p.id == "echomq.E007"]
    assert [(p.hint, "'mial'" in p.msg) for p in found] == [("Did you mean 'mail'?", True)]


def test_using_a_faulty_queue_says_the_same(site: Callable[[str], Queue]) -> None:
    with (
        override_settings(ECHOMQ={"CONNECTIONS": {"default": URL}, "QUEUES": {"q": {"LEASE": 0}}}),
        pytest.raises(ImproperlyConfigured, match=r"LEASE.*echomq\.E003"),
    ):
        get_queue("q")


def test_options_reach_the_queue() -> None:
    with override_settings(
        ECHOMQ={
            "CONNECTIONS": {"default": URL},
            "QUEUES": {
                "q": {
                    "LEASE": timedelta(minutes=2),
                    "MAX_ATTEMPTS": 7,
                    "BACKOFF": {"TYPE": "fixed", "MS": 5, "JITTER": True},
                    "MAX_STALLED": 0,
                    "KEEP_COMPLETED": 0,
                    "KEEP_COMPLETED_MAX": 5,
                    "KEEP_DEAD": 60,
                    "MAX_PAYLOAD": 10,
                    "EVENTS": False,
                }
            },
        }
    ):
        options = get_queue("q").options
    assert options.lease_ms == 120_000
    assert options.max_attempts == 7
    assert options.backoff == Jitter(Fixed(5))
    assert options.max_stalled == 0
    assert (options.keep_completed_ms, options.keep_completed_max) == (0, 5)
    assert (options.keep_dead_ms, options.max_payload) == (60_000, 10)
    assert options.events is False


def test_without_settings_in_development_the_server_is_embedded(tmp_path: Path) -> None:
    with override_settings(DEBUG=True, BASE_DIR=tmp_path):
        assert problems(None) == []
    with override_settings(ECHOMQ=None, DEBUG=True, BASE_DIR=tmp_path):
        assert get_client().endpoint.label == f"embedded:{tmp_path / '.valkey'}"


def test_without_settings_in_production_a_check_says_what_to_write() -> None:
    ((ident, _, hint),) = problems(None, DEBUG=False)
    assert ident == "echomq.E005"
    assert "ECHOMQ = {'CONNECTIONS'" in hint


def test_a_cache_alias_lends_its_server(site: Callable[[str], Queue]) -> None:
    path = site("default").client.endpoint.options.get("path")
    if path is None:
        pytest.skip("the run's server is not on a unix socket")
    caches = {
        "default": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": f"unix://{path}?db=0",
            "KEY_PREFIX": "never used for jobs",
        }
    }
    echomq = {"CONNECTIONS": {"default": {"CACHE": "default"}}, "QUEUES": {"default": {}}}
    job_id = site("default").jobs.enqueue(b"x").job_id
    with override_settings(CACHES=caches, ECHOMQ=echomq):
        assert get_queue("default").jobs.state(job_id) == "pending"


def test_a_cache_that_decodes_is_refused() -> None:
    caches = {
        "default": {
            "BACKEND": "django_redis.cache.RedisCache",
            "LOCATION": "redis://127.0.0.1:1/0",
            "OPTIONS": {"CONNECTION_POOL_KWARGS": {"decode_responses": True}},
        }
    }
    echomq = {"CONNECTIONS": {"default": {"CACHE": "default"}}}
    with (
        override_settings(CACHES=caches, ECHOMQ=echomq),
        pytest.raises(ImproperlyConfigured, match="decode_responses"),
    ):
        get_client()
