"""A network that cuts in the wrong moment."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator

import pytest

from django_echomq.queue import Queue
from django_echomq.queue.jobs import Settlement
from django_echomq.wire.client import Client
from django_echomq.wire.endpoint import Endpoint
from django_echomq.worker import Hand, Worker
from django_echomq.worker.consumer import BEAT
from tests.conftest import wait_until
from tests.wire.proxy import Proxy

MakeQueue = Callable[..., Queue]


@pytest.fixture
def proxy(endpoint: Endpoint) -> Iterator[Proxy]:
    new = Proxy(endpoint)
    yield new
    new.close()


@pytest.mark.parametrize("away", [0.1, 2.5], ids=["back before it is due", "back after"])
def test_a_job_parked_before_a_cut_starts_within_a_beat(
    make_queue: MakeQueue, proxy: Proxy, away: float
) -> None:
    queue = make_queue()
    starts: list[float] = []

    def handler(hand: Hand) -> Settlement:
        starts.append(time.monotonic())
        return hand.queue.jobs.completion(hand.claim)

    far = Queue(queue.name, Client(proxy.endpoint))
    worker = Worker([far], handler, name="w")
    thread = threading.Thread(target=worker.run)
    thread.start()
    try:
        wait_until(queue.workers.all, "the worker to beat")
        queue.jobs.enqueue_in(b"x", 1.0)
        due = time.monotonic() + 1.0
        proxy.refuse(1_000_000)
        proxy.cut()
        back = time.monotonic() + away
        wait_until(lambda: time.monotonic() >= back, "the outage to pass")
        proxy.refuse(-1_000_000)
        wait_until(lambda: starts, "the job to start")
        # The machine gets as long again.
        assert starts[0] - max(due, back) < 2 * BEAT
    finally:
        worker.stop()
        thread.join(30)
        assert not thread.is_alive()
