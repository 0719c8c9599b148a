from __future__ import annotations

from pathlib import Path

import pytest
from celery import chain, signature
from celery.exceptions import SoftTimeLimitExceeded
from waiting import wait_until

from reports import tasks

LONG = 30


def test_a_chain_hands_results_on(worker: None) -> None:
    steps = chain(tasks.collect.s(1, 2), tasks.summed.s(plus=10))
    result = steps.apply_async()
    assert result.get(timeout=LONG) == 13
    assert result.parent is not None
    assert (tasks.collect.s(1, 2) | tasks.summed.s()).delay().get(timeout=LONG) == 3
    assert chain(tasks.collect.s(2), tasks.summed.s()).delay(1).get(timeout=LONG) == 3


def test_a_step_that_takes_nothing(worker: None, tmp_path: Path) -> None:
    path = str(tmp_path / "notes")
    steps = chain(tasks.noted.si(path, "one"), tasks.noted.si(path, "two"))
    assert steps.delay().get(timeout=LONG) == "two"
    assert Path(path).read_text() == "one\ntwo\n"


def test_a_chain_ends_where_a_step_fails(worker: None, tmp_path: Path) -> None:
    path = tmp_path / "notes"
    steps = chain(
        tasks.collect.s(1, 2), tasks.summed.s(), tasks.broken.s(), tasks.noted.si(str(path), "x")
    )
    with pytest.raises(ArithmeticError, match="not 3"):
        steps.delay().get(timeout=LONG)
    assert not path.exists()


def test_signatures(worker: None) -> None:
    call = signature("reports.tasks.collect", args=(1, 2))
    assert call.delay().get(timeout=LONG) == [1, 2]
    partial = tasks.collect.s(2)
    assert partial.delay(1).get(timeout=LONG) == [1, 2]
    assert partial.clone(args=(0,)).apply_async(countdown=0).get(timeout=LONG) == [0, 2]
    assert (
        tasks.summed.signature(([1],), {"plus": 1}).set(priority=1).delay().get(timeout=LONG) == 2
    )
    assert partial(5) == [5, 2]


def test_progress_is_seen(worker: None, tmp_path: Path) -> None:
    gate = tmp_path / "gate"
    result = tasks.slow.delay(str(gate))
    wait_until(lambda: str(result.state) == "PROGRESS")
    assert result.info == {"done": 3, "of": 4}
    gate.touch()
    assert result.get(timeout=LONG) == "done"
    assert result.state == "SUCCESS"


def test_the_soft_limit_reaches_a_task_that_sleeps(worker: None) -> None:
    assert tasks.bounded.delay(True).get(timeout=LONG) == "tidied up"
    result = tasks.bounded.delay(False)
    with pytest.raises(SoftTimeLimitExceeded):
        result.get(timeout=LONG)
    assert result.state == "FAILURE"


def test_the_limit_ends_a_task(worker: None) -> None:
    result = tasks.killed.delay()
    error: object = result.get(timeout=LONG, propagate=False)
    assert type(error).__name__ == "TimeLimitExceeded"
    assert result.state == "FAILURE"
