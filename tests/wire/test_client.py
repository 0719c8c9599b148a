"""Round trips: bytes unchanged, scripts healed, the fence, losses, threads and forks."""

from __future__ import annotations

import asyncio
import os
import socket
import sys
import threading
import time
import warnings
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from typing import Any, TypeVar

import pytest
import redis
from redis.asyncio.connection import AbstractConnection
from redis.exceptions import ResponseError

from django_echomq.queue import Queue, QueueOptions
from django_echomq.wire.client import Call, Client, Steps
from django_echomq.wire.endpoint import WIRE_VERSION, Endpoint
from django_echomq.wire.errors import (
    EchoMQError,
    ServerUnavailable,
    StaleToken,
    VersionFence,
    WrongKind,
    refusal,
)
from django_echomq.wire.ids import parts
from django_echomq.wire.keys import VERSION_KEY
from django_echomq.wire.scripts import script
from tests.conftest import wait_until
from tests.wire.monitor import recorded
from tests.wire.proxy import Proxy

T = TypeVar("T")
MakeQueue = Callable[..., Queue]

NODES = b"{emq}:nodes"
ALL_BYTES = bytes(range(256))
PAYLOADS = [
    pytest.param(b"", id="empty"),
    pytest.param(b"\0", id="nul"),
    pytest.param(ALL_BYTES, id="every-byte"),
    pytest.param(b"\r\n$-1\r\n*3\r\n", id="protocol-text"),
    pytest.param("\u00e9\U0001f600".encode(), id="utf-8"),
    pytest.param(ALL_BYTES * 4096, id="1-mib"),
]


@pytest.fixture
def make_client() -> Iterator[Callable[..., Client]]:
    """Makes clients that are closed after the test."""
    made: list[Client] = []

    def make(endpoint: Endpoint, **options: Any) -> Client:
        made.append(Client(endpoint, **options))
        return made[-1]

    yield make
    for client in made:
        client.close()


@contextmanager
def closed_port() -> Iterator[int]:
    """A port of this host that nobody listens at."""
    with closing(socket.socket()) as holder:
        holder.bind(("127.0.0.1", 0))
        yield holder.getsockname()[1]


def on_a_loop(client: Client, steps: Steps[T]) -> T:
    """Walks steps on an event loop of their own."""

    return asyncio.run(client.adrive(steps))


def cut(raw: redis.Redis, name: str) -> int:
    """Ends the connections of that name; answers how many there were."""
    ends = [each["id"] for each in raw.client_list() if each["name"] == name]
    return sum(raw.client_kill_filter(_id=end) for end in ends)


def in_a_fork(work: Callable[[], str]) -> str:
    """Does the work in a forked child and answers its text."""
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        # Other tests may have left a thread behind; the child only does what is tested here.
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        try:
            text = work()
        except BaseException as error:
            text = f"{type(error).__name__}: {error}"
        os.write(writer, text.encode())
        os._exit(0)
    os.close(writer)
    with os.fdopen(reader, "rb") as stream:
        text = stream.read().decode()
    os.waitpid(child, 0)
    return text


# Bytes


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_payload_comes_back_unchanged(queue: Queue, payload: bytes) -> None:
    queue.jobs.enqueue(payload)
    (claim,) = queue.jobs.claim()
    assert claim.payload == payload


@pytest.mark.parametrize("result", PAYLOADS)
def test_a_result_comes_back_unchanged(queue: Queue, result: bytes) -> None:
    queue.jobs.enqueue(b"x")
    (claim,) = queue.jobs.claim()
    queue.jobs.complete(claim, result)
    assert queue.jobs.get(claim.job_id).result == result


@pytest.mark.parametrize("payload", PAYLOADS)
def test_a_payload_comes_back_unchanged_on_an_event_loop(
    queue: Queue, make_client: Callable[..., Client], payload: bytes
) -> None:
    client = make_client(queue.client.endpoint)
    mine = Queue(queue.name, client)
    (admission,) = on_a_loop(client, mine.jobs.admission([payload]))
    assert on_a_loop(client, mine.jobs.reading(admission.job_id)).payload == payload


