"""Who did what."""

from __future__ import annotations

from django.core.paginator import Paginator
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from ..conf import queue_names, read_settings
from . import activity
from .site import looks, page


@looks
def index(request: HttpRequest) -> HttpResponse:
    """The log of all acts, newest first."""
    only = request.GET.get("queue", "")
    entries = activity.entries(only if only in queue_names() else None)
    pages = Paginator(entries, read_settings().console.page_size)
    return page(
        request,
        "log",
        _("Activity"),
        entries=pages.get_page(request.GET.get("page")),
        queues=queue_names(),
        only=only,
    )
