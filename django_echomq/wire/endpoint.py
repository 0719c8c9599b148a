"""Where a Valkey is, and how a connection to it is made.

Every connection, at each connect and reconnect, is fenced before it carries a command: the key
``{emq}:version`` must hold this package's wire version exactly.
"""

from __future__ import annotations

import asyncio
import os
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Self
from urllib.parse import urlsplit

import redis
import redis.asyncio as aioredis
from redis.asyncio import sentinel as aio_sentinel
from redis.asyncio.connection import parse_url as aio_parse_url
from redis.backoff import NoBackoff
from redis.connection import parse_url
from redis.crc import key_slot
from redis.retry import Retry
from redis.sentinel import Sentinel, SentinelConnectionPool, SentinelManagedConnection

from .cluster import HOME_SLOT, NOT_HERE, Cluster, not_here
from .embedded import EmbeddedServer, embedded
from .errors import UnsafeClient, VersionFence
from .keys import VERSION_KEY

WIRE_VERSION = b"echomq:3.0.0"

_TIMEOUT = 5.0  # seconds, for a connect and for a reply
# One event loop may ask for thousands of round trips at once; they share so many connections.
_ASYNC_CONNECTIONS = 16
_SCHEMES = {
    "redis": "redis",
    "valkey": "redis",
    "rediss": "rediss",
    "valkeys": "rediss",
    "unix": "unix",
}
# What another client's connections are made of and ours may be made of too.
_SHARED_OPTIONS = frozenset(
    (
        "client_name",
        "credential_provider",
        "db",
        "health_check_interval",
        "host",
        "password",
        "path",
        "port",
        "socket_connect_timeout",
        "socket_keepalive",
        "socket_keepalive_options",
        "socket_timeout",
        "username",
    )
)


def _mismatch(seen: object) -> VersionFence:
    return VersionFence(
        f"the server is fenced for wire version {seen!r}, this client speaks {WIRE_VERSION!r}; "
        "nothing was sent. Use another server or database, or a matching release"
    )


def _is_fenced_elsewhere(connection: Any) -> bool:
    """Whether the version is not at the server of a connection, but at another of its cluster."""
    return bool(getattr(connection, "slot", HOME_SLOT) != HOME_SLOT)


def _fence(connection: Any) -> None:
    try:
        connection.on_connect()
        if _is_fenced_elsewhere(connection):
            connection.cluster.check(_fence)
            return
        connection.send_command("GET", VERSION_KEY)
        seen = connection.read_response()
        if seen is None:
            connection.send_command("SET", VERSION_KEY, WIRE_VERSION, "NX")
            connection.read_response()
            connection.send_command("GET", VERSION_KEY)
            seen = connection.read_response()
        if seen != WIRE_VERSION:
            raise _mismatch(seen)
    except BaseException as error:
        # A connection left open here would be used unfenced the next time.
        connection.disconnect()
        if isinstance(error, NOT_HERE):
            raise not_here(error, connection) from None
        raise


async def _afence(connection: Any) -> None:
    try:
        await connection.on_connect()
        if _is_fenced_elsewhere(connection):
            if not connection.cluster.is_checked:
                await asyncio.to_thread(connection.cluster.check, _fence)
            return
        await connection.send_command("GET", VERSION_KEY)
        seen = await connection.read_response()
        if seen is None:
            await connection.send_command("SET", VERSION_KEY, WIRE_VERSION, "NX")
            await connection.read_response()
            await connection.send_command("GET", VERSION_KEY)
            seen = await connection.read_response()
        if seen != WIRE_VERSION:
            raise _mismatch(seen)
    except BaseException as error:
        await connection.disconnect()
        if isinstance(error, NOT_HERE):
            raise not_here(error, connection) from None
        raise


def _address(client: Any) -> str:
    settings = client.connection_pool.connection_kwargs
    return f"{settings['host']}:{settings['port']}"


class _Sentinel(redis.Redis):
    """A sentinel that goes by its address in an error, not by all it was made with."""

    __repr__ = _address


class _AsyncSentinel(aioredis.Redis):
    __repr__ = _address


