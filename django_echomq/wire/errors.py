"""Refusals of the queue, each named for its condition.

A refusal that a script raised carries the wire class it came from (the first word of the
server's error reply) in :attr:`EchoMQError.wire_class`.
"""

from __future__ import annotations

from typing import ClassVar


class EchoMQError(Exception):
    """Base of every refusal of this package."""

    #: First word of the server's error reply, where the refusal came from a script.
    wire_class: ClassVar[str | None] = None


class InvalidId(EchoMQError, ValueError):
    """The text is not a branded id."""


class InvalidName(EchoMQError, ValueError):
    """The text cannot name a queue, a lane or a unique key."""


class PayloadTooLarge(EchoMQError, ValueError):
    """The payload is longer than the queue takes."""


class WrongKind(EchoMQError, ValueError):
    """The id is valid, but its namespace is not ``JOB``."""

    wire_class = "EMQKIND"


class StaleToken(EchoMQError):
    """The job is held under another token: the caller's claim is over. Nothing changed."""

    wire_class = "EMQSTALE"


class JobGone(EchoMQError, LookupError):
    """There is no such job (any more). Nothing changed."""


class JobLocked(EchoMQError):
    """A worker holds the job."""

    wire_class = "EMQLOCK"


class WrongState(EchoMQError):
    """The job or queue is not in the state that the verb needs. Nothing changed."""

    wire_class = "EMQSTATE"


class NotDead(WrongState):
    """Only a dead job can be reprocessed."""


class NotPaused(WrongState):
    """Only a paused queue can be obliterated."""


class ActiveJobs(WrongState):
    """The queue still has jobs in hand."""


class RateLimited(EchoMQError):
    """The queue is at its limit."""

    wire_class = "EMQRATE"


class VersionFence(EchoMQError):
    """The server belongs to another wire version; nothing was sent to it."""


class Superseded(EchoMQError):
    """A later call of the same client overtook this one; it was not run."""

    wire_class = "EMQOLD"


class StalledJob(EchoMQError):
    """The job's lease lapsed too often: whoever works on it dies or hangs."""


class UnsafeClient(EchoMQError, TypeError):
    """The client cannot carry bytes unchanged."""


class ServerUnavailable(EchoMQError, ConnectionError):
    """The server did not answer within the time allowed."""


class WritesRefused(EchoMQError):
    """The server answers, but takes no writes for now. Nothing changed."""


_WRITES_REFUSED = {
    "OOM": "it is at its maxmemory: let workers empty the queues, or give it more",
    "MISCONF": "it cannot write to its disk: look at the space there, and into its log",
    "NOREPLICAS": "it has fewer replicas than min-replicas-to-write asks for",
}
_STATE_REFUSALS: dict[str, type[WrongState]] = {
    "not dead": NotDead,
    "not paused": NotPaused,
    "active jobs present": ActiveJobs,
}
_BY_WIRE_CLASS: dict[str, type[EchoMQError]] = {
    "EMQKIND": WrongKind,
    "EMQSTALE": StaleToken,
    "EMQLOCK": JobLocked,
    "EMQRATE": RateLimited,
    "EMQOLD": Superseded,
}


def refusal(message: str) -> EchoMQError | None:
    """The exception for a server error reply, or ``None`` where it is not one of ours.

    Args:
        message: the whole text of the error reply; its first word is the wire class.
    """
    word, _, detail = message.partition(" ")
    if word in _WRITES_REFUSED:
        return WritesRefused(f"the server takes no writes: {_WRITES_REFUSED[word]}")
    if word == "EMQSTATE":
        return _STATE_REFUSALS.get(detail, WrongState)(detail)
    if word == "EMQSTALE" and detail == "job gone":
        return JobGone(detail)
    known = _BY_WIRE_CLASS.get(word)
    return known(detail) if known else None
