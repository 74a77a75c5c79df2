"""Keeps connections from filling the memory with messages that never end.

Takes connections as they come and go, and what they brought; resets those of an address that has sent much more than
messages. ZeroMQ limits the size of a message's frames, but not their number, and shows a message when it is whole.
"""

from __future__ import annotations

import asyncio
import socket
from collections import Counter

from testbed.node.zmq_kernel import cut_off, handle_of, received

_EVERY_S = 1.0
_MARGIN_BYTES = 1 << 20


class Guard:
    """Looks at all connections once a second."""

    def __init__(self, largest: int) -> None:
        self.cut_off = 0
        """Connections that were ended."""
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
        if self._timer is None:
            self._timer = self._loop.call_later(_EVERY_S, self._look)

    def goes(self, descriptor: int) -> None:
        address, connection = self._connections.pop(descriptor, (None, None))
        if address is not None and connection is not None:
            # What was left of it is gone, too: for the others only what came over them counts.
            self._brought[address] = max(0, self._brought[address] - received(connection))
            connection.close()

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
                self.cut_off += 1
                cut_off(connection)
