"""The run over the scenarios."""

from __future__ import annotations

import secrets
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum
from typing import Any

from redis.exceptions import ResponseError

from ..wire.client import Client
from ..wire.endpoint import Endpoint
from . import batches, jobs, lanes, queues, rows
from .case import Case, Differs

_NAMES = """
fence mint duplicate kind order claim stale complete retry dead reap rotate pause limit schedule
repeat backoff resubscribe counts state metrics dedup rate lane_depth queue_pause drain obliterate
update_data update_progress job_logs remove_job reprocess_job lock_extend stalled events telemetry
cancel unknown_state rate_consult dedup_release extend_locks_batch stalled_group obliterate_grouped
reassign lane_drain reap_group flow_add flow_fanin flow_children_values flow_cross_queue
flow_fail_parent flow_ignore_dep flow_add_bulk flow_grandchild flow_grandchild_fail pool_enqueue
pool_order native_lock_field native_lock_refuses weighted_proportion starvation_drill batch_claim
batch_claim_short batch_partial_failure batch_shaping_floor batch_shaping_timeout
batch_shaping_partial_failure grouped_batch_affinity grouped_batch_ceiling grouped_batch_fairness
batch_partition batch_delay batch_delay_stale stream_verbs stream_append stream_group
stream_retention stream_archived stream_time_travel
"""
#: Every scenario of EchoMQ, in its order.
NAMES = tuple(_NAMES.split())

_WHY_NOT = {
    "flow_": "flows",
    "stream_": "streams",
    "telemetry": "telemetry handlers",
}
#: What is not served yet, and what it would take.
NOT_SERVED = {
    name: why for name in NAMES for start, why in _WHY_NOT.items() if name.startswith(start)
}

_MODULES = (jobs, rows, queues, lanes, batches)


class Verdict(StrEnum):
    """How a scenario ended."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_SERVED = "not served"


@dataclass(frozen=True, slots=True)
class Result:
    """One scenario.

    Attributes:
        name: as EchoMQ has it.
        verdict: how it ended.
        why: of a failure, what differs; of one that is not served, what it needs; else empty.
    """

    name: str
    verdict: Verdict
    why: str = ""


def run(
    client: Any,
    names: Sequence[str] = (),
    report: Callable[[Result], object] | None = None,
) -> list[Result]:
    """Plays scenarios, each on a throwaway queue.

    Args:
        client: a :class:`~django_echomq.wire.client.Client`, or a ``redis.Redis`` or
            ``redis.RedisCluster`` whose addresses and credentials are taken over.
        names: which; all in EchoMQ's order where none is named.
        report: called with each result as it is known.

    Returns:
        A result per scenario, in order.

    Raises:
        ValueError: there is no such scenario; nothing was sent.
        ServerUnavailable, VersionFence: there is no server, or none that takes us.
    """
    for name in names:
        if name not in NAMES:
            close = get_close_matches(name, NAMES, 1)
            hint = f": did you mean {close[0]}?" if close else ""
            raise ValueError(f"there is no scenario {name!r}{hint}")
    mark = f"conformance.{secrets.token_hex(4)}"
    endpoint = client.endpoint if isinstance(client, Client) else Endpoint.from_client(client)
    # Under a name of its own, by which a scenario finds its connection to break it.
    own = Client(endpoint.with_options(client_name=mark))
    results = []
    try:
        own.drive(own.command("PING"))
        for name in names or NAMES:
            results.append(_play(own, mark, name))
            if report:
                report(results[-1])
    finally:
        own.close()
    return results


def _play(client: Client, mark: str, name: str) -> Result:
    if name in NOT_SERVED:
        return Result(name, Verdict.NOT_SERVED, NOT_SERVED[name])
    (scenario,) = (getattr(module, name) for module in _MODULES if hasattr(module, name))
    case = Case(client, f"{mark}.{name}")
    why, lacks = "", False
    try:
        scenario(case)
    except ResponseError as error:
        why = _told(error)
        lacks = "unknown command" in why
    except Exception as error:
        why = _told(error)
    finally:
        try:
            case.close()
        except Exception as error:
            why = f"{why}; " * bool(why) + f"its queue {case.queue.name} stays: {_told(error)}"
    if lacks:
        return Result(name, Verdict.NOT_SERVED, f"by this server: {why}")
    return Result(name, Verdict.FAILED if why else Verdict.PASSED, why)


def _told(error: Exception) -> str:
    text = str(error) if isinstance(error, Differs) else f"{type(error).__name__}: {error}"
    return " ".join(text.split())
