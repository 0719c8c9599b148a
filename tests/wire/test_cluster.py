"""Queues on a cluster: each at the primary of its slot, wherever that is."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Iterator
from typing import Any

import pytest
import redis

from django_echomq.queue import Queue
from django_echomq.wire.client import LOST, Client, Parked
from django_echomq.wire.cluster import HOME_SLOT, Cluster
from django_echomq.wire.endpoint import WIRE_VERSION, Endpoint
from django_echomq.wire.errors import ServerUnavailable, UnsafeClient, VersionFence
from django_echomq.wire.keys import VERSION_KEY
from tests.waiting import wait_until
from tests.wire.nodes import Nodes, base_of, slot_of
from tests.wire.proxy import Proxy


@pytest.fixture
def client(cluster: Nodes) -> Iterator[Client]:
    endpoint = Endpoint.from_cluster(cluster.addresses[-1:], max_connections=50)
    made = Client(endpoint, retry_for=30)
    yield made
    made.close()


@pytest.fixture
def queues(cluster: Nodes, client: Client) -> list[Queue]:
    """A queue on each primary."""
    return [Queue(name, client) for name in cluster.names()]


@pytest.fixture
def elsewhere(cluster: Nodes, queues: list[Queue]) -> Queue:
    """A queue that is not on the node of what queues share."""
    home = cluster.owner(VERSION_KEY)
    return next(q for q in queues if cluster.owner(q.keys.base) is not home)


def other(cluster: Nodes, queue: Queue) -> Any:
    """A primary that the queue is not on."""
    here = cluster.owner(queue.keys.base)
    return next(node for node in cluster.primaries() if node is not here)


def serve(queue: Queue, payload: bytes = b"x") -> bytes:
    """One job through its whole life; answers its payload as it was claimed."""
    queue.jobs.enqueue(payload)
    (claim,) = queue.jobs.claim()
    queue.jobs.complete(claim)
    return claim.payload


# Routing


def test_each_queue_is_at_the_primary_of_its_slot(cluster: Nodes, queues: list[Queue]) -> None:
    for queue in queues:
        assert serve(queue, queue.name.encode()) == queue.name.encode()
    for queue, node in zip(queues, cluster.primaries(), strict=True):
        assert node.keys(queue.name)
    assert len({queue.client for queue in queues}) == len(queues)


def test_queues_of_a_slot_share_a_client(client: Client) -> None:
    # Two names of one slot.
    first = Queue("c0", client)
    twin = next(f"t{n}" for n in range(200_000) if slot_of(f"t{n}") == slot_of("c0"))
    assert Queue(twin, client).client is first.client
    # Whichever of the cluster's clients a queue is made with.
    assert Queue(twin, Queue("c1", client).client).client is first.client


def test_a_cluster_client_is_taken_over(cluster: Nodes) -> None:
    host, _, port = cluster.addresses[0].rpartition(":")
    with redis.RedisCluster(host=host, port=int(port)) as theirs:
        for name in cluster.names():
            queue = Queue(name, theirs)
            assert serve(queue, b"theirs") == b"theirs"
            queue.client.close()
    with (
        redis.RedisCluster(host=host, port=int(port), decode_responses=True) as decoding,
        pytest.raises(UnsafeClient, match="decode_responses"),
    ):
        Queue("c0", decoding)


def test_on_an_event_loop(queues: list[Queue], client: Client) -> None:
    async def admit() -> list[Any]:
        return await asyncio.gather(
            *(q.client.adrive(q.jobs.admission([b"x"])) for q in queues for _ in range(5))
        )

    assert len(asyncio.run(admit())) == 5 * len(queues)
    assert [queue.metrics.counts()["pending"] for queue in queues] == [5] * len(queues)


def test_node_numbers_are_leased_once_for_all_slots(
    cluster: Nodes, client: Client, queues: list[Queue]
) -> None:
    home = cluster.owner(b"{emq}:nodes")

    def owners() -> set[bytes]:
        return {lease.split()[0] for lease in home.raw.hvals("{emq}:nodes")}

    before = owners()
    for queue in queues:
        queue.jobs.enqueue(b"x")
    assert len(owners() - before) == 1


@pytest.mark.parametrize("loop", [False, True])
def test_the_version_is_looked_at_where_it_is(cluster: Nodes, elsewhere: Queue, loop: bool) -> None:
    home = cluster.owner(VERSION_KEY)
    client = Client(Endpoint.from_cluster(cluster.addresses))
    queue = Queue(elsewhere.name, client)

    def ask() -> None:
        if loop:
            asyncio.run(queue.client.adrive(queue.jobs.admission([b"x"])))
        else:
            queue.metrics.counts()

    home.raw.set(VERSION_KEY, "another")
    try:
        with pytest.raises(VersionFence, match="another"):
            ask()
        assert not cluster.owner(queue.keys.base).keys(queue.name)
        # Set where there is none, so that others are fenced by us.
        home.raw.delete(VERSION_KEY)
        assert serve(queue) == b"x"
        assert home.raw.get(VERSION_KEY) == WIRE_VERSION
    finally:
        home.raw.set(VERSION_KEY, WIRE_VERSION)
        client.close()


# What the settings say


def test_addresses_are_read_and_told_without_secrets() -> None:
    found = Endpoint.from_cluster(
        ["valkeys://u:geheim@one:7001", "valkeys://u:geheim@two"], client_name="me"
    )
    assert found.label == "cluster:one:7001,two:6379"
    assert "geheim" not in repr(found)
    assert found.options == {"username": "u", "password": "geheim", "client_name": "me"}
    assert issubclass(found.connection_class, redis.SSLConnection)
    assert found.slot == HOME_SLOT
    assert found.at(base_of("c0")).slot == slot_of("c0")
    assert Endpoint.from_cluster(["[::1]:7000"]).label == "cluster:::1:7000"


@pytest.mark.parametrize(
    ("nodes", "why"),
    [
        ("h:1", "is a list of nodes"),
        ([], "is a list of nodes"),
        (7, "is a list of nodes"),
        (["h:1", "h:port"], "node 2 of CLUSTER is not host:port"),
        (["h:99999"], "node 1 of CLUSTER is not host:port"),
        ([":7000"], "node 1 of CLUSTER must be host:port"),
        (["redis://h:1/3"], "node 1 of CLUSTER must be host:port"),
        (["unix:///v.sock"], "node 1 of CLUSTER must be host:port"),
        (["http://h:1"], "node 1 of CLUSTER is not host:port"),
        (["redis://:geheim@h:1", "h:2"], "differ in credentials or TLS"),
    ],
)
def test_what_is_no_list_of_nodes_is_refused(nodes: Any, why: str) -> None:
    with pytest.raises(ValueError, match=why) as refused:
        Endpoint.from_cluster(nodes)
    assert "geheim" not in str(refused.value)


def test_a_server_that_is_no_cluster_says_so(proxy: Proxy) -> None:
    client = Client(Endpoint.from_cluster([proxy.url.removesuffix("/0")]), retry_for=0.1)
    with pytest.raises(ServerUnavailable, match="cluster support disabled"):
        Queue("c0", client).metrics.counts()


def test_a_node_that_is_taken_for_a_server_says_so(cluster: Nodes) -> None:
    home = cluster.owner(VERSION_KEY)
    node = next(node for node in cluster.primaries() if node is not home)
    client = Client(Endpoint.from_url(f"redis://127.0.0.1:{node.port}"), retry_for=0.1)
    with pytest.raises(ServerUnavailable, match="give CLUSTER in place of URL"):
        Queue("c0", client).metrics.counts()


# Slots that move, primaries that change


def test_a_slot_that_has_moved_is_followed(cluster: Nodes, queues: list[Queue]) -> None:
    queue = queues[0]
    queue.jobs.enqueue(b"before")
    target = other(cluster, queue)
    cluster.move(queue.name, target)
    # The idle connection is to the old node, which says where the slot is now.
    assert serve(queue, b"after") == b"before"
    assert queue.metrics.counts()["pending"] == 1
    assert target.keys(queue.name)
    # A loop of its own has connections of its own.
    asyncio.run(queue.client.adrive(queue.client.command("HGET", queue.keys.meta, "events")))
    cluster.move(queue.name, other(cluster, queue))

    async def twice() -> None:
        jobs = queue.jobs
        await queue.client.adrive(jobs.admission([b"x"]))
        await asyncio.to_thread(cluster.move, queue.name, other(cluster, queue))
        await queue.client.adrive(jobs.admission([b"x"]))

    asyncio.run(twice())
    assert queue.metrics.counts()["pending"] == 3


def test_a_slot_on_its_way_is_waited_for(cluster: Nodes, queues: list[Queue]) -> None:
    queue = queues[0]
    ids = [queue.jobs.enqueue(b"%d" % n).job_id for n in range(10)]
    (claim,) = queue.jobs.claim()
    move = cluster.moving(queue.name, other(cluster, queue))
    assert move.move(4)
    on_target = move.target.keys(queue.name)
    impatient = Queue(queue.name, Client(queue.client.endpoint, retry_for=0.2))
    calls: list[Callable[[], object]] = [
        lambda: impatient.jobs.enqueue(b"more"),
        lambda: impatient.jobs.enqueue_in(b"more", 60),
        impatient.jobs.claim,
        lambda: impatient.jobs.complete(claim),
        lambda: impatient.jobs.extend_lock(claim),
        lambda: impatient.jobs.state(ids[0]),
        impatient.metrics.counts,
        lambda: impatient.jobs.remove(ids[5]),
        lambda: asyncio.run(impatient.client.adrive(impatient.jobs.admission([b"more"]))),
    ]
    for call in calls:
        with pytest.raises(ServerUnavailable, match=r"is being moved|has moved"):
            call()
    assert move.target.keys(queue.name) == on_target
    # One that is patient gets through as soon as the slot is whole.
    done: list[Any] = []
    waiting = threading.Thread(target=lambda: done.append(queue.jobs.enqueue(b"patient")))
    waiting.start()
    move.end()
    waiting.join(30)
    queue.jobs.complete(claim)
    assert done
    assert queue.metrics.counts("pending", "active", "completed") == {
        "pending": 10,
        "active": 0,
        "completed": 1,
    }


def test_plain_commands_meet_a_key_where_it_is(cluster: Nodes, queues: list[Queue]) -> None:
    """Each plain command is on one key: the source runs it as long as the key is there, and it
    waits once it is not."""
    queue = queues[0]
    queue.events.disable()
    move = cluster.moving(queue.name, other(cluster, queue))
    impatient = Queue(queue.name, Client(queue.client.endpoint, retry_for=0.2))
    assert not impatient.events.is_enabled()
    while move.move(1):
        pass
    for call in (impatient.events.is_enabled, impatient.events.disable, impatient.events.enable):
        with pytest.raises(ServerUnavailable):
            call()
    parked = Parked(impatient.client, 1.0)
    with pytest.raises(LOST):
        parked.wait([queue.keys.wake], 1.0)
    move.end()
    assert not queue.events.is_enabled()
    parked.close()


def test_a_parked_connection_follows_its_slot(cluster: Nodes, queues: list[Queue]) -> None:
    queue = queues[0]
    parked = Parked(queue.client, 30.0)
    found: list[object] = []

    def wait() -> None:
        while not found:
            try:
                found.append(parked.wait([queue.keys.wake], 30.0)[0])
            except LOST as error:
                moves.append(error)

    moves: list[BaseException] = []
    thread = threading.Thread(target=wait, daemon=True)
    thread.start()

    def is_parked() -> bool:
        return b"cmd=blpop" in cluster.owner(queue.keys.base).ask("CLIENT", "LIST")

    wait_until(is_parked, "the connection to park")
    cluster.move(queue.name, other(cluster, queue))
    wait_until(is_parked, "the connection to park at the new node")
    assert moves
    cluster.fail_over(cluster.owner(queue.keys.base))
    wait_until(is_parked, "the connection to park at the new primary")
    assert not found
    queue.jobs.enqueue(b"x")
    thread.join(30)
    assert found == [queue.keys.wake]
    parked.close()


def test_events_survive_a_failover(cluster: Nodes, queues: list[Queue]) -> None:
    queue = queues[0]
    primary = cluster.owner(queue.keys.base)
    with queue.events.subscribe(timeout=30) as events:
        cluster.fail_over(primary)
        job_id = queue.jobs.enqueue(b"x").job_id
        assert next(event for event in events if event.job_id == job_id)
        # Where it listens dies; what is told elsewhere arrives once it listens again.
        primary.kill()
        wait_until(lambda: events.reconnects, "the subscription to be back")
        job_id = queue.jobs.enqueue(b"x").job_id
        assert next(event for event in events if event.job_id == job_id)


def test_a_loss_that_many_meet_is_learned_from_once(
    cluster: Nodes, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_echomq.wire.cluster._FRESH", 60.0)
    endpoint = Endpoint.from_cluster(cluster.addresses)
    asked: list[object] = []
    ask = Cluster._ask
    monkeypatch.setattr(Cluster, "_ask", lambda self, node: asked.append(node) or ask(self, node))
    assert endpoint.cluster
    threads = [threading.Thread(target=endpoint.heal) for _ in range(30)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(30)
    assert len(asked) == 1
    assert endpoint.cluster.find(HOME_SLOT)
