"""``manage.py echomq_worker`` and ``echomq_promoter`` as processes."""

from __future__ import annotations

import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import redis

from django_echomq.management.commands._serving import apply_settings
from django_echomq.queue import Queue
from django_echomq.wire.scripts import script
from tests.conftest import Command, purge, wait_until
from tests.testapp import tasks

Site = Callable[[str], Queue]
Start = Callable[..., Command]


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def idle(queue: Queue) -> bool:
    counts = queue.metrics.counts("pending", "active", "scheduled")
    return not any(counts.values())


def test_it_says_what_it_serves_and_how_to_stop(site: Site, command: Start) -> None:
    worker = command("echomq_worker", "mail", "--threads", "3", "--name", "w-1")
    worker.until("Stop with Ctrl-C")
    assert "Worker w-1: 3 threads" in worker.output()
    assert "queue mail at " in worker.output()
    worker.signal(signal.SIGINT)
    assert worker.wait() == 0
    assert "Worker w-1 stopped after 0 jobs" in worker.output()


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["mial"], "Did you mean 'mail'"),
        (["--threads", "0"], "--threads"),
        (["--threads", "many"], "--threads"),
        (["--grace", "-1"], "--grace"),
        (["--max-jobs", "x"], "--max-jobs"),
        (["--name", "no spaces"], "--name"),
        (["--treads", "3"], "unrecognized"),
    ],
    ids=repr,
)
def test_a_wrong_argument_is_told(command: Start, arguments: list[str], words: str) -> None:
    worker = command("echomq_worker", *arguments)
    assert worker.wait() != 0
    assert words in worker.output()


def test_it_works_off_several_queues(site: Site, command: Start, tmp_path: Path) -> None:
    path = str(tmp_path / "effects")
    for n in range(50):
        tasks.effect.enqueue(path, f"default {n}")
        tasks.effect.using(queue_name="mail").enqueue(path, f"mail {n}")
    worker = command("echomq_worker", "--burst")
    assert worker.wait() == 0, worker.output()
    assert len(lines(Path(path))) == len(set(lines(Path(path)))) == 100


def test_it_leaves_queues_that_are_not_named(site: Site, command: Start) -> None:
    tasks.noop.enqueue()
    tasks.noop.using(queue_name="mail").enqueue()
    assert command("echomq_worker", "mail", "--burst").wait() == 0
    assert site("default").metrics.counts("pending") == {"pending": 1}
    assert site("mail").metrics.counts("pending") == {"pending": 0}


def test_burst_waits_for_its_retries_and_leaves_what_is_scheduled(
    site: Site, command: Start
) -> None:
    flaky = tasks.flaky.enqueue(2)
    later = site("fast").jobs.enqueue_in(b"x", 3600)
    assert command("echomq_worker", "fast", "--burst").wait() == 0
    assert site("fast").jobs.state(flaky.id) == "completed"
    assert site("fast").jobs.state(later.job_id) == "scheduled"


def test_burst_on_a_paused_queue_ends(site: Site, command: Start) -> None:
    tasks.noop.enqueue()
    site("default").admin.pause()
    assert command("echomq_worker", "default", "--burst").wait() == 0
    assert site("default").metrics.counts("pending") == {"pending": 1}


def test_max_jobs_ends_after_so_many(site: Site, command: Start) -> None:
    tasks.noop.enqueue_many([((), {})] * 100)
    worker = command("echomq_worker", "default", "--max-jobs", "30")
    assert worker.wait() == 0
    assert site("default").metrics.counts("completed", "pending", "active") == {
        "completed": 30,
        "pending": 70,
        "active": 0,
    }


def test_an_idle_worker_starts_a_job_when_it_arrives(site: Site, command: Start) -> None:
    worker = command("echomq_worker", "default")
    worker.until("Stop with")
    for _ in range(5):
        result = tasks.noop.enqueue()
        wait_until(lambda result=result: site("default").jobs.state(result.id) == "completed")


def test_a_job_that_a_stock_peer_admits_without_a_wake_is_found(
    site: Site, command: Start, raw: redis.Redis
) -> None:
    worker = command("echomq_worker", "default")
    worker.until("Stop with")
    job_id = "JOB0NsVQMCRgHI"
    raw.hset(
        f"emq:{{default}}:job:{job_id}",
        mapping={"state": "pending", "attempts": 0, "payload": '{"task":"no"}'},
    )
    raw.zadd("emq:{default}:pending", {job_id: 0})
    wait_until(lambda: site("default").jobs.state(job_id) == "scheduled", "the job to be tried")


