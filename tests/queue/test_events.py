"""What happens is told as it happens, once and exactly, and a subscriber hears it."""

from __future__ import annotations

import asyncio
import gc
import json
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
import redis

from django_echomq.queue import Claim, Queue
from django_echomq.queue.events import Event
from django_echomq.wire.client import Client, Subscriber
from django_echomq.wire.endpoint import Endpoint
from django_echomq.wire.errors import InvalidId, InvalidName, ServerUnavailable, VersionFence
from django_echomq.wire.ids import process_mint
from django_echomq.worker.promoter import tick_call
from tests.conftest import wait_until
from tests.queue.keyspace import fall_due, lapse, names

MakeQueue = Callable[..., Queue]
Told = dict[str, str]
FAR = 253_402_300_799_999


class Listener:
    """A stock listener, with what it heard."""

    def __init__(self, queue: Queue, pubsub: Any, raw: redis.Redis) -> None:
        self._queue, self._pubsub, self._raw = queue, pubsub, raw

    def messages(self) -> list[bytes]:
        """The messages so far."""
        self._raw.publish(self._queue.keys.events, b"so far")
        heard = []
        while True:
            message = self._pubsub.get_message(timeout=10)
            if message["data"] == b"so far":
                return heard
            heard.append(message["data"])

    def told(self) -> list[Told]:
        return [json.loads(message) for message in self.messages()]


@contextmanager
def listening(queue: Queue, raw: redis.Redis) -> Iterator[Listener]:
    with raw.pubsub() as pubsub:
        pubsub.subscribe(queue.keys.events)
        assert pubsub.get_message(timeout=10)["type"] == "subscribe"
        yield Listener(queue, pubsub, raw)


def claim_one(queue: Queue, **options: Any) -> Claim:
    queue.jobs.enqueue(b"x", **options)
    (claim,) = queue.jobs.claim()
    return claim


def scheduled_one(queue: Queue, **options: Any) -> str:
    return queue.jobs.enqueue_at(b"x", FAR, **options).job_id


# Each transition: what leads to it, and what it tells.

Act = Callable[[], tuple[Any, list[Told]]]
TRANSITIONS: dict[str, Callable[[Queue, redis.Redis], Act]] = {}


def transition(function: Callable[[Queue, redis.Redis], Act]) -> Callable[..., Act]:
    TRANSITIONS[function.__name__] = function
    return function


@transition
def enqueue(queue: Queue, raw: redis.Redis) -> Act:
    def act() -> tuple[Any, list[Told]]:
        first = queue.jobs.enqueue(b"x").job_id
        second = queue.jobs.enqueue(b"x", lane="a").job_id
        assert queue.jobs.enqueue(b"x", job_id=first).outcome == "duplicate"
        return first, [
            {"event": "enqueued", "job": first},
            {"event": "enqueued", "job": second, "lane": "a"},
        ]

    return act


@transition
def enqueue_many(queue: Queue, raw: redis.Redis) -> Act:
    def act() -> tuple[Any, list[Told]]:
        done = queue.jobs.enqueue_many([b"x"] * 3)
        return done, [{"event": "enqueued", "job": admission.job_id} for admission in done]

    return act


@transition
def enqueue_at(queue: Queue, raw: redis.Redis) -> Act:
    def act() -> tuple[Any, list[Told]]:
        job_id = scheduled_one(queue, lane="a")
        return job_id, [{"event": "scheduled", "job": job_id, "lane": "a", "at": str(FAR)}]

    return act


@transition
def fire(queue: Queue, raw: redis.Redis) -> Act:
    queue.repeat.register("tick", payload=b"x", every=3600, lane="a")
    raw.zadd(queue.keys.base + b"repeat", {"tick": 1})

    def act() -> tuple[Any, list[Told]]:
        assert queue.repeat.fire() == 1
        (job,) = queue.jobs.browse("pending", lane="a")
        return job.id, [{"event": "enqueued", "job": job.id, "lane": "a", "schedule": "tick"}]

    return act


@transition
def promote(queue: Queue, raw: redis.Redis) -> Act:
    job_id = scheduled_one(queue, lane="a")
    fall_due(queue, raw, job_id)

    def act() -> tuple[Any, list[Told]]:
        assert queue.jobs.promote() == 1
        return job_id, [{"event": "promoted", "job": job_id, "lane": "a"}]

    return act


