"""The keyspace: which names are taken, and which keys they make."""

from __future__ import annotations

import doctest
from collections.abc import Callable

import pytest
import redis
from hypothesis import given
from hypothesis import strategies as st
from redis.crc import key_slot

from django_echomq.queue import Queue, Unique
from django_echomq.wire import keys
from django_echomq.wire.client import Client
from django_echomq.wire.errors import EchoMQError, InvalidName
from django_echomq.wire.keys import Keys, check_lane, check_queue, check_unique
from tests.wire.monitor import recorded

CHECKS = [check_queue, check_lane, check_unique]
Check = Callable[[object], str]

GOOD = ["a", "0", "mail", "MAIL", "a.b_c-D.9", "-", ".", "..", "__", "emqs", "EMQ", "x" * 128]
BAD = [
    pytest.param("", id="empty"),
    pytest.param(" ", id="space"),
    pytest.param("a b", id="inner-space"),
    pytest.param("mail\n", id="trailing-newline"),
    pytest.param("ma\til", id="tab"),
    pytest.param("mail\0", id="nul"),
    pytest.param("{mail}", id="braces"),
    pytest.param("a}b", id="closing-brace"),
    pytest.param("a{b", id="opening-brace"),
    pytest.param("a:b", id="colon"),
    pytest.param("a/b", id="slash"),
    pytest.param("a*", id="star"),
    pytest.param("caf\u00e9", id="accent"),
    pytest.param("\u0661", id="arabic-digit"),
    pytest.param("\uff4dail", id="full-width"),
    pytest.param("ma\ud800il", id="lone-surrogate"),
    pytest.param("x" * 256, id="too-long"),
    pytest.param(b"mail", id="bytes"),
    pytest.param(None, id="none"),
    pytest.param(7, id="int"),
    pytest.param(True, id="bool"),
    pytest.param(["mail"], id="list"),
]


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", GOOD)
def test_a_good_name_comes_back_unchanged(check: Check, name: str) -> None:
    assert check(name) is name


@pytest.mark.parametrize("check", CHECKS)
@pytest.mark.parametrize("name", BAD)
def test_a_bad_name_is_refused(check: Check, name: object) -> None:
    with pytest.raises(InvalidName):
        check(name)


@pytest.mark.parametrize(("check", "longest"), [(check_queue, 128), (check_lane, 128)])
def test_a_name_has_at_most_128_characters(check: Check, longest: int) -> None:
    check("x" * longest)
    with pytest.raises(InvalidName, match="1 to 128"):
        check("x" * (longest + 1))


def test_a_unique_key_has_at_most_255_characters() -> None:
    check_unique("x" * 255)
    with pytest.raises(InvalidName, match="1 to 255"):
        check_unique("x" * 256)


def test_the_reserved_word_cannot_name_a_queue() -> None:
    with pytest.raises(InvalidName, match="reserved"):
        check_queue("emq")


@pytest.mark.parametrize("check", [check_lane, check_unique])
def test_the_reserved_word_may_name_a_lane_or_a_unique_key(check: Check) -> None:
    assert check("emq") == "emq"


def test_a_branded_id_may_name_a_lane() -> None:
    assert check_lane("USR0KHTOWnGLuC") == "USR0KHTOWnGLuC"


def test_a_refusal_is_a_value_error_and_names_the_text() -> None:
    with pytest.raises(InvalidName, match="'a b' cannot name a queue") as caught:
        check_queue("a b")
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, EchoMQError)


@given(st.text(max_size=140))
def test_a_queue_name_is_ascii_letters_digits_dot_underscore_dash(text: str) -> None:
    allowed = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789._-"
    if 1 <= len(text) <= 128 and set(text) <= set(allowed) and text != "emq":
        assert check_queue(text) == text
    else:
        with pytest.raises(InvalidName):
            check_queue(text)


@pytest.mark.parametrize("name", ["pending", "active", "schedule", "dead", "meta", "wake"])
def test_a_key_is_the_queue_in_braces_and_the_type(name: str) -> None:
    assert getattr(Keys("mail"), name) == b"emq:{mail}:" + name.encode()


def test_the_keys_of_a_job_hang_below_its_row() -> None:
    mail = Keys("mail")
    job = "JOB0NgWEfAEJfs"
    assert mail.job(job) == b"emq:{mail}:job:JOB0NgWEfAEJfs"
    assert mail.logs(job) == b"emq:{mail}:job:JOB0NgWEfAEJfs:logs"
    assert mail.outcome(job) == b"emq:{mail}:job:JOB0NgWEfAEJfs:outcome"


def test_a_lane_has_a_set_of_its_own() -> None:
    assert Keys("mail").lane("USR0KHTOWnGLuC") == b"emq:{mail}:g:USR0KHTOWnGLuC:pending"


def test_a_metric_has_a_key_of_its_own() -> None:
    assert Keys("mail").metric("completed") == b"emq:{mail}:metrics:completed"


@pytest.mark.parametrize(
    ("queue", "slot"), [("orders", 105), ("fills", 4165), ("payments", 8507), ("q1", 7450)]
)
def test_all_keys_of_a_queue_share_its_slot(queue: str, slot: int) -> None:
    made = Keys(queue)
    found = [
        *(made.pending, made.active, made.schedule, made.dead, made.outcomes, made.meta),
        *(made.wake, made.events, made.lane("a"), made.metric("failed")),
        *(made.job("JOB0NgWEfAEJfs"), made.logs("JOB0NgWEfAEJfs"), made.outcome("JOB0NgWEfAEJfs")),
    ]
    assert {key_slot(key) for key in found} == {slot}


def test_the_version_key_is_of_the_global_reserve() -> None:
    assert keys.VERSION_KEY == b"{emq}:version"
    assert key_slot(keys.VERSION_KEY) == 9051


@pytest.mark.parametrize("name", ["emq", "a b", "{mail}", "", None])
def test_nothing_is_sent_for_a_bad_queue_name(client: Client, raw: redis.Redis, name: str) -> None:
    with recorded(raw) as recording:
        with pytest.raises(InvalidName):
            Queue(name, client)
        assert recording.sent() == []


@pytest.mark.parametrize("lane", ["", "a b", "{a}", "a:pending", "x" * 129])
def test_nothing_is_sent_for_a_bad_lane(queue: Queue, raw: redis.Redis, lane: str) -> None:
    with recorded(raw) as recording:
        with pytest.raises(InvalidName):
            queue.jobs.enqueue(b"x", lane=lane)
        with pytest.raises(InvalidName):
            queue.jobs.enqueue_many([b"x"], lane=lane)
        with pytest.raises(InvalidName):
            queue.jobs.browse(lane=lane)
        assert recording.sent() == []


@pytest.mark.parametrize("key", ["", "a b", "user:1", "x" * 256])
def test_nothing_is_sent_for_a_bad_unique_key(queue: Queue, raw: redis.Redis, key: str) -> None:
    with recorded(raw) as recording:
        with pytest.raises(InvalidName):
            queue.jobs.enqueue(b"x", unique=Unique(key))
        assert recording.sent() == []


def test_the_examples_of_the_module_hold() -> None:
    results = doctest.testmod(keys)
    assert (results.failed, results.attempted >= 2) == (0, True)