def test_the_worker_promotes_what_is_due(site: Site, command: Start) -> None:
    worker = command("echomq_worker", "fast")
    worker.until("Stop with")
    admission = site("fast").jobs.enqueue_in(b'{"task":"tests.testapp.tasks.noop"}', 0.3)
    wait_until(lambda: site("fast").jobs.state(admission.job_id) == "completed")


def test_without_promoter_it_leaves_that_to_the_promoter(site: Site, command: Start) -> None:
    queue = site("fast")
    worker = command("echomq_worker", "fast", "--no-promoter")
    worker.until("Stop with")
    job_id = queue.jobs.enqueue_in(b'{"task":"tests.testapp.tasks.noop"}', 0).job_id
    # The worker is known to look at the queue when a later job is done.
    tasks.flaky.enqueue(0)
    wait_until(lambda: queue.metrics.counts("completed") == {"completed": 1})
    assert queue.jobs.state(job_id) == "scheduled"
    promoter = command("echomq_promoter", "fast", "--tick", "0.1")
    promoter.until("every 0.1 s")
    wait_until(lambda: queue.jobs.state(job_id) == "completed")
    promoter.signal(signal.SIGTERM)
    assert promoter.wait() == 0


def test_many_promoters_and_workers_move_nothing_twice(
    site: Site, command: Start, tmp_path: Path
) -> None:
    path = tmp_path / "effects"
    queue = site("default")
    payloads = [
        f'{{"task":"tests.testapp.tasks.effect","args":["{path}","{n}"]}}' for n in range(500)
    ]
    for payload in payloads:
        queue.jobs.enqueue_in(payload, 0.2)
    started = [command("echomq_promoter", "default", "--tick", "0.05") for _ in range(3)]
    started += [command("echomq_worker", "default") for _ in range(2)]
    wait_until(lambda: idle(queue), "all jobs to be done")
    for each in started:
        each.until("Stop with")  # before that it dies of the signal
        each.signal(signal.SIGTERM)
        assert each.wait() == 0, each.output()
    assert Counter(lines(path)) == Counter(str(n) for n in range(500))


def test_sigterm_finishes_the_jobs_in_hand_and_claims_no_more(
    site: Site, command: Start, tmp_path: Path
) -> None:
    path, gate = tmp_path / "effects", tmp_path / "gate"
    for n in range(6):
        tasks.gated.enqueue(str(path), str(n), str(gate))
    worker = command("echomq_worker", "default", "--threads", "3")
    wait_until(lambda: len(lines(path)) == 3, "three jobs in hand")
    worker.signal(signal.SIGTERM)
    worker.until("Stopping")
    gate.touch()
    assert worker.wait() == 0, worker.output()
    started = {line.split()[1] for line in lines(path) if line.startswith("start")}
    ended = {line.split()[1] for line in lines(path) if line.startswith("end")}
    assert started == ended
    assert len(ended) == 3
    counts = site("default").metrics.counts("completed", "pending", "active")
    assert counts == {"completed": 3, "pending": 3, "active": 0}


@pytest.mark.parametrize("how", ["a second signal", "the grace time"])
def test_what_does_not_finish_is_given_back(
    site: Site, command: Start, tmp_path: Path, how: str
) -> None:
    queue = site("default")
    path = tmp_path / "effects"
    job_id = tasks.record.enqueue(str(path), "long", 60).id
    grace = "0.2" if how == "the grace time" else "60"
    worker = command("echomq_worker", "default", "--grace", grace)
    wait_until(lambda: lines(path), "the job to start")
    worker.signal(signal.SIGTERM)
    if how == "a second signal":
        worker.until("Stopping")
        worker.signal(signal.SIGTERM)
    assert worker.wait() == 75, worker.output()
    job = queue.jobs.get(job_id)
    assert (job.state, job.attempts, job.attempt) == ("pending", 1, 0)
    (claim,) = queue.jobs.claim()
    assert (claim.attempts, claim.attempt) == (2, 1)


def test_a_healthy_job_longer_than_its_lease_runs_once(
    site: Site, command: Start, tmp_path: Path
) -> None:
    path = tmp_path / "effects"
    tasks.fast_record.enqueue(str(path), "long", 3.5)
    first = command("echomq_worker", "fast")
    second = command("echomq_worker", "fast")
    wait_until(lambda: len(lines(path)) == 2, "the job to end")
    wait_until(lambda: idle(site("fast")))
    for each in (first, second):
        each.signal(signal.SIGTERM)
        each.wait()
    assert lines(path) == ["start long", "end long"]
    assert site("fast").metrics.counts("completed") == {"completed": 1}