@transition
def promote_now(queue: Queue, raw: redis.Redis) -> Act:
    job_id = scheduled_one(queue)

    def act() -> tuple[Any, list[Told]]:
        queue.jobs.promote_now(job_id)
        return job_id, [{"event": "promoted", "job": job_id}]

    return act


@transition
def reschedule(queue: Queue, raw: redis.Redis) -> Act:
    job_id = queue.jobs.enqueue(b"x").job_id

    def act() -> tuple[Any, list[Told]]:
        queue.jobs.reschedule(job_id, FAR)
        return job_id, [{"event": "scheduled", "job": job_id, "at": str(FAR)}]

    return act


@transition
def claim(queue: Queue, raw: redis.Redis) -> Act:
    job_id = queue.jobs.enqueue(b"x", lane="a").job_id

    def act() -> tuple[Any, list[Told]]:
        (claimed,) = queue.jobs.claim()
        worker = queue.jobs.get(job_id).worker or ""
        told = {"event": "started", "job": job_id, "lane": "a", "attempt": "1", "worker": worker}
        return claimed, [told]

    return act


@transition
def claim_of_a_row_that_cannot_be_claimed(queue: Queue, raw: redis.Redis) -> Act:
    job_id = queue.jobs.enqueue(b"x").job_id
    raw.hset(queue.keys.job(job_id), "attempts", "many")

    def act() -> tuple[Any, list[Told]]:
        assert queue.jobs.claim() == []
        error = "the row's attempts are not a number"
        return job_id, [{"event": "dead", "job": job_id, "error": error}]

    return act


@transition
def complete(queue: Queue, raw: redis.Redis) -> Act:
    held = claim_one(queue, lane="a")

    def act() -> tuple[Any, list[Told]]:
        queue.jobs.complete(held)
        return held, [{"event": "completed", "job": held.job_id, "lane": "a"}]

    return act


@transition
def retry(queue: Queue, raw: redis.Redis) -> Act:
    held = claim_one(queue)

    def act() -> tuple[Any, list[Told]]:
        queue.jobs.retry(held, 60, 3, "boom")
        at = str(int(raw.zscore(queue.keys.schedule, held.job_id) or 0))
        return held, [
            {"event": "failed", "job": held.job_id, "attempt": "1", "error": "boom"},
            {"event": "retried", "job": held.job_id, "at": at},
        ]

    return act


@transition
def die(queue: Queue, raw: redis.Redis) -> Act:
    held = claim_one(queue)

    def act() -> tuple[Any, list[Told]]:
        queue.jobs.retry(held, 60, 1, "boom")
        return held, [
            {"event": "failed", "job": held.job_id, "attempt": "1", "error": "boom"},
            {"event": "dead", "job": held.job_id, "error": "boom"},
        ]

    return act


@transition
def fail_when_asked_to_stop(queue: Queue, raw: redis.Redis) -> Act:
    held = claim_one(queue)

    def act() -> tuple[Any, list[Told]]:
        assert queue.jobs.cancel(held.job_id, "no more") == "asked"
        queue.jobs.retry(held, 60, 3, "boom")
        return held, [
            {"event": "failed", "job": held.job_id, "attempt": "1", "error": "boom"},
            {"event": "cancelled", "job": held.job_id, "reason": "no more"},
        ]

    return act


@transition
def delay(queue: Queue, raw: redis.Redis) -> Act:
    held = claim_one(queue)

    def act() -> tuple[Any, list[Told]]:
        queue.jobs.delay(held, at=FAR)
        return held, [{"event": "delayed", "job": held.job_id, "at": str(FAR)}]

    return act


@transition
def release(queue: Queue, raw: redis.Redis) -> Act:
    held = claim_one(queue)

    def act() -> tuple[Any, list[Told]]:
        queue.jobs.release(held)
        return held, [{"event": "released", "job": held.job_id}]

    return act


@transition
def cancel(queue: Queue, raw: redis.Redis) -> Act:
    job_id = queue.jobs.enqueue(b"x").job_id

    def act() -> tuple[Any, list[Told]]:
        queue.jobs.cancel(job_id, "not wanted")
        return job_id, [{"event": "cancelled", "job": job_id, "reason": "not wanted"}]

    return act


