"""A project on tasks, verbs, the door from Celery and that from RQ, under ``mypy --strict``."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import django
import pytest

from tests.conftest import ROOT
from tests.test_celery_apps import ENGINES, NAMES, move_in

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(django.VERSION < (6, 0), reason="the types are those of Django 6"),
]
PROJECT = ROOT / "tests" / "typed_project"

# No Any comes in: from an expression, from a function, from a name that is not known.
STRICT = """
[mypy]
strict = true
disallow_any_unimported = true
disallow_any_decorated = true
disallow_any_explicit = true
warn_unreachable = true
plugins = mypy_django_plugin.main
[mypy.plugins.django-stubs]
django_settings_module = tests.settings
# In what the project calls and reads. The other modules have one in what they hand over: the JSON
# of a bulk call, a decorator's own type, and the result of a chain, as in Celery.
[mypy-letters.verbs]
disallow_any_expr = true
"""


def mypy(folder: Path, *arguments: str | Path, config: Path) -> subprocess.CompletedProcess[str]:
    environment = {**os.environ, "MYPYPATH": f"{folder}{os.pathsep}{ROOT}"}
    environment["PYTHONPATH"] = str(ROOT)
    environment["DJANGO_SETTINGS_MODULE"] = "tests.settings"
    return subprocess.run(
        [
            *(sys.executable, "-m", "mypy", "--config-file", config, "--no-error-summary"),
            # One for each way to check: another's is of no use, and lost.
            *("--cache-dir", ROOT / ".mypy_cache" / config.stem, "--follow-imports=silent"),
            *arguments,
        ],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=500,
    )


@pytest.fixture
def project(tmp_path: Path) -> Path:
    # Elsewhere, so that it is no part of the package of the tests.
    folder = shutil.copytree(PROJECT, tmp_path / "project")
    (folder / "strict.ini").write_text(STRICT)
    return folder


def test_a_typed_project_is_clean(project: Path) -> None:
    sources = [project / "letters" / f"{name}.py" for name in ("tasks", "calls", "verbs")]
    assert not [each for each in sources if re.search(r"ignore|\bAny\b", each.read_text())]
    done = mypy(project, *sources, config=project / "strict.ini")
    assert (done.stdout, done.returncode) == ("", 0), done.stdout + done.stderr


def test_mistakes_are_found(project: Path) -> None:
    wrong = project / "letters" / "mistakes.py"
    done = mypy(project, wrong, config=project / "strict.ini")
    lines = wrong.read_text().splitlines()
    expected = {number for number, line in enumerate(lines, 1) if line.startswith("tasks.")}
    found = {int(n) for n in re.findall(r"mistakes\.py:(\d+): error", done.stdout)}
    assert found == expected, done.stdout


@pytest.mark.timeout(900)
def test_a_project_keeps_its_types_when_it_moves_from_celery(tmp_path: Path) -> None:
    """Its expressions have the same types on both, as Celery's own types tell them."""
    plain = tmp_path / "plain.ini"
    plain.write_text("[mypy]\nstrict = true\nignore_missing_imports = true\n")
    told = {}
    for engine in ENGINES:
        folder = move_in(engine, tmp_path / engine)
        asked = folder / "asked.py"
        asked.write_text(ASKED.replace("celery", MODULE[engine]))
        sources = [folder / name / "tasks.py" for name in NAMES]
        done = mypy(folder, *sources, asked, config=plain)
        plain_text = re.sub(
            r"(django_echomq\.contrib\.celery|celery)\.[\w.]+\.(\w+)", r"\2", done.stdout
        )
        told[engine] = plain_text.splitlines()
    assert told["celery"] == told["echomq"]
    assert len(told["echomq"]) == ASKED.count("reveal_type(")


MODULE = {"celery": "celery", "echomq": "django_echomq.contrib.celery"}
ASKED = """
from __future__ import annotations
from celery import Task, shared_task
from celery.result import AsyncResult
from shop import tasks
from reports import tasks as reports

reveal_type(tasks.total)
reveal_type(tasks.price)
reveal_type(tasks.charge)
reveal_type(tasks.mail)
reveal_type(tasks.total.delay(1, 2))
reveal_type(tasks.total.delay(1, 2).get(timeout=1))
reveal_type(tasks.price.apply_async((1,), countdown=2, expires=3, priority=4, queue="x"))
reveal_type(tasks.price.s(1))
reveal_type(tasks.price.si(1, discount=2).delay())
reveal_type(tasks.price.signature((1,), countdown=2))
reveal_type(tasks.price.apply((1,)).get())
reveal_type(tasks.price(1))
reveal_type(tasks.price.max_retries)
reveal_type(tasks.price.name)
reveal_type(tasks.price.request.retries)
reveal_type(tasks.price.request.id)
reveal_type(tasks.charge.delay("x", 1).successful())
reveal_type(AsyncResult[int]("x").get())
reveal_type(reports.slow.AsyncResult("x").ready())
reveal_type(reports.collect.s(1).clone(args=(2,)))
"""
