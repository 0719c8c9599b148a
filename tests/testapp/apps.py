from __future__ import annotations

import os
from typing import Any

from django.apps import AppConfig


class TestAppConfig(AppConfig):
    name = "tests.testapp"

    def ready(self) -> None:
        if path := os.environ.get("ECHOMQ_TEST_HEARD"):
            hear(path)


def hear(path: str) -> None:
    """Notes each signal about a job in a file, with the process that heard it."""
    from django.dispatch import Signal

    from django_echomq import signals

    from .tasks import append

    def connect(name: str, signal: Signal) -> None:
        def receiver(**fields: Any) -> None:
            append(path, f"{os.getpid()} {name} {fields['job_id']}")

        signal.connect(receiver, weak=False)

    for name, value in vars(signals).items():
        if isinstance(value, Signal):
            connect(name, value)
