"""The reference of commands names every verb and option, and only those there are."""

from __future__ import annotations

import argparse
import re
from typing import Any

from django.core.management import load_command_class

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
