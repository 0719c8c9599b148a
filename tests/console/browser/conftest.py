"""A live site, an operator's browser, and queues with something of everything in them.

``ECHOMQ_TEST_BROWSER``
    1: Chromium and axe-core must be there. Otherwise tests that need what is missing are skipped.
``ECHOMQ_TEST_AXE``
    Path of ``axe.min.js`` of the npm package axe-core, where it is not in ``build/axe-core``.
"""

from __future__ import annotations

import os
import re
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest
from django.conf import settings as django_settings
from django.contrib.auth import get_user_model
from django.test import Client

from django_echomq.queue import Queue
from django_echomq.tasks.envelope import Envelope
from tests.conftest import ROOT, Command
from tests.testapp import tasks

try:
    from playwright import sync_api as playwright
except ImportError:
    playwright = None

CHROMIUM = shutil.which("chromium")
REQUIRED = os.environ.get("ECHOMQ_TEST_BROWSER") == "1"
AXE = ROOT / "build" / "axe-core" / "axe.min.js"
#: Where the pictures of every page go.
PICTURES = ROOT / "build" / "console"

WIDE, NARROW = {"width": 1280, "height": 900}, {"width": 390, "height": 844}


@pytest.fixture(scope="module")
def chromium() -> Iterator[Any]:
    """One browser for a module: while it is there an event loop runs on this thread, on which other
    tests may want one of their own."""
    missing = "playwright" if playwright is None else "" if CHROMIUM else "chromium"
    if missing:
        (pytest.fail if REQUIRED else pytest.skip)(f"{missing} is not installed")
    # Its event loop would make Django refuse the database on this thread.
    before = os.environ.get("DJANGO_ALLOW_ASYNC_UNSAFE")
    os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"] = "1"
    with playwright.sync_playwright() as program:
        browser = program.chromium.launch(
            timeout=120_000,
            executable_path=CHROMIUM,
            args=["--disable-gpu", "--disable-dev-shm-usage"]
            + (["--no-sandbox"] if os.geteuid() == 0 else []),
        )
        yield browser
        browser.close()
    if before is None:
        del os.environ["DJANGO_ALLOW_ASYNC_UNSAFE"]


@dataclass
class Window:
    """A page of the browser, and what went wrong in it.

    Attributes:
        expected: a pattern of messages that a test provokes.
    """

    page: Any
    base: str
    problems: list[str] = field(default_factory=list)
    expected: str = ""

    def __getattr__(self, name: str) -> Any:
        return getattr(self.page, name)

    def open(self, path: str = "") -> Any:
        """Opens a page of the console."""
        return self.page.goto(f"{self.base}/admin/django_echomq/queue/{path}")

    def go(self, what: Any) -> None:
        """Clicks what leads to another page, and waits for that page."""
        with self.page.expect_navigation():
            (self.page.locator(what).first if isinstance(what, str) else what).click()

    def says(self, text: str) -> None:
        """Waits for a message of the site."""
        self.page.locator(".messagelist li").filter(has_text=text).first.wait_for()

    def unexpected(self) -> list[str]:
        return [p for p in self.problems if not (self.expected and re.search(self.expected, p))]


@pytest.fixture
def cookie(transactional_db: None) -> str:
    """The session of a superuser."""
    user = get_user_model().objects.create_superuser("ada", password="x")
    client = Client()
    client.force_login(user)
    return client.cookies[django_settings.SESSION_COOKIE_NAME].value


@pytest.fixture
def window(
    chromium: Any, live_server: Any, cookie: str, site: Any
) -> Iterator[Callable[..., Window]]:
    """Opens windows of the operator; no page may have complained by the end of the test."""
    opened: list[Window] = []

    def new(base: str = "", script: bool = True, **options: Any) -> Window:
        base = base or live_server.url
        context = chromium.new_context(
            **{"viewport": WIDE, "java_script_enabled": script, "locale": "en-GB", **options}
        )
        context.set_default_timeout(60_000)
        context.add_cookies(
            [{"name": django_settings.SESSION_COOKIE_NAME, "value": cookie, "url": base}]
        )
        made = Window(context.new_page(), base)
        made.page.on(
            "console",
            lambda message: (
                made.problems.append(message.text)
                if message.type in ("error", "warning")
                and not message.location["url"].endswith("/favicon.ico")
                else None
            ),
        )
        made.page.on("pageerror", lambda error: made.problems.append(str(error)))
        opened.append(made)
        return made

    yield new
    for each in opened:
        each.page.context.close()
    assert [each.unexpected() for each in opened] == [[] for _ in opened]


