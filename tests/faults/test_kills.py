"""Processes that die at the worst moment, and what is left of the jobs."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest
import redis

from django_echomq.queue import Queue, QueueOptions
from django_echomq.wire.client import Client
from tests.conftest import ROOT, Command, wait_until
from tests.faults.conftest import server_pid
from tests.testapp import tasks

Site = Callable[[str], Queue]
Start = Callable[..., Command]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def idle(queue: Queue) -> bool:
    return not any(queue.metrics.counts("pending", "active", "scheduled").values())


def test_a_worker_killed_with_8_jobs_in_hand(site: Site, command: Start, tmp_path: Path) -> None:
    """All 8 run again after the lease; none is lost, none is completed twice."""
    path, gate = tmp_path / "effects", tmp_path / "gate"
    queue = site("fast")
    for n in range(8):
        tasks.gated.using(queue_name="fast").enqueue(str(path), str(n), str(gate))
    victim = command("echomq_worker", "fast", "--threads", "8")
    wait_until(lambda: len(lines(path)) == 8, "8 jobs in hand")
    victim.signal(signal.SIGKILL)
    victim.wait()
    assert queue.metrics.counts("active") == {"active": 8}
    gate.touch()

    rescuer = command("echomq_worker", "fast", "--threads", "8")
    wait_until(lambda: idle(queue), "the jobs to run again")
    rescuer.signal(signal.SIGTERM)
    rescuer.wait()
    assert Counter(lines(path)) == Counter(
        {f"start {n}": 2 for n in range(8)} | {f"end {n}": 1 for n in range(8)}
    )
    counts = queue.metrics.counts("completed", "failed", "dead")
    assert counts == {"completed": 8, "failed": 0, "dead": 0}
    assert {job.stalled for job in queue.jobs.browse("completed")} == {1}


def test_a_job_that_keeps_killing_its_worker_is_buried(site: Site, command: Start) -> None:
    queue = site("fast")
    bad = tasks.kills_its_worker.enqueue()
    good = tasks.flaky.enqueue(0)
    starts = 0
    while queue.jobs.state(bad.id) != "dead":
        starts += 1
        assert starts < 10
        worker = command("echomq_worker", "fast", "--threads", "1")
        wait_until(
            lambda worker=worker: (
                worker.process.poll() is not None or queue.jobs.state(bad.id) == "dead"
            ),
            "the worker to die or the job to be buried",
        )
        if worker.process.poll() is None:
            worker.signal(signal.SIGTERM)
            assert worker.wait() == 0
        else:
            assert worker.wait() == 9
    job = queue.jobs.get(bad.id)
    # Its last chance it had in a child process, which it killed instead.
    assert (job.last_error, job.stalled, starts) == ("stalled", 2, 3)
    assert "ended with 9" in job.history[-1]["traceback"]
    assert queue.stalled.is_stalled(bad.id)
    bad.refresh()
    assert bad.status == "FAILED"
    assert command("echomq_worker", "fast", "--burst").wait() == 0
    assert queue.jobs.state(good.id) == "completed"


def test_jobs_beside_one_that_kills_its_worker_complete(site: Site, command: Start) -> None:
    """They are claimed with it each time, and lapse with it."""
    queue = site("fast")
    good = [tasks.flaky.enqueue(0).id for _ in range(3)]
    bad = tasks.kills_its_worker.enqueue().id
    good += [tasks.waits_a_little.enqueue().id for _ in range(6)]
    worker = command("echomq_worker", "fast", "--processes", "2", "--threads", "8", "--name", "w")
    ids = [*good, bad]
    wait_until(lambda: {queue.jobs.state(i) for i in ids} == {"completed", "dead"}, "all")
    assert [queue.jobs.state(i) for i in good] == ["completed"] * len(good)
    assert queue.stalled.is_stalled(bad)
    worker.signal(signal.SIGTERM)
    worker.wait()


def test_the_server_killed_under_a_worker(
    own_server: tuple[Path, dict[str, str], Client], command: Start
) -> None:
    """The worker goes on without a restart; jobs admitted over a second before are all done."""
    folder, env, client = own_server
    queue = Queue("fast", client, QueueOptions(lease_ms=1_000))
    path = folder / "effects"
    payload = '{"task":"tests.testapp.tasks.record","args":["%s","%d",0.02]}'
    queue.jobs.enqueue_many([payload % (path, n) for n in range(400)])
    # What is older than a second is on disk.
    wait_until(
        lambda: b"aof_pending_bio_fsync:0" in client.drive(client.command("INFO", "persistence"))
    )
    with suppress(redis.ResponseError):  # unknown to Redis 7.0
        client.drive(client.command("WAITAOF", 1, 0, 5_000))
    worker = command("echomq_worker", "fast", "--threads", "4", env=env)
    wait_until(lambda: len(lines(path)) > 100, "the worker to be in the middle")
    os.kill(server_pid(client), signal.SIGKILL)
    wait_until(lambda: idle(queue), "all jobs to be done")
    assert worker.process.poll() is None
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()
    assert "Traceback" not in worker.output()
    ended = Counter(line for line in lines(path) if line.startswith("end"))
    assert set(ended) == {f"end {n}" for n in range(400)}
    assert queue.metrics.counts("failed", "dead") == {"failed": 0, "dead": 0}


def test_scripts_flushed_at_any_moment(site: Site, command: Start, raw: redis.Redis) -> None:
    tasks.noop.enqueue_many([((), {})] * 2_000)
    worker = command("echomq_worker", "default", "--burst")
    while worker.process.poll() is None:
        raw.script_flush()
    assert worker.wait() == 0, worker.output()
    assert site("default").metrics.counts("completed", "active") == {
        "completed": 2_000,
        "active": 0,
    }
    assert "Traceback" not in worker.output()


def test_connections_killed_at_any_moment(
    site: Site, command: Start, raw: redis.Redis, tmp_path: Path
) -> None:
    """Calls whose reply was lost are answered from the ledger: nothing waits for a lease."""
    path = tmp_path / "effects"
    tasks.effect.enqueue_many([((str(path), str(n)), {}) for n in range(3_000)])
    queue = site("default")
    worker = command("echomq_worker", "default", "--burst")
    own = raw.client_id()
    kills = 0
    while worker.process.poll() is None:
        for other in raw.client_list():
            if int(other["id"]) != own and other["cmd"] in {"evalsha", "blpop"}:
                kills += raw.client_kill_filter(_id=other["id"])
    assert worker.wait() == 0, worker.output()
    assert kills > 0
    assert Counter(lines(path)) == Counter(str(n) for n in range(3_000))
    counts = queue.metrics.counts("completed", "active", "pending")
    assert counts == {"completed": 3_000, "active": 0, "pending": 0}
    assert "refused" not in worker.output()


@pytest.mark.once
@pytest.mark.slow
def test_100_000_jobs_from_8_processes_through_3_workers(
    site: Site, command: Start, tmp_path: Path
) -> None:
    """Distinct ids, distinct rows, and exactly as many effects."""
    queue = site("default")
    path = tmp_path / "effects"
    code = (
        "import django; django.setup()\n"
        "from tests.testapp.tasks import effect\n"
        "import sys\n"
        "first = int(sys.argv[1])\n"
        "calls = [((sys.argv[2], str(n)), {}) for n in range(first, first + 12_500)]\n"
        "results = effect.enqueue_many(calls)\n"
        "print(*(result.id for result in results))\n"
    )
    env: dict[str, Any] = {
        **os.environ,
        "DJANGO_SETTINGS_MODULE": "tests.settings",
        "PYTHONPATH": str(ROOT),
    }
    producers = [
        subprocess.Popen(
            [sys.executable, "-c", code, str(k * 12_500), str(path)],
            cwd=ROOT,
            env=env,
            stdout=subprocess.PIPE,
        )
        for k in range(8)
    ]
    ids = [job_id for p in producers for job_id in p.communicate()[0].split()]
    assert [p.returncode for p in producers] == [0] * 8
    assert len(set(ids)) == 100_000
    assert queue.metrics.counts("pending") == {"pending": 100_000}
    workers = [command("echomq_worker", "default", "--burst") for _ in range(3)]
    for worker in workers:
        assert worker.wait(240) == 0, worker.output()
    assert queue.metrics.counts("completed", "pending", "active") == {
        "completed": 100_000,
        "pending": 0,
        "active": 0,
    }
    done = lines(path)
    assert len(done) == 100_000
    assert len(set(done)) == 100_000


def test_a_worker_stopped_past_its_lease(site: Site, command: Start, tmp_path: Path) -> None:
    """Another worker finishes the job; the late end is refused and told, the books count one."""
    path, gate = tmp_path / "effects", tmp_path / "gate"
    queue = site("fast")
    result = tasks.gated.using(queue_name="fast").enqueue(str(path), "job", str(gate))
    frozen = command("echomq_worker", "fast", "--threads", "1")
    wait_until(lambda: len(lines(path)) == 1, "the job to start")
    frozen.signal(signal.SIGSTOP)
    gate.touch()
    other = command("echomq_worker", "fast", "--threads", "1")
    wait_until(lambda: queue.jobs.state(result.id) == "completed", "the other to finish it")
    frozen.signal(signal.SIGCONT)
    frozen.until("was no longer this worker's")
    for each in (frozen, other):
        each.signal(signal.SIGTERM)
        assert each.wait() == 0, each.output()
    counts = queue.metrics.counts("completed", "failed", "active", "pending")
    assert counts == {"completed": 1, "failed": 0, "active": 0, "pending": 0}
