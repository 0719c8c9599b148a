"""The queues as metrics for Prometheus; needs the extra ``django-echomq[prometheus]``.

Either a page of their own, ``path("metrics/", include("django_echomq.contrib.prometheus.urls"))``,
or beside others: ``prometheus_client.REGISTRY.register(EchoMQCollector())``.
"""

from __future__ import annotations

from .collector import EchoMQCollector

__all__ = ["EchoMQCollector"]
