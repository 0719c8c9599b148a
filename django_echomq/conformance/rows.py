"""Single rows: reading, data, progress, logs, unique keys, removing, reprocessing."""

from __future__ import annotations

from ..queue import Unique
from ..wire.errors import JobGone, JobLocked, NotDead
from .case import Case, refused, same


def state(case: Case) -> None:
    jobs = case.queue.jobs
    first = jobs.enqueue(b"x").job_id
    later = jobs.enqueue_in(b"x", 3600).job_id
    missing = case.missing()
    case.one()
    states = [jobs.state(job_id) for job_id in (first, later, missing)]
    same("the states", states, ["active", "scheduled", "absent"])
    same("the payload", jobs.get(first).payload, b"x")
    with refused("to read a missing job", JobGone):
        jobs.get(missing)


def unknown_state(case: Case) -> None:
    jobs, active = case.queue.jobs, case.queue.keys.active
    job_id = jobs.enqueue(b"x").job_id
    case.one()
    deadline = case.command("ZSCORE", active, job_id)
    case.command("ZREM", active, job_id)
    same("out of every set", jobs.state(job_id), "unknown")
    case.command("ZADD", active, deadline, job_id)
    same("back in active", jobs.state(job_id), "active")
    same("a missing job", jobs.state(case.missing()), "absent")


def dedup(case: Case) -> None:
    holder = case.queue.metrics.unique_holder
    same("the holder of a free key", holder("did"), None)
    job_id = case.queue.jobs.enqueue(b"x", unique=Unique("did")).job_id
    same("the holder", holder("did"), job_id)


def dedup_release(case: Case) -> None:
    job_id = case.queue.jobs.enqueue(b"x", unique=Unique("mine")).job_id
    orphan = case.key("de:orphan")
    # No verb finds it again, so it ends by itself should we not get to its removal.
    case.command("SET", orphan, case.missing(), "PX", 60_000)
    try:
        case.queue.jobs.remove(job_id)
        same("the holder of the removed job's key", case.queue.metrics.unique_holder("mine"), None)
        same("a registration of another job", case.exists(orphan), True)
    finally:
        case.command("DEL", orphan)


def update_data(case: Case) -> None:
    jobs = case.queue.jobs
    job_id = jobs.enqueue(b"old").job_id
    jobs.update_data(job_id, b"new")
    same("the payload", jobs.get(job_id).payload, b"new")
    with refused("to change a missing job", JobGone):
        jobs.update_data(case.missing(), b"new")


def update_progress(case: Case) -> None:
    jobs = case.queue.jobs
    job_id = jobs.enqueue(b"x").job_id
    with case.queue.events.subscribe(timeout=10) as events:
        jobs.update_progress(job_id, "50")
        event = next(events)
    same("the event", (event.name, event.job_id), ("progress", job_id))
    same("what it carries", event.extras, {"progress": "50"})
    same("the field", jobs.get(job_id).progress, "50")
    with refused("progress of a missing job", JobGone):
        jobs.update_progress(case.missing(), "50")


def job_logs(case: Case) -> None:
    jobs = case.queue.jobs
    job_id, missing = jobs.enqueue(b"x").job_id, case.missing()
    same("the counts", [jobs.add_log(job_id, line) for line in ("1", "2")], [1, 2])
    same("the lines", jobs.logs(job_id), ["1", "2"])
    same("the count with two kept", jobs.add_log(job_id, "3", keep=2), 2)
    same("the lines that are kept", jobs.logs(job_id), ["2", "3"])
    with refused("a line of a missing job", JobGone):
        jobs.add_log(missing, "1")
    with refused("the lines of a missing job", JobGone):
        jobs.logs(missing)


def remove_job(case: Case) -> None:
    jobs = case.queue.jobs
    job_id = jobs.enqueue(b"x", unique=Unique("did")).job_id
    locked = jobs.enqueue(b"x").job_id
    jobs.remove(job_id)
    same("its row", case.row(job_id), {})
    same("its unique key", case.exists(case.key("de:did")), False)
    case.command("SET", case.queue.keys.job(locked) + b":lock", "1", "PX", 60_000)
    with refused("to remove a locked job", JobLocked):
        jobs.remove(locked)
    same("the locked job", jobs.state(locked), "pending")
    with refused("to remove it again", JobGone):
        jobs.remove(job_id)


def reprocess_job(case: Case) -> None:
    jobs = case.queue.jobs
    job_id = jobs.enqueue(b"x").job_id
    with refused("to reprocess a job that waits", NotDead):
        jobs.reprocess(job_id)
    jobs.retry(case.one(), 0, 1, "boom")
    jobs.reprocess(job_id)
    job = jobs.get(job_id)
    same("its state and last error", (job.state, job.last_error), ("pending", None))
    with refused("to reprocess a missing job", JobGone):
        jobs.reprocess(case.missing())
