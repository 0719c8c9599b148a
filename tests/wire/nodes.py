"""A cluster of real servers on loopback."""

from __future__ import annotations

import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

import redis
from redis.crc import key_slot

from django_echomq.wire import embedded as programs
from tests.waiting import wait_until

SLOTS = 16384


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
            stdout=(self._folder / "log").open("wb"),
            stderr=subprocess.STDOUT,
        )

    def listens(self) -> bool:
        with suppress(redis.ConnectionError):
            return bool(self.raw.ping())
        return False

    @property
    def id(self) -> str:
        return self.ask("CLUSTER", "MYID").decode()

    @property
    def is_primary(self) -> bool:
        return bool(self.raw.execute_command("ROLE")[0] == b"master")

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
        for node in others:
            first.ask("CLUSTER", "MEET", "127.0.0.1", node.port)
        self.settle(whole=False)
        for number, node in enumerate(self.nodes[self._primaries :]):
            node.ask("CLUSTER", "REPLICATE", self.nodes[number % self._primaries].id)
        self.settle()

    def settle(self, whole: bool = True) -> None:
        """Waits until all that run agree that all is well, and the replicas are in step."""

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

    def owner(self, key: str | bytes) -> Node:
        """The primary of a key, as most nodes see it."""
        slot = key_slot(key.encode() if isinstance(key, str) else key)
        for node in self.nodes:
            if node.is_running and node.is_primary:
                for low, high, (_, port, *_), *_ in node.ask("CLUSTER", "SLOTS"):
                    if low <= slot <= high:
                        return next(each for each in self.nodes if each.port == port)
        raise LookupError(f"nobody serves slot {slot}")

    def replica_of(self, node: Node) -> Node:
        """A replica of a primary."""
        (line, *_) = node.ask("CLUSTER", "REPLICAS", node.id)
        port = int(line.split()[1].split(b"@")[0].rpartition(b":")[2])
        return next(each for each in self.nodes if each.port == port)

    def names(self, prefix: str = "q") -> list[str]:
        """Names of queues, one for each primary, in the order of :attr:`nodes`."""
        found: dict[int, str] = {}
        for number in range(1000):
            name = f"{prefix}{number}"
            found.setdefault(self.owner(f"{{{name}}}").port, name)
            primaries = [node.port for node in self.nodes if node.is_running and node.is_primary]
            if len(found) == len(primaries):
                return [found[port] for port in primaries]
        raise AssertionError

    def close(self) -> None:
        for node in self.nodes:
            node.kill()
        shutil.rmtree(self._folder, ignore_errors=True)


def slot_of(name: str) -> int:
    """The slot of a queue."""
    return int(key_slot(b"emq:{%s}:" % name.encode()))


def until_moved(nodes: Nodes, name: str, target: Node) -> None:
    """Waits until a queue's slot is at a node."""
    here: Callable[[], bool] = lambda: nodes.owner(f"{{{name}}}") is target  # noqa: E731
    wait_until(here, "the slot to have moved")
