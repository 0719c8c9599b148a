"""What ``docs/production/security.md`` says: rights on the server, TLS, and secrets kept."""

from __future__ import annotations

import asyncio
import logging
import os
import re
import shutil
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
import redis
from django.test import override_settings
from redis.exceptions import AuthenticationError, NoPermissionError, ResponseError

from django_echomq import conf
from django_echomq.queue import Queue, QueueOptions, Rate, Unique
from django_echomq.wire import client as wire_client
from django_echomq.wire.client import Client, Parked
from django_echomq.wire.endpoint import Endpoint
from django_echomq.wire.errors import EchoMQError, ServerUnavailable
from django_echomq.worker.promoter import tick_call
from tests.conftest import ROOT, Command, wait_until
from tests.faults.conftest import Server, make_server
from tests.ports import free_port, listens
from tests.wire.nodes import Nodes

__all__ = ["make_server"]

PAGE = (ROOT / "docs" / "production" / "security.md").read_text()
SECRET = "sesame-öffne-dich/7@x"
QUOTED = "sesame-%C3%B6ffne-dich%2F7%40x"
GUARDIAN = "another-word"
WRONG = "a-third"

(_rule,) = re.findall(r"^ACL SETUSER echomq on >PASSWORD\n((?:  .*\n)+)", PAGE, re.MULTILINE)
#: The rights of the page, without the words that take away.
RIGHTS = [word for word in _rule.split() if word[0] in "~&+"]
BARE = ["resetkeys", "resetchannels", "-@all"]


@dataclass
class Guarded:
    """A server that knows the user of the page."""

    server: Server
    known: list[str]

    def __post_init__(self) -> None:
        self.raw = redis.Redis(port=self.server.port, db=1)
        self.url = f"redis://echomq:{QUOTED}@127.0.0.1:{self.server.port}/1"
        self.raw.execute_command("ACL", "SETUSER", "echomq", "on", f">{SECRET}")

    def grant(self, *but: str) -> None:
        """Gives the user all that the page says, but for some."""
        rights = [right for right in self.known if right not in but]
        self.raw.execute_command("ACL", "SETUSER", "echomq", *BARE, *rights)
        self.raw.execute_command("ACL", "LOG", "RESET")

    def denied(self) -> set[str]:
        """What the user was kept from, also where a script went on without it."""
        log: Any = self.raw.acl_log()
        return {str(entry["object"]) for entry in log}


@pytest.fixture
def guarded(make_server: Callable[..., Server]) -> Iterator[Guarded]:
    server = make_server()
    known = []
    for right in RIGHTS:
        try:
            server.raw.execute_command("ACL", "SETUSER", "trial", right)
        except ResponseError:
            assert right == "+hpexpire", "only this one is younger than Redis 7"
        else:
            known.append(right)
    made = Guarded(server, known)
    made.grant()
    yield made
    made.raw.close()