@transition
def reap(queue: Queue, raw: redis.Redis) -> Act:
    held = claim_one(queue, lane="a")
    worker = queue.jobs.get(held.job_id).worker or ""
    lapse(queue, raw, held)

    def act() -> tuple[Any, list[Told]]:
        assert queue.jobs.reap() == 1
        return held, [{"event": "stalled", "job": held.job_id, "lane": "a", "worker": worker}]

    return act


@transition
def bury_a_stalled_job(queue: Queue, raw: redis.Redis) -> Act:
    held = claim_one(queue)
    worker = queue.jobs.get(held.job_id).worker or ""
    lapse(queue, raw, held)

    def act() -> tuple[Any, list[Told]]:
        assert queue.stalled.check(max_stalled=1).dead == 1
        return held, [
            {"event": "stalled", "job": held.job_id, "worker": worker},
            {"event": "dead", "job": held.job_id, "error": "stalled"},
        ]

    return act


@transition
def reprocess(queue: Queue, raw: redis.Redis) -> Act:
    held = claim_one(queue)
    queue.jobs.retry(held, 0, 1, "boom")

    def act() -> tuple[Any, list[Told]]:
        queue.jobs.reprocess(held.job_id)
        return held, [{"event": "reprocessed", "job": held.job_id}]

    return act


@transition
def remove(queue: Queue, raw: redis.Redis) -> Act:
    job_id = queue.jobs.enqueue(b"x").job_id

    def act() -> tuple[Any, list[Told]]:
        queue.jobs.remove(job_id)
        return job_id, [{"event": "removed", "job": job_id}]

    return act


@transition
def trim_the_dead(queue: Queue, raw: redis.Redis) -> Act:
    held = claim_one(queue)
    queue.jobs.retry(held, 0, 1, "boom")
    raw.zadd(queue.keys.base + b"died", {held.job_id: 1})

    def act() -> tuple[Any, list[Told]]:
        queue.drive(queue.client.run(tick_call(queue, 100)))
        return held, [{"event": "removed", "job": held.job_id}]

    return act


@transition
def progress(queue: Queue, raw: redis.Redis) -> Act:
    job_id = queue.jobs.enqueue(b"x").job_id

    def act() -> tuple[Any, list[Told]]:
        queue.jobs.update_progress(job_id, "50")
        return job_id, [{"event": "progress", "job": job_id, "progress": "50"}]

    return act


@transition
def pause_and_resume(queue: Queue, raw: redis.Redis) -> Act:
    def act() -> tuple[Any, list[Told]]:
        for _ in range(2):
            queue.admin.pause()
        for _ in range(2):
            queue.admin.resume()
        return None, [{"event": "paused", "job": ""}, {"event": "resumed", "job": ""}]

    return act


@transition
def drain(queue: Queue, raw: redis.Redis) -> Act:
    queue.jobs.enqueue_many([b"x"] * 3)

    def act() -> tuple[Any, list[Told]]:
        assert queue.admin.drain() == 3
        return None, [{"event": "drained", "job": "", "removed": "3"}]

    return act


@transition
def obliterate(queue: Queue, raw: redis.Redis) -> Act:
    queue.jobs.enqueue_many([b"x"] * 3)
    queue.admin.pause()

    def act() -> tuple[Any, list[Told]]:
        assert queue.admin.obliterate(budget=2) == 3
        return None, [{"event": "obliterated", "job": ""}]

    return act


@pytest.mark.parametrize("name", TRANSITIONS)
def test_a_transition_tells_of_itself_exactly(queue: Queue, raw: redis.Redis, name: str) -> None:
    act = TRANSITIONS[name](queue, raw)
    with listening(queue, raw) as listener:
        _, expected = act()
        assert listener.told() == expected


@pytest.mark.parametrize("name", TRANSITIONS)
def test_nothing_is_told_where_events_are_off(queue: Queue, raw: redis.Redis, name: str) -> None:
    queue.events.disable()
    act = TRANSITIONS[name](queue, raw)
    with listening(queue, raw) as listener:
        act()
        assert listener.told() == []


