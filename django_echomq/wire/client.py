"""Round trips to one Valkey: scripts by SHA, healed and repeated where a reply was lost.

What has to be asked and waited for is written once, as *steps*: a generator that yields either a
list of commands (one round trip, answered by the list of replies), a float (seconds to wait), or
steps that another client has to walk.
:meth:`Client.drive` walks steps on a thread, :meth:`Client.adrive` on an event loop.
"""

from __future__ import annotations

import asyncio
import itertools
import os
import secrets
import time
import weakref
from collections import deque
from collections.abc import AsyncGenerator, Callable, Generator, Iterable, Sequence
from contextlib import suppress
from typing import Any, NamedTuple, TypeAlias, TypeVar

import hiredis
from redis.exceptions import (
    AuthenticationError,
    AuthorizationError,
    NoScriptError,
    OutOfMemoryError,
    ResponseError,
)
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import TimeoutError as RedisTimeoutError

from .cluster import NOT_HERE, not_here
from .endpoint import Endpoint
from .errors import EchoMQError, ServerUnavailable, refusal
from .ids import MAX_NODE, process_mint
from .scripts import Script, script

T = TypeVar("T")
Argument: TypeAlias = bytes | str | int | float
Command: TypeAlias = Sequence[Argument]
Reply: TypeAlias = Any
Steps: TypeAlias = "Generator[list[Command] | float | Detour, list[Reply], T]"

#: What a lost connection looks like; a refused login is not among it.
LOST = (RedisConnectionError, RedisTimeoutError, OSError)
#: What a refused login looks like, although redis-py counts it among lost connections.
LOGIN = (AuthenticationError, AuthorizationError)

_NODE_LEASE_MS = 600_000
_NODES_KEY = b"{emq}:nodes"
_HEAL_ROUNDS = 5


# Its annotation knows only tuples of one.
_pack: Callable[[tuple[Argument, ...]], bytes] = hiredis.pack_command  # type: ignore[assignment]


def _packed(commands: list[Command]) -> bytes:
    """The commands as the wire has them, in one piece."""
    if len(commands) == 1:
        return _pack(tuple(commands[0]))
    return b"".join([_pack(tuple(command)) for command in commands])


class Call(NamedTuple):
    """A script call. Every call may be repeated: by what it does, or through the ledger."""

    script: Script
    base: bytes
    args: Sequence[Argument]

    @property
    def command(self) -> Command:
        return ("EVALSHA", self.script.sha, 1, self.base, *self.args)


class Detour(NamedTuple):
    """Steps that another client walks; what they end with is the only reply."""

    client: Client
    steps: Steps[Any]


class Slot:
    """A line of calls that follow each other; see ``lua/lib/ledger.lua``."""

    __slots__ = ("name", "number")

    def __init__(self, name: bytes) -> None:
        self.name = name
        self.number = 0

    def next(self) -> tuple[bytes, int]:
        """The two arguments that open a new call on this slot."""
        self.number += 1
        return self.name, self.number


