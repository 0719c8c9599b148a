"""``django_echomq.contrib.prometheus``: what a scrape tells, what it costs, and who may read it."""

from __future__ import annotations

import copy
import logging
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis
from django.conf import settings
from django.contrib.auth.models import AnonymousUser, User
from django.core.checks import run_checks
from django.core.management import call_command
from django.test import Client as Browser
from django.test import RequestFactory, override_settings
from prometheus_client import CollectorRegistry, generate_latest
from prometheus_client.openmetrics.parser import (
    text_string_to_metric_families as openmetrics_families,
)
from prometheus_client.parser import text_string_to_metric_families

from django_echomq.contrib.prometheus import EchoMQCollector
from django_echomq.contrib.prometheus.collector import BOUNDS, DEAD_LOOKED_AT
from django_echomq.contrib.prometheus.views import metrics
from django_echomq.queue import Queue
from django_echomq.wire.client import Client
from tests.conftest import Command, wait_until
from tests.console.conftest import user_with
from tests.testapp import tasks

Site = Callable[[str], Queue]
ECHO = b'{"task":"tests.testapp.tasks.echo"}'
TOKEN = {**settings.ECHOMQ, "PROMETHEUS": {"TOKEN": "s3cret"}}


class Scrape(dict[tuple[str, frozenset[tuple[str, str]]], float]):
    """Values by name and labels."""

    def __init__(self, text: str = "") -> None:
        if not text:
            registry = CollectorRegistry(auto_describe=True)
            registry.register(EchoMQCollector())
            text = generate_latest(registry).decode()
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                key = sample.name, frozenset(sample.labels.items())
                assert key not in self
                self[key] = sample.value

    def __call__(self, name: str, **labels: str) -> float | None:
        return self.get((name, frozenset(labels.items())))

    def names(self) -> set[str]:
        return {name for name, _ in self}


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    logging.getLogger("django_echomq").setLevel(logging.CRITICAL)
    yield
    logging.getLogger("django_echomq").setLevel(logging.NOTSET)


def with_queues(**queues: dict[str, Any]) -> override_settings:
    return override_settings(ECHOMQ={**settings.ECHOMQ, "QUEUES": queues})


@pytest.mark.django_db(transaction=True)
def test_a_scrape_tells_what_happened(site: Site) -> None:
    queue = site("fast")
    tasks.flaky.enqueue_many([((0,), {}), ((0,), {}), ((1,), {})])
    tasks.always_fails.using(max_attempts=1).enqueue()
    queue.jobs.cancel(tasks.flaky.enqueue(0).id)
    call_command("echomq_worker", "fast", burst=True, threads=1, verbosity=0)
    tasks.flaky.enqueue(0)
    queue.jobs.enqueue_in(b"x", 3600)
    queue.admin.pause()
    scrape = Scrape()
    assert [
        scrape("echomq_jobs", queue="fast", state=state)
        for state in ("pending", "active", "scheduled", "dead")
    ] == [1, 0, 1, 1]
    assert [
        scrape(f"echomq_jobs_{what}_total", queue="fast")
        for what in ("enqueued", "completed", "failed", "cancelled", "retried")
    ] == [7, 3, 1, 1, 1]
    # Three that completed, one of them twice, and the one that died.
    assert scrape("echomq_job_run_seconds_bucket", queue="fast", le="+Inf") == 5
    oldest = scrape("echomq_oldest_wait_seconds", queue="fast")
    assert oldest is not None
    assert 0 <= oldest < 60
    assert scrape("echomq_queue_paused", queue="fast") == 1
    assert scrape("echomq_queue_paused", queue="mail") == 0
    assert scrape("echomq_oldest_wait_seconds", queue="mail") == 0
    assert scrape("echomq_up", connection="default") == 1
    assert scrape("echomq_queue_up", queue="fast") == 1
    assert scrape("echomq_scrape_duration_seconds") is not None


def test_histograms_are_cumulative_and_only_grow(site: Site, raw: redis.Redis) -> None:
    queue = site("default")
    hour = int(raw.time()[0]) // 3600  # type: ignore[index]
    key = queue.keys.base + b"stats:l:%d" % hour
    # Below 1.41 ms, from 2.83 to 4, from 4 to 5.66, and more than nine days.
    raw.hset(key, mapping={"w0": 1, "w3": 2, "w4": 4, "w59": 8})

    def buckets() -> list[float | None]:
        scrape = Scrape()
        bounds = [*map(str, BOUNDS), "+Inf"]
        return [scrape("echomq_job_wait_seconds_bucket", queue="default", le=le) for le in bounds]

    first = buckets()
    assert first[:3] == [1, 3, 7]
    assert first[3:] == [7] * (len(BOUNDS) - 3) + [15]
    raw.hincrby(key, "w3", 1)
    assert buckets()[:3] == [1, 4, 8]


