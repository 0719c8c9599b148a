"""Django Tasks on somebody else's backend: the database, or Redis streams."""

from __future__ import annotations

import django

django.setup()

from .site.tasks import noop  # noqa: E402


def enqueue(number: int, sent: int) -> None:
    noop.enqueue(number, sent)
