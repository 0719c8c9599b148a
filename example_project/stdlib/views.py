import platform

from django.conf import settings
from django.shortcuts import render
from django.views.decorators.cache import never_cache

from django_echomq import get_queue
from django_echomq.wire.errors import EchoMQError, JobGone

from .models import TOTALS, Attempt, SourceFile


@never_cache
def overview(request):
    """The page."""
    return render(request, "stdlib/overview.html", _figures())


@never_cache
def live(request):
    """The part of the page that changes, for ``refresh.js``."""
    return render(request, "stdlib/live.html", _figures())


def _figures():
    totals = SourceFile.objects.aggregate(**TOTALS)
    attempts = list(Attempt.objects.all())
    figures = {
        "python": platform.python_version(),
        "totals": totals,
        "busy": totals["analysed"] < totals["files"],
        "unparsable": SourceFile.objects.unparsable(),
        "most_complex": SourceFile.objects.filter(functions__gt=0).order_by(
            "-most_complex_value", "path"
        )[:10],
        "attempts": attempts,
    }
    try:
        figures["queues"] = {
            name: get_queue(name).metrics.counts() for name in settings.ECHOMQ["QUEUES"]
        }
        for attempt in attempts:
            if attempt.outcome == Attempt.Outcome.RUNNING:
                attempt.progress = _progress(attempt)
    except EchoMQError as error:
        # The figures above are in the database and stand without the queue server.
        figures["away"] = error
    else:
        figures["busy"] |= any(
            counts["pending"] + counts["active"] + counts["scheduled"]
            for counts in figures["queues"].values()
        )
    return figures


def _progress(attempt):
    """How far the job says it is, in percent; ``None`` if it has not said."""
    try:
        return get_queue("reports").jobs.get(attempt.job_id).progress
    except JobGone:
        return None
