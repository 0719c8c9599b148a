"""Queues as pages read them, who give up soon, so that they open while a server is away."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

from .queue import Queue
from .queue.queue import Look
from .queues import get_queue
from .wire.client import Call, Client

_TIMEOUT = 1.0  # seconds for one answer
_RETRY_FOR = 0.3  # seconds during which a lost connection is tried again

_lock = threading.Lock()
_impatient: WeakKeyDictionary[Client, Client] = WeakKeyDictionary()


def impatient_queue(name: str) -> Queue:
    """A queue of the settings.

    Raises:
        ImproperlyConfigured: there is no such queue, or its definition is not sound.
    """
    patient = get_queue(name)
    with _lock:
        client = _impatient.get(patient.client)
        if client is None:
            endpoint = patient.client.endpoint.with_options(
                socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT
            )
            client = _impatient[patient.client] = Client(endpoint, _RETRY_FOR)
    return Queue(name, client, patient.options)


def ask(looks: Sequence[tuple[Queue, Look[Any]]]) -> list[Any]:
    """Walks readings to their ends, in one round trip per server and step, all servers at once;
    errors are values in the answer.
    """
    answers: list[Any] = [None] * len(looks)
    by_client: dict[Client, dict[int, Call]] = {}
    for n, (queue, look) in enumerate(looks):
        by_client.setdefault(queue.client, {})[n] = next(look)

    def ask_one(client: Client) -> None:
        open_calls = by_client[client]
        while open_calls:
            try:
                replies = client.drive(client.run_many(list(open_calls.values())))
            except Exception as error:
                replies = [error] * len(open_calls)
            for n, reply in zip(list(open_calls), replies, strict=True):
                try:
                    if isinstance(reply, Exception):
                        raise reply
                    open_calls[n] = looks[n][1].send(reply)
                except StopIteration as end:
                    answers[n] = end.value
                    del open_calls[n]
                except Exception as error:
                    answers[n] = error
                    del open_calls[n]

    if len(by_client) == 1:
        ask_one(*by_client)
    elif by_client:
        # So that servers that are away are waited for once, not one after the other.
        with ThreadPoolExecutor(len(by_client)) as threads:
            list(threads.map(ask_one, by_client))
    return answers
