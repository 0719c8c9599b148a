"""``manage.py echomq_worker --processes`` and ``--reload`` as processes."""

from __future__ import annotations

import itertools
import json
import logging
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import psutil
import pytest
from django.core.exceptions import ImproperlyConfigured
from django.core.management import CommandError, call_command

from django_echomq.queue import Queue
from django_echomq.worker.supervisor import Ending, Supervisor, resident_bytes
from tests.conftest import ROOT, Command, wait_until
from tests.testapp import tasks

Site = Callable[[str], Queue]
Start = Callable[..., Command]

LINUX = sys.platform.startswith("linux")


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def children(worker: Command) -> list[psutil.Process]:
    """The worker processes, without what a child may have started."""
    return psutil.Process(worker.pid).children()


def serving(worker: Command) -> list[int]:
    """The pids of the workers that have ever come up, in that order."""
    return [int(pid) for pid in re.findall(r"^Worker .* process (\d+)$", worker.output(), re.M)]


def gone(processes: list[psutil.Process]) -> bool:
    return not any(p.is_running() and p.status() != psutil.STATUS_ZOMBIE for p in processes)


@pytest.fixture(autouse=True)
def heard(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.WARNING, "django_echomq.worker")


# The supervisor alone: children are small scripts.


@pytest.fixture
def supervise() -> Iterator[Callable[..., Supervisor]]:
    """Supervisors of a script; what they change of this process is put back."""
    before = signal.getsignal(signal.SIGCHLD)

    def make(script: str, processes: int = 1, **options: Any) -> Supervisor:
        return Supervisor([sys.executable, "-c", script], processes, name="w", **options)

    yield make
    signal.signal(signal.SIGCHLD, before)


def test_children_that_end_well_in_a_burst_are_not_replaced(
    supervise: Callable[..., Supervisor], tmp_path: Path
) -> None:
    script = f"import os; open('{tmp_path}/' + os.environ['ECHOMQ_SUPERVISED'].split(':')[1], 'x')"
    assert supervise(script, 3, burst=True).run() == 0
    assert sorted(p.name for p in tmp_path.iterdir()) == ["w-1", "w-2", "w-3"]


def test_it_gives_up_when_no_worker_can_serve(
    supervise: Callable[..., Supervisor], caplog: pytest.LogCaptureFixture
) -> None:
    assert supervise("raise SystemExit(3)", 2).run() == 3
    assert "before any worker could serve" in caplog.text


