"""Pages and acts of jobs."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any

from django.contrib import messages
from django.http import Http404, HttpRequest, HttpResponse, HttpResponseRedirect
from django.utils.dateparse import parse_datetime
from django.utils.timezone import get_current_timezone, is_naive
from django.utils.translation import gettext as _
from django.utils.translation import gettext_lazy, ngettext

from ..conf import read_settings
from ..queue import Queue
from ..queue.values import Verdict, due_at
from ..tasks.envelope import Envelope, dumps, to_json
from ..tasks.shown import editable, laid_out, shown_bytes, shown_call, unmasked
from ..tasks.verdicts import BadPayload
from ..wire.errors import InvalidId, JobGone
from ..wire.ids import check, is_id
from . import activity, operations, search
from .rights import DESTROY, EDIT, OPERATE, VIEW, demand
from .servers import queue_named
from .site import acts, back, looks, page, url

_LOG_LINES = 500
_ATTEMPTS = 50
_LANES = 12  # that the list of the pending links to


@dataclass(frozen=True, slots=True)
class Verb:
    """An act on many jobs.

    Attributes:
        word, label: of the form, and of the button.
        permission: for selected jobs.
        permission_for_all: for all that match.
        states: where it makes sense.
        run: does it to some jobs.
    """

    word: str
    label: Any
    permission: str
    permission_for_all: str
    states: tuple[str, ...]
    run: Callable[[Queue, list[str]], list[Verdict]]


def _promote(queue: Queue, ids: list[str]) -> list[Verdict]:
    return queue.jobs.promote_many(ids)


VERBS = {
    verb.word: verb
    for verb in (
        Verb(
            "retry",
            gettext_lazy("Retry"),
            OPERATE,
            OPERATE,
            ("dead", "completed"),
            lambda queue, ids: queue.jobs.reprocess_many(ids),
        ),
        Verb("promote", gettext_lazy("Run now"), OPERATE, OPERATE, ("scheduled",), _promote),
        Verb(
            "cancel",
            gettext_lazy("Cancel"),
            OPERATE,
            OPERATE,
            ("pending", "scheduled", "active"),
            lambda queue, ids: queue.jobs.cancel_many(ids, "cancelled in the console"),
        ),
        Verb(
            "remove",
            gettext_lazy("Remove"),
            EDIT,
            DESTROY,
            ("pending", "scheduled", "dead", "completed"),
            lambda queue, ids: queue.jobs.remove_many(ids),
        ),
    )
}


@looks
def index(request: HttpRequest, name: str) -> HttpResponse:
    """Jobs of one state, a page at a time."""
    queue = queue_named(name)
    try:
        meant = search.Filter.read(request.GET)
    except ValueError as error:
        raise Http404(str(error)) from error
    if is_id(meant.text):
        # An id is looked up, wherever the job stands.
        return HttpResponseRedirect(url("job", name, meant.text))
    offset = _number(request.GET.get("from"))
    size = read_settings().console.page_size
    found = search.look(queue, meant, offset, size)
    lanes = queue.lanes.all() if meant.state == "pending" else []
    lanes.sort(key=lambda lane: (-lane.depth, lane.name))
    return page(
        request,
        "jobs",
        name,
        queue=queue,
        tab=meant.state,
        meant=meant,
        found=found,
        rows=[(listed, shown_call(listed.job)) for listed in found.jobs],
        lanes=lanes[:_LANES],
        lanes_left_out=max(0, len(lanes) - _LANES),
        flat=queue.jobs.size("pending") if lanes else 0,
        offset=offset,
        newer=max(0, offset - size) if offset and not meant.narrows else None,
        verbs=[
            verb
            for verb in VERBS.values()
            if meant.state in verb.states and request.user.has_perm(verb.permission)
        ],
        ages=(
            ("", _("Any age")),
            ("5m", _("over 5 minutes")),
            ("1h", _("over an hour")),
            ("1d", _("over a day")),
            ("7d", _("over a week")),
        ),
    )


def _number(text: str | None) -> int:
    try:
        return min(max(0, int(text or 0)), 10**9)
    except ValueError:
        return 0


@acts(VIEW)
def act_on_many(request: HttpRequest, name: str) -> HttpResponse | None:
    """An act on the selected jobs, or on all that match."""
    verb = VERBS.get(request.POST.get("action", ""))
    if verb is None:
        raise ValueError(_("Choose an action."))
    across = request.POST.get("select_across") == "1"
    demand(request, verb.permission_for_all if across else verb.permission)
    queue = queue_named(name)
    meant = search.Filter.read(request.POST)
    ids = [check(job_id) for job_id in request.POST.getlist("_selected_action")]
    if not across and not ids:
        raise ValueError(_("Select at least one job."))
    asks = across or verb.word in ("remove", "cancel")
    if asks and request.POST.get("confirmed") != "yes":
        narrowed = across and meant.narrows
        matching = search.look(queue, meant, 0, search.LOOK) if narrowed else None
        return page(
            request,
            "confirm_jobs",
            verb.label,
            verb=verb,
            queue=queue,
            meant=meant,
            ids=ids,
            across=across,
            many=queue.jobs.size(meant.state, meant.lane) if across else len(ids),
            matching=matching and len(matching.jobs),
            more=matching and matching.next_offset is not None,
            next=back(request, name),
            tab=meant.state,
        )
    if across:

        def run(queue: Queue, ids: list[str]) -> int:
            return _done(verb.run(queue, ids))

        many = queue.jobs.size(meant.state, meant.lane)
        what = f"{verb.word} of {many} jobs all that match: {meant.query()}"
        operation = operations.start(
            name,
            f"{verb.label}: {meant.query()}",
            request.user.get_username(),
            search.act_on_all(meant, run),
        )
        activity.note(request, name, what, verb.permission_for_all == DESTROY)
        return HttpResponseRedirect(url("operation", name, operation.id))
    done = _done(verb.run(queue, ids))
    activity.note(request, name, f"{verb.word}: {done} jobs: {' '.join(ids[:20])}")
    if done:
        messages.success(
            request,
            ngettext("%(verb)s: %(n)d job", "%(verb)s: %(n)d jobs", done)
            % {"verb": verb.label, "n": done},
        )
    if done < len(ids):
        messages.warning(
            request,
            ngettext(
                "%(n)d job was refused: it is gone, or in another state by now.",
                "%(n)d jobs were refused: they are gone, or in another state by now.",
                len(ids) - done,
            )
            % {"n": len(ids) - done},
        )
    return None


def _done(verdicts: list[Verdict]) -> int:
    return sum(verdict in (Verdict.DONE, Verdict.ASKED) for verdict in verdicts)


@looks
def failures(request: HttpRequest, name: str) -> HttpResponse:
    """Dead jobs by task and error."""
    queue = queue_named(name)
    rows, looked, more = search.failures(queue)
    return page(
        request, "failures", name, queue=queue, rows=rows, looked=looked, more=more, tab="failures"
    )


@looks
def one(request: HttpRequest, name: str, job_id: str) -> HttpResponse:
    """Everything known of a job."""
    queue = queue_named(name)
    try:
        job = queue.jobs.get(job_id)
    except (JobGone, InvalidId) as error:
        return page(
            request, "gone", _("No such job"), status=404, queue=queue, error=str(error), tab=""
        )
    try:
        logs, lines = queue.jobs.tail(job_id, _LOG_LINES)
    except JobGone:
        logs, lines = [], 0
    due = None
    if job.state == "scheduled":
        part = queue.part_of(job_id)
        score = part.drive(part.client.command("ZSCORE", part.keys.schedule, job_id))
        due = None if score is None else due_at(float(score))
    call = shown_call(job)
    args, kwargs = editable(call.args), editable(call.kwargs)
    changeable = job.state in ("pending", "scheduled", "dead") and not call.problem
    return page(
        request,
        "job",
        job_id,
        queue=queue,
        job=replace(job, history=job.history[-_ATTEMPTS:]),
        due=due,
        call=call,
        pretty=laid_out(call.as_json()),
        raw=shown_bytes(job.payload) if call.problem else "",
        result=None if job.result is None else shown_bytes(job.result),
        logs=logs,
        logs_left_out=max(0, lines - len(logs)),
        args=args,
        kwargs=kwargs,
        editable=changeable and args is not None and kwargs is not None,
        tab="",
        can={
            "retry": job.state in ("dead", "cancelled"),
            "promote": job.state == "scheduled",
            "reschedule": job.state in ("scheduled", "pending"),
            "cancel": job.state in ("pending", "scheduled", "active"),
            "move": job.state in ("pending", "active"),
            "remove": job.state != "active",
        },
    )


@acts(VIEW)
def act(request: HttpRequest, name: str, job_id: str) -> HttpResponse | None:
    """An act on one job."""
    queue, word = queue_named(name), request.POST.get("action", "")
    jobs = queue.jobs
    home = HttpResponseRedirect(url("job", name, job_id))
    if word == "retry":
        demand(request, OPERATE)
        jobs.reprocess(job_id)
    elif word == "promote":
        demand(request, OPERATE)
        jobs.promote_now(job_id)
    elif word == "cancel":
        demand(request, OPERATE)
        jobs.cancel(job_id, request.POST.get("reason", "").strip()[:500] or "cancelled")
    elif word == "reschedule":
        demand(request, EDIT)
        when = parse_datetime(request.POST.get("when", ""))
        if when is None:
            raise ValueError(_("Give a date and a time."))
        if is_naive(when):
            when = when.replace(tzinfo=get_current_timezone())
        jobs.reschedule(job_id, when)
    elif word == "move":
        demand(request, EDIT)
        queue.lanes.reassign(job_id, request.POST.get("lane", "").strip() or None)
    elif word == "remove":
        demand(request, EDIT)
        if request.POST.get("confirmed") != "yes":
            return page(
                request,
                "confirm_remove",
                _("Remove"),
                queue=queue,
                job_id=job_id,
                next=back(request, name),
                tab="",
            )
        jobs.remove(job_id)
        home = HttpResponseRedirect(url("queue", name))
    else:
        raise ValueError(_("Choose an action."))
    activity.note(request, name, f"{word} {job_id}", word == "remove")
    messages.success(request, _("%(word)s: done.") % {"word": word})
    return home


@acts(EDIT)
def edit(request: HttpRequest, name: str, job_id: str) -> HttpResponse | None:
    """Changes a job's arguments. What is masked and was not changed stays as it is."""
    queue = queue_named(name)
    job = queue.jobs.get(job_id)
    try:
        call = Envelope.decode(job.payload)
        args = json.loads(request.POST.get("args", ""))
        kwargs = json.loads(request.POST.get("kwargs", ""))
    except (BadPayload, ValueError, RecursionError) as error:
        raise ValueError(_("This is not JSON: %(error)s") % {"error": error}) from error
    if not isinstance(args, list) or not isinstance(kwargs, dict):
        raise ValueError(_("The positional arguments are a list, the others an object."))
    # Whatever else the payload says stays as it is.
    changed = {
        **json.loads(job.payload),
        "args": to_json(unmasked(args, call.args)),
        "kwargs": to_json(unmasked(kwargs, call.kwargs)),
    }
    queue.jobs.update_data(job_id, dumps(changed))
    activity.note(request, name, f"edit {job_id}")
    messages.success(request, _("The arguments were changed; the next attempt gets them."))
    return HttpResponseRedirect(url("job", name, job_id))
