"""What foreign hands wrote into Valkey crashes no page, runs nowhere and gives no secret away."""

from __future__ import annotations

import json
from collections.abc import Callable
from html.parser import HTMLParser
from typing import Any

import pytest
import redis
from django.test import Client as Browser

from django_echomq.console import jobs as job_pages
from django_echomq.queue import Queue
from django_echomq.wire.ids import encode
from tests.console.conftest import PAYLOAD, World, beat, url

pytestmark = pytest.mark.django_db

SCRIPT = "<script>alert('EVIL')</script>"
EVIL = [
    SCRIPT,
    "\"><img src=x onerror=EVIL()> ' onmouseover='EVIL() ` onfocus=EVIL() autofocus=\"",
    "javascript:EVIL()",
    "</textarea></pre></title></style><script>EVIL()</script>",
    "{{ settings.SECRET_KEY }}{% debug %}",
    "\x00\x01\x07\x1b[31m\x7f\x85",
    "\u202eEVIL\u2066\u200f\ufeff",
    "\U000e0041\U0001f469\u200d\U0001f4bb",
    "E" * 1_000_000,
    " \n\t" * 1_000,
]
ALL = "".join(text for text in EVIL if len(text) < 10_000)
FIELDS = [
    *("state", "last_error", "worker", "group", "unique", "progress", "schedule", "priority"),
    *("attempts", "attempts_base", "stalled", "started_at", "finished_at", "result", "cancel"),
]
NUMBERS = ["attempts", "attempts_base", "started_at", "finished_at", "stalled", "priority"]
FORM = ["lane", "schedule", "worker", "number", "when", "args", "kwargs", "state", "q", "age"]
SECRET = "hunter2-is-the-secret"
BIG = 3_000_000  # bytes of a page at most


def nested(depth: int, leaf: str = "1") -> bytes:
    return b"[" * depth + leaf.encode() + b"]" * depth


def call(*args: Any, task: str = "tests.testapp.tasks.echo", **kwargs: Any) -> bytes:
    return json.dumps({"task": task, "args": args, "kwargs": kwargs}).encode()


PAYLOADS: dict[str, bytes] = {
    "empty": b"",
    "binary": bytes(range(256)) * 10,
    "broken": b'{"task": "a", "args": [',
    "truncated UTF-8": b'{"task": "a\xe2\x82"}',
    "no object": b"[1, 2, 3]",
    "a number": b"1e999999",
    "many digits": b'{"task": "a", "args": [' + b"9" * 10_000 + b"]}",
    "no numbers": b'{"task": "a", "args": [NaN, Infinity, -Infinity]}',
    "wrong types": b'{"task": 5, "args": {}, "kwargs": [], "options": 1}',
    "args no list": b'{"task": "a", "args": "x", "kwargs": 1}',
    "evil": call(*[ALL], task=ALL[:180], **{ALL: ALL}),
    "evil name": call(task=SCRIPT),
    "evil options": b'{"task":"a","options":{"timeout":"<script>E</script>","backoff":{"x":[[]]}}}',
    "surrogates": b'{"task":"a\\ud800","args":["\\udfff"],"kwargs":{"\\ud800":"\\ud83d\\ude00"}}',
    "NUL": b'{"task": "a\\u0000b", "args": ["\\u0000"]}',
    "megabyte": call("E" * 1_000_000),
    "megabyte in pieces": call(*["E"] * 200_000),
    "megabyte in keys": call(**{f"k{n}": n for n in range(60_000)}),
    "nested": b'{"task": "a", "args": ' + nested(400) + b"}",
    "nested too deeply": b'{"task": "a", "args": ' + nested(500_000) + b"}",
    "wide and deep": b'{"task": "a", "args": ' + nested(300, ",".join(["1"] * 300_000)) + b"}",
    "nested, no call": nested(500_000),
}


class Page(HTMLParser):
    """Notes whatever could run."""

    def __init__(self, text: str) -> None:
        super().__init__(convert_charrefs=True)
        self.faults: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if len(given) != len(attrs):
            self.faults.append(f"{tag} has an attribute twice: {attrs}")
        if tag == "script" and not (given.get("src") or "").startswith("/static/"):
            self.faults.append(f"script {attrs}")
        if tag in ("iframe", "object", "embed", "base"):
            self.faults.append(tag)
        for name, value in attrs:
            if name.startswith("on") or name in ("autofocus", "srcdoc"):
                self.faults.append(f"{tag} {name}")
            scheme = (value or "").strip().lower()
            if name in ("href", "src", "action", "formaction") and not scheme.startswith(
                ("/", "?", "#")
            ):
                self.faults.append(f"{tag} {name}={value!r:.80}")


