"""Keeps connections from filling the memory with messages that never end, and the process with connections.

Takes connections as they come and go, and what they brought; resets those of an address that has sent much more than
messages, or has more connections than anybody needs. ZeroMQ limits the size of a message's frames, but not their
number, nor that of connections, and shows a message when it is whole.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter, deque
from collections.abc import Callable, Container

from testbed.node.zmq_kernel import cut_off, handle_of, received

_EVERY_S = 1.0
_MARGIN_BYTES = 1 << 20
_MOST_CONNECTIONS = 16
"""From one address: one is in use, another may be tried, and those of lives that ended without a word stay a while."""


class Guard:
    """Looks at all connections once a second."""

    def __init__(self, largest: int, known: Container[str], on_cut: Callable[[str], None]) -> None:
        """Only from known addresses anybody may connect; `on_cut` is told the address of every connection it ends."""
        self._known = known
        self._on_cut = on_cut
        self._order: dict[str, deque[int]] = {}
        """ZeroMQ's descriptors by address, oldest first."""
        self._most = 2 * largest + _MARGIN_BYTES
        self._connections: dict[int, tuple[str, socket.socket]] = {}
        """By ZeroMQ's descriptor: the address it comes from, and a descriptor of our own."""
        self._brought: Counter[str] = Counter()
        """Bytes of messages by address, of the connections that there are."""
        self._loop = asyncio.get_running_loop()
        self._timer: asyncio.Handle | None = None

    def comes(self, descriptor: int) -> None:
        self.goes(descriptor)
        found = handle_of(descriptor)
        if found is not None:
            connection, (address, _) = found
            self._connections[descriptor] = (address, connection)
            self._make_room(address, descriptor)
        if self._timer is None:
            self._timer = self._loop.call_later(_EVERY_S, self._look)

    def _make_room(self, address: str, newest: int) -> None:
        """The oldest goes: of a peer that comes back again and again, the newest connection is the one that lives."""
        order = self._order.setdefault(address, deque())
        order.append(newest)
        if len(order) > (_MOST_CONNECTIONS if address in self._known else 0):
            oldest = order[0]
            cut_off(self._connections[oldest][1])
            self.goes(oldest)
            self._on_cut(address)

    def goes(self, descriptor: int) -> None:
        address, connection = self._connections.pop(descriptor, (None, None))
        if address is not None and connection is not None:
            # What was left of it is gone, too: for the others only what came over them counts.
            self._brought[address] = max(0, self._brought[address] - received(connection))
            connection.close()
            order = self._order[address]
            order.remove(descriptor)
            if not order:
                del self._order[address]

    def brought(self, address: str, size: int) -> None:
        """A message has come, be it a good one or not."""
        self._brought[address] += size

    def close(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        for _, connection in self._connections.values():
            connection.close()
        self._connections.clear()

    def _look(self) -> None:
        self._timer = None
        if self._connections:
            self._timer = self._loop.call_later(_EVERY_S, self._look)
        waiting: Counter[str] = Counter()
        for address, connection in self._connections.values():
            waiting[address] += received(connection)
        for address, connection in self._connections.values():
            if waiting[address] - self._brought[address] > self._most:
                cut_off(connection)
                self._on_cut(address)
