"""One job's row, and the jobs of a state."""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

from django.core.management.base import CommandError

from ...queue import Queue
from ...queue.values import Job
from ...tasks.envelope import Envelope
from ...tasks.shown import shown_call
from ...tasks.verdicts import BadPayload
from ...wire.errors import EchoMQError
from .cli import Cli, shown

# Records of cancelled jobs stand among those of the completed.
STATES = ("pending", "active", "scheduled", "dead", "completed")


def _json(text: str) -> Any:
    try:
        return json.loads(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"not JSON: {error}") from error


class Jobs:
    """``jobs``, ``job``, ``edit`` and the verbs over ids: ``retry``, ``promote``, ``cancel``,
    ``remove``."""

    def __init__(self, cli: Cli) -> None:
        self._cli = cli
        jobs = cli.verb(
            "jobs",
            self.jobs,
            "Lists jobs of one state, newest first. Completed ones are listed with the cancelled.",
        )
        jobs.add_argument("queue", metavar="QUEUE")
        jobs.add_argument("--state", choices=STATES, default="pending")
        jobs.add_argument("--lane", help="pending jobs of one lane, instead of the flat set")
        jobs.add_argument("--oldest", action="store_true", help="oldest first")
        jobs.add_argument("--offset", type=int, default=0, metavar="N", help="leave out N jobs (0)")
        jobs.add_argument("--limit", type=int, default=20, metavar="N", help="at most N jobs (20)")

        job = self._ids("job", self.job, "Shows all that is known of a job.", many=False)
        job.add_argument("--logs", action="store_true", help="its log lines too")

        edit = self._ids(
            "edit", self.edit, "Changes the arguments of a job that waits or is dead.", many=False
        )
        edit.add_argument(
            "--args", dest="call_args", type=_json, metavar="JSON", help="positional ones, a list"
        )
        edit.add_argument(
            "--kwargs", dest="call_kwargs", type=_json, metavar="JSON", help="an object"
        )
        edit.add_argument("--payload", metavar="TEXT", help="the whole payload, instead")

        retry = self._ids(
            "retry",
            self.retry,
            "Brings dead or cancelled jobs back with a fresh budget of attempts.",
            aliases=("reprocess",),
        )
        retry.add_argument("--all", action="store_true", help="every dead job of --queue")
        promote = self._ids("promote", self.promote, "Lets scheduled jobs be claimed at once.")
        promote.add_argument("--all", action="store_true", help="every scheduled job of --queue")
        cancel = self._ids(
            "cancel", self.cancel, "Cancels jobs: at once where they wait; a worker is told."
        )
        cancel.add_argument("--reason", default="cancelled", help="kept with the job")
        self._ids("remove", self.remove, "Removes jobs with all that belongs to them.", asks=True)

    def _ids(
        self,
        name: str,
        run: Callable[..., None],
        what: str,
        many: bool = True,
        asks: bool = False,
        aliases: Sequence[str] = (),
    ) -> argparse.ArgumentParser:
        verb = self._cli.verb(name, run, what, asks=asks, aliases=aliases)
        verb.add_argument("ids", nargs="*" if many else 1, metavar="ID")
        verb.add_argument("--queue", help="look in this queue only")
        return verb

    def jobs(
        self,
        *,
        queue: str,
        state: str,
        lane: str | None,
        oldest: bool,
        offset: int,
        limit: int,
        **options: Any,
    ) -> None:
        (found,) = self._cli.queues([queue])
        try:
            page = found.jobs.page(state, offset, limit, not oldest, lane)
        except ValueError as error:
            raise CommandError(f"{error}.") from error
        self._cli.rows([_line(listed.job) for listed in page.jobs], f"no {state} jobs")

    def job(self, *, ids: list[str], queue: str | None, logs: bool, **options: Any) -> None:
        found = self._cli.queue_of(ids[0], queue)
        job = found.jobs.get(ids[0])
        row = _whole(found, job)
        if logs:
            row["logs"] = found.jobs.logs(job.id)
        if self._cli.json:
            self._cli.value(row)
            return
        width = max(map(len, row))
        for name, value in row.items():
            if name == "history":
                for entry in value:
                    self._cli.line(f"attempt {entry.get('attempt')}, {entry.get('worker')}:")
                    self._cli.line(_lines(str(entry.get("traceback", ""))))
            elif name == "logs":
                for text in value:
                    self._cli.line(f"{'log'.ljust(width)}  {shown(text)}")
            elif value not in (None, "", [], {}):
                text = json.dumps(value) if isinstance(value, (list, dict)) else shown(value)
                self._cli.line(f"{name.ljust(width)}  {text}")

    def edit(
        self,
        *,
        ids: list[str],
        queue: str | None,
        call_args: Any,
        call_kwargs: Any,
        payload: str | None,
        **options: Any,
    ) -> None:
        found = self._cli.queue_of(ids[0], queue)
        job = found.jobs.get(ids[0])
        if payload is None:
            if call_args is None and call_kwargs is None:
                raise CommandError("Say what to change: --args, --kwargs or --payload.")
            if call_args is not None and not isinstance(call_args, list):
                raise CommandError("--args is a list, such as '[7]'.")
            if call_kwargs is not None and not isinstance(call_kwargs, dict):
                raise CommandError("--kwargs is an object, such as '{\"user\": 7}'.")
            try:
                call = Envelope.decode(job.payload)
            except BadPayload as error:
                raise CommandError(f"{error}; give the whole --payload.") from error
            payload = (
                replace(
                    call,
                    args=call.args if call_args is None else call_args,
                    kwargs=call.kwargs if call_kwargs is None else call_kwargs,
                )
                .encode()
                .decode()
            )
        found.jobs.update_data(job.id, payload)
        self._cli.verdicts({job.id: "changed"}, refused=0)

    def retry(self, *, ids: list[str], queue: str | None, all: bool, **options: Any) -> None:  # noqa: A002 - the option's name
        if all:
            whole = self._whole_queue(ids, queue)
            with self._cli.progress("reprocessing") as progress:
                count = whole.admin.reprocess_all(progress=progress)
            self._cli.rows([{"queue": whole.name, "reprocessed": count}])
            return
        self._each(ids, queue, lambda found, job_id: found.jobs.reprocess(job_id), "reprocessed")

    def promote(self, *, ids: list[str], queue: str | None, all: bool, **options: Any) -> None:  # noqa: A002 - the option's name
        if all:
            whole = self._whole_queue(ids, queue)
            with self._cli.progress("promoting") as progress:
                count = whole.admin.promote_all(progress=progress)
            self._cli.rows([{"queue": whole.name, "promoted": count}])
            return
        self._each(ids, queue, lambda found, job_id: found.jobs.promote_now(job_id), "promoted")

    def cancel(self, *, ids: list[str], queue: str | None, reason: str, **options: Any) -> None:
        self._each(
            ids, queue, lambda found, job_id: found.jobs.cancel(job_id, reason).value, "cancelled"
        )

    def remove(self, *, ids: list[str], queue: str | None, **options: Any) -> None:
        self._cli.confirm(f"Remove {len(ids)} job(s)?")
        self._each(ids, queue, lambda found, job_id: found.jobs.remove(job_id), "removed")

    def _whole_queue(self, ids: list[str], name: str | None) -> Queue:
        if ids or not name:
            raise CommandError("--all goes with --queue QUEUE and without ids.")
        (queue,) = self._cli.queues([name])
        return queue

    def _each(
        self, ids: list[str], name: str | None, act: Callable[[Queue, str], str | None], done: str
    ) -> None:
        if not ids:
            raise CommandError("Name at least one job.")
        verdicts: dict[str, str] = {}
        refused = 0
        for job_id in ids:
            try:
                verdicts[job_id] = act(self._cli.queue_of(job_id, name), job_id) or done
            except (EchoMQError, CommandError) as error:
                refused += 1
                verdicts[job_id] = str(error)
        self._cli.verdicts(verdicts, refused=refused)


def _line(job: Job) -> dict[str, Any]:
    call = shown_call(job)
    return {
        "id": job.id,
        "task": call.task or "(none, or a long payload)",
        "state": job.state,
        "lane": job.lane,
        "attempt": job.attempt,
        "enqueued_at": job.enqueued_at,
        "error": (job.last_error or "")[:100],
    }


def _whole(queue: Queue, job: Job) -> dict[str, Any]:
    call = shown_call(job)
    return {
        "id": job.id,
        "queue": queue.name,
        "state": job.state,
        "call": call.as_json() if not call.problem else call.problem,
        "lane": job.lane,
        "priority": job.priority,
        "unique": job.unique,
        "attempt": job.attempt,
        "token": job.attempts,
        "stalled": job.stalled,
        "enqueued_at": job.enqueued_at,
        "started_at": job.started_at,
        "finished_at": job.finished_at,
        "worker": job.worker,
        "progress": job.progress,
        "result": None if job.result is None else job.result.decode("utf-8", "backslashreplace"),
        "last_error": job.last_error,
        "history": job.history,
    }


def _lines(text: str) -> str:
    return "\n".join(f"  {shown(line)}" for line in text.splitlines())