def test_limits_and_lanes_are_those_of_the_settings(site: Site) -> None:
    options = {
        "CONCURRENCY": 1,
        "RATE_LIMIT": "120/m",
        "LANES": {"acme": {"WEIGHT": 2}, "void": {"LIMIT": 5}},
    }
    with with_queues(default=options):
        queue = site("default")
        queue.admin.configure()
        for lane in ("acme", "acme", "someone-else"):
            queue.jobs.enqueue(ECHO, lane=lane)
        queue.jobs.claim()
        scrape = Scrape()
    assert scrape("echomq_queue_limited", queue="default") == 1
    assert scrape("echomq_queue_concurrency_limit", queue="default") == 1
    assert scrape("echomq_queue_rate_limit_per_second", queue="default") == 2
    lanes = {labels for name, labels in scrape if name == "echomq_lane_jobs"}
    assert {dict(each)["lane"] for each in lanes} == {"acme", "void"}
    assert scrape("echomq_lane_jobs", queue="default", lane="void") == 0
    pending = scrape("echomq_jobs", queue="default", state="pending")
    assert (pending, scrape("echomq_jobs", queue="default", state="active")) == (2, 1)


def test_dead_jobs_are_sorted_by_tasks_that_are_known(site: Site) -> None:
    queue = site("default")
    queue.jobs.enqueue_many([b'{"task":"made.up.%d"}' % n for n in range(60)])
    queue.jobs.enqueue_many([b"no task call", b"x" * 10_000, *[ECHO] * 50])
    for claim in queue.jobs.claim(112):
        queue.jobs.retry(claim, max_attempts=1)
    scrape = Scrape()
    assert scrape("echomq_jobs", queue="default", state="dead") == 112
    found = {
        dict(labels)["task"]: value
        for (name, labels), value in scrape.items()
        if name == "echomq_dead_newest_jobs"
    }
    assert sorted(found) == ["other", "tests.testapp.tasks.echo"]
    assert sum(found.values()) == DEAD_LOOKED_AT


@pytest.mark.parametrize(("lanes", "steps"), [(0, 1), (31, 1), (33, 2), (70, 3)])
def test_a_scrape_is_one_round_trip_and_one_more_per_32_lanes(
    site: Site, monkeypatch: pytest.MonkeyPatch, lanes: int, steps: int
) -> None:
    for n in range(lanes):
        site("mail").jobs.enqueue(ECHO, lane=f"lane-{n}")
    Scrape()  # the scripts are on the server from here on
    trips: list[int] = []
    run_many = Client.run_many

    def counting(self: Client, calls: Any, *args: Any, **kwargs: Any) -> Any:
        trips.append(len(calls))
        return run_many(self, calls, *args, **kwargs)

    monkeypatch.setattr(Client, "run_many", counting)
    scrape = Scrape()
    assert scrape("echomq_jobs", queue="mail", state="pending") == lanes
    # All queues at once.
    assert trips == [4 * len(settings.ECHOMQ["QUEUES"]), *[1] * (steps - 1)]


def test_registering_reads_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def drive(self: Client, steps: Any) -> Any:
        raise AssertionError("the server was asked")

    monkeypatch.setattr(Client, "drive", drive)
    registry = CollectorRegistry(auto_describe=True)
    registry.register(EchoMQCollector())
    with pytest.raises(ValueError, match="Duplicated"):
        registry.register(EchoMQCollector())


def test_what_can_be_told_is_described(site: Site) -> None:
    described = {family.name for family in EchoMQCollector().describe()}
    assert {family.name for family in EchoMQCollector().collect()} == described
    assert all(family.documentation for family in EchoMQCollector().describe())


def test_a_server_that_is_away_is_a_value(site: Site) -> None:
    echomq = copy.deepcopy(settings.ECHOMQ)
    echomq["CONNECTIONS"]["gone"] = {"URL": "redis://127.0.0.1:1/0"}
    echomq["QUEUES"]["far"] = {"CONNECTION": "gone"}
    with override_settings(ECHOMQ=echomq):
        scrape = Scrape()
    assert scrape("echomq_up", connection="gone") == 0
    assert scrape("echomq_up", connection="default") == 1
    assert scrape("echomq_queue_up", queue="far") == 0
    assert scrape("echomq_queue_up", queue="mail") == 1
    assert scrape("echomq_jobs", queue="far", state="dead") is None


def test_a_foreign_key_in_the_way_costs_one_queue(site: Site, raw: redis.Redis) -> None:
    raw.set(site("mail").keys.dead, "foreign")
    scrape = Scrape()
    assert scrape("echomq_queue_up", queue="mail") == 0
    assert scrape("echomq_queue_up", queue="fast") == 1
    assert scrape("echomq_up", connection="default") == 1


