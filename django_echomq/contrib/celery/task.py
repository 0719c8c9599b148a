"""``celery.shared_task`` and the task it makes."""

from __future__ import annotations

import inspect
import random
import sys
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from datetime import datetime, timedelta
from types import FunctionType
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Generic,
    Literal,
    NoReturn,
    ParamSpec,
    TypedDict,
    TypeVar,
    Unpack,
    cast,
    overload,
)

from django.core.exceptions import ImproperlyConfigured
from django.utils import timezone
from django.utils.crypto import get_random_string

from ...conf import queue_definition
from ...queue import Rate
from ...queue.cancel import Cancelled
from ...tasks.compat import TaskResult
from ...tasks.context import EchoTaskContext
from ...tasks.task import EchoTask
from .canvas import SendOptions, Signature, check_options, know, send_next
from .exceptions import MaxRetriesExceededError, Retry
from .limits import soft_limit
from .result import MESSAGE, AsyncResult, EagerResult, echo_backend

P = ParamSpec("P")
R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class TaskOptions(TypedDict, total=False):
    """What ``@shared_task`` takes beside ``bind``.

    Attributes:
        name: a name for :func:`~django_echomq.contrib.celery.signature`; jobs carry the module and
            name of the function.
        queue: where calls go; the queue ``default`` unless given.
        priority: -100 to 100, a higher number is run first.
        max_retries: tries after the first; ``None`` for ever.
        default_retry_delay: seconds before another try, unless it says how long.
        autoretry_for, dont_autoretry_for: exceptions that are, and are not, reason for another try.
        retry_kwargs: of that ``retry()``.
        retry_backoff: ``True`` or the first delay in seconds, which doubles each time.
        retry_backoff_max: the longest of these delays, in seconds.
        retry_jitter: draw each between 0 and what it would be.
        soft_time_limit: seconds until SoftTimeLimitExceeded is raised in the task.
        time_limit: seconds until the task is ended.
        rate_limit: as the queue has it, in ``RATE_LIMIT``.
        expires: seconds, or an aware datetime, after which a call is not run any more.
        ignore_result: keep no return value.
        typing: check arguments against the function when a call is sent.
        acks_late, reject_on_worker_lost: ``True``, as it is with every job.
        serializer: ``json``.
        track_started, send_events, trail, autoregister, store_errors_even_if_ignored,
            resultrepr_maxsize: change nothing here.
    """

    name: str
    queue: str
    priority: int | None
    max_retries: int | None
    default_retry_delay: int
    autoretry_for: Sequence[type[BaseException]]
    dont_autoretry_for: Sequence[type[BaseException]]
    retry_kwargs: dict[str, Any]
    retry_backoff: bool | int
    retry_backoff_max: int
    retry_jitter: bool
    soft_time_limit: int
    time_limit: int
    rate_limit: str | None
    expires: float | datetime | None
    ignore_result: bool
    typing: bool
    acks_late: bool
    reject_on_worker_lost: bool
    serializer: str
    track_started: bool
    send_events: bool
    trail: bool
    autoregister: bool
    store_errors_even_if_ignored: bool
    resultrepr_maxsize: int


_NOT_DECLARED = {
    "base": "use Django's task_started and task_finished signals for what a base class's hooks do",
    "throws": "it chose how a failure is logged; filter the logger django_echomq.tasks",
    "acks_on_failure_or_timeout": "a job that fails is retried or dead, never lost",
    "pydantic": "validate in the task",
    "request_stack": "there is none",
    "abstract": "there are no task classes",
}


@dataclass(frozen=True)
class Context:
    """What a task knows of the call it runs: ``self.request``.

    Attributes:
        id: the job's id; ``root_id`` and ``correlation_id`` are the same.
        args, kwargs: its arguments.
        retries: how often it was tried again; 0 at first.
        called_directly: it was called as a function.
        is_eager: it runs at once, in the caller's process.
        expires: Unix seconds after which it is not run.
        timelimit: the hard and the soft limit, in seconds.
        hostname: the worker.
        delivery_info: ``routing_key``, the queue.
    """

    id: str | None = None
    args: Sequence[Any] | None = None
    kwargs: Mapping[str, Any] | None = None
    retries: int = 0
    called_directly: bool = True
    is_eager: bool = False
    expires: float | None = None
    timelimit: tuple[float | None, float | None] = (None, None)
    hostname: str | None = None
    delivery_info: Mapping[str, Any] = field(default_factory=dict)
    job: EchoTaskContext | None = field(default=None, repr=False)

    @property
    def root_id(self) -> str | None:
        """The job's id."""
        return self.id

    correlation_id = root_id

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(f"self.request.{name} has no counterpart in EchoMQ.")


