"""Records that nobody would see are not made."""

from __future__ import annotations

import logging
from collections.abc import Iterator

import pytest
from django.utils.log import RequireDebugFalse, RequireDebugTrue

from django_echomq.logs import spare_unseen


@pytest.fixture
def logger() -> Iterator[logging.Logger]:
    made = logging.getLogger("tests.spared")
    made.propagate = False
    made.setLevel(logging.INFO)
    yield made
    made.handlers.clear()
    made.setLevel(logging.NOTSET)


def handler(level: int, *filters: logging.Filter) -> logging.Handler:
    made = logging.StreamHandler()
    made.setLevel(level)
    for each in filters:
        made.addFilter(each)
    return made


@pytest.mark.parametrize(
    ("handlers", "spared"),
    [
        ([], True),  # only the last resort, which shows warnings
        ([handler(logging.INFO, RequireDebugTrue())], True),
        ([handler(logging.ERROR)], True),
        ([handler(logging.INFO)], False),
        ([handler(logging.INFO, RequireDebugFalse())], False),
        ([handler(logging.ERROR), handler(logging.INFO)], False),
    ],
)
def test_a_level_that_no_handler_shows_is_spared(
    logger: logging.Logger, handlers: list[logging.Handler], spared: bool
) -> None:
    logger.handlers[:] = handlers
    assert spare_unseen(logger.name) is spared
    assert logger.isEnabledFor(logging.INFO) is not spared
    assert logger.isEnabledFor(logging.WARNING)


def test_with_debug_on_records_are_seen(logger: logging.Logger, settings: object) -> None:
    settings.DEBUG = True  # type: ignore[attr-defined]
    logger.handlers[:] = [handler(logging.INFO, RequireDebugTrue())]
    assert spare_unseen(logger.name) is False
