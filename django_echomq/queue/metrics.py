"""Reading a queue."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wire.keys import check_unique

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

    def unique_holder(self, key: str) -> str | None:
        """The id of the job that a unique key names; ``None`` where the key is free.

        A job that a crash of the server lost is still named; it keeps nobody from the key.

        Raises:
            InvalidName: nothing was sent.
        """
        queue = self._queue
        name = queue.keys.base + b"de:" + check_unique(key).encode()
        holder = queue.drive(queue.client.command("GET", name))
        return None if holder is None else holder.decode("ascii", "backslashreplace")
