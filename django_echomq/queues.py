"""Queues by the names of the settings."""

from __future__ import annotations

import threading

from . import conf
from .queue import Queue
from .wire.client import Client

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
            client = get_client(definition.connection)
            queue = _queues.setdefault(name, Queue(name, client, definition.options))
    return queue


def forget_queues() -> None:
    """Drops all queues and clients, for settings that changed."""
    with _lock:
        for client in _clients.values():
            client.close()
        _queues.clear()
        _clients.clear()
    conf.forget()
