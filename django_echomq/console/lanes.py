"""Lanes of a queue: who waits, and how they are served."""

from __future__ import annotations

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.translation import gettext as _

from ..queue import Queue
from . import activity, operations
from .rights import DESTROY, OPERATE, VIEW, demand
from .servers import queue_named
from .site import acts, back, looks, page, url

_SHOWN = 100


@looks
def index(request: HttpRequest, name: str) -> HttpResponse:
    """The lanes, the deepest first."""
    queue = queue_named(name)
    search = request.GET.get("q", "").strip()[:128]
    lanes = [lane for lane in queue.lanes.all() if search.lower() in lane.name.lower()]
    lanes.sort(key=lambda lane: (-lane.depth, lane.name))
    return page(
        request,
        "lanes",
        name,
        queue=queue,
        tab="lanes",
        lanes=lanes[:_SHOWN],
        left_out=max(0, len(lanes) - _SHOWN),
        search=search,
    )


@acts(VIEW)
def act(request: HttpRequest, name: str) -> HttpResponse | None:
    """An act on one lane."""
    queue, word = queue_named(name), request.POST.get("action", "")
    lane = request.POST.get("lane", "")
    demand(request, DESTROY if word == "drain" else OPERATE)
    if word == "pause":
        queue.lanes.pause(lane)
    elif word == "resume":
        queue.lanes.resume(lane)
    elif word == "limit":
        queue.lanes.limit(lane, _whole(request.POST.get("number", "")))
    elif word == "weight":
        queue.lanes.weight(lane, _whole(request.POST.get("number", "")))
    elif word == "drain":
        depth = queue.lanes.depth(lane)
        if request.POST.get("confirmed") != "yes":
            return page(
                request,
                "confirm_lane",
                _("Drain"),
                queue=queue,
                lane=lane,
                many=depth,
                next=back(request, name),
                tab="lanes",
            )

        def run(queue: Queue, progress: object) -> int:
            return queue.lanes.drain(lane, progress=progress)  # type: ignore[arg-type]

        operation = operations.start(name, f"drain lane {lane}", request.user.get_username(), run)
        activity.note(request, name, f"drain lane {lane}: {depth} jobs", True)
        return HttpResponseRedirect(url("operation", name, operation.id))
    else:
        raise ValueError(_("Choose an action."))
    number = request.POST.get("number", "").strip()
    activity.note(request, name, " ".join(filter(None, (word, "lane", lane, number))))
    messages.success(request, _("Lane %(lane)s: %(word)s") % {"lane": lane, "word": word})
    return None


def _whole(text: str) -> int | None:
    text = text.strip()
    if not text:
        return None
    if not text.isdecimal():
        raise ValueError(_("%(text)s is not a whole number.") % {"text": text[:20]})
    return int(text)
