"""A cluster: which of its nodes serves a slot now, and connections that go there.

All keys of a queue share a hash tag, hence a slot. A connection is to the primary of one slot; it
finds out which node that is whenever it connects.
"""

from __future__ import annotations

import asyncio
import os
import random
import threading
import time
import weakref
from collections.abc import Callable, Iterable, Mapping
from typing import Any, TypeAlias

import redis
import redis.asyncio as aioredis
from redis.backoff import NoBackoff
from redis.crc import key_slot
from redis.exceptions import (
    AskError,
    AuthenticationError,
    AuthorizationError,
    ClusterDownError,
    MovedError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError
from redis.retry import Retry

from .keys import VERSION_KEY

Node: TypeAlias = tuple[str, int]

#: Refusals of a node that is not, or not alone, the primary of the keys; it has run nothing. ASK
#: is among them and is not followed: while a slot moves key by key each of two nodes has a part of
#: a queue, and the queue waits until it is whole again.
NOT_HERE = (AskError, ClusterDownError, MovedError, ReadOnlyError, TryAgainError)
#: The slot of what all queues share: the version, the leases of node numbers.
HOME_SLOT: int = key_slot(VERSION_KEY)

_FRESH = 0.1  # seconds during which what was learned is not asked again, whoever lost what
_FENCED = 1.0  # seconds during which the version that was seen is not looked at again
_TIMEOUT = 1.0  # seconds for one node to say what it knows


def not_here(error: ResponseError, connection: Any) -> RedisConnectionError:
    """What a refusal of :data:`NOT_HERE` means: as if the connection had been lost. Where it says
    which node has the slot, that is kept."""
    if isinstance(error, ReadOnlyError):
        return RedisConnectionError("the server became read-only")
    cluster = getattr(connection, "cluster", None)
    if isinstance(error, MovedError) and isinstance(cluster, Cluster):
        cluster.told(error.slot_id, (error.host or connection.host, error.port))
        return RedisConnectionError(f"slot {error.slot_id} has moved")
    if isinstance(error, MovedError):
        return RedisConnectionError(
            "it is a node of a cluster and has not the slot; give CLUSTER in place of URL, or a "
            "redis.RedisCluster"
        )
    if isinstance(error, AskError):
        return RedisConnectionError(f"slot {error.slot_id} is being moved, key by key")
    return RedisConnectionError(f"the node does not serve the slot now: {error}")


class Cluster:
    """What is known of a cluster, shared by all its clients in a process.

    Args:
        seeds: nodes to ask first; any of them will do.
        tls: speak TLS to all nodes.
        options: keyword arguments of a redis-py connection, without an address.
    """

    def __init__(self, seeds: Iterable[Node], tls: bool, options: Mapping[str, Any]) -> None:
        self._seeds = tuple(seeds)
        self._plain: type[Any] = redis.SSLConnection if tls else redis.Connection
        self.connection_class: type[Any] = _TLSAtPrimary if tls else _AtPrimary
        self.async_connection_class: type[Any] = _AsyncTLSAtPrimary if tls else _AsyncAtPrimary
        self._options = {
            **options,
            "protocol": 2,
            "retry": Retry(NoBackoff(), 0),
            "socket_timeout": _TIMEOUT,
            "socket_connect_timeout": _TIMEOUT,
        }
        self._options.pop("max_connections", None)  # a pool's, not a connection's
        # Replaced as a whole, so that readers need no lock.
        self._ranges: list[tuple[int, int, Node]] = []
        self._moved: dict[int, Node] = {}
        self._nodes: tuple[Node, ...] = ()
        self._why: Exception | None = None
        self._learned_at = self._fenced_at = self._unfenced_at = float("-inf")
        self.renew()
        _clusters.add(self)

    def renew(self) -> None:
        """Takes new locks: a forked child's may be held by a thread that it has not."""
        self._learning = threading.Lock()
        self._fencing = threading.Lock()

    def find(self, slot: int) -> Node | None:
        """The primary of a slot as far as is known; asks nobody."""
        if slot in self._moved:
            return self._moved[slot]
        return next((node for low, high, node in self._ranges if low <= slot <= high), None)

    def primary(self, slot: int) -> Node:
        """The primary of a slot; asks where it is not known.

        Raises:
            redis.exceptions.ConnectionError: nobody says.
        """
        node = self.find(slot)
        if node is None:
            self.learn()
            node = self.find(slot)
        if node is not None:
            return node
        if isinstance(self._why, (AuthenticationError, AuthorizationError)):
            raise self._why
        why = f": {self._why}" if self._why else ""
        raise RedisConnectionError(f"no node of the cluster says who serves slot {slot}{why}")

    def told(self, slot: int, node: Node) -> None:
        """Notes what a node said of one slot."""
        self._moved = {**self._moved, slot: node}

    def learn(self) -> None:
        """Asks the nodes who serves what, until one answers. Whoever comes while that is asked, or
        at once after it, has the same answer."""
        with self._learning:
            if time.monotonic() - self._learned_at < _FRESH:
                return
            # In another order each time: one may answer, and be behind.
            nodes = list({*self._nodes, *self._seeds})
            random.shuffle(nodes)
            self._why = None
            for node in nodes:
                try:
                    ranges = self._ask(node)
                except (RedisError, OSError) as error:
                    self._why = error
                    continue
                if ranges:  # it has not been taken out of the cluster
                    self._ranges, self._moved, self._why = ranges, {}, None
                    break
            self._learned_at = time.monotonic()

    def _ask(self, node: Node) -> list[tuple[int, int, Node]]:
        host, port = node
        connection = self._plain(host=host, port=port, **self._options)
        try:
            connection.connect()
            connection.send_command("CLUSTER", "SLOTS")
            entries = connection.read_response()
        finally:
            connection.disconnect()
        ranges = []
        nodes: list[Node] = []
        for low, high, *members in entries:
            # Without a name: as the node was reached. "?": unknown to the one that was asked.
            named = [((name or b"").decode() or host, int(at)) for name, at, *_ in members]
            nodes += [member for member in named if member[0] != "?"]
            if named[0][0] != "?":
                ranges.append((int(low), int(high), named[0]))
        if ranges:
            self._nodes = tuple(nodes)
        return ranges

    @property
    def is_checked(self) -> bool:
        """Whether the version was seen a moment ago."""
        return time.monotonic() - self._fenced_at < _FENCED

    def check(self, fence: Callable[[Any], None]) -> None:
        """Fences at the node that has the version, on a connection of its own, unless that was
        done a moment ago. Whoever comes while that is tried and fails has the same answer."""
        came = time.monotonic()
        with self._fencing:
            if self.is_checked:
                return
            if self._unfenced_at > came:
                raise RedisConnectionError("the node that has the version does not answer")
            connection = self.connection_class(
                cluster=self, slot=HOME_SLOT, redis_connect_func=fence, **self._options
            )
            try:
                connection.connect()
            except (RedisConnectionError, RedisTimeoutError):
                self._unfenced_at = time.monotonic()
                raise
            finally:
                connection.disconnect()
            self._fenced_at = time.monotonic()


class _AtPrimary(redis.Connection):
    """Goes to the primary of a slot, wherever that is when it connects."""

    def __init__(self, *, cluster: Cluster, slot: int, **options: Any) -> None:
        self.cluster = cluster
        self.slot = slot
        super().__init__(**options)  # type: ignore[no-untyped-call]

    def _connect(self) -> Any:
        self.host, self.port = self.cluster.primary(self.slot)
        return super()._connect()  # type: ignore[no-untyped-call]


class _AsyncAtPrimary(aioredis.Connection):
    """The same for event loops."""

    def __init__(self, *, cluster: Cluster, slot: int, **options: Any) -> None:
        self.cluster = cluster
        self.slot = slot
        super().__init__(**options)

    async def _connect(self) -> None:
        node = self.cluster.find(self.slot)
        if node is None:
            node = await asyncio.to_thread(self.cluster.primary, self.slot)
        self.host, self.port = node
        await super()._connect()  # type: ignore[no-untyped-call]


class _TLSAtPrimary(_AtPrimary, redis.SSLConnection):
    """The same over TLS."""


class _AsyncTLSAtPrimary(_AsyncAtPrimary, aioredis.SSLConnection):
    """The same for event loops, over TLS."""


_clusters: weakref.WeakSet[Cluster] = weakref.WeakSet()


def _after_fork() -> None:
    for cluster in list(_clusters):
        cluster.renew()


os.register_at_fork(after_in_child=_after_fork)
