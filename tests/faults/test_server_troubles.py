"""A server that is killed, demoted, full, slow, silent or wrong about the time, under workers at
work. What was admitted is done, and is done once wherever no lease had to lapse."""

from __future__ import annotations

import resource
import signal
import subprocess
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import psutil
import pytest
import redis

from django_echomq.queue import Queue
from django_echomq.wire import embedded as programs
from django_echomq.wire.client import Client
from django_echomq.wire.endpoint import Endpoint
from django_echomq.wire.errors import ServerUnavailable, WritesRefused
from tests.conftest import Command, wait_until
from tests.faults.conftest import Server, Watched
from tests.queue.keyspace import snapshot
from tests.queue.test_events import TRANSITIONS

Start = Callable[..., Command]
MakeServer = Callable[..., Server]
WatchOn = Callable[..., Watched]

EFFECT = '{"task":"tests.testapp.tasks.effect","args":["%s","%s"]}'
FAKETIME = next(Path("/usr/lib").glob("*/faketime/libfaketime.so.1"), None)


def effects(watched: Watched) -> Counter[str]:
    """What the jobs of :func:`producing` have done."""
    path = watched.path.with_name("done")
    return Counter(path.read_text().splitlines() if path.exists() else ())


@contextmanager
def producing(watched: Watched) -> Iterator[list[str]]:
    """Admits one job after the other; the list has the names of those whose call returned."""
    admitted: list[str] = []
    stop = threading.Event()
    client = Client(watched.client.endpoint, retry_for=20)
    jobs = Queue(watched.queue.name, client).jobs

    def produce() -> None:
        for n in range(1_000_000):
            if stop.wait(0.002):
                return
            try:
                jobs.enqueue(EFFECT % (watched.path.with_name("done"), n))
            except WritesRefused:
                continue
            admitted.append(str(n))

    thread = threading.Thread(target=produce)
    thread.start()
    try:
        yield admitted
    finally:
        stop.set()
        thread.join(30)
        client.close()
        watched.admitted += len(admitted)
    assert not thread.is_alive()


def some_more(admitted: list[str], count: int = 50) -> None:
    """Waits until so many more are admitted."""
    now = len(admitted)
    wait_until(lambda: len(admitted) >= now + count, "more jobs")


def end_well(watched: Watched, *workers: Command, quiet: tuple[str, ...] = ()) -> None:
    """Every admitted job has completed once, and the workers go in peace and said nothing bad."""
    wait_until(watched.settled, "the jobs to be done")
    for worker in workers:
        worker.signal(signal.SIGTERM)
        assert worker.wait(30) == 0, worker.output()
        for word in ("Traceback", "could not be settled", *quiet):
            assert word not in worker.output(), worker.output()
    done = {"completed": watched.admitted, "failed": 0, "dead": 0, "active": 0, "pending": 0}
    assert watched.books() == done


def serve(watched: Watched, command: Start, env: dict[str, str] | None = None) -> Command:
    """A worker that has served its first job."""
    worker = command(
        "echomq_worker", watched.queue.name, "--threads", "2", env=env or watched.direct
    )
    watched.warm_up(worker)
    return worker


# Killed


def test_a_server_killed_while_it_admits_and_serves(
    make_server: MakeServer, watch_on: WatchOn, command: Start
) -> None:
    """Each job whose admission was answered has its effect once, and so have the others."""
    server = make_server("--appendonly", "yes", "--appendfsync", "always")
    watched = watch_on(server)
    worker = serve(watched, command)
    with producing(watched) as admitted:
        for _ in range(2):
            some_more(admitted)
            server.kill()
            server.start()
        some_more(admitted)
    end_well(watched, worker)
    assert effects(watched) == Counter(admitted)


