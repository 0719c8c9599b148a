"""Retry curves: exact integers for every attempt, and what settings may say."""

from __future__ import annotations

import doctest
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from django_echomq.queue import backoff
from django_echomq.queue.backoff import (
    Backoff,
    Delays,
    Exponential,
    Fixed,
    Jitter,
    backoff_from,
    backoff_to,
)

delays = st.integers(0, 10**12)
attempts = st.integers(1, 10_000)
plain_curves = st.one_of(
    st.builds(Fixed, delays),
    st.builds(Exponential, delays, delays),
    st.builds(Delays, st.lists(delays, min_size=1, max_size=8).map(tuple)),
)
curves = plain_curves | st.builds(Jitter, plain_curves)


@given(curves, attempts)
def test_every_delay_is_a_whole_number_of_ms(curve: Backoff, attempt: int) -> None:
    delay = curve.delay_ms(attempt)
    assert type(delay) is int
    assert delay >= 0


@given(delays, attempts)
def test_a_fixed_delay_is_the_same_each_time(ms: int, attempt: int) -> None:
    assert Fixed(ms).delay_ms(attempt) == ms


@given(delays, delays, attempts)
def test_an_exponential_delay_doubles_up_to_its_cap(base: int, cap: int, attempt: int) -> None:
    assert Exponential(base, cap).delay_ms(attempt) == min(base * 2 ** (attempt - 1), cap)


@given(delays, delays, st.integers(1, 200))
def test_an_exponential_delay_never_falls(base: int, cap: int, attempt: int) -> None:
    curve = Exponential(base, cap)
    assert curve.delay_ms(attempt) <= curve.delay_ms(attempt + 1)


@pytest.mark.parametrize(
    ("attempt", "ms"), [(1, 1_000), (2, 2_000), (10, 512_000), (11, 600_000), (10_000, 600_000)]
)
def test_the_exponential_default_is_one_second_to_ten_minutes(attempt: int, ms: int) -> None:
    assert Exponential().delay_ms(attempt) == ms


@given(st.lists(delays, min_size=1, max_size=20).map(tuple), attempts)
def test_the_last_of_a_list_of_delays_holds_on(ms: tuple[int, ...], attempt: int) -> None:
    assert Delays(ms).delay_ms(attempt) == (ms[attempt - 1] if attempt <= len(ms) else ms[-1])


@given(plain_curves, attempts)
def test_jitter_stays_between_zero_and_its_curve(curve: Any, attempt: int) -> None:
    assert 0 <= curve.jittered().delay_ms(attempt) <= curve.delay_ms(attempt)


def test_jitter_reaches_both_ends() -> None:
    drawn = {Fixed(3).jittered().delay_ms(1) for _ in range(1_000)}
    assert drawn == {0, 1, 2, 3}


@pytest.mark.parametrize("attempt", [0, -1, -(10**9)])
@pytest.mark.parametrize("curve", [Fixed(1), Exponential(), Delays((1,)), Fixed(1).jittered()])
def test_an_attempt_before_the_first_is_refused(curve: Backoff, attempt: int) -> None:
    with pytest.raises(ValueError, match="attempts count from 1"):
        curve.delay_ms(attempt)


@pytest.mark.parametrize("ms", [-1, 1.5, float("nan"), float("inf"), "5", None, True, b"5", [1]])
def test_a_delay_is_a_whole_number(ms: Any) -> None:
    for make in (lambda: Fixed(ms), lambda: Exponential(ms), lambda: Exponential(1, ms)):
        with pytest.raises(ValueError, match="must be a whole number of milliseconds, 0 or more"):
            make()
    with pytest.raises(ValueError, match="each delay must be a whole number of milliseconds"):
        Delays((1, ms))


def test_a_list_of_delays_is_not_empty() -> None:
    with pytest.raises(ValueError, match="needs at least one"):
        Delays(())


