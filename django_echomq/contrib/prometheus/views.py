"""The page that Prometheus scrapes."""

from __future__ import annotations

import hmac

from django.http import HttpRequest, HttpResponse
from django.views.decorators.cache import never_cache
from django.views.decorators.http import require_safe
from prometheus_client import CollectorRegistry
from prometheus_client.exposition import choose_encoder

from ...conf import read_settings
from .collector import EchoMQCollector

_registry = CollectorRegistry()
_registry.register(EchoMQCollector())


@never_cache
@require_safe
def metrics(request: HttpRequest) -> HttpResponse:
    """The metrics of all queues, and of nothing else.

    For those who send ``ECHOMQ["PROMETHEUS"]["TOKEN"]`` as a bearer token, for users who may view
    queues, and with ``"PUBLIC": True`` for everybody.
    """
    refused = _refusal(request)
    if refused:
        return refused
    encode, content_type = choose_encoder(request.headers.get("Accept", ""))
    return HttpResponse(encode(_registry), content_type=content_type)


def _same(sent: str, token: str | None) -> bool:
    return token is not None and hmac.compare_digest(sent.encode(), token.encode())


def _refusal(request: HttpRequest) -> HttpResponse | None:
    settings = read_settings().prometheus
    if settings.public:
        return None
    scheme, _, sent = request.headers.get("Authorization", "").partition(" ")
    if scheme.lower() == "bearer" and _same(sent.strip(), settings.token):
        return None
    user = getattr(request, "user", None)
    if user is not None and user.has_perm("django_echomq.view_queue"):
        return None
    if user is not None and user.is_authenticated:
        return HttpResponse("You may not view queues.\n", status=403, content_type="text/plain")
    return HttpResponse(
        "Send the token of ECHOMQ['PROMETHEUS'], or log in.\n",
        status=401,
        headers={"WWW-Authenticate": 'Bearer realm="EchoMQ"'},
        content_type="text/plain",
    )
