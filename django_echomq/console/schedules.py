"""Schedules of all queues."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime

from django.contrib import messages
from django.http import HttpRequest, HttpResponse
from django.utils.translation import gettext as _
from django.utils.translation import ngettext

from ..queue import Queue
from ..queue.repeat import Schedule
from ..tasks.envelope import task_name
from . import activity
from .rights import DESTROY, OPERATE, VIEW, demand
from .servers import ask, queue_named, queues
from .site import acts, back, looks, page

_NEXT = 5


@dataclass(frozen=True, slots=True)
class ScheduleRow:
    """A schedule as the list shows it.

    Attributes:
        words: the cadence in words.
        runs: the next five runs.
    """

    queue: Queue
    schedule: Schedule
    task: str
    words: str
    runs: list[datetime]


def _row(queue: Queue, schedule: Schedule) -> ScheduleRow:
    definition, at = schedule.definition, schedule.next_run
    runs: list[datetime] = []
    while at is not None and len(runs) < _NEXT:
        runs.append(at)
        ms = round(at.timestamp() * 1000)
        try:
            following = definition.after(ms, ms)
            at = None if following is None else datetime.fromtimestamp(following / 1000, UTC)
        except (ValueError, OverflowError, OSError):  # the end of time
            at = None
    return ScheduleRow(queue, schedule, task_name(definition.payload), in_words(schedule), runs)


def in_words(schedule: Schedule) -> str:
    """A cadence in words."""
    definition = schedule.definition
    if definition.cron is not None:
        from cronsim import CronSim

        return CronSim(definition.cron, datetime.now(UTC)).explain()
    seconds = (definition.every_ms or 0) / 1000
    for unit, singular, plural in (
        (86_400, "every day", "every %(n)d days"),
        (3_600, "every hour", "every %(n)d hours"),
        (60, "every minute", "every %(n)d minutes"),
    ):
        if seconds >= unit and seconds % unit == 0:
            n = int(seconds // unit)
            return ngettext(singular, plural, n) % {"n": n}
    return _("every %(n)g seconds") % {"n": seconds}


@looks
def index(request: HttpRequest) -> HttpResponse:
    """Every schedule, with its next runs."""
    named = queues()
    only = request.GET.get("queue", "")
    if only:
        named = [queue_named(only)]
    answers = ask([(queue, queue.repeat.look()) for queue in named])
    rows = [
        _row(queue, schedule)
        for queue, answer in zip(named, answers, strict=True)
        if not isinstance(answer, Exception)
        for schedule in answer
    ]
    away = [q.name for q, a in zip(named, answers, strict=True) if isinstance(a, Exception)]
    return page(request, "schedules", _("Schedules"), rows=rows, away=away, only=only)


@acts(VIEW)
def act(request: HttpRequest, name: str) -> HttpResponse | None:
    """An act on one schedule."""
    queue, word = queue_named(name), request.POST.get("action", "")
    schedule = request.POST.get("schedule", "")
    demand(request, DESTROY if word == "cancel" else OPERATE)
    if queue.repeat.get(schedule) is None:
        raise LookupError(_("There is no schedule %(name)s.") % {"name": schedule[:128]})
    said = word
    if word == "pause":
        queue.repeat.pause(schedule)
    elif word == "resume":
        queue.repeat.resume(schedule)
    elif word == "run":
        said = f"run {queue.repeat.run_now(schedule).job_id}"
    elif word == "cancel":
        if request.POST.get("confirmed") != "yes":
            return page(
                request,
                "confirm_schedule",
                _("End schedule"),
                queue=queue,
                schedule=schedule,
                next=back(request),
            )
        queue.repeat.cancel(schedule)
    else:
        raise ValueError(_("Choose an action."))
    activity.note(request, name, f"schedule {schedule}: {said}", word == "cancel")
    messages.success(request, _("Schedule %(name)s: %(word)s") % {"name": schedule, "word": word})
    return None
