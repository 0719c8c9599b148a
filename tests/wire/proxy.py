"""A proxy on loopback that loses replies on purpose, or holds calls and replies back."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading

from redis.sentinel import Sentinel

from django_echomq.wire.endpoint import Endpoint


class Proxy:
    """Forwards to the server of an endpoint.

    Attributes:
        lost: how many replies were lost.
        accepted: how many connections came in.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._options = dict(endpoint.options)
        if endpoint.sentinels:
            host, port = Sentinel(endpoint.sentinels).discover_master(endpoint.service)
            self._options |= {"host": host, "port": port}
        self._lock = threading.Lock()
        self._doomed: list[bytes] = []
        self._refusals = 0
        self._calls_to_hold: list[bytes] = []
        self._replies_to_hold: list[bytes] = []
        self._hole = False
        # What is held back, by the socket it came from: where it is to go, and the bytes.
        self._held: dict[socket.socket, tuple[socket.socket, bytes]] = {}
        self.lost = 0
        self.accepted = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    @property
    def endpoint(self) -> Endpoint:
        """The same server, by way of this proxy."""
        return Endpoint.from_url(self.url)

    @property
    def url(self) -> str:
        """The same server, by way of this proxy."""
        port = self._listener.getsockname()[1]
        return f"redis://127.0.0.1:{port}/{self._options.get('db', 0)}"

    def lose_reply(self, sha: bytes, times: int = 1) -> None:
        """Cuts the connection of the next calls of a script once the server has answered them."""
        with self._lock:
            self._doomed += [sha] * times

    def hold_call(self, sha: bytes) -> None:
        """Keeps the next call of a script, and what follows it, from the server."""
        with self._lock:
            self._calls_to_hold.append(sha)

    def hold_reply(self, sha: bytes) -> None:
        """Lets the server run the next call of a script, and keeps the answer from the client."""
        with self._lock:
            self._replies_to_hold.append(sha)

    @property
    def held(self) -> int:
        """How many connections have something held back."""
        with self._lock:
            return sum(bool(data) for _, data in self._held.values())

    @property
    def awaited(self) -> int:
        """How many calls are still to come of which the call or the reply is to be held back."""
        with self._lock:
            return len(self._calls_to_hold) + len(self._replies_to_hold)

    def release(self) -> None:
        """Sends what was held back on its way."""
        with self._lock:
            for target, data in self._held.values():
                with contextlib.suppress(OSError):  # given up meanwhile
                    target.sendall(data)
            self._held.clear()
            self._hole = False

    def swallow(self) -> None:
        """Keeps all that comes from either side, until :meth:`release`; nothing is cut."""
        with self._lock:
            self._hole = True

    def refuse(self, times: int) -> None:
        """Cuts the next connections before anything is forwarded."""
        with self._lock:
            self._refusals += times

    def cut(self) -> None:
        """Cuts every connection that is open now."""
        with self._lock:
            for each in self._open:
                with contextlib.suppress(OSError):
                    each.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        with contextlib.suppress(OSError):
            self._listener.shutdown(socket.SHUT_RDWR)
        self._listener.close()
        self.cut()
        for thread in self._threads:
            thread.join(10)

    def _start(self, target: object, *args: object) -> None:
        thread = threading.Thread(target=target, args=args, daemon=True)  # type: ignore[arg-type]
        self._threads.append(thread)
        thread.start()

    def _accept(self) -> None:
        while True:
            try:
                near, _ = self._listener.accept()
            except OSError:
                return
            with self._lock:
                self.accepted += 1
                refused = self._refusals > 0
                self._refusals -= refused
            if refused:
                near.close()
                continue
            self._start(self._serve, near)

    def _server(self) -> socket.socket:
        if "path" in self._options:
            far = socket.socket(socket.AF_UNIX)
            try:
                far.connect(self._options["path"])
            except OSError:
                far.close()
                raise
            return far
        return socket.create_connection((self._options["host"], self._options.get("port", 6379)))

    def _serve(self, near: socket.socket) -> None:
        try:
            far = self._server()
        except OSError:
            near.close()  # the server is away
            return
        with near, far, selectors.DefaultSelector() as selector:
            with self._lock:
                self._open |= {near, far}
            selector.register(near, selectors.EVENT_READ)
            selector.register(far, selectors.EVENT_READ)
            with contextlib.suppress(OSError):
                self._forward(near, far, selector)
            with self._lock:
                self._open -= {near, far}
                self._held.pop(near, None)
                self._held.pop(far, None)

    def _forward(
        self, near: socket.socket, far: socket.socket, selector: selectors.BaseSelector
    ) -> None:
        doomed = None
        while True:
            for key, _ in selector.select():
                data = key.fileobj.recv(65536)  # type: ignore[union-attr]
                if not data:
                    return
                if key.fileobj is near:
                    with self._lock:
                        doomed = next((sha for sha in self._doomed if sha in data), doomed)
                        self._begin_to_hold(near, far, data)
                    self._pass(near, far, data)
                elif data.startswith(b"-NOSCRIPT") or not self._lose(doomed):
                    self._pass(far, near, data)
                else:
                    return

    def _lose(self, doomed: bytes | None) -> bool:
        """Whether the reply to such a call is to be lost; another connection may have lost it."""
        with self._lock:
            if doomed not in self._doomed:
                return False
            self._doomed.remove(doomed)
            self.lost += 1
            return True

    def _begin_to_hold(self, near: socket.socket, far: socket.socket, data: bytes) -> None:
        for wanted, source, target in (
            (self._calls_to_hold, near, far),
            (self._replies_to_hold, far, near),
        ):
            for sha in [sha for sha in wanted if sha in data]:
                wanted.remove(sha)
                self._held.setdefault(source, (target, b""))

    def _pass(self, source: socket.socket, target: socket.socket, data: bytes) -> None:
        with self._lock:
            if self._hole:
                self._held.setdefault(source, (target, b""))
            if source in self._held:
                self._held[source] = target, self._held[source][1] + data
                return
        target.sendall(data)
