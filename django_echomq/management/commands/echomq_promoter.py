"""``manage.py echomq_promoter``: promotes what is due, recovers what lapsed, trims what ended."""

from __future__ import annotations

from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...tasks.signals import tell_stalled
from ...wire.errors import EchoMQError
from ...worker import Promoter
from ._serving import apply_settings, chosen_queues, on_stop_signal, positive


class Command(BaseCommand):
    help = (
        "Promotes due jobs, fires schedules, recovers jobs whose lease lapsed and trims what has "
        "ended, on a beat, for the named queues (all of ECHOMQ['QUEUES'] unless named). Workers do "
        "the same beside their jobs; any number may run at once."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("queues", nargs="*", metavar="QUEUE", help="queue to serve")
        parser.add_argument(
            "--tick", type=positive(float), default=1.0, metavar="SECONDS", help="beat (1)"
        )
        parser.add_argument(
            "--batch",
            type=positive(int),
            default=100,
            metavar="N",
            help="at most so many jobs of each kind per script call (100)",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        queues = chosen_queues(options["queues"])
        promoter = Promoter(
            queues,
            options["tick"],
            options["batch"],
            prepare=lambda: apply_settings(queues),
            stalled=tell_stalled,
        )
        on_stop_signal(promoter.stop)
        if options["verbosity"] > 0:
            self.stdout.write(
                f"Promoter: {', '.join(queue.name for queue in queues)}, every {options['tick']} s"
            )
            self.stdout.write("Stop with Ctrl-C or SIGTERM.")
            self.stdout.flush()
        try:
            promoter.run()
        except EchoMQError as error:
            raise CommandError(str(error)) from error
