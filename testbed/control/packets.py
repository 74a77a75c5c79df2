"""UNIX sockets of whole packets, in an asyncio loop.

Takes a socket and what to do with its packets, touches the socket. What cannot be sent at once waits, up to a bound.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from pathlib import Path

from testbed.protocol import MAX_MESSAGE_BYTES, Message, encode

_MOST_WAITING = 100_000
_AT_ONCE = 64
"""Packets taken from one socket before others get their turn."""


class PacketLink:
    """One end of a connection."""

    def __init__(
        self, connection: socket.socket, on_packet: Callable[[bytes], None], on_over: Callable[[], None]
    ) -> None:
        self._socket = connection
        self._on_packet = on_packet
        self._on_over = on_over
        self._waiting: deque[bytes] = deque()
        self._loop = asyncio.get_running_loop()
        self._is_over = False
        connection.setblocking(False)
        self._loop.add_reader(connection, self._read)

    def send(self, message: Message) -> None:
        """Send now, or as soon as the other side takes it; to nobody when the connection is over."""
        if self._is_over:
            return
        self._waiting.append(encode(message))
        if len(self._waiting) == 1:
            self._write()
        elif len(self._waiting) > _MOST_WAITING:
            self.close()  # whoever is on the other side has stopped listening

    def close(self) -> None:
        """End the connection; whoever waits for it is told."""
        if self._is_over:
            return
        self._is_over = True
        self._loop.remove_reader(self._socket)
        self._loop.remove_writer(self._socket)
        self._socket.close()
        self._on_over()

    def _read(self) -> None:
        for _ in range(_AT_ONCE):
            if self._is_over:
                return
            try:
                packet = self._socket.recv(MAX_MESSAGE_BYTES + 1)
            except BlockingIOError:
                return
            except OSError:
                packet = b""
            if not packet:
                self.close()
                return
            self._on_packet(packet)

    def _write(self) -> None:
        while self._waiting:
            try:
                self._socket.send(self._waiting[0])
            except BlockingIOError:
                self._loop.add_writer(self._socket, self._write)
                return
            except OSError:
                self.close()
                return
            self._waiting.popleft()
        self._loop.remove_writer(self._socket)


def listen(path: Path, backlog: int = 1024) -> socket.socket:
    """A socket that others connect to, for this user only."""
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET | socket.SOCK_NONBLOCK)
    listener.bind(str(path))
    path.chmod(0o600)
    listener.listen(backlog)
    return listener


def connect(path: Path, patience_s: float = 30.0) -> socket.socket:
    """A connection to it."""
    connection = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    connection.settimeout(patience_s)
    connection.connect(str(path))
    return connection
