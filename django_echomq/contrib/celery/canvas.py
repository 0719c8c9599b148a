"""``celery.canvas``: calls that are written down before they are sent, and chains of them."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime
from typing import TYPE_CHECKING, Any, Generic, TypedDict, TypeVar, Unpack, cast, overload

from ...queues import get_queue
from ...tasks import registry
from .exceptions import NotRegistered
from .result import AsyncResult, EagerResult, echo_backend

if TYPE_CHECKING:
    from .task import Task

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)

_tasks: dict[str, Task[Any, Any]] = {}


class SendOptions(TypedDict, total=False):
    """How a call is sent: the options of ``apply_async``.

    Attributes:
        countdown: seconds until it may run.
        eta: an aware datetime from which on it may run.
        expires: seconds, or an aware datetime, after which it is not run any more.
        queue: the name of a queue of ``ECHOMQ["QUEUES"]``.
        priority: -100 to 100, a higher number is run first.
        ignore_result: keep no return value.
        time_limit, soft_time_limit: seconds; for a task that was declared with a limit.
        retry: whether the client tries again to reach the server; it does as long as that is safe.
        serializer: ``json``.
    """

    countdown: float | None
    eta: datetime | None
    expires: float | datetime | None
    queue: str | None
    priority: int | None
    ignore_result: bool
    time_limit: float | None
    soft_time_limit: float | None
    retry: bool
    serializer: str


_NOT_SENT = {
    "link": "write chain(first.s(), then.s())",
    "link_error": "use Django's task_finished signal, or except in the task",
    "exchange": "name a queue with queue=",
    "routing_key": "name a queue with queue=",
    "headers": "give the task an argument",
    "shadow": "the console shows the task and its arguments",
    "compression": "send an id, and keep what is large elsewhere",
    "producer": "the backend keeps its own connections",
    "publisher": "the backend keeps its own connections",
    "connection": "the backend keeps its own connections",
    "retry_policy": "the client tries again by itself while that is safe",
    "add_to_parent": "results do not know their children",
    "chain": "write chain(first.s(), then.s())",
    "chord": "write chain(first.s(), then.s())",
}


def check_options(where: str, options: Mapping[str, Any], *known: str) -> None:
    """Refuses options that are not served.

    Raises:
        TypeError: the sentence says what to do instead.
    """
    for name, value in options.items():
        if name in known or (not known and name in SendOptions.__annotations__):
            continue
        if name in _NOT_SENT and value is None:
            continue
        instead = _NOT_SENT.get(name, "leave it out")
        raise TypeError(f"{where}: {name}= has no counterpart in EchoMQ: {instead}.")
    if options.get("serializer", "json") != "json":
        raise TypeError(f"{where}: arguments travel as JSON, not {options['serializer']!r}.")


def know(task: Task[Any, Any]) -> None:
    """Makes a task known by its names.

    Raises:
        ValueError: another function's task has one of them.
    """
    for name in {task.name, task.django_task.module_path}:
        known = _tasks.setdefault(name, task)
        if _place(known) != _place(task):
            raise ValueError(
                f"two shared tasks are named {name!r} ({_place(known)} and {_place(task)}): rename "
                "one"
            )
        _tasks[name] = task  # its module may have been loaded again


def _place(task: Task[Any, Any]) -> tuple[str, int]:
    code = task.__wrapped__.__code__
    return code.co_filename, code.co_firstlineno


def find_task(name: str) -> Task[Any, Any]:
    """The shared task of that name.

    Raises:
        NotRegistered: there is none.
    """
    if name not in _tasks:
        registry.autodiscover()
    try:
        return _tasks[name]
    except KeyError:
        raise NotRegistered(
            f"No @shared_task is named {name!r}; tasks live in the tasks.py of an app."
        ) from None


class Signature(Generic[R_co]):
    """A call written down: a task, some of its arguments, and how it is sent.

    Args:
        task: a shared task, or its name.
        args, kwargs: arguments; what a call adds comes before ``args``.
        options: those of ``apply_async``.
        immutable: take no further arguments, such as the result of the step before.
    """

    def __init__(
        self,
        task: Task[Any, R_co] | str,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        options: SendOptions | None = None,
        *,
        immutable: bool = False,
    ) -> None:
        self._task = task
        self.args = tuple(args or ())
        self.kwargs = dict(kwargs or {})
        self.options: SendOptions = {**(options or {})}
        self.immutable = immutable
        check_options(f"The signature of {self.task}", self.options)

    @property
    def task(self) -> str:
        """The task's name."""
        return self._task if isinstance(self._task, str) else self._task.name

    name = task

    @property
    def type(self) -> Task[Any, R_co]:
        """The task."""
        return find_task(self._task) if isinstance(self._task, str) else self._task

    def __repr__(self) -> str:
        given = [*map(repr, self.args), *(f"{k}={v!r}" for k, v in self.kwargs.items())]
        return f"{self.task}({', '.join(given)})"

    def clone(
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[SendOptions],
    ) -> Signature[R_co]:
        """The same call with further arguments and options."""
        if self.immutable:
            args, kwargs = (), {}
        return Signature(
            self._task,
            (*(args or ()), *self.args),
            {**self.kwargs, **(kwargs or {})},
            {**self.options, **options},
            immutable=self.immutable,
        )

    def set(
        self, *, immutable: bool | None = None, **options: Unpack[SendOptions]
    ) -> Signature[R_co]:
        """Changes how this call is sent, and answers it."""
        check_options(f"The signature of {self.task}", options)
        self.options.update(options)
        if immutable is not None:
            self.immutable = immutable
        return self

    def apply_async(
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        task_id: str | None = None,
        **options: Unpack[SendOptions],
    ) -> AsyncResult[R_co]:
        """Sends it."""
        whole = self.clone(args, kwargs, **options)
        return self.type.apply_async(whole.args, whole.kwargs, task_id, **whole.options)

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult[R_co]:
        """Sends it with further arguments."""
        return self.apply_async(args, kwargs)

    def apply(
        self, args: Iterable[Any] | None = None, kwargs: Mapping[str, Any] | None = None
    ) -> EagerResult[R_co]:
        """Runs it here and now."""
        whole = self.clone(args, kwargs)
        return self.type.apply(whole.args, whole.kwargs)

    def __call__(self, *args: Any, **kwargs: Any) -> R_co:
        whole = self.clone(args, kwargs)
        return self.type(*whole.args, **whole.kwargs)

    def __or__(self, other: Signature[Any] | chain) -> chain:
        return chain(self, other)


