"""The spine and time: admit, claim, settle, promote, recover; locks and cancelling."""

from __future__ import annotations

import hashlib
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace

from ..queue import Settled
from ..queue.backoff import Exponential
from ..queue.cancel import Cancelled, CancelToken
from ..wire.client import Call
from ..wire.endpoint import WIRE_VERSION
from ..wire.errors import JobGone, JobLocked, StaleToken, WrongKind
from ..wire.ids import process_mint
from ..wire.scripts import Script
from .case import Case, refused, same


def fence(case: Case) -> None:
    same("PING", case.command("PING"), b"PONG")
    home = case.client.home
    seen = home.drive(home.command("GET", "{emq}:version"))
    same("the server's version", seen, WIRE_VERSION)


def mint(case: Case) -> None:
    job_id = case.queue.jobs.enqueue(b"payload").job_id
    same(
        "the row",
        case.row(job_id),
        {b"state": b"pending", b"attempts": b"0", b"payload": b"payload"},
    )
    same("its score", case.score("pending", job_id), 0)


def duplicate(case: Case) -> None:
    jobs, job_id = case.queue.jobs, case.missing()
    same("the first outcome", jobs.enqueue(b"first", job_id=job_id).outcome, "enqueued")
    again = jobs.enqueue(b"second", job_id=job_id)
    same("the second admission", (again.job_id, again.outcome), (job_id, "duplicate"))
    same("the payload", jobs.get(job_id).payload, b"first")


def kind(case: Case) -> None:
    order = process_mint.mint(1, "ORD")
    with refused("an ORD id", WrongKind):
        case.queue.jobs.enqueue(b"x", job_id=order)
    # The script too, where another client did not look.
    options = ("now", 0, "", 0, "own", "", 0, "done", "skip", 0, 0)
    with refused("an ORD id, by the script", WrongKind):
        case.queue.run("jobs/enqueue", "slot.1", 1, *options, order, b"x")
    same("a row of it", case.exists(case.queue.keys.job(order)), False)
    same("its place", case.score("pending", order), None)


def order(case: Case) -> None:
    ids = [case.queue.jobs.enqueue(b"x").job_id for _ in range(3)]
    same("the newest first", [job.id for job in case.queue.jobs.browse("pending")], ids[::-1])


def claim(case: Case) -> None:
    job_id = case.queue.jobs.enqueue(b"payload").job_id
    held = case.one()
    same("the claim", (held.job_id, held.payload, held.attempts), (job_id, b"payload", 1))
    same("its state", case.row(job_id).get(b"state"), b"active")


def unknown(case: Case, call: Call) -> Call:
    """The call under a text that the server has not seen yet.

    (To flush all scripts would meet every client of the server.)
    """
    text = call.script.text + f"\n-- {case.queue.name}\n".encode()
    sha = hashlib.sha1(text, usedforsecurity=False).hexdigest().encode()
    return call._replace(script=Script(call.script.name, text, sha))


def stale(case: Case) -> None:
    jobs = case.queue.jobs
    jobs.enqueue(b"x")
    held = case.one()
    other = replace(held, attempts=99)
    call = case.queue.call("jobs/extend_locks", 60_000, other.job_id, other.attempts)
    words = case.client.drive(case.client.run(unknown(case, call)))
    same("the answer of a script that had to be loaded", words, [b"stale"])
    with refused("a completion under token 99", StaleToken):
        jobs.complete(other)
    jobs.complete(held)


def complete(case: Case) -> None:
    job_id = case.queue.jobs.enqueue(b"x").job_id
    case.queue.jobs.complete(case.one())
    same("the row", case.row(job_id), {})
    same("the place in active", case.score("active", job_id), None)


def retry(case: Case) -> None:
    jobs = case.queue.jobs
    job_id = jobs.enqueue(b"x").job_id
    same("the word", jobs.retry(case.one(), 0.010, 3, "boom"), Settled.SCHEDULED)
    same("its state", jobs.state(job_id), "scheduled")
    same("its last error", jobs.get(job_id).last_error, "boom")
    case.promoted()
    again = case.one()
    same("the next token", again.attempts, 2)
    jobs.complete(again)


