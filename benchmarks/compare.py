"""django-echomq beside its neighbours: one command, one table.

    pip install -e '.[embedded,bench]'
    python benchmarks/compare.py [--only enqueue,drain] [--peers rq,celery] [--runs 5]
                                 [--scale 1.0] [--quick] [--json FILE]

All systems run on the same machine, Python and Valkey, one after the other and, from run to run, in
another order; each measurement has a new server. Workers are processes of their own, started as
each system's documentation says, and so is what sends to them. Every job appends one record to a
file, and where a number of jobs is drained to the end each must be there once. Our rows have the
whole product in them: Django set up, its signals, fresh database connections around each task,
leases, the promoter, events (shown without, too).

Systems are to be compared within a guarantee: what becomes of a job in hand when its worker is
killed. Ends with 1 where a measurement failed; a missed goal is shown and is no failure.

A peer that needs another version of the Redis client gets a virtual environment of its own,
``.venv-bench-<peer>``, the first time it is asked for.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import sys
import tempfile
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import django
import redis
from peers import table
from peers.catalogue import OURS, SYSTEMS, VARIANTS, Variant
from peers.measure import MEASUREMENTS, MOST_RUNS
from peers.processes import Bench, Failed

_QUICK_SCALE = 0.03


def chosen(text: str, known: Sequence[str], what: str, parser: argparse.ArgumentParser) -> set[str]:
    names = {name.strip() for name in text.split(",") if name.strip()}
    if unknown := names - set(known):
        parser.error(f"no {what} {', '.join(sorted(unknown))}: choose from {', '.join(known)}")
    return names or set(known)


def taking_part(bench: Bench, systems: set[str], one_each: bool) -> list[Variant]:
    """The variants that can run here; notes of the others why not."""
    found: list[Variant] = []
    for variant in VARIANTS:
        seen = {one.system for one in found}
        if variant.system not in systems or (one_each and variant.system in seen):
            continue
        missing = bench.environment(variant).missing
        if missing:
            bench.notes.append(f"{variant.name} is left out: {missing}")
        else:
            found.append(variant)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--only", default="", help=f"of {','.join(MEASUREMENTS)}")
    parser.add_argument("--peers", default="", help=f"of {','.join(SYSTEMS)}; ours always run")
    parser.add_argument(
        "--runs",
        type=int,
        help=f"5 unless told otherwise, and fewer of {', '.join(MOST_RUNS)}, which take long",
    )
    parser.add_argument("--scale", type=float, help="of the numbers of jobs and the times (1)")
    parser.add_argument(
        "--quick",
        action="store_true",
        help=f"to see that it works: --runs 1 --scale {_QUICK_SCALE:g}, where no peers are "
        "named each under one setting; the figures say nothing",
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="write the table there as well")
    options = parser.parse_args()
    only = chosen(options.only, list(MEASUREMENTS), "measurement", parser)
    systems = chosen(options.peers, SYSTEMS, "peer", parser) | OURS
    runs = options.runs or (1 if options.quick else 5)
    scale = options.scale or (_QUICK_SCALE if options.quick else 1.0)

    # So that workers and the server end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    started = time.monotonic()
    figures: table.Figures = {}
    failures: list[str] = []
    with tempfile.TemporaryDirectory(prefix="emq-bench-") as name:
        bench = Bench(Path(name), scale)
        try:
            variants = taking_part(bench, systems, options.quick and not options.peers)
            for run in range(runs):
                turn = run * len(variants) // runs
                for variant in variants[turn:] + variants[:turn]:
                    failures += measure(bench, variant, only, run, figures)
            server = bench.server.version
            versions = {one.name: bench.environment(one).version for one in variants}
        finally:
            bench.server.close()

    about = {
        "at": datetime.now(UTC).isoformat(timespec="seconds"),
        "python": platform.python_version(),
        "django": django.get_version(),
        "redis_py": redis.__version__,
        "valkey": server,
        "cores": os.cpu_count(),
        "machine": f"{platform.system()} {platform.release()} {platform.machine()}",
        "runs": runs,
        "scale": scale,
        "seconds": round(time.monotonic() - started),
    }
    lines = table.lines(figures, versions)
    print("\n" + ", ".join(f"{key} {value}" for key, value in about.items()) + "\n")
    print(table.text(lines))
    for note in bench.notes:
        print(f"note: {note}")
    for failure in failures:
        print(f"FAILED: {failure}")
    if options.json:
        whole = {"about": about, "table": lines, "notes": bench.notes, "failures": failures}
        options.json.write_text(json.dumps(whole, indent=1) + "\n")
    return bool(failures)


def measure(
    bench: Bench, variant: Variant, only: set[str], run: int, figures: table.Figures
) -> list[str]:
    """All measurements of one variant, once; answers what failed."""
    failures = []
    for name, function in MEASUREMENTS.items():
        if name in only & variant.rows and run < MOST_RUNS.get(name, run + 1):
            started = time.monotonic()
            try:
                for row, value in function(bench, variant):
                    figures.setdefault((row, variant.name), []).append(value)
            except Failed as error:
                failures.append(f"run {run + 1}, {variant.name}, {name}: {error}")
            seconds = time.monotonic() - started
            print(f"run {run + 1}, {variant.name}, {name}: {seconds:.1f} s", file=sys.stderr)
    return failures


if __name__ == "__main__":
    sys.exit(main())
