"""What a fleet costs, on paper: servers, partitions, memory, network and connections.

    python benchmarks/fleet.py [--workers 1000] [--jobs-per-day 100000000] [--peak 4] ...

Nothing is measured here. It multiplies the costs of one job, one beat and one worker, each an
option, by a load, and says which limit is nearest. See docs/production/fleet.md.
"""

from __future__ import annotations

import argparse
from collections.abc import Iterator
from dataclasses import dataclass, fields

#: More than these run under random node numbers: some ids are minted twice, and then once more.
NODE_NUMBERS = 1_024
MAX_PARTITIONS = 64
#: With four partitions for each node the fullest has at most so much more than its share.
UNEVEN = 4 / 3

CORE, MEMORY = "core of the fullest node", "memory of the fullest node"


@dataclass(frozen=True)
class Load:
    """What is asked of the fleet. All on one queue: the hardest case."""

    workers: int = 1_000  # processes
    threads: int = 8  # of each
    senders: int = 200  # processes that enqueue
    jobs_per_day: float = 100e6
    peak: float = 4  # the busiest minute over the mean
    run_ms: float = 50  # a job's run time
    backlog_minutes: float = 30  # of the peak, waiting when something is down
    payload: int = 200  # bytes
    bulk_share: float = 0  # of the jobs, sent by enqueue_many


@dataclass(frozen=True)
class Costs:
    """What one of each costs the server."""

    enqueue_us: float = 80
    bulk_us: float = 16  # a job of enqueue_many
    alone_us: float = 145  # settling one job and claiming the next
    batched_us: float = 60  # the same where twenty share a round trip
    beat_us: float = 85  # of one worker on one partition, once a second
    waiting_bytes: float = 230  # a job that waits, without its payload
    record_bytes: float = 380  # the record of a job that has ended
    records: float = 10_000  # KEEP_COMPLETED_MAX, of each partition
    job_wire_bytes: float = 900  # of a job over the wire, without its payload
    beat_wire_bytes: float = 360
    worker_connections: float = 3  # to each node


@dataclass(frozen=True)
class Limits:
    """What one node of the server has."""

    busy: float = 0.7  # of its one core for scripts; more makes jobs wait
    memory_gb: float = 16
    network_gbit: float = 10
    maxclients: int = 10_000


@dataclass(frozen=True)
class Plan:
    """So many nodes, and what the fullest of them has to do."""

    load: Load
    costs: Costs
    nodes: int

    @property
    def partitions(self) -> int:
        return 1 if self.nodes == 1 else min(MAX_PARTITIONS, 4 * self.nodes)

    @property
    def share(self) -> float:
        """Of the whole, on the fullest node."""
        return 1.0 if self.nodes == 1 else min(1.0, UNEVEN / self.nodes)

    @property
    def jobs(self) -> float:
        """A second, at the peak."""
        return self.load.jobs_per_day / 86_400 * self.load.peak

    @property
    def beats(self) -> float:
        """A second, whether there is work or not."""
        return self.load.workers * self.partitions

    @property
    def jobs_per_trip(self) -> float:
        """How many jobs a worker settles and claims at once: those that end within 5 ms."""
        of_one = self.jobs / self.load.workers
        return min(20.0, max(1.0, of_one * 0.005))

    @property
    def job_us(self) -> float:
        costs, bulk = self.costs, self.load.bulk_share
        sent = (1 - bulk) * costs.enqueue_us + bulk * costs.bulk_us
        batched = (1 - 1 / self.jobs_per_trip) / (1 - 1 / 20)
        return sent + costs.alone_us + batched * (costs.batched_us - costs.alone_us)

    @property
    def idle_cores(self) -> float:
        return self.beats * self.costs.beat_us / 1e6

    @property
    def cores(self) -> float:
        return self.jobs * self.job_us / 1e6 + self.idle_cores

    @property
    def waiting_bytes(self) -> float:
        each = self.costs.waiting_bytes + self.load.payload
        return self.jobs * self.load.backlog_minutes * 60 * each

    @property
    def memory(self) -> float:
        records = self.costs.records * self.partitions
        return self.waiting_bytes + records * (self.costs.record_bytes + self.load.payload)

    @property
    def network(self) -> float:
        """Bytes a second."""
        job = self.costs.job_wire_bytes + 2 * self.load.payload
        return self.jobs * job + self.beats * self.costs.beat_wire_bytes

    @property
    def connections(self) -> float:
        """To each node; a worker serves all partitions, a sender uses one connection."""
        return self.load.workers * self.costs.worker_connections + self.load.senders

    @property
    def capacity(self) -> float:
        """Jobs a second that the workers' threads can run."""
        return self.load.workers * self.load.threads * 1_000 / self.load.run_ms

    def used(self, limits: Limits) -> Iterator[tuple[str, float]]:
        """By limit, how much of it the peak takes; above 1 it breaks."""
        yield "workers' threads", self.jobs / self.capacity
        yield CORE, self.cores * self.share / limits.busy
        yield MEMORY, self.memory * self.share / (limits.memory_gb * 2**30)
        yield (
            "network of the fullest node",
            self.network * self.share * 8 / (limits.network_gbit * 1e9),
        )
        yield "connections to a node", self.connections / limits.maxclients
        yield "node numbers of ids", (self.load.workers + self.load.senders) / NODE_NUMBERS
        yield "partitions", self.partitions / MAX_PARTITIONS