def dead(case: Case) -> None:
    jobs = case.queue.jobs
    job_id = jobs.enqueue(b"x").job_id
    same("the word", jobs.retry(case.one(), 0, 1, "boom"), Settled.DEAD)
    same("its state", jobs.state(job_id), "dead")
    same("its last error", jobs.get(job_id).last_error, "boom")
    same("its score", case.score("dead", job_id), 0)


def reap(case: Case) -> None:
    jobs = case.queue.jobs
    job_id = jobs.enqueue(b"x").job_id
    case.one(lease=0.030)
    same("jobs reaped", case.until(jobs.reap, "the lease to lapse"), 1)
    same("its state", jobs.state(job_id), "pending")
    same("the next token", case.one().attempts, 2)


def schedule(case: Case) -> None:
    jobs = case.queue.jobs
    job_id = jobs.enqueue_in(b"x", 0.030).job_id
    same("its state", jobs.state(job_id), "scheduled")
    same("a claim before its time", jobs.claim(), [])
    case.promoted()
    same("the first token", case.one().attempts, 1)


def backoff(case: Case) -> None:
    jobs, curve = case.queue.jobs, Exponential(base_ms=1, cap_ms=10)
    job_id = jobs.enqueue(b"x").job_id
    for attempt in (1, 2, 3):
        held = case.one()
        same("the token", held.attempts, attempt)
        word = jobs.retry(held, curve.delay_ms(attempt) / 1000, 3, f"boom {attempt}")
        same(f"the word of try {attempt}", word, "scheduled" if attempt < 3 else "dead")
        if attempt < 3:
            case.promoted()
    same("its last error", jobs.get(job_id).last_error, "boom 3")


def repeat(case: Case) -> None:
    schedules = case.queue.repeat
    schedules.register("tick", payload=b"x", every=0.010)
    for _ in range(2):
        case.until(schedules.fire, "the schedule to fall due")
    same("the cancelling", schedules.cancel("tick"), True)
    first, second = case.queue.jobs.browse("pending", newest_first=False)[:2]
    same("the first id below the second", first.id < second.id, True)


def batch_delay(case: Case) -> None:
    jobs = case.queue.jobs
    job_id = jobs.enqueue(b"x").job_id
    jobs.delay(case.one(), 0.030)
    same("its token", jobs.get(job_id).attempts, 1)
    same("a place in the schedule", case.score("schedule", job_id) is not None, True)
    same("its place in active", case.score("active", job_id), None)
    same("a claim before its time", jobs.claim(), [])
    case.promoted()
    same("the next token", case.one().attempts, 2)


def batch_delay_stale(case: Case) -> None:
    jobs = case.queue.jobs
    jobs.enqueue(b"x")
    held = case.one()
    call = case.queue.call("jobs/extend_locks", 60_000, held.job_id, 99)
    words = case.client.drive(case.client.run(unknown(case, call)))
    same("the answer of a script that had to be loaded", words, [b"stale"])
    with refused("a delay under token 99", StaleToken):
        jobs.delay(replace(held, attempts=99), 1)
    jobs.delay(held, 1)
    with refused("a delay of a missing job", JobGone):
        jobs.delay(replace(held, job_id=case.missing()), 1)


def lock_extend(case: Case) -> None:
    jobs = case.queue.jobs
    job_id = jobs.enqueue(b"x").job_id
    held = case.one(lease=0.050)
    deadline = case.score("active", job_id) or 0
    jobs.extend_lock(held, 60)
    case.until(lambda: case.server_ms() > deadline, "the first lease to end")
    same("jobs reaped", jobs.reap(), 0)
    same("its state", jobs.state(job_id), "active")
    with refused("an extension under token 99", StaleToken):
        jobs.extend_lock(replace(held, attempts=99), 60)
    with refused("an extension of a missing job", JobGone):
        jobs.extend_lock(replace(held, job_id=case.missing()), 60)


