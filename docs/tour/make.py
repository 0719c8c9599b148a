"""Takes the pictures of the tour from the example site: ``python docs/tour/make.py``.

Needs playwright and Chromium (``CHROMIUM=path`` where it is not on PATH), and
``pip install -e '.[embedded]'``. It starts the demo with its data in a folder of its own, lets its
jobs run, adds some that wait, and ends what it started.
"""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from datetime import timedelta
from pathlib import Path
from typing import Any

import django
from playwright.sync_api import sync_playwright

HERE = Path(__file__).resolve().parent
EXAMPLE = HERE.parents[1] / "example_project"
CONSOLE = "admin/django_echomq/queue/"
FILES = 300


def main() -> None:
    chromium = os.environ.get("CHROMIUM") or shutil.which("chromium")
    if not chromium:
        raise SystemExit("Chromium is not on PATH; say where it is: CHROMIUM=path")
    with socket.create_server(("127.0.0.1", 0)) as probe:
        port = probe.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(DJANGO_SETTINGS_MODULE="example.settings", EXAMPLE_DATA_DIR=folder)
        sys.path.insert(0, str(EXAMPLE))
        demo = subprocess.Popen(
            [
                *(sys.executable, EXAMPLE / "manage.py", "demo"),
                *("--limit", str(FILES), "--port", str(port)),
            ],
            stdout=subprocess.PIPE,
            text=True,
        )
        try:
            for line in demo.stdout or ():
                if "Stop them with" in line:
                    break
            else:
                raise SystemExit("The demo ended before its site was up.")
            django.setup()
            take(f"http://127.0.0.1:{port}/", chromium, fill())
        finally:
            demo.terminate()
            demo.wait()


def fill() -> dict[str, str]:
    """Gives the queues something to show; answers the addresses of the pages."""
    from stdlib import tasks  # type: ignore[import-not-found]
    from stdlib.models import SourceFile  # type: ignore[import-not-found]

    from django_echomq import get_queue
    from django_echomq.tasks.envelope import Envelope

    default, reports = get_queue("default"), get_queue("reports")
    (dead,) = reports.jobs.page("dead").jobs
    (watched,) = [
        listed
        for listed in reports.jobs.page("completed").jobs
        if b"long_report" in listed.job.payload
    ]
    default.admin.pause()
    paths = SourceFile.objects.values_list("path", flat=True)[:120]
    for n, path in enumerate(paths):
        lane = ("asyncio", "email", "json", None)[n % 4]
        tasks.analyse_file.using(lane=lane).enqueue(path)
    default.lanes.weight("asyncio", 3)
    default.lanes.limit("email", 2)
    default.lanes.pause("json")
    for hours in range(1, 5):
        at = django.utils.timezone.now() + timedelta(hours=hours)
        tasks.summarise.using(run_after=at).enqueue()
    payload = Envelope("stdlib.tasks.summarise").encode()
    reports.repeat.register(
        "nightly-summary", payload=payload, cron="30 2 * * 1-5", tz="Europe/Berlin"
    )
    reports.repeat.register("quarter-hourly", payload=payload, every=900)
    return {
        "queues": "",
        "queue": "q/default/",
        "jobs": "q/default/jobs/?state=pending&lane=asyncio",
        "dead": f"q/reports/job/{dead.job.id}/",
        "log": f"q/reports/job/{watched.job.id}/",
        "lanes": "q/default/lanes/",
        "schedules": "schedules/",
        "workers": "workers/",
    }


def take(site: str, chromium: str, pages: dict[str, str]) -> None:
    """Takes a picture of each page, and of the first at night and on a phone."""
    with sync_playwright() as program:
        browser = program.chromium.launch(
            executable_path=chromium, args=["--no-sandbox"] if os.geteuid() == 0 else []
        )

        def visit(**options: Any) -> Any:
            page = browser.new_context(**options).new_page()
            page.goto(f"{site}admin/")
            page.fill("[name=username]", "admin")
            page.fill("[name=password]", "admin")
            page.click("[type=submit]")
            return page

        def shoot(page: Any, name: str, address: str) -> None:
            page.goto(f"{site}{CONSOLE}{address}")
            if name == "schedules":
                page.locator("summary").first.click()
            page.screenshot(path=HERE / f"{name}.png")

        page = visit(viewport={"width": 1100, "height": 720})
        page.evaluate("localStorage.setItem('django.admin.navSidebarIsOpen', 'false')")
        for name, address in pages.items():
            shoot(page, name, address)
        page.goto(f"{site}{CONSOLE}q/default/")
        page.click("#act-drain")
        page.screenshot(
            path=HERE / "confirm.png", clip={"x": 0, "y": 0, "width": 1100, "height": 420}
        )
        shoot(visit(viewport={"width": 390, "height": 720}, color_scheme="dark"), "phone", "")
        browser.close()


if __name__ == "__main__":
    started = time.monotonic()
    main()
    print(f"{len(list(HERE.glob('*.png')))} pictures in {time.monotonic() - started:.0f} s")