def test_text_travels_as_utf_8(queue: Queue) -> None:
    queue.jobs.enqueue("caf\u00e9")
    (claim,) = queue.jobs.claim()
    assert claim.payload == "caf\u00e9".encode()


def test_a_queue_refuses_a_client_that_decodes() -> None:
    with pytest.raises(TypeError, match="decode_responses=True would corrupt binary payloads"):
        Queue("mail", redis.Redis(decode_responses=True))


@pytest.mark.usefixtures("one_server")
def test_a_queue_takes_a_plain_client(queue: Queue, raw: redis.Redis) -> None:
    plain = Queue(queue.name, raw)
    job_id = plain.jobs.enqueue(ALL_BYTES).job_id
    plain.client.close()
    assert queue.jobs.get(job_id).payload == ALL_BYTES


# Scripts that the server forgot


def test_a_forgotten_script_is_sent_again(queue: Queue, raw: redis.Redis) -> None:
    queue.jobs.enqueue(b"1")
    raw.script_flush()
    assert queue.jobs.enqueue(b"2").outcome == "enqueued"
    assert queue.metrics.counts("pending") == {"pending": 2}


def test_a_whole_life_goes_on_when_scripts_are_forgotten_before_each_call(
    queue: Queue, raw: redis.Redis
) -> None:
    jobs = queue.jobs
    raw.script_flush()
    job_id = jobs.enqueue(b"x").job_id
    raw.script_flush()
    (claim,) = jobs.claim()
    raw.script_flush()
    jobs.extend_lock(claim)
    raw.script_flush()
    assert jobs.retry(claim) == "scheduled"
    raw.script_flush()
    assert jobs.promote() == 1
    raw.script_flush()
    (claim,) = jobs.claim()
    raw.script_flush()
    jobs.complete(claim)
    raw.script_flush()
    assert jobs.state(job_id) == "completed"


def test_all_scripts_of_a_pipeline_may_be_forgotten(queue: Queue, raw: redis.Redis) -> None:
    job_id = queue.jobs.enqueue(b"x").job_id
    calls = [
        queue.call("jobs/state", job_id),
        queue.call("admin/pause"),
        queue.call("jobs/state", job_id),
        queue.call("metrics/is_maxed"),
    ]
    raw.script_flush()
    replies = queue.drive(queue.client.run_many(calls))
    assert replies == [b"pending", 1, b"pending", 1]


def test_only_what_was_not_run_is_sent_again(queue: Queue, raw: redis.Redis) -> None:
    calls = [queue.call("admin/pause"), queue.call("metrics/is_maxed"), queue.call("admin/pause")]
    raw.script_flush()
    raw.script_load(script("admin/pause").text)
    with recorded(raw) as recording:
        replies = queue.drive(queue.client.run_many(calls))
        sent = recording.sent()
    assert replies == [1, 1, 0]
    shas = [text.split()[1] for text in sent if text.startswith("EVALSHA")]
    pause, maxed = script("admin/pause").sha.decode(), script("metrics/is_maxed").sha.decode()
    assert shas == [pause, maxed, pause, maxed]


def test_a_forgotten_script_is_sent_again_on_an_event_loop(
    queue: Queue, raw: redis.Redis, make_client: Callable[..., Client]
) -> None:
    client = make_client(queue.client.endpoint)
    mine = Queue(queue.name, client)
    raw.script_flush()
    (admission,) = on_a_loop(client, mine.jobs.admission([b"x"]))
    assert queue.jobs.state(admission.job_id) == "pending"


# Refusals


#: How ``jobs/enqueue`` is told of a unique key, after its ttl.
HELD = ("done", "skip", 0, 0)


def test_a_refusal_of_a_script_is_raised_as_ours(queue: Queue) -> None:
    args = ("slot", 1, "now", 0, "", 0, "own", "", 0, *HELD, "ORD0NsVQMCRgHI", b"x")
    with pytest.raises(WrongKind):
        queue.run("jobs/enqueue", *args)


def test_a_refusal_in_a_pipeline_is_a_value_among_the_replies(queue: Queue) -> None:
    args = ("slot", 1, "now", 0, "", 0, "own", "", 0, *HELD, "ORD0NsVQMCRgHI", b"x")
    calls = [queue.call("jobs/enqueue", *args), queue.call("metrics/is_maxed")]
    first, second = queue.drive(queue.client.run_many(calls))
    assert isinstance(first, ResponseError)
    assert second == 1


