"""Retry curves: pure functions from the attempt that failed to the delay before the next."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable


@runtime_checkable
class Backoff(Protocol):
    """A curve."""

    def delay_ms(self, attempt: int) -> int:
        """Milliseconds to wait after ``attempt`` (from 1) failed."""
        ...


def _whole(value: object, name: str) -> int:
    if isinstance(value, bool) or not isinstance(value, int) or value < 0:
        raise ValueError(f"{name} must be a whole number of milliseconds, 0 or more, not {value!r}")
    return value


def _check_attempt(attempt: int) -> None:
    if attempt < 1:
        raise ValueError(f"attempts count from 1, not {attempt!r}")


class _Curve:
    def jittered(self) -> Jitter:
        """The same curve, each delay drawn uniformly between 0 and what the curve says."""
        return Jitter(self)  # type: ignore[arg-type]


@dataclass(frozen=True, slots=True)
class Fixed(_Curve):
    """The same delay each time.

    >>> Fixed(500).delay_ms(7)
    500
    """

    ms: int

    def __post_init__(self) -> None:
        _whole(self.ms, "ms")

    def delay_ms(self, attempt: int) -> int:
        _check_attempt(attempt)
        return self.ms


@dataclass(frozen=True, slots=True)
class Exponential(_Curve):
    """``base_ms * 2 ** (attempt - 1)``, at most ``cap_ms``.

    >>> [Exponential(base_ms=100, cap_ms=500).delay_ms(n) for n in (1, 2, 3, 4, 10_000)]
    [100, 200, 400, 500, 500]
    """

    base_ms: int = 1_000
    cap_ms: int = 600_000

    def __post_init__(self) -> None:
        _whole(self.base_ms, "base_ms")
        _whole(self.cap_ms, "cap_ms")

    def delay_ms(self, attempt: int) -> int:
        _check_attempt(attempt)
        # Past this many doublings the cap holds for any base of at least 1.
        doublings = min(attempt - 1, self.cap_ms.bit_length())
        return min(self.base_ms << doublings, self.cap_ms)


@dataclass(frozen=True, slots=True)
class Delays(_Curve):
    """One delay per attempt; the last one holds from there on.

    >>> [Delays((10, 60)).delay_ms(n) for n in (1, 2, 3)]
    [10, 60, 60]
    """

    ms: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.ms:
            raise ValueError("a list of delays needs at least one")
        for delay in self.ms:
            _whole(delay, "each delay")

    def delay_ms(self, attempt: int) -> int:
        _check_attempt(attempt)
        return self.ms[min(attempt, len(self.ms)) - 1]


@dataclass(frozen=True, slots=True)
class Jitter:
    """Full jitter: uniform over 0 to the inner curve's delay, both ends included."""

    inner: Backoff

    def delay_ms(self, attempt: int) -> int:
        return random.randint(0, self.inner.delay_ms(attempt))


_TYPES: dict[str, type[Any]] = {"fixed": Fixed, "exponential": Exponential}


def backoff_from(value: object) -> Backoff:
    """A curve from what settings and calls hold.

    Args:
        value: a curve; a list of delays in ms; or a mapping such as
            ``{"TYPE": "exponential", "BASE_MS": 1000, "CAP_MS": 60000, "JITTER": True}`` or
            ``{"TYPE": "fixed", "MS": 500}``. Keys may be in lower case.

    Raises:
        ValueError: if it is none of these.
    """
    if isinstance(value, Backoff):
        return value
    if isinstance(value, Sequence) and not isinstance(value, (str, bytes)):
        return Delays(tuple(value))
    if not isinstance(value, Mapping):
        raise ValueError(
            f"{value!r} is not a backoff: use Fixed, Exponential, Jitter, a list of delays in ms, "
            'or a mapping with "TYPE"'
        )
    options = {str(name).lower(): option for name, option in value.items()}
    kind = str(options.pop("type", "")).lower()
    jitter = options.pop("jitter", False)
    if kind == "delays":
        delays = options.pop("ms", ())
        if not isinstance(delays, Sequence) or isinstance(delays, (str, bytes)):
            raise ValueError(f"the MS of a backoff of type 'delays' is a list, not {delays!r}")
        curve: Any = Delays(tuple(delays))
    elif kind in _TYPES:
        try:
            curve = _TYPES[kind](**options)
        except TypeError:
            known = ", ".join(name.upper() for name in _TYPES[kind].__slots__)
            raise ValueError(f"a backoff of type {kind!r} takes {known} and JITTER") from None
        options = {}
    else:
        raise ValueError(f'a backoff\'s "TYPE" is fixed, exponential or delays, not {kind!r}')
    if options:
        raise ValueError(f"a backoff of type {kind!r} does not take {sorted(options)}")
    return Jitter(curve) if jitter else curve


def backoff_to(curve: Backoff) -> dict[str, Any]:
    """The mapping that :func:`backoff_from` reads back; for curves given per call.

    Raises:
        ValueError: for a curve of the caller's own making, which cannot travel.
    """
    if isinstance(curve, Jitter):
        return {**backoff_to(curve.inner), "jitter": True}
    if isinstance(curve, Fixed):
        return {"type": "fixed", "ms": curve.ms}
    if isinstance(curve, Exponential):
        return {"type": "exponential", "base_ms": curve.base_ms, "cap_ms": curve.cap_ms}
    if isinstance(curve, Delays):
        return {"type": "delays", "ms": list(curve.ms)}
    raise ValueError(
        f"{curve!r} cannot be given per call, since it cannot be sent: put it on the task or queue"
    )
