"""The whole queue: figures, events, limits, pause, drain, obliterate."""

from __future__ import annotations

import re

from ..queue.events import Event
from ..wire.errors import ActiveJobs, NotPaused, RateLimited
from .case import Case, refused, same


def counts(case: Case) -> None:
    queue = case.queue
    queue.jobs.enqueue_many([b"x"] * 4)
    queue.jobs.enqueue_in(b"later", 3600)
    case.one()
    found = queue.metrics.counts("pending", "active", "scheduled", "dead")
    same("the counts", found, {"pending": 3, "active": 1, "scheduled": 1, "dead": 0})
    with refused("to count a state that there is not", ValueError):
        queue.metrics.counts("wait")


def metrics(case: Case) -> None:
    queue = case.queue
    queue.jobs.enqueue(b"x")
    same("completed before", queue.metrics.counts("completed"), {"completed": 0})
    queue.jobs.complete(case.one())
    same("completed after", queue.metrics.counts("completed"), {"completed": 1})
    points = case.command("LLEN", queue.keys.metric("completed") + b":data")
    same("data points", points, 0)


def events(case: Case) -> None:
    job_id = case.missing()
    with case.queue.events.subscribe(timeout=10) as heard:
        same("listeners", case.queue.events.publish("completed", job_id), 1)
        same("the event", next(heard), Event("completed", job_id))


def resubscribe(case: Case) -> None:
    channel = case.queue.keys.events
    # The run's connections carry its mark; nobody else's may be broken.
    mark = case.queue.name.rpartition(".")[0]
    with case.queue.events.subscribe(timeout=10) as heard:
        clients = case.command("CLIENT", "LIST", "TYPE", "pubsub").decode()
        ours = re.findall(rf"(?m)^id=(\d+) .*\bname={re.escape(mark)} ", clients)
        same("subscribers of this run", len(ours), 1)
        case.command("CLIENT", "KILL", "ID", ours[0])
        case.until(lambda: heard.reconnects, "the subscriber to be back")
        text = b'{"event":"completed","job":"x"}'
        same("listeners", case.command("PUBLISH", channel, text), 1)
        same("the event", next(heard), Event("completed", "x"))


def rate(case: Case) -> None:
    queue = case.queue
    case.command("HSET", queue.keys.meta, "concurrency", 1)
    queue.jobs.enqueue(b"x")
    same("at its limit, idle", queue.metrics.is_maxed(), False)
    case.one()
    same("at its limit, with one in hand", queue.metrics.is_maxed(), True)
    with refused("the script", RateLimited):
        queue.run("metrics/is_maxed")


def rate_consult(case: Case) -> None:
    queue = case.queue
    case.command("HSET", queue.keys.meta, "concurrency", 1)
    queue.jobs.enqueue_many([b"x"] * 2)
    held = case.one()
    same("a claim at the ceiling", queue.jobs.claim(5), [])
    same("the counts", queue.metrics.counts("active", "pending"), {"active": 1, "pending": 1})
    queue.jobs.complete(held)
    same("at its limit, after the completion", queue.metrics.is_maxed(), False)
    case.one()


def queue_pause(case: Case) -> None:
    queue = case.queue
    queue.jobs.enqueue(b"x")
    queue.admin.pause()
    same("paused", queue.admin.is_paused(), True)
    same("a claim while paused", queue.jobs.claim(), [])
    same("what waits", queue.metrics.counts("pending"), {"pending": 1})
    queue.admin.resume()
    case.one()


def drain(case: Case) -> None:
    queue = case.queue
    held = queue.jobs.enqueue(b"x").job_id
    case.one()
    ids = [queue.jobs.enqueue(b"x").job_id for _ in range(3)]
    same("jobs drained", queue.admin.drain(), 3)
    same("their rows", [case.row(job_id) for job_id in ids], [{}] * 3)
    same("the job in hand", queue.jobs.state(held), "active")


def obliterate(case: Case) -> None:
    queue = case.queue
    queue.jobs.enqueue(b"x")
    with refused("to obliterate a queue that is not paused", NotPaused):
        queue.admin.obliterate()
    same("what waits", queue.metrics.counts("pending"), {"pending": 1})
    queue.admin.pause()
    same("jobs removed", queue.admin.obliterate(), 1)
    same("all counts", set(queue.metrics.counts().values()), {0})


def obliterate_grouped(case: Case) -> None:
    queue = case.queue
    ids = []
    for lane in ("a", "b"):
        ids += [each.job_id for each in queue.jobs.enqueue_many([b"x"] * 3, lane=lane)]
    queue.jobs.claim(2)
    queue.admin.pause()
    with refused("to obliterate with jobs in hand", ActiveJobs):
        queue.admin.obliterate()
    same("jobs removed", queue.admin.obliterate(force=True), 6)
    names = ["pending", "active", "ring", "gactive", "meta", "wake", "stats"]
    names += ["g:a:pending", "g:b:pending", *(f"job:{job_id}" for job_id in ids)]
    names += [f"job:{job_id}:lock" for job_id in ids]
    same("keys left", [name for name in names if case.exists(case.key(name))], [])
