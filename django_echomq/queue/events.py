"""What happens on a queue, told as it happens on its pub/sub channel. Nothing is kept: whoever
does not listen misses it."""

from __future__ import annotations

import asyncio
import json
import random
import threading
import time
import weakref
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Self

from ..wire.client import LOGIN, LOST, Client, Subscriber
from ..wire.errors import ServerUnavailable
from ..wire.ids import check
from ..wire.keys import check_name

if TYPE_CHECKING:
    from .queue import Queue

#: The name of the event that stands for what a lost connection may have missed.
RECONNECTED = "reconnected"

_BUFFER = 10_000  # events that wait for a slow reader, before the server has to keep them
_FIRST_PAUSE, _LONGEST_PAUSE = 0.05, 2.0  # seconds between tries to reconnect
_LOOK = 0.5  # seconds after which the thread of a closed subscription ends


@dataclass(frozen=True, slots=True)
class Event:
    """Something that happened.

    Attributes:
        name: what; ``docs/wire.md`` has the table. Names that are not in it are passed on.
        job_id: to which job; empty where it happened to the queue.
        extras: what else the message says, texts.
    """

    name: str
    job_id: str = ""
    extras: Mapping[str, str] = field(default_factory=dict, hash=False)

    @classmethod
    def from_message(cls, message: bytes) -> Event | None:
        """Reads a message of the channel; ``None`` where it is not one flat JSON object."""
        try:
            fields = json.loads(message.decode("utf-8", "replace"))
        except (ValueError, RecursionError):
            return None
        if not isinstance(fields, dict) or not isinstance(fields.get("event"), str):
            return None
        texts = {
            name: value if isinstance(value, str) else json.dumps(value)
            for name, value in fields.items()
        }
        return cls(texts.pop("event"), texts.pop("job", ""), texts)


class Events:
    """The verbs of events."""

    def __init__(self, queue: Queue) -> None:
        self._queue = queue

    def publish(self, event: str, job_id: str, /, **extras: str) -> int:
        """Tells of something on the channel, whether or not the queue's own events are on.

        Args:
            event: its name, 1 to 128 letters, digits, ``.``, ``_`` or ``-``.
            job_id: the job it happened to.
            extras: what else there is to say.

        Returns:
            How many listen; on a cluster, at the node that was asked.

        Raises:
            InvalidName, InvalidId, ValueError, TypeError: nothing was sent.
        """
        message = {"event": check_name(event, "an event"), "job": check(job_id)}
        for name, value in extras.items():
            if name in message:
                raise ValueError(f"{name!r} is not free for an extra")
            if not isinstance(value, str):
                raise TypeError(f"{name} is text, not {value!r}")
            message[name] = value
        text = json.dumps(message, separators=(",", ":"))
        part = self._queue.part_of(job_id)
        return int(part.drive(part.client.command("PUBLISH", part.keys.events, text)))

    def subscribe(self, *, timeout: float | None = None, gaps: bool = False) -> Subscription:
        """Listens, from now on, on a connection of its own.

        It is listening when this returns, so this waits for a handshake, in a coroutine too.

        Args:
            timeout: an iteration ends when nothing has happened for so many seconds.
            gaps: yield an event named ``reconnected`` where the connection was lost, and with it
                what happened until it was back.

        Raises:
            ServerUnavailable: there is no server.
            VersionFence: the server belongs to another wire version.
        """
        channels: dict[Client, list[bytes]] = {}
        for part in self._queue.parts:
            channels.setdefault(part.client, []).append(part.keys.events)
        feed = _Feed(gaps)
        try:
            for client, names in channels.items():
                # Waits for the server, or starts it where it is ours to start.
                client.drive(client.command("PING"))
                try:
                    subscriber = Subscriber(client, *names)
                except LOGIN:
                    raise
                except LOST as error:
                    raise ServerUnavailable(
                        f"no answer from {client.endpoint.label}: {error}"
                    ) from error
                threading.Thread(
                    target=feed.serve,
                    args=(client, names, subscriber),
                    name=f"echomq-events-{self._queue.name}",
                    daemon=True,
                ).start()
        except BaseException:
            feed.end()
            raise
        return Subscription(feed, timeout)

    def enable(self) -> None:
        """Publishes what happens, which is the default.

        A worker or promoter that starts makes this what the queue's ``EVENTS`` says.
        """
        for part in self._queue.parts:
            part.drive(part.client.command("HDEL", part.keys.meta, "events"))

    def disable(self) -> None:
        """Publishes nothing more of what happens; it saves the server the work."""
        for part in self._queue.parts:
            part.drive(part.client.command("HSET", part.keys.meta, "events", 0))

    def is_enabled(self) -> bool:
        """Whether what happens is published."""
        return all(
            part.drive(part.client.command("HGET", part.keys.meta, "events")) != b"0"
            for part in self._queue.parts
        )


