"""Queues as the console talks to them: it gives up soon, so that a page opens while a server is
away."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any
from weakref import WeakKeyDictionary

from django.http import Http404

from ..conf import queue_names
from ..queue import Queue
from ..queue.queue import Look
from ..queues import get_queue
from ..wire.client import Call, Client, Reply

_TIMEOUT = 1.0  # seconds for one answer
_RETRY_FOR = 0.3  # seconds during which a lost connection is tried again

_lock = threading.Lock()
_impatient: WeakKeyDictionary[Client, Client] = WeakKeyDictionary()


def queues() -> list[Queue]:
    """Every queue of the settings."""
    return [queue_named(name) for name in queue_names()]


def queue_named(name: str) -> Queue:
    """A queue of the settings.

    Raises:
        Http404: there is none of that name.
    """
    if name not in queue_names():
        raise Http404(f"there is no queue {name!r}")
    return get_queue(name).through(_hurried)


def _hurried(patient: Client) -> Client:
    home = patient.home
    with _lock:
        client = _impatient.get(home)
        if client is None:
            endpoint = home.endpoint.with_options(
                socket_timeout=_TIMEOUT, socket_connect_timeout=_TIMEOUT
            )
            client = _impatient[home] = Client(endpoint, _RETRY_FOR)
    return client


def ask(looks: Sequence[tuple[Queue, Look[Any]]]) -> list[Any]:
    """Walks readings to their ends, in one round trip per server and step, all servers at once;
    errors are values in the answer.
    """
    answers: list[Any] = [None] * len(looks)
    open_calls = {n: next(look) for n, (_, look) in enumerate(looks)}
    while open_calls:
        by_client: dict[Client, list[int]] = {}
        for n, call in open_calls.items():
            by_client.setdefault(looks[n][0].client_of(call), []).append(n)
        asked = [
            (client, [open_calls[n] for n in numbers]) for client, numbers in by_client.items()
        ]
        for numbers, replies in zip(by_client.values(), _ask_all(asked), strict=True):
            for n, reply in zip(numbers, replies, strict=True):
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
    return answers


def _ask_all(asked: Sequence[tuple[Client, list[Call]]]) -> list[list[Reply]]:
    if len(asked) == 1:
        return [_ask_one(*asked[0])]
    # So that servers that are away are waited for once, not one after the other.
    with ThreadPoolExecutor(len(asked)) as threads:
        return list(threads.map(_ask_one, *zip(*asked, strict=True)))


def _ask_one(client: Client, calls: list[Call]) -> list[Reply]:
    try:
        return client.drive(client.run_many(calls))
    except Exception as error:
        return [error] * len(calls)