def extend_locks_batch(case: Case) -> None:
    jobs = case.queue.jobs
    jobs.enqueue_many([b"x"] * 3)
    good, other, gone = jobs.claim(3)
    other = replace(other, attempts=99)
    gone = replace(gone, job_id=case.missing())
    over = jobs.extend_locks([good, other, gone], 60)
    same("the claims that are over", over, [other.job_id, gone.job_id])


def stalled(case: Case) -> None:
    queue = case.queue
    job_id = queue.jobs.enqueue(b"x").job_id
    case.one(lease=0.005)
    case.until(lambda: queue.stalled.check(max_stalled=2).recovered, "the lease to lapse")
    same("its state", queue.jobs.state(job_id), "pending")
    same("stalled, after one lapse", queue.stalled.is_stalled(job_id), False)
    case.one(lease=0.005)
    case.until(lambda: queue.stalled.check(max_stalled=2).dead, "the lease to lapse")
    same("its last error", queue.jobs.get(job_id).last_error, "stalled")
    same("stalled, after two", queue.stalled.is_stalled(job_id), True)


def stalled_group(case: Case) -> None:
    queue, lane = case.queue, "PRT0NsVQMCRgHI"
    job_id = queue.jobs.enqueue(b"x", lane=lane).job_id
    case.one(lease=0.005)
    case.until(lambda: queue.stalled.check(max_stalled=2).recovered, "the lease to lapse")
    same("its score in its lane", case.score(f"g:{lane}:pending", job_id), 0)
    same("its place in the flat set", case.score("pending", job_id), None)
    again = case.one()
    same("the next claim", (again.attempts, again.lane), (2, lane))


def cancel(case: Case) -> None:
    token = CancelToken()
    same("a token", token.check(), None)
    token.cancel("the reason")
    same("a cancelled token", token.check(), "the reason")
    with refused("to go on", Cancelled):
        token.raise_if_cancelled()


def native_lock_field(case: Case) -> None:
    job_id = case.queue.jobs.enqueue(b"x").job_id
    case.queue.jobs.extend_lock(case.one(lease=30), 30)
    key = case.queue.keys.job(job_id)
    (field_ms,) = case.command("HPTTL", key, "FIELDS", 1, "lock")
    same(f"a time to live of the field, up to a minute ({field_ms})", 0 < field_ms <= 60_000, True)
    marker_ms = case.command("PTTL", key + b":lock")
    same(f"one of the marker ({marker_ms})", 0 < marker_ms <= 60_000, True)
    case.command("HPEXPIREAT", key, 1, "FIELDS", 1, "lock")
    row = case.row(job_id)
    same("the field after its time", row.get(b"lock"), None)
    same("the state after its time", row.get(b"state"), b"active")


def native_lock_refuses(case: Case) -> None:
    jobs = case.queue.jobs
    job_id = jobs.enqueue(b"x").job_id
    key = case.queue.keys.job(job_id)
    case.command("HSET", key, "lock", "1")
    case.command("HPEXPIRE", key, 60_000, "FIELDS", 1, "lock")
    with refused("to remove a locked job", JobLocked):
        jobs.remove(job_id)
    case.command("HPEXPIREAT", key, 1, "FIELDS", 1, "lock")
    jobs.remove(job_id)
    same("its state", jobs.state(job_id), "absent")


def pool_enqueue(case: Case) -> None:
    job_id = case.missing()
    with ThreadPoolExecutor(4) as pool:
        admissions = pool.map(lambda n: case.queue.jobs.enqueue(b"%d" % n, job_id=job_id), range(8))
        outcomes = sorted(admission.outcome for admission in admissions)
    same("the outcomes", outcomes, ["duplicate"] * 7 + ["enqueued"])
    members = case.command("ZRANGE", case.queue.keys.pending, 0, -1, "WITHSCORES")
    same("what waits", members, [job_id.encode(), b"0"])


def pool_order(case: Case) -> None:
    with ThreadPoolExecutor(4) as pool:
        ids = list(pool.map(lambda n: case.queue.jobs.enqueue(b"%d" % n).job_id, range(5)))
    newest = [job.id for job in case.queue.jobs.browse("pending")]
    same("the newest first", newest, sorted(ids, reverse=True))
