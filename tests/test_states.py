"""``docs/states.md``: each transition of its table is walked, and no other is claimed."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from django_echomq.queue import Claim, Queue, Unique
from django_echomq.worker.promoter import tick_call
from tests.conftest import wait_until

Walk = Callable[[Callable[..., Queue]], tuple[Queue, str]]
WALKS: dict[tuple[str, str, str], Walk] = {}
PAGE = Path(__file__).resolve().parents[1] / "docs" / "states.md"


def walk(source: str, verb: str, target: str) -> Callable[[Walk], Walk]:
    def keep(function: Walk) -> Walk:
        WALKS[source, verb, target] = function
        return function

    return keep


def documented() -> set[tuple[str, str, str]]:
    table = PAGE.read_text().partition("## Transitions")[2].partition("\n## ")[0]
    rows = [[cell.strip() for cell in line.strip("|").split("|")] for line in table.splitlines()]
    return {
        (row[0], row[1].replace("`", ""), row[2])
        for row in rows
        if len(row) == 4 and row[0] not in {"from", ""} and not re.fullmatch("-+", row[0])
    }


def in_hand(queue: Queue, job_id: str, lease: float | None = None) -> Claim:
    (claim,) = queue.jobs.claim(lease=lease)
    assert queue.jobs.state(job_id) == "active"
    return claim


def beat(queue: Queue) -> None:
    queue.drive(queue.client.run(tick_call(queue, 100)))


@walk("absent", "enqueue", "pending")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    return queue, queue.jobs.enqueue(b"x").job_id


@walk("absent", "enqueue_at, enqueue_in", "scheduled")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    other = queue.jobs.enqueue_at(b"x", 253_402_300_799_999).job_id
    assert queue.jobs.state(other) == "scheduled"
    return queue, queue.jobs.enqueue_in(b"x", 3600).job_id


@walk("pending", "claim", "active")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    job_id = queue.jobs.enqueue(b"x").job_id
    in_hand(queue, job_id)
    return queue, job_id


@walk("pending", "lanes.reassign", "pending")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    job_id = queue.jobs.enqueue(b"x", lane="a").job_id
    queue.lanes.reassign(job_id, "b")
    assert queue.lanes.depths() == {"b": 1}
    return queue, job_id


@walk("pending", "lanes.drain", "absent")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    job_id = queue.jobs.enqueue(b"x", lane="a").job_id
    assert queue.lanes.drain("a") == 1
    return queue, job_id


@walk("active", "lanes.reassign", "active")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    job_id = queue.jobs.enqueue(b"x", lane="a").job_id
    in_hand(queue, job_id)
    queue.lanes.reassign(job_id, "b")
    return queue, job_id


@walk("active", "complete", "completed")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.complete(in_hand(queue, job_id))
    return queue, job_id


@walk("active", "complete, nothing kept", "absent")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make(keep_completed_ms=0)
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.complete(in_hand(queue, job_id))
    return queue, job_id


@walk("active", "retry", "scheduled")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.retry(in_hand(queue, job_id), 60, 3, "boom")
    return queue, job_id


@walk("active", "retry, budget used up", "dead")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.retry(in_hand(queue, job_id), 60, 1, "boom")
    return queue, job_id


@walk("active", "release", "pending")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.release(in_hand(queue, job_id))
    return queue, job_id


@walk("active", "reap, lease lapsed", "pending")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.claim(lease=0.001)
    wait_until(queue.jobs.reap)
    return queue, job_id


@walk("active", "stalled.check, lease lapsed", "pending")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make(max_stalled=2)
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.claim(lease=0.001)
    wait_until(lambda: queue.stalled.check().recovered)
    return queue, job_id


@walk("active", "stalled.check, lapsed too often", "dead")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make(max_stalled=1)
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.claim(lease=0.001)
    wait_until(lambda: queue.stalled.check().dead)
    return queue, job_id


@walk("scheduled", "promote, due", "pending")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    job_id = queue.jobs.enqueue_in(b"x", 0.001).job_id
    wait_until(queue.jobs.promote)
    return queue, job_id


@walk("absent", "repeat.fire, schedule due", "pending")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    queue.repeat.register("tick", payload=b"x", every=0.01)
    wait_until(queue.repeat.fire)
    (job,) = queue.jobs.browse("pending")
    return queue, job.id


@walk("pending", "reschedule", "scheduled")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.reschedule(job_id, 253_402_300_799_999)
    return queue, job_id


@walk("scheduled", "reschedule", "scheduled")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    job_id = queue.jobs.enqueue_in(b"x", 3600).job_id
    queue.jobs.reschedule(job_id, 0)
    return queue, job_id


@walk("scheduled", "promote_now", "pending")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    job_id = queue.jobs.enqueue_in(b"x", 3600).job_id
    queue.jobs.promote_now(job_id)
    return queue, job_id


@walk("active", "delay", "scheduled")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make()
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.delay(in_hand(queue, job_id), 60)
    return queue, job_id


@walk("completed", "time, KEEP_COMPLETED over", "absent")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make(keep_completed_ms=1)
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.complete(in_hand(queue, job_id))
    wait_until(lambda: queue.jobs.state(job_id) == "absent")
    beat(queue)
    assert queue.jobs.browse("completed") == []
    return queue, job_id


@walk("dead", "time, KEEP_DEAD over", "absent")
def _(make: Callable[..., Queue]) -> tuple[Queue, str]:
    queue = make(keep_dead_ms=50)
    job_id = queue.jobs.enqueue(b"x").job_id
    queue.jobs.retry(in_hand(queue, job_id), 0, 1, "boom")
    assert queue.jobs.state(job_id) == "dead"

    def trimmed() -> bool:
        beat(queue)
        return queue.jobs.state(job_id) == "absent"

    wait_until(trimmed)
    return queue, job_id


# The operator's verbs: each source state, and the verbs that lead out of it


def standing(make: Callable[..., Queue], state: str, **options: int) -> tuple[Queue, str]:
    """A queue with one job in a state."""
    queue = make(**options)
    unique = Unique("key", on_conflict="replace")
    if state == "scheduled":
        return queue, queue.jobs.enqueue_in(b"x", 3600, unique=unique).job_id
    job_id = queue.jobs.enqueue(b"x", lane="a", priority=3, unique=unique).job_id
    if state == "cancelled":
        queue.jobs.cancel(job_id)
    elif state in ("active", "completed", "dead"):
        claim = in_hand(queue, job_id)
        if state == "completed":
            queue.jobs.complete(claim)
        elif state == "dead":
            queue.jobs.retry(claim, 0, 1)
    assert queue.jobs.state(job_id) == state
    return queue, job_id


def replace(queue: Queue, job_id: str) -> None:
    queue.jobs.enqueue(b"y", unique=Unique("key", on_conflict="replace"))


def stop(queue: Queue, job_id: str) -> None:
    """Its worker is asked, and does as it is told."""
    assert queue.jobs.cancel(job_id) == "asked"
    claim = Claim(job_id, b"x", 1)
    slot = queue.client.take_slot()
    call = queue.jobs.exchange_call(slot, [queue.jobs.cancellation(claim, "stop")], 0, "w")
    queue.drive(queue.client.run(call))
    queue.client.give_slot(slot)


def give_back(queue: Queue, job_id: str) -> None:
    queue.jobs.cancel(job_id)
    queue.jobs.release(Claim(job_id, b"x", 1))


def lapse(queue: Queue, job_id: str) -> None:
    queue.jobs.cancel(job_id)
    queue.jobs.extend_lock(Claim(job_id, b"x", 1), 0.001)
    wait_until(lambda: queue.jobs.reap() or queue.jobs.state(job_id) == "cancelled")


def outlive(queue: Queue, job_id: str) -> None:
    wait_until(lambda: queue.jobs.state(job_id) == "absent")
    beat(queue)
    assert queue.jobs.browse("completed") == []


def remove(queue: Queue, job_id: str) -> None:
    queue.jobs.remove(job_id)


def cancel(queue: Queue, job_id: str) -> None:
    queue.jobs.cancel(job_id)


def reprocess(queue: Queue, job_id: str) -> None:
    queue.jobs.reprocess(job_id)


def obliterate(queue: Queue, job_id: str) -> None:
    queue.admin.pause()
    queue.admin.obliterate()


Verb = Callable[[Queue, str], object]
REPLACED = "enqueue, replaced under its unique key"
OPERATOR: dict[tuple[str, str, str], Verb] = {
    ("active", "cancel, its handler stops", "cancelled"): stop,
    ("active", "cancel, then retry, delay or release", "cancelled"): give_back,
    ("active", "cancel, lease lapsed", "cancelled"): lapse,
    ("pending", "drain", "absent"): lambda queue, job_id: queue.admin.drain(),
    ("scheduled", "drain, the schedule too", "absent"): lambda queue, job_id: queue.admin.drain(
        include_scheduled=True
    ),
    ("scheduled", "promote_all", "pending"): lambda queue, job_id: queue.admin.promote_all(),
    ("dead", "reprocess_all", "pending"): lambda queue, job_id: queue.admin.reprocess_all(),
    ("any", "obliterate", "absent"): obliterate,
    ("cancelled", "time, KEEP_COMPLETED over", "absent"): outlive,
    **{(state, "cancel", "cancelled"): cancel for state in ("pending", "scheduled")},
    **{(state, REPLACED, "cancelled"): replace for state in ("pending", "scheduled")},
    **{(state, "reprocess", "pending"): reprocess for state in ("dead", "cancelled")},
}
for _state in ("pending", "scheduled", "completed", "cancelled", "dead"):
    OPERATOR[_state, "remove", "absent"] = remove
    OPERATOR[_state, "clean", "absent"] = lambda queue, job_id, state=_state: queue.admin.clean(
        state, 0
    )


def operated(source: str, verb: Verb, **options: int) -> Walk:
    def play(make: Callable[..., Queue]) -> tuple[Queue, str]:
        queue, job_id = standing(make, source, **options)
        verb(queue, job_id)
        return queue, job_id

    return play


for (_source, _verb, _target), _play in OPERATOR.items():
    _kept = {"keep_completed_ms": 3_000} if _verb.startswith("time") else {}
    _from = "dead" if _source == "any" else _source
    walk(_source, _verb, _target)(operated(_from, _play, **_kept))


@pytest.mark.parametrize("transition", sorted(WALKS), ids=" ".join)
def test_a_transition_of_the_page(
    transition: tuple[str, str, str], make_queue: Callable[..., Queue], raw: redis.Redis
) -> None:
    queue, job_id = WALKS[transition](make_queue)
    assert queue.jobs.state(job_id) == transition[2]


def test_the_page_and_the_walks_name_the_same_transitions() -> None:
    assert documented() == set(WALKS)
