"""``manage.py echomq_worker``: claims jobs and runs them.

Exit codes:

* 0: it finished, by a stop, ``--burst``, ``--max-jobs`` or ``--max-memory``.
* 1: it could not start or go on; the message says why.
* 2: wrong arguments.
* 75: it was stopped with jobs in hand, and gave them back.

With ``--processes`` or ``--reload`` the worst of the worker processes' codes, where 75 is better
than any other but 0; 128 + n for a process that signal n killed.
"""

from __future__ import annotations

import importlib
import json
import logging
import os
import re
import secrets
import signal
import socket
import sys
import sysconfig
import threading
import time
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any

from django.apps import apps
from django.core.management.base import BaseCommand, CommandError, CommandParser
from django.utils import autoreload

from ...logs import spare_unseen
from ...queue import Queue
from ...tasks.registry import autodiscover, registered
from ...tasks.runner import Runner
from ...wire.client import LOST
from ...wire.errors import EchoMQError
from ...worker import Stopped, Worker
from ...worker.supervisor import (
    GAVE_BACK,
    Ending,
    Supervised,
    Supervisor,
    keep_within_limits,
    own_command_line,
)
from ._serving import apply_settings, chosen_queues, on_stop_signal, positive

logger = logging.getLogger("django_echomq.worker")

_EPILOG = (
    "Signals: TERM and INT finish, a second one or QUIT gives back at once, USR1 and TSTP claim "
    "nothing more but stay, USR2 claims again. Exit codes: 0 finished; 1 could not start or go on; "
    f"2 wrong arguments; {GAVE_BACK} gave jobs back; with --processes or --reload the worst of the "
    "processes' codes, 128 + n for one that signal n killed."
)