def test_a_call_that_is_answered_from_the_ledger_tells_nothing_again(
    queue: Queue, raw: redis.Redis
) -> None:
    queue.jobs.enqueue_many([b"x"] * 2)
    slot = queue.client.take_slot()
    first = queue.jobs.exchange_call(slot, [], 1, "w")
    (held,) = queue.jobs.exchange_answer(queue.drive(queue.client.run(first))).claims
    call = queue.jobs.exchange_call(slot, [queue.jobs.completion(held)], 1, "w")
    with listening(queue, raw) as listener:
        for _ in range(2):
            queue.drive(queue.client.run(call))
        assert [told["event"] for told in listener.told()] == ["completed", "started"]


def test_a_refused_settlement_tells_nothing(queue: Queue, raw: redis.Redis) -> None:
    held = claim_one(queue)
    queue.jobs.complete(held)
    with listening(queue, raw) as listener:
        with pytest.raises(LookupError):
            queue.jobs.complete(held)
        assert listener.told() == []


def test_a_removal_of_nothing_tells_nothing(queue: Queue, raw: redis.Redis) -> None:
    with listening(queue, raw) as listener:
        with pytest.raises(LookupError):
            queue.jobs.remove(process_mint.mint(1))
        assert listener.told() == []


def test_a_message_begins_as_a_stock_one(queue: Queue, raw: redis.Redis) -> None:
    held = claim_one(queue)
    with listening(queue, raw) as listener:
        queue.jobs.complete(held)
        assert listener.messages() == [
            b'{"event":"completed","job":"%s"}' % held.job_id.encode(),
        ]


@pytest.mark.parametrize(
    ("error", "heard"),
    [
        (b"x" * 5_000, "x" * 200),
        ("\u00e4".encode() * 200, "\u00e4" * 100),
        (b"x" + "\u00e4".encode() * 200, "x" + "\u00e4" * 99 + "?"),
        (b'"\\\n\x00\x7f/', '"\\\n\x00\x7f/'),
        (b'say "no"', 'say "no"'),
        (b"C:\\n", "C:\\n"),
        (b"\xff\xfe ok \x80", "?? ok ?"),
        (b"\xed\xa0\x80 \xc0\xaf \xe0\x80\x80 \xf4\x90\x80\x80", "??? ?? ??? ????"),
        ("na\u00efve \U0001f600 \u20ac \ud7ff \U0010ffff".encode(),) * 2,
    ],
)
def test_whatever_an_error_holds_the_message_is_json(
    queue: Queue, raw: redis.Redis, error: bytes, heard: bytes | str
) -> None:
    held = claim_one(queue)
    slot = queue.client.take_slot()
    settlement = queue.jobs.failure(held, 0, 1)
    args = (settlement.args[0], settlement.args[1], error, settlement.args[3])
    call = queue.jobs.exchange_call(slot, [type(settlement)("retry", held, args)], 0, "w")
    with listening(queue, raw) as listener:
        queue.drive(queue.client.run(call))
        texts = {json.loads(message.decode())["error"] for message in listener.messages()}
    assert texts == {heard if isinstance(heard, str) else heard.decode()}


def test_a_foreign_key_for_meta_keeps_no_job_from_moving(queue: Queue, raw: redis.Redis) -> None:
    held = claim_one(queue)
    raw.set(queue.keys.meta, "foreign")
    with listening(queue, raw) as listener:
        queue.jobs.complete(held)
        assert [told["event"] for told in listener.told()] == ["completed"]


def test_the_switch_is_a_field_of_meta(queue: Queue, raw: redis.Redis) -> None:
    assert queue.events.is_enabled()
    queue.events.disable()
    assert raw.hgetall(queue.keys.meta) == {b"events": b"0"}
    assert not queue.events.is_enabled()
    queue.events.enable()
    assert names(queue, raw) == set()
    assert queue.events.is_enabled()


# Publishing


def test_what_is_published_by_hand_is_heard(queue: Queue, raw: redis.Redis) -> None:
    job_id = process_mint.mint(1)
    queue.events.disable()
    with listening(queue, raw) as listener:
        assert queue.events.publish("scored", job_id, points='"7"') == 1
        assert listener.messages() == [
            b'{"event":"scored","job":"%s","points":"\\"7\\""}' % job_id.encode()
        ]


