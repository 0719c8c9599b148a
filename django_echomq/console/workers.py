"""Workers of all queues."""

from __future__ import annotations

from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _

from ..queue.workers import WorkerInfo
from . import activity
from .rights import OPERATE
from .servers import ask, queues
from .site import acts, looks, page


@looks
def index(request: HttpRequest) -> HttpResponse:
    """Who serves, and with what in hand."""
    named = queues()
    answers = ask([(queue, queue.workers.look()) for queue in named])
    found: dict[str, dict[str, Any]] = {}
    for queue, answer in zip(named, answers, strict=True):
        if isinstance(answer, Exception):
            continue
        for info in answer:
            row = found.setdefault(info.name, {"info": info, "in_hand": 0, "served": []})
            row["in_hand"] += info.in_hand
            row["served"].append(queue.name)
    away = [q.name for q, a in zip(named, answers, strict=True) if isinstance(a, Exception)]
    rows = sorted(found.values(), key=_name)
    return page(request, "workers", _("Workers"), rows=rows, away=away)


def _name(row: dict[str, Any]) -> str:
    info: WorkerInfo = row["info"]
    return info.name


@acts(OPERATE)
def act(request: HttpRequest) -> HttpResponse | None:
    """Tells a worker to be quiet, to go on, or to stop."""
    word, worker = request.POST.get("action", ""), request.POST.get("worker", "")
    told = []
    for queue in queues():
        tell = {
            "quiet": queue.workers.quiet,
            "resume": queue.workers.resume,
            "stop": queue.workers.stop,
        }.get(word)
        if tell is None:
            raise ValueError(_("Choose an action."))
        if tell(worker):
            told.append(queue.name)
    if not told:
        raise LookupError(_("There is no worker %(name)s any more.") % {"name": worker[:128]})
    for name in told:
        activity.note(request, name, f"worker {worker}: {word}")
    messages.success(request, _("Worker %(name)s: %(word)s") % {"name": worker, "word": word})
    return None
