"""The long run of the model: ``python -m tests.model --minutes 60``.

It runs beside a server of its own, tells once a minute how far it is, and ends with 1 at the first
difference, made small and printed as the steps that lead to it. Such a sequence is then kept in
``tests/model/test_found.py``.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
import time
from pathlib import Path

import redis
from hypothesis import HealthCheck, Phase, settings
from hypothesis.stateful import run_state_machine_as_test

from django_echomq.wire.embedded import embedded
from django_echomq.wire.endpoint import Endpoint
from tests.model.machine import Forgetful, Model, machine


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m tests.model", description=__doc__)
    parser.add_argument("--minutes", type=float, default=60.0, help="run for so long (60)")
    parser.add_argument("--steps", type=int, default=100, help="of one sequence, at most (100)")
    parser.add_argument("--as-found", action="store_true", help="do not make it small")
    options = parser.parse_args()
    phases = [Phase.reuse, Phase.generate] + [Phase.shrink] * (not options.as_found)
    chosen = settings(
        max_examples=10,
        stateful_step_count=options.steps,
        deadline=None,
        phases=phases,
        suppress_health_check=list(HealthCheck),
    )
    folder = Path(tempfile.mkdtemp(prefix="model-"))
    endpoint = Endpoint.from_embedded(folder)
    endpoint.heal()
    client = Forgetful(endpoint)
    tied = machine(client, redis.Redis(unix_socket_path=endpoint.options["path"]))
    began = told = time.monotonic()
    try:
        while time.monotonic() < began + options.minutes * 60:
            run_state_machine_as_test(tied, settings=chosen)
            if time.monotonic() > told + 60:
                told = time.monotonic()
                print(report(told - began), flush=True)  # noqa: T201
    finally:
        print(report(time.monotonic() - began), flush=True)  # noqa: T201
        client.close()
        embedded(folder).release()
    return 0


def report(seconds: float) -> str:
    numbers = Model.numbers
    return (
        f"{seconds / 60:.1f} min: {numbers['steps']:,} steps in {numbers['machines']:,} sequences, "
        f"the longest of {numbers['longest']}"
    )


if __name__ == "__main__":
    sys.exit(main())
