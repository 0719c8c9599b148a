"""The switch for ``INSTALLED_APPS``."""

from __future__ import annotations

from django.apps import AppConfig


class OpenTelemetryConfig(AppConfig):
    """Traces jobs with the tracer provider of the process."""

    name = "django_echomq.contrib.opentelemetry"
    label = "echomq_opentelemetry"
    verbose_name = "EchoMQ traces"

    def ready(self) -> None:
        from .tracing import instrument

        instrument()
