"""What ``docs/production/monitoring.md`` and the dashboard say is so."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable
from importlib.resources import files
from types import ModuleType

import pytest
from django.apps import AppConfig
from django.conf import settings
from django.core.management import call_command
from django.dispatch import Signal
from django.test import Client, override_settings
from prometheus_client import CollectorRegistry

from django_echomq import signals
from django_echomq.contrib.opentelemetry import tracing, uninstrument
from django_echomq.contrib.prometheus import EchoMQCollector
from django_echomq.queue import Queue
from django_echomq.tasks import around
from tests.contrib import pages
from tests.testapp import tasks

Site = Callable[[str], Queue]
TEXT = pages.PAGE.read_text()
DASHBOARD = json.loads((files("django_echomq.contrib.prometheus") / "dashboard.json").read_text())


def names_in(text: str) -> set[str]:
    return set(re.findall(r"\bechomq_[a-z_]+", text))


@pytest.fixture
def told(site: Site) -> set[str]:
    """The names of all samples of a scrape; of histograms those that a query may name."""
    found = set()
    for family in EchoMQCollector().collect():
        suffix = {"counter": "_total", "histogram": "_bucket"}.get(family.type, "")
        found.add(family.name + suffix)
    return found


def test_every_metric_of_the_page_and_its_alerts_is_there(told: set[str]) -> None:
    table = names_in("".join(re.findall(r"^\| `echomq_.*$", TEXT, re.MULTILINE)))
    assert table == {name.removesuffix("_bucket") for name in told}
    (rules,) = [block for block in pages.blocks("yaml") if "groups:" in block]
    used = names_in("".join(re.findall(r"expr: (.*)", rules)))
    assert len(used) >= 7
    assert used <= told


def test_every_metric_of_the_dashboard_is_there(told: set[str]) -> None:
    panels = DASHBOARD["panels"]
    exprs = [target["expr"] for panel in panels for target in panel["targets"]]
    assert len(exprs) >= 15
    for expr in exprs:
        assert names_in(expr) <= told, expr
        assert names_in(expr), expr
    assert names_in(json.dumps(DASHBOARD["templating"])) <= told


def test_the_dashboard_can_be_imported_anywhere() -> None:
    panels = DASHBOARD["panels"]
    assert len({panel["id"] for panel in panels}) == len(panels)
    variables = {variable["name"] for variable in DASHBOARD["templating"]["list"]}
    known = variables | {"__rate_interval", "__all"}
    assert set(re.findall(r"\$\{?(\w+)", json.dumps(DASHBOARD))) <= known
    sources = {json.dumps(panel["datasource"]) for panel in panels}
    assert sources == {'{"type": "prometheus", "uid": "${datasource}"}'}
    taken: set[tuple[int, int]] = set()
    for panel in panels:
        at = panel["gridPos"]
        cells = {(at["x"] + x, at["y"] + y) for x in range(at["w"]) for y in range(at["h"])}
        assert not cells & taken, panel["title"]
        taken |= cells
        assert at["x"] + at["w"] <= 24


def test_the_page_of_metrics_and_its_token(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    monkeypatch.setenv("ECHOMQ_METRICS_TOKEN", "s3cret")
    echomq = dict(settings.ECHOMQ)
    pages.code("TOKEN", ECHOMQ=echomq, os=os)
    urls = ModuleType("urls_of_the_page")
    vars(urls).update(pages.code("include("))
    (scrape,) = [block for block in pages.blocks("yaml") if "scrape_configs" in block]
    (path,) = re.findall(r"metrics_path: (\S+)", scrape)
    with override_settings(ECHOMQ=echomq, ROOT_URLCONF=urls):
        assert Client().get(path).status_code == 401
        answer = Client(headers={"authorization": "Bearer s3cret"}).get(path)
        assert answer.status_code == 200
        assert b'echomq_up{connection="default"} 1' in answer.content


def test_metrics_beside_others(monkeypatch: pytest.MonkeyPatch, site: Site) -> None:
    registry = CollectorRegistry(auto_describe=True)
    monkeypatch.setattr("prometheus_client.REGISTRY", registry)
    config: type[AppConfig] = pages.code("EchoMQCollector())")["ShopConfig"]
    config.ready(object())  # type: ignore[arg-type]
    assert registry.get_sample_value("echomq_queue_up", {"queue": "mail"}) == 1


def test_links_only() -> None:
    config: type[AppConfig] = pages.code("links_only")["ShopConfig"]
    try:
        config.ready(object())  # type: ignore[arg-type]
        assert around.anything()
        assert tracing._tracing is not None
        assert tracing._tracing._links_only
    finally:
        uninstrument()


@pytest.mark.django_db(transaction=True)
def test_a_receiver(site: Site, monkeypatch: pytest.MonkeyPatch) -> None:
    shop = ModuleType("shop.tasks")
    shop.charge = tasks.picky  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "shop", ModuleType("shop"))
    monkeypatch.setitem(sys.modules, "shop.tasks", shop)
    names = pages.code("@receiver")
    try:
        job = tasks.picky.enqueue(3)
        tasks.always_fails.using(max_attempts=1).enqueue()
        call_command("echomq_worker", "mail", "fast", burst=True, verbosity=0)
    finally:
        assert signals.job_failed.disconnect(names["tell_accounting"], sender=tasks.picky)
    assert names["unpaid"] == [(job.id, 1, "no user 3")]


def test_every_signal_is_in_the_table() -> None:
    table = set(re.findall(r"^\| `(job_\w+)` \|", TEXT, re.MULTILINE))
    assert table == {name for name, value in vars(signals).items() if isinstance(value, Signal)}