@pytest.mark.parametrize(
    ("args", "extras", "error"),
    [
        (("scored", "no-id"), {}, InvalidId),
        (("scored", ""), {}, InvalidId),
        (("", "JOB0NgWEfAEJfs"), {}, InvalidName),
        (('a"b', "JOB0NgWEfAEJfs"), {}, InvalidName),
        (("scored", "JOB0NgWEfAEJfs"), {"event": "x"}, ValueError),
        (("scored", "JOB0NgWEfAEJfs"), {"job": "x"}, ValueError),
        (("scored", "JOB0NgWEfAEJfs"), {"points": 7}, TypeError),
    ],
)
def test_what_cannot_be_published_is_refused(
    queue: Queue, raw: redis.Redis, args: Any, extras: Any, error: type[Exception]
) -> None:
    with listening(queue, raw) as listener:
        with pytest.raises(error):
            queue.events.publish(*args, **extras)
        assert listener.messages() == []


# Subscribing


def test_a_subscriber_hears_what_happens_from_then_on(queue: Queue) -> None:
    queue.jobs.enqueue(b"before")
    with queue.events.subscribe() as events:
        job_id = queue.jobs.enqueue(b"x", lane="a").job_id
        queue.admin.pause()
        assert next(events) == Event("enqueued", job_id, {"lane": "a"})
        assert next(events) == Event("paused")


def test_an_iteration_ends_when_nothing_happens_for_its_timeout(queue: Queue) -> None:
    with queue.events.subscribe(timeout=0.2) as events:
        queue.jobs.enqueue_many([b"x"] * 3)
        wait_until(lambda: len(events._feed._events) == 3)
        assert [event.name for event in events] == ["enqueued"] * 3


def test_one_event_may_be_waited_for(queue: Queue) -> None:
    with queue.events.subscribe() as events:
        assert events.get(timeout=0.001) is None
        queue.admin.pause()
        assert events.get(timeout=30) == Event("paused")


@pytest.mark.parametrize(
    "message",
    [b"", b"not json", b"[]", b"7", b'{"job":"x"}', b'{"event":7}', b"[" * 100_000, b'{"event":"a'],
)
def test_what_cannot_be_read_is_skipped(queue: Queue, raw: redis.Redis, message: bytes) -> None:
    with queue.events.subscribe() as events:
        raw.publish(queue.keys.events, message)
        raw.publish(queue.keys.events, b'{"event":"scored","job":"x"}')
        assert next(events) == Event("scored", "x")


def test_foreign_messages_are_read_as_well_as_they_can_be() -> None:
    assert Event.from_message(b'{"event":"\xff","n":1,"deep":{"a":[null]}}') == Event(
        "\ufffd", "", {"n": "1", "deep": '{"a": [null]}'}
    )


def killed(queue: Queue, raw: redis.Redis) -> None:
    """Kills every subscriber's connection."""
    raw.execute_command("CLIENT", "KILL", "TYPE", "pubsub")


def listeners(queue: Queue, raw: redis.Redis) -> int:
    ((_, count),) = raw.pubsub_numsub(queue.keys.events)
    return int(count)


def test_a_subscriber_whose_connection_is_killed_goes_on(queue: Queue, raw: redis.Redis) -> None:
    with queue.events.subscribe() as events:
        for round_ in range(1, 4):
            killed(queue, raw)
            wait_until(lambda: listeners(queue, raw) == 1, "the subscriber to be back")
            job_id = queue.jobs.enqueue(b"x").job_id
            assert next(events) == Event("enqueued", job_id)
            assert events.reconnects == round_


def test_a_gap_is_told_where_it_was_asked_for(queue: Queue, raw: redis.Redis) -> None:
    with queue.events.subscribe(gaps=True) as events:
        killed(queue, raw)
        assert next(events) == Event("reconnected")
        queue.admin.pause()
        assert next(events) == Event("paused")


def test_a_close_from_another_thread_ends_the_iteration(queue: Queue, raw: redis.Redis) -> None:
    events = queue.events.subscribe()
    heard: list[Event] = []
    reader = threading.Thread(target=lambda: heard.extend(events))
    reader.start()
    queue.admin.pause()
    wait_until(lambda: heard, "the event")
    events.close()
    reader.join(30)
    assert not reader.is_alive()
    assert heard == [Event("paused")]
    wait_until(lambda: listeners(queue, raw) == 0, "the connection to end")
    assert list(events) == []


