"""Verbs over many jobs: they run on a thread of their own, in bounded steps, and say how far they
are. Any web process can tell of them; one that dies leaves a consistent queue, and the verb may be
run again."""

from __future__ import annotations

import json
import logging
import secrets
import threading
import time
from collections.abc import Callable
from dataclasses import asdict, dataclass
from typing import Any

from django.db import close_old_connections

from ..queue import Queue
from ..queues import get_queue

logger = logging.getLogger("django_echomq.console")

_KEEP_MS = 3_600_000
_TOLD_EVERY = 0.5  # seconds
_TEXT = 500  # characters
_SILENT = 15.0  # seconds after which an operation that says nothing is taken for dead

#: Runs a verb on a queue, tells of (done, total) on the way, and answers how many jobs it met.
Run = Callable[[Queue, Callable[[int, int], object]], int | None]


@dataclass(slots=True)
class Operation:
    """How far a verb is.

    Attributes:
        id, queue, what, user: which.
        done, total: jobs; ``total`` is 0 while it is not known.
        state: ``running``, ``done``, ``failed`` or ``interrupted``.
        error: why it failed.
        beat: Unix seconds of the latest word.
    """

    id: str
    queue: str
    what: str
    user: str
    done: int = 0
    total: int = 0
    state: str = "running"
    error: str = ""
    beat: float = 0.0

    @property
    def percent(self) -> int:
        return min(100, round(100 * self.done / self.total)) if self.total else 0


def start(queue: str, what: str, user: str, run: Run) -> Operation:
    """Starts a verb, and answers the operation to look at.

    Raises:
        ServerUnavailable: nothing was started.
    """
    operation = Operation(secrets.token_hex(8), queue, what, user)
    patient = get_queue(queue)
    _tell(patient, operation)
    threading.Thread(
        target=_work, args=(patient, operation, run), name=f"echomq-{operation.id}", daemon=True
    ).start()
    return operation


def find(queue: Queue, operation_id: str) -> Operation | None:
    """An operation of the last hour."""
    text = queue.drive(queue.client.command("HGET", queue.keys.operations, operation_id))
    if text is None:
        return None
    try:
        entry = json.loads(text)
        operation = Operation(
            **{name: str(entry[name])[:_TEXT] for name in ("id", "queue", "what", "user")},
            done=int(entry["done"]),
            total=int(entry["total"]),
            state=str(entry["state"])[:_TEXT],
            error=str(entry["error"])[:_TEXT],
            beat=float(entry["beat"]),
        )
    except (TypeError, ValueError, KeyError, OverflowError, RecursionError):
        return None
    if operation.state == "running" and time.time() - operation.beat > _SILENT:
        operation.state = "interrupted"
    return operation


def _work(queue: Queue, operation: Operation, run: Run) -> None:
    told = 0.0

    def progress(done: int, total: int) -> None:
        nonlocal told
        operation.done, operation.total = done, total
        if time.monotonic() - told > _TOLD_EVERY:
            told = time.monotonic()
            _tell(queue, operation)

    try:
        met = run(queue, progress)
        operation.done = operation.total = operation.done if met is None else met
        operation.state = "done"
    except Exception as error:
        operation.state, operation.error = "failed", f"{type(error).__name__}: {error}"[:_TEXT]
        logger.warning("%s of queue %s failed", operation.what, operation.queue, exc_info=True)
    try:
        _tell(queue, operation)
    except Exception:
        logger.exception("The end of an operation could not be told")
    finally:
        close_old_connections()


def _tell(queue: Queue, operation: Operation) -> None:
    operation.beat = time.time()
    entry: dict[str, Any] = asdict(operation)
    key, client = queue.keys.operations, queue.client
    client.drive(client.command("HSET", key, operation.id, json.dumps(entry)))
    client.drive(client.command("PEXPIRE", key, _KEEP_MS))