def test_one_that_dies_again_and_again_is_started_ever_later(
    supervise: Callable[..., Supervisor], tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    starts = tmp_path / "starts"
    supervisor = supervise(
        f"import os, signal; open('{starts}', 'a').write('x'); os.kill(os.getpid(), signal.SIGKILL)"
    )

    def stop() -> None:
        wait_until(lambda: "another starts in 2 s" in caplog.text)
        supervisor.stop()

    watcher = threading.Thread(target=stop)
    watcher.start()
    assert supervisor.run() == 0
    watcher.join()
    assert starts.read_text() == "xxx"
    assert [r.args[1] for r in caplog.records] == [0.5, 1.0, 2.0]  # type: ignore[index]
    assert "was killed by signal 9" in caplog.text


def test_a_program_that_is_missing_is_tried_ever_later(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, supervise: Callable[..., Supervisor]
) -> None:
    supervise("")  # for its clean-up
    supervisor = Supervisor([str(tmp_path / "none")], 1, name="w")

    def stop() -> None:
        wait_until(lambda: "another starts in 1 s" in caplog.text)
        supervisor.stop()

    watcher = threading.Thread(target=stop)
    watcher.start()
    assert supervisor.run() == 0
    watcher.join()
    assert "could not be started" in caplog.text


def test_a_child_that_asks_is_relieved_before_it_ends(
    supervise: Callable[..., Supervisor], tmp_path: Path
) -> None:
    said = tmp_path / "said"
    supervisor = supervise(
        f"""
import sys, threading
sys.path.insert(0, {str(ROOT)!r})
from django_echomq.worker.supervisor import Supervised

def say(what):
    with open({str(said)!r}, "a") as file:
        file.write(f"{{line.name}} {{what}}\\n")

def finish():
    say("finishes")
    over.set()

line = Supervised.from_environment()
over = threading.Event()
line.listen(finish, over.set, over.set, over.set)
say("serves")
line.ready()
if line.name == "w-1":
    line.relieve()
over.wait()
"""
    )

    def stop() -> None:
        wait_until(lambda: "w-1 finishes" in lines(said))
        supervisor.stop()

    watcher = threading.Thread(target=stop)
    watcher.start()
    assert supervisor.run() == 0
    watcher.join()
    assert lines(said) == ["w-1 serves", "w-2 serves", "w-1 finishes", "w-2 finishes"]


def test_a_child_that_does_not_end_is_killed(
    supervise: Callable[..., Supervisor], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("django_echomq.worker.supervisor._MARGIN", 0.1)
    deaf = tmp_path / "deaf"
    supervisor = supervise(
        "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN);"
        f"open('{deaf}', 'x'); time.sleep(600)",
        grace=0.1,
    )

    def stop() -> None:
        wait_until(deaf.exists)
        supervisor.stop()

    watcher = threading.Thread(target=stop)
    watcher.start()
    assert supervisor.run() == 128 + signal.SIGKILL
    watcher.join()


def test_only_signals_count_twice() -> None:
    stops: list[None] = []
    ending = Ending(lambda: stops.append(None))
    ending.finish()
    ending.finish()
    ending.signalled()
    assert len(stops) == 1
    ending.signalled()
    assert len(stops) == 2


@pytest.mark.skipif(not LINUX, reason="elsewhere it is the peak")
def test_the_resident_set_is_read() -> None:
    assert resident_bytes() == pytest.approx(psutil.Process().memory_info().rss, rel=0.1)


# The command


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["--processes", "0"], "--processes"),
        (["--max-memory", "-1"], "--max-memory"),
        (["--processes", "2", "mial"], "Did you mean 'mail'"),
        (["--processes", "2", "--name", "n" * 127], "--name"),
        (["--processes", "2"], "command line"),
        (["--reload"], "command line"),
    ],
    ids=["processes", "memory", "queue", "name", "processes from code", "reload from code"],
)
def test_a_wrong_argument_is_told_before_anything_starts(arguments: list[str], words: str) -> None:
    with pytest.raises((CommandError, ImproperlyConfigured), match=words):
        call_command("echomq_worker", *arguments)


