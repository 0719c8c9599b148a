"""Turns a claimed job into a function call, and its end into a settlement."""

from __future__ import annotations

import asyncio
import inspect
import logging
import threading
import time
import traceback
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import Any

from django.dispatch import Signal

from ..queue import Queue
from ..queue.backoff import Backoff, backoff_from
from ..queue.cancel import Cancelled, CancelToken, Cause
from ..queue.clock import Duration, duration_ms
from ..queue.jobs import Settlement
from ..queue.stalled import Lapsed
from ..queue.values import history_entries
from ..queues import get_queue
from ..signals import (
    job_cancelled,
    job_failed,
    job_released,
    job_retried,
    job_started,
    job_succeeded,
)
from ..worker.hand import Hand
from ..worker.loop import LoopThread
from ..worker.timeouts import HandlerTimedOut, Timeouts
from .around import around_running
from .backend import EchoMQBackend
from .compat import (
    Task,
    TaskError,
    TaskResultStatus,
    task_finished,
    task_started,
)
from .context import EchoTaskContext, _current
from .database import fresh_async_connections, fresh_connections
from .envelope import Envelope, dumps, to_json
from .isolated import ChildDied, Children, TaskFailed, _Answer, _Ask
from .registry import lookup
from .results import EchoTaskResult, errors_of, fresh_result, workers_of
from .signals import heard, tell, tell_job, tell_stalled
from .task import EchoTask
from .verdicts import BadPayload, Discard, Retry, TaskTimeout, UnknownTask

logger = logging.getLogger("django_echomq.tasks")

# What says all in one line, and so is logged without a traceback.
_PLAIN = (BadPayload, Discard, Retry, TaskTimeout, UnknownTask)
_TRACEBACK_HEAD, _TRACEBACK_TAIL = 2_000, 6_000
_REASON_MAX = 500


