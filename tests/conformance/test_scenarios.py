"""EchoMQ's conformance scenarios by name, and the run over them."""

from __future__ import annotations

import json
from io import StringIO
from typing import Any

import pytest
import redis
from django.core.management import CommandError, call_command

from django_echomq.conformance import NAMES, NOT_SERVED, Result, Verdict, run
from django_echomq.queue.admin import Admin
from django_echomq.queue.metrics import Metrics
from django_echomq.wire.client import Client
from tests.queue.keyspace import contents

SERVED = [name for name in NAMES if name not in NOT_SERVED]


def told(*args: str) -> str:
    out = StringIO()
    call_command("echomq", "conformance", *args, stdout=out)
    return out.getvalue()


def everything(raw: redis.Redis) -> dict[bytes, object]:
    """Every key of the server but those of node numbers, which each client leases."""
    return {key: contents(raw, key) for key in raw.scan_iter() if key != b"{emq}:nodes"}


def break_unique_holder(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(Metrics, "unique_holder", lambda self, key: None)


@pytest.mark.parametrize("name", SERVED)
def test_scenario(client: Client, name: str) -> None:
    (result,) = run(client, [name])
    if result.verdict is Verdict.NOT_SERVED and name.startswith("native_lock"):
        pytest.skip(result.why)  # a server before fields had a time to live
    assert result == Result(name, Verdict.PASSED)


def test_every_scenario_of_the_queue_lane_batch_and_lock_families_is_served() -> None:
    assert len(NAMES) == len(set(NAMES)) == 79
    families = ("flow_", "stream_", "telemetry")
    assert all(name.startswith(families) for name in NOT_SERVED)
    assert len(SERVED) == 63


@pytest.mark.usefixtures("one_server")
def test_nothing_of_a_run_is_left_and_nothing_else_is_touched(
    client: Client, raw: redis.Redis
) -> None:
    raw.hset("emq:{conformance}:meta", "paused", "1")
    client.drive(client.mint(1))  # leaves what every client does
    before = everything(raw)
    sha = raw.script_load("return 'another application'")
    with raw.pubsub() as other:
        other.subscribe("another channel")
        other.get_message(timeout=5)
        number = raw.client_list(_type="pubsub")[-1]["id"]
        results = run(raw, ["resubscribe", "stale", "dedup_release", "starvation_drill", "events"])
        assert {result.verdict for result in results} == {Verdict.PASSED}
        assert number in [each["id"] for each in raw.client_list(_type="pubsub")]
    # What was there may have ended by itself.
    assert everything(raw).items() <= before.items()
    assert raw.hget("emq:{conformance}:meta", "paused") == b"1"
    assert raw.script_exists(sha) == [True]
    raw.delete("emq:{conformance}:meta")


def test_what_fails_says_why_and_leaves_nothing_either(
    client: Client, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    break_unique_holder(monkeypatch)
    with pytest.raises(CommandError, match=r"^1 failed: dedup\.$"):
        told("mint", "dedup", "flow_add")
    out = StringIO()
    with pytest.raises(CommandError):
        call_command("echomq", "conformance", "mint", "dedup", "flow_add", stdout=out)
    lines = out.getvalue().splitlines()
    assert lines[0] == "PASS mint"
    assert lines[1].startswith("FAIL dedup: the holder: 'JOB")
    assert lines[1].endswith("was expected, None was found")
    assert lines[2] == "---- flow_add: not yet served (flows)"
    assert lines[3] == "3 scenarios: 1 passed, 1 failed, 1 not served"
    assert not [key for key in raw.scan_iter() if b"{conformance." in key]


def test_a_queue_that_cannot_be_obliterated_is_a_failure(
    client: Client, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(Admin, "obliterate", lambda self, force=False: 1 / 0)
        (result,) = run(client, ["mint"])
    assert result.verdict is Verdict.FAILED
    assert "conformance." in result.why
    assert "ZeroDivisionError" in result.why
    for key in raw.scan_iter("emq:{conformance.*"):
        raw.delete(key)


def test_an_interrupted_run_leaves_nothing(
    client: Client, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(*args: Any) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Metrics, "unique_holder", interrupt)
    with pytest.raises(KeyboardInterrupt):
        run(client, ["dedup"])
    assert not [key for key in raw.scan_iter() if b"{conformance." in key]


def test_json_has_every_scenario_and_the_count() -> None:
    report = json.loads(told("mint", "stream_group", "--json"))
    assert (report["passed"], report["failed"], report["not_served"]) == (1, 0, 1)
    assert report["scenarios"] == [
        {"name": "mint", "verdict": "passed", "why": ""},
        {"name": "stream_group", "verdict": "not served", "why": "streams"},
    ]


def test_a_name_that_there_is_not_is_refused_with_a_hint() -> None:
    with pytest.raises(CommandError, match="did you mean fence"):
        told("fense")
