"""The reference of commands names every verb and option, and only those there are; the other pages
have what the code has."""

from __future__ import annotations

import argparse
import importlib.util
import re
from types import ModuleType
from typing import Any

from django.core.management import load_command_class

from django_echomq import conf
from django_echomq.console import rights
from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "reference" / "commands.md").read_text()
_SHARED = {"--help", "--json", "--yes", "--queue"}


def verbs() -> dict[str, Any]:
    parser = load_command_class("django_echomq", "echomq").create_parser("manage.py", "echomq")
    (action,) = (a for a in parser._actions if isinstance(a, argparse._SubParsersAction))
    return dict(action.choices)


def test_every_verb_is_on_the_page_with_its_options() -> None:
    rows = [line for line in PAGE.splitlines() if line.startswith("| `")]
    told: dict[str, set[str]] = {}
    for row in rows:
        cell = row.split(" | ")[0]
        for usage in re.findall(r"`([^`]+)`", cell):
            name = usage.split()[0]
            told.setdefault(name, set()).update(re.findall(r"--[a-z-]+", usage))
    known = verbs()
    assert set(told) == set(known) - {"reprocess"}
    for name, options in told.items():
        there = set(re.findall(r"(?<![\w-])--[a-z-]+", known[name].format_help())) - _SHARED
        assert options - _SHARED == there, name


# Pages whose tables are written from the code

FOLDER = ROOT / "docs" / "reference"


def maker() -> ModuleType:
    spec = importlib.util.spec_from_file_location("reference_make", FOLDER / "make.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_tables_are_those_of_the_code() -> None:
    make, used = maker(), set()
    for page in sorted(FOLDER.glob("*.md")):
        text = page.read_text()
        used |= set(re.findall(r"<!-- table: ([\w ]+) -->", text))
        assert make.filled(text) == text, f"{page.name}: run python docs/reference/make.py"
    assert used == set(make.TABLES)


def test_settings_tells_every_key_and_every_fault() -> None:
    page = (FOLDER / "settings.md").read_text()
    for key in (*conf._TOP, *conf._CONNECTION, *conf._QUEUE_OPTIONS, *conf._SCHEDULE_OPTIONS):
        assert re.search(rf"\b{key}\b", page), key
    package = ROOT / "django_echomq"
    sources = [(package / name).read_text() for name in ("conf.py", "checks.py")]
    # Either whole, or as the number that problem() and mapping() put into an id.
    numbers = set(re.findall(r"echomq\.E(\d{3})", "".join(sources)))
    numbers |= {
        f"{int(n):03}"
        for found in re.findall(
            r"self\.problem\(\s*(\d+)|self\.(?:mapping|fields)\([^\n]*?, (\d+)[,)]", sources[0]
        )
        for n in found
        if n
    }
    assert set(re.findall(r"`echomq\.E(\d{3})`", page)) == numbers


def test_permissions_are_those_that_the_console_asks_for() -> None:
    page = (FOLDER / "permissions.md").read_text()
    for permission in (rights.VIEW, rights.OPERATE, rights.EDIT, rights.DESTROY):
        assert f"`{permission}`" in page