_DIRECT = Context()


class Task(Generic[P, R_co]):
    """A function that can be sent; made by :func:`shared_task`.

    Attributes:
        name: its name.
        django_task: the task of Django's Tasks API that carries it.
        run: the function; of a bound task with the task itself as its first argument.
    """

    MaxRetriesExceededError = MaxRetriesExceededError

    def __init__(self, fun: Callable[..., R_co], bind: bool, options: TaskOptions) -> None:
        where = f"@shared_task of {fun.__qualname__}"
        _check_declaration(where, fun, options)
        self._where = where
        self.__name__ = fun.__name__
        self.__qualname__ = fun.__qualname__
        self.__module__ = fun.__module__
        self.__doc__ = fun.__doc__
        self.__wrapped__ = cast(FunctionType, fun)
        self.run: Callable[..., R_co] = fun.__get__(self) if bind else fun
        self.name: str = options.get("name") or f"{fun.__module__}.{fun.__name__}"
        self.max_retries: int | None = options.get("max_retries", 3)
        self.default_retry_delay: int = options.get("default_retry_delay", 180)
        self.soft_time_limit = options.get("soft_time_limit")
        self.time_limit = options.get("time_limit")
        self.rate_limit = options.get("rate_limit")
        self.expires = options.get("expires")
        self.ignore_result: bool = options.get("ignore_result", False)
        self._autoretry_for = tuple(options.get("autoretry_for", ()))
        self._dont_autoretry_for = tuple(options.get("dont_autoretry_for", ()))
        self._retry_kwargs = dict(options.get("retry_kwargs", {}))
        self._backoff = float(options.get("retry_backoff", False))
        self._backoff_max = options.get("retry_backoff_max", 600)
        self._jitter = options.get("retry_jitter", True)
        self._signature = inspect.signature(self.run) if options.get("typing", True) else None
        self._request: ContextVar[Context] = ContextVar(f"request of {self.name}", default=_DIRECT)
        self._limited = self.time_limit is not None or self.soft_time_limit is not None
        self.func = _function(self, cast(FunctionType, fun))
        self.django_task = self._carrier(
            options.get("queue") or "default", options.get("priority") or 0
        )
        know(self)

    def _carrier(self, queue: str, priority: int) -> EchoTask:
        if self.rate_limit is not None:
            _check_rate(self._where, self.rate_limit, queue)
        return EchoTask(
            func=self.func,
            takes_context=True,
            queue_name=queue,
            priority=priority,
            # One try, unless the task asks for another: retry() brings its own budget.
            max_attempts=1,
            isolate=self._limited,
            timeout=self.time_limit,
        )

    def __repr__(self) -> str:
        return f"<@task: {self.name}>"

    # Calling

    @property
    def request(self) -> Context:
        """The call that runs."""
        return self._request.get()

    def __call__(self, *args: P.args, **kwargs: P.kwargs) -> R_co:
        return self._run(Context(args=args, kwargs=kwargs), args, kwargs)

    def apply(
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        throw: bool = False,
    ) -> EagerResult[R_co]:
        """Runs it here and now, with its retries and without waiting between them."""
        job_id, given = get_random_string(32), tuple(args or ())
        try:
            value = self._run_eagerly(job_id, given, dict(kwargs or {}))
        except Exception as error:
            if throw:
                raise
            return EagerResult(job_id, error, "FAILURE")
        return EagerResult(job_id, value, "SUCCESS")

    def _run_eagerly(self, job_id: str, args: Sequence[Any], kwargs: dict[str, Any]) -> R_co:
        request = Context(job_id, args, kwargs, called_directly=False, is_eager=True)
        while True:
            try:
                return self._run(request, args, kwargs)
            except Retry:
                request = replace(request, retries=request.retries + 1)

    def _run(self, request: Context, args: Sequence[Any], kwargs: Mapping[str, Any]) -> R_co:
        current = self._request.set(request)
        try:
            with soft_limit(request.timelimit[1]):
                return self.run(*args, **kwargs)
        except (Retry, Cancelled):
            raise
        except self._dont_autoretry_for:
            raise
        except self._autoretry_for as error:
            how = dict(self._retry_kwargs)
            if self._backoff:
                longest = max(1, int(self._backoff)) * 2 ** min(request.retries, 32)
                delay = min(self._backoff_max, longest)
                how["countdown"] = random.randrange(delay + 1) if self._jitter else delay
            raise self.retry(exc=cast(Exception, error), **how) from error
        finally:
            self._request.reset(current)

    def work(self, context: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        """A call, as a worker makes it."""
        message = kwargs.pop(MESSAGE, {})
        result = context.task_result
        expires = message.get("expires")
        if expires is not None and time.time() >= expires:
            raise Cancelled("it expired before it was run")
        if not isinstance(context, EchoTaskContext):
            return self._run_eagerly(result.id, args, kwargs)
        claim = context.hand.claim
        request = Context(
            id=result.id,
            args=args,
            kwargs=kwargs,
            # A lease that lapsed is a try, but no retry.
            retries=max(0, claim.attempt - 1 - claim.stalled),
            called_directly=False,
            expires=expires,
            timelimit=(self.time_limit, message.get("soft_time_limit", self.soft_time_limit)),
            hostname=result.worker_ids[-1] if result.worker_ids else None,
            delivery_info={"routing_key": context.queue.name},
            job=context,
        )
        value = self._run(request, args, kwargs)
        if following := message.get("chain"):
            send_next(value, following, again=claim.attempt > 1)
        return None if message.get("ignore_result", self.ignore_result) else value

    # Retrying

    def retry(
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        exc: Exception | None = None,
        throw: bool = True,
        eta: datetime | None = None,
        countdown: float | None = None,
        max_retries: int | None = None,
        **options: Any,
    ) -> Retry:
        """Ends this try and asks for another. Raises always; ``raise self.retry()`` reads better.

        Args:
            args, kwargs: cannot be changed.
            exc: why; raised instead where no more tries are left.
            throw: always.
            eta, countdown: when; ``default_retry_delay`` from now unless given.
            max_retries: for this time, instead of the task's.

        Raises:
            Retry: the task will be run again.
            MaxRetriesExceededError: no tries are left, and there is no ``exc``.
        """
        where = f"{self.name}.retry()"
        check_options(where, {k: v for k, v in options.items() if v is not None}, "retry")
        if not throw:
            raise TypeError(f"{where}: throw=False is not served; a try ends by the exception.")
        request = self.request
        if (args is not None and tuple(args) != tuple(request.args or ())) or (
            kwargs is not None and kwargs != request.kwargs
        ):
            raise TypeError(
                f"{where} cannot change the arguments: send a new call with apply_async, and "
                "return."
            )
        if request.called_directly:
            _raise(exc or Retry("Task can be retried"))
        limit = self.max_retries if max_retries is None else max_retries
        if limit is not None and request.retries + 1 > limit:
            if exc is not None:
                _raise(exc)
            raise self.MaxRetriesExceededError(
                f"Can't retry {self.name}[{request.id}] args:{request.args} kwargs:{request.kwargs}"
            )
        if eta is not None:
            delay = (_aware(where, "eta", eta) - timezone.now()).total_seconds()
        else:
            delay = self.default_retry_delay if countdown is None else countdown
        attempt = request.job.attempt if request.job else 0
        raise Retry(exc=exc, when=eta or countdown, delay=max(0.0, delay), max_attempts=attempt + 1)

    def update_state(
        self,
        task_id: str | None = None,
        state: str | None = None,
        meta: dict[str, Any] | None = None,
    ) -> None:
        """Tells how far the task is: ``AsyncResult.state`` and ``info`` show it while it runs."""
        request = self.request
        if task_id not in (None, request.id):
            raise TypeError(f"{self.name}.update_state() tells of its own call only.")
        if request.job is not None:
            request.job.progress({"state": state or "STARTED", "meta": meta})

    # Sending

    def delay(self, *args: P.args, **kwargs: P.kwargs) -> AsyncResult[R_co]:
        """Sends a call."""
        return self.send(args, kwargs, {})

    def apply_async(
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        task_id: str | None = None,
        **options: Unpack[SendOptions],
    ) -> AsyncResult[R_co]:
        """Sends a call.

        Args:
            task_id: an id of a job (``JOB...``), which is sent once.

        Raises:
            TypeError: the function does not take these arguments, or they are not JSON.
            ServerUnavailable: not known to be sent.
        """
        return self.send(tuple(args or ()), dict(kwargs or {}), options, job_id=task_id)

    def delay_on_commit(self, *args: P.args, **kwargs: P.kwargs) -> AsyncResult[R_co]:
        """Sends a call after the current transaction commits; a rollback drops it."""
        return self.send(args, kwargs, {}, on_commit=True)

    def apply_async_on_commit(
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[SendOptions],
    ) -> AsyncResult[R_co]:
        """:meth:`apply_async` after the current transaction commits; a rollback drops it."""
        return self.send(tuple(args or ()), dict(kwargs or {}), options, on_commit=True)

    def queue_of(self, options: SendOptions) -> str:
        """The queue that a call with these options goes to."""
        return options.get("queue") or self.django_task.queue_name

    def send(
        self,
        args: Sequence[Any],
        kwargs: Mapping[str, Any],
        options: SendOptions,
        *,
        job_id: str | None = None,
        chain: Sequence[Mapping[str, Any]] = (),
        on_commit: bool = False,
    ) -> AsyncResult[R_co]:
        """What all ways to send a call come to.

        Args:
            job_id: the caller's own.
            chain: the steps that follow it.
            on_commit: after the current transaction.
        """
        where = f"{self.name}.apply_async()"
        check_options(where, options)
        if self._signature is not None:
            try:
                self._signature.bind(*args, **kwargs)
            except TypeError as error:
                raise TypeError(f"{self.name}: {error}") from None
        task = self._sent_as(where, options)
        ignore_result = options.get("ignore_result", self.ignore_result)
        message = {
            "expires": _expiry(where, options.get("expires") or self.expires),
            "soft_time_limit": options.get("soft_time_limit"),
            "ignore_result": options.get("ignore_result"),
            "chain": list(chain) or None,
        }
        message = {name: value for name, value in message.items() if value is not None}
        whole = {**kwargs, MESSAGE: message} if message else dict(kwargs)
        backend = echo_backend()
        told: TaskResult[..., Any]
        if on_commit:
            told = task.enqueue_on_commit(*args, **whole)
        elif job_id is not None:
            if backend is None:
                raise TypeError(f"{where}: task_id= needs the EchoMQ backend.")
            told = backend.enqueue_as(task, args, whole, job_id)
        else:
            told = task.enqueue(*args, **whole)
        return AsyncResult.of(told, ignored=ignore_result)

    def _sent_as(self, where: str, options: SendOptions) -> EchoTask:
        using: dict[str, Any] = {}
        countdown, eta = options.get("countdown"), options.get("eta")
        if countdown is not None:
            using["run_after"] = timezone.now() + timedelta(seconds=countdown)
        elif eta is not None:
            using["run_after"] = _aware(where, "eta", eta)
        if options.get("queue"):
            using["queue_name"] = options["queue"]
            if self.rate_limit is not None:
                _check_rate(where, self.rate_limit, str(options["queue"]))
        if options.get("priority") is not None:
            using["priority"] = options["priority"]
        limits = options.get("time_limit"), options.get("soft_time_limit")
        if limits != (None, None) and not self._limited:
            raise TypeError(
                f"{where}: a call can change a time limit, but only the task can have one: declare "
                "it with time_limit=, which puts it into a process of its own."
            )
        if limits[0] is not None:
            using["timeout"] = limits[0]
        return self.django_task.using(**using) if using else self.django_task

    # Writing down

    def s(self, *args: Any, **kwargs: Any) -> Signature[R_co]:
        """A call written down, to which arguments may be added."""
        return Signature(self, args, kwargs)

    def si(self, *args: P.args, **kwargs: P.kwargs) -> Signature[R_co]:
        """A call written down, to which nothing is added."""
        return Signature(self, args, kwargs, immutable=True)

    def signature(
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        *,
        immutable: bool = False,
        **options: Unpack[SendOptions],
    ) -> Signature[R_co]:
        """A call written down, with how it is sent."""
        return Signature(self, args, kwargs, options, immutable=immutable)

    subtask = signature

    def AsyncResult(self, task_id: str) -> AsyncResult[R_co]:  # noqa: N802 - Celery's name
        """The result of a call by its id."""
        return AsyncResult(task_id)

    if not TYPE_CHECKING:

        def __getattr__(self, name: str) -> Any:
            raise AttributeError(
                f"Celery's Task.{name} has no counterpart in EchoMQ"
                + (f": {_METHODS[name]}." if name in _METHODS else ".")
            )


_METHODS = {
    "app": "there is no app",
    "chunks": "send slices of the list with one call each",
    "map": "send each with delay()",
    "starmap": "send each with delay()",
    "replace": "send the other call, and return",
    "add_to_chord": "let each task note that it is done, and the last one send the next",
}


def _function(task: Task[Any, Any], fun: FunctionType) -> Callable[..., Any]:
    """What stands in Django's registry for the function."""

    def work(context: Any, *args: Any, **kwargs: Any) -> Any:
        return task.work(context, args, kwargs)

    work.__module__, work.__qualname__ = fun.__module__, fun.__qualname__
    work.__name__, work.__doc__ = fun.__name__, fun.__doc__
    return work


def _check_declaration(where: str, fun: Callable[..., Any], options: TaskOptions) -> None:
    if inspect.iscoroutinefunction(fun):
        raise TypeError(f"{where}: Celery runs no coroutines; use @task of Django for them.")
    for name, value in options.items():
        if name not in TaskOptions.__annotations__ and value is not None:
            instead = _NOT_DECLARED.get(name, "leave it out")
            raise TypeError(f"{where}: {name}= has no counterpart in EchoMQ: {instead}.")
    for name in ("acks_late", "reject_on_worker_lost"):
        if options.get(name) is False:
            raise TypeError(
                f"{where}: {name}=False is not served: a job whose worker is lost is always run "
                "again. Make the task safe to repeat, and leave it out."
            )
    if options.get("serializer", "json") != "json":
        raise TypeError(f"{where}: arguments travel as JSON, not {options['serializer']!r}.")


def _check_rate(where: str, rate: str, queue: str) -> None:
    """A rate is the queue's: Celery counts per worker and task, EchoMQ over all workers."""
    text = rate if isinstance(rate, str) and "/" in rate else f"{rate}/s"
    if queue_definition(queue).options.rate_limit == Rate.read(text):
        return
    raise ImproperlyConfigured(
        f"{where}: rate_limit={rate!r}, but the queue {queue!r} has another or none. Celery counts "
        "per task and worker, EchoMQ per queue over all workers: give the task a queue of its own, "
        f"with ECHOMQ['QUEUES'][...] = {{'RATE_LIMIT': {text!r}}}."
    )


def _aware(where: str, name: str, value: datetime) -> datetime:
    if timezone.is_naive(value):
        raise ValueError(
            f"{where}: {name}={value!r} has no time zone, and Celery's is not known here: make it "
            "aware."
        )
    return value


def _expiry(where: str, value: float | datetime | None) -> float | None:
    """Unix seconds."""
    if isinstance(value, datetime):
        return _aware(where, "expires", value).timestamp()
    return None if value is None else time.time() + value


def _raise(error: Exception) -> NoReturn:
    """Raises it; where another is being handled, as what came of that."""
    current = sys.exc_info()[1]
    if current is None or current is error:
        raise error
    raise error from current


@overload
def shared_task(fun: Callable[P, R], /) -> Task[P, R]: ...
@overload
def shared_task(
    *, bind: Literal[False] = ..., **options: Unpack[TaskOptions]
) -> Callable[[Callable[P, R]], Task[P, R]]: ...
@overload
def shared_task(
    *, bind: Literal[True], **options: Unpack[TaskOptions]
) -> Callable[[Callable[Concatenate[Task[P, R], P], R]], Task[P, R]]: ...
def shared_task(fun: Any = None, /, *, bind: bool = False, **options: Any) -> Any:
    """Makes a task of a function of a module; see :class:`TaskOptions`.

    Args:
        bind: the function's first argument is the task, for ``self.request`` and ``self.retry()``.

    Raises:
        TypeError, ImproperlyConfigured: it is declared with what has no counterpart in EchoMQ.
    """

    def make(function: Callable[..., Any]) -> Task[..., Any]:
        return Task(function, bind, cast(TaskOptions, options))

    return make if fun is None else make(fun)