class chain:  # noqa: N801 - Celery's name
    """Calls one after another; each is given the result of the one before as its first argument.

    A step is sent when the one before it has ended well. Should its worker be lost between that and
    the end, both are run again, as any job.
    """

    def __init__(self, *steps: Signature[Any] | chain | Iterable[Signature[Any]]) -> None:
        self.tasks: tuple[Signature[Any], ...] = tuple(
            step
            for given in steps
            for step in (
                (given,)
                if isinstance(given, Signature)
                else given.tasks
                if isinstance(given, chain)
                else given
            )
        )
        if not self.tasks:
            raise ValueError("a chain needs at least one signature")
        for step in self.tasks:
            if not isinstance(step, Signature):
                raise TypeError(f"a chain is made of signatures such as task.s(1), not {step!r}")

    def __repr__(self) -> str:
        return " | ".join(map(repr, self.tasks))

    def __or__(self, other: Signature[Any] | chain) -> chain:
        return chain(self, other)

    def apply_async(
        self,
        args: Iterable[Any] | None = None,
        kwargs: Mapping[str, Any] | None = None,
        **options: Unpack[SendOptions],
    ) -> AsyncResult[Any]:
        """Sends the first step, to which further arguments and options belong.

        Returns:
            The result of the last step; ``parent`` is that of the one before.
        """
        first = self.tasks[0].clone(args, kwargs, **options)
        if echo_backend() is None:
            return self._one_by_one(first)
        # A server with no queue of its name is refused here, not in the middle.
        queues = [get_queue(step.type.queue_of(step.options)) for step in self.tasks]
        ids = [queue.drive(queue.client.mint(1))[0] for queue in queues]
        following = [
            _message(step, job_id) for step, job_id in zip(self.tasks[1:], ids[1:], strict=True)
        ]
        first.type.send(first.args, first.kwargs, first.options, job_id=ids[0], chain=following)
        result: AsyncResult[Any] | None = None
        for job_id in ids:
            result = AsyncResult(job_id, parent=result)
        assert result is not None
        return result

    def _one_by_one(self, first: Signature[Any]) -> AsyncResult[Any]:
        """On a backend that runs at once; on one that runs nothing, no step follows the first."""
        result = first.apply_async()
        for step in self.tasks[1:]:
            if not result.successful():
                break
            value = result.result
            parent, result = result, step.apply_async((value,))
            result.parent = parent
        return result

    def delay(self, *args: Any, **kwargs: Any) -> AsyncResult[Any]:
        """Sends the first step with further arguments."""
        return self.apply_async(args, kwargs)

    __call__ = delay


def _message(step: Signature[Any], job_id: str) -> dict[str, Any]:
    """A step that follows, as it travels with the one before."""
    options = {
        name: value.isoformat() if isinstance(value, datetime) else value
        for name, value in step.options.items()
    }
    return {
        "task": step.type.django_task.module_path,
        "id": job_id,
        "args": list(step.args),
        "kwargs": step.kwargs,
        "options": options,
        "immutable": step.immutable,
    }


def send_next(value: Any, following: Sequence[Mapping[str, Any]], *, again: bool) -> None:
    """Sends the step that follows one that has ended with a value.

    Args:
        again: this is not the first attempt, so that it may have been sent before.
    """
    step = following[0]
    backend = echo_backend()
    if again and backend is not None and backend.find(step["id"]):
        return
    args = step["args"] if step["immutable"] else [value, *step["args"]]
    options = {
        name: datetime.fromisoformat(told)
        if name in ("eta", "expires") and isinstance(told, str)
        else told
        for name, told in step["options"].items()
    }
    find_task(step["task"]).send(
        args,
        step["kwargs"],
        cast(SendOptions, options),
        job_id=step["id"],
        chain=following[1:],
    )


@overload
def signature(varies: Signature[R], /) -> Signature[R]: ...
@overload
def signature(
    varies: str,
    args: Iterable[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    options: SendOptions | None = None,
    *,
    immutable: bool = False,
    **more: Unpack[SendOptions],
) -> Signature[Any]: ...
def signature(
    varies: Signature[Any] | str,
    args: Iterable[Any] | None = None,
    kwargs: Mapping[str, Any] | None = None,
    options: SendOptions | None = None,
    *,
    immutable: bool = False,
    **more: Any,
) -> Signature[Any]:
    """A call of the task of that name; a signature is copied."""
    if isinstance(varies, Signature):
        return varies.clone()
    if not isinstance(varies, str):
        raise TypeError(
            f"signature() takes the name of a task or a signature, not {type(varies).__name__}."
        )
    whole = cast(SendOptions, {**(options or {}), **more})
    return Signature(varies, args, kwargs, whole, immutable=immutable)
