"""Where a server is: URLs, other clients, and what is refused about them."""

from __future__ import annotations

import asyncio
import socket
import threading
from contextlib import suppress
from dataclasses import replace

import pytest
import redis
import redis.asyncio as aioredis
from redis.sentinel import Sentinel

from django_echomq.wire.client import Client
from django_echomq.wire.endpoint import Endpoint
from django_echomq.wire.errors import ServerUnavailable, UnsafeClient
from tests.wire.monitor import recorded

SECRET = "hunter2"


@pytest.mark.parametrize(
    ("url", "label"),
    [
        ("redis://example.org", "redis://example.org"),
        ("redis://example.org:6380/3", "redis://example.org:6380/3"),
        ("valkey://example.org:6380/3", "valkey://example.org:6380/3"),
        ("rediss://example.org/1", "rediss://example.org/1"),
        ("valkeys://example.org", "valkeys://example.org"),
        ("unix:///run/valkey.sock?db=9", "unix:///run/valkey.sock"),
        (f"redis://user:{SECRET}@example.org:6380/3", "redis://example.org:6380/3"),
        (f"unix://:{SECRET}@/run/valkey.sock", "unix:///run/valkey.sock"),
        (f"redis://example.org?password={SECRET}", "redis://example.org"),
    ],
)
def test_the_label_says_where_without_secrets(url: str, label: str) -> None:
    assert Endpoint.from_url(url).label == label


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("valkey://h:6380/3", {"host": "h", "port": 6380, "db": 3}),
        ("redis://u:p%40ss@h", {"host": "h", "username": "u", "password": "p@ss"}),
        ("unix:///run/v.sock?db=9", {"path": "/run/v.sock", "db": 9}),
        ("redis://h?client_name=web", {"host": "h", "client_name": "web"}),
    ],
)
def test_a_url_gives_the_options_of_its_connections(url: str, expected: dict[str, object]) -> None:
    assert dict(Endpoint.from_url(url).options) == expected


@pytest.mark.parametrize(
    ("url", "sync_class", "async_class"),
    [
        ("redis://h", redis.Connection, aioredis.Connection),
        ("valkey://h", redis.Connection, aioredis.Connection),
        ("rediss://h", redis.SSLConnection, aioredis.SSLConnection),
        ("valkeys://h", redis.SSLConnection, aioredis.SSLConnection),
        ("unix:///x", redis.UnixDomainSocketConnection, aioredis.UnixDomainSocketConnection),
    ],
)
def test_a_scheme_chooses_the_connection(url: str, sync_class: type, async_class: type) -> None:
    found = Endpoint.from_url(url)
    assert (found.connection_class, found.async_connection_class) == (sync_class, async_class)


def test_the_url_wins_over_the_options_given_beside_it() -> None:
    found = Endpoint.from_url("redis://h/3", db=1, socket_timeout=2.0)
    assert found.options == {"host": "h", "db": 3, "socket_timeout": 2.0}


@pytest.mark.parametrize(
    "url", ["", "h", "h:6379", "http://h", "redis:", "redis://", "amqp://h", "redis:/h"]
)
def test_another_scheme_is_refused_with_the_known_ones(url: str) -> None:
    with pytest.raises(ValueError, match="starts with one of redis://, valkey://"):
        Endpoint.from_url(url)


@pytest.mark.parametrize("url", ["redis://h:port", "redis://h:99999999", "redis://h?db=nine"])
def test_a_url_that_cannot_be_read_is_refused(url: str) -> None:
    with pytest.raises(ValueError, match="the redis:// URL cannot be read"):
        Endpoint.from_url(url)


@pytest.mark.parametrize(
    "url",
    [
        pytest.param(f"http://user:{SECRET}@h", id="other-scheme"),
        pytest.param(f"redis://:{SECRET}@h:port/0", id="port-not-a-number"),
        pytest.param(f"redis://:{SECRET}@h?db=nine", id="database-not-a-number"),
        pytest.param(f"redis://:{SECRET}[@h", id="bracket-in-password"),
        pytest.param(f"{SECRET}@h:6379", id="no-scheme"),
        pytest.param(f"user:{SECRET}@h:6379", id="no-scheme-but-user"),
        pytest.param(f"redis:/user:{SECRET}@h", id="one-slash"),
        pytest.param(f"redis://:{SECRET}/x@h:6379/0", id="slash-in-password"),
        pytest.param(f"redis://user:{SECRET}#x@h", id="hash-in-password"),
        pytest.param(f"redis://:{SECRET}\u2100@h", id="character-that-urls-refuse"),
        pytest.param(f"redis://:[{SECRET}]@h", id="password-in-brackets"),
    ],
)
def test_a_refusal_of_a_url_never_repeats_the_password(url: str) -> None:
    with pytest.raises(ValueError) as caught:
        Endpoint.from_url(url)
    assert SECRET not in str(caught.value)


def test_a_label_never_shows_what_follows_a_slash_in_a_password() -> None:
    try:
        label = Endpoint.from_url("redis://:12345/rest-of-secret@h").label
    except ValueError as error:
        label = str(error)
    assert "rest-of-secret" not in label


@pytest.mark.parametrize("option", ["true", "1", "yes"])
def test_a_url_that_asks_for_decoding_is_refused(option: str) -> None:
    with pytest.raises(UnsafeClient, match="would corrupt binary payloads: drop it"):
        Endpoint.from_url(f"redis://h?decode_responses={option}")


def test_an_option_that_asks_for_decoding_is_refused() -> None:
    with pytest.raises(UnsafeClient, match="would corrupt binary payloads"):
        Endpoint.from_url("redis://h", decode_responses=True)


