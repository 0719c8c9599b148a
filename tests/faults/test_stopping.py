"""SIGTERM in each phase of a worker, as PID 1, and to a whole process group."""

from __future__ import annotations

import os
import re
import signal
import subprocess
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from django_echomq.queue import Queue
from tests.conftest import ROOT, Command, wait_until
from tests.faults.conftest import Watched
from tests.testapp import tasks

Start = Callable[..., Command]
Site = Callable[[str], Queue]
Watch = Callable[[str], Watched]

UNSHARE = ("unshare", "--pid", "--fork", "--mount-proc", "--kill-child")


def test_sigterm_before_the_worker_is_ready(site: Site, command: Start, tmp_path: Path) -> None:
    """It dies of it, as any process that is still loading; nothing was claimed."""
    tasks.noop.enqueue()
    (tmp_path / "dying_settings.py").write_text(
        "import os, signal\nfrom tests.settings import *\nos.kill(os.getpid(), signal.SIGTERM)\n"
    )
    worker = command(
        "echomq_worker",
        "default",
        env={
            "DJANGO_SETTINGS_MODULE": "dying_settings",
            "PYTHONPATH": f"{tmp_path}:{ROOT}",
        },
    )
    assert worker.wait() == -signal.SIGTERM
    job = site("default").jobs.browse("pending")[0]
    assert (job.attempts, site("default").workers.all()) == (0, [])


def test_sigterm_while_parked(site: Site, command: Start) -> None:
    """It ends at once, and is off the list of workers."""
    worker = command("echomq_worker", "default", "--grace", "3600")
    wait_until(site("default").workers.all, "the worker to beat")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()
    assert "stopped after 0 jobs" in worker.output()
    assert site("default").workers.all() == []


def test_sigterm_while_the_server_is_away(watch: Watch, command: Start) -> None:
    """With nothing in hand it does not wait for the server."""
    watched = watch("default")
    worker = command("echomq_worker", "default", env=watched.by_proxy)
    watched.warm_up(worker)
    watched.proxy.refuse(1_000_000)
    watched.proxy.cut()
    worker.until("The server is away")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()


@pytest.mark.parametrize("back", [True, False], ids=["back in time", "not back"])
def test_sigterm_with_a_job_in_hand_while_the_server_is_away(
    watch: Watch, command: Start, back: bool
) -> None:
    """The job is settled if the server is back within the grace time, else it runs again."""
    watched = watch("fast" if not back else "default")
    name = watched.queue.name
    worker = command(
        "echomq_worker",
        name,
        "--threads",
        "1",
        "--grace",
        "60" if back else "0.5",
        env=watched.by_proxy,
    )
    watched.warm_up(worker)
    watched.enqueue()
    wait_until(watched.effects, "the handler to start")
    watched.proxy.refuse(1_000_000)
    watched.proxy.cut()
    worker.until("The server is away")
    watched.open()
    wait_until(lambda: watched.effects() == {"start": 1, "end": 1}, "the handler to end")
    worker.signal(signal.SIGTERM)
    if back:
        worker.until("Stopping")
        watched.proxy.refuse(-1_000_000)
        assert worker.wait() == 0, worker.output()
    else:
        assert worker.wait() == 75, worker.output()
        worker.until("their leases will lapse")
        rescuer = command("echomq_worker", name, env=watched.direct)
        wait_until(watched.settled, "the job to run again")
        rescuer.signal(signal.SIGTERM)
        assert rescuer.wait() == 0, rescuer.output()
    assert watched.effects() == ({"start": 1, "end": 1} if back else {"start": 2, "end": 2})
    assert watched.books() == {"completed": 2, "failed": 0, "dead": 0, "active": 0, "pending": 0}


# A group, and the first process of a container


def started(path: Path) -> int:
    return path.read_text().count("start ") if path.exists() else 0


