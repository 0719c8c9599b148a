"""Branded ids: three capital letters and a 63-bit snowflake in base 62, 14 bytes in all.

The number is ``(unix_ms - EPOCH_MS) << 22 | node << 12 | sequence``; the alphabet is in ASCII
order and the number is padded, so byte order, number order and mint order are one order.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from datetime import UTC, datetime
from typing import NamedTuple, TypeGuard

from .errors import InvalidId, WrongKind

EPOCH_MS = 1_704_067_200_000  # 2024-01-01T00:00:00Z
MAX_NODE = 1023
_MAX = (1 << 63) - 1
_MAX_TEXT = "AzL8n0Y58m7"
_ALPHABET = "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_VALUES = {digit: value for value, digit in enumerate(_ALPHABET)}
_PAIRS = [high + low for high in _ALPHABET for low in _ALPHABET]
_UPPER = frozenset("ABCDEFGHIJKLMNOPQRSTUVWXYZ")


class Parts(NamedTuple):
    """What a branded id says."""

    namespace: str
    unix_ms: int
    node: int
    sequence: int


def encode(namespace: str, number: int) -> str:
    """The branded id of a number.

    Args:
        namespace: three capital letters.
        number: 0 to 2**63 - 1.

    Raises:
        InvalidId: for anything else.

    >>> encode("USR", 274557032793636864)
    'USR0KHTOWnGLuC'
    """
    _check_namespace(namespace)
    if not 0 <= number <= _MAX:
        raise InvalidId(f"{number} does not fit into 63 bits")
    return namespace + _digits(number)


def _check_namespace(namespace: str) -> None:
    if len(namespace) != 3 or not _UPPER.issuperset(namespace):
        raise InvalidId(f"{namespace!r} is not a namespace: use three capital letters")


def _digits(number: int) -> str:
    pairs = _PAIRS
    number, e = divmod(number, 3844)
    number, d = divmod(number, 3844)
    number, c = divmod(number, 3844)
    number, b = divmod(number, 3844)
    number, a = divmod(number, 3844)
    return _ALPHABET[number] + pairs[a] + pairs[b] + pairs[c] + pairs[d] + pairs[e]


def decode(branded: str) -> tuple[str, int]:
    """Namespace and number of a branded id.

    Raises:
        InvalidId: if it is not one.

    >>> decode("USR0KHTOWnGLuC")
    ('USR', 274557032793636864)
    """
    check(branded)
    number = 0
    for digit in branded[3:]:
        number = number * 62 + _VALUES[digit]
    return branded[:3], number


def is_id(branded: object) -> TypeGuard[str]:
    """Whether it is a branded id."""
    return (
        isinstance(branded, str)
        and len(branded) == 14
        and _UPPER.issuperset(branded[:3])
        and all(digit in _VALUES for digit in branded[3:])
        and branded[3:] <= _MAX_TEXT
    )


def check(branded: object) -> str:
    """The branded id, unchanged.

    Raises:
        InvalidId: if it is not one; nothing is ever repaired.
    """
    if not is_id(branded):
        raise InvalidId(
            f"{branded!r} is not a branded id: three capital letters and eleven base-62 digits"
        )
    return branded


def check_job(branded: object) -> str:
    """The job id, unchanged.

    Raises:
        InvalidId: if it is not a branded id.
        WrongKind: if its namespace is not ``JOB``.
    """
    checked = check(branded)
    if checked[:3] != "JOB":
        raise WrongKind(f"{checked!r} is not a job's id: its namespace is {checked[:3]!r}")
    return checked


def parts(branded: str) -> Parts:
    """Namespace, mint time (Unix ms), node and sequence of a branded id."""
    namespace, number = decode(branded)
    return Parts(namespace, (number >> 22) + EPOCH_MS, number >> 12 & MAX_NODE, number & 0xFFF)


def minted_at(branded: str) -> datetime:
    """When the id was minted, by the clock of the process that minted it."""
    return datetime.fromtimestamp(parts(branded).unix_ms / 1000, UTC)


def min_for(unix_ms: int, namespace: str = "JOB") -> str:
    """The smallest id that can have been minted at ``unix_ms``."""
    return encode(namespace, max(0, unix_ms - EPOCH_MS) << 22)


def _clock_ms() -> int:
    return time.time_ns() // 1_000_000


class Mint:
    """Mints ids that ascend and never repeat within a process.

    One cell holds ``ms << 12 | sequence`` of the last id; the next is the larger of the clock and
    the cell plus one. A clock that steps back therefore never takes an id back, and more than
    4096 ids in a millisecond borrow from the next one.

    Args:
        clock_ms: Unix time in ms; the host's clock unless a test steers it.
    """

    def __init__(self, clock_ms: Callable[[], int] = _clock_ms) -> None:
        self._clock_ms = clock_ms
        self._lock = threading.Lock()
        self._last = 0

    def _renew_lock(self) -> None:
        # A fork may have copied the lock while another thread held it.
        self._lock = threading.Lock()

    def mint(self, node: int, namespace: str = "JOB") -> str:
        """A fresh id.

        Args:
            node: 0 to 1023, a number that no other live process uses.
        """
        return self.mint_many(node, 1, namespace)[0]

    def mint_many(self, node: int, count: int, namespace: str = "JOB") -> list[str]:
        """Fresh ids, ascending."""
        _check_namespace(namespace)
        with self._lock:
            first = max((self._clock_ms() - EPOCH_MS) << 12, self._last + 1)
            if count:
                self._last = first + count - 1
        ids = []
        high = -1
        for cell in range(first, first + count):
            number = cell >> 12 << 22 | node << 12 | cell & 0xFFF
            if number // 3844 != high:  # what neighbours share is made once
                high = number // 3844
                start = namespace + _digits(number)[:-2]
            ids.append(start + _PAIRS[number % 3844])
        return ids


#: The one mint of the process: all clients draw on it, so no id repeats among them.
process_mint = Mint()
os.register_at_fork(after_in_child=process_mint._renew_lock)
