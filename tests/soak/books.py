"""What is known of every job of a soak, and the balance of it."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from django_echomq.queue import Job


class Tail:
    """Reads a growing file of lines, each once and only when it is whole."""

    def __init__(self, path: Path) -> None:
        self.path = path
        self._at = 0

    def lines(self) -> Iterator[str]:
        if not self.path.exists():
            return
        with self.path.open("rb") as file:
            file.seek(self._at)
            for line in file:
                if not line.endswith(b"\n"):
                    return
                self._at += len(line)
                yield line.decode().rstrip("\n")


class Effect(NamedTuple):
    """A line of the effects; see ``tests/soak/tasks.py``."""

    word: str
    tag: str
    job_id: str
    token: int
    pid: int
    parent: int
    edit: str

    @classmethod
    def read(cls, line: str) -> Effect:
        word, tag, job_id, token, pid, parent, edit = line.split()
        return cls(word, tag, job_id, int(token), int(pid), int(parent), edit)


@dataclass(frozen=True)
class Fate:
    """A job as it was found at its end, or at the end of the run."""

    state: str
    tag: str
    attempts: int
    base: int
    stalled: int
    failures: int
    error: str | None
    edit: str

    @classmethod
    def of(cls, job: Job) -> Fate:
        tag, edit = labels(job)
        return cls(
            job.state,
            tag,
            job.attempts,
            job.attempts - job.attempt,
            job.stalled,
            len(job.history),
            job.last_error,
            edit,
        )

    @property
    def extra_tries(self) -> int:
        """How many claims beside the last one the row accounts for."""
        return self.base + self.stalled + self.failures


def labels(job: Job) -> tuple[str, str]:
    """The tag and the edit in a job's payload."""
    call: dict[str, Any] = json.loads(job.payload)
    tag = "tick" if job.schedule else str(call.get("args", ["?"])[0])
    return tag, call.get("kwargs", {}).get("edit", "-")


