"""Task calls as people see them: decoded, with secrets masked."""

from __future__ import annotations

import inspect
import json
import re
from dataclasses import dataclass
from typing import Any

from ..conf import read_settings
from ..queue.values import Job
from .envelope import Envelope
from .registry import lookup
from .verdicts import BadPayload

MASK = "********"
#: Text of a call or a result that is shown at most, in characters.
SHOWN = 65_536
_BEYOND_ASCII = re.compile(r"[^\n -~]")


_ABSENT = object()


@dataclass(frozen=True, slots=True)
class ShownCall:
    """A job's payload for showing.

    Attributes:
        task: the registered name; empty where the payload is no task call.
        args, kwargs, options: with secrets masked; only what a call may carry.
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
        options = masked(envelope.options, words)
    except RecursionError:
        return ShownCall(envelope.task, [], {}, {}, "its arguments are nested too deeply to show")
    return ShownCall(
        envelope.task,
        args,
        kwargs,
        options,
        masked=(args, kwargs, options) != (envelope.args, envelope.kwargs, envelope.options),
    )


def shown_bytes(value: bytes) -> str:
    """A payload or a result for showing, whatever it is: JSON with secrets masked, or text. Text
    that is no JSON but names a secret is not shown."""
    words = read_settings().console.redact
    try:
        return laid_out(masked(json.loads(value), words))
    except (ValueError, RecursionError):
        pass
    text = value[:SHOWN].decode("utf-8", "backslashreplace")
    if _secret(value.decode("utf-8", "replace"), words):
        return f"{MASK} ({len(value)} bytes)"
    return text if len(value) <= SHOWN else text + " …"


def laid_out(value: Any) -> str:
    """A JSON value over several lines, for people. Ends with … where it is longer than ``SHOWN``:
    what is nested deeply has far more text laid out than as it was sent."""
    parts, length = [], 0
    try:
        for part in json.JSONEncoder(ensure_ascii=False, indent=2).iterencode(value):
            parts.append(part)
            length += len(part)
            if length > SHOWN:
                return "".join(parts)[:SHOWN] + " …"
    except RecursionError:
        return "".join(parts)[:SHOWN] + " …"
    return "".join(parts)


def editable(value: Any) -> str | None:
    """A JSON value as text that can be edited and read back without loss: what does not print is
    escaped. ``None`` where it is too long."""
    text = laid_out(value)
    if len(text) > SHOWN or text.endswith("…"):
        return None
    return _BEYOND_ASCII.sub(_escaped, text)


def _escaped(match: re.Match[str]) -> str:
    return match[0] if match[0].isprintable() else json.dumps(match[0])[1:-1]


def unmasked(edited: Any, original: Any) -> Any:
    """What somebody edited, with what is still masked put back as it was.

    Raises:
        ValueError: a mask stands where nothing was masked, or in a list whose length changed, so
            that it is not known what it stands for.
    """
    if edited == MASK:
        if original is _ABSENT:
            raise ValueError("a masked value was moved: write what is meant in full")
        return original
    if isinstance(edited, dict):
        known = original if isinstance(original, dict) else {}
        return {key: unmasked(item, known.get(key, _ABSENT)) for key, item in edited.items()}
    if isinstance(edited, list):
        same = isinstance(original, list) and len(original) == len(edited)
        return [unmasked(item, original[n] if same else _ABSENT) for n, item in enumerate(edited)]
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
