"""The operator plane: the whole queue at once."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from .queue import Queue


class Admin:
    """Verbs over a whole queue."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def pause(self) -> bool:
        """Stops claiming; jobs in hand finish. Answers whether the queue was running."""
        return bool(self._queue.run("admin/pause"))

    def resume(self) -> bool:
        """Starts claiming again. Answers whether the queue was paused."""
        return bool(self._queue.run("admin/resume"))

    def is_paused(self) -> bool:
        """Whether claiming is stopped."""
        queue = self._queue
        return bool(queue.drive(queue.client.command("HEXISTS", queue.keys.meta, "paused")))
