"""Pages and acts of whole queues."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from django.contrib import messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect, JsonResponse
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..queue import Queue
from ..queue.metrics import Overview, Throughput
from . import activity, operations
from .rights import DESTROY, OPERATE, VIEW, demand
from .servers import ask, queue_named, queues
from .site import acts, back, looks, page, url

Progress = Callable[[int, int], object]


@dataclass(frozen=True, slots=True)
class Verb:
    """An act on whole queues.

    Attributes:
        word: of the form and the log; the verb's own name.
        label: of the button.
        permission: what it takes.
        run: does it; answers how many jobs it met, or ``None`` for a switch.
        long: it runs on its own and shows how far it is.
        meant: names the counts that tell how many jobs it will meet.
        asks: it is confirmed first.
    """

    word: str
    label: Any
    permission: str
    run: Callable[[Queue, Progress], int | None]
    long: bool = False
    meant: Sequence[str] = ()
    asks: bool = False


def _switch(act: Callable[[Queue], object]) -> Callable[[Queue, Progress], None]:
    def run(queue: Queue, progress: Progress) -> None:
        act(queue)

    return run


def _promote_due(queue: Queue) -> int:
    moved = 0
    while moved < 1_000:
        step = queue.jobs.promote()
        moved += step
        if not step:
            break
    return moved


VERBS = {
    verb.word: verb
    for verb in (
        Verb("pause", gettext_lazy("Pause"), OPERATE, _switch(lambda q: q.admin.pause())),
        Verb("resume", gettext_lazy("Resume"), OPERATE, _switch(lambda q: q.admin.resume())),
        Verb(
            "promote_due",
            gettext_lazy("Promote what is due"),
            OPERATE,
            lambda q, progress: _promote_due(q),
        ),
        Verb(
            "promote_all",
            gettext_lazy("Run all scheduled now"),
            OPERATE,
            lambda q, progress: q.admin.promote_all(progress=progress),
            long=True,
            meant=("scheduled",),
            asks=True,
        ),
        Verb(
            "reprocess_dead",
            gettext_lazy("Retry all dead"),
            OPERATE,
            lambda q, progress: q.admin.reprocess_all(progress=progress),
            long=True,
            meant=("dead",),
            asks=True,
        ),
        Verb(
            "drain",
            gettext_lazy("Drain: remove all that waits"),
            DESTROY,
            lambda q, progress: q.admin.drain(progress=progress),
            long=True,
            meant=("pending",),
            asks=True,
        ),
        Verb(
            "clean_dead",
            gettext_lazy("Remove all dead"),
            DESTROY,
            lambda q, progress: q.admin.clean("dead", 0, progress=progress),
            long=True,
            meant=("dead",),
            asks=True,
        ),
        Verb(
            "obliterate",
            gettext_lazy("Obliterate: remove the queue with everything"),
            DESTROY,
            lambda q, progress: q.admin.obliterate(progress=progress),
            long=True,
            meant=("pending", "active", "scheduled", "dead"),
            asks=True,
        ),
    )
}


@dataclass(frozen=True, slots=True)
class QueueRow:
    """A queue as the list shows it.

    Attributes:
        overview: ``None`` where its server is away.
        error: why.
    """

    queue: Queue
    overview: Overview | None
    error: str = ""


def overviews(named: Sequence[Queue]) -> list[QueueRow]:
    """Looks at queues, in one round trip per server, and one more for each 32 lanes."""
    looks = [(queue, queue.metrics.overview_look()) for queue in named]
    return [
        QueueRow(queue, None, str(answer))
        if isinstance(answer, Exception)
        else QueueRow(queue, answer)
        for queue, answer in zip(named, ask(looks), strict=True)
    ]


def _state(row: QueueRow) -> str:
    return row.overview.state if row.overview else "away"


@looks
def index(request: HttpRequest) -> HttpResponse:
    """Every queue, one row each."""
    search = request.GET.get("q", "").strip()[:128]
    wanted = request.GET.get("state", "")
    rows = overviews([queue for queue in queues() if search.lower() in queue.name.lower()])
    if wanted in ("running", "paused", "limited", "away"):
        rows = [row for row in rows if _state(row) == wanted]
    elif wanted == "dead":
        rows = [row for row in rows if row.overview and row.overview.counts["dead"]]
    known = [row.overview for row in rows if row.overview]
    totals = {
        name: sum(overview.counts[name] for overview in known)
        for name in ("pending", "active", "scheduled", "dead")
    }
    return page(
        request,
        "index",
        _("Queues"),
        rows=[(row, _state(row)) for row in rows],
        totals=totals,
        failed=sum(sum(point.failed for point in overview.throughput) for overview in known),
        oldest=max((o.oldest for o in known if o.oldest is not None), default=None),
        verbs=[verb for verb in VERBS.values() if request.user.has_perm(verb.permission)],
        search=search,
        wanted=wanted,
    )


@looks
def status(request: HttpRequest) -> HttpResponse:
    """The same as JSON, for monitors with a session. 503 where a server is away."""
    rows = overviews(queues())
    body = [
        {
            "queue": row.queue.name,
            "state": _state(row),
            "error": row.error,
            **(_figures(row.overview) if row.overview else {}),
        }
        for row in rows
    ]
    away = any(row.overview is None for row in rows)
    return JsonResponse({"queues": body}, status=503 if away else 200)


def _figures(overview: Overview) -> dict[str, Any]:
    return {
        **overview.counts,
        "concurrency": overview.concurrency,
        "rate": None if overview.rate is None else str(overview.rate),
        "oldest_wait_seconds": overview.oldest,
        "workers": overview.workers,
        "completed_last_hour": sum(point.completed for point in overview.throughput),
        "failed_last_hour": overview.failed_last_hour,
    }


def _bars(points: list[Throughput], each: int) -> list[Throughput]:
    """The points, so many of them together in one bar; the last bar is a whole one."""
    if each == 1:
        return points
    bars = []
    for start in range(len(points) % each, len(points), each):
        part = points[start : start + each]
        sums = {
            name: sum(getattr(point, name) for point in part)
            for name in ("completed", "failed", "cancelled", "retried", "enqueued")
        }
        bars.append(Throughput(part[0].at, **sums))
    return bars


@looks
def one(request: HttpRequest, name: str) -> HttpResponse:
    """One queue: its figures, charts and limits."""
    queue = queue_named(name)
    span = request.GET.get("span", "hour")
    if span == "day":
        looked = queue.metrics.throughput_look("hour", 24)
    elif span == "month":
        looked = queue.metrics.throughput_look("hour", 24 * 31)
    else:
        span, looked = "hour", queue.metrics.throughput_look("minute", 60)
    answers = ask(
        [
            (queue, queue.metrics.overview_look()),
            (queue, looked),
            (queue, queue.metrics.latency_look(1)),
        ]
    )
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    overview, points, latency = answers
    return page(
        request,
        "one",
        name,
        queue=queue,
        overview=overview,
        counts=overview.counts,
        points=_bars(points, 6 if span == "month" else 1),
        latency=latency,
        span=span,
        verbs=[verb for verb in VERBS.values() if request.user.has_perm(verb.permission)],
        tab="overview",
    )


def _verb(request: HttpRequest) -> Verb:
    verb = VERBS.get(request.POST.get("action", ""))
    if verb is None:
        raise ValueError(_("Choose an action."))
    demand(request, verb.permission)
    return verb


def _perform(request: HttpRequest, verb: Verb, names: Sequence[str]) -> HttpResponse | None:
    """Does a verb on queues; answers where to look, or ``None`` to go back."""
    found = [queue_named(name) for name in names]
    rows = overviews(found)
    many = {
        row.queue.name: sum(row.overview.counts[s] for s in verb.meant) if row.overview else 0
        for row in rows
    }
    if verb.asks:
        for row in rows:
            if row.overview is None:
                raise ValueError(
                    _("Queue %(name)s cannot be read; nothing was changed. %(error)s")
                    % {"name": row.queue.name, "error": row.error}
                )
    if verb.asks and request.POST.get("confirmed") != "yes":
        return page(
            request,
            "confirm",
            verb.label,
            verb=verb,
            names=names,
            many=many,
            total=sum(many.values()),
            action=request.path,
            next=back(request, names[0] if len(names) == 1 else None),
            typed=verb.word == "obliterate",
        )
    if verb.word == "obliterate" and request.POST.get("typed") != ",".join(names):
        raise ValueError(_("The name was not typed as it is. Nothing was changed."))
    last: HttpResponse | None = None
    for queue in found:
        if verb.word == "obliterate" and not queue.admin.is_paused():
            raise ValueError(_("Pause queue %(name)s first.") % {"name": queue.name})
    for queue in found:
        if verb.long:
            operation = operations.start(
                queue.name, str(verb.label), request.user.get_username(), verb.run
            )
            last = HttpResponseRedirect(url("operation", queue.name, operation.id))
            said = f"{verb.word}: {many[queue.name]} jobs"
        else:
            count = verb.run(queue, lambda done, total: None)
            said = verb.word if count is None else f"{verb.word}: {count} jobs"
        activity.note(request, queue.name, said, verb.permission == DESTROY)
    messages.success(
        request,
        ngettext("%(verb)s: %(n)d queue", "%(verb)s: %(n)d queues", len(names))
        % {"verb": verb.label, "n": len(names)},
    )
    return last if len(found) == 1 else None


# Each verb asks for its own permission.
@acts(VIEW)
def act_on_selected(request: HttpRequest) -> HttpResponse | None:
    """The list's actions, over the selected queues."""
    names = request.POST.getlist("_selected_action")
    if not names:
        raise ValueError(_("Select at least one queue."))
    return _perform(request, _verb(request), names)


@acts(VIEW)
def act(request: HttpRequest, name: str) -> HttpResponse | None:
    """An act on one queue."""
    return _perform(request, _verb(request), [name])


@looks
def operation(request: HttpRequest, name: str, operation_id: str) -> HttpResponse:
    """How far a verb over many jobs is."""
    queue = queue_named(name)
    found = operations.find(queue, operation_id)
    return page(request, "operation", _("Operation"), queue=queue, operation=found, tab="")
