"""Guardian of one embedded Valkey server.

``embedded.py`` runs this file as a script (``python -I guardian.py BINARY``) in the data folder.
The guardian starts the server, starts it again when it dies, and stops it when no process uses it
any more. Everything rests on ``flock``, which the kernel releases even on ``kill -9``:

* ``users.lock``: shared by every process that uses the server; exclusive while a guardian stops it.
* ``guardian.lock``: exclusive, held by the one guardian for its life.
* ``server.lock``: exclusive, inherited by the server, so it is free only once the server is gone.
* ``start.lock``: exclusive, held by a user process while it starts a guardian.
"""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Callable

with contextlib.suppress(ImportError):  # Windows, where embedded.py refuses to work
    import fcntl

SOCKET = "valkey.sock"
LOG = "valkey.log"
USERS_LOCK = "users.lock"
GUARDIAN_LOCK = "guardian.lock"
SERVER_LOCK = "server.lock"
START_LOCK = "start.lock"

_TICK = 0.2
_IDLE = 1.0
_GRACE = 20.0
_QUICK = 2.0
_MAX_FAILURES = 4
_PR_SET_PDEATHSIG = 1

_OPTIONS = (
    ("--port", "0"),
    ("--unixsocket", SOCKET),
    ("--unixsocketperm", "700"),
    ("--save", ""),
    ("--appendonly", "yes"),
    ("--appendfsync", "everysec"),
    # Rows with payloads of up to so many bytes are stored compactly.
    ("--hash-max-listpack-value", "1024"),
    ("--maxmemory-policy", "noeviction"),
)


def try_lock(path: str | os.PathLike[str], *, shared: bool = False) -> int | None:
    """Lock a file without waiting, creating it if needed.

    Args:
        path: The lock file.
        shared: Take a shared lock instead of an exclusive one.

    Returns:
        The descriptor that holds the lock, or ``None`` if another process is in the way.
    """
    fd = os.open(path, os.O_RDWR | os.O_CREAT, 0o600)
    try:
        fcntl.flock(fd, (fcntl.LOCK_SH if shared else fcntl.LOCK_EX) | fcntl.LOCK_NB)
    except BlockingIOError:
        os.close(fd)
        return None
    except BaseException:
        os.close(fd)
        raise
    return fd


def unlock(fd: int) -> None:
    """Give up a lock, also when a process forked meanwhile has a copy of the descriptor."""
    fcntl.flock(fd, fcntl.LOCK_UN)
    os.close(fd)


def is_locked(path: str | os.PathLike[str]) -> bool:
    """Tell whether some process holds an exclusive lock on the file."""
    fd = try_lock(path, shared=True)
    if fd is None:
        return True
    unlock(fd)
    return False


def ask(path: str, command: str, timeout: float = 1.0) -> str:
    """Send one command to the server.

    Args:
        path: The Unix socket of the server.
        command: A command without arguments.
        timeout: Longest wait in seconds.

    Returns:
        The first line of the reply with its type character, or ``""`` if there was none.
    """
    try:
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
            client.settimeout(timeout)
            client.connect(path)
            client.sendall(command.encode() + b"\r\n")
            return client.makefile("rb").readline(512).decode(errors="replace").strip()
    except OSError:
        return ""


def _log(message: str) -> None:
    line = f"{time.strftime('%Y-%m-%d %H:%M:%S')} guardian {os.getpid()}: {message}\n"
    with contextlib.suppress(OSError):  # a full disk must not end the guardian
        os.write(1, line.encode(errors="surrogateescape"))


def _try_exclusive(path: str) -> int | None:
    try:
        return try_lock(path)
    except FileNotFoundError:  # the folder itself was removed
        raise
    except OSError:  # such as too many open files: assume the lock is taken and look again later
        return None


def _lock_for_life() -> int | None:
    """Take ``guardian.lock``; the retries outlast a process that only looks whether it is held."""
    for _ in range(20):
        if (fd := _try_exclusive(GUARDIAN_LOCK)) is not None:
            return fd
        time.sleep(0.01)
    return None


