"""Limits what hostile connections can use: memory by endless messages, and the number of connections.

Takes connections as they open and close, and the messages received on them; resets those that sent much more than
whole messages, and those of an address with too many connections. ZeroMQ limits the size of a message's frames, but
neither their number nor that of connections, and shows only whole messages. Bytes that wait in the kernel are not
counted: the kernel limits them, and many may wait after this process was stopped.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable, Container
from dataclasses import dataclass

from testbed.node.zmq_tcp_info import cut_off, handle_of, taken

_EVERY_S = 1.0
_MARGIN_BYTES = 1 << 20
_MOST_CONNECTIONS = 16
"""Per address: one is in use, another may be attempted, and those of crashed lives stay for a while."""


@dataclass(slots=True)
class _Watched:
    """A watched connection."""

    address: str
    """The peer's address."""
    handle: socket.socket
    """A duplicate of ZeroMQ's descriptor."""
    brought: int = 0
    """Bytes of messages received from it."""


class ConnectionGuard:
    """Checks all connections once a second."""

    def __init__(self, largest: int, waiting: int, known: Container[str], on_cut: Callable[[str], None]) -> None:
        """ZeroMQ holds up to `waiting` messages of a connection, each of at most `largest` bytes.

        Only known addresses may connect; `on_cut` is called with the address of every connection that is reset.
        """
        self._known = known
        self._on_cut = on_cut
        self._order: dict[str, deque[int]] = {}
        """ZeroMQ's descriptors by address, oldest first."""
        # Besides the waiting ones there is one in transit, and one that ZeroMQ has no room for yet.
        self._most = (waiting + 2) * largest + _MARGIN_BYTES
        self._connections: dict[int, _Watched] = {}
        """Keyed by ZeroMQ's descriptor."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None

    def comes(self, descriptor: int) -> None:
        self.goes(descriptor)
        found = handle_of(descriptor)
        if found is not None:
            handle, (address, _) = found
            self._connections[descriptor] = _Watched(address, handle)
            self._make_room(address, descriptor)
        if self._timer is None:
            self._timer = self._loop.call_later(_EVERY_S, self._look)

    def _make_room(self, address: str, newest: int) -> None:
        """Resets the oldest connection of an address: the newest is the live one of a peer that reconnected."""
        order = self._order.setdefault(address, deque())
        order.append(newest)
        if len(order) > (_MOST_CONNECTIONS if address in self._known else 0):
            oldest = order[0]
            cut_off(self._connections[oldest].handle)
            self.goes(oldest)
            self._on_cut(address)

    def goes(self, descriptor: int) -> None:
        connection = self._connections.pop(descriptor, None)
        if connection is not None:
            connection.handle.close()
            order = self._order[connection.address]
            order.remove(descriptor)
            if not order:
                del self._order[connection.address]

    def brought(self, descriptor: int, size: int) -> None:
        """Counts a received message, valid or not; its connection may be closed already."""
        connection = self._connections.get(descriptor)
        if connection is not None:
            connection.brought += size

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for connection in self._connections.values():
            connection.handle.close()
        self._connections.clear()

    def _look(self) -> None:
        self._timer = None
        if self._connections:
            self._timer = self._loop.call_later(_EVERY_S, self._look)
        for connection in self._connections.values():
            if taken(connection.handle) - connection.brought > self._most:
                cut_off(connection.handle)
                self._on_cut(connection.address)