def everything(guarded: Guarded, name: str) -> Iterator[object]:
    """All that is done to a queue, step by step."""
    client = Client(Endpoint.from_url(guarded.url), retry_for=0)
    options = QueueOptions(max_stalled=5, keep_completed_ms=60_000, keep_completed_max=3)
    queue = Queue(name, client, options)
    jobs, admin, lanes, repeat = queue.jobs, queue.admin, queue.lanes, queue.repeat

    yield client.drive(client.command("PING"))
    guarded.raw.script_flush()
    yield jobs.enqueue(b"x", lane="a")
    before = wire_client._HEAL_ROUNDS
    wire_client._HEAL_ROUNDS = 0
    try:
        yield queue.metrics.counts()
    finally:
        wire_client._HEAL_ROUNDS = before
    parked = Parked(client, 1.0)
    yield parked.wait([queue.keys.wake], 0.01)
    parked.close()
    with queue.events.subscribe() as events:
        yield queue.events.publish("hello", "JOB0NsVQMCRgHI")
        yield events.get(5)
    queue.events.disable()
    yield queue.events.is_enabled()
    queue.events.enable()

    yield admin.configure()
    yield lanes.limit("a", 5), lanes.weight("a", 2), lanes.pause("a"), lanes.resume("a")
    yield jobs.enqueue_many([b"x"] * 70)
    unique = Unique("report", ttl=60, until="ttl", on_conflict="replace")
    yield jobs.enqueue(b"x", unique=unique), jobs.enqueue(b"x", unique=unique)
    yield queue.metrics.unique_holder("report")
    yield jobs.enqueue(b"x", unique=Unique("once", until="started"))
    ids = [jobs.enqueue_at(b"x", 1, lane="b").job_id for _ in range(3)]
    yield jobs.reschedule(ids[0], 2**42), jobs.promote_now(ids[0])
    yield jobs.promote(), jobs.state(ids[0]), jobs.get(ids[0]), jobs.page(), jobs.browse()
    yield queue.keys, jobs.size("pending")
    yield lanes.reassign(ids[1], None), lanes.all(), lanes.depths()
    yield jobs.cancel(ids[1]), jobs.update_data(ids[2], b"y"), jobs.update_progress(ids[2], "1")
    yield jobs.add_log(ids[2], "one", 5), jobs.logs(ids[2]), jobs.remove(ids[2])
    yield jobs.reprocess(ids[1])

    yield admin.limit_concurrency(80), admin.limit_rate("3/s"), queue.metrics.is_maxed()
    yield jobs.claim(1), admin.limit_rate("2/s"), jobs.claim(2)
    yield admin.limit_rate(Rate(100, 60_000)), jobs.claim(2)
    guarded.raw.lset(queue.keys.base + b"rate", 0, 1)  # has left the window, the others not yet
    yield jobs.claim(1)
    claims = jobs.claim(60)
    yield claims
    yield jobs.extend_locks(claims[:2]), jobs.checkpoint(claims[0], details=b"7")
    yield jobs.complete(claims[0], b"r"), jobs.release(claims[1]), jobs.delay(claims[2], 0)
    yield jobs.retry(claims[3], 1), jobs.retry(claims[4], 0, 1, "no"), jobs.retry(claims[5], 0, 1)
    yield jobs.cancel(claims[6].job_id)
    yield queue.drive(client.run(tick_call(queue, 100, "w", "{}")))
    for claim in claims[7:14]:
        jobs.complete(claim)
    yield jobs.reprocess(claims[4].job_id), admin.reprocess_all(), admin.promote_all()
    jobs.claim(1, lease=0.001), jobs.claim(1, lease=0.001)
    time.sleep(0.01)  # until these leases have lapsed
    yield lanes.reap("a"), queue.stalled.check(), jobs.reap(), queue.stalled.is_stalled(ids[0])
    yield queue.workers.all(), queue.workers.quiet("w"), queue.run("workers/leave", "w")

    repeat.register("tick", payload=b"x", every=0.001, lane="c", priority=1)
    repeat.register("cron", payload=b"x", cron="* * * * *")
    time.sleep(0.01)  # until a tick is due
    yield repeat.fire(), repeat.pause("tick"), repeat.resume("tick"), repeat.all()
    yield repeat.cancel("tick"), queue.metrics.overview(), queue.metrics.latency()
    yield queue.metrics.totals()
    yield queue.metrics.throughput(), queue.metrics.oldest()
    # More lanes than are answered whole.
    base, many = queue.keys.base.decode(), [f"lane{n}" for n in range(300)]
    guarded.raw.sadd(base + "paused", *many)
    guarded.raw.hset(base + "glimit", mapping=dict.fromkeys(many, 1))
    yield lanes.all()
    yield admin.clean("completed", 0), admin.pause(), admin.is_paused(), admin.resume()
    yield admin.drain(), admin.pause(), admin.obliterate(force=True)
    client.close()


def test_the_user_of_the_page_may_do_all_that_there_is_to_do(guarded: Guarded) -> None:
    for _ in everything(guarded, "free"):
        pass
    assert guarded.denied() == set()


def test_each_right_of_the_page_is_needed(guarded: Guarded) -> None:
    idle = []
    for n, right in enumerate(guarded.known):
        guarded.grant(right)
        with suppress(EchoMQError, ResponseError, redis.ConnectionError, IndexError, TypeError):
            for _ in everything(guarded, f"q{n}"):
                if guarded.denied():
                    break
        if not guarded.denied():
            idle.append(right)
    assert idle == []


