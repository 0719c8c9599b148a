"""A short soak; ``python -m tests.soak`` is the long one."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.once
@pytest.mark.slow
def test_every_job_is_accounted_for_under_constant_faults() -> None:
    """Every way to strike comes once at least: worker, connection, script, producer, server."""
    run = subprocess.run(
        [sys.executable, "-m", "tests.soak", "--minutes", "0.2"],
        cwd=ROOT,
        capture_output=True,
        text=True,
    )
    assert run.returncode == 0, run.stdout + run.stderr
    struck = re.search(r"^struck by .*server killed [1-9]", run.stdout, re.MULTILINE)
    assert struck, run.stdout
