"""The keyspace: every key of a queue, built from checked names.

All keys of one queue share the hash tag ``{<queue>}``, hence one cluster slot.
"""

from __future__ import annotations

import re

from .errors import InvalidName

VERSION_KEY = b"{emq}:version"

_NAME = re.compile(r"[A-Za-z0-9._-]{1,128}", re.ASCII)
_UNIQUE = re.compile(r"[A-Za-z0-9._-]{1,255}", re.ASCII)
_RESERVED = "emq"


def check_queue(name: object) -> str:
    """The queue name, unchanged.

    Raises:
        InvalidName: unless it is 1 to 128 of ``A-Z a-z 0-9 . _ -`` and not the reserved ``emq``.
    """
    checked = check_name(name, "a queue")
    if checked == _RESERVED:
        raise InvalidName(f"{name!r} is reserved by the wire protocol; choose another queue name")
    return checked


def check_name(name: object, what: str) -> str:
    """The name of a lane, a schedule and the like, unchanged.

    Args:
        what: how the message calls it.

    Raises:
        InvalidName: unless it is 1 to 128 of ``A-Z a-z 0-9 . _ -``.
    """
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InvalidName(
            f"{name!r} cannot name {what}: use 1 to 128 letters, digits, '.', '_' or '-'"
        )
    return name


def check_lane(name: object) -> str:
    """The lane name, unchanged; a branded id is one.

    Raises:
        InvalidName: as :func:`check_name`.
    """
    return check_name(name, "a lane")


def check_unique(key: object) -> str:
    """The unique key, unchanged.

    Raises:
        InvalidName: unless it is 1 to 255 of ``A-Z a-z 0-9 . _ -``.
    """
    if not isinstance(key, str) or not _UNIQUE.fullmatch(key):
        raise InvalidName(
            f"{key!r} cannot be a unique key: use 1 to 255 letters, digits, '.', '_' or '-'"
        )
    return key


class Keys:
    """The keys of one queue, as bytes.

    >>> Keys("mail").pending
    b'emq:{mail}:pending'
    >>> Keys("mail").job("JOB0NgWEfAEJfs")
    b'emq:{mail}:job:JOB0NgWEfAEJfs'
    """

    __slots__ = ("base", "queue")

    def __init__(self, queue: str) -> None:
        self.queue = check_queue(queue)
        self.base = b"emq:{%s}:" % self.queue.encode()

    @property
    def pending(self) -> bytes:
        return self.base + b"pending"

    @property
    def active(self) -> bytes:
        return self.base + b"active"

    @property
    def schedule(self) -> bytes:
        return self.base + b"schedule"

    @property
    def dead(self) -> bytes:
        return self.base + b"dead"

    @property
    def outcomes(self) -> bytes:
        return self.base + b"outcomes"

    @property
    def meta(self) -> bytes:
        return self.base + b"meta"

    @property
    def wake(self) -> bytes:
        return self.base + b"wake"

    @property
    def operations(self) -> bytes:
        return self.base + b"operations"

    @property
    def events(self) -> bytes:
        """The pub/sub channel; not a key."""
        return self.base + b"events"

    def job(self, job_id: str) -> bytes:
        """The row of ``job_id``, which must have been checked."""
        return self.base + b"job:" + job_id.encode()

    def logs(self, job_id: str) -> bytes:
        return self.job(job_id) + b":logs"

    def outcome(self, job_id: str) -> bytes:
        return self.job(job_id) + b":outcome"

    def lane(self, name: str) -> bytes:
        return self.base + b"g:" + check_lane(name).encode() + b":pending"

    def metric(self, name: str) -> bytes:
        return self.base + b"metrics:" + name.encode()
