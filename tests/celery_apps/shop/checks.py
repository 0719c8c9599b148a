from __future__ import annotations

from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from celery.exceptions import TimeoutError
from celery.result import AsyncResult
from django.db import transaction
from django.utils import timezone
from waiting import wait_until

from shop import tasks

LONG = 120


def lines(path: Path) -> list[str]:
    return path.read_text().splitlines() if path.exists() else []


def test_a_value_comes_back(worker: None) -> None:
    result = tasks.total.delay(1, 2, 3)
    assert result.get(timeout=LONG) == 6
    assert (result.status, result.state, result.ready()) == ("SUCCESS", "SUCCESS", True)
    assert (result.successful(), result.failed(), result.result) == (True, False, 6)
    known: AsyncResult[int] = AsyncResult(result.id)
    assert known.get(timeout=LONG) == 6
    assert tasks.total.AsyncResult(result.id).result == 6
    assert tasks.price.apply_async((10,), {"discount": 3}).get(timeout=LONG) == 7
    assert tasks.price.apply_async(args=(10,), kwargs={}).get(timeout=LONG) == 10


def test_a_task_is_a_function_too() -> None:
    assert tasks.total(4, 5) == 9
    assert tasks.price.apply((10,), {"discount": 1}).get() == 9
    assert tasks.who("direct")[3] is True
    assert tasks.total.name == "shop.tasks.total"


def test_arguments_are_checked_when_sent() -> None:
    wrong: Any = tasks.price
    with pytest.raises(TypeError):
        wrong.delay()


def test_a_task_knows_its_request(worker: None) -> None:
    result = tasks.who.delay(word="there")
    assert result.get(timeout=LONG) == [result.id, [], {"word": "there"}, False]


def test_a_result_that_is_ignored(worker: None, tmp_path: Path) -> None:
    result = tasks.mail.delay(str(tmp_path / "mails"), "hello")
    wait_until(lambda: lines(tmp_path / "mails") == ["hello"])
    assert result.get(timeout=LONG) is None


def test_an_exception_ends_a_task_and_comes_back(worker: None, tmp_path: Path) -> None:
    result = tasks.refuse.delay(str(tmp_path / "tries"))
    with pytest.raises(ValueError, match=r"^out of stock$"):
        result.get(timeout=LONG)
    assert (result.state, result.failed(), result.successful()) == ("FAILURE", True, False)
    error: object = result.get(propagate=False)
    assert isinstance(error, ValueError)
    assert "out of stock" in str(result.traceback)
    assert lines(tmp_path / "tries") == ["tried"]


def test_retry(worker: None, tmp_path: Path) -> None:
    path = tmp_path / "tries"
    assert tasks.charge.delay(str(path), 2).get(timeout=LONG) == 2
    assert lines(path) == ["0", "1", "2"]
    assert tasks.poll.delay(6).get(timeout=LONG) == "shop.poll 5"
    assert tasks.once.delay().get(timeout=LONG) == "gave up"


def test_a_task_out_of_retries_fails_with_its_own_exception(worker: None, tmp_path: Path) -> None:
    path = tmp_path / "tries"
    with pytest.raises(tasks.PaymentDown, match="no answer"):
        tasks.charge.delay(str(path), 9).get(timeout=LONG)
    assert lines(path) == ["0", "1", "2"]


def test_later(worker: None) -> None:
    tomorrow = tasks.started_at.apply_async(countdown=86_400)
    due = timezone.now() + timedelta(seconds=1)
    soon = [tasks.started_at.apply_async(countdown=1), tasks.started_at.apply_async(eta=due)]
    for result in soon:
        assert result.get(timeout=LONG) >= due.timestamp() - 0.1
    assert tomorrow.state == "PENDING"
    with pytest.raises(TimeoutError):
        tomorrow.get(timeout=0.05)
    tomorrow.revoke()


@pytest.mark.django_db(transaction=True)
def test_on_commit(worker: None, tmp_path: Path) -> None:
    mail: Any = tasks.mail  # Celery's own types know the method with base=DjangoTask only
    path = tmp_path / "mails"
    with transaction.atomic():
        mail.delay_on_commit(str(path), "dropped")
        transaction.set_rollback(True)
    with transaction.atomic():
        mail.delay_on_commit(str(path), "sent")
        mail.apply_async_on_commit((str(path), "sent too"))
        tasks.total.delay().get(timeout=LONG)  # the worker would have come past it
        assert lines(path) == []
    wait_until(lambda: sorted(lines(path)) == ["sent", "sent too"])
