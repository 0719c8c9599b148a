from __future__ import annotations

from pathlib import Path

import pytest
from waiting import wait_until

from feeds import tasks

LONG = 120


def times(path: Path) -> list[float]:
    return [float(line) for line in path.read_text().splitlines()]


def test_some_exceptions_are_tried_again(worker: None, tmp_path: Path) -> None:
    assert tasks.fetch.delay(str(tmp_path / "one"), 2).get(timeout=LONG) == 3
    with pytest.raises(ConnectionResetError, match="the feed is away"):
        tasks.fetch.delay(str(tmp_path / "two"), 9).get(timeout=LONG)
    assert len(times(tmp_path / "two")) == 3


def test_backoff(worker: None, tmp_path: Path) -> None:
    path = tmp_path / "tries"
    with pytest.raises(OSError, match="away"):
        tasks.backed_off.delay(str(path), False).get(timeout=LONG)
    first, second = times(path)
    assert second - first > 0.9


def test_some_exceptions_are_not_tried_again(worker: None, tmp_path: Path) -> None:
    path = tmp_path / "tries"
    with pytest.raises(FileNotFoundError):
        tasks.backed_off.delay(str(path), True).get(timeout=LONG)
    assert len(times(path)) == 1


def test_queues(worker: None) -> None:
    assert tasks.routed.delay().get(timeout=LONG) == "mail"
    assert tasks.routed.apply_async(queue="feeds").get(timeout=LONG) == "feeds"
    assert tasks.routed.apply_async(queue="feeds", priority=9).get(timeout=LONG) == "feeds"


def test_a_call_that_comes_too_late_is_not_run(worker: None, tmp_path: Path) -> None:
    path = tmp_path / "touched"
    result = tasks.touch.apply_async((str(path),), countdown=1, expires=0.2)
    wait_until(lambda: str(result.state) == "REVOKED")
    assert not path.exists()


def test_a_call_that_is_revoked_is_not_run(worker: None, tmp_path: Path) -> None:
    path = tmp_path / "touched"
    result = tasks.touch.apply_async((str(path),), countdown=3)
    result.revoke()
    wait_until(lambda: str(result.state) == "REVOKED")
    assert not path.exists()


def test_a_result_is_forgotten(worker: None, tmp_path: Path) -> None:
    result = tasks.touch.delay(str(tmp_path / "touched"))
    assert result.get(timeout=LONG) == 1
    result.forget()
    wait_until(lambda: str(result.state) == "PENDING")
