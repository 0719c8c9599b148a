"""``manage.py echomq``: looks at queues and operates them.

Exit codes: 0 done; 1 refused, or what was asked about is not well; 2 wrong arguments.
"""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...wire.errors import EchoMQError
from ..verbs.cli import Cli
from ..verbs.conformance import Conformance
from ..verbs.figures import Figures
from ..verbs.jobs import Jobs
from ..verbs.lanes import Lanes
from ..verbs.queues import Queues
from ..verbs.schedules import Schedules
from ..verbs.workers import Workers


class Command(BaseCommand):
    help = "Looks at queues, jobs and workers, and operates them."

    def add_arguments(self, parser: CommandParser) -> None:
        verbs = parser.add_subparsers(dest="verb", metavar="VERB", required=True)
        self._cli = Cli(verbs)
        for scope in (Queues, Jobs, Lanes, Schedules, Workers, Figures, Conformance):
            scope(self._cli)

    def handle(self, *args: Any, **options: Any) -> None:
        yes = options.get("yes", False)
        self._cli.start(self.stdout, self.stderr, json=options["json"], yes=yes)
        try:
            options["run"](**options)
        except EchoMQError as error:
            raise CommandError(str(error)) from error
