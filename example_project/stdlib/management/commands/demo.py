"""``manage.py demo``: the whole example at one command."""

import platform
import signal
import socket
import subprocess
import sys
import time
from contextlib import ExitStack, contextmanager
from datetime import timedelta

from django.conf import settings
from django.contrib.auth import get_user_model
from django.core.management import call_command
from django.core.management.base import BaseCommand, CommandError
from django.utils import timezone

from django_echomq import get_queue
from django_echomq.wire.errors import EchoMQError

from ... import tasks
from ...analysis import module_name, source_paths
from ...models import Attempt, SourceFile

TIMEOUT = 600  # seconds for all jobs together
GRACE = 30  # seconds for a child process to stop; a worker gives the jobs in hand 25
LOG = settings.DATA_DIR / "demo.log"

#: How the job of each of these tasks must end: its state and the number of attempts.
ENDS = {
    "long_report": ("completed", 1),
    "flaky": ("completed", 3),
    "broken": ("dead", 3),
    "delayed": ("completed", 1),
}


class Command(BaseCommand):
    help = (
        "Analyses every file of Python's standard library, one job each, with a worker of its "
        "own, and checks the result. Serves the page that shows it, until Ctrl-C."
    )

    def add_arguments(self, parser):
        parser.add_argument("--threads", type=int, default=4, help="threads of the worker (4)")
        parser.add_argument("--limit", type=int, help="take only so many of the files")
        parser.add_argument("--port", type=int, default=8000, help="where the page is (8000)")
        parser.add_argument(
            "--exit", action="store_true", help="do not serve the page; end after the summary"
        )

    def handle(self, *, threads, limit, port, **options):
        if limit is not None and limit < 1:
            raise CommandError("--limit must be 1 or more.")
        serve = not options["exit"]
        if serve and in_use(port):
            raise CommandError(f"Port {port} is in use: choose another with --port.")
        # SIGTERM ends the demo as Ctrl-C does.
        signal.signal(signal.SIGTERM, signal.default_int_handler)
        try:
            call_command("migrate", verbosity=0)
            self.create_admin()
            with ExitStack() as stack:
                log = stack.enter_context(LOG.open("w"))
                self.children = {
                    "worker": stack.enter_context(
                        child(log, "echomq_worker", "--threads", str(threads), "--verbosity", "0")
                    )
                }
                if serve:
                    self.children["site"] = stack.enter_context(
                        child(log, "runserver", "--noreload", f"127.0.0.1:{port}")
                    )
                    self.wait_for_site(port)
                    self.stdout.write(f"Watch it at http://127.0.0.1:{port}/")
                self.run(limit, strict=options["exit"])
                self.stdout.write(f"\n  Log:   {LOG}")
                if serve:
                    self.keep_serving(port)
                else:
                    self.stdout.write("  To see the page, start manage.py runserver.")
        except KeyboardInterrupt:
            raise CommandError("Interrupted.", returncode=130) from None
        except EchoMQError as error:
            raise CommandError(str(error)) from error

    def run(self, limit, strict):
        if left := jobs_left():
            self.stdout.write(f"{left:,} jobs are left from an earlier demo; they go first.")
            self.wait(Progress(self.stdout, left))

        paths = choose(source_paths(), limit)
        Attempt.objects.all().delete()
        SourceFile.objects.all().delete()
        SourceFile.objects.bulk_create(
            SourceFile(path=path, module=module_name(path)) for path in paths
        )

        started = timezone.now()
        due = started + timedelta(seconds=5)
        results = {
            "long_report": tasks.long_report.enqueue(),
            "flaky": tasks.flaky.enqueue(),
            "broken": tasks.broken.enqueue(),
            "delayed": tasks.delayed.using(run_after=due).enqueue(due.isoformat()),
        }
        tasks.analyse_file.enqueue_many([((path,), {}) for path in paths])
        total = len(paths) + len(results)
        seconds = (timezone.now() - started).total_seconds()
        self.stdout.write(f"Enqueued {total:,} jobs in {seconds:.2f} s.")

        self.wait(Progress(self.stdout, total))
        seconds = (timezone.now() - started).total_seconds()

        summary = tasks.summarise.enqueue()
        self.wait()
        summary.refresh()
        reports = get_queue("reports")
        jobs = {name: reports.jobs.get(result.id) for name, result in results.items()}
        self.show_summary(
            summary.return_value,
            {
                "Jobs": f"{total:,} in {seconds:.1f} s, {total / seconds:.0f} a second",
                "Retries": Attempt.objects.filter(number__gt=1).count(),
                "Dead job": f"{jobs['broken'].id}, {jobs['broken'].last_error}",
            },
        )
        if complaints := list(find_complaints(jobs, due)):
            message = "\n  ".join(["The demo did not end as it should:", *complaints])
            if strict:
                raise CommandError(message)
            self.stderr.write(message)

    def wait(self, progress=None):
        """Waits until no job is left in any queue."""
        deadline = time.monotonic() + TIMEOUT
        while left := jobs_left():
            self.check_children()
            if time.monotonic() > deadline:
                raise CommandError(f"{left:,} jobs are not done after {TIMEOUT} s. See {LOG}")
            if progress:
                progress.show(left)
            time.sleep(0.2)
        if progress:
            progress.show(0)

    def wait_for_site(self, port):
        while not in_use(port):
            self.check_children()
            time.sleep(0.1)

    def check_children(self):
        for name, process in self.children.items():
            if process.poll() is not None:
                raise CommandError(f"The {name} ended by itself. See {LOG}")

    def show_summary(self, totals, more):
        rows = {
            "Files analysed": f"{totals['analysed']:,}",
            "Do not parse": f"{totals['unparsable']:,}",
            "Lines": f"{totals['lines']:,}",
            "Functions": f"{totals['functions']:,}",
            "Classes": f"{totals['classes']:,}",
            "Most complex": totals["most_complex"],
            **more,
        }
        self.stdout.write(f"\nThe standard library of Python {platform.python_version()}\n\n")
        for name, value in rows.items():
            self.stdout.write(f"  {name:<16}{value}")

    def keep_serving(self, port):
        self.stdout.write(f"  Page:  http://127.0.0.1:{port}/")
        self.stdout.write(f"  Admin: http://127.0.0.1:{port}/admin/")
        self.stdout.write("\nThe worker and the site go on. Stop them with Ctrl-C.")
        self.stdout.flush()
        try:
            while True:
                self.check_children()
                time.sleep(0.5)
        except KeyboardInterrupt:
            self.stdout.write("\nStopping.")

    def create_admin(self):
        users = get_user_model().objects
        if settings.DEBUG and not users.filter(is_superuser=True).exists():
            users.create_superuser("admin", password="admin")
            self.stdout.write("Created a superuser for you: name admin, password admin.")


