"""Branded ids: the codec, what it refuses, and the mint."""

from __future__ import annotations

import doctest
import itertools
import re
import threading
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_echomq.wire import ids
from django_echomq.wire.errors import EchoMQError, InvalidId, WrongKind
from django_echomq.wire.ids import Mint, check, check_job, decode, encode, min_for, minted_at, parts

MAX = 2**63 - 1
NOW = ids.EPOCH_MS + 80_000_000_000

numbers = st.integers(0, MAX)
namespaces = st.text("ABCDEFGHIJKLMNOPQRSTUVWXYZ", min_size=3, max_size=3)

VECTORS = [
    ("USR0KHTOWnGLuC", 274557032793636864),
    ("USR0NgWEfAEJfs", 320636799581945856),
    ("ORD0NsVQMCRgHI", 323254023463399424),
    ("ORD0Nt6z93U3dY", 323386299169927168),
    ("EVT000xY9Wvvcd", 209715201620567),
    ("JOB00000000000", 0),
    ("JOB0000000000z", 61),
    ("JOB00000000010", 62),
    ("JOBAzL8n0Y58m7", MAX),
    ("JOB0003VLrOWLi", 12345678901234),
    # A text of old pairs this one with 12345678901234; that text is wrong.
    ("JOB0K48QjihpC4", 271644782957166592),
]

INVALID = [
    pytest.param("", id="empty"),
    pytest.param("JOB", id="namespace-only"),
    pytest.param("JOB0NsVQMCRgH", id="13-characters"),
    pytest.param("JOB0NsVQMCRgHI0", id="15-characters"),
    pytest.param("job0NsVQMCRgHI", id="lower-case-namespace"),
    pytest.param("JoB0NsVQMCRgHI", id="mixed-case-namespace"),
    pytest.param("J0B0NsVQMCRgHI", id="digit-in-namespace"),
    pytest.param("\u00c4OB0NsVQMCRgHI", id="umlaut-in-namespace"),
    pytest.param("\uff2aOB0NsVQMCRgHI", id="full-width-namespace"),
    pytest.param("JOBzzzzzzzzzzz", id="above-63-bits"),
    pytest.param("JOBAzL8n0Y58m8", id="one-above-63-bits"),
    pytest.param("JOB0NsVQMCRgH-", id="dash"),
    pytest.param("JOB0NsVQMCRgH ", id="trailing-space"),
    pytest.param(" JOB0NsVQMCRgH", id="leading-space"),
    pytest.param("JOB0NsVQMCRgH\n", id="trailing-newline"),
    pytest.param("JOB0NsVQMCRgHI\n", id="newline-after"),
    pytest.param("JOB0NsVQMCRgH\0", id="nul"),
    pytest.param("JOB0NsVQMCRgH\u0661", id="arabic-digit"),
    pytest.param("JOB0NsVQMCRgH\u00e9", id="accent"),
    pytest.param("JOB0NsVQMCRgH\ud800", id="lone-surrogate"),
    pytest.param("JOB0NsVQMCR\U0001f600I", id="emoji"),
    pytest.param("x" * 100_000, id="huge"),
    pytest.param(b"JOB0NsVQMCRgHI", id="bytes"),
    pytest.param(None, id="none"),
    pytest.param(323254023463399424, id="int"),
    pytest.param(["JOB0NsVQMCRgHI"], id="list"),
    pytest.param(tuple("JOB0NsVQMCRgHI"), id="tuple-of-characters"),
]


@pytest.mark.parametrize(("branded", "number"), VECTORS)
def test_a_vector_encodes(branded: str, number: int) -> None:
    assert encode(branded[:3], number) == branded


@pytest.mark.parametrize(("branded", "number"), VECTORS)
def test_a_vector_decodes(branded: str, number: int) -> None:
    assert decode(branded) == (branded[:3], number)


