"""A proxy that holds every byte for a while, each way, as a network would.

python -m peers.delay PORT TARGET_PORT MILLISECONDS
"""

from __future__ import annotations

import asyncio
import selectors
import sys


class Leg(asyncio.Protocol):
    """One end of a connection; what it receives leaves at the other end after the delay."""

    def __init__(self, delay: float) -> None:
        self.delay = delay
        self.other: Leg | None = None
        self.transport: asyncio.Transport | None = None
        self.early: list[bytes] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, asyncio.Transport)
        self.transport = transport

    def data_received(self, data: bytes) -> None:
        # The loop runs timers of one delay in the order in which they were set.
        asyncio.get_running_loop().call_later(self.delay, self._forward, data)

    def connection_lost(self, error: Exception | None) -> None:
        asyncio.get_running_loop().call_later(self.delay, self._close)

    def _forward(self, data: bytes) -> None:
        if self.other and self.other.transport:
            self.other.transport.write(data)
        else:
            self.early.append(data)

    def _close(self) -> None:
        if self.other and self.other.transport:
            self.other.transport.close()


class Front(Leg):
    """The client's end: connects to the target."""

    def __init__(self, delay: float, target: int) -> None:
        super().__init__(delay)
        self.target = target

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self.task = asyncio.ensure_future(self._connect())

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        back = Leg(self.delay)
        back.other = self
        await loop.create_connection(lambda: back, "127.0.0.1", self.target)
        assert back.transport
        for data in self.early:
            back.transport.write(data)
        self.other = back


async def serve(port: int, target: int, delay: float) -> None:
    loop = asyncio.get_running_loop()
    server = await loop.create_server(lambda: Front(delay, target), "127.0.0.1", port)
    await server.serve_forever()


if __name__ == "__main__":
    # epoll waits in whole milliseconds; select keeps to the microsecond.
    with asyncio.Runner(
        loop_factory=lambda: asyncio.SelectorEventLoop(selectors.SelectSelector())
    ) as runner:
        runner.run(serve(int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3]) / 1000))