def test_a_server_that_answers_with_errors_alone_is_up(site: Site, raw: redis.Redis) -> None:
    with with_queues(mail={}):
        raw.set(site("mail").keys.dead, "foreign")
        scrape = Scrape()
    assert scrape("echomq_up", connection="default") == 1


def test_workers_of_other_processes_are_counted(
    site: Site, command: Callable[..., Command], tmp_path: Path
) -> None:
    path, gate = tmp_path / "effects", tmp_path / "gate"
    tasks.gated.enqueue(str(path), "one", str(gate))
    command("echomq_worker", "default", "mail", "--threads", "3")
    wait_until(path.exists, "the task to start")
    scrape = wait_until(
        lambda: (found := Scrape())("echomq_worker_slots_busy", queue="default") == 1 and found,
        "a beat that tells of it",
    )
    gate.touch()
    assert scrape("echomq_workers", queue="default", state="running") == 1
    assert scrape("echomq_workers", queue="default", state="quiet") == 0
    assert scrape("echomq_worker_slots", queue="mail") == 3
    assert scrape("echomq_worker_slots_busy", queue="mail") == 0
    assert scrape("echomq_workers", queue="fast", state="running") == 0


# The page


def ask(user: User | AnonymousUser | None = None, method: str = "get", **headers: str) -> Any:
    request = getattr(RequestFactory(headers=headers), method)("/metrics/")
    if user is not None:
        request.user = user
    return metrics(request)


def test_the_page_is_closed_by_default(site: Site) -> None:
    for answer in (
        ask(),
        ask(AnonymousUser()),
        ask(authorization="Bearer "),
        ask(authorization="Bearer None"),
    ):
        assert answer.status_code == 401
        assert answer["WWW-Authenticate"].startswith("Bearer")
        assert b"echomq_" not in answer.content


@pytest.mark.django_db
def test_users_who_may_view_queues_may_read(site: Site) -> None:
    assert ask(user_with("operate_queue")).status_code == 403
    assert ask(user_with("view_queue")).status_code == 200
    browser = Browser()
    browser.force_login(user_with(superuser=True))
    answer = browser.get("/metrics/")
    assert answer.status_code == 200
    assert "no-store" in answer["Cache-Control"]
    assert Scrape(answer.content.decode())("echomq_up", connection="default") == 1


@override_settings(ECHOMQ=TOKEN)
@pytest.mark.parametrize(
    ("sent", "status"),
    [
        ("Bearer s3cret", 200),
        ("bearer  s3cret", 200),
        ("Bearer s3cre", 401),
        ("Bearer s3crét", 401),
        ("Basic s3cret", 401),
        ("", 401),
    ],
)
def test_the_token_opens(site: Site, sent: str, status: int) -> None:
    assert ask(authorization=sent).status_code == status


@override_settings(ECHOMQ={**settings.ECHOMQ, "PROMETHEUS": {"PUBLIC": True}})
def test_public_is_for_everybody(site: Site) -> None:
    assert ask().status_code == 200
    assert ask(method="head").status_code == 200
    assert ask(method="post").status_code == 405


@override_settings(ECHOMQ=TOKEN)
def test_prometheus_gets_the_format_that_it_asks_for(site: Site) -> None:
    accept = "application/openmetrics-text;version=1.0.0,text/plain;version=0.0.4;q=0.5"
    answer = ask(authorization="Bearer s3cret", accept=accept)
    assert answer["Content-Type"].startswith("application/openmetrics-text")
    names = {family.name for family in openmetrics_families(answer.content.decode())}
    assert {"echomq_jobs", "echomq_jobs_completed", "echomq_job_run_seconds"} <= names
    plain = ask(authorization="Bearer s3cret")
    assert plain["Content-Type"].startswith("text/plain")


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"TOKEN": ""}, "['TOKEN']: it must be text of ASCII, and not empty"),
        ({"TOKEN": "geheimé"}, "['TOKEN']: it must be text of ASCII"),
        ({"PUBLIC": 1}, "['PUBLIC'] is 1: it must be True or False"),
        ({"TOKNE": "x"}, "unknown key 'TOKNE'"),
    ],
)
def test_a_setting_that_is_not_sound_is_told_and_opens_nothing(
    given: dict[str, Any], words: str
) -> None:
    with override_settings(ECHOMQ={**settings.ECHOMQ, "PROMETHEUS": given}):
        (found,) = run_checks(tags=["echomq"])
        assert found.id == "echomq.E011"
        assert words in found.msg
        assert "geheim" not in found.msg
        assert ask(authorization="Bearer ").status_code == 401
