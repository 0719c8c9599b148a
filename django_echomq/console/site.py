"""The console's place in the admin site: its URLs, and what every page shares."""

from __future__ import annotations

import logging
from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING, Any

from django.contrib import admin, messages
from django.http import HttpRequest, HttpResponse, HttpResponseRedirect
from django.template.response import TemplateResponse
from django.urls import URLPattern, path, reverse
from django.utils.http import url_has_allowed_host_and_scheme
from django.utils.translation import gettext as _
from django.views.decorators.http import require_POST, require_safe
from redis.exceptions import RedisError

from ..conf import read_settings
from ..models import Queue
from ..wire.client import LOST
from ..wire.errors import EchoMQError, ServerUnavailable, VersionFence
from .rights import VIEW, Rights, demand

logger = logging.getLogger("django_echomq.console")

if TYPE_CHECKING:
    _Base = admin.ModelAdmin[Queue]
else:
    _Base = admin.ModelAdmin  # not generic at run time

View = Callable[..., HttpResponse]
Act = Callable[..., HttpResponse | None]
TEMPLATES = "admin/django_echomq/queue"
_MESSAGE = 500  # characters; it may repeat what was sent


class QueueAdmin(_Base):
    """Registers the console. A project with an admin site of its own registers it there::

    my_site.register(django_echomq.models.Queue, django_echomq.console.site.QueueAdmin)
    """

    def has_module_permission(self, request: HttpRequest) -> bool:
        return request.user.has_perm(VIEW)

    def has_view_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return request.user.has_perm(VIEW)

    def has_add_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_change_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def has_delete_permission(self, request: HttpRequest, obj: Any = None) -> bool:
        return False

    def get_urls(self) -> list[URLPattern]:
        # Here, as these modules use this one.
        from . import jobs, lanes, log, queues, schedules, workers

        queue, job = "q/<str:name>/", "q/<str:name>/job/<str:job_id>/"
        pages: list[tuple[str, View, str]] = [
            ("", queues.index, "changelist"),
            ("act/", queues.act_on_selected, "act_on_selected"),
            ("status.json", queues.status, "status"),
            ("schedules/", schedules.index, "schedules"),
            ("workers/", workers.index, "workers"),
            ("workers/act/", workers.act, "act_on_worker"),
            ("activity/", log.index, "activity"),
            (queue, queues.one, "queue"),
            (queue + "act/", queues.act, "act"),
            (queue + "operation/<str:operation_id>/", queues.operation, "operation"),
            (queue + "jobs/", jobs.index, "jobs"),
            (queue + "jobs/act/", jobs.act_on_many, "act_on_jobs"),
            (queue + "failures/", jobs.failures, "failures"),
            (queue + "lanes/", lanes.index, "lanes"),
            (queue + "lanes/act/", lanes.act, "act_on_lane"),
            (queue + "schedules/act/", schedules.act, "act_on_schedule"),
            (job, jobs.one, "job"),
            (job + "act/", jobs.act, "act_on_job"),
            (job + "edit/", jobs.edit, "edit_job"),
        ]
        return [
            path(route, self._served(view), name=f"django_echomq_queue_{name}")
            for route, view, name in pages
        ]

    def _served(self, view: View) -> View:
        @wraps(view)
        def served(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            request.current_app = self.admin_site.name
            request.echomq_site = self.admin_site  # type: ignore[attr-defined]
            demand(request, VIEW)
            try:
                return view(request, *args, **kwargs)
            except (*LOST, ServerUnavailable, VersionFence) as error:
                return _away(request, _("The server does not answer."), error)
            except RedisError as error:
                # A key of another type under a name of the queue's, a full or a loading server.
                return _away(request, _("The server refuses, or holds foreign keys."), error)

        return self.admin_site.admin_view(served)


def looks(view: View) -> View:
    """A page: GET only, and it changes nothing."""
    return require_safe(view)


def acts(permission: str) -> Callable[[Act], View]:
    """An act: POST only, with the permission. What the queue refuses is told on the page that the
    user came from.

    The view answers a response, or ``None`` to go back there.
    """

    def decorate(view: Act) -> View:
        @require_POST
        @wraps(view)
        def act(request: HttpRequest, *args: Any, **kwargs: Any) -> HttpResponse:
            demand(request, permission)
            try:
                answer = view(request, *args, **kwargs)
            except (ServerUnavailable, VersionFence):
                raise
            except (EchoMQError, ValueError, LookupError) as error:
                messages.error(request, str(error)[:_MESSAGE])
                answer = None
            return answer or HttpResponseRedirect(back(request, kwargs.get("name")))

        return act

    return decorate


def url(name: str, *args: str) -> str:
    """The address of a page of the console."""
    return reverse(f"admin:django_echomq_queue_{name}", args=args)


def back(request: HttpRequest, name: str | None = None) -> str:
    """Where a form says that the user came from, where that is on this site."""
    target = request.POST.get("next", "")
    if url_has_allowed_host_and_scheme(
        target, allowed_hosts={request.get_host()}, require_https=request.is_secure()
    ):
        return target
    return url("queue", name) if name else url("changelist")


def page(
    request: HttpRequest, template: str, title: Any, status: int = 200, **context: Any
) -> HttpResponse:
    """A page in the admin's look."""
    site = request.echomq_site  # type: ignore[attr-defined]
    queue = context.get("queue")
    if queue is not None and "counts" not in context:
        context["counts"] = queue.metrics.counts()  # the tabs show them
    return TemplateResponse(
        request,
        f"{TEMPLATES}/{template}.html",
        {
            **site.each_context(request),
            "title": title,
            "opts": Queue._meta,
            "rights": Rights.of(request.user),
            "refresh": read_settings().console.refresh,
            **context,
        },
        status=status,
    )


def _away(request: HttpRequest, what: str, error: Exception) -> HttpResponse:
    said = str(error)[:_MESSAGE]
    if request.method == "POST":
        messages.error(request, _("Not known to be done: %(error)s") % {"error": said})
        return HttpResponseRedirect(back(request))
    return page(request, "away", _("No answer from the server"), status=503, what=what, error=said)
