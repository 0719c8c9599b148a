"""The payload of a task call: one JSON object, ``{"task", "args", "kwargs", "options"}``.

Empty parts are left out. Data only: a name is looked up in the registry, never imported.
"""

from __future__ import annotations

import json
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from typing import Any

from .verdicts import BadPayload

_OPTIONS = frozenset(("max_attempts", "backoff", "timeout"))


def to_json(value: Any) -> Any:
    """The value as plain JSON types: tuples become lists, UTF-8 bytes become text.

    Raises:
        TypeError: for what JSON cannot carry, an object key that is no string among it.
        ValueError: for NaN, infinities, bytes that are not UTF-8, and endless nesting.
    """
    try:
        return _plain(value)
    except RecursionError:
        raise ValueError("the value is nested too deeply, or contains itself") from None


_PLAIN = frozenset((type(None), str, int, bool))


def _plain(value: Any) -> Any:
    kind = type(value)
    if kind in _PLAIN:
        return value
    if kind is list or kind is tuple:
        if _PLAIN.issuperset(map(type, value)):
            return list(value)
        return [_plain(item) for item in value]
    if isinstance(value, Mapping):
        plain = {}
        for key, item in value.items():
            if not isinstance(key, str):
                raise TypeError(f"a JSON object's keys are strings, not {type(key).__name__}")
            plain[str(key)] = _plain(item)
        return plain
    if isinstance(value, float):
        if not math.isfinite(value):
            raise ValueError(f"JSON has no {value!r}")
        return float(value)
    if isinstance(value, bytes):
        try:
            return value.decode()
        except UnicodeDecodeError:
            raise ValueError("JSON carries text: bytes that are not UTF-8 cannot be sent") from None
    if isinstance(value, (bool, int)):
        return int(value)
    if isinstance(value, str):
        return str(value)
    if isinstance(value, Sequence):
        return [_plain(item) for item in value]
    raise TypeError(f"JSON cannot carry {kind.__name__}: send an id or plain values instead")


# Made once: json.dumps makes an encoder per call, and an encoder one in C per value.
_encoder = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":"))
_make = getattr(json.encoder, "c_make_encoder", None)
_chunks = _make and _make(
    None, _encoder.default, json.encoder.encode_basestring, None, ":", ",", False, False, False
)
_encode_ascii = json.JSONEncoder(allow_nan=False, separators=(",", ":")).encode


def dumps(plain: Any) -> bytes:
    """Compact JSON as UTF-8; text that UTF-8 cannot carry is escaped."""
    try:
        return ("".join(_chunks(plain, 0)) if _chunks else _encoder.encode(plain)).encode()
    except UnicodeEncodeError:
        return _encode_ascii(plain).encode()


_decoder = json.JSONDecoder()
_scan: Callable[[str, int], tuple[Any, int]] = _decoder.scan_once  # type: ignore[attr-defined]
_TASK_FIRST = re.compile(rb'\{"task":"([^"\\]{1,200})"')


def task_name(payload: bytes) -> str:
    """The task that a payload names; empty where it names none. Does not read further than it has
    to, for lists of many jobs."""
    if match := _TASK_FIRST.match(payload):
        return match[1].decode("utf-8", "replace")
    try:
        return Envelope.decode(payload).task[:200]
    except BadPayload:
        return ""


@lru_cache
def _opening(task: str) -> bytes:
    return b'{"task":' + dumps(task)


def carrying(payload: bytes, options: bool, more: dict[str, Any]) -> bytes:
    """An encoded envelope with more options.

    Args:
        options: whether it has some; they come last.
    """
    if not more:
        return payload
    if options:
        return payload[:-2] + b"," + dumps(more)[1:] + b"}"
    return payload[:-1] + b',"options":' + dumps(more) + b"}"


@dataclass(frozen=True, slots=True)
class Envelope:
    """A task call.

    Attributes:
        task: the registered name.
        args, kwargs: plain JSON values.
        options: per-call ``max_attempts``, ``backoff`` (a mapping) and ``timeout`` (seconds).
    """

    task: str
    args: list[Any] = field(default_factory=list)
    kwargs: dict[str, Any] = field(default_factory=dict)
    options: dict[str, Any] = field(default_factory=dict)

    def encode(self) -> bytes:
        parts = [_opening(self.task)]
        if self.args:
            parts += b',"args":', dumps(self.args)
        if self.kwargs:
            parts += b',"kwargs":', dumps(self.kwargs)
        if self.options:
            parts += b',"options":', dumps(self.options)
        parts.append(b"}")
        return b"".join(parts)

    @classmethod
    def decode(cls, payload: bytes) -> Envelope:
        """Reads a payload.

        Raises:
            BadPayload: if it is not an envelope; the message says in which way.
        """
        try:
            text = payload.decode()
            try:
                parts, end = _scan(text, 0)
            except StopIteration:
                end = -1
            if end != len(text):
                # Spaces around the value, or what is none: the whole decoder tells.
                parts = _decoder.decode(text)
        except (ValueError, RecursionError) as error:
            raise BadPayload(f"the payload is not JSON: {error}") from None
        if not isinstance(parts, dict) or not isinstance(parts.get("task"), str):
            raise BadPayload('the payload is not a task call: it needs {"task": "<name>", ...}')
        args, kwargs = parts.get("args", []), parts.get("kwargs", {})
        options = parts.get("options", {})
        if not isinstance(args, list) or not isinstance(kwargs, dict):
            raise BadPayload('the payload\'s "args" must be an array and its "kwargs" an object')
        if not isinstance(options, dict):
            raise BadPayload('the payload\'s "options" must be an object')
        if options:
            options = {name: value for name, value in options.items() if name in _OPTIONS}
        return cls(parts["task"], args, kwargs, options)
