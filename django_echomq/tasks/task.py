"""Django's task, with the controls of the queue."""

from __future__ import annotations

from collections.abc import Callable, Coroutine, Iterable
from dataclasses import dataclass, fields, replace
from datetime import datetime, timedelta
from typing import (
    TYPE_CHECKING,
    Any,
    Concatenate,
    Literal,
    Protocol,
    Self,
    TypedDict,
    Unpack,
    cast,
    overload,
)

from django.db import transaction
from django.utils.crypto import get_random_string

from ..queue import Unique
from ..queue.backoff import Backoff, backoff_from
from .compat import Task
from .envelope import to_json
from .registry import register
from .results import EchoTaskResult, P, R, fresh_result

if TYPE_CHECKING:
    from .backend import EchoMQBackend
    from .context import EchoTaskContext

    _Base = Task
else:

    class _Base:
        def __class_getitem__(cls, types: Any) -> type:
            return Task  # not generic at run time on Django 6


@dataclass(frozen=True, slots=True, kw_only=True)
class EchoTask(_Base[P, R]):
    """A task with the controls of the queue.

    On another backend than EchoMQ's it is one of Django's: what it says of the queue has no effect.

    Attributes:
        max_attempts: the budget of tries; the queue's where ``None``.
        backoff: the curve between tries: a curve, a list of delays in ms, or a mapping; the
            queue's where ``None``.
        timeout: seconds a handler may run; the queue's where ``None``.
        lane: the lane to wait in.
        unique: at most one job per key; text is a key that the end of the job frees.
        manual_lease: only the task's own checkpoints extend its lease, so that one that hangs is
            recovered.
        isolate: each call runs in a child process, which can be killed for time, cancel or memory.
    """

    max_attempts: int | None = None
    backoff: Backoff | list[int] | dict[str, Any] | None = None
    timeout: float | timedelta | None = None
    lane: str | None = None
    unique: Unique | str | None = None
    manual_lease: bool = False
    isolate: bool = False

    def __post_init__(self) -> None:
        Task.__post_init__(self)
        # One form for each, which compares and hashes like the rest of the task.
        if self.backoff is not None:
            object.__setattr__(self, "backoff", backoff_from(self.backoff))
        if isinstance(self.unique, str):
            object.__setattr__(self, "unique", Unique(self.unique))
        register(self)

    def using(
        self,
        *,
        priority: int | None = None,
        queue_name: str | None = None,
        run_after: datetime | None = None,
        backend: str | None = None,
        max_attempts: int | None = None,
        backoff: Backoff | list[int] | dict[str, Any] | None = None,
        timeout: float | timedelta | None = None,
        lane: str | None = None,
        unique: Unique | str | None = None,
    ) -> Self:
        """The same task with some options replaced; ``None`` leaves an option as it is."""
        changes: dict[str, Any] = {
            "priority": priority,
            "queue_name": queue_name,
            "run_after": run_after,
            "backend": backend,
            "max_attempts": max_attempts,
            "backoff": backoff,
            "timeout": timeout,
            "lane": lane,
            "unique": unique,
        }
        register(self)  # before the variant, which else might stand for the task
        return replace(self, **{k: v for k, v in changes.items() if v is not None})

    if TYPE_CHECKING:

        def enqueue(self, *args: P.args, **kwargs: P.kwargs) -> EchoTaskResult[P, R]: ...
        async def aenqueue(self, *args: P.args, **kwargs: P.kwargs) -> EchoTaskResult[P, R]: ...
        def get_result(self, result_id: str) -> EchoTaskResult[P, R]: ...
        async def aget_result(self, result_id: str) -> EchoTaskResult[P, R]: ...

    def enqueue_many(
        self, calls: Iterable[tuple[Iterable[Any], dict[str, Any]]]
    ) -> list[EchoTaskResult[P, R]]:
        """Enqueues many calls, some hundreds per round trip.

        Args:
            calls: pairs of positional arguments and keyword arguments.

        Returns:
            One result per call, in order.

        Raises:
            TypeError, ValueError: a call is not JSON; nothing was sent.
        """
        backend = self._backend()
        if backend is None:
            # Arguments that come in pairs cannot be checked by their types.
            enqueue = cast("Callable[..., EchoTaskResult[P, R]]", self.enqueue)
            return [enqueue(*args, **kwargs) for args, kwargs in calls]
        return cast("list[EchoTaskResult[P, R]]", backend.enqueue_many(self, calls))

    def enqueue_on_commit(
        self, *args: Any, using: str | None = None, **kwargs: Any
    ) -> EchoTaskResult[P, R]:
        """Enqueues after the current transaction commits; a rollback drops the call.

        Args:
            using: the database alias whose transaction counts; the default one unless given.

        Returns:
            The result, its id known now. Without a transaction the call is sent at once.
        """
        backend = self._backend()
        if backend is not None:
            return cast(
                "EchoTaskResult[P, R]", backend.enqueue_on_commit(self, args, kwargs, using)
            )
        result = fresh_result(self, get_random_string(32), to_json(args), to_json(kwargs))

        def send() -> None:
            sent = self.get_backend().enqueue(self, list(args), kwargs)
            for each in fields(sent):
                object.__setattr__(result, each.name, getattr(sent, each.name))

        transaction.on_commit(send, using=using)
        return cast("EchoTaskResult[P, R]", result)

    def _backend(self) -> EchoMQBackend | None:
        """The backend, where it is EchoMQ's."""
        backend = self.get_backend()
        ours = issubclass(backend.task_class, EchoTask)
        return cast("EchoMQBackend", backend) if ours else None


class TaskOptions(TypedDict, total=False):
    """What :func:`task` takes: the options of Django's decorator and those of the queue."""

    priority: int
    queue_name: str
    backend: str
    max_attempts: int | None
    backoff: Backoff | list[int] | dict[str, Any] | None
    timeout: float | timedelta | None
    lane: str | None
    unique: Unique | str | None
    manual_lease: bool
    isolate: bool


class _Decorator(Protocol):
    @overload
    def __call__(self, function: Callable[P, Coroutine[Any, Any, R]], /) -> EchoTask[P, R]: ...
    @overload
    def __call__(self, function: Callable[P, R], /) -> EchoTask[P, R]: ...


class _ContextDecorator(Protocol):
    @overload
    def __call__(
        self, function: Callable[Concatenate[EchoTaskContext, P], Coroutine[Any, Any, R]], /
    ) -> EchoTask[P, R]: ...
    @overload
    def __call__(
        self, function: Callable[Concatenate[EchoTaskContext, P], R], /
    ) -> EchoTask[P, R]: ...


@overload
def task(function: Callable[P, Coroutine[Any, Any, R]], /) -> EchoTask[P, R]: ...
@overload
def task(function: Callable[P, R], /) -> EchoTask[P, R]: ...
@overload
def task(*, takes_context: Literal[True], **options: Unpack[TaskOptions]) -> _ContextDecorator: ...
@overload
def task(*, takes_context: Literal[False] = ..., **options: Unpack[TaskOptions]) -> _Decorator: ...
def task(function: Any = None, /, *, takes_context: bool = False, **options: Any) -> Any:
    """Django's ``@task`` with the types of what it takes and makes.

    It makes the same task on every backend, so that code with options of the queue also runs on
    Django's own, which pass over them.
    """

    def make(func: Callable[..., Any]) -> EchoTask[..., Any]:
        return EchoTask(func=func, takes_context=takes_context, **options)

    return make if function is None else make(function)
