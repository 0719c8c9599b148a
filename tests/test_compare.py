"""The benchmark that compares with the neighbours runs, and counts what it should."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from tests.conftest import ROOT

COMPARE = [sys.executable, str(ROOT / "benchmarks/compare.py")]
MEASURED = {
    "enqueue": "enqueue one by one",
    "bulk": "enqueue, bulk call",
    "drain": "drain",
    "network": "drain, network of 1 ms each way",
    "latency": "latency at 50/s, p50",
    "resident": "worker of the example site",
}


@pytest.mark.once
@pytest.mark.slow
@pytest.mark.timeout(900)
def test_our_rows(tmp_path: Path) -> None:
    out = tmp_path / "table.json"
    done = subprocess.run(
        [*COMPARE, "--quick", "--peers", "echomq", "--only", ",".join(MEASURED), "--json", out],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    found = json.loads(out.read_text())
    assert found["failures"] == []
    ours = [line for line in found["table"] if line["system"] == "echomq"]
    assert {line["measurement"] for line in ours} >= set(MEASURED.values())
    assert all(line["min"] <= line["median"] <= line["max"] for line in found["table"])
    # Those that need no peer are judged.
    assert {line["measurement"] for line in ours if line["goals"]} >= {
        "enqueue one by one",
        "drain",
        "worker of the example site",
    }


def test_a_typo_is_refused() -> None:
    done = subprocess.run(
        [*COMPARE, "--peers", "celry"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "no peer celry: choose from bare, echomq, rq, celery" in done.stderr
