"""``ECHOMQ["SCHEDULES"]``: registered when a worker or promoter starts."""

from __future__ import annotations

import logging
from collections.abc import Sequence

from ..conf import ScheduleSettings, read_settings
from ..queue import Queue
from ..queue.repeat import Definition
from .database import fresh_connections
from .envelope import Envelope, to_json
from .registry import lookup

logger = logging.getLogger("django_echomq.tasks")

SOURCE = "settings"


def definition_of(schedule: ScheduleSettings) -> tuple[str, Definition] | None:
    """The queue and the definition of a schedule of the settings; ``None`` for an unknown task."""
    task = lookup(schedule.task)
    if task is None:
        return None
    payload = Envelope(task.module_path, to_json(schedule.args), to_json(schedule.kwargs)).encode()
    return schedule.queue or task.queue_name, schedule.definition(payload, SOURCE)


def reconcile_schedules(queues: Sequence[Queue]) -> None:
    """Makes the schedules that came from settings what the settings say now, on these queues.

    Raises:
        ServerUnavailable: some may be reconciled and some not; calling again finishes the work.
    """
    with fresh_connections():
        by_queue: dict[str, list[Definition]] = {}
        for schedule in read_settings().schedules.values():
            found = definition_of(schedule)
            if found is None:
                logger.error("Schedule %s: no task named %s", schedule.name, schedule.task)
            else:
                by_queue.setdefault(found[0], []).append(found[1])
        for queue in queues:
            done = queue.repeat.reconcile(by_queue.get(queue.name, []), SOURCE)
            for name, what in done.items():
                logger.info("Schedule %s of queue %s: %s", name, queue.name, what)