@given(curves)
def test_every_curve_is_a_backoff(curve: Backoff) -> None:
    assert isinstance(curve, Backoff)
    assert backoff_from(curve) is curve


@given(curves)
def test_a_curve_that_travelled_is_the_same(curve: Backoff) -> None:
    assert backoff_from(backoff_to(curve)) == curve


@pytest.mark.parametrize(
    ("value", "curve"),
    [
        ({"TYPE": "fixed", "MS": 500}, Fixed(500)),
        ({"type": "fixed", "ms": 500}, Fixed(500)),
        ({"TYPE": "FIXED", "MS": 0}, Fixed(0)),
        ({"TYPE": "exponential"}, Exponential()),
        ({"TYPE": "exponential", "BASE_MS": 10, "CAP_MS": 90}, Exponential(10, 90)),
        ({"TYPE": "exponential", "JITTER": True}, Jitter(Exponential())),
        ({"TYPE": "fixed", "MS": 5, "JITTER": False}, Fixed(5)),
        ({"TYPE": "delays", "MS": [1, 2]}, Delays((1, 2))),
        ([10, 60, 600], Delays((10, 60, 600))),
        ((10,), Delays((10,))),
    ],
)
def test_settings_make_a_curve(value: Any, curve: Backoff) -> None:
    assert backoff_from(value) == curve


@pytest.mark.parametrize(
    ("value", "sentence"),
    [
        (None, "is not a backoff: use Fixed, Exponential, Jitter, a list of delays"),
        (500, "is not a backoff"),
        ("exponential", "is not a backoff"),
        (b"fixed", "is not a backoff"),
        ({1, 2}, "is not a backoff"),
        ({}, "\"TYPE\" is fixed, exponential or delays, not ''"),
        ({"TYPE": "linear"}, "\"TYPE\" is fixed, exponential or delays, not 'linear'"),
        ({"TYPE": None}, "is fixed, exponential or delays"),
        ({"TYPE": "fixed"}, "of type 'fixed' takes MS and JITTER"),
        ({"TYPE": "fixed", "MS": 1, "CAP_MS": 2}, "of type 'fixed' takes MS and JITTER"),
        ({"TYPE": "exponential", "MS": 1}, "takes BASE_MS, CAP_MS and JITTER"),
        ({"TYPE": "exponential", "BASE": 1}, "takes BASE_MS, CAP_MS and JITTER"),
        ({"TYPE": "delays", "MS": [1], "CAP_MS": 2}, "does not take ['cap_ms']"),
        ({"TYPE": "delays"}, "needs at least one"),
        ({"TYPE": "fixed", "MS": -1}, "must be a whole number"),
        ({"TYPE": "fixed", "MS": "5"}, "must be a whole number"),
        ([], "needs at least one"),
        ([1, -1], "each delay must be a whole number"),
        ([1, None], "each delay must be a whole number"),
    ],
)
def test_what_is_no_curve_is_refused_with_a_sentence(value: Any, sentence: str) -> None:
    with pytest.raises(ValueError) as caught:
        backoff_from(value)
    assert sentence in str(caught.value)


@pytest.mark.parametrize("ms", [5, None, True])
def test_delays_that_are_no_list_are_refused(ms: Any) -> None:
    with pytest.raises(ValueError):
        backoff_from({"TYPE": "delays", "MS": ms})


def test_a_curve_of_ones_own_making_is_used_as_it_is() -> None:
    class Mine:
        def delay_ms(self, attempt: int) -> int:
            return attempt

    mine = Mine()
    assert backoff_from(mine) is mine


def test_a_curve_of_ones_own_making_does_not_travel() -> None:
    class Mine:
        def delay_ms(self, attempt: int) -> int:
            return attempt

    with pytest.raises(ValueError, match="cannot be given per call"):
        backoff_to(Mine())


def test_the_examples_of_the_module_hold() -> None:
    results = doctest.testmod(backoff)
    assert (results.failed, results.attempted >= 3) == (0, True)
