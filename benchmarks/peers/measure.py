"""The measurements. Each is one function of a variant and answers its figures."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Iterator
from typing import NamedTuple

from .catalogue import BULK, COROUTINES, OURS, Variant
from .effects import NAP
from .processes import ROOT, Bench, Failed, Worker

RATES = (50, 200, 500)  # jobs a second
_ENQUEUED, _BULK = 6_000, 60_000
_OTHERS = 1_000_000
_SLOTS = 1_000  # coroutines beside each other
_NAPS = 10_000
_PACED = 2.0  # seconds of each rate
_IDLE = 4.0  # seconds
_REST = 1.0  # seconds from the first jobs to what counts as idle
_FIRST = 20  # jobs
_SLOW_AT_MOST = 4.0  # seconds of a drain over the slow network


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
    """One call after the other from one process, no worker; what they hold of the server."""
    bench.clear(variant)
    sent = bench.send(variant, "one", 0, max(200, round(_ENQUEUED * bench.scale)))
    yield Figure(ENQUEUE, sent["rate"])
    if variant.stored:
        yield Figure(BYTES, sent["bytes"])


def bulk(bench: Bench, variant: Variant) -> Iterator[Figure]:
    """The system's own bulk call, with some hundreds of jobs each time."""
    if variant.system in BULK:
        bench.clear(variant)
        count = _BULK if variant.system in OURS else _BULK // 4
        yield Figure(
            ENQUEUE_BULK, bench.send(variant, "many", 0, round(count * bench.scale))["rate"]
        )


def drain(bench: Bench, variant: Variant) -> Iterator[Figure]:
    """No-ops wait, then one worker starts; every one of them must run once."""
    bench.clear(variant)
    jobs = _preload(bench, variant)
    with bench.worker(variant) as worker:
        bench.wait(worker, jobs)
    bench.check_exact(jobs)
    yield Figure(DRAIN, _rate(bench))


def network(bench: Bench, variant: Variant) -> Iterator[Figure]:
    """The same with every byte from and to the worker delayed, for some seconds at most."""
    bench.clear(variant)
    jobs = _preload(bench, variant)
    with bench.worker(variant, slow=True) as worker:
        bench.wait(worker, jobs, within=max(1.0, _SLOW_AT_MOST * bench.scale))
        rate = _rate(bench)
    yield Figure(NETWORK, rate)


def latency(bench: Bench, variant: Variant) -> Iterator[Figure]:
    """What an idle worker costs; then, at fixed rates of arrival, the time from the call that
    enqueues to the first line of the job."""
    bench.clear(variant)
    rates = [rate for rate in RATES if rate <= variant.top_rate]
    seconds = _PACED * bench.scale
    with bench.worker(variant) as worker:
        bench.send(variant, "one", 0, _FIRST)
        bench.wait(worker, _FIRST)
        time.sleep(_REST)
        yield from _idle(bench, variant, worker)
        counts = [max(20, round(rate * seconds)) for rate in rates]
        total = _FIRST + sum(counts)
        paced = [text for pair in zip(counts, rates, strict=True) for text in pair]
        offered = bench.send(variant, "paced", _FIRST, total - _FIRST, *paced)["rates"]
        bench.wait(worker, total)
    bench.check_exact(total)
    taken = {number: (started - sent) / 1e6 for number, sent, started in bench.effects.read()}
    first = _FIRST
    for rate, count, reached in zip(rates, counts, offered, strict=True):
        leg = [taken[number] for number in range(first, first + count)]
        first += count
        cuts = statistics.quantiles(leg, n=100, method="inclusive")
        # What cannot send as fast was not offered this rate.
        if reached > 0.9 * rate:
            yield Figure(latency_row(rate, 50), cuts[49])
            yield Figure(latency_row(rate, 99), cuts[98])


def _idle(bench: Bench, variant: Variant, worker: Worker) -> Iterator[Figure]:
    seconds = max(1.5, _IDLE * bench.scale)
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
    if variant.system in COROUTINES:
        bench.clear(variant)
        jobs = max(3 * _SLOTS, round(_NAPS * bench.scale))
        bench.send(variant, "nap", 0, jobs)
        with bench.worker(variant, slots=_SLOTS) as worker:
            bench.wait(worker, jobs)
        bench.check_exact(jobs)
        yield Figure(NAPS, _rate(bench))


def growth(bench: Bench, variant: Variant) -> Iterator[Figure]:
    """A drain beside very many other jobs of the same queue."""
    for row, verb in ((WAITING, "waiting"), (SCHEDULED, "scheduled")):
        bench.clear(variant)
        bench.send(variant, verb, 0, round(_OTHERS * bench.scale))
        jobs = _preload(bench, variant)
        with bench.worker(variant) as worker:
            bench.wait(worker, jobs)
        yield Figure(row, _rate(bench))


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


def _preload(bench: Bench, variant: Variant) -> int:
    jobs = bench.jobs(variant)
    bench.send(variant, "many" if variant.system in BULK | OURS else "one", 0, jobs)
    return jobs


def _rate(bench: Bench) -> float:
    """Jobs a second between two sizes, the first quarter and all: a start takes no part in it."""
    times = sorted(started for number, _, started in bench.effects.read() if number >= 0)
    first = len(times) // 4
    if len(times) - first < 2:
        raise Failed(f"only {len(times)} jobs in the time")
    return (len(times) - 1 - first) / ((times[-1] - times[first]) / 1e9)
