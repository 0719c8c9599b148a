"""Two plots: our drain rate against the jobs that wait beside it, and against the network's delay.

    pip install -e '.[embedded,bench]'
    python benchmarks/curves.py [--runs 3] [--peers dramatiq,rq] [--out docs]

The same measurements as of compare.py, each beside the peers named. Writes ``depth.svg`` and
``network.svg``, and prints the figures.
"""

from __future__ import annotations

import argparse
import signal
import statistics
import sys
import tempfile
from pathlib import Path

import matplotlib as mpl

mpl.use("svg")

from matplotlib import pyplot as plt
from peers.catalogue import VARIANTS, Variant
from peers.measure import drained
from peers.processes import Bench

DEPTHS = (0, 10_000, 100_000, 1_000_000)
DELAYS = (0.0, 0.25, 0.5, 1.0, 2.0, 5.0)  # ms each way
Curve = list[tuple[float, float]]


def against_depth(runs: int) -> dict[str, Curve]:
    variant = next(one for one in VARIANTS if one.system == "echomq")
    curves: dict[str, Curve] = {}
    with tempfile.TemporaryDirectory(prefix="emq-bench-") as name:
        bench = Bench(Path(name), 1.0)
        try:
            for title, verb in (("others waiting", "waiting"), ("others scheduled", "scheduled")):
                curve = curves[title] = []
                for depth in DEPTHS:
                    rates = []
                    for _ in range(runs):
                        bench.clear(variant)
                        if depth:
                            bench.send(variant, verb, 0, depth)
                        rates.append(drained(bench, variant))
                    curve.append((depth, statistics.median(rates)))
                    print(f"{title:>18} {depth:>10,} {curve[-1][1]:>9,.0f} jobs/s", flush=True)
        finally:
            bench.server.close()
    return curves


def against_delay(variants: list[Variant], runs: int) -> dict[str, Curve]:
    curves: dict[str, Curve] = {variant.name: [] for variant in variants}
    for delay in DELAYS:
        with tempfile.TemporaryDirectory(prefix="emq-bench-") as name:
            bench = Bench(Path(name), 1.0, delay_ms=delay)
            try:
                for variant in variants:
                    rates = []
                    for _ in range(runs):
                        bench.clear(variant)
                        rates.append(drained(bench, variant, slow=True))
                    curves[variant.name].append((delay, statistics.median(rates)))
                    print(f"{variant.name:>18} {delay:>7} ms {rates[-1]:>9,.0f} jobs/s", flush=True)
            finally:
                bench.server.close()
    return curves


def draw(path: Path, curves: dict[str, Curve], x: str, ticks: dict[float, str] | None) -> None:
    # The same text for the same figures, and letters that a reader can select.
    mpl.rcParams |= {"svg.hashsalt": "django-echomq", "svg.fonttype": "none"}
    figure, axes = plt.subplots(figsize=(7, 3.4), layout="constrained")
    for name, curve in curves.items():
        places = [list(ticks).index(at) if ticks else at for at, _ in curve]
        axes.plot(places, [rate for _, rate in curve], marker="o", label=name)
    if ticks:
        axes.set_xticks(range(len(ticks)), list(ticks.values()))
    axes.set_xlabel(x)
    axes.set_ylabel("jobs/s, one process")
    axes.set_ylim(bottom=0)
    axes.grid(alpha=0.3)
    axes.legend()
    figure.savefig(path, metadata={"Date": None})


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peers", default="dramatiq")
    parser.add_argument("--out", type=Path, default=Path("docs"))
    options = parser.parse_args()
    # So that workers and the server end with this process.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(128 + signal.SIGTERM))
    names = {"echomq", *options.peers.split(",")}
    variants = [
        one
        for n, one in enumerate(VARIANTS)
        if one.system in names and one.system not in {each.system for each in VARIANTS[:n]}
    ]
    ticks = {float(depth): f"{depth:,}" for depth in DEPTHS}
    draw(options.out / "depth.svg", against_depth(options.runs), "other jobs in the queue", ticks)
    delays = against_delay(variants, options.runs)
    draw(options.out / "network.svg", delays, "delay of the network each way, ms", None)


if __name__ == "__main__":
    main()
