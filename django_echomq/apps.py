"""The Django app."""

from __future__ import annotations

from typing import Any

from django.apps import AppConfig
from django.core.signals import setting_changed


class EchoMQConfig(AppConfig):
    """EchoMQ in ``INSTALLED_APPS``. It has no models."""

    name = "django_echomq"
    verbose_name = "EchoMQ"

    def ready(self) -> None:
        from . import checks  # noqa: F401 - registers the checks

        setting_changed.connect(_settings_changed, dispatch_uid="django_echomq")


def _settings_changed(*, setting: str, **kwargs: Any) -> None:
    if setting in {"ECHOMQ", "CACHES", "DEBUG", "BASE_DIR"}:
        from .queues import forget_queues

        forget_queues()
