"""System checks: ``manage.py check`` tells all that is wrong with the settings and the tasks."""

from __future__ import annotations

from typing import Any

from django.core.checks import CheckMessage, Error, register

from .conf import did_you_mean, read_settings
from .tasks.backend import EchoMQBackend
from .tasks.compat import task_backends
from .tasks.registry import autodiscover, registered
from .tasks.schedules import definition_of
from .tasks.task import EchoTask


@register("echomq")
def check_settings(**kwargs: Any) -> list[CheckMessage]:
    """Reports every fault of ``settings.ECHOMQ``."""
    return [Error(p.message, hint=p.hint or None, id=p.id) for p in read_settings().problems]


@register("echomq")
def check_tasks(**kwargs: Any) -> list[CheckMessage]:
    """Reports tasks and backends on queues that the settings do not define."""
    autodiscover()
    current = read_settings()
    queues = current.queues
    found: list[CheckMessage] = [
        Error(
            f"TASKS[{backend.alias!r}]['QUEUES'] names {name!r}, which ECHOMQ['QUEUES'] does not "
            "define.",
            hint=did_you_mean(name, queues, "Define the queue, or leave it out.") or None,
            id="echomq.E007",
        )
        for backend in task_backends.all()
        if isinstance(backend, EchoMQBackend)
        for name in sorted(backend.queues - set(queues))
    ]
    for schedule in current.schedules.values():
        where = f"ECHOMQ['SCHEDULES'][{schedule.name!r}]"
        try:
            if definition_of(schedule) is None:
                known = registered()
                found.append(
                    Error(
                        f"{where} names the task {schedule.task!r}, which does not exist.",
                        hint=did_you_mean(schedule.task, known, "Tasks live in an app's tasks.py.")
                        or None,
                        id="echomq.E009",
                    )
                )
        except (TypeError, ValueError) as error:
            found.append(Error(f"{where}: {error}.", id="echomq.E008"))
    return found + [
        Error(
            f"The task {name} goes to the queue {task.queue_name!r}, which ECHOMQ['QUEUES'] does "
            "not define.",
            hint=did_you_mean(task.queue_name, queues, "Define the queue, or name another.")
            or None,
            id="echomq.E006",
        )
        for name, task in registered().items()
        if isinstance(task, EchoTask) and task.queue_name not in queues
    ]
