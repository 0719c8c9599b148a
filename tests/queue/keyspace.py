"""Looking at a queue's keys from outside, and steering its times."""

from __future__ import annotations

import redis

from django_echomq.queue import Claim, Queue

SETS = ("pending", "active", "schedule", "dead")


def names(queue: Queue, raw: redis.Redis) -> set[str]:
    """The queue's keys, without their base."""
    base = queue.keys.base
    found = raw.scan_iter(b"emq:{%s}:*" % queue.name.encode(), count=1000)
    return {key.removeprefix(base).decode("utf-8", "backslashreplace") for key in found}


def contents(raw: redis.Redis, key: bytes) -> object:
    """What a key holds. (The bytes of DUMP depend on the order inside of a hash table.)"""
    kind = raw.type(key)
    if kind == b"hash":
        return raw.hgetall(key)
    if kind == b"zset":
        return raw.zrange(key, 0, -1, withscores=True)
    if kind == b"list":
        return raw.lrange(key, 0, -1)
    if kind == b"set":
        return raw.smembers(key)
    return raw.get(key)


def snapshot(queue: Queue, raw: redis.Redis) -> dict[str, object]:
    """Every key with its contents; the ledger, which notes refused calls too, is left out."""
    return {
        name: contents(raw, queue.keys.base + name.encode())
        for name in sorted(names(queue, raw))
        if not name.startswith("ledger:")
    }


def endless(queue: Queue, raw: redis.Redis) -> set[str]:
    """The keys that do not end by themselves."""
    return {name for name in names(queue, raw) if raw.pttl(queue.keys.base + name.encode()) == -1}


def lanes(queue: Queue, raw: redis.Redis) -> set[str]:
    """Every lane that any key knows of."""
    base = queue.keys.base
    found = {
        name.removeprefix("g:").removesuffix(":pending")
        for name in names(queue, raw)
        if name.startswith("g:")
    }
    found |= {lane.decode() for lane in raw.lrange(base + b"ring", 0, -1)}
    found |= {lane.decode() for lane in raw.smembers(base + b"paused")}
    for mapping in (b"glimit", b"gactive"):
        found |= {lane.decode() for lane in raw.hkeys(base + mapping)}
    return found


def ring(queue: Queue, raw: redis.Redis) -> list[str]:
    return [lane.decode() for lane in raw.lrange(queue.keys.base + b"ring", 0, -1)]


def serviceable(queue: Queue, raw: redis.Redis) -> set[str]:
    """The lanes that the ring has to hold: non-empty, not paused, below their limit."""
    base = queue.keys.base
    paused = raw.smembers(base + b"paused")
    found = set()
    for lane in lanes(queue, raw):
        limit = raw.hget(base + b"glimit", lane)
        active = int(raw.hget(base + b"gactive", lane) or 0)
        below = limit is None or active < int(limit)
        if raw.zcard(queue.keys.lane(lane)) and lane.encode() not in paused and below:
            found.add(lane)
    return found


def check_ring(queue: Queue, raw: redis.Redis) -> None:
    """The ring holds each serviceable lane once and nothing else."""
    assert sorted(ring(queue, raw)) == sorted(serviceable(queue, raw))


def in_hand(queue: Queue, raw: redis.Redis) -> dict[str, int]:
    """``gactive``: jobs in hand per lane."""
    found = raw.hgetall(queue.keys.base + b"gactive")
    return {lane.decode(): int(count) for lane, count in found.items()}


def places(queue: Queue, raw: redis.Redis, job_id: str) -> list[str]:
    """The sets and lanes that a job stands in."""
    base = queue.keys.base
    keys = [*SETS, *(f"g:{lane}:pending" for lane in sorted(lanes(queue, raw)))]
    return [key for key in keys if raw.zscore(base + key.encode(), job_id) is not None]


def dropped(queue: Queue, raw: redis.Redis) -> int:
    """How many set members without a job were found and dropped."""
    return int(raw.hget(queue.keys.metric("dropped"), "count") or 0)


def lapse(queue: Queue, raw: redis.Redis, *claims: Claim) -> None:
    """Lets the leases of claims end."""
    for claim in claims:
        raw.zadd(queue.keys.active, {claim.job_id: 1}, xx=True)


def fall_due(queue: Queue, raw: redis.Redis, *job_ids: str) -> None:
    """Lets the time of scheduled jobs come."""
    for job_id in job_ids:
        raw.zadd(queue.keys.schedule, {job_id: 1}, xx=True)


def server_ms(raw: redis.Redis) -> int:
    """The server's clock."""
    seconds, micros = raw.time()
    return int(seconds) * 1000 + int(micros) // 1000
