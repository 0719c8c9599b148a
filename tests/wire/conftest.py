"""A logical database beside the run's own, and a server that loses replies."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
import redis

from django_echomq.wire.endpoint import Endpoint
from tests.wire.proxy import Proxy

ELSEWHERE = 9


@pytest.fixture
def elsewhere(one_server: Endpoint, raw_elsewhere: redis.Redis) -> Endpoint:
    """An empty database of the run's server, without a version fence."""
    return one_server.with_options(db=ELSEWHERE)


@pytest.fixture
def raw_elsewhere(one_server: Endpoint, raw: redis.Redis) -> Iterator[redis.Redis]:
    """A plain client of that database."""
    options = {**raw.connection_pool.connection_kwargs, "db": ELSEWHERE}
    pool = redis.ConnectionPool(connection_class=raw.connection_pool.connection_class, **options)
    plain = redis.Redis(connection_pool=pool)
    plain.flushdb()
    yield plain
    plain.flushdb()
    pool.disconnect()


@pytest.fixture
def proxy(one_server: Endpoint) -> Iterator[Proxy]:
    """The run's server by way of a proxy that loses replies on request."""
    made = Proxy(one_server)
    yield made
    made.close()
