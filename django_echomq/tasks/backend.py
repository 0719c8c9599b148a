"""The backend of Django's Tasks API."""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import UTC, datetime, timedelta
from itertools import groupby
from typing import Any

from django.db import transaction
from django.utils import timezone

from ..conf import queue_names, read_settings
from ..queue import Admission, Job, NotReplicated, Queue, Unique
from ..queue.backoff import backoff_from, backoff_to
from ..queue.clock import duration_ms, instant_ms
from ..queues import get_queue
from ..wire.client import Steps
from ..wire.errors import EchoMQError, InvalidId, InvalidName, ServerUnavailable
from ..wire.ids import MAX_NODE, check, minted_at, process_mint
from ..wire.keys import check_lane
from .compat import (
    BaseTaskBackend,
    InvalidTask,
    Task,
    TaskResultDoesNotExist,
    task_enqueued,
)
from .envelope import Envelope, to_json
from .registry import lookup, register
from .results import EchoTaskResult, fresh_result, result_of
from .signals import tell
from .task import EchoTask


class EchoMQBackend(BaseTaskBackend):
    """Sends tasks to EchoMQ queues; a worker (``manage.py echomq_worker``) runs them."""

    task_class = EchoTask
    supports_defer = True
    supports_async_task = True
    supports_get_result = True
    supports_priority = True

    def validate_task(self, task: Task[..., Any]) -> None:
        """Refuses a task that cannot be sent.

        Raises:
            InvalidTask: the message says what is wrong.
        """
        super().validate_task(task)
        if not isinstance(task, EchoTask):
            return
        budget = task.max_attempts
        if budget is not None and (
            isinstance(budget, bool) or not isinstance(budget, int) or budget < 1
        ):
            raise InvalidTask(f"max_attempts must be a whole number from 1, not {budget!r}.")
        try:
            if task.backoff is not None:
                backoff_from(task.backoff)
            if task.timeout is not None:
                duration_ms(task.timeout, "timeout")
            if task.lane is not None:
                check_lane(task.lane)
            if task.unique is not None:
                _unique(task.unique).check()
                queue = read_settings().queues.get(task.queue_name)
                if task.lane is not None and queue is not None and queue.partitions > 1:
                    raise ValueError(
                        f"queue {queue.name!r} is partitioned: give a lane or unique, not both"
                    )
        except (InvalidName, TypeError, ValueError) as error:
            raise InvalidTask(f"{error}.") from error

    # Sending

    def enqueue(  # type: ignore[override]
        self, task: Task[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> EchoTaskResult:
        """Sends a call.

        Raises:
            TypeError, ValueError: the arguments are not JSON; nothing was sent.
            PayloadTooLarge: nothing was sent.
            ServerUnavailable: not known to be sent.
            NotReplicated: sent, and not known to survive a failover.
        """
        return _Sending(task).send(args, kwargs)

    def enqueue_as(
        self, task: Task[..., Any], args: Sequence[Any], kwargs: dict[str, Any], job_id: str
    ) -> EchoTaskResult:
        """:meth:`enqueue` under the caller's own ``JOB`` id; one that is taken is a duplicate.

        Raises:
            InvalidId, WrongKind: the id is none of a job; nothing was sent.
        """
        return _Sending(task).send(args, kwargs, job_id)

    async def aenqueue(  # type: ignore[override]
        self, task: Task[..., Any], args: Sequence[Any], kwargs: dict[str, Any]
    ) -> EchoTaskResult:
        """:meth:`enqueue` on the running event loop, without a thread."""
        sending = _Sending(task)
        call = sending.call(args, kwargs)
        with sending.telling([call]):
            (admission,) = await sending.queue.client.adrive(sending.steps([call.encode()]))
        return sending.sent(call, admission)

    def enqueue_many(
        self,
        task: Task[..., Any],
        calls: Iterable[tuple[Iterable[Any], dict[str, Any]]],
    ) -> list[EchoTaskResult]:
        """Sends many calls of one task; see :meth:`EchoTask.enqueue_many`."""
        sending = _Sending(task)
        many = [sending.call(tuple(args), kwargs) for args, kwargs in calls]
        if many and sending.unique:
            raise InvalidTask("enqueue_many does not take unique: one key holds one job.")
        return sending.send_many(many)

    def enqueue_on_commit(
        self,
        task: Task[..., Any],
        args: Sequence[Any],
        kwargs: dict[str, Any],
        using: str | None,
    ) -> EchoTaskResult:
        """Sends a call after commit; see :meth:`EchoTask.enqueue_on_commit`."""
        sending = _Sending(task)
        call = sending.call(args, kwargs)
        payload, job_id = call.encode(), sending.mint()
        result = fresh_result(task, job_id, call.args, call.kwargs)

        def send() -> None:
            with sending.telling([call]):
                (admission,) = sending.queue.drive(sending.steps([payload], [job_id]))
            for name, value in (
                ("id", admission.job_id),
                ("outcome", admission.outcome),
                ("enqueued_at", minted_at(admission.job_id)),
            ):
                object.__setattr__(result, name, value)
            tell(task_enqueued, type(self), result)

        transaction.on_commit(send, using=using)
        return result

    # Results

    def get_result(self, result_id: str) -> EchoTaskResult:
        """The result of a job, wherever among the backend's queues it stands.

        Raises:
            TaskResultDoesNotExist: there is neither a row nor an outcome record.
        """
        found = self.find(result_id)
        if found is None:
            raise TaskResultDoesNotExist(result_id)
        return self._result(found[1])

    def find(self, job_id: str) -> tuple[Queue, Job] | None:
        """The row or outcome record of a job and the queue that has it; ``None`` where none does.

        Raises:
            TaskResultDoesNotExist: it is no id of a job.
        """
        for parts, steps in self._readings(job_id):
            for n, job in parts[0].drive(steps):
                return parts[n].whole, job
        return None

    async def aget_result(self, result_id: str) -> EchoTaskResult:
        """:meth:`get_result` on the running event loop, without a thread."""
        for queues, steps in self._readings(result_id):
            for _, job in await queues[0].client.adrive(steps):
                return self._result(job)
        raise TaskResultDoesNotExist(result_id)

    def _readings(
        self, result_id: str
    ) -> Iterator[tuple[list[Queue], Steps[list[tuple[int, Job]]]]]:
        try:
            check(result_id)
        except InvalidId as error:
            raise TaskResultDoesNotExist(result_id) from error
        names = sorted(self.queues or queue_names())
        queues = [get_queue(name).part_of(result_id) for name in names]
        for _, group in groupby(queues, key=lambda queue: id(queue.client)):
            group_queues = list(group)
            yield group_queues, _found(group_queues, result_id)

    def _result(self, job: Job) -> EchoTaskResult:
        try:
            envelope = Envelope.decode(job.payload)
        except Exception as error:
            raise TaskResultDoesNotExist(f"{job.id} is not the job of a task") from error
        task = lookup(envelope.task)
        if task is None:
            raise TaskResultDoesNotExist(f"{job.id} is a job of an unknown task")
        return result_of(task, envelope, job)


def _found(queues: list[Queue], job_id: str) -> Steps[list[tuple[int, Job]]]:
    replies = yield from queues[0].client.run_many(
        [queue.call("jobs/get", job_id) for queue in queues]
    )
    jobs = []
    for n, (queue, reply) in enumerate(zip(queues, replies, strict=True)):
        if isinstance(reply, Exception):
            raise reply
        if reply[1]:
            jobs.append((n, queue.jobs.row(job_id, *reply)))
    return jobs


def _unique(value: Unique | str) -> Unique:
    return Unique(value) if isinstance(value, str) else value


class _Sending:
    """What is the same for all calls of a task, and how they go out."""

    def __init__(self, task: Task[..., Any]) -> None:
        self.task = task
        self.name = task.module_path
        self.queue = get_queue(task.queue_name)
        self.options: dict[str, Any] = {}
        self.unique: Unique | None = None
        lane: str | None = None
        if isinstance(task, EchoTask):
            lane = task.lane
            self.unique = None if task.unique is None else _unique(task.unique)
            self.options = _overrides(task)
        else:
            register(task)
        when, ms = "now", 0
        run_after = task.run_after
        if run_after is not None:
            if timezone.is_naive(run_after):
                run_after = timezone.make_aware(run_after)
            when, ms = "at", instant_ms(run_after, "run_after")
        self._where: dict[str, Any] = {
            "lane": lane,
            "priority": int(task.priority),
            "unique": self.unique,
            "when": when,
            "ms": ms,
        }

    def call(self, args: Sequence[Any], kwargs: dict[str, Any]) -> Envelope:
        """A call, checked."""
        return Envelope(self.name, to_json(args), to_json(kwargs), self.options)

    def send(
        self, args: Sequence[Any], kwargs: dict[str, Any], job_id: str | None = None
    ) -> EchoTaskResult:
        call = self.call(args, kwargs)
        with self.telling([call]):
            admission = self.queue.jobs.admit(call.encode(), job_id=job_id, **self._where)
        return self.sent(call, admission)

    def send_many(self, calls: list[Envelope]) -> list[EchoTaskResult]:
        where = {name: value for name, value in self._where.items() if name != "unique"}
        results: list[EchoTaskResult] = []
        with self.telling(calls):
            for batch in self.queue.jobs.stream([call.encode() for call in calls], **where):
                of = calls[len(results) : len(results) + len(batch)]
                results += [self.sent(call, done) for call, done in zip(of, batch, strict=True)]
        return results

    def mint(self) -> str:
        """An id, known before it is sent; the server need not be there yet."""
        part = self.queue.part_for(self._where["lane"], self.unique)
        try:
            return part.drive(part.mint(1))[0]
        except (ServerUnavailable, EchoMQError):
            # Should it collide, or belong to another partition, admission mints another.
            return process_mint.mint(secrets.randbelow(MAX_NODE + 1))

    def steps(
        self, payloads: list[bytes], minted_ids: list[str] | None = None
    ) -> Steps[list[Admission]]:
        return self.queue.jobs.admission(payloads, minted_ids=minted_ids, **self._where)

    @contextmanager
    def telling(self, calls: Sequence[Envelope]) -> Iterator[None]:
        """Tells of the calls also where they are sent and an exception says what else is wrong."""
        try:
            yield
        except NotReplicated as error:
            for call, admission in zip(calls, error.admissions, strict=True):
                self.sent(call, admission)
            raise

    def sent(self, call: Envelope, admission: Admission) -> EchoTaskResult:
        result = fresh_result(
            self.task,
            admission.job_id,
            call.args,
            call.kwargs,
            admission.outcome,
            enqueued_at=datetime.now(UTC),
        )
        tell(task_enqueued, EchoMQBackend, result)
        return result


def _overrides(task: EchoTask) -> dict[str, Any]:
    """What the call sets against the task's definition, and so has to travel with it."""
    defined = lookup_definition(task)
    if defined is task or defined is None:
        return {}
    options: dict[str, Any] = {}
    if task.max_attempts is not None and task.max_attempts != defined.max_attempts:
        options["max_attempts"] = task.max_attempts
    if task.backoff is not None and task.backoff != defined.backoff:
        options["backoff"] = backoff_to(backoff_from(task.backoff))
    if task.timeout is not None and task.timeout != defined.timeout:
        timeout = task.timeout
        options["timeout"] = timeout.total_seconds() if isinstance(timeout, timedelta) else timeout
    return options


def lookup_definition(task: EchoTask) -> EchoTask | None:
    """The task as its decorator defined it."""
    defined = lookup(task.module_path)
    return defined if isinstance(defined, EchoTask) else None
