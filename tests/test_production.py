"""What the pages under ``docs/production`` say of commands and settings is so."""

from __future__ import annotations

import argparse
import logging.config
import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from django.core.management import load_command_class
from django.test import override_settings

from django_echomq import conf
from django_echomq.queues import get_queue
from django_echomq.worker.supervisor import _MARGIN
from tests.conftest import ROOT

PAGES = sorted((ROOT / "docs" / "production").glob("*.md"))
#: Options of the commands of others, and whose they are.
OTHERS = {
    "--init": "Docker",
    "--deploy": "Django",
    "--upgrade": "pip",
    "--no-cache-dir": "pip",
    "--now": "systemd",
    "--appendonly": "Valkey",
    "--maxmemory": "Valkey",
    "--maxmemory-policy": "Valkey",
}
DEPLOYING = (ROOT / "docs" / "production" / "deploying.md").read_text()
WORKERS = (ROOT / "docs" / "production" / "workers.md").read_text()


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_every_option_that_a_page_names_is_there(page: Path) -> None:
    known = set(OTHERS)
    for command in ("echomq", "echomq_worker", "echomq_promoter"):
        parser = load_command_class("django_echomq", command).create_parser("manage.py", command)
        verbs = [a for a in parser._actions if isinstance(a, argparse._SubParsersAction)]
        for each in (parser, *(verb for action in verbs for verb in action.choices.values())):
            known |= set(re.findall(r"--[a-z-]+", each.format_help()))
    for script in set(re.findall(r"benchmarks/\w+\.py", page.read_text())):
        told = subprocess.check_output([sys.executable, ROOT / script, "--help"], text=True)
        known |= set(re.findall(r"--[a-z-]+", told))
    assert set(re.findall(r"(?<![\w-])--[a-z][a-z-]+", page.read_text())) <= known


def test_every_stop_waits_for_longer_than_the_grace() -> None:
    """Of each unit and manifest, by the margin that a supervisor takes at most."""
    graces = {int(n) for n in re.findall(r'--grace(?: |", ")(\d+)', DEPLOYING)}
    limits = re.findall(
        r"(?:TimeoutStopSec=|stop_grace_period: |terminationGracePeriodSeconds: )(\d+)", DEPLOYING
    )
    assert len(limits) >= 3
    assert min(map(int, limits)) > max(graces) + _MARGIN


def test_the_logging_of_the_page_can_be_configured() -> None:
    (block,) = re.findall(r"```python\n(.*?)```", WORKERS, re.DOTALL)
    names: dict[str, Any] = {}
    exec(block, names)
    logger = logging.getLogger("django_echomq")
    before = logger.level, logger.handlers[:]
    try:
        logging.config.dictConfig(names["LOGGING"])
        assert logging.getLogger("django_echomq.worker").isEnabledFor(logging.INFO)
    finally:
        logger.setLevel(before[0])
        logger.handlers[:] = before[1]


def test_the_settings_of_the_cluster_page_are_sound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("ECHOMQ_PASSWORD", "sesame")
    page = (ROOT / "docs" / "production" / "cluster.md").read_text()
    (block,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    names: dict[str, Any] = {"os": os}
    exec(block, names)
    with override_settings(ECHOMQ=names["ECHOMQ"]):
        assert not conf.read_settings().problems
        queue = get_queue("mail")
    assert queue.client.endpoint.label == "cluster:10.0.0.1:6379,10.0.0.2:6379,10.0.0.3:6379"
    assert queue.client.endpoint.options["password"] == "sesame"
