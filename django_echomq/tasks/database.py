"""What a job finds and leaves of Django's database connections.

Django keeps connections per thread, and renews them at the start and end of a request. A job is no
request, so that is done here: a job finds no connection that is too old or that the server has
dropped, and leaves no transaction to the next job on its thread.

Whether an idle connection was dropped is seen without a round trip: what a server says unasked is
a farewell, or rare enough to be asked about. A connection that dies in silence (a firewall forgets
it) looks well; against that stand ``CONN_HEALTH_CHECKS`` and the keepalives of TCP.
"""

from __future__ import annotations

import logging
import select
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from typing import Any

from asgiref.sync import sync_to_async
from django.conf import settings
from django.db import connections, reset_queries
from django.db.backends.base.base import BaseDatabaseWrapper
from django.db.backends.signals import connection_created

logger = logging.getLogger("django_echomq.tasks")

_IDLE = 1.0  # seconds after which a connection that cannot be looked at is asked

_lock = threading.Lock()
_in_flight = 0  # coroutines; they share one thread for their database work
_made_elsewhere = False  # whether any connection was ever made on a thread that runs no jobs


class _Here(threading.local):
    runs_jobs = False
    looked_at = 0.0
    may_have = True  # whether a connection may be open here


_here = _Here()


def _note(**kwargs: Any) -> None:
    global _made_elsewhere
    _here.may_have = True
    if not _here.runs_jobs:
        _made_elsewhere = True


connection_created.connect(_note)


class fresh_connections:  # noqa: N801 - used as a function
    """Around a job, on its thread. A transaction that the caller has open is left alone."""

    __slots__ = ("_before", "_callers")

    def __enter__(self) -> None:
        self._before, _here.runs_jobs = _here.runs_jobs, True
        self._callers: set[str] = set()
        if _here.may_have and (opened := _open()):
            self._callers = {each.alias for each in opened if each.in_atomic_block}
            _renew()

    def __exit__(self, *error: object) -> None:
        if _here.may_have and _open():
            _roll_back(self._callers)
            _tidy()
        elif settings.DEBUG:
            reset_queries()
        _here.runs_jobs = self._before


class fresh_async_connections:  # noqa: N801 - used as a function
    """Around a coroutine. Its database work happens on the thread that ``sync_to_async`` keeps for
    all coroutines, so a connection that works is not closed while others are in flight.

    The way to that thread costs more than a short job, and is spared as long as nobody has made a
    connection there.
    """

    __slots__ = ()

    async def __aenter__(self) -> None:
        _count_in_flight(1)
        if _made_elsewhere:
            try:
                await sync_to_async(_renew)(lambda: _in_flight == 1)
            except BaseException:
                _count_in_flight(-1)
                raise

    async def __aexit__(self, *error: object) -> None:
        _count_in_flight(-1)
        if _made_elsewhere:
            await sync_to_async(_tidy)(lambda: _in_flight == 0)


def _count_in_flight(by: int) -> None:
    global _in_flight
    with _lock:
        _in_flight += by


def _open() -> list[BaseDatabaseWrapper]:
    """The connections of this thread."""
    opened = [
        each for each in connections.all(initialized_only=True) if each.connection is not None
    ]
    _here.may_have = bool(opened)
    return opened


def _renew(alone: Callable[[], bool] = lambda: True) -> None:
    """Closes what is too old, and what has failed or was dropped.

    Args:
        alone: whether no other job uses the connections of this thread.
    """
    idle = time.monotonic() - _here.looked_at
    for connection in _open():
        if connection.in_atomic_block:
            continue
        try:
            if alone():
                connection.close_if_unusable_or_obsolete()
            suspect = connection.errors_occurred or _speaks(connection.connection, idle)
            if connection.connection is not None and suspect and not connection.is_usable():
                _drop(connection)
        except Exception as error:
            _give_up(connection, error)


def _roll_back(callers: set[str]) -> None:
    """Ends the transactions that a job left open, on all databases but these."""
    for connection in _open():
        try:
            if connection.alias in callers or not _in_transaction(connection):
                continue
            logger.warning(
                "A job left a transaction open on the database %r: it is rolled back",
                connection.alias,
            )
            _drop(connection)
        except Exception as error:
            _give_up(connection, error)


def _tidy(alone: Callable[[], bool] = lambda: True) -> None:
    """Closes what the settings do not keep beyond a job."""
    if alone():
        reset_queries()
        for connection in _open():
            if connection.in_atomic_block:
                continue
            try:
                connection.close_if_unusable_or_obsolete()
            except Exception as error:
                _give_up(connection, error)
    _here.looked_at = time.monotonic()


def _speaks(connection: Any, idle: float) -> bool:
    """Whether the server has said something unasked; where that cannot be seen, whether it has had
    the time to.

    Args:
        connection: the driver's.
        idle: seconds since its last job.
    """
    if not hasattr(connection, "fileno"):
        return connection is not None and idle > _IDLE
    try:
        poll = select.poll()
        poll.register(connection.fileno(), select.POLLIN)
        return bool(poll.poll(0))
    except Exception:
        return True  # a driver's way to say that it is closed


def _in_transaction(connection: BaseDatabaseWrapper) -> bool:
    """Whether a transaction is open, through Django or behind its back."""
    driver = connection.connection
    if connection.in_atomic_block:
        return True
    if connection.vendor == "postgresql":
        # libpq's PQTRANS_ACTIVE, INTRANS and INERROR; a dead connection is in none of them.
        return int(driver.info.transaction_status) in (1, 2, 3)
    return bool(getattr(driver, "in_transaction", False))


def _give_up(connection: BaseDatabaseWrapper, error: Exception) -> None:
    logger.error("The connection to the database %r is given up", connection.alias, exc_info=error)
    _drop(connection)


def _drop(connection: BaseDatabaseWrapper) -> None:
    """Closes a connection whatever state it is in; the next use of the database makes another."""
    with suppress(Exception):
        connection.close()
    # With it goes what Django remembers of a transaction.
    del connections[connection.alias]
