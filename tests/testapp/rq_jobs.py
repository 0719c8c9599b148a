"""Jobs written for RQ."""

from __future__ import annotations

from django_echomq.contrib.rq import Retry, job


@job
def add(x: int, y: int) -> int:
    return x + y


@job("mail")
def mail(to: str) -> str:
    return f"mail to {to}"


@job("default")
def broken() -> None:
    raise OSError("no paper")


@job("default", retry=Retry(max=2, interval=[30, 60]))
def tried_again() -> None:
    raise OSError("no paper")


@job("default", timeout="5m")
def bounded() -> None: ...