def test_a_worker_group_is_killed(
    make_server: MakeServer, watch_on: WatchOn, command: Start
) -> None:
    """Supervisor and processes at once; what they had in hand runs again elsewhere."""
    watched = watch_on(make_server())
    group = command(
        *("echomq_worker", "fast", "--threads", "2", "--processes", "2"),
        env=watched.direct,
    )
    for n in range(6):
        watched.enqueue(str(n))
    wait_until(lambda: watched.effects().get("start") == 4, "four jobs in hand")
    family = psutil.Process(group.pid).children(recursive=True)
    group.signal(signal.SIGKILL)
    for process in family:
        process.kill()
    group.wait()
    watched.open()
    rescuer = command("echomq_worker", "fast", "--threads", "2", env=watched.direct)
    end_well(watched, rescuer)
    assert watched.effects() == {"start": 10, "end": 6}


def test_promoters_killed_while_jobs_fall_due(
    make_server: MakeServer, watch_on: WatchOn, command: Start
) -> None:
    watched = watch_on(make_server())
    path = watched.path.with_name("done")
    worker = serve(watched, command)
    for n in range(400):
        watched.queue.jobs.enqueue_in(EFFECT % (path, n), n / 200)
    watched.admitted += 400
    for _ in range(2):
        promoter = command("echomq_promoter", "fast", env=watched.direct)
        promoter.until("Stop with")
        promoter.signal(signal.SIGKILL)
        promoter.wait()
    end_well(watched, worker)
    assert effects(watched) == Counter(str(n) for n in range(400))


# There, but of no use


def test_a_server_demoted_and_promoted_again(
    make_server: MakeServer, watch_on: WatchOn, command: Start
) -> None:
    server = make_server()
    watched = watch_on(server)
    worker = serve(watched, command)
    watched.enqueue()
    wait_until(watched.effects, "the handler to start")
    server.raw.replicaof("127.0.0.1", 1)
    with pytest.raises(ServerUnavailable, match="read-only"):
        watched.queue.jobs.enqueue(b"x")
    worker.until("The server is away")
    watched.open()
    wait_until(lambda: watched.effects() == {"start": 1, "end": 1}, "the handler to end")
    server.raw.replicaof("NO", "ONE")
    with producing(watched) as admitted:
        some_more(admitted)
    end_well(watched, worker, quiet=("refused",))
    assert effects(watched) == Counter(admitted)
    assert watched.effects() == {"start": 1, "end": 1}


def test_a_server_that_loads(make_server: MakeServer, watch_on: WatchOn, command: Start) -> None:
    """It answers before its data is there; nobody takes that for an empty queue."""
    server = make_server()
    watched = watch_on(server)
    worker = serve(watched, command)
    worker.signal(signal.SIGSTOP)
    watched.queue.jobs.enqueue_many([EFFECT % (watched.path.with_name("done"), 1)] * 40)
    watched.admitted += 40
    server.raw.save()
    server.kill()
    server.start("--key-load-delay", "50000", "--loading-process-events-interval-bytes", "1024")
    worker.signal(signal.SIGCONT)
    with pytest.raises(ServerUnavailable, match="loading"):
        Queue("fast", Client(watched.client.endpoint, retry_for=0)).jobs.enqueue(b"x")
    patient = Client(watched.client.endpoint, retry_for=20)
    patient.drive(patient.command("ECHO", "loaded"))
    end_well(watched, worker)
    assert effects(watched) == {"1": 40}


@pytest.mark.parametrize("trouble", ["silent network", "server that stands still"])
def test_no_answer_for_longer_than_the_time_out(
    make_server: MakeServer, watch_on: WatchOn, command: Start, trouble: str
) -> None:
    """Calls are given up and repeated; those that arrive late all the same do nothing twice."""
    server = make_server()
    watched = watch_on(server, "default")
    env = {**watched.by_proxy}
    env["ECHOMQ_TEST_URL"] += "?socket_timeout=0.5"
    worker = serve(watched, command, env)
    with producing(watched) as admitted:
        some_more(admitted)
        if trouble == "silent network":
            watched.proxy.swallow()
        else:
            server.signal(signal.SIGSTOP)
        worker.until("The server is away")
        if trouble == "silent network":
            watched.proxy.release()
        else:
            server.signal(signal.SIGCONT)
        worker.until("The server is back")
        some_more(admitted)
    end_well(watched, worker, quiet=("refused",))
    assert effects(watched) == Counter(admitted)