def check(browser: Browser, path: str, *statuses: int) -> str:
    """Opens a page and looks through it."""
    answer = browser.get(path)
    assert answer.status_code in (statuses or (200,)), (path, answer.status_code)
    assert len(answer.content) < BIG, (path, len(answer.content))
    text = answer.content.decode()
    if answer["Content-Type"].startswith("text/html"):
        assert Page(text).faults == [], path
        for control in "\x00\x01\x07\x1b\x7f\x85\u202e\u2066\u200f":
            assert control not in text, (path, repr(control))
    return text


def everything(world: World, *job_ids: str, searches: bool = False) -> list[str]:
    """Every page with something of Valkey's on it."""
    name, more = world.name, ("", "&q=evil", "&age=5m", "&order=oldest") if searches else ("",)
    return [
        *(url(page) for page in ("changelist", "status", "schedules", "workers", "activity")),
        *(url(page, name=name) for page in ("queue", "failures", "lanes")),
        url("queue", name=name) + "?span=month",
        *(
            url("jobs", name=name) + f"?state={state}{filters}"
            for state in ("pending", "active", "scheduled", "dead", "completed")
            for filters in more
        ),
        *(url("job", name=name, job_id=job_id) for job_id in job_ids),
    ]


def write(raw: redis.Redis, queue: Queue, place: str, job_id: str, **fields: bytes | str) -> None:
    """A row by a foreign hand."""
    base = queue.keys.base
    suffix = b":outcome" if place == "outcomes" else b""
    score = 4_102_444_800_000 if place in ("schedule", "outcomes", "active") else 0
    raw.zadd(base + place.encode(), {job_id: score})
    row: dict[str, bytes | str] = {"attempts": "1", "payload": PAYLOAD, **fields}
    raw.hset(base + b"job:" + job_id.encode() + suffix, mapping=row)  # type: ignore[arg-type]


def fresh(n: int) -> str:
    return encode("JOB", (10_000_000 + n) << 22)


@pytest.mark.parametrize("kind", PAYLOADS)
def test_payloads(kind: str, world: World, root: Browser, raw: redis.Redis) -> None:
    ids = []
    for n, place in enumerate(("pending", "active", "schedule", "dead", "outcomes")):
        ids.append(fresh(n))
        state = {"outcomes": "completed", "schedule": "scheduled"}.get(place, place)
        result = {"result": PAYLOADS[kind]} if place == "outcomes" else {}
        write(raw, world.queue, place, ids[-1], payload=PAYLOADS[kind], state=state, **result)
    for path in everything(world, *ids):
        check(root, path)


@pytest.mark.parametrize("text", EVIL, ids=range(len(EVIL)))
def test_texts(text: str, world: World, root: Browser, raw: redis.Redis) -> None:
    """Every text of a row, of an attempt, of a log, of a worker, of a schedule and of a lane."""
    queue, base, ids = world.queue, world.queue.keys.base, []
    history = [
        {"attempt": text, "exception": text, "traceback": text, "worker": text},
        {"attempt": 1, "started_at": text, "finished_at": 1e300, "traceback": [text]},
        {text[:1000]: text},
    ]
    for n, place in enumerate(("pending", "active", "schedule", "dead", "outcomes")):
        ids.append(fresh(n))
        fields = dict.fromkeys(
            [
                "state",
                "last_error",
                "worker",
                "group",
                "unique",
                "progress",
                "schedule",
                "priority",
                "attempts",
                "stalled",
                "attempts_base",
                "started_at",
                "finished_at",
                "result",
                "cancel",
            ],
            text,
        )
        lines = "\n".join(json.dumps(entry) for entry in history)
        write(raw, queue, place, ids[-1], history=lines, **fields)
        raw.rpush(base + b"job:" + ids[-1].encode() + b":logs", *[text] * 3)
    cut = text[:5_000]
    beat(queue, "w2", host=text, state=text, version=text, queues=[text])
    for name in ("ring", "paused"):
        lane = f"{name}{cut}"
        (raw.rpush if name == "ring" else raw.sadd)(base + name.encode(), lane)
    raw.hset(base + b"glimit", f"glimit{cut}", text)
    raw.hset(base + b"gweight", f"glimit{cut}", text)
    raw.hset(base + b"gactive", f"glimit{cut}", text)
    raw.hset(base + b"meta", mapping={"concurrency": text, "max": text, "period": text})
    raw.hset(base + b"metrics:completed", "count", text)
    record = {"template": text, "cron": "0 0 * * *", "source": text, "last_job": text, "fired": "1"}
    raw.hset(base + b"repeat:evil", mapping={**record, "last_at": "1", "paused": text})
    raw.sadd(base + b"schedules", "evil", cut)
    raw.hset(base + b"repeat:" + cut.encode("utf-8", "replace"), mapping=record)
    for path in everything(world, *ids, searches=True):
        check(root, path)
    check(root, url("lanes", name=world.name) + "?q=ring")


