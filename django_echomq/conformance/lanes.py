"""Lanes and batches of lanes.

A claim of the original serves one lane; ours goes on through as many turns as it has room for. A
turn of the original's is a claim of one job here, a weighted turn as many claims of one, and its
claim of a whole lane is a claim while no other lane is to be served.
"""

from __future__ import annotations

from .case import Case, same


def enqueued(case: Case, lane: str, count: int) -> list[str]:
    admissions = case.queue.jobs.enqueue_many([b"x"] * count, lane=lane)
    return [admission.job_id for admission in admissions]


def turns(case: Case, count: int) -> list[str | None]:
    return [claim.lane for _ in range(count) for claim in case.queue.jobs.claim()]


def rotate(case: Case) -> None:
    lanes = ["PRT0NsVQMCRgHI", "PRT0NsVQMCRgHJ"]
    for lane in lanes:
        enqueued(case, lane, 2)
    same("four turns", turns(case, 4), lanes * 2)


def pause(case: Case) -> None:
    lanes = case.queue.lanes
    for lane in ("a", "b"):
        enqueued(case, lane, 2)
    lanes.pause("a")
    same("three turns with a paused", turns(case, 3), ["b", "b"])
    same("the depth of a", lanes.depth("a"), 2)
    lanes.resume("a")
    same("a turn with a resumed", turns(case, 1), ["a"])


def limit(case: Case) -> None:
    jobs = case.queue.jobs
    case.queue.lanes.limit("a", 1)
    enqueued(case, "a", 2)
    held = case.one()
    same("a claim at the lane's limit", jobs.claim(), [])
    jobs.complete(held)
    same("the lane of the next claim", case.one().lane, "a")


def lane_depth(case: Case) -> None:
    enqueued(case, "a", 2)
    enqueued(case, "b", 1)
    same("the depths", case.queue.lanes.depths(), {"a": 2, "b": 1})


def reap_group(case: Case) -> None:
    queue = case.queue
    (mine,), (other,) = enqueued(case, "mine", 1), enqueued(case, "other", 1)
    queue.jobs.claim(2, lease=0.005)
    reaped = case.until(lambda: queue.lanes.reap("mine"), "the lease to lapse")
    same("jobs reaped", reaped, 1)
    states = [queue.jobs.state(job_id) for job_id in (mine, other)]
    same("the states", states, ["pending", "active"])
    same("the next token", case.one().attempts, 2)


def reassign(case: Case) -> None:
    queue, gactive = case.queue, case.key("gactive")
    (job_id,) = enqueued(case, "src", 1)
    same("the word", queue.lanes.reassign(job_id, "dst"), "moved")
    same("its place in src", case.score("g:src:pending", job_id), None)
    same("its score in dst", case.score("g:dst:pending", job_id), 0)
    same("the lane of its row", case.row(job_id).get(b"group"), b"dst")
    same("the word of a second move", queue.lanes.reassign(job_id, "dst"), "noop")
    held = case.one()
    same("in hand", case.hash(gactive), {b"dst": b"1"})
    same("the word for one in hand", queue.lanes.reassign(job_id, "third"), "moved")
    same("in hand after the move", case.hash(gactive), {b"third": b"1"})
    queue.jobs.complete(held)
    same("in hand after the end", case.hash(gactive), {})


def lane_drain(case: Case) -> None:
    queue = case.queue
    queue.repeat.register("tick", payload=b"x", every=3600)
    (held,) = enqueued(case, "a", 1)
    claim = case.one()
    gone = enqueued(case, "a", 2)
    (sibling,) = enqueued(case, "b", 1)
    queue.jobs.add_log(gone[0], "line")
    same("jobs drained", queue.lanes.drain("a"), 2)
    same("their states", [queue.jobs.state(job_id) for job_id in gone], ["absent"] * 2)
    same("a log of theirs", case.exists(queue.keys.logs(gone[0])), False)
    same("the ring", case.command("LRANGE", case.key("ring"), 0, -1), [b"b"])
    states = [queue.jobs.state(job_id) for job_id in (sibling, held)]
    same("the others", states, ["pending", "active"])
    same("schedules", queue.repeat.count(), 1)
    same("a lane that there is not", queue.lanes.drain("absent"), 0)
    queue.jobs.complete(claim)


def weighted_proportion(case: Case) -> None:
    case.queue.lanes.weight("a", 3)
    for lane in ("a", "b"):
        enqueued(case, lane, 60)
    served = turns(case, 80)
    a, b = served.count("a"), served.count("b")
    same(f"a served two to four times as often as b ({a}, {b})", 0 < 2 * b <= a <= 4 * b, True)
    same("jobs in hand", case.queue.metrics.counts("active"), {"active": 80})


def starvation_drill(case: Case) -> None:
    case.queue.lanes.weight("heavy", 5)
    enqueued(case, "heavy", 200)
    for lane in ("light", "lighter"):
        enqueued(case, lane, 6)
    # Three turns of the original: a heavy lane's five and two of one.
    served = turns(case, 5 + 1 + 1)
    same("light lanes served", {"light", "lighter"} - set(served), set())
    drained = 0
    while claims := case.queue.jobs.claim(50):
        drained += len(claims)
    same("all that is left", drained, 212 - 7)


def grouped_batch_affinity(case: Case) -> None:
    ids = enqueued(case, "a", 4)
    claims = case.queue.jobs.claim(4)
    same("the claims", [(c.job_id, c.lane) for c in claims], [(job_id, "a") for job_id in ids])
    same("deadlines", len({case.score("active", job_id) for job_id in ids}), 1)
    # Beside another lane, a lane's weight is the size of its batch.
    case.queue.lanes.weight("a", 4)
    ids = enqueued(case, "a", 8)
    enqueued(case, "b", 4)
    claims = case.queue.jobs.claim(4)
    same("a batch beside another lane", [claim.job_id for claim in claims], ids[:4])


def grouped_batch_ceiling(case: Case) -> None:
    jobs = case.queue.jobs
    case.queue.lanes.limit("a", 3)
    ids = enqueued(case, "a", 8)
    claims = jobs.claim(8)
    same("the claims", [claim.job_id for claim in claims], ids[:3])
    same("in hand", case.command("HGET", case.key("gactive"), "a"), b"3")
    same("a claim at the limit", jobs.claim(8), [])
    jobs.complete(claims[0])
    same("the next oldest", [claim.job_id for claim in jobs.claim(8)], ids[3:4])


def grouped_batch_fairness(case: Case) -> None:
    jobs, lanes = case.queue.jobs, {"heavy": 40, "light": 6, "lighter": 6}
    for lane, count in lanes.items():
        case.queue.lanes.limit(lane, 2)
        enqueued(case, lane, count)
    served: list[str | None] = []
    for _ in range(9):
        claims = jobs.claim(2)
        served += [claim.lane for claim in claims]
        for claim in claims:
            jobs.complete(claim)
    same("lanes served", set(served), set(lanes))
    while claims := jobs.claim(50):
        for claim in claims:
            jobs.complete(claim)
    same("the depths", case.queue.lanes.depths(), {})
