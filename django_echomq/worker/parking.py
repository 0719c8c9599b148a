"""Waits for work on a connection of its own."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from queue import SimpleQueue
from typing import TypeAlias

from ..queue import Queue
from ..wire.client import LOST, Call, Client, Parked, Reply
from ..wire.errors import VersionFence, WritesRefused

logger = logging.getLogger("django_echomq.worker")

_PAUSE = 0.2  # seconds between tries while the server is away
_CLOSING = 1.0  # seconds that a wait which is ended gets to end

_Wait: TypeAlias = tuple[float, list[bytes], Mapping[Queue, Call]]


class Parking:
    """A thread that parks on the wake lists of the queues of one server.

    It parks only when asked, once per asking, so that a worker without a free slot takes no token
    away from others.

    Args:
        client: the server.
        queues: the queues to wait for.
        longest: the longest wait in seconds.
        woken: called from the thread with the queue that has work, or ``None`` when the wait ended
            without a token or the connection was lost; and with the replies of the calls that
            followed it, where they are known.
    """

    def __init__(
        self,
        client: Client,
        queues: Sequence[Queue],
        longest: float,
        woken: Callable[[Parking, Queue | None, Mapping[Queue, Reply]], object],
        name: str,
    ) -> None:
        self.asked = False
        self._closed = False
        self._parked = Parked(client, longest)
        self._queues = {queue.keys.wake: queue for queue in queues}
        self._woken = woken
        self._waits: SimpleQueue[tuple[float, list[bytes], Mapping[Queue, Call]] | None] = (
            SimpleQueue()
        )
        self._thread = threading.Thread(target=self._serve, name=f"{name}-parked", daemon=True)
        self._thread.start()

    @property
    def queues(self) -> Iterable[Queue]:
        """What it waits for."""
        return self._queues.values()

    def ask(self, seconds: float, queues: Sequence[Queue], then: Mapping[Queue, Call]) -> None:
        """Parks for at most so long on some of the queues; the calls are made when that ends."""
        self.asked = True
        self._waits.put((seconds, [queue.keys.wake for queue in queues], then))

    def close(self) -> None:
        """Ends a wait at once, so that what is parked takes nothing any more."""
        self._closed = True
        self._waits.put(None)
        end = time.monotonic() + _CLOSING
        # Again and again: the thread may just have been about to park.
        while self._thread.is_alive() and time.monotonic() < end:
            self._parked.close()
            self._thread.join(0.01)

    def _serve(self) -> None:
        while (wait := self._waits.get()) is not None and not self._closed:
            seconds, keys, calls = wait
            queue = None
            known: dict[Queue, Reply] = {}
            try:
                key, replies = self._parked.wait(keys, seconds, list(calls.values()))
                queue = self._queues.get(key) if key else None
                known = dict(zip(calls, replies, strict=True))
            except VersionFence as error:
                logger.error("%s", error)
                self._pause()
            except (*LOST, WritesRefused):
                # The consumer meets the same loss on its own connection and reports it.
                self._pause()
            except Exception:
                # A connection that is closed under its reader fails in many ways.
                if not self._closed:
                    logger.exception("Waiting for work failed")
                self._pause()
            if self._closed:
                break
            self._woken(self, queue, known)
        self._parked.close()

    def _pause(self) -> None:
        if not self._closed:
            time.sleep(_PAUSE)