@pytest.mark.parametrize(
    ("branded", "expected"),
    [
        ("USR0KHTOWnGLuC", ("USR", 1769526697641, 0, 0)),
        ("USR0NgWEfAEJfs", ("USR", 1780512970164, 0, 0)),
        ("ORD0NsVQMCRgHI", ("ORD", 1781136964963, 7, 0)),
        ("ORD0Nt6z93U3dY", ("ORD", 1781168501949, 7, 0)),
        ("JOB00000000000", ("JOB", 1704067200000, 0, 0)),
    ],
)
def test_a_vector_tells_its_time_node_and_sequence(
    branded: str, expected: tuple[str, int, int, int]
) -> None:
    assert parts(branded) == expected


def test_the_low_22_bits_of_a_vector_are_its_node_and_sequence() -> None:
    found = parts("EVT000xY9Wvvcd")
    assert (found.unix_ms, found.node << 12 | found.sequence) == (1704117200000, 1620567)


@given(namespaces, numbers)
def test_decoding_undoes_encoding(namespace: str, number: int) -> None:
    assert decode(encode(namespace, number)) == (namespace, number)


@given(namespaces, numbers)
def test_an_encoded_id_is_fourteen_ascii_bytes(namespace: str, number: int) -> None:
    assert re.fullmatch(rb"[A-Z]{3}[0-9A-Za-z]{11}", encode(namespace, number).encode("ascii"))


@given(st.lists(numbers, min_size=2, max_size=30))
def test_byte_order_is_number_order(some: list[int]) -> None:
    in_byte_order = sorted(encode("JOB", number).encode() for number in some)
    assert [decode(branded.decode())[1] for branded in in_byte_order] == sorted(some)


@given(numbers.filter(lambda number: number < MAX))
def test_the_next_number_is_the_next_id(number: int) -> None:
    assert encode("JOB", number).encode() < encode("JOB", number + 1).encode()


@pytest.mark.parametrize("bad", INVALID)
def test_an_invalid_id_is_refused_by_check(bad: object) -> None:
    with pytest.raises(InvalidId):
        check(bad)


@pytest.mark.parametrize("bad", INVALID)
def test_an_invalid_id_does_not_decode(bad: str) -> None:
    with pytest.raises(InvalidId):
        decode(bad)


@pytest.mark.parametrize("bad", INVALID)
def test_an_invalid_id_is_invalid_before_it_is_of_the_wrong_kind(bad: object) -> None:
    with pytest.raises(InvalidId):
        check_job(bad)


@given(st.text(max_size=20) | st.text("JOB0AzL8nY57m\n", min_size=14, max_size=14))
def test_check_takes_exactly_the_ids_of_the_format(text: str) -> None:
    valid = bool(re.fullmatch(r"[A-Z]{3}[0-9A-Za-z]{11}", text, re.ASCII))
    if valid and text[3:] <= "AzL8n0Y58m7":
        assert check(text) is text
    else:
        with pytest.raises(InvalidId):
            check(text)


def test_a_refusal_names_the_text_and_the_format() -> None:
    with pytest.raises(InvalidId, match="'job-1' is not a branded id: three capital letters"):
        check("job-1")


def test_a_refusal_is_a_value_error_and_ours() -> None:
    assert issubclass(InvalidId, ValueError)
    assert issubclass(InvalidId, EchoMQError)


@pytest.mark.parametrize("branded", ["ORD0NsVQMCRgHI", "USR0KHTOWnGLuC", "EVT000xY9Wvvcd"])
def test_a_valid_id_of_another_namespace_is_of_the_wrong_kind(branded: str) -> None:
    assert check(branded) == branded
    with pytest.raises(WrongKind, match=branded[:3]):
        check_job(branded)


@pytest.mark.parametrize("number", [-1, MAX + 1, 2**64, -(2**70)])
def test_a_number_outside_63_bits_is_refused(number: int) -> None:
    with pytest.raises(InvalidId, match="63 bits"):
        encode("JOB", number)