def plan(load: Load, costs: Costs, limits: Limits) -> Plan:
    """With the fewest nodes that carry the peak, as far as partitions go."""
    most = MAX_PARTITIONS // 4
    for nodes in range(1, most + 1):
        made = Plan(load, costs, nodes)
        carries = dict(made.used(limits))
        if carries[CORE] <= 1 and carries[MEMORY] <= 1:
            return made
    return Plan(load, costs, most)


def report(made: Plan, limits: Limits) -> Iterator[str]:
    load = made.load
    mean = load.jobs_per_day / 86_400
    used = sorted(made.used(limits), key=lambda entry: -entry[1])
    figures = {
        "jobs a second": f"{mean:,.0f} in the mean, {made.jobs:,.0f} at the peak",
        "threads at work": f"{made.jobs * load.run_ms / 1000:,.0f} of "
        f"{load.workers * load.threads:,} at the peak",
        "server, a job": f"{made.job_us:.0f} µs",
        "server, the peak": f"{made.cores:.2f} cores, {made.idle_cores:.2f} of them idle beats "
        f"({made.beats:,.0f} a second)",
        "nodes": f"{made.nodes}, the fullest {made.cores * made.share:.0%} busy",
        "PARTITIONS": "none" if made.partitions == 1 else str(made.partitions),
        "memory": f"{made.memory / 2**30:,.1f} GiB, {made.waiting_bytes / 2**30:,.1f} of them a "
        f"backlog of {load.backlog_minutes:g} minutes",
        "network": f"{made.network * 8 / 1e6:,.0f} Mbit/s",
        "connections": f"{made.connections:,.0f} to each node",
    }
    width = max(map(len, figures)) + 2
    yield from (f"{name:{width}}{value}" for name, value in figures.items())
    yield ""
    yield "How much of each limit the peak takes; the first breaks first:"
    yield from (f"{share:8.0%}  {name}" for name, share in used)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    groups = (Load, Costs, Limits)
    for group in groups:
        section = parser.add_argument_group(group.__name__.lower(), group.__doc__)
        for field in fields(group):
            kind = int if field.type == "int" else float
            section.add_argument(
                f"--{field.name.replace('_', '-')}", type=kind, default=field.default
            )
    given = vars(parser.parse_args())
    load, costs, limits = (
        group(**{field.name: given[field.name] for field in fields(group)}) for group in groups
    )
    print("\n".join(report(plan(load, costs, limits), limits)))


if __name__ == "__main__":
    main()
