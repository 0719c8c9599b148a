"""A partitioned queue is one queue in the console."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from django.test import Client as Browser

from django_echomq.queue import Queue
from tests.console.conftest import PAYLOAD, beat, ended, url
from tests.console.test_pages import listed, plain, text

pytestmark = pytest.mark.django_db


def test_the_list_and_the_page_of_the_queue(wide: Queue, root: Browser) -> None:
    wide.jobs.enqueue_many([PAYLOAD] * 30)
    for part in wide.parts:
        beat(part, "w1", in_hand=2)
    (claim,) = wide.jobs.claim()
    wide.jobs.complete(claim)
    row = next(row for row in root.get(url("status")).json()["queues"] if row["queue"] == "wide")
    assert (row["pending"], row["workers"], row["completed_last_hour"]) == (29, 1, 1)
    page = plain(text(root, url("queue", name="wide")))
    assert "Partitions 3" in page
    assert "wide.p" not in page
    workers = plain(text(root, url("workers")))
    assert workers.count("w1") == 1
    assert wide.workers.all()[0].in_hand == 6
    assert "wide.p" not in workers


def test_jobs_are_paged_in_one_order(wide: Queue, root: Browser) -> None:
    ids = [each.job_id for each in wide.jobs.enqueue_many([PAYLOAD] * 70)]
    assert listed(root, "wide") == ids[::-1][:50]
    assert listed(root, "wide", "?from=50") == ids[::-1][50:]
    assert listed(root, "wide", "?order=oldest") == ids[:50]
    assert listed(root, "wide", "?order=oldest&from=50") == ids[50:]
    assert len(listed(root, "wide", "?q=echo")) == 50


def test_one_job(wide: Queue, root: Browser) -> None:
    for _ in range(3):
        job_id = wide.jobs.enqueue_in(PAYLOAD, 3_600).job_id
        page = plain(text(root, url("job", name="wide", job_id=job_id)))
        assert "scheduled" in page
        act = url("act_on_job", name="wide", job_id=job_id)
        root.post(act, {"action": "promote"})
        assert wide.jobs.state(job_id) == "pending"
        root.post(act, {"action": "cancel"})
        assert wide.jobs.state(job_id) == "cancelled"


@pytest.mark.django_db(transaction=True)
def test_acts_on_all(
    wide: Queue, root: Browser, django_assert_num_queries: Callable[..., object]
) -> None:
    wide.jobs.enqueue_many([PAYLOAD] * 600)
    answer = root.post(
        url("act_on_jobs", name="wide"),
        {"action": "cancel", "select_across": "1", "q": "echo", "confirmed": "yes"},
    )
    operation = ended(wide, answer["Location"])
    assert (operation.state, operation.done, operation.error) == ("done", 600, "")
    assert wide.metrics.counts("pending") == {"pending": 0}
    wide.jobs.enqueue_many([PAYLOAD] * 20)
    act = url("act", name="wide")
    root.post(act, {"action": "pause"})
    assert wide.admin.is_paused()
    answer = root.post(act, {"action": "obliterate", "confirmed": "yes", "typed": "wide"})
    assert ended(wide, answer["Location"]).done == 20


def test_schedules_and_lanes(wide: Queue, root: Browser) -> None:
    wide.repeat.register("nightly", payload=PAYLOAD, every=3600, lane="acme")
    wide.jobs.enqueue(PAYLOAD, lane="acme")
    assert plain(text(root, url("schedules"))).count("nightly") == 1
    act = url("act_on_schedule", name="wide")
    root.post(act, {"action": "run", "schedule": "nightly"})
    assert wide.lanes.depth("acme") == 2
    assert "acme" in plain(text(root, url("lanes", name="wide")))
    root.post(url("act_on_lane", name="wide"), {"action": "pause", "lane": "acme"})
    assert wide.lanes.all()[0].paused
