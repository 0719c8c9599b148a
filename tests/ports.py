"""Ports for servers that a test starts, and may kill and start again."""

from __future__ import annotations

import fcntl
import os
import random
import socket
import tempfile
from contextlib import ExitStack
from itertools import islice
from pathlib import Path
from typing import IO

# Below what systems give to outgoing connections, which would take a port while its server is
# down, and so that the cluster bus, 10,000 above, is there too.
_RANGE = range(12_000, 22_000)
_BUS = 10_000
_taken: list[IO[bytes]] = []


def free_ports(count: int) -> list[int]:
    """Ports of which the cluster bus is free too. They are this process's until it ends: other
    processes that ask here, such as those of pytest-xdist, get others."""
    return list(islice(filter(_take, random.sample(_RANGE, len(_RANGE))), count))


def free_port() -> int:
    return free_ports(1)[0]


def listens(port: int) -> bool:
    with socket.socket() as probe:
        return probe.connect_ex(("127.0.0.1", port)) == 0


def _take(port: int) -> bool:
    folder = Path(tempfile.gettempdir()) / f"echomq-test-ports-{os.getuid()}"
    folder.mkdir(exist_ok=True)
    with ExitStack() as undo:
        lock = undo.enter_context((folder / str(port)).open("wb"))
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
            for each in port, port + _BUS:
                socket.create_server(("127.0.0.1", each)).close()
        except OSError:
            return False
        undo.pop_all()
    _taken.append(lock)
    return True
