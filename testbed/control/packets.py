"""UNIX sockets of whole packets, in an asyncio loop.

Takes a socket and what to do with its packets, touches the socket. What cannot be sent at once waits, up to a bound.
"""

from __future__ import annotations

import asyncio
import socket
from collections import deque
from collections.abc import Callable
from contextlib import suppress
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
        self._is_deaf = False
        connection.setblocking(False)
        self._loop.add_reader(connection, self._read)

    def send(self, message: Message) -> None:
        """Send now, or as soon as the other side takes it; to nobody when the connection is over."""
        if self._is_over or self._is_deaf:
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

    def finish(self, within_s: float) -> None:
        """Send what is waiting, which the loop has to wait for, and end the connection."""
        if not self._is_over:
            self._loop.remove_writer(self._socket)
            self._socket.settimeout(within_s)
            with suppress(OSError):
                while self._waiting:
                    self._socket.send(self._waiting.popleft())
        self.close()

    def drain(self) -> None:
        """Everything that the other side, which is dead, has said; then it is over."""
        while not self._is_over and self._read():
            pass
        self.close()

    def _read(self) -> bool:
        """Whether there may be more."""
        for _ in range(_AT_ONCE):
            if self._is_over:
                return False
            try:
                packet = self._socket.recv(MAX_MESSAGE_BYTES + 1)
            except BlockingIOError:
                return False
            except ConnectionResetError:
                continue  # told once, of what it has not read; what it had said before can still be read
            except OSError:
                packet = b""
            if not packet:
                self.close()
                return False
            self._on_packet(packet)
        return True

    def _write(self) -> None:
        while self._waiting:
            try:
                self._socket.send(self._waiting[0])
            except BlockingIOError:
                self._loop.add_writer(self._socket, self._write)
                return
            except OSError:
                # The other side has gone; what it had said before is still to be read, and after it the end.
                self._is_deaf = True
                self._waiting.clear()
                break
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
    try:
        connection.connect(str(path))
    except OSError:
        connection.close()
        raise
    return connection
