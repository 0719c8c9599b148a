"""``path("metrics/", include("django_echomq.contrib.prometheus.urls"))``."""

from __future__ import annotations

from django.urls import path

from .views import metrics

urlpatterns = [path("", metrics, name="echomq_metrics")]
