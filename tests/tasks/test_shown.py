"""Calls as people see them: secrets masked, and put back where they were."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_echomq.queue.values import Job
from django_echomq.tasks.shown import (
    MASK,
    SHOWN,
    editable,
    laid_out,
    masked,
    shown_bytes,
    shown_call,
    unmasked,
)

WORDS = ("password", "token")


def job(**call: Any) -> Job:
    return Job.from_row("JOB00000000000", "pending", [b"payload", json.dumps(call).encode()])


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ({"password": 1, "name": 2}, {"password": MASK, "name": 2}),
        ({"old_PassWord_hash": [1]}, {"old_PassWord_hash": MASK}),
        ([{"a": [{"TOKENS": {"x": 1}}]}], [{"a": [{"TOKENS": MASK}]}]),
        ({"pass": 1, "word": 2}, {"pass": 1, "word": 2}),
        ("password", "password"),
        (None, None),
    ],
)
def test_masking(value: Any, shown: Any) -> None:
    before = json.dumps(value)
    assert masked(value, WORDS) == shown
    assert json.dumps(value) == before


def test_positional_arguments_are_known_by_the_signature() -> None:
    call = shown_call(job(task="tests.testapp.tasks.signs_in", args=["ann", "hunter2", "more"]))
    assert call.args == ["ann", MASK, "more"]
    assert call.masked
    # The context that a task takes is no argument of the call.
    assert shown_call(job(task="tests.testapp.tasks.checks", args=["a", 1])).args == ["a", 1]
    assert shown_call(job(task="no.such.task", args=["ann"])).args == ["ann"]


def test_options_are_masked_and_what_is_no_call_is_named() -> None:
    call = shown_call(job(task="a", options={"backoff": {"token": "x"}, "other": "token"}))
    assert call.options == {"backoff": {"token": MASK}}
    assert not shown_call(job(task="a")).masked
    broken = shown_call(job(task=1))
    assert broken.task == ""
    assert "not a task call" in broken.problem


def test_redact_of_the_settings(settings: Any) -> None:
    settings.ECHOMQ = {**settings.ECHOMQ, "CONSOLE": {"REDACT": ["iban"]}}
    call = shown_call(job(task="a", kwargs={"IBAN": 1, "password": 2}))
    assert call.kwargs["IBAN"] == MASK


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(st.sampled_from(["a", "password", "my_token", "b"]), inner, max_size=4)
    ),
)


@given(values)
def test_an_edit_that_changes_nothing_changes_nothing(value: Any) -> None:
    shown = masked(value, WORDS)
    assert unmasked(json.loads(json.dumps(shown)), value) == value


def test_an_edit_keeps_what_is_masked() -> None:
    original = {"password": "s", "rows": [{"token": "t", "n": 1}], "gone": 1}
    edited = {"password": MASK, "rows": [{"token": "new", "n": 2}], "added": [1]}
    assert unmasked(edited, original) == {
        "password": "s",
        "rows": [{"token": "new", "n": 2}],
        "added": [1],
    }


@pytest.mark.parametrize(
    ("edited", "original"),
    [
        ([MASK], ["a", "b"]),
        ({"other": MASK}, {"password": "s"}),
        ([{"password": MASK}, 1], [{"password": "s"}]),
        ({"a": [MASK]}, {"a": 1}),
    ],
)
def test_a_mask_that_was_moved_is_refused(edited: Any, original: Any) -> None:
    with pytest.raises(ValueError, match="masked"):
        unmasked(edited, original)


@given(st.recursive(st.text() | st.integers() | st.none(), st.lists))
def test_what_is_edited_reads_back_as_it_was(value: Any) -> None:
    text = editable(value)
    if text is not None:
        assert json.loads(text) == value
        assert all(c == "\n" or c.isprintable() for c in text)


def test_what_does_not_print_is_escaped_for_editing() -> None:
    value = ["\ud800", "\x00\x7f", "\u202e", "\U000e0041", "é😀"]
    text = editable(value)
    assert text is not None
    assert json.loads(text) == value
    assert "é😀" in text
    text.encode()


@pytest.mark.parametrize(
    "value",
    [
        ["x" * 10] * SHOWN,
        "x" * (SHOWN + 1),
        [[[[[[[[[[[[[[[[[[[[[[[[[[1] * 20_000]]]]]]]]]]]]]]]]]]]]]]]]],
        json.loads("[" * 900 + "1," * 100_000 + "1" + "]" * 900),
    ],
    ids=["many", "long", "deep", "deeper"],
)
def test_what_is_too_long_is_cut_and_not_for_editing(value: Any) -> None:
    text = laid_out(value)
    assert SHOWN < len(text) <= SHOWN + 2
    assert text.endswith(" …")
    assert editable(value) is None


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        (b'{"password": "s"}', '{\n  "password": "********"\n}'),
        (b"plain", "plain"),
        (b"\xff\x00", "\\xff\x00"),
        (b"my PASSWORD is s", "******** (16 bytes)"),
        (b'{"token": "s"', "******** (13 bytes)"),
        (b"", ""),
        (b"x" * (SHOWN + 1), "x" * SHOWN + " …"),
        (b"[" * 100_000, "[" * SHOWN + " …"),
    ],
    ids=range(8),
)
def test_other_bytes(value: bytes, shown: str) -> None:
    assert shown_bytes(value) == shown


def test_a_secret_beyond_what_is_shown_counts() -> None:
    assert shown_bytes(b"x" * SHOWN + b" password").startswith(MASK)