def test_an_error_that_is_not_ours_is_raised_as_it_is(queue: Queue, raw: redis.Redis) -> None:
    raw.set(queue.keys.pending, "a foreign hand")
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        queue.metrics.counts()


@pytest.mark.parametrize(
    ("message", "name"),
    [
        ("EMQKIND only ids of JOB", "WrongKind"),
        ("EMQSTALE token", "StaleToken"),
        ("EMQSTALE job gone", "JobGone"),
        ("EMQRATE", "RateLimited"),
        ("EMQLOCK held", "JobLocked"),
        ("EMQSTATE not paused", "NotPaused"),
        ("EMQSTATE active jobs present", "ActiveJobs"),
        ("EMQSTATE not dead", "NotDead"),
        ("EMQSTATE something new", "WrongState"),
        ("EMQOLD overtaken", "Superseded"),
        ("OOM command not allowed", "WritesRefused"),
        ("MISCONF Errors writing to the AOF file", "WritesRefused"),
        ("NOREPLICAS Not enough good replicas to write.", "WritesRefused"),
    ],
)
def test_a_wire_class_has_an_exception(message: str, name: str) -> None:
    found = refusal(message)
    assert type(found).__name__ == name
    assert isinstance(found, EchoMQError)


@pytest.mark.parametrize("message", ["", "ERR x", "EMQNEW x", "emqstale x", "WRONGTYPE x"])
def test_a_class_that_is_not_ours_has_none(message: str) -> None:
    assert refusal(message) is None


def test_an_exception_knows_its_wire_class() -> None:
    assert (StaleToken.wire_class, EchoMQError.wire_class) == ("EMQSTALE", None)


# The version fence


def test_an_absent_version_is_claimed(
    elsewhere: Endpoint, raw_elsewhere: redis.Redis, make_client: Callable[..., Client]
) -> None:
    client = make_client(elsewhere)
    client.drive(client.command("PING"))
    assert raw_elsewhere.get(VERSION_KEY) == WIRE_VERSION == b"echomq:3.0.0"


def test_an_absent_version_is_claimed_on_an_event_loop(
    elsewhere: Endpoint, raw_elsewhere: redis.Redis, make_client: Callable[..., Client]
) -> None:
    client = make_client(elsewhere)
    on_a_loop(client, client.command("PING"))
    assert raw_elsewhere.get(VERSION_KEY) == WIRE_VERSION


@pytest.mark.parametrize(
    "version", [b"echomq:2.4.2", b"echomq:3.0.1", b"echomq:3.0.0 ", b"ECHOMQ:3.0.0", b"", b"\xff"]
)
def test_any_other_version_is_refused(
    elsewhere: Endpoint,
    raw_elsewhere: redis.Redis,
    make_client: Callable[..., Client],
    version: bytes,
) -> None:
    raw_elsewhere.set(VERSION_KEY, version)
    client = make_client(elsewhere)
    with pytest.raises(VersionFence) as caught:
        client.drive(client.command("PING"))
    assert repr(version) in str(caught.value)
    assert raw_elsewhere.get(VERSION_KEY) == version


def test_a_fenced_off_client_sends_nothing_but_the_question(
    elsewhere: Endpoint,
    raw: redis.Redis,
    raw_elsewhere: redis.Redis,
    make_client: Callable[..., Client],
) -> None:
    raw_elsewhere.set(VERSION_KEY, "echomq:9.9.9")
    queue = Queue("fenced", make_client(elsewhere))
    with recorded(raw) as recording:
        with pytest.raises(VersionFence):
            queue.jobs.enqueue(b"x")
        with pytest.raises(VersionFence):
            queue.jobs.claim()
        sent = recording.sent()
    greeting = ("HELLO", "SELECT", "CLIENT", "AUTH")
    assert [text for text in sent if not text.startswith(greeting)] == ["GET {emq}:version"] * 2
    assert raw_elsewhere.keys("*") == [VERSION_KEY]


