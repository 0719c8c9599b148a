"""A PostgreSQL of the run's own."""

from __future__ import annotations

import json
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import psycopg
import pytest

from tests.conftest import ROOT, Command, wait_until


def programs() -> Path | None:
    """The folder of the newest server that is installed; Debian's are not on PATH."""
    found = Path("/usr/lib/postgresql").glob("*/bin/initdb")
    newest = max(found, key=lambda path: float(path.parts[-3]), default=None)
    on_path = shutil.which("initdb")
    return newest.parent if newest else Path(on_path).parent if on_path else None


def unprivileged() -> str | None:
    """Whom to run the server as, since it refuses to be root's."""
    if os.geteuid():
        return None
    known = {entry.pw_name for entry in pwd.getpwall()}
    return "postgres" if "postgres" in known else "nobody"


@dataclass
class Postgres:
    """A cluster behind a socket in a folder."""

    folder: Path

    def connect(self) -> psycopg.Connection:
        return psycopg.connect(
            host=str(self.folder), user="echomq", dbname="postgres", autocommit=True
        )

    def backends(self, name: str) -> dict[int, str]:
        """The state of the connections under an application name, by the pid of the server's."""
        query = "SELECT pid, state FROM pg_stat_activity WHERE application_name = %s"
        with self.connect() as connection:
            return dict(connection.execute(query, [name]).fetchall())

    def drop(self, name: str) -> None:
        """Ends the connections under a name from the server's side."""
        query = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s"
        with self.connect() as connection:
            connection.execute(query, [name])
        wait_until(lambda: not self.backends(name), "the connections to be gone")

    def environment(self, name: str, max_age: int) -> dict[str, str]:
        """What puts a process of a test on this server."""
        database: dict[str, Any] = {
            "ENGINE": "django.db.backends.postgresql",
            "HOST": str(self.folder),
            "USER": "echomq",
            "NAME": "postgres",
            "CONN_MAX_AGE": max_age,
            "OPTIONS": {"application_name": name},
        }
        return {"ECHOMQ_TEST_DATABASE": json.dumps(database)}


@pytest.fixture(scope="session")
def postgres() -> Iterator[Postgres]:
    """A server with the table of content types.

    Skips where none is installed, unless ``ECHOMQ_TEST_POSTGRES=1`` says that one is.
    """
    binaries = programs()
    if binaries is None:
        assert os.environ.get("ECHOMQ_TEST_POSTGRES") != "1", "PostgreSQL's initdb is not found"
        pytest.skip("PostgreSQL is not installed (Debian, Ubuntu: apt install postgresql)")
    folder = Path(tempfile.mkdtemp(prefix="emq-pg-", dir="/tmp"))  # short, for the socket's path
    user = unprivileged()
    if user:
        shutil.chown(folder, user)
    data = folder / "data"
    initdb = [binaries / "initdb", "-D", data, "-U", "echomq", "-A", "trust", "--no-sync"]
    made = subprocess.run(
        [*initdb, "-E", "UTF8", "--locale=C"], user=user, cwd=folder, capture_output=True, text=True
    )
    assert made.returncode == 0, made.stdout + made.stderr
    options = ["-h", "", "-k", folder, "-F", "-c", "shared_buffers=16MB"]
    with (folder / "log").open("wb") as log:
        server = subprocess.Popen(
            [binaries / "postgres", "-D", data, *options],
            user=user,
            cwd=folder,
            stdout=log,
            stderr=log,
        )
    cluster = Postgres(folder)
    try:
        wait_until(lambda: answers(cluster, server), "PostgreSQL", step=0.05)
        subprocess.run(
            [sys.executable, "-m", "django", "migrate", "contenttypes", "-v0"],
            cwd=ROOT,
            env={
                **os.environ,
                **cluster.environment("migrate", 0),
                "DJANGO_SETTINGS_MODULE": "tests.settings",
                "PYTHONPATH": str(ROOT),
            },
            check=True,
        )
        yield cluster
    finally:
        server.send_signal(signal.SIGINT)  # a fast shutdown
        server.wait(30)
        shutil.rmtree(folder, ignore_errors=True)


def answers(postgres: Postgres, server: subprocess.Popen[bytes]) -> bool:
    assert server.poll() is None, (postgres.folder / "log").read_text()
    try:
        postgres.connect().close()
    except psycopg.OperationalError:
        return False
    return True


@pytest.fixture
def on_postgres(postgres: Postgres, command: Callable[..., Command]) -> Callable[..., Command]:
    """Starts a worker of the queue ``fast`` on PostgreSQL."""

    def start(*args: str, name: str, max_age: int = 600) -> Command:
        return command("echomq_worker", "fast", *args, env=postgres.environment(name, max_age))

    return start
