"""A server, workers, producers, an operator and an auditor, and what strikes them."""

from __future__ import annotations

import json
import math
import os
import random
import signal
import subprocess
import sys
import threading
import time
import traceback
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import psutil
import redis

from django_echomq.queue import Queue, QueueOptions, Verdict
from django_echomq.wire.client import LOST, Client
from django_echomq.wire.endpoint import Endpoint
from django_echomq.wire.errors import EchoMQError
from tests.conftest import ROOT, wait_until
from tests.faults.conftest import Server
from tests.queue.keyspace import check_ring, in_hand
from tests.soak.books import Books, Effect, Fate, Tail, labels

LEASE = 3.0
_SETTLED_WITHIN = 120.0
_CANCELLED_FOR = 20  # seconds that a cancelled job may be reprocessed, before it is audited
_WORKER = ("-m", "django", "echomq_worker", "soak", "--grace", "3")
_ROLES = {
    # Struck by what strikes the server and the connections only: its memory tells of leaks.
    "steady": (*_WORKER, "--threads", "4"),
    "single": (*_WORKER, "--threads", "4", "--no-promoter"),
    "group": (*_WORKER, "--threads", "3", "--processes", "2"),
    "promoter": ("-m", "django", "echomq_promoter", "soak"),
    "producer-1": ("-m", "tests.soak.producer"),
    "producer-2": ("-m", "tests.soak.producer"),
}

# What a worker's log has where the worker itself is at fault, or its server is not sound.
_NEVER_SAID = (
    "Running job",
    "could not be settled",
    "Claiming from queue",
    "The beat on queue",
    "Preparing failed",
    "Waiting for work failed",
    "could not be told",
    "were not fired",
)