def test_a_fenced_off_client_sends_nothing_on_an_event_loop(
    elsewhere: Endpoint,
    raw: redis.Redis,
    raw_elsewhere: redis.Redis,
    make_client: Callable[..., Client],
) -> None:
    raw_elsewhere.set(VERSION_KEY, "echomq:9.9.9")
    client = make_client(elsewhere)
    queue = Queue("fenced", client)
    with recorded(raw) as recording:
        with pytest.raises(VersionFence):
            on_a_loop(client, queue.jobs.admission([b"x"]))
        sent = recording.sent()
    greeting = ("HELLO", "SELECT", "CLIENT", "AUTH")
    assert [text for text in sent if not text.startswith(greeting)] == ["GET {emq}:version"]
    assert raw_elsewhere.keys("*") == [VERSION_KEY]


def test_a_fenced_off_client_tries_again_when_asked_again(
    elsewhere: Endpoint, raw_elsewhere: redis.Redis, make_client: Callable[..., Client]
) -> None:
    raw_elsewhere.set(VERSION_KEY, "echomq:9.9.9")
    client = make_client(elsewhere)
    with pytest.raises(VersionFence):
        client.drive(client.command("PING"))
    raw_elsewhere.set(VERSION_KEY, WIRE_VERSION)
    assert client.drive(client.command("PING")) == b"PONG"


def test_the_version_is_checked_at_each_reconnect(
    elsewhere: Endpoint, raw_elsewhere: redis.Redis, make_client: Callable[..., Client]
) -> None:
    client = make_client(elsewhere.with_options(client_name="fenced-later"))
    queue = Queue("fenced", client)
    queue.jobs.enqueue(b"x")
    raw_elsewhere.set(VERSION_KEY, "echomq:4.0.0")
    before = raw_elsewhere.dbsize()
    assert cut(raw_elsewhere, "fenced-later") == 1
    with pytest.raises(VersionFence, match=r"echomq:4\.0\.0"):
        queue.jobs.enqueue(b"y")
    assert raw_elsewhere.dbsize() == before


def test_the_version_is_checked_at_each_reconnect_on_an_event_loop(
    elsewhere: Endpoint, raw_elsewhere: redis.Redis, make_client: Callable[..., Client]
) -> None:
    client = make_client(elsewhere.with_options(client_name="fenced-later"))

    def steps() -> Steps[None]:
        yield from client.command("PING")
        raw_elsewhere.set(VERSION_KEY, "echomq:4.0.0")
        assert cut(raw_elsewhere, "fenced-later") == 1
        yield from client.command("PING")

    with pytest.raises(VersionFence, match=r"echomq:4\.0\.0"):
        on_a_loop(client, steps())


def test_a_changed_version_does_not_end_a_connection_that_stands(
    elsewhere: Endpoint, raw_elsewhere: redis.Redis, make_client: Callable[..., Client]
) -> None:
    client = make_client(elsewhere)
    client.drive(client.command("PING"))
    raw_elsewhere.set(VERSION_KEY, "echomq:4.0.0")
    assert client.drive(client.command("PING")) == b"PONG"


def test_a_version_key_of_another_type_is_refused_and_kept(
    elsewhere: Endpoint, raw_elsewhere: redis.Redis, make_client: Callable[..., Client]
) -> None:
    raw_elsewhere.rpush(VERSION_KEY, "a foreign hand")
    client = make_client(elsewhere)
    with pytest.raises(ResponseError, match="WRONGTYPE"):
        client.drive(client.command("PING"))
    assert raw_elsewhere.lrange(VERSION_KEY, 0, -1) == [b"a foreign hand"]


# Lost connections


def test_a_cut_connection_is_replaced_unnoticed(
    queue: Queue, raw: redis.Redis, make_client: Callable[..., Client]
) -> None:
    client = make_client(queue.client.endpoint.with_options(client_name="to-be-cut"))
    mine = Queue(queue.name, client)
    mine.jobs.enqueue(b"1")
    assert cut(raw, "to-be-cut") == 1
    assert mine.jobs.enqueue(b"2").outcome == "enqueued"
    assert queue.metrics.counts("pending") == {"pending": 2}


