"""What a scenario is given, and what it says where something differs."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, TypeVar

from ..queue import Claim, Queue
from ..wire.client import Argument, Client
from ..wire.errors import EchoMQError
from ..wire.ids import process_mint

T = TypeVar("T")

_PATIENCE = 10.0
_LOOK = 0.002


class Differs(AssertionError):
    """Something is not as the scenario has it; the message says what."""


def same(what: str, found: object, wanted: object) -> None:
    """Refuses what is not as it should be.

    (An ``assert`` would say less, and nothing at all under ``python -O``.)

    Raises:
        Differs: they are not equal.
    """
    if found != wanted:
        raise Differs(f"{what}: {wanted!r} was expected, {found!r} was found")


@contextmanager
def refused(what: str, refusal: type[Exception]) -> Iterator[None]:
    """Refuses a block that is not refused.

    Raises:
        Differs: it went through.
    """
    try:
        yield
    except refusal:
        return
    except EchoMQError as error:
        raise Differs(f"{what}: {refusal.__name__} was expected, not {error!r}") from error
    raise Differs(f"{what}: {refusal.__name__} was expected, it went through")


class Case:
    """A throwaway queue, and raw commands that play a stock peer.

    Args:
        client: whose server to play at.
        name: of the queue.
    """

    def __init__(self, client: Client, name: str) -> None:
        self.queue = Queue(name, client)
        self.client = self.queue.client

    def close(self) -> None:
        """Obliterates the queue."""
        self.queue.admin.pause()
        self.queue.admin.obliterate(force=True)

    def command(self, *command: Argument) -> Any:
        """One raw command; answers its reply."""
        return self.client.drive(self.client.command(*command))

    def key(self, name: str) -> bytes:
        """A key of the queue, by its name below the base."""
        return self.queue.keys.base + name.encode()

    def row(self, job_id: str) -> dict[bytes, bytes]:
        """The whole row of a job; empty where there is none."""
        return self.hash(self.queue.keys.job(job_id))

    def hash(self, key: bytes) -> dict[bytes, bytes]:
        flat = self.command("HGETALL", key)
        return dict(zip(flat[::2], flat[1::2], strict=True))

    def score(self, place: str, job_id: str) -> float | None:
        """A job's score in a set of the queue; ``None`` where it is not there."""
        found = self.command("ZSCORE", self.key(place), job_id)
        return None if found is None else float(found)

    def exists(self, key: bytes) -> bool:
        return bool(self.command("EXISTS", key))

    def server_ms(self) -> int:
        """The server's clock."""
        seconds, microseconds = self.command("TIME")
        return int(seconds) * 1000 + int(microseconds) // 1000

    def missing(self) -> str:
        """An id that no row holds."""
        return process_mint.mint(1)

    def one(self, **options: Any) -> Claim:
        """Claims the one job that may be claimed.

        Raises:
            Differs: none may be.
        """
        claims = self.queue.jobs.claim(**options)
        same("jobs of a claim of one", len(claims), 1)
        return claims[0]

    def until(self, condition: Callable[[], T], what: str) -> T:
        """Polls a condition; answers its value.

        Raises:
            Differs: it did not hold within ten seconds.
        """
        deadline = time.monotonic() + _PATIENCE
        while time.monotonic() < deadline:
            value = condition()
            if value:
                return value
            time.sleep(_LOOK)
        raise Differs(f"waited {_PATIENCE:.0f} s for {what}")

    def promoted(self) -> None:
        """Waits until the one scheduled job is due and promoted."""
        same("jobs promoted", self.until(self.queue.jobs.promote, "a job to fall due"), 1)
