"""Reads the queues of the settings when it is asked, all at once.

What is told stands on the server and not in a process: every process tells the same, and one is
enough to scrape.
"""

from __future__ import annotations

import logging
import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from typing import Any, TypeVar

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector
from redis import ResponseError

from ... import conf
from ...queue import Queue
from ...queue.metrics import Overview, Totals
from ...queue.values import Page
from ...queue.workers import WorkerInfo
from ...readings import ask, impatient_queue
from ...tasks.envelope import task_name
from ...tasks.registry import lookup

logger = logging.getLogger("django_echomq.prometheus")
M = TypeVar("M", bound=Metric)

#: So many of the newest dead jobs are looked at.
DEAD_LOOKED_AT = 100
#: What dead jobs of tasks that this process does not know, or cannot tell, are counted as.
OTHER = "other"
#: Ends of the buckets, in seconds: each twice the one before, from 2 ms to some two hours. The
#: server counts in buckets of which two make one of these.
BOUNDS = tuple(2**n / 1000 for n in range(1, 24))

_WORKER_STATES = ("running", "quiet", "stopping")
_COUNTERS = ("enqueued", "completed", "failed", "cancelled", "retried")


class EchoMQCollector(Collector):
    """The queues of ``ECHOMQ["QUEUES"]``, for a ``CollectorRegistry``."""

    def describe(self) -> Iterable[Metric]:
        """The metrics without values; nothing is read."""
        return _Families().all()

    def collect(self) -> Iterable[Metric]:
        """Reads every queue. A server that is away is a value, not an error."""
        started = time.monotonic()
        families = _Families()
        up: dict[str, bool] = {}
        queues: list[Queue] = []
        for name in conf.queue_names():
            try:
                queues.append(impatient_queue(name))
            except Exception as error:
                _unread(families, up, name, error)
        answers = iter(ask([look for queue in queues for look in _looks(queue)]))
        for queue in queues:
            read = overview, totals, workers, dead = [next(answers) for _ in range(4)]
            errors = [each for each in read if isinstance(each, Exception)]
            if errors:
                _unread(families, up, queue.name, errors[0])
                continue
            up.update(dict.fromkeys(conf.queue_definition(queue.name).connections, True))
            families.queue_up.add_metric([queue.name], 1)
            families.overview(queue, overview)
            families.totals(queue.name, totals)
            families.workers(queue.name, workers)
            families.dead(queue.name, dead)
        for alias, answered in up.items():
            families.up.add_metric([alias], answered)
        families.duration.add_metric([], time.monotonic() - started)
        return families.all()


def _looks(queue: Queue) -> Iterator[tuple[Queue, Any]]:
    yield queue, queue.metrics.overview_look()
    yield queue, queue.metrics.totals_look()
    yield queue, queue.workers.look()
    yield queue, queue.jobs.page_look("dead", limit=DEAD_LOOKED_AT)


def _unread(families: _Families, up: dict[str, bool], name: str, error: Exception) -> None:
    logger.warning("Queue %s could not be read: %s", name, error)
    for alias in conf.queue_definition(name).connections:
        # An error that the server answered is one of the queue: a foreign key in its way, say.
        up[alias] = up.get(alias, False) or isinstance(error, ResponseError)
    families.queue_up.add_metric([name], 0)


