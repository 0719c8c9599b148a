"""What ``docs/guarantees.md`` names as its evidence is there."""

from __future__ import annotations

import ast
import re

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs" / "guarantees.md").read_text()
ROWS = [line for line in PAGE.splitlines() if line.startswith("| ") and "shown by" not in line]


def names_of_tests() -> set[str]:
    found: set[str] = set()
    for path in (ROOT / "tests").rglob("test_*.py"):
        found |= {
            node.name
            for node in ast.walk(ast.parse(path.read_text()))
            if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        }
    return found


def test_every_promise_names_tests_that_exist() -> None:
    known = names_of_tests()
    assert len(ROWS) > 60
    for row in ROWS:
        evidence = re.findall(r"`((?:[\w/]+/)?test_[\w.]+)`", row.rsplit("|", 2)[1])
        assert evidence, row
        for name in evidence:
            assert (ROOT / name).is_file() if "/" in name else name in known, name


@pytest.mark.parametrize("name", ["ServerUnavailable", "WritesRefused", "VersionFence"])
def test_every_exception_that_the_page_names_is_one(name: str) -> None:
    from django_echomq.wire import errors

    assert f"`{name}`" in PAGE
    assert issubclass(getattr(errors, name), errors.EchoMQError)
