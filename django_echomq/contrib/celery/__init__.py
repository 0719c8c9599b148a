"""Celery's way to write and send tasks, on EchoMQ.

Put ``django_echomq.contrib.celery`` where an import says ``celery``. What Celery does and this does
not is refused with a sentence, when it is imported, declared or called; nothing is passed over in
silence. Celery itself is not needed.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from .canvas import Signature, chain, signature
    from .canvas import signature as subtask
    from .task import Task, shared_task

__all__ = ["Signature", "Task", "chain", "shared_task", "signature", "subtask"]

_HOMES = {
    "Signature": ("canvas", "Signature"),
    "Task": ("task", "Task"),
    "chain": ("canvas", "chain"),
    "shared_task": ("task", "shared_task"),
    "signature": ("canvas", "signature"),
    "subtask": ("canvas", "signature"),
}

_INSTEAD = {
    "Celery": "there is no app: delete celery.py, write @shared_task for @app.task, and turn the "
    "settings with `manage.py echomq_convert_celery`",
    "current_app": "there is no app: name the task, or use django_echomq.get_queue",
    "current_task": "use bind=True, or django_echomq.current_job()",
    "group": "send each signature with apply_async(), and get() each result",
    "chord": "let each task note that it is done, and the last one send the next",
    "chunks": "send slices of the list with one call each",
    "xmap": "send each with delay()",
    "xstarmap": "send each with delay()",
}


if not TYPE_CHECKING:

    def __getattr__(name: str) -> Any:
        # Late: settings import crontab from here before there are settings.
        if name in _HOMES:
            module, attribute = _HOMES[name]
            return getattr(importlib.import_module(f".{module}", __name__), attribute)
        if name in _INSTEAD:
            raise ImportError(f"Celery's {name} has no counterpart in EchoMQ: {_INSTEAD[name]}.")
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
