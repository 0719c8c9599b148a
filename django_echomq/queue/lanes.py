"""Fair lanes: verbs over the jobs of one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from ..wire.keys import check_lane

if TYPE_CHECKING:
    from .queue import Queue


class Lanes:
    """The verbs of lanes."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def reap(self, lane: str, limit: int = 100) -> int:
        """Returns up to ``limit`` jobs of one lane whose lease lapsed; answers how many.

        Raises:
            InvalidName: nothing was sent.
        """
        options = self._queue.options
        return int(
            self._queue.run(
                "lanes/reap",
                limit,
                check_lane(lane),
                options.keep_completed_ms,
                options.keep_completed_max,
            )
        )
