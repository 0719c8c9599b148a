"""Who did what: the admin site's own log."""

from __future__ import annotations

from typing import Any

from django.contrib.admin.models import CHANGE, DELETION, LogEntry
from django.contrib.contenttypes.models import ContentType
from django.db.models import QuerySet
from django.http import HttpRequest

from ..models import Queue


def note(request: HttpRequest, queue: str, what: str, destroys: bool = False) -> None:
    """Writes an entry.

    Args:
        queue: the queue's name.
        what: the verb, and how many jobs or which one.
    """
    LogEntry.objects.create(
        user_id=request.user.pk or 0,
        content_type=ContentType.objects.get_for_model(Queue),
        object_id=queue,
        object_repr=queue[:200],
        action_flag=DELETION if destroys else CHANGE,
        change_message=what,
    )


def entries(queue: str | None = None) -> QuerySet[Any]:
    """The entries, newest first."""
    found = LogEntry.objects.filter(
        content_type=ContentType.objects.get_for_model(Queue)
    ).select_related("user")
    if queue is not None:
        found = found.filter(object_id=queue)
    return found.order_by("-action_time", "-pk")
