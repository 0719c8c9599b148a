"""Property tests that do not look at the clock, and servers that lose replies or die."""

from __future__ import annotations

import socket
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from django_echomq.queue import Queue
from django_echomq.wire.client import Client
from django_echomq.wire.embedded import _find_binary
from django_echomq.wire.endpoint import Endpoint
from tests.conftest import wait_until
from tests.wire.proxy import Proxy


@pytest.fixture
def disposable(tmp_path: Path) -> Iterator[Endpoint]:
    """A server to be killed: a script that does not end would take the run's own with it."""
    path = tmp_path / "v.sock"
    process = subprocess.Popen(
        [_find_binary(), "--port", "0", "--unixsocket", str(path), "--save", ""],
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
    )
    listening = socket.socket(socket.AF_UNIX)
    with listening:
        wait_until(lambda: listening.connect_ex(str(path)) == 0, "the server to listen")
    yield Endpoint.from_url(f"unix://{path}", socket_timeout=10.0)
    process.kill()
    process.wait()


@pytest.fixture
def proxy(one_server: Endpoint) -> Iterator[Proxy]:
    """A server that loses replies when told to."""
    made = Proxy(one_server)
    yield made
    made.close()


@pytest.fixture
def lossy(queue: Queue, proxy: Proxy) -> Iterator[Queue]:
    """The queue of the test by way of the proxy."""
    made = Queue(queue.name, Client(proxy.endpoint, retry_for=30.0), queue.options)
    made.drive(made.client.mint(1))
    yield made
    made.client.close()
