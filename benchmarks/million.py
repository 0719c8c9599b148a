"""What each verb costs the server while a million jobs wait.

    python benchmarks/million.py [--pending 1000000] [--dead 200000] [--lanes 500] [--calls 30]

The times are those of the scripts alone, in ms: `wall` from the server's command statistics, `cpu`
the processor's time of its main thread. Ends with 1 where the cpu time of any call of a verb of one
job, or of a look, is 5 ms or more, or that of a bounded bulk step 20 ms or more.

A host that gives the processor to somebody else for a while lengthens the cpu time too, of whatever
runs then. So where a call is over the limit, all calls of its verb are made again, up to three
times in all: what a script does comes back, what the host does will not. The table tells the
maximum of all rounds, and how many calls were over.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import platform
import re
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from statistics import fmean
from typing import Any, TypeVar

from big_queue import Big, cpu_ms, fill
from redis.exceptions import NoScriptError

from django_echomq.queue import Claim, Queue, QueueOptions
from django_echomq.wire.client import Client
from django_echomq.wire.endpoint import Endpoint
from django_echomq.worker.promoter import tick_call

ONE, BULK = 5.0, 20.0  # ms
ROUNDS = 3

T = TypeVar("T")
PAYLOAD = b'{"task":"shop.tasks.send_receipt","args":[1]}'
INFO = json.dumps({"host": "h", "pid": 1}).encode()


class Enough(Exception):
    """Ends a verb that would go on for the whole queue."""


class Meter:
    """Runs verbs and keeps what their scripts took."""

    def __init__(self, queue: Queue, calls: int) -> None:
        self.queue, self.calls = queue, calls
        self.over = False
        self._took: list[tuple[float, float]] = []
        self._counted = "EVALSHA"
        self._texts: set[bytes] = set()
        self._plain = queue.client.roundtrip
        queue.client.roundtrip = self._metered  # type: ignore[method-assign]
        print(f"{'':<44}{'':>6}{'wall':>8}{'':>8}{'cpu':>8}")
        print(f"{'verb':<44}{'calls':>6}{'mean':>8}{'max':>8}{'mean':>8}{'max':>8}{'limit':>7}")

    def _metered(self, commands: list[Any]) -> list[Any]:
        look: list[Any] = [("INFO", "cpu")]
        around = [*look, ("INFO", "commandstats"), ("CONFIG", "RESETSTAT")]
        sent = around[1:]
        for command in commands:
            sent += [*look, command, *around]
        replies = self._plain(sent)[2:]
        answers = []
        for command in commands:
            before, answer, after, stats, _, *replies = replies
            answers.append(answer)
            found = re.search(rb"cmdstat_(?:evalsha|script\|load):calls=\d+,usec=(\d+)", stats)
            took = (int(found[1]) / 1000 if found else 0.0, cpu_ms(after) - cpu_ms(before))
            if command[0] == "SCRIPT":
                self._texts.add(command[2])
            if command[0] == self._counted and not isinstance(answer, NoScriptError):
                self._took.append(took)
        return answers

    def aside(self, act: Callable[[], T]) -> T:
        """Does what a verb needs and what is not of its cost."""
        took, self._took = self._took, []
        try:
            return act()
        finally:
            self._took = took

    def each(self, name: str, act: Callable[[], object], limit: float = ONE) -> None:
        """An act of one call, some times."""
        self.steps(name, lambda: [act() for _ in range(self.calls)], limit)

    def steps(self, name: str, act: Callable[[], object], limit: float = BULK) -> None:
        """An act of several calls."""
        rounds = []
        for _ in range(ROUNDS):
            took = self._took = []
            with contextlib.suppress(Enough):
                act()
            rounds.append(took)
            if all(cpu < limit for _, cpu in took):
                break
        self._tell(name, rounds, limit)

    def loads(self) -> None:
        """What it took to make the scripts known to the server."""
        self._counted = "SCRIPT"

        def load() -> None:
            self._plain([("SCRIPT", "FLUSH", "SYNC")])
            self._metered([("SCRIPT", "LOAD", text) for text in self._texts])

        self.steps("the first load of a script", load, ONE)

    def _tell(self, name: str, rounds: list[list[tuple[float, float]]], limit: float) -> None:
        wall, cpu = zip(*(one for took in rounds for one in took), strict=True)
        over = sum(one >= limit for one in cpu)
        mark = f"  {over} over" if over else ""
        if any(one >= limit for _, one in rounds[-1]):
            self.over, mark = True, mark + ", again and again  <--"
        print(
            f"{name:<44}{len(cpu):>6}{fmean(wall):>8.2f}{max(wall):>8.2f}"
            f"{fmean(cpu):>8.2f}{max(cpu):>8.2f}{limit:>7.0f}{mark}",
            flush=True,
        )

    def some(self, done: int, expected: int) -> None:
        """The progress of a bulk verb: enough after some steps."""
        self._left -= 1
        if self._left <= 0:
            raise Enough

    def bulk(self, name: str, act: Callable[[], object]) -> None:
        """Some steps of a bulk verb that reports to :meth:`some`."""

        def some() -> None:
            self._left = self.calls
            act()

        self.steps(name, some)


def measure(meter: Meter, big: Big) -> None:
    queue, each, steps, bulk = meter.queue, meter.each, meter.steps, meter.bulk
    jobs, admin, lanes, metrics, repeat = (
        queue.jobs,
        queue.admin,
        queue.lanes,
        queue.metrics,
        queue.repeat,
    )
    calls = meter.calls
    lane = big.lanes[7]
    waiting, dead = iter(big.pending[500_000 % len(big.pending) :]), iter(big.dead)
    parked = iter(big.scheduled)

    def taken(iterator: object, count: int) -> list[str]:
        return [next(iterator) for _ in range(count)]  # type: ignore[call-overload]

    later = time.time_ns() // 1_000_000 + 10**10
    queue.jobs.enqueue(PAYLOAD)  # the scripts' first loads are not measured
    each("jobs.enqueue", lambda: jobs.enqueue(PAYLOAD))
    each("jobs.enqueue, in a lane", lambda: jobs.enqueue(PAYLOAD, lane=lane))
    each("jobs.enqueue, with a priority", lambda: jobs.enqueue(PAYLOAD, priority=5))
    each("jobs.enqueue_at", lambda: jobs.enqueue_at(PAYLOAD, later))
    steps("jobs.enqueue_many, 500 a call", lambda: jobs.enqueue_many([PAYLOAD] * 500 * calls))
    for verb, act in (
        ("complete", lambda claim: jobs.complete(claim, b"1")),
        ("retry", lambda claim: jobs.retry(claim, 60, 3, "E: x")),
        ("retry, to the dead", lambda claim: jobs.retry(claim, 0, 1, "E: x")),
        ("release", lambda claim: jobs.release(claim)),
        ("delay", lambda claim: jobs.delay(claim, 600)),
    ):
        each(f"jobs.{verb}", lambda act=act: act(meter.aside(jobs.claim)[0]))
    held: list[Claim] = []
    each("jobs.claim", lambda: held.extend(jobs.claim()))
    steps("jobs.claim, 100 a call", lambda: [held.extend(jobs.claim(100)) for _ in range(calls)])
    steps("jobs.claim, 500 a call", lambda: [held.extend(jobs.claim(500)) for _ in range(calls)])
    each("jobs.extend_lock", lambda: jobs.extend_lock(held[0]))
    each("jobs.checkpoint", lambda: jobs.checkpoint(held[1], details=b"{}"))
    each("jobs.update_progress", lambda: jobs.update_progress(held[2].job_id, "50"))
    each("jobs.add_log", lambda: jobs.add_log(held[2].job_id, "a line"))
    each("jobs.logs", lambda: jobs.logs(held[2].job_id))
    each("jobs.cancel, in hand", lambda: jobs.cancel(held.pop().job_id))
    each("lanes.reassign, in hand", lambda: lanes.reassign(held.pop().job_id, lane))
    each("jobs.reap, none lapsed", lambda: jobs.reap())
    each("stalled.check, none lapsed", lambda: queue.stalled.check())
    each(
        "the beat of a worker",
        lambda: queue.drive(queue.client.run(tick_call(queue, 100, "w", INFO))),
    )

    def lapse() -> None:
        for claim in jobs.claim(100):
            jobs.extend_lock(claim, 0.001)

    def lapsed(act: Callable[[], object]) -> Callable[[], object]:
        return lambda: [(meter.aside(lapse), act()) for _ in range(10)]

    steps("jobs.reap, 100 a call", lapsed(jobs.reap))
    steps("stalled.check, 100 a call", lapsed(queue.stalled.check))
    steps(
        "the beat of a worker, 100 lapsed",
        lapsed(lambda: queue.drive(queue.client.run(tick_call(queue, 100, "w", INFO)))),
    )

    each("jobs.state", lambda: jobs.state(next(waiting)))
    each("jobs.get", lambda: jobs.get(next(dead)))
    for state in ("pending", "active", "scheduled", "dead", "completed"):
        each(f"jobs.browse, 50 {state}", lambda state=state: jobs.browse(state))
        each(f"jobs.page, 51 {state}", lambda state=state: jobs.page(state, limit=51))
    each("jobs.page, 51 pending, from rank 500,000", lambda: jobs.page(offset=500_000, limit=51))
    steps("jobs.page, 250 dead", lambda: [jobs.page("dead", 250 * n, 250) for n in range(calls)])
    place = jobs.page("dead", 100_000, 1, False).end
    steps(
        "jobs.page, 250 dead, behind a place",
        lambda: [jobs.page("dead", 0, 250, False, behind=place) for _ in range(calls)],
    )
    each("jobs.update_data", lambda: jobs.update_data(next(waiting), PAYLOAD))
    each("jobs.reschedule", lambda: jobs.reschedule(next(waiting), later))
    each("jobs.promote_now", lambda: jobs.promote_now(next(parked)))
    each("jobs.cancel", lambda: jobs.cancel(next(waiting)))
    each("jobs.reprocess", lambda: jobs.reprocess(next(dead)))
    each("jobs.remove", lambda: jobs.remove(next(waiting)))
    each("lanes.reassign", lambda: lanes.reassign(next(waiting), lane))
    for name, act, source in (
        ("jobs.promote_many", jobs.promote_many, parked),
        ("jobs.cancel_many", jobs.cancel_many, waiting),
        ("jobs.reprocess_many", jobs.reprocess_many, dead),
        ("jobs.remove_many", jobs.remove_many, waiting),
    ):
        steps(
            f"{name}, 50 a call",
            lambda act=act, source=source: act(taken(source, 100 * min(calls, 20))),
        )
    for _ in range(3_000):
        jobs.enqueue_in(PAYLOAD, 0)
    steps("jobs.promote, 100 due", lambda: [jobs.promote() for _ in range(10)])

    each("admin.pause", lambda: admin.pause())
    each("admin.resume", lambda: admin.resume())
    each("admin.limit_concurrency", lambda: admin.limit_concurrency(100_000))
    each("admin.limit_rate", lambda: admin.limit_rate("100000/s"))
    each("jobs.enqueue, with limits", lambda: jobs.enqueue(PAYLOAD))
    each("jobs.claim, with limits", lambda: jobs.claim())
    each("admin.configure", lambda: admin.configure())
    admin.limit_concurrency(None)
    admin.limit_rate(None)
    each("lanes.pause", lambda: lanes.pause(lane))
    each("lanes.resume", lambda: lanes.resume(lane))
    each("lanes.limit", lambda: lanes.limit(lane, 10))
    each("lanes.weight", lambda: lanes.weight(lane, 2))
    each("lanes.depth", lambda: lanes.depth(lane))
    each("lanes.all", lambda: lanes.all())
    each("lanes.reap", lambda: lanes.reap(lane), BULK)
    each("metrics.counts", lambda: metrics.counts())
    each("metrics.is_maxed", lambda: metrics.is_maxed())
    each("metrics.throughput, 60 minutes", lambda: metrics.throughput())
    each("metrics.throughput, 744 hours", lambda: metrics.throughput(hours=744))
    each("metrics.latency, 48 hours", lambda: metrics.latency(48))
    each("metrics.oldest", lambda: metrics.oldest())
    each("metrics.overview", lambda: metrics.overview())
    each("workers.all", lambda: queue.workers.all())
    each("workers.quiet", lambda: queue.workers.quiet("w"))
    names = iter(range(10**6))
    each("repeat.register", lambda: repeat.register(f"s{next(names)}", payload=PAYLOAD, every=60))
    each("repeat.get", lambda: repeat.get("s1"))
    each("repeat.all", lambda: repeat.all())
    each("repeat.pause", lambda: repeat.pause("s1"))
    each("repeat.resume", lambda: repeat.resume("s1"))
    each("repeat.run_now", lambda: repeat.run_now("s1"))
    each("repeat.due", lambda: repeat.due())

    def fall_due() -> None:
        for n in range(calls):
            name = f"due{n}"
            repeat.register(name, payload=PAYLOAD, every=3600, start=1_700_000_000_000)
            queue.drive(queue.client.command("ZADD", queue.keys.base + b"repeat", 1, name))

    steps("repeat.fire", lambda: (meter.aside(fall_due), repeat.fire(calls)), ONE)
    each("repeat.cancel", lambda: repeat.cancel("s2"))

    full = iter(big.lanes)
    bulk("lanes.drain, a step", lambda: [lanes.drain(name, meter.some) for name in full])
    bulk("admin.clean dead, a step", lambda: admin.clean("dead", 0, progress=meter.some))
    bulk("admin.reprocess_all, a step", lambda: admin.reprocess_all(meter.some))
    bulk("admin.promote_all, a step", lambda: admin.promote_all(meter.some))
    bulk("admin.drain, a step", lambda: admin.drain(progress=meter.some))
    bulk("admin.drain, parked too, a step", lambda: admin.drain(True, progress=meter.some))
    admin.pause()
    bulk("admin.obliterate, a step", lambda: admin.obliterate(force=True, progress=meter.some))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--pending", type=int, default=1_000_000)
    parser.add_argument("--dead", type=int, default=200_000)
    parser.add_argument("--lanes", type=int, default=500)
    parser.add_argument("--calls", type=int, default=30)
    options = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="echomq-", ignore_cleanup_errors=True) as name:
        endpoint = Endpoint.from_embedded(Path(name) / "valkey")
        client = Client(endpoint, retry_for=30)
        queue = Queue(
            "million", client, QueueOptions(lease_ms=3_600_000, keep_completed_max=100_000)
        )
        queue.metrics.counts()
        big = fill(queue, options.pending, options.dead, options.lanes, in_lane=200)
        server = queue.drive(client.command("INFO", "server"))
        version = server.partition(b"valkey_version:")[2].split()[0].decode()
        counts = queue.metrics.counts()
        print(f"Python {platform.python_version()}, Valkey {version}, {counts}")
        meter = Meter(queue, options.calls)
        measure(meter, big)
        meter.loads()
    sys.exit(1 if meter.over else 0)


if __name__ == "__main__":
    main()
