"""Ports for the nodes of a cluster."""

from __future__ import annotations

import socket


def free_ports(count: int) -> list[int]:
    """Ports of which the cluster bus, 10,000 above, is free too."""
    found: list[int] = []
    held = []
    while len(found) < count:
        one = socket.create_server(("127.0.0.1", 0))
        port = one.getsockname()[1]
        try:
            if port > 55_000:
                raise OSError
            bus = socket.create_server(("127.0.0.1", port + 10_000))
        except OSError:
            held.append(one)
            continue
        held += [one, bus]
        found.append(port)
    for each in held:
        each.close()
    return found
