"""A cluster whose primaries die and whose slots move, under producers and one worker that serves a
queue on each of its nodes. What was admitted is done, once."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from django_echomq.wire.client import Client
from django_echomq.wire.endpoint import Endpoint
from tests.conftest import Command, wait_until
from tests.faults.conftest import Watched
from tests.faults.test_server_troubles import effects, end_well, producing, some_more
from tests.wire.nodes import Node, Nodes, base_of

Start = Callable[..., Command]

NAMES = ("mail", "default", "fast")


@pytest.fixture
def watched(cluster: Nodes, tmp_path: Path) -> Iterator[list[Watched]]:
    """The queues of the settings, each on a node of its own."""
    homes = dict(zip(NAMES, cluster.primaries(), strict=True))
    for name, node in homes.items():
        if cluster.owner(base_of(name)) is not node:
            cluster.move(name, node)
    for node in cluster.primaries():
        node.raw.flushall()
    env = {"ECHOMQ_TEST_CLUSTER": json.dumps(cluster.addresses)}
    client = Client(Endpoint.from_cluster(cluster.addresses), retry_for=20)
    made = []
    for name in NAMES:
        folder = tmp_path / name
        folder.mkdir()
        made.append(Watched(folder, env, client, name))
    yield made
    for each in made:
        each.proxy.close()
    client.close()


@contextmanager
def under_load(watched: list[Watched], command: Start) -> Iterator[None]:
    """Producers for each queue and a worker for all, who go on after what happens; and the books
    are right in the end: no admission is lost, and none has run twice."""
    options = ("--threads", "4", "--grace", "20")
    worker = command("echomq_worker", *NAMES, *options, env=watched[0].direct)
    for each in watched:
        each.warm_up(worker)
    with ExitStack() as stack:
        loads = [stack.enter_context(producing(each)) for each in watched]
        for admitted in loads:
            some_more(admitted, 20)
        yield
        for admitted in loads:
            some_more(admitted, 20)
    for each in watched:
        end_well(
            each, *([worker] if each is watched[-1] else []), quiet=("was refused", "Lease lost")
        )
    for each, admitted in zip(watched, loads, strict=True):
        assert effects(each) == Counter(admitted)


def other(cluster: Nodes, primary: Node) -> Node:
    return next(node for node in cluster.primaries() if node is not primary)


def test_a_primary_is_killed(cluster: Nodes, watched: list[Watched], command: Start) -> None:
    """What the replica has is there: writes are held for the moment before, so that it has all."""
    primary = cluster.owner(watched[0].queue.keys.base)
    replica = cluster.replica_of(primary)
    with under_load(watched, command):
        primary.ask("CLIENT", "PAUSE", 10_000, "WRITE")
        wait_until(lambda: replica.offset == primary.offset, "the replica to have it all")
        primary.kill()
        wait_until(lambda: replica.is_primary, "the replica to take over")


def test_a_replica_takes_over_by_hand(
    cluster: Nodes, watched: list[Watched], command: Start
) -> None:
    """At one node and then at another, which has what all queues share."""
    with under_load(watched, command):
        for name in ("mail", "default"):
            cluster.fail_over(cluster.owner(base_of(name)))


def test_a_slot_moves_in_one_step(cluster: Nodes, watched: list[Watched], command: Start) -> None:
    name = watched[0].queue.name
    with under_load(watched, command):
        for _ in range(2):
            cluster.move(name, other(cluster, cluster.owner(base_of(name))))


def test_a_slot_moves_key_by_key(cluster: Nodes, watched: list[Watched], command: Start) -> None:
    """The queue waits, and no part of it is left behind."""
    name = watched[0].queue.name
    source = cluster.owner(base_of(name))
    with under_load(watched, command):
        move = cluster.moving(name, other(cluster, source))
        while move.move(3):
            pass
        move.end()
        assert not source.keys(name)