def test_the_rights_are_those_of_the_commands_in_the_code() -> None:
    """A command that is new in a script or a verb is to be on the page as well."""
    lua = [path.read_text() for path in (ROOT / "lua").rglob("*.lua")]
    files = (ROOT / "django_echomq").rglob("*.py")
    # What plays a stock peer is no part of what serves.
    python = [path.read_text() for path in files if "conformance" not in path.parts]
    used = set(re.findall(r"(?:call|try)\('([A-Z]+)'", "".join(lua)))
    used |= set(re.findall(r"'((?:H|S|Z)[A-Z]{3,})'", "".join(lua)))
    used |= set(re.findall(r"command\(\s*\"([A-Z]+)\"", "".join(python)))
    used -= {"CLUSTER"}  # on a cluster only
    used |= {"EVALSHA", "EVAL", "SCRIPT|LOAD", "BLPOP", "SELECT", "CLIENT|SETINFO"}
    assert used == {right[1:].upper() for right in RIGHTS if right[0] == "+"}


def test_a_right_that_lacks_is_told_as_such(guarded: Guarded) -> None:
    guarded.grant("+evalsha")
    with pytest.raises(NoPermissionError, match="evalsha"):
        Queue("mail", Client(Endpoint.from_url(guarded.url))).jobs.enqueue(b"x")


def test_the_rights_on_a_cluster(cluster: Nodes) -> None:
    rights = [*BARE, *RIGHTS]
    assert "`+cluster|slots`" in PAGE
    users = {
        node: ["ACL", "SETUSER", "echomq", "on", f">{SECRET}", *rights] for node in cluster.nodes
    }
    for node, user in users.items():
        node.ask("ACL", "LOG", "RESET")
        node.ask(*user)
    options = {"username": "echomq", "password": SECRET}
    try:
        client = Client(Endpoint.from_cluster(cluster.addresses, **options), retry_for=0.1)
        with pytest.raises(ServerUnavailable, match="no permissions to run the 'cluster\\|slots'"):
            Queue(cluster.names()[0], client).jobs.enqueue(b"x")
        for node, user in users.items():
            node.ask(*user, "+cluster|slots")
            node.ask("ACL", "LOG", "RESET")
        for name in cluster.names():
            queue = Queue(name, client)
            with queue.events.subscribe(timeout=5) as events:
                queue.jobs.enqueue(b"x")
                assert next(events).name == "enqueued"
            (claim,) = queue.jobs.claim()
            queue.jobs.complete(claim)
            queue.drive(queue.client.run(tick_call(queue, 10)))
        client.close()
        assert not any(node.ask("ACL", "LOG") for node in cluster.nodes)
    finally:
        for node in cluster.nodes:
            node.ask("ACL", "DELUSER", "echomq")