def test_numbers(world: World, root: Browser, raw: redis.Redis) -> None:
    queue, base, ids = world.queue, world.queue.keys.base, []
    numbers = ["-1", "0", "nan", "inf", "1e999", "9" * 400, "9" * 4_299, "9" * 5_000, "0x10", "1.5"]
    numbers += ["253402300799999", "-62135596800000", "-1" + "0" * 20, "٣", "1_000"]
    for n, number in enumerate(numbers):
        for place in ("active", "dead", "outcomes"):
            ids.append(fresh(100 * n + len(ids)))
            names = [
                "attempts",
                "attempts_base",
                "started_at",
                "finished_at",
                "stalled",
                "priority",
            ]
            fields = dict.fromkeys(names, number)
            history = json.dumps({"attempt": 1, "started_at": 1}).replace("1", number)
            write(raw, queue, place, ids[-1], history=history, **fields)
    for score in ("inf", "-inf", 1e300, -1e300, 253402300799999, -62135596800000.0):
        ids.append(fresh(5_000 + len(ids)))
        write(raw, queue, "schedule", ids[-1])
        raw.zadd(base + b"schedule", {ids[-1]: float(score)})
        raw.hset(base + b"repeat:nightly", "last_at", str(score))
        raw.zadd(base + b"repeat", {"nightly": float(score)})
        check(root, url("schedules"))
    for number in numbers:
        raw.hset(base + b"meta", mapping={"concurrency": number, "max": number, "period": number})
        raw.hset(base + b"glimit", "acme", number)
        raw.hset(base + b"gactive", "acme", number)
        beat(queue, "w2", pid=number, threads=number, in_hand=number, started_at=number)
        for path in ("queue", "lanes"):
            check(root, url(path, name=world.name))
        check(root, url("workers"))
        check(root, url("status"))
    for path in everything(world, *ids):
        check(root, path)


def test_zones_of_the_world_at_the_ends_of_time(
    world: World, root: Browser, raw: redis.Redis, settings: Any
) -> None:
    for n, ms in enumerate(("253402300799999", "-62135596800000")):
        write(raw, world.queue, "dead", fresh(n), finished_at=ms, started_at=ms)
        for zone in ("Pacific/Kiritimati", "America/Los_Angeles"):
            settings.TIME_ZONE = zone
            check(root, url("job", name=world.name, job_id=fresh(n)))
            check(root, url("jobs", name=world.name) + "?state=dead")


def test_ids_that_are_none(world: World, root: Browser, raw: redis.Redis) -> None:
    """Rows under names that no address can hold do not spoil the list."""
    for name in (SCRIPT, "a/b/../c", "", "\x00", "é" * 7, "E" * 100_000, "?", "#", ".."):
        for place in ("pending", "schedule", "dead", "outcomes", "active"):
            write(raw, world.queue, place, name)
    for path in everything(world):
        check(root, path)
    for name in (SCRIPT.replace("/", ""), "%00", "x", "%F0%9F%91%A9", "." * 5):
        path = url("job", name=world.name, job_id="JOB").replace("/JOB/", f"/{name}/")
        check(root, path, 404)
        assert root.post(f"{path}act/", {"action": "cancel"}).status_code == 302
        assert root.post(f"{path}edit/", {"args": "[]", "kwargs": "{}"}).status_code == 302


def test_vanished_rows(world: World, root: Browser, raw: redis.Redis) -> None:
    for job_id in (world.pending, world.active, world.scheduled, world.dead):
        raw.delete(world.queue.keys.base + b"job:" + job_id.encode())
    raw.delete(world.queue.keys.base + b"job:" + world.completed.encode() + b":outcome")
    for path in everything(world):
        check(root, path)
    check(root, url("job", name=world.name, job_id=world.dead), 404)
    check(root, url("job", name=world.name, job_id=world.completed), 404)


