"""Waits for work on a connection of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Container, Sequence
from queue import SimpleQueue

from ..queue import Queue
from ..wire.client import LOST, Client, Parked
from ..wire.errors import VersionFence, WritesRefused

logger = logging.getLogger("django_echomq.worker")

_PAUSE = 0.2  # seconds between tries while the server is away


class Parking:
    """A thread that parks on the wake lists of the queues of one server.

    It parks only when asked, once per asking, so that a worker without a free slot takes no token
    away from others.

    Args:
        client: the server.
        queues: the queues to wait for.
        longest: the longest wait in seconds.
        woken: called from the thread with the queue that has work, or ``None`` when the wait ended
            without a token or the connection was lost.
    """

    def __init__(
        self,
        client: Client,
        queues: Sequence[Queue],
        longest: float,
        woken: Callable[[Parking, Queue | None], object],
        name: str,
    ) -> None:
        self.asked = False
        self._parked = Parked(client, longest)
        self._queues = {queue.keys.wake: queue for queue in queues}
        self._woken = woken
        self._waits: SimpleQueue[tuple[float, list[bytes]] | None] = SimpleQueue()
        threading.Thread(target=self._serve, name=f"{name}-parked", daemon=True).start()

    def ask(self, seconds: float, resting: Container[Queue] = ()) -> None:
        """Parks for at most so long, on all queues but those that rest; not at all where all do."""
        keys = [key for key, queue in self._queues.items() if queue not in resting]
        if keys:
            self.asked = True
            self._waits.put((seconds, keys))

    def close(self) -> None:
        self._waits.put(None)

    def _serve(self) -> None:
        while (wait := self._waits.get()) is not None:
            seconds, keys = wait
            queue = None
            try:
                key = self._parked.wait(keys, seconds)
                queue = self._queues.get(key) if key else None
            except VersionFence as error:
                logger.error("%s", error)
                time.sleep(_PAUSE)
            except (*LOST, WritesRefused):
                # The consumer meets the same loss on its own connection and reports it.
                time.sleep(_PAUSE)
            except Exception:
                logger.exception("Waiting for work failed")
                time.sleep(_PAUSE)
            self._woken(self, queue)
        self._parked.close()
