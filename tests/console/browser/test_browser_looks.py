"""Every page in a real browser: it opens, keeps to the site's policy, fits its window and reads
well, light and dark, wide and narrow. Leaves a picture of each in ``build/console``."""

from __future__ import annotations

from typing import Any

import pytest

from tests.console.browser.conftest import NARROW, PICTURES, WIDE, Scene

PAGES = {
    "queues": "",
    "queues-of-a-state": "?state=paused",
    "queue": "q/default/",
    "queue-month": "q/default/?span=month",
    "queue-paused": "q/mail/",
    "jobs-pending": "q/default/jobs/?state=pending",
    "jobs-of-a-lane": "q/default/jobs/?state=pending&lane=acme",
    "jobs-active": "q/default/jobs/?state=active",
    "jobs-scheduled": "q/default/jobs/?state=scheduled",
    "jobs-dead": "q/default/jobs/?state=dead",
    "jobs-ended": "q/default/jobs/?state=completed",
    "jobs-none": "q/mail/jobs/?state=dead",
    "failures": "q/default/failures/",
    "job-pending": "q/default/job/{pending}/",
    "job-active": "q/default/job/{active}/",
    "job-scheduled": "q/default/job/{scheduled}/",
    "job-dead": "q/default/job/{dead}/",
    "job-completed": "q/default/job/{completed}/",
    "job-gone": "q/default/job/JOB0NdsHxE7TMW/",
    "lanes": "q/default/lanes/",
    "schedules": "schedules/",
    "workers": "workers/",
    "activity": "activity/",
}

FINDINGS = """async () => {
    const found = await axe.run(document, {resultTypes: ["violations"], preload: false});
    return found.violations
        .filter((v) => ["serious", "critical"].includes(v.impact))
        .map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => n.html).join(" | ")}`);
}"""


def findings(window: Any, axe: str) -> list[str]:
    # Through the debugger, as the page's policy forbids it to load anything.
    window.page.evaluate(axe)
    return window.page.evaluate(FINDINGS)


def overflow(window: Any) -> int:
    return window.page.evaluate("document.documentElement.scrollWidth - innerWidth")


@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize(
    ("scheme", "size"),
    [
        pytest.param("light", WIDE, id="wide-light"),
        pytest.param("dark", WIDE, id="wide-dark", marks=pytest.mark.looks),
        pytest.param("light", NARROW, id="narrow-light", marks=pytest.mark.looks),
        pytest.param("dark", NARROW, id="narrow-dark", marks=pytest.mark.looks),
    ],
)
def test_every_page(
    window: Any, scene: Scene, axe: str, worker: Any, scheme: str, size: dict[str, int]
) -> None:
    """No complaint of the browser, no serious finding of axe-core, nothing beyond the edge."""
    worker("fast")
    PICTURES.mkdir(parents=True, exist_ok=True)
    width = "wide" if size is WIDE else "narrow"
    wrong: dict[str, Any] = {}
    view = window(color_scheme=scheme, viewport=size)
    view.expected = "404"  # of the job that is gone
    for name, path in PAGES.items():
        view.open(path.format(**vars(scene)))
        view.page.screenshot(path=PICTURES / f"{name}-{width}-{scheme}.png", full_page=True)
        if found := findings(view, axe):
            wrong[name] = found
        if (over := overflow(view)) > 0:
            wrong[f"{name}: beyond the edge"] = over
    assert not wrong


@pytest.mark.slow
@pytest.mark.looks
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_what_acts_lead_to(window: Any, scene: Scene, axe: str, scheme: str) -> None:
    """Confirmations, messages and the page of an operation, on a phone."""
    PICTURES.mkdir(parents=True, exist_ok=True)
    view = window(color_scheme=scheme, viewport=NARROW)

    def check(name: str) -> None:
        view.page.locator("#content").wait_for()
        view.page.screenshot(path=PICTURES / f"{name}-narrow-{scheme}.png", full_page=True)
        assert findings(view, axe) == [], name
        assert overflow(view) <= 0, name

    view.open("q/default/")
    view.go("#act-obliterate")
    check("confirm-obliterate")
    view.page.fill("#echomq-typed", "no")
    view.go("text=Yes, I’m sure")
    view.says("The name was not typed as it is.")
    check("refusal")
    view.open("q/default/jobs/?state=dead&q=echo")
    view.page.select_option("select[name=action]", "remove")
    view.page.check("[name=select_across]")
    view.go("#echomq-actions button")
    check("confirm-jobs")
    view.go("text=Yes, I’m sure")
    view.page.locator(".echomq-progress").wait_for()
    check("operation")
    view.open(f"q/default/job/{scene.pending}/")
    view.go("#act-remove")
    check("confirm-remove")
    view.open("q/default/lanes/")
    view.go("tr[data-key=acme] >> text=Drain")
    check("confirm-lane")
    view.open("schedules/")
    view.go("tr[data-key='default/heartbeat'] >> button:has-text('End')")
    check("confirm-schedule")
    view.open("activity/")
    check("activity-with-entries")


@pytest.mark.slow
@pytest.mark.looks
def test_right_to_left(window: Any, scene: Scene, axe: str, settings: Any) -> None:
    settings.LANGUAGE_CODE = "ar"
    PICTURES.mkdir(parents=True, exist_ok=True)
    for width, size in (("wide", WIDE), ("narrow", NARROW)):
        view = window(viewport=size, locale="ar")
        for name in ("queues", "queue", "jobs-pending", "job-active", "lanes"):
            view.open(PAGES[name].format(**vars(scene)))
            assert view.page.get_attribute("html", "dir") == "rtl"
            view.page.screenshot(path=PICTURES / f"{name}-{width}-rtl.png", full_page=True)
            assert overflow(view) <= 0
            assert findings(view, axe) == []
