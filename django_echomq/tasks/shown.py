"""Task calls as people see them: decoded, with secrets masked."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from typing import Any

from ..conf import read_settings
from ..queue.values import Job
from .envelope import Envelope
from .registry import lookup
from .verdicts import BadPayload

MASK = "********"


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A job's payload for showing.

    Attributes:
        task: the registered name; empty where the payload is no task call.
        args, kwargs, options: with secrets masked.
        problem: why the payload cannot be read; empty where it can.
        masked: whether anything is masked.
    """

    task: str
    args: list[Any]
    kwargs: dict[str, Any]
    options: dict[str, Any]
    problem: str = ""
    masked: bool = False

    def as_json(self) -> dict[str, Any]:
        """The parts that are there."""
        parts = {"task": self.task, "args": self.args, "kwargs": self.kwargs}
        return {**parts, "options": self.options} if self.options else parts


def shown_call(job: Job) -> ShownCall:
    """Reads a job's payload. Arguments whose name, or a key inside them, contains one of
    ``CONSOLE["REDACT"]`` are masked; positional ones are known by the task's signature."""
    try:
        envelope = Envelope.decode(job.payload)
    except BadPayload as error:
        return ShownCall("", [], {}, {}, str(error))
    words = read_settings().console.redact
    names = _positional(envelope.task)
    try:
        args = [
            MASK if n < len(names) and _secret(names[n], words) else masked(value, words)
            for n, value in enumerate(envelope.args)
        ]
        kwargs = masked(envelope.kwargs, words)
    except RecursionError:
        return ShownCall(envelope.task, [], {}, {}, "its arguments are nested too deeply to show")
    return ShownCall(
        envelope.task,
        args,
        kwargs,
        envelope.options,
        masked=(args, kwargs) != (envelope.args, envelope.kwargs),
    )


def unmasked(edited: Any, original: Any) -> Any:
    """What somebody edited, with what is still masked put back as it was."""
    if edited == MASK:
        return original
    if isinstance(edited, dict) and isinstance(original, dict):
        return {key: unmasked(item, original.get(key, item)) for key, item in edited.items()}
    if isinstance(edited, list) and isinstance(original, list):
        rest = [*original, *edited[len(original) :]]
        return [unmasked(item, rest[n]) for n, item in enumerate(edited)]
    return edited


def _positional(name: str) -> list[str]:
    task = lookup(name)
    if task is None:
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    names = [p.name for p in inspect.signature(task.func).parameters.values() if p.kind in kinds]
    return names[1:] if task.takes_context else names


def _secret(name: str, words: tuple[str, ...]) -> bool:
    return any(word in name.lower() for word in words)


def masked(value: Any, words: tuple[str, ...]) -> Any:
    """A copy of a JSON value with what stands under a secret's name masked."""
    if isinstance(value, dict):
        return {
            key: MASK if _secret(key, words) else masked(item, words) for key, item in value.items()
        }
    if isinstance(value, list):
        return [masked(item, words) for item in value]
    return value
