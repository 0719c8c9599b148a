"""Queues by the names of the settings."""

from __future__ import annotations

import threading

from . import conf
from .queue import Queue
from .queue.partitions import MAX_PARTITIONS, PartitionedQueue, partition_name
from .wire.client import Client

_JOBS = ("pending", "active", "scheduled", "dead")
_lock = threading.RLock()
_clients: dict[str, Client] = {}
_queues: dict[str, Queue] = {}


def get_client(alias: str = "default") -> Client:
    """The client of a connection of ``ECHOMQ["CONNECTIONS"]``; one per process.

    Raises:
        ImproperlyConfigured: there is no such connection, or it is not sound.
    """
    with _lock:
        client = _clients.get(alias)
        if client is None:
            client = _clients[alias] = Client(conf.endpoint(alias))
        return client


def get_queue(name: str = "default") -> Queue:
    """A queue of ``ECHOMQ["QUEUES"]``; one per process.

    Raises:
        ImproperlyConfigured: there is no such queue, or its definition is not sound.
    """
    queue = _queues.get(name)
    if queue is None:
        with _lock:
            definition = conf.queue_definition(name)
            clients = [get_client(alias) for alias in definition.physical().values()]
            if len(clients) > 1:
                queue = PartitionedQueue(name, clients, definition.options)
            else:
                queue = Queue(name, clients[0], definition.options)
            queue = _queues.setdefault(name, queue)
    return queue


def left_behind(name: str) -> dict[str, int]:
    """How many jobs stand where the settings had a queue once and do not have it any more, since
    its ``PARTITIONS`` were changed; by the name on the server.

    Raises:
        ImproperlyConfigured: as :func:`get_queue`.
    """
    definition = conf.queue_definition(name)
    places = {name: definition.connections[0]}
    for n in range(MAX_PARTITIONS):
        places[partition_name(name, n)] = definition.connection_of(n)
    defined = {
        place for known in conf.queue_names() for place in conf.queue_definition(known).physical()
    }
    found: dict[str, int] = {}
    for place, alias in places.items():
        if place not in defined:
            counts = Queue(place, get_client(alias)).metrics.counts(*_JOBS)
            if any(counts.values()):
                found[place] = sum(counts.values())
    return found


def forget_queues() -> None:
    """Drops all queues and clients, for settings that changed."""
    with _lock:
        for client in _clients.values():
            client.close()
        _queues.clear()
        _clients.clear()
    conf.forget()
