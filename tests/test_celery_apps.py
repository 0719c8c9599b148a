"""Three small apps written for Celery, with their own checks: the same source on Celery and, where
the imports say ``django_echomq.contrib.celery``, on EchoMQ."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_echomq.wire.embedded import embedded
from tests.conftest import ROOT

APPS = ROOT / "tests" / "celery_apps"
NAMES = ("feeds", "reports", "shop")
ENGINES = ("celery", "echomq")


def swapped(source: str) -> str:
    """The one change."""
    return source.replace("from celery", "from django_echomq.contrib.celery")


def move_in(engine: str, folder: Path) -> Path:
    """A site with the apps, for one engine."""
    shutil.copytree(APPS, folder, ignore=shutil.ignore_patterns("__pycache__"))
    (folder / "site_conftest.py").rename(folder / "conftest.py")
    if engine == "echomq":
        (folder / "site_celery.py").unlink()
        for name in NAMES:
            for module in (folder / name).glob("*.py"):
                module.write_text(swapped(module.read_text()))
    return folder


@pytest.fixture
def site(engine: str, tmp_path: Path) -> Iterator[tuple[Path, dict[str, str]]]:
    folder = move_in(engine, tmp_path / engine)
    server = embedded(tmp_path / "valkey")
    server.ensure_running()
    environment = {
        **os.environ,
        "APPS_ENGINE": engine,
        "APPS_SOCKET": server.socket_path,
        "DJANGO_SETTINGS_MODULE": "site_settings",
        "PYTHONPATH": f"{folder}{os.pathsep}{ROOT}",
    }
    for name in ("PYTEST_ADDOPTS", "PYTEST_XDIST_WORKER", "PYTEST_CURRENT_TEST"):
        environment.pop(name, None)
    yield folder, environment
    server.release()


@pytest.mark.timeout(600)
@pytest.mark.parametrize("engine", ENGINES)
def test_the_checks_of_the_apps_hold(engine: str, site: tuple[Path, dict[str, str]]) -> None:
    folder, environment = site
    done = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:randomly", "-p", "no:cacheprovider"]
        + ["--rootdir", str(folder), "-c", os.devnull, "--durations=5", "-W", "ignore"]
        + [f"{name}/checks.py" for name in NAMES],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )
    log = folder / "worker.log"
    told = done.stdout + done.stderr + (log.read_text() if log.exists() else "")
    assert done.returncode == 0, told
    sources = "".join((APPS / name / "checks.py").read_text() for name in NAMES)
    checks = len(re.findall("^def test_", sources, re.MULTILINE))
    assert f"{checks} passed" in done.stdout, told
