"""Many promoters, killed promoters, skewed clocks: each tick fires once."""

from __future__ import annotations

import json
import signal
from collections import Counter
from collections.abc import Callable
from pathlib import Path

import pytest
import redis

from django_echomq.queue import Queue
from tests.conftest import ROOT, Command, wait_until

Site = Callable[[str], Queue]
Start = Callable[..., Command]


def ticks(queue: Queue) -> int:
    return queue.metrics.counts("pending")["pending"]


@pytest.mark.parametrize("killing", [False, True], ids=["calm", "killing"])
def test_ten_promoters_fire_each_tick_once(
    site: Site, command: Start, raw: redis.Redis, killing: bool
) -> None:
    queue = site("fast")
    queue.repeat.register("beat", payload=b"x", every=0.5)
    promoters = [command("echomq_promoter", "fast") for _ in range(10)]
    for promoter in promoters:
        promoter.until("Stop with")
    raw.delete("emq:{fast}:repeat", "emq:{fast}:repeat:beat", "emq:{fast}:schedules")
    for job in queue.jobs.browse("pending", limit=1_000):
        raw.delete(queue.keys.job(job.id))
    raw.delete(queue.keys.pending)

    queue.repeat.register("beat", payload=b"x", every=0.5)
    schedule = queue.repeat.get("beat")
    assert schedule is not None
    assert schedule.next_run is not None
    first = round(schedule.next_run.timestamp() * 1000)
    for round_ in range(8):
        wait_until(lambda round_=round_: ticks(queue) >= 4 * (round_ + 1), "ticks")
        if killing:
            promoters[round_].signal(signal.SIGKILL)
    queue.repeat.pause("beat")
    schedule = queue.repeat.get("beat")
    assert schedule is not None
    assert schedule.last_at is not None
    last = round(schedule.last_at.timestamp() * 1000)
    # No tick was skipped and none doubled, unless the machine itself stood still for longer than
    # a tick, which "skip" makes up for with one run.
    assert (last - first) % 500 == 0
    assert ticks(queue) == schedule.fired <= (last - first) // 500 + 1
    assert schedule.fired >= 32
    for promoter in promoters:
        promoter.signal(signal.SIGTERM)


def test_schedules_of_the_settings_follow_them(site: Site, command: Start, tmp_path: Path) -> None:
    queue = site("default")
    path = tmp_path / "effects"

    def start(schedules: dict[str, object]) -> Command:
        worker = command(
            "echomq_worker", "default", env={"ECHOMQ_TEST_SCHEDULES": json.dumps(schedules)}
        )
        worker.until("Stop with")
        return worker

    effect = {"TASK": "tests.testapp.tasks.effect", "EVERY": 0.2, "ARGS": [str(path), "tick"]}
    night = {"TASK": "tests.testapp.tasks.noop", "CRON": "30 2 * * *", "TZ": "Europe/Berlin"}
    first = start({"effect": effect, "night": night})
    wait_until(lambda: path.exists() and len(path.read_text().splitlines()) >= 3, "three ticks")
    first.signal(signal.SIGTERM)
    assert first.wait() == 0, first.output()
    assert [s.name for s in queue.repeat.all()] == ["effect", "night"]

    second = start({"night": {**night, "CRON": "0 3 * * *"}})
    wait_until(lambda: [s.name for s in queue.repeat.all()] == ["night"])
    wait_until(lambda: queue.repeat.all()[0].definition.cron == "0 3 * * *")
    second.signal(signal.SIGTERM)
    assert second.wait() == 0, second.output()
    assert Counter(path.read_text().splitlines()).keys() == {"tick"}


def test_hosts_with_wrong_clocks_fire_nothing_early_late_or_twice(
    site: Site, command: Start, raw: redis.Redis, tmp_path: Path
) -> None:
    """The server's clock decides; a host's clock only goes into the ids it mints."""
    queue = site("default")
    path = tmp_path / "effects"
    workers = []
    for skew in (300, -300):
        folder = tmp_path / f"skew{skew}"
        folder.mkdir()
        (folder / "sitecustomize.py").write_text(
            "import time\n"
            "true, true_ns = time.time, time.time_ns\n"
            f"time.time = lambda: true() + {skew}\n"
            f"time.time_ns = lambda: true_ns() + {skew} * 1_000_000_000\n"
        )
        env = {"PYTHONPATH": f"{folder}:{ROOT}"}
        worker = command("echomq_worker", "default", env=env)
        worker.until("Stop with")
        workers.append(worker)
    payload = '{"task":"tests.testapp.tasks.stamp","args":["%s","%s"]}'
    due = {}
    for n in range(30):
        job_id = queue.jobs.enqueue_in(payload % (path, n), 1).job_id
        due[str(n)] = raw.zscore(queue.keys.schedule, job_id)
    queue.repeat.register("beat", payload=payload % (path, "beat"), every=0.5)
    schedule = queue.repeat.get("beat")
    assert schedule is not None
    assert schedule.next_run is not None
    first = schedule.next_run.timestamp() * 1000

    def effects() -> list[list[str]]:
        return [line.split() for line in path.read_text().splitlines()] if path.exists() else []

    wait_until(lambda: sum(name == "beat" for name, _ in effects()) >= 6, "six beats")
    wait_until(lambda: len(effects()) >= 36, "all jobs")
    queue.repeat.cancel("beat")
    for worker in workers:
        worker.signal(signal.SIGTERM)
        assert worker.wait() == 0, worker.output()
    for name, times in due.items():
        (at,) = [int(at) for other, at in effects() if other == name]
        assert at >= times
    beats = sorted(int(at) for name, at in effects() if name == "beat")
    assert all(at >= first + 500 * n for n, at in enumerate(beats))