class _Families:
    """What is told, gathered over all queues."""

    def __init__(self) -> None:
        self._all: list[Metric] = []
        gauge, counter = self._gauge, self._counter
        self.up = gauge("up", "Whether the server of a connection answered.", "connection")
        self.queue_up = gauge("queue_up", "Whether a queue could be read.")
        self.duration = self._add(
            GaugeMetricFamily("echomq_scrape_duration_seconds", "How long reading took.", labels=[])
        )
        self._jobs = gauge("jobs", "Jobs that are there, by state.", "queue", "state")
        self._oldest = gauge(
            "oldest_wait_seconds",
            "For how long the job that waits longest could have been claimed; 0 where none waits.",
        )
        self._lanes = gauge(
            "lane_jobs", "Jobs that wait in each lane of the settings.", "queue", "lane"
        )
        self._paused = gauge("queue_paused", "Whether claiming is stopped.")
        self._limited = gauge("queue_limited", "Whether a limit of the queue forbids a claim now.")
        self._concurrency = gauge(
            "queue_concurrency_limit", "Jobs that may be in hand at once, where that is limited."
        )
        self._rate = gauge(
            "queue_rate_limit_per_second", "Jobs that may start a second, where that is limited."
        )
        self._counters = {
            "enqueued": counter("jobs_enqueued", "Jobs admitted, scheduled ones among them."),
            "completed": counter("jobs_completed", "Jobs that completed."),
            "failed": counter("jobs_failed", "Jobs that went to the dead set."),
            "cancelled": counter("jobs_cancelled", "Jobs that ended as cancelled."),
            "retried": counter("jobs_retried", "Attempts that failed and are tried again."),
        }
        self._waits = self._histogram(
            "job_wait_seconds", "From when a job could be claimed to its claim."
        )
        self._runs = self._histogram(
            "job_run_seconds", "From a claim to the end of the attempt, however it ended."
        )
        self._workers = gauge("workers", "Workers that serve a queue.", "queue", "state")
        self._slots = gauge(
            "worker_slots",
            "Threads of the workers that serve a queue; a worker of several queues counts in each.",
        )
        self._busy = gauge("worker_slots_busy", "Jobs of a queue that its workers have in hand.")
        self._dead = gauge(
            "dead_newest_jobs",
            f"Of the newest {DEAD_LOOKED_AT} dead jobs, how many are of each task.",
            "queue",
            "task",
        )

    def all(self) -> list[Metric]:
        return self._all

    def _add(self, family: M) -> M:
        self._all.append(family)
        return family

    def _gauge(self, name: str, text: str, *labels: str) -> GaugeMetricFamily:
        return self._add(GaugeMetricFamily(f"echomq_{name}", text, labels=labels or ["queue"]))

    def _counter(self, name: str, text: str) -> CounterMetricFamily:
        return self._add(CounterMetricFamily(f"echomq_{name}", text, labels=["queue"]))

    def _histogram(self, name: str, text: str) -> HistogramMetricFamily:
        return self._add(HistogramMetricFamily(f"echomq_{name}", text, labels=["queue"]))

    def overview(self, queue: Queue, overview: Overview) -> None:
        name = queue.name
        for state in ("pending", "active", "scheduled", "dead"):
            self._jobs.add_metric([name, state], overview.counts[state])
        self._oldest.add_metric([name], overview.oldest or 0)
        for lane in queue.options.lanes:
            self._lanes.add_metric([name, lane], overview.depths.get(lane, 0))
        self._paused.add_metric([name], overview.paused)
        self._limited.add_metric([name], overview.limited)
        if overview.concurrency:
            self._concurrency.add_metric([name], overview.concurrency)
        if rate := overview.rate:
            self._rate.add_metric([name], rate.count * 1000 / rate.period_ms)

    def totals(self, name: str, totals: Totals) -> None:
        for what, counter in self._counters.items():
            counter.add_metric([name], getattr(totals, what))
        _observed(self._waits, name, totals.waits)
        _observed(self._runs, name, totals.runs)

    def workers(self, name: str, workers: list[WorkerInfo]) -> None:
        states = Counter(worker.state for worker in workers)
        for state in _WORKER_STATES:
            self._workers.add_metric([name, state], states[state])
        self._slots.add_metric([name], sum(worker.threads for worker in workers))
        self._busy.add_metric([name], sum(worker.in_hand for worker in workers))

    def dead(self, name: str, dead: Page) -> None:
        tasks = Counter(_known(task_name(listed.job.payload)) for listed in dead.jobs)
        for task, n in sorted(tasks.items()):
            self._dead.add_metric([name, task], n)


def _known(task: str) -> str:
    """A label that nobody who writes to the server can make endlessly many of."""
    return task if task and lookup(task) else OTHER


def _observed(family: HistogramMetricFamily, name: str, found: Mapping[float, int]) -> None:
    total = sum(found.values())
    buckets = [
        (str(bound), float(sum(n for end, n in found.items() if end <= bound * 1.001)))
        for bound in BOUNDS
    ]
    # The server keeps no sum.
    family.add_metric([name], [*buckets, ("+Inf", float(total))], None)
