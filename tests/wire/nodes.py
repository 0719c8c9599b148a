"""A cluster of real servers on loopback."""

from __future__ import annotations

import itertools
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from itertools import chain
from pathlib import Path
from typing import Any

import pytest
import redis
from redis.crc import key_slot
from redis.exceptions import MovedError

from django_echomq.wire import embedded as programs
from tests.waiting import wait_until

SLOTS = 16384
_names = itertools.count()


class Node:
    """One server of a cluster.

    Attributes:
        raw: a plain client of it.
    """

    def __init__(self, folder: Path, port: int, timeout_ms: int) -> None:
        self.port = port
        self.raw = redis.Redis(port=port, socket_timeout=10)
        self._folder = folder
        self._timeout_ms = timeout_ms
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        self._folder.mkdir(exist_ok=True)
        self._process = subprocess.Popen(
            [
                *(programs._find_binary(), "--port", str(self.port), "--save", ""),
                *("--bind", "127.0.0.1", "--cluster-enabled", "yes"),
                *("--cluster-node-timeout", str(self._timeout_ms)),
                # A replica of a primary that has died at once is never too old to take over.
                *("--cluster-replica-validity-factor", "0", "--repl-diskless-sync-delay", "0"),
            ],
            cwd=self._folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )

    def listens(self) -> bool:
        if self._process and self._process.poll() is not None:
            raise RuntimeError(f"the node at port {self.port} ended")
        with suppress(redis.ConnectionError):
            return bool(self.raw.ping())
        return False

    @property
    def id(self) -> str:
        return self.ask("CLUSTER", "MYID").decode()

    @property
    def is_primary(self) -> bool:
        return bool(self.raw.execute_command("ROLE")[0] == b"master")

    @property
    def offset(self) -> int:
        """How much of the stream of writes it has, in bytes."""
        role = self.raw.execute_command("ROLE")
        return int(role[1] if role[0] == b"master" else role[4])

    def ask(self, *command: str | int | bytes) -> Any:
        return self.raw.execute_command(*command, NEVER_DECODE=True)

    def kill(self) -> None:
        if self._process:
            with suppress(OSError):
                self._process.send_signal(signal.SIGCONT)
            self._process.kill()
            self._process.wait()
            self._process = None
            self.raw.connection_pool.disconnect()

    def keys(self, name: str) -> int:
        """How many keys of a queue's slot it has."""
        return int(self.ask("CLUSTER", "COUNTKEYSINSLOT", slot_of(name)))

    @property
    def is_running(self) -> bool:
        return self._process is not None


