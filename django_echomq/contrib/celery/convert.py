"""From Celery's settings to ``ECHOMQ``. What has no counterpart is told, not dropped in silence."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from datetime import timedelta
from typing import Any

from ...queue.repeat import Definition
from ...wire.endpoint import Endpoint
from ...wire.errors import EchoMQError
from ...wire.keys import check_queue
from .canvas import find_task
from .exceptions import NotRegistered
from .schedules import cronfield


@dataclass
class Conversion:
    """What came of the settings.

    Attributes:
        echomq: for ``settings.ECHOMQ``.
        tasks: for ``settings.TASKS``.
        worker: options of ``manage.py echomq_worker``.
        left: what could not be converted: a sentence each.
        dropped: what is not needed any more: a sentence each.
    """

    echomq: dict[str, Any] = field(default_factory=dict)
    tasks: dict[str, Any] = field(default_factory=dict)
    worker: list[str] = field(default_factory=list)
    left: list[str] = field(default_factory=list)
    dropped: list[str] = field(default_factory=list)

    def source(self) -> str:
        """It as Python, with what is left in comments."""
        parts = [f"ECHOMQ = {_python(self.echomq)}", f"TASKS = {_python(self.tasks)}"]
        if self.worker:
            parts.append(f"# The worker: manage.py echomq_worker {' '.join(self.worker)}")
        if self.left:
            lines = [f"#  - {line}" for line in self.left]
            parts.append("\n".join(["# Could not be converted:", *lines]))
        if self.dropped:
            lines = [f"#  - {line}" for line in self.dropped]
            parts.append("\n".join(["# Not needed any more:", *lines]))
        return "\n\n".join(parts)


def _python(value: Any, depth: int = 0) -> str:
    """A setting as people write it: an entry of a dict on a line of its own."""
    if not isinstance(value, dict) or not value:
        return repr(value)
    pad = "    " * depth
    lines = [f"{pad}    {key!r}: {_python(item, depth + 1)}," for key, item in value.items()]
    return "\n".join(["{", *lines, f"{pad}}}"])


def convert(given: Mapping[str, Any]) -> Conversion:
    """Converts settings.

    Args:
        given: Celery's settings by their names in capitals, without a namespace.
    """
    return _Converter(given).convert()


class _Converter:
    def __init__(self, given: Mapping[str, Any]) -> None:
        self._given = given
        self._done = Conversion()
        self._queues: dict[str, dict[str, Any]] = {"default": {}}
        self._every_queue: dict[str, Any] = {}

    def convert(self) -> Conversion:
        done = self._done
        if "BROKER_URL" not in self._given:
            done.left.append("BROKER_URL is not set: write the URL of a Valkey server.")
            self._connect("redis://127.0.0.1:6379/0")
        # Queues are there before what speaks of them.
        order = {"TASK_QUEUES": 0, "TASK_DEFAULT_QUEUE": 1}
        schedules: dict[str, Any] = {}
        for name in sorted(self._given, key=lambda name: (order.get(name, 2), name)):
            value = self._given[name]
            if name in ("BEAT_SCHEDULE", "TIMEZONE"):
                continue
            read = _READERS.get(name)
            if read is not None:
                read(self, value)
            elif name in _DROPPED:
                done.dropped.append(f"{name}: {_DROPPED[name]}.")
            else:
                done.left.append(f"{name} = {value!r}: there is no counterpart.")
        for name, entry in dict(self._given.get("BEAT_SCHEDULE") or {}).items():
            self._schedule(str(name), entry, schedules)
        for options in self._queues.values():
            options.update(self._every_queue)
        done.echomq["QUEUES"] = self._queues
        if schedules:
            done.echomq["SCHEDULES"] = schedules
        done.tasks.setdefault(
            "default",
            {"BACKEND": "django_echomq.backend.EchoMQBackend", "QUEUES": list(self._queues)},
        )
        return done

    def _left(self, sentence: str) -> None:
        self._done.left.append(sentence)

    # Settings

    def _connect(self, url: str) -> None:
        self._done.echomq["CONNECTIONS"] = {"default": {"URL": url}}

    def _broker(self, value: Any) -> None:
        url = str(value[0] if isinstance(value, (list, tuple)) and value else value)
        url = url.replace("redis+socket://", "unix://", 1)
        try:
            Endpoint.from_url(url)
        except (EchoMQError, ValueError):
            self._left(
                f"BROKER_URL: {url.partition(':')[0]} is no Valkey or Redis; write its URL instead."
            )
            url = "redis://127.0.0.1:6379/0"
        else:
            self._left(
                "priority= on tasks and calls, if you use it: on Redis, Celery runs 0 first; here "
                "a higher number is run first."
            )
        self._connect(url)

    def _queue(self, name: Any) -> bool:
        """Defines a queue; answers whether its name is allowed."""
        try:
            check_queue(name)
        except (EchoMQError, TypeError):
            self._left(f"The queue {name!r}: a name is letters, digits, '.', '_' or '-'.")
            return False
        self._queues.setdefault(name, {})
        return True

    def _task_queues(self, value: Any) -> None:
        names = value if isinstance(value, Mapping) else value or ()
        for queue in names:
            self._queue(getattr(queue, "name", queue))

    def _default_queue(self, value: Any) -> None:
        if value != "default" and self._queue(value):
            self._left(
                f"TASK_DEFAULT_QUEUE = {value!r}: the default queue is called 'default'; write "
                f"queue={value!r} on the tasks that are to stay there."
            )

    def _routes(self, value: Any) -> None:
        entries = value.items() if isinstance(value, Mapping) else None
        if entries is None:
            self._left("TASK_ROUTES: functions and lists of them; write queue= on each task.")
            return
        for task, route in entries:
            queue = route.get("queue") if isinstance(route, Mapping) else route
            if isinstance(queue, str) and self._queue(queue):
                self._left(f"TASK_ROUTES[{task!r}]: write @shared_task(queue={queue!r}).")
            else:
                self._left(f"TASK_ROUTES[{task!r}] = {route!r}: name a queue on the task.")

    def _annotations(self, value: Any) -> None:
        for task, options in value.items() if isinstance(value, Mapping) else ():
            self._left(f"TASK_ANNOTATIONS[{task!r}] = {options!r}: write it on @shared_task.")

    def _rate(self, value: Any) -> None:
        if value:
            self._left(
                f"TASK_DEFAULT_RATE_LIMIT = {value!r}: a rate is a queue's, over all workers: "
                "write 'RATE_LIMIT' on the queues that need one."
            )

    def _time_limit(self, value: Any) -> None:
        if value is not None:
            self._every_queue["TIMEOUT"] = value
            self._left(
                f"TASK_TIME_LIMIT = {value!r} has become the TIMEOUT of each queue. Threads are "
                "asked to stop; tasks that have to be killed need @shared_task(time_limit=...), or "
                "the worker's --isolate."
            )

    def _soft_time_limit(self, value: Any) -> None:
        if value is not None:
            self._left(f"TASK_SOFT_TIME_LIMIT: write soft_time_limit={value!r} on the tasks.")

    def _result_expires(self, value: Any) -> None:
        if value is None or not _seconds(value):
            self._left("RESULT_EXPIRES: results end; write KEEP_COMPLETED, in seconds.")
        else:
            self._every_queue["KEEP_COMPLETED"] = _seconds(value)

    def _eager(self, value: Any) -> None:
        if value:
            self._done.tasks["default"] = {
                "BACKEND": "django.tasks.backends.immediate.ImmediateBackend"
            }
            self._done.dropped.append("TASK_ALWAYS_EAGER: Django's ImmediateBackend does it.")

    def _early(self, value: Any) -> None:
        self._done.dropped.append("TASK_ACKS_LATE: it is always so.")

    def _serializer(self, value: Any) -> None:
        words = [value] if isinstance(value, str) else list(value or ())
        if any(word not in ("json", "application/json") for word in words):
            self._left(f"{words!r}: arguments and results travel as JSON only.")

    def _scheduler(self, value: Any) -> None:
        self._left(
            f"BEAT_SCHEDULER = {value!r}: schedules that are kept elsewhere are not read; put them "
            "into SCHEDULES, or register them with queue.repeat."
        )

    def _concurrency(self, value: Any) -> None:
        if value:
            self._done.worker.append(f"--threads {value}")

    def _max_tasks(self, value: Any) -> None:
        if value:
            self._done.worker.append(f"--processes 2 --max-jobs {value}")

    def _max_memory(self, value: Any) -> None:
        if value:
            self._done.worker.append(f"--max-memory {max(1, round(value / 1024))}")

    # Schedules

    def _schedule(self, name: str, entry: Mapping[str, Any], schedules: dict[str, Any]) -> None:
        where = f"BEAT_SCHEDULE[{name!r}]"
        cadence = self._cadence(where, entry.get("schedule"))
        if cadence is None:
            return
        task = str(entry.get("task"))
        try:
            task = find_task(task).django_task.module_path
        except NotRegistered:
            self._left(f"{where}: {task} is no task here yet; change the import of its module.")
        made: dict[str, Any] = {"TASK": task, **cadence}
        if entry.get("args"):
            made["ARGS"] = list(entry["args"])
        if entry.get("kwargs"):
            made["KWARGS"] = dict(entry["kwargs"])
        options = dict(entry.get("options") or {})
        queue = options.pop("queue", None)
        if queue and self._queue(queue):
            made["QUEUE"] = queue
        if options.get("priority") is not None:
            made["PRIORITY"] = options.pop("priority")
        for option, value in options.items():
            self._left(f"{where}: {option} = {value!r} has no counterpart in a schedule.")
        if entry.get("relative"):
            self._left(f"{where}: relative = True; ticks lie at fixed distances.")
        plain = re.sub(r"[^A-Za-z0-9._-]+", "-", name)[:128]
        try:
            Definition(name=plain, payload=b"", **_fields(made))
        except (EchoMQError, TypeError, ValueError) as error:
            self._left(f"{where}: {error}.")
            return
        schedules[plain] = made

    def _cadence(self, where: str, schedule: Any) -> dict[str, Any] | None:
        if hasattr(schedule, "_orig_minute"):
            return self._cron(where, schedule)
        # Celery's own class for intervals keeps them as run_every.
        every = getattr(schedule, "run_every", schedule)
        seconds = _seconds(every)
        if not seconds:
            self._left(
                f"{where}: {schedule!r} is no crontab and no interval; schedule it another way."
            )
            return None
        return {"EVERY": seconds}

    def _cron(self, where: str, schedule: Any) -> dict[str, Any] | None:
        minute, hour, of_month, of_year, of_week = (
            cronfield(getattr(schedule, f"_orig_{part}"))
            for part in ("minute", "hour", "day_of_month", "month_of_year", "day_of_week")
        )
        if not of_month.startswith("*") and not of_week.startswith("*"):
            self._left(
                f"{where}: a day of the month and a day of the week; Celery runs where both hold, "
                "a cron line where one does. Ask for the other in the task."
            )
            return None
        line = f"{minute} {hour} {of_month} {of_year} {of_week}"
        zone = str(self._given.get("TIMEZONE") or "UTC")
        return {"CRON": line, "TZ": zone} if zone != "UTC" else {"CRON": line}


def _seconds(value: Any) -> float | None:
    """Seconds of what is a number or a timedelta, whole where they are."""
    seconds = value.total_seconds() if isinstance(value, timedelta) else value
    if isinstance(seconds, bool) or not isinstance(seconds, (int, float)):
        return None
    return int(seconds) if seconds == int(seconds) else seconds


def _fields(made: Mapping[str, Any]) -> dict[str, Any]:
    every = made.get("EVERY")
    return {
        "every_ms": None if every is None else round(every * 1000),
        "cron": made.get("CRON"),
        "tz": made.get("TZ", "UTC"),
        "priority": made.get("PRIORITY", 0),
    }


_READERS: dict[str, Callable[[_Converter, Any], None]] = {
    "ACCEPT_CONTENT": _Converter._serializer,
    "BEAT_SCHEDULER": _Converter._scheduler,
    "BROKER_URL": _Converter._broker,
    "RESULT_EXPIRES": _Converter._result_expires,
    "RESULT_SERIALIZER": _Converter._serializer,
    "TASK_ACKS_LATE": _Converter._early,
    "TASK_ALWAYS_EAGER": _Converter._eager,
    "TASK_ANNOTATIONS": _Converter._annotations,
    "TASK_DEFAULT_QUEUE": _Converter._default_queue,
    "TASK_DEFAULT_RATE_LIMIT": _Converter._rate,
    "TASK_QUEUES": _Converter._task_queues,
    "TASK_ROUTES": _Converter._routes,
    "TASK_SERIALIZER": _Converter._serializer,
    "TASK_SOFT_TIME_LIMIT": _Converter._soft_time_limit,
    "TASK_TIME_LIMIT": _Converter._time_limit,
    "WORKER_CONCURRENCY": _Converter._concurrency,
    "WORKER_MAX_MEMORY_PER_CHILD": _Converter._max_memory,
    "WORKER_MAX_TASKS_PER_CHILD": _Converter._max_tasks,
}

_DROPPED = {
    "BROKER_CONNECTION_RETRY": "the worker waits for its server",
    "BROKER_CONNECTION_RETRY_ON_STARTUP": "the worker waits for its server",
    "BROKER_TRANSPORT_OPTIONS": "a lost job comes back when its LEASE lapses",
    "ENABLE_UTC": "instants are aware",
    "RESULT_BACKEND": "a result is kept with its job",
    "RESULT_EXTENDED": "a job keeps its arguments",
    "TASK_CREATE_MISSING_QUEUES": "queues are those of the settings",
    "TASK_IGNORE_RESULT": "results end by themselves; KEEP_COMPLETED 0 keeps none",
    "TASK_REJECT_ON_WORKER_LOST": "it is always so",
    "TASK_SEND_SENT_EVENT": "every transition is published",
    "TASK_STORE_EAGER_RESULT": "the backend decides",
    "TASK_TRACK_STARTED": "it is always so",
    "WORKER_HIJACK_ROOT_LOGGER": "logging is left alone",
    "WORKER_PREFETCH_MULTIPLIER": "a worker claims what it has threads for",
    "WORKER_SEND_TASK_EVENTS": "every transition is published",
}
