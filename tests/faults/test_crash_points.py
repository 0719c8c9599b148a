"""Each point in the life of a job at which something can die, by what dies there.

A worker runs behind a proxy that keeps back a call, or the reply to a call that the server has run,
so that each point can be held for as long as it takes to strike.
"""

from __future__ import annotations

import os
import signal
from collections.abc import Callable

import pytest

from django_echomq.wire.scripts import script
from tests.conftest import Command, wait_until
from tests.faults.conftest import Watched, server_pid

Start = Callable[..., Command]
Watch = Callable[[str], Watched]

SETTLE = script("jobs/settle").sha

CLAIM_REPLY = "before its claim's reply"
HANDLER = "in the handler"
SETTLE_CALL = "after the handler, before its settle"
SETTLE_REPLY = "after its settle, before the reply"
POINTS = [CLAIM_REPLY, HANDLER, SETTLE_CALL, SETTLE_REPLY]


def reach(point: str, watched: Watched) -> str:
    """Brings a parked worker to a point; answers the id of its job."""
    proxy = watched.proxy
    if point == CLAIM_REPLY:
        watched.open()
        workers = watched.queue.workers
        name = workers.all()[0].name
        workers.quiet(name)
        wait_until(lambda: workers.all()[0].state == "quiet", "the worker to be quiet")
        job_id = watched.enqueue()
        proxy.hold_reply(SETTLE)
        workers.resume(name)
        wait_until(lambda: proxy.held, "the claim")
        assert watched.queue.jobs.state(job_id) == "active"
        assert watched.effects() == {}
        return job_id
    job_id = watched.enqueue()
    wait_until(watched.effects, "the handler to start")
    if point == HANDLER:
        return job_id
    (proxy.hold_call if point == SETTLE_CALL else proxy.hold_reply)(SETTLE)
    watched.open()
    wait_until(lambda: proxy.held, "the settlement")
    assert watched.effects() == {"start": 1, "end": 1}
    state = "active" if point == SETTLE_CALL else "completed"
    assert watched.queue.jobs.state(job_id) == state
    return job_id


def end_well(watched: Watched, worker: Command) -> None:
    """Every admitted job has completed, once, and the worker goes in peace."""
    wait_until(watched.settled, "the jobs to be done")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()
    assert watched.books() == {
        "completed": watched.admitted,
        "failed": 0,
        "dead": 0,
        "active": 0,
        "pending": 0,
    }
    for word in ("Traceback", "refused"):
        assert word not in worker.output()


@pytest.mark.parametrize("point", POINTS)
def test_a_worker_killed_at_each_point(watch: Watch, command: Start, point: str) -> None:
    """What was claimed and not settled runs again after its lease; what was settled does not."""
    watched = watch("fast")
    victim = command("echomq_worker", "fast", "--threads", "1", env=watched.by_proxy)
    watched.warm_up(victim)
    job_id = reach(point, watched)
    victim.signal(signal.SIGKILL)
    victim.wait()
    watched.open()
    rescuer = command("echomq_worker", "fast", "--threads", "1", env=watched.direct)
    rescuer.until("Stop with")
    end_well(watched, rescuer)
    assert (
        watched.effects()
        == {
            CLAIM_REPLY: {"start": 1, "end": 1},
            HANDLER: {"start": 2, "end": 1},
            SETTLE_CALL: {"start": 2, "end": 2},
            SETTLE_REPLY: {"start": 1, "end": 1},
        }[point]
    )
    assert watched.queue.jobs.get(job_id).stalled == (0 if point == SETTLE_REPLY else 1)


@pytest.mark.parametrize("point", POINTS)
@pytest.mark.parametrize("what", ["server", "network"])
def test_a_server_killed_or_a_network_cut_at_each_point(
    watch: Watch, command: Start, what: str, point: str
) -> None:
    """The worker goes on where it was: the job runs once, and no lease has to lapse."""
    watched = watch("default")
    # On a slow disk the server would keep writes to itself for a second or two, and lose them.
    watched.client.drive(watched.client.command("CONFIG", "SET", "appendfsync", "always"))
    worker = command("echomq_worker", "default", "--threads", "1", env=watched.by_proxy)
    watched.warm_up(worker)
    job_id = reach(point, watched)
    if what == "server":
        os.kill(server_pid(watched.client), signal.SIGKILL)
    else:
        watched.proxy.cut()
    watched.open()
    end_well(watched, worker)
    assert watched.effects() == {"start": 1, "end": 1}
    job = watched.queue.jobs.get(job_id)
    assert (job.attempts, job.stalled) == (1, 0)


@pytest.mark.parametrize("point", [SETTLE_CALL, SETTLE_REPLY])
def test_sigterm_while_a_job_is_being_settled(watch: Watch, command: Start, point: str) -> None:
    watched = watch("default")
    worker = command("echomq_worker", "default", "--threads", "1", env=watched.by_proxy)
    watched.warm_up(worker)
    reach(point, watched)
    worker.signal(signal.SIGTERM)
    worker.until("Stopping")
    watched.proxy.release()
    worker.wait()  # a second signal would meet it on its way out
    end_well(watched, worker)
    assert watched.effects() == {"start": 1, "end": 1}