def _tie_to_parent() -> Callable[[], None]:
    """Return a function for the forked child: the server shall not outlive its guardian."""
    guardian = os.getpid()
    prctl: Callable[..., object] | None = None
    if sys.platform.startswith("linux"):
        with contextlib.suppress(ImportError, OSError, AttributeError):
            import ctypes

            prctl = ctypes.CDLL(None).prctl

    def in_child() -> None:
        # The guardian ignores SIGTERM; the server must not, not even before it has its handlers.
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if prctl is not None:
            prctl(_PR_SET_PDEATHSIG, int(signal.SIGTERM), 0, 0, 0)
        if os.getppid() != guardian:  # it died before prctl, so no signal will come
            os._exit(1)

    return in_child


class _Guardian:
    def __init__(self, binary: str) -> None:
        self.binary = binary
        self.in_child = _tie_to_parent()
        self.child: subprocess.Popen[bytes] | None = None
        self.started: float | None = None
        self.failures = 0

    def run(self) -> int:
        idle_since: float | None = None
        while True:
            # By path and anew each time, so that lock files removed by hand do not mislead us.
            users = _try_exclusive(USERS_LOCK)
            if users is None:
                idle_since = None
                if not self.keep_server():
                    _log("the server dies again and again: giving up")
                    return 1
            else:
                idle_since = idle_since or time.monotonic()
                if time.monotonic() - idle_since >= _IDLE:
                    # Not unlocked: new users have to wait until this process is gone.
                    _log("no user left: stopping")
                    self.stop()
                    return 0
                unlock(users)
            time.sleep(_TICK)

    def keep_server(self) -> bool:
        """Start the server if there is none; return False once that is hopeless."""
        if self.child is not None:
            self.child.poll()  # leave no zombie
        lock = _try_exclusive(SERVER_LOCK)
        if lock is None:
            return True
        try:
            if ask(SOCKET, "PING"):  # a live server whose lock file was removed
                return True
            if self.started is not None:
                quick = time.monotonic() - self.started < _QUICK
                self.failures = self.failures + 1 if quick else 0
                if self.failures == _MAX_FAILURES:
                    return False
                if quick:
                    time.sleep(0.1 * 2**self.failures)
            self.start(lock)
            return True
        finally:
            os.close(lock)  # not unlock(): the server holds on to it

    def start(self, lock: int) -> None:
        _log("starting the server")
        try:
            self.child = subprocess.Popen(
                [self.binary, *(word for option in _OPTIONS for word in option)],
                stdin=subprocess.DEVNULL,
                pass_fds=(lock,),
                preexec_fn=self.in_child,  # safe, as there are no threads
            )
        except (OSError, subprocess.SubprocessError) as error:
            _log(f"cannot run {self.binary}: {error}")
        self.started = time.monotonic()

    def stop(self) -> None:
        if self.child is not None and self.child.poll() is None:
            self.child.terminate()
            try:
                self.child.wait(_GRACE)
            except subprocess.TimeoutExpired:  # the kernel has all that it acknowledged
                _log("the server does not stop: killing it")
                self.child.kill()
                self.child.wait()
            return
        deadline = time.monotonic() + _GRACE
        while (lock := _try_exclusive(SERVER_LOCK)) is None:  # left over by a killed guardian
            if time.monotonic() > deadline:
                _log("the adopted server does not stop")
                return
            ask(SOCKET, "SHUTDOWN")
            time.sleep(0.05)
        unlock(lock)


def main(binary: str) -> int:
    """Guard a server in the current folder until no process uses it.

    Args:
        binary: Path of ``valkey-server``.

    Returns:
        The exit status: 0 also when another guardian is at work.
    """
    os.umask(0o077)
    # The process that started this one may have blocked or ignored signals, which is inherited.
    signal.pthread_sigmask(signal.SIG_SETMASK, [])
    signal.signal(signal.SIGCHLD, signal.SIG_DFL)
    # A service manager signals every process of a unit at once. The users that still finish their
    # work need the server, and without users the guardian ends by itself.
    for number in (signal.SIGHUP, signal.SIGINT, signal.SIGTERM):
        signal.signal(number, signal.SIG_IGN)
    lock = _lock_for_life()
    if lock is None:
        return 0
    # The caller waits for this process: once it ends well, a guardian holds the lock for sure, and
    # the guardian is nobody's child.
    if os.fork():
        os._exit(0)
    with contextlib.suppress(OSError):  # for people only
        os.ftruncate(lock, 0)
        os.write(lock, b"%d\n" % os.getpid())
    guardian = _Guardian(binary)
    try:
        return guardian.run()
    except FileNotFoundError:
        _log("the folder is gone: stopping")
        with contextlib.suppress(FileNotFoundError):
            guardian.stop()
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1]))