def round_trips(raw: redis.Redis) -> int:
    """Commands that clients sent so far; those that scripts run do not count."""
    stats: Any = raw.info("commandstats")
    names = ("evalsha", "eval", "blpop", "script|load", "get", "ping", "hget", "exists")
    return sum(stats.get(f"cmdstat_{name}", {}).get("calls", 0) for name in names)


def monitored(raw: redis.Redis, until: Callable[[], Any]) -> list[str]:
    """The commands of clients while something comes true."""
    commands: list[str] = []
    with raw.monitor() as monitor:
        raw.ping()
        until()
        raw.echo("the end")
        for command in monitor.listen():
            if "the end" in command["command"]:
                break
            if command["client_type"] != "lua":
                commands.append(command["command"])
    return commands


@pytest.mark.usefixtures("one_server")
def test_an_enqueue_is_one_round_trip(site: Site, raw: redis.Redis) -> None:
    # Its number is leased now, and not again for some minutes.
    site("default").client.home._node = None
    tasks.noop.enqueue()

    def send() -> None:
        for _ in range(20):
            tasks.noop.enqueue()

    assert len([c for c in monitored(raw, send) if c.startswith("EVALSHA")]) == 20
    assert len(monitored(raw, send)) == 21  # and the PING of the monitor itself


@pytest.mark.parametrize("seconds", [0, 0.001], ids=["no-op", "1 ms"])
def test_a_saturated_worker_makes_at_most_0_3_round_trips_per_job(
    site: Site, command: Start, raw: redis.Redis, seconds: float, tmp_path: Path
) -> None:
    if seconds:
        calls = [((str(tmp_path / "effects"), "x", seconds), {})] * 3_000
        tasks.record.enqueue_many(calls)
    else:
        tasks.noop.enqueue_many([((), {})] * 3_000)

    def drain() -> None:
        assert command("echomq_worker", "default", "--burst").wait(60) == 0

    commands = monitored(raw, drain)
    assert len(commands) / 3_000 <= 0.3


@pytest.mark.usefixtures("one_server")
def test_an_idle_worker_asks_at_most_three_times_a_second(
    site: Site, command: Start, raw: redis.Redis
) -> None:
    worker = command("echomq_worker", "default")
    worker.until("Stop with")
    queue = site("default")
    result = tasks.noop.enqueue()
    wait_until(lambda: queue.jobs.state(result.id) == "completed")

    def five_beats() -> None:
        def blpops() -> int:
            stats: Any = raw.info("commandstats")
            return int(stats.get("cmdstat_blpop", {"calls": 0})["calls"])

        end = blpops() + 5
        # Polled from outside; these INFO commands are not the worker's.
        wait_until(lambda: blpops() >= end, "five beats", step=0.2)

    ours = ("INFO", "PING", "HELLO", "CLIENT")
    commands = [c for c in monitored(raw, five_beats) if not c.startswith(ours)]
    parked = len([c for c in commands if c.startswith("BLPOP")])
    assert parked >= 5
    # A claim goes with each wait, in one write.
    claims = len(
        [c for c in commands if c.startswith(f"EVALSHA {script('jobs/settle').sha.decode()}")]
    )
    assert claims <= parked + 1
    assert len(commands) - claims <= 3 * 5 + 1


def test_a_queue_that_was_purged_under_a_worker_does_no_harm(
    site: Site, command: Start, raw: redis.Redis, tmp_path: Path
) -> None:
    path, gate = tmp_path / "effects", tmp_path / "gate"
    worker = command("echomq_worker", "default")
    tasks.gated.enqueue(str(path), "gone", str(gate))
    wait_until(lambda: lines(path), "the job to start")
    purge(raw, "default")
    gate.touch()
    worker.until("was no longer this worker's")
    result = tasks.noop.enqueue()
    wait_until(lambda: site("default").jobs.state(result.id) == "completed")


@pytest.mark.parametrize("name", ["echomq_worker", "echomq_promoter"])
def test_the_server_is_told_what_the_settings_say_of_events(
    site: Site, command: Start, name: str
) -> None:
    site("mail").events.disable()
    process = command(name, "mail")
    wait_until(site("mail").events.is_enabled, "the setting to be applied")
    process.signal(signal.SIGTERM)
    assert process.wait() == 0


def test_events_that_the_settings_turn_off_are_off(make_queue: Callable[..., Queue]) -> None:
    queue = make_queue(events=False)
    apply_settings([queue])
    assert not queue.events.is_enabled()