class Soak:
    """One run.

    Args:
        folder: where everything is kept.
        seed: of all that is drawn at random.
    """

    def __init__(self, folder: Path, seed: int) -> None:
        self.folder = folder
        self.books = Books()
        self._rng = random.Random(seed)
        self._journal = Tail(folder / "journal")
        self._effects = Tail(folder / "effects")
        (folder / "server").mkdir(parents=True)
        self.server = Server(
            folder / "server",
            *("--appendonly", "yes", "--appendfsync", "always"),
            # Rewritten often, as that is when it can go wrong, and soon loaded again.
            *("--auto-aof-rewrite-min-size", "1mb"),
        )
        self.server.start()
        self.client = Client(Endpoint.from_url(self.server.url), retry_for=300)
        day = 86_400_000
        options = QueueOptions(keep_completed_ms=day, keep_completed_max=10_000_000)
        self.queue = Queue("soak", self.client, options)
        self._running: dict[str, subprocess.Popen[bytes]] = {}
        self._starts = 0
        self._audited: set[str] = set()
        self._over = threading.Event()
        self._each_came = threading.Event()

    # Processes

    def start(self, role: str) -> None:
        self._starts += 1
        name = f"{role}-{self._starts}"
        words = list(_ROLES[role])
        if "producer" in role:
            words += [name, str(self._rng.randrange(2**32))]
        elif role != "promoter":
            words += ["--name", name]
        with (self.folder / f"{role}.log").open("ab") as log:
            self._running[role] = subprocess.Popen(
                [sys.executable, *words],
                cwd=ROOT,
                env={
                    **os.environ,
                    "DJANGO_SETTINGS_MODULE": "tests.soak.settings",
                    "PYTHONPATH": str(ROOT),
                    "ECHOMQ_TEST_URL": self.server.url,
                    "SOAK_EFFECTS": str(self._effects.path),
                    "SOAK_JOURNAL": str(self._journal.path),
                },
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
            )

    def _family(self, role: str) -> list[psutil.Process]:
        try:
            process = psutil.Process(self._running[role].pid)
            return [process, *process.children(recursive=True)]
        except psutil.NoSuchProcess:
            return []

    def _note(self, what: str, *processes: psutil.Process) -> None:
        self.books.strikes[what] += 1
        pids = [process.pid for process in processes]
        with (self.folder / "strikes").open("a") as file:
            file.write(f"{time.strftime('%H:%M:%S')} {what} {pids}\n")
        for process in processes:
            self.books.struck[process.pid] = what

    def _signal(self, number: int, processes: list[psutil.Process]) -> None:
        for process in processes:
            with suppress(ProcessLookupError):
                os.kill(process.pid, number)

    # What strikes

    def _kill(self, role: str) -> None:
        self._check_alive(role)
        family = self._family(role)
        self._note(f"{role.partition('-')[0]} killed", *family)
        self._signal(signal.SIGKILL, family)
        self._running[role].wait()
        self.start(role)

    def _kill_a_child(self) -> None:
        children = self._family("group")[1:]
        if children:
            victim = self._rng.choice(children)
            self._note("child killed", victim)
            self._signal(signal.SIGKILL, [victim])

    def _freeze(self, role: str) -> None:
        family = self._family(role)
        self._note("stopped past the lease", *family)
        self._signal(signal.SIGSTOP, family)
        time.sleep(LEASE + self._rng.uniform(0.5, 2))
        self._signal(signal.SIGCONT, family)

    def _restart(self, role: str) -> None:
        self._note("stopped with SIGTERM", *self._family(role))
        self._end(role)
        self.start(role)

    def _check_alive(self, role: str) -> None:
        code = self._running[role].poll()
        if code is not None:
            self.books.fault(f"{role} ended by itself with {code}")

    def _end(self, role: str) -> None:
        self._check_alive(role)
        process = self._running[role]
        process.terminate()
        try:
            code = process.wait(60)
        except subprocess.TimeoutExpired:
            family = self._family(role)
            states = {each.pid: each.status() for each in family}
            self.books.fault(f"{role} did not end within 60 s of SIGTERM: {states}")
            self._signal(signal.SIGKILL, family)
            process.wait()
            return
        # -15: before it was ready. A group may tell of a child that was killed.
        if code not in (0, 75, -signal.SIGTERM) and not (role == "group" and code > 128):
            self.books.fault(f"{role} ended with {code} after SIGTERM")

    def _cut(self) -> None:
        self._note("connections cut")
        own = self.server.raw.client_id()
        for other in self.server.raw.client_list():
            if int(other["id"]) != own and self._rng.random() < 0.7:
                self.server.raw.client_kill_filter(_id=other["id"])

    def _flush(self) -> None:
        self._note("scripts flushed")
        self.server.raw.script_flush()

    def _kill_server(self) -> None:
        self._note("server killed")
        self.server.kill()
        time.sleep(self._rng.uniform(0, 1))
        self.server.start()
        wait_until(self._serves, "the server to have loaded its data", 300, 0.05)

    def _serves(self) -> bool:
        try:
            return bool(self.server.raw.ping())
        except redis.RedisError:
            return False

    def _storm(self) -> None:
        """Strikes in each way once, then at random."""

        def worker() -> str:
            return self._rng.choice(["single", "group"])

        weights: dict[Callable[[], None], int] = {
            lambda: self._kill(worker()): 3,
            self._kill_a_child: 2,
            lambda: self._freeze(worker()): 3,
            lambda: self._restart(worker()): 2,
            self._cut: 4,
            self._flush: 4,
            self._kill_server: 2,
            lambda: self._kill("promoter"): 1,
            lambda: self._kill(self._rng.choice(["producer-1", "producer-2"])): 1,
        }
        blows, longest = list(weights), 1.0
        self._rng.shuffle(blows)
        while not self._over.wait(self._rng.uniform(0.2, longest)):
            if not blows:
                self._each_came.set()
                blows, longest = self._rng.choices(list(weights), [*weights.values()]), 4.0
            with suppress(redis.RedisError):
                blows.pop()()

    # The operator and the auditor: one thread, so that no job is brought back while it is audited

    def _operate(self) -> None:
        audit_at = 0.0
        while not self._over.wait(self._rng.uniform(0, 0.1)):
            try:
                if time.monotonic() > audit_at:
                    self.audit()
                    audit_at = time.monotonic() + 1
                self._act()
            except (EchoMQError, *LOST) as error:
                self.books.acts[f"refused with {type(error).__name__}"] += 1

    def _act(self) -> None:
        rng, queue, acts = self._rng, self.queue, self.books.acts
        state = rng.choice(["pending", "active", "scheduled", "scheduled", "dead", "completed"])
        lane = rng.choice([None, "heavy", "narrow"]) if state == "pending" else None
        jobs = queue.jobs.browse(state, 0, 20, lane=lane)
        if rng.random() < 0.02:
            queue.admin.pause()
            time.sleep(rng.uniform(0, 0.5))
            queue.admin.resume()
            acts["pause, resume"] += 1
        if rng.random() < 0.05:
            lane = rng.choice(["heavy", "narrow", "a"])
            verb = rng.choice([queue.lanes.pause, queue.lanes.resume, queue.lanes.resume])
            verb(lane)
            acts["lane paused or resumed"] += 1
        if rng.random() < 0.02:
            queue.admin.limit_concurrency(rng.choice([None, None, 4]))
            queue.admin.limit_rate(rng.choice([None, None, "60/s"]))
            acts["limits set"] += 1
        if not jobs:
            return
        job = rng.choice(jobs)
        tag, _ = labels(job)
        if tag == "tick" and state != "completed":
            return
        if state == "completed":
            if job.fields.get("state") == b"cancelled":
                queue.jobs.reprocess(job.id)
                acts["cancelled reprocessed"] += 1
            return
        if state == "dead":
            if rng.random() < 0.7:
                queue.jobs.reprocess(job.id)
                acts["dead reprocessed"] += 1
            else:
                self._remove(job.id, tag)
            return
        verb = rng.randrange(8)
        if verb == 0:
            acts[f"cancel: {queue.jobs.cancel(job.id)}"] += 1
        elif verb == 1:
            self._remove(job.id, tag)
        elif verb in (2, 3):
            call = json.loads(job.payload)
            call.setdefault("kwargs", {})["edit"] = f"e{rng.randrange(1_000_000)}"
            queue.jobs.update_data(job.id, json.dumps(call))
            acts["payload edited"] += 1
        elif verb in (4, 5):
            to = rng.choice([None, "heavy", "narrow", "a", "b"])
            acts[f"reassign: {queue.lanes.reassign(job.id, to)}"] += 1
        elif verb == 6:
            queue.jobs.reschedule(job.id, time.time_ns() // 1_000_000 + rng.randrange(2_000))
            acts["rescheduled"] += 1
        elif state == "scheduled":
            queue.jobs.promote_now(job.id)
            acts["promoted"] += 1

    def _remove(self, job_id: str, tag: str) -> None:
        (verdict,) = self.queue.jobs.remove_many([job_id])
        if verdict is Verdict.DONE:
            self.books.removed[job_id] = tag
        self.books.acts[f"remove: {verdict}"] += 1

    def audit(self, everything: bool = False) -> None:
        """Notes what has ended, and takes its records away so that the server stays small."""
        while True:
            jobs = self.queue.jobs.browse("completed", 0, 500, newest_first=False)
            taken = []
            for job in jobs:
                record = Fate.of(job)
                state = job.fields["state"].decode()
                finished = job.finished_at
                young = finished and time.time() - finished.timestamp() < _CANCELLED_FOR
                if state == "cancelled" and young and not everything:
                    continue
                if job.id in self._audited:
                    self.books.fault("it has ended twice", job.id)
                self.books.fates[job.id] = Fate(**{**vars(record), "state": state})
                taken.append(job.id)
            verdicts = self.queue.jobs.remove_many(taken)
            for job_id, verdict in zip(taken, verdicts, strict=True):
                if verdict is Verdict.DONE:
                    self._audited.add(job_id)
            if len(taken) < 250:
                return

    # The run

    def run(self, minutes: float, say: Callable[[str], None]) -> None:
        """Runs so long, and until each strike came once; lets all settle, and fills the books."""
        for role in _ROLES:
            self.start(role)
        wait_until(lambda: len(self.queue.workers.all()) >= 4, "the workers to serve", 300)
        began = time.monotonic()
        end, told, middle = began + minutes * 60, began, began + minutes * 30
        faults = 0
        self._weigh("start")
        threads = [
            threading.Thread(target=self._watched, args=(work,))
            for work in (self._storm, self._operate)
        ]
        for thread in threads:
            thread.start()
        try:
            while all(thread.is_alive() for thread in threads):
                now = time.monotonic()
                if now >= end and self._each_came.is_set():
                    break
                self._read()
                for fault in self.books.faults[faults:]:
                    say(fault)
                    faults += 1
                if now >= told + min(10, minutes * 12):
                    told = now
                    say(self._line(now - began))
                if now >= middle:
                    middle = math.inf
                    self._weigh("middle")
                time.sleep(0.2)
        finally:
            self._over.set()
            for thread in threads:
                thread.join()
        self._settle(say)

    def _watched(self, work: Callable[[], None]) -> None:
        try:
            work()
        except BaseException:
            self.books.fault(f"the run went wrong: {traceback.format_exc()}")

    def _line(self, seconds: float) -> str:
        books = self.books
        counts = self.queue.metrics.counts("pending", "active", "scheduled", "dead")
        answered = sum(answer[:1] == ["ok"] for answer in books.tries.values())
        done = sum(effect.word == "done" for effect in books.effects)
        return (
            f"{seconds / 60:5.1f} min  admissions {answered:,}  effects {done:,}  "
            f"ended {len(books.fates):,}  there {sum(counts.values()):,}  "
            f"strikes {books.strikes.total():,}  faults {len(books.faults)}"
        )

    def _read(self) -> None:
        for line in self._journal.lines():
            self.books.note_journal(line)
        self.books.effects += map(Effect.read, self._effects.lines())

    def _weigh(self, when: str) -> None:
        info = self.server.raw.info("memory")
        sizes = {
            "server": info["used_memory"] / 2**20,
            "server (resident)": info["used_memory_rss"] / 2**20,
        }
        with suppress(psutil.NoSuchProcess):
            worker, *children = self._family("steady")
            sizes["steady worker"] = worker.memory_info().rss / 2**20
            for n, child in enumerate(children, 1):
                sizes[f"its child {n}"] = child.memory_info().rss / 2**20
        self.books.memory.append((when, sizes))

    def _settle(self, say: Callable[[str], None]) -> None:
        say("settling")
        for role in ("producer-1", "producer-2"):
            self._end(role)
        queue, books = self.queue, self.books
        queue.admin.resume()
        queue.admin.limit_concurrency(None)
        queue.admin.limit_rate(None)
        for lane in queue.lanes.all():
            queue.lanes.resume(lane.name)
        queue.repeat.pause("tick")

        def idle() -> bool:
            self.audit()
            return not any(queue.metrics.counts("pending", "active", "scheduled").values())

        with suppress(AssertionError):
            wait_until(idle, "all to settle", _SETTLED_WITHIN, step=0.2)
        self._weigh("end")
        for role in ("steady", "single", "group", "promoter"):
            self._end(role)
        self._read()
        for role in _ROLES:
            for line in (self.folder / f"{role}.log").read_text(errors="replace").splitlines():
                if any(words in line for words in _NEVER_SAID):
                    books.fault(f"{role} says: {line}")
        self.audit(everything=True)
        for state in ("dead", "pending", "active", "scheduled"):
            offset = 0
            while jobs := queue.jobs.browse(state, offset, 500):
                books.fates.update((job.id, Fate.of(job)) for job in jobs)
                offset += 500
        for lane in queue.lanes.all():
            for job in queue.jobs.browse("pending", 0, 500, lane=lane.name):
                books.fates[job.id] = Fate.of(job)
        schedule = queue.repeat.get("tick")
        books.fired = schedule.fired if schedule else -1
        books.counted = queue.metrics.counts("completed")["completed"]
        try:
            check_ring(queue, self.server.raw)
            assert not in_hand(queue, self.server.raw)
        except AssertionError as error:
            books.fault(f"the lanes are not in order: {error}")
        queue.admin.pause()
        queue.admin.obliterate(force=True)
        books.left = [key.decode() for key in self.server.raw.scan_iter("emq:{soak}:*")]
        if books.left:
            books.fault("obliterate left keys")

    def close(self) -> None:
        for role in self._running:
            family = self._family(role)
            self._signal(signal.SIGCONT, family)
            self._signal(signal.SIGKILL, family)
            self._running[role].wait()
        self.client.close()
        self.server.raw.close()
        self.server.kill()