def test_the_conformance_scenarios_and_a_worker_as_that_user(
    guarded: Guarded, command: Callable[..., Command]
) -> None:
    """The suite's own plain client is the server's default user. The scenarios name their
    connection and play a stock peer, for which they need rights that nothing else does."""
    guarded.raw.execute_command("ACL", "SETUSER", "echomq", "+client|setname", "+pttl")
    env = {"ECHOMQ_TEST_URL": guarded.url, "PYTEST_XDIST_WORKER": "", "PYTEST_ADDOPTS": ""}
    worker = command("echomq_worker", "default", env=env)
    worker.until("Stop with")
    queue = Queue("default", Client(Endpoint.from_url(guarded.url)))
    job_id = queue.jobs.enqueue(b'{"task":"tests.testapp.tasks.noop"}').job_id
    wait_until(lambda: queue.jobs.state(job_id) == "completed", "the job to be done")
    suite = str(ROOT / "tests" / "conformance")
    done = subprocess.run(
        [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "no:cacheprovider",
            suite,
            "-k",
            "claim or lane or repeat",
        ],
        cwd=ROOT,
        env={**os.environ, **env},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout
    for verb in (["status"], ["jobs", "default"], ["lanes", "default"], ["workers"]):
        with_verb = command("echomq", *verb, env=env)
        assert with_verb.wait() == 0, with_verb.output()
    worker.signal(signal.SIGTERM)
    assert worker.wait() == 0, worker.output()
    assert guarded.denied() == set()


# Secrets


def test_a_password_is_in_no_error_log_or_output(
    guarded: Guarded, command: Callable[..., Command], tmp_path: Path
) -> None:
    """While the server takes it, refuses it, and is away."""
    outputs = []

    def run(url: str, *args: str, ends: bool = True) -> Command:
        new = command(*args, env={"ECHOMQ_TEST_URL": url, "PYTEST_XDIST_WORKER": ""})
        outputs.append(new)
        if ends:
            new.wait()
        return new

    wrong = guarded.url.replace("echomq:", "echomq:not-")
    health = tmp_path / "health"
    worker = run(
        guarded.url,
        *("echomq_worker", "default", "--health-file", str(health), "--verbosity", "3"),
        ends=False,
    )
    wait_until(health.exists, "the health file")
    run(guarded.url, "echomq", "status")
    run(wrong, "echomq", "ping")
    run(wrong, "echomq_worker", "default", ends=False).until("The server is away")
    guarded.server.kill()
    worker.until("The server is away")
    run(guarded.url, "echomq", "status")
    worker.signal(signal.SIGTERM)
    worker.wait()
    texts = [each.output() for each in outputs] + [health.read_text()]
    assert any("refused" in text for text in texts)  # it was away
    for text in texts:
        for secret in (SECRET, QUOTED, "sesame"):
            assert secret not in text


@pytest.mark.parametrize("what", ["wrong", "away"])
def test_a_password_is_in_no_exception(
    guarded: Guarded, caplog: pytest.LogCaptureFixture, what: str
) -> None:
    caplog.set_level(logging.DEBUG)
    url = guarded.url.replace("echomq:", "echomq:not-")
    if what == "away":
        guarded.server.kill()
    client = Client(Endpoint.from_url(url), retry_for=0)
    queue = Queue("mail", client)
    error: BaseException | None
    with pytest.raises(AuthenticationError if what == "wrong" else ServerUnavailable) as caught:
        queue.jobs.enqueue(b"x")
    seen = [caplog.text, repr(queue), repr(client), repr(client.endpoint), repr(queue.options)]
    error = caught.value
    while error is not None:
        seen.append(f"{error!r} {error}")
        error = error.__cause__ or error.__context__
    assert not any("sesame" in text for text in seen)


# TLS


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    if not shutil.which("openssl"):
        pytest.skip("the program openssl makes the certificates")
    folder = tmp_path / "tls"
    folder.mkdir()
    for name, subject in (("server", "/CN=localhost"), ("other", "/CN=other.test")):
        subprocess.run(
            [
                *("openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1"),
                *("-keyout", f"{name}.key", "-out", f"{name}.pem", "-subj", subject),
                *("-addext", f"subjectAltName=DNS:{subject[4:]}"),
            ],
            cwd=folder,
            check=True,
            capture_output=True,
        )
    return folder


@pytest.fixture
def tls_server(certificates: Path) -> Iterator[tuple[int, Path]]:
    """A server that speaks TLS only; the embedded one is built without."""
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    if program is None:
        pytest.skip("a redis-server or valkey-server with TLS")
    server = Server(certificates)
    options = (
        *("--port", "0", "--tls-port", str(server.port), "--tls-auth-clients", "no"),
        *("--tls-cert-file", "server.pem", "--tls-key-file", "server.key"),
        *("--tls-ca-cert-file", "server.pem", "--requirepass", SECRET),
    )
    server.start(*options, program=program)
    yield server.port, certificates
    server.kill()


def test_tls_with_a_password(tls_server: tuple[int, Path]) -> None:
    port, folder = tls_server
    for scheme in ("rediss", "valkeys"):
        url = f"{scheme}://:{QUOTED}@localhost:{port}/2?ssl_ca_certs={folder}/server.pem"
        client = Client(Endpoint.from_url(url))
        queue = Queue("mail", client)
        queue.jobs.enqueue(b"\0\xff")
        (claim,) = queue.jobs.claim()
        assert claim.payload == b"\0\xff"
        queue.jobs.complete(claim)
        with queue.events.subscribe() as events:
            queue.admin.pause()
            assert events.get(5)
        queue.admin.obliterate(force=True)
        client.close()


@pytest.fixture
def tls_sentinel(tls_server: tuple[int, Path]) -> Iterator[int]:
    """A sentinel that watches that server; it speaks TLS only, and has a password of its own."""
    port, folder = tls_server
    own = free_port()
    file = folder / "sentinel.conf"
    file.write_text(
        f"port 0\ntls-port {own}\nbind 127.0.0.1\nrequirepass {GUARDIAN}\n"
        "tls-replication yes\ntls-auth-clients no\ntls-ca-cert-file server.pem\n"
        "tls-cert-file server.pem\ntls-key-file server.key\n"
        "sentinel resolve-hostnames yes\nsentinel announce-hostnames yes\n"
        f"sentinel monitor main localhost {port} 1\nsentinel auth-pass main {SECRET}\n"
    )
    program = shutil.which("redis-server") or shutil.which("valkey-server")
    command = [str(program), str(file), "--sentinel"]
    process = subprocess.Popen(command, cwd=folder, stdout=subprocess.DEVNULL)
    try:
        wait_until(lambda: listens(own), "the sentinel to listen")
        yield own
    finally:
        process.kill()
        process.wait()


def test_tls_and_passwords_of_sentinels(tls_sentinel: int, certificates: Path) -> None:
    tls = {"ssl": True, "ssl_ca_certs": str(certificates / "server.pem")}
    connection = {
        "SENTINELS": [("localhost", tls_sentinel)],
        "SERVICE": "main",
        "SENTINEL_OPTIONS": {**tls, "password": GUARDIAN},
        "OPTIONS": {**tls, "password": SECRET, "db": 3},
    }
    with override_settings(ECHOMQ={"CONNECTIONS": {"default": connection}}):
        endpoint = conf.endpoint("default")
    client = Client(endpoint)
    wait_until(lambda: says_pong(client), "the sentinel to know the server")
    queue = Queue("mail", client)
    queue.jobs.enqueue(b"x")
    (claim,) = queue.jobs.claim()
    queue.jobs.complete(claim)
    assert asyncio.run(client.adrive(client.command("PING"))) == b"PONG"
    queue.admin.pause()
    queue.admin.obliterate()
    client.close()
    assert not any(secret in repr(endpoint) for secret in (GUARDIAN, SECRET))

    connection["SENTINEL_OPTIONS"] = {**tls, "password": WRONG}
    with override_settings(ECHOMQ={"CONNECTIONS": {"default": connection}}):
        stranger = Client(conf.endpoint("default"), retry_for=0)
    told = rf"No master found for 'main' : localhost:{tls_sentinel} - .*Authentication"
    with pytest.raises(ServerUnavailable, match=told) as met:
        stranger.drive(stranger.command("PING"))
    assert WRONG not in str(met.value)
    with pytest.raises(ServerUnavailable, match=told) as met:
        asyncio.run(stranger.adrive(stranger.command("PING")))
    assert WRONG not in str(met.value)


def says_pong(client: Client) -> bool:
    with suppress(ServerUnavailable):
        return bool(client.drive(client.command("PING")) == b"PONG")
    return False


@pytest.mark.parametrize(
    ("host", "authority"), [("localhost", "other.pem"), ("127.0.0.1", "server.pem")]
)
def test_a_certificate_of_another_is_refused(
    tls_server: tuple[int, Path], host: str, authority: str
) -> None:
    port, folder = tls_server
    url = f"rediss://:{QUOTED}@{host}:{port}/2?ssl_ca_certs={folder}/{authority}"
    with pytest.raises(ServerUnavailable, match=r"(?i)certificate"):
        Queue("mail", Client(Endpoint.from_url(url), retry_for=0)).jobs.enqueue(b"x")
