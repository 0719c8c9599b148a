"""``settings.ECHOMQ``: every fault is told, with a hint."""

from __future__ import annotations

from collections.abc import Callable
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from django.core.checks import run_checks
from django.core.exceptions import ImproperlyConfigured
from django.core.management import call_command
from django.test import override_settings

from django_echomq import Fixed, get_queue
from django_echomq.queue import LaneOptions, Queue, Rate
from django_echomq.queue.backoff import Jitter
from django_echomq.queues import get_client
from django_echomq.worker import Promoter
from tests.testapp import tasks

URL = {"URL": "redis://127.0.0.1:1/0"}
SENTINEL = {"SENTINELS": [("h", 1)], "SERVICE": "s"}


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
        ({"CONNECTIONS": {"default": {"CLUSTER": "h:1"}}}, "E002", "is a list of nodes"),
        ({"CONNECTIONS": {"default": {"CLUSTER": ["h:1", "h:x"]}}}, "E002", "node 2 of CLUSTER"),
        (
            {"CONNECTIONS": {"default": {"SENTINELS": ["h:1"], "SERVICE": "s"}}},
            "E002",
            "pairs of host and port",
        ),
        (
            {"CONNECTIONS": {"default": {**SENTINEL, "SENTINEL_OPTIONS": {"pasword": "x"}}}},
            "E002",
            "'pasword'",
        ),
        ({"CONNECTIONS": {"default": {**URL, "SENTINEL_OPTIONS": {}}}}, "E002", "to SENTINELS"),
        ({"CONNECTIONS": {"default": {**SENTINEL, "SENTINEL_OPTIONS": 1}}}, "E002", "a dict"),
        ({"CONNECTIONS": {"default": {**URL, "OPTIONS": ["x"]}}}, "E002", "a dict"),
        ({"CONNECTIONS": {"default": {**URL, "OPTIONS": {"soket_timeout": 1}}}}, "E002", "'soket"),
        ({"CONNECTIONS": {"default": {**SENTINEL, "OPTIONS": {1: 2}}}}, "E002", "strings"),
        ({"CONNECTIONS": {"default": {"URL": "redis://h?nonsense=1"}}}, "E002", "'nonsense'"),
        (
            {"CONNECTIONS": {"default": {"CLUSTER": ["h:1"], "OPTIONS": {"nonsense": 1}}}},
            "E002",
            "'nonsense'",
        ),
        ({"CONNECTIONS": {"default": {**URL, "REPLICA": 1}}}, "E002", "Did you mean 'REPLICAS'"),
        ({"CONNECTIONS": {"default": {**URL, "REPLICAS": -1}}}, "E002", "0 or more"),
        (
            {"CONNECTIONS": {"default": {**URL, "REPLICAS": 1, "REPLICAS_TIMEOUT": 0}}},
            "E002",
            "at least",
        ),
        ({"CONNECTIONS": {"default": {**URL, "REPLICAS_TIMEOUT": 1}}}, "E002", "for REPLICAS"),
        (
            {"CONNECTIONS": {"default": {"EMBEDDED": "x", "REPLICAS": 1}}},
            "E002",
            "has no replicas",
        ),
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
        *(
            ({"CONNECTIONS": {"default": URL}, "QUEUES": {"q": options}}, "E003", words)
            for options, words in (
                ({"CONCURRENCY": 0}, "between 1 and"),
                ({"CONCURRENCY": "5"}, "whole number"),
                ({"RATE_LIMIT": "5 a day"}, "'5000/m'"),
                ({"RATE_LIMIT": "0/s"}, "at least one"),
                ({"RATE_LIMIT": "200000/m"}, "such as '3333/s'"),
                ({"RATE_LIMIT": 1.5}, "per second"),
                ({"PARTITIONS": "4"}, "a whole number"),
                ({"PARTITIONS": 65}, "between 1 and 64"),
                ({"PARTITIONS": 0}, "between 1 and 64"),
                ({"PARTITIONS": 4, "CONCURRENCY": 3}, "fewer PARTITIONS"),
                ({"PARTITIONS": 4, "RATE_LIMIT": "3/s"}, "fewer PARTITIONS"),
                ({"CONNECTION": ["default", "default"]}, "2 connections for 1"),
                ({"CONNECTION": [], "PARTITIONS": 2}, "at least one"),
                ({"LANES": ["acme"]}, "a dict of lanes"),
                ({"LANES": {"a b": {}}}, "cannot name a lane"),
                ({"LANES": {"acme": 3}}, "'acme' must be a dict"),
                ({"LANES": {"acme": {"WEIHGT": 3}}}, "Did you mean 'WEIGHT'"),
                ({"LANES": {"acme": {"WEIGHT": 0}}}, "the WEIGHT of 'acme' lies between"),
                ({"LANES": {"acme": {"LIMIT": "3"}}}, "the LIMIT of 'acme' is a whole number"),
            )
        ),
        (
            {"CONNECTIONS": {"default": URL}, "QUEUES": {"q": {"CONNECTION": "defalt"}}},
            "E004",
            "Did you mean 'default'",
        ),
        (
            {
                "CONNECTIONS": {"default": URL},
                "QUEUES": {"q": {"PARTITIONS": 2, "CONNECTION": ["default", "defalt"]}},
            },
            "E004",
            "Did you mean 'default'",
        ),
        (
            {"CONNECTIONS": {"default": URL}, "QUEUES": {"q": {"PARTITIONS": 8}, "q.p7": {}}},
            "E003",
            "'q.p7'] has the name of a partition of 'q'",
        ),
        (
            {"CONNECTIONS": {"default": URL}, "QUEUES": {"q" * 126: {"PARTITIONS": 8}}},
            "E003",
            "too long",
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


def test_partitions_take_turns_on_their_connections() -> None:
    other = {"URL": "redis://127.0.0.2:1/0"}
    echomq = {
        "CONNECTIONS": {"a": URL, "b": other},
        "QUEUES": {
            "q": {"PARTITIONS": 3, "CONNECTION": ["a", "b"], "CONCURRENCY": 10},
            "one": {"PARTITIONS": 1, "CONNECTION": "a"},
            "none": {"PARTITIONS": None, "CONNECTION": "a"},
            # No partition of q has this name.
            "q.p3": {"CONNECTION": "a"},
        },
    }
    assert problems(echomq) == []
    with override_settings(ECHOMQ=echomq):
        queue = get_queue("q")
        assert [part.keys.queue for part in queue.parts] == ["q.p0", "q.p1", "q.p2"]
        a, b = get_client("a"), get_client("b")
        assert [part.client for part in queue.parts] == [a, b, a]
        assert [part.options.concurrency for part in queue.parts] == [4, 3, 3]
        assert [get_queue(name).parts[0].keys.queue for name in ("one", "none")] == ["one", "none"]


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
                    "CONCURRENCY": 4,
                    "RATE_LIMIT": "5000/m",
                    "LANES": {"acme": {"WEIGHT": 3, "LIMIT": 10}, "plain": {"LIMIT": None}},
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
    assert options.concurrency == 4
    assert options.rate_limit == Rate(5_000, 60_000)
    assert options.lanes == {"acme": LaneOptions(3, 10), "plain": LaneOptions()}
    assert options.events is False


def test_limits_are_none_by_default_and_may_be_written_so() -> None:
    for written in ({}, {"CONCURRENCY": None, "RATE_LIMIT": None, "LANES": {}}):
        with override_settings(ECHOMQ={"CONNECTIONS": {"default": URL}, "QUEUES": {"q": written}}):
            assert problems({"CONNECTIONS": {"default": URL}, "QUEUES": {"q": written}}) == []
            options = get_queue("q").options
        assert (options.concurrency, options.rate_limit, options.lanes) == (None, None, {})
        assert options.events is True


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


@pytest.mark.parametrize("command", ["echomq_worker", "echomq_promoter"])
def test_limits_are_on_the_server_once_a_command_serves(
    site: Callable[[str], Queue],
    raw: redis.Redis,
    monkeypatch: pytest.MonkeyPatch,
    command: str,
) -> None:
    monkeypatch.setattr(Promoter, "run", lambda self: [self.beat(each) for each in self._queues])
    keys = site("mail").keys
    limits = {"CONCURRENCY": 4, "RATE_LIMIT": "7/m", "LANES": {"acme": {"WEIGHT": 3, "LIMIT": 2}}}
    with override_settings(ECHOMQ={**settings.ECHOMQ, "QUEUES": {"mail": limits}}):
        queue = get_queue("mail")
        queue.jobs.enqueue_many([b"x"] * 5, lane="acme")
        options = {"burst": True} if command == "echomq_worker" else {}
        call_command(command, "mail", verbosity=0, **options)
        lanes = queue.lanes.all()
    assert raw.hmget(keys.meta, "concurrency", "max", "period") == [b"4", b"7", b"60000"]
    assert [(lane.name, lane.weight, lane.limit) for lane in lanes] == [("acme", 3, 2)]
    assert raw.zcard(keys.active) == 0
