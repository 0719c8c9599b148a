"""A big queue for the other benchmarks, written by the thousand and not job by job.

The rows are those that an enqueue and a burial leave behind.
"""

from __future__ import annotations

import json
import re
import sys
import time
from collections.abc import Iterator
from dataclasses import dataclass

from django_echomq.queue import Queue
from django_echomq.wire.ids import EPOCH_MS, encode

_STEP = 5_000
_PAYLOAD = '{"task":"shop.tasks.send_receipt","args":[%d],"kwargs":{"locale":"en","retry":true}}'
_HISTORY = {
    "attempt": 1,
    "exception": "SMTPServerDisconnected: the connection was closed",
    "traceback": "Traceback (most recent call last):\n" + '  File "shop/tasks.py", line 12\n' * 8,
    "worker": "mail-1",
}

# KEYS 1 base  ARGV 1 set  2 state  3 payload with %d  4.. ids
_FILL = """
local base, set, state, payload = KEYS[1], ARGV[1], ARGV[2], ARGV[3]
for i = 4, #ARGV do
  local id = ARGV[i]
  redis.call('ZADD', base .. set, ARGV[1] == 'schedule' and 9000000000000 + i or 0, id)
  redis.call('HSET', base .. 'job:' .. id, 'state', state, 'attempts', '0',
    'payload', string.format(payload, i))
end
"""
# KEYS 1 base  2 the history of each  ARGV 1 payload with %d  2 error  3 Unix ms of the end  4.. ids
_BURY = """
local base, payload = KEYS[1], ARGV[1]
for i = 4, #ARGV do
  local id = ARGV[i]
  redis.call('ZADD', base .. 'dead', 0, id)
  redis.call('HSET', base .. 'job:' .. id, 'state', 'dead', 'attempts', '3', 'payload',
    string.format(payload, i), 'last_error', ARGV[2], 'finished_at', ARGV[3], 'started_at', ARGV[3],
    'worker', 'mail-1', 'history', KEYS[2])
end
"""


def cpu_ms(info: bytes) -> float:
    """What the server's main thread has computed, from the reply to ``INFO cpu``."""
    parts = re.findall(rb"used_cpu_(?:sys|user)_main_thread:([0-9.]+)", info)
    return sum(map(float, parts)) * 1000


@dataclass(frozen=True)
class Big:
    """What a filled queue holds; some ids of each kind.

    Attributes:
        pending, dead, scheduled: ids, oldest first.
        lanes: names.
    """

    pending: list[str]
    dead: list[str]
    scheduled: list[str]
    lanes: list[str]


def ids(count: int, days_ago: int) -> list[str]:
    """Ids that were minted some days ago, a hundred in each millisecond."""
    first = time.time_ns() // 1_000_000 - days_ago * 86_400_000 - EPOCH_MS
    return [encode("JOB", first + n // 100 << 22 | n % 100) for n in range(count)]


def _chunks(all_ids: list[str]) -> Iterator[list[str]]:
    for start in range(0, len(all_ids), _STEP):
        yield all_ids[start : start + _STEP]
        sys.stderr.write(".")
        sys.stderr.flush()


def fill(
    queue: Queue,
    pending: int = 1_000_000,
    dead: int = 200_000,
    lanes: int = 500,
    scheduled: int = 10_000,
    in_lane: int = 100,
) -> Big:
    """Fills an empty queue; ``pending`` counts those of the lanes, ``in_lane`` in each, too."""

    def run(script: str, keys: list[bytes], *args: object) -> None:
        queue.drive(queue.client.command("EVAL", script, len(keys), *keys, *args))  # type: ignore[arg-type]

    base = queue.keys.base
    names = [f"customer-{n:04}" for n in range(lanes)]
    waiting = ids(pending - in_lane * lanes, 5)
    for chunk in _chunks(waiting):
        run(_FILL, [base], "pending", "pending", _PAYLOAD, *chunk)
    parked = ids(scheduled, 4)
    for chunk in _chunks(parked):
        run(_FILL, [base], "schedule", "scheduled", _PAYLOAD, *chunk)
    buried = ids(dead, 9)
    history = json.dumps(_HISTORY).encode()
    now = time.time_ns() // 1_000_000
    for chunk in _chunks(buried):
        error = "SMTPServerDisconnected: the connection was closed"
        run(_BURY, [base, history], _PAYLOAD, error, now, *chunk)
    for lane in names:
        queue.jobs.enqueue_many([_PAYLOAD % n for n in range(in_lane)], lane=lane)
    sys.stderr.write("\n")
    return Big(waiting, buried, parked, names)
