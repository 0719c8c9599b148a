"""The runbook works as it is written: once by its commands, once by its Python."""

from __future__ import annotations

import re
import shlex
from collections.abc import Callable
from datetime import timedelta
from io import StringIO

import pytest
from django.core.management import call_command

from django_echomq.queue import Queue
from tests.conftest import ROOT
from tests.testapp import tasks

Site = Callable[[str], Queue]
PAGE = (ROOT / "docs" / "production" / "bad-deploy.md").read_text()
pytestmark = pytest.mark.django_db(transaction=True)


def blocks(language: str) -> list[str]:
    return re.findall(rf"```{language}\n(.*?)```", PAGE, re.DOTALL)


@pytest.fixture
def mess(site: Site) -> tuple[Queue, str]:
    """A queue after a bad deploy: three dead jobs and some that wait."""
    queue = site("mail")
    ids = [tasks.picky.enqueue(n).id for n in range(3)]
    work()
    tasks.picky.using(lane="acme").enqueue(3)
    tasks.picky.enqueue(4)
    assert queue.metrics.counts("dead", "pending") == {"dead": 3, "pending": 2}
    return queue, ids[-1]


def work() -> None:
    call_command("echomq_worker", "mail", burst=True, verbosity=0)


def check_end(queue: Queue, job_id: str) -> None:
    """The mended job is done, what failed is back, and what waited is gone."""
    assert queue.jobs.state(job_id) == "completed"
    assert queue.jobs.get(job_id).result == b"7"
    overview = queue.metrics.overview()
    assert (overview.counts["dead"], overview.counts["pending"]) == (0, 2)
    assert (overview.paused, overview.concurrency) == (False, None)


def test_the_commands_of_the_runbook(mess: tuple[Queue, str]) -> None:
    queue, job_id = mess
    lines = [line for block in blocks("console") for line in block.splitlines()]
    assert len(lines) >= 15
    for line in lines:
        words = shlex.split(line.removeprefix("$ python manage.py ").replace("$ID", job_id))
        if "--watch" in words:
            words.remove("--watch")
        call_command(*words, stdout=StringIO())
        if "resume" in words:
            work()
    check_end(queue, job_id)


def test_the_python_of_the_runbook(
    mess: tuple[Queue, str], capsys: pytest.CaptureFixture[str]
) -> None:
    queue, job_id = mess
    names = {"timedelta": timedelta}
    for block in blocks("python"):
        exec(block.replace("mail.tasks.send_welcome", "tests.testapp.tasks.picky"), names)
        if "resume()" in block:
            work()
    assert "ValueError: no user 2" in capsys.readouterr().out
    check_end(queue, job_id)
