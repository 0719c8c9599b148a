"""The tasks that may run. A name in a payload is looked up here and nowhere else."""

from __future__ import annotations

import threading
from typing import Any

from django.apps import apps
from django.utils.module_loading import autodiscover_modules

from .compat import InvalidTask, Task

_tasks: dict[str, Task[..., Any]] = {}
_lock = threading.Lock()
_discovered = False


def _place(task: Task[..., Any]) -> tuple[str, int]:
    code = task.func.__code__
    return code.co_filename, code.co_firstlineno


def register(task: Task[..., Any]) -> None:
    """Makes a task runnable under its module path. The first definition of a task stands; the
    variants that ``using()`` makes of it are the same task.

    Raises:
        InvalidTask: another function already has that name.
    """
    name = task.module_path
    known = _tasks.setdefault(name, task)
    if known.func is not task.func:
        if _place(known) != _place(task):
            raise InvalidTask(
                f"two tasks are named {name!r} ({_place(known)} and {_place(task)}): rename one"
            )
        _tasks[name] = task  # the module was loaded again


def lookup(name: str) -> Task[..., Any] | None:
    """The task of that name, after every app's ``tasks`` module was imported once."""
    task = _tasks.get(name)
    if task is None and not _discovered:
        autodiscover()
        task = _tasks.get(name)
    return task


def registered() -> dict[str, Task[..., Any]]:
    """All tasks by name."""
    return dict(_tasks)


def autodiscover() -> None:
    """Imports every app's ``tasks`` module.

    Tasks that were defined for another backend and are sent to this one with
    ``using(backend=...)`` are registered too.
    """
    global _discovered
    with _lock:
        if _discovered:
            return
        autodiscover_modules("tasks")
        for config in apps.get_app_configs():
            module = getattr(config.module, "tasks", None)
            for value in list(vars(module).values()) if module else ():
                if isinstance(value, Task):
                    register(value)
        _discovered = True