@pytest.mark.parametrize("namespace", ["", "JO", "JOBS", "job", "J0B", "\u00c4BC", "JO\n"])
def test_another_namespace_than_three_capital_letters_is_refused(namespace: str) -> None:
    with pytest.raises(InvalidId, match="three capital letters"):
        encode(namespace, 1)


def test_the_mint_time_is_an_aware_utc_datetime() -> None:
    minted = minted_at("USR0KHTOWnGLuC")
    assert minted == datetime(2026, 1, 27, 15, 11, 37, 641000, tzinfo=UTC)
    assert minted.tzinfo is UTC


@given(st.integers(0, 2**41 - 1), st.integers(0, 1023), st.integers(0, 4095))
def test_the_smallest_id_of_a_time_is_a_lower_bound_of_its_ids(
    ms: int, node: int, sequence: int
) -> None:
    branded = encode("JOB", ms << 22 | node << 12 | sequence)
    assert min_for(ms + ids.EPOCH_MS) <= branded
    assert parts(min_for(ms + ids.EPOCH_MS)).unix_ms == ms + ids.EPOCH_MS


def test_the_smallest_id_of_a_time_is_above_every_id_of_the_ms_before() -> None:
    last_before = encode("JOB", ((NOW - 1 - ids.EPOCH_MS) << 22) | (1 << 22) - 1)
    assert last_before < min_for(NOW)


def test_the_smallest_id_of_a_time_before_the_epoch_is_zero() -> None:
    assert min_for(0, "EVT") == "EVT00000000000"


def test_a_minted_id_carries_clock_node_and_namespace() -> None:
    assert parts(Mint(lambda: NOW).mint(513, "EVT")) == ("EVT", NOW, 513, 0)


def test_ids_of_one_millisecond_count_up() -> None:
    mint = Mint(lambda: NOW)
    assert [parts(mint.mint(7)).sequence for _ in range(5)] == [0, 1, 2, 3, 4]


def test_more_than_4096_ids_of_one_millisecond_borrow_from_the_next() -> None:
    mint = Mint(lambda: NOW)
    minted = [mint.mint(1023) for _ in range(10_000)]
    assert minted == sorted(set(minted))
    assert [(p.unix_ms, p.node, p.sequence) for p in map(parts, minted)] == [
        (NOW + i // 4096, 1023, i % 4096) for i in range(10_000)
    ]


def test_the_clock_catches_up_with_borrowed_time() -> None:
    times = iter([NOW] * 5_000 + [NOW + 50])
    mint = Mint(lambda: next(times))
    for _ in range(5_000):
        mint.mint(0)
    assert parts(mint.mint(0)) == ("JOB", NOW + 50, 0, 0)


def test_a_clock_that_steps_back_takes_no_id_back() -> None:
    times = iter([NOW, NOW + 5, NOW - 3_600_000, NOW - 1, 0, NOW + 6])
    mint = Mint(lambda: next(times))
    minted = [mint.mint(3) for _ in range(6)]
    assert minted == sorted(set(minted))
    assert parts(minted[4]).unix_ms == NOW + 5


@given(st.lists(st.integers(0, 2_000), min_size=1, max_size=60))
def test_minted_ids_ascend_under_any_clock(steps: list[int]) -> None:
    times = iter(NOW + step for step in steps)
    mint = Mint(lambda: next(times))
    minted = [mint.mint(1) for _ in steps]
    assert all(earlier < later for earlier, later in itertools.pairwise(minted))


def test_threads_mint_ids_that_ascend_and_never_repeat() -> None:
    mint = Mint()
    start = threading.Barrier(8)
    minted: list[list[str]] = [[] for _ in range(8)]

    def work(mine: list[str]) -> None:
        start.wait()
        mine.extend(mint.mint(1) for _ in range(20_000))

    threads = [threading.Thread(target=work, args=(mine,)) for mine in minted]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(mine == sorted(mine) for mine in minted)
    assert len(set().union(*minted)) == 160_000


def test_the_examples_of_the_module_hold() -> None:
    assert doctest.testmod(ids).failed == 0
    assert doctest.testmod(ids).attempted >= 2
