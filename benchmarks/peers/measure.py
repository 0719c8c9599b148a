"""The measurements. Each is one function of a variant and answers its figures."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .catalogue import HAVE_BULK, OURS, Variant
from .effects import NAP
from .processes import ROOT, Bench, Failed, Worker

RATES = (50, 200, 500)  # jobs a second
_ENQUEUED, _BULK = 3_000, 60_000
_OTHERS, _DRAINS = 1_000_000, 3
_SLOTS = 1_000  # coroutines beside each other
_NAPS = 10_000
_PACED = 1.5  # seconds of each rate
_IDLE = 3.0  # seconds
_REST = 1.0  # seconds from the first jobs to what counts as idle
_FIRST = 10  # jobs
_OFFERED = 0.9  # of a rate; what was sent more slowly says nothing of it
_SLOW_AT_MOST = 2.5  # seconds of a drain over the slow network


class Row(NamedTuple):
    """What the table calls a figure, and its unit."""

    title: str
    unit: str


class Figure(NamedTuple):
    row: Row
    value: float


ENQUEUE = Row("enqueue one by one", "jobs/s")
ENQUEUE_BULK = Row("enqueue, bulk call", "jobs/s")
BYTES = Row("server memory per pending job", "bytes")
DRAIN = Row("drain", "jobs/s")
NETWORK = Row("drain, network of 1 ms each way", "jobs/s")
IDLE_READS = Row("idle worker", "round trips/s")
IDLE_CPU = Row("idle worker", "% of a core")
NAPS = Row(f"{_SLOTS:,} coroutines sleep {NAP * 1000:.0f} ms", "jobs/s")
WAITING = Row("drain, others waiting", "jobs/s")
SCHEDULED = Row("drain, others scheduled", "jobs/s")
RESIDENT = Row("worker of the example site", "MiB")
IDEAL_NAPS = _SLOTS / NAP


def latency_row(rate: int, percentile: int) -> Row:
    return Row(f"latency at {rate}/s, p{percentile}", "ms")


def enqueue(bench: Bench, variant: Variant) -> Iterator[Figure]:
    """One call after the other from one process, no worker."""
    bench.clear(variant)
    count = max(200, round(_ENQUEUED * bench.scale))
    yield Figure(ENQUEUE, bench.send(variant, "one", 0, count)["rate"])


def bulk(bench: Bench, variant: Variant) -> Iterator[Figure]:
    """The system's own bulk call, with some hundreds of jobs each time."""
    bench.clear(variant)
    count = round((_BULK if variant.system in OURS else _BULK // 4) * bench.scale)
    yield Figure(ENQUEUE_BULK, bench.send(variant, "many", 0, count)["rate"])


def drain(bench: Bench, variant: Variant) -> Iterator[Figure]:
    """No-ops wait, then one worker starts; every one of them must run once. What they hold of the
    server while they wait."""
    bench.clear(variant)
    jobs, held = _preload(bench, variant)
    if variant.stored and "enqueue" in variant.rows:
        yield Figure(BYTES, held)
    with bench.worker(variant) as worker:
        bench.wait(worker, jobs)
    bench.check_exact(jobs)
    yield Figure(DRAIN, _rate(bench))


def network(bench: Bench, variant: Variant) -> Iterator[Figure]:
    """The same with every byte from and to the worker delayed, for some seconds at most."""
    bench.clear(variant)
    yield Figure(NETWORK, drained(bench, variant, slow=True))


def latency(bench: Bench, variant: Variant) -> Iterator[Figure]:
    """What an idle worker costs; then, at fixed rates of arrival, the time from the call that
    enqueues to the first line of the job."""
    bench.clear(variant)
    # The first calls of what sends open its connections, and are not looked at.
    legs = [(_FIRST, RATES[0])]
    for rate in RATES:
        if rate <= variant.top_rate:
            legs.append((max(20, round(rate * _PACED * bench.scale)), rate))
    total = _FIRST + sum(count for count, _ in legs)
    with bench.worker(variant) as worker:
        bench.send(variant, "one", 0, _FIRST)
        bench.wait(worker, _FIRST)
        time.sleep(bench.seconds(_REST, 0.3))
        yield from _idle(bench, variant, worker)
        plan = [number for leg in legs for number in leg]
        reached = bench.send(variant, "paced", _FIRST, total - _FIRST, *plan)["rates"]
        bench.wait(worker, total)
    bench.check_exact(total)
    taken = [0.0] * total
    for number, sent, started in bench.effects.read():
        taken[number] = (started - sent) / 1e6
    first = 2 * _FIRST
    for (count, rate), offered in zip(legs[1:], reached[1:], strict=True):
        cuts = statistics.quantiles(taken[first : first + count], n=100, method="inclusive")
        first += count
        if offered < _OFFERED * rate:
            bench.notes.append(f"{variant.name} was sent {offered:.0f} jobs/s instead of {rate}")
        else:
            yield Figure(latency_row(rate, 50), cuts[49])
            yield Figure(latency_row(rate, 99), cuts[98])


def _idle(bench: Bench, variant: Variant, worker: Worker) -> Iterator[Figure]:
    seconds = bench.seconds(_IDLE, 1.0)
    started, reads, cpu = time.monotonic(), bench.server.reads(), worker.cpu_seconds()
    time.sleep(seconds)
    cpu = worker.cpu_seconds() - cpu
    reads = bench.server.reads() - reads - 1
    seconds = time.monotonic() - started
    if variant.stored:
        yield Figure(IDLE_READS, reads / seconds)
    yield Figure(IDLE_CPU, 100 * cpu / seconds)


def coroutines(bench: Bench, variant: Variant) -> Iterator[Figure]:
    """Coroutines that sleep, as many beside each other as the worker is told to run."""
    bench.clear(variant)
    jobs = round((_NAPS if variant.system in OURS else _NAPS // 3) * bench.scale)
    bench.send(variant, "nap", 0, jobs)
    with bench.worker(variant, slots=_SLOTS) as worker:
        bench.wait(worker, jobs)
    bench.check_exact(jobs)
    yield Figure(NAPS, _rate(bench))


def growth(bench: Bench, variant: Variant) -> Iterator[Figure]:
    """Drains beside very many other jobs of the same queue."""
    for row, verb in ((WAITING, "waiting"), (SCHEDULED, "scheduled")):
        bench.clear(variant)
        bench.send(variant, verb, 0, round(_OTHERS * bench.scale))
        for _ in range(_DRAINS):
            bench.effects.clear()
            yield Figure(row, drained(bench, variant))


def resident(bench: Bench, variant: Variant) -> Iterator[Figure]:
    """Memory of a worker that has loaded the example site."""
    bench.clear(variant)
    line = [sys.executable, str(ROOT / "example_project/manage.py"), "echomq_worker"]
    data = bench.folder / "example"
    data.mkdir(exist_ok=True)
    env = {**os.environ, "ECHOMQ_URL": bench.server.url(), "EXAMPLE_DATA_DIR": str(data)}
    env["DJANGO_SETTINGS_MODULE"] = "example.settings"
    worker = Worker(line, env, bench.folder, bench.folder / "example.log")
    try:
        end = time.monotonic() + 20
        # Its first beat puts it on the list.
        while not bench.server.client.exists("emq:{default}:workers"):
            worker.check()
            if time.monotonic() > end:
                raise Failed("the worker of the example site does not beat")
            time.sleep(0.05)
        time.sleep(_REST)
        yield Figure(RESIDENT, worker.resident_mib())
    finally:
        worker.stop()


#: In the order of the table; a variant takes part in those that it names.
MEASUREMENTS: dict[str, Callable[[Bench, Variant], Iterator[Figure]]] = {
    function.__name__: function
    for function in (
        enqueue,
        bulk,
        drain,
        network,
        latency,
        coroutines,
        growth,
        resident,
    )
}


#: Those that take long are repeated less often.
MOST_RUNS = {"latency": 3, "coroutines": 3, "growth": 3}


def _preload(bench: Bench, variant: Variant) -> tuple[int, float]:
    """Sends what will be drained, as fast as can be; answers how many jobs of how many bytes."""
    jobs = bench.jobs(variant)
    verb = "many" if variant.system in HAVE_BULK else "one"
    return jobs, bench.send(variant, verb, 0, jobs)["bytes"]


def drained(bench: Bench, variant: Variant, *, slow: bool = False) -> float:
    """The rate of a drain; over the slow network what comes in the first seconds is enough."""
    jobs, _ = _preload(bench, variant)
    within = bench.seconds(_SLOW_AT_MOST, 0.5) if slow else None
    with bench.worker(variant, slow=slow) as worker:
        bench.wait(worker, jobs, within=within)
        return _rate(bench)


def _rate(bench: Bench) -> float:
    """Jobs a second between two sizes, the first quarter and all: a start takes no part in it."""
    times = sorted(started for number, _, started in bench.effects.read() if number >= 0)
    first = len(times) // 4
    if len(times) - first < 2:
        raise Failed(f"only {len(times)} jobs in the time")
    return (len(times) - 1 - first) / ((times[-1] - times[first]) / 1e9)