class Command(BaseCommand):
    help = (
        "Claims jobs of the named queues (all of ECHOMQ['QUEUES'] unless named) and runs them. "
        "SIGTERM or Ctrl-C finishes the jobs in hand; a second one gives them back and ends at "
        "once."
    )
    _typed = False

    def create_parser(self, prog_name: str, subcommand: str, **kwargs: Any) -> CommandParser:
        return super().create_parser(prog_name, subcommand, epilog=_EPILOG, **kwargs)

    def add_arguments(self, parser: CommandParser) -> None:
        parser.add_argument("queues", nargs="*", metavar="QUEUE", help="queue to serve")
        parser.add_argument(
            "--threads",
            type=positive(int),
            default=8,
            metavar="N",
            help="handlers that run at once in each process (8)",
        )
        parser.add_argument(
            "--coroutines",
            type=positive(int),
            default=100,
            metavar="N",
            help="coroutine tasks that run at once in each process, beside the threads (100)",
        )
        parser.add_argument(
            "--processes",
            type=positive(int),
            default=1,
            metavar="N",
            help="worker processes (1); more than one run under a supervisor, which replaces "
            "those that end",
        )
        parser.add_argument(
            "--grace",
            type=positive(float),
            default=25.0,
            metavar="SECONDS",
            help="time that jobs in hand get to finish on a stop (25)",
        )
        parser.add_argument(
            "--name",
            help="unique name of this worker (host, pid and four digits); processes add a number",
        )
        parser.add_argument(
            "--burst",
            action="store_true",
            help="end when nothing is left to claim; jobs scheduled for later are left, retries "
            "of this run are waited for",
        )
        parser.add_argument(
            "--max-jobs",
            type=positive(int),
            metavar="N",
            help="end after N jobs were claimed; with --processes, replace a process after about "
            "as many",
        )
        parser.add_argument(
            "--max-memory",
            type=positive(int),
            metavar="MIB",
            help="end when so much memory is resident; with --processes, replace a process at "
            "about as much",
        )
        parser.add_argument(
            "--no-promoter",
            action="store_true",
            help="leave promoting and recovering to echomq_promoter and other workers",
        )
        parser.add_argument(
            "--isolate",
            action="store_true",
            help="call each task in a child process, which can be killed for its time limit, a "
            "cancel or (--max-memory) its memory without harm to the others; slower",
        )
        parser.add_argument(
            "--health-file",
            type=Path,
            metavar="PATH",
            help="write the time of each beat there, for echomq ping --health-file",
        )
        parser.add_argument(
            "--reload",
            action="store_true",
            help="for development: start anew when code has changed, after the jobs in hand",
        )

    def run_from_argv(self, argv: list[str]) -> None:
        self._typed = True
        super().run_from_argv(argv)

    def handle(self, *args: Any, **options: Any) -> None:
        line = Supervised.from_environment()
        supervise = line is None and (options["processes"] > 1 or options["reload"])
        name = line.name if line else options["name"]
        name = name or f"{socket.gethostname()}-{os.getpid()}-{secrets.token_hex(2)}"
        # Processes that replace others while these still end have higher numbers.
        longest = f"{name}-{options['processes']}00" if supervise else name
        if not re.fullmatch(r"[A-Za-z0-9._-]{1,128}", longest, re.ASCII):
            raise CommandError(f"--name {name!r}: use 1 to 128 letters, digits, '.', '_' or '-'.")
        queues = chosen_queues(options["queues"])
        if supervise:
            self._supervise(name, queues, options)
        else:
            self._work(name, queues, options, line)

    # The supervisor

    def _supervise(self, name: str, queues: Sequence[Queue], options: dict[str, Any]) -> None:
        if not self._typed:
            raise CommandError(
                "--processes and --reload start the command line of this process again, which was "
                "not a call of this command: run it as one."
            )
        supervisor = Supervisor(
            own_command_line(),
            options["processes"],
            name=name,
            grace=options["grace"],
            burst=options["burst"],
        )
        _set_title(f"{name} supervisor", queues)
        on_stop_signal(supervisor.stop, _stopping(options["grace"]))
        _on_other_signals(supervisor.give_back, supervisor.quiet, supervisor.resume)
        self._say(
            options,
            f"Supervisor {name}: {options['processes']} processes of {options['threads']} threads",
            *(f"  queue {queue.name} at {queue.server}" for queue in queues),
            "Stop with Ctrl-C or SIGTERM; jobs in hand will finish.",
        )
        if options["reload"]:
            self._watch_code(supervisor, options)
        code = supervisor.run()
        self._say(options, f"Supervisor {name} stopped")
        if code:
            sys.exit(code)

    def _watch_code(self, supervisor: Supervisor, options: dict[str, Any]) -> None:
        """Restarts the workers when a file changes that Django's ``runserver`` would watch, or
        any other of the project's apps: a worker may have loaded more than the supervisor."""
        autodiscover()

        def changed(file_path: Path, **kwargs: Any) -> bool:
            self._say(options, f"{file_path} changed: starting anew")
            supervisor.restart()
            return True

        autoreload.file_changed.connect(changed, weak=False)
        reloader = autoreload.get_reloader()
        packages = Path(sysconfig.get_path("purelib"))
        for config in apps.get_app_configs():
            if packages not in Path(config.path).parents:
                reloader.watch_dir(config.path, "**/*.py")
        autoreload.autoreload_started.send(sender=reloader)

        def watch() -> None:
            while True:
                try:
                    return reloader.run_loop()
                except Exception:
                    # A folder that vanishes while it is looked through, for one.
                    logger.exception("Watching the code failed; watching on")

        threading.Thread(target=watch, name="echomq-reload", daemon=True).start()

    # The worker

    def _work(
        self,
        name: str,
        queues: Sequence[Queue],
        options: dict[str, Any],
        line: Supervised | None,
    ) -> None:
        autodiscover()
        if self._typed:
            spare_unseen("django.tasks")

        def prepare() -> None:
            try:
                apply_settings(queues)
            except (*LOST, EchoMQError):
                raise
            except Exception:
                logger.exception("The settings of the queues could not be applied")
            if line:
                line.ready()

        runner = Runner(
            name,
            isolate=options["isolate"],
            max_memory_mib=options["max_memory"] if options["isolate"] else None,
            coroutines=options["coroutines"],
        )
        worker = Worker(
            queues,
            runner,
            name=name,
            threads=options["threads"],
            grace=options["grace"],
            burst=options["burst"],
            max_jobs=options["max_jobs"],
            promoter=not options["no_promoter"],
            prepare=prepare,
            beat=_health_writer(options["health_file"], name),
            stalled=runner.stalled,
        )
        ending = Ending(worker.stop)
        _set_title(name, queues)
        on_stop_signal(ending.signalled, _stopping(options["grace"]))
        _on_other_signals(ending.give_back, worker.quiet, worker.resume)
        if line:
            line.listen(ending.finish, ending.give_back, worker.quiet, worker.resume)
            self._say(
                options,
                f"Worker {name}: {options['threads']} threads, {len(registered())} tasks, "
                f"process {os.getpid()}",
            )
        else:
            self._say(
                options,
                f"Worker {name}: {options['threads']} threads",
                *(f"  queue {queue.name} at {queue.server}" for queue in queues),
                f"  {len(registered())} tasks",
                "Stop with Ctrl-C or SIGTERM; jobs in hand will finish.",
            )
        max_jobs, max_memory = options["max_jobs"], options["max_memory"]
        if max_memory or (max_jobs and line):
            keep_within_limits(
                worker,
                ending,
                line,
                max_jobs=max_jobs,
                max_memory=max_memory and max_memory * 2**20,
            )
        try:
            end = worker.run()
        except EchoMQError as error:
            raise CommandError(str(error)) from error
        finally:
            runner.close()
        if line and worker.told_to_stop:
            line.leave()
        elif line and max_jobs and worker.claimed >= max_jobs:
            line.relieve()  # faster than the limit was looked at
        self._say(options, f"Worker {name} stopped after {worker.claimed} jobs")
        if end is Stopped.GAVE_BACK:
            # Handlers still run on threads that cannot be ended in any other way.
            sys.stderr.flush()
            logging.shutdown()
            os._exit(GAVE_BACK)

    def _say(self, options: dict[str, Any], *lines: str) -> None:
        if options["verbosity"] > 0:
            for text in lines:
                self.stdout.write(text)
            self.stdout.flush()


