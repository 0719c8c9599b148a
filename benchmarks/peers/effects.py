"""What a job does: it appends its number and two times to a file, in one write."""

from __future__ import annotations

import asyncio
import os
import struct
import time
from collections.abc import Iterator
from pathlib import Path

URL = os.environ.get("BENCH_URL", "redis://127.0.0.1:6379/0")
NAP = 0.1  # seconds

_RECORD = struct.Struct("<qqq")
_file = -1


def effect(number: int, sent: int) -> None:
    """Notes that job ``number``, sent at ``sent`` (Unix ns), has started."""
    global _file
    started = time.time_ns()
    if _file < 0:
        _file = os.open(os.environ["BENCH_EFFECTS"], os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
    os.write(_file, _RECORD.pack(number, sent, started))


async def nap(number: int, sent: int) -> None:
    """A coroutine's sleep, and the effect at its end."""
    await asyncio.sleep(NAP)
    effect(number, sent)


class Effects:
    """The file, as the bench reads it."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def clear(self) -> None:
        self.path.unlink(missing_ok=True)

    def count(self) -> int:
        return self.path.stat().st_size // _RECORD.size if self.path.exists() else 0

    def read(self) -> Iterator[tuple[int, int, int]]:
        """(number, sent, started) of every effect, in the order of their writes."""
        return _RECORD.iter_unpack(self.path.read_bytes()) if self.path.exists() else iter(())