def test_a_subscription_that_is_dropped_ends(queue: Queue, raw: redis.Redis) -> None:
    if True:
        events = queue.events.subscribe()
        queue.admin.pause()
        for event in events:
            assert event.name == "paused"
            break
    del events
    gc.collect()
    wait_until(lambda: listeners(queue, raw) == 0, "the connection to end")


def test_coroutines_iterate_too(queue: Queue) -> None:
    async def main() -> list[Event]:
        heard = []
        async with queue.events.subscribe() as events:
            task = asyncio.create_task(asyncio.to_thread(queue.admin.pause))
            async for event in events:
                heard.append(event)
                if event.name == "resumed":
                    break
                await task
                task = asyncio.create_task(asyncio.to_thread(queue.admin.resume))
            await task
            assert await events.aget(timeout=0.01) is None
        assert [event async for event in events] == []
        return heard

    assert asyncio.run(main()) == [Event("paused"), Event("resumed")]


def test_an_async_iteration_is_ended_by_a_close_from_a_thread(queue: Queue) -> None:
    async def main() -> list[Event]:
        events = queue.events.subscribe()
        timer = threading.Timer(0.05, events.close)
        timer.start()
        heard = [event async for event in events]
        timer.join()
        return heard

    assert asyncio.run(main()) == []


def test_a_cancelled_wait_loses_no_event(queue: Queue) -> None:
    async def main() -> Event | None:
        async with queue.events.subscribe() as events:
            waiting = asyncio.create_task(events.aget())
            await asyncio.sleep(0)
            waiting.cancel()
            with pytest.raises(asyncio.CancelledError):
                await waiting
            await asyncio.to_thread(queue.admin.pause)
            return await events.aget(30)

    assert asyncio.run(main()) == Event("paused")


def test_a_subscription_survives_the_server(disposable: Endpoint) -> None:
    """The disposable server forgets its clients; the subscription comes back by itself."""
    client = Client(disposable)
    queue = Queue("away", client)
    with queue.events.subscribe(gaps=True) as events:
        client.drive(client.command("CLIENT", "KILL", "TYPE", "pubsub"))
        assert next(events).name == "reconnected"


def test_a_server_that_is_away_is_told_at_once(tmp_path: Any) -> None:
    away = Client(Endpoint.from_url(f"unix://{tmp_path}/none.sock"), retry_for=0.05)
    with pytest.raises(ServerUnavailable):
        Queue("away", away).events.subscribe()


def test_a_server_of_another_version_ends_the_subscription(disposable: Endpoint) -> None:
    queue = Queue("fenced", Client(disposable))
    raw = redis.Redis(unix_socket_path=disposable.options["path"])
    with queue.events.subscribe() as events:
        raw.set("{emq}:version", "echomq:9.0.0")
        killed(queue, raw)
        with pytest.raises(VersionFence):
            next(events)


def test_a_silent_server_is_asked_whether_it_is_there(endpoint: Endpoint) -> None:
    subscriber = Subscriber(Client(endpoint), b"nothing", beat=20)
    subscriber._heard -= 20
    try:
        wait_until(lambda: subscriber.read(0.01) is None and subscriber._asked)
        wait_until(lambda: subscriber.read(0.01) is None and not subscriber._asked)
    finally:
        subscriber.close()


def test_a_server_that_does_not_answer_is_lost(disposable: Endpoint) -> None:
    subscriber = Subscriber(Client(disposable), b"nothing", beat=0.05)
    redis.Redis(unix_socket_path=disposable.options["path"]).client_pause(60_000)
    with pytest.raises(redis.ConnectionError, match="silent"):
        wait_until(lambda: subscriber.read(0.01))
    subscriber.close()


def test_a_slow_reader_does_not_fill_the_memory(
    queue: Queue, raw: redis.Redis, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("django_echomq.queue.events._BUFFER", 3)
    with queue.events.subscribe() as events:
        for number in range(10):
            raw.publish(queue.keys.events, b'{"event":"%d"}' % number)
        wait_until(lambda: len(events._feed._events) == 3)
        assert [next(events).name for _ in range(10)] == [str(number) for number in range(10)]