def test_an_unreachable_server_is_named_without_its_password(
    make_client: Callable[..., Client],
) -> None:
    with closed_port() as port:
        there = Endpoint.from_url(f"redis://user:hunter2@127.0.0.1:{port}/3")
        client = make_client(there, retry_for=0.02)
        with pytest.raises(ServerUnavailable) as caught:
            client.drive(client.command("PING"))
    assert f"redis://127.0.0.1:{port}/3" in str(caught.value)
    assert "hunter2" not in str(caught.value)
    assert isinstance(caught.value, ConnectionError)


def test_an_unreachable_server_is_named_on_an_event_loop(
    make_client: Callable[..., Client],
) -> None:
    with closed_port() as port:
        there = Endpoint.from_url(f"redis://user:hunter2@127.0.0.1:{port}/3")
        client = make_client(there, retry_for=0.02)
        with pytest.raises(ServerUnavailable, match=f"redis://127.0.0.1:{port}/3"):
            on_a_loop(client, client.command("PING"))


def test_a_server_that_does_not_answer_is_unavailable(
    make_client: Callable[..., Client],
) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        silent = Endpoint.from_url(f"redis://127.0.0.1:{port}", socket_timeout=0.02)
        client = make_client(silent, retry_for=0.0)
        with pytest.raises(ServerUnavailable):
            client.drive(client.command("PING"))


def test_without_retry_time_a_lost_connection_is_tried_once(
    proxy: Proxy, make_client: Callable[..., Client]
) -> None:
    proxy.refuse(1_000)
    client = make_client(proxy.endpoint, retry_for=0.0)
    with pytest.raises(ServerUnavailable):
        client.drive(client.command("PING"))
    assert proxy.accepted == 1


def test_a_lost_connection_is_tried_again_within_the_retry_time(
    proxy: Proxy, make_client: Callable[..., Client]
) -> None:
    proxy.refuse(3)
    client = make_client(proxy.endpoint, retry_for=30.0)
    assert client.drive(client.command("PING")) == b"PONG"
    assert proxy.accepted == 4


def test_a_lost_connection_is_tried_again_on_an_event_loop(
    proxy: Proxy, make_client: Callable[..., Client]
) -> None:
    proxy.refuse(3)
    client = make_client(proxy.endpoint, retry_for=30.0)
    assert on_a_loop(client, client.command("PING")) == b"PONG"
    assert proxy.accepted == 4


def test_the_retry_time_bounds_the_tries(proxy: Proxy, make_client: Callable[..., Client]) -> None:
    proxy.refuse(1_000)
    client = make_client(proxy.endpoint, retry_for=2)
    with pytest.raises(ServerUnavailable):
        client.drive(client.command("PING"))
    assert 2 <= proxy.accepted <= 10


def test_what_is_to_be_done_meanwhile_is_done_before_the_reply(
    queue: Queue, raw: redis.Redis, make_client: Callable[..., Client]
) -> None:
    client = make_client(queue.client.endpoint)
    steps = client.command("BLPOP", queue.keys.wake, 30)
    popped = client.drive(steps, meanwhile=lambda: raw.rpush(queue.keys.wake, "now"))
    assert popped == [queue.keys.wake, b"now"]


def test_what_is_to_be_done_meanwhile_is_done_where_there_is_no_server(
    make_client: Callable[..., Client],
) -> None:
    done: list[bool] = []
    with closed_port() as port:
        client = make_client(Endpoint.from_url(f"redis://127.0.0.1:{port}"), retry_for=1)
        with pytest.raises(ServerUnavailable):
            client.drive(client.command("PING"), meanwhile=lambda: done.append(True))
    assert done


def test_a_wrong_login_is_not_tried_again(proxy: Proxy, make_client: Callable[..., Client]) -> None:
    there = proxy.endpoint.with_options(username="nobody", password="hunter2")
    client = make_client(there, retry_for=30.0)
    with pytest.raises(redis.AuthenticationError) as caught:
        client.drive(client.command("PING"))
    assert "hunter2" not in str(caught.value)
    assert proxy.accepted == 1


