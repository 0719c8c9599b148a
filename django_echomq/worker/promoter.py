"""The promoter's beat: promote and fire what is due, recover what lapsed, trim what ended."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from queue import Empty, SimpleQueue
from typing import Any

from ..queue import Queue
from ..wire.client import LOST, Call, Client
from ..wire.errors import EchoMQError, VersionFence

logger = logging.getLogger("django_echomq.promoter")

#: Most schedules that one beat fires.
RUNS_BATCH = 100
#: After firing, how long until the next beat looks at what comes next.
AFTER_FIRING_MS = 20
#: Seconds that are spent on a server that is away, each time, where others are to be served.
AWAY_PATIENCE = 0.02


@dataclass(frozen=True, slots=True)
class Tick:
    """What one beat on one queue did, and what it saw.

    Attributes:
        promoted, recovered, buried, trimmed: jobs moved.
        next_due_ms: ms until the next scheduled job is due; ``None`` where none waits.
        waiting: jobs and lanes ready to be claimed, 0 while the queue is paused.
        full: a whole batch was moved, so more may be due.
        runs_due: schedules to fire.
        next_run_ms: ms until the next schedule is due; ``None`` where there is none.
        cancels: of the asking worker's jobs in hand, those to cancel, with the reason.
        told: ``quiet``, ``stop`` or empty: what the asking worker has been told.
    """

    promoted: int
    recovered: int
    buried: int
    trimmed: int
    next_due_ms: int | None
    waiting: int
    full: bool
    runs_due: int
    next_run_ms: int | None
    cancels: dict[str, str]
    told: str

    @property
    def next_ms(self) -> int | None:
        """Ms until there is something to do."""
        known = [ms for ms in (self.next_due_ms, self.next_run_ms) if ms is not None]
        return min(known) if known else None

    @property
    def moved(self) -> int:
        return self.promoted + self.recovered + self.buried + self.trimmed


def tick_call(queue: Queue, batch: int, worker: str = "", info: str = "") -> Call:
    """The call of one beat.

    Args:
        batch: at most so many jobs of each kind are moved; 0 moves none.
        worker: the name of the worker that asks, to be told of its jobs that are to be cancelled.
        info: what it says of itself, JSON.
    """
    options = queue.options
    return queue.call(
        "jobs/tick",
        batch,
        options.max_stalled,
        options.keep_dead_ms,
        options.keep_completed_ms,
        options.keep_completed_max,
        worker,
        info,
    )


def tick_answer(queue: Queue, reply: Any) -> Tick:
    """Reads the reply of :func:`tick_call` and logs what went wrong with jobs."""
    promoted, recovered, buried, trimmed, next_due, waiting, full, runs_due, next_run = reply[:9]
    told = reply[9]
    if recovered:
        logger.warning("Recovered %d job(s) of queue %s whose lease lapsed", recovered, queue.name)
    if buried:
        logger.error(
            "Buried %d job(s) of queue %s whose lease lapsed %d times",
            buried,
            queue.name,
            queue.options.max_stalled,
        )
    return Tick(
        promoted,
        recovered,
        buried,
        trimmed,
        None if next_due < 0 else next_due,
        waiting,
        bool(full),
        runs_due,
        None if next_run < 0 else next_run,
        {
            told[i].decode(): told[i + 1].decode("utf-8", "backslashreplace")
            for i in range(0, len(told), 2)
        },
        reply[10].decode(),
    )


class Promoter:
    """Beats on queues until stopped. Any number may run beside each other and beside workers.

    Args:
        queues: the queues.
        tick: seconds between beats; a job due sooner shortens the wait.
        batch: at most so many jobs of each kind per script call.
        prepare: called once, when the server is first there.
    """

    def __init__(
        self,
        queues: Sequence[Queue],
        tick: float = 1.0,
        batch: int = 100,
        prepare: Callable[[], object] | None = None,
    ) -> None:
        self._prepare = prepare
        self._queues = [part for queue in queues for part in queue.parts]
        self._tick = tick
        self._batch = batch
        self._stop: SimpleQueue[None] = SimpleQueue()
        self._away: set[Client] = set()

    def stop(self) -> None:
        """Ends :meth:`run` after the beat in hand. May be called from a signal handler."""
        self._stop.put(None)

    def run(self) -> None:
        """Beats until stopped.

        Raises:
            VersionFence: the server belongs to another wire version.
        """
        while True:
            started = time.monotonic()
            wait = min([self._tick, *(self._beat(queue) for queue in self._queues)])
            try:
                self._stop.get(timeout=max(0.0, started + wait - time.monotonic()))
            except Empty:
                continue
            return

    def _beat(self, queue: Queue) -> float:
        """One beat on one queue; answers how long the next may wait."""
        try:
            tick = self.beat(queue)
        except VersionFence:
            raise
        except (*LOST, EchoMQError) as error:
            if not self._is_away(queue.client):
                logger.warning("The server is away, will go on when it is back: %s", error)
            self._away.add(queue.client)
            return self._tick
        except Exception:
            logger.exception("The beat on queue %s failed", queue.name)
            return self._tick
        if queue.client in self._away:
            self._away.remove(queue.client)
            if not self._is_away(queue.client):
                logger.warning("The server is back")
        if tick.full or tick.runs_due > RUNS_BATCH:
            return 0.0
        return self._tick if tick.next_ms is None else tick.next_ms / 1000

    def _is_away(self, client: Client) -> bool:
        """Whether a server is known to be away, or another node of its cluster."""
        return any(each.home is client.home for each in self._away)

    def beat(self, queue: Queue) -> Tick:
        """One bounded beat on one queue."""
        if self._prepare:
            self._prepare()
            self._prepare = None
        # One that is away is not waited for, as others are to be served.
        patience = AWAY_PATIENCE if queue.client in self._away else None
        reply = queue.drive(queue.client.run(tick_call(queue, self._batch), patience))
        tick = tick_answer(queue, reply)
        if tick.runs_due:
            queue.repeat.fire(RUNS_BATCH)
            # The schedules have moved on from what the beat saw; look again soon.
            tick = replace(tick, next_run_ms=AFTER_FIRING_MS)
        if tick.moved:
            logger.debug("Queue %s: %s", queue.name, tick)
        return tick