def test_processes_work_off_a_queue_and_each_job_runs_once(
    site: Site, endpoint: object, tmp_path: Path
) -> None:
    """Started through a relative manage.py that changes its folder, with --settings."""
    path = tmp_path / "effects"
    titles = tmp_path / "titles"
    (tmp_path / "manage.py").write_text(
        "import os, sys\n"
        "os.chdir('/')\n"
        "from django.core.management import execute_from_command_line\n"
        "execute_from_command_line(sys.argv)\n"
    )
    (tmp_path / "setproctitle.py").write_text(
        f"def setproctitle(title): open({str(titles)!r}, 'a').write(title + '\\n')\n"
    )
    for n in range(60):
        tasks.effect.enqueue(str(path), str(n))
    environment = {**os.environ, "PYTHONPATH": str(ROOT)}
    environment.pop("DJANGO_SETTINGS_MODULE", None)
    words = "manage.py echomq_worker default --processes 2 --burst --name b"
    done = subprocess.run(
        [sys.executable, *words.split(), "--settings", "tests.settings"],
        cwd=tmp_path,
        env=environment,
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert Counter(lines(path)) == Counter(str(n) for n in range(60))
    for each in ("Worker b-1", "Worker b-2", "Supervisor b"):
        assert f"{each} stopped" in done.stdout
    assert sorted(lines(titles)) == [
        "echomq_worker: b supervisor (default)",
        "echomq_worker: b-1 (default)",
        "echomq_worker: b-2 (default)",
    ]


def sockets(pid: int) -> set[str]:
    found = set()
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        try:
            target = str(descriptor.readlink())
        except FileNotFoundError:
            continue
        if target.startswith("socket:"):
            found.add(target)
    return found


def test_a_killed_child_is_replaced_and_its_jobs_run_again(
    site: Site, command: Start, tmp_path: Path
) -> None:
    path, gate = tmp_path / "effects", tmp_path / "gate"
    queue = site("fast")
    worker = command("echomq_worker", "fast", "--processes", "2", "--threads", "1", "--name", "w")
    wait_until(lambda: len(serving(worker)) == 2, "the workers")
    for n in range(2):
        tasks.gated.using(queue_name="fast").enqueue(str(path), str(n), str(gate))
    wait_until(lambda: len(lines(path)) == 2, "a job in hand in each process")
    first = children(worker)
    assert sorted(child.pid for child in first) == sorted(serving(worker))
    # Out of reach of a Ctrl-C in the supervisor's terminal.
    assert not {os.getpgid(child.pid) for child in first} & {os.getpgid(worker.pid)}
    if LINUX:
        apart = [sockets(worker.pid), *(sockets(child.pid) for child in first)]
        assert len(apart[0]) == 2, "the supervisor has its lines and no more"
        assert sum(map(len, apart)) == len(set().union(*apart))
    first[0].send_signal(signal.SIGKILL)
    gate.touch()
    wait_until(lambda: len(serving(worker)) == 3, "the replacement")
    assert "was killed by signal 9; another starts in " in worker.output()
    assert set(re.findall(r"^Worker ([^ :]+):", worker.output(), re.M)) == {"w-1", "w-2"}
    wait_until(lambda: queue.metrics.counts("completed") == {"completed": 2})
    assert sorted(Counter(line.split()[0] for line in lines(path)).items()) == [
        ("end", 2),
        ("start", 3),
    ]
    second = children(worker)
    assert len(second) == 2
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()
    assert gone(second)


def busy(command: Start, path: Path) -> Command:
    """A supervisor whose two children have one job in hand each, while two more wait. They end when
    the file ``gate`` is there."""
    words = "echomq_worker default --processes 2 --threads 1 --grace 60"
    worker = command(*words.split())
    wait_until(lambda: len(serving(worker)) == 2, "the workers")
    for n in range(4):
        tasks.gated.enqueue(str(path), str(n), str(path.with_name("gate")))
    wait_until(lambda: len(lines(path)) == 2, "two jobs in hand")
    return worker


def open_once_they_stop(queue: Queue, path: Path) -> None:
    def states() -> list[str]:
        return [info.state for info in queue.workers.all()]

    wait_until(lambda: states() == ["stopping", "stopping"], "both to have heard")
    path.with_name("gate").touch()


@pytest.mark.parametrize("who", ["the supervisor", "every process, as a service manager does"])
def test_sigterm_finishes_the_jobs_in_hand_and_leaves_no_child(
    site: Site, command: Start, tmp_path: Path, who: str
) -> None:
    path = tmp_path / "effects"
    worker = busy(command, path)
    processes = children(worker)
    worker.signal(signal.SIGTERM)
    if who != "the supervisor":
        for child in processes:
            child.send_signal(signal.SIGTERM)
    open_once_they_stop(site("default"), path)
    assert worker.wait() == 0, worker.output()
    assert gone(processes)
    assert Counter(line.split()[0] for line in lines(path)) == {"start": 2, "end": 2}
    counts = site("default").metrics.counts("completed", "pending", "active")
    assert counts == {"completed": 2, "pending": 2, "active": 0}


@pytest.mark.parametrize("how", ["a second signal", "SIGQUIT"])
def test_jobs_are_given_back_at_once(site: Site, command: Start, tmp_path: Path, how: str) -> None:
    path = tmp_path / "effects"
    worker = busy(command, path)
    processes = children(worker)
    if how == "SIGQUIT":
        worker.signal(signal.SIGQUIT)
    else:
        worker.signal(signal.SIGINT)
        worker.until("Stopping")
        worker.signal(signal.SIGINT)
    assert worker.wait() == 75, worker.output()
    assert gone(processes)
    counts = site("default").metrics.counts("completed", "pending", "active")
    assert counts == {"completed": 0, "pending": 4, "active": 0}


def test_a_lone_worker_gives_back_at_sigquit(site: Site, command: Start, tmp_path: Path) -> None:
    path = tmp_path / "effects"
    tasks.record.enqueue(str(path), "long", 60)
    worker = command("echomq_worker", "default")
    wait_until(lambda: lines(path), "the job to start")
    worker.signal(signal.SIGQUIT)
    assert worker.wait() == 75
    assert site("default").metrics.counts("pending", "active") == {"pending": 1, "active": 0}


def test_children_end_when_their_supervisor_is_killed(
    site: Site, command: Start, tmp_path: Path
) -> None:
    path = tmp_path / "effects"
    worker = busy(command, path)
    processes = children(worker)
    worker.signal(signal.SIGKILL)
    worker.wait()
    open_once_they_stop(site("default"), path)
    wait_until(lambda: gone(processes), "the children to end")
    assert Counter(line.split()[0] for line in lines(path)) == {"start": 2, "end": 2}
    counts = site("default").metrics.counts("completed", "pending", "active")
    assert counts == {"completed": 2, "pending": 2, "active": 0}


def test_a_quiet_supervisor_keeps_its_children_quiet(site: Site, command: Start) -> None:
    queue = site("default")
    worker = command("echomq_worker", "default", "--processes", "2", "--name", "q")
    wait_until(lambda: len(serving(worker)) == 2, "the workers")
    worker.signal(signal.SIGUSR1)
    children(worker)[0].send_signal(signal.SIGKILL)
    wait_until(lambda: len(serving(worker)) == 3, "the replacement")
    live = [child.pid for child in children(worker)]
    assert len(live) == 2

    def all_quiet() -> bool:
        found = {info.pid: info.state for info in queue.workers.all()}
        return all(found.get(pid) == "quiet" for pid in live)

    wait_until(all_quiet, "all workers to be quiet")
    job = tasks.noop.enqueue()
    beats = {info.name: info.beat_at for info in queue.workers.all()}
    wait_until(
        lambda: all(info.beat_at > beats[info.name] for info in queue.workers.all()), "a beat"
    )
    assert queue.metrics.counts("pending", "completed") == {"pending": 1, "completed": 0}
    worker.signal(signal.SIGUSR2)
    wait_until(lambda: queue.jobs.state(job.id) == "completed", "the job")
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()


def test_a_process_told_to_stop_is_not_replaced(site: Site, command: Start) -> None:
    worker = command("echomq_worker", "default", "--processes", "2", "--name", "q")
    wait_until(lambda: len(site("default").workers.all()) == 2, "the workers")
    call_command("echomq", "worker", "stop", "q-1")
    worker.until("it was told to stop")
    wait_until(lambda: len(children(worker)) == 1, "the process to end")
    job = tasks.noop.enqueue()
    wait_until(lambda: site("default").jobs.state(job.id) == "completed", "the job")
    # The supervisor's own name stands for all of its processes.
    call_command("echomq", "worker", "stop", "q")
    assert worker.wait() == 0, worker.output()
    assert len(serving(worker)) == 2


def test_max_jobs_recycles_and_loses_nothing(site: Site, command: Start, tmp_path: Path) -> None:
    path = tmp_path / "effects"
    for n in range(30):
        tasks.record.enqueue(str(path), str(n), 0.05)
    worker = command(
        "echomq_worker", "default", "--processes", "2", "--threads", "2", "--max-jobs", "10"
    )
    queue = site("default")
    wait_until(lambda: queue.metrics.counts("completed") == {"completed": 30}, "all jobs")
    assert len(set(serving(worker))) >= 3
    # Not deaths: the next ones were started without a word and without a delay.
    assert "another starts" not in worker.output()
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()
    claimed = [int(n) for n in re.findall(r"stopped after (\d+) jobs", worker.output())]
    assert max(claimed) <= 10
    assert Counter(lines(path)) == Counter(f"{w} {n}" for n in range(30) for w in ("start", "end"))


def test_max_memory_recycles_and_loses_nothing(site: Site, command: Start, tmp_path: Path) -> None:
    path = tmp_path / "effects"
    queue = site("default")
    worker = command("echomq_worker", "default", "--processes", "2", "--max-memory", "1")
    for n in range(20):
        tasks.record.enqueue(str(path), str(n), 0.5)
    wait_until(lambda: len(set(serving(worker))) >= 4, "four workers")
    wait_until(lambda: queue.metrics.counts("completed") == {"completed": 20}, "all jobs")
    assert "MiB of at most 1.0" in worker.output()
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()
    assert Counter(lines(path)) == Counter(f"{w} {n}" for n in range(20) for w in ("start", "end"))


def test_a_lone_worker_ends_at_max_memory(site: Site, command: Start, tmp_path: Path) -> None:
    path = tmp_path / "effects"
    tasks.record.enqueue(str(path), "in hand", 2.0)
    while not lines(path):  # it may end before its first claim
        worker = command("echomq_worker", "default", "--max-memory", "1")
        assert worker.wait() == 0, worker.output()
    assert lines(path) == ["start in hand", "end in hand"]


def test_jobs_that_kill_their_worker_do_not_make_it_spin(site: Site, command: Start) -> None:
    tasks.kills_its_worker.enqueue_many([((), {})] * 20)
    worker = command("echomq_worker", "fast", "--processes", "2", "--threads", "1", "--name", "w")
    worker.until("another starts in 1 s", 60)
    deaths = worker.output().count("another starts")
    assert deaths <= 4, worker.output()
    assert "(process " in worker.output()
    assert "ended with 9; another starts in 0.5 s" in worker.output()
    worker.signal(signal.SIGTERM)
    # 9 where another job killed its worker while the supervisor was ending.
    assert worker.wait() in {0, 9}, worker.output()


def test_reload_starts_anew_after_the_jobs_in_hand(
    site: Site, command: Start, tmp_path: Path
) -> None:
    path = tmp_path / "effects"
    (tmp_path / "live_settings.py").write_text(
        "from tests.settings import *\nINSTALLED_APPS = [*INSTALLED_APPS, 'live']\n"
    )
    (tmp_path / "live").mkdir()
    (tmp_path / "live" / "__init__.py").write_text("")
    source = tmp_path / "live" / "tasks.py"

    def write(version: int) -> None:
        source.write_text(
            "from django_echomq.tasks.compat import task\n"
            "from tests.testapp.tasks import append\n"
            "@task\n"
            f"def tell(path): append(path, 'version {version}')\n"
        )
        # Each change is later than the last, however coarse the file system's clock.
        os.utime(source, (time.time(), time.time() + version))

    def tell() -> None:
        payload = {"task": "live.tasks.tell", "args": [str(path)]}
        site("default").jobs.enqueue(json.dumps(payload).encode())

    write(1)
    worker = command(
        "echomq_worker",
        "default",
        "--reload",
        env={
            "PYTHONPATH": f"{tmp_path}{os.pathsep}{ROOT}",
            "DJANGO_SETTINGS_MODULE": "live_settings",
            "PYTHONDONTWRITEBYTECODE": "1",
        },
    )
    tell()
    wait_until(lambda: lines(path) == ["version 1"], "the old code to run")
    tasks.record.enqueue(str(path), "in hand", 2.0)
    wait_until(lambda: "start in hand" in lines(path), "a job in hand")
    saves = itertools.count(2)

    def noticed() -> bool:
        if "tasks.py changed" in worker.output():
            return True
        # Saved again now and then, as somebody would who sees nothing happen.
        write(2)
        os.utime(source, (time.time(), time.time() + next(saves)))
        return False

    wait_until(noticed, "the change to be noticed", step=5)
    tell()
    wait_until(lambda: "version 2" in lines(path), "the new code to run")
    assert lines(path) == ["version 1", "start in hand", "end in hand", "version 2"]
    assert len(serving(worker)) == 2
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()