class Client:
    """A fenced, binary-safe client of one server, or of one slot of a cluster. Thread-safe and
    fork-safe.

    Args:
        endpoint: where the server is.
        retry_for: seconds during which a lost connection is retried before
            :class:`~django_echomq.wire.errors.ServerUnavailable` is raised.
        kin: the clients of the same cluster by slot, to which this one is added.
    """

    def __init__(
        self, endpoint: Endpoint, retry_for: float = 1.5, kin: dict[int, Client] | None = None
    ) -> None:
        self.endpoint = endpoint
        self.retry_for = retry_for
        self._kin = {endpoint.slot: self} if kin is None else kin
        self._start()
        _clients.add(self)

    def _start(self) -> None:
        """Takes a new identity; a forked child must not speak under its parent's."""
        self._identity = secrets.token_hex(5)
        self._slots: deque[Slot] = deque()
        self._slot_numbers = itertools.count(1)
        self._node: tuple[int, float] | None = None
        self._pool = self.endpoint.pool()
        # Taken and given back here, as the pool's own bookkeeping costs as much as a short call.
        self._idle: deque[Any] = deque()
        self._async_pools: dict[asyncio.AbstractEventLoop, tuple[Any, AsyncGenerator[None]]] = {}

    def __repr__(self) -> str:
        return f"<Client {self.endpoint.label}>"

    def of(self, key: bytes) -> Client:
        """The client of a key: this one, except on a cluster, where each slot has its own."""
        endpoint = self.endpoint.at(key)
        if endpoint is self.endpoint:
            return self
        found = self._kin.get(endpoint.slot)
        return found or self._kin.setdefault(
            endpoint.slot, Client(endpoint, self.retry_for, self._kin)
        )

    @property
    def home(self) -> Client:
        """The client of what all queues of the server share."""
        return self.of(_NODES_KEY)

    # Round trips

    def roundtrip(
        self, commands: list[Command], meanwhile: Callable[[], object] | None = None
    ) -> list[Reply]:
        """Sends the commands in one write and answers their replies, errors as values.

        Args:
            meanwhile: called while the server is at work.

        Raises:
            redis.exceptions.ConnectionError, redis.exceptions.TimeoutError: the connection was
                lost; what the server ran is not known.
            VersionFence: the server belongs to another wire version.
        """
        idle = self._idle
        try:
            connection = idle.pop()
        except IndexError:
            connection = self._pool.get_connection()
        try:
            connection.send_packed_command([_packed(commands)], check_health=False)
            if meanwhile:
                meanwhile()
            replies: list[Reply] = []
            for _ in commands:
                try:
                    replies.append(connection.read_response())
                except NOT_HERE as error:
                    # A demoted primary: whoever is the primary now has to be found.
                    raise not_here(error, connection) from None
                except ResponseError as error:
                    replies.append(error)
        except BaseException as error:
            connection.disconnect()
            self._pool.release(connection)
            if isinstance(error, LOST):
                self._drop_idle()
            raise
        if idle is self._idle:
            idle.append(connection)
        return replies

    def _drop_idle(self) -> None:
        """Closes what is not in use: what one connection met, the others may have met too."""
        while True:
            try:
                connection = self._idle.pop()
            except IndexError:
                return
            connection.disconnect()
            self._pool.release(connection)

    async def aroundtrip(self, commands: list[Command]) -> list[Reply]:
        """:meth:`roundtrip` on the running event loop."""
        loop = asyncio.get_running_loop()
        known = self._async_pools.get(loop)
        if known is None:
            pool = self.endpoint.async_pool()
            closing = self._close_with(loop, pool)
            self._async_pools[loop] = pool, closing
            await anext(closing)
        else:
            pool = known[0]
        task = asyncio.current_task()
        cancelled = task.cancelling() if task else 0
        connection = await pool.get_connection()
        try:
            await connection.send_packed_command([_packed(commands)], check_health=False)
            # redis-py sends by asyncio.wait_for, which before Python 3.12 may lose a cancellation.
            if task and task.cancelling() > cancelled:
                raise asyncio.CancelledError
            replies: list[Reply] = []
            for _ in commands:
                try:
                    replies.append(await connection.read_response())
                except NOT_HERE as error:
                    raise not_here(error, connection) from None
                except ResponseError as error:
                    replies.append(error)
            return replies
        except BaseException:
            await connection.disconnect()
            raise
        finally:
            await pool.release(connection)

    async def _close_with(
        self, loop: asyncio.AbstractEventLoop, pool: Any
    ) -> AsyncGenerator[None, None]:
        # A loop that ends closes its async generators first, and with this one the connections.
        try:
            yield
        finally:
            self._async_pools.pop(loop, None)
            await pool.disconnect()

    def drive(self, steps: Steps[T], meanwhile: Callable[[], object] | None = None) -> T:
        """Walks steps to their end on this thread.

        Args:
            meanwhile: called each time before this thread waits, for a reply or for some time.
        """
        try:
            step = next(steps)
            while True:
                try:
                    if isinstance(step, float):
                        if meanwhile:
                            meanwhile()
                        time.sleep(step)
                        self.endpoint.heal()
                        answer: list[Reply] = []
                    elif isinstance(step, Detour):
                        answer = [step.client.drive(step.steps)]
                    else:
                        answer = self.roundtrip(step, meanwhile)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value

    async def adrive(self, steps: Steps[T]) -> T:
        """Walks steps to their end on the running event loop."""
        try:
            step = next(steps)
            while True:
                try:
                    if isinstance(step, float):
                        await asyncio.sleep(step)
                        await asyncio.to_thread(self.endpoint.heal)
                        answer: list[Reply] = []
                    elif isinstance(step, Detour):
                        answer = [await step.client.adrive(step.steps)]
                    else:
                        answer = await self.aroundtrip(step)
                except Exception as error:
                    step = steps.throw(error)
                else:
                    step = steps.send(answer)
        except StopIteration as end:
            value: T = end.value
            return value

    def ask(self, call: Call) -> Reply:
        """:meth:`run` on this thread. Steps are walked only where the first try does not tell."""
        asked = time.monotonic()
        try:
            (reply,) = self.roundtrip([call.command])
        except LOGIN:
            raise
        except LOST as error:
            if time.monotonic() >= asked + self.retry_for:
                raise self._away(error) from error
            return self.drive(self.run(call))
        if isinstance(reply, NoScriptError):
            return self.drive(self.run(call))
        return _raised(reply)

    def stream(self, calls: Iterable[Call]) -> Generator[Reply]:
        """The replies of script calls, in their order. Each is sent before that of the one before
        it is read, so that the server is at work while the next call is made.

        Raises:
            EchoMQError, ServerUnavailable: as :meth:`run`; later calls were not sent, or are not
                known to have run.
        """
        idle = self._idle
        connection: Any = None
        sent: deque[Call] = deque()

        def part() -> None:
            nonlocal connection
            if connection is not None:
                connection.disconnect()
                self._pool.release(connection)
                connection = None

        def answer() -> Reply:
            if connection is not None:
                try:
                    reply = connection.read_response()
                except ResponseError:
                    pass  # it had no effect, so it may be asked again
                except LOST:
                    part()
                else:
                    sent.popleft()
                    return reply
            reply = self.drive(self.run(sent[0]))
            sent.popleft()
            return reply

        try:
            for call in calls:
                sent.append(call)
                if connection is None:
                    with suppress(*LOST):
                        connection = idle.pop() if idle else self._pool.get_connection()
                if connection is not None:
                    try:
                        connection.send_packed_command([_packed([call.command])], False)
                    except LOST:
                        part()
                while len(sent) > (connection is not None):
                    yield answer()
            while sent:
                yield answer()
        finally:
            if sent or idle is not self._idle:
                part()
            elif connection is not None:
                idle.append(connection)

    def close(self) -> None:
        """Closes the connections that are not in use, on a cluster those of all slots."""
        for each in list(self._kin.values()):
            each._drop_idle()
            each._pool.disconnect()

    # Steps

    def command(self, *command: Argument) -> Steps[Reply]:
        """One plain command; it must be safe to repeat."""
        (reply,) = yield from self._patiently([command])
        return _raised(reply)

    def run(self, call: Call, patience: float | None = None) -> Steps[Reply]:
        """One script call.

        Args:
            patience: seconds in place of ``retry_for``.

        Raises:
            EchoMQError: what the script refused.
            ServerUnavailable: the server did not answer for ``retry_for`` seconds.
        """
        (reply,) = yield from self.run_many([call], patience)
        return _raised(reply)

    def run_many(self, calls: Sequence[Call], patience: float | None = None) -> Steps[list[Reply]]:
        """Script calls in one round trip; refusals are values in the answer.

        Args:
            patience: seconds in place of ``retry_for``.
        """
        replies = yield from self._patiently([call.command for call in calls], patience)
        for _ in range(_HEAL_ROUNDS):
            missing = [i for i, reply in enumerate(replies) if isinstance(reply, NoScriptError)]
            if not missing:
                return replies
            # A restarted, flushed or promoted server forgot the texts; only what it did not run
            # is sent again.
            texts = {calls[i].script for i in missing}
            loads: list[Command] = [("SCRIPT", "LOAD", text.text) for text in texts]
            again = yield from self._patiently(
                loads + [calls[i].command for i in missing], patience
            )
            for i, reply in zip(missing, again[len(loads) :], strict=True):
                replies[i] = reply
        # Flushed again and again: the whole text cannot be unknown.
        for i, reply in enumerate(replies):
            if isinstance(reply, NoScriptError):
                call = calls[i]
                whole = ("EVAL", call.script.text, 1, call.base, *call.args)
                (replies[i],) = yield from self._patiently([whole], patience)
        return replies

    def admit(self, call: Call, waits: bool = True) -> Steps[tuple[Reply, int]]:
        """:meth:`run` of a call that admits, and how many replicas are known to have what it
        admitted.

        They are waited for in the same write. The call always writes, also where it is repeated
        and answered from the ledger, so that the wait behind it covers all that came before.
        """
        if not (waits and self.endpoint.replicas):
            return (yield from self.run(call)), 0
        wait: Command = ("WAIT", self.endpoint.replicas, self.endpoint.replicas_ms)
        load: Command = ("SCRIPT", "LOAD", call.script.text)
        tries: list[list[Command]] = [[call.command], *[[load, call.command]] * _HEAL_ROUNDS]
        tries.append([("EVAL", call.script.text, 1, call.base, *call.args)])
        for commands in tries:
            *_, reply, acknowledged = yield from self._patiently([*commands, wait])
            if not isinstance(reply, NoScriptError):
                break
        return _raised(reply), int(_raised(acknowledged))

    def _patiently(
        self, commands: list[Command], patience: float | None = None
    ) -> Steps[list[Reply]]:
        deadline = time.monotonic() + (self.retry_for if patience is None else patience)
        delay = 0.0
        while True:
            try:
                replies = yield commands
                if commands[-1][0] == "WAIT" and _demoted(replies[-1]):
                    # The new primary may have what was written, or not.
                    raise RedisConnectionError("the server became read-only")
                return replies
            except LOGIN:
                raise
            except LOST as error:
                if time.monotonic() + delay >= deadline:
                    raise self._away(error) from error
            yield delay
            delay = min(max(0.02, 2 * delay), 0.5)

    def _away(self, error: Exception) -> ServerUnavailable:
        return ServerUnavailable(f"no answer from the server at {self.endpoint.label}: {error}")

    # Identity

    def take_slot(self) -> Slot:
        """A free slot; give it back with :meth:`give_slot` when its call has ended."""
        try:
            return self._slots.pop()
        except IndexError:
            return Slot(f"{self._identity}.{next(self._slot_numbers)}".encode())

    def give_slot(self, slot: Slot) -> None:
        if slot.name.startswith(self._identity.encode()):
            self._slots.append(slot)

    def mint(self, count: int, namespace: str = "JOB") -> Steps[list[str]]:
        """Fresh ids under the node number that this process has leased from the server."""
        home = self.home
        node = home._node
        if node is None or time.monotonic() > node[1]:
            (node,) = yield Detour(home, home._lease_node())
        return process_mint.mint_many(node[0], count, namespace)

    def _lease_node(self) -> Steps[tuple[int, float]]:
        asked = time.monotonic()
        held = self._node[0] if self._node else secrets.randbelow(MAX_NODE + 1)
        number: int = yield from self.run(
            Call(script("wire/node"), _NODES_KEY, (self._identity, _NODE_LEASE_MS, held))
        )
        if number < 0:
            # All numbers are leased. A random one can collide; the admission script sees a
            # collision and the id is minted again.
            number = secrets.randbelow(MAX_NODE + 1)
        # Renewed at half of the lease, counted from before it was asked for.
        node = self._node = (number, asked + _NODE_LEASE_MS / 2000)
        return node