@dataclass
class Books:
    """Everything that a run learns, and what follows from it."""

    #: tag -> "" before an answer, else the words of the answer
    tries: dict[str, list[str]] = field(default_factory=dict)
    effects: list[Effect] = field(default_factory=list)
    #: completed or cancelled, as the auditor met them; dead and waiting, as the end met them
    fates: dict[str, Fate] = field(default_factory=dict)
    #: removed by an operator -> tag
    removed: dict[str, str] = field(default_factory=dict)
    #: pid -> what struck it
    struck: dict[int, str] = field(default_factory=dict)
    acts: Counter[str] = field(default_factory=Counter)
    strikes: Counter[str] = field(default_factory=Counter)
    memory: list[tuple[str, dict[str, float]]] = field(default_factory=list)
    fired: int = 0
    counted: int = 0
    left: list[str] = field(default_factory=list)
    #: what is wrong, with what is known of it
    faults: list[str] = field(default_factory=list)

    def note_journal(self, line: str) -> None:
        word, tag, *rest = line.split()
        self.tries[tag] = [] if word == "try" else [word, *rest]

    def admitted(self) -> dict[str, str]:
        """Job id -> tag of the admissions whose answer came; duplicates are none."""
        found: dict[str, str] = {}
        for tag, answer in self.tries.items():
            if answer and answer[0] == "ok" and answer[2] != "duplicate":
                if answer[1] in found:
                    self.fault(f"two admissions were answered {answer[1]}", answer[1])
                found[answer[1]] = tag
        return found

    def fault(self, what: str, job_id: str = "") -> None:
        known = [
            f"    {effect.word} under token {effect.token} in {effect.pid}"
            f" ({self.cause(effect) or 'not struck'})"
            for effect in self.effects
            if effect.job_id == job_id
        ]
        if fate := self.fates.get(job_id):
            known.append(f"    {fate}")
        if job_id in self.removed:
            known.append("    removed by an operator")
        self.faults.append("\n".join([f"{what}: {job_id}" if job_id else what, *known]))

    def cause(self, effect: Effect) -> str:
        return self.struck.get(effect.pid) or self.struck.get(effect.parent) or ""

    def balance(self) -> str:
        """Checks everything, and answers the sheet; what is wrong is then in ``faults``."""
        admitted = self.admitted()
        ends = Counter[str]()
        for job_id, tag in admitted.items():
            fate = self.fates.get(job_id)
            if fate and job_id in self.removed:
                self.fault("removed, and found later", job_id)
            elif fate:
                ends[fate.state] += 1
                if fate.tag != tag:
                    self.fault(f"admitted as {tag}", job_id)
            elif job_id in self.removed:
                ends["removed"] += 1
            else:
                ends["lost"] += 1
                self.fault(f"lost, admitted as {tag}", job_id)
        waiting = {s: n for s, n in ends.items() if s in ("pending", "active", "scheduled")}
        if waiting:
            self.fault(f"still there after all has settled: {waiting}")

        found = {i: fate.tag for i, fate in self.fates.items()} | self.removed
        unanswered = Counter[str]()
        ticks = 0
        for job_id, tag in found.items():
            if tag == "tick":
                ticks += 1
            elif job_id not in admitted:
                answer = self.tries.get(tag)
                if answer is None or (answer and answer[0] == "ok"):
                    self.fault(f"nobody admitted it ({tag})", job_id)
                unanswered[tag] += 1
        for tag, n in unanswered.items():
            if n > 1:
                self.fault(f"{tag} was admitted {n} times")
        if ticks != self.fired:
            self.fault(f"the schedule fired {self.fired} times, and {ticks} jobs came of it")
        completed = sum(fate.state == "completed" for fate in self.fates.values())
        # What an operator removed may have completed since he looked.
        if not completed <= self.counted <= completed + len(self.removed):
            self.fault(f"the queue counts {self.counted} completed jobs, found are {completed}")

        doubled, causes = self._effects(found)
        asked = [answer for answer in self.tries.values() if not answer or answer[0] == "error"]
        answers = Counter(
            answer[2] for answer in self.tries.values() if answer and answer[0] == "ok"
        )
        dead = Counter(
            (fate.error or "").partition(":")[0]
            for fate in self.fates.values()
            if fate.state == "dead"
        )
        words = Counter(effect.word for effect in self.effects)
        order = ("completed", "dead", "cancelled", "removed", "pending", "active", "scheduled")
        memory = "\n".join(
            f"  {when:<7} " + ", ".join(f"{who} {mib:.1f}" for who, mib in sizes.items())
            for when, sizes in self.memory
        )
        return "\n".join(
            [
                f"admissions    {len(self.tries):,}: {told(answers)}; "
                f"no answer or an error {len(asked):,}, of these in {len(unanswered):,}",
                f"admitted      {len(admitted):,} = "
                + " + ".join(f"{ends[state]:,} {state}" for state in order if ends[state])
                + f"; lost {ends['lost']}",
                f"schedule      {self.fired:,} fired = {ticks:,} jobs",
                f"dead by       {told(dead)}",
                f"effects       {told(words)}",
                f"doubled       {doubled:,}: {told(causes)}",
                f"struck by     {told(self.strikes)}",
                f"operated      {told(self.acts)}",
                f"memory (MiB)\n{memory}",
                f"keys left after obliterate: {len(self.left)} {' '.join(self.left[:20])}",
                f"unexplained   {len(self.faults)}",
                *self.faults[:50],
            ]
        )

    def _effects(self, found: dict[str, str]) -> tuple[int, Counter[str]]:
        """Checks the effects; answers how many were doubled, and why."""
        by_job: dict[str, list[Effect]] = defaultdict(list)
        for effect in self.effects:
            by_job[effect.job_id].append(effect)
        doubled, causes = 0, Counter[str]()
        for job_id, effects in by_job.items():
            if job_id not in found:
                self.fault("it ran, and is nowhere", job_id)
                continue
            starts = Counter(effect.token for effect in effects if effect.word == "start")
            for token, n in starts.items():
                if n > 1:
                    self.fault(f"token {token} ran {n} times", job_id)
            fate = self.fates.get(job_id)
            if fate and max(starts, default=0) > fate.attempts:
                self.fault("it ran under a token that its row does not know", job_id)
            done = [effect for effect in effects if effect.word == "done"]
            for effect in done[:-1]:
                doubled += 1
                if fate and not fate.extra_tries:
                    self.fault("it ran twice, and its row does not say why", job_id)
                else:
                    causes[self.cause(effect) or _told_by(fate)] += 1
        for job_id, fate in self.fates.items():
            if fate.state != "completed":
                continue
            accepted = [
                effect
                for effect in by_job[job_id]
                if effect.word == "done" and effect.token == fate.attempts
            ]
            if not accepted:
                self.fault("completed without an effect", job_id)
            elif accepted[0].edit != fate.edit and not fate.stalled:
                self.fault("completed with another payload than it ran with", job_id)
            if fate.attempts - fate.base > 1 + fate.stalled + fate.failures:
                self.fault("it has more tries than its row accounts for", job_id)
        return doubled, causes


def _told_by(fate: Fate | None) -> str:
    """Why a job ran again whose worker nobody has struck, as its row says."""
    if fate is None:
        return "removed since"
    if fate.stalled:
        return "lease lapsed (server away or worker starved)"
    return "failed after its effect" if fate.failures else "given back or reprocessed"


def told(numbers: Counter[str]) -> str:
    return ", ".join(f"{what} {n:,}" for what, n in numbers.most_common()) or "none"
