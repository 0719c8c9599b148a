"""``benchmarks/endurance.py``, for seconds instead of minutes."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.conftest import ROOT


@pytest.mark.slow
def test_a_worker_grows_neither_in_memory_nor_in_threads_nor_in_sockets() -> None:
    script = ROOT / "benchmarks" / "endurance.py"
    done = subprocess.run(
        [sys.executable, script, "--jobs", "10000", "--away", "3", "--warm-up", "3000"],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=400,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "server away" in done.stdout