class _Sentinels(list[Any]):
    """The sentinels, the one that answered last comes first.

    redis-py swaps two places for that, which loses a sentinel when two calls do so at once.
    """

    def __iter__(self) -> Iterator[Any]:
        return iter(tuple(super().__iter__()))

    def __setitem__(self, place: Any, sentinel: Any) -> None:
        if place == 0:
            rest = (each for each in self if each is not sentinel)
            super().__setitem__(slice(None), [sentinel, *rest])


class _SentinelPool(SentinelConnectionPool):
    """Takes the connections to the sentinels along when it is closed."""

    def disconnect(self, inuse_connections: bool = True) -> None:
        super().disconnect(inuse_connections)
        if inuse_connections:
            for sentinel in self.sentinel_manager.sentinels:
                sentinel.close()


class _AsyncSentinelPool(aio_sentinel.SentinelConnectionPool, aioredis.BlockingConnectionPool):
    """The same; whoever comes when all connections are in use waits for one."""

    async def disconnect(self, inuse_connections: bool = True) -> None:
        await super().disconnect(inuse_connections)
        if inuse_connections:
            for sentinel in self.sentinel_manager.sentinels:
                await sentinel.aclose()


def _nothing() -> None:
    """Most servers are not ours to start."""


@dataclass(frozen=True)
class Endpoint:
    """One server (or Sentinel service, or slot of a cluster) and the options of connections to it.

    Attributes:
        label: where it is, without secrets; safe to print.
        options: keyword arguments of a redis-py connection.
        connection_class: redis-py's connection class; the async one follows from it.
        heal: called when a connection fails; starts the server where it is ours to start, finds
            out where it is on a cluster.
        sentinels, service: who is asked for the primary, and its name there.
        sentinel_options: keyword arguments of redis-py's client of a sentinel.
        cluster, slot: of which cluster, and of which slot the keys are.
        replicas: how many replicas are to have an admission before its call returns; 0 asks none.
        replicas_ms: how long they may take.
    """

    label: str
    options: Mapping[str, Any] = field(repr=False)
    connection_class: type[Any] = redis.Connection
    async_connection_class: type[Any] = aioredis.Connection
    heal: Callable[[], None] = field(default=_nothing, repr=False)
    sentinels: tuple[tuple[str, int], ...] = ()
    service: str = ""
    sentinel_options: Mapping[str, Any] = field(default_factory=dict, repr=False)
    cluster: Cluster | None = field(default=None, repr=False)
    slot: int = HOME_SLOT
    replicas: int = 0
    replicas_ms: int = 1_000

    @classmethod
    def from_url(cls, url: str, **options: Any) -> Self:
        """An endpoint from ``redis:// rediss:// valkey:// valkeys:// unix://``.

        Raises:
            ValueError: for another scheme; the message does not repeat the URL's secrets.
        """
        scheme, _, rest = url.partition("://")
        if scheme not in _SCHEMES or not rest:
            raise ValueError(
                f"a server URL starts with one of {', '.join(s + '://' for s in _SCHEMES)}"
            )
        target = f"{_SCHEMES[scheme]}://{rest}"
        # What Python says of a URL that it cannot read may repeat the password.
        unreadable = ValueError(
            f"the {scheme}:// URL cannot be read: it is "
            f"{'/path/of/the/socket' if scheme == 'unix' else 'host:port/number'}; "
            "in a password, '/', '#', '?' and '@' are written %2F, %23, %3F and %40"
        )
        try:
            split = urlsplit(target)
            if scheme == "unix":
                # A host that nothing reads, or a '@' in the path: parts of a password.
                if "@" in split.path or (split.netloc and "@" not in split.netloc):
                    raise unreadable
            elif split.path.strip("/") and not split.path.strip("/").isdigit():
                raise unreadable
            parsed: dict[str, Any] = {**parse_url(target)}
            async_class = aio_parse_url(target).get("connection_class", aioredis.Connection)
        except ValueError:
            raise unreadable from None
        where = parsed.get("path") or f"{parsed.get('host', 'localhost')}"
        label = f"{scheme}://{where}" + (f":{parsed['port']}" if "port" in parsed else "")
        label += f"/{parsed['db']}" if "db" in parsed and scheme != "unix" else ""
        connection_class = parsed.pop("connection_class", redis.Connection)
        merged = {**options, **parsed}
        _refuse_decoding(merged)
        return cls(label, merged, connection_class, async_class)

    @classmethod
    def from_client(cls, client: Any, label: str = "") -> Self:
        """An endpoint to the server of another redis-py client, with its address and credentials.

        The connections are our own: the fence guards each of them, and a blocking read never
        holds one that the other client needs.

        Raises:
            UnsafeClient: for a client that decodes replies, or is not a redis-py client.
        """
        seeds: list[tuple[str, int]] = []
        if isinstance(client, redis.RedisCluster):
            nodes = client.get_nodes()
            seeds = [(node.host, int(node.port)) for node in nodes]
            client = next(filter(None, (node.redis_connection for node in nodes)), None)
        pool = getattr(client, "connection_pool", None)
        if not isinstance(pool, redis.ConnectionPool):
            raise UnsafeClient(
                f"{type(client).__name__} is not a redis-py client of one server or cluster: "
                "pass redis.Redis(...) or redis.RedisCluster(...), or configure the connection in "
                "ECHOMQ['CONNECTIONS']"
            )
        kwargs = pool.connection_kwargs
        _refuse_decoding(kwargs)
        options = {
            name: value
            for name, value in kwargs.items()
            if name in _SHARED_OPTIONS or name.startswith("ssl_")
        }
        kind = pool.connection_class
        if issubclass(kind, SentinelManagedConnection):
            raise UnsafeClient(
                "a client made by Sentinel cannot be shared: give SENTINELS and SERVICE instead"
            )
        if seeds:
            found = cls._of_cluster(seeds, issubclass(kind, redis.SSLConnection), options)
            return replace(found, label=label or found.label)
        async_class: type[Any] = aioredis.Connection
        if issubclass(kind, redis.UnixDomainSocketConnection):
            async_class = aioredis.UnixDomainSocketConnection
        elif issubclass(kind, redis.SSLConnection):
            async_class = aioredis.SSLConnection
        where = options.get("path") or f"{options.get('host')}:{options.get('port')}"
        return cls(label or str(where), options, kind, async_class)

    @classmethod
    def from_embedded(cls, folder: str | os.PathLike[str], **options: Any) -> Self:
        """An endpoint to the embedded server of ``folder``, started when it is first needed."""
        _refuse_decoding(options)
        server: EmbeddedServer = embedded(folder)
        return cls(
            f"embedded:{server.folder}",
            {**options, "path": server.socket_path},
            redis.UnixDomainSocketConnection,
            aioredis.UnixDomainSocketConnection,
            heal=server.ensure_running,
        )

    @classmethod
    def from_sentinels(
        cls,
        sentinels: Sequence[tuple[str, int]],
        service: str,
        sentinel_options: Mapping[str, Any] | None = None,
        **options: Any,
    ) -> Self:
        """An endpoint to the primary that Sentinel names for ``service``.

        Args:
            sentinel_options: what the sentinels are asked with, such as a password.
            options: what connections to the servers are made with; ``ssl=True`` for TLS.

        Raises:
            ValueError: ``sentinels`` are not pairs of a host and a port.
        """
        _refuse_decoding(options)
        try:
            addresses = tuple((host, int(port)) for host, port in sentinels)
        except (TypeError, ValueError):
            raise ValueError(
                "sentinels are pairs of host and port, such as [('10.0.0.1', 26379)]"
            ) from None
        return cls(
            f"sentinel:{service}",
            options,
            sentinels=addresses,
            service=service,
            sentinel_options=dict(sentinel_options or {}),
        )

    @classmethod
    def from_cluster(cls, nodes: Sequence[str], **options: Any) -> Self:
        """An endpoint to a cluster.

        Args:
            nodes: some of its nodes, ``host:port`` or a URL each; the others are learned from them.
                What a URL says of credentials and TLS holds for all nodes.

        Raises:
            ValueError: they cannot be read; the message does not repeat secrets.
        """
        if isinstance(nodes, str) or not isinstance(nodes, Sequence) or not nodes:
            raise ValueError('CLUSTER is a list of nodes, such as ["10.0.0.1:6379"]')
        seeds: list[tuple[str, int]] = []
        shared: list[tuple[bool, dict[str, Any]]] = []
        for number, node in enumerate(nodes, 1):
            try:
                found = cls.from_url(str(node) if "://" in str(node) else f"redis://{node}")
            except ValueError as error:
                raise ValueError(f"node {number} of CLUSTER is not host:port: {error}") from None
            own = dict(found.options)
            host, port, db = own.pop("host", ""), own.pop("port", 6379), own.pop("db", 0)
            if not host or db:
                raise ValueError(f"node {number} of CLUSTER must be host:port, without a number")
            seeds.append((host, int(port)))
            shared.append((issubclass(found.connection_class, redis.SSLConnection), own))
        if any(each != shared[0] for each in shared):
            raise ValueError(
                "the nodes of CLUSTER differ in credentials or TLS; these hold for all of them"
            )
        tls, own = shared[0]
        _refuse_decoding(options)
        return cls._of_cluster(seeds, tls, {**options, **own})

    @classmethod
    def _of_cluster(
        cls, seeds: Sequence[tuple[str, int]], tls: bool, options: Mapping[str, Any]
    ) -> Self:
        kept = {name: options[name] for name in options if name not in ("host", "port", "db")}
        cluster = Cluster(seeds, tls, kept)
        return cls(
            "cluster:" + ",".join(f"{host}:{port}" for host, port in seeds),
            kept,
            cluster.connection_class,
            cluster.async_connection_class,
            heal=cluster.learn,
            cluster=cluster,
        )

    def at(self, key: bytes) -> Self:
        """The endpoint of a key: this one, unless the key is in another slot of a cluster."""
        if self.cluster is None or (slot := key_slot(key)) == self.slot:
            return self
        return replace(self, slot=slot)

    def with_options(self, **options: Any) -> Self:
        """The same endpoint with some options replaced."""
        return replace(self, options={**self.options, **options})

    def check(self) -> None:
        """Makes a connection without connecting it.

        Raises:
            ValueError: there is an option that connections have not.
        """
        try:
            self.pool().make_connection()
        except (TypeError, redis.RedisError) as error:
            raise ValueError(f"redis-py does not take these options: {error}") from None

    def _settings(self, fence: object) -> dict[str, Any]:
        place = {"cluster": self.cluster, "slot": self.slot} if self.cluster else {}
        settings = {
            "socket_timeout": _TIMEOUT,
            "socket_connect_timeout": _TIMEOUT,
            **self.options,
            **place,
            "protocol": 2,
            "redis_connect_func": fence,
        }
        if self.replicas and settings["socket_timeout"] is not None:
            settings["socket_timeout"] += self.replicas_ms / 1000
        return settings

    def _made_of(self, kind: type[Any]) -> _Sentinels:
        # The next sentinel is asked at once: redis-py would ask one that is away for seconds.
        settings = {"socket_timeout": _TIMEOUT, "retry": None, **self.sentinel_options}
        return _Sentinels(kind(host=host, port=port, **settings) for host, port in self.sentinels)

    def pool(self) -> redis.ConnectionPool:
        """A pool of fenced connections, without retries of its own."""
        settings = self._settings(_fence)
        settings["retry"] = Retry(NoBackoff(), 0)
        settings.setdefault("max_connections", 2**16)
        if self.sentinels:
            manager = Sentinel(())
            manager.sentinels = self._made_of(_Sentinel)
            pool: redis.ConnectionPool = _SentinelPool(self.service, manager, **settings)  # type: ignore[no-untyped-call]
            return pool
        return redis.ConnectionPool(connection_class=self.connection_class, **settings)

    def async_pool(self) -> aioredis.ConnectionPool:
        """The same for the running event loop."""
        settings = self._settings(_afence)
        settings["retry"] = None
        settings.setdefault("max_connections", _ASYNC_CONNECTIONS)
        if self.sentinels:
            manager = aio_sentinel.Sentinel([])
            manager.sentinels = self._made_of(_AsyncSentinel)
            settings["timeout"] = None
            pool: aioredis.ConnectionPool = _AsyncSentinelPool(self.service, manager, **settings)  # type: ignore[no-untyped-call]
            return pool
        return aioredis.BlockingConnectionPool(
            connection_class=self.async_connection_class, timeout=None, **settings
        )


def _refuse_decoding(options: Mapping[str, Any]) -> None:
    if options.get("decode_responses"):
        raise UnsafeClient(
            "decode_responses=True would corrupt binary payloads: drop it from the client or its "
            "OPTIONS"
        )
