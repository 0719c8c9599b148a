"""The pytest plugin; an installed django-echomq brings it along.

Nothing here imports Django before a fixture is used: projects without it have the plugin too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from .queue import Queue


@pytest.fixture(scope="session")
def echomq_server() -> Iterator[None]:
    """Puts every connection of the settings on a server of the session's own; with pytest-xdist
    each of its processes has one."""
    from .testing import isolated_server

    with isolated_server():
        yield


@pytest.fixture
def echomq(echomq_server: None) -> Callable[[str], Queue]:
    """Empty queues on the tests' own server; answers a queue of the settings by its name."""
    from .queues import get_queue
    from .testing import clean_queues

    clean_queues()
    return get_queue