def test_a_job_that_vanishes_between_two_looks(
    world: World, root: Browser, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain = type(world.queue.jobs).get

    def gone(jobs: Any, job_id: str) -> Any:
        job = plain(jobs, job_id)
        world.queue.jobs.remove(job_id)
        return job

    monkeypatch.setattr(type(world.queue.jobs), "get", gone)
    check(root, url("job", name=world.name, job_id=world.dead))


KEYS = [
    *("pending", "active", "schedule", "dead", "outcomes", "g:acme:pending"),
    *("meta", "rate", "metrics:completed", "metrics:failed", "operations", "cancels", "throttled"),
    *("ring", "paused", "glimit", "gactive", "gweight"),
    *("workers", "worker:w1", "schedules", "repeat", "repeat:nightly"),
    *("job", "job:logs", "job:outcome"),
]


@pytest.mark.parametrize("key", KEYS)
@pytest.mark.parametrize("kind", ["string", "list", "zset"])
def test_keys_of_the_wrong_type(
    key: str, kind: str, world: World, root: Browser, raw: redis.Redis
) -> None:
    """A page shows what it can, or says in words that the server holds something foreign."""
    base = world.queue.keys.base
    name = base + (
        key.replace("job", f"job:{world.completed if 'outcome' in key else world.dead}").encode()
        if key.startswith("job")
        else key.encode()
    )
    before = raw.type(name).decode()
    raw.delete(name)
    make: dict[str, Callable[[], object]] = {
        "string": lambda: raw.set(name, SCRIPT),
        "list": lambda: raw.rpush(name, SCRIPT),
        "hash": lambda: raw.hset(name, SCRIPT, SCRIPT),
        "set": lambda: raw.sadd(name, SCRIPT),
        "zset": lambda: raw.zadd(name, {SCRIPT: 4_102_444_800_000}),
    }
    make[kind]()
    refused = 0
    operation = url("operation", name=world.name, operation_id="0" * 16)
    for path in [*everything(world, world.dead, world.completed), operation]:
        text = check(root, path, 200, 404, 503)
        if "errornote" in text and "WRONGTYPE" in text:
            refused += 1
            assert "holds foreign keys" in text, path
    if kind == before:
        assert not refused


def test_a_broken_queue_hides_no_other(world: World, root: Browser, raw: redis.Redis) -> None:
    raw.delete(world.queue.keys.base + b"pending")
    raw.set(world.queue.keys.base + b"pending", "x")
    text = check(root, url("changelist"))
    assert "WRONGTYPE" in text
    assert ">mail</a>" in text
    assert root.get(url("queue", name="mail")).status_code == 200
    answer = root.get(url("status"))
    assert answer.status_code == 503
    states = {row["queue"]: row["state"] for row in answer.json()["queues"]}
    assert states == {"default": "away", "mail": "running", "fast": "running"}
    # A verb that counts jobs first refuses; a plain one is tried.
    form = {"action": "drain", "confirmed": "yes"}
    page = root.post(url("act", name=world.name), form, follow=True).content.decode()
    assert "WRONGTYPE" in page or "foreign" in page


def test_operations_by_a_foreign_hand(world: World, root: Browser, raw: redis.Redis) -> None:
    sound = {
        "id": "x",
        "queue": "q",
        "what": ALL,
        "user": ALL + "\ud800",
        "done": 1,
        "total": 0,
        "state": ALL,
        "error": ALL,
        "beat": 0,
    }
    entries = [
        json.dumps(sound),
        *(json.dumps({**sound, name: value}) for name in sound for value in (None, [], "x", -1)),
        json.dumps({**sound, "done": 1e308, "total": 1e-300}),
        '{"done": Infinity}',
        "[]",
        "{",
        "[" * 100_000,
        b"\xff",
    ]
    for entry in entries:
        raw.hset(world.queue.keys.operations, "x", entry)
        check(root, url("operation", name=world.name, operation_id="x"))


def test_workers_by_a_foreign_hand(world: World, root: Browser, raw: redis.Redis) -> None:
    base = world.queue.keys.base
    for n, info in enumerate(
        [b"", b"{", b"[]", b"null", b"[" * 100_000, b"\xff", b'{"host": 1}', b'{"pid": 1e999}']
    ):
        raw.zadd(base + b"workers", {f"foreign{n}": 4_102_444_800_000})
        raw.hset(base + f"worker:foreign{n}".encode(), mapping={"info": info, "beat": "x"})
    raw.hset(base + b"worker:w1", mapping={"beat": "253402300799999", "told": "\x00" + SCRIPT})
    assert "w1" in check(root, url("workers"))


def test_input_of_users(world: World, root: Browser) -> None:
    """What is typed into an address or a form is text too."""
    parts = {
        url("changelist"): ("q", "state"),
        url("schedules"): ("queue",),
        url("activity"): ("queue", "page"),
        url("queue", name=world.name): ("span",),
        url("lanes", name=world.name): ("q",),
        url("jobs", name=world.name): ("q", "lane", "state", "age", "from", "order"),
    }
    for text in (SCRIPT, "%00", "%ff%fe", "%E2%80%AE", "E" * 3_000, "%", "'\"><b>", "a b/c"):
        for path, names in parts.items():
            for part in names:
                answer = root.get(f"{path}?{part}={text}")
                assert answer.status_code in (200, 302, 404), (path, part, text)
                if answer.status_code == 200 and answer["Content-Type"].startswith("text/html"):
                    assert Page(answer.content.decode()).faults == []
    acts = (
        url("act", name=world.name),
        url("act_on_selected"),
        url("act_on_jobs", name=world.name),
        url("act_on_lane", name=world.name),
        url("act_on_schedule", name=world.name),
        url("act_on_worker"),
        url("act_on_job", name=world.name, job_id=world.pending),
        url("edit_job", name=world.name, job_id=world.pending),
    )
    words = ("pause", "limit", "drain", "cancel", "quiet", "remove", "reschedule")
    for target in acts:
        for word in (*words, SCRIPT, "", "\x00"):
            for text in (SCRIPT, "\x00\ud7ff", "E" * 10_000, "9" * 20, "-1"):
                parts = [
                    "lane",
                    "schedule",
                    "worker",
                    "number",
                    "when",
                    "args",
                    "kwargs",
                    "state",
                    "q",
                    "age",
                ]
                form = {"action": word, **dict.fromkeys(parts, text), "_selected_action": text}
                answer = root.post(target, form)
                assert answer.status_code in (200, 302, 404), (target, word, text[:50])


def test_no_secret_is_shown(world: World, root: Browser, raw: redis.Redis) -> None:
    queue, base = world.queue, world.queue.keys.base
    hidden = {"Api_Key": SECRET, "x": [{"my_PASSWORD": {"deep": SECRET}}], "token": [SECRET]}
    payloads = [
        call(1, task="tests.testapp.tasks.echo", **hidden),
        call({"authorization": SECRET}, [[{"cookie": SECRET}]]),
        call(1, SECRET, task="tests.testapp.tasks.signs_in"),
        json.dumps({"task": 5, **hidden}).encode(),
        json.dumps({"task": "a", "args": hidden}).encode(),
        json.dumps({"task": "a", "options": {"backoff": hidden, "timeout": hidden}}).encode(),
        json.dumps([hidden]).encode(),
        b'{"task": "a", "kwargs": {"password": "' + SECRET.encode() + b'"',
        b"password=" + SECRET.encode(),
    ]
    ids = []
    for n, payload in enumerate(payloads):
        for place in ("pending", "dead", "outcomes"):
            ids.append(fresh(10 * n + len(ids)))
            # What a result's list stands for is nobody's to know.
            named = place == "outcomes" and b"signs_in" not in payload
            result = {"result": payload} if named else {}
            write(raw, queue, place, ids[-1], payload=payload, **result)
    raw.hset(base + b"repeat:nightly", "template", payloads[0])
    for path in everything(world, *ids):
        assert SECRET not in check(root, path), path
    assert job_pages.shown_bytes(b"password=" + SECRET.encode()).startswith("********")


def test_a_log_and_a_history_are_bounded(world: World, root: Browser, raw: redis.Redis) -> None:
    base = world.queue.keys.base + b"job:" + world.dead.encode()
    raw.hset(base, "history", b'{"attempt":1,"exception":"E"}\n' * 30_000)
    with raw.pipeline(transaction=False) as pipe:
        for n in range(60):
            pipe.rpush(base + b":logs", *[f"{n} " + "E" * 5_000] * 100)
        pipe.execute()
    text = check(root, url("job", name=world.name, job_id=world.dead))
    assert "5,500 older lines" in text