class Progress:
    """A bar on a terminal; elsewhere a line for every tenth."""

    WIDTH = 30

    def __init__(self, out, total):
        self.out = out
        self.total = total
        self.tenth = 0

    def show(self, left):
        done = self.total - left
        text = f"{done:,} of {self.total:,} jobs done"
        if self.out.isatty():
            filled = self.WIDTH * done // self.total
            bar = "#" * filled + "-" * (self.WIDTH - filled)
            self.out.write(f"\r[{bar}] {text}", ending="" if left else "\n")
        elif (tenth := 10 * done // self.total) > self.tenth:
            self.tenth = tenth
            self.out.write(f"{10 * tenth} %: {text}")
        self.out.flush()


@contextmanager
def child(log, *arguments):
    """Another command of this site, as a process that ends with the block."""
    process = subprocess.Popen(
        [sys.executable, settings.BASE_DIR / "manage.py", *arguments],
        stdin=subprocess.DEVNULL,
        stdout=log,
        stderr=log,
        # Ctrl-C reaches the demo alone, which then stops its children in order.
        process_group=0,
    )
    try:
        yield process
    finally:
        process.terminate()
        try:
            process.wait(GRACE)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()


def in_use(port):
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def jobs_left():
    """How many jobs have not come to an end, over all queues."""
    return sum(
        sum(get_queue(name).metrics.counts("pending", "active", "scheduled").values())
        for name in settings.ECHOMQ["QUEUES"]
    )


def choose(paths, limit):
    """Some of the paths: the files that are named as bad ones, and an even spread of the rest."""
    if limit is None or limit >= len(paths):
        return paths
    bad = [path for path in paths if "/bad" in path][:limit]
    good = [path for path in paths if "/bad" not in path]
    count = limit - len(bad)
    return bad + [good[n * len(good) // count] for n in range(count)]


def find_complaints(jobs, due):
    """What did not go as it should, a sentence each."""
    if missing := SourceFile.objects.filter(runs=0).count():
        yield f"{missing:,} files were not analysed."
    if twice := SourceFile.objects.filter(runs__gt=1).count():
        yield f"{twice:,} files were analysed more than once."
    for name, job in jobs.items():
        if (job.state, job.attempt) != ENDS[name]:
            yield f"The job of {name} is {job.state} after {job.attempt} attempts."
    if jobs["delayed"].started_at < due:
        yield "The delayed job began before it was due."
