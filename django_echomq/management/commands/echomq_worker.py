"""``manage.py echomq_worker``: claims jobs and runs them."""

from __future__ import annotations

import logging
import os
import re
import secrets
import socket
import sys
from typing import Any

from django.core.management.base import BaseCommand, CommandError, CommandParser

from ...tasks.registry import autodiscover, registered
from ...tasks.runner import Runner
from ...tasks.schedules import reconcile_schedules
from ...wire.errors import EchoMQError
from ...worker import Stopped, Worker
from ._serving import chosen_queues, on_stop_signal, positive

#: EX_TEMPFAIL of sysexits.h: stopped with jobs in hand, which were given back.
GAVE_BACK = 75


class Command(BaseCommand):
    help = (
        "Claims jobs of the named queues (all of ECHOMQ['QUEUES'] unless named) and runs them. "
        "SIGTERM or Ctrl-C finishes the jobs in hand; a second one gives them back and ends at "
        "once."
    )

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("queues", nargs="*", metavar="QUEUE", help="queue to serve")
        parser.add_argument(
            "--threads", type=positive(int), default=8, help="handlers that run at once (8)"
        )
        parser.add_argument(
            "--grace",
            type=positive(float),
            default=25.0,
            metavar="SECONDS",
            help="time that jobs in hand get to finish on a stop (25)",
        )
        parser.add_argument("--name", help="unique name of this worker (host, pid and four digits)")
        parser.add_argument(
            "--burst",
            action="store_true",
            help="end when nothing is left to claim; jobs scheduled for later are left, retries "
            "of this run are waited for",
        )
        parser.add_argument(
            "--max-jobs", type=positive(int), metavar="N", help="end after N jobs were claimed"
        )
        parser.add_argument(
            "--no-promoter",
            action="store_true",
            help="leave promoting and recovering to echomq_promoter and other workers",
        )

    def handle(self, *args: Any, **options: Any) -> None:
        name = options["name"] or (f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}")
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,128}", name, re.ASCII):
            raise CommandError(f"--name {name!r}: use 1 to 128 letters, digits, '.', '_' or '-'.")
        queues = chosen_queues(options["queues"])
        autodiscover()
        worker = Worker(
            queues,
            Runner(name),
            name=name,
            threads=options["threads"],
            grace=options["grace"],
            burst=options["burst"],
            max_jobs=options["max_jobs"],
            promoter=not options["no_promoter"],
            prepare=lambda: reconcile_schedules(queues),
        )
        on_stop_signal(
            worker.stop,
            f"Stopping: jobs in hand get {options['grace']:g} s to finish; signal again to give "
            "them back at once\n",
        )
        if options["verbosity"] > 0:
            self.stdout.write(f"Worker {name}: {options['threads']} threads")
            for queue in queues:
                self.stdout.write(f"  queue {queue.name} at {queue.client.endpoint.label}")
            self.stdout.write(f"  {len(registered())} tasks")
            self.stdout.write("Stop with Ctrl-C or SIGTERM; jobs in hand will finish.")
            self.stdout.flush()
        try:
            end = worker.run()
        except EchoMQError as error:
            raise CommandError(str(error)) from error
        if options["verbosity"] > 0:
            self.stdout.write(f"Worker {name} stopped after {worker.claimed} jobs")
        if end is Stopped.GAVE_BACK:
            # Handlers still run on threads that cannot be ended in any other way.
            self.stdout.flush()
            sys.stderr.flush()
            logging.shutdown()
            os._exit(GAVE_BACK)
