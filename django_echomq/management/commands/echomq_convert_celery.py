"""``manage.py echomq_convert_celery``: prints Celery's settings as those of EchoMQ."""

from __future__ import annotations

from typing import Any

from django.conf import settings
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils.module_loading import import_string

from ...contrib.celery.convert import convert


class Command(BaseCommand):
    help = (
        "Prints ECHOMQ and TASKS for the settings and the beat schedule of Celery, and in comments "
        "what could not be converted. Changes nothing."
    )
    # The settings that the other checks ask for are about to be written.
    requires_system_checks: list[str] = []

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument(
            "--namespace", default="CELERY", help="how the names of the settings begin (CELERY)"
        )
        parser.add_argument(
            "--app",
            metavar="MODULE.NAME",
            help="read what this Celery app says, instead of the settings; Celery is imported",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        if options["app"]:
            try:
                app = import_string(options["app"])
            except ImportError as error:
                raise CommandError(f"--app {options['app']}: {error}") from error
            said = app.conf.table(with_defaults=False)
            given = {name.upper(): value for name, value in said.items()}
        else:
            prefix = f"{options['namespace']}_" if options["namespace"] else ""
            given = {
                name.removeprefix(prefix): getattr(settings, name)
                for name in dir(settings)
                if prefix and name.startswith(prefix)
            }
        if not given:
            raise CommandError(
                f"The settings have no {options['namespace']}_...: name the --namespace or the "
                "--app."
            )
        self.stdout.write(convert(given).source())