def test_a_subscriber_that_is_too_slow_is_cut_and_comes_back(
    make_server: MakeServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    server = make_server("--client-output-buffer-limit", "pubsub 64kb 64kb 0")
    monkeypatch.setattr("django_echomq.queue.events._BUFFER", 3)
    queue = Queue("slow", Client(Endpoint.from_url(server.url)))
    with queue.events.subscribe(gaps=True) as events:
        big = b'{"event":"big","x":"%s"}' % (b"x" * 100_000)
        wait_until(
            lambda: server.raw.publish(queue.keys.events, big) == 0, "the subscriber to be cut"
        )
        wait_until(lambda: next(events).name == "reconnected", "the gap to be told")
        queue.admin.pause()
        assert next(events).name == "paused"


# Full


def test_a_full_memory_admits_nothing_and_serves_what_is_there(
    make_server: MakeServer, watch_on: WatchOn, command: Start
) -> None:
    server = make_server("--maxmemory-policy", "noeviction")
    watched = watch_on(server)
    jobs = watched.queue.jobs
    worker = serve(watched, command)
    watched.enqueue()
    wait_until(watched.effects, "the handler to start")
    path = watched.path.with_name("done")
    jobs.enqueue_many([EFFECT % (path, "flat")] * 20)
    jobs.enqueue_many([EFFECT % (path, "lane")] * 20, lane="a")
    jobs.enqueue_in(EFFECT % (path, "later"), 0.5)
    watched.admitted += 41
    server.raw.config_set("maxmemory", 1)
    other = Queue("other", watched.client)
    for lane in (None, "a"):
        with pytest.raises(WritesRefused, match="maxmemory"):
            other.jobs.enqueue(b"x", lane=lane)
    assert snapshot(other, server.raw) == {}
    # The lease of the first is extended meanwhile.
    wait_until(lambda: effects(watched) == {"flat": 20, "lane": 20, "later": 1}, "the others")
    wait_until(lambda: watched.queue.metrics.counts("active") == {"active": 1})
    (claimed,) = jobs.browse("active")
    lapse = server.raw.zscore(watched.queue.keys.active, claimed.id)
    wait_until(lambda: server.raw.zscore(watched.queue.keys.active, claimed.id) > lapse)
    watched.queue.admin.pause()
    watched.open()
    end_well(watched, worker, quiet=("away", "failed"))
    assert watched.effects() == {"start": 1, "end": 1}
    server.raw.config_set("maxmemory", 0)
    assert jobs.enqueue(b"x").job_id


def test_schedules_wait_for_memory(
    make_server: MakeServer, watch_on: WatchOn, command: Start
) -> None:
    """None is fired half way, and the log is told once a beat."""
    server = make_server()
    watched = watch_on(server)
    worker = serve(watched, command)
    path = watched.path.with_name("done")
    watched.queue.repeat.register("beat", payload=EFFECT % (path, "tick"), every=0.2)
    server.raw.config_set("maxmemory", 1)
    full_since = time.monotonic()
    wait_until(lambda: worker.output().count("were not fired: the server takes no") >= 2)
    fired = watched.queue.repeat.all()[0].fired
    assert effects(watched)["tick"] <= fired
    server.raw.config_set("maxmemory", 0)
    wait_until(lambda: effects(watched)["tick"] > fired, "a tick")
    # One is due five times a second.
    assert worker.output().count("were not fired") <= time.monotonic() - full_since + 2
    worker.signal(signal.SIGTERM)
    assert worker.wait(30) == 0, worker.output()


@pytest.mark.parametrize("name", TRANSITIONS)
def test_under_a_full_memory_a_transition_is_whole_or_does_nothing(
    queue: Queue, raw: redis.Redis, name: str
) -> None:
    act = TRANSITIONS[name](queue, raw)
    before = snapshot(queue, raw)
    limit = raw.config_get("maxmemory")["maxmemory"]
    raw.config_set("maxmemory", 1)
    try:
        act()
    except WritesRefused:
        assert snapshot(queue, raw) == before
    except redis.OutOfMemoryError:
        pass  # what the test itself writes meanwhile
    finally:
        raw.config_set("maxmemory", limit)


def test_a_handler_keeps_its_own_lease_under_a_full_memory(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"x")
    (claim,) = queue.jobs.claim(lease=5)
    lapse = raw.zscore(queue.keys.active, claim.job_id)
    limit = raw.config_get("maxmemory")["maxmemory"]
    raw.config_set("maxmemory", 1)
    try:
        queue.jobs.checkpoint(claim, 60, details=b"7")
    finally:
        raw.config_set("maxmemory", limit)
    assert raw.zscore(queue.keys.active, claim.job_id) > lapse


def test_a_full_disk_refuses_writes_and_loses_nothing(
    make_server: MakeServer, watch_on: WatchOn, command: Start
) -> None:
    """Settlements wait until there is space again; a job that ran is not run again."""
    server = make_server("--appendonly", "yes", "--appendfsync", "everysec")
    watched = watch_on(server, "default")
    worker = serve(watched, command)
    watched.enqueue()
    wait_until(watched.effects, "the handler to start")
    unlimited = (resource.RLIM_INFINITY, resource.RLIM_INFINITY)
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, (200_000, resource.RLIM_INFINITY))

    def is_full() -> bool:
        try:
            watched.queue.jobs.enqueue(EFFECT % (watched.path.with_name("done"), "big" * 3_000))
        except WritesRefused as refused:
            return "disk" in str(refused)
        watched.admitted += 1
        return False

    wait_until(is_full, "the disk to be full")
    worker.until("The server is away")
    watched.open()
    wait_until(lambda: watched.effects() == {"start": 1, "end": 1}, "the handler to end")
    resource.prlimit(server.pid, resource.RLIMIT_FSIZE, unlimited)
    with producing(watched) as admitted:
        some_more(admitted)
    end_well(watched, worker, quiet=("refused",))
    assert watched.effects() == {"start": 1, "end": 1}
    # And what the file has is whole.
    server.raw.config_set("appendfsync", "always")
    books = watched.books()
    server.kill()
    server.start()
    assert watched.books() == books