def _raised(reply: Reply) -> Reply:
    if isinstance(reply, Exception):
        raise refusal_of(reply) or reply
    return reply


def _demoted(reply: Reply) -> bool:
    """Whether a wait ended as its primary was demoted, which sends away whoever waits there."""
    return isinstance(reply, ResponseError) and str(reply).startswith(("UNBLOCKED", "WAIT cannot"))


def refusal_of(error: Exception) -> EchoMQError | None:
    """The exception for an error among the replies, or ``None`` where it is not one of ours."""
    # redis-py takes the first word off where it has a class for it.
    word = "OOM " if isinstance(error, OutOfMemoryError) else ""
    return refusal(f"{word}{error}")


class Parked:
    """A connection of its own for blocking reads.

    Args:
        client: whose server to park at.
        longest: the longest wait in seconds; a reply that is later than that by some seconds
            means that the connection is lost.
    """

    def __init__(self, client: Client, longest: float) -> None:
        self._client = Client(client.endpoint.with_options(socket_timeout=longest + 5.0))

    def wait(
        self, keys: Sequence[bytes], seconds: float, then: Sequence[Call] = ()
    ) -> tuple[bytes | None, list[Reply]]:
        """Pops a token from the first of the lists that has one, and makes the calls once it has
        or the time is over: sent with the question, they run without a further way there and back.

        Returns:
            The list, or ``None`` where no token came in time; the replies of the calls, refusals
            as values.

        Raises:
            redis.exceptions.ConnectionError, redis.exceptions.TimeoutError: the connection was
                lost; what of the calls ran is not known.
        """
        pop: Command = ("BLPOP", *keys, max(0.001, round(seconds, 3)))
        reply, *replies = self._client.roundtrip([pop, *(call.command for call in then)])
        if _demoted(reply):
            raise RedisConnectionError("the server became read-only")
        popped = _raised(reply)
        return None if popped is None else bytes(popped[0]), replies

    def close(self) -> None:
        self._client.close()