class Nodes:
    """Primaries that share the slots evenly, and replicas of them in turn.

    Args:
        ports: a port per node; the first so many are the primaries.
        primaries: how many.
        timeout_ms: after so long a node that does not answer counts as failed.
    """

    def __init__(self, ports: Sequence[int], primaries: int = 3, timeout_ms: int = 1000) -> None:
        self._folder = Path(tempfile.mkdtemp(prefix="echomq-cluster-"))
        self._primaries = primaries
        self.nodes = [Node(self._folder / str(port), port, timeout_ms) for port in ports]
        self.addresses = [f"127.0.0.1:{port}" for port in ports]

    def start(self) -> None:
        for node in self.nodes:
            node.start()
        for node in self.nodes:
            wait_until(node.listens, "a node to listen")
        first, *others = self.nodes
        share = SLOTS // self._primaries + 1
        for number, node in enumerate(self.nodes[: self._primaries]):
            low = number * share
            node.ask("CLUSTER", "ADDSLOTSRANGE", low, min(low + share, SLOTS) - 1)
            node.ask("CLUSTER", "SET-CONFIG-EPOCH", number + 1)
        # A node that is slow to answer is forgotten, so it may take more than one meeting.
        for node in others:
            wait_until(lambda node=node: self._knows(first, node), "a node to be met", step=0.3)
        self.settle(whole=False)
        for number, node in enumerate(self.nodes[self._primaries :]):
            node.ask("CLUSTER", "REPLICATE", self.nodes[number % self._primaries].id)
        self.settle()

    def _knows(self, first: Node, other: Node) -> bool:
        nodes = first.ask("CLUSTER", "NODES").decode().splitlines()
        if any(f":{other.port}@" in line and "handshake" not in line for line in nodes):
            return True
        first.ask("CLUSTER", "MEET", "127.0.0.1", other.port)
        return False

    def settle(self, whole: bool = True) -> None:
        """Waits until all that run agree that all is well, and replicas are in step."""

        def settled() -> bool:
            owners = set()
            for node in self.nodes:
                if not node.is_running:
                    continue
                known = node.ask("CLUSTER", "NODES").decode().splitlines()
                if len(known) < len(self.nodes) or any("handshake" in line for line in known):
                    return False
                if b"cluster_state:ok" not in node.ask("CLUSTER", "INFO"):
                    return False
                owners.add(str(sorted(entry[:3] for entry in node.ask("CLUSTER", "SLOTS"))))
                if whole and not node.is_primary and node.ask("ROLE")[3] != b"connected":
                    return False
            return not whole or len(owners) == 1

        wait_until(settled, "the cluster to settle", step=0.05)

    def owner(self, key: bytes) -> Node:
        """The primary of a key, as a node sees it that is one."""
        slot = key_slot(key)
        for node in self.primaries():
            for low, high, (_, port, *_), *_ in node.ask("CLUSTER", "SLOTS"):
                if low <= slot <= high:
                    return next(each for each in self.nodes if each.port == port)
        raise LookupError(f"nobody serves slot {slot}")

    def replica_of(self, node: Node) -> Node:
        """A replica of a primary."""
        (line, *_) = node.ask("CLUSTER", "REPLICAS", node.id)
        port = int(line.split()[1].split(b"@")[0].rpartition(b":")[2])
        return next(each for each in self.nodes if each.port == port)

    def primaries(self) -> list[Node]:
        return [node for node in self.nodes if node.is_running and node.is_primary]

    def names(self) -> list[str]:
        """Fresh names of queues, one for each primary, in their order."""
        primaries = self.primaries()
        found: dict[Node, str] = {}
        while len(found) < len(primaries):
            name = f"c{next(_names)}"
            found.setdefault(self.owner(base_of(name)), name)
        return [found[node] for node in primaries]

    def move(self, name: str, target: Node) -> None:
        """Moves a queue's slot to another node in one step."""
        slot = slot_of(name)
        source = self.owner(base_of(name))
        try:
            source.ask("CLUSTER", "MIGRATESLOTS", "SLOTSRANGE", slot, slot, "NODE", target.id)
        except redis.ResponseError as error:
            if "unknown subcommand" in str(error):
                pytest.skip("the run's server moves no slot in one step")
            raise
        wait_until(lambda: self.owner(base_of(name)) is target, "the slot to have moved")

    def moving(self, name: str, target: Node) -> KeyByKey:
        """Begins to move a queue's slot to another node key by key, as was usual before."""
        return KeyByKey(self.owner(base_of(name)), target, slot_of(name))

    def fail_over(self, primary: Node) -> None:
        """Lets a replica take over from a primary, by hand."""
        replica = self.replica_of(primary)
        replica.ask("CLUSTER", "FAILOVER")
        wait_until(lambda: replica.is_primary and not primary.is_primary, "the replica")

    def close(self) -> None:
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


class KeyByKey:
    """A slot on its way; a part of its keys is on either node."""

    def __init__(self, source: Node, target: Node, slot: int) -> None:
        self.source = source
        self.target = target
        self._slot = slot
        target.ask("CLUSTER", "SETSLOT", slot, "IMPORTING", source.id)
        source.ask("CLUSTER", "SETSLOT", slot, "MIGRATING", target.id)

    def move(self, count: int) -> bool:
        """Moves so many keys; answers whether there were any."""
        keys = self.source.ask("CLUSTER", "GETKEYSINSLOT", self._slot, count)
        if keys:
            where = ("127.0.0.1", self.target.port, "", 0, 5000)
            self.source.ask("MIGRATE", *where, "KEYS", *keys)
        return bool(keys)

    def end(self) -> None:
        """Moves what is left, and hands the slot over."""
        while self.move(100):
            pass
        for node in (self.target, self.source):
            node.ask("CLUSTER", "SETSLOT", self._slot, "NODE", self.target.id)


class Router(redis.Redis):
    """A plain client of a cluster, on which a test speaks as on one server: of the first node, but
    commands on a key go to where that is.

    Args:
        ports: of the primaries.
    """

    def __init__(self, ports: Sequence[int]) -> None:
        super().__init__(port=ports[0])
        self._peers = {port: redis.Redis(port=port) for port in ports}

    def execute_command(self, *args: Any, **options: Any) -> Any:
        try:
            return super().execute_command(*args, **options)
        except MovedError as moved:
            return self._peers[moved.port].execute_command(*args, **options)

    def scan_iter(self, *args: Any, **options: Any) -> Any:
        return chain(*(peer.scan_iter(*args, **options) for peer in self._peers.values()))

    def keys(self, *args: Any, **options: Any) -> Any:
        return [key for peer in self._peers.values() for key in peer.keys(*args, **options)]

    def script_flush(self, *args: Any) -> Any:
        return [peer.script_flush(*args) for peer in self._peers.values()]


def base_of(name: str) -> bytes:
    """The base of a queue's keys."""
    return b"emq:{%s}:" % name.encode()


def slot_of(name: str) -> int:
    """The slot of a queue."""
    return int(key_slot(base_of(name)))
