"""Keeps connections from filling the memory with messages that never end, and the process with connections.

Takes connections as they come and go, and what they brought; resets those that have sent much more than messages, and
those of an address that has more connections than anybody needs. ZeroMQ limits the size of a message's frames, but not
their number, nor that of connections, and shows a message when it is whole. What still waits in the kernel is not
counted: it has its own limits, and much of it waits when this process stood still for a while.
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
"""From one address: one is in use, another may be tried, and those of lives that ended without a word stay a while."""


@dataclass(slots=True)
class _Watched:
    """One connection."""

    address: str
    """Where it comes from."""
    handle: socket.socket
    """One of our own."""
    brought: int = 0
    """Bytes of messages that are here."""


class ConnectionGuard:
    """Looks at all connections once a second."""

    def __init__(self, largest: int, waiting: int, known: Container[str], on_cut: Callable[[str], None]) -> None:
        """ZeroMQ keeps up to `waiting` messages of a connection, of at most `largest` bytes each, until they are taken.

        Only from known addresses anybody may connect; `on_cut` is told the address of every connection it ends.
        """
        self._known = known
        self._on_cut = on_cut
        self._order: dict[str, deque[int]] = {}
        """ZeroMQ's descriptors by address, oldest first."""
        # Besides those that wait there is one that comes, and one that ZeroMQ has no room for yet.
        self._most = (waiting + 2) * largest + _MARGIN_BYTES
        self._connections: dict[int, _Watched] = {}
        """By ZeroMQ's descriptor."""
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
        """The oldest goes: of a peer that comes back again and again, the newest connection is the one that lives."""
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
        """A message has come, be it a good one or not; perhaps after its connection has gone."""
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
