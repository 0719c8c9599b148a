"""Turns a claimed job into a function call, and its end into a settlement."""

from __future__ import annotations

import inspect
import logging
import time
import traceback
from collections.abc import Callable
from datetime import UTC, datetime
from typing import Any

from asgiref.sync import sync_to_async
from django.db import close_old_connections, reset_queries

from ..queue import Claim, Queue
from ..queue.backoff import Backoff, backoff_from
from ..queue.jobs import Settlement
from ..queue.values import history_entries
from ..worker.loop import LoopThread
from .backend import EchoMQBackend
from .compat import (
    Task,
    TaskError,
    TaskResultStatus,
    task_finished,
    task_started,
)
from .context import EchoTaskContext, _current
from .envelope import Envelope, dumps, to_json
from .registry import lookup
from .results import EchoTaskResult, errors_of, fresh_result, workers_of
from .task import EchoTask
from .verdicts import BadPayload, Discard, Retry, UnknownTask

logger = logging.getLogger("django_echomq.tasks")

_TRACEBACK_HEAD, _TRACEBACK_TAIL = 2_000, 6_000
_REASON_MAX = 500


class Runner:
    """Runs jobs for a worker; one instance serves all its threads.

    Args:
        worker: the worker's name, kept with each attempt.
    """

    def __init__(self, worker: str) -> None:
        self._worker = worker
        self._loop = LoopThread()
        self._kinds: dict[Task[..., Any], bool] = {}

    def __call__(self, queue: Queue, claim: Claim) -> Settlement:
        """Runs a job to its end."""
        close_old_connections()
        try:
            return self._run(queue, claim)
        finally:
            reset_queries()
            close_old_connections()

    def _run(self, queue: Queue, claim: Claim) -> Settlement:
        started = datetime.now(UTC)
        attempt = _Attempt(queue, claim, self._worker, started)
        try:
            envelope = Envelope.decode(claim.payload)
        except BadPayload as error:
            return attempt.failed(error, budget=0)
        task = lookup(envelope.task)
        if task is None:
            # A deploy that knows the task may be on its way.
            name = envelope.task[:200]
            return attempt.failed(
                UnknownTask(f"no task named {name!r} is registered in this worker")
            )
        try:
            budget, curve = attempt.policy(task, envelope)
        except (TypeError, ValueError) as error:
            return attempt.failed(BadPayload(f"the payload's options: {error}"), budget=0)

        earlier = history_entries(claim.history)
        result = fresh_result(
            task,
            claim.job_id,
            envelope.args,
            envelope.kwargs,
            status=TaskResultStatus.RUNNING,
            started_at=started,
            last_attempted_at=started,
            errors=errors_of(earlier),
            worker_ids=[*workers_of(earlier), self._worker],
        )
        task_started.send_robust(sender=EchoMQBackend, task_result=result)
        try:
            value = to_json(self._call(task, queue, claim, result))
        except BaseException as error:
            settlement = attempt.failed(error, budget, curve)
            if attempt.last:
                attempt.finish(result, error)
            return settlement
        object.__setattr__(result, "_return_value", value)
        object.__setattr__(result, "status", TaskResultStatus.SUCCESSFUL)
        object.__setattr__(result, "finished_at", datetime.now(UTC))
        task_finished.send_robust(sender=EchoMQBackend, task_result=result)
        return queue.jobs.completion(claim, dumps(value))

    def _call(
        self, task: Task[..., Any], queue: Queue, claim: Claim, result: EchoTaskResult
    ) -> Any:
        context = EchoTaskContext(task_result=result, queue=queue, claim=claim)
        args = (context, *result.args) if task.takes_context else result.args
        token = _current.set(context)
        try:
            if inspect.iscoroutinefunction(task.func):
                return self._loop.run(_with_database_hygiene(task.func, args, result.kwargs))
            return task.func(*args, **result.kwargs)
        finally:
            _current.reset(token)