class Subscriber:
    """A connection of its own that listens to channels.

    A server that is silent for longer than ``beat`` seconds is asked whether it is still there.

    Raises:
        redis.exceptions.ConnectionError, redis.exceptions.TimeoutError: there is no server.
        VersionFence: the server belongs to another wire version.
    """

    def __init__(self, client: Client, *channels: bytes, beat: float = 15.0) -> None:
        self._pool = client.endpoint.pool()
        self._beat = beat
        self._heard = time.monotonic()
        self._asked: float | None = None
        self._connection = self._pool.get_connection()
        try:
            self._connection.send_command("SUBSCRIBE", *channels)
            for _ in channels:
                self._connection.read_response()
        except BaseException:
            self.close()
            raise

    def read(self, seconds: float) -> bytes | None:
        """The next message; ``None`` where none came in time, or something else did.

        Raises:
            redis.exceptions.ConnectionError, redis.exceptions.TimeoutError: the connection was
                lost.
        """
        if self._connection.can_read(seconds):
            kind, *rest = self._connection.read_response()
            self._heard = time.monotonic()
            self._asked = None
            return bytes(rest[1]) if kind == b"message" else None
        now = time.monotonic()
        if self._asked is None:
            if now - self._heard > self._beat:
                self._asked = now
                self._connection.send_command("PING")
        elif now - self._asked > self._beat:
            raise RedisConnectionError("the server is silent")
        return None

    def close(self) -> None:
        self._pool.disconnect()


_clients: weakref.WeakSet[Client] = weakref.WeakSet()


def _after_fork() -> None:
    for client in list(_clients):
        client._start()


os.register_at_fork(after_in_child=_after_fork)
