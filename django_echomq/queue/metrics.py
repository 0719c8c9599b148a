"""Reading a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wire.errors import RateLimited

if TYPE_CHECKING:
    from .queue import Queue

STATES = ("pending", "active", "scheduled", "dead", "completed", "failed")


class Metrics:
    """Figures of a queue, read in one script each."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def counts(self, *states: str) -> dict[str, int]:
        """Jobs per state.

        Args:
            states: any of ``pending`` (every lane included) ``active scheduled dead``, the jobs
                that are there, and ``completed failed``, the jobs that ended so since the queue
                began; all of them where none is named.

        Raises:
            ValueError: for another word; nothing is sent.
        """
        unknown = sorted(set(states) - set(STATES))
        if unknown:
            raise ValueError(f"unknown state {unknown[0]!r}: use {', '.join(STATES)}")
        counts = dict(zip(STATES, map(int, self._queue.run("metrics/counts")), strict=True))
        return {state: counts[state] for state in states or STATES}

    def is_maxed(self) -> bool:
        """Whether a limit of the queue forbids starting a job now: its concurrency, or its rate.

        A look: claiming heeds the limits by itself.
        """
        try:
            self._queue.run("metrics/is_maxed")
        except RateLimited:
            return True
        return False