async def _with_database_hygiene(
    func: Callable[..., Any], args: Any, kwargs: dict[str, Any]
) -> Any:
    # Database work of coroutines happens on the thread that sync_to_async keeps for it.
    try:
        return await func(*args, **kwargs)
    finally:
        await sync_to_async(close_old_connections)()


class _Attempt:
    """One try of a job, and how its failure is told."""

    def __init__(self, queue: Queue, claim: Claim, worker: str, started: datetime) -> None:
        self.queue = queue
        self.claim = claim
        self.worker = worker
        self.started = started
        self.last = False

    def policy(self, task: Task[..., Any], envelope: Envelope) -> tuple[int, Backoff]:
        """The budget and the curve: the call's, else the task's, else the queue's."""
        options = self.queue.options
        budget = envelope.options.get("max_attempts")
        curve = envelope.options.get("backoff")
        if isinstance(task, EchoTask):
            budget = task.max_attempts if budget is None else budget
            curve = task.backoff if curve is None else curve
        if budget is None:
            budget = options.max_attempts
        if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
            raise ValueError(f"max_attempts must be a whole number from 1, not {budget!r}")
        return budget, options.backoff if curve is None else backoff_from(curve)

    def failed(
        self, error: BaseException, budget: int | None = None, curve: Backoff | None = None
    ) -> Settlement:
        """Settles as failed: retried on the curve within the budget, else dead."""
        claim, options = self.claim, self.queue.options
        budget = options.max_attempts if budget is None else budget
        if isinstance(error, Discard):
            budget = 0
        self.last = claim.attempt >= budget
        delay = (curve or options.backoff).delay_ms(max(1, claim.attempt)) / 1000
        if isinstance(error, Retry) and error.delay is not None:
            settlement_delay: Any = error.delay
        else:
            settlement_delay = delay
        reason = _reason(error)
        kind = type(error)
        entry = {
            "attempt": claim.attempt,
            "token": claim.attempts,
            "worker": self.worker,
            "started_at": _ms(self.started),
            "finished_at": time.time_ns() // 1_000_000,
            "exception": f"{kind.__module__}.{kind.__qualname__}",
            "traceback": _traceback(error),
        }
        logger.log(
            logging.ERROR if self.last else logging.WARNING,
            "Job %s of queue %s, attempt %d: %s; %s",
            claim.job_id,
            self.queue.name,
            claim.attempt,
            reason,
            "dead" if self.last else f"next try in {settlement_delay} s",
            exc_info=error
            if not isinstance(error, (BadPayload, Discard, Retry, UnknownTask))
            else None,
        )
        return self.queue.jobs.failure(
            claim, settlement_delay, budget, reason, history=dumps(entry)
        )

    def finish(self, result: EchoTaskResult, error: BaseException) -> None:
        """Tells that the job has failed for good."""
        kind = type(error)
        result.errors.append(
            TaskError(
                exception_class_path=f"{kind.__module__}.{kind.__qualname__}",
                traceback=_traceback(error),
            )
        )
        object.__setattr__(result, "status", TaskResultStatus.FAILED)
        object.__setattr__(result, "finished_at", datetime.now(UTC))
        task_finished.send_robust(sender=EchoMQBackend, task_result=result)


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


def _reason(error: BaseException) -> str:
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be shown)"
    first = text.strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}"[:_REASON_MAX]


def _traceback(error: BaseException) -> str:
    try:
        text = "".join(traceback.format_exception(error))
    except Exception:
        text = f"{_reason(error)} (its traceback cannot be shown)"
    if len(text) > _TRACEBACK_HEAD + _TRACEBACK_TAIL:
        cut = len(text) - _TRACEBACK_HEAD - _TRACEBACK_TAIL
        text = (
            f"{text[:_TRACEBACK_HEAD]}\n... {cut} characters left out ...\n"
            f"{text[-_TRACEBACK_TAIL:]}"
        )
    return text
