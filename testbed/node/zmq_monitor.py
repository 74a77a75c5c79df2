"""Reads ZeroMQ's monitor events about a socket's connections.

Takes a socket, calls a function with each event; touches sockets.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable

import zmq
from zmq.utils.monitor import parse_monitor_message


def descriptor(socket: zmq.Socket[bytes]) -> int:
    """Becomes readable once when the socket changes (edge-triggered): read its events until there are none."""
    return int(socket.getsockopt(zmq.FD))


def is_readable(socket: zmq.Socket[bytes]) -> bool:
    """Whether something can be received without waiting."""
    return bool(int(socket.getsockopt(zmq.EVENTS)) & zmq.POLLIN)


class Monitor:
    """Calls `hear` with the kind and the value of every event of the wanted kinds, until closed."""

    def __init__(self, of: zmq.Socket[bytes], wanted: int, hear: Callable[[int, int], None]) -> None:
        self._of = of
        self._hear = hear
        self._socket = of.get_monitor_socket(wanted)
        self._descriptor = descriptor(self._socket)
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self._descriptor, self.read)
        self._loop.call_soon(self.read)
        self._closed = False

    def close(self) -> None:
        """May be called from `hear`, and repeatedly."""
        if not self._closed:
            self._closed = True
            self._loop.remove_reader(self._descriptor)
            self._of.disable_monitor()
            self._socket.close(linger=0)

    def read(self) -> None:
        """Reads all pending events now instead of later."""
        while not self._closed and is_readable(self._socket):
            event = parse_monitor_message(self._socket.recv_multipart(zmq.NOBLOCK))
            self._hear(int(event["event"]), int(event["value"]))