def test_after_an_error_of_a_script_the_connection_is_used_again(
    queue: Queue, make_client: Callable[..., Client]
) -> None:
    client = make_client(queue.client.endpoint)
    before = client.drive(client.command("CLIENT", "ID"))
    with pytest.raises(ResponseError):
        client.drive(client.command("NO SUCH COMMAND"))
    assert client.drive(client.command("CLIENT", "ID")) == before


def test_an_argument_that_cannot_be_sent_does_no_harm(queue: Queue) -> None:
    with pytest.raises(UnicodeEncodeError):
        queue.drive(queue.client.command("ECHO", "\ud800"))
    assert queue.drive(queue.client.command("ECHO", "x")) == b"x"


# Threads and forks


def in_threads(count: int, work: Callable[[int], object]) -> None:
    start = threading.Barrier(count)
    failures: list[BaseException] = []

    def one(number: int) -> None:
        start.wait()
        try:
            work(number)
        except BaseException as error:
            failures.append(error)

    threads = [threading.Thread(target=one, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []


def test_threads_share_a_client(queue: Queue) -> None:
    admitted: list[str] = []
    in_threads(
        8,
        lambda number: admitted.extend(
            queue.jobs.enqueue(b"%d %d" % (number, i)).job_id for i in range(40)
        ),
    )
    claims = queue.jobs.claim(500)
    assert sorted(claim.job_id for claim in claims) == sorted(admitted)
    expected = {b"%d %d" % (number, i) for number in range(8) for i in range(40)}
    assert {claim.payload for claim in claims} == expected


def test_threads_never_claim_the_same_job(queue: Queue) -> None:
    admitted = {a.job_id for a in queue.jobs.enqueue_many([b"x"] * 200)}
    claimed: list[str] = []

    def work(number: int) -> None:
        while claims := queue.jobs.claim(3):
            claimed.extend(claim.job_id for claim in claims)
            for claim in claims:
                queue.jobs.complete(claim)

    in_threads(6, work)
    assert sorted(claimed) == sorted(admitted)


def test_slots_of_threads_have_names_of_their_own(endpoint: Endpoint) -> None:
    client = Client(endpoint)
    names: list[bytes] = []

    def trace(*_: object) -> Callable[..., Any]:
        # A debugger or a coverage tool lets threads take turns between any two lines.
        time.sleep(0)
        return trace

    def work(number: int) -> None:
        sys.settrace(trace)
        try:
            names.extend(client.take_slot().name for _ in range(50))
        finally:
            sys.settrace(None)

    in_threads(8, work)
    assert len(set(names)) == len(names) == 400


def test_a_forked_child_has_connections_and_an_identity_of_its_own(
    endpoint: Endpoint, make_client: Callable[..., Client]
) -> None:
    client = make_client(endpoint)
    mine = f"{client.drive(client.command('CLIENT', 'ID'))} {client._identity}".split()
    slot = client.take_slot()

    def work() -> str:
        assert client.take_slot().name != slot.name
        return f"{client.drive(client.command('CLIENT', 'ID'))} {client._identity}"

    theirs = in_a_fork(work).split()
    assert len(theirs) == 2
    assert (theirs[0] != mine[0], theirs[1] != mine[1]) == (True, True)
    assert str(client.drive(client.command("CLIENT", "ID"))) == mine[0]


def test_a_slot_taken_before_a_fork_is_not_given_back_after_it(endpoint: Endpoint) -> None:
    client = Client(endpoint)
    slot = client.take_slot()

    def work() -> str:
        client.give_slot(slot)
        return str(client.take_slot() is slot)

    assert in_a_fork(work) == "False"


def test_a_forked_child_mints_under_another_node(queue: Queue) -> None:
    mine = parts(queue.jobs.enqueue(b"parent").job_id).node
    theirs = in_a_fork(lambda: queue.jobs.enqueue(b"child").job_id)
    assert parts(theirs).node != mine
    assert parts(queue.jobs.enqueue(b"parent again").job_id).node == mine
    assert queue.metrics.counts("pending") == {"pending": 3}


# Node numbers


def node_of(client: Client) -> int:
    (minted,) = client.drive(client.mint(1))
    return parts(minted).node


def leases(raw: redis.Redis) -> dict[int, tuple[str, int]]:
    """Node number -> owner and end of the lease."""
    found = {}
    for node, value in raw.hgetall(NODES).items():
        owner, ends = value.decode().split()
        found[int(node)] = (owner, int(ends))
    return found


def test_two_clients_mint_under_different_nodes(
    elsewhere: Endpoint, raw_elsewhere: redis.Redis, make_client: Callable[..., Client]
) -> None:
    clients = [make_client(elsewhere) for _ in range(20)]
    nodes = {node_of(client) for client in clients}
    assert len(nodes) == 20
    assert set(leases(raw_elsewhere)) == nodes


def test_a_client_keeps_its_node(
    elsewhere: Endpoint, raw: redis.Redis, make_client: Callable[..., Client]
) -> None:
    client = make_client(elsewhere)
    node = node_of(client)
    with recorded(raw) as recording:
        assert [node_of(client) for _ in range(5)] == [node] * 5
        assert recording.sent() == []


def test_a_number_that_another_holds_is_not_leased(
    elsewhere: Endpoint, raw_elsewhere: redis.Redis
) -> None:
    far = 4_000_000_000_000
    raw_elsewhere.hset(NODES, mapping=dict.fromkeys(range(5, 1024), f"other {far}"))
    args = ["mine", 60_000, 900]
    call = Call(script("wire/node"), NODES, args)
    client = Client(elsewhere)
    assert client.drive(client.run(call)) == 0
    assert raw_elsewhere.hlen(NODES) == 1020
    client.close()


def test_an_ended_lease_is_taken_over(elsewhere: Endpoint, raw_elsewhere: redis.Redis) -> None:
    raw_elsewhere.hset(NODES, mapping={"7": "other 1", "8": "other 4000000000000"})
    client = Client(elsewhere)
    call = Call(script("wire/node"), NODES, ("mine", 60_000, 7))
    assert client.drive(client.run(call)) == 7
    assert leases(raw_elsewhere)[7][0] == "mine"
    client.close()


@pytest.mark.parametrize("garbage", [b"", b"x", b"other", b"other 12x", b"\xff\xfe 1", b"o t 9"])
def test_garbage_among_the_leases_is_cleared(
    elsewhere: Endpoint, raw_elsewhere: redis.Redis, garbage: bytes
) -> None:
    raw_elsewhere.hset(NODES, "7", garbage)
    client = Client(elsewhere)
    call = Call(script("wire/node"), NODES, ("mine", 60_000, 7))
    assert client.drive(client.run(call)) == 7
    client.close()


def test_the_leases_end_by_themselves(
    elsewhere: Endpoint, raw_elsewhere: redis.Redis, make_client: Callable[..., Client]
) -> None:
    node_of(make_client(elsewhere))
    assert raw_elsewhere.pttl(NODES) > 0


def test_a_lease_is_renewed_once_half_of_it_is_over(
    elsewhere: Endpoint, raw_elsewhere: redis.Redis, make_client: Callable[..., Client]
) -> None:
    client = make_client(elsewhere)
    node = node_of(client)
    owner, ends = leases(raw_elsewhere)[node]
    raw_elsewhere.hset(NODES, node, f"{owner} {ends - 300_000}")
    assert client._node is not None
    deadline = client._node[1]
    client._node = (node, time.monotonic() - 0.001)
    assert node_of(client) == node
    assert leases(raw_elsewhere) == {node: (owner, leases(raw_elsewhere)[node][1])}
    assert leases(raw_elsewhere)[node][1] >= ends
    assert client._node[1] >= deadline


def test_a_lease_that_another_took_meanwhile_is_not_taken_back(
    elsewhere: Endpoint, raw_elsewhere: redis.Redis, make_client: Callable[..., Client]
) -> None:
    client = make_client(elsewhere)
    node = node_of(client)
    raw_elsewhere.hset(NODES, node, "other 4000000000000")
    client._node = (node, 0.0)
    assert node_of(client) != node
    assert leases(raw_elsewhere)[node][0] == "other"


def test_a_client_mints_although_all_numbers_are_leased(
    elsewhere: Endpoint, raw_elsewhere: redis.Redis, make_client: Callable[..., Client]
) -> None:
    taken = dict.fromkeys(range(1024), "other 4000000000000")
    raw_elsewhere.hset(NODES, mapping=taken)
    queue = Queue("full", make_client(elsewhere))
    admissions = queue.jobs.enqueue_many([b"x"] * 10)
    assert len({admission.job_id for admission in admissions}) == 10
    assert queue.metrics.counts("pending") == {"pending": 10}
    assert all(owner == "other" for owner, _ in leases(raw_elsewhere).values())


# The client as a whole


def test_the_connections_of_an_event_loop_end_with_it(
    endpoint: Endpoint, raw: redis.Redis, make_client: Callable[..., Client]
) -> None:
    client = make_client(endpoint.with_options(client_name="of-a-loop"))
    on_a_loop(client, client.command("PING"))
    wait_until(lambda: cut(raw, "of-a-loop") == 0, "the connection to end")
    assert on_a_loop(client, client.command("PING")) == b"PONG"


def test_steps_of_one_event_loop_run_beside_each_other(
    queue: Queue, make_client: Callable[..., Client]
) -> None:
    client = make_client(queue.client.endpoint)
    jobs = Queue(queue.name, client).jobs

    async def many() -> list[Any]:
        return await asyncio.gather(
            *(client.adrive(jobs.admission([b"%d" % i])) for i in range(50))
        )

    admitted = {admission.job_id for (admission,) in asyncio.run(many())}
    claims = queue.jobs.claim(100)
    assert {claim.job_id for claim in claims} == admitted
    assert {claim.payload for claim in claims} == {b"%d" % i for i in range(50)}


@pytest.mark.usefixtures("one_server")
def test_a_cancelled_step_leaves_no_reply_behind(
    endpoint: Endpoint, raw: redis.Redis, make_client: Callable[..., Client]
) -> None:
    options = {"client_name": "to-be-cancelled", "socket_timeout": 60}
    client = make_client(endpoint.with_options(**options))

    def blocked() -> bool:
        mine = (each for each in raw.client_list() if each["name"] == "to-be-cancelled")
        return any("b" in each["flags"] for each in mine)

    async def cancelled() -> Any:
        waiting = asyncio.ensure_future(client.adrive(client.command("BLPOP", "nothing", 30)))
        await asyncio.to_thread(wait_until, blocked, "the step to wait")
        waiting.cancel()
        with pytest.raises(asyncio.CancelledError):
            await waiting
        return await client.adrive(client.command("ECHO", "mine"))

    assert asyncio.run(cancelled()) == b"mine"


def test_a_cancellation_that_was_lost_while_sending_is_met_all_the_same(
    endpoint: Endpoint, make_client: Callable[..., Client], monkeypatch: pytest.MonkeyPatch
) -> None:
    send = AbstractConnection.send_packed_command

    async def losing(self: AbstractConnection, *args: Any, **options: Any) -> None:
        await send(self, *args, **options)
        task = asyncio.current_task()
        assert task
        task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.sleep(0)

    client = make_client(endpoint)

    async def asks() -> None:
        await client.adrive(client.command("PING"))
        monkeypatch.setattr(AbstractConnection, "send_packed_command", losing)
        await client.adrive(client.command("PING"))

    with pytest.raises(asyncio.CancelledError):
        asyncio.run(asks())


def test_closing_ends_the_connections_and_the_client_goes_on(
    endpoint: Endpoint, raw: redis.Redis, make_client: Callable[..., Client]
) -> None:
    client = make_client(endpoint.with_options(client_name="closed-soon"))
    client.drive(client.command("PING"))
    client.close()
    wait_until(lambda: cut(raw, "closed-soon") == 0, "the connection to end")
    assert client.drive(client.command("PING")) == b"PONG"


@pytest.mark.usefixtures("one_server")
def test_one_connection_serves_calls_that_follow_each_other(
    endpoint: Endpoint, raw: redis.Redis, make_client: Callable[..., Client]
) -> None:
    client = make_client(endpoint.with_options(client_name="one-at-a-time"))
    queue = Queue("connections", client, QueueOptions())
    for _ in range(10):
        queue.metrics.counts()
    assert sum(each["name"] == "one-at-a-time" for each in raw.client_list()) == 1