class _Feed:
    """What a subscription and its threads share, one for each server: they put events in, a reader
    takes them."""

    def __init__(self, gaps: bool) -> None:
        self.reconnects = 0
        self.closed = False
        self._error: Exception | None = None
        self._gaps = gaps
        self._events: deque[Event] = deque()
        self._changed = threading.Condition()
        self._loops: list[tuple[asyncio.AbstractEventLoop, asyncio.Event]] = []

    # The reader

    def get(self, timeout: float | None) -> Event | None:
        with self._changed:
            self._changed.wait_for(lambda: self._events or self.closed, timeout)
            return self._take()

    async def aget(self, timeout: float | None) -> Event | None:
        changed = asyncio.Event()
        waiting = (asyncio.get_running_loop(), changed)
        deadline = None if timeout is None else time.monotonic() + timeout
        while True:
            with self._changed:
                left = None if deadline is None else deadline - time.monotonic()
                if self._events or self.closed or (left is not None and left <= 0):
                    return self._take()
                changed.clear()
                self._loops.append(waiting)
            try:
                with suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), left)
            finally:
                with self._changed, suppress(ValueError):
                    self._loops.remove(waiting)

    def _take(self) -> Event | None:
        if self.closed:
            if self._error:
                raise self._error
            return None
        if not self._events:
            return None
        event = self._events.popleft()
        self._changed.notify_all()  # the thread may wait for room
        return event

    # Both

    def end(self, error: Exception | None = None) -> None:
        with self._changed:
            if not self.closed:
                self.closed = True
                self._error = error
                self._wake()

    def _wake(self) -> None:
        self._changed.notify_all()
        for loop, changed in self._loops:
            with suppress(RuntimeError):  # a loop that has ended waits for nothing
                loop.call_soon_threadsafe(changed.set)
        self._loops.clear()

    # A thread

    def serve(self, client: Client, channels: Sequence[bytes], subscriber: Subscriber) -> None:
        pause = 0.0
        try:
            while not self.closed:
                try:
                    if pause:
                        client.endpoint.heal()
                        subscriber = Subscriber(client, *channels)
                        pause = 0.0
                        self._reconnected()
                    self._read(subscriber)
                except LOGIN:
                    raise
                except LOST:
                    subscriber.close()
                    pause = min(max(_FIRST_PAUSE, 2 * pause), _LONGEST_PAUSE)
                    with self._changed:
                        self._changed.wait_for(lambda: self.closed, pause * random.uniform(0.5, 1))
        except Exception as error:
            self.end(error)
        finally:
            subscriber.close()

    def _read(self, subscriber: Subscriber) -> None:
        while not self.closed:
            message = subscriber.read(_LOOK)
            event = None if message is None else Event.from_message(message)
            if event:
                self._put(event)

    def _reconnected(self) -> None:
        self.reconnects += 1
        if self._gaps:
            self._put(Event(RECONNECTED))

    def _put(self, event: Event) -> None:
        with self._changed:
            self._changed.wait_for(lambda: len(self._events) < _BUFFER or self.closed)
            self._events.append(event)
            self._wake()


class Subscription:
    """Events as they happen: an iterator, an async iterator, and a context manager of either kind.

    It reads on a thread of its own for each server, reconnects by itself, and ends when it is
    closed. A reader that is for long slower than what happens loses events as if the connection
    were lost.
    """

    def __init__(self, feed: _Feed, timeout: float | None) -> None:
        self._feed = feed
        self._timeout = timeout
        # One that is dropped without being closed must not read for ever.
        weakref.finalize(self, feed.end)

    @property
    def reconnects(self) -> int:
        """How often the connection was lost and is back; each time events may have been missed."""
        return self._feed.reconnects

    def get(self, timeout: float | None = None) -> Event | None:
        """The next event; ``None`` where none came within so many seconds, or it was closed.

        Raises:
            VersionFence, redis.exceptions.AuthenticationError: the server that it met when it
                reconnected does not take it.
        """
        return self._feed.get(timeout)

    async def aget(self, timeout: float | None = None) -> Event | None:
        """:meth:`get` on the running event loop."""
        return await self._feed.aget(timeout)

    def close(self) -> None:
        """Ends the iteration at once, from whatever thread, and the connection soon after."""
        self._feed.end()

    def __iter__(self) -> Self:
        return self

    def __next__(self) -> Event:
        event = self._feed.get(self._timeout)
        if event is None:
            raise StopIteration
        return event

    def __aiter__(self) -> Self:
        return self

    async def __anext__(self) -> Event:
        event = await self._feed.aget(self._timeout)
        if event is None:
            raise StopAsyncIteration
        return event

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    async def __aenter__(self) -> Self:
        return self

    async def __aexit__(self, *raised: object) -> None:
        self.close()
