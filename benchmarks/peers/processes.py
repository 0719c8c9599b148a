"""The processes of a run: the server, the delaying proxy, workers, and what sends to them."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import redis

from django_echomq.wire.embedded import _find_binary

from .catalogue import Variant
from .effects import Effects

BENCHMARKS = Path(__file__).resolve().parents[1]
ROOT = BENCHMARKS.parent
_START = 30.0  # seconds that a worker has for its first job
_STALL = 15.0  # seconds without a job before a worker counts as stuck


class Failed(Exception):
    """A measurement that gave no figure; the message says why."""


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


def wait_for_port(port: int) -> None:
    end = time.monotonic() + 10
    while True:
        try:
            socket.create_connection(("127.0.0.1", port), 1).close()
            return
        except OSError:
            if time.monotonic() > end:
                raise
            time.sleep(0.02)


class Environment:
    """The interpreter that runs a variant: this one, or that of an environment of its own."""

    def __init__(self, variant: Variant) -> None:
        self.folder = Path(sys.executable).parent
        self.missing = ""
        if variant.install:
            self.folder = ROOT / f".venv-bench-{variant.system}" / "bin"
        self.version = self._version(variant)
        if self.missing and variant.install:
            self._install(variant)

    def _version(self, variant: Variant) -> str:
        ask = "import sys, importlib.metadata as m; print(*map(m.version, sys.argv[1:]))"
        try:
            found = self._run("-c", ask, *variant.packages).split()[0]
        except (Failed, FileNotFoundError) as error:
            self.missing = f"not installed: {error}"
            return ""
        self.missing = ""
        return found

    def _install(self, variant: Variant) -> None:
        try:
            home = str(self.folder.parent)
            subprocess.run([sys.executable, "-m", "venv", "--clear", home], check=True)
            self._run("-m", "pip", "install", "-qq", *variant.install)
        except (Failed, subprocess.CalledProcessError) as error:
            self.missing = f"cannot be installed: {error}"
        else:
            self.version = self._version(variant)

    def _run(self, *arguments: str) -> str:
        line = [str(self.folder / "python"), *arguments]
        done = subprocess.run(line, capture_output=True, text=True, check=False)
        if done.returncode:
            raise Failed(_last_line(done.stderr))
        return done.stdout


class Server:
    """One Valkey without persistence, for all, and the way to it over a slow network. Hashes with
    values of up to 1,024 bytes are compact, as is advised for rows with payloads."""

    def __init__(self, folder: Path, delay_ms: float = 1.0) -> None:
        self.port, self.slow_port = free_port(), free_port()
        line = [_find_binary(), "--port", str(self.port), "--bind", "127.0.0.1"]
        line += ["--save", "", "--appendonly", "no", "--dir", str(folder)]
        line += ["--hash-max-listpack-value", "1024"]
        proxy = [sys.executable, "-m", "peers.delay"]
        proxy += [str(self.slow_port), str(self.port), str(delay_ms)]
        env = {**os.environ, "PYTHONPATH": str(BENCHMARKS)}
        self._log = (folder / "server.log").open("wb")
        self._processes = [
            subprocess.Popen(line, stdout=self._log, stderr=self._log),
            subprocess.Popen(proxy, stdout=self._log, stderr=self._log, env=env),
        ]
        wait_for_port(self.port)
        wait_for_port(self.slow_port)
        self.client = redis.Redis(port=self.port)
        self.version = str(self.client.info("server").get("valkey_version", "?"))

    def url(self, slow: bool = False) -> str:
        return f"redis://127.0.0.1:{self.slow_port if slow else self.port}/0"

    def reads(self) -> int:
        """Requests that came in so far, this one among them; what a script calls is not."""
        return int(self.client.info("stats")["total_reads_processed"])

    def close(self) -> None:
        self.client.close()
        for process in self._processes:
            process.terminate()
            process.wait(10)
        self._log.close()


class Worker:
    """A worker process, and those that it starts."""

    def __init__(self, line: Sequence[str], env: dict[str, str], cwd: Path, log: Path) -> None:
        self._log = log
        with log.open("wb") as out:
            self._process = subprocess.Popen(
                line, env=env, cwd=cwd, stdout=out, stderr=out, start_new_session=True
            )

    def check(self) -> None:
        """Refuses to go on once it has ended."""
        if self._process.poll() is not None:
            raise Failed(f"the worker ended: {_last_line(self._log.read_text(errors='replace'))}")

    def processes(self) -> list[psutil.Process]:
        own = psutil.Process(self._process.pid)
        return [own, *own.children(recursive=True)]

    def cpu_seconds(self) -> float:
        """Time on a processor so far, by the scheduler's clock: ticks are too coarse for idling."""
        return (
            sum(
                int(path.read_text().split()[0])
                for process in self.processes()
                for path in Path(f"/proc/{process.pid}/task").glob("*/schedstat")
            )
            / 1e9
        )

    def resident_mib(self) -> float:
        return sum(process.memory_info().rss for process in self.processes()) / 2**20

    def stop(self) -> None:
        self._process.terminate()
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(5)
        with suppress(ProcessLookupError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()


class Bench:
    """What every measurement works with.

    Args:
        folder: for the effects, the databases and the logs.
        scale: of the numbers of jobs and the times; 1 is the whole.
        delay_ms: of the slow network, each way.

    Attributes:
        notes: why figures are missing.
    """

    def __init__(self, folder: Path, scale: float, delay_ms: float = 1.0) -> None:
        self.folder = folder
        self.scale = scale
        self.delay_ms = delay_ms
        self.server = Server(folder, delay_ms)
        self.effects = Effects(folder / "effects")
        self.notes: list[str] = []
        self._environments: dict[str, Environment] = {}
        self._empty_database = b""

    def environment(self, variant: Variant) -> Environment:
        key = f"{variant.install or variant.packages}"
        if key not in self._environments:
            self._environments[key] = Environment(variant)
        return self._environments[key]

    def jobs(self, variant: Variant) -> int:
        return max(50, round(variant.jobs * self.scale))

    def seconds(self, whole: float, least: float) -> float:
        """A time, scaled."""
        return max(least, whole * self.scale)

    def _env(
        self, variant: Variant, slow: bool = False, slots: int | None = None
    ) -> dict[str, str]:
        env = {**os.environ, "PYTHONPATH": str(BENCHMARKS), **variant.env}
        # Without cached bytecode a forked process would compile its task anew for every job.
        env.pop("PYTHONDONTWRITEBYTECODE", None)
        env |= {
            "BENCH_URL": self.server.url(slow),
            "BENCH_EFFECTS": str(self.effects.path),
            "BENCH_DB": str(self.folder / "db.sqlite3"),
        }
        if slots:
            env["BENCH_SLOTS"] = str(slots)
        return env

    def clear(self, variant: Variant) -> None:
        """A new server, as what was freed in the last one would cost the next system time; and no
        effects."""
        self.server.close()
        self.server = Server(self.folder, self.delay_ms)
        self.effects.clear()
        if variant.stored:
            return
        database = self.folder / "db.sqlite3"
        for path in self.folder.glob("db.sqlite3*"):
            path.unlink()
        if not self._empty_database:
            python = str(self.environment(variant).folder / "python")
            line = [python, "-m", "django", "migrate", "-v", "0"]
            subprocess.run(line, env=self._env(variant), cwd=self.folder, check=True)
            self._empty_database = database.read_bytes()
        database.write_bytes(self._empty_database)

    def send(
        self, variant: Variant, verb: str, first: int, count: int, *more: Any
    ) -> dict[str, Any]:
        """Sends jobs from a process of its own; see :mod:`peers.drive`."""
        line = [str(self.environment(variant).folder / "python"), "-m", "peers.drive"]
        line += [variant.module, verb, *map(str, (first, count, *more))]
        done = subprocess.run(
            line, env=self._env(variant), cwd=self.folder, capture_output=True, text=True
        )
        if done.returncode:
            raise Failed(f"sending failed: {_last_line(done.stderr)}")
        return dict(json.loads(done.stdout))

    @contextmanager
    def worker(
        self, variant: Variant, *, slow: bool = False, slots: int | None = None
    ) -> Iterator[Worker]:
        folder = self.environment(variant).folder
        values = {"bin": folder, "url": self.server.url(slow), "slots": slots or 100}
        line = [part.format(**values) for part in variant.worker]
        log = self.folder / f"{variant.system}.log"
        worker = Worker(line, self._env(variant, slow, slots), self.folder, log)
        try:
            yield worker
        finally:
            worker.stop()

    def wait(self, worker: Worker, count: int, within: float | None = None) -> None:
        """Waits until there are so many effects, or so many seconds have passed since the first.

        Raises:
            Failed: the worker ended, or is stuck.
        """
        seen, moved = 0, time.monotonic()
        began = None
        while (now := self.effects.count()) < count:
            worker.check()
            if now > seen:
                seen, moved = now, time.monotonic()
                began = began or moved
            elif time.monotonic() - moved > (_STALL if seen else _START):
                raise Failed(f"stuck after {seen} of {count} jobs")
            if within is not None and began and time.monotonic() - began > within:
                return
            time.sleep(0.005)

    def check_exact(self, count: int) -> None:
        """Refuses effects that are not those of so many jobs, each run once."""
        numbers = [number for number, _, _ in self.effects.read()]
        missing = count - len(set(numbers))
        if missing or len(numbers) != count:
            raise Failed(f"of {count} jobs {missing} missing, {len(numbers) - count} too many")


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1][:200] if lines else "(it said nothing)"
