"""The payload of a task call."""

from __future__ import annotations

from collections import OrderedDict
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_echomq.tasks.envelope import Envelope, to_json
from django_echomq.tasks.verdicts import BadPayload

json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters()),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@given(st.lists(json_values, max_size=4), st.dictionaries(st.text(), json_values, max_size=4))
def test_what_is_json_comes_back_as_it_was(args: list[Any], kwargs: dict[str, Any]) -> None:
    sent = Envelope("a.task", to_json(args), to_json(kwargs))
    assert Envelope.decode(sent.encode()) == sent


def test_lone_surrogates_travel_escaped() -> None:
    assert Envelope.decode(Envelope("t", ["\udfff"]).encode()).args == ["\udfff"]


def test_types_that_json_has_a_form_for() -> None:
    assert to_json((1, OrderedDict(a=b"bytes"), range(2))) == [1, {"a": "bytes"}, [0, 1]]


@given(st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(payload: bytes) -> None:
    with suppress(BadPayload):
        Envelope.decode(payload)


@pytest.mark.parametrize(
    "payload",
    [
        b"",
        b"{",
        b"null",
        b"[]",
        b'"text"',
        b"{}",
        b'{"task": 1}',
        b'{"task": "t", "args": {}}',
        b'{"task": "t", "kwargs": []}',
        b'{"task": "t", "options": 5}',
        b"[" * 100_000,
        b"\xff\xfe",
    ],
)
def test_what_is_no_task_call_is_refused(payload: bytes) -> None:
    with pytest.raises(BadPayload):
        Envelope.decode(payload)
