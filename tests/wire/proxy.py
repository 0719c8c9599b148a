"""A proxy on loopback that loses replies on purpose."""

from __future__ import annotations

import contextlib
import selectors
import socket
import threading

from django_echomq.wire.endpoint import Endpoint


class Proxy:
    """Forwards to the server of an endpoint.

    Attributes:
        lost: how many replies were lost.
        accepted: how many connections came in.
    """

    def __init__(self, endpoint: Endpoint) -> None:
        self._options = endpoint.options
        self._lock = threading.Lock()
        self._doomed: list[bytes] = []
        self._refusals = 0
        self.lost = 0
        self.accepted = 0
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._open: set[socket.socket] = set()
        self._threads: list[threading.Thread] = []
        self._start(self._accept)

    @property
    def endpoint(self) -> Endpoint:
        """The same server, by way of this proxy."""
        port = self._listener.getsockname()[1]
        return Endpoint.from_url(f"redis://127.0.0.1:{port}/{self._options.get('db', 0)}")

    def lose_reply(self, sha: bytes, times: int = 1) -> None:
        """Cuts the connection of the next calls of a script once the server has answered them."""
        with self._lock:
            self._doomed += [sha] * times

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
            far.connect(self._options["path"])
            return far
        return socket.create_connection((self._options["host"], self._options.get("port", 6379)))

    def _serve(self, near: socket.socket) -> None:
        with near, self._server() as far, selectors.DefaultSelector() as selector:
            with self._lock:
                self._open |= {near, far}
            selector.register(near, selectors.EVENT_READ)
            selector.register(far, selectors.EVENT_READ)
            with contextlib.suppress(OSError):
                self._forward(near, far, selector)
            with self._lock:
                self._open -= {near, far}

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
                    far.sendall(data)
                elif doomed is None or data.startswith(b"-NOSCRIPT"):
                    near.sendall(data)
                else:
                    with self._lock:
                        self._doomed.remove(doomed)
                        self.lost += 1
                    return
