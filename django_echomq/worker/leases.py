"""Keeps the leases of claims in hand alive."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Iterable

from ..queue import Claim, Queue
from ..queue.cancel import Cause
from ..queue.jobs import BATCH
from ..wire.client import LOST, Client
from ..wire.errors import EchoMQError
from .hand import Hand

logger = logging.getLogger("django_echomq.worker")

_AGAIN = 1.0  # seconds until what could not be asked is asked again


class LeaseKeeper:
    """Extends all claims of a queue in one call per third of its lease, on a thread per server, so
    that none waits for another that is away.

    Handlers in Python code cannot starve it for longer than the interpreter's switch interval
    per runnable thread; C code that keeps the interpreter lock can.
    """

    def __init__(self, queues: Iterable[Queue], name: str) -> None:
        self._held: dict[Queue, dict[str, Hand]] = {queue: {} for queue in queues}
        self._lock = threading.Lock()
        self._stop = threading.Event()
        by_client: dict[Client, list[Queue]] = {}
        for queue in self._held:
            by_client.setdefault(queue.client, []).append(queue)
        for group in by_client.values():
            threading.Thread(
                target=self._serve, args=(group,), name=f"{name}-leases", daemon=True
            ).start()

    def add(self, hands: Iterable[Hand]) -> None:
        """Starts keeping claims."""
        with self._lock:
            for hand in hands:
                self._held[hand.queue][hand.claim.job_id] = hand

    def drop(self, queue: Queue, claims: Iterable[Claim]) -> None:
        """Stops keeping claims."""
        with self._lock:
            held = self._held[queue]
            for claim in claims:
                hand = held.get(claim.job_id)
                if hand and hand.claim is claim:
                    del held[claim.job_id]

    def hands(self, queue: Queue) -> list[Hand]:
        """The jobs of a queue that are kept now."""
        with self._lock:
            return list(self._held[queue].values())

    def find(self, queue: Queue, job_id: str) -> Hand | None:
        """The job of that id, where it is kept."""
        with self._lock:
            return self._held[queue].get(job_id)

    def close(self) -> None:
        self._stop.set()

    def _serve(self, queues: Iterable[Queue]) -> None:
        due = {queue: time.monotonic() + self._interval(queue) for queue in queues}
        failing: set[Queue] = set()
        while not self._stop.wait(max(0.0, min(due.values()) - time.monotonic())):
            for queue, at in due.items():
                if at > time.monotonic():
                    continue
                due[queue] = time.monotonic() + self._interval(queue)
                if error := self._keep(queue):
                    due[queue] = min(due[queue], time.monotonic() + _AGAIN)
                    if queue not in failing:
                        logger.warning(
                            "Leases of queue %s could not be extended, trying again: %s",
                            queue.name,
                            error,
                        )
                        failing.add(queue)
                else:
                    failing.discard(queue)

    @staticmethod
    def _interval(queue: Queue) -> float:
        return queue.options.lease_ms / 3000

    def _keep(self, queue: Queue) -> Exception | None:
        """Extends what is in hand; answers why that should be tried again soon."""
        claims = [hand.claim for hand in self.hands(queue) if not hand.manual_lease]
        try:
            for start in range(0, len(claims), BATCH):
                self._extend(queue, claims[start : start + BATCH])
        except (*LOST, EchoMQError) as error:
            return error
        except Exception:
            logger.exception("Leases of queue %s could not be extended", queue.name)
        return None

    def _extend(self, queue: Queue, claims: list[Claim]) -> None:
        over = set(queue.jobs.extend_locks(claims))
        with self._lock:
            held = self._held[queue]
            # A claim settled meanwhile is over for a good reason.
            lost = [
                held.pop(c.job_id)
                for c in claims
                if c.job_id in over and c.job_id in held and held[c.job_id].claim is c
            ]
        for hand in lost:
            logger.warning(
                "Lease lost: job %s of queue %s is no longer this worker's; its result will be "
                "refused",
                hand.claim.job_id,
                queue.name,
                extra=hand.extra(),
            )
            hand.token.cancel("lease lost", Cause.LEASE_LOST)