@pytest.fixture
def slow_children(tmp_path: Path) -> tuple[dict[str, str], Path]:
    """An environment in which child processes tell of their start and wait for a file."""
    (tmp_path / "sitecustomize.py").write_text(
        "import os, sys, time\n"
        "if any('spawn_main' in word for word in sys.orig_argv):\n"
        f"    open({str(tmp_path / 'born')!r}, 'a').write('x')\n"
        f"    while not os.path.exists({str(tmp_path / 'grow')!r}):\n"
        "        time.sleep(0.01)\n"
    )
    return {"PYTHONPATH": f"{tmp_path}:{ROOT}"}, tmp_path


@pytest.mark.parametrize("phase", ["children at work", "children on their way up"])
def test_sigterm_to_the_whole_group_of_a_worker_with_children(
    site: Site, command: Start, slow_children: tuple[dict[str, str], Path], phase: str
) -> None:
    """As a terminal and some service managers do: the children leave it to the worker."""
    env, folder = slow_children
    path, gate = folder / "effects", folder / "gate"
    born, grow = folder / "born", folder / "grow"
    if phase == "children at work":
        grow.touch()
    for n in range(2):
        tasks.gated.enqueue(str(path), str(n), str(gate))
    worker = command(
        *("echomq_worker", "default", "--isolate", "--threads", "2", "--grace", "120"),
        env=env,
        under=["setsid"],
    )
    if phase == "children at work":
        wait_until(lambda: started(path) == 2, "two jobs in hand")
    else:
        wait_until(lambda: born.exists() and born.stat().st_size == 2, "two children")
    family = psutil.Process(worker.pid).children(recursive=True)
    os.killpg(worker.pid, signal.SIGUSR1)
    worker.until("Quiet")
    os.killpg(worker.pid, signal.SIGTERM)
    worker.until("Stopping")
    grow.touch()
    gate.touch()
    assert worker.wait() == 0, worker.output()
    wait_until(lambda: not any(child.is_running() for child in family), "the children to end")
    assert Counter(line.split()[0] for line in path.read_text().splitlines()) == {
        "start": 2,
        "end": 2,
    }
    queue = site("default")
    assert queue.metrics.counts("completed", "failed", "active", "pending") == {
        "completed": 2,
        "failed": 0,
        "active": 0,
        "pending": 0,
    }
    assert {job.attempt for job in queue.jobs.browse("completed")} == {1}


def may_unshare() -> bool:
    try:
        return not subprocess.run([*UNSHARE, "true"], capture_output=True).returncode
    except OSError:
        return False


@pytest.mark.skipif(not may_unshare(), reason="this kernel or user may make no PID namespace")
@pytest.mark.parametrize("how", [signal.SIGTERM, signal.SIGQUIT])
def test_a_worker_as_pid_1(site: Site, command: Start, tmp_path: Path, how: signal.Signals) -> None:
    """It ends as elsewhere, and keeps no zombie of its isolated children."""
    queue, path, gate = site("fast"), tmp_path / "effects", tmp_path / "gate"
    deadly = [tasks.isolated.using(max_attempts=1).enqueue("dies") for _ in range(3)]
    worker = command("echomq_worker", "fast", "--threads", "2", "--isolate", under=UNSHARE)
    for result in deadly:
        wait_until(lambda result=result: queue.jobs.state(result.id) == "dead", "a child to die")
    (first,) = psutil.Process(worker.pid).children()
    status = Path(f"/proc/{first.pid}/status").read_text()
    assert re.search(r"^NSpid:.*\t1$", status, re.M), "not the first of its namespace"
    tasks.gated.using(queue_name="fast").enqueue(str(path), "job", str(gate))
    wait_until(lambda: started(path) == 1, "a job in hand")
    states = [child.status() for child in first.children(recursive=True)]
    assert psutil.STATUS_ZOMBIE not in states
    first.send_signal(how)
    if how == signal.SIGTERM:
        worker.until("Stopping")
        gate.touch()
    assert worker.wait() == (0 if how == signal.SIGTERM else 75), worker.output()
    assert queue.metrics.counts("completed", "pending", "active", "dead") == {
        "completed": 1 if how == signal.SIGTERM else 0,
        "pending": 0 if how == signal.SIGTERM else 1,
        "active": 0,
        "dead": 3,
    }
