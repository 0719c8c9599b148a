"""Users with rights of their own, and a queue with something of everything."""

from __future__ import annotations

import json
import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
from django.contrib.auth.models import Permission, User
from django.test import Client as Browser
from django.urls import reverse

from django_echomq.console import operations
from django_echomq.queue import Queue
from tests.conftest import wait_until

PAYLOAD = b'{"task":"tests.testapp.tasks.echo","args":[1,"two"],"kwargs":{"three":3}}'


def url(name: str, /, **kwargs: str) -> str:
    return reverse(f"admin:django_echomq_queue_{name}", kwargs=kwargs)


def user_with(*permissions: str, superuser: bool = False) -> User:
    """A member of the staff who has these permissions and no other."""
    name = "-".join(permissions) or "nobody"
    user = User.objects.create_user(f"{name}-{superuser}", is_staff=True, is_superuser=superuser)
    found = Permission.objects.filter(
        content_type__app_label="django_echomq", codename__in=permissions
    )
    assert len(found) == len(permissions)
    user.user_permissions.set(found)
    return user


@pytest.fixture
def browse(db: None) -> Callable[..., Browser]:
    """A browser in which somebody with these permissions is logged in."""

    def open_as(*permissions: str, superuser: bool = False, **options: Any) -> Browser:
        browser = Browser(**options)
        browser.force_login(user_with(*permissions, superuser=superuser))
        return browser

    return open_as


@pytest.fixture
def root(browse: Callable[..., Browser]) -> Browser:
    return browse(superuser=True)


@dataclass
class World:
    """A queue of the settings, and a job in each place."""

    queue: Queue
    pending: str
    in_lane: str
    scheduled: str
    active: str
    dead: str
    completed: str
    worker: str = "w1"
    schedule: str = "nightly"
    lane: str = "acme"

    @property
    def name(self) -> str:
        return self.queue.name


def beat(queue: Queue, name: str, **changes: Any) -> None:
    """A worker says that it serves the queue."""
    info = {
        "host": "h",
        "pid": 7,
        "queues": [queue.name],
        "threads": 4,
        "in_hand": 1,
        "started_at": round(time.time() * 1000),
        "state": "running",
        "version": "1",
        **changes,
    }
    queue.run("jobs/tick", 0, 0, 0, 0, 0, name, json.dumps(info))


def die(queue: Queue, error: str = "ValueError: no", payload: bytes = PAYLOAD) -> str:
    """A dead job."""
    queue.jobs.enqueue(payload, priority=100)
    (claim,) = queue.jobs.claim()
    entry = json.dumps({"attempt": 1, "exception": error, "traceback": "Traceback", "worker": "w"})
    slot = queue.client.take_slot()
    failure = queue.jobs.failure(claim, 0, 1, error, entry.encode())
    queue.drive(queue.client.run(queue.jobs.exchange_call(slot, [failure], 0, "w")))
    queue.client.give_slot(slot)
    return claim.job_id


@pytest.fixture
def world(site: Callable[[str], Queue]) -> World:
    queue = site("default")
    dead = die(queue)
    completed = queue.jobs.enqueue(PAYLOAD).job_id
    queue.jobs.complete(queue.jobs.claim()[0], b'{"answer": 42}')
    active = queue.jobs.enqueue(PAYLOAD).job_id
    queue.jobs.claim(lease=600)
    made = World(
        queue,
        queue.jobs.enqueue(PAYLOAD).job_id,
        queue.jobs.enqueue(PAYLOAD, lane="acme").job_id,
        queue.jobs.enqueue_in(PAYLOAD, 3_600).job_id,
        active,
        dead,
        completed,
    )
    queue.repeat.register("nightly", payload=PAYLOAD, cron="30 2 * * *", tz="Europe/Berlin")
    beat(queue, "w1")
    return made


def ended(queue: Queue, location: str) -> operations.Operation:
    """Waits for the operation that a redirect leads to."""
    operation_id = location.rstrip("/").rpartition("/")[2]

    def over() -> operations.Operation | None:
        found = operations.find(queue, operation_id)
        return found if found and found.state != "running" else None

    found: operations.Operation = wait_until(over, "the operation to end")
    return found
