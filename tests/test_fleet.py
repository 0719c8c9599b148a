"""The fleet on paper: the page shows what the command says."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys

import pytest

from tests.conftest import ROOT

PAGE = (ROOT / "docs/production/fleet.md").read_text()
SHOWN = re.findall(r"```console\n\$ python (\S+)(.*)\n((?:.*\n)*?)```", PAGE)


def told(*options: str) -> str:
    done = subprocess.run(
        [sys.executable, str(ROOT / "benchmarks/fleet.py"), *options],
        capture_output=True,
        text=True,
        check=True,
    )
    return done.stdout


@pytest.mark.parametrize(("script", "options", "output"), SHOWN)
def test_the_page_shows_what_the_command_says(script: str, options: str, output: str) -> None:
    assert script == "benchmarks/fleet.py"
    assert told(*shlex.split(options)) == output


def test_the_page_shows_two_fleets() -> None:
    assert len(SHOWN) == 2


def figure(text: str, name: str) -> float:
    found = re.search(rf"^{name} .*?([\d.]+)", text, re.MULTILINE)
    assert found, text
    return float(found[1])


def test_a_small_fleet_needs_one_node_and_a_bigger_one_more() -> None:
    small = told("--workers", "20", "--senders", "10", "--jobs-per-day", "1e6")
    assert "PARTITIONS        none" in small
    assert figure(small, "nodes") == 1
    big, bigger = (told("--workers", "100", "--jobs-per-day", jobs) for jobs in ("2e8", "4e8"))
    assert 1 < figure(big, "nodes") < figure(bigger, "nodes")


def test_what_breaks_comes_first() -> None:
    slow = told("--run-ms", "5000")
    assert re.search(r"breaks first:\n +289%  workers' threads\n", slow), slow