def _health_writer(path: Path | None, name: str) -> Callable[[], object] | None:
    """Writes the time of each beat; in one step, so that nobody reads half of it."""
    if path is None:
        return None
    new = path.with_name(f"{path.name}.{name}.new")

    def write() -> None:
        try:
            new.write_text(json.dumps({"worker": name, "at": time.time()}))
            new.replace(path)
        except OSError as error:
            logger.warning("The health file %s cannot be written: %s", path, error)

    return write


def _stopping(grace: float) -> str:
    return (
        f"Stopping: jobs in hand get {grace:g} s to finish; signal again to give them back at "
        "once\n"
    )


def _on_other_signals(
    give_back: Callable[[], object], quiet: Callable[[], object], resume: Callable[[], object]
) -> None:
    if threading.current_thread() is not threading.main_thread():
        return

    def be_quiet(number: int, frame: Any) -> None:
        quiet()
        # Ctrl-Z is one of them, and would seem to have done nothing.
        with suppress(OSError):
            os.write(1, b"Quiet: claims nothing more until SIGUSR2; stop with Ctrl-C or SIGTERM\n")

    signal.signal(signal.SIGQUIT, lambda *_: give_back())
    signal.signal(signal.SIGUSR1, be_quiet)
    signal.signal(signal.SIGUSR2, lambda *_: resume())
    signal.signal(signal.SIGTSTP, be_quiet)


def _set_title(name: str, queues: Sequence[Queue]) -> None:
    """Names the process in process lists, where the package ``setproctitle`` is installed."""
    with suppress(ImportError):
        title = f"echomq_worker: {name} ({', '.join(queue.name for queue in queues)})"
        importlib.import_module("setproctitle").setproctitle(title)
