"""A primary, two replicas and three sentinels that watch them.

``python -m tests.faults.sentinels pytest tests/queue`` runs a command, such as a part of the suite,
on such a group.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import tempfile
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import redis

from django_echomq.wire import embedded as programs
from django_echomq.wire.endpoint import Endpoint
from tests.conftest import wait_until
from tests.faults.conftest import Server

SERVICE = "main"


class _Sentinel(Server):
    """A sentinel; it keeps what it knows in its file."""

    def watch(self, port: int, down_after_ms: int) -> None:
        conf = self.folder / "sentinel.conf"
        conf.write_text(
            f"port {self.port}\nbind 127.0.0.1\n"
            f"sentinel monitor {SERVICE} 127.0.0.1 {port} 2\n"
            f"sentinel down-after-milliseconds {SERVICE} {down_after_ms}\n"
            f"sentinel failover-timeout {SERVICE} 3000\n"
            f"sentinel parallel-syncs {SERVICE} 2\n"
        )
        self._process = subprocess.Popen(
            [programs._find_binary(), str(conf), "--sentinel"],
            cwd=self.folder,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        wait_until(self._listens, "the sentinel to listen")


class Sentinels:
    """The group. ``with`` starts and ends it.

    Args:
        folder: where its data is.
        down_after_ms: silence after which a sentinel takes a server for dead.
    """

    def __init__(self, folder: Path, down_after_ms: int = 1_000) -> None:
        self._down_after_ms = down_after_ms
        self.servers = [self._make(Server, folder / f"server-{n}") for n in range(3)]
        self.sentinels = [self._make(_Sentinel, folder / f"sentinel-{n}") for n in range(3)]

    def _make(self, kind: type[Any], folder: Path) -> Any:
        folder.mkdir(parents=True)
        return kind(folder, "--repl-diskless-sync-delay", "0")

    def __enter__(self) -> Self:
        primary, *replicas = self.servers
        primary.start()
        for replica in replicas:
            replica.start("--replicaof", "127.0.0.1", str(primary.port))
        for sentinel in self.sentinels:
            sentinel.watch(primary.port, self._down_after_ms)
        self.until_whole()
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        for each in (*self.sentinels, *self.servers):
            each.raw.close()
            each.kill()

    @property
    def addresses(self) -> list[tuple[str, int]]:
        return [("127.0.0.1", sentinel.port) for sentinel in self.sentinels]

    @property
    def settings(self) -> dict[str, Any]:
        """The group as an entry of ``ECHOMQ["CONNECTIONS"]``."""
        return {"SENTINELS": self.addresses, "SERVICE": SERVICE}

    @property
    def env(self) -> dict[str, str]:
        """What has a process of the suite use the group."""
        return {"ECHOMQ_TEST_SENTINELS": json.dumps(self.settings)}

    def endpoint(self, **options: Any) -> Endpoint:
        return Endpoint.from_sentinels(self.addresses, SERVICE, **options)

    def primary(self) -> Server:
        """The server that the sentinels agree on."""
        ports = {
            int(sentinel.raw.sentinel_get_master_addr_by_name(SERVICE)[1])
            for sentinel in self.sentinels
        }
        (port,) = ports if len(ports) == 1 else (None,)
        return next((server for server in self.servers if server.port == port), self.servers[0])

    def _is_whole(self) -> bool:
        """Whether a primary serves, all others follow it, and every sentinel knows all of it."""
        try:
            primary = self.primary()
            followers = primary.raw.info("replication")
            if followers["role"] != "master" or followers["connected_slaves"] != 2:
                return False
            for server in self.servers:
                if server is not primary:
                    info = server.raw.info("replication")
                    if info["role"] != "slave" or info["master_link_status"] != "up":
                        return False
            return all(
                known["is_master"]
                and not known["is_sdown"]
                and not known["is_odown"]
                and "failover_in_progress" not in known["flags"]
                and known["num-slaves"] == 2
                and known["num-other-sentinels"] == 2
                for known in (s.raw.sentinel_master(SERVICE) for s in self.sentinels)
            )
        except redis.RedisError:
            return False

    def until_whole(self) -> None:
        wait_until(self._is_whole, "the replicas and sentinels to be in order", step=0.05)

    def kill_primary(self) -> Server:
        """Kills the primary with SIGKILL, and waits until another is; answers the dead one."""
        dead = self.primary()
        dead.kill()
        self.until_another_serves(dead)
        return dead

    def fail_over(self) -> Server:
        """Has the sentinels promote a replica, and waits until it is; answers the old primary."""
        old = self.primary()
        self.sentinels[0].raw.execute_command("SENTINEL", "FAILOVER", SERVICE)
        self.until_another_serves(old)
        return old

    def until_another_serves(self, old: Server) -> None:
        wait_until(lambda: self.primary() is not old and self._serves(), "a failover", step=0.05)

    def _serves(self) -> bool:
        try:
            return bool(self.primary().raw.info("replication")["role"] == "master")
        except redis.RedisError:
            return False


def main() -> int:
    # Takes the group along; subprocess.call does so with the command.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
    with (
        tempfile.TemporaryDirectory(prefix="sentinels-") as folder,
        # No failover for a busy machine's sake.
        Sentinels(Path(folder), down_after_ms=30_000) as group,
    ):
        return subprocess.call(
            [sys.executable, "-m", *sys.argv[1:]], env={**os.environ, **group.env}
        )


if __name__ == "__main__":
    sys.exit(main())