class Runner:
    """Runs jobs for a worker; one instance serves all its threads.

    A coroutine task leaves its thread at once and runs on an event loop beside others.

    Args:
        worker: the worker's name, kept with each attempt.
        isolate: call every task in a child process, not only those that ask for it.
        max_memory_mib: of a child process.
        coroutines: how many coroutines run at once without holding a thread.
    """

    def __init__(
        self,
        worker: str,
        *,
        isolate: bool = False,
        max_memory_mib: float | None = None,
        coroutines: int = 100,
    ) -> None:
        self._worker = worker
        self._handler = around_running(self._run)
        self._isolate = isolate
        self._children = Children(worker, max_memory_mib)
        self._loop = LoopThread()
        self._places = threading.Semaphore(coroutines)
        self._timeouts = Timeouts()
        self._plans: dict[tuple[str, str], _Plan] = {}
        self._ends: SimpleQueue[Callable[[], object] | None] = SimpleQueue()
        threading.Thread(target=self._end, name=f"{worker}-ends", daemon=True).start()

    def __call__(self, hand: Hand) -> Settlement | None:
        """Runs a job to its end; ``None`` where it goes on as a coroutine."""
        with fresh_connections():
            return self._handler(hand)

    def _run(self, hand: Hand) -> Settlement | None:
        claim = hand.claim
        attempt = _Attempt(hand, self._worker)
        try:
            envelope = Envelope.decode(claim.payload)
        except BadPayload as error:
            return attempt.failed(error, budget=0)
        hand.task = envelope.task[:200]
        plan = self._plan(envelope.task, hand.queue)
        if plan is None:
            # A deploy that knows the task may be on its way.
            return attempt.failed(
                UnknownTask(f"no task named {hand.task!r} is registered in this worker")
            )
        task, policy = plan.task, plan.policy
        try:
            if policy is None or envelope.options:
                policy = _Policy.of(task, envelope.options, hand.queue)
        except (TypeError, ValueError) as error:
            return attempt.failed(BadPayload(f"the payload's options: {error}"), budget=0)
        hand.manual_lease = plan.manual_lease

        earlier = history_entries(claim.history) if claim.history else []
        result = fresh_result(
            task,
            claim.job_id,
            envelope.args,
            envelope.kwargs,
            status=TaskResultStatus.RUNNING,
            started_at=attempt.started,
            last_attempted_at=attempt.started,
            errors=errors_of(earlier),
            worker_ids=[*workers_of(earlier), self._worker],
        )
        tell(task_started, EchoMQBackend, result)
        if job_started.receivers:
            attempt.tell(job_started)
        run = _Run(plan, attempt, policy, result)
        try:
            hand.token.raise_if_cancelled()
            if plan.isolate or _on_last_chance(hand):
                limit = self._timeouts.limit(hand.token, policy.timeout, interrupt=False)
                value = self._children.call(
                    hand, task.module_path, result.args, result.kwargs, limit
                )
            elif plan.is_coroutine and self._places.acquire(blocking=False):
                self._start(hand, run)
                return None
            elif policy.timeout is None:
                value = _call(plan, hand, result, self._loop)
            else:
                interrupt = not plan.is_coroutine
                with self._timeouts.limit(hand.token, policy.timeout, interrupt):
                    value = _call(plan, hand, result, self._loop)
        except BaseException as error:
            return run.raised(error)
        return run.returned(value)

    def _plan(self, name: str, queue: Queue) -> _Plan | None:
        """What does not change from job to job; ``None`` for an unknown task."""
        plan = self._plans.get((name, queue.name))
        task = lookup(name)
        if plan is None or plan.task is not task:
            if task is None:
                return None
            plan = self._plans[name, queue.name] = _Plan.of(task, queue, self._isolate)
        return plan

    def _start(self, hand: Hand, run: _Run) -> None:
        """Starts a coroutine task, which settles when it has ended."""
        limit = self._timeouts.limit(hand.token, run.policy.timeout, interrupt=False)

        def settle(value: Any, error: BaseException | None) -> None:
            settlement = run.returned(value) if error is None else run.raised(error)
            assert hand.later is not None, "a worker's"
            hand.later(hand, settlement)

        def ended(value: Any, error: BaseException | None) -> None:
            limit.__exit__(None, None, None)
            self._places.release()
            if error is None and not heard(task_finished) and not job_succeeded.receivers:
                settle(value, error)
            else:
                # Receivers of signals may block, which the loop must not.
                self._ends.put(lambda: settle(value, error))

        limit.__enter__()
        context = EchoTaskContext(task_result=run.result, hand=hand)
        current = _current.set(context)
        try:
            # The coroutine gets a copy of what is current now.
            self._loop.start(_coroutine(run.plan.task, context), hand.token, ended)
        finally:
            _current.reset(current)

    def stalled(self, queue: Queue, lapsed: list[Lapsed]) -> None:
        """Tells of jobs whose lease had lapsed, on a thread where receivers may block."""
        self._ends.put(lambda: tell_stalled(queue, lapsed))

    def _end(self) -> None:
        while settle := self._ends.get():
            try:
                with fresh_connections():
                    settle()
            except BaseException:
                logger.exception("A coroutine's end could not be told")

    def close(self) -> None:
        """Ends the child processes and the thread that are not in use."""
        self._children.close()
        self._ends.put(None)


def _on_last_chance(hand: Hand) -> bool:
    """Whether one more lapse of its lease would bury the job.

    Jobs that were in hand beside one that kills its worker lapse with it. Apart from each other,
    in child processes, the innocent complete.
    """
    return hand.claim.stalled >= max(1, hand.queue.options.max_stalled - 1)


class _Run:
    """One call of a task, and how its end is settled and told."""

    __slots__ = ("attempt", "plan", "policy", "result")

    def __init__(
        self, plan: _Plan, attempt: _Attempt, policy: _Policy, result: EchoTaskResult
    ) -> None:
        self.plan = plan
        self.attempt = attempt
        self.policy = policy
        self.result = result

    def returned(self, value: Any) -> Settlement:
        try:
            value = to_json(value)
            body = dumps(value)
        except Exception as error:
            return self.raised(error)
        hand, result = self.attempt.hand, self.result
        object.__setattr__(result, "_return_value", value)
        object.__setattr__(result, "status", TaskResultStatus.SUCCESSFUL)
        object.__setattr__(result, "finished_at", datetime.now(UTC))
        if logger.isEnabledFor(logging.INFO):
            logger.info(
                "Job %s of queue %s completed: %s",
                hand.claim.job_id,
                hand.queue.name,
                hand.task,
                extra=hand.extra(),
            )
        tell(task_finished, EchoMQBackend, result)
        if job_succeeded.receivers:
            self.attempt.tell(job_succeeded, result=value)
        return hand.queue.jobs.completion(hand.claim, body)

    def raised(self, error: BaseException) -> Settlement:
        hand, policy = self.attempt.hand, self.policy
        jobs, claim, token = hand.queue.jobs, hand.claim, hand.token
        if isinstance(error, HandlerTimedOut) or _stopped(error, hand):
            if token.cause in (Cause.SHUTDOWN, Cause.LEASE_LOST):
                self.attempt.tell(job_released, reason=token.cause.value)
                return jobs.giving_back(claim)
            if token.cause is not Cause.TIMEOUT:
                reason = token.reason or str(error) or "cancelled"
                _finish(self.result, error)
                self.attempt.tell(job_cancelled, reason=reason)
                return jobs.cancellation(claim, reason)
            error = TaskTimeout(f"ran for longer than {policy.timeout:g} s").with_traceback(
                error.__traceback__
            )
        if isinstance(error, ChildDied) and _on_last_chance(hand):
            settlement = self.attempt.failed(error, 0, reason="stalled")
        else:
            settlement = self.attempt.failed(error, policy.budget, policy.curve)
        if self.attempt.last:
            _finish(self.result, error)
        return settlement