# Wrong about the time


def clock_can_be_set() -> bool:
    version = subprocess.run([programs._find_binary(), "--version"], capture_output=True)
    return FAKETIME is not None and b"jemalloc" not in version.stdout


@pytest.mark.skipif(
    not clock_can_be_set(), reason="the package faketime is missing, or hangs with jemalloc"
)
@pytest.mark.parametrize("step", ["+3600s", "-3600s"])
def test_the_clock_of_the_server_is_set(
    make_server: MakeServer, watch_on: WatchOn, command: Start, tmp_path: Path, step: str
) -> None:
    """Forward, leases lapse and what was in hand runs again; backward, it goes on."""
    clock = tmp_path / "clock"
    clock.write_text("+0s")
    env = {
        "LD_PRELOAD": str(FAKETIME),
        "FAKETIME_TIMESTAMP_FILE": str(clock),
        "FAKETIME_NO_CACHE": "1",
        "FAKETIME_DONT_FAKE_MONOTONIC": "1",
    }
    server = make_server(env=env)
    watched = watch_on(server, "default")
    # So long that the worker extends it neither just before the step nor just after.
    watched.direct["ECHOMQ_TEST_QUEUES"] = watched.by_proxy["ECHOMQ_TEST_QUEUES"] = (
        '{"default": {"LEASE": 600}}'
    )
    worker = serve(watched, command)
    job_id = watched.enqueue()
    wait_until(watched.effects, "the handler to start")
    before = server.raw.time()[0]
    tmp_path.joinpath("set").write_text(step)
    tmp_path.joinpath("set").replace(clock)
    wait_until(lambda: abs(server.raw.time()[0] - before) > 3_000, "the clock to be set")
    if step[0] == "+":
        wait_until(lambda: watched.effects() == {"start": 2}, "the job to run again")
    watched.open()
    with producing(watched) as admitted:
        some_more(admitted)
    end_well(watched, worker)
    assert watched.effects() == (
        {"start": 2, "end": 2} if step[0] == "+" else {"start": 1, "end": 1}
    )
    assert watched.queue.jobs.get(job_id).stalled == (1 if step[0] == "+" else 0)
    assert effects(watched) == Counter(admitted)
