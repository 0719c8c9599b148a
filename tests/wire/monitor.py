"""What the server was asked, as its MONITOR tells it."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import redis

_OF_SENTINELS = ("PING", "INFO", "PUBLISH __sentinel__")


class Asked(NamedTuple):
    """One command: its logical database, whether a script ran it, and its words."""

    db: int
    by_script: bool
    text: str


class Recording:
    def __init__(self, raw: redis.Redis, monitor: redis.client.Monitor) -> None:
        self._raw = raw
        self._monitor = monitor

    def seen(self) -> list[Asked]:
        """The commands since the recording began, or since this was last asked; what sentinels
        send is left out."""
        watched = "ECHOMQ_TEST_SENTINELS" in os.environ
        mark = secrets.token_hex(8)
        self._raw.echo(mark)
        found = []
        while True:
            command = self._monitor.next_command()
            if mark in command["command"]:
                return found
            if watched and command["command"].startswith(_OF_SENTINELS):
                continue
            found.append(Asked(command["db"], command["client_type"] == "lua", command["command"]))

    def sent(self) -> list[str]:
        """The commands that clients sent; those of scripts are left out."""
        return [asked.text for asked in self.seen() if not asked.by_script]


@contextmanager
def recorded(raw: redis.Redis) -> Iterator[Recording]:
    """Records every command that the server gets, of any client."""
    with raw.monitor() as monitor:
        recording = Recording(raw, monitor)
        recording.seen()  # the plain client's own greeting is no part of the record
        yield recording