def _call(plan: _Plan, hand: Hand, result: EchoTaskResult, loop: LoopThread) -> Any:
    """Calls a task on this thread, as the current job."""
    task = plan.task
    context = EchoTaskContext(task_result=result, hand=hand)
    current = _current.set(context)
    try:
        if plan.is_coroutine:
            return loop.run(_coroutine(task, context), hand.token)
        if task.takes_context:
            return task.func(context, *result.args, **result.kwargs)
        return task.func(*result.args, **result.kwargs)
    finally:
        _current.reset(current)


async def _coroutine(task: Task[..., Any], context: EchoTaskContext) -> Any:
    result = context.task_result
    args = (context, *result.args) if task.takes_context else result.args
    async with fresh_async_connections():
        return await task.func(*args, **result.kwargs)


_child_loop = LoopThread()


def run_in_child(ask: _Ask, token: CancelToken) -> _Answer:
    """A call in a child process; see :mod:`django_echomq.tasks.isolated`."""
    task = lookup(ask.task)
    assert task is not None, "the worker looked it up"
    queue = get_queue(ask.queue)
    plan = _Plan.of(task, queue, isolate=False)
    hand = Hand(queue, ask.claim, token)
    result = fresh_result(
        task,
        ask.claim.job_id,
        ask.args,
        ask.kwargs,
        status=TaskResultStatus.RUNNING,
        worker_ids=[ask.worker],
    )
    with fresh_connections():
        try:
            return _Answer(dumps(to_json(_call(plan, hand, result, _child_loop))))
        except Retry as error:
            return _Answer(
                verdict="retry",
                reason=str(error),
                delay=error.delay,
                max_attempts=error.max_attempts,
            )
        except Discard as error:
            return _Answer(verdict="discard", reason=str(error))
        except BaseException as error:
            if _stopped(error, hand):
                return _Answer(verdict="cancelled", reason=token.reason or str(error))
            return _Answer(
                verdict="failed",
                kind=_kind(error),
                reason=_reason(error),
                traceback=_traceback(error),
            )


def _stopped(error: BaseException, hand: Hand) -> bool:
    """Whether the task ended because it was told to, or raised ``Cancelled`` of its own accord."""
    if isinstance(error, Cancelled):
        return True
    return isinstance(error, asyncio.CancelledError) and hand.token.cancelled


@dataclass(frozen=True, slots=True)
class _Policy:
    """How an attempt is bounded: what the call says, else the task, else the queue."""

    budget: int
    curve: Backoff
    timeout: float | None

    @classmethod
    def of(cls, task: Task[..., Any], call: Mapping[str, Any], queue: Queue) -> _Policy:
        """
        Raises:
            TypeError, ValueError: the call's options are not sound.
        """
        options = queue.options
        said = dict(call)
        if isinstance(task, EchoTask):
            for name in ("max_attempts", "backoff", "timeout"):
                if said.get(name) is None:
                    said[name] = getattr(task, name)
        budget = said.get("max_attempts")
        if budget is None:
            budget = options.max_attempts
        if isinstance(budget, bool) or not isinstance(budget, int) or budget < 1:
            raise ValueError(f"max_attempts must be a whole number from 1, not {budget!r}")
        curve, timeout = said.get("backoff"), said.get("timeout")
        timeout_ms = options.timeout_ms if timeout is None else duration_ms(timeout, "the timeout")
        return cls(
            budget,
            options.backoff if curve is None else backoff_from(curve),
            None if timeout_ms is None else timeout_ms / 1000,
        )