@pytest.fixture
def brisk(settings: Any) -> None:
    """Pages look again every second."""
    settings.ECHOMQ = {**settings.ECHOMQ, "CONSOLE": {"REFRESH": 1}}


def payload(task: Any, *args: Any, **kwargs: Any) -> bytes:
    return Envelope(task.module_path, list(args), kwargs).encode()


def kill(queue: Queue, error: str = "ValueError: no such customer") -> str:
    """Makes the next pending job dead."""
    (claim,) = queue.jobs.claim(1)
    queue.jobs.retry(claim, 0, 1, error)
    return claim.job_id


@dataclass
class Scene:
    """Queues with something of everything.

    Attributes:
        pending, active, scheduled, dead, completed: a job of that state in queue ``default``.
    """

    pending: str
    active: str
    scheduled: str
    dead: str
    completed: str


@pytest.fixture
def scene(site: Callable[[str], Queue], transactional_db: None) -> Scene:
    """Fills the queues of the site."""
    from django.core.management import call_command

    queue, mail, fast = site("default"), site("mail"), site("fast")
    done = queue.jobs.enqueue(payload(tasks.tells)).job_id
    for n in range(12):
        queue.jobs.enqueue(payload(tasks.echo, n, customer="acme"))
    for message in ("boom", "boom", "the printer is on fire"):
        fast.jobs.enqueue(payload(tasks.always_fails, message))
    call_command("echomq_worker", "default", "fast", burst=True, threads=2, verbosity=0)
    for n in range(3):
        queue.jobs.enqueue(payload(tasks.echo, n, card="4000", password="hunter2"))
        dead = kill(queue, f"ConnectionError: host {n} hung up")
    queue.jobs.enqueue(payload(tasks.noop))
    kill(queue)
    queue.jobs.enqueue(payload(tasks.record, "/tmp/x", "a line"), lane="acme")
    (claim,) = queue.jobs.claim(1, lease=120)
    queue.jobs.update_progress(claim.job_id, b'{"done": 40, "of": 100}')
    queue.jobs.add_log(claim.job_id, "read 40 of 100 rows")
    pending = ""
    for n in range(60):
        lane = ("acme", "globex", "initech", None)[n % 4]
        pending = queue.jobs.enqueue(
            payload(tasks.echo, n, to=f"user{n}@example.org", api_token="s3cr3t"), lane=lane
        ).job_id
    queue.lanes.pause("globex")
    queue.lanes.limit("acme", 4)
    queue.lanes.weight("initech", 3)
    soon = datetime.now(UTC) + timedelta(hours=3)
    for n in range(4):
        scheduled = queue.jobs.enqueue_at(
            payload(tasks.record, "report", f"page {n}"), soon + timedelta(minutes=n)
        ).job_id
    queue.repeat.register(
        "nightly-report",
        payload=payload(tasks.noop),
        cron="30 2 * * 1-5",
        tz="Europe/Berlin",
        source="settings",
    )
    queue.repeat.register("heartbeat", payload=payload(tasks.noop), every=90)
    mail.repeat.register("digest", payload=payload(tasks.noop), cron="0 7 * * *", tz="Asia/Tokyo")
    mail.repeat.pause("digest")
    mail.jobs.enqueue(payload(tasks.noop))
    mail.admin.pause()
    return Scene(pending, claim.job_id, scheduled, dead, done)


@pytest.fixture
def worker(command: Callable[..., Command], site: Any) -> Callable[..., Command]:
    """Starts a worker in a process of its own, and waits until it serves."""

    def start(*queues: str, name: str = "w-1") -> Command:
        process = command("echomq_worker", *queues, "--threads", "2", "--name", name)
        process.until("Stop with Ctrl-C")
        return process

    return start


@pytest.fixture(scope="session")
def axe() -> str:
    """The text of axe-core."""
    path = Path(os.environ.get("ECHOMQ_TEST_AXE", AXE))
    if not path.exists():
        (pytest.fail if REQUIRED else pytest.skip)(f"axe-core is not at {path}")
    return path.read_text()