def test_an_embedded_server_that_asks_for_decoding_is_refused(tmp_path: object) -> None:
    with pytest.raises(UnsafeClient, match="would corrupt binary payloads"):
        Endpoint.from_embedded(str(tmp_path), decode_responses=True)


def test_a_sentinel_service_that_asks_for_decoding_is_refused() -> None:
    with pytest.raises(UnsafeClient, match="would corrupt binary payloads"):
        Endpoint.from_sentinels([("h", 26379)], "main", decode_responses=True)


def test_a_client_that_decodes_is_refused() -> None:
    with pytest.raises(UnsafeClient, match="would corrupt binary payloads"):
        Endpoint.from_client(redis.Redis(decode_responses=True))


@pytest.mark.parametrize("thing", [None, "redis://h", 7, object(), redis.ConnectionPool()])
def test_what_is_no_client_is_refused_by_its_type(thing: object) -> None:
    with pytest.raises(UnsafeClient, match=f"{type(thing).__name__} is not a redis-py client"):
        Endpoint.from_client(thing)


def test_an_asynchronous_client_is_refused() -> None:
    with pytest.raises(UnsafeClient, match="is not a redis-py client of one server"):
        Endpoint.from_client(aioredis.Redis())


def test_a_client_that_sentinel_made_is_refused_with_the_way_out() -> None:
    made = Sentinel([("h", 26379)]).master_for("main")
    with pytest.raises(UnsafeClient, match="give SENTINELS and SERVICE instead"):
        Endpoint.from_client(made)


def test_a_refusal_of_a_client_is_a_type_error() -> None:
    assert issubclass(UnsafeClient, TypeError)


def test_an_endpoint_takes_address_and_credentials_of_a_client() -> None:
    other = redis.Redis(host="h", port=6380, db=3, username="u", password=SECRET)
    found = Endpoint.from_client(other)
    options = {name: found.options[name] for name in ("host", "port", "db", "username", "password")}
    assert options == {"host": "h", "port": 6380, "db": 3, "username": "u", "password": SECRET}
    assert found.label == "h:6380"


def test_an_endpoint_takes_the_encryption_of_a_client() -> None:
    found = Endpoint.from_client(redis.Redis(host="h", ssl=True, ssl_cert_reqs="none"))
    assert found.connection_class is redis.SSLConnection
    assert found.async_connection_class is aioredis.SSLConnection
    assert found.options["ssl_cert_reqs"] == "none"


@pytest.mark.usefixtures("one_server")
def test_an_endpoint_of_a_client_has_connections_of_its_own(raw: redis.Redis) -> None:
    mine = Client(Endpoint.from_client(raw))
    assert mine.drive(mine.command("CLIENT", "ID")) != raw.client_id()
    mine.close()


def test_an_endpoint_of_a_unix_socket_client_reaches_its_server(
    endpoint: Endpoint, raw: redis.Redis
) -> None:
    if "path" not in endpoint.options:
        pytest.skip("the run's server is reached by TCP")
    found = Endpoint.from_client(raw)
    assert found.async_connection_class is aioredis.UnixDomainSocketConnection
    mine = Client(found)
    assert mine.drive(mine.command("ECHO", b"\0\xff")) == b"\0\xff"
    mine.close()


def test_no_secret_shows_in_a_representation() -> None:
    found = Endpoint.from_url(f"redis://user:{SECRET}@h:6380/3")
    assert SECRET not in repr(found)
    assert SECRET not in repr(Client(found))


def test_replaced_options_leave_the_endpoint_as_it_was() -> None:
    first = Endpoint.from_url("redis://h/3")
    second = first.with_options(db=4)
    assert (first.options["db"], second.options["db"]) == (3, 4)
    assert second.label == first.label


def test_a_lost_connection_heals_the_server_before_the_next_try() -> None:
    healed: list[bool] = []
    closed = replace(Endpoint.from_url("redis://127.0.0.1:1"), heal=lambda: healed.append(True))
    mine = Client(closed, retry_for=1)
    with pytest.raises(ConnectionError):
        mine.drive(mine.command("PING"))
    assert healed


def test_a_sound_connection_heals_nothing(endpoint: Endpoint) -> None:
    healed: list[bool] = []
    mine = Client(replace(endpoint, heal=lambda: healed.append(True)))
    mine.drive(mine.command("PING"))
    mine.close()
    assert healed == []


@pytest.mark.usefixtures("one_server")
def test_a_connection_is_fenced_before_it_carries_a_command(
    endpoint: Endpoint, raw: redis.Redis
) -> None:
    mine = Client(endpoint)
    with recorded(raw) as recording:
        mine.drive(mine.command("ECHO", "first"))
        sent = recording.sent()
    mine.close()
    assert sent[-2:] == ["GET {emq}:version", "ECHO first"]


def test_a_sentinel_that_does_not_answer_is_asked_once() -> None:
    with socket.create_server(("127.0.0.1", 0)) as mute:
        port = mute.getsockname()[1]
        asked: list[socket.socket] = []

        def hang_up() -> None:
            with suppress(OSError):
                while True:
                    asked.append(mute.accept()[0])
                    asked[-1].close()

        thread = threading.Thread(target=hang_up)
        thread.start()
        endpoint = Endpoint.from_sentinels([("127.0.0.1", port)], "main")
        client = Client(endpoint, retry_for=0)
        told = f"No master found for 'main' : 127.0.0.1:{port} - "
        with pytest.raises(ServerUnavailable, match=told):
            client.drive(client.command("PING"))
        assert len(asked) == 1
        with pytest.raises(ServerUnavailable, match=told):
            asyncio.run(client.adrive(client.command("PING")))
        assert len(asked) == 2
        mute.shutdown(socket.SHUT_RDWR)
        thread.join(10)