@dataclass(frozen=True, slots=True)
class _Plan:
    """How calls of a task on a queue are made, as far as it does not change from job to job.

    Attributes:
        policy: of a call without options of its own; ``None`` where it is not sound.
    """

    task: Task[..., Any]
    is_coroutine: bool
    isolate: bool
    manual_lease: bool
    policy: _Policy | None

    @classmethod
    def of(cls, task: Task[..., Any], queue: Queue, isolate: bool) -> _Plan:
        ours = task if isinstance(task, EchoTask) else None
        try:
            policy = _Policy.of(task, {}, queue)
        except (TypeError, ValueError):
            policy = None
        return cls(
            task,
            inspect.iscoroutinefunction(task.func),
            isolate or (ours is not None and ours.isolate),
            ours is not None and ours.manual_lease,
            policy,
        )


class _Attempt:
    """One try of a job, and how its failure is told."""

    def __init__(self, hand: Hand, worker: str) -> None:
        self.hand = hand
        self.worker = worker
        self.started = datetime.now(UTC)
        self.last = False

    def tell(self, signal: Signal, **more: Any) -> None:
        tell_job(signal, self.hand, self.worker, **more)

    def failed(
        self,
        error: BaseException,
        budget: int | None = None,
        curve: Backoff | None = None,
        reason: str = "",
    ) -> Settlement:
        """Settles as failed: retried on the curve within the budget, else dead."""
        queue, claim = self.hand.queue, self.hand.claim
        options = queue.options
        budget = options.max_attempts if budget is None else budget
        if isinstance(error, Discard):
            budget = 0
        elif isinstance(error, Retry) and error.max_attempts is not None:
            budget = error.max_attempts
        self.last = claim.attempt >= budget
        delay: Duration = (curve or options.backoff).delay_ms(max(1, claim.attempt)) / 1000
        if isinstance(error, Retry) and error.delay is not None:
            delay = error.delay
        reason = reason or _reason(error)
        entry = {
            "attempt": claim.attempt,
            "token": claim.attempts,
            "worker": self.worker,
            "started_at": _ms(self.started),
            "finished_at": time.time_ns() // 1_000_000,
            "exception": _kind(error),
            "traceback": _traceback(error),
        }
        logger.log(
            logging.ERROR if self.last else logging.WARNING,
            "Job %s of queue %s, attempt %d: %s; %s",
            claim.job_id,
            queue.name,
            claim.attempt,
            reason,
            "dead" if self.last else f"next try in {delay} s",
            exc_info=None if isinstance(error, _PLAIN) else error,
            extra={**self.hand.extra(), "error": _kind(error)},
        )
        settlement = queue.jobs.failure(claim, delay, budget, reason, history=dumps(entry))
        if self.last:
            self.tell(job_failed, error=error)
        else:
            self.tell(job_retried, error=error, delay=duration_ms(delay, "the delay") / 1000)
        return settlement


def _finish(result: EchoTaskResult, error: BaseException) -> None:
    """Tells that the job has ended without success."""
    result.errors.append(TaskError(exception_class_path=_kind(error), traceback=_traceback(error)))
    object.__setattr__(result, "status", TaskResultStatus.FAILED)
    object.__setattr__(result, "finished_at", datetime.now(UTC))
    tell(task_finished, EchoMQBackend, result)


def _ms(instant: datetime) -> int:
    return round(instant.timestamp() * 1000)


def _kind(error: BaseException) -> str:
    if isinstance(error, TaskFailed):
        return error.kind
    kind = type(error)
    return f"{kind.__module__}.{kind.__qualname__}"


def _reason(error: BaseException) -> str:
    if isinstance(error, TaskFailed):
        return error.reason
    try:
        text = str(error)
    except Exception:
        text = "(its message cannot be shown)"
    first = text.strip().partition("\n")[0]
    return f"{type(error).__name__}: {first}"[:_REASON_MAX]


def _traceback(error: BaseException) -> str:
    if isinstance(error, TaskFailed):
        return error.traceback
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
